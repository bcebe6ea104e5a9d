package flat

import (
	"errors"
	"fmt"
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
		Name:    "flat",
		Summary: "hash table from prefixes to sets of ranks; simple, shared by all event threads",
		New:     func(cfg indexer.Config) (indexer.Index, error) { return New(cfg) },
	}
}

const (
	rootSeed = 0x9e3779b97f4a7c15
	nameSeed = 0xd1b54a32d192ed03
)

// mix returns a well spread 64-bit value. For a fixed a it is a bijection of b.
// The constants are those of the finaliser of SplitMix64 (Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", 2014).
func mix(a, b uint64) uint64 {
	z := (a+0x9e3779b97f4a7c15)*0xff51afd7ed558ccd + b
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// next returns the place of a block below a place. It is never 0, which marks a
// free cell: the one local hash that would give 0 shares a name with another.
func next(place uint64, local indexer.LocalHash) uint64 {
	return max(1, mix(place, uint64(local)))
}

// Index is the shared part. See the package comment.
type Index struct {
	shards [numShards]shard
	// versions has, by slot, the version that the slot got when it was first
	// attached. It lies with those of the other slots of that event thread, since
	// threads that write to one line slow each other down.
	versions [indexer.MaxRanks]atomic.Pointer[version]
	writers  []*Writer
	huge     *hugepages.Heap // of the tables, if they were asked for
}

// version is even while no event of the slot is being applied.
type version = atomic.Uint32

type versionLine [idle.CacheLine / 4]version

// New returns an empty index.
func New(cfg indexer.Config) (*Index, error) {
	if cfg.Threads < 1 {
		return nil, fmt.Errorf("flat: %d event threads; there must be at least 1", cfg.Threads)
	}
	x := &Index{writers: make([]*Writer, cfg.Threads)}
	if cfg.HugePages {
		var err error
		if x.huge, err = hugepages.NewHeap(); err != nil {
			return nil, fmt.Errorf("flat: huge pages were asked for: %w", err)
		}
		for i := range x.shards {
			x.shards[i].sets.huge = x.huge
		}
	}
	return x, nil
}

func (x *Index) shard(place uint64) *shard { return &x.shards[place>>(64-shardBits)] }

func (x *Index) version(slot indexer.Slot) *version {
	return x.versions[slot].Load()
}

// acquire makes a version odd, waiting while it is, and returns its even value.
func acquire(v *version) uint32 {
	for round := 0; ; round++ {
		if now := v.Load(); now%2 == 0 && v.CompareAndSwap(now, now+1) {
			return now
		}
		wait(round)
	}
}

// Writer implements indexer.Index.
func (x *Index) Writer(i int) indexer.Writer {
	w := &Writer{x: x}
	x.writers[i] = w
	return w
}

// Reader implements indexer.Index.
func (x *Index) Reader() indexer.Reader { return &Reader{x: x} }

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
	x     *Index
	ranks []*rank // by slot

	line *versionLine
	used int

	// Scratch of one Stored event.
	places []uint64
	fresh  []bool
}

// rank is what only its event thread knows.
type rank struct {
	names names
	// more counts, by place, the sequence hashes beyond the first that name it.
	more    names
	version *version
}

// Attach implements indexer.Writer.
func (w *Writer) Attach(slot indexer.Slot) {
	for int(slot) >= len(w.ranks) {
		w.ranks = append(w.ranks, nil)
	}
	cell := &w.x.versions[slot]
	if cell.Load() == nil {
		if w.line == nil || w.used == len(w.line) {
			w.line, w.used = new(versionLine), 0
		}
		cell.Store(&w.line[w.used])
		w.used++
	}
	// A slot keeps its version for good, so that one reader's two looks at it
	// are looks at the same one.
	w.ranks[slot] = &rank{names: names{huge: w.x.huge}, more: names{huge: w.x.huge}, version: cell.Load()}
}

// Detach implements indexer.Writer.
func (w *Writer) Detach(slot indexer.Slot) {
	w.clear(slot)
	w.ranks[slot] = nil
}

// Blocks implements indexer.Writer.
func (w *Writer) Blocks(slot indexer.Slot) int { return w.ranks[slot].names.used }

// Park implements indexer.Writer.
func (w *Writer) Park() {}

// Apply implements indexer.Writer.
func (w *Writer) Apply(ev *indexer.Event) indexer.Effect {
	switch ev.Kind {
	case indexer.Stored:
		return w.store(ev)
	case indexer.Removed:
		return w.remove(ev)
	case indexer.Cleared:
		return indexer.Effect{ClearedBlocks: uint32(w.clear(ev.Slot))}
	}
	return indexer.Effect{Malformed: 1}
}

func (w *Writer) store(ev *indexer.Event) indexer.Effect {
	n := len(ev.Sequences)
	if len(ev.Locals) != n {
		return indexer.Effect{Malformed: 1}
	}
	r := w.ranks[ev.Slot]
	place := uint64(rootSeed)
	if ev.HasParent {
		if place = r.names.get(uint64(ev.Parent)); place == 0 {
			return indexer.Effect{Orphaned: uint32(n)}
		}
	}
	// First the names, which nobody else sees, so that a conflict can be taken
	// back without a trace.
	places, fresh := w.places[:0], w.fresh[:0]
	var e indexer.Effect
	for i, seq := range ev.Sequences {
		place = next(place, ev.Locals[i])
		had := r.names.put(uint64(seq), place)
		// A hash that this event itself stored higher up is another place.
		if had != 0 && had != place {
			for k := range i {
				if fresh[k] {
					r.names.take(uint64(ev.Sequences[k]))
				}
			}
			w.keepScratch(places, fresh)
			return indexer.Effect{Conflicting: uint32(n)}
		}
		places, fresh = append(places, place), append(fresh, had == 0)
		if had == 0 {
			e.Stored++
		} else {
			e.Duplicate++
		}
	}
	if e.Stored > 0 {
		before := acquire(r.version)
		for i, place := range places {
			if fresh[i] && !w.hold(place, ev.Slot) {
				r.more.put(place, r.more.take(place)+1)
			}
		}
		r.version.Store(before + 2)
	}
	w.keepScratch(places, fresh)
	return e
}

// maxScratch is the number of blocks whose scratch is kept, 9 bytes each.
const maxScratch = 1 << 20

// keepScratch reuses the scratch unless one huge event made it huge.
func (w *Writer) keepScratch(places []uint64, fresh []bool) {
	if cap(places) > maxScratch {
		places, fresh = nil, nil
	}
	w.places, w.fresh = places, fresh
}

func (w *Writer) hold(place uint64, slot indexer.Slot) bool {
	s := w.x.shard(place)
	s.lock()
	added := s.add(place, slot)
	s.unlock()
	return added
}

func (w *Writer) remove(ev *indexer.Event) indexer.Effect {
	r := w.ranks[ev.Slot]
	before := acquire(r.version)
	var e indexer.Effect
	for _, seq := range ev.Sequences {
		place := r.names.take(uint64(seq))
		if place == 0 {
			e.UnknownRemoved++
			continue
		}
		e.Removed++
		w.release(r, place, ev.Slot)
	}
	r.version.Store(before + 2)
	return e
}

// release gives up one name of a place, and the place with the last one.
func (w *Writer) release(r *rank, place uint64, slot indexer.Slot) {
	if n := r.more.take(place); n > 0 {
		if n > 1 {
			r.more.put(place, n-1)
		}
		return
	}
	s := w.x.shard(place)
	s.lock()
	s.remove(place, slot)
	s.unlock()
}

func (w *Writer) clear(slot indexer.Slot) int {
	r := w.ranks[slot]
	n := r.names.used
	before := acquire(r.version)
	for _, c := range r.names.cells {
		if c.place != 0 {
			w.release(r, c.place, slot)
		}
	}
	r.version.Store(before + 2)
	r.names.reset()
	r.more.reset()
	return n
}

// Memory implements indexer.MemoryReporter. With huge pages all tables that lie on
// them, or could, are one part, and the others are what is left on the Go heap.
func (x *Index) Memory() []indexer.MemoryPart {
	var table, sets, private int64
	for i := range x.shards {
		s := &x.shards[i]
		s.lock()
		if !hugepages.OnHeap(x.huge, s.entries) {
			table += int64(cap(s.entries)) * int64(unsafe.Sizeof(entry{}))
		}
		if !hugepages.OnHeap(x.huge, s.sets.words) {
			sets += int64(cap(s.sets.words)) * 8
		}
		s.unlock()
	}
	for _, w := range x.writers {
		if w == nil {
			continue
		}
		private += int64(cap(w.ranks))*8 + int64(cap(w.places))*8 + int64(cap(w.fresh))
		for _, r := range w.ranks {
			if r != nil {
				private += int64(unsafe.Sizeof(rank{})) + r.names.bytes() + r.more.bytes()
			}
		}
	}
	parts := []indexer.MemoryPart{
		{Name: "places", Bytes: table},
		{Name: "sets", Bytes: sets},
		{Name: "names", Bytes: private},
		{Name: "fixed", Bytes: int64(unsafe.Sizeof(Index{}))},
	}
	if x.huge == nil {
		return parts
	}
	// That the kernel says what is on huge pages was seen when the index was made.
	all, huge, err := x.huge.Bytes()
	if err != nil {
		huge = 0
	}
	return append(parts, indexer.MemoryPart{Name: "large tables", Bytes: all, HugeBytes: huge})
}
