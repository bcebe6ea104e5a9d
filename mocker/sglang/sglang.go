// Package sglang imitates the scheduler, the radix cache and the KV events of
// SGLang as far as a router can see them.
//
// # A pass
//
// A pass computes prompts or generates tokens, never both. Prompts come first:
// the one that was cut goes on, then waiting requests are admitted in the order of
// their arrival while they fit, with the tokens that they are expected to generate
// (Config.ClipNewTokens at most) beside a share of those that running requests
// have yet to. The share falls with every decode pass and rises when it was too
// low. A prompt beyond the rest of a pass's tokens is cut, at a page. If there is
// no prompt to compute, every running request gets one token.
//
// If running requests need pages and there are none, some are retracted: those
// with the fewest tokens generated, of these the longest prompts. They lose what
// they generated from the cache, keep the tokens, and wait at the end of the line.
//
// # The cache
//
// A radix tree of pages (tree.go). What a request computed enters it at the end
// of the pass, or of the answer, so that requests of one pass do not share; pages
// that another request has put there meanwhile are given back. Eviction takes
// whole leaves, those used longest ago first.
//
// # Events
//
// All events of a pass come at its end, those of evictions first. SGLang sends one
// for each page; here pages that follow each other are one event, which says the
// same. So an event that is lost loses more at a time.
//
// # What it does not do
//
// Orders of the waiting line other than the arrival, mixed passes, overlap of
// scheduling with computing, other orders of eviction, offloading to other tiers,
// and speculative tokens.
package sglang

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
	// Blocks is the size of the pool in pages, from 1 to 2^30, BlockSize the
	// tokens of a page.
	Blocks    int
	BlockSize int
	// MaxPrefillTokens and ChunkedPrefillSize both bound the tokens of a pass of
	// prompts; a prompt is cut at the second, which is a page at least. A prompt
	// longer than the first is cut as well.
	MaxPrefillTokens   int
	ChunkedPrefillSize int
	// MaxSeqs is how many requests run at one time at most.
	MaxSeqs int
	// ClipNewTokens bounds the tokens that a request is expected to generate.
	ClipNewTokens int
	// Conservativeness scales the share of the tokens yet to be generated for
	// which room is kept. The share starts at 0.7 of it.
	Conservativeness float64
	// Time gives the durations of passes.
	Time steptime.Model
}

// Default returns SGLang's usual limits. The caller sets pool, page and time.
func Default() Config {
	return Config{BlockSize: 1, MaxPrefillTokens: 16384, ChunkedPrefillSize: 8192, MaxSeqs: 256, ClipNewTokens: 4096, Conservativeness: 1}
}

// Validate returns an error if the configuration makes no engine.
func (c *Config) Validate() error {
	switch {
	case c.Blocks < 1 || c.Blocks > 1<<30:
		return fmt.Errorf("sglang: a pool of %d pages; there must be 1 to 2^30", c.Blocks)
	case c.BlockSize < 1 || c.BlockSize > 1<<20:
		return fmt.Errorf("sglang: pages of %d tokens; there must be 1 to 2^20", c.BlockSize)
	case c.MaxPrefillTokens < c.BlockSize || c.ChunkedPrefillSize < c.BlockSize:
		return fmt.Errorf("sglang: %d tokens of prompts in a pass and chunks of %d; neither may be less than a page of %d", c.MaxPrefillTokens, c.ChunkedPrefillSize, c.BlockSize)
	case c.MaxSeqs < 1:
		return fmt.Errorf("sglang: at most %d requests at a time; there must be at least 1", c.MaxSeqs)
	case c.ClipNewTokens < 1:
		return fmt.Errorf("sglang: %d expected tokens of an answer at most; there must be at least 1", c.ClipNewTokens)
	case !(c.Conservativeness >= 0 && c.Conservativeness <= 10):
		return fmt.Errorf("sglang: a conservativeness of %g; it must be from 0 to 10", c.Conservativeness)
	case c.Time == nil:
		return fmt.Errorf("sglang: no time model")
	}
	if m, ok := c.Time.(interface{ Validate() error }); ok {
		return m.Validate()
	}
	return nil
}

// The share of tokens yet to be generated: how it starts, the least as a part of
// that, in how many decode passes it gets there, and for how many passes it makes
// room when it was too low.
const (
	startShare   = 0.7
	leastShare   = 0.14
	sharePasses  = 600
	retractAhead = 20
)

// nobody is no request.
const nobody = -1

// Engine is one engine. It belongs to one goroutine.
type Engine struct {
	cfg      Config
	listener engine.Listener
	tree     *tree
	private  int // pages of requests that are not in the tree
	share    float64

	now    int64
	busy   bool
	end    int64 // of the pass that runs
	decode bool  // what the pass does

	requests []request
	unused   []int32
	waiting  []int32 // from first on
	first    int
	running  []int32 // requests that generate
	chunked  int32   // the request whose prompt was cut, or nobody
	batch    []part  // of a pass of prompts
	pass     steptime.Pass

	counts  engine.Counts
	eventID uint64
	gone    []indexer.SequenceHash // evicted in this pass
	event   indexer.Event
}

// request is one in the engine.
type request struct {
	id        uint64
	chain     *mocker.Chain
	output    int // tokens to generate
	known     int // tokens of the prompt and generated ones
	computed  int // of these, before the pass that runs
	generated int
	node      int32 // in the tree, locked
	depth     int   // pages up to its end
	private   int   // pages beside these
	admitted  bool  // at least once
}

// part is what a request computes of its prompt in a pass.
type part struct {
	id     int32
	tokens int
}

// New makes an idle engine at time 0 that tells listener what it does.
func New(cfg Config, listener engine.Listener) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Engine{cfg: cfg, listener: listener, tree: newTree(), chunked: nobody, share: startShare * cfg.Conservativeness}, nil
}

func (e *Engine) waitingRequests() []int32 { return e.waiting[e.first:] }

func (e *Engine) runningRequests() int {
	n := len(e.running)
	if e.chunked != nobody {
		n++
	}
	if e.busy && !e.decode {
		for _, p := range e.batch {
			if p.id != e.chunked {
				n++
			}
		}
	}
	return n
}

func (e *Engine) free() int { return e.cfg.Blocks - e.tree.pages - e.private }

// Counts returns the engine's numbers.
func (e *Engine) Counts() engine.Counts {
	c := e.counts
	c.Waiting, c.Running = len(e.waitingRequests()), e.runningRequests()
	c.ActiveBlocks = e.private + e.tree.pages - e.tree.idle
	c.IdleBlocks = e.tree.idle
	c.FreeBlocks = e.free()
	c.Resident = e.tree.pages
	return c
}

// Residency returns how long pages were in the cache until a time that is not
// before the last change.
func (e *Engine) Residency(until int64) engine.Residency {
	cached, dead := e.tree.residency(until)
	return engine.Residency{Cached: cached, Dead: dead}
}

// Submit hands a request over at time now, which is not before that of any
// earlier call. One that could never be served is refused and forgotten.
func (e *Engine) Submit(now int64, r engine.Request) engine.Refusal {
	e.advanceClock(now)
	e.counts.Submitted++
	prompt := r.Chain.Prompt()
	why := engine.Accepted
	switch {
	case prompt == 0:
		why = engine.EmptyPrompt
	case e.pagesOf(prompt) > e.cfg.Blocks:
		why = engine.PromptNoRoom
	case e.pagesOf(prompt+r.Output) > e.cfg.Blocks:
		why = engine.AnswerNoRoom
	}
	if why != engine.Accepted {
		e.counts.Refused++
		return why
	}
	var id int32
	if n := len(e.unused); n > 0 {
		id, e.unused = e.unused[n-1], e.unused[:n-1]
	} else {
		id = int32(len(e.requests))
		e.requests = append(e.requests, request{})
	}
	e.requests[id] = request{id: r.ID, chain: r.Chain, output: r.Output, known: prompt}
	e.wait(id)
	return engine.Accepted
}

// wait puts a request to the end of the line.
func (e *Engine) wait(id int32) {
	if e.first > 64 && 2*e.first > len(e.waiting) {
		e.waiting = append(e.waiting[:0], e.waiting[e.first:]...)
		e.first = 0
	}
	e.waiting = append(e.waiting, id)
}

func (e *Engine) pagesOf(tokens int) int { return (tokens + e.cfg.BlockSize - 1) / e.cfg.BlockSize }

func (e *Engine) advanceClock(to int64) {
	if to < e.now {
		panic(fmt.Sprintf("sglang: time goes back from %d to %d", e.now, to))
	}
	e.now, e.tree.now = to, to
}

func (e *Engine) work() bool {
	return len(e.waitingRequests()) > 0 || len(e.running) > 0 || e.chunked != nobody
}

// Next returns when something happens next: the end of the pass that runs, or
// now, if there are requests and no pass. ok is false for an idle engine.
func (e *Engine) Next() (at int64, ok bool) {
	switch {
	case e.busy:
		return e.end, true
	case e.work():
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
			if err := e.Begin(); err != nil {
				return err
			}
			continue
		}
		e.now, e.tree.now = at, at
		e.finish()
	}
	e.advanceClock(to)
	return nil
}

// Begin begins a pass now, if none runs and there are requests.
func (e *Engine) Begin() error {
	if e.busy || !e.work() {
		return nil
	}
	e.pass = steptime.Pass{Capacity: int64(e.cfg.Blocks) * int64(e.cfg.BlockSize)}
	e.batch = e.batch[:0]
	e.decode = false
	e.prefill()
	if len(e.batch) == 0 {
		e.decode = true
		e.generate()
		// Those that gave way may be all: then there is room for prompts.
		if len(e.running) == 0 {
			e.decode = false
			e.prefill()
		}
	}
	if len(e.batch) == 0 && len(e.running) == 0 {
		return fmt.Errorf("sglang: a pass of nothing at %d ns with %d requests waiting", e.now, len(e.waitingRequests()))
	}
	ns, err := steptime.Of(e.cfg.Time, &e.pass)
	if err != nil {
		return fmt.Errorf("sglang: %w", err)
	}
	if e.now > math.MaxInt64/2 {
		return fmt.Errorf("sglang: the clock is at %d ns; that is too far", e.now)
	}
	e.busy, e.end = true, e.now+ns
	e.counts.Passes++
	e.counts.BusyNanos += ns
	e.counts.ChunkTokens += e.pass.New
	e.counts.DecodeTokens += int64(e.pass.Decodes)
	e.counts.PeakActive = max(e.counts.PeakActive, e.Counts().ActiveBlocks)
	// The whole tree is looked at now and then only: that takes long.
	if invariants.Enabled && e.counts.Passes&0xfff == 0 {
		return e.Check()
	}
	return nil
}

// expected returns the tokens that a request is expected to generate yet.
func (e *Engine) expected(r *request) int { return min(r.output-r.generated, e.cfg.ClipNewTokens) }

// prefill makes a pass of prompts, if there is anything to compute that fits.
func (e *Engine) prefill() {
	budget := min(e.cfg.MaxPrefillTokens, e.cfg.ChunkedPrefillSize)
	kept := 0.0 // tokens for which room is kept
	for _, id := range e.running {
		kept += e.share * float64(e.expected(&e.requests[id]))
	}
	if e.chunked != nobody {
		r := &e.requests[e.chunked]
		n := e.cut(r.known-r.computed, budget)
		if !e.allocate(r, r.computed+n) {
			return // running requests go on until there is room
		}
		e.take(e.chunked, n)
		budget -= n
		if r.computed+n < r.known {
			return
		}
		kept += float64(e.expected(r))
	}
	for len(e.waitingRequests()) > 0 && budget > 0 && len(e.running)+len(e.batch) < e.cfg.MaxSeqs {
		id := e.waiting[e.first]
		r := &e.requests[id]
		// At least one token must be computed.
		_, sequences := r.chain.Blocks(r.known - 1)
		at, depth := e.tree.match(sequences)
		e.tree.lock(at)
		need := e.pagesOf(r.known+e.expected(r)) - depth
		room := e.free() + e.tree.idle - e.pagesOf(int(math.Ceil(kept)))
		n := e.cut(r.known-depth*e.cfg.BlockSize, budget)
		r.node, r.depth = at, depth
		if need > room || n == 0 || !e.allocate(r, depth*e.cfg.BlockSize+n) {
			e.tree.unlock(at)
			r.node, r.depth = root, 0
			return
		}
		e.first++
		r.computed = depth * e.cfg.BlockSize
		if r.admitted {
			e.counts.AgainTokens += int64(r.known)
			e.counts.AgainHitTokens += int64(r.computed)
		} else {
			e.counts.PromptTokens += int64(r.known)
			e.counts.FirstHitTokens += int64(r.computed)
		}
		e.listener.Admitted(e.now, r.id, r.computed, r.admitted)
		r.admitted = true
		e.take(id, n)
		budget -= n
		kept += float64(e.expected(r))
		if r.computed+n < r.known {
			e.chunked = id
			return
		}
	}
}

// cut returns how many of rest tokens are computed with a budget: all, or whole
// pages.
func (e *Engine) cut(rest, budget int) int {
	if rest <= budget {
		return rest
	}
	return budget / e.cfg.BlockSize * e.cfg.BlockSize
}

func (e *Engine) take(id int32, n int) {
	e.pass.AddChunk(n, e.requests[id].computed)
	e.batch = append(e.batch, part{id, n})
}

// allocate gives a request the pages of its first tokens, evicting for them. It is
// false if there is no room; what was evicted stays so.
func (e *Engine) allocate(r *request, tokens int) bool {
	need := e.pagesOf(tokens) - r.depth - r.private
	if need <= 0 {
		return true
	}
	if need > e.free()+e.tree.idle {
		return false
	}
	e.tree.evict(need-e.free(), func(pages []indexer.SequenceHash) {
		e.gone = append(e.gone, pages...)
	})
	r.private += need
	e.private += need
	return true
}

// generate makes a pass in which every running request gets a token, after some
// gave way if there is no room for all.
func (e *Engine) generate() {
	retracted := false
	for {
		need := 0
		for _, id := range e.running {
			r := &e.requests[id]
			need += max(0, e.pagesOf(r.computed+1)-r.depth-r.private)
		}
		if need <= e.free()+e.tree.idle {
			break
		}
		e.retract()
		retracted = true
	}
	if retracted {
		done, all := retractAhead*len(e.running), 1
		for _, id := range e.running {
			done += e.requests[id].generated
			all += e.requests[id].output
		}
		e.share = min(1, float64(done)/float64(all))
	} else {
		start := startShare * e.cfg.Conservativeness
		e.share = max(e.share-start*(1-leastShare)/sharePasses, min(1, start*leastShare))
	}
	for _, id := range e.running {
		r := &e.requests[id]
		if !e.allocate(r, r.computed+1) {
			panic("sglang: no room for a token that was counted")
		}
		e.pass.AddDecode(r.known)
	}
}

// retract takes the running request with the fewest generated tokens away, of
// these the one with the longest prompt, of these the last one.
func (e *Engine) retract() {
	victim := 0
	for i := range e.running {
		r, v := &e.requests[e.running[i]], &e.requests[e.running[victim]]
		if r.generated < v.generated || r.generated == v.generated && r.known >= v.known {
			victim = i
		}
	}
	id := e.running[victim]
	e.running = slices.Delete(e.running, victim, victim+1)
	r := &e.requests[id]
	e.release(r)
	r.computed = 0
	e.wait(id)
	e.counts.Preemptions++
	e.listener.Preempted(e.now, r.id)
}

// release gives back what a request holds.
func (e *Engine) release(r *request) {
	e.tree.unlock(r.node)
	e.private -= r.private
	r.node, r.depth, r.private = root, 0, 0
}

// finish ends the pass that runs, at its end.
func (e *Engine) finish() {
	e.busy = false
	if len(e.gone) > 0 {
		e.counts.RemovedBlocks += int64(len(e.gone))
		e.emit(indexer.Event{Kind: indexer.Removed, Sequences: e.gone})
		e.gone = e.gone[:0]
	}
	if e.decode {
		e.running = slices.DeleteFunc(e.running, func(id int32) bool {
			e.requests[id].computed++
			return e.sample(id)
		})
		return
	}
	for _, p := range e.batch {
		r := &e.requests[p.id]
		r.computed += p.tokens
		e.store(r)
		if r.computed < r.known {
			continue // the one that was cut
		}
		if p.id == e.chunked {
			e.chunked = nobody
		}
		if !e.sample(p.id) {
			e.running = append(e.running, p.id)
		}
	}
}

// sample gives a request its next token, and says whether it is done.
func (e *Engine) sample(id int32) bool {
	r := &e.requests[id]
	if r.output > 0 {
		r.generated++
		r.known++
		e.counts.OutputTokens++
		e.listener.Token(e.now, r.id, r.generated)
	}
	if r.generated < r.output {
		return false
	}
	e.store(r)
	e.release(r)
	r.chain = nil
	e.unused = append(e.unused, id)
	e.counts.Done++
	e.listener.Done(e.now, r.id)
	return true
}

// store puts the full pages that a request computed into the tree.
func (e *Engine) store(r *request) {
	locals, sequences := r.chain.Blocks(r.computed)
	at, depth := e.tree.match(sequences)
	end := e.tree.insert(at, depth, sequences)
	// Those between what it held in the tree and what is there now are somebody
	// else's: its own are given back. The others are the tree's from now on.
	moved := len(sequences) - r.depth
	r.private -= moved
	e.private -= moved
	e.tree.lock(end)
	e.tree.unlock(r.node)
	r.node, r.depth = end, len(sequences)
	if depth < len(sequences) {
		ev := indexer.Event{Kind: indexer.Stored, Sequences: sequences[depth:], Locals: locals[depth:]}
		if depth > 0 {
			ev.HasParent, ev.Parent = true, sequences[depth-1]
		}
		e.counts.StoredBlocks += int64(len(sequences) - depth)
		e.emit(ev)
	}
}

func (e *Engine) emit(ev indexer.Event) {
	ev.ID = e.eventID
	e.eventID++
	e.event = ev
	e.listener.Event(e.now, &e.event)
}

// Cached returns how many leading tokens of what is known of a request are in the
// cache now, in whole pages and with the last one if that is full.
func (e *Engine) Cached(c *mocker.Chain, known int) int {
	_, sequences := c.Blocks(known)
	return e.tree.depth(sequences) * e.cfg.BlockSize
}

// Backlog returns the tokens of prompts that are yet to be computed, with those
// of the pass that runs, and how many requests there are. Of a request that
// waits, all tokens count that are not in the cache.
func (e *Engine) Backlog() (tokens int64, requests int) {
	if e.busy && !e.decode {
		for _, p := range e.batch {
			if p.id != e.chunked {
				tokens += int64(p.tokens)
			}
		}
	}
	if e.chunked != nobody {
		r := &e.requests[e.chunked]
		tokens += int64(r.known - r.computed)
	}
	for _, id := range e.waitingRequests() {
		r := &e.requests[id]
		tokens += int64(r.known - min(e.Cached(r.chain, r.known), r.known-1))
	}
	return tokens, e.runningRequests() + len(e.waitingRequests())
}

// Check verifies the invariants of engine and cache and returns the first
// violation.
func (e *Engine) Check() error {
	var locked []int32
	private := 0
	holders := slices.Clone(e.running)
	if e.busy && !e.decode {
		for _, p := range e.batch {
			holders = append(holders, p.id)
		}
	}
	if e.chunked != nobody && !slices.Contains(holders, e.chunked) {
		holders = append(holders, e.chunked)
	}
	for _, id := range holders {
		r := &e.requests[id]
		if r.chain == nil || r.private < 0 || r.depth+r.private < e.pagesOf(r.computed) || r.generated > r.output {
			return fmt.Errorf("sglang: running request %+v", *r)
		}
		locked = append(locked, r.node)
		private += r.private
	}
	if err := e.tree.check(locked); err != nil {
		return err
	}
	c := e.Counts()
	if c.Submitted != c.Refused+c.Done+int64(c.Waiting+c.Running) || len(holders) != c.Running {
		return fmt.Errorf("sglang: %d requests came; %d refused, %d done, %d waiting, %d running", c.Submitted, c.Refused, c.Done, c.Waiting, c.Running)
	}
	if private != e.private || c.FreeBlocks < 0 || c.Running > e.cfg.MaxSeqs {
		return fmt.Errorf("sglang: %d private pages; %+v breaks the limits of %+v", private, c, e.cfg)
	}
	for _, id := range e.waitingRequests() {
		if r := &e.requests[id]; r.chain == nil || r.node != root || r.private != 0 || r.computed != 0 {
			return fmt.Errorf("sglang: waiting request %+v", *r)
		}
	}
	return nil
}
