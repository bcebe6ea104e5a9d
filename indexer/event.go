package indexer

import "fmt"

// LocalHash is the hash of one block's own tokens. It says nothing about the
// blocks before it.
type LocalHash uint64

// SequenceHash is the engine's name of a block in its prefix. It is opaque:
// kvbench compares it and never recomputes it. All 2^64 values are valid,
// 0 and 2^64-1 included.
type SequenceHash uint64

// Rank is one cache: a worker and a data-parallel rank in it.
type Rank struct {
	Worker uint64
	DP     uint32
}

// String returns "worker/dp".
func (r Rank) String() string { return fmt.Sprintf("%d/%d", r.Worker, r.DP) }

// Compare orders ranks by worker, then by data-parallel rank.
func (r Rank) Compare(o Rank) int {
	switch {
	case r.Worker != o.Worker:
		if r.Worker < o.Worker {
			return -1
		}
		return 1
	case r.DP != o.DP:
		if r.DP < o.DP {
			return -1
		}
		return 1
	}
	return 0
}

// Slot is the dense number of a registered rank, in [0, MaxRanks). Everything
// on a hot path is indexed by slot. A slot is reused only after its rank has
// been removed from the index.
type Slot uint32

// MaxRanks is the largest number of ranks registered at one time.
const MaxRanks = 65536

// EventKind is the kind of a KV event.
type EventKind uint8

// The kinds of KV events. The zero value is not an event.
const (
	Stored  EventKind = 1 // blocks became reusable on a rank
	Removed EventKind = 2 // blocks were evicted from a rank
	Cleared EventKind = 3 // a rank dropped all its blocks
)

// String returns the name of the kind in lower case.
func (k EventKind) String() string {
	switch k {
	case Stored:
		return "stored"
	case Removed:
		return "removed"
	case Cleared:
		return "cleared"
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// Event is one KV event of one rank. Events of a rank are applied in the order
// in which the rank emitted them.
//
// The slices are borrowed: whoever receives an Event reads them during the call
// and does not keep or change them.
type Event struct {
	// ID numbers the events of one rank from 0. Indexes do not check it.
	ID uint64
	// Slot is the rank's slot.
	Slot Slot
	Kind EventKind
	// HasParent says whether Parent counts. Stored only: false means that
	// the first block starts a prompt.
	HasParent bool
	// Parent names the block that the first stored block follows.
	Parent SequenceHash
	// Sequences names the blocks. For Stored, block i+1 follows block i.
	Sequences []SequenceHash
	// Locals, for Stored only, holds the local hash of each block;
	// len(Locals) == len(Sequences).
	Locals []LocalHash
}
