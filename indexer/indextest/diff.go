package indextest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kvbench/kvbench/indexer"
)

// Diff runs a history through an oracle and another index and returns the first
// difference in effects, counts of resident and reachable blocks, and answers, or the first invariant that the
// index says it has lost. After each operation it asks for the document that the
// operation was about; at the end it asks for all documents and takes all
// blocks away.
func Diff(oracle, f indexer.Factory, ops []Op) (err error) {
	d, err := newDiff(oracle, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.want.close(), d.got.close()) }()
	for i, op := range ops {
		if err := d.step(i, op); err != nil {
			return fmt.Errorf("operation %d (%+v): %w", i, op, err)
		}
	}
	return d.finish()
}

// diff is two indexes that are given the same.
type diff struct {
	world     *world
	want, got *subject
	turn      int
}

func newDiff(oracle, f indexer.Factory) (*diff, error) {
	want, err := open(oracle, 1)
	if err != nil {
		return nil, err
	}
	got, err := open(f, 3)
	if err != nil {
		return nil, errors.Join(err, want.close())
	}
	d := &diff{world: newWorld(), want: want, got: got}
	for _, slot := range testSlots {
		d.attach(slot)
	}
	return d, nil
}

func (d *diff) attach(slot indexer.Slot) {
	d.turn++
	d.want.attach(slot, d.turn)
	d.got.attach(slot, d.turn)
}

func (d *diff) detach(slot indexer.Slot) {
	d.want.detach(slot)
	d.got.detach(slot)
}

func (d *diff) step(i int, op Op) error {
	s := d.world.step(op)
	slot := s.event.Slot
	if s.reattach {
		d.detach(slot)
		if err := d.answers(s.doc, int(op.From)); err != nil {
			return fmt.Errorf("while slot %d is detached: %w", slot, err)
		}
		d.attach(slot)
	} else if err := d.event(&s.event); err != nil {
		return err
	}
	if want, got := d.want.owner[slot].Blocks(slot), d.got.owner[slot].Blocks(slot); got != want {
		return fmt.Errorf("slot %d has %d blocks, want %d", slot, got, want)
	}
	if err := d.reachable(slot); err != nil {
		return err
	}
	if err := d.answers(s.doc, int(op.From)); err != nil {
		return err
	}
	if i%8 == 0 {
		return d.check()
	}
	return nil
}

// reachable compares the number of places that a rank can reach, if the index
// knows it.
func (d *diff) reachable(slot indexer.Slot) error {
	counter, ok := d.got.owner[slot].(indexer.ReachableCounter)
	if !ok {
		return nil
	}
	oracle, ok := d.want.index.(interface{ CountReachable(indexer.Slot) int })
	if !ok {
		return fmt.Errorf("the oracle %s cannot say how many places can be reached, and %s can", d.want.name, d.got.name)
	}
	if got, known := counter.Reachable(slot); known {
		if want := oracle.CountReachable(slot); got != want {
			return fmt.Errorf("slot %d can reach %d places, want %d", slot, got, want)
		}
	}
	return nil
}

func (d *diff) event(ev *indexer.Event) error {
	before := clone(ev)
	want, got := d.want.apply(ev), d.got.apply(ev)
	if want != got {
		return fmt.Errorf("%s: the effect is %+v, want %+v", describe(ev), got, want)
	}
	if !equal(ev, before) {
		return fmt.Errorf("%s: the event was changed", describe(before))
	}
	return nil
}

func (d *diff) answers(doc, cut int) error {
	for _, q := range d.world.queries(doc, cut) {
		if err := d.answer(q); err != nil {
			return err
		}
	}
	return nil
}

func (d *diff) answer(query []indexer.LocalHash) error {
	want, err := d.want.find(query)
	if err != nil {
		return fmt.Errorf("the oracle %s: %w", d.want.name, err)
	}
	got, err := d.got.find(query)
	if err != nil {
		return err
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("the answer to %d is %v, want %v", query, got, want)
	}
	for _, opts := range narrowed {
		got, err := d.got.findWith(query, opts)
		if err != nil {
			return err
		}
		if err := checkNarrowed(got, want, opts); err != nil {
			return fmt.Errorf("the answer to %d with %+v is %v, without %v: %w", query, opts, got, want, err)
		}
	}
	return nil
}

var narrowed = []indexer.FindOptions{{MaxRanks: 1}, {MaxRanks: 3}, {EarlyExit: true}, {MaxRanks: 2, EarlyExit: true}}

// checkNarrowed compares an answer with the one to the same query without
// options.
func checkNarrowed(got, all map[indexer.Slot]uint32, opts indexer.FindOptions) error {
	order := slices.SortedFunc(maps.Keys(all), func(a, b indexer.Slot) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b))
	})
	// A rank that is deeper than all others is the only one whose score early
	// exit may lower.
	alone := len(order) == 1 || len(order) > 1 && all[order[0]] > all[order[1]]
	if opts.MaxRanks > 0 {
		order = order[:min(len(order), opts.MaxRanks)]
	}
	if len(got) != len(order) {
		return fmt.Errorf("%d ranks, want %d", len(got), len(order))
	}
	for i, slot := range order {
		if opts.EarlyExit && i == 0 && alone {
			var least uint32
			if len(all) > 1 {
				for s, n := range all {
					if s != slot {
						least = max(least, n)
					}
				}
			}
			if got[slot] <= least || got[slot] > all[slot] {
				return fmt.Errorf("slot %d has %d, want more than %d and at most %d", slot, got[slot], least, all[slot])
			}
			continue
		}
		if got[slot] != all[slot] {
			return fmt.Errorf("slot %d has %d, want %d", slot, got[slot], all[slot])
		}
	}
	return nil
}

func (d *diff) check() error {
	if err := d.want.index.Check(); err != nil {
		return fmt.Errorf("the oracle %s: %w", d.want.name, err)
	}
	return d.got.index.Check()
}

func (d *diff) finish() error {
	all := func() error {
		for doc := range numDocs {
			if err := d.answers(doc, doc); err != nil {
				return fmt.Errorf("at the end: %w", err)
			}
		}
		return d.check()
	}
	if err := all(); err != nil {
		return err
	}
	for _, slot := range testSlots {
		d.detach(slot)
	}
	if err := all(); err != nil {
		return fmt.Errorf("all slots detached: %w", err)
	}
	return nil
}

// scores returns an answer as a map. It fails if the answer contradicts itself.
func scores(ans *indexer.Answer, length int) (map[indexer.Slot]uint32, error) {
	m := make(map[indexer.Slot]uint32, len(ans.Touched()))
	var best uint32
	for _, slot := range ans.Touched() {
		if _, twice := m[slot]; twice {
			return nil, fmt.Errorf("slot %d is in the answer twice", slot)
		}
		n := ans.Score(slot)
		if n == 0 || int(n) > length {
			return nil, fmt.Errorf("slot %d holds %d of %d blocks", slot, n, length)
		}
		best = max(best, n)
		m[slot] = n
	}
	if ans.Best() != best {
		return nil, fmt.Errorf("the best score is given as %d, it is %d", ans.Best(), best)
	}
	return m, nil
}

func clone(ev *indexer.Event) *indexer.Event {
	c := *ev
	c.Sequences, c.Locals = slices.Clone(ev.Sequences), slices.Clone(ev.Locals)
	return &c
}

func equal(a, b *indexer.Event) bool {
	return a.ID == b.ID && a.Slot == b.Slot && a.Kind == b.Kind && a.HasParent == b.HasParent && a.Parent == b.Parent &&
		slices.Equal(a.Sequences, b.Sequences) && slices.Equal(a.Locals, b.Locals)
}

func describe(ev *indexer.Event) string {
	parent := ""
	if ev.HasParent {
		parent = fmt.Sprintf(" below %d", ev.Parent)
	}
	return fmt.Sprintf("slot %d: %v %d%s (locals %d)", ev.Slot, ev.Kind, ev.Sequences, parent, ev.Locals)
}
