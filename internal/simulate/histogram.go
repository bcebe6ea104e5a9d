package simulate

import (
	"math"
	"math/bits"

	"github.com/kvbench/kvbench/results"
)

// histogram counts values of 0 or more without keeping them: there are as many
// gaps between tokens as tokens. Values below 2048 are exact, larger ones are
// counted in classes that are at most 1/1024 wide; n, mean and max are exact.
type histogram struct {
	counts []int64
	n, max int64
	sum    float64
}

const fineBits = 10

// class returns the class of a value; classes are in the order of the values.
func class(v int64) int {
	shift := max(0, bits.Len64(uint64(v))-fineBits-1)
	return shift<<fineBits + int(v>>shift)
}

// least returns the smallest value of a class.
func least(class int) int64 {
	if class < 2<<fineBits {
		return int64(class)
	}
	shift := class>>fineBits - 1
	return int64(class-shift<<fineBits) << shift
}

func (h *histogram) add(v int64) { h.addMany(v, 1) }

// addMany adds a value n times. Up to a sum of 2^53 the order of values does not
// matter.
func (h *histogram) addMany(v, n int64) {
	c := class(v)
	for c >= len(h.counts) {
		h.counts = append(h.counts, make([]int64, max(4096, c+1-len(h.counts)))...)
	}
	h.counts[c] += n
	h.n += n
	h.sum += float64(v) * float64(n)
	h.max = max(h.max, v)
}

// summary returns the distribution. A quantile is the largest value of its class,
// or max if that is less.
func (h *histogram) summary() results.Distribution {
	if h.n == 0 {
		return results.Distribution{}
	}
	d := results.Distribution{N: h.n, Mean: h.sum / float64(h.n), Max: h.max}
	type quantile struct {
		at int64
		to *int64
	}
	rank := func(k int64) int64 { return int64(math.Ceil(float64(h.n) / 1000 * float64(k))) }
	todo := []quantile{{rank(500), &d.P50}, {rank(900), &d.P90}, {rank(990), &d.P99}, {rank(999), &d.P999}}
	seen := int64(0)
	for c, n := range h.counts {
		seen += n
		for len(todo) > 0 && seen >= todo[0].at {
			*todo[0].to = min(h.max, least(c+1)-1)
			todo = todo[1:]
		}
	}
	return d
}
