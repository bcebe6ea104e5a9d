package page

import (
	"io"
	"math"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/internal/report/pagetest"
)

// sample is a page with every part and every chart, and with names that try to be
// more than names.
func sample() *Page {
	const evil = `<script>alert("x")</script>'"&` + "\x00\u202e"
	p := New("A report "+evil, "What it is about "+evil)
	p.Verdict(Good, "PASS", "the interval lies above 0.99 "+evil)
	p.Verdict(Bad, "FAIL", "it does not")
	p.Verdict(Doubt, "INCONCLUSIVE", "who knows")
	s := p.Section("Ratios " + evil)
	s.Text("Some text " + evil)
	nan := math.NaN()
	s.Charts(&chart.Forest{Head: chart.Head{Title: "Ratios", Description: "Ratios with their intervals " + evil},
		Rows: []chart.ForestRow{
			{Label: "achieved block-ops/s, tracked/untracked " + evil, Estimate: 0.983, Low: 0.972, High: 0.991, Margin: 0.96, Tone: chart.Worse, Dots: []float64{0.97, 0.98, 0.983, 0.99}},
			{Label: "query service p99", Estimate: 1.01, Low: 0.99, High: 1.03},
			{Label: "no interval", Estimate: 1.02, Low: nan, High: nan},
			{Label: "refused", Estimate: nan, Low: nan, High: nan, Note: "overloaded"},
		}})
	paired := &chart.Paired{Head: chart.Head{Title: "Rounds", Description: "One dot for each variant."}, Y: chart.Axis{Label: "block-ops/s", Unit: chart.PerSecond}, Variants: []string{"untracked", "tracked " + evil, "third"}}
	for i := range 20 {
		v := 5e6 + 1e5*math.Sin(float64(i))
		paired.Rounds = append(paired.Rounds, chart.PairedRound{Number: i + 1, Values: []float64{v, v * 0.98, v*1.01 + float64(i%3)*1e4}})
	}
	paired.Rounds[4].Values[1] = nan
	s.Charts(paired)
	l := &chart.Lines{Head: chart.Head{Title: "Latency", Description: "Quantiles."}, X: chart.Axis{Label: "share of queries", Tail: true, Unit: chart.Share}, Y: chart.Axis{Label: "time", Unit: chart.Nanoseconds, Log: true}}
	for k := range 8 {
		l.Series = append(l.Series, chart.Series{Name: "variant " + string(rune('a'+k)), Style: chart.LineDot, X: []float64{0.5, 0.9, 0.99, 0.999}, Y: []float64{1e3 * float64(k+1), 3e3 * float64(k+1), 1e4 * float64(k+1), 9e5}})
	}
	queue := &chart.Lines{Head: chart.Head{Title: "Queue"}, X: chart.Axis{Label: "time", Unit: chart.Nanoseconds}, Y: chart.Axis{Label: "waiting", Zero: true}, References: []chart.Reference{{Value: 6e8, Label: "end of the window", Upright: true}, {Value: 4000, Label: "capacity"}},
		Bands: []chart.Band{{Name: "range", X: []float64{0, 5e8, 1e9}, Low: []float64{0, 10, 20}, High: []float64{500, 3000, 200}}}}
	var th chart.Thinner
	for i := range 100000 {
		x := float64(i) * 1e4
		th.Add(x, 1500+1000*math.Sin(x/1e8)+300*math.Sin(float64(i)*77))
	}
	queue.Series = append(queue.Series, th.Series("events"))
	edges, sets := chart.Bins(30, true, []string{"gaps"}, manyGaps())
	s2 := p.Section("Over time")
	s2.Missing("Resident blocks over time were not recorded.")
	heat := &chart.Heat{Head: chart.Head{Title: "Resident blocks by rank"}, X: chart.Axis{Label: "time", Unit: chart.Nanoseconds}, From: 0, To: 2e9}
	for r := range 24 {
		heat.Rows = append(heat.Rows, "worker "+string(rune('a'+r)))
		var v []float64
		for j := range 60 {
			v = append(v, float64(r*j)*10+100*math.Sin(float64(j+r)))
		}
		heat.Values = append(heat.Values, v)
	}
	bars := &chart.Bars{Head: chart.Head{Title: "CPU of threads"}, X: chart.Axis{Label: "time", Unit: chart.Nanoseconds}, Kind: []string{"user", "kernel", "waiting for a CPU"},
		Rows: []chart.Bar{{Label: "event 0", Parts: []float64{1e9, 2e8, 3e8}}, {Label: "event 1", Parts: []float64{1.2e9, 1e8, nan}}, {Label: "query 0", Parts: []float64{nan, nan, nan}}}}
	s2.Charts(l, queue, &chart.Histogram{Head: chart.Head{Title: "Gaps"}, X: chart.Axis{Label: "gap", Unit: chart.Nanoseconds, Log: true}, Y: chart.Axis{Label: "requests"}, Edges: edges, Sets: sets}, heat, bars,
		&chart.Lines{Head: chart.Head{Title: "Shares"}, X: chart.Axis{Label: "x", Log: true, Unit: chart.Nanoseconds}, Y: chart.Axis{Label: "share of samples at most x", Unit: chart.Share}, Series: []chart.Series{chart.ECDF("gaps", manyGaps())}})
	s2.Heading("More")
	s2.List("one", evil)
	s2.Warnings("careful " + evil)
	s2.Code("kvbench replay " + evil)
	p.Provenance(Fact{"command", "kvbench " + evil}, Fact{"commit", "0123456789abcdef0123456789abcdef"})
	return p
}

func manyGaps() []float64 {
	out := make([]float64, 0, 5000)
	for i := range 5000 {
		out = append(out, 1e6*math.Exp(3*math.Sin(float64(i)*12.9898)))
	}
	return out
}

func render(t *testing.T, p *Page) string {
	t.Helper()
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRules(t *testing.T) {
	text := render(t, sample())
	for _, problem := range pagetest.Problems(text) {
		t.Error(problem)
	}
	if strings.Contains(text, "<script") {
		t.Error("a name became an element")
	}
	if strings.ContainsAny(text, "\x00\u202e") {
		t.Error("what does not print got into the page")
	}
	if again := render(t, sample()); again != text {
		t.Error("the same page is written differently")
	}
}

// TestRulesAreRules breaks each rule.
func TestRulesAreRules(t *testing.T) {
	text := render(t, sample())
	for _, c := range []struct{ old, new, says string }{
		{"<!DOCTYPE html>", "", "doctype"},
		{`lang="en"`, ``, "language"},
		{"default-src 'none'", "default-src *", "policy"},
		{"<main", "<div", "of main"},
		{"</main>", "<h1>two</h1></main>", "2 of h1"},
		{"</main>", "<script>1</script></main>", "element script"},
		{"</main>", `<p onclick="x">x</p></main>`, "attribute onclick"},
		{"</main>", `<a href="https://example.com/">x</a></main>`, "href"},
		{"</main>", `<p id="content">x</p></main>`, "2 times"},
		{`href="#content"`, `href="#nowhere"`, "nowhere"},
		{`role="img"`, ``, "no role"},
		{"<svg", "</figure><svg", "figure"},
		{"<caption>", "<caption hidden>x</caption><caption>", "caption"},
		{"</tr></thead>", "<th>more</th></tr></thead>", "cells"},
		{"<h2", "<h3", "level 3"},
		{"</style>", "@import 'x'</style>", "@import"},
		{"</style>", "a{background:url(x)}</style>", "url("},
	} {
		broken := strings.Replace(text, c.old, c.new, 1)
		if broken == text {
			t.Fatalf("the page has no %q", c.old)
		}
		if all := strings.Join(pagetest.Problems(broken), "\n"); !strings.Contains(all, c.says) {
			t.Errorf("%q in the place of %q: %q, want %q", c.new, c.old, all, c.says)
		}
	}
}

// TestIDs gives sections and charts the same and odd titles.
func TestIDs(t *testing.T) {
	p := New("Page", "")
	for _, title := range []string{"Same", "Same", "same!", "content", "1st", "", "…", strings.Repeat("long ", 100)} {
		s := p.Section("x" + title)
		s.Heading("y" + title)
		s.Charts(&chart.Bars{Head: chart.Head{Title: title}, Kind: []string{"a"}, Rows: []chart.Bar{{Label: "b", Parts: []float64{1}}}})
	}
	for _, problem := range pagetest.Problems(render(t, p)) {
		// A chart without a title is the mistake of the caller.
		if problem != "a picture has no title" && problem != "a table has no caption" {
			t.Error(problem)
		}
	}
}

func TestContradictionIsAnError(t *testing.T) {
	p := New("Page", "")
	p.Section("s").Charts(&chart.Lines{Head: chart.Head{Title: "bad"}, Series: []chart.Series{{Name: "a", X: []float64{1, 2}, Y: []float64{1}}}})
	if err := p.Write(io.Discard); err == nil || !strings.Contains(err.Error(), "bad") {
		t.Errorf("%v, want an error that names the chart", err)
	}
}
