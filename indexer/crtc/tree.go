package crtc

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/kvbench/kvbench/indexer"
)

const (
	// maxPartial is the number of partial holders at which a node is split
	// where half of them end, so that looking for one stays cheap.
	maxPartial = 32
	// fewPartial is how many a node may get by growing or by a join.
	fewPartial = 8
)

// lockOwner returns, locked, the node of a position that the caller's rank holds.
func (w *Writer) lockOwner(p position) *node {
	for {
		n := w.x.owner(p)
		n.lock()
		if n.start <= p && p < n.end() {
			return n
		}
		n.unlock()
	}
}

// own makes a node the owner of the positions of an edge.
func (n *node) own(edge []uint64, start position) {
	first := n.slab.at(start)
	owners := n.slab.owners[first : first+len(edge)]
	for i := range owners {
		atomic.StoreUint32(&owners[i], n.number)
	}
}

// split makes the blocks of a node from k on, 0 < k < length, a node of their
// own, which gets the children. The caller has n locked.
func (w *Writer) split(n *node, k int) *node {
	m := w.nodes.alloc()
	// Those that still wait for the lock of what this node was find out under
	// the lock that it is another.
	m.lock()
	m.start, m.up, m.slab = n.start+position(k), n.start+position(k)-1, n.slab
	m.edge = n.edge[k:]
	m.kids = n.kids
	m.full = n.full
	if len(n.more) > 0 {
		m.more = append(w.chunks.get(len(n.more)), n.more...)
	}
	n.edge = n.edge[:k:k]
	n.kids = kids{}
	n.kids.add(&w.kids, child{m.edge[0], m})
	for i := 0; i < len(n.partial); {
		p := &n.partial[i]
		switch {
		case p.holes != nil:
			slot, tail := p.slot, p.holes.shifted(k)
			if tail.extent() > 0 {
				b := w.newBitmap()
				*b = tail
				w.addPartial(m, partial{slot: slot, holes: b})
				w.settle(m, len(m.partial)-1)
			}
			before := len(n.partial)
			p.holes.set(k, maxEdge, false)
			w.settle(n, i)
			if len(n.partial) < before {
				continue
			}
		case int(p.cutoff) >= k:
			if int(p.cutoff) > k {
				w.addPartial(m, partial{slot: p.slot, cutoff: p.cutoff - uint32(k)})
			}
			slot := p.slot
			w.dropPartial(n, i)
			w.setFull(n, slot)
			continue
		}
		i++
	}
	m.own(m.edge, m.start)
	m.unlock()
	return m
}

// thin splits a node that has many partial holders until neither part has.
// The caller has n locked.
func (w *Writer) thin(n *node) {
	for len(n.partial) > maxPartial && len(n.edge) > 1 {
		var cutoffs [maxPartial + 1]int
		for i := range cutoffs {
			cutoffs[i] = int(n.partial[i].cutoff)
		}
		slices.Sort(cutoffs[:])
		k := cutoffs[len(cutoffs)/2]
		if k == 0 {
			k = len(n.edge) / 2
		}
		m := w.split(n, k)
		m.lock()
		w.thin(m)
		m.unlock()
	}
}

// join takes the only child of a node into it if their blocks lie side by side,
// as they do after a split, and few ranks hold all of the one and not of the
// other. The caller has n locked. It reports whether it did.
func (w *Writer) join(n *node) bool {
	if n.isRoot() || n.kids.n != 1 || len(n.partial) > fewPartial {
		return false
	}
	c := n.kids.only().node
	// The place of a node does not change while it hangs below one that is locked.
	if c.start != n.end() || c.slab != n.slab {
		return false
	}
	c.lock()
	if !n.joinable(c) {
		c.unlock()
		return false
	}
	length := len(n.edge)
	// Who holds all of n and not of c is a partial holder of both.
	each := func(words, rest *[inlineSlots / 64]uint64, base indexer.Slot) {
		for i := range words {
			for v := words[i] &^ rest[i]; v != 0; v &= v - 1 {
				slot := base + indexer.Slot(i*64+bits.TrailingZeros64(v))
				cutoff := uint32(length)
				if p := c.partOf(slot); p >= 0 {
					cutoff += c.partial[p].cutoff
				}
				w.addPartial(n, partial{slot: slot, cutoff: cutoff})
			}
		}
	}
	each(&n.full, &c.full, 0)
	for i := range n.more {
		rest := &noBits
		if k, ok := c.chunkOf(indexer.Slot(n.more[i].index * inlineSlots)); ok {
			rest = &c.more[k].bits
		}
		each(&n.more[i].bits, rest, indexer.Slot(n.more[i].index*inlineSlots))
	}
	w.chunks.put(n.more)
	w.kids.put(n.kids.table)
	n.full, n.more, n.kids = c.full, c.more, c.kids
	first, middle := n.slab.at(n.start), n.slab.at(c.start)
	n.edge = n.slab.words[first : middle+len(c.edge) : middle+cap(c.edge)]
	n.own(c.edge, c.start)
	c.more, c.kids = nil, kids{}
	w.forget(c)
	c.unlock()
	w.x.giveBack(c)
	return true
}

var noBits [inlineSlots / 64]uint64

// joinable says whether c, the only child of n, may go into n.
func (n *node) joinable(c *node) bool {
	if len(n.edge)+len(c.edge) > maxEdge || len(n.partial)+len(c.partial) > fewPartial {
		return false
	}
	differ := 0
	count := func(words, rest *[inlineSlots / 64]uint64) bool {
		for i := range words {
			if rest[i]&^words[i] != 0 {
				return false
			}
			differ += bits.OnesCount64(words[i] &^ rest[i])
		}
		return len(n.partial)+differ <= fewPartial
	}
	if !count(&n.full, &c.full) {
		return false
	}
	found := 0
	for i := range n.more {
		rest := &noBits
		if k, ok := c.chunkOf(indexer.Slot(n.more[i].index * inlineSlots)); ok {
			rest = &c.more[k].bits
			found++
		}
		if !count(&n.more[i].bits, rest) {
			return false
		}
	}
	if found != len(c.more) {
		return false
	}
	// What would become a hole stays where it is.
	for i := range n.partial {
		if n.partial[i].holes != nil {
			return false
		}
	}
	for i := range c.partial {
		if c.partial[i].holes != nil || !n.isFull(c.partial[i].slot) {
			return false
		}
	}
	return true
}

// forget empties a node that nothing leads to. The caller has it locked.
func (w *Writer) forget(n *node) {
	w.chunks.put(n.more)
	for i := range n.partial {
		w.dropBitmap(n.partial[i].holes)
	}
	w.parts.put(n.partial)
	w.kids.put(n.kids.table)
	n.start, n.up, n.edge, n.slab = 0, 0, nil, nil
	n.full, n.more, n.partial, n.kids = noBits, nil, nil, kids{}
}

// truncate cuts off the blocks at the end of a leaf that nobody holds. The
// caller has n locked.
func (n *node) truncate() {
	if n.isRoot() || n.kids.n > 0 {
		return
	}
	extent := n.extent()
	if extent == len(n.edge) || extent == 0 {
		return
	}
	first := n.slab.at(n.start)
	end := (first + extent + unit - 1) / unit * unit
	last := first + cap(n.edge)
	n.edge = n.edge[:extent:min(end-first, cap(n.edge))]
	n.slab.release(first+extent, last)
}

// promote makes full those partial holders that hold all of what is left of the
// edge.
func (w *Writer) promote(n *node) {
	for i := 0; i < len(n.partial); {
		if p := n.partial[i]; int(p.cutoff) == len(n.edge) {
			w.dropPartial(n, i)
			w.setFull(n, p.slot)
			continue
		}
		i++
	}
}

// tidy brings a node that lost a holder or a child into order. It is called with
// n locked, and unlocks it. Nodes that nobody needs go, up to the root.
func (w *Writer) tidy(n *node) {
	for {
		switch {
		case n.isRoot():
			n.unlock()
			return
		case n.kids.n == 0 && !n.empty():
			n.truncate()
			w.promote(n)
			w.thin(n)
			n.unlock()
			return
		case n.kids.n > 0:
			w.thin(n)
			for w.join(n) {
			}
			n.unlock()
			return
		}
		if n = w.unlink(n); n == nil {
			return
		}
	}
}

// unlink takes a leaf that nobody holds out of the tree. It is called with n
// locked, and returns the node above it, locked, nil if n was found changed.
//
// Locks are taken downwards, so n has to be let go meanwhile. Whatever happens
// then, a node that is still below the same block and still such a leaf may go.
func (w *Writer) unlink(n *node) *node {
	up, local := n.up, n.edge[0]
	p := &w.x.roots[rootOf(local)]
	if up != 0 {
		// While n is there, so is the node above it.
		p = w.x.owner(up)
	}
	n.unlock()
	p.lock()
	// The owner of up cannot be asked again: up may not exist any more.
	for up != 0 && (p.isRoot() || p.end() != up+1) || p.kids.get(local) != n {
		// If the block above is not the last one of p any more, p was split, or
		// joined to the one above. Whoever did that left n where it was, or n is
		// gone. Look from n again.
		p.unlock()
		n.lock()
		if n.slab == nil || n.up != up || n.edge[0] != local || n.kids.n > 0 || !n.empty() {
			n.unlock()
			return nil
		}
		if up != 0 {
			p = w.x.owner(up)
		}
		n.unlock()
		p.lock()
	}
	n.lock()
	if n.kids.n > 0 || !n.empty() {
		n.unlock()
		p.unlock()
		return nil
	}
	p.kids.remove(&w.kids, local)
	first := n.slab.at(n.start)
	from, to := first, first+cap(n.edge)
	if n.start == p.end() && n.slab == p.slab {
		// The rest of the unit in which p ends is p's.
		at := p.slab.at(p.start)
		p.edge = p.slab.words[at : at+len(p.edge) : min(to, (first+unit-1)/unit*unit)]
	}
	s := n.slab
	w.forget(n)
	n.unlock()
	w.x.giveBack(n)
	s.release(from, to)
	return p
}
