package stats

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRankSumLaw compares with all ways to arrange two samples.
func TestRankSumLaw(t *testing.T) {
	for m := 1; m <= 6; m++ {
		for n := 1; n <= 6; n++ {
			want := make([]float64, m*n+1)
			total := 0.0
			for pattern := range 1 << (m + n) {
				if bits.OnesCount(uint(pattern)) != m {
					continue
				}
				u, below := 0, 0
				for i := range m + n {
					if pattern>>i&1 == 1 {
						u += below
					} else {
						below++
					}
				}
				want[u]++
				total++
			}
			got := rankSumLaw(m, n)
			if len(got) != len(want) {
				t.Fatalf("%d values, want %d", len(got), len(want))
			}
			for u := range want {
				near(t, "probability", got[u], want[u]/total)
			}
		}
	}
}

func TestUnpaired(t *testing.T) {
	// At 6 and 6 values the critical value of U is 5 in every table, so the ends are the
	// 6th smallest and largest of 36 ratios.
	x := []float64{1.1, 2.3, 3.1, 4.7, 5.9, 7.3}
	y := []float64{1, 1.7, 2.9, 3.7, 5.3, 6.1}
	var ratios []float64
	for _, a := range x {
		for _, b := range y {
			ratios = append(ratios, a/b)
		}
	}
	slices.Sort(ratios)
	iv := Unpaired(x, y, 0.95)
	near(t, "low", iv.Low, ratios[5])
	near(t, "high", iv.High, ratios[30])
	near(t, "estimate", iv.Estimate, math.Sqrt(ratios[17]*ratios[18]))
	// P(U ≤ 5) is 19 of the 924 arrangements: 1, 1, 2, 3, 5 and 7 for 0 to 5.
	near(t, "level", iv.TrueLevel, 1-2*19.0/924)
	// Exchanging the samples inverts it; a factor multiplies it.
	back := Unpaired(y, x, 0.95)
	near(t, "inverse low", 1/back.High, iv.Low)
	near(t, "inverse high", 1/back.Low, iv.High)

	seven := []float64{1, 2, 3, 4, 5, 6, 7}
	for _, c := range []struct {
		x, y  []float64
		level float64
		want  Reason
	}{
		{nil, nil, 0.95, TooFewValues},
		{seven, seven[:5], 0.95, TooFewValues},
		{seven, seven, 1, BadLevel},
		{seven, append([]float64{0}, seven...), 0.95, NotPositive},
		{append([]float64{-1}, seven...), append([]float64{math.NaN()}, seven...), 0.95, NotFinite},
		{append([]float64{math.Inf(1)}, seven...), append([]float64{-1}, seven...), 0.95, NotFinite},
		{seven, seven, 0.9999, LevelUnreached},
		{slices.Repeat(seven, 15), seven, 0.95, TooManyValues},
	} {
		if iv := Unpaired(c.x, c.y, c.level); iv.Absent != c.want || iv.Explain() == "" {
			t.Errorf("%d and %d values at %g: %+v, want %q", len(c.x), len(c.y), c.level, iv, c.want)
		}
	}
}

// TestUnpairedCovers holds it to its level where the two differ by a factor.
func TestUnpairedCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	const sets = 2000
	covered := 0
	x, y := make([]float64, 8), make([]float64, 11)
	for range sets {
		for i := range x {
			x[i] = 1.5 * (1 + rng.ExpFloat64())
		}
		for i := range y {
			y[i] = 1 + rng.ExpFloat64()
		}
		if Unpaired(x, y, 0.95).Contains(1.5) {
			covered++
		}
	}
	want := Unpaired(x, y, 0.95).TrueLevel
	if got := float64(covered) / sets; math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/sets) {
		t.Errorf("covers %.4f, states %.4f", got, want)
	}
}
