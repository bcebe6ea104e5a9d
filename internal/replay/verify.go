package replay

import (
	"context"
	"fmt"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/results"
)

// mismatchesShown bounds the mismatches that are kept in words.
const mismatchesShown = 10

// verify feeds the issued events to the reference index, in each rank's order,
// and compares resident counts and a sample of answers with the drained index.
func (t *trial) verify(ctx context.Context, index indexer.Index) (*results.Verify, error) {
	ranks := len(t.corpus.Ranks)
	oracle, err := reference.New(indexer.Config{Threads: 1, Slots: ranks})
	if err != nil {
		return nil, err
	}
	defer oracle.Close()
	w := oracle.Writer(0)
	for slot := range ranks {
		w.Attach(indexer.Slot(slot))
	}
	// An interrupted trial has applied only what was handed over.
	issued := make([]int, len(t.issuers))
	var ev indexer.Event
	for i := range t.corpus.Ops {
		op := &t.corpus.Ops[i]
		if op.Kind == corpus.Query {
			continue
		}
		if i&0x3ff == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		k := t.plan.issuerOf[op.Slot]
		if issued[k] == len(t.issuers[k].handed) {
			continue
		}
		issued[k]++
		t.corpus.Event(uint32(i), &ev)
		w.Apply(&ev)
	}

	out := &results.Verify{OK: true, First: []string{}}
	differ := func(format string, args ...any) {
		out.OK = false
		out.Mismatches++
		if len(out.First) < mismatchesShown {
			out.First = append(out.First, fmt.Sprintf(format, args...))
		}
	}
	// Tracking backfills the counts of an index that was not tracked.
	if err := t.pool.TrackResidentBlocks(ctx); err != nil {
		return nil, fmt.Errorf("resident counts: %w", err)
	}
	table := t.pool.Residents()
	for slot, rank := range t.corpus.Ranks {
		want := uint64(w.Blocks(indexer.Slot(slot)))
		counts, ok := table.Counts(indexer.Slot(slot))
		got := counts.Resident
		if counts.ReachableKnown {
			if want := uint64(oracle.CountReachable(indexer.Slot(slot))); counts.Reachable != want {
				differ("rank %v can reach %d places, the reference says %d", rank, counts.Reachable, want)
			}
		}
		switch {
		case !ok:
			differ("rank %v has no resident count, the reference has %d blocks", rank, want)
		case got != want:
			differ("rank %v has %d resident blocks, the reference has %d", rank, got, want)
		}
		out.Ranks++
	}
	var checked error
	if err := t.pool.Pause(ctx, func() { checked = index.Check() }); err != nil {
		return nil, err
	}
	if checked != nil {
		differ("the index breaks an invariant of its own: %v", checked)
	}

	got, want := index.Reader(), oracle.Reader()
	defer got.Close()
	defer want.Close()
	var a, b indexer.Answer
	n := len(t.plan.queries)
	sample := min(t.cfg.VerifyQueries, n)
	for i := range sample {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		op := t.plan.queries[i*n/sample]
		locals := t.corpus.Locals(op)
		got.Find(locals, indexer.FindOptions{}, &a)
		want.Find(locals, indexer.FindOptions{}, &b)
		for slot, rank := range t.corpus.Ranks {
			if x, y := a.Score(indexer.Slot(slot)), b.Score(indexer.Slot(slot)); x != y {
				differ("operation %d: rank %v scores %d, the reference says %d", op, rank, x, y)
			}
		}
		out.Queries++
	}
	return out, nil
}
