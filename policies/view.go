package policies

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// Stretch is successive blocks of a prompt. Prompts that have one of them have all,
// and all before.
type Stretch struct {
	ID  uint64
	End uint32 // blocks of the prompt up to its end
}

// Request is what is known of the request itself. Every component may read it.
type Request struct {
	// ID names the request in ActiveLoad and in decisions.
	ID uint64
	// Now is the host's clock: a time since some fixed moment that never goes back.
	Now time.Duration
	// PromptTokens is the length of the prompt.
	PromptTokens int
	// Locals are the local hashes of the prompt's full blocks. Components read them
	// through Leading, since a host can leave them out that gives Stretches and
	// Hashes.
	Locals []indexer.LocalHash
	// Stretches, if not nil, are the same blocks in fewer steps: a host that knows
	// where prompts part gives them to all requests or to none. ActiveLoad then
	// goes by them, with the same result.
	Stretches []Stretch
	// Hashes, if not nil, makes what Locals leaves out: the local hashes of the first
	// n full blocks, of which the prompt has so many. The host may reuse the list
	// when it routes the next request.
	Hashes func(n int) []indexer.LocalHash
	// BlockSize is the tokens of a block.
	BlockSize int
	// Session is the request's session; HasSession is false if it has none.
	Session    uint64
	HasSession bool
	// ExpectedOutputTokens is a guess of the answer's length, 0: none.
	ExpectedOutputTokens int

	// Allowed, if not nil, lists the only slots that may serve the request.
	Allowed []indexer.Slot
	// Pinned is the only slot that may, if HasPin.
	Pinned indexer.Slot
	HasPin bool
	// RequiredTags must all be among the tags of the rank.
	RequiredTags TagSet
	// PreferredTags are for components; the pipeline does not look at them.
	PreferredTags TagSet
}

// Blocks returns the blocks of the prompt, a partial last one included.
func (r *Request) Blocks() int {
	return (r.PromptTokens + r.BlockSize - 1) / r.BlockSize
}

// FullBlocks returns the blocks of the prompt that are full and that its host tells
// apart: those that have a hash.
func (r *Request) FullBlocks() int {
	if n := len(r.Stretches); n > 0 {
		return int(r.Stretches[n-1].End)
	}
	return len(r.Locals)
}

// Leading returns the local hashes of the prompt's first full blocks, n of them or
// as many as there are. They are valid until the host routes the next request.
func (r *Request) Leading(n int) []indexer.LocalHash {
	n = min(n, r.FullBlocks())
	if r.Hashes != nil && n > len(r.Locals) {
		return r.Hashes(n)
	}
	return r.Locals[:n]
}

// TagSet is a set of up to 64 tags; which bit is which tag is the host's.
type TagSet uint64

// Overlaps is the answer of an index: how many leading blocks of the prompt each
// rank holds. *indexer.Answer implements it.
type Overlaps interface {
	// Scores returns the blocks by slot; slots beyond its length have 0.
	Scores() []uint32
	// Touched returns the slots with at least one block, in any order.
	Touched() []indexer.Slot
}

// State is what the host knows of the ranks. The columns are indexed by slot and
// borrowed for the call. Those of inputs that the pipeline does not declare may
// be nil and are not looked at.
type State struct {
	// Slots is the number of slots, which is the length of every column.
	Slots int
	// Dead, if not nil, marks the slots without a rank that can serve: nobody's,
	// fenced, gone.
	Dead []bool
	// Overloaded, if not nil, marks the ranks that must get nothing now.
	Overloaded []bool
	// Version must change whenever a value in Dead or Overloaded does.
	Version uint64

	// Cache is the index's answer for the prompt. Nil if there is no index,
	// though a pipeline declares CACHE: then nothing matches.
	Cache Overlaps
	// Load is the load of the ranks.
	Load *ActiveLoad
	// CapacityBlocks is how many blocks a rank can hold, 0 if unknown.
	CapacityBlocks []uint32
	// Sessions is where sessions were served.
	Sessions *Sessions
	// RankTags are the tags of each rank.
	RankTags []TagSet
	// ResidentBlocks is what experimental/residentblocks reads: a Reader of that
	// package.
	ResidentBlocks ExperimentalInput
}

// ExperimentalInput is an input whose values another package has.
type ExperimentalInput interface {
	// Begin is called once at the beginning of each selection of a pipeline that
	// declares the input.
	Begin()
}

// CacheColumns is the input CACHE.
type CacheColumns struct {
	// Overlap is the leading blocks of the prompt that each slot holds, by slot.
	Overlap []uint32
	// Touched are the slots with an overlap of at least 1, in any order. Some may
	// not be candidates.
	Touched []indexer.Slot
}

// CachedTokens returns how many tokens of the prompt a rank need not compute
// that holds its first overlap blocks.
func (c *CacheColumns) CachedTokens(r *Request, overlap uint32) int {
	return min(int(overlap)*r.BlockSize, r.PromptTokens)
}

// LoadColumns is the input LOAD, by slot.
type LoadColumns struct {
	// Known is false for a rank whose load nobody has observed, which is not the
	// same as idle; the other columns are then 0.
	Known []bool
	// PrefillTokens are the tokens of dispatched prompts without a first token
	// that their ranks have yet to compute.
	PrefillTokens []int64
	// DecodeBlocks are the distinct blocks of active requests.
	DecodeBlocks []int64
	// Requests are the requests dispatched and not finished.
	Requests []int32
	// SharedBlocks are the leading blocks of this request's prompt that active
	// requests of the rank have already: placing it there adds
	// Request.Blocks() - SharedBlocks[slot].
	SharedBlocks []uint32
	// Sharing are the slots with SharedBlocks of at least 1, in any order.
	Sharing []indexer.Slot
	// Changes is the log of the slots whose load has changed, for components that
	// keep an order of their own.
	Changes *ChangeLog
}

// SessionInput is the input SESSION, of the request's session.
type SessionInput struct {
	// Known is false if the request has no session or one that was not served
	// before or was forgotten.
	Known bool
	// Target is the slot that served it last. It may not be a candidate.
	Target indexer.Slot
	// LastSeen is when.
	LastSeen time.Duration
}

// View is what one component sees of a selection. It is valid for the call.
type View struct {
	name     string
	declared Inputs
	shared   *selection
}

// selection is what the views of a pipeline's components have in common.
type selection struct {
	request *Request
	state   *State
	rows    []indexer.Slot
	dense   bool
	epoch   uint64
	rand    *rand.Rand

	cache   CacheColumns
	load    LoadColumns
	session SessionInput
}

// Fail ends the selection with an error of the component. It does not return. It is
// for accessors of experimental inputs that cannot give what they are asked for.
func (v *View) Fail(problem string) { panic(&ComponentError{v.name, problem}) }

// need is small enough to be inlined, as long as undeclared is not.
func (v *View) need(in Inputs) {
	if v.declared&in == 0 {
		v.undeclared(in)
	}
}

//go:noinline
func (v *View) undeclared(in Inputs) {
	v.Fail(fmt.Sprintf("reads %v, which it does not declare", in))
}

// Request returns the request.
func (v *View) Request() *Request { return v.shared.request }

// Rows returns the slot of each row: the candidates. The order says nothing to
// a policy, but is ascending.
func (v *View) Rows() []indexer.Slot { return v.shared.rows }

// Dense says that row i is slot i for all slots: everyone is a candidate.
func (v *View) Dense() bool { return v.shared.dense }

// Candidates identifies the set of rows: while it is the same, so are they. 0
// says that the set is of this request alone.
func (v *View) Candidates() uint64 { return v.shared.epoch }

// Rand returns the pipeline's seeded stream.
func (v *View) Rand() *rand.Rand { return v.shared.rand }

// Cache returns the input CACHE.
func (v *View) Cache() *CacheColumns { v.need(Cache); return &v.shared.cache }

// Load returns the input LOAD.
func (v *View) Load() *LoadColumns { v.need(Load); return &v.shared.load }

// CapacityBlocks returns the input CAPACITY: blocks that a rank can hold, by
// slot, 0 if unknown.
func (v *View) CapacityBlocks() []uint32 { v.need(Capacity); return v.shared.state.CapacityBlocks }

// Session returns the input SESSION.
func (v *View) Session() *SessionInput { v.need(Session); return &v.shared.session }

// Tags returns the input TAGS, by slot.
func (v *View) Tags() []TagSet { v.need(Tags); return v.shared.state.RankTags }

// Experimental returns what the host put in State for an experimental input. It
// is for the package that has the input's accessor.
func (v *View) Experimental(in Inputs) ExperimentalInput {
	v.need(in)
	if in == ExperimentalResidentBlocks {
		return v.shared.state.ResidentBlocks
	}
	return nil
}
