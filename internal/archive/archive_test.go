package archive

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/perf/benchfmt"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/results/table"
)

// recorded are the published runs.
const recorded = "../../results/recorded"

var (
	tracking = filepath.Join(recorded, "rounds", "tracking")
	indexes  = filepath.Join(recorded, "rounds", "indexes")
	first    = filepath.Join(recorded, "first", "trials.jsonl")
)

func open(t *testing.T, path string) *Source {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// record is one of the first trials.
func record(t *testing.T, number int) *results.Record {
	t.Helper()
	b, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	r, err := results.Decode(slices.Collect(bytes.Lines(b))[number])
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func save(t *testing.T, dir, name string, r *results.Record) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := results.Write(path, r, true); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "recorded"), os.DirFS(recorded)); err != nil {
		t.Fatal(err)
	}
	one := save(t, dir, "a.json", record(t, 0))
	for name, content := range map[string]string{
		"b.json": "{", "c.json": `{"schema":"other/v1"}`, "d.json": `{"schema":"kvbench.result/v1","kind":"replay","config":3}`,
		"e.parquet": "PAR1", "empty.jsonl": "", "notes.txt": "nothing", ".hidden.json": "{",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	missing := filepath.Join(dir, "missing")
	f := Find([]string{dir, missing, filepath.Join(dir, "notes.txt")})
	got := map[string]Summary{}
	for _, s := range f.Sources {
		x := s.Summarize()
		rel, err := filepath.Rel(dir, x.Path)
		if err != nil {
			t.Fatal(err)
		}
		got[rel] = x
	}
	for path, want := range map[string]Summary{
		"a.json":                      {Kind: results.ReplayV1, Trials: 1, Valid: 1},
		"recorded/first/trials.jsonl": {Kind: Records, Trials: 42, Valid: 42, KeptUp: 28},
		"recorded/rounds/tracking":    {Kind: "kvbench.rounds/v1", Trials: 196, Valid: 187},
		"recorded/rounds/indexes":     {Kind: "kvbench.rounds/v1", Trials: 144, Valid: 139, KeptUp: 24},
	} {
		have, ok := got[path]
		if !ok || have.Kind != want.Kind || have.Trials != want.Trials || have.Valid != want.Valid || path != "a.json" && have.KeptUp != want.KeptUp ||
			have.Trace != "conversation_trace.jsonl" || !strings.HasPrefix(have.Build, "v0.0.0-2026") || have.Start == "" {
			t.Errorf("%s: %+v", path, have)
		}
	}
	if got["recorded/indexes/one.json"].Kind != "kvbench.micro/v1" {
		t.Errorf("a micro-benchmark: %+v", got["recorded/indexes/one.json"])
	}
	problems := map[string]Problem{}
	for _, p := range f.Problems {
		problems[filepath.Base(p.Path)] = p
	}
	for name, want := range map[string]struct {
		says    string
		foreign bool
	}{
		"b.json": {"not a result of kvbench", true}, "c.json": {`its schema is "other/v1"`, true}, "d.json": {"line 1: /config: found number, want an object", false},
		"e.parquet": {"not a Parquet file", false}, "empty.jsonl": {"the file is empty", false}, "missing": {"no such file", false},
		"notes.txt": {"not a result of kvbench", true}, "coverage.json": {"it names no schema", true},
	} {
		p, ok := problems[name]
		if !ok || !strings.Contains(p.Reason, want.says) || p.Foreign != want.foreign {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if _, ok := problems[".hidden.json"]; ok {
		t.Error("a hidden file was looked at")
	}
	if n := len(f.Broken()); n != 4 {
		t.Errorf("%d broken", n)
	}
	var b strings.Builder
	if err := f.WriteList(&b); err != nil || !strings.Contains(b.String(), one) {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	if err := f.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var out struct {
		Results  []Summary
		Problems []Problem
	}
	if err := json.Unmarshal([]byte(b.String()), &out); err != nil || len(out.Results) != len(f.Sources) || len(out.Problems) != len(f.Problems) {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestShow shows published results without an error.
func TestShow(t *testing.T) {
	for path, says := range map[string]string{
		tracking: "nonstop/tracked", first: "Medians of the valid trials", filepath.Join(recorded, "indexes", "one.json"): "kvbench.micro/v1",
		save(t, t.TempDir(), "a.json", record(t, 0)): "VALID",
	} {
		var b strings.Builder
		if err := open(t, path).WriteText(&b); err != nil || !strings.Contains(b.String(), says) {
			t.Errorf("%s: %v\n%s", path, err, b.String())
		}
	}
}

func TestCompareProvenanceFirst(t *testing.T) {
	dir := t.TempDir()
	base := record(t, 0)
	a := save(t, dir, "a.json", base)
	change := func(f func(r *results.Record)) string {
		r := record(t, 0)
		f(r)
		return save(t, dir, "b.json", r)
	}
	same, err := Compare(open(t, a), open(t, change(func(r *results.Record) {
		r.Provenance.Argv, r.Provenance.StartTime = []string{"other"}, "2027-01-01T00:00:00Z"
		r.Queries.Service.P50 *= 2
	})), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if len(same.Differences) != 0 {
		t.Errorf("differences of trials of one build: %+v", same.Differences)
	}
	for _, f := range same.Figures {
		want := 1.0
		if f.Metric.Path == "queries.service.p50" {
			want = 2
		}
		if f.Paired || f.Interval.Ok() || f.A != 0 && f.Ratio != want {
			t.Errorf("%+v", f)
		}
	}
	for field, c := range map[string]struct {
		group string
		f     func(r *results.Record)
	}{
		"provenance.host.kernel":   {"machine", func(r *results.Record) { r.Provenance.Host.Kernel = "other" }},
		"provenance.binary_sha256": {"build", func(r *results.Record) { r.Provenance.BinarySHA256 = "other" }},
		"provenance.go_version":    {"build", func(r *results.Record) { r.Provenance.GoVersion = "other" }},
		"provenance.corpus_sha256": {"work", func(r *results.Record) { r.Provenance.CorpusSHA256 = "other" }},
		"provenance.seed":          {"work", func(r *results.Record) { r.Provenance.Seed++ }},
		"config.event_threads":     {"configuration", func(r *results.Record) { r.Config.EventThreads++ }},
		"config.shared_cpus":       {"configuration", func(r *results.Record) { r.Config.SharedCPUs = !r.Config.SharedCPUs }},
		"injected.event_delay_ns":  {"injected", func(r *results.Record) { r.Injected = &results.Injected{EventDelayNS: 5} }},
	} {
		got, err := Compare(open(t, a), open(t, change(c.f)), Selection{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(got.Differences, func(d Difference) bool { return d.Field == field })
		if i < 0 || got.Differences[i].Group != c.group || c.group != "injected" && len(got.Differences) != 1 {
			t.Errorf("%s: %+v", field, got.Differences)
		}
		var b strings.Builder
		if err := got.WriteText(&b); err != nil || strings.Index(b.String(), field) > strings.Index(b.String(), "B/A") {
			t.Errorf("%s: it is not said before the figures (%v):\n%s", field, err, b.String())
		}
	}
}

func TestCompareRounds(t *testing.T) {
	two, x := open(t, indexes), open(t, tracking)
	// Of two experiments: unpaired.
	c, err := Compare(two, x, Selection{Variants: [][2]string{{"runs", "base"}}, Metrics: []string{"achieved_block_ops_per_sec"}})
	if err != nil {
		t.Fatal(err)
	}
	f := c.Figures[0]
	if f.Paired || f.TrialsA != 12 || f.TrialsB != 28 || !f.Interval.Ok() || f.Ratio != f.Interval.Estimate || !strings.Contains(strings.Join(c.Warnings, "\n"), "UNPAIRED") {
		t.Errorf("%+v, %q", f, c.Warnings)
	}
	if i := slices.IndexFunc(c.Differences, func(d Difference) bool { return d.Field == "rounds" }); i < 0 || c.Differences[i].A[0] != "12" || c.Differences[i].B[0] != "28" {
		t.Errorf("%+v", c.Differences)
	}
	// Within one: the same-round ratio of the analysis.
	c, err = Compare(x, x, Selection{Variants: [][2]string{{"tracked", "nonstop"}}, Metrics: []string{"achieved_block_ops_per_sec"}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := errors.Join(x.WriteText(&b), c.WriteText(&b)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > text.Width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	f = c.Figures[0]
	if !f.Paired || strings.Contains(strings.Join(c.Warnings, "\n"), "UNPAIRED") || !strings.Contains(b.String(), "0.8345") || f.Ratio < 0.83445 || f.Ratio > 0.83455 {
		t.Errorf("%+v, %q", f, c.Warnings)
	}
	for says, sel := range map[string]Selection{
		"no variant is in both":                    {},
		`has no variant "bas"; did you mean base?`: {Variants: [][2]string{{"runs", "bas"}}},
		"has no metric":                            {Variants: [][2]string{{"runs", "base"}}, Metrics: []string{"speed"}},
		"is in no table of trials":                 {Variants: [][2]string{{"runs", "base"}}, Metrics: []string{"trial.max_rss_bytes"}},
	} {
		if _, err := Compare(two, x, sel); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
	}
	if _, err := Compare(x, open(t, filepath.Join(recorded, "indexes", "one.json")), Selection{}); err == nil || !strings.Contains(err.Error(), "kvbench.micro/v1 has no trials to compare") {
		t.Errorf("%v", err)
	}
}

// TestTwoInOneFolder: neither is shown in the place of both.
func TestTwoInOneFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{manifestName, sweepName} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "holds both the manifest.json") {
		t.Errorf("error %v", err)
	}
	if f := Find([]string{dir}); len(f.Sources) != 0 || len(f.Broken()) != 1 {
		t.Errorf("%+v", f)
	}
}

// TestExport writes all published trials in every format and counts them again.
func TestExport(t *testing.T) {
	sources := Find([]string{recorded}).WithRows()
	dir := t.TempDir()
	e := &Export{Format: Parquet, Path: filepath.Join(dir, "a.parquet")}
	n, err := e.Export(nil, sources)
	const all = 42 + 196 + 7 + 144 + 12 + 51 + 51
	if err != nil || n != all {
		t.Fatalf("%d rows, %v; want %d", n, err, all)
	}
	rows, err := table.ReadAll[table.Trial](e.Path)
	if err != nil || len(rows) != all {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	measured := 0
	for i := range rows {
		if rows[i].Valid && !warmUp(&rows[i]) {
			measured++
		}
	}
	text := func(format Format, from []*Source) string {
		var b strings.Builder
		if n, err := (&Export{Format: format}).Export(&b, from); err != nil || n != all && format != Benchfmt {
			t.Fatalf("%s: %d rows, %v", format, n, err)
		}
		return b.String()
	}
	again := []*Source{open(t, e.Path)}
	for _, format := range []Format{CSV, JSON, Benchfmt} {
		if text(format, sources) != text(format, again) {
			t.Errorf("%s of the table is not that of what it was made of", format)
		}
	}
	cells, err := csv.NewReader(strings.NewReader(text(CSV, sources))).ReadAll()
	if err != nil || len(cells) != all+1 || cells[0][0] != "experiment" || len(cells[0]) != len(table.Columns[table.Trial]()) {
		t.Errorf("%d lines of CSV, %v", len(cells), err)
	}
	lines := strings.Split(strings.TrimSpace(text(JSON, sources)), "\n")
	var object map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &object); err != nil || len(lines) != all || len(object) != len(cells[0]) {
		t.Errorf("%d lines of JSON, %d fields, %v", len(lines), len(object), err)
	}
	bench, n := benchfmt.NewReader(strings.NewReader(text(Benchfmt, sources)), "x"), 0
	for bench.Scan() {
		switch r := bench.Result().(type) {
		case *benchfmt.Result:
			n++
			// Whatever else is in it takes results apart that benchstat should compare.
			for _, c := range r.Config {
				if c.File && c.Key != "corpus" && c.Key != "cpu" {
					t.Errorf("%s has the configuration %s", r.Name, c.Key)
				}
			}
			if v, ok := r.Value("rates-achieved-block-ops/s"); !ok || v <= 0 {
				t.Errorf("%s has no throughput", r.Name)
			}
		case *benchfmt.SyntaxError:
			t.Error(r)
		}
	}
	if err := bench.Err(); err != nil || int(n) != measured {
		t.Errorf("%d benchmark results of %d, %v", n, measured, err)
	}
}

func TestTables(t *testing.T) {
	dir := t.TempDir()
	make := func(name string, n int64) *Source {
		path := filepath.Join(dir, name)
		w, err := table.Create[table.Decision](path, false, table.NewMeta([]string{"kvbench"}, map[string]string{"fact": "known"}))
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := w.Write([]table.Decision{{Request: i, State: "chosen", Cost: table.Some(0.5)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, path)
	}
	a, b := make("a.parquet", 3), make("b.parquet", 2000)
	var out strings.Builder
	if err := b.WriteText(&out); err != nil || !strings.Contains(out.String(), "rows     2000") || !strings.Contains(out.String(), "fact: known") {
		t.Errorf("%v\n%s", err, out.String())
	}
	merged := filepath.Join(dir, "merged.parquet")
	said, err := Merge([]string{a.Path, b.Path}, &Export{Path: merged})
	if err != nil || !strings.Contains(said, "2003 rows of 2 tables") {
		t.Errorf("%q, %v", said, err)
	}
	rows, err := table.ReadAll[table.Decision](merged)
	if err != nil || len(rows) != 2003 || rows[2].Request != 2 || rows[3].Request != 0 || rows[2002].Request != 1999 || *rows[2002].Cost != 0.5 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	out.Reset()
	if n, err := (&Export{Format: CSV}).Export(&out, []*Source{a}); err != nil || n != 3 || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%d, %v: %s", n, err, out.String())
	}
	if _, err := (&Export{Format: Benchfmt}).Export(&out, []*Source{a}); err == nil {
		t.Error("decisions as benchmarks")
	}
	if _, err := (&Export{Format: CSV}).Export(&out, []*Source{a, open(t, first)}); err == nil || !strings.Contains(err.Error(), "export them apart") {
		t.Errorf("two schemas: %v", err)
	}
	if _, err := (&Export{Format: CSV}).Export(&out, nil); err == nil {
		t.Error("nothing was exported")
	}
	for says, paths := range map[string][]string{
		"merge experiments alone": {tracking, a.Path}, "its variants are": {tracking, indexes}, "no such file": {a.Path, "missing"},
	} {
		if _, err := Merge(paths, &Export{Path: filepath.Join(dir, "x")}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
	}
	// A table that is cut off is no shorter table.
	whole, err := os.ReadFile(b.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.Path, whole[:len(whole)-1], 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Export{Format: Parquet, Path: filepath.Join(dir, "y.parquet")}).Export(nil, []*Source{a, b}); err == nil || exists(filepath.Join(dir, "y.parquet")) {
		t.Errorf("half of a table was exported: %v", err)
	}
}

// TestTracesAreCounted: files without a schema are counted where they were only
// come across, and named where they are asked for.
func TestTracesAreCounted(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.jsonl": `{"timestamp": 0}` + "\n" + `{"timestamp": 1}` + "\n", "b.json": `[1, 2]`, "c.json": `{"schema": "other/v1"}`, "d.json": `{"schema": "kv`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write := func(all bool, paths ...string) string {
		var b strings.Builder
		if err := Find(paths).WriteProblems(&b, all); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	got := write(false, dir)
	if strings.Contains(got, "a.jsonl") || strings.Contains(got, "b.json") || !strings.Contains(got, "c.json: ") || !strings.Contains(got, "d.json: ") || !strings.HasSuffix(got, "\n2 other files are no results; --verbose names them\n") {
		t.Error(got)
	}
	if got := write(true, dir); strings.Count(got, "\n") != 4 || !strings.Contains(got, "a.jsonl: not a result of kvbench: it names no schema") {
		t.Error(got)
	}
	if got := write(false, filepath.Join(dir, "a.jsonl")); !strings.Contains(got, "a.jsonl: ") {
		t.Errorf("one that was asked for: %q", got)
	}
}
