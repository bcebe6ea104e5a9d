package stats

import (
	"math"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	between := func(low, high float64) Interval { return Interval{Low: low, High: high, TrueLevel: 0.95} }
	higher := Rule{Margin: 0.02, Better: Higher}
	lower := Rule{Margin: 0.02, Better: Lower}
	strict := Rule{Margin: 0.02, Better: Higher, FailBeyond: 0.05}
	for _, c := range []struct {
		rule Rule
		iv   Interval
		want Verdict
		loss float64
		note string
	}{
		{higher, between(0.985, 1.01), Pass, 0.015, ""},
		{higher, between(0.985, 0.999), Pass, 0.015, "worse, within the margin"},
		{higher, between(1.01, 1.02), Pass, -0.01, ""},
		{higher, between(0.98, 1.01), Inconclusive, 0.02, ""}, // the end must lie above
		{higher, between(0.97, 1), Inconclusive, 0.03, ""},    // and the other below 1
		{higher, between(0.97, 0.9999), Fail, 0.03, ""},
		{higher, between(0.5, 1.5), Inconclusive, 0.5, ""},
		{higher, between(math.Inf(-1), 0.9), Fail, math.Inf(1), ""},
		{higher, between(math.NaN(), 1), Inconclusive, 0, "the interval is not a number"},
		{higher, Interpolated([]float64{1, 1, 1}, 0.95), Inconclusive, 0, "3 values; an interval needs at least 6"},
		{lower, between(0.99, 1.015), Pass, 0.015, ""},
		{lower, between(1.001, 1.015), Pass, 0.015, "worse, within the margin"},
		{lower, between(0.9, 0.95), Pass, -0.05, ""},
		{lower, between(0.99, 1.02), Inconclusive, 0.02, ""},
		{lower, between(1.001, 1.03), Fail, 0.03, ""},
		{lower, between(1, 1.03), Inconclusive, 0.03, ""},
		{strict, between(0.93, 0.96), Inconclusive, 0.07, ""},
		{strict, between(0.90, 0.949), Fail, 0.1, ""},
		{Rule{}, between(0.9999, 1), Inconclusive, 0.0001, ""},
		{Rule{}, between(1.0001, 1.1), Pass, -0.0001, ""},
		{Rule{}, between(0.9, 0.99), Fail, 0.1, ""},
	} {
		got := c.rule.Judge(c.iv)
		if got.Verdict != c.want || got.Note != c.note || !(got.Loss == c.loss || math.Abs(got.Loss-c.loss) < 1e-12) {
			t.Errorf("%+v on %g to %g: %+v, want %s", c.rule, c.iv.Low, c.iv.High, got, c.want)
		}
	}
	for _, c := range []struct {
		rule Rule
		want string
	}{
		{Rule{Margin: 2}, "margin 2: give a share"},
		{Rule{Margin: -0.1}, "margin -0.1"},
		{Rule{Margin: math.NaN()}, "margin NaN"},
		{Rule{FailBeyond: 1}, "fail beyond 1"},
		{Rule{Better: "more"}, `better "more"`},
	} {
		if err := c.rule.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.rule, err)
		}
	}
}

func TestClaims(t *testing.T) {
	iv := func(low, high float64) Interval {
		return Interval{Low: low, High: high, Level: 0.95, TrueLevel: 0.95}
	}
	none := Interpolated(nil, 0.95)
	c := Claims([]string{"a", "b", "c", "d"}, []Interval{iv(0.98, 1.01), iv(0.9631, 1.02), iv(0.99, 1.2), iv(1, 1)}, Higher)
	if !c.AllIncludeOne() || !c.NoneAllows(0.04) || c.NoneAllows(0.03) || c.LargestOf != "b" {
		t.Errorf("%+v", c)
	}
	if got, want := c.Text(), "every interval includes 1; none allows a loss of more than 3.7% (b); all 4 cover together 81% of the time if independent"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c = Claims([]string{"a", "b", "c"}, []Interval{iv(0.9, 0.99), iv(1.01, 1.02), none}, Higher)
	if c.AllIncludeOne() || c.NoneAllows(0.5) {
		t.Errorf("%+v", c)
	}
	if got, want := c.Text(), "0 of 3 intervals include 1; worse beyond doubt: a; better beyond doubt: b; without an interval: c; none allows a loss of more than 10.0% (a); all 2 cover together 90% of the time if independent"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// For a metric that is better when lower the signs change.
	c = Claims([]string{"a", "b"}, []Interval{iv(0.9, 1.05), iv(1.01, 1.02)}, Lower)
	if math.Abs(c.LargestLoss-0.05) > 1e-12 || c.LargestOf != "a" || len(c.Worse) != 1 || c.Worse[0] != "b" {
		t.Errorf("%+v", c)
	}
	c = Claims([]string{"a"}, []Interval{iv(1.01, 1.05)}, Higher)
	if got, want := c.Text(), "0 of 1 intervals include 1; better beyond doubt: a; none allows a loss"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if c := Claims(nil, nil, Higher); c.AllIncludeOne() || c.NoneAllows(1) || c.Text() != "no ratios" {
		t.Errorf("%+v", c)
	}
	if c := Claims([]string{"a"}, []Interval{none}, Higher); c.AllIncludeOne() || c.NoneAllows(1) || c.Text() != "without an interval: a" {
		t.Errorf("%+v %q", c, c.Text())
	}
}

func TestPlan(t *testing.T) {
	// n ≥ 16.5·(σ/δ)² for a PASS with 90%, 12.3 for 80%; 11.0 and 8.2 for Hodges–Lehmann.
	for _, c := range []struct {
		power  float64
		c      Efficiency
		factor float64
	}{{0.9, MedianEfficiency, 16.5}, {0.8, MedianEfficiency, 12.3}, {0.9, HodgesLehmannEfficiency, 11.0}, {0.8, HodgesLehmannEfficiency, 8.2}} {
		if n := RoundsNeeded(0.1, 0.01, 0.95, c.power, c.c); math.Abs(float64(n)/100-c.factor) > 0.06 {
			t.Errorf("power %g: factor %.2f, want %.1f", c.power, float64(n)/100, c.factor)
		}
	}
	for _, c := range []struct {
		sigma, margin float64
		want          int
	}{{0.01, 0.02, 6}, {0.02, 0.02, 17}, {0.03, 0.02, 38}, {0.05, 0.02, 104}, {0, 0.02, 6}, {0.1, 0, math.MaxInt}, {0.1, -1, math.MaxInt}, {1, 1e-9, math.MaxInt}, {math.NaN(), 1, math.MaxInt}} {
		if n := RoundsNeeded(c.sigma, c.margin, 0.95, 0.9, MedianEfficiency); n != c.want {
			t.Errorf("σ %g, margin %g: %d rounds, want %d", c.sigma, c.margin, n, c.want)
		}
	}
	// At σ = 3.1% twenty rounds resolve ±1.7%.
	if w := HalfWidth(0.031, 20, 0.95, MedianEfficiency); math.Abs(w-0.0170) > 0.0001 {
		t.Errorf("half-width %g", w)
	}
	if r := Resolvable(1, 1, 0.95, 0.8, MedianEfficiency); math.Abs(r-3.51) > 0.005 {
		t.Errorf("resolvable %g, want 3.51", r)
	}
	// What the rounds needed for a margin resolve is that margin.
	n := RoundsNeeded(0.04, 0.01, 0.95, 0.9, MedianEfficiency)
	if r := Resolvable(0.04, n, 0.95, 0.9, MedianEfficiency); r > 0.01 || r < 0.0099 {
		t.Errorf("%d rounds resolve %g", n, r)
	}

	sigma, ok := Noise([]float64{math.Exp(-0.02), 1, math.Exp(0.01), math.Exp(0.5), math.Exp(-0.01)})
	if want := 1.4826 * 0.01; !ok || math.Abs(sigma-want) > 1e-6 {
		t.Errorf("noise %g, want %g", sigma, want)
	}
	for _, x := range [][]float64{nil, {1, 2}, {1, 2, 0}, {1, 2, -1}, {1, 2, math.NaN()}, {1, 2, math.Inf(1)}} {
		if sigma, ok := Noise(x); ok {
			t.Errorf("noise %g of %v", sigma, x)
		}
	}
}
