package results

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestContradictions(t *testing.T) {
	b, err := os.ReadFile("recorded/first/trials.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(bytes.Lines(b))
	fresh := func(line int) *Record {
		r, err := Decode(lines[line])
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	tracked := slices.IndexFunc(lines, func(l []byte) bool {
		return bytes.Contains(bytes.ReplaceAll(l, []byte(" "), nil), []byte(`"track_resident_blocks":true`))
	})
	if found := Contradictions(fresh(tracked)); len(found) > 0 {
		t.Fatalf("a record as it was written: %q", found)
	}
	for says, spoil := range map[string]func(r *Record){
		"totals.block_ops is":                   func(r *Record) { r.Totals.BlockOps++ },
		"queries 1":                             func(r *Record) { r.Totals.IssuedQueries = 1 },
		"were completed":                        func(r *Record) { r.Totals.CompletedEvents-- },
		"totals.engine_hit_blocks is":           func(r *Record) { r.Totals.EngineHitBlocks = r.Totals.RequestBlocks + 1 },
		"timing.end_ns is":                      func(r *Record) { r.Timing.EndNS++ },
		"timing.drain_ns is":                    func(r *Record) { r.Timing.DrainNS++ },
		"timing.window_ns is":                   func(r *Record) { r.Timing.WindowNS++ },
		"rates.achieved_block_ops_per_sec is":   func(r *Record) { r.Rates.AchievedBlockOpsPerSec *= 1.001 },
		"rates.offered_block_ops_per_sec is":    func(r *Record) { r.Rates.OfferedBlockOpsPerSec = 0 },
		"queries.service: the quantiles":        func(r *Record) { r.Queries.Service.P99 = r.Queries.Service.Max + 1 },
		"queries.service: the mean":             func(r *Record) { r.Queries.Service.Mean = 1e18 },
		"events.issue_lag has":                  func(r *Record) { r.Events.IssueLag.N = 1 << 60 },
		"events.issue_lag has figures":          func(r *Record) { r.Events.IssueLag.N = 0 },
		"validity.valid is true, and there are": func(r *Record) { r.Validity.Reasons = []Reason{{Rule: "x"}} },
		"interrupted and is valid":              func(r *Record) { r.Validity.Interrupted = true },
		"validity.kept_up is":                   func(r *Record) { r.Validity.KeptUp = !r.Validity.KeptUp },
		"verify.ok is true":                     func(r *Record) { r.Verify = &Verify{OK: true, Mismatches: 1} },
		"answered wrongly":                      func(r *Record) { r.Verify = &Verify{Mismatches: 1} },
		"was not on its CPU":                    func(r *Record) { r.Config.Pinned = true; r.Threads[0].PinConfirmed = false },
		"config.ranks is":                       func(r *Record) { r.Config.Ranks = r.Config.Workers*r.Config.DPRanks + 1 },
		"config.track_resident_blocks is":       func(r *Record) { r.Config.TrackResidentBlocks = false },
		"resident_blocks: 128 ranks":            func(r *Record) { r.Resident.Sum++ },
		"resident_blocks: min":                  func(r *Record) { r.Resident.Min = r.Resident.Max + 1 },
		"anomalies":                             func(r *Record) { r.Anomalies.Orphaned++ },
		"approximate":                           func(r *Record) { r.Approximate = &Approximate{PredictedBlocks: 1 << 60} },
	} {
		r := fresh(tracked)
		spoil(r)
		if found := Contradictions(r); !slices.ContainsFunc(found, func(c string) bool { return strings.Contains(c, says) }) {
			t.Errorf("%q is not found: %q", says, found)
		}
	}
}
