package indexer

import (
	"sync/atomic"

	"github.com/kvbench/kvbench/internal/idle"
)

// entry is one queued event: 8 bytes and no pointer.
type entry struct {
	slot       uint16 // below MaxRanks
	generation uint16 // of the slot when the event was pushed
	id         uint32
}

// ring is a bounded queue from one producer to one event thread. The two ends
// are counted from 0 and never wrap; entry k lies at k & mask. Each line of it
// is written by one side only, and what the other side polls has a line of its
// own, so that pushing without publishing disturbs nobody.
type ring struct {
	entries []entry
	mask    uint64
	_       [idle.CacheLine]byte

	// The producer's.
	write      uint64        // pushed, perhaps not yet published
	headSeen   uint64        // lower bound of head
	blocked    atomic.Uint64 // pushes that met a full ring
	blockedFor atomic.Int64  // ns that they waited
	_          [idle.CacheLine]byte
	tail       atomic.Uint64 // published
	_          [idle.CacheLine]byte

	// The event thread's.
	read      uint64        // taken
	highWater atomic.Uint64 // most entries seen waiting
	_         [idle.CacheLine]byte
	head      atomic.Uint64 // applied
	_         [idle.CacheLine]byte
}

func newRing(capacity int) *ring {
	size := 1
	for size < capacity {
		size *= 2
	}
	return &ring{entries: make([]entry, size), mask: uint64(size - 1)}
}

// full says whether the producer must wait; it looks at the other side only if
// its own knowledge says so.
func (r *ring) full() bool {
	if r.write-r.headSeen <= r.mask {
		return false
	}
	r.headSeen = r.head.Load()
	return r.write-r.headSeen > r.mask
}

// push adds an entry to a ring that is not full.
func (r *ring) push(e entry) {
	r.entries[r.write&r.mask] = e
	r.write++
}

// unpublished returns how many entries were pushed and not published.
func (r *ring) unpublished() uint64 { return r.write - r.tail.Load() }

// publish shows the event thread what was pushed.
func (r *ring) publish() { r.tail.Store(r.write) }
