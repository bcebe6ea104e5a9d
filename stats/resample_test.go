package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
)

func TestBootstrapOfTheMedianIsTheExactOne(t *testing.T) {
	for _, v := range vectors(t) {
		exact := ExactBootstrap(v.Values, 0.95)
		before := slices.Clone(v.Values)
		got := BootstrapOf(v.Values, Median, Resampling{Resamples: 19_999, Seed: 1, Level: 0.95})
		// At an even number neighbouring atoms lie close together.
		if math.Abs(got.Low-exact.Low) > 0.001 || math.Abs(got.High-exact.High) > 0.001 || got.Estimate != exact.Estimate {
			t.Errorf("%s: %+v, exactly %+v", v.Name, got, exact)
		}
		if !slices.Equal(v.Values, before) {
			t.Error("the values were changed")
		}
	}
}

func TestBootstrapSeed(t *testing.T) {
	x := []float64{1, 4, 2, 8, 5, 7, 1.5, 3}
	mean := func(v []float64) float64 { return stat.Mean(v, nil) }
	o := Resampling{Resamples: 999, Seed: 5, Level: 0.9}
	a, b := BootstrapOf(x, mean, o), BootstrapOf(x, mean, o)
	if a != b || !a.Ok() || a.Method != MethodPercentile {
		t.Errorf("%+v and %+v", a, b)
	}
	o.Seed++
	if c := BootstrapOf(x, mean, o); c == a {
		t.Error("another seed gives the same interval")
	}
	// The default number of resamples.
	if BootstrapOf(x, mean, Resampling{Level: 0.9}) != BootstrapOf(x, mean, Resampling{Level: 0.9, Resamples: 9999}) {
		t.Error("the default is not 9999 resamples")
	}
	// A mean of many values has a normal distribution.
	rng := rand.New(rand.NewPCG(1, 1))
	many := make([]float64, 2000)
	for i := range many {
		many[i] = rng.NormFloat64()
	}
	iv := BootstrapOf(many, mean, Resampling{Resamples: 1999, Seed: 1, Level: 0.95})
	if half := 1.96 * stat.StdDev(many, nil) / math.Sqrt(2000); math.Abs((iv.High-iv.Low)/2/half-1) > 0.08 {
		t.Errorf("half-width %g, want about %g", (iv.High-iv.Low)/2, half)
	}
}

// TestMovingBlock: for a series that depends on its past, blocks widen the interval
// of the mean as they should; and they are of neighbours.
func TestMovingBlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	x := make([]float64, 3000)
	for i := range x {
		x[i] = rng.NormFloat64()
		if i > 0 {
			x[i] += 0.8 * x[i-1]
		}
	}
	mean := func(v []float64) float64 { return stat.Mean(v, nil) }
	single := BootstrapOf(x, mean, Resampling{Resamples: 999, Seed: 1, Level: 0.95})
	block := BootstrapOf(x, mean, Resampling{Resamples: 999, Seed: 1, Level: 0.95, Block: 60})
	if block.Method != MethodMovingBlock {
		t.Errorf("%+v", block)
	}
	// √((1+r)/(1-r)) is 3 for r = 0.8.
	if ratio := (block.High - block.Low) / (single.High - single.Low); ratio < 2.2 || ratio > 3.5 {
		t.Errorf("blocks widen the interval by %.2f, want about 3", ratio)
	}
	first := true
	Bootstrap(11, func(rows []int) float64 {
		if first {
			for i, r := range rows {
				if r != i {
					t.Fatalf("the first rows are %v", rows)
				}
			}
			first = false
		}
		for i := range rows {
			if i%3 != 0 && rows[i] != rows[i-1]+1 {
				t.Fatalf("rows %v are not blocks of 3", rows)
			}
			if rows[i] < 0 || rows[i] >= 11 {
				t.Fatalf("rows %v", rows)
			}
		}
		return 1
	}, Resampling{Resamples: 999, Level: 0.95, Block: 3})
	if n := BlockLength(1000); n != 10 {
		t.Errorf("blocks of %d for 1000 rows", n)
	}
}

func TestBootstrapRefuses(t *testing.T) {
	one := func([]int) float64 { return 1 }
	calls := 0
	for _, c := range []struct {
		n         int
		statistic func([]int) float64
		o         Resampling
		want      Reason
	}{
		{5, one, Resampling{Level: 0.95}, TooFewValues},
		{6, one, Resampling{Level: 1}, BadLevel},
		{6, one, Resampling{Level: math.NaN()}, BadLevel},
		{6, one, Resampling{Level: 0.95, Resamples: 998}, BadOptions},
		{6, one, Resampling{Level: 0.95, Resamples: -1}, BadOptions},
		{6, one, Resampling{Level: 0.9999, Resamples: 999}, BadOptions}, // no rank so far out
		{6, one, Resampling{Level: 0.95, Block: 4}, BadOptions},
		{6, one, Resampling{Level: 0.95, Block: -1}, BadOptions},
		{6, func([]int) float64 { return math.NaN() }, Resampling{Level: 0.95, Resamples: 999}, StatisticFailed},
		{6, func([]int) float64 { calls++; return 1 / float64(500-calls) }, Resampling{Level: 0.95, Resamples: 999}, StatisticFailed},
		{6, one, Resampling{Level: 0.95, Resamples: 999}, ""},
	} {
		iv := Bootstrap(c.n, c.statistic, c.o)
		if iv.Absent != c.want || iv.Ok() != (iv.TrueLevel != 0) || iv.Ok() != (iv.Explain() == "") {
			t.Errorf("%+v of %d: %+v, want %q", c.o, c.n, iv, c.want)
		}
	}
}
