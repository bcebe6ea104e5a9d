package radix

import (
	"math/rand/v2"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/indextest"
	"github.com/kvbench/kvbench/indexer/reference"
)

var (
	_ indexer.Index          = (*Index)(nil)
	_ indexer.MemoryReporter = (*Index)(nil)
	_ indexer.ShapeReporter  = (*Index)(nil)
)

func TestConformance(t *testing.T) { indextest.Run(t, reference.Factory(), Factory()) }

// FuzzRadix compares the index with the reference over histories that are coded
// as bytes.
func FuzzRadix(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{4, 100, 400, 1600} {
		seed := make([]byte, n)
		for i := range seed {
			seed[i] = byte(rng.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := indextest.Diff(reference.Factory(), Factory(), indextest.DecodeOps(data)); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkApply(b *testing.B) { indextest.BenchmarkApply(b, Factory()) }

func BenchmarkFind(b *testing.B) { indextest.BenchmarkFind(b, Factory()) }

func TestNewRefuses(t *testing.T) {
	for _, threads := range []int{-1, 0, 2} {
		if _, err := New(indexer.Config{Threads: threads}); err == nil {
			t.Errorf("an index with %d event threads was built", threads)
		}
	}
}

// TestSparesAreBounded removes nearly everything and wants the nodes without use
// to go too.
func TestSparesAreBounded(t *testing.T) {
	x, err := New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := x.Writer(0)
	w.Attach(0)
	const n = 20_000
	var names []indexer.SequenceHash
	var path []indexer.LocalHash
	for i := range n {
		names, path = append(names, indexer.SequenceHash(i)), append(path, indexer.LocalHash(i))
	}
	w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: names, Locals: path})
	for left := n; left > 0; left -= n / 10 {
		w.Apply(&indexer.Event{Kind: indexer.Removed, Sequences: names[left-n/10 : left]})
		if err := x.Check(); err != nil {
			t.Fatal(err)
		}
		if limit := max(minSpares, (left-n/10)/8); x.spares > limit {
			t.Fatalf("%d spare nodes beside %d in use, want at most %d", x.spares, x.nodes, limit)
		}
	}
	if x.nodes != 0 || x.spares == 0 {
		t.Errorf("emptied, there are %d nodes and %d spare ones", x.nodes, x.spares)
	}
}

// TestCheckFindsDamage breaks the index in the ways that Check is for.
func TestCheckFindsDamage(t *testing.T) {
	first := func(x *Index) *node { return x.root.children.get(0) }
	damages := map[string]func(x *Index){
		"a rank without a name":         func(x *Index) { first(x).names.put(9, 1) },
		"a name too many":               func(x *Index) { first(x).names.put(0, 2) },
		"a name without a rank":         func(x *Index) { first(x).names.remove(0) },
		"a live hash without a name":    func(x *Index) { x.live[0].put(99, &node{}) },
		"a lost subtree":                func(x *Index) { first(x).children.remove(1) },
		"a node that nobody needs":      func(x *Index) { x.child(first(x), 5) },
		"a child under another hash":    func(x *Index) { first(x).children.get(1).local = 7 },
		"a child with another parent":   func(x *Index) { first(x).children.get(1).parent = &x.root },
		"a wrong number of nodes":       func(x *Index) { x.nodes++ },
		"a wrong number of spare nodes": func(x *Index) { x.spares++ },
		"a spare node that is in use":   func(x *Index) { x.spare, x.spares = first(x), 1 },
		"a rank that holds the root":    func(x *Index) { x.root.names.put(0, 1) },
		"a map that is too large":       func(x *Index) { x.live[0].resize(1024) },
		"a map that is fuller than it may be": func(x *Index) {
			for i := range indexer.Slot(minRoom + 1) {
				x.root.names.put(i, 1)
			}
			x.root.names.room = minRoom
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			x, err := New(indexer.Config{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			w := x.Writer(0)
			for slot := range indexer.Slot(3) {
				w.Attach(slot)
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Stored, Sequences: []indexer.SequenceHash{0, 1, 2}, Locals: []indexer.LocalHash{0, 1, 2}})
			}
			if err := x.Check(); err != nil {
				t.Fatal(err)
			}
			damage(x)
			if err := x.Check(); err == nil {
				t.Error("Check says that all is well")
			}
		})
	}
}
