package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/idle"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/results"
)

// trial is the state that the threads of one run share. What they write while
// others read lies on lines of its own.
type trial struct {
	cfg     *Config
	corpus  *corpus.Corpus
	plan    *plan
	clock   *host.Clock
	start   int64 // of the window, on clock
	spinNS  int64
	ownCPUs bool // every thread has a CPU of its own

	serial       *serial // nil: everything at its deadline
	queryIssuer  *queryIssuer
	issuers      []*eventIssuer
	lanes        []*lane
	queryThreads []*queryThread
	observer     *eventObserver
	reader       *reader
	pool         *indexer.Pool

	// unfinished says that event threads were still at work when the drain was
	// given up, lost that a query thread did not come back from its lookup: what
	// they write must not be read.
	unfinished bool
	lost       bool
	threads    []threadInfo
	mu         sync.Mutex // guards failures
	failed     []error

	stamps *stamps // of all operations, for Config.Timeline

	_ [idle.CacheLine]byte
	// publishedThrough is the first query that is not published yet: every
	// query before that operation of the corpus is.
	publishedThrough atomic.Int64
	_                [idle.CacheLine]byte
	stop             atomic.Bool // issue no more: interrupted
	abort            atomic.Bool // give up what is left: the drain did not end
	queriesEnded     atomic.Bool // the query issuer issues no more
	drained          atomic.Bool // everything issued is done
}

// threadInfo is one thread of the run.
type threadInfo struct {
	role   string
	number int
	cpu    int
	tid    int
	// confirmed says that the mask was read back before the start, held that it
	// was the same after the end.
	confirmed bool
	held      bool
	before    host.TaskUsage
	after     host.TaskUsage
	haveUsage bool
}

// Roles of threads, as they appear in results.
const (
	roleQueryIssuer = "query_issuer"
	roleEventIssuer = "event_issuer"
	roleQuery       = "query"
	roleEvent       = "event"
	roleReader      = "reader"
)

// eventDone is what an event thread writes for each event.
type eventDone struct {
	op       uint32
	finished int64
}

// eventObserver stamps applied events. Each event thread has a buffer of its own.
type eventObserver struct {
	clock *host.Clock
	done  [][]eventDone
	full  []paddedCount // results that did not fit, by event thread
}

type paddedCount struct {
	n int64
	_ [idle.CacheLine - 8]byte
}

// Applied implements indexer.Observer.
func (o *eventObserver) Applied(thread int, id uint32, _ indexer.Slot, _ *indexer.Effect) {
	finished := o.clock.Now()
	if d := o.done[thread]; len(d) < cap(d) {
		o.done[thread] = append(d, eventDone{op: id, finished: finished})
		return
	}
	o.full[thread].n++
}

// Run runs one trial. The error is about the trial itself, such as a CPU that
// could not be pinned; a trial that ran but broke a rule of validity gives a
// record that says so. A cancelled context during the run ends it early with a
// record that is marked as interrupted; before the run it gives ctx's error.
func Run(ctx context.Context, cfg Config) (rec *results.Record, err error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	t := &trial{
		cfg:     &cfg,
		corpus:  cfg.Corpus,
		clock:   host.NewClock(),
		spinNS:  int64(cfg.IssuerSpin),
		ownCPUs: cfg.Placement.Pinned && !cfg.Placement.Shared,
	}
	threads := cfg.Placement.Threads
	// A locked goroutine that spins keeps its P, so there must be one for each
	// and one more for everything else.
	procs := max(threads.total()+1, runtime.GOMAXPROCS(0))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))

	if err := t.quiesce(ctx); err != nil {
		return nil, err
	}
	cfg.Phase(PhaseSetup)
	index, err := cfg.Index.New(indexConfig(&cfg))
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", cfg.Index.Name, err)
	}
	defer func() {
		// Threads that did not end may still be in a call.
		if !t.unfinished && !t.lost {
			err = errors.Join(err, index.Close())
		}
	}()
	if err := t.setUp(ctx, cfg.Inject.wrap(index, t.clock)); err != nil {
		if t.pool != nil {
			err = errors.Join(err, t.pool.Close(context.WithoutCancel(ctx)))
		}
		return nil, err
	}
	raw, err := t.measure(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Phase(PhaseSummarise)
	rec = t.summarise(raw)
	rec.Config.GOMAXPROCS = procs
	if raw.drainErr == nil && t.pool.Err() == nil {
		if rec.Index, err = t.indexState(ctx, index, raw.effects); err != nil {
			return nil, fmt.Errorf("state of the index: %w", err)
		}
		t.warnOfIndex(rec)
	}
	if cfg.Verify && !raw.interrupted && raw.drainErr == nil && t.pool.Err() == nil {
		cfg.Phase(PhaseVerify)
		rec.Verify, err = t.verify(ctx, index)
		switch {
		case ctx.Err() != nil:
			// What was measured is kept, but not what was asked for.
			invalidate(rec, "interrupted", "a signal stopped the verification")
			rec.Verify, rec.Validity.Interrupted = nil, true
		case err != nil:
			return nil, fmt.Errorf("verify: %w", err)
		case !rec.Verify.OK:
			invalidate(rec, "verify", fmt.Sprintf("%d mismatches with the reference index; first: %s", rec.Verify.Mismatches, rec.Verify.First[0]))
		}
	}
	if cfg.Decisions != nil && !t.lost {
		if err := cfg.Decisions(&rec.Validity, t.decisions()); err != nil {
			return rec, fmt.Errorf("decisions: %w", err)
		}
	}
	if cfg.Timeline != nil {
		if err := cfg.Timeline(t.timeline(t.stamps)); err != nil {
			return rec, fmt.Errorf("timeline: %w", err)
		}
	}
	if raw.drainErr != nil {
		// Threads may still be at work; waiting for them is what did not end.
		return rec, nil
	}
	for i := range t.queryThreads {
		t.queryThreads[i].reader.Close()
	}
	if err := t.pool.Close(context.WithoutCancel(ctx)); err != nil && t.pool.Err() == nil {
		return nil, fmt.Errorf("end of the event threads: %w", err)
	}
	return rec, nil
}

func indexConfig(cfg *Config) indexer.Config {
	return indexer.Config{Threads: cfg.Placement.Threads.EventThreads, Slots: len(cfg.Corpus.Ranks), HugePages: cfg.HugePages}
}

// quiesce gives back what the preparation used and lets the machine rest.
func (t *trial) quiesce(ctx context.Context) error {
	t.cfg.Phase(PhaseQuiesce)
	runtime.GC()
	debug.FreeOSMemory()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(t.cfg.Quiesce):
	}
	t.corpus.Touch()
	return nil
}

// setUp builds everything that the run needs, so that the run itself allocates
// nothing.
func (t *trial) setUp(ctx context.Context, index indexer.Index) error {
	cfg, c := t.cfg, t.corpus
	n := cfg.Placement.Threads
	threadOf := assign(cfg.Assign, c, n.EventThreads)
	t.plan = newPlan(c, n.EventIssuers, cfg.QueryLanes, n.EventThreads, func(slot uint32) int { return threadOf[slot] })
	if cfg.QueueCapacity == 0 {
		cfg.QueueCapacity = max(1, t.plan.maxPair)
	}
	t.observer = &eventObserver{clock: t.clock, done: make([][]eventDone, n.EventThreads), full: make([]paddedCount, n.EventThreads)}
	for i := range t.observer.done {
		t.observer.done[i] = room[eventDone](t.plan.perThread[i])
	}
	t.threads = make([]threadInfo, 0, n.total())
	if cfg.Serial {
		t.serial = newSerial(t)
		t.addThread(roleQuery, 0, cfg.Placement.Query[0])
	} else {
		t.addThread(roleQueryIssuer, 0, cfg.Placement.QueryIssuer)
		for i, cpu := range cfg.Placement.Issuers {
			t.addThread(roleEventIssuer, i, cpu)
		}
		for i, cpu := range cfg.Placement.Query {
			t.addThread(roleQuery, i, cpu)
		}
	}
	for i, cpu := range cfg.Placement.Event {
		t.addThread(roleEvent, i, cpu)
	}
	if n.Reader > 0 {
		t.addThread(roleReader, 0, cfg.Placement.Reader)
	}

	mode := indexer.IdleYield
	if t.ownCPUs {
		mode = indexer.IdleSpin
	}
	pool, err := indexer.NewPool(indexer.PoolConfig{
		Index:         index,
		Threads:       n.EventThreads,
		Producers:     n.EventIssuers,
		QueueCapacity: cfg.QueueCapacity,
		Source:        c,
		Observer:      t.observer,
		Layout:        cfg.Layout,
		Idle:          mode,
		Assign: func(rank indexer.Rank) int {
			slot, _ := slices.BinarySearchFunc(c.Ranks, rank, indexer.Rank.Compare)
			return threadOf[slot]
		},
		OnThread: func(i int) (func(), error) {
			return nil, t.enter(t.thread(roleEvent, i))
		},
	})
	if err != nil {
		return err
	}
	t.pool = pool
	cfg.QueueCapacity = pool.QueueCapacity()
	slots, err := pool.Register(ctx, c.Ranks)
	if err != nil {
		return fmt.Errorf("register ranks: %w", err)
	}
	for i, slot := range slots {
		if int(slot) != i || pool.ThreadOf(slot) != threadOf[i] {
			return fmt.Errorf("register ranks: rank %v got slot %d on event thread %d, the plan says slot %d on thread %d",
				c.Ranks[i], slot, pool.ThreadOf(slot), i, threadOf[i])
		}
	}
	if cfg.TrackResidentBlocks {
		if err := pool.TrackResidentBlocks(ctx); err != nil {
			return fmt.Errorf("track resident blocks: %w", err)
		}
	}

	t.lanes = make([]*lane, cfg.QueryLanes)
	for i := range t.lanes {
		t.lanes[i] = &lane{ops: room[uint32](t.plan.laneSizes[i])[:t.plan.laneSizes[i]]}
	}
	t.queryThreads = make([]*queryThread, n.QueryThreads)
	for i := range t.queryThreads {
		q := &queryThread{number: i, trial: t, reader: index.Reader(), parker: idle.NewParker()}
		q.ready = q.hasWork
		t.queryThreads[i] = q
	}
	for i, l := range t.lanes {
		q := t.queryThreads[t.threadOfLane(i)]
		q.lanes = append(q.lanes, l)
		q.ids = append(q.ids, uint32(i))
	}
	for _, q := range t.queryThreads {
		size := 0
		for _, l := range q.lanes {
			size += len(l.ops)
		}
		q.done = room[queryDone](size)
		if size > 0 {
			q.warm(cfg.WarmupLookups)
		}
	}
	if cfg.Policy != nil {
		if err := t.addPartitions(); err != nil {
			return err
		}
	}
	t.queryIssuer = &queryIssuer{
		trial:  t,
		handed: room[issued](len(t.plan.queries)),
		dirty:  make([]int, 0, len(t.lanes)),
		isIn:   make([]bool, len(t.lanes)),
	}
	t.issuers = make([]*eventIssuer, n.EventIssuers)
	for i := range t.issuers {
		t.issuers[i] = &eventIssuer{number: i, trial: t, producer: pool.Producer(i), handed: room[issued](len(t.plan.events[i]))}
	}
	if n.Reader > 0 {
		t.reader = &reader{trial: t, pool: pool}
		if cfg.ReaderRate > 0 {
			t.reader.periodNS = 1e9 / cfg.ReaderRate
		}
	}
	if len(t.plan.queries) == 0 {
		t.publishedThrough.Store(math.MaxInt64)
	} else {
		t.publishedThrough.Store(int64(t.plan.queries[0]))
	}
	return nil
}

// room returns an empty slice with the given capacity whose pages are there
// already.
func room[T any](n int) []T {
	s := make([]T, n)
	// make hands out pages that the kernel has not given yet: writing makes
	// the faults happen now.
	clear(s)
	return s[:0]
}

func (t *trial) threadOfLane(lane int) int { return lane % len(t.queryThreads) }

func (t *trial) addThread(role string, number, cpu int) {
	t.threads = append(t.threads, threadInfo{role: role, number: number, cpu: cpu})
}

func (t *trial) thread(role string, number int) *threadInfo {
	for i := range t.threads {
		if th := &t.threads[i]; th.role == role && th.number == number {
			return th
		}
	}
	panic("replay: no thread " + role)
}

// enter is called on a locked OS thread before the start: it pins and confirms.
func (t *trial) enter(info *threadInfo) error {
	info.tid = unix.Gettid()
	if info.cpu == NoCPU {
		return nil
	}
	if err := t.cfg.pin(info.cpu); err != nil {
		return fmt.Errorf("pin %s thread %d: %w", info.role, info.number, err)
	}
	info.confirmed = true
	return nil
}

func (t *trial) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = append(t.failed, err)
}

// crew is the goroutines of the run that are not event threads.
type crew struct {
	ready   sync.WaitGroup
	barrier chan struct{} // closed: the start is set
	issuing sync.WaitGroup
	queries sync.WaitGroup
	reading sync.WaitGroup
	finish  chan struct{} // closed: usage was read, threads may end
	left    sync.WaitGroup
}

// launch starts run on a locked, pinned OS thread that waits at the barrier. If
// the barrier opens without a start (t.start is 0), nothing runs.
func (t *trial) launch(c *crew, group *sync.WaitGroup, info *threadInfo, run func()) {
	c.ready.Add(1)
	group.Add(1)
	c.left.Add(1)
	go func() {
		defer c.left.Done()
		runtime.LockOSThread()
		// Not unlocked: the thread has a mask of its own and ends with the
		// goroutine.
		if err := t.enter(info); err != nil {
			t.fail(err)
		}
		c.ready.Done()
		<-c.barrier
		if t.start != 0 {
			t.runFromStart(info, run)
		}
		group.Done()
		// The thread lives until its usage and its mask have been read.
		<-c.finish
	}()
}

// runFromStart waits for the start and runs. A panic is a failure of the trial,
// not of the process.
func (t *trial) runFromStart(info *threadInfo, run func()) {
	defer func() {
		if p := recover(); p != nil {
			t.fail(fmt.Errorf("%s thread %d: panic: %v\n%s", info.role, info.number, p, debug.Stack()))
			t.stop.Store(true)
		}
	}()
	for now := t.clock.Now(); now < t.start; now = t.clock.Now() {
		if left := t.start - now; left > t.spinNS {
			t.clock.SleepUntil(t.start - t.spinNS)
		} else {
			idle.Pause()
		}
	}
	run()
}

// interruptedDrain bounds the drain of a trial that was interrupted.
const interruptedDrain = 5 * time.Second

// raw is what a run leaves behind beside the threads' buffers.
type raw struct {
	startTime   time.Time
	interrupted bool
	drainErr    error
	before      runtimeState
	after       runtimeState
	steal       int64
	stats       []indexer.ThreadStats
	effects     []indexer.EffectTotals
	clockRead   float64
}

// runtimeState is what the Go runtime and the process have done so far.
type runtimeState struct {
	mem  runtime.MemStats
	proc host.ProcessUsage
}

// measure runs the trial from the barrier to the end of the drain.
func (t *trial) measure(ctx context.Context) (*raw, error) {
	out := &raw{clockRead: t.clock.ReadCost()}
	c := &crew{barrier: make(chan struct{}), finish: make(chan struct{})}
	defer func() {
		if t.start == 0 {
			close(c.barrier)
		}
		close(c.finish)
		if !t.lost {
			c.left.Wait()
		}
	}()
	if t.serial != nil {
		t.launch(c, &c.issuing, t.thread(roleQuery, 0), t.serial.run)
	} else {
		t.launch(c, &c.issuing, t.thread(roleQueryIssuer, 0), t.queryIssuer.run)
		for i, e := range t.issuers {
			t.launch(c, &c.issuing, t.thread(roleEventIssuer, i), e.run)
		}
		for i, q := range t.queryThreads {
			t.launch(c, &c.queries, t.thread(roleQuery, i), q.run)
		}
	}
	if t.reader != nil {
		t.launch(c, &c.reading, t.thread(roleReader, 0), t.reader.run)
	}
	c.ready.Wait()
	if err := errors.Join(t.failed...); err != nil {
		return nil, errors.Join(err, t.pool.Close(context.WithoutCancel(ctx)))
	}
	issued, answered, passed := wait(&c.issuing), wait(&c.queries), wait(&c.reading)

	runtime.GC()
	limit := debug.SetMemoryLimit(math.MaxInt64)
	percent := debug.SetGCPercent(-1)
	restore := func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
	defer restore()
	t.cfg.Phase(PhaseRun)
	var err error
	steal := host.StealNS()
	for i := range t.threads {
		th := &t.threads[i]
		th.before, err = host.ReadTaskUsage(th.tid)
		th.haveUsage = err == nil
	}
	if out.before.proc, err = host.ReadProcessUsage(); err != nil {
		return nil, err
	}
	runtime.ReadMemStats(&out.before.mem)
	out.startTime = time.Now().Add(startDelay)
	t.start = t.clock.Now() + int64(startDelay)
	close(c.barrier)

	select {
	case <-issued:
	case <-ctx.Done():
		t.stop.Store(true)
		out.interrupted = true
		<-issued
	}
	t.cfg.Phase(PhaseDrain)
	out.drainErr = t.drain(ctx, answered)
	out.interrupted = out.interrupted || out.drainErr != nil && ctx.Err() != nil
	t.drained.Store(true)
	<-passed

	runtime.ReadMemStats(&out.after.mem)
	if out.after.proc, err = host.ReadProcessUsage(); err != nil {
		return nil, err
	}
	for i := range t.threads {
		th := &t.threads[i]
		if th.after, err = host.ReadTaskUsage(th.tid); err != nil {
			th.haveUsage = false
		}
		cpus, err := host.TaskCPUs(th.tid)
		th.held = err == nil && len(cpus) == 1 && cpus[0] == th.cpu
	}
	if now := host.StealNS(); steal >= 0 && now >= 0 {
		out.steal = now - steal
	} else {
		out.steal = -1
	}
	out.stats = t.pool.Stats()
	if out.drainErr == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.cfg.DrainTimeout)
		defer cancel()
		if out.effects, err = t.pool.Effects(ctx); err != nil && t.pool.Err() == nil {
			return nil, fmt.Errorf("effects of the events: %w", err)
		}
	}
	return out, nil
}

// drain waits until everything that was handed over is done.
func (t *trial) drain(ctx context.Context, answered <-chan struct{}) error {
	if t.stop.Load() {
		// Interrupted while issuing: what was handed over still gets its time,
		// which is short unless the run is overloaded.
		ctx = context.WithoutCancel(ctx)
	}
	interrupted := ctx.Done()
	limit := t.cfg.DrainTimeout
	if t.stop.Load() {
		limit = min(limit, interruptedDrain)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	flushErr := t.pool.Flush(ctx)
	t.unfinished = ctx.Err() != nil
	select {
	case <-answered:
	case <-ctx.Done():
		t.abort.Store(true)
		for _, q := range t.queryThreads {
			q.parker.Wake()
		}
		select {
		case <-answered:
		case <-time.After(5 * time.Second):
			t.lost = true
		}
	}
	select {
	case <-interrupted:
		return errors.New("a signal stopped the drain; what was done in it is not counted")
	default:
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the drain did not end within %v; what was done in it is not counted", limit)
	}
	// An event thread that ended is a failure of its own, reported by the pool.
	if flushErr != nil && t.pool.Err() == nil {
		return flushErr
	}
	return nil
}

// wait turns a group into a channel, made before the window.
func wait(g *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		g.Wait()
		close(done)
	}()
	return done
}
