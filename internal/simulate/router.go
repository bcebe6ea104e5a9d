package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/runs"
	"github.com/kvbench/kvbench/mocker/fleet"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/catalogue"
	"github.com/kvbench/kvbench/trace"
)

// sessionLimit is how many sessions a router remembers.
const sessionLimit = 1 << 20

// router is a policy with the state of one router: an index that KV events feed,
// the load that it caused itself, and where it sent sessions. It knows nothing
// else of the ranks. Blocks of answers are not part of its account of load.
type router struct {
	pipeline *policies.Pipeline
	inputs   policies.Inputs
	trace    *trace.Trace

	index  indexer.Index
	writer indexer.Writer
	reader indexer.Reader
	answer indexer.Answer
	effect indexer.Effect // of all events

	load     *policies.ActiveLoad
	sessions *policies.Sessions
	state    policies.State
	request  policies.Request
}

func newRouter(p *catalogue.Policy, cfg *Config, t *trace.Trace, seed uint64) (*router, error) {
	pipeline, err := p.New(seed)
	if err != nil {
		return nil, err
	}
	r := &router{pipeline: pipeline, inputs: pipeline.Inputs(), trace: t}
	if r.inputs.Has(policies.ExperimentalResidentBlocks) {
		return nil, fmt.Errorf("policy %s reads %v, which simulate does not give yet", p.Text, policies.ExperimentalResidentBlocks)
	}
	r.state = policies.State{Slots: cfg.Workers}
	if r.inputs.Has(policies.Cache) {
		index, err := runs.New(indexer.Config{Threads: 1, Slots: cfg.Workers})
		if err != nil {
			return nil, err
		}
		r.index, r.writer, r.reader = index, index.Writer(0), index.Reader()
		r.answer.Grow(cfg.Workers)
		for slot := range cfg.Workers {
			r.writer.Attach(indexer.Slot(slot))
		}
		r.state.Cache = &r.answer
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
			r.state.CapacityBlocks[i] = uint32(cfg.Engine.Blocks)
		}
	}
	if r.inputs.Has(policies.Tags) {
		r.state.RankTags = make([]policies.TagSet, cfg.Workers)
	}
	return r, nil
}

func (r *router) close() {
	if r.index != nil {
		r.reader.Close()
		_ = r.index.Close() // it has nothing to report: all memory is the collector's
	}
}

// Route implements fleet.Router.
func (r *router) Route(now int64, a *fleet.Arrival) (int, error) {
	locals, _ := a.Chain.Blocks(a.Chain.Prompt())
	r.request = policies.Request{
		ID:           a.ID,
		Now:          time.Duration(now),
		PromptTokens: a.Chain.Prompt(),
		Locals:       locals,
		BlockSize:    a.Chain.BlockSize(),
		Session:      uint64(a.Session),
		HasSession:   r.trace.Request(int(a.ID)).Session != "",
	}
	if r.reader != nil {
		r.reader.Find(locals, indexer.FindOptions{}, &r.answer)
	}
	choice, err := r.pipeline.Select(&r.request, &r.state)
	if errors.Is(err, policies.ErrNoCandidates) || errors.Is(err, policies.ErrOverloaded) {
		return fleet.NoRank, nil
	}
	if err != nil {
		return 0, err
	}
	r.pipeline.Commit(&r.request, choice.Slot)
	if r.load != nil {
		cached := min(int(choice.Overlap)*r.request.BlockSize, r.request.PromptTokens)
		if err := r.load.Dispatch(&r.request, choice.Slot, cached); err != nil {
			return 0, err
		}
	}
	if r.sessions != nil && r.request.HasSession {
		r.sessions.Serve(r.request.Session, choice.Slot, r.request.Now)
	}
	return int(choice.Slot), nil
}

// Event implements fleet.Router.
func (r *router) Event(_ int64, ev *indexer.Event) error {
	if r.writer == nil {
		return nil
	}
	e := r.writer.Apply(ev)
	r.effect.Stored += e.Stored
	r.effect.Removed += e.Removed
	r.effect.Duplicate += e.Duplicate
	r.effect.UnknownRemoved += e.UnknownRemoved
	r.effect.Orphaned += e.Orphaned
	r.effect.Conflicting += e.Conflicting
	if e.Malformed > 0 {
		return fmt.Errorf("the index calls event %d of rank %d malformed", ev.ID, ev.Slot)
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
func (r *router) Finished(_ int64, id uint64) {
	if r.load != nil {
		r.load.Finish(id)
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
}

// Route implements fleet.Router.
func (o *oracle) Route(_ int64, a *fleet.Arrival) (int, error) {
	best, bestTokens, bestRequests := 0, int64(0), 0
	n := a.Chain.Prompt()
	for i, e := range o.engines {
		backlog, requests := e.Backlog()
		tokens := backlog + int64(n-e.Cached(a.Chain, n))
		if i == 0 || tokens < bestTokens || tokens == bestTokens && requests < bestRequests {
			best, bestTokens, bestRequests = i, tokens, requests
		}
	}
	return best, nil
}

// Event implements fleet.Router.
func (*oracle) Event(int64, *indexer.Event) error { return nil }

// FirstToken implements fleet.Router.
func (*oracle) FirstToken(int64, uint64) {}

// Finished implements fleet.Router.
func (*oracle) Finished(int64, uint64) {}
