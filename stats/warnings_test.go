package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const quietSeed = 1

// quiet is twenty pairs, balanced in order, that deserve no warning but that of the
// bootstrap's true level.
func quiet() Pairs {
	p := Pairs{Numerator: "x", Denominator: "y"}
	// A seed that draws nothing remarkable.
	rng := rand.New(rand.NewPCG(quietSeed, 0))
	for i := range 20 {
		x, y := 0.01*rng.NormFloat64(), 0.01*rng.NormFloat64()
		p.Kept = append(p.Kept, PairOfRound{Round: i + 1, X: 30 * math.Exp(x), Y: 31 * math.Exp(y), XSlot: i % 2, YSlot: 1 - i%2})
	}
	return p
}

func names(w []Warning) []string {
	var out []string
	for _, v := range w {
		out = append(out, string(v.Name))
	}
	return out
}

func find(w []Warning, name WarningName) (Warning, bool) {
	i := slices.IndexFunc(w, func(v Warning) bool { return v.Name == name })
	if i < 0 {
		return Warning{}, false
	}
	return w[i], true
}

func TestQuietPairs(t *testing.T) {
	if got := names(Warnings(quiet(), 0.95)); !slices.Equal(got, []string{"true-level"}) {
		t.Errorf("warnings %v: %+v", got, Warnings(quiet(), 0.95))
	}
}

// TestWarnings changes the quiet pairs so that one thing is wrong.
func TestWarnings(t *testing.T) {
	scaleX := func(p *Pairs, factor func(i int, k PairOfRound) float64) {
		for i := range p.Kept {
			p.Kept[i].X *= factor(i, p.Kept[i])
		}
	}
	drop := func(p *Pairs, n int, x, y string) {
		for _, k := range p.Kept[:n] {
			p.Dropped = append(p.Dropped, DroppedPair{Round: k.Round, XReason: x, YReason: y})
		}
		p.Kept = p.Kept[n:]
	}
	for _, c := range []struct {
		name   WarningName
		change func(p *Pairs)
		figure func(float64) bool
		text   string
	}{
		{WarnFewPairs, func(p *Pairs) { p.Kept = nil }, func(f float64) bool { return f == 0 }, "no value"},
		{WarnFewPairs, func(p *Pairs) { p.Kept = p.Kept[:1] }, func(f float64) bool { return f == 1 }, "1 value: a reading, not a comparison"},
		{WarnFewPairs, func(p *Pairs) { p.Kept = p.Kept[:2] }, func(f float64) bool { return f == 2 }, "2 values: a reading"},
		{WarnFewPairs, func(p *Pairs) { p.Kept = p.Kept[:5] }, func(f float64) bool { return f == 5 }, "93.75%"},
		{WarnFewPairs, func(p *Pairs) { p.Kept = p.Kept[:8] }, func(f float64) bool { return f == 8 }, "a single disturbed round"},
		{WarnLevel, func(p *Pairs) { p.Kept = p.Kept[:13] }, func(f float64) bool { return math.Abs(f-0.90771484375) < 1e-9 }, "with 13 values the bootstrap interval is one of 90.8%, not of 95%"},
		{WarnSlotEffect, func(p *Pairs) {
			scaleX(p, func(_ int, k PairOfRound) float64 { return 1 - 0.02*float64(k.XSlot) })
		}, func(f float64) bool { return f < -0.01 && f > -0.03 }, "running second changes the ratio by -"},
		{WarnAutocorrelation, func(p *Pairs) {
			scaleX(p, func(i int, _ PairOfRound) float64 { return 1 + 0.02*float64(i) })
		}, func(f float64) bool { return f > 0.5 }, "too narrow by a factor of"},
		{WarnAutocorrelation, func(p *Pairs) {
			scaleX(p, func(i int, _ PairOfRound) float64 { return 1 + 0.05*float64(i%2) })
		}, func(f float64) bool { return f < -0.5 }, "alternate"},
		{WarnRuns, func(p *Pairs) {
			scaleX(p, func(i int, _ PairOfRound) float64 { return 1 + 0.02*float64(i) })
		}, func(f float64) bool { return f < 0.01 }, "not independent"},
		{WarnTwoModes, func(p *Pairs) {
			scaleX(p, func(i int, _ PairOfRound) float64 { return 1 - 0.15*float64(i*7%10/6) })
		}, func(f float64) bool { return f > 2.67 }, "40% about"},
		{WarnUnequalNoise, func(p *Pairs) {
			for i := range p.Kept {
				p.Kept[i].X = 30 * math.Pow(p.Kept[i].X/30, 3)
			}
		}, func(f float64) bool { return f > 0.2 && f < 0.5 }, "x varies by"},
		{WarnTies, func(p *Pairs) { p.Kept[3].X, p.Kept[3].Y = p.Kept[5].X, p.Kept[5].Y }, func(f float64) bool { return f == 0.1 }, "2 of 20 values equal another"},
		{WarnUnbalanced, func(p *Pairs) { p.Kept = p.Kept[:19] }, func(f float64) bool { return f == 1 }, "x ran before y in 10 rounds and after it in 9"},
		{WarnUnbalanced, func(p *Pairs) {
			for i := range p.Kept {
				p.Kept[i].XSlot, p.Kept[i].YSlot = 0, 1
			}
		}, func(f float64) bool { return f == 20 }, "after it in 0"},
		{WarnUnbalanced, func(p *Pairs) {
			// Three variants over 20 rounds: a slot is short of one.
			order := [][2]int{{0, 1}, {1, 2}, {2, 0}, {1, 0}, {2, 1}, {0, 2}}
			for i := range p.Kept {
				p.Kept[i].XSlot, p.Kept[i].YSlot = order[i%6][0], order[i%6][1]
			}
		}, func(f float64) bool { return f >= 1 }, "does not cancel"},
		{WarnDropped, func(p *Pairs) { drop(p, 3, "late", "") }, func(f float64) bool { return f == 0.15 }, "3 of 20 pairs are left out: round 1 (x: late)"},
		{WarnMissingness, func(p *Pairs) { drop(p, 6, "late", "") }, func(f float64) bool { return f < 0.05 && f > 0.01 }, "6 readings of x and 0 of y are missing of 20 each"},
	} {
		p := quiet()
		c.change(&p)
		all := Warnings(p, 0.95)
		w, ok := find(all, c.name)
		if !ok {
			t.Errorf("no %s among %v", c.name, names(all))
			continue
		}
		if !c.figure(w.Figure) || !strings.Contains(w.Text, c.text) {
			t.Errorf("%s: figure %g, text %q, want %q", c.name, w.Figure, w.Text, c.text)
		}
		for i, v := range all {
			if slices.ContainsFunc(all[i+1:], func(o Warning) bool { return o.Name == v.Name }) {
				t.Errorf("%s is given twice", v.Name)
			}
			if math.IsNaN(v.Figure) || math.IsInf(v.Figure, 0) || math.IsNaN(v.Limit) {
				t.Errorf("%+v is not finite", v)
			}
		}
	}
}

func TestNoWarning(t *testing.T) {
	for _, c := range []struct {
		name   WarningName
		change func(p *Pairs)
	}{
		// One pair lost leaves an order one round short: no fault of the plan.
		{WarnUnbalanced, func(p *Pairs) { p.Dropped = []DroppedPair{{Round: 1, XReason: "late"}}; p.Kept = p.Kept[1:] }},
		{WarnUnbalanced, func(p *Pairs) { p.Kept = p.Kept[:1] }},
		{WarnUnbalanced, func(p *Pairs) { p.Kept[0].XSlot = -1 }},
		// A repeated trial has a slot of its own, which the other trials do not miss.
		{WarnUnbalanced, func(p *Pairs) { p.Kept[0].XSlot, p.Kept[0].Retry = 4, true }},
		{WarnUnbalanced, func(p *Pairs) { p.Kept[1].XSlot, p.Kept[1].Retry = 3, true }},
		{WarnUnbalanced, func(p *Pairs) {
			for i := range p.Kept {
				p.Kept[i].Retry = true
			}
		}},
		{WarnSlotEffect, func(p *Pairs) { p.Kept[0].YSlot = -1; p.Kept[1].X *= 100 }},
		{WarnDropped, func(p *Pairs) { p.Dropped = []DroppedPair{{Round: 1, XReason: "late"}, {Round: 2, YReason: "late"}} }},
		{WarnMissingness, func(p *Pairs) {
			for i := range 10 {
				p.Dropped = append(p.Dropped, DroppedPair{Round: 100 + i, XReason: "late", YReason: "late"})
			}
		}},
		// The machine's drift moves both variants alike.
		{WarnAutocorrelation, func(p *Pairs) {
			for i := range p.Kept {
				p.Kept[i].X *= 1 + float64(i)
				p.Kept[i].Y *= 1 + float64(i)
			}
		}},
		// Rounds far apart are no neighbours.
		{WarnAutocorrelation, func(p *Pairs) {
			for i := range p.Kept {
				p.Kept[i].X *= 1 + float64(i)/10
				p.Kept[i].Round *= 2
			}
		}},
		{WarnUnequalNoise, func(p *Pairs) { p.Kept[0].X = 0 }},
		{WarnUnequalNoise, func(p *Pairs) {
			for i := range p.Kept {
				p.Kept[i].X, p.Kept[i].Y = 1, 2
			}
		}},
	} {
		p := quiet()
		c.change(&p)
		if w, ok := find(Warnings(p, 0.95), c.name); ok {
			t.Errorf("a warning without reason: %+v", w)
		}
	}
}

// TestModesOfOneGroup counts false alarms on normal values, and finds what is there.
func TestModesOfOneGroup(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const sets = 1000
	for _, n := range []int{9, 10, 15, 20, 60} {
		alarms, found := 0, 0
		for range sets {
			one, two := make([]float64, n), make([]float64, n)
			for i := range one {
				one[i] = rng.NormFloat64()
				two[i] = 0.7 * rng.NormFloat64()
				if rng.Float64() < 0.5 {
					two[i] += 8
				}
			}
			if m, ok := Modes(one); ok && m.Separation > m.Limit {
				alarms++
			}
			if m, ok := Modes(two); ok && m.Separation > m.Limit {
				found++
			}
		}
		if share := float64(alarms) / sets; share > 0.02 {
			t.Errorf("n=%d: %.2f%% of normal sets have two modes", n, 100*share)
		}
		if n >= 15 && found < sets*3/4 {
			t.Errorf("n=%d: two modes are found in %d of %d sets", n, found, sets)
		}
	}
	for _, x := range [][]float64{nil, {1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8, math.NaN()}} {
		if m, ok := Modes(x); ok {
			t.Errorf("%v has modes: %+v", x, m)
		}
	}
	m, ok := Modes([]float64{1.02, 1, 1.01, 1.03, 2.01, 2, 2.02, 2.03, 2.04, 2.05})
	if !ok || m.LowShare != 0.4 || math.Abs(m.Low-1.015) > 1e-12 || math.Abs(m.High-2.025) > 1e-12 {
		t.Errorf("%+v", m)
	}
}

func TestAutocorrelation(t *testing.T) {
	near(t, "of a rising line", Autocorrelation([]float64{1, 2, 3, 4}), 0.25)
	near(t, "of alternating values", Autocorrelation([]float64{1, -1, 1, -1}), -0.75)
	// The mean of many equal values may be another number.
	for _, x := range [][]float64{nil, {1, 2}, {3, 3, 3}, slices.Repeat([]float64{1.1}, 100_000), {1, math.NaN(), 2, 3}} {
		if r := Autocorrelation(x); r != 0 {
			t.Errorf("%d values: %g", len(x), r)
		}
	}
}

func TestSampleWarnings(t *testing.T) {
	var x []float64
	for _, k := range quiet().Kept {
		x = append(x, k.Ratio())
	}
	if got := names(SampleWarnings(x, 0.95)); !slices.Equal(got, []string{"true-level"}) {
		t.Errorf("warnings %v", got)
	}
	slices.Sort(x)
	if got := fmt.Sprint(names(SampleWarnings(x, 0.95))); got != "[true-level autocorrelation runs-test]" {
		t.Errorf("warnings of sorted values: %v", got)
	}
	if w := SampleWarnings([]float64{1, math.NaN()}, 0.95); w != nil {
		t.Errorf("%+v", w)
	}
}

// TestFalseAlarms counts warnings on equal variants with independent normal noise.
func TestFalseAlarms(t *testing.T) {
	const sets = 400
	rng := rand.New(rand.NewPCG(3, 0))
	for _, n := range []int{6, 10, 20} {
		counts := map[WarningName]int{}
		for range sets {
			var p Pairs
			for i := range n {
				p.Kept = append(p.Kept, PairOfRound{Round: i, X: math.Exp(0.01 * rng.NormFloat64()), Y: math.Exp(0.01 * rng.NormFloat64()), XSlot: i % 2, YSlot: 1 - i%2})
			}
			for _, w := range Warnings(p, 0.95) {
				counts[w.Name]++
			}
		}
		for name, k := range counts {
			// Those two say what is so for the number of pairs, not for their values.
			if share := float64(k) / sets; share > 0.08 && name != WarnLevel && name != WarnFewPairs {
				t.Errorf("n=%d: %s in %.1f%% of sets without fault", n, name, 100*share)
			}
		}
	}
}
