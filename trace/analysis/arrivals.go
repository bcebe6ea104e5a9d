package analysis

import (
	"math"
	"slices"
)

// times are arrivals in ms, equal ones that follow one another counted together.
type times struct {
	at     []float64
	number []uint32
	last   float64
	sorted bool
}

func newTimes() *times { return &times{last: math.Inf(-1), sorted: true} }

func (t *times) add(ms float64) {
	if n := len(t.at); ms == t.last && t.number[n-1] != math.MaxUint32 {
		t.number[n-1]++
		return
	}
	t.sorted = t.sorted && ms >= t.last
	t.at, t.number, t.last = append(t.at, ms), append(t.number, 1), ms
}

// sort brings the times into order and joins what is equal.
func (t *times) sort() {
	if t.sorted {
		return
	}
	order := make([]int, len(t.at))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case t.at[a] < t.at[b]:
			return -1
		case t.at[a] > t.at[b]:
			return 1
		}
		return 0
	})
	out := newTimes()
	out.at, out.number = make([]float64, 0, len(t.at)), make([]uint32, 0, len(t.at))
	for _, i := range order {
		if n := len(out.at); t.at[i] == out.last && uint64(out.number[n-1])+uint64(t.number[i]) <= math.MaxUint32 {
			out.number[n-1] += t.number[i]
			continue
		}
		out.at, out.number, out.last = append(out.at, t.at[i]), append(out.number, t.number[i]), t.at[i]
	}
	*t = *out
}

// distinct returns the number of different times. They are sorted.
func (t *times) distinct() int {
	n, last := 0, math.Inf(-1)
	for _, ms := range t.at {
		if ms != last {
			n++
		}
		last = ms
	}
	return n
}

// span returns the first time and the ms from it to the last. They are sorted.
func (t *times) span() (first, ms float64) {
	if len(t.at) == 0 {
		return 0, 0
	}
	return t.at[0], t.at[len(t.at)-1] - t.at[0]
}

// histogram counts the arrivals in buckets of the same width over the span, of
// which the last has the last arrival too.
func (t *times) histogram(buckets int) []int {
	out := make([]int, buckets)
	first, span := t.span()
	for i, ms := range t.at {
		bucket := 0
		if span > 0 {
			bucket = min(int((ms-first)/span*float64(buckets)), buckets-1)
		}
		out[bucket] += int(t.number[i])
	}
	return out
}

// gaps calls f with each ms between two arrivals and how often it comes in a row.
func (t *times) gaps(f func(ms float64, n int)) {
	for i, ms := range t.at {
		if i > 0 {
			f(ms-t.at[i-1], 1)
		}
		if t.number[i] > 1 {
			f(0, int(t.number[i])-1)
		}
	}
}

// Burstiness says how unevenly requests arrive in windows of one length.
type Burstiness struct {
	WindowMS float64 `json:"window_ms"`
	Windows  int     `json:"windows"`
	// Dispersion is the variance of the number of arrivals in a window divided by
	// its mean: 1 for a Poisson process, 0 for an even one.
	Dispersion float64 `json:"dispersion"`
	// PeakPerSecond is the rate of the busiest window, EmptyShare the share of
	// windows in which nothing arrives.
	PeakPerSecond float64 `json:"peak_per_second"`
	EmptyShare    float64 `json:"empty_share"`
}

// leastWindows is how many windows the span must have for a dispersion to mean
// anything.
const leastWindows = 10

// burstiness looks at windows of 100 ms, 1 s, 10 s and so on, as far as the span
// has ten of them, and at no more than a million. The windows begin at the first
// arrival; what is left over at the end is not looked at.
func (t *times) burstiness() []Burstiness {
	out := []Burstiness{}
	first, span := t.span()
	for window := 100.0; span/window >= leastWindows; window *= 10 {
		if span/window > 1e6 {
			continue
		}
		n := int(span / window)
		numbers := make([]float64, n)
		for i, ms := range t.at {
			if w := int((ms - first) / window); w < n {
				numbers[w] += float64(t.number[i])
			}
		}
		b := Burstiness{WindowMS: window, Windows: n}
		mean := 0.0
		for _, x := range numbers {
			mean += x
			b.PeakPerSecond = max(b.PeakPerSecond, x/(window/1000))
			if x == 0 {
				b.EmptyShare++
			}
		}
		mean /= float64(n)
		for _, x := range numbers {
			b.Dispersion += (x - mean) * (x - mean)
		}
		b.EmptyShare /= float64(n)
		b.Dispersion /= float64(n-1) * mean
		out = append(out, b)
	}
	return out
}
