package prepare

import (
	"fmt"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/retention"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/trace"
)

// approximator stands between the engine of a rank and its recorder. It lets the
// queries through, and in the place of the engine's events it records those that a
// router would make of its own decisions: the requests of the rank, when they
// came, what they generated and when they ended.
type approximator struct {
	rec       *recorder
	trace     *trace.Trace
	blockSize int
	ttl       *retention.TTL // one of the two
	lru       *retention.LRU
	running   map[int]decision // by row
	totals    corpus.Approximate
}

// decision is a request on its way.
type decision struct {
	predicted int
	lease     retention.Lease
}

var _ mocker.Follower = (*approximator)(nil)

func newApproximator(rec *recorder, t *trace.Trace, opts *corpus.Options) (*approximator, error) {
	a := &approximator{rec: rec, trace: t, blockSize: opts.BlockSize, running: map[int]decision{}}
	var err error
	switch slot := indexer.Slot(rec.slot); opts.Approximate {
	case corpus.ApproximateTTL:
		a.ttl, err = retention.NewTTL(slot, time.Duration(opts.TTLNS), rec.Event)
	case corpus.ApproximateLRU:
		a.lru, err = retention.NewLRU(slot, opts.GPUBlocks, rec.Event)
	default:
		err = fmt.Errorf("no approximation is called %q", opts.Approximate)
	}
	return a, err
}

// Query implements mocker.Recorder. What was due before goes first, in its time.
func (a *approximator) Query(at int64, row int, locals []indexer.LocalHash) {
	if a.ttl != nil {
		a.ttl.Advance(at)
	}
	a.rec.Query(at, row, locals)
	var d decision
	if a.ttl != nil {
		d.predicted = a.ttl.Route(at, locals)
	} else {
		d.lease, d.predicted = a.lru.Acquire(at, locals, a.partial(row))
	}
	a.running[row] = d
}

// partial returns how many blocks of a prompt are not full, 0 or 1.
func (a *approximator) partial(row int) int {
	if row < 0 || row >= a.trace.Len() {
		return 0 // the recorder has refused it
	}
	r := a.trace.Request(row)
	if min(r.InputLength, len(r.HashIDs)*a.trace.BlockSize)%a.blockSize > 0 {
		return 1
	}
	return 0
}

// Event implements mocker.Recorder: the router does not hear it.
func (a *approximator) Event(int64, *indexer.Event) {}

// Admitted implements mocker.Follower.
func (a *approximator) Admitted(_ int64, row, hits, most int) {
	predicted := min(a.running[row].predicted, most)
	a.totals.PredictedBlocks += int64(predicted)
	a.totals.OverPredicted += int64(max(0, predicted-hits))
	a.totals.UnderPredicted += int64(max(0, hits-predicted))
}

// FirstToken implements mocker.Follower.
func (a *approximator) FirstToken(at int64, row int) { a.rec.FirstToken(at, row) }

// Grown implements mocker.Follower.
func (a *approximator) Grown(at int64, row int, locals []indexer.LocalHash, partial int) {
	if a.lru != nil {
		a.lru.Materialize(at, a.running[row].lease, locals, partial)
	}
}

// Ended implements mocker.Follower.
func (a *approximator) Ended(at int64, row int) {
	if a.lru != nil {
		a.lru.Release(at, a.running[row].lease)
	}
	delete(a.running, row)
	a.rec.Ended(at, row)
}

// finish lets the time come to the end of the engine, and returns what happened
// and how many of the stored blocks are of answers.
func (a *approximator) finish(end int64) (_ corpus.Approximate, output int64, err error) {
	var s retention.Stats
	if a.ttl != nil {
		a.ttl.Advance(end)
		s = a.ttl.Stats()
		a.totals.ExpiredBlocks = s.Removed
	} else {
		s = a.lru.Stats()
		a.totals.EvictedBlocks = s.Removed
	}
	if n := len(a.running); n > 0 || s.Ignored > 0 {
		return corpus.Approximate{}, 0, fmt.Errorf("the engine left %d requests without an end and spoke of %d after theirs", n, s.Ignored)
	}
	a.totals.Decisions = s.Decisions
	a.totals.OverCapacity = s.OverCapacity
	a.totals.PeakOver = s.PeakOver
	a.totals.PeakBlocks = s.Peak
	a.totals.Collisions = s.Collisions
	return a.totals, s.Output, nil
}
