package mocker

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// engine is one rank in virtual time.
type engine struct {
	trace *trace.Trace
	cfg   Config
	rec   Recorder
	pool  *Pool
	sum   Summary

	agenda  agenda
	numbers uint64 // happenings so far
	eventID uint64

	requests []request
	unused   []int32 // of requests
	waiting  []int32 // requests in the order in which they are to be admitted
	running  []int32 // requests in the order of their admission

	evicted []indexer.SequenceHash
	event   indexer.Event
}

// request is one turn from its arrival to its end. Its buffers are reused.
type request struct {
	row     int
	session int
	turn    int

	content   content
	computed  int // tokens whose KV is in the pool or about to be
	target    int // tokens computed when the next happening of it is due
	end       int // tokens computed at its end
	admitted  bool
	run       uint64 // counts admissions, so that happenings of an old one are known
	locals    []indexer.LocalHash
	sequences []indexer.SequenceHash
	held      []int32 // copies in the order of the blocks
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
	return &engine{trace: t, cfg: cfg, rec: rec, pool: NewPool(cfg.GPUBlocks)}
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
		e.sum.EndNanos = h.at
		var err error
		if h.kind == arrival {
			err = e.arrived(h)
		} else {
			err = e.progressed(h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// arrived is a request that asks for a place.
func (e *engine) arrived(h happening) error {
	id := e.open(int(h.session), int(h.turn))
	r := &e.requests[id]
	full := len(r.locals)
	e.sum.Requests++
	e.sum.PromptBlocks += int64(full)
	e.rec.Query(h.at, r.row, r.locals)
	if blocksFor(r.end, e.cfg.BlockSize) > e.cfg.GPUBlocks {
		e.sum.Refused++
		return e.close(h.at, id)
	}
	e.waiting = append(e.waiting, id)
	if err := e.admit(h.at); err != nil {
		return err
	}
	e.sum.PeakQueue = max(e.sum.PeakQueue, int64(len(e.waiting)))
	return nil
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
	r.computed = r.content.prompt
	// The last generated token is never computed.
	r.end = r.content.prompt + max(0, in.OutputLength-1)
	for r.hashBlock(e.cfg.BlockSize, r.content.prompt) {
	}
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

// close ends a request and lets the next turn of its session come.
func (e *engine) close(at int64, id int32) error {
	r := &e.requests[id]
	turns := e.trace.Turns(r.session)
	if next := r.turn + 1; next < len(turns) {
		in := e.trace.Request(int(turns[next]))
		wait := in.Delay
		if math.IsNaN(wait) {
			wait = in.Timestamp - e.trace.Request(r.row).Timestamp
		}
		if math.IsNaN(wait) {
			wait = 0
		}
		ns := math.Round(wait * 1e6)
		if !(ns >= 0 && ns < math.MaxInt64/4) || at > math.MaxInt64/2 {
			return fmt.Errorf("mocker: line %d: a wait of %g ms cannot be played", in.Line, wait)
		}
		e.arrive(at+int64(ns), r.session, next)
	}
	r.content.ids = nil
	e.unused = append(e.unused, id)
	return nil
}

// admit lets waiting requests run, in their order, while there is room.
func (e *engine) admit(at int64) error {
	for len(e.waiting) > 0 {
		id := e.waiting[0]
		r := &e.requests[id]
		size := e.cfg.BlockSize
		// At least one token must be computed, so a prompt that is cached whole
		// does without its last block.
		hits := e.pool.Lookup(r.sequences[:max(0, r.computed-1)/size])
		held, evicted, ok := e.pool.Reserve(r.sequences[:hits], blocksFor(r.computed, size)-hits, r.held[:0], e.evicted[:0])
		if !ok {
			return nil
		}
		r.held, e.evicted = held, evicted
		e.waiting = slices.Delete(e.waiting, 0, 1)
		e.running = append(e.running, id)
		if !r.admitted {
			r.admitted = true
			e.sum.HitBlocks += int64(hits)
		}
		e.sum.PeakActive = max(e.sum.PeakActive, int64(e.pool.Active()))
		e.removed(at)
		e.stored(at, r, hits, len(r.sequences))
		took := e.cfg.Time.Prefill(r.computed-hits*size, hits*size)
		r.run++
		r.target = r.computed
		if err := e.schedule(at, took, id); err != nil {
			return err
		}
	}
	return nil
}

// schedule makes a request's next happening due after took ns.
func (e *engine) schedule(at, took int64, id int32) error {
	if took < 0 || at > math.MaxInt64-took {
		return fmt.Errorf("mocker: the time model gives a duration of %d ns at %d ns", took, at)
	}
	e.put(happening{at: at + took, kind: progress, request: id, run: e.requests[id].run})
	return nil
}

// progressed is a request that has computed target tokens: its prompt, the last
// token of a block, or its last token.
func (e *engine) progressed(h happening) error {
	r := &e.requests[h.request]
	if r.run != h.run {
		return nil // of an admission that was preempted
	}
	size := e.cfg.BlockSize
	r.computed = r.target
	for r.hashBlock(size, r.computed) {
		e.stored(h.at, r, len(r.sequences)-1, len(r.sequences))
	}
	if r.computed == r.end {
		e.finish(h.request)
		if err := e.close(h.at, h.request); err != nil {
			return err
		}
		return e.admit(h.at)
	}
	// The next token needs a block of its own at a boundary.
	if r.computed == len(r.held)*size {
		if !e.grow(h.at, h.request) {
			return nil
		}
		r = &e.requests[h.request]
	}
	r.target = min(r.end, len(r.held)*size)
	return e.schedule(h.at, int64(r.target-r.computed)*e.cfg.Time.Decode(r.computed), h.request)
}

// grow gives a running request one more block, preempting the requests admitted
// last while there is no room. It is false if that was the request itself.
func (e *engine) grow(at int64, id int32) bool {
	for {
		r := &e.requests[id]
		held, evicted, ok := e.pool.Reserve(nil, 1, r.held, e.evicted[:0])
		if ok {
			r.held, e.evicted = held, evicted
			e.sum.PeakActive = max(e.sum.PeakActive, int64(e.pool.Active()))
			e.removed(at)
			return true
		}
		victim := e.running[len(e.running)-1]
		e.finish(victim)
		e.sum.Preempted++
		// It goes to the front of the line with what it has generated.
		e.waiting = slices.Insert(e.waiting, 0, victim)
		e.sum.PeakQueue = max(e.sum.PeakQueue, int64(len(e.waiting)))
		if victim == id {
			return false
		}
	}
}

// finish takes a request from the running ones and releases its blocks.
func (e *engine) finish(id int32) {
	r := &e.requests[id]
	r.run++
	e.pool.Release(r.held)
	r.held = r.held[:0]
	i := slices.Index(e.running, id)
	e.running = slices.Delete(e.running, i, i+1)
}

// removed reports what the last reservation evicted.
func (e *engine) removed(at int64) {
	if len(e.evicted) == 0 {
		return
	}
	e.sum.RemovedBlocks += int64(len(e.evicted))
	e.emit(at, indexer.Event{Kind: indexer.Removed, Sequences: e.evicted})
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
