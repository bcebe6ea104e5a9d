package stats

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, math.NaN()},
		{[]float64{4}, 4},
		{[]float64{4, 1}, 2.5},
		{[]float64{3, 1, 2}, 2},
		{[]float64{1, math.NaN(), 2}, math.NaN()},
		{[]float64{math.Inf(1), 1, 2}, 2},
		{[]float64{-1, 0, 0, 5}, 0},
	} {
		if got := Median(c.values); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("median of %v is %g", c.values, got)
		}
	}
}

// TestOddValues: what every method does with values that are not plain.
func TestOddValues(t *testing.T) {
	seven := func(v ...float64) []float64 { return append([]float64{1, 2, 3, 4, 5, 6, 7}[:7-len(v)], v...) }
	var many []float64
	for i := range maxExact + 1 {
		many = append(many, 1+float64(i))
	}
	logs := map[Method]bool{MethodHodgesLehmann: true, MethodLogT: true, MethodTrimmedLogT: true}
	for _, m := range methods() {
		for _, c := range []struct {
			name   string
			values []float64
			level  float64
			want   Reason
		}{
			{"none", nil, 0.95, TooFewValues},
			{"one", []float64{1}, 0.95, TooFewValues},
			{"five", []float64{1, 2, 3, 4, 5}, 0.95, TooFewValues},
			{"NaN", seven(math.NaN()), 0.95, NotFinite},
			{"infinite", seven(math.Inf(1)), 0.95, NotFinite},
			{"minus infinite", seven(math.Inf(-1)), 0.95, NotFinite},
			{"one NaN", []float64{math.NaN()}, 0.95, NotFinite},
			{"level 0", seven(), 0, BadLevel},
			{"level 1", seven(), 1, BadLevel},
			{"level NaN", seven(), math.NaN(), BadLevel},
			{"level 95", seven(), 95, BadLevel},
		} {
			iv := Prepare(m, len(c.values), c.level).Interval(c.values)
			if iv.Absent != c.want {
				t.Errorf("%s of %s: absent %q, want %q", m, c.name, iv.Absent, c.want)
			}
			if iv.Explain() == "" || iv.Explain() == string(iv.Absent) {
				t.Errorf("%s is not explained", iv.Absent)
			}
		}
		// Zero and negative values have no logarithm and are data otherwise.
		nine := []float64{-3, -2, -1, 0, 1, 2, 3, 4, 5}
		iv := Prepare(m, 9, 0.95).Interval(nine)
		if logs[m] && iv.Absent != NotPositive || !logs[m] && (!iv.Ok() || iv.Estimate != 1) {
			t.Errorf("%s of negative values: %+v", m, iv)
		}
		// All equal: an interval of no width, which is the truth about such values.
		equal := []float64{1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1}
		iv = Prepare(m, 9, 0.95).Interval(equal)
		if !iv.Ok() || math.Abs(iv.Low-1.1) > 1e-15 || math.Abs(iv.High-1.1) > 1e-15 || math.Abs(iv.Estimate-1.1) > 1e-15 {
			t.Errorf("%s of equal values: %+v", m, iv)
		}
		iv = Prepare(m, len(many), 0.95).Interval(many)
		want := Reason("")
		if m == MethodExactBootstrap || m == MethodHodgesLehmann {
			want = TooManyValues
		}
		if iv.Absent != want || iv.Explain() == "" != iv.Ok() {
			t.Errorf("%s of %d values: %+v", m, len(many), iv)
		}
	}
	// The largest and smallest numbers do not overflow on the way.
	huge := []float64{1e308, 1.1e308, 1.2e308, 1.3e308, 1.4e308, 1.5e308}
	if iv := ExactBootstrap(huge, 0.95); !iv.Ok() || math.IsInf(iv.High, 0) || math.IsInf(iv.Low, 0) {
		t.Errorf("%+v", iv)
	}
	if se := BootstrapSE([]float64{2, 2, 2}); se != 0 {
		t.Errorf("standard error %g of equal values", se)
	}
	for _, x := range [][]float64{nil, {1}, {1, math.NaN()}, {1, math.Inf(1)}, {math.Inf(-1), 2}, many} {
		if se := BootstrapSE(x); !math.IsNaN(se) {
			t.Errorf("standard error %g of %d values", se, len(x))
		}
	}
}

// TestExtremesAreNumbers: whatever finite values are given, what comes out can be
// written as JSON: no figure is infinite, and an interval that would be is absent.
func TestExtremesAreNumbers(t *testing.T) {
	for _, x := range [][]float64{
		{1e307, 1.5e307, 1.9e307, 1e307, 1.3e307, 1.8e307, 1.7e308},
		{math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64},
		{-math.MaxFloat64, math.MaxFloat64, 1, 2, 3, 4, 5, 6, 7, 8},
		{5e-324, math.MaxFloat64, 1, 2, 3, 4, 5, 6, 7, 8, 9},
		{5e-324, math.MaxFloat64, 5e-324, math.MaxFloat64, 5e-324, math.MaxFloat64, 5e-324, math.MaxFloat64, 5e-324, math.MaxFloat64},
		{0, 1e300, 1, 2, 3, 4, 5, 6, 7, 8, 9},
		{1e-300, 2e-305, 1e-303, 3e-301, 1e-302, 4e-300, 5e-304},
		{math.MaxFloat64, -math.MaxFloat64}, {math.MaxFloat64}, {5e-324, 5e-324},
	} {
		s, err := Summarize(x, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(s); err != nil {
			t.Errorf("%v: %v", x, err)
		}
		for _, iv := range s.Intervals {
			if iv.Ok() && iv.Low > iv.High {
				t.Errorf("%v: %+v", x, iv)
			}
		}
		if m := Median(x); math.IsInf(m, 0) || m < slices.Min(x) || m > slices.Max(x) {
			t.Errorf("median of %v is %g", x, m)
		}
		p := Pairs{}
		for i, v := range x {
			p.Kept = append(p.Kept, PairOfRound{Round: i, X: math.Abs(v), Y: 1, XSlot: i % 2, YSlot: 1 - i%2})
		}
		if _, err := json.Marshal(Compare(p, 0.95)); err != nil {
			t.Errorf("pairs of %v: %v", x, err)
		}
		if _, err := json.Marshal(Unpaired(x, x, 0.95)); err != nil {
			t.Errorf("unpaired %v: %v", x, err)
		}
	}
	// The standard error of far smaller and far larger values is that of others, scaled.
	plain := BootstrapSE([]float64{1, 2, 4, 8, 16, 32})
	for _, scale := range []float64{1e-300, 1e300} {
		x := []float64{1 * scale, 2 * scale, 4 * scale, 8 * scale, 16 * scale, 32 * scale}
		if se := BootstrapSE(x) / scale; math.Abs(se-plain) > 1e-12*plain {
			t.Errorf("standard error %g at a scale of %g, %g at 1", se, scale, plain)
		}
	}
	if why := (Interval{Absent: EndTooLarge}).Explain(); !strings.Contains(why, "too large") {
		t.Error(why)
	}
}

func TestStudentT(t *testing.T) {
	// Quantiles by R 4.2.2 and scipy 1.17.1, which agree to all these digits.
	for degrees, want := range map[float64]float64{5: 2.570581835636314, 6: 2.446911851144979, 8: 2.306004135204166, 19: 2.093024054408308} {
		near(t, "quantile of Student's t", studentT(0.95, degrees), want)
	}
	for _, c := range []struct{ level, degrees float64 }{{0.01, 1}, {0.5, 2}, {0.999999, 1}, {0.9818, 5000}} {
		q := studentT(c.level, c.degrees)
		near(t, "level of the quantile", 1-2*distuv.StudentsT{Mu: 0, Sigma: 1, Nu: c.degrees}.Survival(q), c.level)
	}
}

func TestLevelUnreached(t *testing.T) {
	six := []float64{1, 2, 3, 4, 5, 6}
	for _, m := range []Method{MethodInterpolated, MethodConservative, MethodHodgesLehmann, MethodAnytime} {
		iv := Prepare(m, 6, 0.99).Interval(six)
		if iv.Absent != LevelUnreached || !strings.Contains(iv.Explain(), "99%") {
			t.Errorf("%+v", iv)
		}
	}
	// The range of six values has a level of 31/32.
	if iv := Interpolated(six, 31.0/32); !iv.Ok() || iv.Low != 1 || iv.High != 6 {
		t.Errorf("%+v", iv)
	}
}

func TestManyValues(t *testing.T) {
	x := make([]float64, 5000)
	for i := range x {
		x[i] = float64((i * 7919) % 5000)
	}
	for _, m := range []Method{MethodInterpolated, MethodConservative, MethodAnytime, MethodLogT} {
		iv := Prepare(m, len(x), 0.95).Interval(x)
		if m != MethodLogT && (!iv.Ok() || !iv.Contains(2499.5) || iv.High-iv.Low > 500) {
			t.Errorf("%+v", iv)
		}
	}
	iv := Anytime(x, 0.95)
	if iv.Basis != Nominal || iv.TrueLevel != 0.95 {
		t.Errorf("the level of the anytime interval of 5000 values is not computed, but it says %+v", iv)
	}
}

func TestPreparePanics(t *testing.T) {
	for name, f := range map[string]func(){
		"another method":     func() { Prepare(MethodStratified, 9, 0.95) },
		"another number":     func() { Prepare(MethodLogT, 9, 0.95).Interval([]float64{1}) },
		"a rule of no sense": func() { Rule{Margin: -1}.Judge(Interval{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			f()
		}()
	}
}

func TestIntervalJSON(t *testing.T) {
	for _, c := range []struct {
		iv   Interval
		want string
	}{
		{Interpolated([]float64{1, 1, 1, 1, 1, 1}, 31.0/32), `{"method":"interpolated-order-statistic","n":6,"estimate":1,"low":1,"high":1,"level":0.96875,"true_level":0.96875,"basis":"normal distributions","level_min":0.78125,"level_max":0.96875}`},
		{Interpolated([]float64{1, 2}, 0.95), `{"method":"interpolated-order-statistic","n":2,"estimate":1.5,"level":0.95,"absent":"too-few-values","low":null,"high":null,"true_level":null}`},
	} {
		b, err := json.Marshal(c.iv)
		if err != nil {
			t.Fatal(err)
		}
		if string(b) != c.want {
			t.Errorf("got  %s\nwant %s", b, c.want)
		}
		var back Interval
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if back != c.iv {
			t.Errorf("%+v came back as %+v", c.iv, back)
		}
	}
}
