package results

import (
	"slices"
)

// Summarize sorts samples in place and summarises them. Without samples all
// fields are 0.
//
// Quantiles are exact order statistics of all samples, so no library's
// interpolation or sketch comes between; the mean is summed in float64.
func Summarize(samples []int64) Distribution {
	n := len(samples)
	if n == 0 {
		return Distribution{}
	}
	slices.Sort(samples)
	var sum float64
	for _, s := range samples {
		sum += float64(s)
	}
	// The smallest sample that at least the share k/1000 does not exceed is
	// number ceil(n*k/1000), in integers so that no rounding decides.
	rank := func(k int) int64 { return samples[(n*k+999)/1000-1] }
	return Distribution{
		N:    int64(n),
		Mean: sum / float64(n),
		P50:  rank(500),
		P90:  rank(900),
		P99:  rank(990),
		P999: rank(999),
		Max:  samples[n-1],
	}
}
