package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// maxWalk is the number of values up to which the true level of [Anytime] is computed.
const maxWalk = 2000

// signEvidence returns the evidence against θ being the median if k of n values
// lie on one side of it, as an e-value: 2ⁿ·B(2+k, 2+n-k)/B(2,2), the likelihood
// of the signs under a Beta(2,2) mixture over that under a fair coin. Whatever the
// number of looks, it ever exceeds 1/α with a probability of at most α (Ville).
func signEvidence(n, k int) float64 {
	return math.Exp(float64(n)*math.Ln2 + mathext.Lbeta(float64(2+k), float64(2+n-k)) - mathext.Lbeta(2, 2))
}

// anytimeRank returns the rank of the lower end, 0 if the evidence suffices
// against no θ. from is a rank that n-1 values had, to begin the search with.
func anytimeRank(n int, level float64, from int) int {
	r := from
	for r <= (n-1)/2 && signEvidence(n, r) >= 1/(1-level) {
		r++
	}
	return r
}

// Anytime returns an interval of the median that may be looked at after every
// value, with stopping at will: all the intervals of a growing sequence cover the
// median together at least with the level, whatever the distribution. It has its
// r-th smallest and r-th largest value as ends, and every θ outside has evidence
// of at least 1/(1-level) against it.
//
// TrueLevel is the exact probability that no interval up to this number of values
// excludes the median; above 2000 values it is the level asked for.
func Anytime(values []float64, level float64) Interval {
	return Prepare(MethodAnytime, len(values), level).Interval(values)
}

// neverExcluded returns the probability that the true median lies in the intervals
// of the first 1, 2, … n values: a fair walk that stays between two bounds.
func neverExcluded(n int, level float64) float64 {
	walk := make([]float64, n+1) // walk[k] is P(k of i values below, never excluded)
	walk[0] = 1
	r := 0
	for i := 1; i <= n; i++ {
		r = anytimeRank(i, level, r)
		for k := i; k >= 0; k-- {
			walk[k] /= 2
			if k > 0 {
				walk[k] += walk[k-1] / 2
			}
			if k < r || i-k < r {
				walk[k] = 0
			}
		}
	}
	var p float64
	for _, w := range walk {
		p += w
	}
	return p
}
