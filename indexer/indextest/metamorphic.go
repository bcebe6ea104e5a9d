package indextest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
)

// Metamorphic gives an index the same events in different ways and wants it to end
// the same: what an index knows in the end must depend on each rank's events and on
// nothing else.
func Metamorphic(t *testing.T, oracle, f indexer.Factory) {
	rapid.Check(t, func(t *rapid.T) {
		ops := drawHistory(t)
		v := Variation{
			Threads:  rapid.IntRange(1, 4).Draw(t, "threads"),
			Batch:    rapid.SampledFrom([]int{0, 1, 2, 5}).Draw(t, "batch"),
			Join:     rapid.Bool().Draw(t, "join"),
			Restarts: rapid.Bool().Draw(t, "restarts"),
			Seed:     rapid.Uint64().Draw(t, "order"),
		}
		if err := CheckVariation(oracle, f, ops, v); err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
	})
}

// Variation is a way to give an index the events of a history. Each rank's events
// stay in their order.
type Variation struct {
	// Threads is the number of event threads, each a goroutine, if the index can
	// have more than one.
	Threads int
	// Join makes one event of neighbouring ones of a rank, where that is the same.
	Join bool
	// Batch, if positive, is the largest number of blocks of an event; longer ones
	// come in pieces.
	Batch int
	// Restarts lets every rank be given up somewhere in its events, and told all of
	// them again by another event thread.
	Restarts bool
	// Seed chooses the order between ranks and where they are given up.
	Seed uint64
}

// CheckVariation gives an oracle a history as it is and another index the same
// events in another way. It returns the first difference between their counts,
// the sums of their effects and their answers in the end, or the first invariant
// that the index says it has lost.
func CheckVariation(oracle, f indexer.Factory, ops []Op, v Variation) (err error) {
	want, err := open(oracle, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, want.close()) }()
	got, err := open(f, v.Threads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, got.close()) }()

	world := newWorld()
	rng := rand.New(rand.NewPCG(7, v.Seed))
	var courses []*course
	for _, slot := range testSlots {
		want.attach(slot, 0)
		c := &course{slot: slot, thread: rng.IntN(len(got.writers))}
		for _, op := range ops {
			s := world.step(op)
			switch {
			case s.event.Slot != slot:
			case s.reattach:
				want.detach(slot)
				want.attach(slot, 0)
				c.steps = append(c.steps, s)
			default:
				e := want.apply(&s.event)
				c.want.add(e)
				c.add(&s.event, e, v)
			}
		}
		courses = append(courses, c)
	}
	if v.Restarts {
		for _, c := range courses {
			c.end = rng.IntN(len(c.steps) + 1)
		}
		play(got, courses, v.Seed)
		for _, c := range courses {
			got.writers[c.thread].Detach(c.slot)
			*c = course{slot: c.slot, thread: (c.thread + 1) % len(got.writers), steps: c.steps, want: c.want}
		}
	}
	for _, c := range courses {
		c.end = len(c.steps)
	}
	play(got, courses, v.Seed+1)

	for _, c := range courses {
		if c.got != c.want {
			return fmt.Errorf("slot %d: the effects are %+v in all, want %+v", c.slot, c.got, c.want)
		}
		if w, g := want.owner[c.slot].Blocks(c.slot), got.writers[c.thread].Blocks(c.slot); g != w {
			return fmt.Errorf("slot %d has %d blocks, want %d", c.slot, g, w)
		}
	}
	for doc := range numDocs {
		for _, q := range world.queries(doc, doc) {
			w, err := want.find(q)
			if err != nil {
				return fmt.Errorf("the oracle %s: %w", want.name, err)
			}
			if g, err := got.find(q); err != nil || !maps.Equal(g, w) {
				return fmt.Errorf("the answer to %d is %v (%v), want %v", q, g, err, w)
			}
		}
	}
	return got.index.Check()
}

// course is what happens to one slot.
type course struct {
	slot       indexer.Slot
	thread     int
	steps      []step
	next, end  int // of the steps
	want, got  totals
	splittable bool // the last step
}

// add appends the steps for an event that had the effect e.
func (c *course) add(ev *indexer.Event, e effect, v Variation) {
	// A Stored that was rejected would be accepted in part, if it came in parts.
	whole := e.Orphaned+e.Conflicting+e.Malformed > 0 || ev.Kind == indexer.Cleared
	if v.Join && !whole && c.splittable {
		last := &c.steps[len(c.steps)-1].event
		if joined, ok := join(last, ev); ok {
			*last = joined
			c.splitLast(v.Batch)
			return
		}
	}
	c.steps = append(c.steps, step{event: *ev})
	c.splittable = !whole
	if !whole {
		c.splitLast(v.Batch)
	}
}

// join makes one event of two that follow each other.
func join(a, b *indexer.Event) (indexer.Event, bool) {
	if a.Kind != b.Kind || len(a.Sequences) == 0 || len(b.Sequences) == 0 {
		return indexer.Event{}, false
	}
	if a.Kind == indexer.Stored && (!b.HasParent || b.Parent != a.Sequences[len(a.Sequences)-1]) {
		return indexer.Event{}, false
	}
	joined := *a
	joined.Sequences = slices.Concat(a.Sequences, b.Sequences)
	joined.Locals = slices.Concat(a.Locals, b.Locals)
	return joined, true
}

// splitLast divides the last step into events of at most batch blocks.
func (c *course) splitLast(batch int) {
	for batch > 0 {
		ev := &c.steps[len(c.steps)-1].event
		if len(ev.Sequences) <= batch {
			return
		}
		rest := *ev
		rest.Sequences = ev.Sequences[batch:]
		ev.Sequences = ev.Sequences[:batch]
		if ev.Kind == indexer.Stored {
			rest.Locals = ev.Locals[batch:]
			rest.HasParent, rest.Parent = true, ev.Sequences[batch-1]
			ev.Locals = ev.Locals[:batch]
		}
		c.steps = append(c.steps, step{event: rest})
	}
}

// totals is the sum of effects.
type totals struct{ stored, removed, cleared, duplicate, unknown, orphaned, conflicting, malformed uint64 }

func (t *totals) add(e effect) {
	t.stored += uint64(e.Stored)
	t.removed += uint64(e.Removed)
	t.cleared += uint64(e.ClearedBlocks)
	t.duplicate += uint64(e.Duplicate)
	t.unknown += uint64(e.UnknownRemoved)
	t.orphaned += uint64(e.Orphaned)
	t.conflicting += uint64(e.Conflicting)
	t.malformed += uint64(e.Malformed)
}

// play attaches all slots and lets every event thread take its slots' steps, up to
// where each ends, in a random order between slots.
func play(s *subject, courses []*course, seed uint64) {
	var threads sync.WaitGroup
	for i, w := range s.writers {
		var own []*course
		for _, c := range courses {
			if c.thread == i {
				own = append(own, c)
			}
		}
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		threads.Go(func() {
			for _, c := range own {
				w.Attach(c.slot)
			}
			for len(own) > 0 {
				k := rng.IntN(len(own))
				c := own[k]
				if c.next == c.end {
					own = slices.Delete(own, k, k+1)
					continue
				}
				st := c.steps[c.next]
				c.next++
				if st.reattach {
					w.Detach(c.slot)
					w.Attach(c.slot)
				} else {
					c.got.add(w.Apply(&st.event))
				}
			}
		})
	}
	threads.Wait()
}
