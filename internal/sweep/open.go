package sweep

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/kvbench/kvbench/internal/wholefile"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/results/table"
)

// Open reads the sweep in a folder, be it finished, interrupted or running. It
// takes no lock and changes nothing.
func Open(dir string) (*Result, error) {
	path := filepath.Join(dir, planName)
	b, err := wholefile.Read(path, "the plan of a sweep", maxPlan)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir, records: map[trialKey]*results.Record{}}
	if err := json.Unmarshal(b, &f.plan); err != nil {
		return nil, fmt.Errorf("%s: not the plan of a sweep: %w", path, err)
	}
	if err := f.plan.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := f.readTrials(); err != nil {
		return nil, err
	}
	// Whether it was interrupted or still runs is not known from the folder.
	return analyse(&f.plan, f.trials, f.records, false)
}

// Record returns the record of a trial, nil if it left none.
func (r *Result) Record(t *Trial) *results.Record { return r.records[t.key()] }

// Rows returns all trials as rows of a table, in the order in which they ran. Their
// variant is the value of the axis, their round the number of the run at that value.
func (r *Result) Rows(dir string) []table.Trial {
	rows := make([]table.Trial, len(r.Trials))
	axis := r.Plan.axis()
	for i := range r.Trials {
		t := &r.Trials[i]
		row := table.Trial{Source: t.Record, Failed: true, Reasons: []string{"no_record: " + t.Failure}}
		if rec := r.Record(t); rec != nil {
			row = table.TrialOf(t.Record, rec)
		}
		row.Experiment, row.Variant = filepath.Base(dir), axis.Name+"="+axis.label(t.Value)
		row.Round, row.WallNS, row.Exit = table.Some(int64(t.Run)), &t.TookNS, fmt.Sprintf("exit status %d", t.Exit)
		rows[i] = row
	}
	return rows
}
