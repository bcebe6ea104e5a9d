package residentblocks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/policies"
)

// picker declares inputs and looks at them.
type picker struct {
	in   policies.Inputs
	look func(v *policies.View)
}

func (p picker) Inputs() policies.Inputs { return p.in }
func (p picker) Pick(v *policies.View, _ []float64) int {
	p.look(v)
	return 0
}

const both = policies.Cache | policies.ExperimentalResidentBlocks

// selects returns a function that makes one selection by a picker.
func selects(t testing.TB, in policies.Inputs, slots int, r policies.ExperimentalInput, look func(*policies.View)) func() error {
	t.Helper()
	p, err := policies.NewPipeline(policies.Recipe{Picker: policies.Named[policies.Picker]{Name: "look", Component: picker{in, look}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	req := &policies.Request{BlockSize: 16}
	state := &policies.State{Slots: slots, ResidentBlocks: r}
	return func() error {
		_, err := p.Select(req, state)
		return err
	}
}

// script is a source in which event n stores one block, or does as it is told.
type script struct {
	mu  sync.Mutex
	odd map[uint32]func(ev *indexer.Event)
}

func (s *script) Event(id uint32, ev *indexer.Event) {
	*ev = indexer.Event{
		ID: uint64(id), Kind: indexer.Stored,
		Sequences: []indexer.SequenceHash{indexer.SequenceHash(id)}, Locals: []indexer.LocalHash{indexer.LocalHash(id)},
	}
	s.mu.Lock()
	odd := s.odd[id]
	s.mu.Unlock()
	if odd != nil {
		odd(ev)
	}
}

const (
	clearID = 1 << 20
	endID   = 1<<20 + 1
	waitID  = 1<<20 + 2
)

// open makes a pool of two event threads: ranks of even workers are on thread 0.
func open(t testing.TB, layout indexer.CounterLayout) (*indexer.Pool, *script, context.Context) {
	t.Helper()
	index, err := reference.Factory().New(indexer.Config{Threads: 2, Slots: 8})
	if err != nil {
		t.Fatal(err)
	}
	src := &script{odd: map[uint32]func(*indexer.Event){
		clearID: func(ev *indexer.Event) { *ev = indexer.Event{Kind: indexer.Cleared} },
		endID:   func(*indexer.Event) { panic("the end") },
	}}
	p, err := indexer.NewPool(indexer.PoolConfig{Index: index, Source: src, Threads: 2, Producers: 1, QueueCapacity: 1024, Layout: layout,
		Assign: func(r indexer.Rank) int { return int(r.Worker % 2) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(func() {
		defer cancel()
		if err := p.Close(ctx); err != nil && !strings.Contains(err.Error(), "the end") {
			t.Errorf("close: %v", err)
		}
		if err := index.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, src, ctx
}

func register(t testing.TB, ctx context.Context, p *indexer.Pool, workers ...uint64) []indexer.Slot {
	t.Helper()
	var ranks []indexer.Rank
	for _, w := range workers {
		ranks = append(ranks, indexer.Rank{Worker: w})
	}
	slots, err := p.Register(ctx, ranks)
	if err != nil {
		t.Fatal(err)
	}
	return slots
}

func push(t testing.TB, p *indexer.Pool, slot indexer.Slot, ids ...uint32) {
	t.Helper()
	for _, id := range ids {
		if err := p.Producer(0).Push(slot, id); err != nil {
			t.Fatal(err)
		}
	}
	p.Producer(0).Publish()
}

func TestCountsOfAPool(t *testing.T) {
	for _, layout := range []indexer.CounterLayout{indexer.Packed, indexer.Padded} {
		t.Run(layout.String(), func(t *testing.T) {
			p, _, ctx := open(t, layout)
			slots := register(t, ctx, p, 0, 1, 2, 3)
			if err := Track(ctx, both, p); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			feed := NewFeed(p, ProgressOf(2, p.Progress), slog.New(slog.NewTextHandler(&log, nil)))
			got := map[indexer.Slot]string{}
			missing := 0
			// Two slots more than the index has ever seen.
			look := selects(t, both, len(slots)+2, feed.Reader(), func(v *policies.View) {
				c := Of(v)
				missing = c.Missing
				live := Live(v)
				if len(live.Cells) != len(c.Blocks) || live.Missing != missing {
					t.Errorf("%d counters, %d missing; %d counts, %d missing", len(live.Cells), live.Missing, len(c.Blocks), missing)
				}
				for slot, n := range c.Blocks {
					if got := live.Cells[slot].Blocks(); got != n {
						t.Errorf("slot %d: the counter has %d, the copy %d", slot, got, n)
					}
				}
				for _, slot := range v.Rows() {
					n, ok := c.Count(slot)
					got[slot] = fmt.Sprint(n, ok)
					if ok != (c.Blocks[slot] != Absent) || ok && c.Blocks[slot] != n {
						t.Errorf("slot %d: %d (%v), in the column %d", slot, n, ok, c.Blocks[slot])
					}
				}
			})
			want := func(what string, absent int, counts ...string) {
				t.Helper()
				if err := look(); err != nil {
					t.Fatal(err)
				}
				for slot, w := range counts {
					if got[indexer.Slot(slot)] != w {
						t.Errorf("%s: slot %d has %s, want %s", what, slot, got[indexer.Slot(slot)], w)
					}
				}
				if missing != absent {
					t.Errorf("%s: %d missing, want %d", what, missing, absent)
				}
			}
			const none = "0 false"
			want("new ranks", 2, "0 true", "0 true", "0 true", "0 true", none, none)
			for n := range uint32(20) {
				push(t, p, slots[1], n)
				if err := p.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				want("after an event", 2, "0 true", fmt.Sprint(n+1, " true"), "0 true", "0 true", none, none)
			}
			push(t, p, slots[1], clearID)
			push(t, p, slots[2], 1, 2, 3)
			push(t, p, slots[3], 1)
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			want("a cleared rank", 2, "0 true", "0 true", "3 true", "1 true", none, none)
			if err := p.Unregister(ctx, indexer.Rank{Worker: 3}); err != nil {
				t.Fatal(err)
			}
			want("a removed rank", 3, "0 true", "0 true", "3 true", none, none, none)
			push(t, p, slots[0], endID)
			if err := p.Flush(ctx); !errors.Is(err, indexer.ErrThreadEnded) {
				t.Fatalf("flush: %v", err)
			}
			want("ranks of an ended thread", 5, none, "0 true", none, none, none, none)
			if log.Len() > 0 {
				t.Errorf("logged %s", &log)
			}
		})
	}
}

func TestOnlyADeclaringPipelineTracks(t *testing.T) {
	p, _, ctx := open(t, indexer.Packed)
	register(t, ctx, p, 0)
	if err := Track(ctx, policies.Cache|policies.Load, p); err != nil || p.Residents() != nil {
		t.Errorf("%v; a pipeline that does not declare the input turned tracking on: %v", err, p.Residents() != nil)
	}
	if err := Track(ctx, both, p); err != nil || p.Residents() == nil {
		t.Errorf("%v; tracking is on: %v", err, p.Residents() != nil)
	}
}

func TestNoCounts(t *testing.T) {
	p, _, ctx := open(t, indexer.Packed)
	register(t, ctx, p, 0, 1)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for name, feed := range map[string]*Feed{
		"the index is remote":           NoFeed("the index is remote", logger),
		"the index does not track them": NewFeed(p, nil, logger),
	} {
		log.Reset()
		var wg sync.WaitGroup
		for range 3 {
			look := selects(t, both, 5, feed.Reader(), func(v *policies.View) {
				c := Of(v)
				for slot := range indexer.Slot(5) {
					if n, ok := c.Count(slot); ok || n != 0 || c.Missing != 5 {
						t.Errorf("%s: slot %d has %d (%v), %d missing", name, slot, n, ok, c.Missing)
					}
					if live := Live(v); live.Cells[slot].Blocks() != Absent || live.Missing != 5 {
						t.Errorf("%s: the counter of slot %d has %d, %d missing", name, slot, live.Cells[slot].Blocks(), live.Missing)
					}
				}
				if _, ok := LiveFresh(v).Freshness(1); ok {
					t.Errorf("%s: an absent counter has a freshness", name)
				}
				if _, ok := OfFresh(v).Freshness(1); ok {
					t.Errorf("%s: an absent count has a freshness", name)
				}
			})
			wg.Go(func() {
				for range 10 {
					if err := look(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), name) {
			t.Errorf("%s: %d warnings: %s", name, n, &log)
		}
	}
}

func TestDeclaring(t *testing.T) {
	feed := NoFeed("test", slog.New(slog.DiscardHandler))
	err := selects(t, policies.Cache, 2, feed.Reader(), func(v *policies.View) { Of(v) })()
	var broken *policies.ComponentError
	if !errors.As(err, &broken) || broken.Component != "picker look" || !strings.Contains(err.Error(), "RESIDENT_BLOCKS") {
		t.Errorf("undeclared: %v", err)
	}
	err = selects(t, policies.Cache, 2, feed.Reader(), func(v *policies.View) { Live(v) })()
	if !errors.As(err, &broken) || broken.Component != "picker look" || !strings.Contains(err.Error(), "RESIDENT_BLOCKS") {
		t.Errorf("undeclared, live: %v", err)
	}
	err = selects(t, both, 2, nil, func(v *policies.View) { Of(v) })()
	if err == nil || !strings.Contains(err.Error(), "RESIDENT_BLOCKS is declared and not given") {
		t.Errorf("not given: %v", err)
	}
	err = selects(t, both, 2, strange{}, func(v *policies.View) { Of(v) })()
	if !errors.As(err, &broken) || !strings.Contains(err.Error(), "strange") {
		t.Errorf("not a reader: %v", err)
	}
	counters := indexer.NewResidentCounters([]int{0, 1}, indexer.Packed)
	half := NewFeed(counters, []Progress{idle{}}, slog.New(slog.DiscardHandler)).Reader()
	for range 2 {
		for name, look := range map[string]func(v *policies.View){
			"counts": func(v *policies.View) { OfFresh(v) }, "live": func(v *policies.View) { LiveFresh(v) },
		} {
			err = selects(t, both, 2, half, look)()
			if !errors.As(err, &broken) || !strings.Contains(err.Error(), "1 event threads of 2") {
				t.Errorf("%s without the progress of a thread: %v", name, err)
			}
		}
	}
	_, err = policies.NewPipeline(policies.Recipe{Picker: policies.Named[policies.Picker]{
		Name: "look", Component: picker{policies.ExperimentalResidentBlocks, nil}}}, 1)
	if err == nil || !strings.Contains(err.Error(), "without CACHE") {
		t.Errorf("without CACHE: %v", err)
	}
}

type idle struct{}

func (idle) Load() (applied, accepted uint64) { return 0, 0 }

type strange struct{}

func (strange) Begin() {}

// TestFreshness stops an event thread in an event: the freshness must show what
// the counts lack, of its ranks only.
func TestFreshness(t *testing.T) {
	p, src, ctx := open(t, indexer.Packed)
	slots := register(t, ctx, p, 0, 1)
	if err := Track(ctx, both, p); err != nil {
		t.Fatal(err)
	}
	inside, goOn := make(chan struct{}), make(chan struct{})
	src.mu.Lock()
	src.odd[waitID] = func(*indexer.Event) { close(inside); <-goOn }
	src.mu.Unlock()
	feed := NewFeed(p, ProgressOf(2, p.Progress), slog.New(slog.DiscardHandler))
	var fresh [2]Freshness
	var counts [2]uint32
	look := selects(t, both, 2, feed.Reader(), func(v *policies.View) {
		first := *Of(v)
		c := OfFresh(v)
		live := LiveFresh(v)
		for slot := range fresh {
			a, _ := c.Freshness(indexer.Slot(slot))
			if b, ok := live.Freshness(indexer.Slot(slot)); !ok || a.Applied > b.Applied || a.Accepted > b.Accepted || live.MaxBacklog() < b.Backlog() {
				t.Errorf("slot %d: freshness %v, then %v (%v), at most %d", slot, a, b, ok, live.MaxBacklog())
			}
		}
		for slot := range fresh {
			f, ok := c.Freshness(indexer.Slot(slot))
			if !ok || first.Blocks[slot] > c.Blocks[slot] {
				t.Errorf("slot %d: no freshness, or counts went back from %d to %d", slot, first.Blocks[slot], c.Blocks[slot])
			}
			fresh[slot] = f
			counts[slot], _ = c.Count(indexer.Slot(slot))
		}
	})
	push(t, p, slots[0], 1, 2, 3)
	push(t, p, slots[1], 1)
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	if fresh != [2]Freshness{{3, 3}, {1, 1}} || counts != [2]uint32{3, 1} {
		t.Errorf("all applied: %v, counts %v", fresh, counts)
	}
	push(t, p, slots[0], waitID, 4, 5)
	<-inside
	if err := look(); err != nil {
		t.Error(err)
	}
	if fresh[0].Accepted != 6 || fresh[0].Backlog() != 3 || fresh[1].Backlog() != 0 || counts[0] != 3 {
		t.Errorf("one thread waits: %v, counts %v", fresh, counts)
	}
	close(goOn)
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	if fresh[0] != (Freshness{6, 6}) || counts[0] != 6 {
		t.Errorf("after it: %v, counts %v", fresh, counts)
	}
}

// TestFreshnessBoundsTheCounts reads while one-block events come: a count never
// lacks more than its freshness says.
func TestFreshnessBoundsTheCounts(t *testing.T) {
	p, _, ctx := open(t, indexer.Packed)
	slots := register(t, ctx, p, 0, 1)
	if err := Track(ctx, both, p); err != nil {
		t.Fatal(err)
	}
	feed := NewFeed(p, ProgressOf(2, p.Progress), slog.New(slog.DiscardHandler))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		look := selects(t, both, 2, feed.Reader(), func(v *policies.View) {
			c := OfFresh(v)
			for slot := range indexer.Slot(2) {
				n, _ := c.Count(slot)
				if f, ok := c.Freshness(slot); !ok || uint64(n) < f.Applied || f.Applied > f.Accepted {
					t.Errorf("slot %d: %d blocks, freshness %v (%v)", slot, n, f, ok)
				}
			}
			live := LiveFresh(v)
			for slot := range indexer.Slot(2) {
				n := live.Cells[slot].Blocks()
				if f, ok := live.Freshness(slot); !ok || uint64(n) < f.Applied {
					t.Errorf("slot %d: the counter has %d blocks, freshness %v (%v)", slot, n, f, ok)
				}
			}
			// The copy must be as new as the freshness that comes with it.
			c = OfFresh(v)
			for slot := range indexer.Slot(2) {
				if f, ok := c.Freshness(slot); !ok || uint64(c.Blocks[slot]) < f.Applied {
					t.Errorf("slot %d after LiveFresh: %d blocks, freshness %v (%v)", slot, c.Blocks[slot], f, ok)
				}
			}
		})
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := look(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 1))
	next := [2]uint32{}
	for range 2000 {
		which := rng.IntN(2)
		push(t, p, slots[which], next[which])
		next[which]++
	}
	if err := p.Flush(ctx); err != nil {
		t.Error(err)
	}
	close(stop)
	wg.Wait()
}

func TestWarmReadDoesNotAllocate(t *testing.T) {
	p, _, ctx := open(t, indexer.Packed)
	workers := make([]uint64, 300)
	for i := range workers {
		workers[i] = uint64(i)
	}
	register(t, ctx, p, workers...)
	if err := Track(ctx, both, p); err != nil {
		t.Fatal(err)
	}
	feed := NewFeed(p, ProgressOf(2, p.Progress), slog.New(slog.DiscardHandler))
	sum := uint64(0)
	// With slots that the index has never seen.
	look := selects(t, both, len(workers)+10, feed.Reader(), func(v *policies.View) {
		c := OfFresh(v)
		live := LiveFresh(v)
		for _, slot := range v.Rows() {
			f, _ := c.Freshness(slot)
			sum += uint64(c.Blocks[slot]) + f.Backlog() + uint64(live.Cells[slot].Blocks())
		}
	})
	if n := testing.AllocsPerRun(100, func() {
		if err := look(); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLiveIsThePlainCount lets ranks come and go, be cleared and fill, and looks by
// one reader at the counters of growing numbers of slots: each must be what the
// newest table says of the slot.
func TestLiveIsThePlainCount(t *testing.T) {
	p, _, ctx := open(t, indexer.Packed)
	feed := NewFeed(p, nil, slog.New(slog.DiscardHandler))
	reader := feed.Reader()
	rng := rand.New(rand.NewPCG(5, 5))
	live := map[uint64]indexer.Slot{}
	next := map[uint64]uint32{}
	compare := func(slots int, tracked bool) {
		t.Helper()
		if err := selects(t, both, slots, reader, func(v *policies.View) {
			c := Live(v)
			table := p.Residents()
			missing := 0
			for slot, cell := range c.Cells {
				want := Absent
				if tracked {
					if n, ok := table.Count(indexer.Slot(slot)); ok {
						want = uint32(n)
					}
				}
				if want == Absent {
					missing++
				}
				if got := cell.Blocks(); got != want {
					t.Fatalf("slot %d of %d: %d, want %d", slot, len(c.Cells), got, want)
				}
			}
			if missing != c.Missing || len(c.Cells) < slots {
				t.Fatalf("%d slots: %d counters, %d missing, want %d", slots, len(c.Cells), c.Missing, missing)
			}
		})(); err != nil {
			t.Fatal(err)
		}
	}
	compare(3, false)
	if err := Track(ctx, both, p); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		worker := uint64(rng.IntN(8))
		slot, there := live[worker]
		switch {
		case !there:
			live[worker] = register(t, ctx, p, worker)[0]
			next[worker] = 0
		case rng.IntN(4) == 0:
			if err := p.Unregister(ctx, indexer.Rank{Worker: worker}); err != nil {
				t.Fatal(err)
			}
			delete(live, worker)
		case rng.IntN(4) == 0:
			push(t, p, slot, clearID)
			next[worker] = 0
		default:
			for range 1 + rng.IntN(3) {
				push(t, p, slot, next[worker])
				next[worker]++
			}
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		for worker, slot := range live {
			if n, ok := p.Residents().Count(slot); !ok || n != uint64(next[worker]) {
				t.Fatalf("worker %d: %d blocks (%v), want %d", worker, n, ok, next[worker])
			}
		}
		compare(1+rng.IntN(12), true)
	}
}
