package stats

import (
	"fmt"
	"math"
	"slices"
)

// Procedure is a method made ready for a number of values and a level: ranks,
// weights and true level are computed once, for studies with many sets of the
// same size. It may be used from any goroutine. Make one with [Prepare].
type Procedure struct {
	blank Interval // an Interval without estimate and ends
	rank  int      // of the lower end, from the outside
	// lambda is the weight of the rank inside of it, for the interpolated interval.
	lambda float64
	// tail and pair are for the exact bootstrap.
	tail float64
	pair func(i, j int) float64
	t    float64 // Student's quantile
}

// Prepare readies one of the methods of a plain sample: [MethodInterpolated],
// [MethodExactBootstrap], [MethodConservative], [MethodHodgesLehmann],
// [MethodLogT], [MethodTrimmedLogT] or [MethodAnytime]. It panics for another one.
func Prepare(m Method, n int, level float64) Procedure {
	p := Procedure{blank: Interval{Method: m, N: n, Level: level}}
	iv := &p.blank
	switch {
	case !(level > 0 && level < 1):
		iv.Absent = BadLevel
	case n < MinValues:
		iv.Absent = TooFewValues
	case n > maxExact && (m == MethodExactBootstrap || m == MethodHodgesLehmann):
		iv.Absent = TooManyValues
	}
	if !iv.Ok() {
		return p
	}
	switch m {
	case MethodConservative:
		p.rank = signRank(n, level)
		iv.TrueLevel, iv.Basis = signLevel(n, p.rank), AnyContinuous
		iv.LevelMin, iv.LevelMax = iv.TrueLevel, iv.TrueLevel
	case MethodInterpolated:
		p.rank, p.lambda = interpolation(n, level)
		if p.rank > 0 {
			iv.LevelMin, iv.LevelMax = signLevel(n, p.rank+1), signLevel(n, p.rank)
			iv.TrueLevel, iv.Basis = interpolatedNormalLevel(n, p.rank, p.lambda), Normal
		}
	case MethodExactBootstrap:
		p.tail = (1 - level) / 2
		p.rank = 1
		if n%2 == 1 {
			// The lower end is the k-th value for the smallest k with P(med* ≤ x(k)) ≥ tail.
			for medianAtMost(n, p.rank) < p.tail {
				p.rank++
			}
			iv.TrueLevel, iv.Basis = signLevel(n, p.rank), AnyContinuous
			iv.LevelMin, iv.LevelMax = iv.TrueLevel, iv.TrueLevel
		} else {
			p.pair = middlePairs(n)
			iv.TrueLevel, iv.Basis = evenLevel(n, p.tail), Symmetric
		}
	case MethodHodgesLehmann:
		p.rank, iv.TrueLevel = walshRank(n, level)
		iv.Basis = Symmetric
	case MethodLogT:
		p.rank, p.t = 1, studentT(level, float64(n-1))
		iv.TrueLevel, iv.Basis = level, Normal
	case MethodTrimmedLogT:
		p.rank, p.t = 1, studentT(level, float64(n-2*trimmed(n)-1))
		iv.TrueLevel, iv.Basis = level, Nominal
	case MethodAnytime:
		p.rank = anytimeRank(n, level, 0)
		if p.rank > 0 {
			iv.TrueLevel, iv.Basis = level, Nominal
			if n <= maxWalk {
				iv.TrueLevel, iv.Basis = neverExcluded(n, level), AnyContinuous
			}
			iv.LevelMin, iv.LevelMax = iv.TrueLevel, 1
		}
	default:
		panic(fmt.Sprintf("stats: method %q is not one of a plain sample", m))
	}
	if p.rank == 0 {
		*iv = Interval{Method: m, N: n, Level: level, Absent: LevelUnreached}
	}
	return p
}

// Blank returns the interval without estimate and ends: method, level, true level,
// and the reason if there is none for this number of values.
func (p Procedure) Blank() Interval { return p.blank }

// Interval returns the interval of the values. It panics if their number is not
// the one that the procedure was made for.
func (p Procedure) Interval(values []float64) Interval {
	iv := p.blank
	if len(values) != iv.N {
		panic(fmt.Sprintf("stats: %d values for a procedure of %d", len(values), iv.N))
	}
	if len(values) == 0 {
		return iv
	}
	if slices.ContainsFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		return p.without(NotFinite)
	}
	x := slices.Sorted(slices.Values(values))
	switch iv.Method {
	case MethodHodgesLehmann, MethodLogT, MethodTrimmedLogT:
		if x[0] <= 0 {
			if !iv.Ok() {
				return iv
			}
			return p.without(NotPositive)
		}
		for i, v := range x {
			x[i] = math.Log(v)
		}
		return p.logs(x)
	}
	n := len(x)
	iv.Estimate = Median(x)
	if !iv.Ok() {
		return iv
	}
	switch k := p.rank; {
	case iv.Method == MethodInterpolated:
		iv.Low, iv.High = lerp(x[k-1], x[min(k, n-1)], p.lambda), lerp(x[n-k], x[max(n-k-1, 0)], p.lambda)
	case p.pair != nil:
		atoms := pairAtoms(x, p.pair)
		iv.Low, iv.High = lowerEnd(atoms, p.tail), upperEnd(atoms, p.tail)
	default:
		// For the bootstrap of an odd number ties need no joining: the k-th value is
		// the end whatever equals it.
		iv.Low, iv.High = x[k-1], x[n-k]
	}
	return iv
}

// without returns the interval that values make impossible.
func (p Procedure) without(reason Reason) Interval {
	return Interval{Method: p.blank.Method, N: p.blank.N, Level: p.blank.Level, Absent: reason}
}
