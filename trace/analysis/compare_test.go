package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/trace"
)

func generated(tb testing.TB, change func(*trace.GenerateParams)) *trace.Trace {
	tb.Helper()
	p := trace.ConversationParams()
	p.Requests = 1500
	change(&p)
	t, err := trace.Generate(p)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func compared(tb testing.TB, a, b *trace.Trace) Comparison {
	tb.Helper()
	var sides [2]*Collector
	for i, t := range []*trace.Trace{a, b} {
		c, err := collect(t, Options{Compare: true})
		if err != nil {
			tb.Fatal(err)
		}
		sides[i] = c
	}
	c, err := Compare(sides[0], sides[1])
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func (c Comparison) metric(tb testing.TB, name string) Metric {
	tb.Helper()
	i := slices.IndexFunc(c.Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		tb.Fatalf("no metric %s", name)
	}
	return c.Metrics[i]
}

func TestCompareWithItself(t *testing.T) {
	tr := generated(t, func(*trace.GenerateParams) {})
	c := compared(t, tr, tr)
	if c.A != c.B {
		t.Errorf("sides %+v and %+v", c.A, c.B)
	}
	for _, m := range c.Metrics {
		if *m.KS != 0 || *m.Wasserstein != 0 {
			t.Errorf("%s: %v, %v", m.Name, *m.KS, *m.Wasserstein)
		}
	}
	for _, p := range c.Caches {
		if p.A != p.B {
			t.Errorf("cache of %d tokens: %v and %v", p.Tokens, p.A, p.B)
		}
	}
	if len(c.Notes) != 0 {
		t.Errorf("notes %q", c.Notes)
	}
}

func TestCompareFindsDifferences(t *testing.T) {
	tr := generated(t, func(*trace.GenerateParams) {})
	for name, change := range map[string]func(*trace.GenerateParams){
		"input":         func(p *trace.GenerateParams) { p.FirstTokens.Median *= 2 },
		"output":        func(p *trace.GenerateParams) { p.OutputTokens.Sigma *= 2 },
		"gap":           func(p *trace.GenerateParams) { p.SessionsPerSecond *= 4 },
		"shared prefix": func(p *trace.GenerateParams) { p.SystemTokens.Median *= 3 },
		"turns":         func(p *trace.GenerateParams) { p.MeanTurns *= 2 },
	} {
		other := generated(t, func(p *trace.GenerateParams) { p.Seed = 99; change(p) })
		m := compared(t, tr, other).metric(t, name)
		// More than the traces differ from themselves.
		if *m.KS < 0.05 || m.HalvesA != nil && (*m.KS < *m.HalvesA || *m.KS < *m.HalvesB) {
			t.Errorf("%s: KS %v, halves %v and %v", name, *m.KS, *m.HalvesA, *m.HalvesB)
		}
	}
}

func TestCompareDifferentNumbers(t *testing.T) {
	a := generated(t, func(*trace.GenerateParams) {})
	b := generated(t, func(p *trace.GenerateParams) { p.Requests = 700; p.Seed = 5 })
	c := compared(t, a, b)
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "first 672 of both") {
		t.Errorf("notes %q", c.Notes)
	}
	if m := c.metric(t, "shared prefix"); m.A.N != 672 || m.B.N != 672 {
		t.Errorf("%+v", m)
	}
	if m := c.metric(t, "input"); m.A.N != 1500 || m.B.N != 700 {
		t.Errorf("%+v", m)
	}
	b = generated(t, func(p *trace.GenerateParams) { p.Requests = 20 })
	c = compared(t, a, b)
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "--requests 20") {
		t.Errorf("notes %q", c.Notes)
	}
}

// Traces without anything to compare.
func TestCompareNothing(t *testing.T) {
	var rows []trace.Request
	for i := range 40 {
		rows = append(rows, trace.Request{InputLength: 10, HashIDs: []uint64{uint64(i)}, Delay: math.NaN()})
	}
	tr, err := trace.New(16, rows)
	if err != nil {
		t.Fatal(err)
	}
	c := compared(t, tr, tr)
	if m := c.metric(t, "reuse distance"); m.KS != nil || m.Why != "there are no values" {
		t.Errorf("%+v", m)
	}
	if m := c.metric(t, "shared prefix"); *m.KS != 0 || m.WassersteinRelative != nil {
		t.Errorf("%+v", m)
	}
	if c.A.RequestsPerSecond != 0 {
		t.Errorf("%+v", c.A)
	}
}

func TestWasserstein(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) counts {
			return rapid.MapOfN(rapid.Uint64Range(0, 50), rapid.Uint64Range(1, 5), 1, 20).Draw(t, name)
		}
		a, b := draw("a").sample(1), draw("b").sample(1)
		// It divides the weights in place.
		want := stat.WassersteinDistance(a.values, b.values, slices.Clone(a.numbers), slices.Clone(b.numbers))
		if got := wasserstein(a, b); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
