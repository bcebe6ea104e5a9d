package simulate

import (
	"cmp"
	"math"
	"slices"

	"github.com/kvbench/kvbench/stats"
)

// Ranking puts the policies of one speed-up in the order of a figure, the best
// first. Each pair of them is compared as in Comparison, at a level at which all
// pairs together are right with a probability of 95% (Bonferroni), so that the
// order does not claim what chance could have made. The oracle has no place.
type Ranking struct {
	SpeedUp float64 `json:"speed_up"`
	Figure  string  `json:"figure"` // "mean TTFT" or "hit ratio"
	Level   float64 `json:"level"`  // of each pair
	Places  []Place `json:"places"`
}

// Place is that of one policy.
type Place struct {
	// Place is 1 and the number of policies that are better beyond doubt, so that
	// several may share it.
	Place  int     `json:"place"`
	Policy string  `json:"policy"`
	Value  float64 `json:"value"` // of all seeds together, after warm-up; TTFT in ns
	// NotDistinguishable are the policies from which it is not.
	NotDistinguishable []string `json:"not_distinguishable_from"`
}

// The figures of rankings.
const (
	ByTTFT = "mean TTFT"
	ByHits = "hit ratio"
)

// rank makes the rankings of one speed-up.
func (r *Result) rank(x float64, names []string, by map[string]seeded) {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == oracleName })
	pairs := len(names) * (len(names) - 1) / 2
	if pairs == 0 {
		return
	}
	level := 1 - 0.05/float64(pairs)
	n := len(names)
	// signs[f][i*n+j] is -1 if policy i is better than j by figure f, 1 if worse.
	signs := [2][]int{make([]int, n*n), make([]int, n*n)}
	for i := range names {
		for j := range i {
			c := compare(by[names[i]], by[names[j]], Comparison{}, level, r.Options.Seeds[0])
			for f, s := range [2]int{sign(c.TTFT, 1), -sign(c.HitRatio, 0)} {
				signs[f][i*n+j], signs[f][j*n+i] = s, -s
			}
		}
	}
	for f, figure := range [2]string{ByTTFT, ByHits} {
		k := Ranking{SpeedUp: x, Figure: figure, Level: level, Places: []Place{}}
		for i, name := range names {
			var s sums
			for _, g := range by[name] {
				for _, group := range g {
					s.add(group)
				}
			}
			p := Place{Place: 1, Policy: name, Value: s.ttft / s.n, NotDistinguishable: []string{}}
			if figure == ByHits {
				p.Value = s.hit / s.prompt
			}
			if math.IsNaN(p.Value) {
				p.Value = 0 // nothing completed
			}
			for j, other := range names {
				switch {
				case i == j:
				case signs[f][i*n+j] > 0:
					p.Place++
				case signs[f][i*n+j] == 0:
					p.NotDistinguishable = append(p.NotDistinguishable, other)
				}
			}
			k.Places = append(k.Places, p)
		}
		better := 1.0
		if figure == ByHits {
			better = -1
		}
		slices.SortStableFunc(k.Places, func(a, b Place) int {
			return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(better*a.Value, better*b.Value))
		})
		r.Rankings = append(r.Rankings, k)
	}
}

// sign says on which side of none an interval lies, 0 if it has it or is absent.
func sign(iv stats.Interval, none float64) int {
	switch {
	case iv.Contains(none):
		return 0
	case iv.Estimate < none:
		return -1
	}
	return 1
}

// setPossible sets each run against the bounds and the oracle.
func (r *Result) setPossible() {
	hits := map[string]float64{}
	for _, b := range r.Bounds {
		hits[b.Name] = float64(b.HitTokens)
	}
	over := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return a / b
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		run.Possible = &Possible{
			OfShared:    over(float64(run.Whole.HitTokens), hits[SharedCache]),
			OfUnbounded: over(float64(run.Whole.HitTokens), hits[UnboundedCache]),
		}
		for j := range r.Runs {
			if o := &r.Runs[j]; o.Policy == oracleName && o.SpeedUp == run.SpeedUp && o.Seed == run.Seed {
				run.Possible.TTFTOfOracle = over(run.Figures().TTFT.Mean, o.Figures().TTFT.Mean)
				run.Possible.E2EOfOracle = over(run.Figures().E2E.Mean, o.Figures().E2E.Mean)
			}
		}
	}
}

// Figures returns those after warm-up, or of all requests if there is none.
func (r *RunResult) Figures() *Figures {
	if r.Steady != nil {
		return r.Steady
	}
	return &r.Whole
}
