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
	"fmt"
	"math"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

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
	// Parallel is how many runs are under way at a time, 0: one for each CPU.
	Parallel int
}

// SLO are limits that a request must hold to count for goodput. A limit of 0 is
// none.
type SLO struct {
	TTFT time.Duration
	TPOT time.Duration
	E2E  time.Duration
}

func (c *Config) validate() error {
	switch {
	case c.Trace == nil || c.Trace.Len() == 0:
		return fmt.Errorf("the trace has no requests")
	case len(c.Policies) == 0 && !c.Oracle:
		return fmt.Errorf("no policy; give at least one")
	case c.Workers < 1:
		return fmt.Errorf("%d workers; there must be at least 1", c.Workers)
	case c.Routers < 1:
		return fmt.Errorf("%d routers; there must be at least 1", c.Routers)
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
	var jobs []job
	for _, x := range cfg.SpeedUps {
		t, err := cfg.Trace.SpeedUp(x)
		if err != nil {
			return nil, err
		}
		for _, seed := range cfg.Seeds {
			for _, p := range cfg.Policies {
				jobs = append(jobs, job{trace: t, policy: p, speedUp: x, seed: seed})
			}
			if cfg.Oracle {
				jobs = append(jobs, job{trace: t, speedUp: x, seed: seed})
			}
		}
	}
	runs := make([]*RunResult, len(jobs))
	bounds := boundJobs(&cfg)
	total := len(jobs) + len(bounds)
	done := make(chan struct{}, total)
	if progress != nil {
		progress(0, total)
	}
	// Whole runs side by side: within one nothing is concurrent.
	g, inner := errgroup.WithContext(ctx)
	parallel := cfg.Parallel
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	g.SetLimit(parallel + 1) // the one that counts
	g.Go(func() error {
		for n := 1; n <= total; n++ {
			select {
			case <-done:
				if progress != nil {
					progress(n, total)
				}
			case <-inner.Done():
				return nil
			}
		}
		return nil
	})
	for i := range jobs {
		g.Go(func() error {
			r, err := jobs[i].run(inner, &cfg)
			if err != nil {
				return err
			}
			runs[i] = r
			done <- struct{}{}
			return nil
		})
	}
	boundResults := make([]*Bound, len(bounds))
	for i := range bounds {
		g.Go(func() error {
			b, err := bounds[i].run(inner, &cfg)
			if err != nil {
				return err
			}
			boundResults[i] = b
			done <- struct{}{}
			return nil
		})
	}
	err := g.Wait()
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	for _, r := range runs {
		if r != nil {
			res.Runs = append(res.Runs, *r)
		}
	}
	for i := range res.Runs {
		if r := &res.Runs[i]; r.Overloaded {
			res.warn("%s at speed-up %g, seed %d is more than the ranks can serve: queues grow as long as requests come, and its times and comparisons say little but that", r.Policy, r.SpeedUp, r.Seed)
		}
	}
	for _, b := range boundResults {
		if b != nil {
			res.Bounds = append(res.Bounds, *b)
		}
	}
	if ctx.Err() != nil {
		res.Partial = true
		res.warn("interrupted: %d of %d runs are missing", len(jobs)-len(res.Runs), len(jobs))
		return res, context.Cause(ctx)
	}
	res.compare()
	return res, nil
}

// job is one run.
type job struct {
	trace   *trace.Trace
	policy  *catalogue.Policy // nil: the oracle
	speedUp float64
	seed    uint64
}

func (j *job) name() string {
	if j.policy == nil {
		return oracleName
	}
	return j.policy.Text
}

func (j *job) run(ctx context.Context, cfg *Config) (*RunResult, error) {
	engines := make([]rankEngine, cfg.Workers)
	fc := fleet.Config{
		BlockSize: cfg.Engine.BlockSize,
		Ranks:     cfg.Workers,
		Open: func(rank int, l engine.Listener) (fleet.Engine, error) {
			e, err := cfg.Engine.open(cfg.Time.Time, l)
			if err != nil {
				return nil, err
			}
			engines[rank] = e
			return e, nil
		},
		EventDelay:  int64(cfg.EventDelay),
		LoadDelay:   int64(cfg.LoadDelay),
		EventLoss:   cfg.EventLoss,
		Concurrency: cfg.Concurrency,
		Sample:      int64(cfg.Window),
		Seed:        j.seed,
	}
	var routers []*router
	for i := range cfg.Routers {
		if j.policy == nil {
			fc.Routers = append(fc.Routers, &oracle{engines: engines})
			continue
		}
		r, err := newRouter(j.policy, cfg, j.trace, j.seed+uint64(i)<<32)
		if err != nil {
			return nil, err
		}
		defer r.close()
		routers = append(routers, r)
		fc.Routers = append(fc.Routers, r)
	}
	m := newMeasure(cfg, j.trace.Len())
	totals, err := fleet.Run(ctx, j.trace, fc, m)
	if err != nil {
		return nil, fmt.Errorf("policy %s, speed-up %g, seed %d: %w", j.name(), j.speedUp, j.seed, err)
	}
	r := m.result(totals)
	r.Policy, r.SpeedUp, r.Seed = j.name(), j.speedUp, j.seed
	if j.policy != nil {
		r.Full = j.policy.Full
	}
	for _, router := range routers {
		r.Router.add(router.effect)
	}
	return r, nil
}
