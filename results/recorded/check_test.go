package recorded

import (
	"path/filepath"
	"testing"

	"github.com/kvbench/kvbench/results"
)

// TestNoContradictions holds every published record to what must be true of any.
func TestNoContradictions(t *testing.T) {
	records := read(t, "first/trials.jsonl")
	for _, name := range []string{"indexes", "tracking"} {
		for _, trial := range openExperiment(t, filepath.Join("rounds", name)).Trials {
			if len(trial.Record) == 0 {
				continue
			}
			r, err := results.Decode(trial.Record)
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, r)
		}
	}
	if len(records) < 300 {
		t.Fatalf("only %d records", len(records))
	}
	for i, r := range records {
		for _, c := range results.Contradictions(r) {
			t.Errorf("record %d: %s", i, c)
		}
	}
}
