// Package simulate compares policies in a closed loop in virtual time: requests
// of a trace arrive, a policy picks a rank with what a real router would know, the
// rank's mock engine answers, and what it does and caches comes back and decides
// what the policy does next.
//
// It puts together package fleet (time and engines), package policies (choices)
// and the index, and makes figures of what happens. All policies have the same
// arrivals. A run is on one goroutine and depends on nothing but its arguments:
// several run side by side and give the same bytes on any number of cores.
//
// Engines are imitations, and the times that come out are those of a coarse
// model, which the result names with its limits.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/spool"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/fleet"
	"github.com/kvbench/kvbench/mocker/steptime"
	"github.com/kvbench/kvbench/policies/catalogue"
	"github.com/kvbench/kvbench/trace"
)

// Config describes a comparison.
type Config struct {
	// Trace is what all policies get; Source says where it is from.
	Trace  *trace.Trace
	Source trace.Source
	// Policies are compared, in this order; those with the same text are refused.
	Policies []*catalogue.Policy
	// Workers is the number of ranks.
	Workers int
	// Engine describes each rank's engine.
	Engine Engines
	// Time is how long passes take.
	Time steptime.Preset
	// SpeedUps divide the trace's times; every policy runs with each.
	SpeedUps []float64
	// Seeds of the policies' random choices, of lost events and of the content of
	// answers; every policy runs with each.
	Seeds []uint64
	// EventDelay, LoadDelay, EventLoss, Routers and Concurrency are those of
	// fleet.Config.
	EventDelay, LoadDelay time.Duration
	EventLoss             float64
	Routers               int
	Concurrency           int
	// Approximate, if not empty, is ApproximateTTL or ApproximateLRU: routers get no
	// KV events and store their own decisions instead, for TTL or as the pools
	// allow.
	Approximate string
	TTL         time.Duration
	// Strict makes a request that its rank can never hold an error.
	Strict bool
	// WarmUp is the share of the arrivals, 0 to less than 1, that the figures
	// after warm-up leave out.
	WarmUp float64
	// Window is the virtual time over which imbalance is taken.
	Window time.Duration
	// SLO has the limits of goodput.
	SLO SLO
	// Oracle adds a router that knows the true state of every rank.
	Oracle bool
	// Bounds adds hits of caches without engines: one of all ranks' size, and one
	// without a bound.
	Bounds bool
	// Knee, if not nil, asks for a search of the load at which the SLO breaks; the
	// first of SpeedUps is where it begins, and no other is played.
	Knee *KneeSearch
	// DecisionTime measures on the wall clock how long decisions take. Results then
	// differ from time to time in that.
	DecisionTime bool
	// Detail keeps series over time and curves of distributions in the result.
	Detail bool
	// Requests, if not nil, is given what became of the requests of each run, in the
	// order of Result.Runs, by arrival. Calls do not overlap, and requests are borrowed
	// for the call. An error ends the comparison.
	Requests func(run *RunResult, requests []Request) error
	// Parallel is how many runs are under way at a time, 0: one for each CPU.
	Parallel int

	byBlocks bool // routers are told of blocks one by one, for tests
}

// SLO are limits that a request must hold to count for goodput. A limit of 0 is
// none.
type SLO struct {
	TTFT time.Duration
	TPOT time.Duration
	E2E  time.Duration
}

// maxRouters bounds the memory of indexes.
const maxRouters = 1024

func (c *Config) validate() error {
	if err := c.validateOptions(); err != nil {
		return err
	}
	switch {
	case c.Trace == nil || c.Trace.Len() == 0:
		return fmt.Errorf("the trace has no requests")
	case len(c.Policies) == 0 && !c.Oracle:
		return fmt.Errorf("no policy; give at least one")
	case c.Workers < 1:
		return fmt.Errorf("%d workers; there must be at least 1", c.Workers)
	case c.Workers > indexer.MaxRanks:
		return fmt.Errorf("%d workers; there must be at most %d", c.Workers, indexer.MaxRanks)
	case c.Routers < 1:
		return fmt.Errorf("%d routers; there must be at least 1", c.Routers)
	case c.Routers > maxRouters:
		return fmt.Errorf("%d routers; there must be at most %d, as each has an index of its own", c.Routers, maxRouters)
	case len(c.SpeedUps) == 0 || len(c.Seeds) == 0:
		return fmt.Errorf("no speed-up or no seed; give at least one of each")
	case !(c.WarmUp >= 0 && c.WarmUp < 1):
		return fmt.Errorf("a warm-up share of %g; it must be from 0 to less than 1", c.WarmUp)
	case c.Window < 0:
		return fmt.Errorf("a window of %v; it must not be negative", c.Window)
	case c.SLO.TTFT < 0 || c.SLO.TPOT < 0 || c.SLO.E2E < 0:
		return fmt.Errorf("a limit below 0 in the SLO")
	case c.Concurrency > 0 && len(c.SpeedUps) > 1:
		return fmt.Errorf("several speed-ups with a concurrency: arrival times do not count then; give one")
	}
	for i, seed := range c.Seeds {
		if slices.Contains(c.Seeds[:i], seed) {
			return fmt.Errorf("the seed %d is given twice", seed)
		}
	}
	for i, p := range c.Policies {
		for _, q := range c.Policies[:i] {
			if p.Text == q.Text {
				return fmt.Errorf("policy %s is given twice", p.Text)
			}
		}
	}
	for i, x := range c.SpeedUps {
		if !(x > 0) || math.IsInf(x, 0) {
			return fmt.Errorf("a speed-up of %g; it must be finite and above 0", x)
		}
		for _, y := range c.SpeedUps[:i] {
			if x == y {
				return fmt.Errorf("the speed-up %g is given twice", x)
			}
		}
	}
	// The span is at the lowest speed-up, which must be known to be one.
	if span := c.arrivalSpan(); c.Window > 0 && span > maxWindows*float64(c.Window) {
		return fmt.Errorf("requests arrive over %.3g days at a speed-up of %g, more than %d windows of %v; are the times of the trace all of one kind? If they are, give a longer --window, or cut the gap with 'kvbench trace slice'",
			span/float64(24*time.Hour), c.slowest(), int(maxWindows), c.Window)
	}
	return nil
}

func (c *Config) validateOptions() error {
	switch {
	case c.Approximate != "" && c.Approximate != ApproximateTTL && c.Approximate != ApproximateLRU:
		return fmt.Errorf("no approximation %q; there are %s and %s", c.Approximate, ApproximateTTL, ApproximateLRU)
	case c.Approximate == ApproximateTTL && c.TTL <= 0:
		return fmt.Errorf("blocks that live %v; it must be more than 0", c.TTL)
	case c.Approximate != "" && c.EventLoss > 0:
		return fmt.Errorf("events are lost with a probability of %g, and an approximate router gets none", c.EventLoss)
	case len(c.Engine.RankBlocks) > 0 && len(c.Engine.RankBlocks) != c.Workers:
		return fmt.Errorf("%d pool sizes for %d workers; give one for all or one for each", len(c.Engine.RankBlocks), c.Workers)
	case c.Knee != nil && c.SLO == SLO{}:
		return fmt.Errorf("a search of the load at which the SLO breaks needs an SLO")
	case c.Knee != nil && c.Concurrency > 0:
		return fmt.Errorf("a search of the load at which the SLO breaks with a concurrency: arrival times do not count then")
	case c.Knee != nil && len(c.SpeedUps) > 1:
		return fmt.Errorf("a search of the load at which the SLO breaks begins at one speed-up; give one")
	case c.Knee != nil && c.Requests != nil:
		return fmt.Errorf("a search of the load at which the SLO breaks keeps no requests")
	}
	if c.Knee != nil {
		return c.Knee.validate()
	}
	return nil
}

// Progress is told how many of total runs are done.
type Progress func(done, total int)

// Run makes all runs. A run that fails ends the comparison. If ctx ends first,
// the result has the runs that were done and says so; err is then the cause.
func Run(ctx context.Context, cfg Config, progress Progress) (*Result, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	res := newResult(&cfg)
	var todo tasks
	if cfg.Knee != nil {
		for _, seed := range cfg.Seeds {
			for _, p := range cfg.each() {
				todo.add(&kneeTask{policy: p, seed: seed})
			}
		}
	} else {
		for _, x := range cfg.SpeedUps {
			t, err := cfg.Trace.SpeedUp(x)
			if err != nil {
				return nil, err
			}
			for _, seed := range cfg.Seeds {
				for _, p := range cfg.each() {
					todo.add(&job{trace: t, policy: p, speedUp: x, seed: seed})
				}
			}
		}
	}
	for _, b := range boundJobs(&cfg) {
		todo.add(b)
	}
	err := todo.run(ctx, &cfg, res, progress)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	res.noteOverload()
	if missing := len(todo.list) - todo.finished; ctx.Err() != nil {
		res.Partial = true
		res.warn("interrupted: %d of %d runs are missing, and nothing is compared", missing, len(todo.list))
		return res, context.Cause(ctx)
	}
	if cfg.Knee != nil {
		res.KneeRanking = orderKnees(res.Knees)
		res.noteKnees()
	} else {
		res.compare()
	}
	return res, nil
}

// maxWindows is how many windows a run may have. Each is looked at, even if nothing
// happens in it.
const maxWindows = 1 << 20

// arrivalSpan returns the time between the first and the last timestamp at the
// lowest speed-up, in ns.
func (c *Config) arrivalSpan() float64 {
	first, last := math.Inf(1), math.Inf(-1)
	for i := range c.Trace.Len() {
		if at := c.Trace.Request(i).Timestamp; !math.IsNaN(at) {
			first, last = min(first, at), max(last, at)
		}
	}
	return max(0, last-first) * float64(time.Millisecond) / c.slowest()
}

// slowest returns the lowest speed-up that is sure to be played.
func (c *Config) slowest() float64 {
	if c.Knee == nil && len(c.SpeedUps) > 0 {
		return slices.Min(c.SpeedUps)
	}
	return 1
}

// noteOverload warns of runs whose times say little.
func (r *Result) noteOverload() {
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Overloaded {
			r.warn("%s at speed-up %g, seed %d is more than the ranks can serve: queues grow as long as requests come, and its times and comparisons say little but that", run.Policy, run.SpeedUp, run.Seed)
		}
	}
}

// noteKnees warns of searches that found no knee.
func (r *Result) noteKnees() {
	for _, k := range r.Knees {
		switch {
		case k.Carried == 0:
			r.warn("%s with seed %d carries no load that was tried, down to speed-up %g: the SLO breaks without load, or the ranks refuse too much", k.Policy, k.Seed, k.Broken)
		case k.Broken == 0:
			r.warn("%s with seed %d carries every load that was tried, up to speed-up %g", k.Policy, k.Seed, k.Carried)
		}
	}
}

// each returns the policies, and nil for the oracle if it is wanted.
func (c *Config) each() []*catalogue.Policy {
	if c.Oracle {
		return append(slices.Clone(c.Policies), nil)
	}
	return c.Policies
}

// task is a piece of work that shares nothing with others.
type task interface {
	// do works.
	do(ctx context.Context, cfg *Config) error
	// report puts what came of it into the result. Tasks report in their order.
	report(cfg *Config, res *Result) error
}

// tasks are done side by side.
type tasks struct {
	list []task

	mu       sync.Mutex
	done     []bool
	reported int // tasks that were looked at, in their order
	finished int
}

func (t *tasks) add(x task) { t.list = append(t.list, x) }

func (t *tasks) run(ctx context.Context, cfg *Config, res *Result, progress Progress) error {
	t.done = make([]bool, len(t.list))
	if progress == nil {
		progress = func(int, int) {}
	}
	progress(0, len(t.list))
	g, inner := errgroup.WithContext(ctx)
	parallel := cfg.Parallel
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	g.SetLimit(parallel)
	for i, x := range t.list {
		g.Go(func() error {
			if inner.Err() != nil {
				return context.Cause(inner)
			}
			if err := x.do(inner, cfg); err != nil {
				return err
			}
			t.mu.Lock()
			defer t.mu.Unlock()
			t.done[i] = true
			t.finished++
			progress(t.finished, len(t.list))
			// Those that are not done are waited for, so that reports come in order
			// and what they keep is let go as soon as may be.
			for t.reported < len(t.list) && t.done[t.reported] {
				t.reported++
				if err := t.list[t.reported-1].report(cfg, res); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := g.Wait()
	defer func() {
		for _, x := range t.list {
			if j, ok := x.(*job); ok {
				_ = j.spooled.Close() // of a run that nobody was told of
			}
		}
	}()
	if ctx.Err() != nil {
		// What was done behind what was not.
		for ; t.reported < len(t.list); t.reported++ {
			if t.done[t.reported] {
				if err := t.list[t.reported].report(cfg, res); err != nil {
					return err
				}
			}
		}
	}
	return err
}

// job is one run.
type job struct {
	trace   *trace.Trace
	policy  *catalogue.Policy // nil: the oracle
	speedUp float64
	seed    uint64
	explain *explainer // nil: explain nothing

	result   *RunResult
	requests []Request
	spooled  spool.Mapping // of requests
}

func nameOf(p *catalogue.Policy) string {
	if p == nil {
		return oracleName
	}
	return p.Text
}

// do implements task.
func (j *job) do(ctx context.Context, cfg *Config) (err error) {
	defer func() {
		if err != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("policy %s, speed-up %g, seed %d: %w", nameOf(j.policy), j.speedUp, j.seed, err)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var strict func(int, uint64, engine.Refusal)
	if cfg.Strict {
		strict = func(rank int, row uint64, why engine.Refusal) {
			cancel(&refused{rank, int(row), j.trace.Request(int(row)).Line, why})
		}
	}
	live := newUnderway(j.trace.Len())
	watch := newWatch(cfg.Workers, live, strict)
	if audited {
		if watch.audit, err = newAudit(cfg.Workers); err != nil {
			return err
		}
	}
	engines := make([]rankEngine, cfg.Workers)
	fc := fleet.Config{
		BlockSize: cfg.Engine.BlockSize,
		Ranks:     cfg.Workers,
		Open: func(rank int, l engine.Listener) (fleet.Engine, error) {
			w := &watch.ranks[rank]
			w.next, w.pieces = l, engine.PiecesTo(l)
			e, err := cfg.Engine.open(rank, cfg.Time.Time, w)
			w.rankEngine, engines[rank] = e, e
			return w, err
		},
		EventDelay:  int64(cfg.EventDelay),
		LoadDelay:   int64(cfg.LoadDelay),
		EventLoss:   cfg.EventLoss,
		Concurrency: cfg.Concurrency,
		Sample:      int64(cfg.Window),
		Seed:        j.seed,
	}
	n := &notes{live: live}
	if cfg.DecisionTime {
		n.clock = time.Now
	}
	if j.explain != nil {
		j.explain.begin(cfg, n, engines, cancel)
	}
	var routers []*router
	for i := range cfg.Routers {
		if j.policy == nil {
			fc.Routers = append(fc.Routers, &oracle{engines: engines, notes: n})
			continue
		}
		r, err := newRouter(j.policy, cfg, j.trace, n, j.seed+uint64(i)<<32)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.close()) }()
		routers = append(routers, r)
		fc.Routers = append(fc.Routers, r)
	}
	m, err := newMeasure(cfg, j.trace, n, watch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close(err != nil)) }()
	var obs fleet.Observer = m
	if j.explain != nil {
		obs = j.explain
	}
	totals, err := fleet.Run(ctx, j.trace, fc, obs)
	if cause := (*refused)(nil); errors.As(context.Cause(ctx), &cause) {
		err = cause // also if it came with the last request
	}
	if err != nil {
		return err
	}
	if watch.audit != nil {
		if err := watch.audit.finish(j.trace, cfg.Engine.BlockSize, j.seed, engines); err != nil {
			return err
		}
	}
	r, err := m.result(totals)
	if err != nil {
		return err
	}
	r.Policy, r.SpeedUp, r.Seed = nameOf(j.policy), j.speedUp, j.seed
	r.Residency = watch.residency(totals.EndNanos)
	if j.policy != nil {
		r.Full = j.policy.Full
	}
	for _, router := range routers {
		r.Router.add(&router.counts)
	}
	j.result, j.requests, j.spooled = r, m.requests, m.spooled
	return nil
}

// report implements task.
func (j *job) report(cfg *Config, res *Result) error {
	if cfg.Requests != nil {
		err := cfg.Requests(j.result, j.requests)
		if err := errors.Join(err, j.spooled.Close()); err != nil {
			return err
		}
		j.requests, j.spooled = nil, nil
	}
	res.Runs = append(res.Runs, *j.result)
	return nil
}
