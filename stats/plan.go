package stats

import (
	"math"

	"github.com/montanaflynn/stats"
	"gonum.org/v1/gonum/stat/distuv"
)

// normalMAD makes the median absolute deviation of normal values their standard
// deviation: 1/Φ⁻¹(¾), 1.4826.
var normalMAD = 1 / distuv.UnitNormal.Quantile(0.75)

// Efficiency is how much wider than the mean an estimator is for normal values.
type Efficiency float64

// The efficiencies.
var (
	MedianEfficiency        = Efficiency(math.Sqrt(math.Pi / 2)) // 1.2533
	HodgesLehmannEfficiency = Efficiency(math.Sqrt(math.Pi / 3)) // 1.0233
)

// Noise returns the standard deviation of the logarithm of one ratio, from
// 1.4826 times the median absolute deviation, which a few disturbed rounds do
// not move. It fails for fewer than 3 ratios or one that is not positive and finite.
func Noise(ratios []float64) (sigma float64, ok bool) {
	if len(ratios) < 3 {
		return 0, false
	}
	logs := make([]float64, len(ratios))
	for i, r := range ratios {
		if !(r > 0) || math.IsInf(r, 1) {
			return 0, false
		}
		logs[i] = math.Log(r)
	}
	return scale(logs), true
}

// scale returns the robust standard deviation of values, 0 without values.
func scale(values []float64) float64 {
	mad, err := stats.MedianAbsoluteDeviation(values)
	if err != nil {
		return 0
	}
	return normalMAD * mad
}

// RoundsNeeded returns how many rounds give a PASS with the probability power if
// there is no difference, with noise sigma of one ratio, a margin (0.02 for 2%)
// and intervals of that level: ((z₁+z₂)·c·σ/δ)², at least [MinValues]. It assumes
// normal noise. For a margin that is not positive it is math.MaxInt.
func RoundsNeeded(sigma, margin, level, power float64, c Efficiency) int {
	if !(margin > 0) {
		return math.MaxInt
	}
	n := math.Pow(quantiles(level, power)*float64(c)*sigma/margin, 2)
	if n > 1e9 || math.IsNaN(n) {
		return math.MaxInt
	}
	return max(MinValues, int(math.Ceil(n)))
}

// HalfWidth returns half the width to expect of an interval: z·c·σ/√n.
func HalfWidth(sigma float64, n int, level float64, c Efficiency) float64 {
	return distuv.UnitNormal.Quantile((1+level)/2) * float64(c) * sigma / math.Sqrt(float64(n))
}

// Resolvable returns the smallest effect, as a share of 1, that n rounds find
// with the probability power: (z₁+z₂)·c·σ/√n. It assumes normal noise.
func Resolvable(sigma float64, n int, level, power float64, c Efficiency) float64 {
	return quantiles(level, power) * float64(c) * sigma / math.Sqrt(float64(n))
}

func quantiles(level, power float64) float64 {
	return distuv.UnitNormal.Quantile((1+level)/2) + distuv.UnitNormal.Quantile(power)
}
