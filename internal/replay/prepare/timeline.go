package prepare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/mocker"
)

// slab is a list that grows without moving what it holds, in chunks that double
// up to a limit: a rank with little work takes little, one with much wastes
// little.
type slab[T any] struct {
	chunks [][]T
	n      int
}

// Bounds of the chunks, in values.
const (
	minChunk = 64
	maxChunk = 1 << 16
)

// room returns the last chunk, which has room for at least one value more.
func (s *slab[T]) room() *[]T {
	if n := len(s.chunks); n == 0 {
		s.chunks = append(s.chunks, make([]T, 0, minChunk))
	} else if last := s.chunks[n-1]; len(last) == cap(last) {
		s.chunks = append(s.chunks, make([]T, 0, min(2*cap(last), maxChunk)))
	}
	return &s.chunks[len(s.chunks)-1]
}

// push returns where v is now, until trim.
func (s *slab[T]) push(v T) *T {
	last := s.room()
	*last = append(*last, v)
	s.n++
	return &(*last)[len(*last)-1]
}

// trim gives back what the last chunk has too much. Nothing may be pushed after
// it.
func (s *slab[T]) trim() {
	if n := len(s.chunks); n > 0 {
		s.chunks[n-1] = slices.Clip(slices.Clone(s.chunks[n-1]))
	}
}

// pushHashes appends hashes of any kind to s.
func pushHashes[H ~uint64](s *slab[uint64], hs []H) {
	s.n += len(hs)
	for len(hs) > 0 {
		last := s.room()
		k := min(len(hs), cap(*last)-len(*last))
		for _, h := range hs[:k] {
			*last = append(*last, uint64(h))
		}
		hs = hs[k:]
	}
}

// stream is the queries or the events of a rank in their order. The ops have
// virtual times as deadlines and rows as sequence numbers of queries.
type stream struct {
	ops    slab[corpus.Op]
	hashes slab[uint64]
}

// moments are when a request had its first token and when it ended.
type moments struct {
	first, end int64
	ran        bool // else it was refused, and has no such times
}

// timeline is what happened on a rank.
type timeline struct {
	queries     stream
	events      stream
	requests    slab[moments] // by query
	first, last int64         // times of ops, if there is at least one

	approximate corpus.Approximate // if the events are
}

// ops returns the number of ops.
func (l *timeline) ops() int { return l.queries.ops.n + l.events.ops.n }

// span returns the time from the first to the last op in ns.
func (l *timeline) span() uint64 { return uint64(l.last) - uint64(l.first) }

// recorder writes what an engine reports to a timeline. It distrusts the engine:
// what would break the corpus ends the rank with an error.
type recorder struct {
	line  *timeline
	slot  uint32
	rows  int // of the trace
	tally *tally
	stop  context.CancelFunc // ends the engine
	err   error
	// running are the requests that have not ended, by row.
	running map[int]*moments
	now     int64 // when something was last reported of a request, if heard
	heard   bool

	newQueries, newOps int64 // not in the tally yet
}

var _ mocker.Follower = (*recorder)(nil)

// Query implements mocker.Recorder.
func (r *recorder) Query(at int64, row int, locals []indexer.LocalHash) {
	if !r.enter(at) || !r.tick(at) {
		return
	}
	if row < 0 || row >= r.rows {
		r.fail(fmt.Errorf("the engine reports row %d of %d", row, r.rows))
		return
	}
	if r.running[row] != nil {
		r.fail(fmt.Errorf("the engine reports row %d twice", row))
		return
	}
	if r.running == nil {
		r.running = map[int]*moments{}
	}
	r.running[row] = r.line.requests.push(moments{})
	r.line.queries.ops.push(corpus.Op{Deadline: at, Seq: uint32(row), Len: uint32(len(locals)), Slot: r.slot, Kind: corpus.Query})
	pushHashes(&r.line.queries.hashes, locals)
	r.newQueries++
	r.count()
}

// Event implements mocker.Recorder.
func (r *recorder) Event(at int64, ev *indexer.Event) {
	if !r.enter(at) {
		return
	}
	s := &r.line.events
	op := corpus.Op{Deadline: at, Seq: uint32(s.ops.n), Len: uint32(len(ev.Sequences)), Slot: r.slot, Kind: corpus.Kind(ev.Kind)}
	if err := checkEvent(ev, uint64(s.ops.n)); err != nil {
		r.fail(err)
		return
	}
	if ev.HasParent {
		op.HasParent, op.Parent = 1, uint64(ev.Parent)
	}
	s.ops.push(op)
	pushHashes(&s.hashes, ev.Sequences)
	pushHashes(&s.hashes, ev.Locals)
	r.count()
}

// Admitted implements mocker.Follower.
func (r *recorder) Admitted(int64, int, int, int) {}

// FirstToken implements mocker.Follower.
func (r *recorder) FirstToken(at int64, row int) {
	m := r.request(at, row)
	switch {
	case m == nil:
	case m.ran:
		r.fail(fmt.Errorf("the engine reports two first tokens of row %d", row))
	default:
		m.first, m.ran = at, true
	}
}

// Grown implements mocker.Follower.
func (r *recorder) Grown(int64, int, []indexer.LocalHash, int) {}

// Ended implements mocker.Follower.
func (r *recorder) Ended(at int64, row int) {
	if m := r.request(at, row); m != nil {
		m.end = at
		delete(r.running, row)
	}
}

// request returns what is known of a request on its way of which something is
// reported, nil if that cannot be.
func (r *recorder) request(at int64, row int) *moments {
	if !r.tick(at) {
		return nil
	}
	m := r.running[row]
	if m == nil {
		r.fail(fmt.Errorf("the engine speaks of row %d, which is not on its way", row))
	}
	return m
}

func checkEvent(ev *indexer.Event, id uint64) error {
	bad := func(why string) error {
		return fmt.Errorf("the engine's %s event %d %s", ev.Kind, ev.ID, why)
	}
	stored := ev.Kind == indexer.Stored
	switch {
	case ev.ID != id || id > math.MaxUint32:
		return bad(fmt.Sprintf("should have id %d", id))
	case !stored && ev.Kind != indexer.Removed && ev.Kind != indexer.Cleared:
		return bad("is of no known kind")
	case ev.HasParent && !stored:
		return bad("has a parent")
	case stored && len(ev.Locals) != len(ev.Sequences):
		return bad(fmt.Sprintf("has %d sequence hashes and %d local hashes", len(ev.Sequences), len(ev.Locals)))
	case !stored && len(ev.Locals) > 0:
		return bad("has local hashes")
	case ev.Kind == indexer.Cleared && len(ev.Sequences) > 0:
		return bad("has blocks")
	}
	return nil
}

// enter takes note of the time of an op and says whether to go on.
func (r *recorder) enter(at int64) bool {
	l := r.line
	switch {
	case r.err != nil:
		return false
	case l.ops() == 0:
		l.first = at
	case at < l.last:
		r.fail(fmt.Errorf("the engine's time went back from %d to %d ns", l.last, at))
		return false
	}
	l.last = at
	return true
}

// tick takes note of a time at which something is reported of a request, and says
// whether to go on. Events have a time of their own: those of approximate
// retention are reported late.
func (r *recorder) tick(at int64) bool {
	switch {
	case r.err != nil:
		return false
	case r.heard && at < r.now:
		r.fail(fmt.Errorf("the engine's time went back from %d to %d ns", r.now, at))
		return false
	}
	r.now, r.heard = at, true
	return true
}

func (r *recorder) fail(err error) {
	r.err = err
	r.stop()
}

// count tells the tally now and then, so that engines do not meet there often.
func (r *recorder) count() {
	if r.newOps++; r.newOps == 1024 {
		r.report()
	}
}

func (r *recorder) report() {
	if err := r.tally.add(r.newQueries, r.newOps); err != nil {
		r.fail(err)
	}
	r.newQueries, r.newOps = 0, 0
}

// finish ends the timeline of an engine that had so many requests to play.
func (r *recorder) finish(requests int) {
	if n := r.line.queries.ops.n; n != requests {
		r.fail(errors.Join(r.err, fmt.Errorf("the engine reports %d of %d requests", n, requests)))
		return
	}
	if n := len(r.running); n > 0 {
		r.fail(errors.Join(r.err, fmt.Errorf("the engine leaves %d requests without an end", n)))
		return
	}
	r.report()
	r.line.requests.trim()
	for _, s := range []*stream{&r.line.queries, &r.line.events} {
		s.ops.trim()
		s.hashes.trim()
	}
}
