package simulate

import (
	"errors"
	"fmt"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/trace"
)

// audit checks, in builds with the tag invariants, that nothing gets lost in a
// run: requests and blocks are all accounted for at every sample, and the events of
// all ranks, put into an index of their own, give what the engines hold in the end.
type audit struct {
	index  indexer.Index
	writer indexer.Writer
	first  error
}

func newAudit(ranks int) (*audit, error) {
	index, err := reference.New(indexer.Config{Threads: 1, Slots: ranks})
	if err != nil {
		return nil, err
	}
	a := &audit{index: index, writer: index.Writer(0)}
	for slot := range ranks {
		a.writer.Attach(indexer.Slot(slot))
	}
	return a, nil
}

func (a *audit) fail(format string, args ...any) {
	if a.first == nil {
		a.first = fmt.Errorf(format, args...)
	}
}

// event takes a rank's event.
func (a *audit) event(rank int, ev *indexer.Event) {
	e := *ev
	e.Slot = indexer.Slot(rank)
	if did := a.writer.Apply(&e); did.Orphaned+did.Conflicting+did.UnknownRemoved+did.Duplicate+did.Malformed > 0 {
		a.fail("event %d of rank %d is odd: %+v", ev.ID, rank, did)
	}
}

// sample checks the numbers of a rank.
func (a *audit) sample(rank, pool int, c *engine.Counts) {
	if c.Submitted != c.Refused+c.Done+int64(c.Waiting+c.Running) {
		a.fail("rank %d got %d requests; %d refused, %d done, %d waiting, %d running", rank, c.Submitted, c.Refused, c.Done, c.Waiting, c.Running)
	}
	if c.ActiveBlocks+c.IdleBlocks+c.FreeBlocks != pool {
		a.fail("rank %d has %d blocks; %d active, %d idle, %d free", rank, pool, c.ActiveBlocks, c.IdleBlocks, c.FreeBlocks)
	}
}

// finish compares the index with the engines: how much each holds, and how much of
// every prompt with its answer.
func (a *audit) finish(t *trace.Trace, size int, seed uint64, engines []rankEngine) error {
	prompts := mocker.NewPrompts(t, size)
	reader := a.index.Reader()
	defer reader.Close()
	for rank, e := range engines {
		if have, want := a.writer.Blocks(indexer.Slot(rank)), e.Counts().Resident; have != want {
			a.fail("the events of rank %d leave %d blocks, its pool has %d", rank, have, want)
		}
	}
	var chain mocker.Chain
	var answer indexer.Answer
	answer.Grow(len(engines))
	for row := range t.Len() {
		chain.StartIn(prompts, row, seed)
		known := chain.Prompt() + max(0, t.Request(row).OutputLength-1)
		locals, _ := chain.Blocks(known)
		reader.Find(locals, indexer.FindOptions{}, &answer)
		scores := answer.Scores()
		for rank, e := range engines {
			if have, want := int(scores[rank])*size, e.Cached(&chain, known); have != want {
				a.fail("row %d: the events of rank %d leave %d of its tokens there, its pool has %d", row, rank, have, want)
			}
		}
	}
	return errors.Join(a.first, a.index.Close())
}
