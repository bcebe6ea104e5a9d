package indexer

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	// thread; it is rounded up to a power of two. A producer that meets a full
	// queue waits for room.
	QueueCapacity int
	// Assign, if set, names the event thread of a rank that the pool does not
	// know, in [0, Threads); nil: the thread with the fewest ranks. A rank that
	// comes back goes to its former thread all the same, and one whose thread
	// has ended to the thread with the fewest ranks. It is called by Register
	// and must not call the pool.
	Assign   func(rank Rank) int
	Observer Observer // may be nil
	Layout   CounterLayout
	Idle     IdleMode
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
	began     time.Time

	// serial orders the calls that change membership; it is held while they
	// wait for event threads, so it is a channel that a context can leave.
	serial chan struct{}

	mu       sync.Mutex // guards what follows; never held while waiting
	ranks    map[Rank]Slot
	homes    map[Rank]int // event thread by rank, gone ranks included
	load     []int        // number of ranks by event thread
	slots    []slotInfo
	free     slotHeap
	tracking bool
	err      error

	residents atomic.Pointer[ResidentTable]
	owners    [MaxRanks]atomic.Uint32 // owner by slot
}

// slotInfo is what the pool knows of a slot. The slot counts for producers and
// readers once it has a counter, which its thread gave it on taking it over.
type slotInfo struct {
	thread     int
	generation uint16         // of the rank: how often the slot was given out before
	cells      []ResidentCell // its counter and what follows it in memory, nil: none
}

// homesKept bounds how many ranks the pool remembers the thread of.
const homesKept = 4 * MaxRanks

// maxThreads is how many event threads an owner can name.
const maxThreads = 1 << 12

// owner says in one word who has a slot: the event thread's number + 1 (0:
// nobody) in the low half, the slot's generation in the high half.
type owner uint32

func makeOwner(thread int, generation uint16) owner {
	return owner(generation)<<16 | owner(thread+1)
}

func (o owner) thread() int        { return int(o&0xffff) - 1 }
func (o owner) generation() uint16 { return uint16(o >> 16) }

// placement is one rank on its way to its event thread.
type placement struct {
	rank       Rank
	slot       Slot
	generation uint16
	cells      []ResidentCell // its counter, set by the thread
}

// NewPool starts the event threads. Close ends them.
func NewPool(cfg PoolConfig) (*Pool, error) {
	switch {
	case cfg.Index == nil || cfg.Source == nil:
		return nil, errors.New("indexer: a pool needs an index and a source of events")
	case cfg.Threads < 1 || cfg.Threads > maxThreads:
		return nil, fmt.Errorf("indexer: %d event threads; there must be 1 to %d", cfg.Threads, maxThreads)
	case cfg.Producers < 1:
		return nil, fmt.Errorf("indexer: %d producers; there must be at least 1", cfg.Producers)
	case cfg.QueueCapacity < 1:
		return nil, fmt.Errorf("indexer: a queue capacity of %d; it must be at least 1", cfg.QueueCapacity)
	case cfg.QueueCapacity > 1<<31:
		return nil, fmt.Errorf("indexer: a queue capacity of %d; it must be at most 2^31", cfg.QueueCapacity)
	}
	p := &Pool{
		cfg:    cfg,
		began:  time.Now(),
		serial: make(chan struct{}, 1),
		ranks:  map[Rank]Slot{},
		homes:  map[Rank]int{},
		load:   make([]int, cfg.Threads),
	}
	for i := range cfg.Threads {
		p.threads = append(p.threads, newEventThread(p, i))
	}
	for range cfg.Producers {
		pr := &Producer{pool: p}
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
// keeps its slot. A rank that was known before goes to its former event thread
// if that still runs, another to the one that PoolConfig.Assign names, without
// that to the thread with the fewest ranks. The ranks of a fresh pool get slots
// 0, 1, 2 …, and without Assign threads 0, 1, 2 … in turn. Register in
// batches: while counts are tracked, one call costs as much as len(ranks) plus
// the ranks known before. On an error the new ranks are not registered.
func (p *Pool) Register(ctx context.Context, ranks []Rank) ([]Slot, error) {
	if err := p.lock(ctx); err != nil {
		return nil, fmt.Errorf("register %d ranks: %w", len(ranks), err)
	}
	defer p.unlock()
	p.mu.Lock()
	out, byThread, err := p.allot(ranks)
	p.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("register %d ranks: %w", len(ranks), err)
	}
	fresh := func(th *eventThread) bool { return len(byThread[th.number]) > 0 }
	err = p.onThreads(ctx, false, fresh, func(th *eventThread) {
		batch := byThread[th.number]
		for i := range batch {
			batch[i].cells = th.attach(batch[i].slot, batch[i].generation)
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.takeBack(byThread)
		return nil, fmt.Errorf("register %d ranks: %w", len(ranks), err)
	}
	for thread, batch := range byThread {
		for _, b := range batch {
			p.slots[b.slot].cells = b.cells
			p.owners[b.slot].Store(uint32(makeOwner(thread, b.generation)))
		}
	}
	p.publish()
	return out, nil
}

// allot gives new ranks their slots and threads. The caller holds mu.
func (p *Pool) allot(ranks []Rank) (out []Slot, byThread [][]placement, err error) {
	fresh := make(map[Rank]struct{})
	for _, rank := range ranks {
		if _, known := p.ranks[rank]; !known {
			fresh[rank] = struct{}{}
		}
	}
	if room := len(p.free) + MaxRanks - len(p.slots); len(fresh) > room {
		return nil, nil, fmt.Errorf("%d ranks are new; there is room for %d", len(fresh), room)
	}
	if len(p.homes) > homesKept {
		maps.DeleteFunc(p.homes, func(rank Rank, _ int) bool {
			_, known := p.ranks[rank]
			return !known
		})
	}
	byThread = make([][]placement, len(p.threads))
	out = make([]Slot, len(ranks))
	for i, rank := range ranks {
		slot, known := p.ranks[rank]
		if !known {
			thread, err := p.home(rank)
			if err != nil {
				p.takeBack(byThread)
				return nil, nil, err
			}
			slot = p.newSlot(thread)
			p.ranks[rank] = slot
			p.homes[rank] = thread
			p.load[thread]++
			byThread[thread] = append(byThread[thread],
				placement{rank: rank, slot: slot, generation: p.slots[slot].generation})
		}
		out[i] = slot
	}
	return out, byThread, nil
}

// home returns the event thread for a new rank. It is an error if all have ended.
func (p *Pool) home(rank Rank) (int, error) {
	thread, ok := p.homes[rank]
	if !ok && p.cfg.Assign != nil {
		thread, ok = p.cfg.Assign(rank), true
		if thread < 0 || thread >= len(p.threads) {
			return 0, fmt.Errorf("rank %v was assigned to event thread %d; there are %d", rank, thread, len(p.threads))
		}
	}
	if ok && !p.threads[thread].dead.Load() {
		return thread, nil
	}
	best := -1
	for i, th := range p.threads {
		if !th.dead.Load() && (best < 0 || p.load[i] < p.load[best]) {
			best = i
		}
	}
	if best < 0 {
		return 0, p.endedLocked(0)
	}
	return best, nil
}

// newSlot takes a free slot for a thread; allot has seen that there is one.
func (p *Pool) newSlot(thread int) Slot {
	if len(p.free) == 0 {
		p.slots = append(p.slots, slotInfo{thread: thread})
		return Slot(len(p.slots) - 1)
	}
	slot := heap.Pop(&p.free).(Slot)
	s := &p.slots[slot]
	s.thread = thread
	s.generation++
	return slot
}

// takeBack undoes allot. A thread may have taken the slots over or may still do
// so, thus it has to give them up. The caller holds mu.
func (p *Pool) takeBack(byThread [][]placement) {
	for thread, batch := range byThread {
		if len(batch) == 0 {
			continue
		}
		slots := make([]Slot, len(batch))
		for i, b := range batch {
			slots[i] = b.slot
			delete(p.ranks, b.rank)
		}
		p.load[thread] -= len(batch)
		p.threads[thread].post(false, func(th *eventThread) { p.giveUp(th, slots) })
	}
}

// giveUp runs on an event thread and frees its slots for others.
func (p *Pool) giveUp(th *eventThread, slots []Slot) {
	for _, slot := range slots {
		th.detach(slot)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, slot := range slots {
		heap.Push(&p.free, slot)
	}
}

// slotHeap gives the lowest slot first, in whatever order slots were given up. It is
// a heap.Interface.
type slotHeap []Slot

func (h slotHeap) Len() int           { return len(h) }
func (h slotHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h slotHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *slotHeap) Push(slot any)     { *h = append(*h, slot.(Slot)) }
func (h *slotHeap) Pop() any {
	last := len(*h) - 1
	slot := (*h)[last]
	*h = (*h)[:last]
	return slot
}

// publish makes the membership visible to the readers of resident counts. The
// caller holds mu.
func (p *Pool) publish() {
	if !p.tracking {
		return
	}
	cells := make([][]ResidentCell, len(p.slots))
	for i := range p.slots {
		if s := &p.slots[i]; !p.threads[s.thread].dead.Load() {
			cells[i] = s.cells
		}
	}
	thread := func(slot int) int { return p.slots[slot].thread }
	t := newResidentTable(cells, thread, len(p.threads), p.cfg.Layout, maps.Clone(p.ranks))
	p.residents.Store(t)
}

// Unregister removes ranks after the events that were published before have
// been applied; events published later are dropped and counted. Their counts
// become absent at once and their blocks leave the index; then their slots are
// given to others. An unknown rank is an error and nothing is removed. If ctx
// ends first, or the ranks' thread has ended, the ranks are gone all the same
// and their slots are free once the thread has given them up, if ever.
func (p *Pool) Unregister(ctx context.Context, ranks ...Rank) error {
	if err := p.lock(ctx); err != nil {
		return fmt.Errorf("unregister %d ranks: %w", len(ranks), err)
	}
	defer p.unlock()
	byThread, err := p.strike(ranks)
	if err != nil {
		return err
	}
	concerned := func(th *eventThread) bool { return len(byThread[th.number]) > 0 }
	err = p.onThreads(ctx, true, concerned, func(th *eventThread) { p.giveUp(th, byThread[th.number]) })
	if err != nil {
		return fmt.Errorf("unregister %d ranks: %w", len(ranks), err)
	}
	return nil
}

// strike takes ranks off the books and returns their slots by event thread.
func (p *Pool) strike(ranks []Rank) (byThread [][]Slot, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rank := range ranks {
		if _, ok := p.ranks[rank]; !ok {
			return nil, fmt.Errorf("unregister rank %v: not registered", rank)
		}
	}
	byThread = make([][]Slot, len(p.threads))
	for _, rank := range ranks {
		slot, ok := p.ranks[rank]
		if !ok {
			continue // named twice
		}
		delete(p.ranks, rank)
		s := &p.slots[slot]
		s.cells = nil
		p.load[s.thread]--
		p.owners[slot].Store(0)
		byThread[s.thread] = append(byThread[s.thread], slot)
	}
	p.publish()
	return byThread, nil
}

// Producer returns handle i in [0, PoolConfig.Producers). It is for one
// goroutine at a time.
func (p *Pool) Producer(i int) *Producer { return p.producers[i] }

// ThreadOf returns the event thread of a registered slot, -1 for another.
func (p *Pool) ThreadOf(slot Slot) int {
	return p.owner(slot).thread()
}

func (p *Pool) owner(slot Slot) owner {
	if slot >= MaxRanks {
		return 0
	}
	return owner(p.owners[slot].Load())
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

// Pause runs f while no event thread is in a call of its Writer, as Index.Check,
// MemoryReporter and ShapeReporter ask for, and after the events that were
// published before. The threads go on when f has returned; f must not make a call
// that waits for them. If a thread has ended, f is not run and the error says so:
// the thread may have left the index in the middle of an event.
func (p *Pool) Pause(ctx context.Context, f func()) error {
	// One at a time: two that each hold some threads would wait for ever.
	if err := p.lock(ctx); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	defer p.unlock()
	release := make(chan struct{})
	defer close(release)
	stopped := make([]chan struct{}, len(p.threads))
	for i, th := range p.threads {
		stopped[i] = make(chan struct{})
		th.post(true, func(*eventThread) {
			close(stopped[i])
			<-release
		})
	}
	for i, th := range p.threads {
		select {
		case <-stopped[i]:
		case <-th.ended:
			return fmt.Errorf("pause: %w", p.ended(i))
		case <-ctx.Done():
			return fmt.Errorf("pause: %w", context.Cause(ctx))
		}
	}
	f()
	return nil
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
	byThread := make([][]threadRank, len(p.threads))
	collect := func(th *eventThread) { byThread[th.number] = slices.Clone(th.ranks) }
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
		for _, r := range byThread[i] {
			// A slot that was new after the line above is not asked for.
			if r.counter != nil && int(r.slot) < len(out) {
				out[r.slot] = r.totals
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
	Busy           time.Duration // that it was applying events, with what came between two of them without a wait
	Dropped        uint64        // events whose rank was unregistered before their turn
	QueueHighWater uint64        // most events that it found waiting in one of its queues
	Ranks          int           // registered ranks that it owns
	Blocked        uint64        // pushes that met a full queue
	BlockedFor     time.Duration // that they waited, all producers together
	Ended          bool
	Err            error // why it ended, nil after Close
}

// QueueCapacity returns how many events fit between one producer and one event
// thread.
func (p *Pool) QueueCapacity() int { return len(p.producers[0].rings[0].entries) }

// Stats returns the state of every event thread, at any time. It never waits for
// one.
func (p *Pool) Stats() []ThreadStats {
	p.mu.Lock()
	ranks := slices.Clone(p.load)
	p.mu.Unlock()
	out := make([]ThreadStats, len(p.threads))
	for i, th := range p.threads {
		s := &out[i]
		s.Applied, s.Accepted = p.Progress(i).Load()
		s.Busy = th.busyFor()
		s.Ranks = ranks[i]
		for _, r := range th.rings {
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
