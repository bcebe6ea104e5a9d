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
	segs := map[held]*segment{}
	refs := map[ref]uint64{}
	for _, w := range x.writers {
		if w == nil {
			continue
		}
		for slot, r := range w.ranks {
			if r == nil {
				continue
			}
			counts := map[position]uint32{}
			for _, c := range r.names.cells {
				if c.value == 0 {
					continue
				}
				if r.names.get(c.key) != c.value {
					return fmt.Errorf("runs: slot %d: hash %x cannot be found", slot, c.key)
				}
				counts[r.position(c.value)]++
			}
			places := 0
			for id, s := range r.segs {
				if s == nil {
					continue
				}
				run := s.run
				if int(s.id) != id || r.segment(run) != s || s.dirty || s.resident == 0 {
					return fmt.Errorf("runs: slot %d: a segment of run %d is in a wrong state", slot, run)
				}
				segs[held{run, indexer.Slot(slot)}] = s
				refs[run]++
				resident, cutoff := uint32(0), uint32(0)
				for off, n := range s.names {
					if counts[position{s, uint32(off)}] != n {
						return fmt.Errorf("runs: slot %d: offset %d of run %d has a wrong number of names", slot, off, run)
					}
					if n > 0 {
						places++
						if resident++; cutoff == uint32(off) {
							cutoff++
						}
					}
				}
				if resident != s.resident || cutoff != s.cutoff || s.cutoff != s.published || len(s.names) > len(x.content(run)) {
					return fmt.Errorf("runs: slot %d, run %d: %d places, cutoff %d; counted %d and %d", slot, run, s.resident, s.cutoff, resident, cutoff)
				}
			}
			if places != len(counts) {
				return fmt.Errorf("runs: slot %d: names for %d places, segments have %d", slot, len(counts), places)
			}
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
		refs[parent]++
		if x.find(parent, off, h[hFirst], true) != r {
			fail("run %d cannot be found", r)
		}
		if c := x.content(r); len(c) == 0 || c[0] != h[hFirst] {
			fail("run %d begins with another block than its key says", r)
		}
		if parent != x.root {
			c := x.content(parent)
			if int(off) > len(c) || int(off) < len(c) && c[off] == h[hFirst] {
				fail("run %d should be part of its parent", r)
			}
		}
		x.holders(r, func(slot indexer.Slot, cutoff uint32) {
			found++
			if s := segs[held{r, slot}]; s == nil || s.cutoff != cutoff {
				fail("run %d has slot %d with cutoff %d, which its rank does not know", r, slot, cutoff)
			}
		})
	})
	x.every(func(r ref) {
		if got := atomic.LoadUint64(&x.mem.at(r)[hRefs]); got != refs[r] {
			fail("run %d has %d references, counted %d", r, got, refs[r])
		}
	})
	if n != int(x.dir.count.Load()) || found != len(segs) {
		fail("%d runs and %d holders, counted %d and %d", x.dir.count.Load(), len(segs), n, found)
	}
	return err
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
	var private int64
	for _, w := range x.writers {
		if w == nil {
			continue
		}
		private += int64(cap(w.ranks))*8 + int64(cap(w.fresh))*8 + int64(cap(w.dirty))*8 + int64(cap(w.limbo.items))*16
		for _, r := range w.ranks {
			if r != nil {
				private += r.bytes()
			}
		}
	}
	return []indexer.MemoryPart{
		{Name: "runs", Bytes: x.mem.bytes()},
		{Name: "directory", Bytes: int64(len(*x.dir.buckets.Load())) * 4},
		{Name: "ranks", Bytes: private},
		{Name: "fixed", Bytes: int64(unsafe.Sizeof(*x))},
	}
}
