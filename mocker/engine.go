package mocker

import (
	"context"
	"fmt"
	"math"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// engine is one rank in virtual time: its sessions, its blocks and what it tells
// of them. Who runs when is the scheduler's.
type engine struct {
	trace     *trace.Trace
	cfg       Config
	rec       Recorder
	follower  Follower // rec, if it is one; else nil
	pool      *Pool
	scheduler scheduler
	sum       Summary

	agenda  agenda
	numbers uint64 // happenings so far
	eventID uint64

	requests []request
	unused   []int32 // of requests

	evicted []indexer.SequenceHash // by the last reservation
	event   indexer.Event
}

// request is one turn from its arrival to its end. Its buffers are reused.
type request struct {
	row     int
	session int
	turn    int

	content   content
	end       int                    // tokens computed at its end
	run       uint64                 // what is due carries it; another number calls it off
	locals    []indexer.LocalHash    // of the full blocks so far
	sequences []indexer.SequenceHash // of the same
	held      []int32                // copies in the order of the blocks
	told      int                    // locals that the follower knows

	progress // the scheduler's
}

// arriveAll puts the first turn of each session on the agenda.
func (e *engine) arriveAll(sessions []int) error {
	for _, s := range sessions {
		turns := e.trace.Turns(s)
		if len(turns) == 0 {
			continue
		}
		first := e.trace.Request(int(turns[0]))
		at := math.Round(first.Timestamp * 1e6)
		if !(at >= 0 && at < math.MaxInt64/4) {
			return fmt.Errorf("mocker: line %d: a timestamp of %g ms cannot be played; it must be 0 or more and below %d days",
				first.Line, first.Timestamp, math.MaxInt64/4/86_400_000_000_000)
		}
		e.arrive(int64(at), s, 0)
	}
	return nil
}

func newEngine(t *trace.Trace, cfg Config, rec Recorder) *engine {
	e := &engine{trace: t, cfg: cfg, rec: rec, pool: NewPool(cfg.GPUBlocks)}
	e.follower, _ = rec.(Follower)
	e.scheduler = &firstCome{engine: e}
	return e
}

func (e *engine) put(h happening) {
	h.number = e.numbers
	e.numbers++
	e.agenda.push(h)
}

func (e *engine) arrive(at int64, session, turn int) {
	e.put(happening{at: at, kind: arrival, session: int32(session), turn: int32(turn)})
}

// run plays the agenda to its end.
func (e *engine) run(ctx context.Context) error {
	for n := 0; len(e.agenda) > 0; n++ {
		if n&0xff == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h := e.agenda.pop()
		if h.kind == due && h.run != e.requests[h.request].run {
			continue // called off
		}
		e.sum.EndNanos = h.at
		var err error
		if h.kind == arrival {
			err = e.arrived(h)
		} else {
			err = e.scheduler.due(h.at, h.request)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// arrived is a request that asks for a place. One that could never end, since
// the pool has no room for all of it even when nobody else runs, is refused.
func (e *engine) arrived(h happening) error {
	id := e.open(int(h.session), int(h.turn))
	r := &e.requests[id]
	e.sum.Requests++
	e.sum.PromptBlocks += int64(len(r.locals))
	e.rec.Query(h.at, r.row, r.locals)
	if blocksFor(r.end, e.cfg.BlockSize) > e.cfg.GPUBlocks {
		e.sum.Refused++
		return e.close(h.at, id)
	}
	return e.scheduler.arrived(h.at, id)
}

func blocksFor(tokens, size int) int { return (tokens + size - 1) / size }

// open makes a request of a turn, with the hashes of its prompt's full blocks.
func (e *engine) open(session, turn int) int32 {
	var id int32
	if n := len(e.unused); n > 0 {
		id, e.unused = e.unused[n-1], e.unused[:n-1]
	} else {
		id = int32(len(e.requests))
		e.requests = append(e.requests, request{})
	}
	r := &e.requests[id]
	row := int(e.trace.Turns(session)[turn])
	in := e.trace.Request(row)
	*r = request{
		row: row, session: session, turn: turn,
		content: content{
			ids:        in.HashIDs,
			traceBlock: e.trace.BlockSize,
			// Tokens that no id names have no content to hash.
			prompt: min(in.InputLength, len(in.HashIDs)*e.trace.BlockSize),
			output: mix(e.cfg.Seed, uint64(row)),
		},
		run:       r.run,
		locals:    r.locals[:0],
		sequences: r.sequences[:0],
		held:      r.held[:0],
	}
	// The last generated token is never computed.
	r.end = r.content.prompt + max(0, in.OutputLength-1)
	for r.hashBlock(e.cfg.BlockSize, r.content.prompt) {
	}
	r.told = len(r.locals)
	return id
}

// hashBlock appends the hashes of the next block if it ends within tokens.
func (r *request) hashBlock(size, tokens int) bool {
	i := len(r.locals)
	if (i+1)*size > tokens {
		return false
	}
	local := r.content.local(i*size, (i+1)*size)
	var parent indexer.SequenceHash
	if i > 0 {
		parent = r.sequences[i-1]
	}
	r.locals = append(r.locals, local)
	r.sequences = append(r.sequences, sequence(parent, i > 0, local))
	return true
}

// close forgets a request that holds no blocks and lets the next turn of its
// session come.
func (e *engine) close(at int64, id int32) error {
	r := &e.requests[id]
	if e.follower != nil {
		e.follower.Ended(at, r.row)
	}
	turns := e.trace.Turns(r.session)
	if next := r.turn + 1; next < len(turns) {
		in := e.trace.Request(int(turns[next]))
		ns := math.Round(in.Delay * 1e6)
		if !(ns >= 0 && ns < math.MaxInt64/4) || at > math.MaxInt64/2 {
			return fmt.Errorf("mocker: line %d: a delay of %g ms at %g ms cannot be played", in.Line, in.Delay, float64(at)/1e6)
		}
		e.arrive(at+int64(ns), r.session, next)
	}
	r.content.ids = nil
	e.unused = append(e.unused, id)
	return nil
}

// expect makes a request due after n times each ns.
func (e *engine) expect(at int64, id int32, n int, each int64) error {
	if each < 0 || n > 0 && each > (math.MaxInt64-at)/int64(n) {
		return fmt.Errorf("mocker: the time model gives %d times a duration of %d ns at %d ns", n, each, at)
	}
	e.put(happening{at: at + int64(n)*each, kind: due, request: id, run: e.requests[id].run})
	return nil
}

// grown tells the follower how far a request is.
func (e *engine) grown(at int64, r *request) {
	if e.follower == nil {
		return
	}
	e.follower.Grown(at, r.row, r.locals[r.told:], len(r.held)-len(r.locals))
	r.told = len(r.locals)
}

// callOff makes what is due for a request not happen.
func (e *engine) callOff(id int32) { e.requests[id].run++ }

// reserve takes hold of the first hits blocks of a request, which are cached, and
// of fresh ones after those that it holds, and reports what is evicted for them.
// It is false if there is no room, and then nothing has changed.
func (e *engine) reserve(at int64, r *request, hits, fresh int) bool {
	held, evicted, ok := e.pool.Reserve(r.sequences[:hits], fresh, r.held, e.evicted[:0])
	if !ok {
		return false
	}
	r.held, e.evicted = held, evicted
	e.sum.PeakActive = max(e.sum.PeakActive, int64(e.pool.Active()))
	if len(evicted) > 0 {
		e.sum.RemovedBlocks += int64(len(evicted))
		e.emit(at, indexer.Event{Kind: indexer.Removed, Sequences: evicted})
	}
	return true
}

// release gives back all blocks of a request.
func (e *engine) release(r *request) {
	e.pool.Release(r.held)
	r.held = r.held[:0]
}

// stored commits blocks [from, to) of a request and reports those that are new
// in the pool: one event for each run of them.
func (e *engine) stored(at int64, r *request, from, to int) {
	first := from
	flush := func(end int) {
		if first == end {
			return
		}
		ev := indexer.Event{Kind: indexer.Stored, Sequences: r.sequences[first:end], Locals: r.locals[first:end]}
		if first > 0 {
			ev.HasParent, ev.Parent = true, r.sequences[first-1]
		}
		e.sum.StoredBlocks += int64(end - first)
		e.sum.OutputBlocks += int64(end - max(first, min(end, r.content.prompt/e.cfg.BlockSize)))
		e.emit(at, ev)
	}
	for i := from; i < to; i++ {
		if !e.pool.Commit(r.held[i], r.sequences[i]) {
			flush(i)
			first = i + 1
		}
	}
	flush(to)
}

func (e *engine) emit(at int64, ev indexer.Event) {
	ev.ID = e.eventID
	e.eventID++
	e.event = ev
	e.rec.Event(at, &e.event)
}
