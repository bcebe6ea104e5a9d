package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Source resolves the number given to Producer.Push into the event that it
// stands for. It is called by all event threads at the same time and overwrites
// every field of ev.
type Source interface {
	Event(id uint32, ev *Event)
}

// Observer is told of every applied event, on the event thread, right after the
// event was applied and the rank's resident count stored. eff is borrowed.
type Observer interface {
	Applied(thread int, id uint32, slot Slot, eff *Effect)
}

// IdleMode is what an event thread without events does.
type IdleMode uint8

const (
	// IdleYield gives the CPU away and after a while sleeps until woken.
	IdleYield IdleMode = iota
	// IdleSpin keeps the CPU. It is right only where each thread has its own.
	IdleSpin
)

// PoolConfig is what a pool is made of. Index, Source, Threads, Producers and
// QueueCapacity are required.
type PoolConfig struct {
	Index   Index
	Source  Source
	Threads int // event threads
	// Producers is the number of Producer handles. The events of one rank must
	// come from one of them, else their order is not kept.
	Producers int
	// QueueCapacity is how many events fit between one producer and one event
	// thread; it is rounded up to a power of two.
	QueueCapacity int
	Observer      Observer // may be nil
	Layout        CounterLayout
	Idle          IdleMode
	// OnThread, if set, runs on every event thread after it was locked to its
	// OS thread and before NewPool returns. What it returns, if not nil, runs
	// on the same OS thread when the thread ends. An error ends the pool.
	OnThread func(thread int) (onEnd func(), err error)
}

// ErrThreadEnded is wrapped by the error of every call that needs an event
// thread that has ended by a panic or by Close.
var ErrThreadEnded = errors.New("event thread has ended")

// Pool applies events on event threads. A rank belongs to one thread from
// Register to Unregister, and its events are applied there in order.
//
// All methods but those of Producer may be called from any goroutine. A call
// that waits for an event thread also waits for the thread's end and for its
// context: none hangs.
type Pool struct {
	cfg       PoolConfig
	threads   []*eventThread
	producers []*Producer

	// serial orders the calls that change membership; it is held while they
	// wait for event threads, so it is a channel that a context can leave.
	serial chan struct{}

	mu       sync.Mutex // guards what follows; never held while waiting
	ranks    map[Rank]Slot
	slots    []slotInfo
	free     []Slot
	tracking bool
	err      error

	owners    atomic.Pointer[[]int32] // event thread by slot, -1: none; immutable
	residents atomic.Pointer[ResidentTable]
}

type slotInfo struct {
	used    bool
	thread  int
	rank    Rank
	counter *counter
}

// NewPool starts the event threads. Close ends them.
func NewPool(cfg PoolConfig) (*Pool, error) {
	switch {
	case cfg.Index == nil || cfg.Source == nil:
		return nil, errors.New("indexer: a pool needs an index and a source of events")
	case cfg.Threads < 1:
		return nil, fmt.Errorf("indexer: %d event threads; there must be at least 1", cfg.Threads)
	case cfg.Producers < 1:
		return nil, fmt.Errorf("indexer: %d producers; there must be at least 1", cfg.Producers)
	case cfg.QueueCapacity < 1:
		return nil, fmt.Errorf("indexer: a queue capacity of %d; it must be at least 1", cfg.QueueCapacity)
	case cfg.QueueCapacity > 1<<31:
		return nil, fmt.Errorf("indexer: a queue capacity of %d; it must be at most 2^31", cfg.QueueCapacity)
	}
	p := &Pool{cfg: cfg, serial: make(chan struct{}, 1), ranks: map[Rank]Slot{}}
	p.owners.Store(new([]int32))
	for i := range cfg.Threads {
		p.threads = append(p.threads, newEventThread(p, i))
	}
	for range cfg.Producers {
		pr := &Producer{pool: p, dirty: make([]bool, cfg.Threads)}
		for _, th := range p.threads {
			r := newRing(cfg.QueueCapacity)
			pr.rings = append(pr.rings, r)
			th.rings = append(th.rings, r)
		}
		p.producers = append(p.producers, pr)
	}
	started := make(chan error, cfg.Threads)
	for _, th := range p.threads {
		go th.main(started)
	}
	failed := false
	for range p.threads {
		failed = <-started != nil || failed
	}
	if failed {
		return nil, p.Close(context.Background())
	}
	return p, nil
}

// lock enters the calls that change membership.
func (p *Pool) lock(ctx context.Context) error {
	select {
	case p.serial <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *Pool) unlock() { <-p.serial }

// Register makes ranks known and returns their slots; a rank that is known
// keeps its slot. New ranks go to the event thread with the fewest ranks, so
// that those of a fresh pool get slots 0, 1, 2 … on threads 0, 1, 2 … in turn.
// The cost is linear in len(ranks) plus the ranks known before. On an error the
// new ranks are not registered.
func (p *Pool) Register(ctx context.Context, ranks []Rank) ([]Slot, error) {
	if err := p.lock(ctx); err != nil {
		return nil, err
	}
	defer p.unlock()
	out, byThread, err := p.allot(ranks)
	if err != nil {
		return nil, err
	}
	type attached struct{ counters []*counter }
	results := make([]attached, len(p.threads))
	err = p.onThreads(ctx, false, func(th *eventThread) bool { return len(byThread[th.number]) > 0 },
		func(th *eventThread) {
			a := &results[th.number]
			for _, slot := range byThread[th.number] {
				a.counters = append(a.counters, th.attach(slot))
			}
		})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		for _, slots := range byThread {
			for _, slot := range slots {
				delete(p.ranks, p.slots[slot].rank)
				// Not given to others: the thread may have taken it on or may
				// still do so.
				p.slots[slot] = slotInfo{}
			}
		}
		return nil, fmt.Errorf("register %d ranks: %w", len(ranks), err)
	}
	for thread, slots := range byThread {
		for i, slot := range slots {
			p.slots[slot].counter = results[thread].counters[i]
		}
	}
	p.publish()
	return out, nil
}

// allot gives new ranks their slots and threads.
func (p *Pool) allot(ranks []Rank) (out []Slot, byThread [][]Slot, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	load := make([]int, len(p.threads))
	for i := range p.slots {
		if p.slots[i].used {
			load[p.slots[i].thread]++
		}
	}
	fresh := 0
	seen := make(map[Rank]struct{})
	for _, rank := range ranks {
		if _, known := p.ranks[rank]; !known {
			if _, twice := seen[rank]; !twice {
				seen[rank] = struct{}{}
				fresh++
			}
		}
	}
	if n := len(p.ranks) + fresh; n > MaxRanks {
		return nil, nil, fmt.Errorf("%d ranks; there is room for %d", n, MaxRanks)
	}
	byThread = make([][]Slot, len(p.threads))
	out = make([]Slot, len(ranks))
	for i, rank := range ranks {
		if slot, known := p.ranks[rank]; known {
			out[i] = slot
			continue
		}
		thread := -1
		for t, th := range p.threads {
			if !th.dead.Load() && (thread < 0 || load[t] < load[thread]) {
				thread = t
			}
		}
		if thread < 0 {
			for slots := range byThread {
				for _, slot := range byThread[slots] {
					delete(p.ranks, p.slots[slot].rank)
					p.slots[slot] = slotInfo{}
				}
			}
			return nil, nil, p.endedLocked(0)
		}
		load[thread]++
		slot := Slot(len(p.slots))
		if n := len(p.free); n > 0 {
			slot, p.free = p.free[n-1], p.free[:n-1]
			p.slots[slot] = slotInfo{used: true, thread: thread, rank: rank}
		} else {
			p.slots = append(p.slots, slotInfo{used: true, thread: thread, rank: rank})
		}
		p.ranks[rank] = slot
		out[i] = slot
		byThread[thread] = append(byThread[thread], slot)
	}
	return out, byThread, nil
}

// publish makes the membership visible to producers and readers. The caller
// holds mu.
func (p *Pool) publish() {
	owners := make([]int32, len(p.slots))
	for i := range p.slots {
		owners[i] = -1
		// A slot without a counter is not attached yet.
		if s := &p.slots[i]; s.used && s.counter != nil {
			owners[i] = int32(s.thread)
		}
	}
	p.owners.Store(&owners)
	if !p.tracking {
		return
	}
	t := &ResidentTable{
		counters: make([]*counter, len(p.slots)),
		live:     make([]*counter, 0, len(p.ranks)),
		slots:    maps.Clone(p.ranks),
	}
	for i := range p.slots {
		s := &p.slots[i]
		if !s.used || s.counter == nil || p.threads[s.thread].dead.Load() {
			continue
		}
		t.counters[i] = s.counter
		t.live = append(t.live, s.counter)
	}
	p.residents.Store(t)
}

// Unregister removes a rank after the events that were published before have
// been applied. Its count becomes absent and its blocks leave the index. An
// unknown rank is an error.
func (p *Pool) Unregister(ctx context.Context, rank Rank) error {
	if err := p.lock(ctx); err != nil {
		return err
	}
	defer p.unlock()
	p.mu.Lock()
	slot, ok := p.ranks[rank]
	if !ok {
		p.mu.Unlock()
		return fmt.Errorf("unregister rank %v: not registered", rank)
	}
	thread := p.slots[slot].thread
	// From here on nothing more is accepted for it and its count is absent.
	delete(p.ranks, rank)
	p.slots[slot] = slotInfo{}
	p.publish()
	p.mu.Unlock()

	err := p.onThreads(ctx, true, func(th *eventThread) bool { return th.number == thread },
		func(th *eventThread) { th.detach(slot) })
	if err != nil {
		// The slot is not reused: whether the thread gave it up is not known.
		return fmt.Errorf("unregister rank %v: %w", rank, err)
	}
	p.mu.Lock()
	p.free = append(p.free, slot)
	p.mu.Unlock()
	return nil
}

// Producer returns handle i in [0, PoolConfig.Producers). It is for one
// goroutine at a time.
func (p *Pool) Producer(i int) *Producer { return p.producers[i] }

// ThreadOf returns the event thread of a registered slot, -1 for another.
func (p *Pool) ThreadOf(slot Slot) int {
	owners := *p.owners.Load()
	if int(slot) >= len(owners) {
		return -1
	}
	return int(owners[slot])
}

// Slot returns the slot of a registered rank.
func (p *Pool) Slot(rank Rank) (Slot, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slot, ok := p.ranks[rank]
	return slot, ok
}

// Flush returns when every event that was published before the call has been
// applied. If a thread has ended, Flush waits for the others and says so.
func (p *Pool) Flush(ctx context.Context) error {
	return p.onThreads(ctx, true, everyThread, func(*eventThread) {})
}

// TrackResidentBlocks turns the counters on: each event thread first stores the
// counts of the ranks that it holds. Turning them on again changes nothing.
func (p *Pool) TrackResidentBlocks(ctx context.Context) error {
	if err := p.lock(ctx); err != nil {
		return err
	}
	defer p.unlock()
	err := p.onThreads(ctx, false, everyThread, (*eventThread).startTracking)
	if err != nil && !errors.Is(err, ErrThreadEnded) {
		return fmt.Errorf("track resident blocks: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.tracking {
		p.tracking = true
		p.publish()
	}
	if err != nil {
		return fmt.Errorf("track resident blocks: %w", err)
	}
	return nil
}

// Residents returns the current table of resident counts, nil while they are
// not tracked. It is one load.
func (p *Pool) Residents() *ResidentTable { return p.residents.Load() }

// EffectTotals sums the effects of a rank's events since it was registered.
type EffectTotals struct {
	Events         uint64
	Stored         uint64
	Removed        uint64
	ClearedBlocks  uint64
	Duplicate      uint64
	UnknownRemoved uint64
	Orphaned       uint64
	Conflicting    uint64
	Malformed      uint64
}

func (t *EffectTotals) add(e *Effect) {
	t.Events++
	t.Stored += uint64(e.Stored)
	t.Removed += uint64(e.Removed)
	t.ClearedBlocks += uint64(e.ClearedBlocks)
	t.Duplicate += uint64(e.Duplicate)
	t.UnknownRemoved += uint64(e.UnknownRemoved)
	t.Orphaned += uint64(e.Orphaned)
	t.Conflicting += uint64(e.Conflicting)
	t.Malformed += uint64(e.Malformed)
}

// Effects returns the totals by slot, zero for slots of nobody, after the events
// that were published before the call. Those of an ended thread are what it had
// applied; the error then says that it ended.
func (p *Pool) Effects(ctx context.Context) ([]EffectTotals, error) {
	type copied struct{ totals map[Slot]EffectTotals }
	byThread := make([]copied, len(p.threads))
	collect := func(th *eventThread) { byThread[th.number].totals = th.copyTotals() }
	err := p.onThreads(ctx, true, everyThread, collect)
	if err != nil && !errors.Is(err, ErrThreadEnded) {
		return nil, err
	}
	p.mu.Lock()
	out := make([]EffectTotals, len(p.slots))
	p.mu.Unlock()
	for i, th := range p.threads {
		select {
		case <-th.ended:
			// Nobody writes any more, and the end happened before this.
			collect(th)
		default:
		}
		for slot, totals := range byThread[i].totals {
			if int(slot) < len(out) {
				out[slot] = totals
			}
		}
	}
	return out, err
}

// ThreadStats says how far one event thread is. Accepted - Applied is its
// backlog, which bounds how stale its counts are.
type ThreadStats struct {
	Accepted       uint64        // events published to it
	Applied        uint64        // of these, done (or dropped); moves in batches
	Dropped        uint64        // events of ranks that were unregistered meanwhile
	QueueHighWater uint64        // most events seen waiting in one of its queues
	Blocked        uint64        // pushes that met a full queue
	BlockedFor     time.Duration // that they waited, all producers together
	Ended          bool
	Err            error // why it ended, nil after Close
}

// Stats returns the state of every event thread, at any time. It never waits.
func (p *Pool) Stats() []ThreadStats {
	out := make([]ThreadStats, len(p.threads))
	for i, th := range p.threads {
		s := &out[i]
		for _, r := range th.rings {
			// In this order Applied never exceeds Accepted.
			s.Applied += r.head.Load()
			s.Accepted += r.tail.Load()
			s.QueueHighWater = max(s.QueueHighWater, r.highWater.Load())
			s.Blocked += r.blocked.Load()
			s.BlockedFor += time.Duration(r.blockedFor.Load())
		}
		s.Dropped = th.dropped.Load()
		if s.Ended = th.dead.Load(); s.Ended {
			th.mu.Lock()
			s.Err = th.err
			th.mu.Unlock()
		}
	}
	return out
}

// Ended returns a channel that is closed when the thread has ended.
func (p *Pool) Ended(thread int) <-chan struct{} { return p.threads[thread].ended }

// Err returns why the first event thread that ended by itself did so, nil if
// none has.
func (p *Pool) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Close applies what was published, then ends the threads. It returns Err. A
// second Close waits for the same end. If ctx ends first, the threads end later.
func (p *Pool) Close(ctx context.Context) error {
	err := p.onThreads(ctx, true, everyThread, func(th *eventThread) { th.quit = true })
	if err != nil && !errors.Is(err, ErrThreadEnded) {
		return fmt.Errorf("close the pool: %w", err)
	}
	for _, th := range p.threads {
		select {
		case <-th.ended:
		case <-ctx.Done():
			return fmt.Errorf("close the pool: %w", context.Cause(ctx))
		}
	}
	return p.Err()
}

func everyThread(*eventThread) bool { return true }

// onThreads runs a task on each chosen thread and waits for all of them. With
// afterQueued it runs after the events published so far. The error joins those
// of the threads that ended instead.
func (p *Pool) onThreads(ctx context.Context, afterQueued bool, chosen func(*eventThread) bool, run func(*eventThread)) error {
	tasks := make([]*task, len(p.threads))
	for i, th := range p.threads {
		if chosen(th) {
			tasks[i] = th.post(afterQueued, run)
		}
	}
	var errs []error
	for i, th := range p.threads {
		if tasks[i] == nil {
			continue
		}
		select {
		case <-tasks[i].done:
		case <-th.ended:
			select {
			case <-tasks[i].done:
			default:
				errs = append(errs, p.ended(i))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

// ended is the error of a call that needs an event thread that is no more.
func (p *Pool) ended(thread int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endedLocked(thread)
}

func (p *Pool) endedLocked(thread int) error {
	th := p.threads[thread]
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.err != nil {
		return fmt.Errorf("event thread %d: %w: %w", thread, ErrThreadEnded, th.err)
	}
	return fmt.Errorf("event thread %d: %w: the pool is closed", thread, ErrThreadEnded)
}
