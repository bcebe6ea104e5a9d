package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// strata is the logarithms of the ratios by which of the two variants ran first.
type strata struct {
	// first are those in which the numerator ran before the denominator.
	first, second []float64
	sd            float64 // pooled within the two
	n             int
}

// stratify splits the pairs by their order. It fails if an order is missing or
// has one pair only, if a slot is unknown or a ratio is 0.
func stratify(p Pairs) (strata, Reason) {
	logs, ok := p.logRatios()
	if !ok {
		return strata{}, NotPositive
	}
	s := strata{n: len(logs)}
	for i, k := range p.Kept {
		switch {
		case k.XSlot < 0 || k.YSlot < 0 || k.XSlot == k.YSlot:
			return strata{}, OrderUnknown
		case k.XSlot < k.YSlot:
			s.first = append(s.first, logs[i])
		default:
			s.second = append(s.second, logs[i])
		}
	}
	if len(s.first) < 2 || len(s.second) < 2 {
		return strata{}, OrderUnknown
	}
	squares := stat.Variance(s.first, nil)*float64(len(s.first)-1) + stat.Variance(s.second, nil)*float64(len(s.second)-1)
	s.sd = math.Sqrt(squares / float64(s.n-2))
	return s, ""
}

// effect returns how much larger the numerator's logarithm is for running second,
// and the two-sided p-value of Student's t for no effect.
func (s strata) effect() (effect, p float64) {
	effect = stat.Mean(s.second, nil) - stat.Mean(s.first, nil)
	se := s.standardError()
	switch {
	case effect == 0:
		return 0, 1
	case se == 0:
		return effect, 0
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(s.n - 2)}
	return effect, 2 * t.Survival(math.Abs(effect)/se)
}

// standardError returns that of the effect.
func (s strata) standardError() float64 {
	return s.sd * math.Sqrt(1/float64(len(s.first))+1/float64(len(s.second)))
}

// Stratified returns an interval for the ratio with the effect of the order
// removed: the mean of the two orders' mean logarithms, exponentiated, with
// Student's t on the spread within the orders (n-2 degrees of freedom). A
// constant effect of running second changes neither estimate nor interval.
// TrueLevel is exact for normal logarithms.
func Stratified(p Pairs, level float64) Interval {
	ratios := p.Ratios()
	iv, _ := begin(MethodStratified, ratios, level)
	iv.Estimate = 0
	if !iv.Ok() {
		return iv
	}
	s, reason := stratify(p)
	if reason != "" {
		iv.Absent = reason
		return iv
	}
	mean := (stat.Mean(s.first, nil) + stat.Mean(s.second, nil)) / 2
	half := studentT(level, float64(s.n-2)) * s.standardError() / 2
	iv.Estimate, iv.Low, iv.High = math.Exp(mean), math.Exp(mean-half), math.Exp(mean+half)
	iv.TrueLevel, iv.Basis = level, Normal
	return iv.bounded()
}
