package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"
)

// ExactBootstrap returns the percentile bootstrap interval of the median as
// infinitely many resamples would give it: Low is the smallest value that the
// median of a resample does not exceed with a probability of at least half of
// 1-level, High the largest that it reaches with that probability.
//
// At an odd number of values the ends are two of them, and TrueLevel is exact
// for any continuous distribution. At an even number they may be means of two
// values, and TrueLevel is exact for symmetric distributions.
//
// It takes at most 500 values, and time in proportion to their square.
func ExactBootstrap(values []float64, level float64) Interval {
	return Prepare(MethodExactBootstrap, len(values), level).Interval(values)
}

// BootstrapSE returns the standard deviation of the median over all resamples,
// that is the bootstrap's standard error of the median. It is NaN for fewer than
// two values, more than 500 or one that is not finite.
func BootstrapSE(values []float64) float64 {
	x := slices.Sorted(slices.Values(values))
	if len(x) < 2 || len(x) > maxExact || math.IsInf(x[0], 0) || math.IsInf(x[len(x)-1], 0) || slices.ContainsFunc(x, math.IsNaN) {
		return math.NaN()
	}
	atoms := medianAtoms(x)
	// From one of the values, so that equal ones give 0 whatever rounding; and as a
	// share of the range, whose square may be too large or too small for a number.
	span := x[len(x)-1]/2 - x[0]/2
	if span == 0 {
		return 0
	}
	var mean, square float64
	for _, a := range atoms {
		mean += a.p * (a.value/2 - x[0]/2) / span
	}
	for _, a := range atoms {
		d := (a.value/2-x[0]/2)/span - mean
		square += a.p * d * d
	}
	return min(2*span*math.Sqrt(square), math.MaxFloat64)
}

// atom is a value that the median of a resample takes with probability p.
type atom struct {
	value, p float64
	size     float64 // the larger size of the two values that it is the mean of
	whole    bool    // it is one of the values
}

// medianAtoms returns the exact distribution of the median of a resample of the
// sorted x, by value, equal values joined.
func medianAtoms(x []float64) []atom {
	n := len(x)
	if n%2 == 0 {
		return pairAtoms(x, middlePairs(n))
	}
	atoms := make([]atom, n)
	for k := 1; k <= n; k++ {
		atoms[k-1] = atom{value: x[k-1], p: medianAtMost(n, k) - medianAtMost(n, k-1), size: math.Abs(x[k-1]), whole: true}
	}
	return join(atoms)
}

// pairAtoms is medianAtoms for an even number of values, with the probabilities
// of their pairs.
func pairAtoms(x []float64, pair func(i, j int) float64) []atom {
	n := len(x)
	atoms := make([]atom, 0, n*(n+1)/2)
	for i := range n {
		for j := i; j < n; j++ {
			// Half of each, since the sum of two large values is not finite.
			a := atom{value: x[i]/2 + x[j]/2, p: pair(i+1, j+1), size: max(math.Abs(x[i]), math.Abs(x[j]))}
			if x[i] == x[j] {
				a.value, a.whole = x[i], true
			}
			atoms = append(atoms, a)
		}
	}
	return join(atoms)
}

// medianAtMost returns the probability that the value in the middle of a
// resample of an odd number n, or the upper one of the two of an even number, is
// at most the k-th smallest value: at least n/2, rounded up, of n draws are.
func medianAtMost(n, k int) float64 {
	switch {
	case k <= 0:
		return 0
	case k >= n:
		return 1
	}
	m := (n + 1) / 2
	// P(Bin(n, k/n) ≥ m) as the lower tail of the draws that are above.
	return distuv.Binomial{N: float64(n), P: float64(n-k) / float64(n)}.CDF(float64(n - m))
}

// middlePairs returns the probability that the two middle values of a resample
// of an even number n are the i-th and the j-th smallest, for 1 ≤ i ≤ j ≤ n.
func middlePairs(n int) func(i, j int) float64 {
	m := float64(n / 2)
	logChoose := combin.LogGeneralizedBinomial(float64(n), m)
	// step[i] is ((i/n)^m - ((i-1)/n)^m)·√C(n,m), so that products neither
	// overflow nor vanish early: exactly m draws up to i, one of them i itself.
	step := make([]float64, n+1)
	for i := 1; i <= n; i++ {
		hi, lo := float64(i)/float64(n), float64(i-1)/float64(n)
		step[i] = math.Exp(logChoose/2+m*math.Log(hi)) - math.Exp(logChoose/2+m*math.Log(lo))
	}
	twice := make([]float64, n+1)
	// rest is the sum of step over the mirrored ranks above i.
	var rest float64
	for i := n; i >= 1; i-- {
		twice[i] = max(0, medianAtMost(n, i)-medianAtMost(n, i-1)-step[i]*rest)
		rest += step[n+1-i]
	}
	return func(i, j int) float64 {
		if i == j {
			return twice[i]
		}
		return step[i] * step[n+1-j]
	}
}

// join sorts atoms by value and joins those that are equal but for rounding, as
// 1.01 and the mean of 1.00 and 1.02 are.
func join(atoms []atom) []atom {
	slices.SortFunc(atoms, func(a, b atom) int { return cmp.Compare(a.value, b.value) })
	out := atoms[:0]
	for _, a := range atoms {
		if len(out) == 0 {
			out = append(out, a)
			continue
		}
		last := &out[len(out)-1]
		if a.value-last.value > 4*epsilon*max(a.size, last.size) {
			out = append(out, a)
			continue
		}
		last.p += a.p
		if a.whole && !last.whole {
			last.value, last.size, last.whole = a.value, a.size, true
		}
	}
	return out
}

// same says whether two values differ by rounding only.
func same(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 4*epsilon*max(math.Abs(a), math.Abs(b))
}

const epsilon = 0x1p-52

func lowerEnd(atoms []atom, tail float64) float64 {
	var p float64
	for _, a := range atoms {
		if p += a.p; p >= tail {
			return a.value
		}
	}
	return atoms[len(atoms)-1].value
}

func upperEnd(atoms []atom, tail float64) float64 {
	var p float64
	for _, a := range slices.Backward(atoms) {
		if p += a.p; p >= tail {
			return a.value
		}
	}
	return atoms[0].value
}

// evenLevel returns the level of the exact bootstrap interval of the median at
// an even number n of values with a symmetric continuous distribution.
//
// The lower end is at most the centre, 0, if and only if the bootstrap gives
// values up to 0 at least the probability tail. Whether the mean of the i-th and
// j-th value is negative depends on which of the two is farther from 0. Going
// through the values from the farthest to the nearest, each is negative or
// positive with probability ½ and takes the lowest or the highest rank that is
// free; if it is negative and takes rank i while b values were positive, all
// means with ranks i..n-b are negative. So the probability up to 0 is a sum over
// the steps of a fair walk.
//
// Its distribution comes from dynamic programming over negatives, positives and
// the sum so far, in units of the tail on a grid; mass between two points of the
// grid is split so that its mean is kept. The error is below 0.0002.
func evenLevel(n int, tail float64) float64 {
	const bins = 256
	pair := middlePairs(n)
	var covered float64
	// walks[b] is the distribution of the sum after a negatives and b positives.
	walks := make([][]float64, n+1)
	for b := range walks {
		walks[b] = make([]float64, bins)
	}
	walks[0][0] = 1
	for a := 0; a < n; a++ {
		// gain[b] is the probability of all pairs with ranks a+1 and a+1..n-b.
		gain := make([]float64, n-a)
		var sum float64
		for j := a + 1; j <= n; j++ {
			sum += pair(a+1, j)
			gain[n-j] = sum
		}
		for b := range n - a {
			now := walks[b]
			// A positive value leads to b+1 of this row, a negative one to b of
			// the next, which takes the place of this one.
			next := make([]float64, bins)
			var total float64
			step := min(gain[b]/tail*bins, bins)
			whole := int(step)
			part := step - float64(whole)
			for s, p := range now {
				if p == 0 {
					continue
				}
				total += p
				walks[b+1][s] += p / 2
				if to := s + whole; to < bins-1 {
					next[to] += (1 - part) * p / 2
					next[to+1] += part * p / 2
				} else if to == bins-1 {
					next[to] += (1 - part) * p / 2
					covered += part * p / 2
				} else {
					covered += p / 2
				}
			}
			if total == 0 {
				continue
			}
			walks[b] = next
		}
		walks[n-a] = nil
	}
	// The upper end misses as often as the lower one.
	return 1 - 2*(1-covered)
}
