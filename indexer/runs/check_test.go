package runs

import (
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// TestCheckFindsDamage breaks the index in the ways that Check is for.
func TestCheckFindsDamage(t *testing.T) {
	first := func(x *Index) (run ref) {
		x.every(func(r ref) {
			if ref(x.mem.at(r)[hKey]>>32) == x.root {
				run = r
			}
		})
		return run
	}
	damages := map[string]func(x *Index, w *Writer){
		"a wrong cutoff":              func(x *Index, _ *Writer) { x.mem.at(first(x))[hHold]-- },
		"a holder that nobody knows":  func(x *Index, _ *Writer) { x.join(first(x), 77) },
		"a lost holder":               func(x *Index, _ *Writer) { x.mem.at(first(x))[hHold] = 0 },
		"a reference too many":        func(x *Index, _ *Writer) { x.mem.at(first(x))[hRefs] += segRef },
		"a child too few":             func(x *Index, _ *Writer) { x.mem.at(first(x))[hRefs] -= kidRef },
		"a hole that nobody has":      func(x *Index, _ *Writer) { x.mem.at(first(x))[hRefs] += holedRef },
		"a child deeper than allowed": func(x *Index, _ *Writer) { x.mem.at(first(x))[hContent] &^= (1<<13 - 1) << 13 },
		"a run that is too short":     func(x *Index, _ *Writer) { x.mem.at(first(x))[hContent] -= 3 },
		"another first block":         func(x *Index, _ *Writer) { x.content(first(x))[0]++ },
		"a child that its parent goes on with": func(x *Index, _ *Writer) {
			x.content(first(x))[8] = 1 << 40
		},
		"a run in another bucket": func(x *Index, _ *Writer) {
			b := *x.dir.buckets.Load()
			for i := range b {
				if r := b[i].Load(); r != 0 {
					b[i].Store(0)
					b[(i+1)%len(b)].Store(r)
					return
				}
			}
		},
		"a wrong number of runs":     func(x *Index, _ *Writer) { x.dir.count.Add(1) },
		"a wrong number of names":    func(_ *Index, w *Writer) { w.ranks[0].live++ },
		"a lost name":                func(_ *Index, w *Writer) { w.lanes(&w.ranks[0].segs[1])[3] = 0 },
		"a lost last name":           func(_ *Index, w *Writer) { w.lanes(&w.ranks[0].segs[1])[19] = 0 },
		"a changed name":             func(_ *Index, w *Writer) { w.lanes(&w.ranks[0].segs[1])[3] = 99 },
		"a name twice":               func(_ *Index, w *Writer) { l := w.lanes(&w.ranks[0].segs[1]); l[3] = l[4] },
		"an empty filter":            func(_ *Index, w *Writer) { clear(w.ranks[0].filter.words) },
		"a tag that is not counted":  func(_ *Index, w *Writer) { w.ranks[0].filter.used++ },
		"a tag without its bit":      func(_ *Index, w *Writer) { w.ranks[0].filter.words[0] &^= 1 << 15; w.ranks[0].filter.words[0] |= 1 },
		"a gap between tags":         func(_ *Index, w *Writer) { w.ranks[0].filter.words[0] |= 1 << 63 },
		"names that a search misses": func(_ *Index, w *Writer) { w.ranks[0].bare = 0 },
		"names without the hints":    func(_ *Index, w *Writer) { w.ranks[0].segs[1].hinted = true },
		"more lanes than there are":  func(_ *Index, w *Writer) { w.ranks[0].segs[1].room = 4 },
		"a leaked piece":             func(_ *Index, w *Writer) { w.names.alloc(8) },
		"a free segment that has hints": func(_ *Index, w *Writer) {
			w.ranks[0].segs = append(w.ranks[0].segs, segment{hinted: true})
		},
		"a lost segment":                 func(_ *Index, w *Writer) { w.ranks[0].segs = append(w.ranks[0].segs, segment{}) },
		"a wrong number of places":       func(_ *Index, w *Writer) { w.ranks[0].segs[1].resident++ },
		"a cutoff that is not published": func(_ *Index, w *Writer) { w.ranks[0].segs[1].published-- },
		"a segment left dirty":           func(_ *Index, w *Writer) { w.ranks[0].segs[1].dirty = true },
		"a hole that is not published":   func(_ *Index, w *Writer) { w.ranks[0].segs[1].holed = true },
		"a run without its segment":      func(_ *Index, w *Writer) { w.ranks[0].byRun.take(uint64(w.ranks[0].segs[1].run)) },
		"an alias that is also a name":   func(_ *Index, w *Writer) { w.ranks[0].addAlias(1, spot{1, 0}) },
		"an alias that is not counted":   func(_ *Index, w *Writer) { w.ranks[0].aliases.add(500, placeKey(spot{1, 0})) },
		"a count without its alias":      func(_ *Index, w *Writer) { w.ranks[0].extra.add(placeKey(spot{1, 3}), 1) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			x, err := New(indexer.Config{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			w := x.Writer(0).(*Writer)
			for slot := range indexer.Slot(3) {
				w.Attach(slot)
				s, l := tail(0, 20, 20)
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Stored, Sequences: s, Locals: l})
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Stored, HasParent: true, Parent: s[7],
					Sequences: []indexer.SequenceHash{1 << 40}, Locals: []indexer.LocalHash{1 << 40}})
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
