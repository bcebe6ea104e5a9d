package positional

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/invariants"
)

// Writer applies the events of one event thread.
type Writer struct {
	x     *Index
	ranks []*rank // by slot

	line *versionLine
	used int

	// Scratch of one Stored event.
	places []uint64
	fresh  []bool
}

// rank is what only its event thread knows.
type rank struct {
	names   table[uint64] // sequence hash to place
	places  table[tie]    // those that the rank holds and those where it has a hole
	holes   int
	version *version
}

// tie is what a rank has to do with a place. It holds the place if names > 0; else
// it has a hole there.
type tie struct {
	parent   uint64
	names    uint32 // the rank's sequence hashes for the place
	children uint32 // the places right below that the rank holds
}

// Attach implements indexer.Writer.
func (w *Writer) Attach(slot indexer.Slot) {
	if need := int(slot) + 1 - len(w.ranks); need > 0 {
		w.ranks = append(w.ranks, make([]*rank, need)...)
	}
	at := &w.x.versions[slot]
	if at.Load() == nil {
		if w.line == nil || w.used == len(w.line) {
			w.line, w.used = new(versionLine), 0
		}
		at.Store(&w.line[w.used])
		w.used++
	}
	// A slot keeps its version for good, so that one reader's two looks at it are
	// looks at the same one.
	w.ranks[slot] = &rank{version: at.Load()}
}

// Detach implements indexer.Writer.
func (w *Writer) Detach(slot indexer.Slot) {
	w.clear(slot)
	w.ranks[slot] = nil
}

// Blocks implements indexer.Writer.
func (w *Writer) Blocks(slot indexer.Slot) int { return w.ranks[slot].names.used }

// Reachable implements indexer.ReachableCounter. A rank without holes reaches all
// that it holds.
func (w *Writer) Reachable(slot indexer.Slot) (blocks int, known bool) {
	r := w.ranks[slot]
	if r.holes > 0 {
		return 0, false
	}
	return r.places.used, true
}

// Park implements indexer.Writer.
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
	above := uint64(root)
	if ev.HasParent {
		if above = r.names.get(uint64(ev.Parent)); above == root {
			return indexer.Effect{Orphaned: uint32(n)}
		}
	}
	w.places, w.fresh = w.places[:0], w.fresh[:0]
	e := w.name(r, ev, above)
	if e.Stored > 0 {
		before := acquire(r.version)
		for i, place := range w.places {
			if w.fresh[i] {
				w.hold(r, ev.Slot, place, above)
			}
			above = place
		}
		r.version.Store(before + 2)
	}
	if cap(w.places) > maxScratch {
		w.places, w.fresh = nil, nil
	}
	return e
}

// maxScratch is the number of blocks whose scratch is kept, 9 bytes each.
const maxScratch = 1 << 17

// name gives the blocks of a Stored their places, which nobody else sees, so that
// a conflict can be taken back without a trace.
func (w *Writer) name(r *rank, ev *indexer.Event, place uint64) (e indexer.Effect) {
	for i, seq := range ev.Sequences {
		place = next(place, ev.Locals[i])
		at := r.names.put(uint64(seq))
		fresh := *at == 0
		if fresh {
			*at = place
			e.Stored++
		} else if *at == place {
			e.Duplicate++
		} else {
			for k, seq := range ev.Sequences[:i] {
				if w.fresh[k] {
					r.names.remove(r.names.find(uint64(seq)))
				}
			}
			return indexer.Effect{Conflicting: uint32(len(ev.Sequences))}
		}
		w.places, w.fresh = append(w.places, place), append(w.fresh, fresh)
	}
	return e
}

// hold gives a place one more name. The rank holds the place above, if that is not
// the root.
func (w *Writer) hold(r *rank, slot indexer.Slot, place, above uint64) {
	t := r.places.put(place)
	t.names++
	if t.names > 1 {
		return
	}
	if t.children > 0 {
		w.x.holes.remove(place)
		r.holes--
	}
	t.parent = above
	added := w.x.shard(place).add(place, slot)
	if invariants.Enabled && !added {
		panic(fmt.Sprintf("positional: slot %d is in the set of place %x, which it did not hold", slot, place))
	}
	if above != root {
		t := &r.places.cells[r.places.find(above)].value
		if invariants.Enabled && t.names == 0 {
			panic(fmt.Sprintf("positional: slot %d stores place %x below %x, which it does not hold", slot, place, above))
		}
		t.children++
	}
}

func (w *Writer) remove(ev *indexer.Event) indexer.Effect {
	r := w.ranks[ev.Slot]
	before := acquire(r.version)
	var e indexer.Effect
	for _, seq := range ev.Sequences {
		i := r.names.find(uint64(seq))
		if i < 0 {
			e.UnknownRemoved++
			continue
		}
		e.Removed++
		place := r.names.cells[i].value
		r.names.remove(i)
		w.release(r, ev.Slot, place)
	}
	r.version.Store(before + 2)
	return e
}

// release gives up one name of a place, and the place with the last one.
func (w *Writer) release(r *rank, slot indexer.Slot, place uint64) {
	i := r.places.find(place)
	t := &r.places.cells[i].value
	if t.names--; t.names > 0 {
		return
	}
	removed := w.x.shard(place).remove(place, slot)
	if invariants.Enabled && !removed {
		panic(fmt.Sprintf("positional: slot %d is not in the set of place %x, which it held", slot, place))
	}
	above := t.parent
	if t.children > 0 {
		w.x.holes.add(place)
		r.holes++
	} else {
		r.places.remove(i)
	}
	if above == root {
		return
	}
	i = r.places.find(above)
	t = &r.places.cells[i].value
	if t.children--; t.children == 0 && t.names == 0 {
		// The hole has no block of the rank below it any more.
		w.x.holes.remove(above)
		r.holes--
		r.places.remove(i)
	}
}

func (w *Writer) clear(slot indexer.Slot) int {
	r := w.ranks[slot]
	n := r.names.used
	before := acquire(r.version)
	for i := range r.places.cells {
		switch c := &r.places.cells[i]; {
		case c.free():
		case c.value.names > 0:
			w.x.shard(c.key).remove(c.key, slot)
		default:
			w.x.holes.remove(c.key)
		}
	}
	r.version.Store(before + 2)
	r.names, r.places, r.holes = table[uint64]{}, table[tie]{}, 0
	return n
}
