package rounds

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/results"
)

// kept writes a made experiment with a warm-up round to a folder, and opens it.
func kept(t *testing.T, created string, change func(*Manifest), throughput map[string][]float64) *Experiment {
	t.Helper()
	e := made(t, 2, throughput, "a", "b")
	m := e.Manifest
	m.Created, m.Warmup = created, 1
	if change != nil {
		change(m)
	}
	entries := []entry{{Time: created, Session: &Session{PID: 1}}}
	for i := range m.Variants {
		entries = append(entries, entry{Trial: &Trial{Round: 0, Slot: i, Variant: m.Variants[i].Name, Attempt: 1, Start: created + " warm", WallNS: int64(i), Reasons: []results.Reason{{Rule: "x"}}}})
	}
	for i := range e.Trials {
		e.Trials[i].Start, e.Trials[i].WallNS = fmt.Sprintf("%s.%d", created, i), int64(i)
		entries = append(entries, entry{Trial: &e.Trials[i]})
	}
	entries = append(entries, entry{End: &sessionEnd{How: "done"}}, entry{Note: &note{Name: "gate", Value: json.RawMessage(`1`)}})
	dir := filepath.Join(t.TempDir(), "exp-"+created)
	if err := writeExperiment(dir, m, entries); err != nil {
		t.Fatal(err)
	}
	e, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestMerge(t *testing.T) {
	x := map[string][]float64{"a": {10, 11, 12}, "b": {20, -22, 24}}
	y := map[string][]float64{"a": {13, 14}, "b": {26, 28}}
	first := kept(t, "2026-01-01", nil, x)
	second := kept(t, "2026-01-02", func(m *Manifest) { m.Dir = "/elsewhere"; m.Variants[0].Path = "/moved" }, y)
	dir := filepath.Join(t.TempDir(), "merged")
	origin, err := Merge(dir, []*Experiment{second, first}) // the older one comes first
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !e.Done() || e.Rounds() != 5 || e.Manifest.Warmup != 2 || len(e.Sessions) != 2 || e.Sessions[1].Ended != "done" {
		t.Errorf("%+v", e.Manifest)
	}
	if len(e.Trials) != len(first.Trials)+len(second.Trials) {
		t.Fatalf("%d trials", len(e.Trials))
	}
	if origin[0].First != 1 || origin[0].Last != 3 || origin[1].First != 4 || origin[1].Last != 5 || origin[1].Folder != "exp-2026-01-02" ||
		len(origin[1].Warnings) != 1 || !strings.Contains(origin[1].Warnings[0], "working_directory is /elsewhere") {
		t.Errorf("%+v", origin)
	}
	if n := e.Notes(MergedNote); len(n) != 1 {
		t.Errorf("%s", n)
	}
	if n := e.Notes("merged.gate"); len(n) != 2 || e.Notes("gate") != nil {
		t.Errorf("notes of a verdict: %s", n)
	}
	// Every trial is there as it was, but for the number of its round.
	was := slices.Concat(first.Trials, second.Trials)
	for i := range was {
		is := slices.IndexFunc(e.Trials, func(x Trial) bool { return x.Start == was[i].Start && x.WallNS == was[i].WallNS })
		if is < 0 {
			t.Fatalf("trial %s is lost", was[i].Start)
		}
		got := e.Trials[is]
		if was[i].Round >= 1 && got.Round != was[i].Round+map[bool]int{true: 3}[i >= len(first.Trials)] {
			t.Errorf("round %d became %d", was[i].Round, got.Round)
		}
		if got.Round = was[i].Round; fmt.Sprint(got) != fmt.Sprint(was[i]) {
			t.Errorf("%+v became %+v", was[i], got)
		}
	}
	// The figures are those of one experiment with all rounds.
	a, err := e.Analyse(AnalyseOptions{Metrics: []string{"achieved_block_ops_per_sec"}})
	if err != nil {
		t.Fatal(err)
	}
	if r := a.Comparisons[0].Result; r.Median != 2 || len(r.Pairs.Kept) != 4 || len(r.Pairs.Dropped) != 1 || r.Pairs.Dropped[0].Round != 2 {
		t.Errorf("%+v", r)
	}
	// And merging goes on.
	third := kept(t, "2026-01-03", nil, y)
	if _, err := Merge(filepath.Join(t.TempDir(), "all"), []*Experiment{e, third}); err != nil {
		t.Error(err)
	}
	if _, err := Merge(dir, []*Experiment{first, second}); !errors.Is(err, os.ErrExist) {
		t.Errorf("over an existing folder: %v", err)
	}
}

func TestMergeRefuses(t *testing.T) {
	x := map[string][]float64{"a": {10, 11}, "b": {20, 22}}
	first := kept(t, "2026-01-01", nil, x)
	merged := filepath.Join(t.TempDir(), "merged")
	if _, err := Merge(merged, []*Experiment{first, kept(t, "2026-01-02", nil, x)}); err != nil {
		t.Fatal(err)
	}
	whole, err := Open(merged)
	if err != nil {
		t.Fatal(err)
	}
	half := kept(t, "2026-01-03", nil, x)
	half.Trials = half.Trials[:3]
	for says, other := range map[string]*Experiment{
		"work.sha256 is 9999, and 0123 there":            kept(t, "2026-01-04", func(m *Manifest) { m.Work.SHA256 = "9999" }, x),
		"variants[1].sha256":                             kept(t, "2026-01-05", func(m *Manifest) { m.Variants[1].SHA256 = "12" }, x),
		"host.logical_cpus":                              kept(t, "2026-01-06", func(m *Manifest) { m.Host.LogicalCPUs = 3 }, x),
		"arguments":                                      kept(t, "2026-01-07", func(m *Manifest) { m.Arguments = []string{"--x"} }, x),
		"rules.max_pressure":                             kept(t, "2026-01-08", func(m *Manifest) { m.Rules.MaxPressure = 0.5 }, x),
		"it is not done (3 trials are there, 3 are not)": half,
		"they have a trial in common":                    whole,
		"exp-2026-01-01 cannot be merged with":           first,
	} {
		dir := filepath.Join(t.TempDir(), "merged")
		_, err := Merge(dir, []*Experiment{first, other})
		var refused *MergeError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was written", says)
		}
	}
	if _, err := Merge(t.TempDir(), []*Experiment{first}); err == nil {
		t.Error("one experiment was merged")
	}
}

func TestPackedJournal(t *testing.T) {
	e := kept(t, "2026-01-01", nil, map[string][]float64{"a": {10}, "b": {20}})
	b, err := os.ReadFile(e.path(journalName))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(e.path(packedName))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	_, err = z.Write(b)
	if err := errors.Join(err, z.Close(), f.Close(), os.Remove(e.path(journalName))); err != nil {
		t.Fatal(err)
	}
	again, err := Open(e.Dir)
	if err != nil || len(again.Trials) != len(e.Trials) {
		t.Errorf("%v", err)
	}
	if err := os.Truncate(e.path(packedName), 50); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(e.Dir); err == nil || !strings.Contains(err.Error(), packedName) {
		t.Errorf("half of it: %v", err)
	}
}

func TestRows(t *testing.T) {
	e := kept(t, "2026-01-01", nil, map[string][]float64{"a": {10, 11}, "b": {20, -22}})
	rows, err := e.Rows()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 6 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, r := range rows {
		tr := e.Trials[i]
		if r.Variant != tr.Variant || *r.Round != int64(tr.Round) || *r.Slot != int64(tr.Slot) || r.Valid != tr.Valid || len(r.Reasons) != len(tr.Reasons) ||
			r.Experiment != "exp-2026-01-01" || len(r.ExperimentSHA256) != 64 {
			t.Errorf("row %d: %+v", i, r)
		}
		if (r.AchievedBlockOpsPerSec == nil) != (tr.Record == nil) {
			t.Errorf("row %d: figures without a record, or the other way round", i)
		}
	}
	if got := *rows[len(rows)-1].AchievedBlockOpsPerSec; got != 11e6 && got != 22e6 {
		t.Errorf("%v", got)
	}
}
