package simulate

import (
	"math"
	"math/rand/v2"

	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/fleet"
	"github.com/kvbench/kvbench/stats"
)

// groups is into how many groups of rows that follow each other in the trace the
// requests are put to compare policies.
const groups = 64

// Comparison is one policy against another one on the same arrivals. The
// intervals are those of a bootstrap over the trace and the seeds: the requests are
// put into groups of rows that follow each other in the trace, runs of groups are
// drawn (moving blocks) and, if there are several, seeds, the same ones for both
// policies. They say how far the result hangs on which part of the trace was
// played and on chance, not how right the engines are. Where queues grow
// throughout the trace, groups depend on all before them and intervals are too
// narrow.
type Comparison struct {
	Policy   string  `json:"policy"`
	Baseline string  `json:"baseline"`
	SpeedUp  float64 `json:"speed_up"`
	Seeds    int     `json:"seeds"`
	Groups   int     `json:"groups"`
	Block    int     `json:"block"` // groups that are drawn together

	// Ratios are means of the policy by means of the baseline: below 1 is better.
	TTFT stats.Interval `json:"ttft_ratio"`
	E2E  stats.Interval `json:"e2e_ratio"`
	// HitRatio is the policy's share of hit tokens less the baseline's.
	HitRatio stats.Interval `json:"hit_ratio_difference"`
	// Good is the share of requests that hold the SLO less the baseline's; without
	// an SLO all completed ones do.
	Good stats.Interval `json:"good_share_difference"`
}

// sums are of the requests of a group after warm-up: all of them, and what those
// that completed came to.
type sums struct {
	all, n, ttft, e2e, prompt, hit, good float64
}

func (s *sums) add(o sums) {
	s.all += o.all
	s.n += o.n
	s.ttft += o.ttft
	s.e2e += o.e2e
	s.prompt += o.prompt
	s.hit += o.hit
	s.good += o.good
}

// grouped sums requests by group.
type grouped [groups]sums

func (g *grouped) add(o *fleet.Outcome, rows int, good bool) {
	s := sums{all: 1}
	if o.Rank != fleet.NoRank && o.Refused == engine.Accepted {
		s = sums{1, 1, float64(o.First - o.Arrival), float64(o.Last - o.Arrival), float64(o.Prompt), float64(o.Cached), 0}
	}
	if good {
		s.good = 1
	}
	g[o.Row*groups/rows].add(s)
}

// seeded has the groups of a policy by seed.
type seeded []*grouped

// bySpeedUp collects the runs of one speed-up by policy, in their order.
func (r *Result) bySpeedUp(x float64) (names []string, by map[string]seeded) {
	by = map[string]seeded{}
	for i := range r.Runs {
		if run := &r.Runs[i]; run.SpeedUp == x {
			if by[run.Policy] == nil {
				names = append(names, run.Policy)
			}
			by[run.Policy] = append(by[run.Policy], &run.groups)
		}
	}
	return names, by
}

// compare compares the policies of each speed-up with the first one, and ranks
// them.
func (r *Result) compare() {
	for _, x := range r.Options.SpeedUps {
		names, by := r.bySpeedUp(x)
		for _, name := range names[min(1, len(names)):] {
			r.Comparisons = append(r.Comparisons, compare(by[name], by[names[0]], Comparison{
				Policy: name, Baseline: names[0], SpeedUp: x,
			}, 0.95, r.Options.Seeds[0]))
		}
		if len(names) > 1 {
			r.rank(x, names, by)
		}
	}
	r.setPossible()
}

// resamples is how many a comparison draws; rankings with many pairs take more, so
// that their higher level can be reached.
func resamples(level float64) int {
	return max(1999, int(math.Ceil(4/(1-level))))
}

func compare(a, b seeded, c Comparison, level float64, seed uint64) Comparison {
	// Groups without a completed request say nothing, as all of a warm-up.
	var rows []int
	for i := range groups {
		for s := range a {
			if a[s][i].all > 0 || b[s][i].all > 0 {
				rows = append(rows, i)
				break
			}
		}
	}
	c.Seeds, c.Groups, c.Block = len(a), len(rows), stats.BlockLength(len(rows))
	interval := func(statistic func(a, b *sums) float64) stats.Interval {
		draws := rand.New(rand.NewPCG(seed, 0x7365656473))
		first := true
		return stats.Bootstrap(len(rows), func(drawn []int) float64 {
			var x, y sums
			for s := range a {
				// The first call is for the estimate, with all there is.
				if !first {
					s = draws.IntN(len(a))
				}
				for _, i := range drawn {
					x.add(a[s][rows[i]])
					y.add(b[s][rows[i]])
				}
			}
			first = false
			return statistic(&x, &y)
		}, stats.Resampling{Resamples: resamples(level), Seed: seed, Level: level, Block: c.Block})
	}
	ratio := func(x, xn, y, yn float64) float64 {
		if xn == 0 || yn == 0 || y == 0 {
			return math.NaN()
		}
		return x / xn / (y / yn)
	}
	c.TTFT = interval(func(x, y *sums) float64 { return ratio(x.ttft, x.n, y.ttft, y.n) })
	c.E2E = interval(func(x, y *sums) float64 { return ratio(x.e2e, x.n, y.e2e, y.n) })
	c.HitRatio = interval(func(x, y *sums) float64 {
		if x.prompt == 0 || y.prompt == 0 {
			return math.NaN()
		}
		return x.hit/x.prompt - y.hit/y.prompt
	})
	c.Good = interval(func(x, y *sums) float64 {
		if x.all == 0 || y.all == 0 {
			return math.NaN()
		}
		return x.good/x.all - y.good/y.all
	})
	return c
}

// Verdict says in a few letters what an interval of a ratio or difference says.
func Verdict(iv stats.Interval, none float64) string {
	if !iv.Ok() || iv.Contains(none) {
		return "not distinguishable"
	}
	if iv.Estimate < none {
		return "lower"
	}
	return "higher"
}
