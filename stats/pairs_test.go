package stats

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// series makes readings of rounds 1, 2, …; a variant at an odd position of the order
// runs second first.
func series(name string, first bool, values ...float64) Series {
	s := Series{Variant: name}
	for i, v := range values {
		slot := 0
		if (i%2 == 0) != first {
			slot = 1
		}
		s.Readings = append(s.Readings, Reading{Round: i + 1, Slot: slot, Value: v})
	}
	return s
}

// TestPipeline goes from throughputs by round to the figures, computed elsewhere.
func TestPipeline(t *testing.T) {
	base := series("base", true, 30.91, 30.74, 31.02, 30.66, 30.88, 30.79, 30.95, 30.83, 30.71, 30.97)
	untracked := series("untracked", false, 30.85, 30.90, 30.94, 30.75, 30.81, 30.93, 30.88, 30.96, 30.64, 31.05)
	tracked := series("tracked", true, 30.62, 30.41, 30.77, 30.55, 30.70, 30.36, 27.10, 30.59, 30.48, 30.80)
	tracked.Readings[6].Invalid = "could not issue on schedule"

	near(t, "median of base", Median(base.Values()), 30.855)
	near(t, "median of untracked", Median(untracked.Values()), 30.89)
	near(t, "median of tracked", Median(tracked.Values()), 30.59)
	if n := len(tracked.Values()); n != 9 {
		t.Errorf("%d valid readings", n)
	}

	digits := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.5000001e-6 {
			t.Errorf("%s is %.7f, want %.6f", what, got, want)
		}
	}
	var all []Comparison
	for _, c := range []struct {
		x, y                       Series
		n                          int
		median                     float64
		bootstrap, interpolated    [2]float64
		worst                      [2]float64
		ratioOfMedians, firstRatio float64
		dropped                    string
	}{
		{untracked, base, 10, 1.000321, [2]float64{0.997729, 1.004217}, [2]float64{0.997729, 1.004330}, [2]float64{}, 1.001134, 0.998059, ""},
		{tracked, untracked, 9, 0.992545, [2]float64{0.984142, 0.994778}, [2]float64{0.985033, 0.994716}, [2]float64{0.981571, 0.996430}, 0.989968, 0.992545, "round 7 (tracked: could not issue on schedule)"},
		{tracked, base, 9, 0.992215, [2]float64{0.989265, 0.994511}, [2]float64{0.989573, 0.994433}, [2]float64{0.986034, 0.996412}, 0.992215, 0.990618, "round 7 (tracked: could not issue on schedule)"},
	} {
		p, err := Pair(c.x, c.y)
		if err != nil {
			t.Fatal(err)
		}
		got := Compare(p, 0.95)
		all = append(all, got)
		name := p.Name()
		if len(got.Ratios) != c.n || got.Planned != 10 || len(p.Kept) != c.n {
			t.Errorf("%s: %d of %d pairs", name, len(got.Ratios), got.Planned)
		}
		if p.DroppedText() != c.dropped {
			t.Errorf("%s: dropped %q", name, p.DroppedText())
		}
		digits(name+" first ratio", got.Ratios[0], c.firstRatio)
		digits(name+" median", got.Median, c.median)
		digits(name+" bootstrap low", got.Bootstrap.Low, c.bootstrap[0])
		digits(name+" bootstrap high", got.Bootstrap.High, c.bootstrap[1])
		digits(name+" interpolated low", got.Interpolated.Low, c.interpolated[0])
		digits(name+" interpolated high", got.Interpolated.High, c.interpolated[1])
		digits(name+" ratio of medians", got.RatioOfMedians, c.ratioOfMedians)
		if c.worst != [2]float64{} {
			digits(name+" worst low", got.WorstCase.Low, c.worst[0])
			digits(name+" worst high", got.WorstCase.High, c.worst[1])
		}
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	chain := ChainWarnings(all)
	if len(chain) != 1 {
		t.Fatalf("warnings %+v", chain)
	}
	digits("product of the medians", chain[0].Figure, 0.992863)
	digits("direct median", chain[0].Limit, 0.992215)
	if !strings.Contains(chain[0].Text, "tracked/base is 0.9922, not the product 0.9929") {
		t.Error(chain[0].Text)
	}
	// Without the direct comparison the warning says to ask for it.
	if chain := ChainWarnings(all[:2]); len(chain) != 1 || chain[0].Limit != 0 || !strings.Contains(chain[0].Text, "ask for it directly") {
		t.Errorf("warnings %+v", chain)
	}
	if chain := ChainWarnings(all[:1]); chain != nil {
		t.Errorf("warnings %+v", chain)
	}
}

func TestPairDropsWhatGivesNoRatio(t *testing.T) {
	x := Series{Variant: "x", Readings: []Reading{
		{Round: 9, Value: 3},
		{Round: 1, Value: math.NaN()},
		{Round: 2, Value: math.Inf(1)},
		{Round: 3, Value: -1},
		{Round: 4, Value: 0},
		{Round: 5, Value: 5},
		{Round: 6, Value: 6},
		{Round: 7, Value: 7, Invalid: "late"},
		{Round: 10, Value: 1e308},
	}}
	y := Series{Variant: "y", Readings: []Reading{
		{Round: 1, Value: 1}, {Round: 2, Value: 1}, {Round: 3, Value: 1}, {Round: 4, Value: 2},
		{Round: 5, Value: 0}, {Round: 6, Value: math.Inf(-1)}, {Round: 7, Value: 1, Invalid: "killed"},
		{Round: 8, Value: 1}, {Round: 9, Value: 1.5}, {Round: 10, Value: 1e-308},
	}}
	p, err := Pair(x, y)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int][2]string{
		1:  {"the value NaN is not a finite number", ""},
		2:  {"the value +Inf is not a finite number", ""},
		3:  {"the value -1 is negative, which gives no ratio", ""},
		5:  {"", "the value 0 cannot be divided by"},
		6:  {"", "the value -Inf is not a finite number"},
		7:  {"late", "killed"},
		8:  {"no reading", ""},
		10: {"", "1e+308/1e-308 is too large for a number"},
	}
	if len(p.Dropped) != len(want) {
		t.Errorf("dropped %+v", p.Dropped)
	}
	for _, d := range p.Dropped {
		if got := [2]string{d.XReason, d.YReason}; got != want[d.Round] {
			t.Errorf("round %d: %q, want %q", d.Round, got, want[d.Round])
		}
	}
	if r := p.Ratios(); len(r) != 2 || r[0] != 0 || r[1] != 2 {
		t.Errorf("ratios %v", r)
	}
	if p.Planned() != 10 {
		t.Errorf("%d planned", p.Planned())
	}
	// A ratio of 0 has no logarithm; that does no harm elsewhere.
	c := Compare(p, 0.95)
	if c.Sigma != 0 || c.Interpolated.Absent != TooFewValues || c.Median != 1 {
		t.Errorf("%+v", c)
	}

	x.Readings = append(x.Readings, Reading{Round: 5, Value: 1})
	if _, err := Pair(x, y); err == nil || !strings.Contains(err.Error(), `"x" has two readings of round 5`) {
		t.Errorf("error %v", err)
	}
	if _, err := Pair(y, x); err == nil {
		t.Error("two readings of a round are accepted in the denominator")
	}
}

func TestNoPairs(t *testing.T) {
	p, err := Pair(Series{Variant: "x"}, Series{Variant: "y"})
	if err != nil {
		t.Fatal(err)
	}
	c := Compare(p, 0.95)
	if c.Median != 0 || c.Interpolated.Absent != TooFewValues || c.Bootstrap.Ok() || c.WorstCase.Ok() || c.Stratified.Ok() {
		t.Errorf("%+v", c)
	}
	if len(c.Warnings) != 1 || c.Warnings[0].Name != WarnFewPairs {
		t.Errorf("warnings %+v", c.Warnings)
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{`"kept":[]`, `"dropped":[]`, `"ratios":[]`, `"warnings":[{`} {
		if !strings.Contains(string(b), list) {
			t.Errorf("no %s in %s", list, b)
		}
	}
}

func TestDroppedTextOfManyRounds(t *testing.T) {
	p := Pairs{Numerator: "x", Denominator: "y"}
	for round := 1; round <= 4; round++ {
		p.Dropped = append(p.Dropped, DroppedPair{Round: round, XReason: "late"})
	}
	if got := p.DroppedText(); strings.Count(got, "late") != 4 {
		t.Errorf("four rounds: %q", got)
	}
	p.Dropped = append(p.Dropped, DroppedPair{Round: 7, YReason: "late"})
	if got, want := p.DroppedText(), "round 1 (x: late), round 2 (x: late), round 3 (x: late), rounds 4, 7"; got != want {
		t.Errorf("five rounds: %q, want %q", got, want)
	}
}
