package positional

import (
	"runtime"
	"sync/atomic"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/idle"
)

// spinLock is held for well under a µs; a sync.Mutex would put a locked OS thread
// to sleep for longer than that.
type spinLock struct{ word atomic.Uint32 }

func (l *spinLock) lock() {
	for round := 0; l.word.Load() != 0 || !l.word.CompareAndSwap(0, 1); round++ {
		wait(round)
	}
}

func (l *spinLock) unlock() { l.word.Store(0) }

// spinRounds is how long a wait only spins.
const spinRounds = 16

// wait lets a little time pass for another thread to finish something short. That
// one may have lost its CPU, or be a goroutine without a thread: each needs
// another way of stepping aside.
func wait(round int) {
	switch {
	case round < spinRounds:
		idle.Pause()
	case round%4 == 0:
		runtime.Gosched()
	default:
		idle.Yield()
	}
}

// The top bits of a place choose the shard.
const (
	shardBits = 8
	numShards = 1 << shardBits
)

// shard is a part of the table of places.
type shard struct {
	spinLock
	places table[uint32] // to the first link of the set
	sets   arena
	_      [idle.CacheLine]byte
}

// add records that slot holds place; it reports whether that is new.
func (s *shard) add(place uint64, slot indexer.Slot) bool {
	s.lock()
	added := s.sets.add(s.places.put(place), slot)
	s.unlock()
	return added
}

// remove records that slot does not hold place any more; it reports whether it
// did.
func (s *shard) remove(place uint64, slot indexer.Slot) bool {
	s.lock()
	defer s.unlock()
	i := s.places.find(place)
	if i < 0 {
		return false
	}
	first := &s.places.cells[i].value
	removed := s.sets.remove(first, slot)
	if *first == 0 {
		s.places.remove(i)
	}
	if s.sets.spares > minSpares && 4*s.sets.spares > 3*len(s.sets.links) {
		s.compact()
	}
	return removed
}

// minSpares is how many free links a shard keeps in any case.
const minSpares = 128

// compact copies the sets to an arena without free links.
func (s *shard) compact() {
	old := s.sets
	s.sets = arena{links: make([]link, 0, len(old.links)-old.spares)}
	for i := range s.places.cells {
		c := &s.places.cells[i]
		at := c.value
		if at == 0 {
			continue
		}
		c.value = uint32(len(s.sets.links)) + 1
		for at != 0 {
			l := old.links[at-1]
			at = l.next
			if at != 0 {
				l.next = uint32(len(s.sets.links)) + 2
			}
			s.sets.links = append(s.sets.links, l)
		}
	}
}
