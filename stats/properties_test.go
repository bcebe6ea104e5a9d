package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

// positives draws ratios, often with ties.
func positives(least, most int) *rapid.Generator[[]float64] {
	coarse := rapid.Map(rapid.IntRange(95, 105), func(i int) float64 { return float64(i) / 100 })
	return rapid.SliceOfN(rapid.OneOf(coarse, rapid.Float64Range(0.5, 2)), least, most)
}

func levels() *rapid.Generator[float64] {
	return rapid.SampledFrom([]float64{0.5, 0.8, 0.9, 0.95, 0.9818, 0.99})
}

// TestOfEveryMethod: what all intervals of a plain sample have in common.
func TestOfEveryMethod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := positives(1, 40).Draw(t, "values")
		level := levels().Draw(t, "level")
		factor := rapid.Float64Range(0.01, 100).Draw(t, "factor")
		shuffled := rapid.Permutation(x).Draw(t, "shuffled")
		before := slices.Clone(x)
		for _, m := range methods() {
			iv := Prepare(m, len(x), level).Interval(x)
			if iv.Method != m || iv.N != len(x) || iv.Level != level {
				t.Fatalf("%+v is not of what was asked", iv)
			}
			if got := Prepare(m, len(x), level).Interval(shuffled); got != iv {
				t.Fatalf("%s depends on the order: %+v and %+v", m, iv, got)
			}
			if !iv.Ok() {
				if iv.Low != 0 || iv.High != 0 || iv.TrueLevel != 0 || iv.Explain() == "" {
					t.Fatalf("an absent interval has ends or no reason: %+v", iv)
				}
				if iv.Contains(1e9) != true {
					t.Fatal("an absent interval excludes")
				}
				continue
			}
			if len(x) < MinValues {
				t.Fatalf("%s gives an interval for %d values", m, len(x))
			}
			slack := 1e-12 * iv.High
			if iv.Low > iv.High+slack || m != MethodTrimmedLogT && (iv.Estimate < iv.Low-slack || iv.Estimate > iv.High+slack) {
				t.Fatalf("the estimate is not within the interval: %+v", iv)
			}
			if m != MethodLogT && m != MethodTrimmedLogT && (iv.Low < slices.Min(x)-slack || iv.High > slices.Max(x)+slack) {
				t.Fatalf("%s reaches beyond the values", m)
			}
			if !(iv.TrueLevel > 0 && iv.TrueLevel <= 1) || iv.LevelMax != 0 && (iv.TrueLevel < iv.LevelMin-1e-9 || iv.TrueLevel > iv.LevelMax+1e-9) {
				t.Fatalf("level out of bounds: %+v", iv)
			}
			// Scale.
			scaled := make([]float64, len(x))
			for i := range x {
				scaled[i] = factor * x[i]
			}
			got := Prepare(m, len(x), level).Interval(scaled)
			for _, c := range [][2]float64{{got.Low, iv.Low}, {got.High, iv.High}, {got.Estimate, iv.Estimate}} {
				if math.Abs(c[0]-factor*c[1]) > 1e-10*c[0] {
					t.Fatalf("%s is not equivariant: %g times %g is not %g", m, factor, c[1], c[0])
				}
			}
		}
		if !slices.Equal(x, before) {
			t.Fatal("the values were changed")
		}
	})
}

// TestSwapping: exchanging the variants inverts intervals on logarithms exactly, and
// order statistics at an odd number of values.
func TestSwapping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := positives(MinValues, 40).Draw(t, "values")
		level := levels().Draw(t, "level")
		inverse := make([]float64, len(x))
		for i := range x {
			inverse[i] = 1 / x[i]
		}
		check := []Method{MethodHodgesLehmann, MethodLogT, MethodTrimmedLogT}
		if len(x)%2 == 1 {
			check = append(check, MethodExactBootstrap, MethodConservative, MethodAnytime)
		}
		for _, m := range check {
			p := Prepare(m, len(x), level)
			a, b := p.Interval(x), p.Interval(inverse)
			if !a.Ok() {
				continue
			}
			for _, c := range [][2]float64{{a.Low, b.High}, {a.High, b.Low}, {a.Estimate, b.Estimate}} {
				if math.Abs(c[0]*c[1]-1) > 1e-12 {
					t.Fatalf("%s: %g is not the inverse of %g", m, c[0], c[1])
				}
			}
		}
	})
}

// TestNested: a higher level gives no smaller interval.
func TestNested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := positives(MinValues, 30).Draw(t, "values")
		a := rapid.Float64Range(0.05, 0.999).Draw(t, "a")
		b := rapid.Float64Range(0.05, 0.999).Draw(t, "b")
		for _, m := range methods() {
			inner, outer := Prepare(m, len(x), min(a, b)).Interval(x), Prepare(m, len(x), max(a, b)).Interval(x)
			if outer.Ok() && (!inner.Ok() || inner.Low < outer.Low-1e-12 || inner.High > outer.High+1e-12) {
				t.Fatalf("%s: %+v is not within %+v", m, inner, outer)
			}
		}
	})
}

// TestOddBootstrapIsAnOrderStatistic: its ends are two of the values, as far from
// the outside on both sides.
func TestOddBootstrapIsAnOrderStatistic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := 2*rapid.IntRange(3, 30).Draw(t, "half") + 1
		x := rapid.SliceOfNDistinct(rapid.Float64Range(0.5, 2), n, n, rapid.ID).Draw(t, "values")
		iv := ExactBootstrap(x, levels().Draw(t, "level"))
		slices.Sort(x)
		low, high := slices.Index(x, iv.Low), slices.Index(x, iv.High)
		if low < 0 || high != n-1-low || math.Abs(iv.TrueLevel-signLevel(n, low+1)) > 1e-12 {
			t.Fatalf("%+v has ranks %d and %d", iv, low, high)
		}
	})
}

// TestWorstCase: whatever the dropped values were, the conservative interval of all
// lies within.
func TestWorstCase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := positives(MinValues, 25).Draw(t, "values")
		dropped := positives(0, 5).Draw(t, "dropped")
		level := levels().Draw(t, "level")
		worst := WorstCase(x, len(dropped), level)
		all := Conservative(slices.Concat(x, dropped), level)
		if !worst.Ok() {
			return
		}
		if all.Low < worst.Low || all.High > worst.High {
			t.Fatalf("%+v does not enclose %+v", worst, all)
		}
		if len(dropped) == 0 && (worst.Low != all.Low || worst.High != all.High) {
			t.Fatalf("without dropped values it is %+v, not %+v", worst, all)
		}
	})
	nine := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	if iv := WorstCase(nine, 1, 0.95); iv.Low != 1 || iv.High != 9 {
		t.Errorf("nine and one dropped: %+v", iv)
	}
	if iv := WorstCase(nine, 3, 0.95); iv.Absent != TooManyDropped {
		t.Errorf("nine and three dropped: %+v", iv)
	}
	if iv := WorstCase(nine, -1, 0.95); iv.Absent != BadOptions {
		t.Errorf("less than none dropped: %+v", iv)
	}
	if iv := WorstCase(nine[:6], 0, 0.99); iv.Absent != LevelUnreached {
		t.Errorf("six at 99%%: %+v", iv)
	}
}

// slotted draws pairs of which the numerator runs first in every other round.
func slotted(t *rapid.T) Pairs {
	r := positives(MinValues, 30).Draw(t, "ratios")
	p := Pairs{Numerator: "x", Denominator: "y"}
	for i, v := range r {
		p.Kept = append(p.Kept, PairOfRound{Round: i + 1, X: v, Y: 1, XSlot: i % 2, YSlot: 1 - i%2})
	}
	return p
}

// TestStratifiedIgnoresAConstantSlotEffect also compares it with a regression on the
// order.
func TestStratifiedIgnoresAConstantSlotEffect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := slotted(t)
		effect := rapid.Float64Range(0.5, 2).Draw(t, "effect")
		with := Pairs{Kept: slices.Clone(p.Kept)}
		for i := range with.Kept {
			if k := &with.Kept[i]; k.XSlot > k.YSlot {
				k.X *= effect
			} else {
				k.X /= effect
			}
		}
		a, b := Stratified(p, 0.95), Stratified(with, 0.95)
		if !a.Ok() || !b.Ok() {
			t.Fatalf("%s %s", a.Explain(), b.Explain())
		}
		for _, c := range [][2]float64{{a.Estimate, b.Estimate}, {a.Low, b.Low}, {a.High, b.High}} {
			if math.Abs(c[0]-c[1]) > 1e-9*c[0] {
				t.Fatalf("%+v changed to %+v", a, b)
			}
		}
		sign, logs := make([]float64, len(p.Kept)), make([]float64, len(p.Kept))
		for i, k := range p.Kept {
			sign[i], logs[i] = 1, math.Log(k.X)
			if k.XSlot < k.YSlot {
				sign[i] = -1
			}
		}
		intercept, slope := stat.LinearRegression(sign, logs, nil, false)
		if math.Abs(math.Log(a.Estimate)-intercept) > 1e-9 {
			t.Fatalf("estimate %g, regression %g", a.Estimate, math.Exp(intercept))
		}
		s, _ := stratify(p)
		if got, _ := s.effect(); math.Abs(got-2*slope) > 1e-9 {
			t.Fatalf("effect %g, regression %g", got, 2*slope)
		}
	})
}

// TestGateOnEqualVariants counts the verdicts on identical code: FAIL at most 2.5% of
// the time, plus two standard errors; and PASS on a loss of the margin.
func TestGateOnEqualVariants(t *testing.T) {
	const runs, n = 2000, 12
	rule := Rule{Margin: 0.02, Better: Higher}
	for name, noise := range map[string]func(*rand.Rand) float64{
		"normal": func(r *rand.Rand) float64 { return 0.02 * r.NormFloat64() },
		"heavy":  func(r *rand.Rand) float64 { return 0.01 * (r.ExpFloat64() - r.ExpFloat64()) * (1 + 5*r.Float64()) },
	} {
		rng := rand.New(rand.NewPCG(42, 1))
		procedure := Prepare(MethodInterpolated, n, 0.95)
		fails, passes := 0, 0
		for range runs {
			same, slower := make([]float64, n), make([]float64, n)
			for i := range same {
				same[i] = math.Exp(noise(rng))
				slower[i] = 0.98 * math.Exp(noise(rng))
			}
			if rule.Judge(procedure.Interval(same)).Verdict == Fail {
				fails++
			}
			if rule.Judge(procedure.Interval(slower)).Verdict == Pass {
				passes++
			}
		}
		if share := float64(fails) / runs; share > 0.032 {
			t.Errorf("%s: %.2f%% of equal variants fail", name, 100*share)
		}
		if share := float64(passes) / runs; share > 0.032 {
			t.Errorf("%s: %.2f%% of those slower by the margin pass", name, 100*share)
		}
		if fails == 0 && passes == 0 {
			t.Errorf("%s: nothing was ever wrong, which is too good", name)
		}
	}
}
