package replay

import (
	"fmt"
	"math"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/idle"
)

// issueBatch bounds how many operations an issuer that is behind hands over
// with one clock reading and one publication.
const issueBatch = 64

// sleepSlice bounds one sleep, so that an interrupted trial ends soon.
const sleepSlice = int64(50 * time.Millisecond)

// issued is what an issuer writes for each operation, in the order of its plan.
type issued = int64 // ns from the start at which it was handed over

// waitUntil sleeps and then spins until deadline. It returns the time, or false
// if the trial was stopped.
func (t *trial) waitUntil(deadline int64) (int64, bool) {
	for {
		now := t.clock.Now()
		if now >= deadline {
			return now, !t.stop.Load()
		}
		if t.stop.Load() {
			return now, false
		}
		if left := deadline - now; left > t.spinNS {
			t.clock.SleepUntil(now + min(left-t.spinNS, sleepSlice))
		} else {
			idle.Pause()
		}
	}
}

// queryIssuer publishes queries to lanes at their deadlines.
type queryIssuer struct {
	trial  *trial
	handed []issued // by position in plan.queries
	dirty  []int    // lanes pushed to since the last publication
	isIn   []bool   // by lane: in dirty
	err    error
}

func (q *queryIssuer) run() {
	t := q.trial
	defer func() {
		t.publishedThrough.Store(math.MaxInt64)
		t.queriesEnded.Store(true)
		for i := range t.queryThreads {
			t.queryThreads[i].parker.Wake()
		}
	}()
	ops, queries := t.corpus.Ops, t.plan.queries
	for pos := 0; pos < len(queries); {
		now, ok := t.waitUntil(t.start + ops[queries[pos]].Deadline)
		if !ok {
			return
		}
		first := pos
		for pos < len(queries) && pos-first < issueBatch && t.start+ops[queries[pos]].Deadline <= now {
			op := queries[pos]
			lane := laneOf(ops[op].Slot, len(t.lanes))
			if !t.lanes[lane].push(op) {
				q.err = fmt.Errorf("query lane %d has no room for operation %d", lane, op)
				return
			}
			if !q.isIn[lane] {
				q.isIn[lane] = true
				q.dirty = append(q.dirty, lane)
			}
			pos++
		}
		// Stamped before the publication: no query starts before it was issued.
		handed := t.clock.Now()
		for i := first; i < pos; i++ {
			q.handed = append(q.handed, handed)
		}
		for _, lane := range q.dirty {
			t.lanes[lane].publish()
			q.isIn[lane] = false
			if !t.ownCPUs {
				t.queryThreads[t.threadOfLane(lane)].parker.Wake()
			}
		}
		q.dirty = q.dirty[:0]
		if pos < len(queries) {
			t.publishedThrough.Store(int64(queries[pos]))
		}
	}
}

// eventIssuer hands the events of a contiguous group of ranks to the pool.
type eventIssuer struct {
	number   int
	trial    *trial
	producer *indexer.Producer
	handed   []issued // by position in plan.events[number]
	err      error
}

func (e *eventIssuer) run() {
	t := e.trial
	ops, events := t.corpus.Ops, t.plan.events[e.number]
	defer e.producer.Publish()
	published := int64(-1) // queries before this operation are published
	for pos := 0; pos < len(events); {
		now, ok := t.waitUntil(t.start + ops[events[pos]].Deadline)
		if !ok {
			return
		}
		first := pos
		for pos < len(events) && pos-first < issueBatch && t.start+ops[events[pos]].Deadline <= now {
			op := events[pos]
			if int64(op) >= published {
				// Only the first event of a batch may wait for queries: what
				// was pushed is not held back.
				if pos > first {
					if published = t.publishedThrough.Load(); int64(op) >= published {
						break
					}
				} else if published, ok = t.awaitQueries(int64(op)); !ok {
					return
				}
			}
			if err := e.producer.Push(indexer.Slot(ops[op].Slot), op); err != nil {
				e.err = fmt.Errorf("operation %d: %w", op, err)
				return
			}
			pos++
		}
		handed := t.clock.Now()
		for i := first; i < pos; i++ {
			e.handed = append(e.handed, handed)
		}
		e.producer.Publish()
	}
}

// awaitQueries waits until all queries before operation op are published. It
// returns the first operation up to which that is so, or false if the trial was
// stopped.
func (t *trial) awaitQueries(op int64) (int64, bool) {
	waiting := idle.Idler{Spin: t.ownCPUs}
	for {
		if published := t.publishedThrough.Load(); op < published {
			return published, !t.stop.Load()
		}
		if t.stop.Load() {
			return 0, false
		}
		waiting.Wait(nil)
	}
}
