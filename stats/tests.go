package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"
)

// FisherExact returns the two-sided p-value of Fisher's exact test for a of n and
// b of m having the same cause: the probability of all tables with the same sums
// that are no more likely than this one.
func FisherExact(a, n, b, m int) float64 {
	if a < 0 || b < 0 || a > n || b > m {
		return math.NaN()
	}
	k := a + b
	logAll := combin.LogGeneralizedBinomial(float64(n+m), float64(k))
	table := func(i int) float64 {
		return math.Exp(combin.LogGeneralizedBinomial(float64(n), float64(i)) + combin.LogGeneralizedBinomial(float64(m), float64(k-i)) - logAll)
	}
	seen := table(a)
	var p float64
	for i := max(0, k-m); i <= min(n, k); i++ {
		// Equally likely tables may differ by rounding.
		if t := table(i); t <= seen*(1+1e-9) {
			p += t
		}
	}
	return min(p, 1)
}

// RunsTest returns the number of runs of values above and below the median, in
// the order given, and the exact two-sided p-value of so few or so many of them
// (Wald and Wolfowitz 1940). Values equal to the median are left out. Without
// values on both sides p is 1.
func RunsTest(values []float64) (runs int, p float64) {
	centre := Median(values)
	var above, below int
	last := 0
	for _, v := range values {
		side := cmp.Compare(v, centre)
		switch {
		case side == 0 || math.IsNaN(centre):
			continue
		case side > 0:
			above++
		default:
			below++
		}
		if side != last {
			runs++
			last = side
		}
	}
	if above == 0 || below == 0 {
		return runs, 1
	}
	a, b := float64(above), float64(below)
	logAll := combin.LogGeneralizedBinomial(a+b, a)
	choose := func(n float64, k int) float64 {
		if k < 0 || float64(k) > n {
			return math.Inf(-1)
		}
		return combin.LogGeneralizedBinomial(n, float64(k))
	}
	exactly := func(r int) float64 {
		h := r / 2
		if r%2 == 0 {
			return 2 * math.Exp(choose(a-1, h-1)+choose(b-1, h-1)-logAll)
		}
		return math.Exp(choose(a-1, h)+choose(b-1, h-1)-logAll) + math.Exp(choose(a-1, h-1)+choose(b-1, h)-logAll)
	}
	var few, many float64
	for r := 2; r <= above+below; r++ {
		if r <= runs {
			few += exactly(r)
		}
		if r >= runs {
			many += exactly(r)
		}
	}
	return runs, min(1, 2*min(few, many))
}

// Holm returns the p-values adjusted for their number: those at most α after it
// may be rejected together with a probability of at most α for any false one
// (Holm 1979). They keep their order.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	adjusted := make([]float64, len(p))
	var largest float64
	for rank, i := range order {
		largest = max(largest, min(1, p[i]*float64(len(p)-rank)))
		adjusted[i] = largest
	}
	return adjusted
}

// PBelow returns the one-sided p-value for the median to lie below theta, by the
// interpolated order-statistic interval: the smallest α for which the interval of
// the level 1-2α ends below theta. It is at least 2⁻ⁿ; 1 for fewer than
// [MinValues] values or one that is not finite.
func PBelow(values []float64, theta float64) float64 {
	iv, x := begin(MethodInterpolated, values, 0.5)
	if !iv.Ok() {
		return 1
	}
	n := len(x)
	upper := func(level float64) float64 {
		k, lambda := interpolation(n, level)
		return lerp(x[n-k], x[max(n-k-1, 0)], lambda)
	}
	widest := signLevel(n, 1)
	switch {
	case x[n-1] < theta:
		return (1 - widest) / 2
	case !(Median(x) < theta):
		// The median lies at or above theta: look from the other side.
		if x[0] >= theta {
			return 1 - (1-widest)/2
		}
		if Median(x) == theta {
			return 0.5
		}
		mirrored := make([]float64, n)
		for i, v := range x {
			mirrored[i] = -v
		}
		return 1 - PBelow(mirrored, -theta)
	}
	low, high := 0.0, widest
	for range 60 {
		mid := (low + high) / 2
		if mid > 0 && upper(mid) < theta {
			low = mid
		} else {
			high = mid
		}
	}
	return (1 - low) / 2
}

// PAbove is [PBelow] for the median to lie above theta.
func PAbove(values []float64, theta float64) float64 {
	mirrored := make([]float64, len(values))
	for i, v := range values {
		mirrored[i] = -v
	}
	return PBelow(mirrored, -theta)
}

// Autocorrelation returns the correlation of values that follow each other, 0
// for fewer than three values or if all are equal.
func Autocorrelation(values []float64) float64 {
	return autocorrelation(values, func(int) bool { return true })
}

// autocorrelation uses value i and the one after it if adjacent says so.
func autocorrelation(values []float64, adjacent func(i int) bool) float64 {
	if len(values) < 3 || slices.Min(values) == slices.Max(values) {
		return 0
	}
	var mean, products, squares float64
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for i, v := range values {
		squares += (v - mean) * (v - mean)
		if i+1 < len(values) && adjacent(i) {
			products += (v - mean) * (values[i+1] - mean)
		}
	}
	if squares == 0 || math.IsNaN(products/squares) {
		return 0
	}
	return products / squares
}

// correlationP returns the two-sided p-value of Student's t for no correlation, 1
// for fewer than three pairs or if a side does not vary.
func correlationP(x, y []float64) float64 {
	n := len(x)
	if n < 3 {
		return 1
	}
	r := stat.Correlation(x, y, nil)
	switch {
	case math.IsNaN(r):
		return 1
	case math.Abs(r) >= 1:
		return 0
	}
	t := math.Abs(r) * math.Sqrt(float64(n-2)/(1-r*r))
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 2)}.Survival(t)
}
