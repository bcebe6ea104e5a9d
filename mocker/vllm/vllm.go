// Package vllm imitates the scheduler, the block pool and the KV events of vLLM's
// engine (V1) as far as a router can see them.
//
// # A pass
//
// The engine works in passes: a batch is put together and computed as one. A
// pass has a budget of tokens. Requests that run get theirs first, in the order
// of their admission: the one token that they generated last, or the next chunk
// of a prompt. What is left admits waiting requests in the order of their
// arrival, unless a running one lost its blocks in this pass:
//
//   - A request is admitted when all that is known of it fits: its blocks, less
//     those that it finds in the cache and that others hold. If it does not, all
//     behind it wait as well. (Config.FirstChunkOnly: only its first chunk must
//     fit.) A watermark of blocks can be kept free while others run.
//   - What the cache has of it is not computed, but for the last token known,
//     which always is; the cache is looked up in whole blocks from the start.
//   - If a running request needs a block and there is none, the one admitted last
//     loses its blocks, which may be the request itself, and goes to the front of
//     the line. It keeps the tokens that it generated and computes them anew.
//
// A block becomes known to others, and a Stored event says so, when the pass that
// computes its last token is put together: before it is computed, as vLLM does.
// So requests of one pass share. Tokens appear at the end of the pass. The token
// generated last is computed in a later pass, the last one of an answer never.
//
// # The pool
//
// Physical blocks, several of which may have the same content; blocks are given
// back from the last to the first, so that leaves are evicted before what they
// follow. A Removed event says that the last copy is gone. See cache.go for how
// it is kept.
//
// # What it does not do
//
// Priorities, sliding windows, speculative tokens, LoRA, offloading to other
// tiers, and transfer of blocks between engines. Events go out once for each
// content, not for each copy.
package vllm

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/invariants"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/steptime"
)

// Config describes an engine.
type Config struct {
	// Blocks is the size of the pool, from 1 to 2^30, BlockSize the tokens of a
	// block. vLLM keeps one block for itself: of N blocks of its, N-1 are here.
	Blocks    int
	BlockSize int
	// MaxBatchedTokens is the budget of a pass.
	MaxBatchedTokens int
	// MaxSeqs is how many requests run at one time at most.
	MaxSeqs int
	// MaxModelLen, if not 0, is the most tokens of a prompt with its answer.
	// Longer prompts are refused, answers end there.
	MaxModelLen int
	// NoChunkedPrefill lets a prompt wait until a pass has room for all of it.
	NoChunkedPrefill bool
	// FirstChunkOnly admits a request when its first chunk fits.
	FirstChunkOnly bool
	// Watermark is the share of the blocks, 0 to 1, that an admission must leave
	// free or idle while other requests run.
	Watermark float64
	// Time gives the durations of passes.
	Time steptime.Model
}

// Default returns vLLM's usual limits for a server with one data-centre GPU: a
// budget of 8,192 tokens and 256 requests. The caller sets pool and time.
func Default() Config {
	return Config{BlockSize: 16, MaxBatchedTokens: 8192, MaxSeqs: 256}
}

// Validate returns an error if the configuration makes no engine.
func (c *Config) Validate() error {
	switch {
	case c.Blocks < 1 || c.Blocks > 1<<30:
		return fmt.Errorf("vllm: a pool of %d blocks; there must be 1 to 2^30", c.Blocks)
	case c.BlockSize < 1 || c.BlockSize > 1<<20:
		return fmt.Errorf("vllm: blocks of %d tokens; there must be 1 to 2^20", c.BlockSize)
	case c.MaxBatchedTokens < 1:
		return fmt.Errorf("vllm: a budget of %d tokens; there must be at least 1", c.MaxBatchedTokens)
	case c.MaxSeqs < 1:
		return fmt.Errorf("vllm: at most %d requests at a time; there must be at least 1", c.MaxSeqs)
	case c.MaxModelLen < 0:
		return fmt.Errorf("vllm: a maximum length of %d; it must not be negative", c.MaxModelLen)
	case !(c.Watermark >= 0 && c.Watermark <= 1):
		return fmt.Errorf("vllm: a watermark of %g; it must be from 0 to 1", c.Watermark)
	case c.Time == nil:
		return fmt.Errorf("vllm: no time model")
	}
	if m, ok := c.Time.(interface{ Validate() error }); ok {
		return m.Validate()
	}
	return nil
}

// Engine is one engine. It belongs to one goroutine.
type Engine struct {
	cfg       Config
	listener  engine.Listener
	tokens    engine.TokenReader // the listener, if it is one
	pieces    engine.PieceReader // the same, if it wants KV events in pieces
	slow      bool               // do without decode, for tests
	cache     *cache
	watermark int

	now  int64
	busy bool
	end  int64 // of the pass that runs

	requests []request
	unused   []int32
	waiting  queue
	running  []int32 // in the order of admission
	batch    []share // of the pass that runs
	pass     steptime.Pass

	counts  engine.Counts
	eventID uint64
	changes uint64 // of the pool's content and of who holds it
	blocked struct {
		id      int32
		changes uint64
	}

	spans  []span // scratch of admit
	steps  steps
	event  indexer.Event
	parts  engine.Pieces
	stored []engine.Piece // scratch of partsOf
}

// request is one in the engine. Its buffers are reused.
type request struct {
	id        uint64
	chain     *mocker.Chain
	held      held
	output    int // tokens to generate
	known     int // tokens of the prompt and generated ones
	computed  int // of these, before the pass that runs
	generated int
	missing   int  // of Backlog, while it waits; -1: not known yet
	admitted  bool // at least once
}

// share is what a request computes in a pass.
type share struct {
	id     int32
	tokens int32
}

// New makes an idle engine at time 0 that tells listener what it does.
func New(cfg Config, listener engine.Listener) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, listener: listener, cache: newCache(cfg.Blocks, engine.ReadsBlocks(listener)), watermark: int(cfg.Watermark * float64(cfg.Blocks))}
	e.blocked.id = -1
	e.tokens, _ = listener.(engine.TokenReader)
	e.pieces = engine.PiecesTo(listener)
	return e, nil
}

// Counts returns the engine's numbers.
func (e *Engine) Counts() engine.Counts {
	c := e.counts
	c.Waiting, c.Running = e.waiting.len(), len(e.running)
	c.ActiveBlocks = e.cache.active()
	c.IdleBlocks = e.cache.idle
	c.FreeBlocks = e.cache.capacity - e.cache.used
	c.Resident = e.cache.distinct
	return c
}

// Residency returns how long blocks were in the cache until a time that is not
// before the last change.
func (e *Engine) Residency(until int64) engine.Residency {
	cached, dead := e.cache.residency(until)
	return engine.Residency{Cached: cached, Dead: dead}
}

// Submit hands a request over at time now, which is not before that of any
// earlier call. One that could never be served is refused and forgotten.
func (e *Engine) Submit(now int64, r engine.Request) engine.Refusal {
	e.advanceClock(now)
	e.counts.Submitted++
	output := r.Output
	prompt := r.Chain.Prompt()
	if e.cfg.MaxModelLen > 0 {
		output = min(output, max(0, e.cfg.MaxModelLen-prompt))
	}
	if why := e.refuse(prompt, output); why != engine.Accepted {
		e.counts.Refused++
		return why
	}
	if r.Chain.Path() == nil {
		panic("vllm: a request whose chain has no path; see mocker.Chain.StartIn")
	}
	id := e.place()
	q := &e.requests[id]
	*q = request{id: r.ID, chain: r.Chain, held: held{spans: q.held.spans[:0]}, output: output, known: prompt, missing: -1}
	e.waiting.pushBack(id)
	return engine.Accepted
}

func (e *Engine) refuse(prompt, output int) engine.Refusal {
	most := prompt + max(0, output-1) // the last token is not computed
	switch {
	case prompt == 0:
		return engine.EmptyPrompt
	case e.cfg.MaxModelLen > 0 && prompt >= e.cfg.MaxModelLen:
		return engine.PromptTooLong
	case e.blocks(prompt) > e.cfg.Blocks:
		return engine.PromptNoRoom
	case e.blocks(most) > e.cfg.Blocks:
		return engine.AnswerNoRoom
	case e.cfg.NoChunkedPrefill && most > e.cfg.MaxBatchedTokens:
		return engine.BudgetTooLow
	}
	return engine.Accepted
}

func (e *Engine) blocks(tokens int) int { return (tokens + e.cfg.BlockSize - 1) / e.cfg.BlockSize }

func (e *Engine) place() int32 {
	if n := len(e.unused); n > 0 {
		id := e.unused[n-1]
		e.unused = e.unused[:n-1]
		return id
	}
	e.requests = append(e.requests, request{})
	return int32(len(e.requests) - 1)
}

func (e *Engine) advanceClock(to int64) {
	if to < e.now {
		panic(fmt.Sprintf("vllm: time goes back from %d to %d", e.now, to))
	}
	e.now, e.cache.now = to, to
}

// Next returns when something happens next: the end of the pass that runs, or
// now, if there are requests and no pass. ok is false for an idle engine.
func (e *Engine) Next() (at int64, ok bool) {
	switch {
	case e.busy:
		return e.end, true
	case e.waiting.len() > 0 || len(e.running) > 0:
		return e.now, true
	}
	return 0, false
}

// Advance lets time go on to to. Passes that end until then end, and passes
// begin that have to begin before it: one that is due at to is left to Begin, so
// that requests that arrive at the same time can take part.
func (e *Engine) Advance(to int64) error {
	for {
		at, ok := e.Next()
		if !ok || at > to || !e.busy && at == to {
			break
		}
		if !e.busy {
			if ran, err := e.decode(to); err != nil {
				return err
			} else if ran {
				continue
			}
			if err := e.Begin(); err != nil {
				return err
			}
			continue
		}
		e.now, e.cache.now = at, at
		e.finish()
	}
	e.advanceClock(to)
	return nil
}

// Begin begins a pass now, if none runs and there are requests.
func (e *Engine) Begin() error {
	if e.busy || e.waiting.len() == 0 && len(e.running) == 0 {
		return nil
	}
	pass := &e.pass
	*pass = steptime.Pass{Capacity: int64(e.cfg.Blocks) * int64(e.cfg.BlockSize)}
	e.batch = e.batch[:0]
	budget, preempted := e.runOn(pass, e.cfg.MaxBatchedTokens)
	if !preempted {
		e.admit(pass, budget)
	}
	if len(e.batch) == 0 {
		return fmt.Errorf("vllm: a pass of nothing at %d ns with %d requests running and %d waiting", e.now, len(e.running), e.waiting.len())
	}
	ns, err := steptime.Of(e.cfg.Time, pass)
	if err != nil {
		return fmt.Errorf("vllm: %w", err)
	}
	if e.now > math.MaxInt64/2 {
		return fmt.Errorf("vllm: the clock is at %d ns; that is too far", e.now)
	}
	e.busy, e.end = true, e.now+ns
	e.counts.Passes++
	e.counts.BusyNanos += ns
	e.counts.ChunkTokens += pass.New
	e.counts.DecodeTokens += int64(pass.Decodes)
	e.counts.PeakActive = max(e.counts.PeakActive, e.cache.active())
	// The whole pool is looked at now and then only: that takes long.
	if invariants.Enabled && e.counts.Passes&0xfff == 0 {
		if err := e.Check(); err != nil {
			return err
		}
	}
	return nil
}

// runOn schedules the running requests.
func (e *Engine) runOn(pass *steptime.Pass, budget int) (left int, preempted bool) {
	// The list gets shorter when requests at its end lose their blocks.
	for i := 0; i < len(e.running) && budget > 0; i++ {
		id := e.running[i]
		r := &e.requests[id]
		rest := r.known - r.computed
		n := min(rest, budget)
		if n < rest && e.cfg.NoChunkedPrefill {
			break
		}
		for {
			if need := e.blocks(r.computed+n) - r.held.blocks(); need <= 0 || e.hold(r, nil, 0, 0, need) {
				break
			}
			victim := e.running[len(e.running)-1]
			e.preempt(victim)
			preempted = true
			if victim == id {
				return budget, true
			}
		}
		e.take(pass, id, n)
		budget -= n
	}
	return budget, preempted
}

// admit schedules waiting requests.
func (e *Engine) admit(pass *steptime.Pass, budget int) {
	for e.waiting.len() > 0 && len(e.running) < e.cfg.MaxSeqs && budget > 0 {
		id := e.waiting.front()
		if e.blocked.id == id && e.blocked.changes == e.changes && !e.cfg.FirstChunkOnly {
			return // it did not fit before, and nothing has changed since
		}
		r := &e.requests[id]
		var hits, active int
		e.spans, hits, active = e.cache.match(r.chain.Path(), (r.known-1)/e.cfg.BlockSize, e.spans[:0])
		rest := r.known - hits*e.cfg.BlockSize
		n := min(rest, budget)
		if n < rest && e.cfg.NoChunkedPrefill {
			return
		}
		last := r.known
		if e.cfg.FirstChunkOnly {
			last = hits*e.cfg.BlockSize + n
		}
		available := e.cache.capacity - e.cache.active()
		if len(e.running) > 0 {
			available -= e.watermark
		}
		if e.blocks(last)-active > available || !e.hold(r, e.spans, hits, active, e.blocks(hits*e.cfg.BlockSize+n)-hits) {
			e.blocked.id, e.blocked.changes = id, e.changes
			return
		}
		e.waiting.popFront()
		e.running = append(e.running, id)
		r.computed = hits * e.cfg.BlockSize
		if r.admitted {
			e.counts.AgainTokens += int64(r.known)
			e.counts.AgainHitTokens += int64(r.computed)
		} else {
			e.counts.PromptTokens += int64(r.known)
			e.counts.FirstHitTokens += int64(r.computed)
		}
		e.listener.Admitted(e.now, r.id, r.computed, r.admitted)
		r.admitted = true
		e.take(pass, id, n)
		budget -= n
	}
}

// take puts n tokens of a request, which has the blocks for them, into the pass,
// and makes the blocks known that they complete.
func (e *Engine) take(pass *steptime.Pass, id int32, n int) {
	r := &e.requests[id]
	if r.generated > 0 && n == 1 && r.computed+1 == r.known {
		pass.AddDecode(r.known)
	} else {
		pass.AddChunk(n, r.computed)
	}
	e.batch = append(e.batch, share{id, int32(n)})
	if to := (r.computed + n) / e.cfg.BlockSize; to > r.held.stored {
		e.store(r, to)
	}
}

// finish ends the pass that runs, at its end.
func (e *Engine) finish() {
	e.busy = false
	done := false
	for _, s := range e.batch {
		r := &e.requests[s.id]
		r.computed += int(s.tokens)
		if r.computed < r.known {
			continue
		}
		if r.output > 0 {
			r.generated++
			r.known++
			e.counts.OutputTokens++
			e.listener.Token(e.now, r.id, r.generated)
		}
		if r.generated == r.output {
			e.release(r)
			r.chain = nil
			done = true
		}
	}
	if !done {
		return
	}
	e.running = slices.DeleteFunc(e.running, func(id int32) bool {
		r := &e.requests[id]
		if r.chain != nil {
			return false
		}
		e.counts.Done++
		e.unused = append(e.unused, id)
		e.listener.Done(e.now, r.id)
		return true
	})
}

// preempt takes a running request's blocks away.
func (e *Engine) preempt(id int32) {
	e.running = e.running[:len(e.running)-1]
	r := &e.requests[id]
	e.release(r)
	r.computed = 0
	r.missing = -1
	e.waiting.pushFront(id)
	e.counts.Preemptions++
	e.listener.Preempted(e.now, r.id)
}

func (e *Engine) release(r *request) {
	e.cache.release(&r.held)
	e.changes++
}

// hold gives a request what the cache matched and fresh blocks, and tells what is
// evicted for them. It is false if there is no room.
func (e *Engine) hold(r *request, spans []span, hits, active, fresh int) bool {
	if !e.cache.hold(&r.held, spans, hits, active, fresh) {
		return false
	}
	e.changes++
	if e.cache.gone > 0 {
		e.counts.RemovedBlocks += int64(e.cache.gone)
		e.emit(indexer.Event{Kind: indexer.Removed, Sequences: e.cache.evicted}, engine.Pieces{Kind: indexer.Removed, Blocks: e.cache.lost})
	}
	return true
}

// store makes the blocks of a request up to block to known, and tells those that
// are new in the cache: one event for each run of them.
func (e *Engine) store(r *request, to int) {
	var locals []indexer.LocalHash
	var sequences []indexer.SequenceHash
	if e.cache.named {
		locals, sequences = r.chain.Blocks(to * e.cfg.BlockSize)
	}
	for _, s := range e.cache.store(&r.held, r.chain.Path(), to, sequences) {
		ev := indexer.Event{Kind: indexer.Stored}
		if e.cache.named {
			ev.Sequences, ev.Locals = sequences[s.from:s.to], locals[s.from:s.to]
			if s.from > 0 {
				ev.HasParent, ev.Parent = true, sequences[s.from-1]
			}
		}
		e.counts.StoredBlocks += int64(s.to - s.from)
		var parts engine.Pieces
		if e.pieces != nil {
			parts = e.partsOf(r.chain.Path(), s)
		}
		e.emit(ev, parts)
	}
	e.changes++
}

// partsOf is the Stored event of blocks of a path, valid until the next call.
func (e *Engine) partsOf(path []mocker.Stretch, s stretch) engine.Pieces {
	ev := engine.Pieces{Kind: indexer.Stored}
	e.stored = e.stored[:0]
	// New blocks are mostly those of an answer, which are the last.
	at := len(path) - 1
	for at > 0 && path[at-1].End > s.from {
		at--
	}
	if s.from > 0 {
		of := path[at].ID
		if at > 0 && path[at-1].End == s.from {
			of = path[at-1].ID
		}
		ev.HasParent, ev.Parent = true, engine.Piece{Stretch: of, From: s.from - 1, To: s.from}
	}
	for from := s.from; from < s.to; at++ {
		to := min(path[at].End, s.to)
		e.stored = append(e.stored, engine.Piece{Stretch: path[at].ID, From: from, To: to})
		from = to
	}
	ev.Blocks = e.stored
	return ev
}

// emit tells a KV event. parts is the same one, if e.pieces wants it.
func (e *Engine) emit(ev indexer.Event, parts engine.Pieces) {
	ev.ID, parts.ID = e.eventID, e.eventID
	e.eventID++
	if e.pieces == nil || e.cache.named {
		e.event = ev
		e.listener.Event(e.now, &e.event)
	}
	if e.pieces != nil {
		e.parts = parts
		e.pieces.Pieces(e.now, &e.parts)
	}
}

// Cached returns how many leading tokens of what is known of a request are in the
// cache now, in whole blocks and with the last one if that is full.
func (e *Engine) Cached(c *mocker.Chain, known int) int {
	var hits int
	e.spans, hits, _ = e.cache.match(c.Path(), known/e.cfg.BlockSize, e.spans[:0])
	return hits * e.cfg.BlockSize
}

// Backlog returns the tokens of prompts that are yet to be computed, with those
// of the pass that runs, and how many requests there are. Of a request that
// waits, all tokens count that were not in the cache when Backlog first saw it
// wait.
func (e *Engine) Backlog() (tokens int64, requests int) {
	for _, id := range e.running {
		if r := &e.requests[id]; r.computed+1 < r.known || r.generated == 0 {
			tokens += int64(r.known - r.computed)
		}
	}
	for i := range e.waiting.len() {
		r := &e.requests[e.waiting.at(i)]
		if r.missing < 0 {
			r.missing = r.known - min(e.Cached(r.chain, r.known), r.known-1)
		}
		tokens += int64(r.missing)
	}
	return tokens, len(e.running) + e.waiting.len()
}

// Check verifies the invariants of engine and pool and returns the first
// violation.
func (e *Engine) Check() error {
	var holders []*held
	for _, id := range e.running {
		holders = append(holders, &e.requests[id].held)
	}
	if err := e.cache.check(holders); err != nil {
		return err
	}
	c := e.Counts()
	if c.Submitted != c.Refused+c.Done+int64(c.Waiting+c.Running) {
		return fmt.Errorf("vllm: %d requests came; %d refused, %d done, %d waiting, %d running", c.Submitted, c.Refused, c.Done, c.Waiting, c.Running)
	}
	if len(e.requests) != len(e.unused)+c.Waiting+c.Running {
		return fmt.Errorf("vllm: %d places for requests, %d unused, %d waiting, %d running", len(e.requests), len(e.unused), c.Waiting, c.Running)
	}
	if c.Running > e.cfg.MaxSeqs || c.ActiveBlocks+c.IdleBlocks+c.FreeBlocks != e.cfg.Blocks {
		return fmt.Errorf("vllm: %+v breaks the limits of %+v", c, e.cfg)
	}
	for _, id := range e.running {
		r := &e.requests[id]
		if r.chain == nil || r.held.blocks() < e.blocks(r.computed) || r.generated > r.output {
			return fmt.Errorf("vllm: running request %+v", *r)
		}
	}
	for i := range e.waiting.len() {
		if r := &e.requests[e.waiting.at(i)]; r.chain == nil || r.held.blocks() != 0 || r.computed != 0 {
			return fmt.Errorf("vllm: waiting request %+v", *r)
		}
	}
	if e.busy {
		tokens := 0
		for _, s := range e.batch {
			tokens += int(s.tokens)
		}
		if tokens > e.cfg.MaxBatchedTokens || len(e.batch) > c.Running {
			return fmt.Errorf("vllm: a pass of %d tokens for %d of %d requests", tokens, len(e.batch), c.Running)
		}
	}
	return nil
}
