package flat

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
)

// Check implements indexer.Index: what the ranks' names say is what the places'
// sets say, and every table can be probed.
func (x *Index) Check() error {
	type held struct {
		place uint64
		slot  indexer.Slot
	}
	names := map[held]int{}
	for _, w := range x.writers {
		if w == nil {
			continue
		}
		for slot, r := range w.ranks {
			if r == nil {
				continue
			}
			if r.version.Load()%2 != 0 {
				return fmt.Errorf("flat: slot %d: an event is being applied", slot)
			}
			if err := r.names.check(); err != nil {
				return fmt.Errorf("flat: slot %d: %w", slot, err)
			}
			if err := r.more.check(); err != nil {
				return fmt.Errorf("flat: slot %d: counts: %w", slot, err)
			}
			distinct := 0
			for _, c := range r.names.cells {
				if c.place == 0 {
					continue
				}
				at := held{c.place, indexer.Slot(slot)}
				if names[at] == 0 {
					distinct++
				}
				names[at]++
			}
			beyond := 0
			for _, c := range r.more.cells {
				if c.place == 0 {
					continue
				}
				place, more := c.sequence, int(c.place)
				beyond += more
				if k := names[held{place, indexer.Slot(slot)}]; k != more+1 {
					return fmt.Errorf("flat: slot %d: place %x has %d names, %d beyond the first are counted", slot, place, k, more)
				}
			}
			if distinct+beyond != r.names.used {
				return fmt.Errorf("flat: slot %d: %d names for %d places, %d beyond the first are counted", slot, r.names.used, distinct, beyond)
			}
		}
	}
	total := 0
	for i := range x.shards {
		s := &x.shards[i]
		used, words := 0, s.sets.spare
		for k := range s.entries {
			e := &s.entries[k]
			if e.count() == 0 {
				continue
			}
			used++
			if s.find(e.place) != e {
				return fmt.Errorf("flat: place %x cannot be found", e.place)
			}
			members := s.sets.appendTo(nil, e)
			if len(members) != e.count() {
				return fmt.Errorf("flat: place %x has %d ranks, the count says %d", e.place, len(members), e.count())
			}
			for _, slot := range members {
				if names[held{e.place, slot}] == 0 {
					return fmt.Errorf("flat: place %x is held by slot %d, which has no name for it", e.place, slot)
				}
			}
			total += len(members)
			if e.count() > 1 {
				words += 1 << e.class()
			}
		}
		if used != s.used || words != len(s.sets.words) {
			return fmt.Errorf("flat: shard %d: %d places and %d words, the counts say %d and %d", i, used, words, s.used, len(s.sets.words))
		}
	}
	if total != len(names) {
		return fmt.Errorf("flat: %d ranks in sets, %d places have names", total, len(names))
	}
	return nil
}

// Shape implements indexer.ShapeReporter.
func (x *Index) Shape() indexer.Shape {
	shape := indexer.Shape{Unit: "place"}
	for i := range x.shards {
		for _, e := range x.shards[i].entries {
			if e.count() > 0 {
				shape.Units++
				shape.Blocks++
				shape.Holders += int64(e.count())
				shape.MaxHolders = max(shape.MaxHolders, e.count())
			}
		}
	}
	return shape
}

// check verifies that every key can be found and the count is right.
func (n *names) check() error {
	used := 0
	for _, c := range n.cells {
		if c.place == 0 {
			continue
		}
		used++
		if n.get(c.sequence) != c.place {
			return fmt.Errorf("key %x cannot be found", c.sequence)
		}
	}
	if used != n.used {
		return fmt.Errorf("%d keys, the count says %d", used, n.used)
	}
	return nil
}
