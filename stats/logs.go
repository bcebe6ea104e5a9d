package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// beginLogs is begin for methods on logarithms: it returns their sorted logarithms.
func beginLogs(method Method, values []float64, level float64) (Interval, []float64) {
	iv, x := begin(method, values, level)
	iv.Estimate = 0
	if iv.Absent == NotFinite || len(x) == 0 {
		return iv, nil
	}
	if x[0] <= 0 {
		iv.Absent = NotPositive
		return iv, nil
	}
	for i, v := range x {
		x[i] = math.Log(v)
	}
	return iv, x
}

// HodgesLehmann returns the exponentiated Hodges–Lehmann interval of the
// logarithms: ends are the (c+1)-th smallest and largest mean of two logarithms
// (each with itself included), where c is the largest with P(T ≤ c) of at most
// half of 1-level under the exact law of the signed-rank statistic T. Estimate is
// the median of these means, exponentiated: the pseudomedian, which is the median
// if the logarithms are symmetric. TrueLevel is exact for symmetric logarithms.
//
// It takes at most 500 values.
func HodgesLehmann(values []float64, level float64) Interval {
	iv, x := beginLogs(MethodHodgesLehmann, values, level)
	if len(x) == 0 || len(x) > maxExact {
		if iv.Ok() {
			iv.Absent = TooManyValues
		}
		return iv
	}
	walsh := make([]float64, 0, len(x)*(len(x)+1)/2)
	for i := range x {
		for _, v := range x[i:] {
			walsh = append(walsh, (x[i]+v)/2)
		}
	}
	slices.Sort(walsh)
	iv.Estimate = math.Exp(Median(walsh))
	if !iv.Ok() {
		return iv
	}
	rank, trueLevel := walshRank(len(x), level)
	if rank == 0 {
		iv.Absent = LevelUnreached
		return iv
	}
	iv.Low, iv.High = math.Exp(walsh[rank-1]), math.Exp(walsh[len(walsh)-rank])
	iv.TrueLevel, iv.Basis = trueLevel, Symmetric
	return iv
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
	iv, x := beginLogs(MethodLogT, values, level)
	if len(x) == 0 {
		return iv
	}
	mean, sd := stat.MeanStdDev(x, nil)
	iv.Estimate = math.Exp(mean)
	if !iv.Ok() {
		return iv
	}
	n := float64(len(x))
	half := studentT(level, n-1) * sd / math.Sqrt(n)
	iv.Low, iv.High = math.Exp(mean-half), math.Exp(mean+half)
	iv.TrueLevel, iv.Basis = level, Normal
	return iv
}

// TrimmedLogT is LogT on logarithms of which the smallest and the largest fifth
// (rounded down) are left out: the standard error is the winsorised standard
// deviation over (1-2g/n)·√n, with g left out at each end and n-2g-1 degrees of
// freedom (Tukey and McLaughlin 1963). Its level is nominal.
func TrimmedLogT(values []float64, level float64) Interval {
	iv, x := beginLogs(MethodTrimmedLogT, values, level)
	if len(x) == 0 {
		return iv
	}
	n := len(x)
	g := n / 5
	mean := stat.Mean(x[g:n-g], nil)
	iv.Estimate = math.Exp(mean)
	if !iv.Ok() {
		return iv
	}
	winsorised := slices.Clone(x)
	for i := range g {
		winsorised[i], winsorised[n-1-i] = x[g], x[n-1-g]
	}
	h := float64(n - 2*g)
	sd := stat.StdDev(winsorised, nil)
	half := studentT(level, h-1) * sd * math.Sqrt(float64(n)) / h
	iv.Low, iv.High = math.Exp(mean-half), math.Exp(mean+half)
	iv.TrueLevel, iv.Basis = level, Nominal
	return iv
}

// studentT returns the two-sided quantile of Student's t.
func studentT(level, degrees float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: degrees}.Quantile((1 + level) / 2)
}
