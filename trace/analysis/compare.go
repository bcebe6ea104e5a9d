package analysis

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Comparison says how alike two traces are, A and B.
//
// It has distances and no p-values, since there are no honest ones: requests depend
// on each other, and what lasts for a whole trace, such as the system prompts that
// it happens to have or a few bursts, has been drawn only once. Of pairs of traces
// that one generator made from different seeds, the two-sample test of Kolmogorov
// and Smirnov found a quarter to differ in the turns of sessions at the level of 5%,
// and a test that permutes parts of the traces more than half in lengths and gaps.
// How far the halves of a trace are from each other is the yardstick instead.
type Comparison struct {
	A       Side     `json:"a"`
	B       Side     `json:"b"`
	Metrics []Metric `json:"metrics"`
	// Caches are the hits of caches of the same size in tokens.
	Caches []CachePair `json:"caches"`
	Notes  []string    `json:"notes"`
}

// Side describes one of two traces.
type Side struct {
	Requests          int     `json:"requests"`
	Sessions          int     `json:"sessions"`
	BlockSize         int     `json:"block_size_tokens"`
	SpanMS            float64 `json:"span_ms"`
	RequestsPerSecond float64 `json:"requests_per_second"` // over the span; 0 if all arrive at once
	// HitTokenShare is the share of input tokens that an unbounded cache hits.
	HitTokenShare float64 `json:"hit_token_share"`
}

// CachePair is the share of input tokens that a cache of so many tokens hits, as
// CacheHits says, in whole blocks of each trace.
type CachePair struct {
	Tokens int64   `json:"cache_tokens"`
	A      float64 `json:"a_hit_token_share"`
	B      float64 `json:"b_hit_token_share"`
}

// Metric compares one distribution of the two traces.
type Metric struct {
	Name string       `json:"name"`
	Unit string       `json:"unit"`
	A    Distribution `json:"a"`
	B    Distribution `json:"b"`
	// KS is the Kolmogorov-Smirnov distance: the largest difference of the shares
	// of values up to some value, from 0 to 1. Wasserstein is the mean distance, in
	// Unit, over which values of one must be moved to get the other, and
	// WassersteinRelative that divided by the mean of A. All are null where one
	// trace has no values, the last one also where the mean of A is 0.
	KS                  *float64 `json:"ks"`
	Wasserstein         *float64 `json:"wasserstein"`
	WassersteinRelative *float64 `json:"wasserstein_relative"`
	// HalvesA and HalvesB are the KS of the first half of a trace and its second,
	// by requests: how far the trace is from itself. Null for what is not of
	// requests, and where a half has no values.
	HalvesA *float64 `json:"ks_of_halves_of_a"`
	HalvesB *float64 `json:"ks_of_halves_of_b"`
	// Why says why distances are null.
	Why string `json:"why,omitempty"`
}

// compareParts is the most parts that a trace is kept in.
const compareParts = 64

// cacheTokens are the sizes of the caches of a comparison.
func cacheTokens() []int64 {
	var out []int64
	for t := int64(1 << 16); t <= 1<<30; t *= 4 {
		out = append(out, t)
	}
	return out
}

func compareBlocks(blockSize int) []int {
	var out []int
	for _, t := range cacheTokens() {
		if n := int(t) / blockSize; n > 0 {
			out = append(out, n)
		}
	}
	return out
}

// Compare compares what two collectors made with Options.Compare have. Both are
// used up.
//
// What is reused depends on how much came before, so the distances of that are of
// equally many first requests, as far as parts of the traces allow: see Notes.
func Compare(a, b *Collector) (Comparison, error) {
	if a.maxParts == 0 || b.maxParts == 0 {
		return Comparison{}, fmt.Errorf("the traces were not collected to be compared")
	}
	for _, c := range []*Collector{a, b} {
		c.times.sort()
	}
	size := max(a.partSize, b.partSize)
	a.mergeParts(size)
	b.mergeParts(size)
	out := Comparison{A: a.side(), B: b.side(), Notes: []string{}}

	// Whole parts, at the same places, for what depends on what came before.
	common := min(a.requests, b.requests) / size
	same := a.requests == b.requests
	headA, headB := a.parts[:common], b.parts[:common]
	if same {
		headA, headB = a.parts, b.parts
	} else if common == 0 {
		headA, headB = a.parts, b.parts
		out.Notes = append(out.Notes, fmt.Sprintf("the traces have %d and %d requests: what is reused grows with their number, so its distances are not of like with like; --requests %d compares as many of both",
			a.requests, b.requests, min(a.requests, b.requests)))
	} else {
		out.Notes = append(out.Notes, fmt.Sprintf("the traces have %d and %d requests: what is reused grows with their number, so its distances are of the first %d of both, whole parts of %d; hits of caches are of all",
			a.requests, b.requests, common*size, size))
	}

	inA, inB := float64(a.blockSize), float64(b.blockSize)
	out.Metrics = []Metric{
		ofRequests("input", "tokens", 1, 1, pick(a.parts, inputOf), pick(b.parts, inputOf)),
		ofRequests("output", "tokens", 1, 1, pick(a.parts, outputOf), pick(b.parts, outputOf)),
		ofRequests("gap", "ms", 1e-3, 1e-3, a.gapParts(size), b.gapParts(size)),
		ofRequests("shared prefix", "tokens", 1, 1, pick(headA, depthOf), pick(headB, depthOf)),
		ofRequests("reuse distance", "tokens", inA, inB, pick(headA, reuseOf), pick(headB, reuseOf)),
		metric("turns", "turns", a.sessions.turns().sample(1), b.sessions.turns().sample(1)),
		metric("delay", "ms", a.delays.sample(1e-3), b.delays.sample(1e-3)),
	}

	shares := [2]map[int64]float64{{}, {}}
	for i, c := range []*Collector{a, b} {
		hits := c.asked.all(c.blockSize, c.warm.refs, c.warm.inTokens)
		for _, t := range cacheTokens() {
			at := slices.IndexFunc(hits, func(h CacheHits) bool { return h.CacheBlocks == int(t)/c.blockSize })
			if at >= 0 {
				shares[i][t] = hits[at].HitTokenShare
			}
		}
	}
	out.Caches = []CachePair{}
	for _, t := range cacheTokens() {
		out.Caches = append(out.Caches, CachePair{t, shares[0][t], shares[1][t]})
		if shares[0][t] == out.A.HitTokenShare && shares[1][t] == out.B.HitTokenShare {
			break // larger ones hit no more
		}
	}
	return out, nil
}

func (c *Collector) side() Side {
	_, span := c.times.span()
	s := Side{Requests: c.requests, Sessions: c.sessions.len(), BlockSize: c.blockSize, SpanMS: span}
	if span > 0 {
		s.RequestsPerSecond = float64(c.requests) / (span / 1000)
	}
	if c.inTokens > 0 {
		s.HitTokenShare = float64(c.hitTokens) / float64(c.inTokens)
	}
	return s
}

// mergeParts makes parts of size requests, which is a power of two times as many
// as they have.
func (c *Collector) mergeParts(size int) {
	n := size / c.partSize
	var out []part
	for i := range c.parts {
		if i%n == 0 {
			out = append(out, newPart())
		}
		out[len(out)-1].merge(&c.parts[i])
	}
	c.parts, c.partSize = out, size
}

// gapParts returns the gaps after the arrivals of each part of size requests, in
// µs, in the order of time.
func (c *Collector) gapParts(size int) []counts {
	var out []counts
	i := 0
	c.times.gaps(func(ms float64, n int) {
		for range n {
			if i%size == 0 {
				out = append(out, counts{})
			}
			out[len(out)-1][coarse(micros(ms))]++
			i++
		}
	})
	return out
}

func inputOf(p *part) counts  { return p.input }
func outputOf(p *part) counts { return p.output }
func depthOf(p *part) counts  { return p.depth }
func reuseOf(p *part) counts  { return p.reuse }

func pick(parts []part, of func(*part) counts) []counts {
	out := make([]counts, len(parts))
	for i := range parts {
		out[i] = of(&parts[i])
	}
	return out
}

func sum(parts []counts) counts {
	out := counts{}
	for _, p := range parts {
		out.merge(p)
	}
	return out
}

// metric compares two samples.
func metric(name, unit string, a, b sample) Metric {
	m := Metric{Name: name, Unit: unit, A: a.describe(), B: b.describe()}
	switch {
	case a.n == 0 && b.n == 0:
		m.Why = "there are no values"
	case a.n == 0:
		m.Why = "there are no values in A"
	case b.n == 0:
		m.Why = "there are no values in B"
	default:
		ks := stat.KolmogorovSmirnov(a.values, a.numbers, b.values, b.numbers)
		w := wasserstein(a, b)
		m.KS, m.Wasserstein = &ks, &w
		if m.A.Mean != 0 {
			r := w / m.A.Mean
			m.WassersteinRelative = &r
		}
	}
	return m
}

// ofRequests is a metric of values that requests have, in parts.
func ofRequests(name, unit string, unitA, unitB float64, a, b []counts) Metric {
	m := metric(name, unit, sum(a).sample(unitA), sum(b).sample(unitB))
	m.HalvesA, m.HalvesB = halves(a), halves(b)
	return m
}

// halves returns the KS of the first half of the parts and the second.
func halves(parts []counts) *float64 {
	a, b := sum(parts[:len(parts)/2]).sample(1), sum(parts[len(parts)/2:]).sample(1)
	if a.n == 0 || b.n == 0 {
		return nil
	}
	ks := stat.KolmogorovSmirnov(a.values, a.numbers, b.values, b.numbers)
	return &ks
}

// wasserstein returns the area between the distribution functions.
func wasserstein(a, b sample) float64 {
	area, fa, fb, last := 0.0, 0.0, 0.0, 0.0
	for i, j := 0, 0; i < len(a.values) || j < len(b.values); {
		x := math.Inf(1)
		if i < len(a.values) {
			x = a.values[i]
		}
		if j < len(b.values) {
			x = min(x, b.values[j])
		}
		if i > 0 || j > 0 {
			area += math.Abs(fa/a.n-fb/b.n) * (x - last)
		}
		for ; i < len(a.values) && a.values[i] == x; i++ {
			fa += a.numbers[i]
		}
		for ; j < len(b.values) && b.values[j] == x; j++ {
			fb += b.numbers[j]
		}
		last = x
	}
	return area
}
