package gate

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/stats"
)

// row makes a row of n rounds whose ratios are those given.
func row(t *testing.T, metric string, better stats.Better, margin float64, ratios ...float64) Row {
	t.Helper()
	a, b := stats.Series{Variant: "head"}, stats.Series{Variant: "base"}
	for i, v := range ratios {
		reading := stats.Reading{Round: i + 1, Slot: i % 2, Value: v}
		if math.IsNaN(v) {
			reading.Value, reading.Invalid = 1, "issue_span: 1.2 x window"
		}
		a.Readings = append(a.Readings, reading)
		b.Readings = append(b.Readings, stats.Reading{Round: i + 1, Slot: (i + 1) % 2, Value: 1})
	}
	p, err := stats.Pair(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return Row{Metric: metric, Unit: "block-ops/s", Better: better, Of: "head", To: "base", Margin: margin, Pairs: p}
}

// around returns n ratios around a centre, spread evenly.
func around(centre, spread float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = centre + spread*(2*float64((i*7)%n)/float64(n-1)-1)
	}
	return out
}

var one = Look{Schedule: Fixed, Rounds: 20, Level: DefaultLevel}

func judge(t *testing.T, in Input) *Report {
	t.Helper()
	if in.Look == (Look{}) {
		in.Look = one
	}
	r, err := Judge(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVerdicts(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name    string
		rows    []Row
		verdict Verdict
		reason  string
	}{
		{"the same", []Row{row(t, "m", stats.Higher, 0.02, around(1, 0.01, 20)...)}, Pass, ""},
		{"slower within the margin", []Row{row(t, "m", stats.Higher, 0.05, around(0.98, 0.005, 20)...)}, Pass, ""},
		{"slower", []Row{row(t, "m", stats.Higher, 0.02, around(0.95, 0.01, 20)...)}, Fail, "head/base"},
		{"noisy", []Row{row(t, "m", stats.Higher, 0.02, around(1, 0.2, 20)...)}, Inconclusive, "reaches both"},
		{"lower is better, lower", []Row{row(t, "m", stats.Lower, 0.02, around(0.9, 0.01, 20)...)}, Pass, ""},
		{"lower is better, higher", []Row{row(t, "m", stats.Lower, 0.02, around(1.05, 0.01, 20)...)}, Fail, "median 1.05"},
		{"five rounds", []Row{row(t, "m", stats.Higher, 0.02, around(0.5, 0.01, 5)...)}, Inconclusive, "at least 6"},
		{"no valid pair", []Row{row(t, "m", stats.Higher, 0.02, nan, nan)}, Unmeasurable, "no round has a valid trial"},
		{"many invalid", []Row{row(t, "m", stats.Higher, 0.02, append(around(1, 0.001, 17), nan, nan, nan)...)}, Unmeasurable, "3 of 20 rounds"},
		{"one invalid", []Row{row(t, "m", stats.Higher, 0.02, append(around(1, 0.001, 19), nan)...)}, Pass, ""},
		{"one of two fails", []Row{row(t, "a", stats.Higher, 0.02, around(1, 0.01, 20)...), row(t, "b", stats.Higher, 0.02, around(0.9, 0.01, 20)...)}, Fail, "b head/base"},
		{"one of two noisy", []Row{row(t, "a", stats.Higher, 0.02, around(1, 0.2, 20)...), row(t, "b", stats.Higher, 0.02, around(1, 0.01, 20)...)}, Inconclusive, "a head/base"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := judge(t, Input{Name: "exp", Rows: c.rows, Rounds: 20, Planned: 20})
			if r.Verdict != c.verdict {
				t.Fatalf("the verdict is %s, want %s: %v", r.Verdict, c.verdict, r.Reasons)
			}
			if (c.reason == "") != (len(r.Reasons) == 0) || !strings.Contains(strings.Join(r.Reasons, "\n"), c.reason) {
				t.Errorf("the reasons are %q, want %q", r.Reasons, c.reason)
			}
		})
	}
}

func TestRefusedMetricIsUnmeasurable(t *testing.T) {
	x := row(t, "rates.achieved_block_ops_per_sec", stats.Higher, 0.02, around(1, 0.001, 20)...)
	x.Refused = "the trials kept up, so throughput is what was offered"
	r := judge(t, Input{Rows: []Row{x}})
	if r.Verdict != Unmeasurable || !strings.Contains(r.Reasons[0], "kept up") {
		t.Errorf("%s, %v", r.Verdict, r.Reasons)
	}
}

func TestMachineAndControlForbidAVerdict(t *testing.T) {
	slower := row(t, "m", stats.Higher, 0.02, around(0.9, 0.01, 20)...)
	if r := judge(t, Input{Rows: []Row{slower}, Unfit: []string{"cpu quota: throttled"}}); r.Verdict != Unmeasurable {
		t.Errorf("on an unfit machine: %s", r.Verdict)
	}
	for name, c := range map[string]struct {
		ratios []float64
		want   Verdict
	}{
		"good":         {around(1, 0.01, 20), Fail},
		"wide":         {around(1, 0.1, 20), Unmeasurable},
		"off":          {around(1.01, 0.001, 20), Unmeasurable},
		"too few":      {around(1, 0.001, 4), Unmeasurable},
		"of one value": {around(1, 0, 20), Fail},
	} {
		aa := Control{Metric: "m", Of: "base'", To: "base", Pairs: row(t, "m", stats.Higher, 0, c.ratios...).Pairs}
		r := judge(t, Input{Rows: []Row{slower}, Controls: []Control{aa}})
		if r.Verdict != c.want {
			t.Errorf("with a control that is %s: %s, want %s (%v)", name, r.Verdict, c.want, r.Reasons)
		}
	}
}

// TestOpen has what the sequential schedule goes on after.
func TestOpen(t *testing.T) {
	good := row(t, "m", stats.Higher, 0.02, around(1, 0.01, 20)...)
	noisy := row(t, "m", stats.Higher, 0.02, around(1, 0.2, 20)...)
	wide := Control{Metric: "m", Of: "base'", To: "base", Pairs: row(t, "m", stats.Higher, 0, around(1, 0.1, 20)...).Pairs}
	for _, c := range []struct {
		name    string
		in      Input
		verdict Verdict
		open    bool
	}{
		{"a verdict", Input{Rows: []Row{good}}, Pass, false},
		{"no verdict yet", Input{Rows: []Row{noisy}}, Inconclusive, true},
		{"a wide control", Input{Rows: []Row{good}, Controls: []Control{wide}}, Unmeasurable, true},
		{"an unfit machine", Input{Rows: []Row{good}, Unfit: []string{"steal: 4%"}}, Unmeasurable, false},
	} {
		if r := judge(t, c.in); r.Verdict != c.verdict || r.open() != c.open {
			t.Errorf("%s: %s, open %t; want %s, %t", c.name, r.Verdict, r.open(), c.verdict, c.open)
		}
	}
}

// TestHolm has ten rows of which one alone is just below 1.
func TestHolm(t *testing.T) {
	var rows []Row
	for i := range 10 {
		rows = append(rows, row(t, string(rune('a'+i)), stats.Higher, 0.02, around(1, 0.01, 20)...))
	}
	// 15 of 20 below 1 gives a two-sided p of 0.041 for the sign test, and the
	// interpolated interval ends below 1.
	ratios := make([]float64, 20)
	for i := range ratios {
		ratios[i] = 0.97 - float64(i)/1000
		if i%4 == 3 {
			ratios[i] = 1.001 + float64(i)/1000
		}
	}
	weak := row(t, "weak", stats.Higher, 0.02, ratios...)
	alone := judge(t, Input{Rows: []Row{weak}})
	if alone.Verdict != Fail {
		t.Fatalf("alone it is %s: %+v", alone.Verdict, alone.Rows[0].Interval)
	}
	all := judge(t, Input{Rows: append(rows, weak)})
	got := all.Rows[len(all.Rows)-1]
	if got.Raw != Fail || got.Verdict != Inconclusive || all.Verdict != Inconclusive {
		t.Errorf("among 11 rows it is %s (raw %s), in all %s", got.Verdict, got.Raw, all.Verdict)
	}
	strong := row(t, "strong", stats.Higher, 0.02, around(0.9, 0.01, 20)...)
	if r := judge(t, Input{Rows: append(rows, strong)}); r.Verdict != Fail {
		t.Errorf("a clear loss among 11 rows is %s", r.Verdict)
	}
}

// TestFalseAlarms counts verdicts on rounds without a difference and with one
// of exactly the margin.
func TestFalseAlarms(t *testing.T) {
	const gates, rounds, sigma, margin = 400, 20, 0.02, 0.02
	rng := rand.New(rand.NewPCG(7, 8))
	count := func(truth float64, look Look) map[Verdict]int {
		n := map[Verdict]int{}
		for range gates {
			ratios := make([]float64, rounds)
			for i := range ratios {
				ratios[i] = truth * math.Exp(sigma*rng.NormFloat64())
			}
			r := judge(t, Input{Rows: []Row{row(t, "m", stats.Higher, margin, ratios...)}, Look: look})
			n[r.Verdict]++
		}
		return n
	}
	// 2.5%, and two standard errors of such a count.
	const limit = gates*25/1000 + 6
	for _, look := range []Look{one, {Schedule: Sequential, Rounds: 20, Level: sequentialLevel}, {Schedule: Anytime, Rounds: 20, Level: DefaultLevel}} {
		clean, slow := count(1, look), count(1-margin, look)
		t.Logf("%s: no difference %v, a loss of the margin %v", look.Schedule, clean, slow)
		if clean[Fail] > limit {
			t.Errorf("%s: %d of %d clean gates fail", look.Schedule, clean[Fail], gates)
		}
		if slow[Pass] > limit {
			t.Errorf("%s: %d of %d gates pass a loss of the margin", look.Schedule, slow[Pass], gates)
		}
		if look.Schedule == Fixed && (clean[Pass] < gates*8/10 || slow[Fail] < gates*8/10) {
			t.Errorf("the gate decides too little: %v, %v", clean, slow)
		}
	}
}

// TestAnytimeHoldsAtEveryLook looks after every round and counts experiments in
// which any look was wrong.
func TestAnytimeHoldsAtEveryLook(t *testing.T) {
	const experiments = 400
	rng := rand.New(rand.NewPCG(9, 10))
	wrong := 0
	for range experiments {
		var ratios []float64
		for n := range 40 {
			ratios = append(ratios, math.Exp(0.02*rng.NormFloat64()))
			if n < 5 {
				continue
			}
			if iv := stats.Anytime(ratios, DefaultLevel); !iv.Contains(1) {
				wrong++
				break
			}
		}
	}
	if wrong > experiments/20 {
		t.Errorf("%d of %d experiments without a difference were called different at some look", wrong, experiments)
	}
}

func TestSequentialLevelIsPococks(t *testing.T) {
	level, err := stats.PocockLevel(SequentialRounds(), DefaultLevel)
	if err != nil || math.Abs(level-sequentialLevel) > 5e-5 {
		t.Errorf("the level is %v (%v), want %v", level, err, sequentialLevel)
	}
}

func TestNothingToGate(t *testing.T) {
	if _, err := Judge(Input{Look: one}); err == nil {
		t.Error("no rows gave a verdict")
	}
	x := row(t, "m", stats.Higher, 1.5, 1)
	if _, err := Judge(Input{Rows: []Row{x}, Look: one}); err == nil {
		t.Error("a margin of 150% was accepted")
	}
}

func TestLooks(t *testing.T) {
	fixed := Look{Schedule: Fixed, Rounds: 20, Level: 0.95, Rule: "r"}
	said := func(l Look, v Verdict) Look { l.Verdict = v; return l }
	seq := func(rounds int, v Verdict) Look {
		return Look{Schedule: Sequential, Rounds: rounds, Level: sequentialLevel, Rule: "r", Verdict: v}
	}
	for _, c := range []struct {
		name     string
		schedule Schedule
		rounds   int
		rule     string
		before   []Look
		want     string // part of the error, "" for none
	}{
		{"first fixed", Fixed, 20, "r", nil, ""},
		{"unfinished fixed", Fixed, 12, "r", nil, "12 of 20 planned rounds"},
		{"the same again", Fixed, 20, "r", []Look{said(fixed, Inconclusive)}, ""},
		{"fixed after more rounds", Fixed, 30, "r", []Look{said(fixed, Inconclusive)}, "a fixed gate looks once"},
		{"fixed by another rule", Fixed, 20, "r2", []Look{said(fixed, Fail)}, "choosing the verdict"},
		{"anytime after fixed", Anytime, 30, "r", []Look{said(fixed, Inconclusive)}, ""},
		{"anytime before the end", Anytime, 7, "r", nil, ""},
		{"fixed after anytime", Fixed, 20, "r", []Look{{Schedule: Anytime, Rounds: 7, Level: 0.95, Rule: "r"}}, "by the anytime schedule"},
		{"sequential", Sequential, 10, "r", nil, ""},
		{"sequential elsewhere", Sequential, 12, "r", nil, "10, 20, 30, 40"},
		{"second sequential", Sequential, 20, "r", []Look{seq(10, Inconclusive)}, ""},
		{"sequential after its verdict", Sequential, 20, "r", []Look{seq(10, Pass)}, "ends with a verdict"},
		{"sequential after an unmeasurable look", Sequential, 20, "r", []Look{seq(10, Unmeasurable)}, ""},
		{"the unmeasurable look again", Fixed, 20, "r", []Look{said(fixed, Unmeasurable)}, ""},
		{"fixed after an unmeasurable look", Fixed, 30, "r", []Look{said(fixed, Unmeasurable)}, "said UNMEASURABLE; a fixed gate looks once"},
		{"another rule after an unmeasurable look", Fixed, 20, "r2", []Look{said(fixed, Unmeasurable)}, "choosing the verdict"},
		{"fixed after sequential", Fixed, 20, "r", []Look{seq(10, Inconclusive)}, "by the sequential schedule"},
		{"unknown", "often", 20, "r", nil, "unknown schedule"},
	} {
		t.Run(c.name, func(t *testing.T) {
			look, err := Plan(c.schedule, 0.95, c.rounds, 20, c.rule, c.before)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if c.schedule == Sequential && look.Level != sequentialLevel {
					t.Errorf("the level is %v", look.Level)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
	for _, c := range []struct {
		level  float64
		before Look
		ok     bool
	}{
		{0.95, said(fixed, Inconclusive), true}, {0.6, said(fixed, Inconclusive), false},
		{0.95, Look{Schedule: Anytime, Rounds: 10, Level: 0.99, Rule: "r"}, false}, {0.99, Look{Schedule: Anytime, Rounds: 10, Level: 0.99, Rule: "r"}, true},
		{0.95, seq(10, Inconclusive), true}, {sequentialLevel, seq(10, Inconclusive), false},
	} {
		if _, err := Plan(Anytime, c.level, 30, 20, "r", []Look{c.before}); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrSpent) {
			t.Errorf("anytime at %g after %+v: %v", c.level, c.before, err)
		}
	}
	if _, err := Plan(Fixed, 0.95, 30, 20, "r", []Look{said(fixed, Pass)}); !errors.Is(err, ErrSpent) {
		t.Errorf("the error is %v, want ErrSpent", err)
	}
	notes := []json.RawMessage{json.RawMessage(`{"schedule":"fixed","rounds":20,"level":0.95,"rule":"r","verdict":"PASS"}`)}
	looks, err := ParseLooks(notes)
	if err != nil || len(looks) != 1 || looks[0] != said(fixed, Pass) {
		t.Errorf("%+v, %v", looks, err)
	}
	for _, bad := range []string{`{"schedule":"hourly"}`, `[]`, `{`} {
		if _, err := ParseLooks([]json.RawMessage{json.RawMessage(bad)}); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestRuleOfIgnoresOrderAndReadings(t *testing.T) {
	a, b := row(t, "a", stats.Higher, 0.02, 1), row(t, "b", stats.Lower, 0.05, 2)
	if RuleOf([]Row{a, b}) != RuleOf([]Row{b, row(t, "a", stats.Higher, 0.02, 3, 4)}) {
		t.Error("the rule depends on more than what is asked")
	}
	c := a
	c.Margin = 0.03
	if RuleOf([]Row{a}) == RuleOf([]Row{c}) {
		t.Error("another margin is the same rule")
	}
}

const hostile = "a|b <c>\n::error::%\x00\xff"

func sample(t *testing.T) *Report {
	rows := []Row{
		row(t, "good", stats.Higher, 0.02, around(1, 0.01, 20)...),
		row(t, "slow", stats.Lower, 0.02, around(1.25, 0.01, 20)...),
		row(t, "noisy", stats.Higher, 0.02, around(1, 0.3, 20)...),
		row(t, "none", stats.Higher, 0.02, math.NaN()),
	}
	aa := Control{Metric: "good", Of: "base'", To: "base", Pairs: row(t, "m", stats.Higher, 0, around(1, 0.5, 20)...).Pairs}
	return judge(t, Input{Name: hostile, Rows: rows, Controls: []Control{aa}, Unfit: []string{"steal: 4%"}, Rounds: 20, Planned: 20})
}

// checkJUnit holds a report to what the schema of Ant's JUnitReport demands beyond that
// of Jenkins: which attributes are there, and which elements in which order.
func checkJUnit(t *testing.T, doc string) {
	t.Helper()
	attributes := map[string][]string{
		"testsuite": {"name", "timestamp", "hostname", "tests", "failures", "errors", "skipped", "time"},
		"testcase":  {"name", "classname", "time"}, "property": {"name", "value"},
		"failure": {"type", "message"}, "error": {"type", "message"}, "skipped": {"type", "message"},
	}
	var top []string
	var path []string
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			var has []string
			for _, a := range x.Attr {
				has = append(has, a.Name.Local)
			}
			if !slices.Equal(has, attributes[x.Name.Local]) {
				t.Errorf("%s has the attributes %q, want %q", x.Name.Local, has, attributes[x.Name.Local])
			}
			if path = append(path, x.Name.Local); len(path) == 2 {
				top = append(top, x.Name.Local)
			}
			if len(path) == 3 && path[1] == "testcase" && !slices.Contains([]string{"failure", "error", "skipped"}, path[2]) {
				t.Errorf("a test case holds %s", path[2])
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
	if got, want := slices.Compact(top), []string{"properties", "testcase", "system-out", "system-err"}; !slices.Equal(got, want) {
		t.Errorf("the suite holds %q, want %q", got, want)
	}
}

func TestFormats(t *testing.T) {
	r := sample(t)
	write := func(f func(io.Writer) error) string {
		var b bytes.Buffer
		if err := f(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	r.Time = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	junit := write(r.WriteJUnit)
	var suite junitSuite
	if err := xml.Unmarshal([]byte(junit), &suite); err != nil {
		t.Fatal(err)
	}
	checkJUnit(t, junit)
	if suite.Timestamp != "2026-01-02T03:04:05" || len(suite.Properties) != 2 || suite.Properties[0].Value != "UNMEASURABLE" || !strings.Contains(suite.Out, "good head/base: median 1") {
		t.Errorf("JUnit: %+v", suite)
	}
	if suite.Tests != 6 || suite.Failures != 1 || suite.Errors != 3 || suite.Skipped != 1 || suite.Cases[1].Failure.Type != "PerformanceRegression" {
		t.Errorf("JUnit: %+v", suite)
	}
	lines, err := csv.NewReader(strings.NewReader(write(r.WriteCSV))).ReadAll()
	if err != nil || len(lines) != 5 {
		t.Errorf("CSV: %d lines, %v", len(lines), err)
	}
	var entries []map[string]any
	if err := json.Unmarshal([]byte(write(r.WriteActionBenchmark)), &entries); err != nil {
		t.Fatal(err)
	}
	if len(entries) != 3 || entries[1]["name"] != "slow base/head" || math.Abs(entries[1]["value"].(float64)-0.8) > 0.01 {
		t.Errorf("github-action-benchmark: %v", entries)
	}
	var bmf map[string]map[string]map[string]float64
	if err := json.Unmarshal([]byte(write(r.WriteBencher)), &bmf); err != nil {
		t.Fatal(err)
	}
	if m := bmf["head/base"]["slow ratio"]; !(m["lower_value"] < m["value"] && m["value"] < m["upper_value"]) {
		t.Errorf("Bencher: %v", bmf)
	}
	var back Report
	if err := json.Unmarshal([]byte(write(r.WriteJSON)), &back); err != nil || back.Verdict != Unmeasurable || len(back.Rows) != 4 {
		t.Errorf("JSON: %v, %+v", err, back)
	}
	annotations := write(r.WriteAnnotations)
	if n := strings.Count(annotations, "\n"); n != 5 || strings.Contains(annotations, "2% ") {
		t.Errorf("annotations: %q", annotations)
	}
	markdown := write(r.WriteMarkdown)
	for _, line := range strings.Split(markdown, "\n") {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|") != 8 {
			t.Errorf("a row of the Markdown table has other cells: %s", line)
		}
	}
	page := write(r.WriteText)
	if !strings.HasPrefix(page, "UNMEASURABLE") {
		t.Errorf("text: %s", page)
	}
	// Every row is in it, and nothing is wider than a terminal.
	for _, row := range r.Rows {
		if !strings.Contains(page, "\n"+row.Metric+"\n  "+row.Of+"/"+row.To) || !strings.Contains(page, row.interval()) {
			t.Errorf("%s is missing in\n%s", row.Name(), page)
		}
	}
	for line := range strings.SplitSeq(page, "\n") {
		if n := utf8.RuneCountInString(line); n > text.Width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// The figures that people read never contradict the verdict, which is of unrounded
// numbers.
func TestIntervalTextKeepsItsSides(t *testing.T) {
	for _, c := range []struct {
		low, high, margin float64
		better            stats.Better
		want              string
	}{
		{0.98123, 1.01, 0.02, stats.Higher, "0.9812 … 1.0100"},
		{0.9800004, 1.01, 0.02, stats.Higher, "0.9800004 … 1.0100000"},
		{0.98, 1.01, 0.02, stats.Higher, "0.9800 … 1.0100"},
		{0.95, 0.99996, 0.02, stats.Higher, "0.95000 … 0.99996"},
		{0.95, 1, 0.02, stats.Higher, "0.9500 … 1.0000"},
		{0.99, 1.0199999, 0.02, stats.Lower, "0.9900000 … 1.0199999"},
	} {
		r := RowResult{Row: Row{Margin: c.margin, Better: c.better}, Interval: stats.Interval{Low: c.low, High: c.high, TrueLevel: 0.95}}
		if got := r.interval(); got != c.want {
			t.Errorf("%g to %g, margin %g: %q, want %q", c.low, c.high, c.margin, got, c.want)
		}
	}
}

// What a look is called, and the looks before it, are in what people read.
func TestReportListsEarlierLooks(t *testing.T) {
	r := judge(t, Input{Name: "exp", Rows: []Row{row(t, "m", stats.Higher, 0.02, around(1, 0.01, 20)...)}, Rounds: 20, Planned: 20})
	r.Before = []Look{{Schedule: Fixed, Rounds: 10, Level: 0.95, Rule: "m head/base higher by 0.02", Verdict: Fail}}
	const want = "looked before: fixed, at 10 rounds and 95%: FAIL (m head/base higher by 0.02)"
	for name, write := range map[string]func(io.Writer) error{"text": r.WriteText, "Markdown": r.WriteMarkdown} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
			t.Errorf("%s does not list the look before:\n%s", name, b.String())
		}
	}
}

// What is empty is an empty list, which programs can go through.
func TestReportHasNoNull(t *testing.T) {
	var b bytes.Buffer
	r := judge(t, Input{Name: "exp", Rows: []Row{row(t, "m", stats.Higher, 0.02, around(1, 0.01, 20)...)}, Rounds: 20, Planned: 20})
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "null") {
		t.Errorf("the report holds null:\n%s", b.String())
	}
}

// What forbids several verdicts is one reason, and says of what as briefly as it can.
func TestReasonsOfSeveralRows(t *testing.T) {
	named := func(metric, of string, bad bool) Row {
		ratios := around(1, 0.001, 20)
		if bad {
			ratios = around(1, 0.2, 20)
		}
		r := row(t, metric, stats.Higher, 0.02, ratios...)
		r.Of = of
		return r
	}
	for _, c := range []struct {
		bad  string // metric and ratio of those that are noisy
		want string
	}{
		{"ax", "a x/base: "},
		{"ax ay bx by", "all 4 comparisons: "},
		{"ax bx", "x/base in all metrics: "},
		{"ax ay", "a of all ratios: "},
		{"ax by", "a x/base, b y/base: "},
		{"ax ay bx", "a x/base, a y/base, b x/base: "},
	} {
		var rows []Row
		for _, name := range []string{"ax", "ay", "bx", "by"} {
			rows = append(rows, named(name[:1], name[1:], strings.Contains(c.bad, name)))
		}
		r := judge(t, Input{Name: "exp", Rows: rows, Rounds: 20, Planned: 20})
		if r.Verdict != Inconclusive || len(r.Reasons) != 1 || !strings.HasPrefix(r.Reasons[0], c.want) {
			t.Errorf("%s: %s, %q; want %q", c.bad, r.Verdict, r.Reasons, c.want)
		}
	}
}
