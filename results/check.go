package results

import (
	"fmt"
	"math"
)

// KeptUpLimit is the end of a trial that kept up at the latest, in windows.
const KeptUpLimit = 1.10

// Contradictions lists what cannot be true of a record at the same time, whatever was
// measured: totals that are no sums, quantiles out of order, a verdict that its
// reasons deny. It finds what was edited or damaged, and mistakes of a program that
// writes records. Each is one line that names the fields.
func Contradictions(r *Record) []string {
	c := &checker{}
	c.totals(r)
	c.timing(r)
	c.latencies(r)
	c.validity(r)
	c.parts(r)
	return c.found
}

type checker struct{ found []string }

func (c *checker) check(ok bool, format string, args ...any) {
	if !ok {
		c.found = append(c.found, fmt.Sprintf(format, args...))
	}
}

func (c *checker) totals(r *Record) {
	t := &r.Totals
	c.check(t.BlockOps == t.RequestBlocks+t.StoredBlocks+t.RemovedBlocks,
		"totals.block_ops is %d, and request, stored and removed blocks are %d together", t.BlockOps, t.RequestBlocks+t.StoredBlocks+t.RemovedBlocks)
	events := t.StoredEvents + t.RemovedEvents + t.ClearedEvents
	for _, x := range []struct {
		name                       string
		offered, issued, completed int64
	}{
		{"queries", t.Queries, t.IssuedQueries, t.CompletedQueries},
		{"events", events, t.IssuedEvents, t.CompletedEvents},
		{"block_ops", t.BlockOps, t.IssuedBlockOps, t.CompletedBlockOps},
	} {
		c.check(x.issued <= x.offered && x.completed <= x.issued,
			"totals: of %d %s %d were issued and %d completed", x.offered, x.name, x.issued, x.completed)
		if r.Validity.Valid {
			c.check(x.completed == x.offered, "validity.valid is true, and of %d %s %d were completed", x.offered, x.name, x.completed)
		}
	}
	c.check(t.EngineHitBlocks <= t.RequestBlocks, "totals.engine_hit_blocks is %d of %d request_blocks", t.EngineHitBlocks, t.RequestBlocks)
}

func (c *checker) timing(r *Record) {
	t, x := &r.Timing, &r.Totals
	c.check(t.EndNS == max(t.LastQueryEndNS, t.LastEventEndNS), "timing.end_ns is %d, and the last query ended at %d, the last event at %d", t.EndNS, t.LastQueryEndNS, t.LastEventEndNS)
	c.check(t.DrainNS == max(0, t.EndNS-t.IssueEndNS), "timing.drain_ns is %d, and from issue_end_ns %d to end_ns %d are %d", t.DrainNS, t.IssueEndNS, t.EndNS, t.EndNS-t.IssueEndNS)
	c.check(t.WindowNS == r.Config.WindowNS, "timing.window_ns is %d, and config.window_ns %d", t.WindowNS, r.Config.WindowNS)
	for _, rate := range []struct {
		name string
		is   float64
		n    int64
		ns   int64
	}{
		{"offered_block_ops_per_sec", r.Rates.OfferedBlockOpsPerSec, x.BlockOps, t.WindowNS},
		{"issued_block_ops_per_sec", r.Rates.IssuedBlockOpsPerSec, x.IssuedBlockOps, t.IssueEndNS},
		{"achieved_block_ops_per_sec", r.Rates.AchievedBlockOpsPerSec, x.CompletedBlockOps, t.EndNS},
		{"issued_ops_per_sec", r.Rates.IssuedOpsPerSec, x.IssuedQueries + x.IssuedEvents, t.IssueEndNS},
		{"achieved_ops_per_sec", r.Rates.AchievedOpsPerSec, x.CompletedQueries + x.CompletedEvents, t.EndNS},
	} {
		want := 0.0
		if rate.ns > 0 {
			want = float64(rate.n) / (float64(rate.ns) / 1e9)
		}
		c.check(math.Abs(rate.is-want) <= 1e-9*math.Abs(want), "rates.%s is %v, and %d in %d ns are %v", rate.name, rate.is, rate.n, rate.ns, want)
	}
}

func (c *checker) latencies(r *Record) {
	q, e, t := &r.Queries, &r.Events, &r.Totals
	for _, x := range []struct {
		name string
		d    *Distribution
		most int64
	}{
		{"queries.issue_lag", &q.IssueLag, t.IssuedQueries},
		{"queries.queue_wait", &q.QueueWait, t.CompletedQueries},
		{"queries.service", &q.Service, t.CompletedQueries},
		{"queries.lookup", &q.Lookup, t.CompletedQueries},
		{"queries.selection", &q.Selection, t.CompletedQueries},
		{"queries.scheduled_to_finished", &q.ScheduledToFinished, t.CompletedQueries},
		{"events.issue_lag", &e.IssueLag, t.IssuedEvents},
		{"events.accepted_to_finished", &e.AcceptedToFinished, t.CompletedEvents},
		{"events.scheduled_to_finished", &e.ScheduledToFinished, t.CompletedEvents},
	} {
		d := x.d
		c.check(d.P50 <= d.P90 && d.P90 <= d.P99 && d.P99 <= d.P999 && d.P999 <= d.Max,
			"%s: the quantiles are not in order: %d, %d, %d, %d, %d", x.name, d.P50, d.P90, d.P99, d.P999, d.Max)
		// Half of the samples are not below the median, and none is above the largest.
		c.check(d.Mean <= float64(d.Max)*(1+1e-9), "%s: the mean is %v and the largest %d", x.name, d.Mean, d.Max)
		c.check(d.N >= 0 && d.N <= x.most, "%s has %d samples of %d operations", x.name, d.N, x.most)
		c.check(d.N > 0 || *d == (Distribution{}), "%s has figures and no samples", x.name)
	}
}

func (c *checker) validity(r *Record) {
	v := &r.Validity
	c.check(v.Valid == (len(v.Reasons) == 0), "validity.valid is %v, and there are %d reasons why not", v.Valid, len(v.Reasons))
	c.check(!v.Interrupted || !v.Valid, "validity: the trial was interrupted and is valid")
	within := float64(r.Timing.EndNS) <= KeptUpLimit*float64(r.Timing.WindowNS)
	c.check(v.KeptUp == (v.Valid && within && !r.Config.Serial), "validity.kept_up is %v of a trial with valid %v that ended at %d of a window of %d ns", v.KeptUp, v.Valid, r.Timing.EndNS, r.Timing.WindowNS)
	if x := r.Verify; x != nil {
		c.check(x.OK == (x.Mismatches == 0), "verify.ok is %v with %d mismatches", x.OK, x.Mismatches)
		c.check(x.OK || !v.Valid, "verify: the index answered wrongly, and the trial is valid")
	}
	for i := range r.Threads {
		t := &r.Threads[i]
		c.check(!v.Valid || !r.Config.Pinned || t.PinConfirmed, "threads: %s %d was not on its CPU, and the trial is valid", t.Role, t.Number)
	}
}

func (c *checker) parts(r *Record) {
	x := &r.Config
	c.check(x.Ranks <= x.Workers*x.DPRanks, "config.ranks is %d of %d workers with %d ranks each", x.Ranks, x.Workers, x.DPRanks)
	if m := r.Resident; m != nil {
		c.check(x.TrackResidentBlocks, "resident_blocks is there, and config.track_resident_blocks is false")
		var sum int64
		for _, n := range m.ByRank {
			sum += n.Blocks
		}
		c.check(sum == m.Sum && len(m.ByRank) == m.Ranks, "resident_blocks: %d ranks have %d blocks by by_rank, and sum is %d of %d", len(m.ByRank), sum, m.Sum, m.Ranks)
		c.check(m.Min <= m.Median && m.Median <= m.Max, "resident_blocks: min, median and max are %d, %d and %d", m.Min, m.Median, m.Max)
	}
	var a RankAnomaly
	for _, n := range r.Anomalies.ByRank {
		a.Duplicate += n.Duplicate
		a.UnknownRemoved += n.UnknownRemoved
		a.Orphaned += n.Orphaned
		a.Conflicting += n.Conflicting
		a.Malformed += n.Malformed
	}
	b := &r.Anomalies
	c.check(a == RankAnomaly{Duplicate: b.Duplicate, UnknownRemoved: b.UnknownRemoved, Orphaned: b.Orphaned, Conflicting: b.Conflicting, Malformed: b.Malformed},
		"anomalies: the sums are not those of by_rank")
	if p := r.Approximate; p != nil {
		c.check(p.PredictedBlocks-p.OverPredicted+p.UnderPredicted == r.Totals.EngineHitBlocks,
			"approximate: predicted - over + under is %d, and totals.engine_hit_blocks %d", p.PredictedBlocks-p.OverPredicted+p.UnderPredicted, r.Totals.EngineHitBlocks)
	}
}
