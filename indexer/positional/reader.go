package positional

import "github.com/kvbench/kvbench/indexer"

// Reader answers queries for one goroutine.
type Reader struct {
	x      *Index
	places []uint64 // of the query's blocks, as far as they were needed
	ranks  []seen   // those that hold the first block
	first  words    // the same as a set
	stack  words    // the sets of a search
	scores []uint32 // by slot
	looks  int      // at the table, since the start of the last query
}

// seen is a rank as it was before the search.
type seen struct {
	slot    indexer.Slot
	version *version
	before  uint32
}

// Close implements indexer.Reader.
func (r *Reader) Close() {}

// optimisticTries is how often a rank that changed is searched for again before
// its writer is made to wait.
const optimisticTries = 4

// Find implements indexer.Reader.
func (r *Reader) Find(query []indexer.LocalHash, opts indexer.FindOptions, ans *indexer.Answer) {
	ans.Reset()
	if len(query) == 0 {
		return
	}
	r.looks = 0
	r.places = append(r.places[:0], next(root, query[0]))
	r.start()
	if len(r.ranks) == 0 {
		return
	}
	r.search(query, r.first, opts.EarlyExit)
	for _, s := range r.ranks {
		score := r.scores[s.slot]
		if s.before%2 != 0 || s.version.Load() != s.before {
			score = r.searchAgain(query, s.slot, s.version)
		}
		if score > 0 {
			ans.Set(s.slot, score)
		}
	}
	ans.Keep(opts.MaxRanks)
}

// start notes the ranks that hold the first block, then their versions.
func (r *Reader) start() {
	s := r.x.shard(r.places[0])
	s.lock()
	r.first = s.sets.appendTo(r.first[:0], s.places.get(r.places[0]))
	s.unlock()
	r.ranks = r.ranks[:0]
	if n := len(r.first); n > 0 {
		if need := 64 * (int(r.first[n-1].index) + 1); need > len(r.scores) {
			r.scores = make([]uint32, max(need, 2*len(r.scores)))
		}
	}
	for slot := range r.first.slots {
		v := r.x.versions[slot].Load()
		r.ranks = append(r.ranks, seen{slot, v, v.Load()})
	}
}

// search sets the scores of the ranks in set, which it destroys. With early it
// stops where one is left.
func (r *Reader) search(query []indexer.LocalHash, set words, early bool) {
	r.stack = r.stack[:0]
	depth := 0 // what all of set hold
	for depth < len(query) && len(set) > 0 {
		probe := r.jump(query, depth)
		var dropped words
		set, dropped = r.split(set, r.places[probe])
		r.settle(dropped, depth, probe)
		r.stack = r.stack[:0]
		depth = probe + 1
		if early && set.one() {
			break
		}
	}
	r.score(set, depth)
}

// jump returns the block to look at for ranks that hold the first depth blocks: a
// step further, but not beyond one where somebody may have a hole.
func (r *Reader) jump(query []indexer.LocalHash, depth int) int {
	end := len(query)
	if r.x.step > 0 {
		end = min(end, depth+r.x.step)
	}
	for i := depth; i < end; i++ {
		if i == len(r.places) {
			r.places = append(r.places, next(r.places[i-1], query[i]))
		}
		if !r.x.holes.none(r.places[i]) {
			return i
		}
	}
	return end - 1
}

// split divides set by who holds a place. Those who do not go onto the stack.
func (r *Reader) split(set words, place uint64) (kept, dropped words) {
	r.looks++
	base := len(r.stack)
	s := r.x.shard(place)
	s.lock()
	kept, r.stack = s.sets.split(set, s.places.get(place), r.stack)
	s.unlock()
	return kept, r.stack[base:]
}

// settle sets the scores of ranks that hold the first lo blocks but not block hi.
// None of them has a hole in between, so halving finds where each one ends. The
// set is the top of the stack.
func (r *Reader) settle(set words, lo, hi int) {
	base := len(r.stack)
	for lo < hi && len(set) > 0 {
		mid := int(uint(lo+hi) / 2)
		var dropped words
		set, dropped = r.split(set, r.places[mid])
		r.settle(dropped, lo, mid)
		r.stack = r.stack[:base]
		lo = mid + 1
	}
	r.score(set, lo)
}

func (r *Reader) score(set words, score int) {
	for slot := range set.slots {
		r.scores[slot] = uint32(score)
	}
}

// searchAgain returns the score of one rank that had an event meanwhile.
func (r *Reader) searchAgain(query []indexer.LocalHash, slot indexer.Slot, v *version) uint32 {
	for round := range optimisticTries {
		before := v.Load()
		if before%2 != 0 {
			wait(round)
			continue
		}
		if score := r.searchOne(query, slot); v.Load() == before {
			return score
		}
	}
	before := acquire(v)
	score := r.searchOne(query, slot)
	// Nothing has changed, so whoever saw the old value may go on.
	v.Store(before)
	return score
}

func (r *Reader) searchOne(query []indexer.LocalHash, slot indexer.Slot) uint32 {
	r.first = append(r.first[:0], word{bits: 1 << (slot % 64), index: uint32(slot / 64)})
	r.search(query, r.first, false)
	return r.scores[slot]
}
