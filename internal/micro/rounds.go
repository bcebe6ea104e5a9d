package micro

import (
	"context"
	"fmt"
	"runtime"
	"slices"
)

// Progress is told how far the work is; nil functions are not called.
type Progress struct {
	Step    func(name string, total int64)
	Advance func(done int64)
}

func (p *Progress) step(name string, total int64) {
	if p.Step != nil {
		p.Step(name, total)
	}
}

func (p *Progress) advance(done int64) {
	if p.Advance != nil {
		p.Advance(done)
	}
}

// metric is one figure of one round.
type metric struct {
	name, unit string
	higher     bool
	value      float64
}

// run measures every variant of a case once a round, r.Rounds times and once
// before to warm up, and adds the series to the report.
func (r *Report) run(ctx context.Context, p *Progress, name string, variants []string, measure func(variant int) ([]metric, error)) error {
	n := len(variants)
	p.step(name, int64(n*(r.Rounds+1)))
	values := map[[2]string][]metric{} // by metric and variant, in rounds
	var names []string                 // of metrics, in the order of their first appearance
	for round := range r.Rounds + 1 {
		for k := range n {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			variant := (k + round) % n
			// What the others left must not be collected on this one's time.
			runtime.GC()
			metrics, err := measure(variant)
			if err != nil {
				return fmt.Errorf("%s: %w", variants[variant], err)
			}
			p.advance(int64(round*n + k + 1))
			for _, m := range metrics {
				if !slices.Contains(names, m.name) {
					names = append(names, m.name)
				}
				if round > 0 {
					key := [2]string{m.name, variants[variant]}
					values[key] = append(values[key], m)
				}
			}
		}
	}
	for _, metric := range names {
		for _, variant := range variants {
			ms := values[[2]string{metric, variant}]
			if len(ms) == 0 {
				continue
			}
			s := Series{Case: name, Variant: variant, Metric: metric, Unit: ms[0].unit, HigherBetter: ms[0].higher}
			for _, m := range ms {
				s.Values = append(s.Values, m.value)
			}
			r.Series = append(r.Series, s)
		}
	}
	return nil
}
