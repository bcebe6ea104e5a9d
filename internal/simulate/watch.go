package simulate

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker/engine"
)

// watch stands between the fleet and the engines of a run, for what neither counts:
// what requests had when they were admitted again after they lost their blocks, and
// the request that no rank could hold, if the run is strict.
type watch struct {
	ranks  []rankWatch
	live   *underway
	strict func(rank int, row uint64, why engine.Refusal)
	audit  *audit // nil: do not check
}

func newWatch(ranks int, u *underway, strict func(int, uint64, engine.Refusal)) *watch {
	w := &watch{ranks: make([]rankWatch, ranks), live: u, strict: strict}
	for i := range w.ranks {
		w.ranks[i] = rankWatch{watch: w, number: i}
	}
	return w
}

// rankWatch is an engine, and what listens to it.
type rankWatch struct {
	rankEngine
	watch  *watch
	number int
	next   engine.Listener
	pieces engine.PieceReader // the same, if it wants KV events in pieces
}

// Submit implements fleet.Engine.
func (r *rankWatch) Submit(now int64, req engine.Request) engine.Refusal {
	w := r.watch
	w.live.of(req.ID).prompt = int32(req.Chain.Prompt())
	why := r.rankEngine.Submit(now, req)
	if why != engine.Accepted && w.strict != nil {
		w.strict(r.number, req.ID, why)
	}
	return why
}

// ReadsBlocks implements engine.BlockReader.
func (r *rankWatch) ReadsBlocks() bool { return r.watch.audit != nil || engine.ReadsBlocks(r.next) }

// Event implements engine.Listener.
func (r *rankWatch) Event(at int64, ev *indexer.Event) {
	if r.watch.audit != nil {
		r.watch.audit.event(r.number, ev)
		if r.pieces != nil {
			return // the event comes once more, in pieces
		}
	}
	r.next.Event(at, ev)
}

// ReadsPieces implements engine.PieceReader.
func (r *rankWatch) ReadsPieces() bool { return r.pieces != nil }

// Pieces implements engine.PieceReader.
func (r *rankWatch) Pieces(at int64, ev *engine.Pieces) { r.pieces.Pieces(at, ev) }

// Admitted implements engine.Listener.
func (r *rankWatch) Admitted(at int64, id uint64, cached int, again bool) {
	if again {
		l := r.watch.live.of(id)
		l.again.tokens += int64(l.prompt) + int64(l.output)
		l.again.hits += int64(cached)
	}
	r.next.Admitted(at, id, cached, again)
}

// Token implements engine.Listener.
func (r *rankWatch) Token(at int64, id uint64, n int) {
	r.watch.live.of(id).output = int32(n)
	r.next.Token(at, id, n)
}

// Tokens implements engine.TokenReader.
func (r *rankWatch) Tokens(ids []uint64, at []int64) {
	for _, id := range ids {
		r.watch.live.of(id).output += int32(len(at))
	}
	if next, ok := r.next.(engine.TokenReader); ok {
		next.Tokens(ids, at)
		return
	}
	for k, t := range at {
		for _, id := range ids {
			r.next.Token(t, id, int(r.watch.live.of(id).output)-len(at)+k+1)
		}
	}
}

// Preempted implements engine.Listener.
func (r *rankWatch) Preempted(at int64, id uint64) { r.next.Preempted(at, id) }

// Done implements engine.Listener.
func (r *rankWatch) Done(at int64, id uint64) { r.next.Done(at, id) }

// residency sums up at the end of the run.
func (w *watch) residency(until int64) Residency {
	var cached, dead float64
	for i := range w.ranks {
		r := w.ranks[i].Residency(until)
		cached += float64(r.Cached)
		dead += float64(r.Dead)
	}
	if cached == 0 {
		return Residency{}
	}
	return Residency{CachedBlockSeconds: cached / 1e9, DeadShare: dead / cached}
}

// refused is the error of a strict run.
type refused struct {
	rank, row, line int
	why             engine.Refusal
}

func (e *refused) Error() string {
	return fmt.Sprintf("line %d, row %d of the trace: rank %d refuses the request (%v); give --gpu-blocks that hold it, or leave --strict out to count such requests",
		e.line, e.row, e.rank, e.why)
}
