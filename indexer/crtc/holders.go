package crtc

import (
	"math/bits"
	"slices"

	"github.com/kvbench/kvbench/indexer"
)

// inlineSlots is the number of slots whose bits lie in the node itself. It is
// also the number of slots of a further chunk.
const inlineSlots = 256

type slotChunk struct {
	index uint32 // slot / inlineSlots
	bits  [inlineSlots / 64]uint64
}

// partial is a rank that holds some blocks of an edge but not all.
type partial struct {
	slot indexer.Slot
	// cutoff is how many leading blocks it holds.
	cutoff uint32
	// holes is nil if it holds nothing else.
	holes *bitmap
}

// bitmap has a bit for each block of an edge.
type bitmap [maxEdge / 64]uint64

func (b *bitmap) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }

// set sets or clears bits [from, to).
func (b *bitmap) set(from, to int, on bool) {
	for i := from; i < to; {
		end := min(to, i&^63+64)
		mask := ^uint64(0) >> (64 - (end - i)) << (i % 64)
		if on {
			b[i/64] |= mask
		} else {
			b[i/64] &^= mask
		}
		i = end
	}
}

// leading is the number of bits that are set from the first on.
func (b *bitmap) leading() int {
	for w, v := range b {
		if v != ^uint64(0) {
			return w*64 + bits.TrailingZeros64(^v)
		}
	}
	return len(b) * 64
}

// extent is the number of bits up to the last that is set.
func (b *bitmap) extent() int {
	for w := len(b) - 1; w >= 0; w-- {
		if b[w] != 0 {
			return w*64 + bits.Len64(b[w])
		}
	}
	return 0
}

// shifted returns the bits from k on.
func (b *bitmap) shifted(k int) bitmap {
	var s bitmap
	for i := k / 64; i < len(b); i++ {
		s[i-k/64] = b[i] >> (k % 64)
		if k%64 != 0 && i+1 < len(b) {
			s[i-k/64] |= b[i+1] << (64 - k%64)
		}
	}
	return s
}

// extent is the number of blocks up to the last that the rank holds.
func (p *partial) extent() int {
	if p.holes != nil {
		return p.holes.extent()
	}
	return int(p.cutoff)
}

func (n *node) chunkOf(slot indexer.Slot) (int, bool) {
	return slices.BinarySearchFunc(n.more, uint32(slot/inlineSlots), func(c slotChunk, index uint32) int { return int(c.index) - int(index) })
}

func (n *node) isFull(slot indexer.Slot) bool {
	if slot < inlineSlots {
		return n.full[slot/64]>>(slot%64)&1 != 0
	}
	i, ok := n.chunkOf(slot)
	return ok && n.more[i].bits[slot%inlineSlots/64]>>(slot%64)&1 != 0
}

func (w *Writer) setFull(n *node, slot indexer.Slot) {
	if slot < inlineSlots {
		n.full[slot/64] |= 1 << (slot % 64)
		return
	}
	i, ok := n.chunkOf(slot)
	if !ok {
		n.more = slices.Insert(w.chunks.grow(n.more, 1), i, slotChunk{index: uint32(slot / inlineSlots)})
	}
	n.more[i].bits[slot%inlineSlots/64] |= 1 << (slot % 64)
}

func (w *Writer) clearFull(n *node, slot indexer.Slot) {
	if slot < inlineSlots {
		n.full[slot/64] &^= 1 << (slot % 64)
		return
	}
	i, _ := n.chunkOf(slot)
	c := &n.more[i]
	c.bits[slot%inlineSlots/64] &^= 1 << (slot % 64)
	if c.bits == [inlineSlots / 64]uint64{} {
		n.more = w.chunks.shrink(slices.Delete(n.more, i, i+1), 1)
	}
}

// fullCount is the number of ranks that hold the whole edge.
func (n *node) fullCount() int {
	count := 0
	for _, v := range n.full {
		count += bits.OnesCount64(v)
	}
	for i := range n.more {
		for _, v := range n.more[i].bits {
			count += bits.OnesCount64(v)
		}
	}
	return count
}

func (n *node) eachFull(f func(indexer.Slot)) {
	each := func(base indexer.Slot, words *[inlineSlots / 64]uint64) {
		for i, v := range words {
			for ; v != 0; v &= v - 1 {
				f(base + indexer.Slot(i*64+bits.TrailingZeros64(v)))
			}
		}
	}
	each(0, &n.full)
	for i := range n.more {
		each(indexer.Slot(n.more[i].index*inlineSlots), &n.more[i].bits)
	}
}

func (n *node) partOf(slot indexer.Slot) int {
	for i := range n.partial {
		if n.partial[i].slot == slot {
			return i
		}
	}
	return -1
}

func (w *Writer) addPartial(n *node, p partial) {
	n.partial = append(w.parts.grow(n.partial, 2), p)
}

func (w *Writer) dropPartial(n *node, i int) {
	w.dropBitmap(n.partial[i].holes)
	last := len(n.partial) - 1
	n.partial[i] = n.partial[last]
	n.partial[last] = partial{}
	n.partial = w.parts.shrink(n.partial[:last], 2)
}

func (w *Writer) newBitmap() *bitmap {
	if k := len(w.bitmaps); k > 0 {
		b := w.bitmaps[k-1]
		w.bitmaps = w.bitmaps[:k-1]
		*b = bitmap{}
		return b
	}
	return new(bitmap)
}

func (w *Writer) dropBitmap(b *bitmap) {
	if b != nil && len(w.bitmaps) < keep/len(b) {
		w.bitmaps = append(w.bitmaps, b)
	}
}

// held returns what a rank holds of a node: so many leading blocks, and further
// ones if holes is not nil.
func (n *node) held(slot indexer.Slot) (cutoff int, holes *bitmap) {
	if n.isFull(slot) {
		return len(n.edge), nil
	}
	if i := n.partOf(slot); i >= 0 {
		return int(n.partial[i].cutoff), n.partial[i].holes
	}
	return 0, nil
}

// hold records that a rank holds blocks [from, to) of a node, from < to.
func (w *Writer) hold(n *node, slot indexer.Slot, from, to int) {
	if n.isFull(slot) {
		return
	}
	i := n.partOf(slot)
	if i < 0 {
		if from == 0 && to == len(n.edge) {
			w.setFull(n, slot)
			return
		}
		w.addPartial(n, partial{slot: slot})
		i = len(n.partial) - 1
	}
	p := &n.partial[i]
	if p.holes == nil {
		if from <= int(p.cutoff) {
			p.cutoff = max(p.cutoff, uint32(to))
			if int(p.cutoff) == len(n.edge) {
				w.dropPartial(n, i)
				w.setFull(n, slot)
			}
			return
		}
		p.holes = w.newBitmap()
		p.holes.set(0, int(p.cutoff), true)
	}
	p.holes.set(from, to, true)
	w.settle(n, i)
}

// unhold records that a rank holds blocks [from, to), which it held, no more. It
// reports whether the rank is gone from the node.
func (w *Writer) unhold(n *node, slot indexer.Slot, from, to int) bool {
	i := n.partOf(slot)
	if i < 0 {
		w.clearFull(n, slot)
		if from == 0 && to == len(n.edge) {
			return true
		}
		w.addPartial(n, partial{slot: slot, cutoff: uint32(len(n.edge))})
		i = len(n.partial) - 1
	}
	p := &n.partial[i]
	if p.holes == nil {
		if to == int(p.cutoff) {
			p.cutoff = uint32(from)
			if from == 0 {
				w.dropPartial(n, i)
			}
			return from == 0
		}
		p.holes = w.newBitmap()
		p.holes.set(0, int(p.cutoff), true)
	}
	p.holes.set(from, to, false)
	return w.settle(n, i)
}

// settle brings an entry with a bitmap into the simplest form that says the
// same. It reports whether that is none.
func (w *Writer) settle(n *node, i int) (gone bool) {
	p := &n.partial[i]
	leading, extent := p.holes.leading(), p.holes.extent()
	p.cutoff = uint32(leading)
	switch {
	case leading == len(n.edge):
		slot := p.slot
		w.dropPartial(n, i)
		w.setFull(n, slot)
	case extent == 0:
		w.dropPartial(n, i)
		return true
	case leading == extent:
		w.dropBitmap(p.holes)
		p.holes = nil
	}
	return false
}

// unholdAll takes a rank out of a node.
func (w *Writer) unholdAll(n *node, slot indexer.Slot) {
	if i := n.partOf(slot); i >= 0 {
		w.dropPartial(n, i)
	} else if n.isFull(slot) {
		w.clearFull(n, slot)
	}
}

// extent is the number of blocks up to the last that anyone holds.
func (n *node) extent() int {
	if n.full != [inlineSlots / 64]uint64{} || len(n.more) > 0 {
		return len(n.edge)
	}
	most := 0
	for i := range n.partial {
		most = max(most, n.partial[i].extent())
	}
	return most
}
