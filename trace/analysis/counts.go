package analysis

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// counts is how often each value of a distribution occurs.
type counts map[uint64]uint64

// coarse returns the value that stands for v where a distribution keeps only so
// many values apart that memory is bounded: below 2^14 all, and above 2^13 in
// each power of two, which is at most 0.013% less than v.
func coarse(v uint64) uint64 {
	if over := bits.Len64(v) - 14; over > 0 {
		return v >> over << over
	}
	return v
}

func (c counts) merge(other counts) {
	for v, n := range other {
		c[v] += n
	}
}

// Distribution describes values: of lengths, of gaps, or whatever its place says.
// The p% quantile of n values is number floor((n-1) p/100) of the sorted ones,
// counted from 0, so that it occurs.
type Distribution struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	// CV is the standard deviation divided by the mean.
	CV  float64 `json:"cv"`
	Min float64 `json:"min"`
	P10 float64 `json:"p10"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// sample is a distribution as sorted values with their numbers.
type sample struct {
	values  []float64
	numbers []float64
	n       float64
}

// sample returns the values times the unit.
func (c counts) sample(unit float64) sample {
	s := sample{}
	for _, v := range slices.SortedFunc(maps.Keys(c), cmp.Compare) {
		s.values = append(s.values, float64(v)*unit)
		s.numbers = append(s.numbers, float64(c[v]))
		s.n += float64(c[v])
	}
	return s
}

// quantile returns the value that share p of all is below or at, as Distribution
// says.
func (s sample) quantile(percent int) float64 {
	at := math.Floor((s.n - 1) * float64(percent) / 100)
	sum := 0.0
	for i, n := range s.numbers {
		if sum += n; sum > at {
			return s.values[i]
		}
	}
	return 0
}

func (s sample) describe() Distribution {
	if s.n == 0 {
		return Distribution{}
	}
	d := Distribution{
		N: int(s.n), Min: s.values[0], P10: s.quantile(10), P50: s.quantile(50), P90: s.quantile(90), P99: s.quantile(99),
		Max: s.values[len(s.values)-1],
	}
	for i, v := range s.values {
		d.Mean += v * s.numbers[i]
	}
	d.Mean /= s.n
	variance := 0.0
	for i, v := range s.values {
		variance += (v - d.Mean) * (v - d.Mean) * s.numbers[i]
	}
	if d.Mean != 0 {
		d.CV = math.Sqrt(variance/s.n) / d.Mean
	}
	return d
}
