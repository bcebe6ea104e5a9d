// Package engine is what mock inference engines have in common: the requests that
// they are given, what they tell of them, and how their numbers are counted. The
// engines are in packages vllm and sglang.
//
// An engine is a state machine in virtual time. It does nothing by itself: who
// owns it submits requests, asks for the time of the next thing that happens,
// and lets time go on. It knows no wall clock, no router and no other engine.
package engine

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker"
)

// Request asks an engine to compute a prompt and to generate tokens.
type Request struct {
	// ID names the request in everything that the engine tells. It is unique
	// among those that are in the engine at one time.
	ID uint64
	// Chain is the tokens of the request. The engine uses it until it tells that
	// the request is done.
	Chain *mocker.Chain
	// Output is the number of tokens to generate. With 0 the request is done when
	// its prompt is computed, without a token.
	Output int
}

// Listener is told what an engine does, in order of virtual time (ns).
type Listener interface {
	// Event is a KV event. Its slot is 0; it is borrowed for the call.
	Event(at int64, ev *indexer.Event)
	// Admitted says that a request has its first blocks, with cached tokens of
	// it from the cache. again says that it had blocks before and lost them.
	Admitted(at int64, id uint64, cached int, again bool)
	// Token says that a request has token n of its answer, counted from 1.
	Token(at int64, id uint64, n int)
	// Preempted says that a request lost its blocks to another.
	Preempted(at int64, id uint64)
	// Done says that the request has all its tokens and holds nothing any more.
	Done(at int64, id uint64)
}

// TokenReader is a Listener that takes tokens of many passes at a time: in the
// place of a call of Token for each.
type TokenReader interface {
	Listener
	// Tokens says that each of these requests, which have a token of their answers
	// already, has one more at each of these times. Nothing else happened between
	// them but KV events, which are told before. Both lists are borrowed.
	Tokens(ids []uint64, at []int64)
}

// BlockReader is a Listener that can do without the blocks of events. Engines need
// not name blocks then; the lists of Stored and Removed events can be empty.
type BlockReader interface {
	Listener
	ReadsBlocks() bool
}

// ReadsBlocks says whether a listener reads the blocks of events.
func ReadsBlocks(l Listener) bool {
	r, ok := l.(BlockReader)
	return !ok || r.ReadsBlocks()
}

// Refusal is why an engine cannot ever serve a request.
type Refusal uint8

// The reasons.
const (
	Accepted      Refusal = iota
	EmptyPrompt           // there is nothing to compute
	PromptTooLong         // the prompt has the engine's maximum length or more
	PromptNoRoom          // the whole pool cannot hold the prompt
	AnswerNoRoom          // the whole pool cannot hold the prompt with the answer
	BudgetTooLow          // without chunked prefill, a pass cannot compute it
	refusals
)

// Refusals is the number of reasons, Accepted included.
const Refusals = int(refusals)

var refusalNames = [Refusals]string{"accepted", "empty-prompt", "prompt-too-long", "prompt-exceeds-pool", "answer-exceeds-pool", "exceeds-token-budget"}

// String returns a short name.
func (r Refusal) String() string {
	if int(r) < Refusals {
		return refusalNames[r]
	}
	return fmt.Sprintf("Refusal(%d)", uint8(r))
}

// Counts are an engine's numbers since its start. At any time
//
//	Submitted = Refused + Done + Waiting + Running
//	capacity  = ActiveBlocks + IdleBlocks + FreeBlocks
type Counts struct {
	Submitted   int64
	Refused     int64
	Done        int64
	Preemptions int64

	Waiting int // requests that have no blocks now
	Running int // requests that have

	ActiveBlocks int // physical blocks that requests hold
	IdleBlocks   int // physical blocks that are cached and held by none
	FreeBlocks   int
	Resident     int // distinct blocks that lookups find
	PeakActive   int // highest ActiveBlocks

	// PromptTokens are those of the requests that were admitted at least once.
	PromptTokens int64
	// FirstHitTokens of these came from the cache at the first admission.
	FirstHitTokens int64
	// AgainTokens are the tokens known of requests that were admitted again after
	// a preemption, at each of these, and AgainHitTokens those of them that came
	// from the cache.
	AgainTokens    int64
	AgainHitTokens int64

	ChunkTokens  int64 // tokens computed that were known before, those computed anew included
	DecodeTokens int64 // tokens computed one by one
	OutputTokens int64 // tokens generated

	StoredBlocks  int64 // blocks in Stored events
	RemovedBlocks int64 // blocks in Removed events: evictions

	Passes    int64
	BusyNanos int64 // in passes
}

// Residency is how long blocks were in the cache since the start, in block-ns: a
// block for a second is 10^9. Only complete blocks count, each copy by itself. The
// sums wrap around at 2^63, which is 2.5 million blocks for an hour.
type Residency struct {
	Cached int64
	// Dead is the part of it after the last request that held the block had gone,
	// until the block was evicted or the clock stands: that nobody would come any
	// more is known afterwards only, and at the end of a run blocks count as dead
	// that a longer one might have used again.
	Dead int64
}
