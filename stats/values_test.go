package stats

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
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
