package indextest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
)

// randomOps is a history that occupies a few slots and documents for long.
func randomOps(rng *rand.Rand, n int) []Op {
	ops := make([]Op, n)
	for i := range ops {
		ops[i] = Op{
			Kind: []OpKind{OpStore, OpStore, OpStore, OpRemove, OpRemove, OpUnknown, OpConflict, OpClear}[rng.IntN(8)],
			Slot: uint8(rng.IntN(4)), Doc: uint8(rng.IntN(4)), From: uint8(rng.IntN(longLen)), N: uint8(rng.IntN(longLen)),
		}
		if rng.IntN(2) == 0 {
			ops[i].From = 0
		}
	}
	return ops
}

var variations = []Variation{
	{Threads: 1}, {Threads: 1, Batch: 1}, {Threads: 1, Join: true}, {Threads: 3, Join: true, Batch: 4, Seed: 1},
	{Threads: 2, Restarts: true, Seed: 2}, {Threads: 4, Batch: 1, Restarts: true, Seed: 3},
}

// TestVariationsFindFaults shows that a difference is found, and none where there
// is none.
func TestVariationsFindFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		index indexer.Factory
		found bool
	}{
		{"none", reference.Factory(), false},
		{"drops removals", factory(dropsRemovals), true},
		{"joins removals", factory(published["joins removals"]), true},
		{"takes the rest of an edge out", factory(published["takes the rest of an edge out"]), true},
		{"clears all ranks", factory(published["clears all ranks"]), true},
		{"merges contradictory hashes", factory(published["merges contradictory hashes"]), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(8, 9))
			for range 20 {
				ops := randomOps(rng, 60)
				for _, v := range variations {
					if c.found {
						// Broken indexes are for one thread.
						v.Threads = 1
					}
					if err := CheckVariation(reference.Factory(), c.index, ops, v); (err != nil) && !c.found {
						t.Fatalf("%+v: %v", v, err)
					} else if err != nil {
						t.Logf("%+v: %v", v, err)
						return
					}
				}
			}
			if c.found {
				t.Error("no history shows the fault")
			}
		})
	}
}

// TestVariationsVary looks at what becomes of events: joined and in pieces.
func TestVariationsVary(t *testing.T) {
	first := store(seqs{1, 2, 3}, locals{1, 2, 3})
	second := extend(3, seqs{4, 5}, locals{4, 5})
	third := extend(3, seqs{6}, locals{6})
	gone, more := remove(1, 2), remove(9)
	for _, c := range []struct {
		v    Variation
		want []int // blocks of the events
	}{
		{Variation{}, []int{3, 2, 1, 2, 1}},
		{Variation{Batch: 2}, []int{2, 1, 2, 1, 2, 1}},
		{Variation{Join: true}, []int{5, 1, 3}},
		{Variation{Batch: 1}, []int{1, 1, 1, 1, 1, 1, 1, 1, 1}},
	} {
		var got course
		for _, ev := range []*indexer.Event{&first, &second, &third, &gone, &more} {
			got.add(ev, effect{}, c.v)
		}
		var blocks []int
		for i, s := range got.steps {
			ev := &s.event
			blocks = append(blocks, len(ev.Sequences))
			if i > 0 && ev.Kind == indexer.Stored && !ev.HasParent {
				t.Errorf("%+v: event %d has no parent", c.v, i)
			}
		}
		if !slices.Equal(blocks, c.want) {
			t.Errorf("%+v: events of %d blocks, want %d", c.v, blocks, c.want)
		}
	}
}
