package positional

import (
	"fmt"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
)

// Check implements indexer.Index: what the ranks say of themselves is what the
// sets and the counters of holes say, and every table can be probed.
func (x *Index) Check() error {
	type pair struct {
		place uint64
		slot  indexer.Slot
	}
	held := map[pair]bool{}
	var holes filter
	for _, w := range x.writers {
		if w == nil {
			continue
		}
		for slot, r := range w.ranks {
			if r == nil {
				continue
			}
			if err := r.check(); err != nil {
				return fmt.Errorf("positional: slot %d: %w", slot, err)
			}
			for i := range r.places.cells {
				c := &r.places.cells[i]
				switch {
				case c.free():
				case c.value.names > 0:
					held[pair{c.key, indexer.Slot(slot)}] = true
				default:
					holes.add(c.key)
				}
			}
		}
	}
	for i := range holes.fine {
		if got, want := x.holes.fine[i].Load(), holes.fine[i].Load(); got != want {
			return fmt.Errorf("positional: counter %d has %d holes, the ranks have %d", i, got, want)
		}
	}
	for i := range holes.coarse {
		if got, want := x.holes.coarse[i].Load(), holes.coarse[i].Load(); got != want {
			return fmt.Errorf("positional: coarse counter %d has %d holes, the ranks have %d", i, got, want)
		}
	}
	total := 0
	for i := range x.shards {
		n, err := x.shards[i].check(func(place uint64, slot indexer.Slot) bool { return held[pair{place, slot}] })
		if err != nil {
			return fmt.Errorf("positional: shard %d: %w", i, err)
		}
		total += n
	}
	if total != len(held) {
		return fmt.Errorf("positional: the sets have %d pairs of a place and a rank, the ranks have %d", total, len(held))
	}
	return nil
}

// check verifies what one rank has.
func (r *rank) check() error {
	if r.version.Load()%2 != 0 {
		return fmt.Errorf("an event is being applied")
	}
	if err := r.names.check(); err != nil {
		return fmt.Errorf("names: %w", err)
	}
	if err := r.places.check(); err != nil {
		return fmt.Errorf("places: %w", err)
	}
	names, children := map[uint64]uint32{}, map[uint64]uint32{}
	for i := range r.names.cells {
		if c := &r.names.cells[i]; !c.free() {
			names[c.value]++
		}
	}
	for i := range r.places.cells {
		if c := &r.places.cells[i]; !c.free() && c.value.names > 0 && c.value.parent != root {
			children[c.value.parent]++
		}
	}
	holes := 0
	for i := range r.places.cells {
		c := &r.places.cells[i]
		if c.free() {
			continue
		}
		if t := c.value; t.names != names[c.key] || t.children != children[c.key] {
			return fmt.Errorf("place %x has %d names and %d places below, counted are %d and %d", c.key, names[c.key], children[c.key], t.names, t.children)
		}
		if c.value.names == 0 {
			holes++
		}
		delete(names, c.key)
		delete(children, c.key)
	}
	if holes != r.holes {
		return fmt.Errorf("%d holes, the count says %d", holes, r.holes)
	}
	if len(names) > 0 || len(children) > 0 {
		return fmt.Errorf("%d places have names and %d places below, and no cell", len(names), len(children))
	}
	return nil
}

// check verifies a shard, in which every member must be known, and returns the
// number of members.
func (s *shard) check(known func(place uint64, slot indexer.Slot) bool) (members int, err error) {
	if err := s.places.check(); err != nil {
		return 0, err
	}
	links := 0
	for i := range s.places.cells {
		c := &s.places.cells[i]
		last := -1
		for at := c.value; at != 0; at = s.sets.links[at-1].next {
			l := &s.sets.links[at-1]
			if links++; links > len(s.sets.links) {
				return 0, fmt.Errorf("there are more words in sets than words")
			}
			if int(l.index) <= last || l.bits == 0 {
				return 0, fmt.Errorf("place %x: word %d after word %d has bits %x", c.key, l.index, last, l.bits)
			}
			last = int(l.index)
			for slot := range (words{l.word}).slots {
				if members++; !known(c.key, slot) {
					return 0, fmt.Errorf("place %x is held by slot %d, which does not know", c.key, slot)
				}
			}
		}
	}
	free := 0
	for at := s.sets.free; at != 0 && free <= s.sets.spares; at = s.sets.links[at-1].next {
		free++
	}
	if free != s.sets.spares || links+free != len(s.sets.links) {
		return 0, fmt.Errorf("%d words, of them %d in sets and %d free, the count says %d", len(s.sets.links), links, free, s.sets.spares)
	}
	return members, nil
}

// check verifies that every key can be found and the count is right.
func (t *table[V]) check() error {
	used := 0
	for i := range t.cells {
		if t.cells[i].free() {
			continue
		}
		used++
		if t.find(t.cells[i].key) != i {
			return fmt.Errorf("key %x cannot be found", t.cells[i].key)
		}
	}
	if used != t.used {
		return fmt.Errorf("%d keys, the count says %d", used, t.used)
	}
	return nil
}

// Memory implements indexer.MemoryReporter.
func (x *Index) Memory() []indexer.MemoryPart {
	var places, sets, names, ties int64
	for i := range x.shards {
		s := &x.shards[i]
		s.lock()
		places += s.places.bytes()
		sets += int64(cap(s.sets.links)) * int64(unsafe.Sizeof(link{}))
		s.unlock()
	}
	for _, w := range x.writers {
		if w == nil {
			continue
		}
		names += int64(cap(w.ranks))*8 + int64(cap(w.places))*8 + int64(cap(w.fresh))
		for _, r := range w.ranks {
			if r != nil {
				names += int64(unsafe.Sizeof(rank{})) + r.names.bytes()
				ties += r.places.bytes()
			}
		}
	}
	return []indexer.MemoryPart{
		{Name: "places", Bytes: places},
		{Name: "sets", Bytes: sets},
		{Name: "names", Bytes: names},
		{Name: "ties", Bytes: ties},
		{Name: "fixed", Bytes: int64(unsafe.Sizeof(Index{}))},
	}
}

// Shape implements indexer.ShapeReporter. Places that nobody holds are no units;
// they count for the depth of those below.
func (x *Index) Shape() indexer.Shape {
	shape := indexer.Shape{Unit: "place", MaxDepth: x.depth()}
	for i := range x.shards {
		s := &x.shards[i]
		for k := range s.places.cells {
			if s.places.cells[k].free() {
				continue
			}
			holders := 0
			for range s.sets.appendTo(nil, s.places.cells[k].value).slots {
				holders++
			}
			shape.Units++
			shape.Blocks++
			shape.Holders += int64(holders)
			shape.MaxHolders = max(shape.MaxHolders, holders)
		}
	}
	return shape
}

// depth returns the number of places on the longest way from the root, as far as
// ranks know: what is above a hole they may all have forgotten.
func (x *Index) depth() int {
	parents := map[uint64]uint64{}
	for _, w := range x.writers {
		if w == nil {
			continue
		}
		for _, r := range w.ranks {
			if r == nil {
				continue
			}
			for i := range r.places.cells {
				if c := &r.places.cells[i]; !c.free() {
					parents[c.key] = c.value.parent
				}
			}
		}
	}
	depths := map[uint64]int{root: 0}
	deepest := 0
	var way []uint64
	for at := range parents {
		// Up to a place whose depth is known, and down again.
		way = way[:0]
		for {
			if _, known := depths[at]; known {
				break
			}
			way = append(way, at)
			at = parents[at]
		}
		for k := len(way) - 1; k >= 0; k-- {
			depths[way[k]] = depths[at] + 1
			at = way[k]
		}
		deepest = max(deepest, depths[at])
	}
	return deepest
}
