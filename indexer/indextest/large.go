package indextest

import (
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/invariants"
)

const largeEvent = 100_000

// chain returns n blocks that no other seed has.
func chain(seed uint64, n int) (seqs, locals) {
	s, l := make(seqs, n), make(locals, n)
	for i := range n {
		s[i] = indexer.SequenceHash(seed<<32 | uint64(i))
		l[i] = indexer.LocalHash(seed<<32 | uint64(i) | 1<<63)
	}
	return s, l
}

// testLarge stores and removes 100,000 blocks with one event and asks for as
// many.
func testLarge(t *testing.T, f indexer.Factory) {
	s := mustOpen(t, f, 1)
	s.attach(0, 0)
	s.attach(1, 0)
	names, path := chain(1, largeEvent)
	half := largeEvent / 2
	twice := append(append(seqs{}, names...), names[half])
	for i, e := range []struct {
		event       indexer.Event
		effect      effect
		first, next uint32 // what slots 0 and 1 hold afterwards
	}{
		{store(twice, append(append(locals{}, path...), path[half])), effect{Conflicting: largeEvent + 1}, 0, 0},
		{store(names, path), effect{Stored: largeEvent}, largeEvent, 0},
		{store(names, path), effect{Duplicate: largeEvent}, largeEvent, 0},
		{on(1, store(names[:half], path[:half])), effect{Stored: largeEvent / 2}, largeEvent, largeEvent / 2},
		{remove(names[half]), effect{Removed: 1}, largeEvent / 2, largeEvent / 2},
		{extend(names[half-1], names[half:], path[half:]), effect{Stored: 1, Duplicate: largeEvent/2 - 1}, largeEvent, largeEvent / 2},
		{remove(twice...), effect{Removed: largeEvent, UnknownRemoved: 1}, 0, largeEvent / 2},
		{on(1, cleared), effect{ClearedBlocks: largeEvent / 2}, 0, 0},
	} {
		if got := s.apply(&e.event); got != e.effect {
			t.Errorf("event %d: the effect is %+v, want %+v", i, got, e.effect)
		}
		got, err := s.find(path)
		if err != nil || got[0] != e.first || got[1] != e.next {
			t.Errorf("event %d: the answer is %v (%v), want %d and %d", i, got, err, e.first, e.next)
		}
		if err := s.index.Check(); err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
}

// testMillion stores 2^20 blocks (with invariants on: 2^18) with one event, asks for 100,000 of them and for
// one, and removes half with one event from the beginning on, so that there are holes
// all the way.
func testMillion(t *testing.T, f indexer.Factory) {
	n := 1 << 20
	if invariants.Enabled {
		n = 1 << 18 // checks and the race detector make it slow
	}
	s := mustOpen(t, f, 1)
	s.attach(0, 0)
	names, path := chain(1, n)
	ask := func(blocks int, want uint32) {
		t.Helper()
		if got, err := s.find(path[:blocks]); err != nil || got[0] != want {
			t.Errorf("of %d blocks the rank is said to hold %v (%v), want %d", blocks, got, err, want)
		}
	}
	for _, e := range []struct {
		event   indexer.Event
		effect  effect
		blocks  int
		of      int // blocks that are asked for
		matched uint32
	}{
		{store(names, path), effect{Stored: uint32(n)}, n, largeEvent, largeEvent},
		{remove(names[:n/2]...), effect{Removed: uint32(n) / 2}, n / 2, 1, 0},
		{cleared, effect{ClearedBlocks: uint32(n) / 2}, 0, 1, 0},
	} {
		if got := s.apply(&e.event); got != e.effect {
			t.Errorf("%v of %d blocks: the effect is %+v, want %+v", e.event.Kind, len(e.event.Sequences), got, e.effect)
		}
		if got := s.owner[0].Blocks(0); got != e.blocks {
			t.Errorf("%v of %d blocks: %d are resident, want %d", e.event.Kind, len(e.event.Sequences), got, e.blocks)
		}
		ask(e.of, e.matched)
	}
	if err := s.index.Check(); err != nil {
		t.Error(err)
	}
}

// testManySlots attaches all slots that there can be. All share a block, half
// another, and each has one of its own.
func testManySlots(t *testing.T, f indexer.Factory) {
	s := mustOpen(t, f, 2)
	apply := func(ev indexer.Event, want effect) {
		if got := s.apply(&ev); got != want {
			t.Fatalf("slot %d: the effect is %+v, want %+v", ev.Slot, got, want)
		}
	}
	for i := range indexer.Slot(indexer.MaxRanks) {
		s.attach(i, int(i))
		own := indexer.LocalHash(i) + 10
		if i%2 == 0 {
			apply(on(i, store(seqs{1, 2, 3}, locals{1, 2, own})), effect{Stored: 3})
		} else {
			apply(on(i, store(seqs{1, 2}, locals{1, own})), effect{Stored: 2})
		}
	}
	ask := func(query locals, want func(indexer.Slot) uint32) {
		t.Helper()
		got, err := s.find(query)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range indexer.Slot(indexer.MaxRanks) {
			w := want(i)
			if got[i] != w {
				t.Fatalf("the answer to %d has %d for slot %d, want %d", query, got[i], i, w)
			}
			if w > 0 {
				n++
			}
		}
		if len(got) != n {
			t.Fatalf("the answer to %d has %d ranks, want %d", query, len(got), n)
		}
	}
	const some = 50_000
	ask(locals{1, 2, some + 10}, func(i indexer.Slot) uint32 {
		switch {
		case i == some:
			return 3
		case i%2 == 0:
			return 2
		}
		return 1
	})
	ask(locals{1, some + 11}, func(i indexer.Slot) uint32 {
		if i == some+1 {
			return 2
		}
		return 1
	})
	// The slots go in an order that empties no part of a set first, the last of
	// every four with its blocks removed one by one.
	for k := range indexer.Slot(indexer.MaxRanks) {
		i := k * 40_503 % indexer.MaxRanks
		if i%8 == 7 || i%8 == 6 {
			continue
		}
		s.detach(i)
	}
	stays := func(i indexer.Slot) bool { return i%8 >= 6 }
	ask(locals{1, 2}, func(i indexer.Slot) uint32 {
		switch {
		case !stays(i):
			return 0
		case i%2 == 0:
			return 2
		}
		return 1
	})
	if err := s.index.Check(); err != nil {
		t.Error(err)
	}
	for i := range indexer.Slot(indexer.MaxRanks) {
		if stays(i) {
			apply(on(i, remove(1)), effect{Removed: 1})
			s.detach(i)
		}
	}
	ask(locals{1, 2}, func(indexer.Slot) uint32 { return 0 })
	if err := s.index.Check(); err != nil {
		t.Error(err)
	}
}
