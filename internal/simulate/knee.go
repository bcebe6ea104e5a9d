package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kvbench/kvbench/policies/catalogue"
)

// KneeSearch asks for the highest load that each policy carries: the speed-up is
// doubled until too few requests hold the SLO, or halved until enough do, and the
// gap is then halved again and again on a logarithmic scale.
type KneeSearch struct {
	// Share is how many of the requests after warm-up must hold the SLO for a load
	// to be carried, above 0 to 1. Refused ones do not hold it.
	Share float64
	// Precision is how far apart, as a share, the loads may be that are carried and
	// that are not when the search ends; above 0.
	Precision float64
	// Max is by how much the speed-up may be multiplied or divided at most.
	Max float64
}

// DefaultKnee is what to search for if nothing else is asked.
func DefaultKnee() KneeSearch { return KneeSearch{Share: 0.99, Precision: 0.05, Max: 1024} }

func (k *KneeSearch) validate() error {
	switch {
	case !(k.Share > 0 && k.Share <= 1):
		return fmt.Errorf("a share of %g of the requests must hold the SLO; it must be above 0 and at most 1", k.Share)
	case !(k.Precision >= 0.001 && k.Precision <= 1):
		return fmt.Errorf("a precision of %g; it must be from 0.001 to 1", k.Precision)
	case !(k.Max > 1) || math.IsInf(k.Max, 0):
		return fmt.Errorf("a search over a factor of %g; it must be finite and above 1", k.Max)
	}
	return nil
}

// Knee is the load that a policy carries with one seed.
type Knee struct {
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	// Carried is the highest speed-up found at which enough requests hold the SLO, 0
	// if there was none; Broken the lowest one found above it at which too few do, 0
	// if there was none. The share need not fall steadily with the load: between
	// both there may be others of either kind.
	Carried float64 `json:"carried_speed_up"`
	Broken  float64 `json:"broken_speed_up"`
	// RequestsPerSecond is the load at Carried: requests by the span of their
	// arrivals, or of their service where sessions wait for answers.
	RequestsPerSecond float64 `json:"carried_requests_per_second"`
	// Steps are all loads that were tried, in their order.
	Steps []KneeStep `json:"steps"`
}

// KneeStep is one load.
type KneeStep struct {
	SpeedUp           float64 `json:"speed_up"`
	Share             float64 `json:"good_share"`
	Carried           bool    `json:"carried"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	HitRatio          float64 `json:"hit_ratio"`
	TTFTMeanNanos     float64 `json:"ttft_mean_ns"`
	TTFTP99Nanos      int64   `json:"ttft_p99_ns"`
	TPOTP99Nanos      int64   `json:"tpot_p99_ns"`
}

// kneeTask is one search.
type kneeTask struct {
	policy *catalogue.Policy // nil: the oracle
	seed   uint64

	result Knee
}

// report implements task.
func (k *kneeTask) report(_ *Config, res *Result) error {
	res.Knees = append(res.Knees, k.result)
	return nil
}

// do implements task.
func (k *kneeTask) do(ctx context.Context, cfg *Config) error {
	k.result = Knee{Policy: nameOf(k.policy), Seed: k.seed, Steps: []KneeStep{}}
	return k.result.search(cfg.Knee, cfg.SpeedUps[0], func(x float64) (KneeStep, error) {
		t, err := cfg.Trace.SpeedUp(x)
		if err != nil {
			return KneeStep{}, err
		}
		j := job{trace: t, policy: k.policy, speedUp: x, seed: k.seed}
		if err := j.do(ctx, cfg); err != nil {
			return KneeStep{}, err
		}
		f := j.result.Figures()
		s := KneeStep{
			SpeedUp: x, Share: float64(f.Good) / float64(f.Requests), RequestsPerSecond: f.OfferedPerSecond,
			HitRatio: f.HitRatio, TTFTMeanNanos: f.TTFT.Mean, TTFTP99Nanos: f.TTFT.P99, TPOTP99Nanos: f.TPOT.P99,
		}
		s.Carried = s.Share >= cfg.Knee.Share
		return s, nil
	})
}

// search tries loads from start on.
func (k *Knee) search(cfg *KneeSearch, start float64, try func(x float64) (KneeStep, error)) error {
	step := func(x float64) error {
		s, err := try(x)
		if err != nil {
			return err
		}
		k.Steps = append(k.Steps, s)
		if s.Carried {
			k.Carried, k.RequestsPerSecond = s.SpeedUp, s.RequestsPerSecond
		} else {
			k.Broken = s.SpeedUp
		}
		return nil
	}
	x := start
	for k.Carried == 0 || k.Broken == 0 {
		if x > start*cfg.Max || x < start/cfg.Max {
			return nil // it carries all, or nothing
		}
		if err := step(x); err != nil {
			return err
		}
		if k.Broken == 0 {
			x *= 2
		} else {
			x /= 2
		}
	}
	for k.Broken/k.Carried > 1+cfg.Precision {
		if err := step(math.Sqrt(k.Carried * k.Broken)); err != nil {
			return err
		}
	}
	return nil
}

// KneeOrder puts the policies in the order of the load that they carry, the
// highest first. One is better than another beyond doubt if, with every seed, what
// it carries is at least what breaks the other; else they are not
// distinguishable. That is by the seeds and the precision of the search alone: the
// trace is one.
type KneeOrder struct {
	Places []KneePlace `json:"places"`
}

// KneePlace is that of one policy.
type KneePlace struct {
	Place  int    `json:"place"` // 1 and the number of policies that are better beyond doubt
	Policy string `json:"policy"`
	// The speed-ups carried, over the seeds; 0: with some seed the search found no
	// load that it carries.
	Mean    float64 `json:"mean_carried_speed_up"`
	Least   float64 `json:"least_carried_speed_up"`
	Most    float64 `json:"most_carried_speed_up"`
	PerSec  float64 `json:"mean_carried_requests_per_second"`
	Bounded bool    `json:"bounded"` // with every seed a load was found that breaks it
	// OfOracle is the mean carried by that of the oracle; 0: there is none.
	OfOracle           float64  `json:"of_oracle"`
	NotDistinguishable []string `json:"not_distinguishable_from"`
}

// orderKnees ranks the knees.
func orderKnees(knees []Knee) *KneeOrder {
	var names []string
	by := map[string][]*Knee{}
	for i := range knees {
		k := &knees[i]
		if by[k.Policy] == nil {
			names = append(names, k.Policy)
		}
		by[k.Policy] = append(by[k.Policy], k)
	}
	// better says that a carries more than b with every seed.
	better := func(a, b string) bool {
		for i, x := range by[a] {
			if y := by[b][i]; y.Broken == 0 || x.Carried < y.Broken {
				return false
			}
		}
		return true
	}
	mean := func(name string) float64 {
		sum := 0.0
		for _, k := range by[name] {
			sum += k.Carried
		}
		return sum / float64(len(by[name]))
	}
	oracle := 0.0
	if by[oracleName] != nil {
		oracle = mean(oracleName)
	}
	out := &KneeOrder{Places: []KneePlace{}}
	for _, name := range names {
		if name == oracleName {
			continue
		}
		p := KneePlace{Place: 1, Policy: name, Least: math.Inf(1), Bounded: true, NotDistinguishable: []string{}, Mean: mean(name)}
		for _, k := range by[name] {
			p.PerSec += k.RequestsPerSecond / float64(len(by[name]))
			p.Least, p.Most = min(p.Least, k.Carried), max(p.Most, k.Carried)
			p.Bounded = p.Bounded && k.Broken > 0
		}
		if oracle > 0 {
			p.OfOracle = p.Mean / oracle
		}
		for _, other := range names {
			switch {
			case other == name || other == oracleName:
			case better(other, name):
				p.Place++
			case !better(name, other):
				p.NotDistinguishable = append(p.NotDistinguishable, other)
			}
		}
		out.Places = append(out.Places, p)
	}
	slices.SortStableFunc(out.Places, func(a, b KneePlace) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(b.Mean, a.Mean))
	})
	return out
}
