// Package corpus is the prepared work of a replay: every query and KV event of
// every rank with its deadline, flat and without pointers, in memory or mapped
// from a file.
//
// A corpus is canonical: the same work has exactly one form, in memory and as a
// file (see format.go), so that one SHA-256 names it. Check says what that form
// is. ExportParquet writes a table that other programs can read without this package.
//
// It neither makes the work (package prepare) nor runs it (package replay).
package corpus

import (
	"sync"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
)

// Kind is the kind of an operation.
type Kind uint8

// The kinds of operations; the events have the numbers of indexer.EventKind.
const (
	Query   Kind = 0
	Stored       = Kind(indexer.Stored)
	Removed      = Kind(indexer.Removed)
	Cleared      = Kind(indexer.Cleared)
)

// String returns the name of the kind in lower case.
func (k Kind) String() string {
	if k == Query {
		return "query"
	}
	return indexer.EventKind(k).String()
}

// Op is one operation. Its layout in memory is its layout in a file: 40 bytes,
// little endian.
type Op struct {
	// Deadline is in ns from the start of the window. Ops are sorted by
	// (Deadline, queries before events, Slot, order within the rank).
	Deadline int64
	// Hashes is the position in Corpus.Hashes of the first hash. A query has
	// Len local hashes there, Removed has Len sequence hashes, and Stored has
	// Len sequence hashes followed by Len local hashes. The hashes of op i+1
	// follow those of op i.
	Hashes uint64
	// Parent is the parent's sequence hash of a Stored if HasParent is 1, else 0.
	Parent uint64
	// Seq is the position in Corpus.Requests of a query, which is its number
	// among the queries, and the event id, counted from 0 within the rank, of
	// an event.
	Seq uint32
	// Len is the number of blocks.
	Len uint32
	// Slot is the position in Corpus.Ranks, and the indexer's slot.
	Slot      uint32
	Kind      Kind
	HasParent uint8
	Reserved  uint16 // 0
}

// HashCount returns how many of Corpus.Hashes the op has.
func (op *Op) HashCount() uint64 {
	if op.Kind == Stored {
		return 2 * uint64(op.Len)
	}
	return uint64(op.Len)
}

// Request says where a query comes from, and what became of it on the rank of
// the query. Its layout in memory is its layout in a file: 32 bytes, little
// endian.
type Request struct {
	Row          uint32 // row of the transformed trace, counted from 0
	Session      uint32 // session of the transformed trace
	InputTokens  uint32
	OutputTokens uint32
	// FirstToken is when the rank's engine had the first token of the answer, and
	// Finish when the request ended: ns from the start of the window, from the
	// query's deadline on, Finish not before FirstToken, and either may lie behind
	// the end of the window. Both are NeverRan if the engine refused the request.
	FirstToken int64
	Finish     int64
}

// NeverRan stands for the times of a request that its engine refused.
const NeverRan = -1

// Ran says whether the request ran.
func (r *Request) Ran() bool { return r.FirstToken != NeverRan }

// Corpus is the prepared work. Whoever makes one fills the exported fields and
// changes nothing after the first call of a method; from then on it may be read
// concurrently. The memory of an opened corpus is a read-only mapping of the
// file: writing to it is a fault.
type Corpus struct {
	Manifest Manifest
	Ranks    []indexer.Rank // in strictly ascending order
	Requests []Request
	Ops      []Op
	Hashes   []uint64

	mapping []byte // the file, if the corpus was opened from one

	sealOnce sync.Once
	sealed   image
	sealErr  error
}

// Manifest says what the corpus holds and how it was made. It has no times or
// paths: the same trace, flags and seed give the same bytes.
type Manifest struct {
	Schema      string `json:"schema"`       // SchemaV1, or SchemaV2 of an approximate corpus
	TraceName   string `json:"trace_name"`   // base name of the file, or name of the embedded trace
	TraceSHA256 string `json:"trace_sha256"` // of the bytes of the file as they were read
	Seed        uint64 `json:"seed"`
	WindowNS    int64  `json:"window_ns"`

	Options Options `json:"options"`
	Totals  Totals  `json:"totals"`
}

// SchemaV1 is the schema name of this version of the format.
const SchemaV1 = "kvbench.corpus/v1"

// SchemaV2 is the schema name of corpora whose events are approximate, so that a
// program that does not know of them refuses them. All else is as in SchemaV1.
const SchemaV2 = "kvbench.corpus/v2"

// The values of Options.Approximate. Without any, the events are the engines' own.
const (
	ApproximateTTL = "ttl"
	ApproximateLRU = "lru"
)

// The values of Options.Rescale.
const (
	RescaleRank   = "rank"
	RescaleGlobal = "global"
)

// Options are the choices that shaped the corpus.
type Options struct {
	Workers           int     `json:"workers"`
	DPRanks           int     `json:"dp_ranks"` // data-parallel ranks of each worker
	TraceBlockSize    int     `json:"trace_block_size"`
	TraceReading      string  `json:"trace_reading,omitempty"` // format and flags that the trace was read with; "": mooncake without any
	BlockSize         int     `json:"block_size"`
	GPUBlocks         int     `json:"gpu_blocks"`
	LengthFactor      int     `json:"length_factor"`
	DuplicationFactor int     `json:"duplication_factor"`
	SpeedUp           float64 `json:"speed_up"`
	// Rescale is how the timelines were scaled to the window: RescaleRank
	// scales the timeline of each rank to the whole window, RescaleGlobal
	// scales all with one factor, which keeps their relative lengths.
	Rescale   string `json:"rescale"`
	TimeModel string `json:"time_model"`
	// Approximate says what took the place of the engines' KV events: nothing
	// (""), or what a router stores for its own decisions, which goes after TTLNS
	// of the engines' time (ApproximateTTL) or, GPUBlocks being full, the longest
	// unused first (ApproximateLRU). Package retention has the rules.
	Approximate string `json:"approximate,omitempty"`
	TTLNS       int64  `json:"ttl_ns,omitempty"` // for ApproximateTTL only
}

// Schema returns the schema name of a corpus with such options.
func (o *Options) Schema() string {
	if o.Approximate != "" {
		return SchemaV2
	}
	return SchemaV1
}

// Totals counts what the corpus holds.
type Totals struct {
	Requests        int64 `json:"requests"`
	RequestBlocks   int64 `json:"request_blocks"`
	StoredEvents    int64 `json:"stored_events"`
	StoredBlocks    int64 `json:"stored_blocks"`
	RemovedEvents   int64 `json:"removed_events"`
	RemovedBlocks   int64 `json:"removed_blocks"`
	ClearedEvents   int64 `json:"cleared_events"`
	RefusedRequests int64 `json:"refused_requests"` // larger than a rank's pool; these never ran
	HitBlocks       int64 `json:"hit_blocks"`       // found in the rank's own cache
	OutputBlocks    int64 `json:"output_blocks"`    // of the stored blocks
	Preemptions     int64 `json:"preemptions"`      // of running requests
	PeakActive      int64 `json:"peak_active_blocks"`
	PeakQueue       int64 `json:"peak_queue"`

	Approximate Approximate `json:"approximate,omitzero"` // of an approximate corpus only
}

// Approximate says what approximate retention did and how far it was from the
// engines. It compares, for each request that an engine ran, the leading blocks
// that the retention held for the rank when the request came with those that the
// engine found in its cache at the admission. Where the whole prompt is held, its
// last block is left out, since an engine must compute at least one token:
//
//	PredictedBlocks - OverPredicted + UnderPredicted = Totals.HitBlocks
type Approximate struct {
	PredictedBlocks int64 `json:"predicted_blocks"`
	OverPredicted   int64 `json:"over_predicted_blocks"`  // predicted and not hit
	UnderPredicted  int64 `json:"under_predicted_blocks"` // hit and not predicted
	Decisions       int64 `json:"decisions"`              // requests that were routed
	ExpiredBlocks   int64 `json:"expired_blocks"`         // gone by time
	EvictedBlocks   int64 `json:"evicted_blocks"`         // gone for room
	OverCapacity    int64 `json:"over_capacity"`          // decisions and changes after which more was in use than a rank holds
	PeakOver        int64 `json:"peak_over_blocks"`       // by how many blocks at most
	PeakBlocks      int64 `json:"peak_blocks"`            // most blocks held for one rank
	Collisions      int64 `json:"collisions"`             // prompts and answers cut off at a block whose name was taken
}

// Add adds the counts of another rank; peaks become the higher one.
func (a *Approximate) Add(o Approximate) {
	a.PredictedBlocks += o.PredictedBlocks
	a.OverPredicted += o.OverPredicted
	a.UnderPredicted += o.UnderPredicted
	a.Decisions += o.Decisions
	a.ExpiredBlocks += o.ExpiredBlocks
	a.EvictedBlocks += o.EvictedBlocks
	a.OverCapacity += o.OverCapacity
	a.PeakOver = max(a.PeakOver, o.PeakOver)
	a.PeakBlocks = max(a.PeakBlocks, o.PeakBlocks)
	a.Collisions += o.Collisions
}

// add counts one op.
func (t *Totals) add(op *Op) {
	n := int64(op.Len)
	switch op.Kind {
	case Query:
		t.Requests++
		t.RequestBlocks += n
	case Stored:
		t.StoredEvents++
		t.StoredBlocks += n
	case Removed:
		t.RemovedEvents++
		t.RemovedBlocks += n
	case Cleared:
		t.ClearedEvents++
	}
}

// CountOps returns the totals that follow from the ops alone. The others are 0.
func CountOps(ops []Op) Totals {
	var t Totals
	for i := range ops {
		t.add(&ops[i])
	}
	return t
}

// BlockOps returns request blocks + stored blocks + removed blocks.
func (t *Totals) BlockOps() int64 { return t.RequestBlocks + t.StoredBlocks + t.RemovedBlocks }

// Events returns the number of KV events.
func (t *Totals) Events() int64 { return t.StoredEvents + t.RemovedEvents + t.ClearedEvents }

// Locals returns the local hashes of query i.
func (c *Corpus) Locals(i uint32) []indexer.LocalHash {
	op := &c.Ops[i]
	return view[indexer.LocalHash](c.Hashes[op.Hashes : op.Hashes+uint64(op.Len)])
}

// Event sets ev to event i. The slices alias the corpus.
func (c *Corpus) Event(i uint32, ev *indexer.Event) {
	op := &c.Ops[i]
	n := uint64(op.Len)
	ev.ID = uint64(op.Seq)
	ev.Slot = indexer.Slot(op.Slot)
	ev.Kind = indexer.EventKind(op.Kind)
	ev.HasParent = op.HasParent != 0
	ev.Parent = indexer.SequenceHash(op.Parent)
	ev.Sequences = view[indexer.SequenceHash](c.Hashes[op.Hashes : op.Hashes+n])
	ev.Locals = nil
	if op.Kind == Stored {
		ev.Locals = view[indexer.LocalHash](c.Hashes[op.Hashes+n : op.Hashes+2*n])
	}
}

// view reads hashes as hashes of a kind: all of them are a uint64 underneath.
func view[T ~uint64](s []uint64) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}
