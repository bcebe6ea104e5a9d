package simulate

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/retention"
	"github.com/kvbench/kvbench/indexer/runs"
	"github.com/kvbench/kvbench/internal/invariants"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/fleet"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/catalogue"
	"github.com/kvbench/kvbench/policies/experimental/residentblocks"
	"github.com/kvbench/kvbench/trace"
)

// sessionLimit is how many sessions a router remembers.
const sessionLimit = 1 << 20

// The kinds of approximation.
const (
	ApproximateTTL = "ttl"
	ApproximateLRU = "lru"
)

// router is a policy with the state of one router: one of two indexes, as the
// engines can say what they hold in pieces or not, that KV events or, if it is
// approximate, its own decisions feed, the load that it caused itself, and
// where it sent sessions. It knows nothing else of the ranks. Blocks of answers
// are not part of its account of load.
type router struct {
	pipeline *policies.Pipeline
	inputs   policies.Inputs
	trace    *trace.Trace
	notes    *notes

	pieces *pieceIndex

	index  indexer.Index
	writer indexer.Writer
	reader indexer.Reader

	answer indexer.Answer // of one or the other
	counts RouterCounts   // of all events

	resident *indexer.ResidentCounters // of the index
	guess    *guess                    // in the place of KV events

	load     *policies.ActiveLoad
	sessions *policies.Sessions
	state    policies.State
	request  policies.Request

	stretches []policies.Stretch
	chain     *mocker.Chain                        // of the request
	hashes    func(blocks int) []indexer.LocalHash // of its prompt
}

// notes are what the routers of a run tell of their decisions.
type notes struct {
	// live has the requests on their way. A router puts each in that arrives.
	live *underway
	// clock, if not nil, gives the time for decisions.
	clock     func() time.Time
	decisions histogram
	// explain, if not nil, is called before the decision on row.
	row     uint64
	explain func(now int64, a *fleet.Arrival, r *router) error
}

func newRouter(p *catalogue.Policy, cfg *Config, t *trace.Trace, n *notes, seed uint64) (*router, error) {
	pipeline, err := p.New(seed)
	if err != nil {
		return nil, err
	}
	r := &router{pipeline: pipeline, inputs: pipeline.Inputs(), trace: t, notes: n}
	r.hashes = func(blocks int) []indexer.LocalHash { return r.chain.Locals(blocks * r.chain.BlockSize()) }
	r.state = policies.State{Slots: cfg.Workers}
	if r.inputs.Has(policies.Cache) {
		r.answer.Grow(cfg.Workers)
		r.state.Cache = &r.answer
	}
	if r.inputs.Has(policies.Cache) && cfg.inPieces() {
		r.pieces = newPieceIndex(cfg.Workers)
	} else if r.inputs.Has(policies.Cache) {
		index, err := runs.New(indexer.Config{Threads: 1, Slots: cfg.Workers})
		if err != nil {
			return nil, err
		}
		r.index, r.writer, r.reader = index, index.Writer(0), index.Reader()
		for slot := range cfg.Workers {
			r.writer.Attach(indexer.Slot(slot))
		}
		if cfg.Approximate != "" {
			if r.guess, err = newGuess(cfg, r.apply); err != nil {
				return nil, err
			}
		}
	}
	if r.inputs.Has(policies.Load) {
		r.load = policies.NewActiveLoad(cfg.Workers, 1024)
		r.state.Load = r.load
	}
	if r.inputs.Has(policies.Session) {
		r.sessions = policies.NewSessions(sessionLimit, 0)
		r.state.Sessions = r.sessions
	}
	if r.inputs.Has(policies.Capacity) {
		r.state.CapacityBlocks = make([]uint32, cfg.Workers)
		for i := range r.state.CapacityBlocks {
			r.state.CapacityBlocks[i] = uint32(cfg.Engine.blocks(i))
		}
	}
	if r.inputs.Has(policies.Tags) {
		r.state.RankTags = make([]policies.TagSet, cfg.Workers)
	}
	if r.inputs.Has(policies.ExperimentalResidentBlocks) {
		r.resident = indexer.NewResidentCounters(make([]int, cfg.Workers), indexer.Packed)
		r.state.ResidentBlocks = residentblocks.NewFeed(r.resident, []residentblocks.Progress{upToDate{}}, slog.New(slog.DiscardHandler)).Reader()
	}
	return r, nil
}

// inPieces says whether KV events come in pieces: if the engines have such and no
// guesses, which are made of blocks, stand in for them.
func (c *Config) inPieces() bool {
	return c.Engine.Kind == VLLM && c.Approximate == "" && !c.byBlocks
}

// upToDate is the progress of an index without a queue before it.
type upToDate struct{}

// Load implements residentblocks.Progress.
func (upToDate) Load() (applied, accepted uint64) { return 0, 0 }

func (r *router) close() error {
	switch {
	case r.index != nil:
		r.reader.Close()
		return r.index.Close()
	case r.pieces != nil && invariants.Enabled:
		return r.pieces.check()
	}
	return nil
}

// stretches appends those of a chain's prompt; the last one of its path is of the
// answer.
func stretches(c *mocker.Chain, to []policies.Stretch) []policies.Stretch {
	path := c.Path()
	for _, s := range path[:len(path)-1] {
		to = append(to, policies.Stretch{ID: uint64(s.ID), End: uint32(s.End)})
	}
	return to
}

// Route implements fleet.Router.
func (r *router) Route(now int64, a *fleet.Arrival) (int, error) {
	noted := r.notes.live.begin(a.ID)
	// Hashes take long and most policies can do without.
	var locals []indexer.LocalHash
	if r.reader != nil {
		locals = a.Chain.Locals(a.Chain.Prompt())
	}
	r.chain = a.Chain
	r.stretches = stretches(a.Chain, r.stretches[:0])
	r.request = policies.Request{
		ID:           a.ID,
		Now:          time.Duration(now),
		PromptTokens: a.Chain.Prompt(),
		Locals:       locals,
		Stretches:    r.stretches,
		Hashes:       r.hashes,
		BlockSize:    a.Chain.BlockSize(),
		Session:      uint64(a.Session),
		HasSession:   r.trace.Request(int(a.ID)).Session != "",
	}
	if r.guess != nil {
		if err := r.guess.advance(now); err != nil {
			return 0, err
		}
	}
	var began time.Time
	if r.notes.clock != nil {
		began = r.notes.clock()
	}
	switch {
	case r.pieces != nil:
		r.pieces.find(r.stretches, &r.answer)
	case r.reader != nil:
		r.reader.Find(locals, indexer.FindOptions{}, &r.answer)
	}
	if r.notes.explain != nil && a.ID == r.notes.row {
		if err := r.notes.explain(now, a, r); err != nil {
			return 0, err
		}
	}
	choice, err := r.pipeline.Select(&r.request, &r.state)
	if r.notes.clock != nil {
		r.notes.decisions.add(int64(r.notes.clock().Sub(began)))
	}
	if errors.Is(err, policies.ErrNoCandidates) || errors.Is(err, policies.ErrOverloaded) {
		return fleet.NoRank, nil
	}
	if err != nil {
		return 0, err
	}
	r.pipeline.Commit(&r.request, choice.Slot)
	cached := min(int(choice.Overlap)*r.request.BlockSize, r.request.PromptTokens)
	if r.inputs.Has(policies.Cache) {
		noted.expected = int32(cached)
	}
	if r.load != nil {
		if err := r.load.Dispatch(&r.request, choice.Slot, cached); err != nil {
			return 0, err
		}
	}
	if r.sessions != nil && r.request.HasSession {
		r.sessions.Serve(r.request.Session, choice.Slot, r.request.Now)
	}
	if r.guess != nil {
		return int(choice.Slot), r.guess.route(now, &r.request, choice.Slot)
	}
	return int(choice.Slot), nil
}

// Hears implements fleet.Hearer.
func (r *router) Hears() (events, load, looks bool) {
	return r.inputs.Has(policies.Cache) && r.guess == nil, r.load != nil || r.guess != nil, r.notes.explain != nil
}

// Event implements fleet.Router.
func (r *router) Event(_ int64, ev *indexer.Event) error {
	if r.writer == nil || r.guess != nil {
		return nil
	}
	return r.apply(ev)
}

// HearsPieces implements fleet.PieceHearer.
func (r *router) HearsPieces() bool { return r.pieces != nil }

// Pieces implements fleet.PieceHearer.
func (r *router) Pieces(_ int64, ev *engine.Pieces) error {
	return r.applied(ev.ID, ev.Slot, r.pieces.apply(ev), r.pieces.blocks[ev.Slot])
}

func (r *router) apply(ev *indexer.Event) error {
	return r.applied(ev.ID, ev.Slot, r.writer.Apply(ev), r.writer.Blocks(ev.Slot))
}

// applied notes what an event did, after which its rank holds so many blocks.
func (r *router) applied(id uint64, slot indexer.Slot, e indexer.Effect, blocks int) error {
	r.counts.note(&e)
	if r.resident != nil {
		r.resident.Store(slot, uint32(blocks))
	}
	if e.Malformed > 0 {
		return fmt.Errorf("the index calls event %d of rank %d malformed", id, slot)
	}
	return nil
}

// FirstToken implements fleet.Router.
func (r *router) FirstToken(_ int64, id uint64) {
	if r.load != nil {
		r.load.FirstToken(id)
	}
}

// Finished implements fleet.Router.
func (r *router) Finished(now int64, id uint64) {
	if r.load != nil {
		r.load.Finish(id)
	}
	if r.guess != nil {
		r.guess.finished(now, id)
	}
}

// guess stands in for the KV events of engines that send none: it stores every
// decision for its rank, until a time has passed or the rank's pool is full. It
// knows prompts only: answers take room in the engines and none here.
type guess struct {
	ttl    []*retention.TTL // one of the two
	lru    []*retention.LRU
	leases map[uint64]lease
	failed error
}

// lease is a request on its way.
type lease struct {
	slot  indexer.Slot
	lease retention.Lease
}

func newGuess(cfg *Config, apply func(*indexer.Event) error) (*guess, error) {
	g := &guess{leases: map[uint64]lease{}}
	emit := func(_ int64, ev *indexer.Event) {
		if err := apply(ev); err != nil && g.failed == nil {
			g.failed = err
		}
	}
	for i := range cfg.Workers {
		switch slot := indexer.Slot(i); cfg.Approximate {
		case ApproximateTTL:
			m, err := retention.NewTTL(slot, cfg.TTL, emit)
			if err != nil {
				return nil, err
			}
			g.ttl = append(g.ttl, m)
		case ApproximateLRU:
			m, err := retention.NewLRU(slot, cfg.Engine.blocks(i), emit)
			if err != nil {
				return nil, err
			}
			g.lru = append(g.lru, m)
		}
	}
	return g, nil
}

// advance lets go what is due.
func (g *guess) advance(now int64) error {
	for _, m := range g.ttl {
		m.Advance(now)
	}
	return g.failed
}

func (g *guess) route(now int64, r *policies.Request, slot indexer.Slot) error {
	if g.ttl != nil {
		g.ttl[slot].Route(now, r.Locals)
	} else {
		l, _ := g.lru[slot].Acquire(now, r.Locals, r.Blocks()-len(r.Locals))
		g.leases[r.ID] = lease{slot, l}
	}
	return g.failed
}

func (g *guess) finished(now int64, id uint64) {
	if l, ok := g.leases[id]; ok {
		g.lru[l.slot].Release(now, l.lease)
		delete(g.leases, id)
	}
}

// oracleName is the oracle's among the policies.
const oracleName = "(oracle)"

// oracle sends each request to the rank that has the fewest tokens to compute
// until its prompt is done: those of all prompts that wait or run there and those
// of its own that the cache does not have, by the true state of the engines. Of
// equal ranks the one with fewer requests is taken, then the lower one. It sees
// all there is to see now, but plans nothing: a policy can beat it.
type oracle struct {
	engines []rankEngine
	notes   *notes
}

// Route implements fleet.Router.
func (o *oracle) Route(now int64, a *fleet.Arrival) (int, error) {
	noted := o.notes.live.begin(a.ID)
	best, bestTokens, bestRequests := 0, int64(0), 0
	n := a.Chain.Prompt()
	for i, e := range o.engines {
		backlog, requests := e.Backlog()
		cached := e.Cached(a.Chain, n)
		tokens := backlog + int64(n-cached)
		if i == 0 || tokens < bestTokens || tokens == bestTokens && requests < bestRequests {
			best, bestTokens, bestRequests = i, tokens, requests
			noted.expected = int32(cached)
		}
	}
	if o.notes.explain != nil && a.ID == o.notes.row {
		return best, o.notes.explain(now, a, nil)
	}
	return best, nil
}

// Hears implements fleet.Hearer.
func (*oracle) Hears() (events, load, looks bool) { return false, false, true }

// Event implements fleet.Router.
func (*oracle) Event(int64, *indexer.Event) error { return nil }

// FirstToken implements fleet.Router.
func (*oracle) FirstToken(int64, uint64) {}

// Finished implements fleet.Router.
func (*oracle) Finished(int64, uint64) {}
