package rounds

import (
	"fmt"
	"slices"

	"github.com/kvbench/kvbench/stats"
)

// Alone is a metric of one variant by itself, for a comparison with what was not
// measured in the same rounds.
type Alone struct {
	Metric Metric
	Series stats.Series // one reading for each round in which the variant ran
	Load   Load
	// Refused says why the metric is no result under this load; "" if it may be
	// one.
	Refused string
}

// Alone reads a metric of a variant from the first n rounds; 0: all.
func (e *Experiment) Alone(metric, variant string, n int) (Alone, error) {
	m, err := ResolveMetric(metric)
	if err != nil {
		return Alone{}, err
	}
	if names := e.Manifest.names(); !slices.Contains(names, variant) {
		return Alone{}, fmt.Errorf("%s has no variant %s; it has %v", e.Dir, variant, names)
	}
	s := &sample{e: e, rounds: len(e.rows)}
	if n > 0 {
		s.rounds = min(s.rounds, n)
	}
	if err := s.read(); err != nil {
		return Alone{}, err
	}
	out := Alone{Metric: m, Series: s.series(m, variant, variant), Load: s.loads[variant].load()}
	out.Refused, _ = s.underLoad(m, Ratio{Of: variant, To: variant})
	return out, nil
}
