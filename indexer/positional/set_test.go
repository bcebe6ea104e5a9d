package positional

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
)

type pairs = map[uint64]map[indexer.Slot]bool

// TestShardAgainstMaps compares a shard with a map of maps, with runs of additions
// and removals, so that sets grow large and empty again, and with splits.
func TestShardAgainstMaps(t *testing.T) {
	slotOf := func(n int) indexer.Slot {
		if n < 200 {
			return indexer.Slot(n)
		}
		return indexer.Slot(n * 7919 % indexer.MaxRanks)
	}
	rapid.Check(t, func(t *rapid.T) {
		var s shard
		want := pairs{}
		places := rapid.Uint64Range(1, 40).Draw(t, "places")
		slots := rapid.SampledFrom([]int{2, 20, 400, 1500}).Draw(t, "slots")
		check := func() {
			n, err := s.check(func(place uint64, slot indexer.Slot) bool { return want[place][slot] })
			if err != nil {
				t.Fatal(err)
			}
			for _, set := range want {
				n -= len(set)
			}
			if n != 0 {
				t.Fatalf("the sets have %d slots too many", n)
			}
		}
		change := func(place uint64, slot indexer.Slot, adding bool) {
			if had := want[place][slot]; adding {
				if s.add(place, slot) == had {
					t.Fatalf("adding slot %d to place %d, which has it: %v", slot, place, had)
				}
				if want[place] == nil {
					want[place] = map[indexer.Slot]bool{}
				}
				want[place][slot] = true
			} else {
				if s.remove(place, slot) != had {
					t.Fatalf("removing slot %d from place %d, which has it: %v", slot, place, had)
				}
				delete(want[place], slot)
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "runs") {
			place := rapid.Uint64Range(1, places).Draw(t, "place")
			from := rapid.IntRange(0, slots-1).Draw(t, "from")
			to := rapid.IntRange(from, slots).Draw(t, "to")
			adding := rapid.Bool().Draw(t, "adding")
			for n := from; n < to; n++ {
				change(place, slotOf(n), adding)
			}
			check()
			split(t, &s, want, place, rapid.Uint64Range(1, places).Draw(t, "other"))
		}
		for place, set := range want {
			for slot := range maps.Clone(set) {
				change(place, slot, false)
			}
		}
		check()
		if s.places.used != 0 || len(s.places.cells) > minCells || len(s.sets.links) > max(minSpares, 4) {
			t.Fatalf("emptied, the shard has %d places in %d cells, and %d words", s.places.used, len(s.places.cells), len(s.sets.links))
		}
	})
}

// split divides the slots of one place by whether another has them too.
func split(t *rapid.T, s *shard, want pairs, place, other uint64) {
	set := s.sets.appendTo(nil, s.places.get(place))
	below := word{bits: 12, index: 7}
	kept, stack := s.sets.split(set, s.places.get(other), words{below})
	if stack[0] != below {
		t.Fatal("a split changes what was on the stack")
	}
	var in, out []indexer.Slot
	for _, slot := range slices.Sorted(maps.Keys(want[place])) {
		if want[other][slot] {
			in = append(in, slot)
		} else {
			out = append(out, slot)
		}
	}
	for _, c := range []struct {
		name string
		got  words
		want []indexer.Slot
	}{{"kept", kept, in}, {"dropped", stack[1:], out}} {
		if got := slices.Collect(c.got.slots); !slices.Equal(got, c.want) {
			t.Fatalf("%s are %d, want %d", c.name, got, c.want)
		}
		if c.got.one() != (len(c.want) == 1) {
			t.Fatalf("%d %s are one: %v", len(c.want), c.name, c.got.one())
		}
		for i, w := range c.got {
			if w.bits == 0 || i > 0 && c.got[i-1].index >= w.index {
				t.Fatalf("%s has an empty word or one out of order: %v", c.name, c.got)
			}
		}
	}
}

// TestTableAgainstMap compares a table with a map. Keys come and go; extreme ones,
// 0 and 2^64-1, are among them.
func TestTableAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got table[tie]
		want := map[uint64]tie{}
		keys := rapid.Uint64Range(1, 400).Draw(t, "keys")
		for range rapid.IntRange(100, 800).Draw(t, "operations") {
			key := rapid.Uint64Max(keys).Draw(t, "key") - 1
			i := got.find(key)
			if _, has := want[key]; has != (i >= 0) {
				t.Fatalf("key %d is in cell %d", key, i)
			}
			if i >= 0 && rapid.IntRange(0, 9).Draw(t, "remove") < 5 {
				// A cell goes also if its value is zero already.
				if rapid.Bool().Draw(t, "zero") {
					got.cells[i].value = tie{}
				}
				got.remove(i)
				delete(want, key)
			} else {
				v := got.put(key)
				if *v != want[key] {
					t.Fatalf("key %d has %v, want %v", key, *v, want[key])
				}
				v.names++
				want[key] = *v
			}
			if v := got.get(key); v != want[key] {
				t.Fatalf("key %d has %v, want %v", key, v, want[key])
			}
		}
		if err := got.check(); err != nil {
			t.Fatal(err)
		}
		if got.used != len(want) || len(got.cells) > max(minCells, 8*(got.used+1)) {
			t.Fatalf("%d keys of %d, in %d cells", got.used, len(want), len(got.cells))
		}
	})
}
