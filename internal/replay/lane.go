package replay

import (
	"sync/atomic"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/idle"
)

// lane is a queue from the query issuer to one query thread. It has room for
// every query that the corpus has for it, so that publishing never waits.
type lane struct {
	ops  []uint32
	fill int // issuer's own: written, perhaps not yet published
	_    [idle.CacheLine]byte
	tail atomic.Int64 // published
	_    [idle.CacheLine - 8]byte
	head int // query thread's own: taken
	_    [idle.CacheLine]byte
}

// push adds an operation; it is not visible before publish. It reports whether
// there was room, which there is unless the plan was wrong.
func (l *lane) push(op uint32) bool {
	if l.fill == len(l.ops) {
		return false
	}
	l.ops[l.fill] = op
	l.fill++
	return true
}

func (l *lane) publish() { l.tail.Store(int64(l.fill)) }

// queryDone is what a query thread writes for each lookup.
type queryDone struct {
	op       uint32
	lane     uint32
	matched  uint32 // ranks with a match
	rankHeld uint32 // score of the rank that the trace's draw gave the request
	started  int64
	finished int64
}

// queryThread runs the lookups of its lanes.
type queryThread struct {
	number int
	trial  *trial
	lanes  []*lane
	ids    []uint32 // lane numbers
	reader indexer.Reader
	answer indexer.Answer
	// partition is the router that the thread is, nil without a policy.
	partition *partition
	done      []queryDone // sized beforehand, never grown
	full      int64       // results that did not fit
	parker    idle.Parker
	ready     func() bool // hasWork, bound once so that waiting does not allocate
}

// warm runs n lookups of the first queries of the corpus and grows the answer
// to its final size.
func (q *queryThread) warm(n int) {
	q.answer.Grow(len(q.trial.corpus.Ranks))
	for i := range n {
		op := q.trial.plan.queries[i%len(q.trial.plan.queries)]
		q.reader.Find(q.trial.corpus.Locals(op), indexer.FindOptions{}, &q.answer)
	}
	q.answer.Reset()
}

// laneBatch bounds how many lookups of one lane run before the next lane has a
// turn.
const laneBatch = 16

// run answers queries until the issuer has ended and the lanes are empty.
func (q *queryThread) run() {
	t := q.trial
	waiting := idle.Idler{Spin: t.ownCPUs, Parker: &q.parker}
	for {
		// Read before the lanes: what was published before the end is seen.
		ended := t.queriesEnded.Load()
		if t.abort.Load() {
			return
		}
		found := false
		for i, l := range q.lanes {
			tail := int(l.tail.Load())
			if l.head == tail {
				continue
			}
			found = true
			end := min(tail, l.head+laneBatch)
			for ; l.head < end; l.head++ {
				q.serve(l.ops[l.head], q.ids[i])
			}
		}
		switch {
		case found:
			waiting.Reset()
		case ended:
			return
		default:
			waiting.Wait(q.ready)
		}
	}
}

func (q *queryThread) hasWork() bool {
	for _, l := range q.lanes {
		if l.head != int(l.tail.Load()) {
			return true
		}
	}
	return q.trial.queriesEnded.Load() || q.trial.abort.Load()
}

// serve answers one query: it looks it up or, with a policy, chooses a rank.
func (q *queryThread) serve(op, laneID uint32) {
	if q.partition != nil {
		q.choose(op, laneID)
	} else {
		q.lookUp(op, laneID)
	}
}

func (q *queryThread) lookUp(op, laneID uint32) {
	t := q.trial
	locals := t.corpus.Locals(op)
	slot := indexer.Slot(t.corpus.Ops[op].Slot)
	started := t.clock.Now()
	q.reader.Find(locals, indexer.FindOptions{}, &q.answer)
	finished := t.clock.Now()
	if len(q.done) == cap(q.done) {
		q.full++
		return
	}
	q.done = append(q.done, queryDone{
		op:       op,
		lane:     laneID,
		matched:  uint32(len(q.answer.Touched())),
		rankHeld: q.answer.Score(slot),
		started:  started,
		finished: finished,
	})
}

// choose lets the policy choose a rank. The state is brought up to the query's
// deadline before the start, with a stamp of its own, and what the record says of
// the choice is worked out after the end, with none.
func (q *queryThread) choose(op, laneID uint32) {
	t, p := q.trial, q.partition
	o := &t.corpus.Ops[op]
	locals := t.corpus.Locals(op)
	var upkeep int64
	if p.load != nil {
		upkeep = t.clock.Now()
	}
	p.come(o.Deadline)
	if p.load != nil {
		upkeep = t.clock.Now() - upkeep
	}
	p.ask(o, locals)
	cache := p.state.Cache != nil

	started := t.clock.Now()
	looked := started
	if cache {
		q.reader.Find(locals, indexer.FindOptions{}, &q.answer)
		looked = t.clock.Now()
	}
	chosen, err := p.pipeline.Select(&p.request, &p.state)
	selected := t.clock.Now()
	if err == nil {
		err = p.book(&chosen)
	}
	finished := t.clock.Now()

	if len(q.done) == cap(q.done) || len(p.choices) == cap(p.choices) {
		q.full++
		return
	}
	d := queryDone{op: op, lane: laneID, started: started, finished: finished}
	c := choice{upkeep: upkeep, looked: looked, selected: selected, cost: chosen.Cost, slot: uint32(chosen.Slot), overlap: chosen.Overlap, rows: uint32(chosen.Candidates)}
	if cache {
		d.matched, d.rankHeld = uint32(len(q.answer.Touched())), q.answer.Score(indexer.Slot(o.Slot))
		c.best = q.answer.Best()
	}
	if err != nil {
		c.slot, c.overlap = noSlot, 0
		p.fail(op, err)
	}
	q.done = append(q.done, d)
	p.choices = append(p.choices, c)
}
