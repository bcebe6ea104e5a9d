package policies

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// fits says whether counts are those expected, by a chi-square test that a right
// picker fails with one seed in a million.
func fits(t *testing.T, name string, observed, expected []float64) {
	t.Helper()
	x := stat.ChiSquare(observed, expected)
	if p := (distuv.ChiSquared{K: float64(len(observed) - 1)}).Survival(x); !(p > 1e-6) {
		t.Errorf("%s: counts %.0f, expected %.1f (chi-square %.1f, p %.2g)", name, observed, expected, x, p)
	}
}

// weights are those of the doc comment, computed plainly.
func weights(costs []float64, temperature float64, scale Scale) []float64 {
	least, largest := bounds(costs)
	out := make([]float64, len(costs))
	sum := 0.0
	for i, c := range costs {
		d := c - least
		if scale == ScaleMinMax && largest > least {
			d /= largest - least
		}
		out[i] = math.Exp(-d / temperature)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

func TestSoftmaxDrawsInProportion(t *testing.T) {
	const draws = 50_000
	for _, c := range []struct {
		name        string
		costs       []float64
		temperature float64
		scale       Scale
	}{
		{"minmax", []float64{10, 11, 15, 20, 11}, 0.7, ScaleMinMax},
		{"minmax, cold", []float64{10, 11, 15, 20, 11}, 0.2, ScaleMinMax},
		{"minmax, hot", []float64{10, 11, 15, 20, 11}, 50, ScaleMinMax},
		{"raw", []float64{10, 11, 12, 10.5, 11}, 0.7, ScaleRaw},
		{"equal", []float64{4, 4, 4, 4}, 0.1, ScaleMinMax},
		{"equal, raw", []float64{4, 4, 4, 4}, 0.1, ScaleRaw},
		{"one", []float64{4}, 0.1, ScaleRaw},
		// Few rows have nearly all of the weight, so that tries mostly fail.
		{"raw, many rows", append([]float64{1, 0, 0.5}, repeat(3, 397)...), 0.5, ScaleRaw},
		{"raw, most weigh next to nothing", append([]float64{1, 0, 0.5}, repeat(9, 397)...), 0.5, ScaleRaw},
	} {
		p, err := NewSoftmax(c.temperature, c.scale)
		if err != nil {
			t.Fatal(err)
		}
		v := (&table{requests: make([]int32, len(c.costs))}).view(0, 5)
		observed := make([]float64, len(c.costs))
		for range draws {
			observed[p.Pick(v, c.costs)]++
		}
		if len(c.costs) == 1 {
			continue
		}
		expected := weights(c.costs, c.temperature, c.scale)
		// Those with few expected counts together, as the test wants it.
		var o, e []float64
		var oRest, eRest float64
		for i := range expected {
			if x := expected[i] * draws; x >= 10 {
				o, e = append(o, observed[i]), append(e, x)
			} else {
				oRest, eRest = oRest+observed[i], eRest+x
			}
		}
		if eRest >= 5 {
			o, e = append(o, oRest), append(e, eRest)
		} else if oRest > 40 {
			t.Errorf("%s: rows of next to no weight were drawn %v times, expected %v", c.name, oRest, eRest)
		}
		fits(t, c.name, o, e)
	}
}

func repeat(x float64, n int) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = x
	}
	return s
}

// TestSoftmaxWholeDraw is of the draw from the sums of all weights alone.
func TestSoftmaxWholeDraw(t *testing.T) {
	const draws = 50_000
	costs := []float64{3, 1, 2, 1, 900, 2.5}
	p, err := NewSoftmax(1, ScaleRaw)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(6, 1))
	w := p.weigher(1, 900)
	observed := make([]float64, len(costs))
	for range draws {
		observed[p.whole(rng, costs, w)]++
	}
	if observed[4] != 0 {
		t.Errorf("a row that weighs nothing was drawn %v times", observed[4])
	}
	expected := weights(costs, 1, ScaleRaw)
	for i := range expected {
		expected[i] *= draws
	}
	fits(t, "whole", append(observed[:4:4], observed[5]), append(expected[:4:4], expected[5]))
}

// TestSoftmaxExtremes are costs and temperatures at which a naive formula has
// overflows or divides 0 by 0.
func TestSoftmaxExtremes(t *testing.T) {
	for _, scale := range []Scale{ScaleMinMax, ScaleRaw} {
		for _, temperature := range []float64{math.SmallestNonzeroFloat64, 1e-300, 1, 1e300, math.MaxFloat64} {
			for _, costs := range [][]float64{
				{-math.MaxFloat64, math.MaxFloat64, 0},
				{math.MaxFloat64, math.MaxFloat64, math.MaxFloat64},
				{0, math.SmallestNonzeroFloat64, 1},
				{0, math.SmallestNonzeroFloat64},
				{1e18, 1e18 + 256, 1e18 + 512},
			} {
				p, err := NewSoftmax(temperature, scale)
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("scale %d, temperature %v, costs %v", scale, temperature, costs)
				least, largest := bounds(costs)
				rng := rand.New(rand.NewPCG(7, 1))
				w := p.weigher(least, largest)
				if least == largest {
					continue
				}
				for _, c := range costs {
					x := w.of(c)
					if !(x >= 0 && x <= 1) || c == least && x != 1 {
						t.Errorf("%s: %v weighs %v", name, c, x)
					}
					if temperature < 1e-200 && c-least > 1e-100 && x != 0 {
						t.Errorf("%s: %v weighs %v, want 0", name, c, x)
					}
				}
				for range 100 {
					for _, row := range []int{p.draw(rng, costs, w), p.whole(rng, costs, w)} {
						if row < 0 || row >= len(costs) || w.of(costs[row]) == 0 {
							t.Fatalf("%s: row %d was drawn", name, row)
						}
					}
				}
			}
		}
	}
	// With the range beyond a float64, the middle is half way.
	p, err := NewSoftmax(0.5, ScaleMinMax)
	if err != nil {
		t.Fatal(err)
	}
	w := p.weigher(-math.MaxFloat64, math.MaxFloat64)
	if got, want := w.of(0), math.Exp(-1); got != want {
		t.Errorf("the middle weighs %v, want %v", got, want)
	}
	if got, want := w.of(math.MaxFloat64), math.Exp(-2); got != want {
		t.Errorf("the largest weighs %v, want %v", got, want)
	}
}

func TestSoftmaxParametersAreChecked(t *testing.T) {
	for _, temperature := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := NewSoftmax(temperature, ScaleMinMax); err == nil || !strings.Contains(err.Error(), "temperature") {
			t.Errorf("temperature %v: error %v", temperature, err)
		}
	}
	if _, err := NewSoftmax(1, 2); err == nil {
		t.Error("a scale of 2 is accepted")
	}
}
