package crtc

import (
	"math/bits"
	"sync/atomic"
)

// position is where the local hash of a block lies: slab number and word in it.
// It names the place for as long as a rank holds it or something below it,
// however nodes are split and joined. 0 is no position.
type position uint32

const (
	slabBits  = 12
	slabWords = 1 << slabBits
	// unit is the number of words in which space is given out.
	unit      = 4
	slabUnits = slabWords / unit
	// The last slab that a position could name is not used: its last position is
	// pending.
	maxSlabs = 1<<(32-slabBits) - 1
)

// slab is a piece of the memory of edges. Its space belongs to one heap.
type slab struct {
	heap       *wordHeap
	prev, next *slab // in the heap's list of its class
	number     uint32
	class      int
	longest    int // units of the longest free stretch
	free       int // units
	used       [slabUnits / 64]uint64
	words      [slabWords]uint64
	// owners holds the number of the node that has the word in its edge. It is
	// written with atomics once anyone may have the position.
	owners [slabWords]uint32
}

func (s *slab) at(p position) int { return int(p) & (slabWords - 1) }

func (s *slab) position(word int) position { return position(int(s.number)<<slabBits | word) }

// zeroFrom returns the first free unit from i on, slabUnits if there is none.
func (s *slab) zeroFrom(i int) int {
	for w := i / 64; w < len(s.used); w++ {
		if free := ^s.used[w] &^ (1<<(i%64) - 1); free != 0 {
			return w*64 + bits.TrailingZeros64(free)
		}
		i = 0
	}
	return slabUnits
}

// oneFrom returns the first used unit from i on, slabUnits if there is none.
func (s *slab) oneFrom(i int) int {
	for w := i / 64; w < len(s.used); w++ {
		if used := s.used[w] &^ (1<<(i%64) - 1); used != 0 {
			return w*64 + bits.TrailingZeros64(used)
		}
		i = 0
	}
	return slabUnits
}

// oneBefore returns the last used unit before i, -1 if there is none.
func (s *slab) oneBefore(i int) int {
	for w := (i - 1) >> 6; w >= 0; w-- {
		used := s.used[w]
		if w == i/64 {
			used &= 1<<(i%64) - 1
		}
		if used != 0 {
			return w*64 + bits.Len64(used) - 1
		}
	}
	return -1
}

// mark sets or clears units [from, to).
func (s *slab) mark(from, to int, used bool) {
	for i := from; i < to; {
		end := min(to, i&^63+64)
		mask := ^uint64(0) >> (64 - (end - i)) << (i % 64)
		if used {
			s.used[i/64] |= mask
		} else {
			s.used[i/64] &^= mask
		}
		i = end
	}
	if used {
		s.free -= to - from
	} else {
		s.free += to - from
	}
}

// measure finds the longest free stretch.
func (s *slab) measure() int {
	longest := 0
	for i := s.zeroFrom(0); i < slabUnits; {
		end := s.oneFrom(i)
		longest = max(longest, end-i)
		i = s.zeroFrom(end)
	}
	return longest
}

// wordHeap gives out space for edges. Each event thread takes from a heap of its
// own; anyone may give back.
type wordHeap struct {
	mu rwLock
	x  *Index
	// lists holds the slabs by bits.Len of their longest free stretch.
	lists [12]*slab
	slabs int
	empty []*slab // kept for later
}

func (h *wordHeap) unlink(s *slab) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		h.lists[s.class] = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

func (h *wordHeap) link(s *slab) {
	s.class = bits.Len(uint(s.longest))
	s.next = h.lists[s.class]
	if s.next != nil {
		s.next.prev = s
	}
	h.lists[s.class] = s
}

// setLongest keeps the slab in the right list.
func (h *wordHeap) setLongest(s *slab, longest int) {
	s.longest = longest
	if bits.Len(uint(longest)) != s.class {
		h.unlink(s)
		h.link(s)
	}
}

// alloc returns space for n words, rounded up to whole units.
func (h *wordHeap) alloc(n int) (s *slab, word int) {
	units := (n + unit - 1) / unit
	h.mu.lock()
	defer h.mu.unlock()
	s = h.roomy(units)
	for i := s.zeroFrom(0); ; {
		end := s.oneFrom(i)
		if end-i < units {
			i = s.zeroFrom(end)
			continue
		}
		s.mark(i, i+units, true)
		if end-i == s.longest {
			h.setLongest(s, s.measure())
		}
		return s, i * unit
	}
}

// roomy returns a slab with a free stretch of so many units.
func (h *wordHeap) roomy(units int) *slab {
	if s := h.lists[bits.Len(uint(units))]; s != nil && s.longest >= units {
		return s
	}
	for class := bits.Len(uint(units-1)) + 1; class < len(h.lists); class++ {
		if s := h.lists[class]; s != nil {
			return s
		}
	}
	var s *slab
	if n := len(h.empty); n > 0 {
		s, h.empty = h.empty[n-1], h.empty[:n-1]
	} else {
		s = &slab{heap: h}
		if s.number = h.x.slabs.add(s); s.number >= maxSlabs {
			panic("crtc: there are more blocks than 32-bit positions")
		}
		h.slabs++
	}
	s.free, s.longest = slabUnits, slabUnits
	h.link(s)
	return s
}

// release gives back the whole units of words [from, to) of a slab: the unit
// that from lies in stays unless it starts there, and the one that to lies in goes.
func (s *slab) release(from, to int) {
	first, last := (from+unit-1)/unit, (to+unit-1)/unit
	if first >= last {
		return
	}
	h := s.heap
	h.mu.lock()
	defer h.mu.unlock()
	s.mark(first, last, false)
	h.setLongest(s, max(s.longest, s.oneFrom(last)-s.oneBefore(first)-1))
	if s.free < slabUnits {
		return
	}
	h.unlink(s)
	if len(h.empty) < max(2, h.slabs/16) {
		h.empty = append(h.empty, s)
		return
	}
	h.slabs--
	h.x.slabs.drop(s.number)
	// Fewer may be kept now.
	for len(h.empty) > max(2, h.slabs/16) {
		n := len(h.empty) - 1
		h.x.slabs.drop(h.empty[n].number)
		h.empty[n] = nil
		h.empty = h.empty[:n]
		h.slabs--
	}
}

// extend makes space that ends at word end of a slab longer, in place, and
// reports whether that was possible.
func (s *slab) extend(end, n int) bool {
	if end%unit != 0 || end+n > slabWords {
		return false
	}
	first, last := end/unit, (end+n+unit-1)/unit
	h := s.heap
	h.mu.lock()
	defer h.mu.unlock()
	free := s.oneFrom(first)
	if free < last {
		return false
	}
	run := free - s.oneBefore(first) - 1
	s.mark(first, last, true)
	if run == s.longest {
		h.setLongest(s, s.measure())
	}
	return true
}

// owner returns the node that has a position which the caller's rank holds. It
// may have lost it when the caller has locked it.
func (x *Index) owner(p position) *node {
	s := x.slabs.get(uint32(p) >> slabBits)
	return x.node(atomic.LoadUint32(&s.owners[s.at(p)]))
}
