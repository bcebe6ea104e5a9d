package flat

import (
	"math/bits"

	"github.com/kvbench/kvbench/indexer"
)

// Reader answers queries for one goroutine.
type Reader struct {
	x     *Index
	ranks []seen      // those that hold the first block
	alive []aliveWord // those that hold all blocks so far
	// scores is by slot; a rank's score is written when it drops out.
	scores []uint32
	// marks is a bitset by slot, empty between uses.
	marks   [indexer.MaxRanks / 64]uint64
	members []indexer.Slot
}

// seen is a rank as it was before the walk.
type seen struct {
	slot    indexer.Slot
	version *version
	before  uint32
}

// aliveWord is 64 slots of which at least one is alive. Few words are, however
// high the slots: a walk does not depend on how many ranks there are.
type aliveWord struct {
	index uint32
	bits  uint64
}

// Close implements indexer.Reader.
func (r *Reader) Close() {}

// optimisticTries is how often a rank that changed is walked again before its
// writer is made to wait.
const optimisticTries = 4

// Find implements indexer.Reader.
func (r *Reader) Find(query []indexer.LocalHash, opts indexer.FindOptions, ans *indexer.Answer) {
	ans.Reset()
	if len(query) == 0 {
		return
	}
	r.start(next(rootSeed, query[0]))
	if len(r.ranks) == 0 {
		return
	}
	r.walk(query, opts.EarlyExit)
	for _, s := range r.ranks {
		score := r.scores[s.slot]
		if s.before%2 != 0 || s.version.Load() != s.before {
			score = r.walkAgain(query, s.slot, s.version)
		}
		if score > 0 {
			ans.Set(s.slot, score)
		}
	}
	ans.Keep(opts.MaxRanks)
}

// start notes the ranks that hold a place and their versions.
func (r *Reader) start(place uint64) {
	r.ranks, r.alive, r.members = r.ranks[:0], r.alive[:0], r.members[:0]
	s := r.x.shard(place)
	s.lock()
	if e := s.find(place); e != nil {
		r.members = s.sets.appendTo(r.members, e)
	}
	s.unlock()
	for _, slot := range r.members {
		v := r.x.version(slot)
		r.ranks = append(r.ranks, seen{slot: slot, version: v, before: v.Load()})
		if int(slot) >= len(r.scores) {
			r.scores = append(r.scores, make([]uint32, int(slot)+1-len(r.scores))...)
		}
		r.scores[slot] = 0
		// The members of a bitset are in order; those of a list need not share
		// words.
		if n := len(r.alive); n == 0 || r.alive[n-1].index != uint32(slot/64) {
			r.alive = append(r.alive, aliveWord{index: uint32(slot / 64)})
		}
		r.alive[len(r.alive)-1].bits |= 1 << (slot % 64)
	}
}

// walk sets the scores of all ranks. With early it stops where one is left.
func (r *Reader) walk(query []indexer.LocalHash, early bool) {
	place := uint64(rootSeed)
	for depth, local := range query {
		place = next(place, local)
		s := r.x.shard(place)
		s.lock()
		e := s.find(place)
		if e != nil {
			r.keep(s, e, uint32(depth))
		}
		s.unlock()
		if e == nil {
			r.keepOnly(nil, uint32(depth))
		}
		if len(r.alive) == 0 {
			return
		}
		if early && len(r.alive) == 1 && r.alive[0].bits&(r.alive[0].bits-1) == 0 {
			r.keepOnly(nil, uint32(depth)+1)
			return
		}
	}
	r.keepOnly(nil, uint32(len(query)))
}

// keep drops the ranks that are not in the set of e.
func (r *Reader) keep(s *shard, e *entry, depth uint32) {
	if set := s.sets.bitset(e); set != nil {
		r.keepOnly(set, depth)
		return
	}
	r.members = s.sets.appendTo(r.members[:0], e)
	for _, slot := range r.members {
		r.marks[slot/64] |= 1 << (slot % 64)
	}
	r.keepOnly(r.marks[:], depth)
	for _, slot := range r.members {
		r.marks[slot/64] = 0
	}
}

// keepOnly drops the ranks that are not in a bitset, with depth as their score.
func (r *Reader) keepOnly(set []uint64, depth uint32) {
	alive := r.alive[:0]
	for _, a := range r.alive {
		var have uint64
		if int(a.index) < len(set) {
			have = set[a.index]
		}
		for gone := a.bits &^ have; gone != 0; gone &= gone - 1 {
			r.scores[int(a.index)*64+bits.TrailingZeros64(gone)] = depth
		}
		if a.bits &= have; a.bits != 0 {
			alive = append(alive, a)
		}
	}
	r.alive = alive
}

// walkAgain returns the score of one rank that had an event meanwhile.
func (r *Reader) walkAgain(query []indexer.LocalHash, slot indexer.Slot, v *version) uint32 {
	for round := range optimisticTries {
		before := v.Load()
		if before%2 != 0 {
			wait(round)
			continue
		}
		if score := r.walkOne(query, slot); v.Load() == before {
			return score
		}
	}
	before := acquire(v)
	score := r.walkOne(query, slot)
	// Nothing has changed, so whoever saw the old value may go on.
	v.Store(before)
	return score
}

func (r *Reader) walkOne(query []indexer.LocalHash, slot indexer.Slot) uint32 {
	place := uint64(rootSeed)
	for depth, local := range query {
		place = next(place, local)
		s := r.x.shard(place)
		s.lock()
		e := s.find(place)
		held := e != nil && s.sets.contains(e, slot)
		s.unlock()
		if !held {
			return uint32(depth)
		}
	}
	return uint32(len(query))
}
