package simulate

import (
	"math"

	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/fleet"
	"github.com/kvbench/kvbench/stats"
)

// groups is into how many groups of rows that follow each other in the trace the
// requests are put to compare policies.
const groups = 64

// Comparison is one policy against the first one on the same arrivals, all seeds
// together. The intervals are those of a moving-block bootstrap: the requests are
// put into groups of rows that follow each other in the trace, and runs of groups
// are drawn, the same ones for both policies. They say how far the result hangs on
// which part of the trace was played, not how right the engines are. Where queues
// grow throughout the trace, groups depend on all before them and intervals are
// too narrow.
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
}

// sums are of the completed requests of a group after warm-up.
type sums struct {
	n, ttft, e2e, prompt, hit float64
}

func (s *sums) add(o sums) {
	s.n += o.n
	s.ttft += o.ttft
	s.e2e += o.e2e
	s.prompt += o.prompt
	s.hit += o.hit
}

// grouped sums requests by group.
type grouped [groups]sums

func (g *grouped) add(o *fleet.Outcome, rows int) {
	if o.Rank == fleet.NoRank || o.Refused != engine.Accepted {
		return
	}
	g[o.Row*groups/rows].add(sums{1, float64(o.First - o.Arrival), float64(o.Last - o.Arrival), float64(o.Prompt), float64(o.Cached)})
}

// compare compares the policies of each speed-up with the first one.
func (r *Result) compare() {
	r.Comparisons = []Comparison{}
	for _, x := range r.Options.SpeedUps {
		var names []string
		byName := map[string]*grouped{}
		for i := range r.Runs {
			run := &r.Runs[i]
			if run.SpeedUp != x {
				continue
			}
			g := byName[run.Policy]
			if g == nil {
				g = new(grouped)
				byName[run.Policy] = g
				names = append(names, run.Policy)
			}
			for k := range g {
				g[k].add(run.groups[k])
			}
		}
		for _, name := range names[min(1, len(names)):] {
			r.Comparisons = append(r.Comparisons, compare(byName[name], byName[names[0]], Comparison{
				Policy: name, Baseline: names[0], SpeedUp: x, Seeds: len(r.Options.Seeds),
			}, r.Options.Seeds[0]))
		}
	}
}

func compare(a, b *grouped, c Comparison, seed uint64) Comparison {
	// Groups without a completed request say nothing, as all of a warm-up.
	var rows []int
	for i := range groups {
		if a[i].n > 0 || b[i].n > 0 {
			rows = append(rows, i)
		}
	}
	c.Groups, c.Block = len(rows), stats.BlockLength(len(rows))
	interval := func(statistic func(a, b *sums) float64) stats.Interval {
		return stats.Bootstrap(len(rows), func(drawn []int) float64 {
			var x, y sums
			for _, i := range drawn {
				x.add(a[rows[i]])
				y.add(b[rows[i]])
			}
			return statistic(&x, &y)
		}, stats.Resampling{Resamples: 1999, Seed: seed, Level: 0.95, Block: c.Block})
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
	return c
}

// verdict says in a few letters what an interval of a ratio or difference says.
func verdict(iv stats.Interval, none float64) string {
	if !iv.Ok() || iv.Contains(none) {
		return "not distinguishable"
	}
	if iv.Estimate < none {
		return "lower"
	}
	return "higher"
}
