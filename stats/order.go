package stats

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"
)

// signLevel returns the probability with which the k-th smallest and the k-th
// largest of n values enclose the median of any continuous distribution:
// 1 - 2·P(Bin(n, ½) ≤ k-1). With k = 0, the whole line, it is 1.
func signLevel(n, k int) float64 {
	if k <= 0 {
		return 1
	}
	return 1 - 2*distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(k-1))
}

// signRank returns the largest k whose order statistics reach the level, 0 if
// none does.
func signRank(n int, level float64) int {
	k := 0
	for k+1 <= (n+1)/2 && signLevel(n, k+1) >= level {
		k++
	}
	return k
}

// Conservative returns the narrowest interval between the k-th smallest and the
// k-th largest value that covers the median at least with the level, whatever
// the distribution. TrueLevel is exact.
func Conservative(values []float64, level float64) Interval {
	return Prepare(MethodConservative, len(values), level).Interval(values)
}

// WorstCase returns an interval for the median of len(values)+dropped values of
// which some are unknown: its ends hold whatever the unknown ones were, since
// each end takes all of them to lie on its side. Estimate is the median of the
// values that are known.
func WorstCase(values []float64, dropped int, level float64) Interval {
	iv, x := begin(MethodWorstCase, values, level)
	if !iv.Ok() {
		return iv
	}
	if dropped < 0 {
		iv.Absent = BadOptions
		return iv
	}
	n := len(x) + dropped
	k := signRank(n, level)
	switch {
	case k == 0:
		iv.Absent = LevelUnreached
		return iv
	case k <= dropped:
		iv.Absent = TooManyDropped
		return iv
	}
	// With all dropped values below, the k-th smallest of n is the (k-dropped)-th
	// of those known; and the other way round.
	iv.Low, iv.High = x[k-dropped-1], x[n-k]
	iv.TrueLevel, iv.Basis = signLevel(n, k), AnyContinuous
	iv.LevelMin = iv.TrueLevel
	iv.LevelMax = 1
	return iv
}

// Interpolated returns the interpolated order-statistic interval of the median
// (Hettmansperger and Sheather 1986). TrueLevel is that for normal values;
// LevelMin and LevelMax hold for any continuous distribution.
func Interpolated(values []float64, level float64) Interval {
	return Prepare(MethodInterpolated, len(values), level).Interval(values)
}

// interpolation returns the rank k and the weight λ of its inner neighbour.
func interpolation(n int, level float64) (k int, lambda float64) {
	k = signRank(n, level)
	if k == 0 {
		return 0, 0
	}
	outer, inner := signLevel(n, k), signLevel(n, k+1)
	share := (outer - level) / (outer - inner)
	return k, float64(n-k) * share / (float64(k) + float64(n-2*k)*share)
}

// lerp returns a value between a and b that is exact where they are equal.
func lerp(a, b, t float64) float64 {
	if a == b {
		return a
	}
	return (1-t)*a + t*b
}

// interpolatedNormalLevel returns the level of the interval between
// (1-λ)x(k)+λx(k+1) and its mirror image for n normal values.
//
// The lower end misses, that is lies above 0, if fewer than k values are
// negative, or if exactly k are and λ·b > (1-λ)·a, where -a is the largest of
// the k negative and b the smallest of the n-k positive ones: minima of k and of
// n-k half-normal values.
func interpolatedNormalLevel(n, k int, lambda float64) float64 {
	below := distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(k - 1))
	exactly := math.Exp(combin.LogGeneralizedBinomial(float64(n), float64(k)) - float64(n)*math.Ln2)
	miss := below
	if lambda > 0 {
		c := (1 - lambda) / lambda
		// P(b > c·a) with u = P(|Z| > a), so that a's distribution is that of the
		// largest of k uniform values: ∫ k·u^(k-1)·P(|Z| > c·a(u))^(n-k) du.
		inner := func(u float64) float64 {
			a := distuv.UnitNormal.Quantile(1 - u/2)
			return float64(k) * math.Pow(u, float64(k-1)) * math.Pow(math.Erfc(c*a/math.Sqrt2), float64(n-k))
		}
		miss += exactly * quad.Fixed(inner, 0, 1, 200, quad.Legendre{}, 0)
	}
	return 1 - 2*miss
}
