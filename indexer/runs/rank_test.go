package runs

import (
	"maps"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
)

// place is a run and an offset in it.
type place struct {
	run ref
	off uint32
}

// TestRankAgainstModel fills and removes names of a rank, compacts it and makes
// its index anew in any order, and compares it with a map from name to place.
// Fills start anywhere in a run, so that segments have holes and islands, and give
// new names to places that have one.
func TestRankAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, err := New(indexer.Config{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		w := x.Writer(0).(*Writer)
		w.Attach(0)
		r := w.ranks[0]
		model := map[uint64]place{}
		// Runs of 40 blocks that exist on their own.
		var runs []ref
		for i := range 4 {
			c := make([]uint64, 40)
			c[0] = uint64(i)
			made, _ := w.create(x.root, 0, c)
			runs = append(runs, made)
		}
		settle := func() {
			w.commit(r)
			got := map[uint64]place{}
			for name := range uint64(60) {
				if at, ok := w.held(r, name); ok {
					got[name] = place{r.segs[at.seg].run, at.off}
				}
			}
			if !maps.Equal(got, model) {
				t.Fatalf("names are at %v, want %v", got, model)
			}
			if r.blocks() != len(model) {
				t.Fatalf("%d blocks, want %d", r.blocks(), len(model))
			}
			for _, run := range runs {
				cutoff := uint32(0)
				for slices.Contains(slices.Collect(maps.Values(model)), place{run, cutoff}) {
					cutoff++
				}
				got := uint32(0)
				if seg := r.segment(run); seg != 0 {
					got = uint32(r.segs[seg].cutoff)
				}
				if got != cutoff {
					t.Fatalf("the cutoff of run %d is %d, want %d", run, got, cutoff)
				}
			}
			if err := w.check(r); err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"fill": func(t *rapid.T) {
				run := rapid.SampledFrom(runs).Draw(t, "run")
				k := uint32(rapid.IntRange(0, 39).Draw(t, "offset"))
				names := rapid.SliceOfN(rapid.Uint64Range(0, 59), 1, int(40-k)).Draw(t, "names")
				seg := r.segment(run)
				if seg == 0 {
					if !x.acquire(run) {
						t.Fatal("a run of the test is gone")
					}
					seg = r.open(run, x.join(run, 0), spot{})
					w.touch(r, seg)
				}
				var want indexer.Effect
				next, ok := maps.Clone(model), true
				for i, name := range names {
					p := place{run, k + uint32(i)}
					if was, there := next[name]; !there {
						want.Stored++
						next[name] = p
					} else if was == p {
						want.Duplicate++
					} else {
						ok = false
						break
					}
				}
				w.reserve(r, len(names))
				w.fresh, w.aliases = w.fresh[:0], w.aliases[:0]
				var e indexer.Effect
				did := w.fill(r, seg, k, names, &e)
				if did != ok {
					t.Fatalf("filled: %v, want %v", did, ok)
				}
				if !did {
					w.undo(r)
				} else if model = next; e != want {
					t.Fatalf("effect %+v, want %+v", e, want)
				}
			},
			"remove": func(t *rapid.T) {
				names := rapid.SliceOfN(rapid.Uint64Range(0, 59), 1, 20).Draw(t, "names")
				if rapid.Bool().Draw(t, "in order, from the end") {
					slices.Sort(names)
					slices.Reverse(names)
				}
				ev := indexer.Event{Kind: indexer.Removed}
				var want indexer.Effect
				for _, name := range names {
					ev.Sequences = append(ev.Sequences, indexer.SequenceHash(name))
					if _, ok := model[name]; ok {
						want.Removed++
					} else {
						want.UnknownRemoved++
					}
					delete(model, name)
				}
				if e := w.remove(r, &ev); e != want {
					t.Fatalf("effect %+v, want %+v", e, want)
				}
			},
			"new filter": func(t *rapid.T) { w.refilter(r, rapid.IntRange(0, 100).Draw(t, "room")) },
			"new hints":  func(t *rapid.T) { w.rehint(r, rapid.IntRange(0, 100).Draw(t, "room")) },
			"all hints":  func(t *rapid.T) { w.hintAll(r) },
			"no credit":  func(*rapid.T) { r.credit = 0 },
			"compact segments": func(*rapid.T) {
				if len(r.segs) > 0 {
					w.compactSegs(r)
				}
			},
			"": func(*rapid.T) { settle() },
		})
	})
}

// TestRankFillsLines: a rank's fields are laid out for cache lines, and memory of
// this size begins at one.
func TestRankFillsLines(t *testing.T) {
	if n := unsafe.Sizeof(rank{}); n != 512 {
		t.Errorf("a rank has %d bytes, want 512", n)
	}
}
