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
	w := &Writer{x: x, log: x.logs[i], part: x.ep.join()}
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
	x     *Index
	log   *commits
	part  *participant
	limbo limbo
	ranks []*rank
	fresh []uint64   // names of the event
	dirty []*segment // segments that the event touched
}

// Attach implements indexer.Writer.
func (w *Writer) Attach(slot indexer.Slot) {
	for int(slot) >= len(w.ranks) {
		w.ranks = append(w.ranks, nil)
	}
	w.ranks[slot] = &rank{slot: slot}
}

// Detach implements indexer.Writer.
func (w *Writer) Detach(slot indexer.Slot) {
	w.x.ep.pin(w.part)
	w.clear(w.ranks[slot])
	w.leave()
	w.ranks[slot] = nil
}

// Blocks implements indexer.Writer.
func (w *Writer) Blocks(slot indexer.Slot) int { return w.ranks[slot].names.used }

// Park implements indexer.Writer: a writer pins an epoch only during a call.
func (w *Writer) Park() {}

func (w *Writer) leave() {
	x := w.x
	x.ep.unpin(w.part)
	if len(w.limbo.items) > w.limbo.head {
		// Twice, so that without readers nothing stays until the next event.
		x.ep.advance()
		x.ep.advance()
		w.limbo.reap(x.ep.now.Load(), &x.mem)
	}
	x.fit()
}

// Apply implements indexer.Writer.
func (w *Writer) Apply(ev *indexer.Event) indexer.Effect {
	w.x.ep.pin(w.part)
	defer w.leave()
	r := w.ranks[ev.Slot]
	switch ev.Kind {
	case indexer.Stored:
		return w.store(r, ev)
	case indexer.Removed:
		return w.remove(r, ev)
	case indexer.Cleared:
		return indexer.Effect{ClearedBlocks: uint32(w.clear(r))}
	}
	return indexer.Effect{Malformed: 1}
}

func (w *Writer) touch(s *segment) {
	if !s.dirty {
		s.dirty = true
		w.dirty = append(w.dirty, s)
	}
}

func (w *Writer) store(r *rank, ev *indexer.Event) indexer.Effect {
	n := len(ev.Sequences)
	if len(ev.Locals) != n {
		return indexer.Effect{Malformed: 1}
	}
	x, run, k := w.x, w.x.root, uint32(0)
	var seg *segment
	if ev.HasParent {
		p, ok := r.held(uint64(ev.Parent))
		if !ok {
			return indexer.Effect{Orphaned: uint32(n)}
		}
		seg, run, k = p.seg, p.seg.run, p.off+1
	}
	if n == 0 {
		return indexer.Effect{}
	}
	locals := unsafe.Slice((*uint64)(&ev.Locals[0]), n)
	var e indexer.Effect
	w.fresh = w.fresh[:0]
	for i := 0; i < n; {
		content := x.content(run)
		for ; i < n && int(k) < len(content) && content[k] == locals[i]; i, k = i+1, k+1 {
			seq := uint64(ev.Sequences[i])
			at, ok := r.held(seq)
			// A hash that this very event stored names another place: paths do
			// not come back to a place.
			if ok && (at.seg != seg || at.off != k) {
				for _, name := range w.fresh {
					w.forget(r, name)
				}
				w.commit(r)
				return indexer.Effect{Conflicting: uint32(n)}
			}
			if ok {
				e.Duplicate++
				continue
			}
			r.names.add(seq, uint64(seg.id)<<32|uint64(k+1))
			seg.add(k)
			w.touch(seg)
			w.fresh = append(w.fresh, seq)
			e.Stored++
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
			w.touch(seg)
		} else {
			seg = r.segment(next)
		}
		run, k = next, 0
	}
	w.commit(r)
	return e
}

func (w *Writer) forget(r *rank, name uint64) bool {
	v := r.names.take(name)
	if v == 0 {
		return false
	}
	at := r.position(v)
	at.seg.sub(at.off)
	w.touch(at.seg)
	return true
}

func (w *Writer) remove(r *rank, ev *indexer.Event) indexer.Effect {
	var e indexer.Effect
	for _, seq := range ev.Sequences {
		if w.forget(r, uint64(seq)) {
			e.Removed++
		} else {
			e.UnknownRemoved++
		}
	}
	w.commit(r)
	return e
}

func (w *Writer) clear(r *rank) int {
	n := r.names.used
	for _, s := range r.segs {
		if s == nil {
			continue
		}
		s.cutoff, s.resident, s.names = 0, 0, nil
		w.touch(s)
	}
	r.names = table{}
	w.commit(r)
	r.byRun, r.segs, r.free, r.spare = table{}, nil, nil, nil
	return n
}

// commit publishes the event as a whole: readers of the rank look again.
func (w *Writer) commit(r *rank) {
	x, open := w.x, false
	for _, s := range w.dirty {
		if s.cutoff == s.published {
			continue
		}
		if !open {
			open = true
			w.open(r.slot)
		}
		atomic.StoreUint64(&x.mem.at(s.hold.piece)[s.hold.word], uint64(r.slot+1)<<32|uint64(s.cutoff))
		s.published = s.cutoff
	}
	if open {
		w.log.count.Add(1)
	}
	for _, s := range w.dirty {
		s.dirty = false
		if s.resident == 0 {
			x.part(s.run, s.hold)
			w.drop(s.run)
			r.close(s)
		}
	}
	clear(w.dirty)
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
