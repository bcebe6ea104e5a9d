package indextest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// Faults checks that an index has none of the faults that are known of published
// ones, each by its name.
func Faults(t *testing.T, f indexer.Factory) {
	for _, fault := range faultTests() {
		t.Run(fault.name, func(t *testing.T) {
			if err := fault.check(f); err != nil {
				t.Error(err)
			}
		})
	}
}

// faultTest fails for an index that has the fault.
type faultTest struct {
	name  string
	check func(f indexer.Factory) error
}

// faultTests returns the tests. Prompts are longer than the jumps of positional
// indexes and the edges of compressed trees.
func faultTests() []faultTest {
	const n = 70
	names, path := chain(1, n)
	hold := func(slot indexer.Slot) ruleEvent {
		return ruleEvent{on(slot, store(names, path)), effect{Stored: n}, n}
	}
	// other is the same prompt but for one block, with its own names.
	other := func(block int) (seqs, locals) {
		names, path := chain(2, n)
		for i := range path {
			if i != block {
				path[i] = chainLocal(1, i)
			}
		}
		return names, path
	}
	var tests []faultTest
	rule := func(r rule) { tests = append(tests, faultTest{r.name, r.check}) }

	// Positional indexes compare how many ranks hold two blocks, not which.
	rule(rule2("as many ranks are taken for the same ranks", []ruleEvent{
		hold(0), hold(1),
		{on(0, remove(names[8], names[32])), effect{Removed: 2}, n - 2},
		{on(1, remove(names[0])), effect{Removed: 1}, n - 1},
		{on(1, extend(names[n-1], seqs{1 << 40}, locals{5})), effect{Stored: 1}, n},
	}, path, holds{0: 8}))
	rule(rule2("what lies between two blocks is taken for granted", []ruleEvent{
		hold(0), hold(1),
		{remove(names[3]), effect{Removed: 1}, n - 1},
		{on(1, remove(names[n-2])), effect{Removed: 1}, n - 1},
	}, path, holds{0: 3, 1: n - 2}))
	for _, block := range []int{3, 15} {
		otherNames, otherPath := other(block)
		rule(rule2(fmt.Sprintf("prompts that differ at block %d and agree later are taken for one", block), []ruleEvent{
			hold(0),
			{on(1, store(otherNames, otherPath)), effect{Stored: n}, n},
		}, path, holds{0: n, 1: uint32(block)}))
	}
	// A removal of several blocks ends at the first that is unknown.
	rule(rule2("an unknown removal ends its event", []ruleEvent{
		hold(0), hold(1),
		{remove(1<<60, names[40], 1<<61, names[20]), effect{Removed: 2, UnknownRemoved: 2}, n - 2},
	}, path, holds{0: 20, 1: n}))
	// Failed removals leave entries, so that counts drift upwards.
	rule(rule2("failed removals are counted as blocks", []ruleEvent{
		hold(0),
		{remove(1<<60, 1<<61), effect{UnknownRemoved: 2}, n},
		{remove(names...), effect{Removed: n}, 0},
		{remove(names...), effect{UnknownRemoved: n}, 0},
		{store(names[:1], path[:1]), effect{Stored: 1}, 1},
	}, path, holds{0: 1}))
	// Removals of one event are joined to the highest block of an edge, or dropped.
	rule(rule2("of the removals of one event some are lost", []ruleEvent{
		hold(0), hold(1),
		{remove(names[60], names[61], names[50], names[10], names[69]), effect{Removed: 5}, n - 5},
		{extend(names[9], seqs{names[10]}, locals{path[10]}), effect{Stored: 1}, n - 4},
		{on(1, remove(names[30:]...)), effect{Removed: n - 30}, 30},
	}, path, holds{0: 50, 1: 30}))

	// Trees count by the shape that they happen to have: a removal in the middle of
	// an edge takes the rest of the edge out of the count, one at its end does not.
	rule(rule2("counts depend on how blocks came: in one event", []ruleEvent{
		hold(0),
		{remove(names[20]), effect{Removed: 1}, n - 1},
		{remove(names[40]), effect{Removed: 1}, n - 2},
		{remove(names[41:]...), effect{Removed: n - 41}, 39},
	}, path, holds{0: 20}))
	single := []ruleEvent{{store(names[:1], path[:1]), effect{Stored: 1}, 1}}
	for i := 1; i < n; i++ {
		single = append(single, ruleEvent{extend(names[i-1], names[i:i+1], path[i:i+1]), effect{Stored: 1}, i + 1})
	}
	rule(rule2("counts depend on how blocks came: one by one", append(single,
		ruleEvent{remove(names[20]), effect{Removed: 1}, n - 1},
		ruleEvent{remove(names[40]), effect{Removed: 1}, n - 2},
		ruleEvent{remove(names[41:]...), effect{Removed: n - 41}, 39},
	), path, holds{0: 20}))
	// Blocks below a hole are forgotten, refused as parents or not matched again.
	rule(rule2("what lies below a hole is lost", []ruleEvent{
		hold(0),
		{remove(names[20]), effect{Removed: 1}, n - 1},
		{extend(names[n-1], seqs{1 << 40}, locals{5}), effect{Stored: 1}, n},
		{extend(names[19], seqs{names[20]}, locals{path[20]}), effect{Stored: 1}, n + 1},
	}, append(append(locals{}, path...), 5), holds{0: n + 1}))
	// An index that holds only the edge's holders forgets whose block a parent was.
	rule(rule2("a parent that another rank holds is taken for this rank's", []ruleEvent{
		hold(0), hold(1),
		{remove(names[n-1]), effect{Removed: 1}, n - 1},
		{extend(names[n-1], seqs{1 << 40}, locals{5}), effect{Orphaned: 1}, n - 1},
	}, append(append(locals{}, path...), 5), holds{0: n - 1, 1: n}))

	// Descent is by local hash only: a sequence hash that contradicts is merged.
	rule(rule2("contradictory hashes are merged", []ruleEvent{
		hold(0), hold(1),
		{store(seqs{1 << 40, names[1]}, locals{7, path[1]}), effect{Conflicting: 2}, n},
		{extend(names[5], seqs{names[5]}, locals{path[5]}), effect{Conflicting: 1}, n},
		{remove(names[1]), effect{Removed: 1}, n - 1},
	}, path, holds{0: 1, 1: n}))
	// Places are named by the engine's hashes, so engines must agree on them.
	foreign := make(seqs, n)
	for i := range foreign {
		foreign[i] = maxHash - names[i]
	}
	rule(rule2("the engine's hash function has to be known", []ruleEvent{
		hold(0),
		{on(1, store(foreign, path)), effect{Stored: n}, n},
		{on(1, remove(foreign[50])), effect{Removed: 1}, n - 1},
	}, path, holds{0: n, 1: 50}))
	// A block is given up with the first of its names.
	rule(rule2("a block has one name", []ruleEvent{
		hold(0),
		{extend(names[9], foreign[10:20], path[10:20]), effect{Stored: 10}, n + 10},
		{remove(foreign[10:15]...), effect{Removed: 5}, n + 5},
		{remove(names[15:20]...), effect{Removed: 5}, n},
	}, path, holds{0: n}))
	// A cleared rank must have a count, 0, and keep nobody's blocks.
	rule(rule2("clearing reaches other ranks or leaves blocks", []ruleEvent{
		hold(0), hold(1),
		{cleared, effect{ClearedBlocks: n}, 0},
		{extend(names[9], names[10:], path[10:]), effect{Orphaned: n - 10}, 0},
		{cleared, effect{}, 0},
	}, path, holds{1: n}))

	return append(tests,
		faultTest{"stopping early gives every rank the same score", checkEarlyExit},
		faultTest{"prefixes that branch and go leave memory behind", checkBranching},
	)
}

// rule2 is a rule with one question.
func rule2(name string, events []ruleEvent, query locals, want holds) rule {
	return rule{name, events, []ruleAsk{{query, want}}}
}

// chainLocal is block i of chain.
func chainLocal(seed uint64, i int) indexer.LocalHash {
	_, path := chain(seed, i+1)
	return path[i]
}

// checkEarlyExit asks for ranks that end at different blocks, with EarlyExit.
func checkEarlyExit(f indexer.Factory) (err error) {
	s, err := open(f, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	names, path := chain(1, 40)
	for slot, n := range []int{40, 3, 17, 40} {
		s.attach(indexer.Slot(slot), 0)
		ev := on(indexer.Slot(slot), store(names[:n], path[:n]))
		s.apply(&ev)
	}
	want, err := s.find(path)
	if err != nil {
		return err
	}
	for _, opts := range narrowed {
		got, err := s.findWith(path, opts)
		if err != nil {
			return err
		}
		if err := checkNarrowed(got, want, opts); err != nil {
			return fmt.Errorf("%+v: %w", opts, err)
		}
	}
	return nil
}

// checkBranching stores prompts that leave a long one at each of its blocks, and
// removes them, over and over with new ones. The long prompt stays. An index that
// splits and never joins, or never takes out what is empty, grows.
func checkBranching(f indexer.Factory) (err error) {
	s, err := open(f, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	const length, tail, ranks, slack = 60, 8, 4, 1 << 18
	names, path := chain(1, length)
	for slot := range indexer.Slot(ranks) {
		s.attach(slot, int(slot))
		ev := on(slot, store(names, path))
		s.apply(&ev)
	}
	seed := uint64(2)
	churn := func(rounds int) {
		for range rounds {
			for at := range length {
				ownNames, ownPath := chain(seed, tail)
				seed++
				for slot := range indexer.Slot(ranks) {
					ev := on(slot, extend(names[at], ownNames, ownPath))
					s.apply(&ev)
				}
				for slot := range indexer.Slot(ranks) {
					// Every other prompt goes from its beginning, so with holes.
					gone := ownNames
					if at%2 == 0 {
						gone = append(append(seqs{}, ownNames[tail/2:]...), ownNames[:tail/2]...)
					}
					ev := on(slot, remove(gone...))
					s.apply(&ev)
				}
			}
		}
	}
	churn(5)
	before, ownBefore := footprint(s.index)
	churn(40)
	after, ownAfter := footprint(s.index)
	if err := s.index.Check(); err != nil {
		return err
	}
	if after > before+slack || ownAfter > ownBefore+slack {
		return fmt.Errorf("%d prompts came and went, and %d bytes more are in use, %d by the index's count", 40*length, after-before, ownAfter-ownBefore)
	}
	for slot := range indexer.Slot(ranks) {
		if got := s.owner[slot].Blocks(slot); got != length {
			return fmt.Errorf("slot %d: %d blocks, want %d", slot, got, length)
		}
	}
	return nil
}
