package indexer

import (
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/kvbench/kvbench/internal/idle"
)

// TestProgressWhileEventsFlow reads the progress of every thread from two
// goroutines while three producers meet full queues.
func TestProgressWhileEventsFlow(t *testing.T) {
	const threads, producers, perRank = 2, 3, 600
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, Threads: threads, Producers: producers, QueueCapacity: 32})
	slots := mustRegister(t, p, ranks(12))
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var lastApplied, lastAccepted [threads]uint64
			for {
				for i := range threads {
					applied, accepted := p.Progress(i).Load()
					if applied > accepted || applied < lastApplied[i] || accepted < lastAccepted[i] {
						t.Errorf("thread %d: %d of %d applied after %d of %d", i, applied, accepted, lastApplied[i], lastAccepted[i])
						return
					}
					lastApplied[i], lastAccepted[i] = applied, accepted
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for k := range producers {
		writers.Go(func() {
			pr := p.Producer(k)
			for id := range uint32(perRank) {
				for _, slot := range slots {
					if int(slot)%producers != k {
						continue
					}
					if err := pr.Push(slot, id); err != nil {
						t.Error(err)
						return
					}
				}
				if id%5 == 0 {
					pr.Publish()
				}
			}
			pr.Publish()
		})
	}
	writers.Wait()
	if err := p.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	close(stop)
	readers.Wait()
	for i := range threads {
		want := uint64(len(slots) / threads * perRank)
		if applied, accepted := p.Progress(i).Load(); applied != want || accepted != want || p.Progress(i).Backlog() != 0 {
			t.Errorf("thread %d: %d of %d applied after a flush, want %d", i, applied, accepted, want)
		}
	}
}

// TestProgressIsASequenceNumber holds one event back and then looks for it: with
// one producer, event n is in the index once applied ≥ n.
func TestProgressIsASequenceNumber(t *testing.T) {
	x := &fakeIndex{block: make(chan struct{})}
	p := newTestPool(t, PoolConfig{Index: x, QueueCapacity: 256})
	slot := mustRegister(t, p, ranks(1))[0]
	if err := p.TrackResidentBlocks(testContext(t)); err != nil {
		t.Fatal(err)
	}
	progress, table := p.Progress(0), p.Residents()
	const events = 200
	for id := range uint32(events) {
		if err := p.Producer(0).Push(slot, id); err != nil {
			t.Fatal(err)
		}
	}
	if applied, accepted := progress.Load(); applied != 0 || accepted != 0 {
		t.Errorf("%d of %d applied before anything was published", applied, accepted)
	}
	p.Producer(0).Publish()
	x.awaitInside()
	if applied, accepted := progress.Load(); applied != 0 || accepted != events || progress.Backlog() != events {
		t.Errorf("%d of %d applied, want 0 of %d: the first event is held back", applied, accepted, events)
	}
	close(x.block)
	for applied := uint64(0); applied < events; {
		applied, _ = progress.Load()
		if n, _ := table.Count(slot); n < applied {
			t.Fatalf("%d events applied, the count shows %d", applied, n)
		}
	}
}

// TestProgressOutlivesTheThread keeps a handle beyond a panic and the pool's end.
func TestProgressOutlivesTheThread(t *testing.T) {
	x := &fakeIndex{panicOn: func(ev *Event) any {
		if ev.ID == 70 {
			return "index is broken"
		}
		return nil
	}}
	p := newTestPool(t, PoolConfig{Index: x, QueueCapacity: 256})
	slot := mustRegister(t, p, ranks(1))[0]
	progress := p.Progress(0)
	for id := range uint32(100) {
		if err := p.Producer(0).Push(slot, id); err != nil {
			t.Fatal(err)
		}
	}
	p.Producer(0).Publish()
	<-p.Ended(0)
	_ = p.Close(testContext(t))
	// Exactly, though the panic came in the middle of the second batch.
	if applied, accepted := progress.Load(); applied != 70 || accepted != 100 {
		t.Errorf("%d of %d applied, want 70 of 100", applied, accepted)
	}
	before := p.Stats()[0].Busy
	time.Sleep(2 * time.Millisecond)
	if after := p.Stats()[0].Busy; after != before || before <= 0 {
		t.Errorf("an ended thread is busy: %v, then %v", before, after)
	}
}

func TestProgressLines(t *testing.T) {
	th := newEventThread(&Pool{}, 0)
	line := func(a uintptr) uintptr { return a / idle.CacheLine }
	accepted, applied := uintptr(unsafe.Pointer(&th.progress.accepted)), uintptr(unsafe.Pointer(&th.progress.applied))
	if line(accepted) == line(applied) {
		t.Error("producers and the event thread write to one line")
	}
	begin := uintptr(unsafe.Pointer(&th.progress))
	end := begin + unsafe.Sizeof(th.progress)
	for name, a := range map[string]uintptr{"accepted": accepted, "applied": applied} {
		if line(a) == line(begin-1) || line(a) == line(end) {
			t.Errorf("%s shares its line with other fields of the thread", name)
		}
	}
}

// TestBusy lets the thread work for a time that is known from below and then
// wait.
func TestBusy(t *testing.T) {
	x := &fakeIndex{block: make(chan struct{})}
	p := newTestPool(t, PoolConfig{Index: x, QueueCapacity: 256})
	began := time.Now()
	slot := mustRegister(t, p, ranks(1))[0]
	if busy := p.Stats()[0].Busy; busy != 0 {
		t.Errorf("busy for %v without an event", busy)
	}
	for id := range uint32(100) {
		if err := p.Producer(0).Push(slot, id); err != nil {
			t.Fatal(err)
		}
	}
	p.Producer(0).Publish()
	x.awaitInside()
	// While the thread is inside an event, its time counts up to now.
	const rest = 3 * time.Millisecond
	before := p.Stats()[0].Busy
	time.Sleep(rest)
	if after := p.Stats()[0].Busy; after-before < rest {
		t.Errorf("busy for %v, then %v after %v inside an event", before, after, rest)
	}
	close(x.block)
	if err := p.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	// The thread goes to wait right after the flush.
	for p.threads[0].progress.busy.Load() < 0 {
		time.Sleep(10 * time.Microsecond)
	}
	before = p.Stats()[0].Busy
	time.Sleep(rest)
	after := p.Stats()[0].Busy
	if after != before {
		t.Errorf("a waiting thread is busy: %v, then %v", before, after)
	}
	if wall := time.Since(began); after < rest || after > wall {
		t.Errorf("busy for %v of %v", after, wall)
	}
}

// TestBusyAtAnyTime reads while the thread goes from waiting to applying and
// back as often as it can.
func TestBusyAtAnyTime(t *testing.T) {
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, QueueCapacity: 256})
	slot := mustRegister(t, p, ranks(1))[0]
	began := p.began
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			busy := p.Stats()[0].Busy
			if wall := time.Since(began) + 1; busy < 0 || busy > wall {
				t.Errorf("busy for %v in %v", busy, wall)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for id := range uint32(2000) {
		if err := p.Producer(0).Push(slot, id); err != nil {
			t.Fatal(err)
		}
		p.Producer(0).Publish()
		if id%3 == 0 {
			if err := p.Flush(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
}

// acceptedObserver looks, when an event was applied, whether it was counted as
// accepted before.
type acceptedObserver struct {
	pool  *Pool
	count uint64
	late  uint64 // events that were not
}

func (o *acceptedObserver) Applied(int, uint32, Slot, *Effect) {
	o.count++
	if _, accepted := o.pool.Progress(0).Load(); accepted < o.count {
		o.late++
	}
}

// TestAcceptedBeforeApplied publishes events one by one to a thread that waits
// for each, so that it takes them as soon as it can.
func TestAcceptedBeforeApplied(t *testing.T) {
	idleModes(t, func(t *testing.T, mode IdleMode) {
		o := &acceptedObserver{}
		p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, QueueCapacity: 1 << 12, Observer: o, Idle: mode})
		o.pool = p
		slot := mustRegister(t, p, ranks(1))[0]
		for id := range uint32(60000) {
			if err := p.Producer(0).Push(slot, id); err != nil {
				t.Fatal(err)
			}
			p.Producer(0).Publish()
		}
		if err := p.Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if o.count != 60000 || o.late != 0 {
			t.Errorf("%d of %d events were applied before they were accepted", o.late, o.count)
		}
	})
}
