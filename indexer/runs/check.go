package runs

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
)

// every calls f for each run that the directory has.
func (x *Index) every(f func(r ref)) {
	b := *x.dir.buckets.Load()
	for i := range b {
		for r := b[i].Load(); r != 0; r = ref(atomic.LoadUint64(&x.mem.at(r)[hNext])) {
			f(r)
		}
	}
}

// holders calls f for each rank that has a segment of a run.
func (x *Index) holders(r ref, f func(slot indexer.Slot, cutoff uint32)) {
	h := x.mem.at(r)
	hold, next := h[hHold:headerWords], &h[hMore]
	for {
		for i := range hold {
			if v := atomic.LoadUint64(&hold[i]); v != 0 {
				f(indexer.Slot(v>>32)-1, uint32(v))
			}
		}
		b := ref(atomic.LoadUint64(next))
		if b == 0 {
			return
		}
		p := x.mem.at(b)
		next, hold = &p[0], p[2:blockWords]
	}
}

// Check implements indexer.Index.
func (x *Index) Check() error {
	type held struct {
		run  ref
		slot indexer.Slot
	}
	segs := map[held]segment{}
	refs := map[ref]uint64{}
	for _, w := range x.writers {
		if w == nil {
			continue
		}
		for _, t := range w.trims {
			refs[t.run] += segRef
		}
		pieces := 0
		for slot, r := range w.ranks {
			if r == nil {
				continue
			}
			if err := w.check(r); err != nil {
				return fmt.Errorf("runs: slot %d: %w", slot, err)
			}
			for id, s := range r.segs {
				if s.run == 0 {
					continue
				}
				if end := r.end(uint32(id)); int(end) > len(x.content(s.run)) {
					return fmt.Errorf("runs: slot %d has place %d of run %d, which has %d", slot, end-1, s.run, len(x.content(s.run)))
				}
				segs[held{s.run, indexer.Slot(slot)}] = s
				if s.room != 0 {
					pieces++
				}
				refs[s.run] += segRef
				if s.holed {
					refs[s.run] += holedRef
				}
			}
		}
		if n := w.names.pieces(); n != pieces {
			return fmt.Errorf("runs: %d pieces hold names, the segments have %d", n, pieces)
		}
	}
	var err error
	fail := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf("runs: "+format, args...)
		}
	}
	n, found := 0, 0
	x.every(func(r ref) {
		n++
		h := x.mem.at(r)
		parent, off := ref(h[hKey]>>32), uint32(h[hKey])
		refs[parent] += kidRef
		if x.find(parent, off, h[hFirst], true) != r {
			fail("run %d cannot be found", r)
		}
		if c := x.content(r); len(c) == 0 || c[0] != h[hFirst] {
			fail("run %d begins with another block than its key says", r)
		}
		if parent != x.root {
			c := x.content(parent)
			if deepestKid(atomic.LoadUint64(&x.mem.at(parent)[hContent])) < off {
				fail("run %d hangs deeper than its parent knows", r)
			}
			if int(off) > len(c) || int(off) < len(c) && c[off] == h[hFirst] {
				fail("run %d should be part of its parent", r)
			}
		}
		x.holders(r, func(slot indexer.Slot, cutoff uint32) {
			found++
			if s, ok := segs[held{r, slot}]; !ok || uint32(s.cutoff) != cutoff {
				fail("run %d has slot %d with cutoff %d, which its rank does not know", r, slot, cutoff)
			}
		})
	})
	x.every(func(r ref) {
		if got := atomic.LoadUint64(&x.mem.at(r)[hRefs]); got != refs[r] {
			fail("run %d has references %x, counted %x", r, got, refs[r])
		}
	})
	if n != int(x.dir.count.Load()) || found != len(segs) {
		fail("%d runs and %d holders, counted %d and %d", x.dir.count.Load(), len(segs), n, found)
	}
	return err
}

// end returns the offset behind the last place of a segment.
func (r *rank) end(seg uint32) uint32 {
	end := uint32(r.segs[seg].length)
	for _, c := range r.extra.cells {
		if c.value != 0 && uint32(c.key>>32) == seg {
			end = max(end, uint32(c.key))
		}
	}
	return end
}

// check verifies what a rank knows against itself.
func (w *Writer) check(r *rank) error {
	live, bare, segments := 0, 0, 0
	names := map[uint64]spot{}
	aliased := map[uint64]uint64{}
	for id := range r.segs {
		s := &r.segs[id]
		if s.run == 0 {
			if s.length != 0 || s.hinted {
				return fmt.Errorf("segment %d is free and in a wrong state: %+v", id, *s)
			}
			continue
		}
		segments++
		if r.segment(s.run) != uint32(id) || s.dirty || s.receded || s.resident == 0 || s.cutoff != s.published || s.holed != (s.resident > s.cutoff) {
			return fmt.Errorf("segment %d of run %d is in a wrong state: %+v", id, s.run, *s)
		}
		if s.length > s.room || s.room != 0 && int(s.room) != w.names.words(s.names) {
			return fmt.Errorf("run %d: %d lanes of %d are used", s.run, s.length, s.room)
		}
		lanes := w.lanes(s)
		if len(lanes) > 0 && lanes[len(lanes)-1] == 0 {
			return fmt.Errorf("run %d: the last of %d lanes has no name", s.run, len(lanes))
		}
		for off, name := range lanes {
			if name == 0 {
				continue
			}
			live++
			if !s.hinted {
				bare++
			} else if at, ok := w.hinted(r, name); !ok || at != (spot{uint32(id), uint32(off)}) {
				return fmt.Errorf("hash %x has no hint", name)
			}
			if at, twice := names[name]; twice {
				return fmt.Errorf("hash %x names place %d of run %d and place %d of run %d", name, off, s.run, at.off, r.segs[at.seg].run)
			}
			names[name] = spot{uint32(id), uint32(off)}
			if !r.filter.has(mix(name)) {
				return fmt.Errorf("hash %x is not in the filter", name)
			}
		}
	}
	for _, c := range r.aliases.cells {
		if c.value == 0 {
			continue
		}
		aliased[c.value]++
		if _, ok := names[c.key]; ok {
			return fmt.Errorf("hash %x is a name and an alias", c.key)
		}
	}
	for key, n := range aliased {
		if r.extra.get(key) != n {
			return fmt.Errorf("place %x has %d aliases, the count says %d", key, n, r.extra.get(key))
		}
	}
	if r.extra.used != len(aliased) {
		return fmt.Errorf("%d places have aliases, the count says %d", len(aliased), r.extra.used)
	}
	for id := range r.segs {
		s := &r.segs[id]
		if s.run == 0 {
			continue
		}
		places := map[uint32]bool{}
		for off, name := range w.lanes(s) {
			if name != 0 {
				places[uint32(off)] = true
			}
		}
		for key := range aliased {
			if uint32(key>>32) == uint32(id) {
				places[uint32(key)-1] = true
			}
		}
		cutoff := uint32(0)
		for places[cutoff] {
			cutoff++
		}
		if int(s.resident) != len(places) || uint32(s.cutoff) != cutoff {
			return fmt.Errorf("run %d: %d places, cutoff %d; counted %d and %d", s.run, s.resident, s.cutoff, len(places), cutoff)
		}
	}
	if live != r.live || segments != r.byRun.used {
		return fmt.Errorf("%d names, %d segments; counted %d and %d", r.live, r.byRun.used, live, segments)
	}
	if bare > r.bare {
		return fmt.Errorf("%d names have no hint and are in no segment that has; the count says at most %d", bare, r.bare)
	}
	if err := r.filter.check(); err != nil {
		return err
	}
	free := 0
	for id := r.freeSeg; id != 0; id = r.segs[id].names {
		free++
	}
	if n := max(0, len(r.segs)-1); segments+free != n {
		return fmt.Errorf("%d of %d segments are used and %d free", segments, n, free)
	}
	return nil
}

// check verifies that lanes are used from the lowest on and counted.
func (f *filter) check() error {
	used := 0
	for i, word := range f.words {
		n := 0
		for ; n < 4 && word>>(16*n)&lane != 0; n++ {
			if word>>(16*n)&(1<<15) == 0 {
				return fmt.Errorf("lane %d of word %d of the filter has no highest bit", n, i)
			}
		}
		if n < 4 && word>>(16*n) != 0 || n < 4 && equal(word, tombstone) != 0 {
			return fmt.Errorf("word %d of the filter is %x", i, word)
		}
		used += n
	}
	if used != f.used {
		return fmt.Errorf("%d lanes of the filter are used, the count says %d", used, f.used)
	}
	return nil
}

// Shape implements indexer.ShapeReporter.
func (x *Index) Shape() indexer.Shape {
	s := indexer.Shape{Unit: "run"}
	x.every(func(r ref) {
		s.Units++
		s.Blocks += int64(len(x.content(r)))
		n := 0
		x.holders(r, func(_ indexer.Slot, cutoff uint32) { n++ })
		s.Holders += int64(n)
		s.MaxHolders = max(s.MaxHolders, n)
		depth := 0
		for p := r; p != x.root; p = ref(x.mem.at(p)[hKey] >> 32) {
			depth++
		}
		s.MaxDepth = max(s.MaxDepth, depth)
	})
	return s
}

// Memory implements indexer.MemoryReporter.
func (x *Index) Memory() []indexer.MemoryPart {
	var names, private int64
	for _, w := range x.writers {
		if w == nil {
			continue
		}
		names += w.names.bytes()
		private += int64(cap(w.ranks))*8 + int64(cap(w.fresh))*12 + int64(cap(w.kept))*8 + int64(cap(w.dirty))*4 + int64(cap(w.aliases))*8 + int64(cap(w.limbo.items))*16
		for _, r := range w.ranks {
			if r != nil {
				private += r.bytes()
			}
		}
	}
	parts := []indexer.MemoryPart{
		{Name: "directory", Bytes: int64(len(*x.dir.buckets.Load())) * 4},
		{Name: "ranks", Bytes: private},
		{Name: "fixed", Bytes: int64(unsafe.Sizeof(*x))},
	}
	if x.huge == nil {
		return append(parts, indexer.MemoryPart{Name: "runs", Bytes: x.mem.bytes()}, indexer.MemoryPart{Name: "names", Bytes: names})
	}
	// Both have their chunks from one pool. That the kernel says what is on huge
	// pages was seen when the pool was made; what it does not say counts as none.
	all, huge, err := x.huge.Bytes()
	if err != nil {
		huge = 0
	}
	return append(parts, indexer.MemoryPart{Name: "runs and names", Bytes: all, HugeBytes: huge})
}
