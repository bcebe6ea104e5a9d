package soak

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
)

// truth is the reference index, applied by one goroutine. The slot of a rank is
// its number.
type truth struct {
	index  *reference.Index
	writer indexer.Writer
	reader indexer.Reader
	answer indexer.Answer
}

func newTruth(ranks int) (*truth, error) {
	x, err := reference.New(indexer.Config{Threads: 1, Slots: ranks})
	if err != nil {
		return nil, err
	}
	return &truth{index: x, writer: x.Writer(0), reader: x.Reader()}, nil
}

func (t *truth) apply(o *op) indexer.Effect {
	slot := indexer.Slot(o.rank)
	switch o.do {
	case register:
		t.writer.Attach(slot)
	case unregister:
		t.writer.Detach(slot)
	case apply:
		ev := o.event
		ev.Slot = slot
		return t.writer.Apply(&ev)
	}
	return indexer.Effect{}
}

// find returns the scores by rank of those that hold something.
func (t *truth) find(query []indexer.LocalHash) map[int]uint32 {
	t.reader.Find(query, indexer.FindOptions{}, &t.answer)
	m := make(map[int]uint32, len(t.answer.Touched()))
	for _, slot := range t.answer.Touched() {
		m[int(slot)] = t.answer.Score(slot)
	}
	return m
}

// read returns the scores of an answer by slot, or what it contradicts by itself:
// ranks beyond the slots given out, more blocks than there can be.
func read(ans *indexer.Answer, slots, limit int) (map[indexer.Slot]uint32, error) {
	m := make(map[indexer.Slot]uint32, len(ans.Touched()))
	for _, slot := range ans.Touched() {
		n := ans.Score(slot)
		if _, twice := m[slot]; twice {
			return nil, fmt.Errorf("slot %d is in the answer twice", slot)
		}
		if int(slot) >= slots {
			return nil, fmt.Errorf("slot %d is in the answer; there are %d", slot, slots)
		}
		if n == 0 || int(n) > limit {
			return nil, fmt.Errorf("slot %d holds %d leading blocks, which must be 1 to %d", slot, n, limit)
		}
		m[slot] = n
	}
	return m, nil
}

// narrowed compares an answer with the one to the same query without options.
func narrowed(got, all map[indexer.Slot]uint32, opts indexer.FindOptions) error {
	order := slices.SortedFunc(maps.Keys(all), func(a, b indexer.Slot) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b))
	})
	// A rank that is deeper than all others is the only one whose score early exit
	// may lower, though not to that of another.
	floor, alone := uint32(0), len(order) == 1
	if len(order) > 1 {
		floor = all[order[1]]
		alone = all[order[0]] > floor
	}
	if opts.MaxRanks > 0 {
		order = order[:min(len(order), opts.MaxRanks)]
	}
	if len(got) != len(order) {
		return fmt.Errorf("%s, want %d", plural(len(got), "rank"), len(order))
	}
	for i, slot := range order {
		if i == 0 && opts.EarlyExit && alone {
			if n := got[slot]; n <= floor || n > all[slot] {
				return fmt.Errorf("slot %d has %d, want more than %d and at most %d", slot, n, floor, all[slot])
			}
			continue
		}
		if got[slot] != all[slot] {
			return fmt.Errorf("slot %d has %d, want %d", slot, got[slot], all[slot])
		}
	}
	return nil
}
