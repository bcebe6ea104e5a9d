package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/kvbench/kvbench/internal/idle"
)

// TestResidentCounts follows counts while events flow: a reader may see only
// counts that were true, which for one-block events means that they never fall
// unless the rank was cleared, and never exceed what was pushed.
func TestResidentCounts(t *testing.T) {
	for _, layout := range []CounterLayout{Packed, Padded} {
		t.Run(layout.String(), func(t *testing.T) {
			const events = 600
			x := &fakeIndex{}
			p := newTestPool(t, PoolConfig{Index: x, Threads: 2, QueueCapacity: 64, Layout: layout})
			ctx := testContext(t)
			slots := mustRegister(t, p, ranks(10))
			if p.Residents() != nil {
				t.Fatal("there is a table before tracking was asked for")
			}
			var pushed atomic.Int64
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				last := make([]uint64, len(slots))
				for {
					select {
					case <-stop:
						return
					default:
					}
					table := p.Residents()
					if table == nil {
						continue
					}
					for _, slot := range slots {
						n, ok := table.Count(slot)
						limit := pushed.Load() + 1
						if !ok || n < last[slot] || int64(n) > limit {
							t.Errorf("slot %d: count %d (%v) after %d, at most %d were pushed", slot, n, ok, last[slot], limit)
							return
						}
						last[slot] = n
					}
				}
			})
			pr := p.Producer(0)
			for id := range uint32(events) {
				for _, slot := range slots {
					if err := pr.Push(slot, id); err != nil {
						t.Error(err)
					}
				}
				pushed.Add(1)
				pr.Publish()
				if id == events/3 {
					// In the middle: the counters start from what is there.
					if err := p.TrackResidentBlocks(ctx); err != nil {
						t.Error(err)
					}
				}
			}
			if err := p.Flush(ctx); err != nil {
				t.Error(err)
			}
			close(stop)
			wg.Wait()
			table := p.Residents()
			if sum, n := table.Sum(); sum != events*uint64(len(slots)) || n != len(slots) {
				t.Errorf("sum %d over %d ranks, want %d over %d", sum, n, events*len(slots), len(slots))
			}
			if n, ok := table.CountRank(ranks(2)[1]); !ok || n != events {
				t.Errorf("by rank: %d (%v), want %d", n, ok, events)
			}
			x.faults.report(t)
		})
	}
}

// TestBackfill turns tracking on when all events are applied already.
func TestBackfill(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, Threads: 2, QueueCapacity: 64})
	ctx := testContext(t)
	slots := mustRegister(t, p, ranks(3))
	for id := range uint32(5) {
		if err := p.Producer(0).Push(slots[2], id); err != nil {
			t.Fatal(err)
		}
	}
	p.Producer(0).Publish()
	if err := errors.Join(p.Flush(ctx), p.TrackResidentBlocks(ctx), p.TrackResidentBlocks(ctx)); err != nil {
		t.Fatal(err)
	}
	for slot, want := range []uint64{0, 0, 5} {
		if n, ok := p.Residents().Count(Slot(slot)); !ok || n != want {
			t.Errorf("slot %d: %d (%v), want %d", slot, n, ok, want)
		}
	}
}

func TestCountsOfGoneAndClearedRanks(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, QueueCapacity: 64,
		Source: fakeSource{cleared: func(id uint32) bool { return id == 7 }}})
	ctx := testContext(t)
	all := ranks(3)
	slots := mustRegister(t, p, all[:2])
	if err := p.TrackResidentBlocks(ctx); err != nil {
		t.Fatal(err)
	}
	push := func(slot Slot, ids ...uint32) {
		t.Helper()
		for _, id := range ids {
			if err := p.Producer(0).Push(slot, id); err != nil {
				t.Fatal(err)
			}
		}
		p.Producer(0).Publish()
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	push(slots[0], 0, 1, 2)
	push(slots[1], 0, 1, 2, 3, 4, 5, 6, 7)
	old := p.Residents()
	if n, ok := old.Count(slots[1]); !ok || n != 0 {
		t.Errorf("a cleared rank has %d (%v), want 0", n, ok)
	}
	if _, ok := old.CountRank(all[2]); ok {
		t.Error("a rank that was never seen has a count")
	}
	if _, ok := old.Count(Slot(MaxRanks - 1)); ok {
		t.Error("a slot that was never used has a count")
	}
	if err := p.Unregister(ctx, all[0]); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Residents().CountRank(all[0]); ok {
		t.Error("a removed rank has a count")
	}
	if sum, n := p.Residents().Sum(); sum != 0 || n != 1 {
		t.Errorf("sum %d over %d ranks, want 0 over 1", sum, n)
	}
	// Another rank gets the slot; whoever holds the old table must not see its
	// count in the old rank's place.
	again := mustRegister(t, p, all[2:])
	if again[0] != slots[0] {
		t.Fatalf("slot %d was not reused", slots[0])
	}
	if n, ok := p.Residents().CountRank(all[2]); !ok || n != 0 {
		t.Errorf("a new rank starts with %d (%v), want 0", n, ok)
	}
	push(again[0], 0)
	if n, _ := p.Residents().Count(again[0]); n != 1 {
		t.Errorf("the new rank has %d, want 1", n)
	}
	if n, _ := old.Count(slots[0]); n != 3 {
		t.Errorf("the old table gives %d for the old rank, whose last true count was 3", n)
	}
}

func TestCounterLines(t *testing.T) {
	line := func(c *ResidentCell) uintptr { return uintptr(unsafe.Pointer(c)) / idle.CacheLine }
	sources := []*counterSource{{layout: Packed}, {layout: Packed}}
	owner := map[uintptr]int{}
	for i := range 1000 {
		which := i % 2
		l := line(&sources[which].next()[0])
		if by, ok := owner[l]; ok && by != which {
			t.Fatal("counters of two threads share a line")
		}
		owner[l] = which
	}
	if len(owner) > 1000/countersPerLine+2 {
		t.Errorf("1000 packed counters lie on %d lines", len(owner))
	}
	padded := &counterSource{layout: Padded}
	seen := map[uintptr]bool{}
	for range 100 {
		l := line(&padded.next()[0])
		if seen[l] {
			t.Fatal("two padded counters share a line")
		}
		seen[l] = true
	}
}

// tagIndex gives each rank counts that no other rank has: the last event's ID,
// whose high bits name the rank. Before the first event the count is 0.
type tagIndex struct{ last [64]uint64 }

type tagWriter struct{ x *tagIndex }

func (x *tagIndex) Writer(int) Writer { return tagWriter{x} }
func (x *tagIndex) Reader() Reader    { return nil }
func (x *tagIndex) Check() error      { return nil }
func (x *tagIndex) Close() error      { return nil }

func (w tagWriter) Attach(slot Slot)     { w.x.last[slot] = 0 }
func (w tagWriter) Detach(slot Slot)     { w.x.last[slot] = 0 }
func (w tagWriter) Blocks(slot Slot) int { return int(w.x.last[slot]) }
func (w tagWriter) Park()                {}
func (w tagWriter) Apply(ev *Event) Effect {
	w.x.last[ev.Slot] = ev.ID
	return Effect{}
}

// TestTablesShowEachRankItsOwnCounts lets ranks come and go, their slots change
// hands and readers hold on to old tables: a count must always be one of the
// rank that was asked for, and must not go back.
func TestTablesShowEachRankItsOwnCounts(t *testing.T) {
	const perRank = 1 << 10 // ids of one rank: number*perRank + 1 …
	for _, layout := range []CounterLayout{Packed, Padded} {
		t.Run(layout.String(), func(t *testing.T) {
			p := newTestPool(t, PoolConfig{Index: &tagIndex{}, Threads: 2, QueueCapacity: 64, Layout: layout})
			ctx := testContext(t)
			if err := p.TrackResidentBlocks(ctx); err != nil {
				t.Fatal(err)
			}
			var newest atomic.Int64
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					var held []*ResidentTable
					seen := map[uint64]uint64{}
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						if held = append(held, p.Residents()); len(held) > 16 {
							held = held[1:]
						}
						table := held[i%len(held)]
						first := max(0, newest.Load()-40)
						for worker := uint64(first); worker < uint64(first)+50; worker++ {
							n, ok := table.CountRank(Rank{Worker: worker})
							if ok && n != 0 && n/perRank != worker {
								t.Errorf("rank %d is shown %d, a count of rank %d", worker, n, n/perRank)
								return
							}
							if ok && n < seen[worker] {
								t.Errorf("the count of rank %d went from %d back to %d", worker, seen[worker], n)
								return
							}
							if ok {
								seen[worker] = n
							}
						}
					}
				})
			}
			rng := rand.New(rand.NewPCG(7, uint64(layout)))
			live := map[uint64]Slot{}
			last := map[uint64]uint32{}
			pr := p.Producer(0)
			for worker := range uint64(300) {
				live[worker] = mustRegister(t, p, []Rank{{Worker: worker}})[0]
				newest.Store(int64(worker))
				for _, w := range slices.Sorted(maps.Keys(live)) {
					for range rng.IntN(4) {
						last[w]++
						if err := pr.Push(live[w], uint32(w*perRank)+last[w]); err != nil {
							t.Fatal(err)
						}
					}
				}
				pr.Publish()
				if len(live) > 8 {
					gone := slices.Sorted(maps.Keys(live))[rng.IntN(8)]
					if err := p.Unregister(ctx, Rank{Worker: gone}); err != nil {
						t.Fatal(err)
					}
					delete(live, gone)
				}
			}
			close(stop)
			wg.Wait()
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			for worker := range uint64(300) {
				n, ok := p.Residents().CountRank(Rank{Worker: worker})
				_, alive := live[worker]
				want := uint64(0)
				if last[worker] > 0 {
					want = worker*perRank + uint64(last[worker])
				}
				if ok != alive || alive && n != want {
					t.Errorf("rank %d: count %d (%v), want %d (%v)", worker, n, ok, want, alive)
				}
			}
			if p.Residents().Len() > 16 {
				t.Errorf("%d slots for at most 9 ranks at a time: slots are not reused", p.Residents().Len())
			}
		})
	}
}

func TestCounterLayoutNames(t *testing.T) {
	for _, l := range []CounterLayout{Packed, Padded} {
		if got, err := ParseCounterLayout(l.String()); err != nil || got != l {
			t.Errorf("%v reads back as %v, %v", l, got, err)
		}
	}
	if _, err := ParseCounterLayout("Packed"); err == nil {
		t.Error("an unknown layout was accepted")
	}
}

func BenchmarkResidentSum(b *testing.B) {
	for _, layout := range []CounterLayout{Packed, Padded} {
		for _, n := range []int{32, 1024, 10000} {
			b.Run(fmt.Sprintf("%v/%d", layout, n), func(b *testing.B) {
				p, err := NewPool(PoolConfig{Index: &fakeIndex{}, Source: fakeSource{}, Threads: 8, Producers: 1, QueueCapacity: 1, Layout: layout})
				if err != nil {
					b.Fatal(err)
				}
				ctx := context.Background()
				if _, err := p.Register(ctx, ranks(n)); err != nil {
					b.Fatal(err)
				}
				if err := p.TrackResidentBlocks(ctx); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					p.Residents().Sum()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/rank")
				if err := p.Close(ctx); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// reachIndex holds one block more with each event, of which those at even
// numbers can be reached; after each clear it cannot say for one event.
type reachIndex struct{ fakeIndex }

type reachWriter struct{ fakeWriter }

func (x *reachIndex) Writer(i int) Writer {
	return &reachWriter{fakeWriter{&x.fakeIndex, int32(i) + 1}}
}

func (w *reachWriter) Reachable(slot Slot) (int, bool) {
	n := w.Blocks(slot)
	return n / 2, n != 1
}

// TestReachableIsOfTheSameMoment reads both counts while events flow: a pair
// that no event left behind must never be seen.
func TestReachableIsOfTheSameMoment(t *testing.T) {
	isClear := func(id uint32) bool { return id%50 == 49 }
	p := newTestPool(t, PoolConfig{Index: &reachIndex{}, Threads: 2, QueueCapacity: 64, Source: fakeSource{cleared: isClear}})
	ctx := testContext(t)
	slots := mustRegister(t, p, ranks(4))
	if err := p.TrackResidentBlocks(ctx); err != nil {
		t.Fatal(err)
	}
	table := p.Residents()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				for _, slot := range slots {
					c, ok := table.Counts(slot)
					if !ok || c.ReachableKnown != (c.Resident != 1) || c.ReachableKnown && c.Reachable != c.Resident/2 || !c.ReachableKnown && c.Reachable != 0 {
						t.Errorf("slot %d: %+v (%v) was never true", slot, c, ok)
						return
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	const events = 1025 // 25 after the last clear
	for id := range uint32(events) {
		for _, slot := range slots {
			if err := p.Producer(0).Push(slot, id); err != nil {
				t.Error(err)
			}
		}
		p.Producer(0).Publish()
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	close(stop)
	wg.Wait()
	for _, slot := range slots {
		if c, ok := table.Counts(slot); !ok || c != (Counts{Resident: 25, Reachable: 12, ReachableKnown: true}) {
			t.Errorf("slot %d: %+v (%v)", slot, c, ok)
		}
		if n, ok := table.Count(slot); !ok || n != 25 {
			t.Errorf("slot %d: %d resident (%v)", slot, n, ok)
		}
	}
	if n, known := table.SumReachable(); n != 48 || known != 4 {
		t.Errorf("%d reachable on %d ranks", n, known)
	}
	if n, known := table.Sum(); n != 100 || known != 4 {
		t.Errorf("%d resident on %d ranks", n, known)
	}
}

// TestReachableUnknown has an index that cannot say.
func TestReachableUnknown(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, QueueCapacity: 8})
	slot := mustRegister(t, p, ranks(1))[0]
	if err := p.Producer(0).Push(slot, 0); err != nil {
		t.Fatal(err)
	}
	p.Producer(0).Publish()
	if err := errors.Join(p.Flush(testContext(t)), p.TrackResidentBlocks(testContext(t))); err != nil {
		t.Fatal(err)
	}
	if c, ok := p.Residents().Counts(slot); !ok || c != (Counts{Resident: 1}) {
		t.Errorf("%+v (%v)", c, ok)
	}
	if _, ok := p.Residents().Counts(slot + 1); ok {
		t.Error("a slot of nobody has counts")
	}
	if n, known := p.Residents().SumReachable(); n != 0 || known != 0 {
		t.Errorf("%d reachable on %d ranks", n, known)
	}
}

func TestCountWord(t *testing.T) {
	for _, resident := range []int{0, 1, 77, 1 << 31, maxCount} {
		if got := splitCount(makeCount(resident, 5, false)); got != (Counts{Resident: uint64(resident)}) {
			t.Errorf("%d, unknown: %+v", resident, got)
		}
		for _, reachable := range []int{0, 1, resident / 2, resident} {
			want := Counts{uint64(resident), uint64(reachable), true}
			if got := splitCount(makeCount(resident, reachable, true)); got != want {
				t.Errorf("%+v reads back as %+v", want, got)
			}
		}
	}
}

// TestTooManyBlocksForACounter ends the thread and shows no wrong count.
func TestTooManyBlocksForACounter(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &tagIndex{}, QueueCapacity: 8, Source: hugeSource{}})
	slot := mustRegister(t, p, ranks(1))[0]
	if err := p.TrackResidentBlocks(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.Producer(0).Push(slot, 0); err != nil {
		t.Fatal(err)
	}
	p.Producer(0).Publish()
	<-p.Ended(0)
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "a counter holds at most") {
		t.Errorf("Err is %v", err)
	}
	if n, ok := p.Residents().Count(slot); ok {
		t.Errorf("the rank is shown with %d blocks", n)
	}
}

type hugeSource struct{}

func (hugeSource) Event(_ uint32, ev *Event) { *ev = Event{ID: 1 << 32, Kind: Stored} }

// TestReadEqualsCounts gives slots to threads and takes them away in every order,
// so that runs of all kinds come about.
func TestReadEqualsCounts(t *testing.T) {
	for _, layout := range []CounterLayout{Packed, Padded} {
		for seed := range uint64(200) {
			rng := rand.New(rand.NewPCG(seed, 3))
			threads := 1 + rng.IntN(8)
			sources := make([]counterSource, threads)
			for i := range sources {
				sources[i].layout = layout
			}
			cells := make([][]ResidentCell, rng.IntN(600))
			owner := make([]int, len(cells))
			for i := range cells {
				owner[i] = i % threads
				if seed%3 == 0 {
					owner[i] = i * threads / len(cells)
				}
				if seed%3 == 2 {
					owner[i] = rng.IntN(threads)
				}
				cells[i] = sources[owner[i]].next()
			}
			for range rng.IntN(50) {
				if len(cells) == 0 {
					break
				}
				i := rng.IntN(len(cells))
				cells[i] = nil
				if rng.IntN(2) == 0 {
					owner[i] = rng.IntN(threads)
					cells[i] = sources[owner[i]].next()
				}
			}
			for i, c := range cells {
				if c != nil {
					c[0].word.Store(makeCount(i*7, i, i%2 == 0))
				}
			}
			table := newResidentTable(cells, func(slot int) int { return owner[slot] }, threads, layout, nil)
			out := make([]uint32, len(cells)+rng.IntN(3))
			listed, absent := table.Cells(len(out))
			if len(listed) != len(out) {
				t.Fatalf("%v, seed %d: %d cells, want %d", layout, seed, len(listed), len(out))
			}
			ReadCells(listed, out)
			sum := uint64(0)
			for slot, got := range out {
				if listed[slot].Blocks() != got {
					t.Fatalf("%v, seed %d: slot %d: the cell has %d, read %d", layout, seed, slot, listed[slot].Blocks(), got)
				}
				want, ok := table.Count(Slot(slot))
				if ok != (slot < len(cells) && cells[slot] != nil) {
					t.Fatalf("%v, seed %d: slot %d has a count: %v", layout, seed, slot, ok)
				}
				if !ok {
					absent--
					want = AbsentCount
				} else if sum += want; want != uint64(slot*7) {
					t.Fatalf("slot %d has %d, want %d", slot, want, slot*7)
				}
				if uint64(got) != want {
					t.Fatalf("%v, seed %d: slot %d of %d: read %d, count %d", layout, seed, slot, len(cells), got, want)
				}
			}
			if absent != 0 {
				t.Errorf("%v, seed %d: the number of absent ones is off by %d", layout, seed, absent)
			}
			if got, _ := table.Sum(); got != sum {
				t.Errorf("%v, seed %d: sum %d, want %d", layout, seed, got, sum)
			}
		}
	}
}

// TestCellsAreNotWrittenOver asks one table for cells of more slots than it has.
func TestCellsAreNotWrittenOver(t *testing.T) {
	c := NewResidentCounters([]int{0, 1, 0}, Packed)
	for slot := range Slot(3) {
		c.Store(slot, uint32(slot)+10)
	}
	many, absent := c.Residents().Cells(6)
	if len(many) != 6 || absent != 3 {
		t.Errorf("%d cells, %d absent", len(many), absent)
	}
	more, _ := c.Residents().Cells(7)
	own, absent := c.Residents().Cells(2)
	if len(own) != 3 || absent != 0 || cap(own) > 3 && &own[:4][3] == &many[3] {
		t.Errorf("the table's own: %d cells, %d absent", len(own), absent)
	}
	none, absent := NoResidentCells(4)
	if len(none) != 4 || absent != 4 {
		t.Errorf("no counts: %d cells, %d absent", len(none), absent)
	}
	c.Store(1, 99)
	for i, cells := range [][]*ResidentCell{many, more, own} {
		for slot, cell := range cells {
			want := []uint32{10, 99, 12, AbsentCount, AbsentCount, AbsentCount, AbsentCount}[slot]
			if cell.Blocks() != want {
				t.Errorf("list %d: slot %d has %d, want %d", i, slot, cell.Blocks(), want)
			}
		}
	}
	for _, cell := range none {
		if cell.Blocks() != AbsentCount {
			t.Errorf("a cell without counts has %d", cell.Blocks())
		}
	}
	if size := unsafe.Sizeof(absentCell{}); size != idle.CacheLine {
		t.Errorf("an absent cell takes %d bytes of a line of %d", size, idle.CacheLine)
	}
}

// TestReadMeetsNewRanks reads while ranks come, their counts rise, and ranks go.
func TestReadMeetsNewRanks(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, Threads: 3, QueueCapacity: 64})
	ctx := testContext(t)
	if err := p.TrackResidentBlocks(ctx); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var out []uint32
		for {
			select {
			case <-stop:
				return
			default:
			}
			table := p.Residents()
			cells, absent := table.Cells(0)
			if absent != table.Len()-table.Ranks() {
				t.Errorf("%d of %d absent, %d ranks", absent, table.Len(), table.Ranks())
				return
			}
			out = slices.Grow(out[:0], len(cells))[:len(cells)]
			ReadCells(cells, out)
			for slot, n := range out {
				if n != AbsentCount && n > 20 {
					t.Errorf("slot %d has %d", slot, n)
					return
				}
			}
		}
	})
	all := ranks(60)
	for i, rank := range all {
		slot := mustRegister(t, p, []Rank{rank})[0]
		for id := range uint32(20) {
			if err := p.Producer(0).Push(slot, id); err != nil {
				t.Error(err)
			}
		}
		p.Producer(0).Publish()
		if i%3 == 2 {
			if err := p.Unregister(ctx, all[i-1]); err != nil {
				t.Error(err)
			}
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Error(err)
	}
	close(stop)
	wg.Wait()
	for _, rank := range all {
		want, ok := p.Residents().CountRank(rank)
		if ok && want != 20 {
			t.Errorf("rank %v has %d", rank, want)
		}
	}
}
