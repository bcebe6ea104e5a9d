package positional

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/indextest"
	"github.com/kvbench/kvbench/indexer/reference"
)

var (
	_ indexer.Index            = (*Index)(nil)
	_ indexer.MemoryReporter   = (*Index)(nil)
	_ indexer.ShapeReporter    = (*Index)(nil)
	_ indexer.ReachableCounter = (*Writer)(nil)
)

func TestConformance(t *testing.T) { indextest.Run(t, reference.Factory(), Factory()) }

// TestConformanceBinary leaves out what TestSteps does for every step, and what
// does not depend on the search.
func TestConformanceBinary(t *testing.T) {
	indextest.Rules(t, BinaryFactory())
	indextest.Concurrency(t, reference.Factory(), BinaryFactory())
}

// TestSteps compares the index with the reference over random histories, for steps
// from looking everywhere to jumping over whole documents.
func TestSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.SampledFrom([]int{0, 1, 2, 3, 5, 8, 32}).Draw(t, "step")
		// Few bits of an operation choose its kind; all kinds are wanted, stores and
		// removals most of the time.
		ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) indextest.Op {
			kind := indextest.OpKind(rapid.IntRange(0, 40).Draw(t, "kind"))
			if kind > indextest.OpEmpty {
				kind %= 2
			}
			return indextest.Op{
				Kind: kind, Slot: rapid.Uint8Max(3).Draw(t, "slot"), Doc: rapid.Uint8Range(2, 4).Draw(t, "document"),
				From: rapid.Uint8Max(24).Draw(t, "from"), N: rapid.Uint8Max(24).Draw(t, "n"), Flavor: rapid.Uint8Max(3).Draw(t, "flavor"),
			}
		}), 1, 150).Draw(t, "operations")
		if err := indextest.Diff(reference.Factory(), stepping(step), ops); err != nil {
			t.Fatal(err)
		}
	})
}

// stepping builds an index with another step than the usual one.
func stepping(step int) indexer.Factory {
	return indexer.Factory{Name: "positional", New: func(cfg indexer.Config) (indexer.Index, error) { return New(cfg, step) }}
}

// FuzzPositional compares the index with the reference over histories that are
// coded as bytes; the first byte is the step.
func FuzzPositional(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for step, n := range []int{400, 100, 400, 1600, 4} {
		seed := make([]byte, 1+n)
		for i := range seed {
			seed[i] = byte(rng.Uint32())
		}
		seed[0] = byte(step)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		if err := indextest.Diff(reference.Factory(), stepping(int(data[0]%32)), indextest.DecodeOps(data[1:])); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkApply(b *testing.B) { indextest.BenchmarkApply(b, Factory()) }

func BenchmarkFind(b *testing.B) {
	b.Run("jump", func(b *testing.B) { indextest.BenchmarkFind(b, Factory()) })
	b.Run("binary", func(b *testing.B) { indextest.BenchmarkFind(b, BinaryFactory()) })
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(indexer.Config{}, DefaultStep); err == nil {
		t.Error("an index without event threads was built")
	}
	if _, err := New(indexer.Config{Threads: 1}, -1); err == nil {
		t.Error("an index with a step of -1 was built")
	}
}

// prompt returns n blocks that are as unlike as hashes are.
func prompt(n int) (names []indexer.SequenceHash, path []indexer.LocalHash) {
	for i := range n {
		names, path = append(names, indexer.SequenceHash(i)), append(path, indexer.LocalHash(mix(3, uint64(i))))
	}
	return names, path
}

// open returns an index with some attached slots.
func open(t *testing.T, step int, slots indexer.Slot) (*Index, *Writer, *Reader) {
	t.Helper()
	x, err := New(indexer.Config{Threads: 1}, step)
	if err != nil {
		t.Fatal(err)
	}
	w := x.Writer(0).(*Writer)
	for slot := range slots {
		w.Attach(slot)
	}
	return x, w, x.Reader().(*Reader)
}

// TestLooks counts how often a query looks into the table: that is what the search
// is for. Holes cost a look each; when they are filled, none.
func TestLooks(t *testing.T) {
	const n = 1000
	names, path := prompt(n)
	for _, c := range []struct {
		step              int
		full, holes, half int // looks at most
	}{
		{1, n, n, n},
		{8, n / 8, n/8 + 2 + 3, n/16 + 2 + 3},
		{100, n / 100, n/100 + 2 + 7, n/200 + 2 + 7},
		{0, 1, 1 + 2 + 10, 1 + 10},
	} {
		_, w, r := open(t, c.step, 2)
		ask := func(when string, first, second uint32, looks int) {
			t.Helper()
			var ans indexer.Answer
			r.Find(path, indexer.FindOptions{}, &ans)
			if ans.Score(0) != first || ans.Score(1) != second {
				t.Errorf("step %d, %s: %d and %d blocks, want %d and %d", c.step, when, ans.Score(0), ans.Score(1), first, second)
			}
			if r.looks > looks {
				t.Errorf("step %d, %s: %d looks, want at most %d", c.step, when, r.looks, looks)
			}
		}
		for slot := range indexer.Slot(2) {
			w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Stored, Sequences: names, Locals: path})
		}
		ask("full", n, n, c.full)
		w.Apply(&indexer.Event{Slot: 1, Kind: indexer.Removed, Sequences: []indexer.SequenceHash{300, 700}})
		ask("two holes", n, 300, c.holes)
		for _, hole := range []int{300, 700} {
			w.Apply(&indexer.Event{
				Slot: 1, Kind: indexer.Stored, HasParent: true, Parent: names[hole-1],
				Sequences: names[hole : hole+1], Locals: path[hole : hole+1],
			})
		}
		ask("filled", n, n, c.full)
		for slot := range indexer.Slot(2) {
			w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: names[n/2:]})
		}
		ask("half", n/2, n/2, c.half)
	}
}

// TestFilter checks that no hole is overlooked, and that the filter is empty when
// all holes are gone.
func TestFilter(t *testing.T) {
	var f filter
	const n = 5000
	for i := range uint64(n) {
		f.add(mix(1, i))
		if f.none(mix(1, i)) {
			t.Fatalf("hole %d is overlooked", i)
		}
	}
	for i := range uint64(n) {
		f.remove(mix(1, i))
		if i+1 < n && f.none(mix(1, n-1)) {
			t.Fatalf("the last hole is overlooked after %d are gone", i+1)
		}
	}
	for i := range uint64(n) {
		if !f.none(mix(1, i)) {
			t.Fatalf("hole %d is still there", i)
		}
	}
}

// TestShapeDepth looks at the depth while there are holes.
func TestShapeDepth(t *testing.T) {
	x, w, _ := open(t, DefaultStep, 2)
	want := func(depth int) {
		t.Helper()
		if got := x.Shape().MaxDepth; got != depth {
			t.Errorf("the depth is %d, want %d", got, depth)
		}
	}
	names, path := prompt(30)
	want(0)
	w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: names, Locals: path})
	w.Apply(&indexer.Event{Slot: 1, Kind: indexer.Stored, Sequences: names[:20], Locals: path[:20]})
	want(30)
	w.Apply(&indexer.Event{Kind: indexer.Removed, Sequences: names[5:15]})
	want(30)
	w.Apply(&indexer.Event{Kind: indexer.Removed, Sequences: names[20:]})
	want(20)
	w.Detach(1)
	w.Detach(0)
	want(0)
}

// TestReachable compares the count of places that a rank can reach with what there
// is, and wants it to be unknown while there is a hole.
func TestReachable(t *testing.T) {
	_, w, _ := open(t, DefaultStep, 1)
	names, path := prompt(10)
	want := func(blocks int, known bool) {
		t.Helper()
		if got, ok := w.Reachable(0); got != blocks || ok != known {
			t.Errorf("%d blocks can be reached (%v), want %d (%v)", got, ok, blocks, known)
		}
	}
	remove := func(names ...indexer.SequenceHash) {
		w.Apply(&indexer.Event{Kind: indexer.Removed, Sequences: names})
	}
	want(0, true)
	w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: names, Locals: path})
	// A second name is no second place.
	w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: []indexer.SequenceHash{99}, Locals: path[:1]})
	want(10, true)
	remove(9)
	want(9, true)
	remove(5)
	want(0, false)
	remove(99)
	want(0, false)
	remove(8, 7, 6)
	want(5, true)
	w.Apply(&indexer.Event{Kind: indexer.Cleared})
	want(0, true)
}

// TestEveryLossMovesTheVersion checks what readers rely on: a version that is even
// and the same means that no block went meanwhile.
func TestEveryLossMovesTheVersion(t *testing.T) {
	x, w, _ := open(t, DefaultStep, 8)
	v := x.versions[7].Load()
	names, path := prompt(2)
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"removed", func() { w.Apply(&indexer.Event{Slot: 7, Kind: indexer.Removed, Sequences: names[1:]}) }},
		{"cleared", func() { w.Apply(&indexer.Event{Slot: 7, Kind: indexer.Cleared}) }},
		{"detached", func() { w.Detach(7); w.Attach(7) }},
	} {
		w.Apply(&indexer.Event{Slot: 7, Kind: indexer.Stored, Sequences: names, Locals: path})
		before := v.Load()
		c.do()
		if after := v.Load(); after == before || after%2 != 0 || x.versions[7].Load() != v {
			t.Errorf("%s: the version goes from %d to %d", c.name, before, after)
		}
	}
}

// TestSearchAgain asks for one rank by the way that is taken when it changed during
// a search, which is too seldom to be left to chance, beside a writer that never
// pauses. Backwards removals make every depth one of a half-applied event.
func TestSearchAgain(t *testing.T) {
	x, w, r := open(t, DefaultStep, 1)
	const n = 400
	names, path := prompt(n)
	reverse := make([]indexer.SequenceHash, 0, n)
	for i := range names {
		reverse = append(reverse, names[n-1-i])
	}
	w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: names, Locals: path})
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	wg.Go(func() {
		for !stop.Load() {
			w.Apply(&indexer.Event{Kind: indexer.Removed, Sequences: reverse[:n/2]})
			w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: names, Locals: path})
		}
	})
	r.places = append(r.places[:0], next(root, path[0]))
	r.scores = make([]uint32, 1)
	for start, answers := time.Now(), 0; time.Since(start) < 300*time.Millisecond || answers < 10; answers++ {
		if got := r.searchAgain(path, 0, x.versions[0].Load()); got != n/2 && got != n {
			t.Fatalf("%d blocks, want %d or %d", got, n/2, n)
		}
	}
}

// TestCheckFindsDamage breaks the index in the ways that Check is for.
func TestCheckFindsDamage(t *testing.T) {
	place := func(w *Writer, seq uint64) uint64 { return w.ranks[0].names.get(seq) }
	tieOf := func(w *Writer, seq uint64) *tie {
		r := w.ranks[0]
		return &r.places.cells[r.places.find(place(w, seq))].value
	}
	damages := map[string]func(x *Index, w *Writer){
		"a slot without a name":               func(x *Index, _ *Writer) { x.shard(99).add(99, 1) },
		"a name without a place":              func(_ *Index, w *Writer) { *w.ranks[0].names.put(99) = 99 },
		"a name that is not counted":          func(_ *Index, w *Writer) { *w.ranks[0].names.put(99) = place(w, 0) },
		"a held place without a slot":         func(x *Index, w *Writer) { x.shard(place(w, 0)).remove(place(w, 0), 0) },
		"a wrong number of names":             func(_ *Index, w *Writer) { w.ranks[0].names.used++ },
		"a wrong number of places":            func(x *Index, w *Writer) { x.shard(place(w, 0)).places.used++ },
		"a wrong number of children":          func(_ *Index, w *Writer) { tieOf(w, 0).children++ },
		"a wrong number of a place's names":   func(_ *Index, w *Writer) { tieOf(w, 0).names++ },
		"a hole that is not counted":          func(x *Index, _ *Writer) { x.holes.fine[5].Add(1) },
		"a hole that is not counted coarsely": func(x *Index, _ *Writer) { x.holes.coarse[5].Add(1) },
		"a wrong number of holes":             func(_ *Index, w *Writer) { w.ranks[0].holes++ },
		"a lost hole": func(x *Index, _ *Writer) {
			for i := range x.holes.fine {
				x.holes.fine[i].Store(0)
			}
		},
		"an event that never ends": func(_ *Index, w *Writer) { w.ranks[0].version.Add(1) },
		"a lost word": func(x *Index, _ *Writer) {
			x.shards[0].sets.links = append(x.shards[0].sets.links, link{})
		},
		"an empty word": func(x *Index, w *Writer) {
			s := x.shard(place(w, 0))
			s.sets.links[s.places.get(place(w, 0))-1].bits = 0
		},
		"words out of order": func(x *Index, w *Writer) {
			s := x.shard(place(w, 0))
			s.sets.links[s.places.get(place(w, 0))-1].index = 5000
		},
		"a chain that is a circle": func(x *Index, w *Writer) {
			s := x.shard(place(w, 0))
			first := s.places.get(place(w, 0))
			s.sets.links[first-1].next = first
		},
		"a place where probing does not look": func(_ *Index, w *Writer) {
			t := &w.ranks[0].names
			i := t.find(0)
			j := (t.home(0) + len(t.cells)/2) % len(t.cells)
			t.cells[i], t.cells[j] = t.cells[j], t.cells[i]
		},
	}
	names, path := prompt(5)
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			x, w, _ := open(t, DefaultStep, 100)
			for _, slot := range []indexer.Slot{0, 1, 99} {
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Stored, Sequences: names, Locals: path})
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: names[2:3]})
			}
			if err := x.Check(); err != nil {
				t.Fatal(err)
			}
			damage(x, w)
			if err := x.Check(); err == nil {
				t.Error("Check says that all is well")
			}
		})
	}
}
