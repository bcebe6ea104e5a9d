package crtc

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/invariants"
)

// Writer applies the events of one event thread.
type Writer struct {
	x     *Index
	ranks []*rank // by slot
	nodes nodeHeap
	words wordHeap

	kids    pool[child]
	parts   pool[partial]
	chunks  pool[slotChunk]
	bitmaps []*bitmap

	line *versionLine
	used int // versions of line

	blocks []storedBlock // scratch of one Stored event
	held   []position    // scratch of a clear
	// fetched is the sum of what was fetched ahead, and means nothing.
	fetched position
}

// rank is what only its event thread knows.
type rank struct {
	names names
	// more counts, by position, the sequence hashes beyond the first that name
	// the place.
	more    names
	version *version
}

// storedBlock is a block of the event that is being stored.
type storedBlock struct {
	cell  uint32   // in the rank's names
	known position // of a block whose sequence hash was live before
}

// pending is the position of a sequence hash whose place is not known yet.
const pending position = math.MaxUint32

// Attach implements indexer.Writer.
func (w *Writer) Attach(slot indexer.Slot) {
	for int(slot) >= len(w.ranks) {
		w.ranks = append(w.ranks, nil)
	}
	cell := &w.x.versions[slot]
	if cell.Load() == nil {
		if w.line == nil || w.used == len(w.line) {
			w.line, w.used = new(versionLine), 0
		}
		cell.Store(&w.line[w.used])
		w.used++
	}
	// A slot keeps its version for good, so that one reader's two looks at it
	// are looks at the same one.
	w.ranks[slot] = &rank{version: cell.Load()}
}

// Detach implements indexer.Writer.
func (w *Writer) Detach(slot indexer.Slot) {
	w.clear(slot)
	w.ranks[slot] = nil
}

// Blocks implements indexer.Writer.
func (w *Writer) Blocks(slot indexer.Slot) int { return w.ranks[slot].names.used }

// Park implements indexer.Writer. Nothing waits for a thread that is not in a call.
func (w *Writer) Park() {}

// Apply implements indexer.Writer.
func (w *Writer) Apply(ev *indexer.Event) indexer.Effect {
	switch ev.Kind {
	case indexer.Stored:
		return w.store(ev)
	case indexer.Removed:
		return w.remove(ev)
	case indexer.Cleared:
		return indexer.Effect{ClearedBlocks: uint32(w.clear(ev.Slot))}
	}
	return indexer.Effect{Malformed: 1}
}

func (w *Writer) store(ev *indexer.Event) indexer.Effect {
	n := len(ev.Sequences)
	if len(ev.Locals) != n {
		return indexer.Effect{Malformed: 1}
	}
	r := w.ranks[ev.Slot]
	var parent position
	if ev.HasParent {
		if parent = r.names.get(uint64(ev.Parent)); parent == 0 {
			return indexer.Effect{Orphaned: uint32(n)}
		}
	}
	// First the names, which nobody else sees, so that a conflict can be taken
	// back without a trace.
	r.names.reserve(n)
	blocks := w.blocks[:0]
	first, last := -1, -1 // the first new block, the last known one
	ok := true
	for i, sequence := range ev.Sequences {
		if i%ahead == 0 {
			w.fetched += r.names.fetch(ev.Sequences[i:])
		}
		cell, had := r.names.put(uint64(sequence), pending)
		if had == pending {
			ok = false
			break
		}
		blocks = append(blocks, storedBlock{cell: uint32(cell), known: had})
		if had != 0 {
			last = i
		} else if first < 0 {
			first = i
		}
	}
	if ok && last >= 0 {
		ok = w.isPath(parent, ev.Locals[:last+1], blocks[:last+1])
	}
	if !ok {
		for i := range blocks {
			if blocks[i].known == 0 {
				r.names.take(uint64(ev.Sequences[i]))
			}
		}
		w.keepScratch(blocks)
		return indexer.Effect{Conflicting: uint32(n)}
	}
	var e indexer.Effect
	if first >= 0 {
		at := parent
		if first > 0 {
			at = blocks[first-1].known
		}
		before := acquire(r.version)
		e.Stored = w.insert(r, ev.Slot, at, ev.Locals[first:], blocks[first:])
		r.version.Store(before + 2)
	}
	e.Duplicate = uint32(n) - e.Stored
	w.keepScratch(blocks)
	return e
}

// maxScratch is the number of blocks whose scratch is kept, 8 bytes each.
const maxScratch = 1 << 14

// keepScratch reuses the scratch unless one huge event made it huge.
func (w *Writer) keepScratch(blocks []storedBlock) {
	if cap(blocks) > maxScratch {
		blocks = nil
	}
	w.blocks = blocks
}

// isPath reports whether each known block of an event lies where the event says,
// the last one being known. It walks up from that: the nodes on the way stay,
// since the rank holds a block below them, and so do the positions in them.
func (w *Writer) isPath(parent position, locals []indexer.LocalHash, blocks []storedBlock) bool {
	at := blocks[len(blocks)-1].known
	for left := len(blocks); ; {
		n := w.rlockOwner(at)
		off := int(at - n.start)
		count := min(off+1, left)
		edge := n.edge[off+1-count : off+1]
		same := common(edge, locals[left-count:left]) == count
		up := n.up
		if count <= off {
			up = at - position(count)
		}
		n.runlock()
		if !same {
			return false
		}
		for k := range count {
			if known := blocks[left-1-k].known; known != 0 && known != at-position(k) {
				return false
			}
		}
		if left -= count; left == 0 {
			return up == parent
		}
		if at = up; at == 0 {
			return false
		}
	}
}

// rlockOwner returns, locked for reading, the node of a position that exists for
// as long as the caller holds some block.
func (w *Writer) rlockOwner(p position) *node {
	for {
		n := w.x.owner(p)
		n.rlock()
		if n.start <= p && p < n.end() {
			return n
		}
		n.runlock()
	}
}

// insert makes a rank hold the blocks of a path that follows a position, 0 for
// the root. It returns how many of them are new names.
func (w *Writer) insert(r *rank, slot indexer.Slot, at position, locals []indexer.LocalHash, blocks []storedBlock) (fresh uint32) {
	var n *node
	if at == 0 {
		n = &w.x.roots[rootOf(uint64(locals[0]))]
		n.lock()
	} else {
		n = w.lockOwner(at)
	}
	off := 0 // blocks of n that lie before the next one
	for {
		if at != 0 {
			off = int(at-n.start) + 1
		}
		if off < len(n.edge) {
			m := common(n.edge[off:], locals)
			if m > 0 {
				fresh += w.claim(r, n, slot, off, blocks[:m])
				at = n.start + position(off+m-1)
				locals, blocks, off = locals[m:], blocks[m:], off+m
				crowded := len(n.partial) > maxPartial
				if crowded {
					w.thin(n)
				}
				if len(locals) == 0 {
					n.unlock()
					return fresh
				}
				if crowded {
					n.unlock()
					n = w.lockOwner(at)
					continue
				}
			}
			if off < len(n.edge) {
				w.split(n, off)
			}
		}
		// n ends here. Its children are locked before it is let go.
		if c := n.kids.get(uint64(locals[0])); c != nil {
			c.lock()
			n.unlock()
			n, at, off = c, 0, 0
			continue
		}
		m := w.append(n, slot, locals)
		if m == 0 {
			n, m = w.addChild(n, locals)
			off = 0
		}
		fresh += w.claim(r, n, slot, off, blocks[:m])
		at = n.start + position(off+m-1)
		locals, blocks = locals[m:], blocks[m:]
		if len(locals) == 0 {
			n.unlock()
			return fresh
		}
	}
}

// claim makes a rank hold blocks of a node from off on and gives the new ones of
// their names the positions. The caller has n locked.
func (w *Writer) claim(r *rank, n *node, slot indexer.Slot, off int, blocks []storedBlock) (fresh uint32) {
	cutoff, holes := n.held(slot)
	for i := range blocks {
		if blocks[i].known != 0 {
			continue
		}
		fresh++
		at := n.start + position(off+i)
		r.names.cells[blocks[i].cell].at = at
		if off+i < cutoff || holes != nil && holes.has(off+i) {
			count := r.more.take(uint64(at))
			r.more.reserve(1)
			r.more.put(uint64(at), count+1)
		}
	}
	w.hold(n, slot, off, off+len(blocks))
	return fresh
}

// append puts the blocks of a path at the end of a leaf if there is room for all
// of them and few other ranks would become partial holders. It returns their
// number, 0 if it did not. The caller has n locked.
func (w *Writer) append(n *node, slot indexer.Slot, locals []indexer.LocalHash) int {
	if n.isRoot() || n.kids.n > 0 || len(n.edge)+len(locals) > maxEdge {
		return 0
	}
	if len(n.partial)+n.fullCount() > fewPartial {
		return 0
	}
	length, first := len(n.edge), n.slab.at(n.start)
	if lack := length + len(locals) - cap(n.edge); lack > 0 {
		if !n.slab.extend(first+cap(n.edge), lack) {
			return 0
		}
		end := (first + cap(n.edge) + lack + unit - 1) / unit * unit
		n.edge = n.slab.words[first : first+length : end]
	}
	n.eachFull(func(s indexer.Slot) {
		w.addPartial(n, partial{slot: s, cutoff: uint32(length)})
	})
	w.chunks.put(n.more)
	n.full, n.more = noBits, nil
	n.edge = n.edge[:length+len(locals)]
	n.fill(length, locals)
	return len(locals)
}

// fill writes the blocks of an edge from off on, which nobody knows yet.
func (n *node) fill(off int, locals []indexer.LocalHash) {
	first := n.slab.at(n.start) + off
	edge, owners := n.edge[off:], n.slab.owners[first:]
	for i, local := range locals {
		edge[i] = uint64(local)
		owners[i] = n.number
	}
}

// addChild hangs a new node below n, with as much of a path as fits. It is
// called with n locked and returns the child, locked instead.
func (w *Writer) addChild(n *node, locals []indexer.LocalHash) (*node, int) {
	m := min(len(locals), maxEdge)
	// An eighth more, and more than that below a leaf: who adds few blocks to
	// the end of a prompt adds more later.
	room := m + m/8
	if !n.isRoot() && n.kids.n == 0 && m < 8 {
		room = m + min(32, max(4, len(n.edge)))
	}
	c := w.nodes.alloc()
	c.lock()
	s, first := w.words.alloc(min(room, maxEdge))
	c.start, c.slab = s.position(first), s
	if !n.isRoot() {
		c.up = n.end() - 1
	}
	c.edge = s.words[first : first+m : first+(min(room, maxEdge)+unit-1)/unit*unit]
	c.fill(0, locals[:m])
	n.kids.add(&w.kids, child{uint64(locals[0]), c})
	n.unlock()
	return c, m
}

func (w *Writer) remove(ev *indexer.Event) indexer.Effect {
	r := w.ranks[ev.Slot]
	var e indexer.Effect
	var before uint32
	// Places are given up in stretches of neighbours.
	var from, to position
	for i, sequence := range ev.Sequences {
		if i%ahead == 0 {
			w.fetched += r.names.fetch(ev.Sequences[i:])
		}
		at := r.names.take(uint64(sequence))
		if at == 0 {
			e.UnknownRemoved++
			continue
		}
		if e.Removed == 0 {
			before = acquire(r.version)
		}
		e.Removed++
		if r.more.used > 0 {
			if count := r.more.take(uint64(at)); count > 0 {
				if count > 1 {
					r.more.reserve(1)
					r.more.put(uint64(at), count-1)
				}
				continue
			}
		}
		switch {
		case from == to:
			from, to = at, at+1
		case at == to:
			to++
		case at+1 == from:
			from--
		default:
			w.release(ev.Slot, from, to)
			from, to = at, at+1
		}
	}
	w.release(ev.Slot, from, to)
	if e.Removed > 0 {
		r.version.Store(before + 2)
	}
	return e
}

// release gives up the places of positions [from, to), all of which the rank
// holds, from the end.
func (w *Writer) release(slot indexer.Slot, from, to position) {
	for from < to {
		n := w.lockOwner(to - 1)
		low := max(from, n.start)
		if invariants.Enabled {
			cutoff, holes := n.held(slot)
			for p := low; p < to; p++ {
				if off := int(p - n.start); off >= cutoff && (holes == nil || !holes.has(off)) {
					panic(fmt.Sprintf("crtc: slot %d gives up position %d, which it does not hold", slot, p))
				}
			}
		}
		w.unhold(n, slot, int(low-n.start), int(to-n.start))
		to = low
		w.tidy(n)
	}
}

func (w *Writer) clear(slot indexer.Slot) int {
	r := w.ranks[slot]
	count := r.names.used
	if count == 0 {
		return 0
	}
	held := slices.Grow(w.held[:0], count)
	for i := range r.names.cells {
		if at := r.names.cells[i].at; at != 0 {
			held = append(held, at)
		}
	}
	slices.Sort(held)
	before := acquire(r.version)
	for to := len(held); to > 0; {
		from := to - 1
		// Two names of one place are the same position twice.
		for from > 0 && held[from-1]+1 >= held[from] {
			from--
		}
		w.release(slot, held[from], held[to-1]+1)
		to = from
	}
	r.version.Store(before + 2)
	r.names, r.more = names{}, names{}
	if cap(held) > maxScratch {
		held = nil
	}
	w.held = held
	return count
}
