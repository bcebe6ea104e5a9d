package residency

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/experimental/residentblocks"
)

// counted counts what a chooser chooses.
type counted struct {
	policies.Chooser
	chose, left int
}

func (c *counted) Choose(v *policies.View) (int, float64, bool) {
	row, cost, ok := c.Chooser.Choose(v)
	if ok {
		c.chose++
	} else {
		c.left++
	}
	return row, cost, ok
}

// kvAndEvictions is a pipeline of the KV cost and evictions, by the scan or with the
// chooser before it.
func kvAndEvictions(t testing.TB, weight, stale float64, scan bool) (*policies.Pipeline, *counted) {
	t.Helper()
	p := policies.DefaultKVParams()
	r, err := policies.KVRecipe(p, 0, policies.ScaleMinMax)
	if err != nil {
		t.Fatal(err)
	}
	chooser, err := policies.NewKVSurchargeChooser(p, NewEvictions(false, stale), weight)
	if err != nil {
		t.Fatal(err)
	}
	c := &counted{Chooser: chooser}
	r.Chooser = c
	if scan {
		r.Chooser = nil
	}
	r.Scorers = append(r.Scorers, policies.Weighted{Name: "evictions", Scorer: NewEvictions(false, stale), Weight: weight})
	pipe, err := policies.NewPipeline(r, 9)
	if err != nil {
		t.Fatal(err)
	}
	return pipe, c
}

// routers is a router's state with counts that a test sets.
type routers struct {
	rng      *rand.Rand
	counters *indexer.ResidentCounters
	counted  int // slots with a count
	backlog  []residentblocks.Progress
	state    policies.State
	load     *policies.ActiveLoad
	cache    touched
	next     uint64
}

func newRouters(rng *rand.Rand, slots int) *routers {
	const threads = 3
	w := &routers{rng: rng, counted: max(1, slots-rng.IntN(2)*rng.IntN(3)), load: policies.NewActiveLoad(slots, slots)}
	owner := make([]int, w.counted)
	for slot := range owner {
		owner[slot] = slot % threads
	}
	w.counters = indexer.NewResidentCounters(owner, indexer.Packed)
	for range threads {
		w.backlog = append(w.backlog, behind(rng.IntN(2)*rng.IntN(4)))
	}
	feed := residentblocks.NewFeed(w.counters, w.backlog, slog.New(slog.DiscardHandler))
	w.state = policies.State{Slots: slots, Load: w.load, Cache: &w.cache, CapacityBlocks: make([]uint32, slots), ResidentBlocks: feed.Reader()}
	for slot := range w.state.CapacityBlocks {
		w.state.CapacityBlocks[slot] = 100
	}
	if rng.IntN(4) == 0 {
		w.state.CapacityBlocks[rng.IntN(slots)] = 0 // unknown
	}
	w.cache.scores = make([]uint32, slots)
	return w
}

// stir sets counts, as events do, to what makes caches of a kind.
func (w *routers) stir(kind int) {
	for range 1 + w.rng.IntN(w.counted) {
		blocks := 100
		switch {
		case kind == 0 || kind == 1 && w.rng.IntN(8) == 0:
			blocks = w.rng.IntN(120)
		case kind == 2:
			blocks = 80 + w.rng.IntN(21)
		}
		w.counters.Store(indexer.Slot(w.rng.IntN(w.counted)), uint32(blocks))
	}
}

// request is one of a few prompts, parts of which some ranks hold.
func (w *routers) request() *policies.Request {
	w.next++
	r := &policies.Request{ID: w.next, BlockSize: 10}
	family := 100 * w.rng.IntN(40)
	for i := range w.rng.IntN(20) {
		r.Locals = append(r.Locals, indexer.LocalHash(1+i+family))
	}
	r.PromptTokens = 10*len(r.Locals) + w.rng.IntN(10)
	clear(w.cache.scores)
	w.cache.slots = w.cache.slots[:0]
	for range w.rng.IntN(4) {
		if slot := w.rng.IntN(w.state.Slots); len(r.Locals) > 0 && w.cache.scores[slot] == 0 {
			w.cache.scores[slot] = uint32(1 + w.rng.IntN(len(r.Locals)))
			w.cache.slots = append(w.cache.slots, indexer.Slot(slot))
		}
	}
	return r
}

// TestKVResidentChooserIsTheScan lets a pipeline with the chooser and one without go
// through the same selections, with caches that are full, half full or anything,
// counts that are absent or stale, and capacities that are unknown.
func TestKVResidentChooserIsTheScan(t *testing.T) {
	chose, left := 0, 0
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 1))
		slots := []int{1, 60, 200, 700, 1500}[rng.IntN(5)]
		w := newRouters(rng, slots)
		weight := []float64{1, 1, 0.3, 5}[rng.IntN(4)]
		stale := []float64{math.Inf(1), math.Inf(1), math.Inf(1), 2}[rng.IntN(4)]
		fast, count := kvAndEvictions(t, weight, stale, false)
		scan, _ := kvAndEvictions(t, weight, stale, true)
		// Loads that differ: requests that nobody else has.
		for slot := range indexer.Slot(slots) {
			w.next++
			r := &policies.Request{ID: w.next, BlockSize: 10, PromptTokens: rng.IntN(5000)}
			if err := w.load.Dispatch(r, slot, 0); err != nil {
				t.Fatal(err)
			}
		}
		for step := range 200 {
			if rng.IntN(3) == 0 {
				w.stir(int(seed % 4))
			}
			r := w.request()
			got, err := fast.Select(r, &w.state)
			want, wantErr := scan.Select(r, &w.state)
			if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("seed %d, step %d, %d slots, weight %v, stale %v: %+v, %v; the scan says %+v, %v", seed, step, slots, weight, stale, got, err, want, wantErr)
			}
			if err := w.load.Dispatch(r, got.Slot, min(int(got.Overlap)*10, r.PromptTokens)); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 {
				w.load.FirstToken(1 + rng.Uint64N(w.next))
				w.load.Finish(1 + rng.Uint64N(w.next))
			}
		}
		chose, left = chose+count.chose, left+count.left
	}
	if all := chose + left; chose < all/5 || left < all/20 {
		t.Errorf("of %d selections %d were chosen and %d left to the scan", all, chose, left)
	}
	t.Logf("%d chosen, %d left to the scan", chose, left)
}

func TestKVResidentDoesNotAllocate(t *testing.T) {
	for _, slots := range []int{2, 700} {
		for _, scan := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(1, 1))
			w := newRouters(rng, slots)
			w.state.Slots, w.counted = slots, slots
			pipe, _ := kvAndEvictions(t, 1, math.Inf(1), scan)
			requests := make([]*policies.Request, 40)
			for i := range requests {
				requests[i] = w.request()
			}
			i := 0
			round := func() {
				i++
				if _, err := pipe.Select(requests[i%len(requests)], &w.state); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 * len(requests) {
				round()
			}
			if n := testing.AllocsPerRun(200, round); n != 0 {
				t.Errorf("%d slots, scan %v: %v allocations a selection", slots, scan, n)
			}
		}
	}
}

// BenchmarkKVResident chooses by the KV cost and evictions, for prompts of 128
// blocks where caches have room, are full and 64 ranks hold a part of the prompt,
// are full and nobody does, or are that and loads are alike: then every count
// matters, and the chooser gives up.
func BenchmarkKVResident(b *testing.B) {
	for _, slots := range []int{1024, 10_000} {
		for _, kind := range []string{"room", "full", "unmatched", "alike"} {
			for _, scan := range []bool{true, false} {
				how := map[bool]string{true: "scan", false: "chooser"}[scan]
				b.Run(fmt.Sprintf("%d/%s/%s", slots, kind, how), func(b *testing.B) {
					rng := rand.New(rand.NewPCG(1, 1))
					w := newRouters(rng, slots)
					w.counters = indexer.NewResidentCounters(make([]int, slots), indexer.Packed)
					w.state.ResidentBlocks = residentblocks.NewFeed(w.counters, nil, slog.New(slog.DiscardHandler)).Reader()
					for slot := range indexer.Slot(slots) {
						w.state.CapacityBlocks[slot] = 16384
						w.counters.Store(slot, map[bool]uint32{true: 8000, false: 16384}[kind == "room"])
						for range 4 {
							w.next++
							r := &policies.Request{ID: w.next, BlockSize: 16, PromptTokens: 1 + rng.IntN(4096)}
							if kind == "alike" {
								r.PromptTokens = 2000 + rng.IntN(100)
							}
							if err := w.load.Dispatch(r, slot, 0); err != nil {
								b.Fatal(err)
							}
							w.load.FirstToken(r.ID - 1)
						}
					}
					r := &policies.Request{BlockSize: 16, PromptTokens: 2048, Locals: make([]indexer.LocalHash, 128)}
					for _, slot := range rng.Perm(slots)[:64] {
						if kind == "room" || kind == "full" {
							w.cache.scores[slot] = uint32(1 + rng.IntN(128))
							w.cache.slots = append(w.cache.slots, indexer.Slot(slot))
						}
					}
					pipe, count := kvAndEvictions(b, 1, math.Inf(1), scan)
					for b.Loop() {
						if _, err := pipe.Select(r, &w.state); err != nil {
							b.Fatal(err)
						}
					}
					if !scan {
						b.ReportMetric(float64(count.chose)/float64(count.chose+count.left), "chosen/op")
					}
				})
			}
		}
	}
}
