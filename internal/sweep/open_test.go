package sweep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	k := &fakeKvbench{t: t, capacity: 3e6, before: func(_ int, args []string) (Outcome, bool) {
		return Outcome{Exit: 2, Stderr: "kvbench: no memory"}, strings.Contains(strings.Join(args, " "), "window-400ms.corpus --quiet")
	}}
	want, err := Run(t.Context(), windowPlan(t, 2), Options{counters: still, Dir: dir, Runner: k})
	if err != nil {
		t.Fatal(err)
	}
	// A line that is not finished yet is no trial, and stays where it is.
	journal := filepath.Join(dir, journalName)
	b, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, `{"value":1`...)
	if err := os.WriteFile(journal, b, 0o666); err != nil {
		t.Fatal(err)
	}
	got, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Result{}), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if after, err := os.ReadFile(journal); err != nil || string(after) != string(b) {
		t.Errorf("the journal was changed (%v)", err)
	}
	rows := got.Rows(dir)
	failed := 0
	for i, row := range rows {
		if row.Failed {
			failed++
			if row.Variant != "window=400ms" || row.Valid || row.AchievedBlockOpsPerSec != nil || !strings.Contains(row.Reasons[0], "no memory") {
				t.Errorf("row %d: %+v", i, row)
			}
		} else if *row.AchievedBlockOpsPerSec != got.Record(&got.Trials[i]).Rates.AchievedBlockOpsPerSec {
			t.Errorf("row %d: %+v", i, row)
		}
	}
	if len(rows) != 10 || failed != 2 {
		t.Errorf("%d rows, %d failed", len(rows), failed)
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("an empty folder is a sweep")
	}
	if err := os.WriteFile(filepath.Join(dir, planName), []byte(`{"schema":"kvbench.sweep/v9"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "kvbench.sweep/v9") {
		t.Errorf("another version: %v", err)
	}
}
