package crtc

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
)

// TestNamesAgainstMap compares a lookup map with a Go map. Keys are few, so that
// they come and go, and extreme.
func TestNamesAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n names
		want := map[uint64]position{}
		keys := rapid.IntRange(1, 400).Draw(t, "keys")
		for range rapid.IntRange(100, 800).Draw(t, "operations") {
			key := uint64(rapid.IntRange(0, keys).Draw(t, "key")) - 1
			if rapid.IntRange(0, 9).Draw(t, "remove") < 4 {
				if got := n.take(key); got != want[key] {
					t.Fatalf("take(%d) is %d, want %d", key, got, want[key])
				}
				delete(want, key)
			} else {
				at := position(rapid.Uint32Min(1).Draw(t, "position"))
				n.reserve(1)
				cell, had := n.put(key, at)
				if had != want[key] {
					t.Fatalf("put(%d) finds %d, want %d", key, had, want[key])
				}
				if had == 0 {
					want[key] = at
				}
				if n.cells[cell].at != want[key] || n.cells[cell].sequence() != key {
					t.Fatalf("put(%d) is said to be in cell %d, which has %+v", key, cell, n.cells[cell])
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

// TestReserveKeepsCells checks what Stored relies on: puts within a reservation
// move nothing.
func TestReserveKeepsCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n names
		for i := range rapid.IntRange(0, 100).Draw(t, "before") {
			n.reserve(1)
			n.put(uint64(i)<<40, 1)
		}
		more := rapid.IntRange(0, 500).Draw(t, "more")
		n.reserve(more)
		var cells []int
		for i := range more {
			cell, _ := n.put(uint64(i)*3+1, position(i+1))
			cells = append(cells, cell)
		}
		for i, cell := range cells {
			if n.cells[cell].sequence() != uint64(i)*3+1 || n.cells[cell].at != position(i+1) {
				t.Fatalf("put %d of %d has moved", i, more)
			}
		}
	})
}

// TestKidsAgainstMap lets children come and go, few and many.
func TestKidsAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var k kids
		var p pool[child]
		want := map[uint64]*node{}
		keys := rapid.SampledFrom([]int{2, 4, 30, 300}).Draw(t, "keys")
		for range rapid.IntRange(1, 400).Draw(t, "operations") {
			local := uint64(rapid.IntRange(0, keys-1).Draw(t, "local")) << rapid.SampledFrom([]int{0, 40}).Draw(t, "shift")
			if got := k.get(local); got != want[local] {
				t.Fatalf("get(%d) is %p, want %p", local, got, want[local])
			}
			if want[local] != nil {
				k.remove(&p, local)
				delete(want, local)
			} else {
				want[local] = &node{}
				k.add(&p, child{local, want[local]})
			}
			if k.n != len(want) || k.n <= 1 && k.table != nil || len(k.table) > max(minKidTable, 8*k.n) {
				t.Fatalf("%d children of %d, table of %d", k.n, len(want), len(k.table))
			}
		}
		got := map[uint64]*node{}
		k.each(func(c child) { got[c.local] = c.node })
		if !maps.Equal(got, want) {
			t.Fatalf("%d children, want %d", len(got), len(want))
		}
		if k.n == 1 && want[k.only().local] != k.only().node {
			t.Fatal("the only child is another")
		}
	})
}

// TestHeapAgainstList gives out space and takes all or the end of it back. No two
// pieces may overlap, and what is free must be known.
func TestHeapAgainstList(t *testing.T) {
	type piece struct {
		s        *slab
		from, to int
	}
	rapid.Check(t, func(t *rapid.T) {
		x, err := New(indexer.Config{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		h := &x.Writer(0).(*Writer).words
		rng := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		most := rapid.SampledFrom([]int{6, 90, maxEdge}).Draw(t, "longest")
		var pieces []piece
		check := func() {
			used := map[*slab]*[slabUnits]bool{}
			for _, p := range pieces {
				if used[p.s] == nil {
					used[p.s] = &[slabUnits]bool{}
				}
				for u := p.from / unit; u < (p.to+unit-1)/unit; u++ {
					if used[p.s][u] {
						t.Fatalf("unit %d of slab %d was given out twice", u, p.s.number)
					}
					used[p.s][u] = true
				}
			}
			slabs := 0
			x.slabs.all(func(s *slab) {
				slabs++
				run, longest := 0, 0
				for u := range slabUnits {
					is := used[s] != nil && used[s][u]
					if is != (s.used[u/64]>>(u%64)&1 != 0) {
						t.Fatalf("unit %d of slab %d: in use is %v", u, s.number, is)
					}
					if run++; is {
						run = 0
					}
					longest = max(longest, run)
				}
				if s.longest != longest {
					t.Fatalf("slab %d has a free stretch of %d, it says %d", s.number, longest, s.longest)
				}
			})
			if slabs != h.slabs || slabs > len(used)+len(h.empty) || len(h.empty) > max(2, h.slabs/16)+1 {
				t.Fatalf("%d slabs, %d counted, %d in use, %d kept", slabs, h.slabs, len(used), len(h.empty))
			}
		}
		for step := range rapid.IntRange(1, 800).Draw(t, "steps") {
			// Long phases of growth and of decline.
			grow := 7
			if step/150%2 == 1 {
				grow = 3
			}
			switch k := rng.IntN(10); {
			case k < grow || len(pieces) == 0:
				n := 1 + rng.IntN(most)
				s, word := h.alloc(n)
				pieces = append(pieces, piece{s, word, word + (n+unit-1)/unit*unit})
			case k == 9:
				p := &pieces[rng.IntN(len(pieces))]
				n := 1 + rng.IntN(20)
				if p.s.extend(p.to, n) {
					p.to = (p.to + n + unit - 1) / unit * unit
				}
			default:
				i := rng.IntN(len(pieces))
				p := pieces[i]
				from := p.from + rng.IntN(p.to-p.from)
				if rng.IntN(3) > 0 {
					from = p.from
				}
				p.s.release(from, p.to)
				if p.to = (from + unit - 1) / unit * unit; p.to == p.from {
					pieces = slices.Delete(pieces, i, i+1)
				} else {
					pieces[i] = p
				}
			}
			if step%20 == 0 {
				check()
			}
		}
		check()
		for _, p := range pieces {
			p.s.release(p.from, p.to)
		}
		pieces = nil
		check()
	})
}

// TestHoldersAgainstSets lets ranks hold and give up blocks of one node, splits it
// and joins it, and compares it with sets of blocks.
func TestHoldersAgainstSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, err := New(indexer.Config{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		w := x.Writer(0).(*Writer)
		length := rapid.SampledFrom([]int{1, 2, 63, 64, 65, 200, maxEdge}).Draw(t, "length")
		locals := make([]indexer.LocalHash, length)
		for i := range locals {
			locals[i] = indexer.LocalHash(i)
		}
		root := &x.roots[rootOf(0)]
		root.lock()
		n, _ := w.addChild(root, locals)
		slots := []indexer.Slot{0, 63, 255, 256, 700, indexer.MaxRanks - 1}
		want := map[indexer.Slot]*[maxEdge]bool{}
		for _, s := range slots {
			want[s] = &[maxEdge]bool{}
		}
		rng := rand.New(rand.NewPCG(2, rapid.Uint64().Draw(t, "seed")))
		compare := func(n *node, offset int) {
			full := map[indexer.Slot]bool{}
			n.eachFull(func(s indexer.Slot) { full[s] = true })
			if len(full) != n.fullCount() {
				t.Fatalf("%d ranks are listed, %d counted", len(full), n.fullCount())
			}
			for _, slot := range slots {
				cutoff, holes := n.held(slot)
				leading, count := 0, 0
				for i := range n.edge {
					has := want[slot][offset+i]
					if has != (i < cutoff || holes != nil && holes.has(i)) {
						t.Fatalf("slot %d, block %d of %d: held is %v", slot, i, len(n.edge), !has)
					}
					if has {
						if count++; leading == i {
							leading++
						}
					}
				}
				if cutoff != leading || (holes != nil) != (count > leading) || full[slot] != (count == len(n.edge)) {
					t.Fatalf("slot %d has %d of %d blocks, %d leading: cutoff %d, holes %v, full %v", slot, count, len(n.edge), leading, cutoff, holes != nil, full[slot])
				}
			}
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			slot := slots[rng.IntN(len(slots))]
			from := rng.IntN(length)
			to := from + 1 + rng.IntN(length-from)
			if rng.IntN(3) == 0 {
				from = 0
			}
			if rng.IntN(3) == 0 {
				to = length
			}
			held := want[slot]
			if rng.IntN(2) == 0 {
				w.hold(n, slot, from, to)
				for i := from; i < to; i++ {
					held[i] = true
				}
			} else {
				// Only what is held may be given up.
				for from < to && !held[from] {
					from++
				}
				end := from
				for end < to && held[end] {
					end++
				}
				if from < end {
					for i := from; i < end; i++ {
						held[i] = false
					}
					if gone := w.unhold(n, slot, from, end); gone != (*held == [maxEdge]bool{}) {
						t.Fatalf("slot %d is gone: %v", slot, gone)
					}
				}
			}
			compare(n, 0)
			if length > 1 && rng.IntN(4) == 0 {
				k := 1 + rng.IntN(length-1)
				m := w.split(n, k)
				compare(n, 0)
				compare(m, k)
				if !w.join(n) {
					// Somebody has a hole, which a join does not make.
					return
				}
				compare(n, 0)
			}
		}
		n.unlock()
	})
}

// TestPoolIsBounded puts more into a pool than it may keep.
func TestPoolIsBounded(t *testing.T) {
	var p pool[uint64]
	for class := range 17 {
		for range 3 * keep {
			p.put(make([]uint64, 1, 1<<class))
			if class > 12 {
				break
			}
		}
	}
	if n := p.elements(); n > 11*keep || n < keep {
		t.Errorf("%d elements are kept", n)
	}
	for class := range 11 {
		if s := p.get(1 << class); len(s) != 0 || cap(s) != 1<<class || s[:1][0] != 0 {
			t.Errorf("a slice of %d of %d", len(s), cap(s))
		}
	}
}

// TestNodesAreCacheLines checks that a node is made of whole cache lines.
func TestNodesAreCacheLines(t *testing.T) {
	if n := unsafe.Sizeof(node{}); n != 192 {
		t.Errorf("a node has %d bytes, want 3 lines of 64", n)
	}
	if n := unsafe.Offsetof(chunk{}.nodes); n%64 != 56 {
		t.Errorf("the nodes of a chunk begin %d bytes after it", n)
	}
}
