package indexer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fakeIndex counts: each event adds one block to its slot, a Cleared event
// empties it. It checks what a pool owes an index: one thread for a slot, events
// in order, no call for a slot that is not attached.
type fakeIndex struct {
	slots   [MaxRanks]fakeSlot
	block   chan struct{}             // if set, Apply waits for it
	panicOn func(ev *Event) (bad any) // if set, Apply panics with what it returns
	inside  atomic.Int64              // calls of Apply that came as far as waiting for block
	parked  atomic.Int64
	faults  faults
}

type fakeSlot struct {
	owner  atomic.Int32 // thread+1, 0: nobody
	blocks int
	next   uint64
}

// faults collects violations from threads that must not call t.Fatal.
type faults struct {
	mu   sync.Mutex
	list []string
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) < 10 {
		f.list = append(f.list, fmt.Sprintf(format, args...))
	}
}

func (f *faults) report(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.list {
		t.Error(s)
	}
}

type fakeWriter struct {
	x      *fakeIndex
	thread int32
}

func (x *fakeIndex) Writer(i int) Writer { return &fakeWriter{x, int32(i) + 1} }
func (x *fakeIndex) Reader() Reader      { return nil }
func (x *fakeIndex) Check() error        { return nil }
func (x *fakeIndex) Close() error        { return nil }

func (w *fakeWriter) Attach(slot Slot) {
	s := &w.x.slots[slot]
	if !s.owner.CompareAndSwap(0, w.thread) {
		w.x.faults.add("slot %d attached twice", slot)
	}
	s.blocks, s.next = 0, 0
}

func (w *fakeWriter) Detach(slot Slot) {
	if !w.x.slots[slot].owner.CompareAndSwap(w.thread, 0) {
		w.x.faults.add("slot %d detached by a thread that does not own it", slot)
	}
}

func (w *fakeWriter) Apply(ev *Event) Effect {
	x := w.x
	if x.block != nil {
		x.inside.Add(1)
		<-x.block
	}
	if x.panicOn != nil {
		if bad := x.panicOn(ev); bad != nil {
			panic(bad)
		}
	}
	s := &x.slots[ev.Slot]
	if s.owner.Load() != w.thread {
		x.faults.add("slot %d: event %d on thread %d, owner %d", ev.Slot, ev.ID, w.thread, s.owner.Load())
	}
	if ev.ID != s.next {
		x.faults.add("slot %d: event %d came, %d was due", ev.Slot, ev.ID, s.next)
	}
	s.next = ev.ID + 1
	if ev.Kind == Cleared {
		n := s.blocks
		s.blocks = 0
		return Effect{ClearedBlocks: uint32(n)}
	}
	s.blocks++
	return Effect{Stored: 1, Duplicate: uint32(ev.ID % 2)}
}

func (w *fakeWriter) Blocks(slot Slot) int { return w.x.slots[slot].blocks }
func (w *fakeWriter) Park()                { w.x.parked.Add(1) }

// fakeSource numbers the events of a rank by the id's low bits.
type fakeSource struct{ cleared func(id uint32) bool }

func (s fakeSource) Event(id uint32, ev *Event) {
	*ev = Event{ID: uint64(id), Kind: Stored}
	if s.cleared != nil && s.cleared(id) {
		ev.Kind = Cleared
	}
}

type countingObserver struct{ applied []atomic.Int64 }

func (o *countingObserver) Applied(thread int, _ uint32, _ Slot, _ *Effect) { o.applied[thread].Add(1) }

// awaitInside waits until an event thread waits inside Apply. Before that a task
// might still be done.
func (x *fakeIndex) awaitInside() {
	for x.inside.Load() == 0 {
		time.Sleep(20 * time.Microsecond)
	}
}

func newTestPool(t *testing.T, cfg PoolConfig) *Pool {
	t.Helper()
	if cfg.Source == nil {
		cfg.Source = fakeSource{}
	}
	cfg.Threads, cfg.Producers = max(1, cfg.Threads), max(1, cfg.Producers)
	cfg.QueueCapacity = max(1, cfg.QueueCapacity)
	p, err := NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(testContext(t)); err != nil && p.Err() == nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// testContext ends long after anything that works has ended.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func ranks(n int) []Rank {
	out := make([]Rank, n)
	for i := range out {
		out[i] = Rank{Worker: uint64(i / 2), DP: uint32(i % 2)}
	}
	return out
}

func mustRegister(t *testing.T, p *Pool, ranks []Rank) []Slot {
	t.Helper()
	slots, err := p.Register(testContext(t), ranks)
	if err != nil {
		t.Fatal(err)
	}
	return slots
}

func idleModes(t *testing.T, test func(t *testing.T, mode IdleMode)) {
	t.Run("yield", func(t *testing.T) { test(t, IdleYield) })
	t.Run("spin", func(t *testing.T) {
		// A spinning thread keeps its P.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
		test(t, IdleSpin)
	})
}

func TestEventsOfARankAreAppliedOnceAndInOrder(t *testing.T) {
	idleModes(t, func(t *testing.T, mode IdleMode) {
		const producers, threads = 3, 2
		perRank := uint32(400)
		if mode == IdleSpin {
			// More spinning threads than CPUs wait whole time slices for one another.
			perRank = 40
		}
		x := &fakeIndex{}
		o := &countingObserver{applied: make([]atomic.Int64, threads)}
		p := newTestPool(t, PoolConfig{Index: x, Threads: threads, Producers: producers, QueueCapacity: 3, Observer: o, Idle: mode})
		slots := mustRegister(t, p, ranks(12))
		var wg sync.WaitGroup
		for i := range producers {
			wg.Go(func() {
				pr := p.Producer(i)
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				for id := range perRank {
					for _, slot := range slots {
						if int(slot)%producers != i {
							continue
						}
						if err := pr.Push(slot, id); err != nil {
							t.Error(err)
							return
						}
						if rng.IntN(3) == 0 {
							pr.Publish()
						}
					}
				}
				pr.Publish()
			})
		}
		wg.Wait()
		if err := p.Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
		for _, slot := range slots {
			if n := x.slots[slot].next; n != uint64(perRank) {
				t.Errorf("slot %d: %d events applied, want %d", slot, n, perRank)
			}
		}
		x.faults.report(t)
		total := len(slots) * int(perRank)
		if n := o.applied[0].Load() + o.applied[1].Load(); n != int64(total) {
			t.Errorf("the observer saw %d events, want %d", n, total)
		}
		effects, err := p.Effects(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, slot := range slots {
			want := EffectTotals{Events: uint64(perRank), Stored: uint64(perRank), Duplicate: uint64(perRank / 2)}
			if effects[slot] != want {
				t.Errorf("slot %d: effects %+v, want %+v", slot, effects[slot], want)
			}
		}
		var blocked uint64
		for i, s := range p.Stats() {
			if s.Accepted != s.Applied || s.Accepted != uint64(total/threads) {
				t.Errorf("thread %d: accepted %d, applied %d, want %d", i, s.Accepted, s.Applied, total/threads)
			}
			if s.QueueHighWater < 1 || s.QueueHighWater > 4 {
				t.Errorf("thread %d: high water %d, the queue has room for 4", i, s.QueueHighWater)
			}
			blocked += s.Blocked
		}
		if blocked == 0 {
			t.Error("no push met a full queue of 4")
		}
	})
}

// TestFlushIsABarrier flushes after each publication and looks at once.
func TestFlushIsABarrier(t *testing.T) {
	idleModes(t, func(t *testing.T, mode IdleMode) {
		x := &fakeIndex{}
		p := newTestPool(t, PoolConfig{Index: x, Threads: 2, QueueCapacity: 1024, Idle: mode})
		slots := mustRegister(t, p, ranks(4))
		pr := p.Producer(0)
		// Several batches at a time.
		const each = 2 * drainBatch
		for round := range uint32(50) {
			for id := round * each; id < (round+1)*each; id++ {
				for _, slot := range slots {
					if err := pr.Push(slot, id); err != nil {
						t.Fatal(err)
					}
				}
			}
			pr.Publish()
			if err := p.Flush(testContext(t)); err != nil {
				t.Fatal(err)
			}
			for _, slot := range slots {
				// Ordered by Flush: the race detector would object otherwise.
				if n := x.slots[slot].next; n != uint64(round+1)*each {
					t.Fatalf("after a flush slot %d has %d events, want %d", slot, n, (round+1)*each)
				}
			}
		}
	})
}

func TestParkedThreadWakesUp(t *testing.T) {
	x := &fakeIndex{}
	p := newTestPool(t, PoolConfig{Index: x, QueueCapacity: 4})
	slot := mustRegister(t, p, ranks(1))[0]
	seen := int64(0)
	for id := range uint32(50) {
		for x.parked.Load() == seen {
			time.Sleep(10 * time.Microsecond)
		}
		seen = x.parked.Load()
		if err := p.Producer(0).Push(slot, id); err != nil {
			t.Fatal(err)
		}
		p.Producer(0).Publish()
		if err := p.Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCloseAppliesWhatWasPublished(t *testing.T) {
	x := &fakeIndex{}
	p := newTestPool(t, PoolConfig{Index: x, Threads: 2, QueueCapacity: 1024})
	slots := mustRegister(t, p, ranks(2))
	for id := range uint32(1000) {
		for _, slot := range slots {
			if err := p.Producer(0).Push(slot, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.Producer(0).Publish()
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for _, slot := range slots {
		if n := x.slots[slot].next; n != 1000 {
			t.Errorf("slot %d: %d events, want 1000", slot, n)
		}
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Errorf("second close: %v", err)
	}
	if err := p.Flush(testContext(t)); !errors.Is(err, ErrThreadEnded) {
		t.Errorf("flush after close: %v, want ErrThreadEnded", err)
	}
	if err := p.Producer(0).Push(slots[0], 0); !errors.Is(err, ErrThreadEnded) {
		t.Errorf("push after close: %v, want ErrThreadEnded", err)
	}
}

// TestCallsHonourTheirContext blocks the only event thread inside an event.
func TestCallsHonourTheirContext(t *testing.T) {
	x := &fakeIndex{block: make(chan struct{})}
	p := newTestPool(t, PoolConfig{Index: x, QueueCapacity: 4})
	slot := mustRegister(t, p, ranks(1))[0]
	if err := p.Producer(0).Push(slot, 0); err != nil {
		t.Fatal(err)
	}
	p.Producer(0).Publish()
	x.awaitInside()
	for name, call := range map[string]func(ctx context.Context) error{
		"flush":      p.Flush,
		"track":      p.TrackResidentBlocks,
		"register":   func(ctx context.Context) error { _, err := p.Register(ctx, []Rank{{Worker: 9}}); return err },
		"unregister": func(ctx context.Context) error { return p.Unregister(ctx, ranks(1)[0]) },
		"effects":    func(ctx context.Context) error { _, err := p.Effects(ctx); return err },
		"close":      p.Close,
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want a deadline exceeded", name, err)
		}
		cancel()
	}
	close(x.block)
}

func TestPushToNobody(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}})
	slot := mustRegister(t, p, ranks(1))[0]
	if err := p.Producer(0).Push(slot+1, 0); err == nil {
		t.Error("a slot of nobody was accepted")
	}
	if err := p.Unregister(testContext(t), ranks(1)[0]); err != nil {
		t.Fatal(err)
	}
	if err := p.Producer(0).Push(slot, 0); err == nil {
		t.Error("a slot that was given up was accepted")
	}
}

func TestOnThread(t *testing.T) {
	var ended atomic.Int32
	_, err := NewPool(PoolConfig{Index: &fakeIndex{}, Source: fakeSource{}, Threads: 3, Producers: 1, QueueCapacity: 1,
		OnThread: func(i int) (func(), error) {
			if i == 1 {
				return nil, errors.New("CPU 7 does not exist")
			}
			return func() { ended.Add(1) }, nil
		}})
	if err == nil || !strings.Contains(err.Error(), "event thread 1: CPU 7") || ended.Load() != 2 {
		t.Errorf("error %v, %d threads ended orderly; want the thread's error and 2", err, ended.Load())
	}
	_, err = NewPool(PoolConfig{Index: &fakeIndex{}, Source: fakeSource{}, Threads: 1, Producers: 1, QueueCapacity: 1,
		OnThread: func(int) (func(), error) { panic("in the hook") }})
	if err == nil {
		t.Error("a panic in the hook was not reported")
	}
}

func TestNewPoolRefuses(t *testing.T) {
	good := PoolConfig{Index: &fakeIndex{}, Source: fakeSource{}, Threads: 1, Producers: 1, QueueCapacity: 1}
	for name, change := range map[string]func(*PoolConfig){
		"no index":     func(c *PoolConfig) { c.Index = nil },
		"no source":    func(c *PoolConfig) { c.Source = nil },
		"no threads":   func(c *PoolConfig) { c.Threads = 0 },
		"many threads": func(c *PoolConfig) { c.Threads = 1 << 20 },
		"no producers": func(c *PoolConfig) { c.Producers = -1 },
		"no capacity":  func(c *PoolConfig) { c.QueueCapacity = 0 },
		"huge":         func(c *PoolConfig) { c.QueueCapacity = 1 << 40 },
	} {
		cfg := good
		change(&cfg)
		if p, err := NewPool(cfg); err == nil {
			t.Errorf("%s: accepted", name)
			_ = p.Close(testContext(t))
		}
	}
}

func TestEventPathDoesNotAllocate(t *testing.T) {
	x := &fakeIndex{}
	o := &countingObserver{applied: make([]atomic.Int64, 1)}
	p := newTestPool(t, PoolConfig{Index: x, QueueCapacity: 64, Observer: o})
	slots := mustRegister(t, p, ranks(4))
	if err := p.TrackResidentBlocks(testContext(t)); err != nil {
		t.Fatal(err)
	}
	pr := p.Producer(0)
	id := uint32(0)
	round := func() {
		for range 100 {
			for _, slot := range slots {
				if err := pr.Push(slot, id); err != nil {
					t.Error(err)
				}
			}
			id++
			pr.Publish()
		}
		for o.applied[0].Load() != int64(id)*int64(len(slots)) {
			runtime.Gosched()
		}
		p.Residents().Sum()
	}
	if n := testing.AllocsPerRun(20, round); n > 0 {
		t.Errorf("400 events allocate %v objects", n)
	}
}

func BenchmarkPoolPush(b *testing.B) {
	for _, mode := range []struct {
		name string
		mode IdleMode
	}{{"yield", IdleYield}, {"spin", IdleSpin}} {
		b.Run(mode.name, func(b *testing.B) {
			p, err := NewPool(PoolConfig{Index: &fakeIndex{}, Source: fakeSource{}, Threads: 1, Producers: 1, QueueCapacity: 1 << 16, Idle: mode.mode})
			if err != nil {
				b.Fatal(err)
			}
			slots, err := p.Register(context.Background(), ranks(128))
			if err != nil {
				b.Fatal(err)
			}
			pr := p.Producer(0)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := pr.Push(slots[i%128], uint32(i/128)); err != nil {
					b.Fatal(err)
				}
				if i%64 == 63 {
					pr.Publish()
				}
			}
			pr.Publish()
			if err := p.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
