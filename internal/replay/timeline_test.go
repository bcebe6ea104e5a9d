package replay

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/results/table"
)

// TestTimeline computes the record's figures once more from the timeline.
func TestTimeline(t *testing.T) {
	c := testCorpus(t, 300, 200*time.Millisecond)
	cfg := testConfig(t, c, flat.Factory())
	var rows []table.Operation
	cfg.Timeline = func(all iter.Seq[table.Operation]) error {
		for row := range all {
			rows = append(rows, row)
		}
		return nil
	}
	rec := mustRun(t, cfg)
	if len(rows) != len(c.Ops) {
		t.Fatalf("%d rows of %d operations", len(rows), len(c.Ops))
	}
	var lag, wait, service, total, applied []int64
	var blocks, end int64
	byThread := map[string][]int64{"query": make([]int64, 2), "event": make([]int64, 2)}
	for i, r := range rows {
		op := &c.Ops[i]
		query := r.Kind == "query"
		if r.Op != int64(i) || r.Kind != op.Kind.String() || r.DeadlineNS != op.Deadline || r.Blocks != int64(op.Len) || r.Seq != uint64(op.Seq) ||
			r.WorkerID != c.Ranks[op.Slot].Worker || r.DPRank != c.Ranks[op.Slot].DP {
			t.Fatalf("row %d is %+v of %+v", i, r, op)
		}
		if r.AcceptedNS == nil || r.FinishedNS == nil || r.Thread == nil || (r.StartedNS != nil) != query {
			t.Fatalf("row %d lacks stamps: %+v", i, r)
		}
		blocks += r.Blocks
		end = max(end, *r.FinishedNS)
		if query {
			lag = append(lag, *r.AcceptedNS-r.DeadlineNS)
			wait = append(wait, *r.StartedNS-*r.AcceptedNS)
			service = append(service, *r.FinishedNS-*r.StartedNS)
			total = append(total, *r.FinishedNS-r.DeadlineNS)
			byThread["query"][*r.Thread]++
		} else {
			applied = append(applied, max(0, *r.FinishedNS-*r.AcceptedNS))
			byThread["event"][*r.Thread]++
		}
	}
	if blocks != rec.Totals.BlockOps || end != rec.Timing.EndNS {
		t.Errorf("%d block-ops and the end at %d, and the record has %d and %d", blocks, end, rec.Totals.BlockOps, rec.Timing.EndNS)
	}
	for name, x := range map[string]struct {
		samples []int64
		want    results.Distribution
	}{
		"issue lag": {lag, rec.Queries.IssueLag}, "queue wait": {wait, rec.Queries.QueueWait}, "service": {service, rec.Queries.Service},
		"scheduled to finished": {total, rec.Queries.ScheduledToFinished}, "accepted to finished": {applied, rec.Events.AcceptedToFinished},
	} {
		if got := results.Summarize(x.samples); got != x.want {
			t.Errorf("%s: %+v, and the record has %+v", name, got, x.want)
		}
	}
	for _, th := range rec.Threads {
		if n := byThread[th.Role]; n != nil && n[th.Number] != th.Operations {
			t.Errorf("%s thread %d did %d operations, and the record has %d", th.Role, th.Number, n[th.Number], th.Operations)
		}
	}
}

func TestTimelineErrors(t *testing.T) {
	c := testCorpus(t, 300, 50*time.Millisecond)
	cfg := testConfig(t, c, flat.Factory())
	broken := errors.New("no room")
	cfg.Timeline = func(iter.Seq[table.Operation]) error { return broken }
	if _, err := Run(context.Background(), cfg); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	cfg.Serial = true
	if _, err := Run(context.Background(), cfg); err == nil || errors.Is(err, broken) {
		t.Errorf("a timeline of a serial trial: %v", err)
	}
}
