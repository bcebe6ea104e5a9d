package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Resampling says how [Bootstrap] resamples.
type Resampling struct {
	// Resamples is their number, at least 999; 0 stands for 9999. Ends move less
	// from seed to seed with more of them.
	Resamples int
	Seed      uint64
	Level     float64 // such as 0.95
	// Block is the number of neighbours that are drawn together, for rows that
	// depend on those before them, as of a time series; 0 or 1 draws rows one by
	// one. It is at most half of the rows.
	Block int
}

// BlockLength returns a usual length of blocks for n rows: the cube root, rounded up.
func BlockLength(n int) int { return int(math.Ceil(math.Cbrt(float64(n)))) }

// Bootstrap returns the percentile bootstrap interval of any statistic of n rows:
// with Block, by the moving-block bootstrap (Künsch 1989). The statistic is given
// the numbers, from 0, of the rows of a resample; it must not keep the slice, and
// is called first with all rows in order, for Estimate. The same seed gives the
// same interval. Its level is nominal: for few rows it is lower. For the median of
// few values use [ExactBootstrap] or [Interpolated].
func Bootstrap(n int, statistic func(rows []int) float64, o Resampling) Interval {
	iv := Interval{Method: MethodPercentile, N: n, Level: o.Level, Basis: Nominal}
	if o.Block > 1 {
		iv.Method = MethodMovingBlock
	}
	resamples := o.Resamples
	if resamples == 0 {
		resamples = 9999
	}
	switch {
	case !(o.Level > 0 && o.Level < 1):
		iv.Absent = BadLevel
	case n < MinValues:
		iv.Absent = TooFewValues
	case resamples < 999 || o.Block < 0 || o.Block > n/2 || float64(resamples+1)*(1-o.Level)/2 < 1:
		iv.Absent = BadOptions
	}
	if !iv.Ok() {
		iv.Basis = ""
		return iv
	}
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	failed := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
	iv.Estimate = statistic(rows)
	draws := make([]float64, resamples)
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	block := max(1, o.Block)
	for b := range draws {
		for i := 0; i < n; i += block {
			start := rng.IntN(n - block + 1)
			for j := range min(block, n-i) {
				rows[i+j] = start + j
			}
		}
		draws[b] = statistic(rows)
	}
	if failed(iv.Estimate) || slices.ContainsFunc(draws, failed) {
		iv.Estimate, iv.Absent, iv.Basis = 0, StatisticFailed, ""
		return iv
	}
	slices.Sort(draws)
	// The k-th smallest of B cuts off k/(B+1). Rounding must not lose a rank.
	k := int(float64(resamples+1)*(1-o.Level)/2 + 1e-9)
	iv.Low, iv.High, iv.TrueLevel = draws[k-1], draws[resamples-k], o.Level
	return iv
}

// BootstrapOf is [Bootstrap] for a statistic of values.
func BootstrapOf(values []float64, statistic func([]float64) float64, o Resampling) Interval {
	drawn := make([]float64, len(values))
	return Bootstrap(len(values), func(rows []int) float64 {
		for i, r := range rows {
			drawn[i] = values[r]
		}
		return statistic(drawn)
	}, o)
}
