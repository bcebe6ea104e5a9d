package rounds

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/kvbench/kvbench/internal/wholefile"
	"github.com/kvbench/kvbench/results"
	resulttable "github.com/kvbench/kvbench/results/table"
)

// Rows returns all trials, warm-up and invalid ones too, as rows of a table, in the
// order in which they ran.
func (e *Experiment) Rows() ([]resulttable.Trial, error) {
	manifest, err := wholefile.Read(e.path(manifestName), "the manifest of an experiment", maxManifest)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(manifest)
	rows := make([]resulttable.Trial, len(e.Trials))
	for i := range e.Trials {
		t := &e.Trials[i]
		row := &rows[i]
		*row = resulttable.Trial{
			Experiment: filepath.Base(e.Dir), ExperimentSHA256: hex.EncodeToString(sum[:]), Source: journalName,
			Variant: t.Variant, Round: some(t.Round), Slot: some(t.Slot), Attempt: some(t.Attempt), After: t.After,
			Failed: t.Failed, Exit: t.Exit, Valid: t.Valid, WallNS: &t.WallNS,
			CPUUserNS: &t.Usage.UserNS, CPUSystemNS: &t.Usage.SystemNS, WaitedNS: &t.Quiet.WaitedNS,
		}
		if t.Quiet.Pressure >= 0 {
			row.PressureBefore = &t.Quiet.Pressure
		}
		for _, r := range t.Reasons {
			row.Reasons = append(row.Reasons, r.Rule+": "+r.Detail)
		}
		if len(t.Record) == 0 {
			continue
		}
		record, err := results.Decode(t.Record)
		if err != nil {
			return nil, fmt.Errorf("%s: record of %s in round %d: %w", e.Dir, t.Variant, t.Round, err)
		}
		row.SetRecord(record)
	}
	return rows, nil
}

func some(n int) *int64 { return resulttable.Some(int64(n)) }
