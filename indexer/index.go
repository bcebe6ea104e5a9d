package indexer

// Index answers which ranks hold how much of a prompt.
//
// # What it must answer
//
// For every rank that holds the first block of a query: the number of leading
// blocks that it holds contiguously from the root. A rank that lost block k
// scores at most k even if it still holds later blocks, and scores those again
// when block k comes back.
//
// # What a block of a rank is
//
// A rank's live set is a map from sequence hash to a place, the path of local
// hashes from the root. A Stored event without a parent starts at the root, one
// with a parent continues the parent's path as it was when the parent was
// stored. A rank holds a place while at least one of its sequence hashes names
// it. The number of resident blocks of a rank is the number of sequence hashes
// in its live set.
//
// # Odd events
//
// Each is counted in the Effect and none may panic:
//   - a stored block whose sequence hash is live at the same place: Duplicate;
//   - a Stored whose parent is not in the rank's live set: rejected whole, its
//     blocks counted as Orphaned;
//   - a Stored in which a sequence hash would name a second place, be it one
//     that the live set has or one from the same event: rejected whole, its
//     blocks counted as Conflicting;
//   - a removed hash that is not in the live set: UnknownRemoved, the others of
//     the event are removed all the same;
//   - an event without blocks: nothing changes;
//   - a Stored with fewer or more Locals than Sequences, or an unknown kind:
//     Malformed, one for the event.
//
// # Who calls what
//
// Each event thread has one Writer, each querying goroutine one Reader. A slot
// belongs to one Writer from Attach to Detach. Writers and Readers run at the
// same time; an answer given meanwhile is, for each rank on its own, true for
// some prefix of that rank's events that lies between the call and the return.
type Index interface {
	// Writer returns the handle of event thread i in [0, Config.Threads).
	// It is called at most once for each i, before or while others run.
	Writer(i int) Writer
	// Reader returns a handle for one goroutine.
	Reader() Reader
	// Check verifies the structure's own invariants and returns the first
	// violation. No Writer or Reader may be in a call meanwhile.
	Check() error
	// Close releases memory that the collector does not manage. No handle may
	// be used afterwards. Where invariants are on (internal/invariants), it
	// first does what Check does.
	Close() error
}

// Writer applies the events of the slots that belong to one event thread. Its
// methods are called from that thread only.
type Writer interface {
	// Attach takes over a slot that belongs to nobody, with an empty live set.
	Attach(slot Slot)
	// Apply applies one event of an attached slot. It does not allocate in
	// steady state and does not keep ev.
	Apply(ev *Event) Effect
	// Blocks returns the number of resident blocks of an attached slot. It
	// costs no more than a load.
	Blocks(slot Slot) int
	// Detach empties the slot's live set and gives the slot up.
	Detach(slot Slot)
	// Park says that the thread is about to wait for long, so that nothing
	// may depend on its next call. Any other method ends it.
	Park()
}

// Reader answers queries. A Reader is used by one goroutine at a time.
type Reader interface {
	// Find resets ans and fills it with the answer for the local hashes of a
	// prompt's full blocks. It does not allocate once ans has been grown to
	// the number of slots, and does not keep query.
	Find(query []LocalHash, opts FindOptions, ans *Answer)
	// Close gives the handle up.
	Close()
}

// FindOptions narrow a query. The zero value asks for everything.
type FindOptions struct {
	// MaxRanks, if positive, bounds the ranks of the answer: the deepest stay,
	// of equally deep ones those with lower slots.
	MaxRanks int
	// EarlyExit lets the index stop as soon as no more than one rank goes on
	// matching. The score of a rank that is deeper than all others may then be
	// too low, though still higher than every other; the rest is as without it.
	EarlyExit bool
}

// ReachableCounter is a Writer that can also say, at the cost of a load, how
// many places of an attached slot can be reached: those whose whole chain from
// the root the rank holds. It is false where the index would have to search.
type ReachableCounter interface {
	Reachable(slot Slot) (blocks int, known bool)
}

// Effect says what one event did, in blocks, but for Malformed.
type Effect struct {
	Stored         uint32 // blocks added to the live set
	Removed        uint32 // blocks taken out by a Removed event
	ClearedBlocks  uint32 // blocks taken out by a Cleared event
	Duplicate      uint32 // stored blocks that were there already
	UnknownRemoved uint32 // removed hashes that were not there
	Orphaned       uint32 // blocks of a Stored rejected for its parent
	Conflicting    uint32 // blocks of a Stored rejected for a second place
	Malformed      uint32 // events that are not well formed
}

// Config is what every index is built with.
type Config struct {
	// Threads is the number of event threads, at least 1.
	Threads int
	// Slots is the number of ranks to expect. More may come, up to MaxRanks.
	Slots int
	// HugePages asks that the index's large tables lie on huge pages. An index
	// that cannot ask the system for them returns an error from New; what was
	// obtained is in MemoryPart.HugeBytes.
	HugePages bool
}

// Factory names an index and builds it.
type Factory struct {
	// Name is how the user asks for it, in lower case.
	Name string
	// Summary is one line for lists.
	Summary string
	// SingleThread says that Config.Threads must be 1.
	SingleThread bool
	// Null says that the index accepts everything and answers nothing.
	Null bool
	// New builds an empty index. A Config that the index cannot work with, one
	// without an event thread among them, is an error.
	New func(Config) (Index, error)
}
