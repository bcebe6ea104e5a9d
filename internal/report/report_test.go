package report

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/gate"
	"github.com/kvbench/kvbench/internal/report/page"
	"github.com/kvbench/kvbench/internal/report/pagetest"
	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/results"
)

const recorded = "../../results/recorded/rounds"

// unpack puts the first rounds of a recorded experiment into a folder, its text
// changed by edit.
func unpack(t testing.TB, name string, edit func(string) string) string {
	t.Helper()
	return unpackLines(t, name, 70, edit)
}

// unpackLines keeps so many lines of the journal.
func unpackLines(t testing.TB, name string, lines int, edit func(string) string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(recorded, name, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.Open(filepath.Join(recorded, name, "journal.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	journal, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if whole := strings.SplitAfter(string(journal), "\n"); len(whole) > lines {
		journal = []byte(strings.Join(whole[:lines], ""))
	}
	for file, text := range map[string]string{"manifest.json": string(manifest), "journal.jsonl": string(journal)} {
		if edit != nil {
			text = edit(text)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// html builds a page, holds it to the rules and returns it parsed.
func html(t testing.TB, paths []string, o Options) (string, *pagetest.Node) {
	t.Helper()
	p, err := Build(paths, o)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, problem := range pagetest.Problems(b.String()) {
		t.Error(problem)
	}
	root, err := pagetest.Parse(b.String())
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), root
}

// tableOf returns the table with a caption.
func tableOf(t testing.TB, root *pagetest.Node, caption string) [][]string {
	t.Helper()
	for _, n := range pagetest.Find(root, "table") {
		if c := pagetest.Find(n, "caption"); len(c) == 1 && pagetest.Text(c[0]) == caption {
			return pagetest.Table(n)
		}
	}
	t.Fatalf("no table is called %q", caption)
	return nil
}

func number(t testing.TB, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.Replace(text, "−", "-", 1), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestExperimentEqualsItsAnalysis compares the tables of the page with what package
// rounds says of the same folder, with every digit.
func TestExperimentEqualsItsAnalysis(t *testing.T) {
	for _, name := range []string{"tracking", "indexes"} {
		dir := unpackLines(t, name, 1_000_000, nil)
		exp, err := rounds.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		a, err := exp.Analyse(rounds.AnalyseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, root := html(t, []string{dir}, Options{})
		rows := tableOf(t, root, "Comparisons")[1:]
		if len(rows) != len(a.Comparisons)+len(a.Floor) || len(rows) == 0 {
			t.Fatalf("%s: %d rows for %d comparisons", name, len(rows), len(a.Comparisons))
		}
		for i, c := range a.Comparisons {
			row := rows[i]
			if row[0] != c.Metric.Path || row[1] != c.Ratio.String() {
				t.Fatalf("row %d is %q", i, row)
			}
			if c.Refused != "" {
				if row[2] != "–" || !strings.Contains(row[len(row)-1], c.Refused) {
					t.Errorf("a refused comparison is shown as %q", row)
				}
				continue
			}
			iv := c.Result.Interpolated
			for k, want := range map[int]float64{2: c.Result.Median, 3: iv.Low, 4: iv.High, 5: iv.TrueLevel, 6: c.Result.Bootstrap.Low, 7: c.Result.Bootstrap.High, 11: float64(len(c.Result.Pairs.Kept)), 12: float64(c.Planned)} {
				if got := number(t, row[k]); got != want {
					t.Errorf("%s %s, column %d: %v, want %v", c.Metric.Path, c.Ratio, k, got, want)
				}
			}
		}
		// Every pair of every comparison is a dot in the round's table.
		for _, c := range a.Comparisons {
			rows := tableOf(t, root, c.Metric.Path)
			of, to := slices.Index(rows[0], c.Ratio.Of), slices.Index(rows[0], c.Ratio.To)
			for _, k := range c.Result.Pairs.Kept {
				row := rows[k.Round]
				if number(t, row[0]) != float64(k.Round) || number(t, row[of]) != k.X || number(t, row[to]) != k.Y {
					t.Errorf("%s, round %d: %q, want %v and %v", c.Metric.Path, k.Round, row, k.X, k.Y)
				}
			}
		}
		// Every warning is there.
		text := pagetest.Text(root)
		for _, w := range a.Warnings {
			if !strings.Contains(text, w.Text) {
				t.Errorf("%s: the warning %q is missing", name, w.Text)
			}
		}
		for _, want := range []string{exp.Manifest.Tool.Commit, exp.Manifest.Work.SHA256, exp.Manifest.Variants[0].SHA256} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: provenance lacks %q", name, want)
			}
		}
		if trials := tableOf(t, root, "All trials, in the order in which they ran"); len(trials)-1 != len(exp.Trials) {
			t.Errorf("%d of %d trials are listed", len(trials)-1, len(exp.Trials))
		}
	}
}

// TestHostileNames has markup wherever a record holds words.
func TestHostileNames(t *testing.T) {
	evil := `<script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u0000\u202e`
	dir := unpack(t, "tracking", func(s string) string {
		return strings.NewReplacer(`"trace_name":"conversation_trace.jsonl"`, `"trace_name":"`+evil+`"`,
			`"cpu_model":"AMD EPYC"`, `"cpu_model":"`+evil+`"`, `"cpu_model": "AMD EPYC"`, `"cpu_model": "`+evil+`"`,
			`"issue_span"`, `"`+evil+`"`, `"warnings":["`, `"warnings":["`+evil+`","`).Replace(s)
	})
	text, root := html(t, []string{dir}, Options{Title: "A <script>title</script>"})
	if n := strings.Count(pagetest.Text(root), "<script>alert(1)</script>"); n < 10 {
		t.Errorf("the names are shown %d times; were they left out?", n)
	}
	if strings.Contains(text, "<script") || strings.Contains(text, "<img") {
		t.Error("a name became an element")
	}
}

func TestGate(t *testing.T) {
	dir := unpack(t, "tracking", nil)
	g := &gate.Report{Schema: gate.Schema, Verdict: gate.Fail, Reasons: []string{"it is slower"}, Rounds: 28, Planned: 28, Look: gate.Look{Schedule: gate.Fixed, Rounds: 28, Level: 0.95},
		Rows:  []gate.RowResult{{Row: gate.Row{Metric: "rates.achieved_block_ops_per_sec", Of: "nonstop", To: "tracked", Margin: 0.04, Better: "higher"}, Verdict: gate.Fail, Median: 0.83, Notes: []string{"a note"}}},
		Unfit: []string{"too loud"}}
	path := filepath.Join(t.TempDir(), "gate.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.WriteJSON(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := ReadGate(path)
	if err != nil {
		t.Fatal(err)
	}
	text, root := html(t, []string{dir}, Options{Gate: read})
	main := pagetest.Find(root, "main")[0]
	first := pagetest.Find(main, "p")[0]
	if got := pagetest.Text(first); !strings.HasPrefix(got, "FAIL ") || !strings.Contains(got, "it is slower") {
		t.Errorf("the page begins with %q", got)
	}
	for _, want := range []string{"a note", "too loud", "margin 0.9600"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if err := os.WriteFile(path, []byte(`{"schema":"kvbench.gate/v9"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadGate(path); err == nil || !strings.Contains(err.Error(), "kvbench.gate/v9") {
		t.Errorf("another schema: %v", err)
	}
}

// TestNotedLook shows what the experiment remembers.
func TestNotedLook(t *testing.T) {
	dir := unpack(t, "tracking", nil)
	exp, err := rounds.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := exp.Note("gate", gate.Look{Schedule: gate.Fixed, Rounds: 28, Level: 0.95, Rule: "a rule", Verdict: gate.Pass}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	_, root := html(t, []string{dir}, Options{})
	if got := pagetest.Text(pagetest.Find(pagetest.Find(root, "main")[0], "p")[0]); !strings.HasPrefix(got, "PASS ") || !strings.Contains(got, "a rule") {
		t.Errorf("the page begins with %q", got)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "journal.jsonl")); err != nil || string(after) != string(before) {
		t.Errorf("the report changed the journal (%v)", err)
	}
}

// TestReadingsAreHeld: the page claims what the gate would, and names the correction
// and the control. The control is made of a recorded comparison, spread out.
func TestReadingsAreHeld(t *testing.T) {
	dir := unpackLines(t, "indexes", 1_000_000, nil)
	text, root := html(t, []string{dir}, Options{})
	exp, err := rounds.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := exp.Analyse(rounds.AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	read := gate.Read(a)
	if want := fmt.Sprintf("after Holm's correction over the %d comparisons that were measured, without a control", read.Family); !strings.Contains(pagetest.Text(root), want) {
		t.Errorf("%q is not in the page", want)
	}
	rows := tableOf(t, root, "Comparisons")[1:]
	claims := 0
	for i, r := range read.Of {
		if got := rows[i][len(rows[i])-1]; a.Comparisons[i].Refused == "" && !strings.HasPrefix(got, string(r.Side)) {
			t.Errorf("row %d is read as %q, not %q", i, got, r.Side)
		}
		if r.Side == gate.Better || r.Side == gate.Worse {
			claims++
		}
	}
	if got := strings.Count(text, ">BETTER<") + strings.Count(text, ">WORSE<"); claims == 0 || got != claims {
		t.Errorf("%d claims on the page, and %d may be made", got, claims)
	}

	control := a.Comparisons[0]
	control.Ratio = rounds.Ratio{Of: "flat'", To: "flat"}
	control.Result.Pairs.Kept = slices.Clone(control.Result.Pairs.Kept)
	for i := range control.Result.Pairs.Kept {
		k := &control.Result.Pairs.Kept[i]
		if k.X = 8 * k.Y; i%2 == 0 {
			k.X = k.Y / 8
		}
	}
	a.Floor = []rounds.Comparison{control}
	read = gate.Read(a)
	if got := held(a, read); !strings.Contains(got, "held to the control flat'/flat") {
		t.Errorf("the verdict line says %q", got)
	}
	within := 0
	for _, r := range readings(a, read) {
		if !strings.HasPrefix(r.text, control.Metric.Path+" ") {
			continue
		}
		if r.word != "OPEN" {
			t.Errorf("beside such a control: %s %s", r.word, r.text)
		}
		within += strings.Count(r.text, "within what the same program shows against itself")
	}
	if within == 0 {
		t.Error("nothing is within the control")
	}
}

// TestNoGroundForAVerdict: what would keep the gate from a verdict is said before
// the readings.
func TestNoGroundForAVerdict(t *testing.T) {
	fit := func(s string) string { return strings.ReplaceAll(s, `"verdict":"unfit"`, `"verdict":"fit"`) }
	for _, c := range []struct {
		lines       int
		edit        func(string) string
		unfit, done bool
	}{{1_000_000, nil, true, true}, {1_000_000, fit, false, true}, {70, fit, false, false}} {
		_, root := html(t, []string{unpackLines(t, "tracking", c.lines, c.edit)}, Options{})
		text := pagetest.Text(pagetest.Find(root, "main")[0])
		before, _, ok := strings.Cut(text, "NO VERDICT")
		if !ok || strings.Contains(before, "UNFIT MACHINE") != c.unfit || strings.Contains(before, "--allow-unfit: cores: ") != c.unfit || strings.Contains(before, "NOT DONE") == c.done {
			t.Errorf("%+v: the page begins with %.300q", c, text)
		}
	}
}

// record returns one record of a recorded experiment.
func record(t testing.TB) *results.Record {
	t.Helper()
	exp, err := rounds.Open(unpack(t, "tracking", nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range exp.Trials {
		if x.Valid && x.Variant == "tracked" {
			r, err := results.Decode(x.Record)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	t.Fatal("no trial is valid")
	return nil
}

func save(t testing.TB, path string, r *results.Record) {
	t.Helper()
	if err := results.Write(path, r, true); err != nil {
		t.Fatal(err)
	}
}

func TestRecords(t *testing.T) {
	dir := t.TempDir()
	r := record(t)
	one, two := filepath.Join(dir, "one.json"), filepath.Join(dir, "two.json")
	save(t, one, r)
	_, root := html(t, []string{one}, Options{})
	rows := tableOf(t, root, "Latencies: medians over the valid trials")
	if got := number(t, rows[1][7]); rows[1][0] != "Query service" || got != float64(r.Queries.Service.P99) {
		t.Errorf("%q has p99 %v, want %d", rows[1][0], got, r.Queries.Service.P99)
	}
	text := pagetest.Text(root)
	for _, want := range append(r.Warnings, r.Provenance.BinarySHA256, "VALID", "not hold queue depths over time") {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	ranks := tableOf(t, root, "Resident blocks by rank: one")
	sum := 0.0
	for _, row := range ranks[1:] {
		sum += number(t, row[2])
	}
	if sum != float64(r.Resident.Sum) {
		t.Errorf("the ranks hold %v blocks, want %d", sum, r.Resident.Sum)
	}

	// A trial that is not valid enters no picture and is named.
	r.Validity = results.Validity{Reasons: []results.Reason{{Rule: "issue_span", Detail: "late"}}}
	r.Resident, r.Index, r.EventThreads = nil, nil, nil
	save(t, two, r)
	_, root = html(t, []string{dir}, Options{})
	if text = pagetest.Text(root); !strings.Contains(text, "two: not a measurement. issue_span: late") {
		t.Error("the invalid record is not named first")
	}
	for _, row := range tableOf(t, root, "Latencies: medians over the valid trials")[1:] {
		if row[1] != "one" {
			t.Errorf("an invalid trial enters %q", row)
		}
	}
	// Alone it leaves every section without a picture, and each says why.
	_, root = html(t, []string{two}, Options{})
	if n := len(pagetest.Find(root, "svg")); n != 0 {
		t.Errorf("%d pictures of an invalid trial", n)
	}
	if got := pagetest.Text(pagetest.Find(pagetest.Find(root, "main")[0], "p")[0]); !strings.HasPrefix(got, "INVALID ") {
		t.Errorf("the page begins with %q", got)
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	exp := unpack(t, "tracking", nil)
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"schema":"kvbench.result/v1","kind":"replay","totals":3}`), 0o666); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for _, c := range []struct {
		paths []string
		o     Options
		says  string
	}{
		{nil, Options{}, "nothing to report"},
		{[]string{filepath.Join(dir, "none")}, Options{}, "none"},
		{[]string{empty}, Options{}, "no sweep.json"},
		{[]string{bad}, Options{}, "bad.json: "},
		{[]string{exp, bad}, Options{}, "report it alone"},
		{[]string{bad}, Options{Gate: &gate.Report{}}, "no experiment"},
		{[]string{exp}, Options{Analyse: rounds.AnalyseOptions{Metrics: []string{"nonsense"}}}, "nonsense"},
		{[]string{exp}, Options{Analyse: rounds.AnalyseOptions{Ratios: []rounds.Ratio{{Of: "a", To: "b"}}}}, "a"},
	} {
		if _, err := Build(c.paths, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want an error with %q", c.paths, err, c.says)
		}
	}
}

func TestFigures(t *testing.T) {
	r := record(t)
	p := page.New("Figures", "")
	latencySection(p, []trial{{Group: "one", Name: "one", Record: r}})
	dir := filepath.Join(t.TempDir(), "figures")
	if err := WriteFigures(dir, p, false); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3*len(p.Figures()) || len(files) < 15 {
		t.Errorf("%d files for %d pictures", len(files), len(p.Figures()))
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		magic := map[string]string{".svg": "<?xml", ".png": "\x89PNG", ".csv": ""}[filepath.Ext(f.Name())]
		if !strings.HasPrefix(string(b), magic) || len(b) < 20 {
			t.Errorf("%s begins with %.20q", f.Name(), b)
		}
	}
	f, err := os.Open(filepath.Join(dir, "query-service.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	d := r.Queries.Service
	for i, want := range []int64{d.P50, d.P90, d.P99, d.P999, d.Max} {
		if got := number(t, rows[i+1][2]); got != float64(want) {
			t.Errorf("row %d of the data is %v, want %d", i, rows[i+1], want)
		}
	}
	if err := WriteFigures(dir, p, false); err == nil || !strings.Contains(err.Error(), "--overwrite") {
		t.Errorf("existing files: %v", err)
	}
	if err := WriteFigures(dir, p, true); err != nil {
		t.Error(err)
	}
}

// TestEnvironmentIsNotGivenAway: a report is passed on, and variables may hold
// secrets.
func TestEnvironmentIsNotGivenAway(t *testing.T) {
	dir := unpack(t, "tracking", nil)
	b, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	m["environment"] = []string{"KVBENCH_TOKEN=hunter2"}
	if b, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), b, 0o666); err != nil {
		t.Fatal(err)
	}
	text, _ := html(t, []string{dir}, Options{})
	if strings.Contains(text, "hunter2") || !strings.Contains(text, "KVBENCH_TOKEN") {
		t.Error("the page should name the variable and keep its value")
	}
}

func TestWarningsByKind(t *testing.T) {
	with := func(name string, warnings ...string) trial {
		return trial{Group: name, Name: name, Record: &results.Record{Warnings: warnings}}
	}
	got := recordWarnings([]trial{with("a", "took 3 ms", "alone"), with("b", "took 4.5 ms", "took 5 ms"), with("c", "fixed"), with("d", "fixed")})
	want := []string{"took 3 ms (so a; of this kind in 2 of 4 trials, with other figures)", "alone (a)", "fixed (2 of 4 trials)"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := median(nil); !math.IsNaN(n) {
		t.Errorf("the median of nothing is %v", n)
	}
}

// TestExperimentWithoutTrials is one that has just begun, and one of which every
// trial failed.
func TestExperimentWithoutTrials(t *testing.T) {
	dir := unpack(t, "tracking", nil)
	journal := filepath.Join(dir, "journal.jsonl")
	b, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, root := html(t, []string{dir}, Options{})
	if text := pagetest.Text(root); !strings.Contains(text, "0 of 28 planned rounds are done") || !strings.Contains(text, "NOT MEASURED") {
		t.Error("the page does not say that nothing was measured")
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if x, ok := entry["trial"].(map[string]any); ok {
			delete(x, "record")
			x["valid"], x["failed"], x["output"] = false, true, "kvbench: no <memory>"
			x["reasons"] = []any{map[string]any{"rule": "crashed", "detail": "exit status 2"}}
		}
		b, err := json.Marshal(entry)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(b, '\n'))
	}
	if err := os.WriteFile(journal, []byte(out.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	_, root = html(t, []string{dir}, Options{})
	if text := pagetest.Text(root); !strings.Contains(text, "kvbench: no <memory>") || !strings.Contains(text, "no valid pair") {
		t.Error("the page does not say what failed")
	}
}
