package stats

import (
	"math"
	"slices"
)

// maxUnpaired is the largest number of values on a side of [Unpaired].
const maxUnpaired = 100

// Unpaired returns an interval for the ratio of two samples that were not measured
// in the same rounds: the shift between their logarithms (Hodges and Lehmann 1963),
// exponentiated. Its ends are the (c+1)-th smallest and largest difference of a
// logarithm of x and one of y, where c is the largest with P(U ≤ c) of at most half of
// 1-level under the exact law of Mann and Whitney's U. Estimate is the median
// difference, exponentiated.
//
// It assumes that both have noise of the same form, and it cannot know whether the
// machine was the same: what changed between the two samples, other than what is
// compared, is in the ratio. Pairs of the same round are better wherever there are any.
//
// It takes [MinValues] to 100 values on each side; N is the smaller number. TrueLevel
// is exact for any continuous distribution that differs by a factor alone.
func Unpaired(x, y []float64, level float64) Interval {
	iv := Interval{Method: MethodUnpaired, N: min(len(x), len(y)), Level: level}
	usable := func(values []float64) Reason {
		for _, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return NotFinite
			}
		}
		for _, v := range values {
			if v <= 0 {
				return NotPositive
			}
		}
		return ""
	}
	for _, reason := range []Reason{usable(x), usable(y)} {
		if iv.Ok() || reason == NotFinite {
			iv.Absent = reason
		}
	}
	switch {
	case !iv.Ok():
		return iv
	case !(level > 0 && level < 1):
		iv.Absent = BadLevel
	case iv.N < MinValues:
		iv.Absent = TooFewValues
	case max(len(x), len(y)) > maxUnpaired:
		iv.Absent = TooManyValues
	}
	if iv.N == 0 || iv.Absent == TooManyValues {
		return iv
	}
	shifts := make([]float64, 0, len(x)*len(y))
	for _, a := range x {
		for _, b := range y {
			shifts = append(shifts, math.Log(a)-math.Log(b))
		}
	}
	slices.Sort(shifts)
	iv.Estimate = math.Exp(Median(shifts))
	if !iv.Ok() || math.IsInf(iv.Estimate, 0) {
		return iv.bounded()
	}
	rank, trueLevel := shiftRank(len(x), len(y), level)
	if rank == 0 {
		iv.Absent = LevelUnreached
		return iv
	}
	iv.Low, iv.High = math.Exp(shifts[rank-1]), math.Exp(shifts[len(shifts)-rank])
	iv.TrueLevel, iv.Basis = trueLevel, SameForm
	return iv.bounded()
}

// shiftRank returns the rank of the difference that is the lower end, 0 if no rank
// reaches the level, and the level that it has.
func shiftRank(m, n int, level float64) (rank int, trueLevel float64) {
	law := rankSumLaw(m, n)
	var below float64
	for rank = 0; rank <= m*n/2; rank++ {
		next := below + law[rank]
		if 2*next > (1-level)*(1+1e-12) {
			break
		}
		below = next
	}
	return rank, 1 - 2*below
}

// rankSumLaw returns P(U = u) for u = 0..m·n, U the number of pairs in which the value
// of the first sample, of m, is larger than that of the second, of n.
func rankSumLaw(m, n int) []float64 {
	// The largest of all i+j values is of the first sample with i/(i+j), and then
	// larger than all j of the second; else it adds nothing.
	before := make([][]float64, n+1) // by j, for i-1
	for i := 0; i <= m; i++ {
		now := make([][]float64, n+1)
		for j := 0; j <= n; j++ {
			law := make([]float64, i*j+1)
			switch {
			case i == 0 || j == 0:
				law[0] = 1
			default:
				p := float64(i) / float64(i+j)
				for u, q := range before[j] {
					law[u+j] += p * q
				}
				for u, q := range now[j-1] {
					law[u] += (1 - p) * q
				}
			}
			now[j] = law
		}
		before = now
	}
	return before[n]
}
