package radix

import (
	"fmt"
	"sync"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/invariants"
)

// Factory builds the index.
func Factory() indexer.Factory {
	return indexer.Factory{
		Name:         "radix",
		Summary:      "radix tree of Go maps behind one event thread; what most routers start with",
		SingleThread: true,
		New:          func(cfg indexer.Config) (indexer.Index, error) { return New(cfg) },
	}
}

// Index is the tree and its lock. See the package comment.
type Index struct {
	mu    sync.RWMutex
	root  node
	nodes int // in the tree, without the root
	live  []table[indexer.SequenceHash, *node]

	// Nodes without use, chained by their parents.
	spare  *node
	spares int

	// stored is scratch: the sequence hashes that a Stored has added so far.
	stored []indexer.SequenceHash
}

// node is a place.
type node struct {
	parent   *node
	local    indexer.LocalHash
	children table[indexer.LocalHash, *node]
	// names counts the sequence hashes of each rank that holds the place.
	names table[indexer.Slot, uint32]
}

// New returns an empty index.
func New(cfg indexer.Config) (*Index, error) {
	if cfg.Threads != 1 {
		return nil, fmt.Errorf("radix: %d event threads; this index works with exactly 1", cfg.Threads)
	}
	if cfg.HugePages {
		return nil, indexer.NoHugePages("radix")
	}
	return &Index{}, nil
}

// Writer implements indexer.Index.
func (x *Index) Writer(int) indexer.Writer { return writer{x} }

// Reader implements indexer.Index.
func (x *Index) Reader() indexer.Reader { return &reader{x: x} }

// Close implements indexer.Index. The collector has all the memory.
func (x *Index) Close() error {
	if invariants.Enabled {
		return x.Check()
	}
	return nil
}

// writer applies the events of the event thread. Nobody else changes anything, so
// it reads without the lock.
type writer struct{ x *Index }

// Attach implements indexer.Writer.
func (w writer) Attach(slot indexer.Slot) {
	w.x.mu.Lock()
	defer w.x.mu.Unlock()
	if need := int(slot) + 1 - len(w.x.live); need > 0 {
		w.x.live = append(w.x.live, make([]table[indexer.SequenceHash, *node], need)...)
	}
}

// Detach implements indexer.Writer.
func (w writer) Detach(slot indexer.Slot) {
	w.x.mu.Lock()
	defer w.x.mu.Unlock()
	w.x.clear(slot)
}

// Blocks implements indexer.Writer.
func (w writer) Blocks(slot indexer.Slot) int { return w.x.live[slot].len() }

// Park implements indexer.Writer.
func (w writer) Park() {}

// Apply implements indexer.Writer.
func (w writer) Apply(ev *indexer.Event) indexer.Effect {
	w.x.mu.Lock()
	defer w.x.mu.Unlock()
	switch ev.Kind {
	case indexer.Stored:
		return w.x.store(ev)
	case indexer.Removed:
		return w.x.remove(ev)
	case indexer.Cleared:
		return indexer.Effect{ClearedBlocks: w.x.clear(ev.Slot)}
	}
	return indexer.Effect{Malformed: 1}
}

func (x *Index) store(ev *indexer.Event) indexer.Effect {
	blocks := len(ev.Sequences)
	if len(ev.Locals) != blocks {
		return indexer.Effect{Malformed: 1}
	}
	live := &x.live[ev.Slot]
	at := &x.root
	if ev.HasParent {
		if at = live.get(ev.Parent); at == nil {
			return indexer.Effect{Orphaned: uint32(blocks)}
		}
	}
	var e indexer.Effect
	stored := x.stored[:0]
	for i, seq := range ev.Sequences {
		at = x.child(at, ev.Locals[i])
		switch live.get(seq) {
		case nil:
			live.put(seq, at)
			at.names.put(ev.Slot, at.names.get(ev.Slot)+1)
			stored = append(stored, seq)
			e.Stored++
		case at:
			e.Duplicate++
		default:
			// The hash names another place: all is taken back, this node first,
			// which may be new.
			x.prune(at)
			for _, seq := range stored {
				x.drop(ev.Slot, live, seq)
			}
			e = indexer.Effect{Conflicting: uint32(blocks)}
			x.keepScratch(stored)
			return e
		}
	}
	x.keepScratch(stored)
	return e
}

// maxScratch is the number of hashes whose scratch is kept.
const maxScratch = 1 << 17

// keepScratch reuses the scratch unless one huge event made it huge.
func (x *Index) keepScratch(stored []indexer.SequenceHash) {
	if cap(stored) > maxScratch {
		stored = nil
	}
	x.stored = stored
}

func (x *Index) remove(ev *indexer.Event) indexer.Effect {
	var e indexer.Effect
	live := &x.live[ev.Slot]
	for _, seq := range ev.Sequences {
		if x.drop(ev.Slot, live, seq) {
			e.Removed++
		} else {
			e.UnknownRemoved++
		}
	}
	return e
}

func (x *Index) clear(slot indexer.Slot) uint32 {
	live := x.live[slot]
	x.live[slot] = table[indexer.SequenceHash, *node]{}
	for _, n := range live.m {
		x.release(slot, n)
	}
	return uint32(live.len())
}

// drop takes one hash out of a live set and reports whether it was there.
func (x *Index) drop(slot indexer.Slot, live *table[indexer.SequenceHash, *node], seq indexer.SequenceHash) bool {
	n := live.get(seq)
	if n == nil {
		return false
	}
	live.remove(seq)
	x.release(slot, n)
	return true
}

// release gives up one of a rank's names of a place, and the place with the last.
func (x *Index) release(slot indexer.Slot, n *node) {
	if names := n.names.get(slot); names > 1 {
		n.names.put(slot, names-1)
		return
	}
	n.names.remove(slot)
	x.prune(n)
}

// child returns the node below n, a new one if need be.
func (x *Index) child(n *node, local indexer.LocalHash) *node {
	if c := n.children.get(local); c != nil {
		return c
	}
	c := x.spare
	if c == nil {
		c = new(node)
	} else {
		x.spare = c.parent
		x.spares--
	}
	c.parent, c.local = n, local
	n.children.put(local, c)
	x.nodes++
	return c
}

// prune takes n out, and what is above it, as far as nobody needs it.
func (x *Index) prune(n *node) {
	for n != &x.root && n.names.len() == 0 && n.children.len() == 0 {
		parent := n.parent
		parent.children.remove(n.local)
		x.nodes--
		n.parent, x.spare = x.spare, n
		x.spares++
		n = parent
	}
	for x.spares > minSpares && x.spares > x.nodes/8 {
		n := x.spare
		x.spare, n.parent = n.parent, nil
		x.spares--
	}
}

// minSpares is how many nodes without use are kept in any case.
const minSpares = 256

// reader answers queries for one goroutine.
type reader struct {
	x     *Index
	alive []indexer.Slot // the ranks that hold all blocks so far
}

// Close implements indexer.Reader.
func (r *reader) Close() {}

// Find implements indexer.Reader.
func (r *reader) Find(query []indexer.LocalHash, opts indexer.FindOptions, ans *indexer.Answer) {
	ans.Reset()
	r.x.mu.RLock()
	r.find(query, opts.EarlyExit, ans)
	r.x.mu.RUnlock()
	ans.Keep(opts.MaxRanks)
}

func (r *reader) find(query []indexer.LocalHash, early bool, ans *indexer.Answer) {
	n := &r.x.root
	for i, local := range query {
		if n = n.children.get(local); n == nil {
			return
		}
		depth := uint32(i) + 1
		if i == 0 {
			r.alive = r.alive[:0]
			for slot := range n.names.m {
				r.alive = append(r.alive, slot)
				ans.Set(slot, depth)
			}
		} else {
			alive := r.alive[:0]
			for _, slot := range r.alive {
				if n.names.has(slot) {
					alive = append(alive, slot)
					ans.Set(slot, depth)
				}
			}
			r.alive = alive
		}
		if len(r.alive) == 0 || early && len(r.alive) == 1 {
			return
		}
	}
}
