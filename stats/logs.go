package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// HodgesLehmann returns the exponentiated Hodges–Lehmann interval of the
// logarithms: ends are the (c+1)-th smallest and largest mean of two logarithms
// (each with itself included), where c is the largest with P(T ≤ c) of at most
// half of 1-level under the exact law of the signed-rank statistic T. Estimate is
// the median of these means, exponentiated: the pseudomedian, which is the median
// if the logarithms are symmetric. TrueLevel is exact for symmetric logarithms.
//
// It takes at most 500 values.
func HodgesLehmann(values []float64, level float64) Interval {
	return Prepare(MethodHodgesLehmann, len(values), level).Interval(values)
}

// walshRank returns the rank of the mean that is the lower end, 0 if no rank
// reaches the level, and the level that it has.
func walshRank(n int, level float64) (rank int, trueLevel float64) {
	// law[t] is P(T = t): the sum of a random subset of 1..n.
	top := n * (n + 1) / 2
	law := make([]float64, top+1)
	law[0] = 1
	for r, reach := 1, 0; r <= n; r++ {
		reach += r
		for t := reach; t >= 0; t-- {
			law[t] /= 2
			if t >= r {
				law[t] += law[t-r] / 2
			}
		}
	}
	var below float64 // P(T < rank)
	for rank = 0; rank <= top/2; rank++ {
		next := below + law[rank]
		// next is P(T ≤ rank), what the rank after this one would miss on a side.
		if 2*next > (1-level)*(1+1e-12) {
			break
		}
		below = next
	}
	return rank, 1 - 2*below
}

// LogT returns Student's t interval of the mean of the logarithms, exponentiated.
// Estimate is the geometric mean. It covers the median for symmetric noise only;
// TrueLevel is exact for normal logarithms.
func LogT(values []float64, level float64) Interval {
	return Prepare(MethodLogT, len(values), level).Interval(values)
}

// TrimmedLogT is LogT on logarithms of which the smallest and the largest fifth
// (rounded down) are left out: the standard error is the winsorised standard
// deviation over (1-2g/n)·√n, with g left out at each end and n-2g-1 degrees of
// freedom (Tukey and McLaughlin 1963). Its level is nominal.
func TrimmedLogT(values []float64, level float64) Interval {
	return Prepare(MethodTrimmedLogT, len(values), level).Interval(values)
}

// trimmed returns how many of n values TrimmedLogT leaves out at each end.
func trimmed(n int) int { return n / 5 }

// logs returns the interval from sorted logarithms.
func (p Procedure) logs(x []float64) Interval {
	iv := p.blank
	var centre, half float64
	n := len(x)
	switch iv.Method {
	case MethodHodgesLehmann:
		if iv.Absent == TooManyValues {
			return iv
		}
		walsh := walshMeans(x)
		iv.Estimate = math.Exp(Median(walsh))
		if iv.Ok() {
			iv.Low, iv.High = math.Exp(walsh[p.rank-1]), math.Exp(walsh[len(walsh)-p.rank])
		}
		return iv.bounded()
	case MethodLogT:
		centre = stat.Mean(x, nil)
		if n > 1 {
			half = p.t * stat.StdDev(x, nil) / math.Sqrt(float64(n))
		}
	case MethodTrimmedLogT:
		g := trimmed(n)
		centre = stat.Mean(x[g:n-g], nil)
		winsorised := slices.Clone(x)
		for i := range g {
			winsorised[i], winsorised[n-1-i] = x[g], x[n-1-g]
		}
		if n > 1 {
			half = p.t * stat.StdDev(winsorised, nil) * math.Sqrt(float64(n)) / float64(n-2*g)
		}
	}
	iv.Estimate = math.Exp(centre)
	if iv.Ok() {
		iv.Low, iv.High = math.Exp(centre-half), math.Exp(centre+half)
	}
	return iv.bounded()
}

// walshMeans returns the sorted means of any two values and of each with itself.
func walshMeans(x []float64) []float64 {
	walsh := make([]float64, 0, len(x)*(len(x)+1)/2)
	for i := range x {
		for _, v := range x[i:] {
			walsh = append(walsh, (x[i]+v)/2)
		}
	}
	slices.Sort(walsh)
	return walsh
}

// studentT returns the two-sided quantile of Student's t.
func studentT(level, degrees float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: degrees}.Quantile((1 + level) / 2)
}
