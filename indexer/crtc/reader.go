package crtc

import (
	"math/bits"

	"github.com/kvbench/kvbench/indexer"
)

// Reader answers queries for one goroutine.
type Reader struct {
	x     *Index
	ranks []seen // those that hold something of the first node
	// alive is a bitset, by slot, of the ranks that hold all blocks so far; words
	// are its words that are not 0, in order. A walk does not depend on how many
	// ranks there are.
	alive [indexer.MaxRanks / 64]uint64
	words []uint32
	// scores is by slot; a rank's score is written when it drops out.
	scores []uint32
}

// seen is a rank as it was before the walk.
type seen struct {
	slot    indexer.Slot
	version *version
	before  uint32
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
	r.walk(query, opts.EarlyExit)
	r.settle(query, ans)
	ans.Keep(opts.MaxRanks)
}

// settle puts the scores of a walk into an answer, those of ranks that had an
// event since its beginning after another walk.
func (r *Reader) settle(query []indexer.LocalHash, ans *indexer.Answer) {
	for i := range r.ranks {
		s := &r.ranks[i]
		score := r.scores[s.slot]
		if s.before%2 != 0 || s.version.Load() != s.before {
			score = r.walkAgain(query, s.slot, s.version)
		}
		if score > 0 {
			ans.Set(s.slot, score)
		}
	}
}

// walk sets the scores of all ranks. With early it stops where one is left.
func (r *Reader) walk(query []indexer.LocalHash, early bool) {
	r.ranks = r.ranks[:0]
	n := r.x.first(query[0])
	if n == nil {
		return
	}
	depth := common(n.edge, query)
	r.start(n, depth)
	whole := depth == len(n.edge)
	for {
		if !whole || depth == len(query) || len(r.words) == 0 || early && r.alone() {
			break
		}
		if n = n.follow(query[depth]); n == nil {
			r.end(depth)
			return
		}
		m := common(n.edge, query[depth:])
		r.keep(n, depth, m)
		whole = m == len(n.edge)
		depth += m
	}
	n.runlock()
	r.end(depth)
}

// first returns, locked for reading, the node that begins with a block.
func (x *Index) first(local indexer.LocalHash) *node {
	return (&x.roots[rootOf(uint64(local))]).rlocked().follow(local)
}

func (n *node) rlocked() *node {
	n.rlock()
	return n
}

// follow goes to a child of a node that is locked for reading. What is below a
// locked node stays there, so the child is locked before the node is let go.
func (n *node) follow(local indexer.LocalHash) *node {
	c := n.kids.get(uint64(local))
	if c != nil {
		c.rlock()
	}
	n.runlock()
	return c
}

// start notes the ranks of the first node of which m blocks match. What it holds
// cannot change while it is locked, so all of it was true when a version that is
// even was read.
func (r *Reader) start(n *node, m int) {
	r.words = r.words[:0]
	r.startFull(&n.full, 0)
	for i := range n.more {
		r.startFull(&n.more[i].bits, n.more[i].index*(inlineSlots/64))
	}
	for i := range n.partial {
		p := &n.partial[i]
		r.note(p.slot, min(p.cutoff, uint32(m)))
	}
}

func (r *Reader) startFull(full *[inlineSlots / 64]uint64, base uint32) {
	for i, word := range full {
		if word == 0 {
			continue
		}
		index := base + uint32(i)
		r.words = append(r.words, index)
		r.alive[index] = word
		for ; word != 0; word &= word - 1 {
			r.note(indexer.Slot(index*64)+indexer.Slot(bits.TrailingZeros64(word)), 0)
		}
	}
}

func (r *Reader) note(slot indexer.Slot, score uint32) {
	v := r.x.versions[slot].Load()
	r.ranks = append(r.ranks, seen{slot: slot, version: v, before: v.Load()})
	if int(slot) >= len(r.scores) {
		r.scores = append(r.scores, make([]uint32, int(slot)+1-len(r.scores))...)
	}
	r.scores[slot] = score
}

// keep drops the ranks that do not hold all of a node, m of whose blocks match
// after depth blocks.
func (r *Reader) keep(n *node, depth, m int) {
	// First those that hold a part, while it can be seen who came this far.
	for i := range n.partial {
		p := &n.partial[i]
		word, bit := p.slot/64, uint64(1)<<(p.slot%64)
		if r.alive[word]&bit != 0 {
			r.alive[word] &^= bit
			r.scores[p.slot] = uint32(depth) + min(p.cutoff, uint32(m))
		}
	}
	words, more := r.words[:0], n.more
	for _, index := range r.words {
		have := uint64(0)
		if index < inlineSlots/64 {
			have = n.full[index]
		} else {
			for len(more) > 0 && more[0].index < index/(inlineSlots/64) {
				more = more[1:]
			}
			if len(more) > 0 && more[0].index == index/(inlineSlots/64) {
				have = more[0].bits[index%(inlineSlots/64)]
			}
		}
		r.drop(index, r.alive[index]&^have, depth)
		if r.alive[index] &= have; r.alive[index] != 0 {
			words = append(words, index)
		}
	}
	r.words = words
}

// drop gives the ranks of some bits of a word their score.
func (r *Reader) drop(index uint32, gone uint64, depth int) {
	for ; gone != 0; gone &= gone - 1 {
		r.scores[int(index)*64+bits.TrailingZeros64(gone)] = uint32(depth)
	}
}

// alone reports whether one rank is left.
func (r *Reader) alone() bool {
	if len(r.words) != 1 {
		return false
	}
	word := r.alive[r.words[0]]
	return word&(word-1) == 0
}

// end gives all ranks that are left their score.
func (r *Reader) end(depth int) {
	for _, index := range r.words {
		r.drop(index, r.alive[index], depth)
		r.alive[index] = 0
	}
}

// walkAgain returns the score of one rank that had an event meanwhile.
func (r *Reader) walkAgain(query []indexer.LocalHash, slot indexer.Slot, v *version) uint32 {
	for round := range optimisticTries {
		before := v.Load()
		if before%2 != 0 {
			wait(round)
			continue
		}
		if score := r.x.walkOne(query, slot); v.Load() == before {
			return score
		}
	}
	before := acquire(v)
	score := r.x.walkOne(query, slot)
	// Nothing has changed, so whoever saw the old value may go on.
	v.Store(before)
	return score
}

func (x *Index) walkOne(query []indexer.LocalHash, slot indexer.Slot) uint32 {
	depth := 0
	for n := x.first(query[0]); n != nil; n = n.follow(query[depth]) {
		m := common(n.edge, query[depth:])
		cutoff, _ := n.held(slot)
		depth += min(cutoff, m)
		if cutoff < len(n.edge) || m < len(n.edge) || depth == len(query) {
			n.runlock()
			break
		}
	}
	return uint32(depth)
}
