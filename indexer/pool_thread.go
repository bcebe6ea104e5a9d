package indexer

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/kvbench/kvbench/internal/idle"
)

// drainBatch bounds how many events of one ring are applied before the other
// rings and the tasks have a turn, and so how late the applied position is.
const drainBatch = 64

// eventThread applies the events of its ranks.
type eventThread struct {
	number    int
	pool      *Pool
	source    Source
	observer  Observer // may be nil
	writer    Writer
	reachable ReachableCounter // the writer, nil if it cannot say
	rings     []*ring          // one for each producer

	// The thread's own.
	event    Event
	effect   Effect
	local    []int32 // by slot: position in ranks, -1: not attached
	ranks    []threadRank
	freeRank []int32
	counters counterSource
	tracking bool
	quit     bool
	busy     bool   // between beginBusy and endBusy
	done     uint64 // events taken from all rings

	_       [idle.CacheLine]byte
	dead    atomic.Bool // it takes nothing any more
	dropped atomic.Uint64
	pending atomic.Bool // tasks is not empty
	parker  idle.Parker
	_       [idle.CacheLine]byte

	progress progress

	mu    sync.Mutex // guards tasks, over and err; never held while waiting
	tasks []*task
	over  bool
	err   error
	ended chan struct{} // closed at the very end
}

// threadRank is what a thread keeps of one of its ranks; without a counter it is
// free.
type threadRank struct {
	slot       Slot
	generation uint16
	counter    *ResidentCell
	totals     EffectTotals
}

// task is something that an event thread does between events.
type task struct {
	run   func(*eventThread)
	after []uint64 // by ring: applied positions to wait for; nil: none
	done  chan struct{}
}

func newEventThread(p *Pool, number int) *eventThread {
	return &eventThread{
		number:   number,
		pool:     p,
		source:   p.cfg.Source,
		observer: p.cfg.Observer,
		counters: counterSource{layout: p.cfg.Layout},
		parker:   idle.NewParker(),
		ended:    make(chan struct{}),
	}
}

// post queues a task. If the thread is over, the task is never done and ended
// is closed or about to be.
func (th *eventThread) post(afterQueued bool, run func(*eventThread)) *task {
	t := &task{run: run, done: make(chan struct{})}
	if afterQueued {
		t.after = make([]uint64, len(th.rings))
		for i, r := range th.rings {
			t.after[i] = r.tail.Load()
		}
	}
	th.mu.Lock()
	if !th.over {
		th.tasks = append(th.tasks, t)
		th.pending.Store(true)
	}
	th.mu.Unlock()
	th.wake()
	return t
}

func (th *eventThread) wake() {
	if th.pool.cfg.Idle == IdleYield {
		th.parker.Wake()
	}
}

// main is the thread from start to end.
func (th *eventThread) main(started chan<- error) {
	runtime.LockOSThread()
	// Not unlocked: OnThread may have changed the OS thread, which therefore
	// ends with the goroutine.
	var onEnd func()
	running := false
	defer func() {
		th.end(recover(), onEnd)
		if !running {
			started <- th.pool.Err()
		}
	}()
	if on := th.pool.cfg.OnThread; on != nil {
		var err error
		if onEnd, err = on(th.number); err != nil {
			th.mu.Lock()
			th.err = err
			th.mu.Unlock()
			return
		}
	}
	th.writer = th.pool.cfg.Index.Writer(th.number)
	th.reachable, _ = th.writer.(ReachableCounter)
	running = true
	started <- nil
	th.run()
}

// end makes the end known: first the thread's ranks leave the resident table,
// then waiting calls return.
func (th *eventThread) end(panicked any, onEnd func()) {
	th.mu.Lock()
	th.over = true
	switch cause := panicked.(type) {
	case nil:
		if th.err == nil && !th.quit {
			th.err = errors.New("the goroutine was made to exit")
		}
	case error:
		th.err = fmt.Errorf("panic: %w\n%s", cause, debug.Stack())
	default:
		th.err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
	}
	err := th.err
	th.mu.Unlock()
	th.dead.Store(true)
	taken := uint64(0)
	for _, r := range th.rings {
		r.head.Store(r.read) // a panic left a batch half done
		taken += r.read
	}
	th.progress.applied.Store(taken)
	if th.busy {
		th.endBusy()
	}

	p := th.pool
	p.mu.Lock()
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("event thread %d: %w", th.number, err)
	}
	p.publish()
	p.mu.Unlock()
	if onEnd != nil {
		onEnd()
	}
	close(th.ended)
}

func (th *eventThread) run() {
	waiting := idle.Idler{Spin: th.pool.cfg.Idle == IdleSpin}
	if !waiting.Spin {
		waiting.Parker = &th.parker
	}
	ready := func() bool {
		if th.hasWork() {
			return true
		}
		th.writer.Park()
		return false
	}
	for {
		applied := false
		for _, r := range th.rings {
			if th.drain(r) {
				applied = true
			}
		}
		if th.busy && !applied {
			th.endBusy()
		}
		ran := th.pending.Load() && th.runTasks()
		if th.quit {
			return
		}
		if applied || ran {
			waiting.Reset()
		} else {
			waiting.Wait(ready)
		}
	}
}

func (th *eventThread) hasWork() bool {
	if th.pending.Load() {
		return true
	}
	for _, r := range th.rings {
		if r.read != r.tail.Load() {
			return true
		}
	}
	return false
}

// drain applies a batch of one ring and reports whether there was any.
//
// It does not look ahead: loading what the corpus has for the next events, while
// one is applied, made no index faster that it was tried with
// (BenchmarkLookAhead in internal/replay). Events lie in the order in which they
// are taken, which the hardware foresees.
func (th *eventThread) drain(r *ring) bool {
	waiting := r.tail.Load() - r.read
	if waiting == 0 {
		return false
	}
	if !th.busy {
		th.beginBusy()
	}
	if waiting > r.highWater.Load() {
		r.highWater.Store(waiting)
	}
	n := min(waiting, drainBatch)
	end := r.read + n
	for ; r.read < end; r.read++ {
		th.apply(r.entries[r.read&r.mask])
	}
	r.head.Store(end)
	th.done += n
	th.progress.applied.Store(th.done)
	return true
}

func (th *eventThread) apply(e entry) {
	slot := Slot(e.slot)
	local := int32(-1)
	if int(slot) < len(th.local) {
		local = th.local[slot]
	}
	if local < 0 || th.ranks[local].generation != e.generation {
		// Published after its rank was unregistered; another rank may have the
		// slot by now.
		th.dropped.Add(1)
		return
	}
	rank := &th.ranks[local]
	th.source.Event(e.id, &th.event)
	th.event.Slot = slot
	th.effect = th.writer.Apply(&th.event)
	rank.totals.add(&th.effect)
	if th.tracking {
		rank.counter.word.Store(th.count(slot))
	}
	if th.observer != nil {
		th.observer.Applied(th.number, e.id, slot, &th.effect)
	}
}

// runTasks runs the tasks whose events have been applied, in order, and reports
// whether there was one.
func (th *eventThread) runTasks() bool {
	ran := false
	for !th.quit {
		th.mu.Lock()
		if len(th.tasks) == 0 || !th.reached(th.tasks[0].after) {
			th.pending.Store(len(th.tasks) > 0)
			th.mu.Unlock()
			return ran
		}
		t := th.tasks[0]
		th.tasks = th.tasks[1:]
		th.mu.Unlock()
		t.run(th)
		close(t.done)
		ran = true
	}
	return ran
}

func (th *eventThread) reached(after []uint64) bool {
	for i, position := range after {
		if th.rings[i].read < position {
			return false
		}
	}
	return true
}

// attach takes a slot over and returns its new counter.
func (th *eventThread) attach(slot Slot, generation uint16) []ResidentCell {
	for int(slot) >= len(th.local) {
		th.local = append(th.local, -1)
	}
	th.writer.Attach(slot)
	c := th.counters.next()
	rank := threadRank{slot: slot, generation: generation, counter: &c[0]}
	if n := len(th.freeRank); n > 0 {
		th.local[slot], th.freeRank = th.freeRank[n-1], th.freeRank[:n-1]
		th.ranks[th.local[slot]] = rank
	} else {
		th.local[slot] = int32(len(th.ranks))
		th.ranks = append(th.ranks, rank)
	}
	return c
}

func (th *eventThread) detach(slot Slot) {
	if int(slot) >= len(th.local) || th.local[slot] < 0 {
		return
	}
	th.writer.Detach(slot)
	th.ranks[th.local[slot]] = threadRank{}
	th.freeRank = append(th.freeRank, th.local[slot])
	th.local[slot] = -1
}

func (th *eventThread) startTracking() {
	th.tracking = true
	for i := range th.ranks {
		if r := &th.ranks[i]; r.counter != nil {
			r.counter.word.Store(th.count(r.slot))
		}
	}
}

// count returns the word that the counter of a slot gets.
func (th *eventThread) count(slot Slot) uint64 {
	blocks := th.writer.Blocks(slot)
	if blocks > maxCount {
		// A count that is not true must not be shown.
		panic(fmt.Sprintf("slot %d has %d resident blocks; a counter holds at most %d", slot, blocks, maxCount))
	}
	if th.reachable == nil {
		return uint64(blocks)
	}
	reachable, known := th.reachable.Reachable(slot)
	return makeCount(blocks, reachable, known)
}
