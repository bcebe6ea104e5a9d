package policies

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// TestLeastRow compares with a list of the least rows, one of which is drawn.
func TestLeastRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	drawn := 0
	for range 3000 {
		n := 1 + rng.IntN(pick(rng, 3, 20, 130, 600))
		values := 1 + rng.IntN(pick(rng, 1, 3, 1000))
		ints, floats := make([]int64, n), make([]float64, n)
		for i := range ints {
			ints[i] = int64(rng.IntN(values)) - 1
			floats[i] = float64(ints[i]) / 8
		}
		var rows []int
		for row, k := range ints {
			switch {
			case len(rows) > 0 && k > ints[rows[0]]:
			case len(rows) > 0 && k == ints[rows[0]]:
				rows = append(rows, row)
			default:
				rows = []int{row}
			}
		}
		seed := rng.Uint64()
		stream := func() *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
		want := rows[0]
		if len(rows) > 1 {
			want = rows[stream().IntN(len(rows))]
			drawn++
		}
		a, b := stream(), stream()
		if x, y := leastRow(ints, a), leastRow(floats, b); x != want || y != want {
			t.Fatalf("%d and %d of %v; want %d", x, y, ints, want)
		}
		if next := a.Uint64(); len(rows) == 1 && next != stream().Uint64() || next != b.Uint64() {
			t.Fatal("the random stream is elsewhere")
		}
	}
	if drawn < 300 {
		t.Errorf("%d draws", drawn)
	}
}

// TestWeightedSums compares the sums of up to four scorers with plain ones, and
// what fails with what should.
func TestWeightedSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	failed, huge := 0, 0
	for range 2000 {
		n := 1 + rng.IntN(12)
		var r Recipe
		want, finite := make([]float64, n), true
		r.Picker = Named[Picker]{"look", pickerFunc(func(_ *View, costs []float64) int {
			for row, c := range costs {
				if c != want[row] {
					t.Fatalf("row %d costs %v, want %v", row, c, want[row])
				}
			}
			return 0
		})}
		for range rng.IntN(5) {
			costs := make([]float64, n)
			weight := pick(rng, 1, 1, 0, 0.5, 3)
			for row := range costs {
				costs[row] = rng.Float64()
				switch rng.IntN(60) {
				case 0:
					costs[row] = 1e308 // finite, though a few of them together are not
					huge++
				case 1:
					costs[row] = pick(rng, math.NaN(), math.Inf(1), math.Inf(-1))
				}
				want[row] += weight * costs[row]
				if s := want[row]; math.IsNaN(s) || math.IsInf(s, 0) {
					finite = false
				}
			}
			r.Scorers = append(r.Scorers, Weighted{"s", scorerFunc{0, func(_ *View, out []float64) {
				for row := range out {
					if !math.IsNaN(out[row]) {
						t.Fatalf("row %d is %v before it is scored", row, out[row])
					}
				}
				copy(out, costs)
			}}, weight})
		}
		_, err := pipeline(t, r).Select(request(), &State{Slots: n})
		if broken := (*ComponentError)(nil); finite != (err == nil) || err != nil && !errors.As(err, &broken) {
			t.Fatalf("all finite: %v, error %v", finite, err)
		}
		if err != nil {
			failed++
		}
	}
	if failed < 100 || huge < 100 {
		t.Errorf("%d failed, %d huge costs", failed, huge)
	}
}
