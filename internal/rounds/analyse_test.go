package rounds

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/perf/benchfmt"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/stats"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// made is an experiment that nobody ran: its trials have the given throughputs, by
// round, in millions; a negative one is invalid. windows is how long they took.
func made(t *testing.T, windows float64, throughput map[string][]float64, names ...string) *Experiment {
	t.Helper()
	m := &Manifest{Schema: ManifestV1, Order: Balanced, Base: names[0], Work: Work{Source: "/traces/made.jsonl", SHA256: "0123"}}
	m.Host.CPUModel, m.Host.LogicalCPUs = "Imaginary 9000", 16
	for _, n := range names {
		v, err := ParseVariant(n + "=")
		if err != nil {
			t.Fatal(err)
		}
		m.Variants = append(m.Variants, Entrant{Variant: v})
		if n != names[0] {
			m.Ratios = append(m.Ratios, Ratio{Of: n, To: names[0]})
		}
	}
	m.Rounds = len(throughput[names[0]])
	m.Sequence = m.Order.Sequence(len(names), 0, m.Rounds, 3)
	e := &Experiment{Manifest: m}
	if err := e.load(nil); err != nil {
		t.Fatal(err)
	}
	for {
		step, more := e.next()
		if !more {
			return e
		}
		x := throughput[step.Variant][step.Round-1]
		r := &results.Record{Schema: results.ReplayV1, Kind: results.KindReplay}
		r.Rates.AchievedBlockOpsPerSec = math.Abs(x) * 1e6
		r.Queries.Service.P50 = int64(math.Abs(x) * 10)
		r.Timing.WindowNS, r.Timing.EndNS = 1000, int64(1000*windows)
		r.Validity = results.Validity{Valid: true, KeptUp: windows <= 1.1}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		tr := Trial{Round: step.Round, Slot: step.Slot, Variant: step.Variant, Attempt: 1, Valid: true, Record: b, Quiet: Quiet{Reached: true}}
		tr.Counters.CPUPressureUS, tr.Counters.CgroupCPUPressureUS, tr.Counters.MemoryPressureUS = -1, -1, -1
		if x < 0 {
			tr.Valid, tr.Reasons = false, []results.Reason{{Rule: "issue_span", Detail: "issued at 112% of the window"}}
		}
		e.Trials = append(e.Trials, tr)
	}
}

// pipeline is a small experiment with known figures: see the coverage study of
// package stats.
func pipeline(t *testing.T) *Experiment {
	return made(t, 2, map[string][]float64{
		"base":      {30.91, 30.74, 31.02, 30.66, 30.88, 30.79, 30.95, 30.83, 30.71, 30.97},
		"untracked": {30.85, 30.90, 30.94, 30.75, 30.81, 30.93, 30.88, 30.96, 30.64, 31.05},
		"tracked":   {30.62, 30.41, 30.77, 30.55, 30.70, 30.36, -27.10, 30.59, 30.48, 30.80},
	}, "base", "untracked", "tracked")
}

func TestPipeline(t *testing.T) {
	e := pipeline(t)
	a, err := e.Analyse(AnalyseOptions{Ratios: []Ratio{{"untracked", "base"}, {"tracked", "untracked"}, {"tracked", "base"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Comparisons) != 3 || a.Load != Overloaded || a.Done != 10 || a.Planned != 10 {
		t.Fatalf("%+v", a)
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 0.6e-6 {
			t.Errorf("%s is %.7f, want %.6f", what, got, want)
		}
	}
	for i, want := range []struct {
		n                                    int
		of, to                               float64
		median, low, high, bootLow, bootHigh float64
		worstLow, worstHigh                  float64
	}{
		{10, 30.89, 30.855, 1.000321, 0.997729, 1.004330, 0.997729, 1.004217, 0, 0},
		{9, 30.59, 30.89, 0.992545, 0.985033, 0.994716, 0.984142, 0.994778, 0.981571, 0.996430},
		{9, 30.59, 30.855, 0.992215, 0.989573, 0.994433, 0.989265, 0.994511, 0.986034, 0.996412},
	} {
		c := a.Comparisons[i]
		name := c.Ratio.String()
		if len(c.Result.Pairs.Kept) != want.n || c.Planned != 10 {
			t.Errorf("%s: %d pairs of %d", name, len(c.Result.Pairs.Kept), c.Planned)
		}
		near(name+" median of", c.MedianOf/1e6, want.of)
		near(name+" median to", c.MedianTo/1e6, want.to)
		near(name+" median", c.Result.Median, want.median)
		near(name+" low", c.Result.Interpolated.Low, want.low)
		near(name+" high", c.Result.Interpolated.High, want.high)
		near(name+" bootstrap low", c.Result.Bootstrap.Low, want.bootLow)
		near(name+" bootstrap high", c.Result.Bootstrap.High, want.bootHigh)
		if want.worstLow > 0 {
			near(name+" worst low", c.Result.WorstCase.Low, want.worstLow)
			near(name+" worst high", c.Result.WorstCase.High, want.worstHigh)
			if c.LeftOut != "round 7 (tracked issue_span); issue_span, for example tracked, round 7: issued at 112% of the window" {
				t.Errorf("%s: %s", name, c.LeftOut)
			}
		}
		if c.Resolves <= 0 || c.Resolves > 0.05 {
			t.Errorf("%s resolves %v", name, c.Resolves)
		}
	}
	if len(a.Unmeasurable()) > 0 {
		t.Error(a.Unmeasurable())
	}
	// Medians do not chain, and a reader is told so.
	if text := fmt.Sprint(a.Warnings); !strings.Contains(text, "chained-ratios") || !strings.Contains(text, "0.9922") {
		t.Error(text)
	}
}

func TestGolden(t *testing.T) {
	e := pipeline(t)
	e.Manifest.Control = "untracked" // as if it were the same thing
	e.Manifest.Ratios = []Ratio{{"tracked", "base"}}
	a, err := e.Analyse(AnalyseOptions{NonInferiority: 0.04})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Format{Text, Markdown, CSV} {
		var b bytes.Buffer
		if err := a.Write(&b, f); err != nil {
			t.Fatal(err)
		}
		golden(t, "pipeline."+string(f), b.Bytes())
		if f == Text {
			fits(t, b.String())
		}
	}
	var b bytes.Buffer
	if err := a.Write(&b, JSON); err != nil {
		t.Fatal(err)
	}
	var back Analysis
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back.Schema != AnalysisV1 || back.Comparisons[0].Result.Median != a.Comparisons[0].Result.Median {
		t.Errorf("%v: %s", err, b.String())
	}
	b.Reset()
	if err := e.WriteBenchfmt(&b, a); err != nil {
		t.Fatal(err)
	}
	golden(t, "pipeline.benchfmt", b.Bytes())
	// Its reader takes all of it.
	r, n := benchfmt.NewReader(bytes.NewReader(b.Bytes()), "x"), 0
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(rec)
		case *benchfmt.Result:
			n++
		}
	}
	if n != 29 { // all but the invalid one
		t.Errorf("%d results", n)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; -update rewrites it:\n%s", name, got)
	}
}

// TestThroughputUnderKeepUp: what the window sets is no result, however it is
// asked for.
func TestThroughputUnderKeepUp(t *testing.T) {
	values := []float64{10, 11, 12, 13, 14, 15, 16, 17}
	e := made(t, 1, map[string][]float64{"base": values, "head": values}, "base", "head")
	a, err := e.Analyse(AnalyseOptions{Metrics: []string{"achieved_block_ops_per_sec", "query_service.p50"}})
	if err != nil {
		t.Fatal(err)
	}
	if a.Load != KeepUp || a.Comparisons[0].Refused == "" || a.Comparisons[1].Refused != "" {
		t.Errorf("%s, %+v", a.Load, a.Comparisons)
	}
	if got := a.Unmeasurable(); len(got) != 1 || !strings.Contains(got[0], "16 of 16 trials kept up") {
		t.Error(got)
	}
	for _, c := range a.Claims {
		if c.Metric.Path == "rates.achieved_block_ops_per_sec" {
			t.Error("a claim is made of it")
		}
	}
	a, err = e.Analyse(AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range a.Comparisons {
		if c.Metric.Throughput() {
			t.Errorf("%s is compared unasked", c.Metric.Path)
		}
	}
	for _, f := range []Format{Text, Markdown} {
		var b bytes.Buffer
		if err := a.Write(&b, f); err != nil {
			t.Error(err)
		}
	}
	between := made(t, 1.3, map[string][]float64{"base": values, "head": values}, "base", "head")
	if a, err = between.Analyse(AnalyseOptions{}); err != nil || a.Load != Between || a.Comparisons[0].Caution == "" || len(a.Comparisons) != 5 {
		t.Errorf("%v %+v", err, a)
	}
}

// fits says which lines are wider than a terminal.
func fits(t *testing.T, page string) {
	t.Helper()
	for line := range strings.SplitSeq(page, "\n") {
		if n := utf8.RuneCountInString(line); n > text.Width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestLongNamesFit has names of which no two fit into a line, too few rounds, and
// one variant that is never valid.
func TestLongNamesFit(t *testing.T) {
	a, b, c := strings.Repeat("a", 39), strings.Repeat("b", 40), "c"
	x, err := made(t, 2, map[string][]float64{
		a: {10, 11, 10, 12, 10, 13, 10}, b: {10, 10, 11, -10, 10, 10, 10}, c: {-1, -1, 10, 10, 10, 10, 12},
	}, a, b, c).Analyse(AnalyseOptions{NonInferiority: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := x.Write(&out, Text); err != nil {
		t.Fatal(err)
	}
	fits(t, out.String())
	for _, want := range []string{"\n" + a + "  ", "\n" + b + "  ", "\n" + b + "/" + a + "\n", "bootstrap CI", "c/" + a} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if _, after, _ := strings.Cut(out.String(), "c/"+a+": rounds "); strings.Count(strings.Split(after, "warning")[0], "%") < 5 {
		t.Errorf("the five rounds of c are missing in\n%s", out.String())
	}
}

func TestFewRounds(t *testing.T) {
	e := made(t, 2, map[string][]float64{"base": {10, 10, 10}, "head": {10.02, 10.06, 10.02}}, "base", "head")
	a, err := e.Analyse(AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := a.Write(&b, Text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "rounds +0.20%, +0.60%, +0.20%") || !strings.Contains(b.String(), "too few for an interval") {
		t.Error(b.String())
	}
	// Three rounds were asked for, so nothing is missing.
	if got := a.Unmeasurable(); got != nil {
		t.Error(got)
	}
	// Of seven, only five are valid.
	e = made(t, 2, map[string][]float64{"base": {10, 10, 10, -10, 10, 10, 10}, "head": {10, 10, 10, 10, -10, 10, 10}}, "base", "head")
	if a, err = e.Analyse(AnalyseOptions{}); err != nil || len(a.Unmeasurable()) != 1 || a.Comparisons[0].Result.Interpolated.Ok() {
		t.Errorf("%v %v", err, a.Unmeasurable())
	}
}

// TestUnfinished: the round that runs is not one that was left out.
func TestUnfinished(t *testing.T) {
	e := pipeline(t)
	e.Trials = e.Trials[:20]
	a, err := e.Analyse(AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := a.Comparisons[0]
	if a.Done != 6 || len(c.Result.Pairs.Kept)+len(c.Result.Pairs.Dropped) > 7 || c.Planned != 10 || !strings.Contains(fmt.Sprint(a.Warnings), "6 of 10 planned rounds are done") {
		t.Errorf("%d done, %+v %v", a.Done, c, a.Warnings)
	}
	if a, err = (&Experiment{Manifest: e.Manifest}).Analyse(AnalyseOptions{}); err != nil || a.RatioSoFar() != "" {
		t.Errorf("without a trial: %v", err)
	}
}

func TestAnalyseErrors(t *testing.T) {
	e := pipeline(t)
	for want, o := range map[string]AnalyseOptions{
		"did you mean queries.service.p50?":   {Metrics: []string{"query_servise.p50"}},
		"can be any of":                       {Metrics: []string{"p50"}},
		"no variant is called trakced":        {Ratios: []Ratio{{"trakced", "base"}}},
		"confidence level is 1.5":             {Level: 1.5},
		"margin of non-inferiority is -1":     {NonInferiority: -1},
		"'kvbench rounds metrics' lists them": {Metrics: []string{"zzzzzzzzzzzzzzzzzzzzzzzzz"}},
		"-1 rounds":                           {Rounds: -1},
	} {
		if _, err := e.Analyse(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestResolveMetric(t *testing.T) {
	for name, want := range map[string]Metric{
		"query_service.p50":                    {"queries.service.p50", "ns", stats.Lower},
		"event_accepted_to_finished.p99_9":     {"events.accepted_to_finished.p99_9", "ns", stats.Lower},
		"achieved_block_ops_per_sec":           {"rates.achieved_block_ops_per_sec", "1/s", stats.Higher},
		"rates.achieved_ops_per_sec":           {"rates.achieved_ops_per_sec", "1/s", stats.Higher},
		"rates.offered_ops_per_sec":            {"rates.offered_ops_per_sec", "1/s", ""},
		"resident_blocks_reader.reads_per_sec": {"resident_blocks_reader.reads_per_sec", "1/s", stats.Higher},
		"peak_rss_bytes":                       {"machine_use.peak_rss_bytes", "B", stats.Lower},
		"totals.queries":                       {"totals.queries", "", ""},
		"trial.cpu_ns":                         {"trial.cpu_ns", "ns", stats.Lower},
		"queries.service.n":                    {"queries.service.n", "", ""},
	} {
		if got, err := ResolveMetric(name); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	// Each listed name means itself.
	for _, name := range Metrics() {
		if m, err := ResolveMetric(name); err != nil || m.Path != name {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// TestMissingMetric: a record of another program may have less in it.
func TestMissingMetric(t *testing.T) {
	f, err := parse(json.RawMessage(`{"rates":{"a":1,"b":"x"},"machine_use":{"steal_ns":-1}}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"rates.a": "", "rates.b": "no number", "rates.c": "has no rates.c", "timing.end_ns": "has no timing.end_ns", "rates.a.b": "has no", "machine_use.steal_ns": "unknown (-1)"} {
		if _, why := (Metric{Path: path}).read(nil, f); !strings.Contains(why, want) || want == "" && why != "" {
			t.Errorf("%s: %q, want %q", path, why, want)
		}
	}
}

func TestForecast(t *testing.T) {
	e := pipeline(t)
	e.Manifest.Control = "untracked"
	a, err := e.Analyse(AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := a.Forecasts(20, 0.01)
	if len(f) != 1 || f[0].Needed < stats.MinValues || f[0].Needed > 20 || !(f[0].Resolves > 0 && f[0].Resolves < 0.01) {
		t.Fatalf("%+v", f)
	}
	if text := f[0].Text(20, 0.01); !strings.Contains(text, "these 20 rounds resolve ±") || !strings.Contains(text, fmt.Sprintf("takes %d rounds", f[0].Needed)) {
		t.Error(text)
	}
}

// TestPad: whatever the command lines, path, arguments and variables take the
// same room, and the path stays one.
func TestPad(t *testing.T) {
	lines := [][]string{{"/bin/true"}, {"/usr/bin/env", "true", "a", "b", "c"}, {"/bin/true", "", strings.Repeat("x", 300)}}
	var want frame
	for _, l := range lines {
		f := frameOf(l)
		want = frame{max(want.path, f.path), max(want.args, f.args), max(want.pointers, f.pointers)}
	}
	type size struct{ path, bytes, pointers int }
	var first size
	for i, l := range lines {
		for _, extra := range []int{0, 100} {
			path, args, env, err := pad(l, want, extra)
			if err != nil {
				t.Fatal(err)
			}
			s := size{path: len(path), bytes: -extra, pointers: len(args) + len(env)}
			for _, x := range append(append([]string{}, args...), env...) {
				s.bytes += len(x) + 1
			}
			if i == 0 && extra == 0 {
				first = s
			}
			if s != first {
				t.Errorf("%q: %+v, the first has %+v", l, s, first)
			}
			if filepath.Clean(path) != l[0] || filepath.Clean(args[0]) != l[0] {
				t.Errorf("%q runs %q as %q", l, path, args[0])
			}
		}
	}
	if _, _, _, err := pad([]string{"/a"}, frame{path: 2, args: 5000, pointers: 2}, 0); err == nil {
		t.Error("a path that no system takes")
	}
}

func TestChooseCPU(t *testing.T) {
	all := func(n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = i
		}
		return out
	}
	for name, tc := range map[string]struct {
		allowed int
		args    string
		rule    int
		parent  int
		note    bool
	}{
		"few, unnamed":   {2, "", AutoCPU, NoCPU, true},
		"many, unnamed":  {16, "", AutoCPU, 15, false},
		"named":          {4, "--issuer-cpus=0 --backend-cpus 1,2", AutoCPU, 3, false},
		"all named":      {4, "--issuer-cpus=0 --backend-cpus=1-3", AutoCPU, NoCPU, true},
		"asked":          {4, "", 2, 2, false},
		"asked for none": {16, "", NoCPU, NoCPU, true},
		"asked, named":   {4, "--query-issuer-cpu=2", 2, 2, true},
		"not allowed":    {4, "", 7, NoCPU, true},
	} {
		m := &Manifest{Arguments: strings.Fields(tc.args)}
		m.Rules.ParentCPU = tc.rule
		p := choose(m, all(tc.allowed), nil)
		if p.parent != tc.parent || (p.note != "") != tc.note {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestAmounts(t *testing.T) {
	for want, got := range map[string]string{
		"30.59 M/s": Amount(30.59e6, "1/s"), "571 ns": Amount(571, "ns"), "3.105 µs": Amount(3105, "ns"), "1.694 ms": Amount(1_694_321, "ns"),
		"12 k": Amount(12000, ""), "0": Amount(0, ""), "1.000 MB": Amount(999_999, "B"), "0.500": Amount(0.5, ""),
		"1.0000": ratioText(1), "0.99998": ratioText(0.99998), "1.0000001": ratioText(1.0000001), "0.9925": ratioText(0.99254),
		"2%": percentText(0.02), "0.50%": percentText(0.005), "1.1%": percentText(0.0112), "0.020%": percentText(0.0002), "95%": percentText(0.95), "18%": percentText(0.1765),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What is said of several ratios is one line, in the order in which it came up.
func TestRatioNotes(t *testing.T) {
	var notes ratioNotes
	for _, ratio := range []string{"a/base", "b/base"} {
		notes.add(ratio, "", leftOut+"round 7")
		notes.add(ratio, warned, "few of "+ratio[:1])
		notes.add(ratio, warned, "noisy")
		notes.add(ratio, warned, "noisy")
	}
	got := notes.lines()
	want := []string{
		"a/base, b/base: left out: round 7", "warning: a/base: few of a", "warning: a/base, b/base: noisy", "warning: b/base: few of b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for i, is := range []bool{true, true, true, true} {
		if once(got[i]) != is {
			t.Errorf("%q holds once: %t", got[i], once(got[i]))
		}
	}
	if once("noise floor, x/base: 1.0003") || once("a/base: no result: none kept up") {
		t.Error("what belongs to one metric is said for all")
	}
}

// TestBaseAlone: an A/A of one variant is all that there is to print.
func TestBaseAlone(t *testing.T) {
	p := fakePlan(t, 6, fake(t, "base", ""))
	p.AA = true
	e := create(t, p)
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	a, err := e.Analyse(AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Format{Text, Markdown, CSV} {
		var b strings.Builder
		if err := a.Write(&b, f); err != nil || !strings.Contains(b.String(), "base-aa") {
			t.Errorf("%s: %v\n%s", f, err, b.String())
		}
	}
	if a.RatioSoFar() == "" || len(a.Unmeasurable()) > 0 {
		t.Errorf("%q, %q", a.RatioSoFar(), a.Unmeasurable())
	}
}

// TestQuietUnknown: where the system says nothing of pressure, neither does a
// warning.
func TestQuietUnknown(t *testing.T) {
	p := fakePlan(t, 1, fake(t, "a", ""), fake(t, "b", ""))
	e := create(t, p)
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	for i := range e.Trials {
		e.Trials[i].Quiet = Quiet{Pressure: -1}
	}
	a, err := e.Analyse(AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range a.Warnings {
		names = append(names, w.Name)
	}
	if !slices.Contains(names, "quiet-unknown") || slices.Contains(names, "not-quiet") {
		t.Errorf("%q", names)
	}
}

// TestPilot: a pilot has as many rounds as are asked for, also when it has been run
// before, and the experiment waits meanwhile.
func TestPilot(t *testing.T) {
	skipIfSlow(t)
	p := fakePlan(t, 2, fake(t, "a", ""), fake(t, "b", ""))
	e := create(t, p)
	for _, rounds := range []int{6, 8, 6} {
		free := 0
		pilot, err := e.Pilot(context.Background(), rounds, RunOptions{QuickHost: true, Progress: func(Status) {
			if lock, err := e.lock(); err == nil {
				free++
				_ = lock.Close()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if pilot.Rounds() < rounds || !pilot.Done() || free > 0 || e.measured() {
			t.Errorf("%d rounds were asked for: %d, done %v; %d times the experiment could have been run", rounds, pilot.Rounds(), pilot.Done(), free)
		}
		if rounds == 8 && pilot.Rounds() != 8 {
			t.Errorf("%d rounds", pilot.Rounds())
		}
		a, err := pilot.Analyse(AnalyseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if f := a.Forecasts(20, 0.01); len(f) == 0 || f[0].Pairs != pilot.Rounds() { // a fake has no noise
			t.Errorf("%+v", f)
		}
	}
	if err := run(t, e); err != nil {
		t.Error(err)
	}
}
