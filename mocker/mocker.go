// Package mocker imitates an inference engine as far as a router can see it: a
// block pool with prefix caching, requests that occupy it in virtual time, and
// the KV events that follow. It computes no tokens and knows no wall clock.
//
// The scheduler is a simple one, behind an interface that a complete one fits as
// well. Requests are admitted in the order of arrival when the whole prompt fits
// beside the blocks in use, and each then runs as if it were alone. The end of the
// prefill gives the first token of the answer, each further one takes a decode
// step, and an answer of no tokens takes as long as one of one. If an answer needs
// a block and there is none, the request admitted last gives up its own and
// computes them anew later. There are no steps, no token budget, no chunked
// prefill and no slowing down of requests by each other.
package mocker

import (
	"context"
	"errors"
	"fmt"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// Recorder receives the timeline of one rank in order of virtual time. At equal
// times a request's query comes before the events it causes, and a Removed
// before the Stored that needed its room. Arguments are borrowed for the call.
type Recorder interface {
	// Query reports that row row of the trace asked for a place at time at
	// (ns), with the local hashes of its prompt's full blocks.
	Query(at int64, row int, locals []indexer.LocalHash)
	// Event reports a KV event at time at (ns). ev.Slot is 0.
	Event(at int64, ev *indexer.Event)
}

// Follower is a Recorder that is also told what becomes of each request, in order
// of virtual time, after the request's query. A router without KV events knows a
// request from this side.
type Follower interface {
	Recorder
	// Admitted reports that a request runs for the first time, with the first
	// hits of its blocks from the cache. The engine looks for most of them at
	// most, since it must compute at least one token.
	Admitted(at int64, row, hits, most int)
	// FirstToken reports that a request has the first token of its answer, once:
	// what it computes anew after it lost its blocks gives no other first token.
	FirstToken(at int64, row int)
	// Grown reports the local hashes of the request's next full blocks, behind
	// those of the prompt and of earlier calls; there may be none. Beside all
	// its full blocks the request now holds partial ones, 0 or 1.
	Grown(at int64, row int, locals []indexer.LocalHash, partial int)
	// Ended reports that a request holds no blocks any more. One that is
	// refused ends when it comes, without having been admitted or having had a
	// first token; every other one has had both.
	Ended(at int64, row int)
}

// Config describes one engine.
type Config struct {
	// GPUBlocks is the size of the block pool, in blocks.
	GPUBlocks int
	// BlockSize is the number of tokens in a block of the engine. It need not
	// divide the trace's block size nor be divided by it.
	BlockSize int
	// Seed draws the content of output tokens.
	Seed uint64
	// Time gives the durations of prefill and decode. nil: DefaultTime.
	Time TimeModel
}

// TimeModel gives durations in virtual time. Implementations are pure; a
// negative duration is an error of RunRank, and so is what a method Validate()
// error returns, if there is one.
type TimeModel interface {
	// Prefill returns the ns to compute newTokens of a prompt whose first
	// cachedTokens are in the cache already.
	Prefill(newTokens, cachedTokens int) int64
	// Decode returns the ns to generate one token after contextTokens. It is
	// asked once for the tokens of one block.
	Decode(contextTokens int) int64
}

// Summary says what happened on a rank.
type Summary struct {
	Requests      int64 // requests that asked for a place
	Refused       int64 // of these, those that the whole pool cannot hold with their answer: query, no event
	Preempted     int64 // times that a running request gave its blocks up for another
	PromptBlocks  int64 // full blocks of the prompts, refused ones included
	HitBlocks     int64 // of these, found in the cache at the first admission
	StoredBlocks  int64
	RemovedBlocks int64
	OutputBlocks  int64 // of the stored blocks, those with generated tokens
	PeakActive    int64 // highest number of blocks that running requests held at once
	PeakQueue     int64 // highest number of requests that waited for room
	EndNanos      int64 // virtual time of the last happening
}

// RunRank plays the given sessions of t on one engine, alone, and reports its
// timeline. The same arguments give the same calls of rec, which may be a
// Follower.
//
// The first turn of a session arrives at its timestamp, rounded to ns, a later
// one its delay after the end of the turn before it.
func RunRank(ctx context.Context, t *trace.Trace, sessions []int, cfg Config, rec Recorder) (Summary, error) {
	switch {
	case cfg.GPUBlocks < 1:
		return Summary{}, fmt.Errorf("mocker: a pool of %d blocks; there must be at least 1", cfg.GPUBlocks)
	case cfg.GPUBlocks > 1<<30:
		return Summary{}, fmt.Errorf("mocker: a pool of %d blocks; there must be at most 2^30", cfg.GPUBlocks)
	case cfg.BlockSize < 1:
		return Summary{}, fmt.Errorf("mocker: blocks of %d tokens; there must be at least 1", cfg.BlockSize)
	case t.BlockSize < 1:
		return Summary{}, errors.New("mocker: the trace has no block size")
	}
	if cfg.Time == nil {
		cfg.Time = DefaultTime
	}
	if m, ok := cfg.Time.(interface{ Validate() error }); ok {
		if err := m.Validate(); err != nil {
			return Summary{}, fmt.Errorf("mocker: %w", err)
		}
	}
	e := newEngine(t, cfg, rec)
	if err := e.arriveAll(sessions); err != nil {
		return Summary{}, err
	}
	if err := e.run(ctx); err != nil {
		return Summary{}, err
	}
	return e.sum, nil
}
