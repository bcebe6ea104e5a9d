package stats

import "math"

// Comparison is what one set of same-round pairs says.
type Comparison struct {
	Pairs   Pairs     `json:"pairs"`
	Planned int       `json:"planned"` // rounds, with those dropped
	Ratios  []float64 `json:"ratios"`  // by round, of the pairs kept
	// Median is the median of the ratios, 0 without any.
	Median float64 `json:"median"`
	// RatioOfMedians is that of the medians of the same pairs: another figure, which
	// a reader of the two medians would compute. 0 without any.
	RatioOfMedians float64 `json:"ratio_of_medians"`
	// Interpolated is the interval that verdicts use.
	Interpolated Interval `json:"interpolated"`
	Bootstrap    Interval `json:"bootstrap"`
	// WorstCase allows for the dropped pairs; without any it is Conservative.
	WorstCase  Interval `json:"worst_case"`
	Stratified Interval `json:"stratified"`
	// Sigma is the noise of one ratio; see [Noise]. 0 if it is not known.
	Sigma    float64   `json:"sigma"`
	Warnings []Warning `json:"warnings"`
}

// Compare computes the median ratio of the pairs, its intervals and the warnings.
func Compare(p Pairs, level float64) Comparison {
	ratios := p.Ratios()
	c := Comparison{
		Pairs:        p,
		Planned:      p.Planned(),
		Ratios:       ratios,
		Interpolated: Interpolated(ratios, level),
		Bootstrap:    ExactBootstrap(ratios, level),
		WorstCase:    WorstCase(ratios, len(p.Dropped), level),
		Stratified:   Stratified(p, level),
		Warnings:     Warnings(p, level),
	}
	if len(ratios) > 0 {
		c.Median = Median(ratios)
		var x, y []float64
		for _, k := range p.Kept {
			x, y = append(x, k.X), append(y, k.Y)
		}
		if r := Median(x) / Median(y); !math.IsInf(r, 0) {
			c.RatioOfMedians = r
		}
	}
	if sigma, ok := Noise(ratios); ok {
		c.Sigma = sigma
	}
	return c
}
