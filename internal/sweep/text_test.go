package sweep

import (
	"bytes"
	"encoding/csv"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/results"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sampleResult has windows below and above the knee, an invalid trial, a failed
// one and a point without a valid trial.
func sampleResult(t testing.TB) *Result {
	plan := Plan{Schema: SweepV1, Source: "trace.jsonl", Repeat: 2, Axis: Axis{Window, []int64{50e6, 100e6, 200e6, 400e6, 800e6}}, PrepareFlags: []string{}, ReplayFlags: []string{}}
	records := map[trialKey]*results.Record{}
	var trials []Trial
	for _, k := range plan.order() {
		x := Trial{Value: k.value, Run: k.run, Record: "records/x.json"}
		r := fakeRecord(time.Duration(k.value), 4e6+float64(k.run)*1e5)
		switch {
		case k.value == 50e6, k.value == 200e6 && k.run == 2:
			r.Validity = results.Validity{Reasons: []results.Reason{{Rule: "issue_span", Detail: "the last operation was issued late"}}}
			x.Exit = 3
		case k.value == 400e6 && k.run == 1:
			x.Record, x.Failure, x.Exit = "", "exit code 2: no memory", 2
		}
		r.Config.SharedCPUs = true
		if x.Record != "" {
			records[k] = r
		}
		trials = append(trials, x)
	}
	r, err := analyse(&plan, trials, records, false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTextGolden(t *testing.T) {
	over := &Plan{Schema: SweepV1, Repeat: 1, Axis: Axis{"event-threads", []int64{1, 2, 4}}}
	records := map[trialKey]*results.Record{}
	var trials []Trial
	for i, v := range over.Axis.Values {
		r := fakeRecord(100*time.Millisecond, 4e6/float64(i+1))
		r.Queries.Service.P50 *= v * v
		r.Threads = []results.Thread{{Role: "event", RunNS: v * 1e6}, {Role: "query", RunNS: 7}}
		r.Totals.StoredBlocks = 1000
		r.Config.Idle = "yield"
		records[trialKey{v, 1}] = r
		trials = append(trials, Trial{Value: v, Run: 1, Record: "records/x.json"})
	}
	grown, err := analyse(over, trials, records, true)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*Result{"windows": sampleResult(t), "threads": grown} {
		var b bytes.Buffer
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		narrow(t, b.String())
		path := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s differs (go test ./internal/sweep -update rewrites it):\n%s", path, b.String())
		}
	}
	for i, g := range grown.Growth {
		if *g.QueryP50 < 1.999 || *g.QueryP50 > 2.001 || *g.EventCPU < 0.999 || *g.EventCPU > 1.001 || g.NSPerBlockOp == nil {
			t.Errorf("growth %d: %+v; latency goes with the square, CPU time in proportion", i, g)
		}
	}
}

func narrow(t interface{ Errorf(string, ...any) }, page string) {
	for line := range strings.Lines(page) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > text.Width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestFiguresOfAPoint(t *testing.T) {
	r := sampleResult(t)
	byLabel := map[string]Point{}
	for _, p := range r.Points {
		byLabel[p.Label] = p
	}
	// Of 4.1M and 4.2M block-ops/s the middle, lowest and highest.
	p := byLabel["100ms"]
	if p.Trials != 2 || p.Valid != 2 || p.KeptUp != 0 || math.Abs(p.Achieved-4.15e6) > 1 || math.Abs(p.Lowest-4.1e6) > 1 || math.Abs(p.Highest-4.2e6) > 1 || p.Offered != 1e7 {
		t.Errorf("%+v", p)
	}
	// An invalid trial and one without a record enter no figure.
	if p := byLabel["200ms"]; p.Valid != 1 || math.Abs(p.Achieved-4.1e6) > 1 || len(p.Invalid) != 1 || !strings.HasPrefix(p.Invalid[0], "run 2: issue_span: ") {
		t.Errorf("%+v", p)
	}
	if p := byLabel["400ms"]; p.Valid != 1 || p.Trials != 2 || len(p.Failed) != 1 || p.mostKeptUp() {
		t.Errorf("%+v", p)
	}
	if p := byLabel["50ms"]; p.Valid != 0 || p.Achieved != 0 || p.QueryService.P50 != 0 || p.Offered != 2e7 {
		t.Errorf("%+v", p)
	}
	if k := r.Knee; k.LastLabel != "800ms" || k.FirstLabel != "400ms" || k.MostLabel != "100ms" {
		t.Errorf("%+v", k)
	}
}

func TestWarnings(t *testing.T) {
	records := map[trialKey]*results.Record{}
	var trials []Trial
	plan := &Plan{Schema: SweepV1, Repeat: 1, Axis: Axis{Window, []int64{1e8, 2e8, 4e8}}}
	for _, v := range plan.Axis.Values {
		r := fakeRecord(time.Duration(v), 1e9)
		r.Injected = &results.Injected{QueryWork: 2}
		// The middle one did not keep up though a shorter one did.
		r.Validity.KeptUp = v != 2e8
		records[trialKey{v, 1}] = r
		trials = append(trials, Trial{Value: v, Run: 1, Record: "records/x.json"})
	}
	r, err := analyse(plan, trials, records, false)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(r.Warnings, "\n")
	for _, want := range []string{"3 of 3 trials were slowed on purpose", "window 100ms was kept up with though the longer 200ms was not"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if strings.Contains(text, "shared") {
		t.Errorf("nothing was shared: %q", text)
	}
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	if err := sampleResult(t).WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll() // all of equal length, or an error
	if err != nil || len(rows) != 11 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	for _, row := range rows[1:] {
		failed := row[column["failure"]] != ""
		if failed != (row[column["achieved_block_ops_per_sec"]] == "") || row[column["axis"]] != Window {
			t.Errorf("%q", row)
		}
		if row[column["valid"]] == "false" && !failed && !strings.Contains(row[column["reasons"]], "issue_span") {
			t.Errorf("no reason: %q", row)
		}
	}
}

// TestPlotShowsEveryPoint draws any points: no line is too wide and each mark is
// there unless a later one covers it.
func TestPlotShowsEveryPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p plot
		n := rapid.IntRange(1, 30).Draw(t, "points")
		for range n {
			p.add(rapid.Float64Range(1e-3, 1e12).Draw(t, "x"), rapid.Float64Range(1e-3, 1e12).Draw(t, "y"), 'o')
		}
		k := &Knee{Last: rapid.Float64Range(0, 1e12).Draw(t, "last"), First: rapid.Float64Range(0, 1e12).Draw(t, "first")}
		x, y := newScale(p.x, plotWidth), newScale(p.y, plotHeight)
		lines := p.render(k, short)
		for _, l := range lines {
			if utf8.RuneCountInString(l) > text.Width {
				t.Fatalf("%d columns: %s", utf8.RuneCountInString(l), l)
			}
		}
		for i := range p.x {
			row := []rune(lines[plotHeight-1-y.at(p.y[i])])
			if at := 11 + x.at(p.x[i]); row[at] != 'o' {
				t.Fatalf("point %d (%g, %g) is not at column %d of %s", i, p.x[i], p.y[i], at, string(row))
			}
		}
	})
}

func TestColumnFits(t *testing.T) {
	for value, want := range map[int64]string{750e6: "750ms", 1234567891: "1.234568s", 90e9: "1m30s", 83456e6: "1m23.456s", 83456789123: "1m23.457s"} {
		p := Point{Value: value, Label: time.Duration(value).String()}
		if got := p.column(Window); got != want {
			t.Errorf("%d: %q, want %q", value, got, want)
		}
	}
}

func TestGrowthSkipsWhatWasNotMeasured(t *testing.T) {
	point := func(value int64, p50 float64, valid, keptUp int) Point {
		label := Axis{Name: "workers"}
		return Point{Value: value, Label: label.label(value), Trials: 1, Valid: valid, KeptUp: keptUp, NSPerBlockOp: p50, QueryService: Quantiles{P50: p50}}
	}
	g := growth([]Point{point(1, 10, 1, 0), point(2, 0, 0, 0), point(4, 40, 1, 0), point(16, 40, 1, 1)})
	if len(g) != 2 || g[0].From != "1" || g[0].To != "4" || math.Abs(*g[0].QueryP50-1) > 1e-9 || math.Abs(*g[0].NSPerBlockOp-1) > 1e-9 {
		t.Fatalf("%+v", g)
	}
	// At the last point the index kept up, so its throughput is that of the window.
	if *g[1].QueryP50 != 0 || g[1].NSPerBlockOp != nil || g[1].PeakRSS != nil {
		t.Errorf("%+v", g[1])
	}
}
