package flat

import (
	"runtime"
	"sync/atomic"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/hugepages"
	"github.com/kvbench/kvbench/internal/idle"
)

// spinLock is held for well under a µs; a sync.Mutex would put a locked OS
// thread to sleep for longer than that.
type spinLock struct{ word atomic.Uint32 }

func (l *spinLock) lock() {
	for round := 0; l.word.Load() != 0 || !l.word.CompareAndSwap(0, 1); round++ {
		wait(round)
	}
}

func (l *spinLock) unlock() { l.word.Store(0) }

// spinRounds is how long a wait only spins.
const spinRounds = 16

// wait lets a little time pass for another thread to finish something short.
// That one may have lost its CPU, or be a goroutine that has lost its thread:
// each needs another way of stepping aside. Sleeping would help neither, and the
// moments in which a busy version is free are shorter than any sleep.
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

// numShards spreads the locks; the top bits of a place choose the shard.
const (
	shardBits = 8
	numShards = 1 << shardBits
)

// minTable is the smallest table of a shard.
const minTable = 16

// shard is a part of the table of places: open addressing, linear probing,
// deletion by moving back.
type shard struct {
	spinLock
	used    int // entries with a count
	entries []entry
	sets    arena
	_       [idle.CacheLine]byte
}

func (s *shard) home(place uint64) int { return int(place) & (len(s.entries) - 1) }

// find returns the entry of a place, nil if nobody holds it.
func (s *shard) find(place uint64) *entry {
	if i := s.position(place); i >= 0 {
		return &s.entries[i]
	}
	return nil
}

func (s *shard) position(place uint64) int {
	if s.used == 0 {
		return -1
	}
	for i := s.home(place); ; i = (i + 1) & (len(s.entries) - 1) {
		e := &s.entries[i]
		if e.count() == 0 {
			return -1
		}
		if e.place == place {
			return i
		}
	}
}

// add records that slot holds place; it reports whether that is new.
func (s *shard) add(place uint64, slot indexer.Slot) bool {
	if e := s.find(place); e != nil {
		return s.sets.add(e, slot)
	}
	if 4*(s.used+1) > 3*len(s.entries) {
		s.resize(max(minTable, 2*len(s.entries)))
	}
	e := s.free(place)
	e.place = place
	s.used++
	return s.sets.add(e, slot)
}

// free returns the entry that a new place goes to.
func (s *shard) free(place uint64) *entry {
	for i := s.home(place); ; i = (i + 1) & (len(s.entries) - 1) {
		if e := &s.entries[i]; e.count() == 0 {
			return e
		}
	}
}

// remove records that slot does not hold place any more; it reports whether it
// did.
func (s *shard) remove(place uint64, slot indexer.Slot) bool {
	i := s.position(place)
	if i < 0 || !s.sets.remove(&s.entries[i], slot) {
		return false
	}
	if s.entries[i].count() == 0 {
		s.used--
		s.closeGap(i)
		if len(s.entries) > minTable && 8*s.used < len(s.entries) {
			s.resize(len(s.entries) / 2)
		}
	}
	if s.sets.spare > 256 && 4*s.sets.spare > 3*len(s.sets.words) {
		s.compact()
	}
	return true
}

// closeGap moves back the entries that probing would no longer find beyond the
// hole.
func (s *shard) closeGap(hole int) {
	mask := len(s.entries) - 1
	for i := (hole + 1) & mask; s.entries[i].count() != 0; i = (i + 1) & mask {
		// An entry may move back if its home does not lie in between.
		if (i-s.home(s.entries[i].place))&mask >= (i-hole)&mask {
			s.entries[hole], s.entries[i] = s.entries[i], entry{}
			hole = i
		}
	}
}

func (s *shard) resize(n int) {
	old := s.entries
	s.entries = hugepages.Make[entry](s.huge(), n)
	for i := range old {
		if old[i].count() != 0 {
			*s.free(old[i].place) = old[i]
		}
	}
	hugepages.Free(s.huge(), old)
}

// huge is where the tables are from.
func (s *shard) huge() *hugepages.Heap { return s.sets.huge }

// compact copies the sets to an arena without free pieces.
func (s *shard) compact() {
	old := s.sets
	s.sets = arena{huge: old.huge, words: hugepages.Make[uint64](old.huge, len(old.words)-old.spare)[:0]}
	for i := range s.entries {
		e := &s.entries[i]
		if e.count() < 2 {
			continue
		}
		n := 1 << e.class()
		from := e.off
		e.off = uint32(len(s.sets.words))
		s.sets.words = append(s.sets.words, old.words[from:int(from)+n]...)
	}
	hugepages.Free(old.huge, old.words)
}
