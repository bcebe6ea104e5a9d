package replay

import (
	"errors"
	"iter"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/results/table"
)

// checkTimeline returns an error if the trial would have no times to tell of.
func (c *Config) checkTimeline() error {
	if c.Timeline != nil && c.Serial {
		return errors.New("a serial trial does not wait for deadlines, so there is no timeline of it; leave out --timeline or --serial")
	}
	return nil
}

// timeline is every operation with its stamps, in the order of the corpus. What
// never happened, and what threads that did not come back would say, is null.
func (t *trial) timeline(s *stamps) iter.Seq[table.Operation] {
	return func(yield func(table.Operation) bool) {
		queryThread := make([]int32, len(t.corpus.Requests))
		if !t.lost {
			for _, q := range t.queryThreads {
				for i := range q.done {
					queryThread[t.corpus.Ops[q.done[i].op].Seq] = int32(q.number)
				}
			}
		}
		for i := range t.corpus.Ops {
			op := &t.corpus.Ops[i]
			rank := t.corpus.Ranks[op.Slot]
			row := table.Operation{
				Op: int64(i), Kind: op.Kind.String(), WorkerID: rank.Worker, DPRank: rank.DP, Seq: uint64(op.Seq),
				Blocks: int64(op.Len), DeadlineNS: op.Deadline,
			}
			if s.seen[i]&seenHanded != 0 {
				row.AcceptedNS = &s.handed[i]
			}
			if s.seen[i]&seenFinished != 0 {
				row.FinishedNS = &s.finished[i]
				thread := int32(t.pool.ThreadOf(indexer.Slot(op.Slot)))
				if op.Kind == corpus.Query {
					thread = queryThread[op.Seq]
					row.StartedNS = &s.started[i]
				}
				row.Thread = &thread
			}
			if !yield(row) {
				return
			}
		}
	}
}
