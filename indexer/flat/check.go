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
			n := 0
			for _, c := range r.names.cells {
				if c.place == 0 {
					continue
				}
				n++
				names[held{c.place, indexer.Slot(slot)}]++
				if r.names.get(c.sequence) != c.place {
					return fmt.Errorf("flat: slot %d: sequence hash %d cannot be found", slot, c.sequence)
				}
			}
			if n != r.names.used {
				return fmt.Errorf("flat: slot %d: %d names, the count says %d", slot, n, r.names.used)
			}
			for place, more := range r.more {
				if k := names[held{place, indexer.Slot(slot)}]; more < 1 || k != more+1 {
					return fmt.Errorf("flat: slot %d: place %x has %d names, %d beyond the first are counted", slot, place, k, more)
				}
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
