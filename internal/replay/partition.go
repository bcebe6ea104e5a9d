package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/catalogue"
	"github.com/kvbench/kvbench/policies/experimental/residentblocks"
)

// partition is one router: the policy with a state of its own, that sees the
// requests of one query thread and knows nothing of what the others dispatch.
//
// Its clock is the deadlines of its queries. What it dispatched has its first
// token and its end when the corpus says so, on the rank that the policy chose
// though the corpus tells of the rank that the trace's draw chose: the trace's
// own timing drives the load, whatever the policy does. What an answer adds to
// a rank's blocks is not booked. A request that its engine refused is decided
// and, since that is known at once, not booked either.
type partition struct {
	corpus   *corpus.Corpus
	pipeline *policies.Pipeline
	inputs   policies.Inputs

	state    policies.State
	request  policies.Request
	load     *policies.ActiveLoad // nil: nobody reads it
	sessions *policies.Sessions   // nil: nobody reads it
	due      agenda               // of what load has
	now      int64                // ns from the start of the window

	choices  []choice // by position in queryThread.done, sized beforehand
	failures int64
	failed   error  // the first failure
	failedOp uint32 // its operation
}

// choice is what a query came to, beside its queryDone.
type choice struct {
	upkeep   int64 // ns that the load took to come to the deadline; 0 if nobody reads it
	looked   int64 // stamp after the lookup; that of the start without one
	selected int64 // stamp after the selection
	cost     float64
	slot     uint32 // noSlot: the selection failed
	overlap  uint32 // blocks that the chosen rank holds
	best     uint32 // blocks that the best rank holds
	rows     uint32 // candidates
}

// noSlot stands for the rank of a selection that failed.
const noSlot = math.MaxUint32

// seedOf returns the seed of a partition's pipeline.
func seedOf(corpusSeed uint64, number int) uint64 {
	return rand.NewPCG(corpusSeed, uint64(number)).Uint64()
}

// partitionSize is what a partition needs room for.
type partitionSize struct {
	queries  int
	inFlight int // requests on their way at one time
	blocks   int // full blocks of the prompts of these
	longest  int // full blocks of the longest prompt
	sessions int
}

// partitionSizes works out what each query thread will have. At no moment of a
// partition's clock are more requests on their way than at some deadline of the
// corpus, in whatever order its lanes are served, but for the one that it books.
func partitionSizes(c *corpus.Corpus, threads int, threadOf func(slot uint32) int) []partitionSize {
	type held struct {
		until  int64
		blocks int
	}
	out := make([]partitionSize, threads)
	ends := make([][]held, threads)
	sessions := make([]map[uint32]bool, threads)
	each := func(f func(thread int, op *corpus.Op, r *corpus.Request)) {
		for i := range c.Ops {
			if op := &c.Ops[i]; op.Kind == corpus.Query {
				f(threadOf(op.Slot), op, &c.Requests[op.Seq])
			}
		}
	}
	each(func(thread int, op *corpus.Op, r *corpus.Request) {
		s := &out[thread]
		s.queries++
		s.longest = max(s.longest, int(op.Len))
		if sessions[thread] == nil {
			sessions[thread] = map[uint32]bool{}
		}
		sessions[thread][r.Session] = true
		if r.Ran() {
			ends[thread] = append(ends[thread], held{r.Finish, int(op.Len)})
		}
	})
	for thread := range out {
		out[thread].sessions = len(sessions[thread])
		slices.SortFunc(ends[thread], func(a, b held) int {
			if a.until < b.until {
				return -1
			} else if a.until > b.until {
				return 1
			}
			return 0
		})
	}
	next, requests, blocks := make([]int, threads), make([]int, threads), make([]int, threads)
	each(func(thread int, op *corpus.Op, r *corpus.Request) {
		if !r.Ran() {
			return
		}
		requests[thread]++
		blocks[thread] += int(op.Len)
		// What ends at a deadline still counts: it may be booked late.
		for e := ends[thread]; next[thread] < len(e) && e[next[thread]].until < op.Deadline; next[thread]++ {
			requests[thread]--
			blocks[thread] -= e[next[thread]].blocks
		}
		s := &out[thread]
		s.inFlight = max(s.inFlight, requests[thread])
		s.blocks = max(s.blocks, blocks[thread])
	})
	return out
}

// newPartition makes a partition that is ready to choose and will not allocate.
// cache is where its thread puts the answers of the index, and resident where
// counts of resident blocks come from.
func newPartition(c *corpus.Corpus, policy *catalogue.Policy, number int, size partitionSize, cache *indexer.Answer, resident *residentblocks.Feed) (*partition, error) {
	seed := seedOf(c.Manifest.Seed, number)
	pipeline, err := policy.New(seed)
	if err != nil {
		return nil, err
	}
	slots := len(c.Ranks)
	p := &partition{
		corpus: c, pipeline: pipeline, inputs: pipeline.Inputs(),
		state:   policies.State{Slots: slots},
		request: policies.Request{BlockSize: c.Manifest.Options.BlockSize, HasSession: true},
		choices: room[choice](size.queries),
	}
	if p.inputs.Has(policies.Cache) {
		p.state.Cache = cache
	}
	if p.inputs.Has(policies.Load) {
		p.load = policies.NewActiveLoad(slots, max(slots, size.inFlight)+1)
		p.due = room[moment](size.inFlight + 1)
		p.state.Load = p.load
	}
	if p.inputs.Has(policies.Capacity) {
		p.state.CapacityBlocks = slices.Repeat([]uint32{uint32(c.Manifest.Options.GPUBlocks)}, slots)
	}
	if p.inputs.Has(policies.Session) {
		p.sessions = policies.NewSessions(max(1, size.sessions), 0)
		p.state.Sessions = p.sessions
	}
	if p.inputs.Has(policies.Tags) {
		// A trace has no tags, and neither have its ranks.
		p.state.RankTags = make([]policies.TagSet, slots)
	}
	if p.inputs.Has(policies.ExperimentalResidentBlocks) {
		p.state.ResidentBlocks = resident.Reader()
	}
	if size.queries == 0 {
		return p, nil
	}
	if err := p.warm(size); err != nil {
		return nil, fmt.Errorf("policy %s: %w", policy.Text, err)
	}
	p.pipeline.Reseed(seed)
	return p, nil
}

// warmSelections is how many selections are made before the start. They are
// not part of what is measured and leave nothing behind but memory.
const warmSelections = 64

// warm lets everything take its largest size.
func (p *partition) warm(size partitionSize) error {
	if p.sessions != nil {
		for s := range size.sessions {
			p.sessions.Serve(uint64(s), 0, 0)
		}
		p.sessions.Forget(0)
	}
	booked := 0
	if p.load != nil {
		// One prompt with all the blocks that can be active at a time, and enough
		// others that every rank shares a block with the prompts to come.
		prompt := make([]indexer.LocalHash, max(1, size.blocks+size.longest))
		for i := range prompt {
			prompt[i] = indexer.LocalHash(i)
		}
		for ; booked <= max(p.state.Slots, size.inFlight); booked++ {
			locals := prompt[:1]
			if booked == 0 {
				locals = prompt
			}
			r := p.request
			r.ID, r.Locals, r.PromptTokens = uint64(booked), locals, len(locals)*r.BlockSize
			if err := p.load.Dispatch(&r, indexer.Slot(booked%p.state.Slots), 0); err != nil {
				return err
			}
		}
		p.request.Locals = prompt[:1]
	}
	p.request.PromptTokens = p.request.BlockSize
	for range warmSelections {
		// A policy may find nobody to choose, which is for the trial to say.
		_, _ = p.pipeline.Select(&p.request, &p.state)
	}
	for id := range booked {
		p.load.Finish(uint64(id))
	}
	if p.load != nil && p.load.Active() != 0 {
		return fmt.Errorf("%d requests are active before the start", p.load.Active())
	}
	return nil
}

// come lets the clock come to the deadline of a query, unless it is there
// already since another lane was ahead: time does not go back.
func (p *partition) come(deadline int64) {
	p.now = max(p.now, deadline)
	for len(p.due) > 0 && p.due[0].at <= p.now {
		m := p.due.pop()
		if m.ends {
			p.load.Finish(uint64(m.request))
			continue
		}
		p.load.FirstToken(uint64(m.request))
		p.due.push(moment{p.corpus.Requests[m.request].Finish, m.request, true})
	}
}

// end lets everything end that is still on its way.
func (p *partition) end() { p.come(math.MaxInt64) }

// ask sets the request that is to be decided.
func (p *partition) ask(op *corpus.Op, locals []indexer.LocalHash) {
	of := &p.corpus.Requests[op.Seq]
	r := &p.request
	r.ID = uint64(op.Seq)
	r.Now = time.Duration(p.now)
	r.PromptTokens = int(of.InputTokens)
	r.Locals = locals
	r.Session = uint64(of.Session)
}

// book acts on a choice: it is dispatched and the components are told.
func (p *partition) book(c *policies.Choice) error {
	r := &p.request
	if of := &p.corpus.Requests[r.ID]; p.load != nil && of.Ran() {
		if err := p.load.Dispatch(r, c.Slot, min(int(c.Overlap)*r.BlockSize, r.PromptTokens)); err != nil {
			return err
		}
		p.due.push(moment{of.FirstToken, uint32(r.ID), false})
	}
	if p.sessions != nil {
		p.sessions.Serve(r.Session, c.Slot, r.Now)
	}
	p.pipeline.Commit(r, c.Slot)
	return nil
}

// fail keeps the first failure in words.
func (p *partition) fail(op uint32, err error) {
	p.failures++
	if p.failed == nil {
		p.failed, p.failedOp = fmt.Errorf("operation %d: %w", op, err), op
	}
}
