package indexer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestFullQueueBlocksAndCounts fills a queue to the last place while its thread
// is inside an event, and pushes once more.
func TestFullQueueBlocksAndCounts(t *testing.T) {
	idleModes(t, func(t *testing.T, mode IdleMode) {
		x := &fakeIndex{block: make(chan struct{})}
		p := newTestPool(t, PoolConfig{Index: x, QueueCapacity: 5, Idle: mode})
		if n := p.QueueCapacity(); n != 8 {
			t.Fatalf("the queue has room for %d, want 5 rounded up to 8", n)
		}
		slot := mustRegister(t, p, ranks(1))[0]
		pr := p.Producer(0)
		for id := range uint32(8) {
			if err := pr.Push(slot, id); err != nil {
				t.Fatal(err)
			}
			pr.Publish()
		}
		x.awaitInside()
		if s := p.Stats()[0]; s.Blocked != 0 || s.Accepted != 8 {
			t.Errorf("stats %+v before the queue was full", s)
		}
		pushed := make(chan error, 1)
		go func() { pushed <- pr.Push(slot, 8) }()
		for p.Stats()[0].Blocked == 0 {
			time.Sleep(20 * time.Microsecond)
		}
		select {
		case err := <-pushed:
			t.Fatalf("a push into a full queue returned %v", err)
		case <-time.After(2 * time.Millisecond):
		}
		close(x.block)
		if err := <-pushed; err != nil {
			t.Fatal(err)
		}
		pr.Publish()
		if err := p.Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
		s := p.Stats()[0]
		if s.Blocked != 1 || s.BlockedFor < 2*time.Millisecond || s.Applied != 9 || s.QueueHighWater > 8 || s.Dropped != 0 {
			t.Errorf("stats %+v, want one push that waited at least 2 ms, and 9 events applied", s)
		}
		x.faults.report(t)
	})
}

// load pushes events of all slots from all producers until it is stopped or an
// error comes, and then publishes. Each producer has the slots that it alone
// pushes for.
type load struct {
	stop   atomic.Bool
	wg     sync.WaitGroup
	pushed []uint32 // events by slot
	errs   []error  // by producer
}

func startLoad(p *Pool, producers int, slots []Slot) *load {
	l := &load{pushed: make([]uint32, len(slots)), errs: make([]error, producers)}
	for k := range producers {
		l.wg.Go(func() {
			pr := p.Producer(k)
			rng := rand.New(rand.NewPCG(1, uint64(k)))
			defer pr.Publish()
			gone := map[Slot]bool{}
			mine := (len(slots) - k + producers - 1) / producers
			for !l.stop.Load() && len(gone) < mine {
				for i, slot := range slots {
					if i%producers != k || gone[slot] {
						continue
					}
					err := pr.Push(slot, l.pushed[i])
					if errors.Is(err, ErrThreadEnded) {
						gone[slot] = true
						l.errs[k] = err
						continue
					}
					if err != nil {
						l.errs[k] = err
						return
					}
					l.pushed[i]++
				}
				if rng.IntN(4) == 0 {
					pr.Publish()
				}
			}
		})
	}
	return l
}

func (l *load) end() {
	l.stop.Store(true)
	l.wg.Wait()
}

// underLoad runs a test on a pool of three threads with three producers that
// keep their short queues full.
func underLoad(t *testing.T, panicOn func(*Event) any, test func(t *testing.T, p *Pool, slots []Slot, l *load)) {
	idleModes(t, func(t *testing.T, mode IdleMode) {
		const threads, producers = 3, 3
		x := &fakeIndex{panicOn: panicOn}
		p := newTestPool(t, PoolConfig{Index: x, Threads: threads, Producers: producers, QueueCapacity: 16, Idle: mode})
		// 18 ranks, so that each thread has ranks of each producer.
		var slots []Slot
		for k := range 18 {
			slots = append(slots, mustRegister(t, p, []Rank{{Worker: uint64(k)}})...)
		}
		if err := p.TrackResidentBlocks(testContext(t)); err != nil {
			t.Fatal(err)
		}
		l := startLoad(p, producers, slots)
		defer l.end()
		// Until the load is there.
		for i := range threads {
			for applied := uint64(0); applied < 200; applied, _ = p.Progress(i).Load() {
				time.Sleep(20 * time.Microsecond)
			}
		}
		test(t, p, slots, l)
		x.faults.report(t)
	})
}

// TestFlushUnderLoad makes flushes from several goroutines while all queues are
// kept full: each returns, having waited for what was accepted before it.
func TestFlushUnderLoad(t *testing.T) {
	underLoad(t, nil, func(t *testing.T, p *Pool, slots []Slot, l *load) {
		ctx := testContext(t)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range 10 {
					var before [3]uint64
					for i := range before {
						before[i], _ = p.Progress(i).Load()
					}
					if err := p.Flush(ctx); err != nil {
						t.Error(err)
						return
					}
					for i := range before {
						if applied, _ := p.Progress(i).Load(); applied < before[i] {
							t.Errorf("thread %d went back from %d to %d", i, before[i], applied)
						}
					}
				}
			})
		}
		wg.Wait()
		l.end()
		// The drain: nothing comes any more, everything is applied.
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		var want, applied uint64
		for i, slot := range slots {
			want += uint64(l.pushed[i])
			if n, ok := p.Residents().Count(slot); !ok || n != uint64(l.pushed[i]) {
				t.Errorf("slot %d has %d blocks (%v), want %d", slot, n, ok, l.pushed[i])
			}
		}
		blocked := uint64(0)
		for i, s := range p.Stats() {
			if s.Applied != s.Accepted || s.Dropped != 0 || s.QueueHighWater > uint64(p.QueueCapacity()) {
				t.Errorf("thread %d: %+v after the drain", i, s)
			}
			applied += s.Applied
			blocked += s.Blocked
		}
		if applied != want {
			t.Errorf("%d events applied, want %d", applied, want)
		}
		if blocked == 0 {
			t.Error("no push met a full queue; the load was none")
		}
		if err := errors.Join(l.errs...); err != nil {
			t.Error(err)
		}
	})
}

// TestMembershipUnderLoad adds and removes other ranks, and at last removes the
// ranks that events keep coming for.
func TestMembershipUnderLoad(t *testing.T) {
	underLoad(t, nil, func(t *testing.T, p *Pool, slots []Slot, l *load) {
		ctx := testContext(t)
		var wg sync.WaitGroup
		for k := range 2 {
			wg.Go(func() {
				for i := range 10 {
					batch := []Rank{{Worker: uint64(1000*(k+1) + i)}, {Worker: uint64(1000*(k+1) + i), DP: 1}}
					if _, err := p.Register(ctx, batch); err != nil {
						t.Error(err)
						return
					}
					if err := p.Unregister(ctx, batch...); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		for k := range slots {
			if err := p.Unregister(ctx, Rank{Worker: uint64(k)}); err != nil {
				t.Fatal(err)
			}
			if _, ok := p.Residents().Count(slots[k]); ok {
				t.Errorf("slot %d has a count after its rank was removed", slots[k])
			}
		}
		l.wg.Wait() // each producer meets a slot of nobody and stops
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		for i, err := range l.errs {
			if err == nil || errors.Is(err, ErrThreadEnded) {
				t.Errorf("producer %d ended with %v, want a slot of nobody", i, err)
			}
		}
		for i, s := range p.Stats() {
			if s.Ranks != 0 || s.Applied != s.Accepted || s.Ended {
				t.Errorf("thread %d: %+v", i, s)
			}
		}
	})
}

// TestCloseUnderLoad closes from two goroutines while others wait and push: all
// of them come back.
func TestCloseUnderLoad(t *testing.T) {
	underLoad(t, nil, func(t *testing.T, p *Pool, slots []Slot, l *load) {
		ctx := testContext(t)
		var wg sync.WaitGroup
		for name, call := range otherCalls(p) {
			wg.Go(func() {
				for err := error(nil); err == nil; {
					if err = call(ctx); err != nil && !errors.Is(err, ErrThreadEnded) {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				if err := p.Close(ctx); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		wg.Wait()
		l.wg.Wait() // the producers stop by themselves: every slot's thread has ended
		for k, err := range l.errs {
			if !errors.Is(err, ErrThreadEnded) {
				t.Errorf("producer %d: %v", k, err)
			}
		}
		for _, slot := range slots {
			if _, ok := p.Residents().Count(slot); ok {
				t.Errorf("slot %d has a count after the end", slot)
			}
		}
	})
}

// TestPanicUnderLoad lets one thread of three panic: all calls return, its
// producers are told, and the two others apply everything.
func TestPanicUnderLoad(t *testing.T) {
	panicOn := func(ev *Event) any {
		if ev.Slot == 4 && ev.ID == 700 {
			return fmt.Errorf("page of slot %d is gone", ev.Slot)
		}
		return nil
	}
	underLoad(t, panicOn, func(t *testing.T, p *Pool, slots []Slot, l *load) {
		ctx := testContext(t)
		var wg sync.WaitGroup
		for name, call := range otherCalls(p) {
			wg.Go(func() {
				for err := error(nil); err == nil; {
					if err = call(ctx); err != nil && !errors.Is(err, ErrThreadEnded) {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		<-p.Ended(1) // slot 4 is on thread 1
		wg.Wait()
		l.end()
		if err := p.Flush(ctx); !errors.Is(err, ErrThreadEnded) {
			t.Errorf("flush: %v", err)
		}
		for i, slot := range slots {
			n, ok := p.Residents().Count(slot)
			if p.ThreadOf(slot) == 1 {
				if ok {
					t.Errorf("slot %d of the ended thread has a count", slot)
				}
				continue
			}
			if !ok || n != uint64(l.pushed[i]) {
				t.Errorf("slot %d has %d blocks (%v), want %d", slot, n, ok, l.pushed[i])
			}
		}
		for i, s := range p.Stats() {
			if s.Ended != (i == 1) || s.Applied > s.Accepted || i != 1 && s.Applied != s.Accepted {
				t.Errorf("thread %d: %+v", i, s)
			}
		}
	})
}

// otherCalls are the calls that wait for every thread.
func otherCalls(p *Pool) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"flush":   p.Flush,
		"track":   p.TrackResidentBlocks,
		"effects": func(ctx context.Context) error { _, err := p.Effects(ctx); return err },
	}
}

// TestPauseUnderLoad reads, without any lock, what only the event threads may
// write: under the race detector that fails unless all of them stand still.
func TestPauseUnderLoad(t *testing.T) {
	underLoad(t, nil, func(t *testing.T, p *Pool, slots []Slot, _ *load) {
		x := p.cfg.Index.(*fakeIndex)
		ctx := testContext(t)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range 5 {
					pushed := uint64(0)
					for i := range 3 {
						applied, _ := p.Progress(i).Load()
						pushed += applied
					}
					inside := 0
					if err := p.Pause(ctx, func() {
						for _, slot := range slots {
							inside += x.slots[slot].blocks
						}
					}); err != nil {
						t.Error(err)
					}
					if uint64(inside) < pushed {
						t.Errorf("%d events in the index, %d were applied before", inside, pushed)
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestPauseEnds has a thread that does not come, and one that has ended.
func TestPauseEnds(t *testing.T) {
	x := &fakeIndex{block: make(chan struct{}), panicOn: func(*Event) any { return "index is broken" }}
	p := newTestPool(t, PoolConfig{Index: x, Threads: 2, QueueCapacity: 4})
	slot := mustRegister(t, p, ranks(1))[0]
	if err := p.Producer(0).Push(slot, 0); err != nil {
		t.Fatal(err)
	}
	p.Producer(0).Publish()
	x.awaitInside()
	never := func() { t.Error("f ran though not all threads stood still") }
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := p.Pause(ctx, never); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want a deadline exceeded", err)
	}
	close(x.block)
	if err := p.Pause(testContext(t), never); !errors.Is(err, ErrThreadEnded) {
		t.Errorf("%v, want ErrThreadEnded", err)
	}
	// The other thread goes on.
	other := mustRegister(t, p, []Rank{{Worker: 5}})[0]
	if p.ThreadOf(other) != 1 {
		t.Errorf("thread %d", p.ThreadOf(other))
	}
}
