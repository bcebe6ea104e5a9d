package simulate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/policies"
)

// pieceIndex is an index that is told blocks in pieces and asked by stretches. It
// answers and counts as every indexer.Index does, for events without the two things
// that engines never do: a name for two places, and one block twice in an event. A
// block is named by its place here, so that there is no first kind.
//
// Each stretch of which somebody holds a block has the ranks that do, with the
// blocks they hold of it as ranges. A prompt is a few stretches, so that a question
// and an event are a few steps, whatever the number of blocks. Memory is in
// proportion to ranges held, and 4 bytes for each stretch of the trace.
type pieceIndex struct {
	place  []int32 // by stretch: its node and 1, or 0
	nodes  []node
	unused []int32 // nodes
	blocks []int   // by slot: blocks held

	ranges []blockRange // scratch
}

// node is the ranks that hold blocks of a stretch, by slot.
type node struct{ holds []hold }

// hold is the blocks of a stretch that a rank holds: ranges by block that neither
// overlap nor touch. Nearly always there is one.
type hold struct {
	slot  indexer.Slot
	first blockRange
	more  []blockRange
}

// blockRange is the blocks of a request from one to before another.
type blockRange struct{ from, to int32 }

func newPieceIndex(slots int) *pieceIndex { return &pieceIndex{blocks: make([]int, slots)} }

// apply applies one event. It allocates nothing in steady state.
func (x *pieceIndex) apply(ev *engine.Pieces) (e indexer.Effect) {
	n := uint32(0)
	for _, p := range ev.Blocks {
		if p.Stretch < 0 || p.From < 0 || p.To <= p.From {
			return indexer.Effect{Malformed: 1}
		}
		n += uint32(p.Len())
	}
	if int(ev.Slot) >= len(x.blocks) {
		return indexer.Effect{Malformed: 1}
	}
	switch ev.Kind {
	case indexer.Stored:
		if x.grow(ev) {
			return indexer.Effect{Stored: n}
		}
		if ev.HasParent && !x.has(ev.Slot, ev.Parent) {
			return indexer.Effect{Orphaned: n}
		}
		for _, p := range ev.Blocks {
			e.Stored += uint32(x.add(ev.Slot, p))
		}
		e.Duplicate = n - e.Stored
		x.blocks[ev.Slot] += int(e.Stored)
	case indexer.Removed:
		for _, p := range ev.Blocks {
			e.Removed += uint32(x.remove(ev.Slot, p))
		}
		e.UnknownRemoved = n - e.Removed
		x.blocks[ev.Slot] -= int(e.Removed)
	case indexer.Cleared:
		e.ClearedBlocks = uint32(x.blocks[ev.Slot])
		x.blocks[ev.Slot] = 0
		for stretch, at := range x.place {
			if at != 0 {
				if i, ok := x.nodes[at-1].find(ev.Slot); ok {
					x.drop(int32(stretch), i)
				}
			}
		}
	default:
		e.Malformed = 1
	}
	return e
}

// grow does a Stored event that makes the one range of a rank in a stretch longer,
// as those of an answer do. It is false, and nothing is done, if it is not so.
func (x *pieceIndex) grow(ev *engine.Pieces) bool {
	if len(ev.Blocks) != 1 || !ev.HasParent {
		return false
	}
	p := ev.Blocks[0]
	at := x.of(p.Stretch)
	if at == 0 || ev.Parent.Stretch != p.Stretch {
		return false
	}
	n := &x.nodes[at-1]
	i, ok := n.find(ev.Slot)
	if !ok || len(n.holds[i].more) > 0 || n.holds[i].first.to != p.From || !n.holds[i].first.has(ev.Parent) {
		return false
	}
	n.holds[i].first.to = p.To
	x.blocks[ev.Slot] += p.Len()
	return true
}

// find fills ans with how many leading blocks of a prompt each rank holds.
func (x *pieceIndex) find(prompt []policies.Stretch, ans *indexer.Answer) {
	ans.Reset()
	start := uint32(0)
	for _, s := range prompt {
		at := x.of(int32(s.ID))
		if at == 0 {
			return
		}
		through := false
		for i := range x.nodes[at-1].holds {
			h := &x.nodes[at-1].holds[i]
			if uint32(h.first.from) != start || ans.Score(h.slot) != start {
				continue
			}
			ans.Set(h.slot, uint32(h.first.to))
			through = through || uint32(h.first.to) == s.End
		}
		if !through {
			return
		}
		start = s.End
	}
}

// of returns the node of a stretch and 1, or 0.
func (x *pieceIndex) of(stretch int32) int32 {
	if int(stretch) >= len(x.place) {
		return 0
	}
	return x.place[stretch]
}

// find returns where a rank is or would be.
func (n *node) find(slot indexer.Slot) (int, bool) {
	if len(n.holds) <= 8 { // nearly always
		for i := range n.holds {
			if at := n.holds[i].slot; at >= slot {
				return i, at == slot
			}
		}
		return len(n.holds), false
	}
	return slices.BinarySearchFunc(n.holds, slot, func(h hold, slot indexer.Slot) int { return cmp.Compare(h.slot, slot) })
}

// has says whether a rank holds all blocks of a piece.
func (x *pieceIndex) has(slot indexer.Slot, p engine.Piece) bool {
	at := x.of(p.Stretch)
	if at == 0 {
		return false
	}
	n := &x.nodes[at-1]
	i, ok := n.find(slot)
	if !ok {
		return false
	}
	h := &n.holds[i]
	return h.first.has(p) || slices.ContainsFunc(h.more, func(r blockRange) bool { return r.has(p) })
}

func (r blockRange) has(p engine.Piece) bool { return r.from <= p.From && p.To <= r.to }

// common returns how many blocks two ranges have in common.
func (r blockRange) common(o blockRange) int { return int(max(0, min(r.to, o.to)-max(r.from, o.from))) }

// add lets a rank hold blocks and returns how many it did not.
func (x *pieceIndex) add(slot indexer.Slot, p engine.Piece) int {
	at := x.of(p.Stretch)
	if at == 0 {
		at = x.make(p.Stretch)
	}
	n := &x.nodes[at-1]
	i, ok := n.find(slot)
	if !ok {
		n.holds = slices.Insert(n.holds, i, hold{slot: slot, first: blockRange{p.From, p.To}})
		return p.Len()
	}
	h := &n.holds[i]
	if h.first.to == p.From && len(h.more) == 0 {
		h.first.to = p.To
		return p.Len()
	}
	added := blockRange{p.From, p.To}
	fresh, placed := p.Len(), false
	x.ranges = x.ranges[:0]
	for k := range 1 + len(h.more) {
		switch r := h.at(k); {
		case r.to < added.from:
			x.ranges = append(x.ranges, r)
		case r.from > added.to:
			if !placed {
				x.ranges = append(x.ranges, added)
				placed = true
			}
			x.ranges = append(x.ranges, r)
		default:
			fresh -= r.common(blockRange{p.From, p.To})
			added = blockRange{min(r.from, added.from), max(r.to, added.to)}
		}
	}
	if !placed {
		x.ranges = append(x.ranges, added)
	}
	h.set(x.ranges)
	return fresh
}

// remove takes blocks away from a rank and returns how many it held.
func (x *pieceIndex) remove(slot indexer.Slot, p engine.Piece) int {
	at := x.of(p.Stretch)
	if at == 0 {
		return 0
	}
	n := &x.nodes[at-1]
	i, ok := n.find(slot)
	if !ok {
		return 0
	}
	h := &n.holds[i]
	if len(h.more) == 0 && h.first.to == p.To && h.first.from < p.From {
		h.first.to = p.From
		return p.Len()
	}
	gone := 0
	x.ranges = x.ranges[:0]
	for k := range 1 + len(h.more) {
		r := h.at(k)
		gone += r.common(blockRange{p.From, p.To})
		if low := (blockRange{r.from, min(r.to, p.From)}); low.from < low.to {
			x.ranges = append(x.ranges, low)
		}
		if high := (blockRange{max(r.from, p.To), r.to}); high.from < high.to {
			x.ranges = append(x.ranges, high)
		}
	}
	if len(x.ranges) == 0 {
		x.drop(p.Stretch, i)
	} else {
		h.set(x.ranges)
	}
	return gone
}

func (h *hold) at(k int) blockRange {
	if k == 0 {
		return h.first
	}
	return h.more[k-1]
}

func (h *hold) set(ranges []blockRange) {
	h.first, h.more = ranges[0], append(h.more[:0], ranges[1:]...)
}

// make makes the node of a stretch and returns it and 1.
func (x *pieceIndex) make(stretch int32) int32 {
	for int(stretch) >= len(x.place) {
		x.place = append(x.place, 0)
	}
	at := int32(len(x.nodes))
	if last := len(x.unused) - 1; last >= 0 {
		at, x.unused = x.unused[last], x.unused[:last]
	} else {
		x.nodes = append(x.nodes, node{})
	}
	x.place[stretch] = at + 1
	return at + 1
}

// drop takes a rank out of a stretch, and the node if it was the last.
func (x *pieceIndex) drop(stretch int32, i int) {
	at := x.place[stretch] - 1
	n := &x.nodes[at]
	n.holds = slices.Delete(n.holds, i, i+1)
	if len(n.holds) == 0 {
		x.place[stretch] = 0
		x.unused = append(x.unused, at)
	}
}

// check verifies the index and returns the first violation.
func (x *pieceIndex) check() error {
	blocks, used := make([]int, len(x.blocks)), 0
	for stretch, at := range x.place {
		if at == 0 {
			continue
		}
		used++
		holds := x.nodes[at-1].holds
		if len(holds) == 0 {
			return fmt.Errorf("nobody holds stretch %d, which has a node", stretch)
		}
		for i := range holds {
			h := &holds[i]
			if i > 0 && holds[i-1].slot >= h.slot {
				return fmt.Errorf("stretch %d has rank %d after %d", stretch, h.slot, holds[i-1].slot)
			}
			end := int32(-1)
			for k := range 1 + len(h.more) {
				r := h.at(k)
				if r.from <= end || r.to <= r.from {
					return fmt.Errorf("rank %d holds %+v of stretch %d", h.slot, *h, stretch)
				}
				end = r.to
				blocks[h.slot] += int(r.to - r.from)
			}
		}
	}
	if used+len(x.unused) != len(x.nodes) {
		return fmt.Errorf("%d nodes, %d of them used and %d not", len(x.nodes), used, len(x.unused))
	}
	if !slices.Equal(blocks, x.blocks) {
		return fmt.Errorf("ranks hold %v blocks, counted as %v", blocks, x.blocks)
	}
	return nil
}
