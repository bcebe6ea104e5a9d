package positional

import (
	"math/bits"

	"github.com/kvbench/kvbench/indexer"
)

// words is a set of slots, 64 to a word, in ascending order and without empty
// words. What a query does with sets depends on how many words they have, not on
// how many slots there could be.
type words []word

type word struct {
	bits  uint64
	index uint32 // slot / 64
}

// one reports whether the set has exactly one slot.
func (w words) one() bool { return len(w) == 1 && w[0].bits&(w[0].bits-1) == 0 }

// slots is an iterator over the set, in ascending order.
func (w words) slots(yield func(indexer.Slot) bool) {
	for _, w := range w {
		for ; w.bits != 0; w.bits &= w.bits - 1 {
			if !yield(indexer.Slot(w.index)*64 + indexer.Slot(bits.TrailingZeros64(w.bits))) {
				return
			}
		}
	}
}

// arena holds the sets of one shard as chains of words in ascending order, flat
// and without pointers. A reference to a word is its position plus 1, 0 is none.
type arena struct {
	links  []link
	free   uint32 // a chain too
	spares int    // in free
}

type link struct {
	word
	next uint32
}

func (a *arena) alloc(l link) uint32 {
	at := a.free
	if at == 0 {
		a.links = append(a.links, l)
		return uint32(len(a.links))
	}
	a.free = a.links[at-1].next
	a.spares--
	a.links[at-1] = l
	return at
}

// seek returns the first link of a chain with at least that index, and the one
// before it.
func (a *arena) seek(first, index uint32) (before, at uint32) {
	for at = first; at != 0 && a.links[at-1].index < index; at = a.links[at-1].next {
		before = at
	}
	return before, at
}

// add puts slot into the chain that starts at *first.
func (a *arena) add(first *uint32, slot indexer.Slot) (added bool) {
	index, bit := uint32(slot/64), uint64(1)<<(slot%64)
	before, at := a.seek(*first, index)
	if at != 0 && a.links[at-1].index == index {
		had := a.links[at-1].bits&bit != 0
		a.links[at-1].bits |= bit
		return !had
	}
	at = a.alloc(link{word: word{bits: bit, index: index}, next: at})
	if before == 0 {
		*first = at
	} else {
		a.links[before-1].next = at
	}
	return true
}

// remove takes slot out of the chain that starts at *first, and sets *first to 0
// with the last one.
func (a *arena) remove(first *uint32, slot indexer.Slot) (removed bool) {
	index, bit := uint32(slot/64), uint64(1)<<(slot%64)
	before, at := a.seek(*first, index)
	if at == 0 || a.links[at-1].index != index || a.links[at-1].bits&bit == 0 {
		return false
	}
	l := &a.links[at-1]
	if l.bits &^= bit; l.bits != 0 {
		return true
	}
	if before == 0 {
		*first = l.next
	} else {
		a.links[before-1].next = l.next
	}
	*l = link{next: a.free}
	a.free = at
	a.spares++
	return true
}

// appendTo appends the words of a chain.
func (a *arena) appendTo(dst words, first uint32) words {
	for at := first; at != 0; at = a.links[at-1].next {
		dst = append(dst, a.links[at-1].word)
	}
	return dst
}

// split leaves in set what is also in a chain, and appends what is not to dropped.
func (a *arena) split(set words, first uint32, dropped words) (kept, _ words) {
	kept, at := set[:0], first
	for _, w := range set {
		for at != 0 && a.links[at-1].index < w.index {
			at = a.links[at-1].next
		}
		var have uint64
		if at != 0 && a.links[at-1].index == w.index {
			have = a.links[at-1].bits
		}
		if gone := w.bits &^ have; gone != 0 {
			dropped = append(dropped, word{gone, w.index})
		}
		if w.bits &= have; w.bits != 0 {
			kept = append(kept, w)
		}
	}
	return kept, dropped
}
