package flat

import (
	"math/bits"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/hugepages"
)

// entry is one place and the set of slots that hold it. An entry with count 0 is
// free. A set of one slot lies in the entry; a larger one in the shard's arena,
// 1<<class words long, either as a bitset by slot or as a list of two slots a
// word, whichever is smaller.
type entry struct {
	place uint64
	off   uint32 // the slot if count is 1, else the position in the arena
	meta  uint32 // count, class and form
}

const (
	countBits = 24
	countMask = 1<<countBits - 1
	classMask = 0x1f
	formBit   = 1 << 31
)

func (e *entry) count() int     { return int(e.meta & countMask) }
func (e *entry) class() int     { return int(e.meta >> countBits & classMask) }
func (e *entry) isBitset() bool { return e.meta&formBit != 0 }

func (e *entry) set(count, class int, bitset bool) {
	e.meta = uint32(count) | uint32(class)<<countBits
	if bitset {
		e.meta |= formBit
	}
}

// classFor is the smallest class of at least n words.
func classFor(n int) int { return bits.Len(uint(n - 1)) }

// bitsetClass is the class of a bitset that has room for slot.
func bitsetClass(slot indexer.Slot) int { return classFor(int(slot)/64 + 1) }

// arena holds the sets of one shard, flat and without pointers. Free pieces are
// chained by class.
type arena struct {
	words []uint64
	free  [11]uint32      // by class: position+1 of the first free piece
	spare int             // words in free pieces
	huge  *hugepages.Heap // where the words are from; nil: the Go heap
}

// alloc returns a cleared piece of 1<<class words.
func (a *arena) alloc(class int) uint32 {
	n := 1 << class
	if at := a.free[class]; at != 0 {
		off := at - 1
		a.free[class] = uint32(a.words[off])
		a.spare -= n
		clear(a.words[off : int(off)+n])
		return off
	}
	off := len(a.words)
	if a.huge != nil && off+n > cap(a.words) {
		// What append would do, which knows only the Go heap.
		grown := append(hugepages.Make[uint64](a.huge, max(off+n, 2*cap(a.words)))[:0], a.words...)
		hugepages.Free(a.huge, a.words)
		a.words = grown
	}
	for range n {
		a.words = append(a.words, 0)
	}
	return uint32(off)
}

func (a *arena) release(off uint32, class int) {
	a.words[off] = uint64(a.free[class])
	a.free[class] = off + 1
	a.spare += 1 << class
}

func (a *arena) list(off uint32, i int) indexer.Slot {
	return indexer.Slot(a.words[int(off)+i/2] >> (32 * (i & 1)))
}

func (a *arena) setList(off uint32, i int, slot indexer.Slot) {
	w := &a.words[int(off)+i/2]
	shift := 32 * (i & 1)
	*w = *w&^(0xffffffff<<shift) | uint64(slot)<<shift
}

// contains reports whether slot is in the set of e.
func (a *arena) contains(e *entry, slot indexer.Slot) bool {
	n := e.count()
	switch {
	case n == 1:
		return e.off == uint32(slot)
	case e.isBitset():
		w := int(slot) / 64
		return w < 1<<e.class() && a.words[int(e.off)+w]>>(slot%64)&1 != 0
	}
	for i := range n {
		if a.list(e.off, i) == slot {
			return true
		}
	}
	return false
}

// bitset returns the set of e if it is a bitset, else nil. It is valid until the
// next change.
func (a *arena) bitset(e *entry) []uint64 {
	if e.count() < 2 || !e.isBitset() {
		return nil
	}
	return a.words[e.off : int(e.off)+1<<e.class()]
}

// appendTo appends every slot of the set.
func (a *arena) appendTo(dst []indexer.Slot, e *entry) []indexer.Slot {
	n := e.count()
	switch {
	case n == 1:
		return append(dst, indexer.Slot(e.off))
	case e.isBitset():
		for i, w := range a.words[e.off : int(e.off)+1<<e.class()] {
			for ; w != 0; w &= w - 1 {
				dst = append(dst, indexer.Slot(i*64+bits.TrailingZeros64(w)))
			}
		}
		return dst
	}
	for i := range n {
		dst = append(dst, a.list(e.off, i))
	}
	return dst
}

// add puts slot into the set of e; it reports whether it was not there yet.
func (a *arena) add(e *entry, slot indexer.Slot) bool {
	n := e.count()
	if n == 0 {
		e.off = uint32(slot)
		e.set(1, 0, false)
		return true
	}
	if a.contains(e, slot) {
		return false
	}
	if n == 1 {
		a.rebuild(e, 2, indexer.Slot(e.off), slot)
		return true
	}
	if e.isBitset() {
		if w := int(slot) / 64; w < 1<<e.class() {
			a.words[int(e.off)+w] |= 1 << (slot % 64)
			e.set(n+1, e.class(), true)
			return true
		}
	} else if n < 2<<e.class() {
		a.setList(e.off, n, slot)
		e.set(n+1, e.class(), false)
		return true
	}
	// The set needs another piece. Its slots fit on the stack: a set of
	// thousands is a bitset and grows only when the highest slot doubles.
	var buf [256]indexer.Slot
	members := append(a.appendTo(buf[:0], e), slot)
	old, class := e.off, e.class()
	a.rebuild(e, n+1, members...)
	a.release(old, class)
	return true
}

// remove takes slot out of the set of e; it reports whether it was there.
func (a *arena) remove(e *entry, slot indexer.Slot) bool {
	if e.count() == 0 || !a.contains(e, slot) {
		return false
	}
	n := e.count() - 1
	if n == 0 {
		*e = entry{}
		return true
	}
	if e.isBitset() {
		a.words[int(e.off)+int(slot)/64] &^= 1 << (slot % 64)
	} else {
		for i := range n {
			if a.list(e.off, i) == slot {
				a.setList(e.off, i, a.list(e.off, n))
				break
			}
		}
	}
	e.set(n, e.class(), e.isBitset())
	// A piece four times too large is given back; the distance keeps a set at
	// the border from moving with every event.
	if n == 1 || 4*max(1, (n+1)/2) <= 1<<e.class() {
		var buf [256]indexer.Slot
		members := a.appendMembers(buf[:0], e)
		old, class := e.off, e.class()
		a.rebuild(e, n, members...)
		a.release(old, class)
	}
	return true
}

// appendMembers is appendTo for a set whose count may already say 1 while its
// member still lies in the arena.
func (a *arena) appendMembers(dst []indexer.Slot, e *entry) []indexer.Slot {
	if e.count() == 1 {
		if !e.isBitset() {
			return append(dst, a.list(e.off, 0))
		}
		for i, w := range a.words[e.off : int(e.off)+1<<e.class()] {
			if w != 0 {
				return append(dst, indexer.Slot(i*64+bits.TrailingZeros64(w)))
			}
		}
	}
	return a.appendTo(dst, e)
}

// rebuild gives e a set of n members in the smaller form. The old piece is the
// caller's.
func (a *arena) rebuild(e *entry, n int, members ...indexer.Slot) {
	if n == 1 {
		e.off = uint32(members[0])
		e.set(1, 0, false)
		return
	}
	var highest indexer.Slot
	for _, s := range members {
		highest = max(highest, s)
	}
	list, bitset := classFor((n+1)/2), bitsetClass(highest)
	if bitset <= list || bitset <= 1 {
		e.off = a.alloc(bitset)
		e.set(n, bitset, true)
		for _, s := range members {
			a.words[int(e.off)+int(s)/64] |= 1 << (s % 64)
		}
		return
	}
	e.off = a.alloc(list)
	e.set(n, list, false)
	for i, s := range members {
		a.setList(e.off, i, s)
	}
}
