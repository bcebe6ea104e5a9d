package runs

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/idle"
	"github.com/kvbench/kvbench/internal/invariants"
)

// Factory builds the index.
func Factory() indexer.Factory {
	return indexer.Factory{
		Name:    "runs",
		Summary: "shared runs of blocks with one number per rank; queries take no locks",
		New:     func(cfg indexer.Config) (indexer.Index, error) { return New(cfg) },
	}
}

// Index is the shared part. See the package comment.
type Index struct {
	mem      arena
	ep       epochs
	dir      directory
	root     ref
	runLocks [stripes]sync.Mutex
	logs     []*commits
	writers  []*Writer
	slots    atomic.Uint32 // highest slot ever attached + 1
}

// commits numbers what one event thread publishes: odd while it does. The log
// says whose commit it was.
type commits struct {
	_     [idle.CacheLine]byte
	count atomic.Uint64
	gate  atomic.Int64
	log   [64]atomic.Uint32
	_     [idle.CacheLine]byte
}

// New returns an empty index.
func New(cfg indexer.Config) (*Index, error) {
	if cfg.Threads < 1 {
		return nil, fmt.Errorf("runs: %d event threads; there must be at least 1", cfg.Threads)
	}
	if cfg.HugePages {
		return nil, indexer.NoHugePages("runs")
	}
	x := &Index{writers: make([]*Writer, cfg.Threads)}
	x.mem.init()
	x.ep.init()
	x.dir.init()
	x.root = x.mem.alloc(headerWords)
	clear(x.mem.at(x.root)[:headerWords])
	x.mem.at(x.root)[hRefs] = 1
	for range cfg.Threads {
		x.logs = append(x.logs, new(commits))
	}
	return x, nil
}

// Writer implements indexer.Index.
func (x *Index) Writer(i int) indexer.Writer {
	w := &Writer{x: x, log: x.logs[i], part: x.ep.join(), credit: maxTrimCredit}
	x.writers[i] = w
	return w
}

// Close implements indexer.Index. The collector has all the memory.
func (x *Index) Close() error {
	if invariants.Enabled {
		return x.Check()
	}
	return nil
}

// Writer applies the events of one event thread.
type Writer struct {
	x       *Index
	log     *commits
	part    *participant
	limbo   limbo
	ranks   []*rank
	fresh   []uint32 // positions that the event filled
	aliases []uint64 // aliases that the event added
	dirty   []uint32 // segments that the event touched
	touched uint32   // keeps the loads of rank.touch alive
	trims   []trim   // runs whose tails may go
	credit  int      // see trimCredit
}

// Attach implements indexer.Writer.
func (w *Writer) Attach(slot indexer.Slot) {
	for int(slot) >= len(w.ranks) {
		w.ranks = append(w.ranks, nil)
	}
	w.ranks[slot] = &rank{slot: slot}
	for n := w.x.slots.Load(); n <= uint32(slot) && !w.x.slots.CompareAndSwap(n, uint32(slot)+1); {
		n = w.x.slots.Load()
	}
}

// Detach implements indexer.Writer.
func (w *Writer) Detach(slot indexer.Slot) {
	w.x.ep.pin(w.part)
	w.clear(w.ranks[slot])
	w.leave()
	w.ranks[slot] = nil
}

// Blocks implements indexer.Writer.
func (w *Writer) Blocks(slot indexer.Slot) int { return w.ranks[slot].blocks() }

// Park implements indexer.Writer: a writer pins an epoch only during a call.
func (w *Writer) Park() {}

func (w *Writer) leave() {
	x := w.x
	w.plan()
	x.ep.unpin(w.part)
	for len(w.limbo.items) > w.limbo.head || len(w.trims) > 0 {
		// Twice, so that without readers nothing stays until the next event.
		x.ep.advance()
		x.ep.advance()
		now := x.ep.now.Load()
		w.limbo.reap(now, &x.mem)
		if !w.trim(now) {
			break
		}
	}
	x.fit()
}

// Apply implements indexer.Writer.
func (w *Writer) Apply(ev *indexer.Event) indexer.Effect {
	w.x.ep.pin(w.part)
	r := w.ranks[ev.Slot]
	var e indexer.Effect
	switch ev.Kind {
	case indexer.Stored:
		e = w.store(r, ev)
	case indexer.Removed:
		e = w.remove(r, ev)
	case indexer.Cleared:
		e.ClearedBlocks = uint32(w.clear(r))
	default:
		e.Malformed = 1
	}
	w.leave()
	return e
}

func (w *Writer) touch(r *rank, seg uint32) {
	if s := &r.segs[seg]; !s.dirty {
		s.dirty = true
		w.dirty = append(w.dirty, seg)
	}
}

func (w *Writer) store(r *rank, ev *indexer.Event) indexer.Effect {
	n := len(ev.Sequences)
	if len(ev.Locals) != n {
		return indexer.Effect{Malformed: 1}
	}
	// The place to go on from: offset k of a run, the rank's segment of it, and
	// the last granule that does not lie behind it.
	x, run, k := w.x, w.x.root, uint32(0)
	var seg, near uint32
	if ev.HasParent {
		var ok bool
		if seg, k, ok = r.held(uint64(ev.Parent)); !ok {
			return indexer.Effect{Orphaned: uint32(n)}
		}
		run, near = r.segs[seg].run, r.near(seg, k)
		k++
	}
	if n == 0 {
		return indexer.Effect{}
	}
	locals := unsafe.Slice((*uint64)(&ev.Locals[0]), n)
	names := unsafe.Slice((*uint64)(&ev.Sequences[0]), n)
	r.reserve(n)
	var e indexer.Effect
	w.fresh, w.aliases = w.fresh[:0], w.aliases[:0]
	for i := 0; ; {
		if run != x.root {
			if m := common(x.extent(run, k), locals[i:]); m > 0 {
				var ok bool
				if near, ok = w.fill(r, seg, near, k, names[i:i+m], &e); !ok {
					w.undo(r)
					return indexer.Effect{Conflicting: uint32(n)}
				}
				i, k = i+m, k+uint32(m)
			}
		}
		if i == n {
			break
		}
		next, grown, fresh := w.step(r, run, k, locals[i:])
		if grown {
			continue
		}
		if fresh {
			seg = r.open(next, x.join(next, uint32(r.slot)))
			w.touch(r, seg)
		} else {
			seg = r.segment(next)
		}
		run, k, near = next, 0, 0
	}
	w.commit(r)
	return e
}

// fill gives names to the places of a segment from offset k on. It returns the
// last granule that does not lie behind the last of them; ok is false if a name
// is that of another place already.
func (w *Writer) fill(r *rank, seg, near, k uint32, names []uint64, e *indexer.Effect) (last uint32, ok bool) {
	start, stored, resident, warm := k, 0, 0, 0
	for j := 0; j < len(names); {
		near = r.granuleAt(seg, near, uint16(k/8))
		base, lane := near*8, k%8
		for ; lane < 8 && j < len(names); lane, j, k = lane+1, j+1, k+1 {
			name := names[j]
			if j >= warm {
				warm = min(len(names), j+warmAhead)
				w.touched += r.touch(names[j:warm])
			}
			pos, cell, tag := r.probe(name)
			g := &r.granules[near]
			switch {
			case pos == 0 && g.live>>lane&1 == 0 && r.aliases.used == 0:
				r.names[base+lane] = name
				g.live |= 1 << lane
				r.index[cell] = tag | (base + lane)
				r.entries++
				r.live++
				w.fresh = append(w.fresh, base+lane)
				stored++
				resident++
				continue
			case pos == base+lane:
				e.Duplicate++
				continue
			case pos != 0:
				w.abandon(r, seg, near, resident)
				return 0, false
			}
			if at := r.aliases.get(name); at != 0 {
				if at != placeKey(seg, k) {
					w.abandon(r, seg, near, resident)
					return 0, false
				}
				e.Duplicate++
				continue
			}
			stored++
			if g.live>>lane&1 != 0 {
				r.addAlias(name, seg, k)
				w.aliases = append(w.aliases, name)
				continue
			}
			if !r.hasAlias(seg, k) {
				resident++
			}
			r.names[base+lane] = name
			g.live |= 1 << lane
			r.index[cell] = tag | (base + lane)
			r.entries++
			r.live++
			w.fresh = append(w.fresh, base+lane)
		}
		if g := &r.granules[near]; g.live == 0 {
			// Aliases hold all of these places.
			empty := near
			near = g.prev
			r.release(empty)
		}
	}
	e.Stored += uint32(stored)
	if resident > 0 {
		s := &r.segs[seg]
		s.resident += uint32(resident)
		if s.cutoff >= start && s.cutoff < k {
			s.cutoff = k
			r.advance(seg, near)
		}
		w.touch(r, seg)
	}
	return near, true
}

// abandon settles a segment in the middle of an event that is undone.
func (w *Writer) abandon(r *rank, seg, near uint32, resident int) {
	r.segs[seg].resident += uint32(resident)
	w.touch(r, seg)
	if r.granules[near].live == 0 {
		r.release(near)
	}
}

// undo takes back what the event did. Nothing of it was published.
func (w *Writer) undo(r *rank) {
	for _, name := range w.aliases {
		r.takeAlias(name)
	}
	for _, pos := range w.fresh {
		w.forget(r, pos)
	}
	w.commit(r)
	r.shrink()
}

// forget takes away the name at a position.
func (w *Writer) forget(r *rank, pos uint32) {
	g := pos / 8
	gr := &r.granules[g]
	off := uint32(gr.ord)*8 + pos%8
	gr.live &^= 1 << (pos % 8)
	r.live--
	if !r.hasAlias(gr.seg, off) {
		w.vacate(r, gr.seg, off)
	}
	if gr.live == 0 {
		r.release(g)
	}
}

// vacate takes a place away from a segment: it has no name any more.
func (w *Writer) vacate(r *rank, seg, off uint32) {
	s := &r.segs[seg]
	s.resident--
	s.cutoff = min(s.cutoff, off)
	w.touch(r, seg)
}

func (w *Writer) remove(r *rank, ev *indexer.Event) indexer.Effect {
	n := len(ev.Sequences)
	if n == 0 {
		return indexer.Effect{}
	}
	names := unsafe.Slice((*uint64)(&ev.Sequences[0]), n)
	var e indexer.Effect
	last := uint32(0)
	for i := 0; i < n; {
		name := names[i]
		// Engines evict prompts from the end: the next victim is most often the
		// one before the last.
		pos := uint32(0)
		if last != 0 {
			if p := r.before(last); r.isNamed(p, name) {
				pos = p
			} else if p := r.after(last); r.isNamed(p, name) {
				pos = p
			}
		}
		if pos == 0 {
			pos = r.find(name)
		}
		if pos == 0 {
			i++
			if seg, off, ok := r.takeAlias(name); ok {
				e.Removed++
				if !r.isLive(seg, off) && !r.hasAlias(seg, off) {
					w.vacate(r, seg, off)
				}
			} else {
				e.UnknownRemoved++
			}
			continue
		}
		last = pos
		if r.extra.used != 0 {
			w.forget(r, pos)
			e.Removed++
			i++
			continue
		}
		// As many lanes of the granule as go on backwards.
		g := pos / 8
		gr := &r.granules[g]
		live, lanes := gr.live, r.names[g*8:g*8+8:g*8+8]
		lane := int(pos % 8)
		first := i
		for {
			live &^= 1 << lane
			i++
			lane--
			if i == n || lane < 0 || lanes[lane] != names[i] || live>>lane&1 == 0 {
				break
			}
		}
		lane++
		last = g*8 + uint32(lane)
		count := uint32(i - first)
		gr.live = live
		r.live -= int(count)
		s := &r.segs[gr.seg]
		s.resident -= count
		s.cutoff = min(s.cutoff, uint32(gr.ord)*8+uint32(lane))
		if !s.dirty {
			s.dirty = true
			w.dirty = append(w.dirty, gr.seg)
		}
		if live == 0 {
			r.release(g)
		}
		e.Removed += count
	}
	w.commit(r)
	r.shrink()
	return e
}

func (w *Writer) clear(r *rank) int {
	n := r.blocks()
	for id := range r.segs {
		if s := &r.segs[id]; s.run != 0 {
			s.cutoff, s.resident, s.head, s.tail = 0, 0, 0, 0
			w.touch(r, uint32(id))
		}
	}
	w.commit(r)
	*r = rank{slot: r.slot}
	return n
}

// commit publishes the event as a whole: readers of the rank look again.
func (w *Writer) commit(r *rank) {
	x, open := w.x, false
	for _, id := range w.dirty {
		s := &r.segs[id]
		holed := s.resident > s.cutoff
		if s.cutoff == s.published && holed == s.holed {
			continue
		}
		if !open {
			open = true
			w.open(r.slot)
		}
		s.receded = s.cutoff < s.published || s.holed
		if s.holed != holed {
			n := uint64(holedRef)
			if s.holed {
				n = -n
			}
			atomic.AddUint64(&x.mem.at(s.run)[hRefs], n)
			s.holed = holed
		}
		if s.cutoff != s.published {
			atomic.StoreUint64(&x.mem.at(s.hold.piece)[s.hold.word], uint64(r.slot+1)<<32|uint64(s.cutoff))
			s.published = s.cutoff
		}
	}
	if open {
		w.log.count.Add(1)
	}
	for _, id := range w.dirty {
		s := &r.segs[id]
		s.dirty = false
		if s.receded {
			s.receded = false
			if !s.holed && x.long(s.run, s.cutoff) &&
				(s.resident != 0 || atomic.LoadUint64(&x.mem.at(s.run)[hRefs]) != segRef) {
				atomic.AddUint64(&x.mem.at(s.run)[hRefs], segRef)
				w.trims = append(w.trims, trim{run: s.run})
			}
		}
		if s.resident == 0 {
			x.part(s.run, s.hold)
			w.drop(s.run, segRef)
			r.close(id)
		}
	}
	w.dirty = w.dirty[:0]
	if cap(w.dirty) > 1024 || cap(w.fresh) > 1<<17 {
		w.dirty, w.fresh = nil, nil
	}
}

// open makes the count odd, giving way to readers at the gate.
func (w *Writer) open(slot indexer.Slot) {
	for {
		n := w.log.count.Load()
		w.log.log[n/2%64].Store(uint32(slot))
		w.log.count.Store(n + 1)
		if w.log.gate.Load() == 0 {
			return
		}
		w.log.count.Store(n)
		for w.log.gate.Load() != 0 {
			runtime.Gosched()
		}
	}
}
