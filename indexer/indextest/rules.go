package indextest

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// Short names for tables.
type (
	seqs   = []indexer.SequenceHash
	locals = []indexer.LocalHash
	effect = indexer.Effect
)

func store(s seqs, l locals) indexer.Event {
	return indexer.Event{Kind: indexer.Stored, Sequences: s, Locals: l}
}

func extend(parent indexer.SequenceHash, s seqs, l locals) indexer.Event {
	ev := store(s, l)
	ev.HasParent, ev.Parent = true, parent
	return ev
}

func remove(s ...indexer.SequenceHash) indexer.Event {
	return indexer.Event{Kind: indexer.Removed, Sequences: s}
}

func on(slot indexer.Slot, ev indexer.Event) indexer.Event {
	ev.Slot = slot
	return ev
}

const maxHash = 1<<64 - 1

var cleared = indexer.Event{Kind: indexer.Cleared}

// rule is a history of slots 0 and 1. After each event the effect and the count
// of its slot are compared, at the end the answers.
type rule struct {
	name   string
	events []ruleEvent
	asks   []ruleAsk
}

type ruleEvent struct {
	event  indexer.Event
	effect effect
	blocks int
}

type ruleAsk struct {
	query locals
	want  map[indexer.Slot]uint32
}

type holds = map[indexer.Slot]uint32

var abc = locals{1, 2, 3}

// rules are the sentences of indexer.Index, each with an example.
var rules = []rule{
	{"nothing is stored", nil, []ruleAsk{{abc, holds{}}, {nil, holds{}}}},
	{"leading blocks", []ruleEvent{
		{store(seqs{10, 20, 30}, abc), effect{Stored: 3}, 3},
		{on(1, store(seqs{10}, locals{1})), effect{Stored: 1}, 1},
	}, []ruleAsk{
		{abc, holds{0: 3, 1: 1}}, {locals{1, 2}, holds{0: 2, 1: 1}}, {locals{1, 2, 3, 4}, holds{0: 3, 1: 1}},
		{locals{1, 9, 3}, holds{0: 1, 1: 1}}, {locals{2, 3}, holds{}}, {locals{}, holds{}},
	}},
	{"a parent continues its path", []ruleEvent{
		{store(seqs{10}, locals{1}), effect{Stored: 1}, 1},
		{extend(10, seqs{20, 30}, locals{2, 3}), effect{Stored: 2}, 3},
		{extend(20, seqs{31}, locals{4}), effect{Stored: 1}, 4},
	}, []ruleAsk{{abc, holds{0: 3}}, {locals{1, 2, 4}, holds{0: 3}}, {locals{1, 3}, holds{0: 1}}}},
	{"a hole cuts and its refill heals", []ruleEvent{
		{store(seqs{10, 20, 30}, abc), effect{Stored: 3}, 3},
		{remove(20), effect{Removed: 1}, 2},
		// What lies behind the hole may still grow.
		{extend(30, seqs{40}, locals{4}), effect{Stored: 1}, 3},
	}, []ruleAsk{{locals{1, 2, 3, 4}, holds{0: 1}}}},
	{"a hole that came back", []ruleEvent{
		{store(seqs{10, 20, 30}, abc), effect{Stored: 3}, 3},
		{remove(20), effect{Removed: 1}, 2},
		{extend(30, seqs{40}, locals{4}), effect{Stored: 1}, 3},
		{extend(10, seqs{21}, locals{2}), effect{Stored: 1}, 4},
	}, []ruleAsk{{locals{1, 2, 3, 4}, holds{0: 4}}}},
	{"a rank without its first block is absent", []ruleEvent{
		{store(seqs{10, 20, 30}, abc), effect{Stored: 3}, 3},
		{on(1, store(seqs{10, 20, 30}, abc)), effect{Stored: 3}, 3},
		{remove(10), effect{Removed: 1}, 2},
	}, []ruleAsk{{abc, holds{1: 3}}}},
	{"a place is held until its last name goes", []ruleEvent{
		{store(seqs{10, 20}, locals{1, 2}), effect{Stored: 2}, 2},
		{store(seqs{11}, locals{1}), effect{Stored: 1}, 3},
		{store(seqs{12}, locals{1}), effect{Stored: 1}, 4},
		{remove(10, 12), effect{Removed: 2}, 2},
	}, []ruleAsk{{locals{1, 2}, holds{0: 2}}}},
	{"and not longer", []ruleEvent{
		{store(seqs{10, 20}, locals{1, 2}), effect{Stored: 2}, 2},
		{store(seqs{11}, locals{1}), effect{Stored: 1}, 3},
		{remove(11), effect{Removed: 1}, 2},
		{remove(10), effect{Removed: 1}, 1},
	}, []ruleAsk{{locals{1, 2}, holds{}}}},
	{"a parent by its second name, the first being gone", []ruleEvent{
		{store(seqs{10}, locals{1}), effect{Stored: 1}, 1},
		{store(seqs{11}, locals{1}), effect{Stored: 1}, 2},
		{remove(10), effect{Removed: 1}, 1},
		{extend(10, seqs{20}, locals{2}), effect{Orphaned: 1}, 1},
		{extend(11, seqs{20}, locals{2}), effect{Stored: 1}, 2},
	}, []ruleAsk{{locals{1, 2}, holds{0: 2}}}},
	{"duplicates", []ruleEvent{
		{store(seqs{10, 20}, locals{1, 2}), effect{Stored: 2}, 2},
		{store(seqs{10, 20, 30}, abc), effect{Stored: 1, Duplicate: 2}, 3},
		{extend(20, seqs{30}, locals{3}), effect{Duplicate: 1}, 3},
		{remove(30), effect{Removed: 1}, 2},
		{remove(30), effect{UnknownRemoved: 1}, 2},
	}, []ruleAsk{{abc, holds{0: 2}}}},
	{"the same content without its parent is another place", []ruleEvent{
		{store(seqs{10, 20}, locals{1, 2}), effect{Stored: 2}, 2},
		{store(seqs{21}, locals{2}), effect{Stored: 1}, 3},
	}, []ruleAsk{{locals{2}, holds{0: 1}}, {locals{1, 2}, holds{0: 2}}}},
	{"an unknown parent", []ruleEvent{
		{extend(10, seqs{20, 30}, locals{2, 3}), effect{Orphaned: 2}, 0},
		// A parent of another rank is unknown too.
		{on(1, store(seqs{10}, locals{1})), effect{Stored: 1}, 1},
		{extend(10, seqs{20, 30}, locals{2, 3}), effect{Orphaned: 2}, 0},
		// So is one that the event itself brings.
		{extend(20, seqs{20, 30}, locals{2, 3}), effect{Orphaned: 2}, 0},
	}, []ruleAsk{{locals{1, 2}, holds{1: 1}}, {locals{2}, holds{}}}},
	{"a parent that was removed or cleared", []ruleEvent{
		{store(seqs{10}, locals{1}), effect{Stored: 1}, 1},
		{remove(10), effect{Removed: 1}, 0},
		{extend(10, seqs{20}, locals{2}), effect{Orphaned: 1}, 0},
		{store(seqs{10}, locals{1}), effect{Stored: 1}, 1},
		{cleared, effect{ClearedBlocks: 1}, 0},
		{extend(10, seqs{20}, locals{2}), effect{Orphaned: 1}, 0},
	}, []ruleAsk{{locals{1, 2}, holds{}}}},
	{"a second place for a live hash", []ruleEvent{
		{store(seqs{10, 20}, locals{1, 2}), effect{Stored: 2}, 2},
		{store(seqs{50, 20}, locals{5, 2}), effect{Conflicting: 2}, 2},
		{store(seqs{20}, locals{2}), effect{Conflicting: 1}, 2},
		{extend(20, seqs{10}, locals{1}), effect{Conflicting: 1}, 2},
		{extend(20, seqs{20}, locals{2}), effect{Conflicting: 1}, 2},
		// Nothing of the rejected ones was kept: 50 is free for any place.
		{store(seqs{50}, locals{6}), effect{Stored: 1}, 3},
		{remove(20), effect{Removed: 1}, 2},
		{extend(50, seqs{20}, locals{2}), effect{Stored: 1}, 3},
	}, []ruleAsk{{locals{5}, holds{}}, {locals{2}, holds{}}, {locals{6, 2}, holds{0: 2}}, {locals{1, 2}, holds{0: 1}}}},
	{"a second place inside one event", []ruleEvent{
		{store(seqs{10, 20, 10}, locals{1, 2, 1}), effect{Conflicting: 3}, 0},
		{store(seqs{10, 10}, locals{1, 1}), effect{Conflicting: 2}, 0},
		{store(seqs{10}, locals{1}), effect{Stored: 1}, 1},
		{store(seqs{10, 20, 20}, locals{1, 2, 2}), effect{Conflicting: 3}, 1},
		// What was live before the rejected event still is.
		{extend(10, seqs{20}, locals{2}), effect{Stored: 1}, 2},
	}, []ruleAsk{{locals{1, 2}, holds{0: 2}}}},
	{"the same hash on another rank may name another place", []ruleEvent{
		{store(seqs{10}, locals{1}), effect{Stored: 1}, 1},
		{on(1, store(seqs{10}, locals{2})), effect{Stored: 1}, 1},
	}, []ruleAsk{{locals{1}, holds{0: 1}}, {locals{2}, holds{1: 1}}}},
	{"removals of what is not there", []ruleEvent{
		{remove(10), effect{UnknownRemoved: 1}, 0},
		{store(seqs{10, 20, 30}, abc), effect{Stored: 3}, 3},
		{remove(99, 30, 98, 20, 30), effect{Removed: 2, UnknownRemoved: 3}, 1},
		{on(1, remove(10)), effect{UnknownRemoved: 1}, 0},
	}, []ruleAsk{{abc, holds{0: 1}}}},
	{"clearing", []ruleEvent{
		{cleared, effect{}, 0},
		{store(seqs{10, 20}, locals{1, 2}), effect{Stored: 2}, 2},
		{store(seqs{11}, locals{1}), effect{Stored: 1}, 3},
		{on(1, store(seqs{10}, locals{1})), effect{Stored: 1}, 1},
		{cleared, effect{ClearedBlocks: 3}, 0},
		{remove(10), effect{UnknownRemoved: 1}, 0},
	}, []ruleAsk{{locals{1, 2}, holds{1: 1}}}},
	{"clearing one rank makes its hashes free", []ruleEvent{
		{store(seqs{10}, locals{1}), effect{Stored: 1}, 1},
		{cleared, effect{ClearedBlocks: 1}, 0},
		{store(seqs{10}, locals{2}), effect{Stored: 1}, 1},
	}, []ruleAsk{{locals{1}, holds{}}, {locals{2}, holds{0: 1}}}},
	{"events without blocks", []ruleEvent{
		{store(nil, nil), effect{}, 0},
		{extend(10, nil, nil), effect{}, 0},
		{remove(), effect{}, 0},
	}, []ruleAsk{{abc, holds{}}}},
	{"malformed events", []ruleEvent{
		{store(seqs{10, 20}, locals{1}), effect{Malformed: 1}, 0},
		{store(seqs{10}, locals{1, 2}), effect{Malformed: 1}, 0},
		{store(nil, locals{1}), effect{Malformed: 1}, 0},
		{store(seqs{10}, nil), effect{Malformed: 1}, 0},
		{extend(10, seqs{10}, nil), effect{Malformed: 1}, 0},
		{indexer.Event{Sequences: seqs{10}, Locals: locals{1}}, effect{Malformed: 1}, 0},
		{indexer.Event{Kind: 4, Sequences: seqs{10}}, effect{Malformed: 1}, 0},
		{indexer.Event{Kind: 255}, effect{Malformed: 1}, 0},
	}, []ruleAsk{{locals{1}, holds{}}}},
	{"all values are hashes", []ruleEvent{
		{store(seqs{0, maxHash}, locals{maxHash, 0}), effect{Stored: 2}, 2},
		{extend(maxHash, seqs{1}, locals{0}), effect{Stored: 1}, 3},
		{extend(0, seqs{2}, locals{maxHash}), effect{Stored: 1}, 4},
		{on(1, extend(0, seqs{2}, locals{maxHash})), effect{Orphaned: 1}, 0},
		{store(seqs{0}, locals{0}), effect{Conflicting: 1}, 4},
	}, []ruleAsk{{locals{maxHash, 0, 0}, holds{0: 3}}, {locals{maxHash, maxHash}, holds{0: 2}}, {locals{0}, holds{}}}},
	{"all values are removed", []ruleEvent{
		{store(seqs{0, maxHash}, locals{maxHash, 0}), effect{Stored: 2}, 2},
		{remove(maxHash), effect{Removed: 1}, 1},
		{remove(0), effect{Removed: 1}, 0},
		{remove(0, maxHash), effect{UnknownRemoved: 2}, 0},
	}, []ruleAsk{{locals{maxHash}, holds{}}}},
	{"a path of equal blocks", []ruleEvent{
		{store(seqs{1, 2, 3, 4}, locals{7, 7, 7, 7}), effect{Stored: 4}, 4},
		{remove(3), effect{Removed: 1}, 3},
	}, []ruleAsk{{locals{7, 7, 7, 7}, holds{0: 2}}, {locals{7, 8}, holds{0: 1}}}},
}

// check applies the events of a rule to a new index, asks its questions, and asks
// them again when the slots are gone.
func (r rule) check(f indexer.Factory) (err error) {
	s, err := open(f, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.attach(0, 0)
	s.attach(1, 0)
	for i, e := range r.events {
		e.event.ID = uint64(i)
		if got := s.apply(&e.event); got != e.effect {
			return fmt.Errorf("event %d: the effect is %+v, want %+v", i, got, e.effect)
		}
		if got := s.owner[e.event.Slot].Blocks(e.event.Slot); got != e.blocks {
			return fmt.Errorf("event %d: %d blocks, want %d", i, got, e.blocks)
		}
		if err := s.index.Check(); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	for _, a := range r.asks {
		if got, err := s.find(a.query); err != nil || !maps.Equal(got, a.want) {
			return fmt.Errorf("the answer to %d is %v (%v), want %v", a.query, got, err, a.want)
		}
	}
	s.detach(0)
	s.detach(1)
	for _, a := range r.asks {
		if got, err := s.find(a.query); err != nil || len(got) != 0 {
			return fmt.Errorf("all slots are detached and the answer to %d is %v (%v)", a.query, got, err)
		}
	}
	return s.index.Check()
}

// Rules checks every sentence of indexer.Index by an example or two.
func Rules(t *testing.T, f indexer.Factory) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if err := r.check(f); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("an attached slot starts empty", func(t *testing.T) {
		s := mustOpen(t, f, 2)
		for turn := range 3 {
			s.attach(5, turn)
			w := s.owner[5]
			w.Park()
			if n := w.Blocks(5); n != 0 {
				t.Errorf("%d blocks, want 0", n)
			}
			ev := on(5, store(seqs{10}, locals{indexer.LocalHash(turn)}))
			if got := w.Apply(&ev); got != (effect{Stored: 1}) {
				t.Errorf("the effect is %+v, want 1 block stored", got)
			}
			for old := range turn {
				if got, err := s.find(locals{indexer.LocalHash(old)}); err != nil || len(got) != 0 {
					t.Errorf("what the slot held before it was detached is still there: %v (%v)", got, err)
				}
			}
			s.detach(5)
		}
	})
	t.Run("an answer replaces the one before", func(t *testing.T) {
		s := mustOpen(t, f, 1)
		s.attach(3, 0)
		ev := on(3, store(seqs{10}, locals{1}))
		s.apply(&ev)
		s.answer.Set(9, 4)
		for _, q := range []struct {
			query locals
			want  holds
		}{{locals{1}, holds{3: 1}}, {locals{2}, holds{}}, {locals{1, 2}, holds{3: 1}}, {nil, holds{}}} {
			if got, err := s.find(q.query); err != nil || !maps.Equal(got, q.want) {
				t.Errorf("the answer to %d is %v (%v), want %v", q.query, got, err, q.want)
			}
		}
	})
}
