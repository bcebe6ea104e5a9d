package crtc

import (
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// Here calls are made to meet where they would by chance do so too seldom.

// TestEventDuringWalk lets an event fall between a query's walk and its second
// look at the versions.
func TestEventDuringWalk(t *testing.T) {
	s, l := chain(1, 20)
	tail, tailLocals := chain(2, 5)
	all := append(append([]indexer.LocalHash{}, l...), tailLocals...)
	for _, c := range []struct {
		name string
		do   func(w *Writer)
		want uint32
	}{
		{"a block goes", func(w *Writer) { w.mustRemove(t, 0, s[3]) }, 3},
		{"a block comes back", func(w *Writer) { w.mustStore(t, 0, s[:10], s[10:11], l[10:11]) }, 25},
		{"the first block goes", func(w *Writer) { w.mustRemove(t, 0, s[0]) }, 0},
		{"all blocks go", func(w *Writer) { w.Apply(&indexer.Event{Kind: indexer.Cleared}) }, 0},
		{"another rank takes over", func(w *Writer) { w.Detach(0); w.Attach(0); w.mustStore(t, 0, nil, s[:2], l[:2]) }, 2},
		{"nothing happens", func(*Writer) {}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, w := newIndex(t, 2)
			for slot := range indexer.Slot(2) {
				w.mustStore(t, slot, nil, s, l)
				w.mustStore(t, slot, s, tail, tailLocals)
			}
			w.mustRemove(t, 0, s[10])
			r := x.Reader().(*Reader)
			var ans indexer.Answer
			r.walk(all, false)
			c.do(w)
			r.settle(all, &ans)
			if ans.Score(0) != c.want || ans.Score(1) != 25 {
				t.Errorf("the ranks have %d and %d blocks, want %d and 25", ans.Score(0), ans.Score(1), c.want)
			}
		})
	}
}

// TestWalkDuringEvent lets a query walk in the middle of an event.
func TestWalkDuringEvent(t *testing.T) {
	x, w := newIndex(t, 1)
	s, l := chain(1, 20)
	w.mustStore(t, 0, nil, s, l)
	r := x.Reader().(*Reader)
	var ans indexer.Answer
	v := x.versions[0].Load()
	before := acquire(v)
	at := w.ranks[0].names.get(uint64(s[5]))
	w.release(0, at, at+1) // the first of two removals of the event
	r.walk(l, false)
	at = w.ranks[0].names.get(uint64(s[2]))
	w.release(0, at, at+1)
	v.Store(before + 2)
	r.settle(l, &ans)
	if got := ans.Score(0); got != 2 {
		t.Errorf("%d blocks, want 2: 5 were there in the middle of an event only", got)
	}
}

// patience is how long a test looks whether something that must not happen does.
const patience = 30 * time.Millisecond

// twoNodes returns an index with a node and a child of it, which slot 0 holds.
func twoNodes(t *testing.T) (x *Index, w *Writer, p, c *node) {
	t.Helper()
	x, w = newIndex(t, 3)
	s, l := chain(1, 4)
	for i := range uint64(2) {
		own, ownLocals := chain(2+i, 4)
		w.mustStore(t, 0, nil, s, l)
		w.mustStore(t, 0, s, own, ownLocals)
	}
	_, childLocals := chain(2, 4)
	p = x.roots[rootOf(uint64(l[0]))].kids.get(uint64(l[0]))
	if c = p.kids.get(uint64(childLocals[0])); c == nil || c.up != p.end()-1 {
		t.Fatal("the prompts make another tree")
	}
	return x, w, p, c
}

// TestWalksHoldOnToTheNodeAbove blocks a child and looks whether those who wait
// for it keep the node above, without which the child could go meanwhile.
func TestWalksHoldOnToTheNodeAbove(t *testing.T) {
	_, names := chain(1, 4)
	_, tail := chain(2, 4)
	path := append(append([]indexer.LocalHash{}, names...), tail...)
	for _, c := range []struct {
		name string
		do   func(x *Index, w *Writer)
	}{
		{"a query", func(x *Index, _ *Writer) {
			var ans indexer.Answer
			x.Reader().Find(path, indexer.FindOptions{}, &ans)
		}},
		{"the query of one rank", func(x *Index, _ *Writer) { x.walkOne(path, 0) }},
		{"a store", func(_ *Index, w *Writer) {
			own := []indexer.SequenceHash{91, 92, 93, 94, 95}
			w.Apply(&indexer.Event{Slot: 2, Kind: indexer.Stored, Sequences: own, Locals: path[:5]})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, w, p, child := twoNodes(t)
			child.lock()
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.do(x, w)
			}()
			// It comes to the node above sooner or later, and stays there.
			for p.word.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			for start := time.Now(); time.Since(start) < patience; time.Sleep(time.Millisecond) {
			}
			if p.word.Load() == 0 {
				t.Error("the node above was let go before the child was locked")
			}
			child.unlock()
			<-done
			mustCheck(t, x)
		})
	}
}

// TestUnlinkLooksAgain keeps the node above one that nobody holds any more, and
// lets something happen before that is unlinked.
func TestUnlinkLooksAgain(t *testing.T) {
	s, l := chain(2, 4)
	// start removes the child's blocks and returns when it waits for p.
	start := func(w *Writer, p, c *node) (done chan struct{}) {
		p.lock()
		done = make(chan struct{})
		go func() {
			defer close(done)
			w.Apply(&indexer.Event{Kind: indexer.Removed, Sequences: s})
		}()
		for {
			c.lock()
			empty := c.empty()
			c.unlock()
			if empty {
				return done
			}
			time.Sleep(time.Millisecond)
		}
	}
	other := func(t *testing.T) (*Index, *Writer, *Writer, *node, *node) {
		x, w, p, c := twoNodes(t)
		// A second event thread, which Config has no room for.
		x.writers = append(x.writers, nil)
		w2 := x.Writer(1).(*Writer)
		w2.Attach(1000)
		return x, w, w2, p, c
	}
	t.Run("another rank takes it", func(t *testing.T) {
		x, w, w2, p, c := other(t)
		prefix, prefixLocals := chain(1, 4)
		w2.mustStore(t, 1000, nil, prefix, prefixLocals)
		done := start(w, p, c)
		c.lock()
		for i := range s {
			r := w2.ranks[1000]
			r.names.reserve(1)
			r.names.put(uint64(s[i]), c.start+position(i))
		}
		w2.hold(c, 1000, 0, 4)
		c.unlock()
		p.unlock()
		<-done
		mustCheck(t, x)
		if p.kids.get(uint64(l[0])) != c {
			t.Error("the node was unlinked")
		}
	})
	t.Run("the node above is split", func(t *testing.T) {
		x, w, w2, p, c := other(t)
		done := start(w, p, c)
		w2.split(p, 2)
		p.unlock()
		<-done
		mustCheck(t, x)
	})
	t.Run("another unlinks it", func(t *testing.T) {
		x, w, w2, p, c := other(t)
		done := start(w, p, c)
		c.lock()
		p.kids.remove(&w2.kids, uint64(l[0]))
		number, edge := c.slab, c.edge
		first := number.at(c.start)
		w2.forget(c)
		c.unlock()
		x.giveBack(c)
		number.release(first, first+cap(edge))
		for w2.join(p) {
		}
		p.unlock()
		<-done
		mustCheck(t, x)
	})
}
