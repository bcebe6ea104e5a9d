package flat

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/hugepages"
)

// slotOf spreads numbers over the slots so that bitsets of every class occur.
func slotOf(n int) indexer.Slot {
	if n < 200 {
		return indexer.Slot(n)
	}
	return indexer.Slot(n * 7919 % indexer.MaxRanks)
}

// TestShardAgainstMaps compares a shard with a map of maps. Few places have many
// slots, so that sets go through all their forms.
func TestShardAgainstMaps(t *testing.T) {
	heap, err := hugepages.NewHeap()
	if err == nil {
		defer heap.Close()
	}
	rapid.Check(t, func(t *rapid.T) {
		var s shard
		if rapid.Bool().Draw(t, "huge pages, if there are any") {
			s.sets.huge = heap
		}
		want := map[uint64]map[indexer.Slot]bool{}
		places := rapid.IntRange(1, 40).Draw(t, "places")
		numSlots := rapid.SampledFrom([]int{2, 20, 400, 3000}).Draw(t, "slots")
		// Runs of adds and removes of neighbouring numbers, so that sets grow
		// large and empty again.
		for range rapid.IntRange(1, 60).Draw(t, "runs") {
			// Low bits alike: long probes.
			place := uint64(rapid.IntRange(1, places).Draw(t, "place"))<<3 | 1<<40
			from := rapid.IntRange(0, numSlots-1).Draw(t, "from")
			to := rapid.IntRange(from, numSlots).Draw(t, "to")
			adding := rapid.Bool().Draw(t, "adding")
			for n := from; n < to; n++ {
				slot := slotOf(n)
				had := want[place][slot]
				if adding {
					if got := s.add(place, slot); got == had {
						t.Fatalf("adding slot %d: new is %v", slot, got)
					}
					if want[place] == nil {
						want[place] = map[indexer.Slot]bool{}
					}
					want[place][slot] = true
				} else {
					if got := s.remove(place, slot); got != had {
						t.Fatalf("removing slot %d: was there is %v", slot, got)
					}
					delete(want[place], slot)
				}
			}
			if len(want[place]) == 0 {
				delete(want, place)
			}
			compareShard(t, &s, want)
		}
		for place, slots := range maps.Clone(want) {
			for slot := range slots {
				s.remove(place, slot)
			}
			delete(want, place)
		}
		compareShard(t, &s, want)
		if len(s.entries) > minTable*2 || len(s.sets.words) > 4096 {
			t.Fatalf("emptied, the shard has %d entries and %d words", len(s.entries), len(s.sets.words))
		}
	})
}

func compareShard(t *rapid.T, s *shard, want map[uint64]map[indexer.Slot]bool) {
	if s.used != len(want) {
		t.Fatalf("%d places, want %d", s.used, len(want))
	}
	live := 0
	for place, slots := range want {
		e := s.find(place)
		if e == nil {
			t.Fatalf("place %x is lost", place)
		}
		got := s.sets.appendTo(nil, e)
		slices.Sort(got)
		if !slices.Equal(got, slices.Sorted(maps.Keys(slots))) {
			t.Fatalf("place %x has %d slots, want %d", place, len(got), len(slots))
		}
		for n := range 260 {
			slot := slotOf(n)
			if s.sets.contains(e, slot) != slots[slot] {
				t.Fatalf("place %x: contains(%d) is %v", place, slot, !slots[slot])
			}
		}
		if e.count() > 1 {
			live += 1 << e.class()
			// A list needs half a word a slot, a bitset at most 1,024 words, and
			// either may be four times too large.
			if words := 1 << e.class(); words > 4*min(1024, (len(slots)+1)/2*2) {
				t.Fatalf("%d slots take %d words", len(slots), words)
			}
		}
	}
	if got := len(s.sets.words) - s.sets.spare; got != live {
		t.Fatalf("%d words in use, the sets have %d", got, live)
	}
	if s.find(1<<41) != nil {
		t.Fatal("a place that nobody holds was found")
	}
}

// TestNamesAgainstMap compares a table of names with a map. Keys are few, so that
// they come and go, and extreme.
func TestNamesAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n names
		want := map[uint64]uint64{}
		keys := rapid.IntRange(1, 400).Draw(t, "keys")
		for range rapid.IntRange(100, 800).Draw(t, "operations") {
			key := uint64(rapid.IntRange(0, keys).Draw(t, "key")) - 1
			if rapid.IntRange(0, 9).Draw(t, "remove") < 4 {
				if got := n.take(key); got != want[key] {
					t.Fatalf("take(%d) is %d, want %d", key, got, want[key])
				}
				delete(want, key)
			} else {
				place := rapid.Uint64Min(1).Draw(t, "place")
				if got := n.put(key, place); got != want[key] {
					t.Fatalf("put(%d) finds %d, want %d", key, got, want[key])
				}
				if want[key] == 0 {
					want[key] = place
				}
			}
			if got := n.get(key); got != want[key] {
				t.Fatalf("get(%d) is %d, want %d", key, got, want[key])
			}
		}
		for key := range uint64(keys) + 2 {
			if got := n.get(key - 1); got != want[key-1] {
				t.Fatalf("at the end get(%d) is %d, want %d", key-1, got, want[key-1])
			}
		}
		if err := n.check(); err != nil {
			t.Fatal(err)
		}
		if n.used != len(want) || len(n.cells) > max(minNames, 8*(n.used+1)) {
			t.Fatalf("%d names of %d in %d cells", n.used, len(want), len(n.cells))
		}
	})
}

// TestTablesShrink fills both tables and empties them in another order.
func TestTablesShrink(t *testing.T) {
	t.Run("Go heap", func(t *testing.T) { testTablesShrink(t, nil) })
	t.Run("huge pages", func(t *testing.T) {
		heap, err := hugepages.NewHeap()
		if err != nil {
			t.Skip(err)
		}
		defer heap.Close()
		testTablesShrink(t, heap)
	})
}

func testTablesShrink(t *testing.T, heap *hugepages.Heap) {
	const n, stride = 10_000, 7919
	s := shard{sets: arena{huge: heap}}
	m := names{huge: heap}
	for i := range uint64(n) {
		s.add(mix(1, i), indexer.Slot(i))
		m.put(i, i+1)
	}
	if len(s.entries) > 2*n || len(m.cells) > 2*n {
		t.Errorf("%d entries and %d cells for %d places", len(s.entries), len(m.cells), n)
	}
	for k := range uint64(n) {
		i := k * stride % n
		s.remove(mix(1, i), indexer.Slot(i))
		m.take(i)
		if left := n - int(k) - 1; len(s.entries) > max(minTable, 8*left+8) || len(m.cells) > max(minNames, 8*left+8) {
			t.Fatalf("%d entries and %d cells for %d places", len(s.entries), len(m.cells), left)
		}
	}
}
