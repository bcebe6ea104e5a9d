package runs

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/hugepages"
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
	slots    atomic.Uint32   // highest slot ever attached + 1
	huge     *hugepages.Pool // of the chunks, if they were asked for
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
	x := &Index{writers: make([]*Writer, cfg.Threads)}
	if cfg.HugePages {
		var err error
		if x.huge, err = hugepages.New(int(unsafe.Sizeof(chunk{}))); err != nil {
			return nil, fmt.Errorf("runs: huge pages were asked for: %w", err)
		}
	}
	x.mem.init(x.huge)
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
	w.names.init(x.huge)
	x.writers[i] = w
	return w
}

// Close implements indexer.Index. Without huge pages the collector has all the
// memory.
func (x *Index) Close() error {
	var err error
	if invariants.Enabled {
		err = x.Check()
	}
	if x.huge != nil {
		err = errors.Join(err, x.huge.Close())
	}
	return err
}

// Writer applies the events of one event thread.
type Writer struct {
	x       *Index
	log     *commits
	part    *participant
	limbo   limbo
	ranks   []*rank
	names   arena     // lanes of the ranks' segments; the writer's alone
	fresh   []stretch // lanes that the event gave names
	aliases []uint64  // aliases that the event added
	dirty   []uint32  // segments that the event touched
	coming  int       // names of the event at most
	kept    []spot    // see rehint
	hashed  hashed    // of names from warmed on
	warmed  *uint64
	touched uint64 // keeps the loads of filter.touch alive
	trims   []trim // runs whose tails may go
	credit  int    // see trimCredit
}

// stretch is some lanes of a segment, [from, to).
type stretch struct{ seg, from, to uint32 }

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
	w.warmed = nil // the event is not kept
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
	// The place to go on from: offset k of a run, and the rank's segment of it.
	x, run, k := w.x, w.x.root, uint32(0)
	var seg uint32
	if r.live > 0 && n > 0 {
		// These loads wait together with those for the parent.
		w.warm(r, unsafe.Slice((*uint64)(&ev.Sequences[0]), min(n, warmAhead)))
	}
	if ev.HasParent {
		at, ok := w.held(r, uint64(ev.Parent))
		if !ok {
			return indexer.Effect{Orphaned: uint32(n)}
		}
		seg, k = at.seg, at.off+1
		run = r.segs[seg].run
	}
	if n == 0 {
		return indexer.Effect{}
	}
	locals := unsafe.Slice((*uint64)(&ev.Locals[0]), n)
	names := unsafe.Slice((*uint64)(&ev.Sequences[0]), n)
	w.reserve(r, n)
	var e indexer.Effect
	w.fresh, w.aliases = w.fresh[:0], w.aliases[:0]
	for i := 0; ; {
		if run != x.root {
			if m := common(x.extent(run, k), locals[i:]); m > 0 {
				if !w.fill(r, seg, k, names[i:i+m], &e) {
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
			seg = r.open(next, x.join(next, uint32(r.slot)), spot{seg, k})
			w.touch(r, seg)
		} else {
			seg = r.segment(next)
		}
		run, k = next, 0
	}
	if e.Stored > 0 {
		// What comes next begins here, or the engine evicts from here.
		r.credit = min(r.credit+searchCredit*int(e.Stored), maxCredit)
		if at := (spot{seg, k - 1}); w.isNamed(r, at, names[n-1]) {
			parent := uint64(0)
			if ev.HasParent {
				parent = uint64(ev.Parent)
			}
			w.ended(r, parent, names[n-1], at)
		}
	}
	w.commit(r)
	return e
}

// warm hashes up to warmAhead names and loads their words of the filter.
func (w *Writer) warm(r *rank, names []uint64) {
	w.touched += r.filter.touch(names, &w.hashed)
	w.warmed = &names[0]
}

// fill gives names to the places of a segment from offset k on. It is false if a
// name is that of another place already.
func (w *Writer) fill(r *rank, seg, k uint32, names []uint64, e *indexer.Effect) bool {
	s := &r.segs[seg]
	start, resident := k, s.resident
	for i := 0; i < len(names); {
		if k >= uint32(s.length) {
			n := w.extend(r, seg, k, names[i:])
			e.Stored += uint32(n)
			if i, k = i+n, k+uint32(n); i == len(names) {
				break
			}
		}
		if !w.place(r, spot{seg, k}, names[i], e) {
			w.touch(r, seg)
			return false
		}
		i, k = i+1, k+1
	}
	if s.resident != resident {
		if uint32(s.cutoff) >= start && uint32(s.cutoff) < k {
			s.cutoff = uint16(k)
			w.advance(r, seg)
		}
		w.touch(r, seg)
	}
	return true
}

// extend gives names to places behind the lanes of a segment, until one is not
// certainly new, and says to how many.
func (w *Writer) extend(r *rank, seg, k uint32, names []uint64) int {
	if r.aliases.used != 0 {
		return 0
	}
	s := &r.segs[seg]
	lanes := w.makeRoom(s, k+uint32(len(names)))
	clear(lanes[s.length:k]) // places that only aliases had
	fresh := lanes[k:][:len(names)]
	n := 0
	for fits := true; fits && n < len(names); {
		some := names[n:min(len(names), n+warmAhead)]
		if &some[0] != w.warmed {
			w.warm(r, some)
		}
		to := fresh[n:][:len(some)]
		for i, name := range some {
			if name == 0 || r.filter.add(w.hashed[i%warmAhead]) {
				fits = false
				break
			}
			to[i] = name
			n++
		}
	}
	if n > 0 {
		s.length = uint16(k) + uint16(n)
		s.resident += uint16(n)
		w.came(r, seg, k, k+uint32(n))
	}
	return n
}

// place gives a name to a place, whatever is known of either. It is false if the
// name is that of another place already.
func (w *Writer) place(r *rank, at spot, name uint64, e *indexer.Effect) bool {
	if w.isNamed(r, at, name) {
		e.Duplicate++
		return true
	}
	if has, ok := w.held(r, name); ok {
		e.Duplicate++
		return has == at
	}
	s := &r.segs[at.seg]
	if !w.isHeld(r, at) {
		s.resident++
	}
	e.Stored++
	if name == 0 || at.off < uint32(s.length) && w.lanes(s)[at.off] != 0 {
		r.addAlias(name, at)
		w.aliases = append(w.aliases, name)
		return true
	}
	if at.off >= uint32(s.length) {
		lanes := w.makeRoom(s, at.off+1)
		clear(lanes[s.length:at.off])
		s.length = uint16(at.off) + 1
	}
	w.lanes(s)[at.off] = name
	r.filter.insert(mix(name))
	w.came(r, at.seg, at.off, at.off+1)
	return true
}

// came notes names that were put into the lanes [from, to).
func (w *Writer) came(r *rank, seg, from, to uint32) {
	n := int(to - from)
	r.live += n
	r.missed += n
	r.eager = max(0, r.eager-n)
	w.fresh = append(w.fresh, stretch{seg, from, to})
	if !r.segs[seg].hinted {
		r.bare += n
		return
	}
	for off := from; off < to; off++ {
		w.hint(r, w.lanes(&r.segs[seg])[off], spot{seg, off}, false)
	}
}

// undo takes back what the event did. Nothing of it was published.
func (w *Writer) undo(r *rank) {
	for _, name := range w.aliases {
		w.forgetAlias(r, name)
	}
	for _, f := range w.fresh {
		for off := f.to; off > f.from; off-- {
			w.forget(r, spot{f.seg, off - 1})
		}
	}
	w.commit(r)
	w.shrink(r)
}

// forget takes away the name of a lane.
func (w *Writer) forget(r *rank, at spot) {
	s := &r.segs[at.seg]
	lanes := w.lanes(s)
	r.filter.remove(mix(lanes[at.off]))
	lanes[at.off] = 0
	r.live--
	trimLanes(s, lanes)
	if !r.hasAlias(at) {
		w.vacate(r, at)
	}
}

// forgetAlias takes an alias away, if there is one.
func (w *Writer) forgetAlias(r *rank, name uint64) bool {
	at, ok := r.takeAlias(name)
	if ok && !w.isHeld(r, at) {
		w.vacate(r, at)
	}
	return ok
}

// vacate takes a place away from a segment: it has no name any more.
func (w *Writer) vacate(r *rank, at spot) {
	s := &r.segs[at.seg]
	s.resident--
	s.cutoff = min(s.cutoff, uint16(at.off))
	w.touch(r, at.seg)
}

func (w *Writer) remove(r *rank, ev *indexer.Event) indexer.Effect {
	n := len(ev.Sequences)
	if n == 0 {
		return indexer.Effect{}
	}
	names := unsafe.Slice((*uint64)(&ev.Sequences[0]), n)
	var e indexer.Effect
	after := spot{}
	for i := 0; i < n; {
		name := names[i]
		at, ok := r.next, false
		if r.nextName == name || r.nextName == 0 {
			ok = w.isNamed(r, at, name)
		}
		if !ok && after.seg != 0 {
			if at, ok = after, w.isNamed(r, after, name); !ok {
				at, ok = w.nearby(r, after, name)
			}
		}
		if !ok {
			// Another chain of victims begins. What is left of this one may go on.
			w.hintEnd(r, r.nextName, r.next)
			at, ok = w.find(r, name)
		}
		if !ok {
			i++
			if w.forgetAlias(r, name) {
				e.Removed++
			} else {
				e.UnknownRemoved++
			}
			continue
		}
		after = spot{at.seg, at.off + 1}
		s := &r.segs[at.seg]
		if r.extra.used != 0 {
			w.forget(r, at)
			e.Removed++
			i++
			continue
		}
		// Engines evict prompts from the end: as many lanes as go on backwards.
		lanes := w.lanes(s)
		first, off := i, at.off
		for i++; i < n && off > 0 && lanes[off-1] == names[i] && names[i] != 0; i++ {
			off--
		}
		w.gone(r, names[first:i])
		if at.off+1 == uint32(s.length) {
			s.length = uint16(off)
		} else {
			clear(lanes[off : at.off+1])
		}
		trimLanes(s, lanes)
		count := i - first
		r.live -= count
		s.resident -= uint16(count)
		s.cutoff = min(s.cutoff, uint16(off))
		w.touch(r, at.seg)
		e.Removed += uint32(count)
		if off > 0 {
			r.next, r.nextName = spot{at.seg, off - 1}, lanes[off-1]
		} else {
			r.next, r.nextName = spot{s.up, uint32(s.upOff) - 1}, 0
		}
	}
	w.commit(r)
	w.shrink(r)
	return e
}

// gone notes names whose lanes are given up.
func (w *Writer) gone(r *rank, names []uint64) {
	if r.eager == 0 {
		r.stale += len(names)
		return
	}
	for len(names) > 0 {
		some := names[:min(len(names), warmAhead)]
		names = names[len(some):]
		w.touched += r.filter.touch(some, &w.hashed)
		for _, hash := range w.hashed[:len(some)] {
			r.filter.remove(hash)
		}
	}
}

func (w *Writer) clear(r *rank) int {
	n := r.blocks()
	for id := range r.segs {
		if s := &r.segs[id]; s.run != 0 {
			s.cutoff, s.resident, s.length = 0, 0, 0
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
			if !s.holed && x.long(s.run, uint32(s.cutoff)) &&
				(s.resident != 0 || atomic.LoadUint64(&x.mem.at(s.run)[hRefs]) != segRef) {
				atomic.AddUint64(&x.mem.at(s.run)[hRefs], segRef)
				w.trims = append(w.trims, trim{run: s.run})
			}
		}
		if s.resident == 0 {
			x.part(s.run, s.hold)
			w.drop(s.run, segRef)
			w.close(r, id)
		} else if uint32(s.room) > 2*uint32(s.length)+slackLanes {
			w.moveNames(s, uint32(s.length))
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
