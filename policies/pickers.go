package policies

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Scale says what a difference of costs means to Softmax.
type Scale uint8

const (
	// ScaleMinMax measures differences in units of the range of the candidates'
	// costs: the odds of the least against the largest cost are e^(1/temperature),
	// however far they are apart. This is what routers do.
	ScaleMinMax Scale = iota
	// ScaleRaw takes differences as they are: a candidate that costs temperature
	// more has odds of 1 to e.
	ScaleRaw
)

// Softmax draws a candidate with a probability in proportion to
//
//	exp(-(cost - least) / temperature)                     for ScaleRaw
//	exp(-(cost - least) / (largest - least) / temperature) for ScaleMinMax
//
// or any with the same probability if all costs are equal.
type Softmax struct {
	temperature float64
	scale       Scale
	sums        []float64
}

// NewSoftmax makes one of a finite temperature above 0; LeastCost is that of 0.
func NewSoftmax(temperature float64, scale Scale) (*Softmax, error) {
	if !(temperature > 0) || math.IsInf(temperature, 0) {
		return nil, fmt.Errorf("softmax: temperature %v; it must be finite and above 0", temperature)
	}
	if scale > ScaleRaw {
		return nil, fmt.Errorf("softmax: there is no scale %d", scale)
	}
	return &Softmax{temperature: temperature, scale: scale}, nil
}

// Inputs implements Component: it reads none.
func (*Softmax) Inputs() Inputs { return 0 }

// softmaxTries is how often a draw is tried that needs no look at all costs.
const softmaxTries = 32

// Pick implements Picker.
func (p *Softmax) Pick(v *View, costs []float64) int {
	least, largest := bounds(costs)
	if least == largest {
		return v.Rand().IntN(len(costs))
	}
	return p.draw(v.Rand(), costs, p.weigher(least, largest))
}

// draw draws a row in proportion to the weights, the largest of which is 1.
func (p *Softmax) draw(r *rand.Rand, costs []float64, w weigher) int {
	// Any row, kept with a probability of its weight, is a draw as wanted; and
	// that it was not kept says nothing of the next one.
	for range softmaxTries {
		row := r.IntN(len(costs))
		if r.Float64() < w.of(costs[row]) {
			return row
		}
	}
	return p.whole(r, costs, w)
}

// whole draws from the sums of all weights.
func (p *Softmax) whole(r *rand.Rand, costs []float64, w weigher) int {
	p.sums = slices.Grow(p.sums[:0], len(costs))[:len(costs)]
	sum := 0.0
	for row, c := range costs {
		sum += w.of(c)
		p.sums[row] = sum
	}
	// The first row whose sum is above a uniform number has a weight above 0. There
	// is one: the product may be rounded up to the sum itself.
	x := min(r.Float64()*sum, math.Nextafter(sum, 0))
	row, _ := slices.BinarySearchFunc(p.sums, x, func(sum, x float64) int {
		if sum <= x {
			return -1
		}
		return 1
	})
	return row
}

// weigher gives a cost its weight, from 0 to 1. half is 0.5 where the range of
// the costs is more than a float64 can be, else 1.
type weigher struct {
	half, least, unit, temperature float64
}

func (p *Softmax) weigher(least, largest float64) weigher {
	w := weigher{half: 1, least: least, unit: 1, temperature: p.temperature}
	if p.scale == ScaleMinMax {
		if math.IsInf(largest-least, 0) {
			w.half = 0.5
			w.least *= 0.5
		}
		w.unit = w.half*largest - w.least
	}
	return w
}

func (w *weigher) of(cost float64) float64 {
	return math.Exp(-((float64(cost*w.half) - w.least) / w.unit / w.temperature))
}

// bounds returns the least and the largest of at least one number.
func bounds(x []float64) (least, largest float64) {
	least, largest = x[0], x[0]
	for _, c := range x {
		if c < least {
			least = c
		}
		if c > largest {
			largest = c
		}
	}
	return least, largest
}
