package indexer

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRegister(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, Threads: 3})
	all := ranks(MaxRanks)
	slots := mustRegister(t, p, all)
	for i, slot := range slots {
		if int(slot) != i || p.ThreadOf(slot) != i%3 {
			t.Fatalf("rank %d got slot %d on thread %d", i, slot, p.ThreadOf(slot))
		}
	}
	if again := mustRegister(t, p, all[5:7]); again[0] != 5 || again[1] != 6 {
		t.Errorf("known ranks got slots %v", again)
	}
	if _, err := p.Register(testContext(t), []Rank{{Worker: 1 << 40}}); err == nil {
		t.Errorf("rank number %d was taken", MaxRanks+1)
	}
	if err := p.Unregister(testContext(t), all[4]); err != nil {
		t.Fatal(err)
	}
	if got := mustRegister(t, p, []Rank{{Worker: 1 << 40}, {Worker: 1 << 40}}); got[0] != 4 || got[1] != 4 {
		t.Errorf("the freed slot 4 was not reused: %v", got)
	}
	if err := p.Unregister(testContext(t), all[4]); err == nil {
		t.Error("an unknown rank was unregistered")
	}
}

// TestRegisterIsLinear counts table copies by what they allocate: registering
// in one batch must not copy a table for each rank.
func TestRegisterIsLinear(t *testing.T) {
	bytesFor := func(n int) uint64 {
		p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, Threads: 2})
		if err := p.TrackResidentBlocks(testContext(t)); err != nil {
			t.Fatal(err)
		}
		batch := ranks(n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		mustRegister(t, p, batch)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := bytesFor(2048), bytesFor(32768)
	if large > 24*small {
		t.Errorf("16 times the ranks took %d bytes after %d: more than linear", large, small)
	}
}

// TestUnregisterIsLinear removes in one batch what was registered in one batch.
func TestUnregisterIsLinear(t *testing.T) {
	bytesFor := func(n int) uint64 {
		p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, Threads: 2})
		if err := p.TrackResidentBlocks(testContext(t)); err != nil {
			t.Fatal(err)
		}
		batch := ranks(n)
		mustRegister(t, p, batch)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := p.Unregister(testContext(t), batch...); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if sum, n := p.Residents().Sum(); sum != 0 || n != 0 {
			t.Errorf("sum %d over %d ranks after all were removed", sum, n)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := bytesFor(2048), bytesFor(32768)
	if large > 24*small {
		t.Errorf("16 times the ranks took %d bytes after %d: more than linear", large, small)
	}
}

func TestUnregisterRefusesWholeBatch(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}})
	all := ranks(3)
	mustRegister(t, p, all[:2])
	if err := p.Unregister(testContext(t), all...); err == nil {
		t.Error("an unknown rank was unregistered")
	}
	for _, rank := range all[:2] {
		if _, ok := p.Slot(rank); !ok {
			t.Errorf("rank %v is gone", rank)
		}
	}
	if err := p.Unregister(testContext(t), all[0], all[0]); err != nil {
		t.Errorf("a rank named twice: %v", err)
	}
}

// TestReturningRankGoesHome removes ranks so that the emptiest thread is another
// one than theirs.
func TestReturningRankGoesHome(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, Threads: 3})
	all := ranks(9)
	mustRegister(t, p, all)
	gone := []Rank{all[1], all[4], all[8], all[0], all[3], all[6]}
	if err := p.Unregister(testContext(t), gone...); err != nil {
		t.Fatal(err)
	}
	// Strangers go where there are fewest; 0, 1 and 2 are left on the threads.
	strangers := mustRegister(t, p, []Rank{{Worker: 90}, {Worker: 91}, {Worker: 92}})
	for i, want := range []int{0, 0, 1} {
		if got := p.ThreadOf(strangers[i]); got != want {
			t.Errorf("new rank %d went to thread %d, want %d", i, got, want)
		}
	}
	for _, rank := range gone {
		slot := mustRegister(t, p, []Rank{rank})[0]
		if want := slices.Index(all, rank) % 3; p.ThreadOf(slot) != want {
			t.Errorf("rank %v came back to thread %d, was on %d", rank, p.ThreadOf(slot), want)
		}
	}
}

// TestGoneRanksAreForgottenInTheEnd bounds what the pool keeps of ranks that
// never come back.
func TestGoneRanksAreForgottenInTheEnd(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, Threads: 2})
	batch := make([]Rank, MaxRanks)
	for generation := range uint64(6) {
		for i := range batch {
			batch[i] = Rank{Worker: generation*MaxRanks + uint64(i)}
		}
		mustRegister(t, p, batch)
		if err := p.Unregister(testContext(t), batch...); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(p.homes); n > homesKept+MaxRanks {
		t.Errorf("the pool remembers %d ranks", n)
	}
	if n := len(p.slots); n != MaxRanks {
		t.Errorf("%d slots were used, want %d", n, MaxRanks)
	}
}

// TestLowestFreeSlotFirst gives slots up in a random order and takes some of them
// again one by one, over and over.
func TestLowestFreeSlotFirst(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, Threads: 2})
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 300
	bySlot := make([]Rank, n) // the zero rank: free
	next := uint64(1)
	for range 20 {
		for slot := range bySlot {
			if bySlot[slot] != (Rank{}) {
				continue
			}
			rank := Rank{Worker: next}
			next++
			if got := mustRegister(t, p, []Rank{rank})[0]; got != Slot(slot) {
				t.Fatalf("slot %d was given out, want %d, the lowest", got, slot)
			}
			bySlot[slot] = rank
			if rng.IntN(n) == 0 {
				break
			}
		}
		for _, slot := range rng.Perm(n)[:rng.IntN(n)] {
			if bySlot[slot] == (Rank{}) {
				continue
			}
			if err := p.Unregister(testContext(t), bySlot[slot]); err != nil {
				t.Fatal(err)
			}
			bySlot[slot] = Rank{}
		}
	}
}

// TestLateEventIsDropped publishes an event when its rank is gone and another
// has the slot, on the same thread.
func TestLateEventIsDropped(t *testing.T) {
	x := &fakeIndex{}
	p := newTestPool(t, PoolConfig{Index: x, QueueCapacity: 8})
	ctx := testContext(t)
	old := mustRegister(t, p, []Rank{{Worker: 1}})[0]
	pr := p.Producer(0)
	if err := pr.Push(old, 0); err != nil {
		t.Fatal(err)
	}
	if err := p.Unregister(ctx, Rank{Worker: 1}); err != nil {
		t.Fatal(err)
	}
	slot := mustRegister(t, p, []Rank{{Worker: 2}})[0]
	if slot != old {
		t.Fatalf("slot %d, want %d again", slot, old)
	}
	for id := range uint32(3) {
		if err := pr.Push(slot, id); err != nil {
			t.Fatal(err)
		}
	}
	pr.Publish()
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	x.faults.report(t)
	effects, err := p.Effects(ctx)
	if err != nil || effects[slot].Events != 3 {
		t.Errorf("the new rank was given %d events (%v), want its own 3", effects[slot].Events, err)
	}
	if s := p.Stats()[0]; s.Dropped != 1 || s.Applied != 4 || s.Accepted != 4 {
		t.Errorf("stats %+v, want 1 dropped of 4", s)
	}
}

// TestCancelledCallsLoseNoSlots gives up waiting for a busy thread, which does
// its part later.
func TestCancelledCallsLoseNoSlots(t *testing.T) {
	x := &fakeIndex{block: make(chan struct{})}
	p := newTestPool(t, PoolConfig{Index: x, QueueCapacity: 8})
	slots := mustRegister(t, p, ranks(3))
	if err := p.Producer(0).Push(slots[0], 0); err != nil {
		t.Fatal(err)
	}
	p.Producer(0).Publish()
	x.awaitInside()
	for range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		if _, err := p.Register(ctx, []Rank{{Worker: 50}, {Worker: 51}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("register: %v, want a deadline exceeded", err)
		}
		cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	if err := p.Unregister(ctx, ranks(3)[1]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("unregister: %v, want a deadline exceeded", err)
	}
	cancel()
	for _, gone := range []Rank{{Worker: 50}, ranks(3)[1]} {
		if _, ok := p.Slot(gone); ok {
			t.Errorf("rank %v is still registered", gone)
		}
	}
	close(x.block)
	if err := p.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	got := mustRegister(t, p, []Rank{{Worker: 60}, {Worker: 61}})
	if got[0] != 1 || got[1] != 3 {
		t.Errorf("new ranks got slots %v, want 1 and 3, which are free", got)
	}
	if n := len(p.slots) - len(p.free); n != 4 {
		t.Errorf("%d slots are taken for 4 ranks", n)
	}
	x.faults.report(t)
}

// TestAssign names a thread for each rank; the pool does what it is told, but
// for ranks that come back, and refuses a thread that there is not.
func TestAssign(t *testing.T) {
	asked := map[Rank]int{}
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, Threads: 3, Assign: func(rank Rank) int {
		asked[rank]++
		return int(rank.Worker*7+uint64(rank.DP)) % 4 // 3 is none
	}})
	var good, bad []Rank
	for _, rank := range ranks(40) {
		if (rank.Worker*7+uint64(rank.DP))%4 == 3 {
			bad = append(bad, rank)
		} else {
			good = append(good, rank)
		}
	}
	slots := mustRegister(t, p, good)
	byThread := make([]int, 3)
	for i, slot := range slots {
		want := int(good[i].Worker*7+uint64(good[i].DP)) % 4
		if int(slot) != i || p.ThreadOf(slot) != want {
			t.Errorf("rank %v has slot %d on thread %d, want %d on %d", good[i], slot, p.ThreadOf(slot), i, want)
		}
		byThread[want]++
	}
	for i, s := range p.Stats() {
		if s.Ranks != byThread[i] {
			t.Errorf("thread %d has %d ranks, want %d", i, s.Ranks, byThread[i])
		}
	}
	if _, err := p.Register(testContext(t), []Rank{{Worker: 999, DP: 0}, bad[0]}); err == nil || !strings.Contains(err.Error(), "event thread 3") {
		t.Errorf("a thread that there is not: %v", err)
	}
	if _, ok := p.Slot(Rank{Worker: 999}); ok {
		t.Error("a rank of a refused batch is registered")
	}
	// A known rank and one that comes back are not asked for again.
	mustRegister(t, p, good[:2])
	if err := p.Unregister(testContext(t), good[0]); err != nil {
		t.Fatal(err)
	}
	if slot := mustRegister(t, p, good[:1])[0]; p.ThreadOf(slot) != int(good[0].Worker*7)%4 || asked[good[0]] != 1 {
		t.Errorf("a rank that came back is on thread %d; Assign was asked %d times", p.ThreadOf(slot), asked[good[0]])
	}
}

// TestAssignToAnEndedThread names a thread that has ended by panic.
func TestAssignToAnEndedThread(t *testing.T) {
	x := &fakeIndex{panicOn: func(*Event) any { return "index is broken" }}
	p := newTestPool(t, PoolConfig{Index: x, Threads: 2, Assign: func(Rank) int { return 1 }})
	slot := mustRegister(t, p, ranks(1))[0]
	if err := p.Producer(0).Push(slot, 0); err != nil {
		t.Fatal(err)
	}
	p.Producer(0).Publish()
	<-p.Ended(1)
	if slot := mustRegister(t, p, ranks(2)[1:])[0]; p.ThreadOf(slot) != 0 {
		t.Errorf("the rank went to thread %d, which has ended", p.ThreadOf(slot))
	}
}
