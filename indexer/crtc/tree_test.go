package crtc

import (
	"fmt"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// chain returns n blocks that no other seed has.
func chain(seed uint64, n int) ([]indexer.SequenceHash, []indexer.LocalHash) {
	s, l := make([]indexer.SequenceHash, n), make([]indexer.LocalHash, n)
	for i := range n {
		s[i] = indexer.SequenceHash(seed<<32 | uint64(i))
		l[i] = indexer.LocalHash(seed<<32 | uint64(i) | 1<<63)
	}
	return s, l
}

func newIndex(t testing.TB, slots int) (*Index, *Writer) {
	t.Helper()
	x, err := New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := x.Writer(0).(*Writer)
	for slot := range indexer.Slot(slots) {
		w.Attach(slot)
	}
	return x, w
}

func (w *Writer) mustStore(t testing.TB, slot indexer.Slot, parent []indexer.SequenceHash, s []indexer.SequenceHash, l []indexer.LocalHash) {
	t.Helper()
	ev := indexer.Event{Slot: slot, Kind: indexer.Stored, Sequences: s, Locals: l}
	if len(parent) > 0 {
		ev.HasParent, ev.Parent = true, parent[len(parent)-1]
	}
	if e := w.Apply(&ev); int(e.Stored+e.Duplicate) != len(s) {
		t.Fatalf("slot %d: %+v for a Stored of %d blocks", slot, e, len(s))
	}
}

func (w *Writer) mustRemove(t testing.TB, slot indexer.Slot, s ...indexer.SequenceHash) {
	t.Helper()
	if e := w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: s}); int(e.Removed) != len(s) {
		t.Fatalf("slot %d: %+v for a Removed of %d blocks", slot, e, len(s))
	}
}

func mustCheck(t testing.TB, x *Index) {
	t.Helper()
	if err := x.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestPrefixChurnLeavesNoTrace lets prompts branch off a long one at every offset
// and go again. The published tree keeps every split.
func TestPrefixChurnLeavesNoTrace(t *testing.T) {
	x, w := newIndex(t, 2)
	const n = 400
	s, l := chain(1, n)
	w.mustStore(t, 0, nil, s, l)
	before := x.Shape()
	mustCheck(t, x)
	for _, step := range []int{1, 5, n - 2, 131} {
		var added [][]indexer.SequenceHash
		for k := range n - 1 {
			at := (k*step)%(n-1) + 1
			own, ownLocals := chain(uint64(10+k), 3)
			// The other rank has the prefix under names of its own.
			prefix := make([]indexer.SequenceHash, at)
			for i := range prefix {
				prefix[i] = s[i] + 1<<60
			}
			w.mustStore(t, 1, nil, prefix, l[:at])
			w.mustStore(t, 1, prefix, own, ownLocals)
			added = append(added, own)
		}
		mustCheck(t, x)
		if got := x.Shape(); int(got.Units) < n {
			t.Fatalf("the prompts make %d nodes; this test wants one for each block at least", got.Units)
		}
		for k := range added {
			w.mustRemove(t, 1, added[(k*17)%len(added)]...)
		}
		for i := n - 2; i >= 0; i-- {
			w.mustRemove(t, 1, s[i]+1<<60)
		}
		mustCheck(t, x)
		if got := x.Shape(); got != before {
			t.Fatalf("step %d: the shape was %+v and is %+v", step, before, got)
		}
	}
}

// TestMemoryOfChurn lets the content of a rank change for long and wants the
// memory of what is there, not of what was.
func TestMemoryOfChurn(t *testing.T) {
	x, w := newIndex(t, 4)
	bytes := func() (sum int64) {
		for _, p := range x.Memory() {
			sum += p.Bytes
		}
		return sum
	}
	empty := bytes()
	const window, length = 100, 90
	put := func(from, to int) {
		for d := from; d < to; d++ {
			for slot := range indexer.Slot(4) {
				// A common beginning, whose length changes, and an own rest.
				common := 10 + d%40
				s, l := chain(1, common)
				s2, l2 := chain(uint64(d)*4+uint64(slot)+10, length-common)
				w.mustStore(t, slot, nil, s, l)
				w.mustStore(t, slot, s, s2, l2)
				if old := d - window; old >= 0 {
					s3, _ := chain(uint64(old)*4+uint64(slot)+10, length-(10+old%40))
					w.mustRemove(t, slot, s3...)
				}
			}
		}
	}
	put(0, 2*window)
	full, shape := bytes(), x.Shape()
	put(2*window, 20*window)
	if later := bytes(); later > full+full/8 {
		t.Errorf("the same amount of content has %d bytes, then %d", full, later)
	}
	if later := x.Shape(); later.Units > shape.Units+shape.Units/8 || later.Blocks > shape.Blocks+shape.Blocks/8 {
		t.Errorf("the shape was %+v and is %+v", shape, later)
	}
	mustCheck(t, x)
	for slot := range indexer.Slot(4) {
		w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Cleared})
	}
	mustCheck(t, x)
	if got := bytes(); got > empty+1<<18 {
		t.Errorf("an empty index has %d bytes at first and %d in the end", empty, got)
	}
	if got := x.Shape(); got.Units != 0 {
		t.Errorf("an empty index has the shape %+v", got)
	}
}

// TestDeadEndsAreCutOff removes the end of long edges and wants their memory back.
func TestDeadEndsAreCutOff(t *testing.T) {
	x, w := newIndex(t, 1)
	const prompts = 400
	for d := range uint64(prompts) {
		s, l := chain(d+1, maxEdge)
		w.mustStore(t, 0, nil, s, l)
	}
	full := x.slabs.next
	for d := range uint64(prompts) {
		s, _ := chain(d+1, maxEdge)
		w.mustRemove(t, 0, s[3:]...)
	}
	mustCheck(t, x)
	if got := x.Shape(); got.Units != prompts || got.Blocks != 3*prompts {
		t.Errorf("the shape is %+v", got)
	}
	// What is left lies in the slabs where it was; all the rest of them is free for
	// as many prompts again.
	for d := range uint64(prompts) {
		s, l := chain(d+1000, maxEdge-maxEdge/8)
		w.mustStore(t, 0, nil, s, l)
	}
	if got := x.slabs.next; got > full {
		t.Errorf("the slabs of %d prompts and the beginnings of %d need %d numbers, those of %d prompts %d", prompts, prompts, got, prompts, full)
	}
	mustCheck(t, x)
}

// TestCountsDoNotDependOnShape removes the same block of the same content in
// trees of different shapes.
func TestCountsDoNotDependOnShape(t *testing.T) {
	const n = 300
	s, l := chain(1, n)
	build := map[string]func(w *Writer){
		"at once": func(w *Writer) { w.mustStore(t, 0, nil, s, l) },
		"one by one": func(w *Writer) {
			for i := range n {
				w.mustStore(t, 0, s[:i], s[i:i+1], l[i:i+1])
			}
		},
		"split by others": func(w *Writer) {
			w.mustStore(t, 0, nil, s, l)
			for i := 1; i < n; i += 3 {
				w.mustStore(t, 1, nil, s[:i], l[:i])
				own, ownLocals := chain(uint64(i)+1, 2)
				w.mustStore(t, 1, s[:i], own, ownLocals)
			}
		},
		"split by a crowd": func(w *Writer) {
			w.mustStore(t, 0, nil, s, l)
			for slot := range indexer.Slot(200) {
				w.mustStore(t, slot+2, nil, s[:slot+5], l[:slot+5])
			}
		},
		"below others": func(w *Writer) {
			w.mustStore(t, 1, nil, s[:n/2], l[:n/2])
			w.mustStore(t, 0, nil, s, l)
		},
	}
	for name, f := range build {
		t.Run(name, func(t *testing.T) {
			x, w := newIndex(t, 202)
			f(w)
			mustCheck(t, x)
			r := x.Reader()
			var ans indexer.Answer
			expect := func(count int, score uint32) {
				t.Helper()
				mustCheck(t, x)
				r.Find(l, indexer.FindOptions{}, &ans)
				if got := w.Blocks(0); got != count || ans.Score(0) != score {
					t.Fatalf("%d blocks and score %d, want %d and %d", got, ans.Score(0), count, score)
				}
			}
			expect(n, n)
			w.mustRemove(t, 0, s[100])
			expect(n-1, 100)
			w.mustRemove(t, 0, s[200], s[50], s[201], s[10])
			expect(n-5, 10)
			w.mustStore(t, 0, s[:10], s[10:11], l[10:11])
			expect(n-4, 50)
			w.mustStore(t, 0, s[:50], s[50:51], l[50:51])
			expect(n-3, 100)
			w.mustStore(t, 0, nil, s, l)
			expect(n, n)
		})
	}
}

// TestCrowd lets many ranks stop at different blocks of one prompt. What one of
// them costs must not depend on how many there are.
func TestCrowd(t *testing.T) {
	const n, ranks = 200, 2000
	x, w := newIndex(t, ranks)
	s, l := chain(1, n)
	r := x.Reader()
	var ans indexer.Answer
	depth := func(slot indexer.Slot) int { return 1 + int(slot)*7919%n }
	for slot := range indexer.Slot(ranks) {
		w.mustStore(t, slot, nil, s, l)
	}
	for slot := range indexer.Slot(ranks) {
		w.mustRemove(t, slot, s[depth(slot):]...)
	}
	mustCheck(t, x)
	most := 0
	x.chunks.all(func(c *chunk) {
		for i := range c.nodes {
			most = max(most, len(c.nodes[i].partial))
		}
	})
	if most > maxPartial {
		t.Errorf("a node has %d partial holders", most)
	}
	r.Find(l, indexer.FindOptions{}, &ans)
	for slot := range indexer.Slot(ranks) {
		if got := ans.Score(slot); int(got) != depth(slot) {
			t.Fatalf("slot %d has %d blocks, want %d", slot, got, depth(slot))
		}
	}
	for slot := range indexer.Slot(ranks - 1) {
		w.mustRemove(t, slot, s[:depth(slot)]...)
	}
	mustCheck(t, x)
	if got := x.Shape(); int(got.Blocks) != depth(ranks-1) || got.Units != 1 {
		t.Errorf("one rank with %d blocks is left in the shape %+v", depth(ranks-1), got)
	}
}

// TestManyChildren hangs more prompts below one than there are ranks, and below the
// root.
func TestManyChildren(t *testing.T) {
	const n = 120_000
	x, w := newIndex(t, 1)
	s, l := chain(1, 4)
	w.mustStore(t, 0, nil, s, l)
	for i := range uint64(n) {
		parent := s
		if i%2 == 0 {
			parent = nil
		}
		own := []indexer.SequenceHash{indexer.SequenceHash(i)}
		w.mustStore(t, 0, parent, own, []indexer.LocalHash{indexer.LocalHash(i)})
	}
	mustCheck(t, x)
	if got := x.Shape(); got.Units != n+1 {
		t.Errorf("%d prompts have the shape %+v", n, got)
	}
	r := x.Reader()
	var ans indexer.Answer
	for i := range indexer.LocalHash(n) {
		path, want := append(append([]indexer.LocalHash{}, l...), i), uint32(5)
		if i%2 == 0 {
			path, want = []indexer.LocalHash{i, 1}, 1
		}
		if r.Find(path, indexer.FindOptions{}, &ans); ans.Score(0) != want {
			t.Fatalf("child %d: %d blocks, want %d", i, ans.Score(0), want)
		}
	}
	for i := range indexer.SequenceHash(n) {
		w.mustRemove(t, 0, i*40_507%n)
	}
	mustCheck(t, x)
	if got := x.Shape(); got.Units != 1 || got.Blocks != 4 {
		t.Errorf("without the children the shape is %+v", got)
	}
}

// TestGrowingByOne extends a prompt block by block, which must not make a node of
// each.
func TestGrowingByOne(t *testing.T) {
	for _, ranks := range []int{1, 4, 20} {
		t.Run(fmt.Sprintf("%dRanks", ranks), func(t *testing.T) {
			x, w := newIndex(t, ranks+1)
			const n, grown = 90, 300
			s, l := chain(1, n)
			for slot := range indexer.Slot(ranks) {
				w.mustStore(t, slot, nil, s, l)
			}
			all := s
			for i := range grown {
				own, ownLocals := chain(uint64(i)+2, 1)
				w.mustStore(t, 0, all, own, ownLocals)
				all = append(all, own...)
				if i%10 == 0 {
					// Another prompt, so that memory behind the first is taken.
					other, otherLocals := chain(uint64(i)+1000, 5)
					w.mustStore(t, indexer.Slot(ranks), nil, other, otherLocals)
				}
			}
			mustCheck(t, x)
			others := grown / 10
			if got := int(x.Shape().Units) - others; got > grown/12 {
				t.Errorf("%d blocks that came one by one are %d nodes", grown, got)
			}
		})
	}
}

// TestSuffixRemovalInAnyOrder removes all blocks of a prompt leaf first, root
// first and mixed. It would take minutes if each cost as much as the rest is long.
func TestSuffixRemovalInAnyOrder(t *testing.T) {
	const n = 100_000
	s, l := chain(1, n)
	for name, order := range map[string]func(i int) int{
		"leaf first": func(i int) int { return n - 1 - i },
		"root first": func(i int) int { return i },
		"mixed":      func(i int) int { return i * 40_507 % n },
	} {
		t.Run(name, func(t *testing.T) {
			x, w := newIndex(t, 2)
			w.mustStore(t, 0, nil, s, l)
			w.mustStore(t, 1, nil, s[:n/2], l[:n/2])
			for i := range n {
				w.mustRemove(t, 0, s[order(i)])
			}
			if got := w.Blocks(0); got != 0 {
				t.Errorf("%d blocks are left", got)
			}
			mustCheck(t, x)
			if got := x.Shape(); got.Blocks != n/2 {
				t.Errorf("the shape is %+v", got)
			}
		})
	}
}

// TestCheckFindsDamage breaks the index in the ways that Check is for.
func TestCheckFindsDamage(t *testing.T) {
	leaf := func(x *Index) *node {
		_, l := chain(1, 1)
		return x.roots[rootOf(uint64(l[0]))].kids.only().node
	}
	damages := map[string]func(x *Index, w *Writer){
		"a slot without a name":          func(x *Index, w *Writer) { w.setFull(leaf(x), 9) },
		"a part without a name":          func(x *Index, w *Writer) { w.addPartial(leaf(x), partial{slot: 9, cutoff: 1}) },
		"a part of nothing":              func(x *Index, w *Writer) { w.addPartial(leaf(x), partial{slot: 9}) },
		"a part of all":                  func(x *Index, w *Writer) { w.addPartial(leaf(x), partial{slot: 0, cutoff: 2}) },
		"a name without a slot":          func(x *Index, w *Writer) { w.clearFull(leaf(x), 0) },
		"an empty chunk":                 func(x *Index, w *Writer) { leaf(x).more = []slotChunk{{index: 3}} },
		"an alias that is not counted":   func(_ *Index, w *Writer) { w.ranks[0].names.put(99, w.ranks[0].names.get(1<<32)) },
		"an alias too many":              func(_ *Index, w *Writer) { w.ranks[0].more = one(w.ranks[0].names.get(1 << 32)) },
		"a wrong number of names":        func(_ *Index, w *Writer) { w.ranks[0].names.used++ },
		"an event that never ends":       func(_ *Index, w *Writer) { w.ranks[0].version.Add(1) },
		"a lock that is held":            func(x *Index, _ *Writer) { leaf(x).rlock() },
		"a root that is locked":          func(x *Index, _ *Writer) { x.roots[5].lock() },
		"a child under another hash":     func(x *Index, _ *Writer) { leaf(x).edge[0]++ },
		"a child that is counted twice":  func(x *Index, _ *Writer) { leaf(x).kids.n++ },
		"another block above":            func(x *Index, _ *Writer) { leaf(x).up = 7 },
		"a block of another node":        func(x *Index, _ *Writer) { n := leaf(x); n.slab.owners[n.slab.at(n.start)+1]++ },
		"blocks that nobody holds":       func(x *Index, w *Writer) { n := leaf(x); n.edge = n.edge[:3]; w.unholdAll(n, 0) },
		"a node that nothing leads to":   func(_ *Index, w *Writer) { w.nodes.alloc() },
		"space that nobody has":          func(_ *Index, w *Writer) { w.words.alloc(9) },
		"space of a node that is free":   func(x *Index, _ *Writer) { leaf(x).slab.mark(0, 1, false) },
		"a wrong longest free stretch":   func(x *Index, _ *Writer) { leaf(x).slab.longest-- },
		"a node without an edge":         func(x *Index, _ *Writer) { leaf(x).edge = leaf(x).edge[:0] },
		"a bitmap that a cutoff can say": func(x *Index, w *Writer) { hole(w, leaf(x), 1) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			x, w := newIndex(t, 3)
			s, l := chain(1, 2)
			for slot := range indexer.Slot(3) {
				w.mustStore(t, slot, nil, s, l)
			}
			mustCheck(t, x)
			damage(x, w)
			if err := x.Check(); err == nil {
				t.Error("Check says that all is well")
			}
		})
	}
}

func one(at position) names {
	var n names
	n.reserve(1)
	n.put(uint64(at), 1)
	return n
}

// hole gives slot 0 a bitmap that says what a cutoff would.
func hole(w *Writer, n *node, cutoff uint32) {
	w.mustRemoveQuietly(0, 1<<32|1)
	n.partial[n.partOf(0)].holes = &bitmap{1}
	n.partial[n.partOf(0)].cutoff = cutoff
}

func (w *Writer) mustRemoveQuietly(slot indexer.Slot, s indexer.SequenceHash) {
	w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: []indexer.SequenceHash{s}})
}
