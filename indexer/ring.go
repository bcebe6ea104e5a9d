package indexer

import (
	"sync/atomic"

	"github.com/kvbench/kvbench/internal/idle"
)

// entry is one queued event.
type entry struct {
	slot Slot
	id   uint32
}

// ring is a bounded queue from one producer to one event thread. The two ends
// are counted from 0 and never wrap; entry k lies at k & mask. What one side
// writes shares no cache line with what the other does.
type ring struct {
	entries []entry
	mask    uint64
	_       [idle.CacheLine]byte

	// The producer's.
	tail       atomic.Uint64 // published
	write      uint64        // pushed, perhaps not yet published
	headSeen   uint64        // lower bound of head
	blocked    atomic.Uint64 // pushes that met a full ring
	blockedFor atomic.Int64  // ns that they waited
	_          [idle.CacheLine]byte

	// The event thread's.
	head      atomic.Uint64 // applied
	read      uint64        // taken
	highWater atomic.Uint64 // most entries seen waiting
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
