package replay

import (
	"fmt"
	"iter"
	"slices"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/experimental/residentblocks"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/results/table"
)

// addPartitions gives every query thread its router.
func (t *trial) addPartitions() error {
	cfg := t.cfg
	sizes := partitionSizes(t.corpus, len(t.queryThreads), func(slot uint32) int {
		return t.threadOfLane(laneOf(slot, len(t.lanes)))
	})
	feed := residentblocks.NewFeed(t.pool, residentblocks.ProgressOf(cfg.Placement.Threads.EventThreads, t.pool.Progress), cfg.Log)
	for i, q := range t.queryThreads {
		var err error
		if q.partition, err = newPartition(t.corpus, cfg.Policy, i, sizes[i], &q.answer, feed); err != nil {
			return err
		}
	}
	return nil
}

// endPartitions lets what is still on its way end and reports what does not add up.
func (t *trial) endPartitions() []results.Reason {
	var broken findings
	for _, q := range t.queryThreads {
		p := q.partition
		if p.failures > 0 {
			broken.add("selection_failed", "%d of %d selections of query thread %d failed; the first, %v", p.failures, len(p.choices), q.number, p.failed)
		}
		if len(p.choices) != len(q.done) {
			broken.add("completion", "query thread %d made %d selections for %d queries", q.number, len(p.choices), len(q.done))
		}
		if p.load == nil {
			continue
		}
		p.end()
		if n := p.load.Active(); n != 0 || len(p.due) != 0 {
			broken.add("load_left", "query thread %d still counts %d requests as active after the last one ended", q.number, n)
		}
	}
	return broken.reasons()
}

// policyRecord says what the policy chose.
func (t *trial) policyRecord() *results.Policy {
	policy := t.cfg.Policy
	cache := policy.Inputs().Has(policies.Cache)
	out := &results.Policy{
		Name: policy.Name, Text: policy.Text, Full: policy.Full, Inputs: policy.Inputs().Names(),
		Partitions: len(t.queryThreads), ByPartition: []results.Partition{},
	}
	dispatches := make([]int64, len(t.corpus.Ranks))
	first := uint32(noSlot)
	for _, q := range t.queryThreads {
		p := q.partition
		one := results.Partition{Number: q.number, Failures: p.failures}
		for i := range min(len(p.choices), len(q.done)) {
			c, d := &p.choices[i], &q.done[i]
			if c.slot == noSlot {
				continue
			}
			one.Selections++
			one.ChosenBlocks += int64(c.overlap)
			out.TraceBlocks += int64(d.rankHeld)
			out.BestBlocks += int64(c.best)
			dispatches[c.slot]++
			if t.corpus.Ops[d.op].Slot == c.slot {
				out.TraceRank++
			}
		}
		if p.failures > 0 && p.failedOp < first {
			first, out.FirstFailure = p.failedOp, p.failed.Error()
		}
		out.Selections += one.Selections
		out.Failures += one.Failures
		out.ChosenBlocks += one.ChosenBlocks
		if !cache {
			one.ChosenBlocks = -1
		}
		out.ByPartition = append(out.ByPartition, one)
	}
	if !cache {
		out.ChosenBlocks, out.TraceBlocks, out.BestBlocks = -1, -1, -1
	}
	for _, n := range dispatches {
		if n > 0 {
			out.DistinctRanks++
		}
	}
	out.MaxDispatches = slices.Max(dispatches)
	out.MeanDispatches = float64(out.Selections) / float64(len(dispatches))
	if out.Selections > 0 {
		out.Imbalance = float64(out.MaxDispatches) / out.MeanDispatches
	}
	return out
}

// policyLatencies are the parts of the service of a trial with a policy.
func (t *trial) policyLatencies(rec *results.Record) {
	var upkeeps, lookups, selections, bookings []int64
	for _, q := range t.queryThreads {
		p := q.partition
		for i := range min(len(p.choices), len(q.done)) {
			c := &p.choices[i]
			if p.load != nil {
				upkeeps = append(upkeeps, c.upkeep)
			}
			if p.state.Cache != nil {
				lookups = append(lookups, c.looked-q.done[i].started)
			}
			selections = append(selections, c.selected-c.looked)
			bookings = append(bookings, q.done[i].finished-c.selected)
		}
	}
	rec.Queries.Upkeep = results.Summarize(upkeeps)
	rec.Queries.Lookup = results.Summarize(lookups)
	rec.Queries.Selection = results.Summarize(selections)
	rec.Queries.Booking = results.Summarize(bookings)
}

// decisions are the choices of all partitions in the order of the corpus. A
// serial trial has no times, so that equal decisions are equal rows.
func (t *trial) decisions() iter.Seq[table.Decision] {
	return func(yield func(table.Decision) bool) {
		type place struct{ thread, number int32 }
		where := make([]place, len(t.corpus.Requests))
		for i := range where {
			where[i].thread = -1
		}
		for _, q := range t.queryThreads {
			for i := range min(len(q.partition.choices), len(q.done)) {
				where[t.corpus.Ops[q.done[i].op].Seq] = place{int32(q.number), int32(i)}
			}
		}
		for i := range t.corpus.Ops {
			op := &t.corpus.Ops[i]
			if op.Kind != corpus.Query || where[op.Seq].thread < 0 {
				continue
			}
			at := where[op.Seq]
			if !yield(t.decision(op, t.queryThreads[at.thread], int(at.number))) {
				return
			}
		}
	}
}

func (t *trial) decision(op *corpus.Op, q *queryThread, number int) table.Decision {
	p := q.partition
	c, d, of := &p.choices[number], &q.done[number], &t.corpus.Requests[op.Seq]
	of64 := func(n uint32) *int64 { v := int64(n); return &v }
	drawn := t.corpus.Ranks[op.Slot]
	row := table.Decision{
		Request: int64(op.Seq), TraceRow: int64(of.Row), Session: int64(of.Session),
		QueryThread: int32(q.number), Number: int64(number), DeadlineNS: op.Deadline,
		State:         "failed",
		TraceWorkerID: drawn.Worker, TraceDPRank: drawn.DP,
		Candidates: int64(c.rows), RequestBlocks: int64(op.Len),
	}
	cache := p.state.Cache != nil
	if cache {
		row.TraceOverlapBlocks, row.BestOverlapBlocks = of64(d.rankHeld), of64(c.best)
	}
	if c.slot != noSlot {
		rank := t.corpus.Ranks[indexer.Slot(c.slot)]
		row.State, row.WorkerID, row.DPRank, row.Cost = "chosen", &rank.Worker, &rank.DP, &c.cost
		if cache {
			row.OverlapBlocks = of64(c.overlap)
		}
	}
	if !t.cfg.Serial {
		selection := c.selected - c.looked
		row.SelectionNS = &selection
		if cache {
			lookup := c.looked - d.started
			row.LookupNS = &lookup
		}
	}
	return row
}

// checkPolicy returns an error if the policy cannot be built or the trial has
// nothing to decide with.
func (c *Config) checkPolicy() error {
	if c.Policy == nil {
		if c.Decisions != nil {
			return fmt.Errorf("without a policy nothing is decided; add --policy")
		}
		return nil
	}
	_, err := c.Policy.New(0)
	return err
}
