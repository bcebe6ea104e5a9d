package indexer

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPanicEndsOneThreadAndNoCallHangs lets one of two threads panic in the
// middle of its events while every kind of call is made.
func TestPanicEndsOneThreadAndNoCallHangs(t *testing.T) {
	idleModes(t, func(t *testing.T, mode IdleMode) {
		const dieAt = 500
		x := &fakeIndex{panicOn: func(ev *Event) any {
			if ev.Slot%2 == 0 && ev.ID == dieAt {
				return "index is broken"
			}
			return nil
		}}
		p := newTestPool(t, PoolConfig{Index: x, Threads: 2, Producers: 2, QueueCapacity: 8, Idle: mode})
		slots := mustRegister(t, p, ranks(2))
		ctx := testContext(t)
		if err := p.TrackResidentBlocks(ctx); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		calls := map[string]func() error{
			"flush":   func() error { return p.Flush(ctx) },
			"track":   func() error { return p.TrackResidentBlocks(ctx) },
			"effects": func() error { _, err := p.Effects(ctx); return err },
		}
		for name, call := range calls {
			wg.Go(func() {
				for {
					if err := call(); err != nil {
						if !errors.Is(err, ErrThreadEnded) {
							t.Errorf("%s: %v, want ErrThreadEnded", name, err)
						}
						return
					}
				}
			})
		}
		for i := range 2 {
			wg.Go(func() {
				pr := p.Producer(i)
				for id := uint32(0); ; id++ {
					err := pr.Push(slots[i], id)
					pr.Publish()
					if i == 1 && id == 3000 {
						return
					}
					if err != nil {
						if i != 0 || !errors.Is(err, ErrThreadEnded) {
							t.Errorf("producer %d: %v", i, err)
						}
						return
					}
				}
			})
		}
		wg.Wait()
		<-p.Ended(0)
		if err := p.Err(); err == nil || !errors.Is(p.Flush(ctx), ErrThreadEnded) {
			t.Errorf("Err is %v after a panic", err)
		}
		if _, ok := p.Residents().Count(slots[0]); ok {
			t.Error("a rank of the ended thread still has a count")
		}
		if n, ok := p.Residents().Count(slots[1]); !ok || n != 3001 {
			t.Errorf("the rank of the other thread has %d blocks (%v), want 3001", n, ok)
		}
		effects, _ := p.Effects(ctx)
		if effects[slots[0]].Events != dieAt || effects[slots[1]].Events != 3001 {
			t.Errorf("effects %+v, want %d and 3001 events", effects, dieAt)
		}
		if !p.Stats()[0].Ended || p.Stats()[1].Ended {
			t.Errorf("stats %+v: only thread 0 has ended", p.Stats())
		}
		// A new rank goes to the thread that is left, a rank of the ended one
		// can be removed from the books without hanging.
		more := mustRegister(t, p, []Rank{{Worker: 77}})
		if p.ThreadOf(more[0]) != 1 {
			t.Errorf("a new rank went to thread %d", p.ThreadOf(more[0]))
		}
		if err := p.Unregister(ctx, ranks(1)[0]); !errors.Is(err, ErrThreadEnded) {
			t.Errorf("unregister: %v, want ErrThreadEnded", err)
		}
		if err := p.Close(ctx); err == nil {
			t.Error("close says nothing of the panic")
		}
		x.faults.report(t)
	})
}

// TestEveryCallReturnsWhenTheThreadPanics makes each call wait for a thread that
// then panics, and makes it again afterwards.
func TestEveryCallReturnsWhenTheThreadPanics(t *testing.T) {
	cause := errors.New("a page of the index is gone")
	calls := map[string]func(ctx context.Context, p *Pool) error{
		"flush":      func(ctx context.Context, p *Pool) error { return p.Flush(ctx) },
		"track":      func(ctx context.Context, p *Pool) error { return p.TrackResidentBlocks(ctx) },
		"register":   func(ctx context.Context, p *Pool) error { _, err := p.Register(ctx, []Rank{{Worker: 9}}); return err },
		"unregister": func(ctx context.Context, p *Pool) error { return p.Unregister(ctx, ranks(1)[0]) },
		"effects":    func(ctx context.Context, p *Pool) error { _, err := p.Effects(ctx); return err },
		"close":      func(ctx context.Context, p *Pool) error { return p.Close(ctx) },
		"push": func(_ context.Context, p *Pool) error {
			for id := uint32(1); ; id++ {
				if err := p.Producer(0).Push(0, id); err != nil {
					return err
				}
			}
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			idleModes(t, func(t *testing.T, mode IdleMode) {
				x := &fakeIndex{block: make(chan struct{}), panicOn: func(*Event) any { return cause }}
				p := newTestPool(t, PoolConfig{Index: x, QueueCapacity: 4, Idle: mode})
				ctx := testContext(t)
				slot := mustRegister(t, p, ranks(1))[0]
				if err := p.Producer(0).Push(slot, 0); err != nil {
					t.Fatal(err)
				}
				p.Producer(0).Publish()
				x.awaitInside()
				done := make(chan error, 1)
				go func() { done <- call(ctx, p) }()
				th := p.threads[0]
				for waiting := false; !waiting; time.Sleep(50 * time.Microsecond) {
					th.mu.Lock()
					waiting = len(th.tasks) > 0
					th.mu.Unlock()
					waiting = waiting || p.Stats()[0].Blocked > 0
				}
				select {
				case err := <-done:
					t.Fatalf("returned %v without waiting", err)
				default:
				}
				close(x.block)
				err := <-done
				if name == "close" {
					// Close did what it was asked to and says what went wrong.
					if !errors.Is(err, cause) {
						t.Errorf("%v, want the panic", err)
					}
				} else if !errors.Is(err, ErrThreadEnded) || !errors.Is(err, cause) || !strings.Contains(err.Error(), "event thread 0") {
					t.Errorf("%v, want ErrThreadEnded, the thread and the panic", err)
				}
				if name == "unregister" {
					return // the rank is gone, so asking again is another error
				}
				if again := call(ctx, p); !errors.Is(again, cause) {
					t.Errorf("called again: %v, want the panic", again)
				}
			})
		})
	}
}

// hookSource and hookObserver call something before each event and after it.
type hookSource struct{ hook func() }

func (s hookSource) Event(id uint32, ev *Event) {
	s.hook()
	*ev = Event{ID: uint64(id), Kind: Stored}
}

type hookObserver struct{ hook func() }

func (o hookObserver) Applied(int, uint32, Slot, *Effect) { o.hook() }

// TestEndsThatAreNotTheIndexs ends a thread from the source and the observer, by
// panic and by runtime.Goexit.
func TestEndsThatAreNotTheIndexs(t *testing.T) {
	thirdTime := func(do func()) func() {
		n := 0
		return func() {
			if n++; n == 3 {
				do()
			}
		}
	}
	explode := func() { panic("boom") }
	none := func() {}
	for name, test := range map[string]struct {
		source, observer func()
		says             string
		events           uint64
	}{
		"source panics":   {thirdTime(explode), none, "boom", 2},
		"observer panics": {none, thirdTime(explode), "boom", 3},
		"source exits":    {thirdTime(runtime.Goexit), none, "made to exit", 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, QueueCapacity: 16, Source: hookSource{test.source}, Observer: hookObserver{test.observer}})
			ctx := testContext(t)
			slot := mustRegister(t, p, ranks(1))[0]
			if err := p.TrackResidentBlocks(ctx); err != nil {
				t.Fatal(err)
			}
			for id := range uint32(8) {
				if err := p.Producer(0).Push(slot, id); err != nil {
					t.Fatal(err)
				}
			}
			p.Producer(0).Publish()
			<-p.Ended(0)
			if err := p.Err(); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Err is %v, want %q", err, test.says)
			}
			if test.says == "boom" && !strings.Contains(p.Err().Error(), "TestEndsThatAreNotTheIndexs") {
				t.Errorf("the stack does not show who panicked: %v", p.Err())
			}
			effects, err := p.Effects(ctx)
			if !errors.Is(err, ErrThreadEnded) || effects[slot].Events != test.events {
				t.Errorf("effects %+v (%v), want %d events", effects[slot], err, test.events)
			}
			if s := p.Stats()[0]; s.Applied != 2 || s.Accepted != 8 || !s.Ended || s.Err == nil {
				t.Errorf("stats %+v, want 2 of 8 applied and the end", s)
			}
			if _, ok := p.Residents().Count(slot); ok {
				t.Error("the rank still has a count")
			}
			if _, err := p.Register(ctx, ranks(2)); !errors.Is(err, ErrThreadEnded) {
				t.Errorf("register without a thread: %v", err)
			}
		})
	}
}
