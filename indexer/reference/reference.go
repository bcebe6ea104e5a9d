// Package reference is the naive index that every other one is compared with.
// It follows the text of indexer.Index as plainly as possible and is slow.
package reference

import (
	"fmt"
	"slices"
	"sync"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/invariants"
)

// Factory builds the index.
func Factory() indexer.Factory {
	return indexer.Factory{
		Name:    "reference",
		Summary: "naive and obviously right; the oracle of the others",
		New:     func(cfg indexer.Config) (indexer.Index, error) { return New(cfg) },
	}
}

// Index is a tree of places under one mutex.
type Index struct {
	mu   sync.Mutex
	root *place
	live map[indexer.Slot]map[indexer.SequenceHash]*place
}

// place is a path of local hashes from the root.
type place struct {
	parent   *place
	local    indexer.LocalHash
	children map[indexer.LocalHash]*place
	// names counts, for each rank that holds the place, its sequence hashes for
	// it.
	names map[indexer.Slot]int
}

// New returns an empty index.
func New(cfg indexer.Config) (*Index, error) {
	if cfg.Threads < 1 {
		return nil, fmt.Errorf("reference: %d event threads; there must be at least 1", cfg.Threads)
	}
	if cfg.HugePages {
		return nil, indexer.NoHugePages("reference")
	}
	return &Index{root: &place{}, live: map[indexer.Slot]map[indexer.SequenceHash]*place{}}, nil
}

// Writer implements indexer.Index.
func (x *Index) Writer(int) indexer.Writer { return handle{x} }

// Reader implements indexer.Index.
func (x *Index) Reader() indexer.Reader { return handle{x} }

// Close implements indexer.Index.
func (x *Index) Close() error {
	if invariants.Enabled {
		return x.Check()
	}
	return nil
}

// Check verifies that the places and the live sets say the same.
func (x *Index) Check() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	names := map[*place]map[indexer.Slot]int{}
	for slot, live := range x.live {
		for _, p := range live {
			if names[p] == nil {
				names[p] = map[indexer.Slot]int{}
			}
			names[p][slot]++
		}
	}
	return x.check(x.root, names)
}

func (x *Index) check(p *place, names map[*place]map[indexer.Slot]int) error {
	if len(p.names) != len(names[p]) {
		return fmt.Errorf("a place is held by %d ranks, the live sets say %d", len(p.names), len(names[p]))
	}
	for slot, n := range p.names {
		if names[p][slot] != n {
			return fmt.Errorf("slot %d has %d names for a place, its live set says %d", slot, n, names[p][slot])
		}
	}
	if p != x.root && len(p.names) == 0 && len(p.children) == 0 {
		return fmt.Errorf("a place that nobody needs is left")
	}
	for _, child := range p.children {
		if err := x.check(child, names); err != nil {
			return err
		}
	}
	return nil
}

// CountReachable walks over what the rank in slot holds and returns how many of
// the places it holds with their whole chain from the root: what an
// indexer.ReachableCounter must say if it says anything.
func (x *Index) CountReachable(slot indexer.Slot) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	reached := map[*place]bool{x.root: true}
	for _, p := range x.live[slot] {
		var chain []*place // that are not in reached, deepest first
		for {
			if _, known := reached[p]; known {
				break
			}
			chain = append(chain, p)
			p = p.parent
		}
		for _, below := range slices.Backward(chain) {
			reached[below] = reached[p] && below.names[slot] > 0
			if reached[below] {
				n++
			}
			p = below
		}
	}
	return n
}

// handle is both Writer and Reader.
type handle struct{ x *Index }

// Attach implements indexer.Writer.
func (h handle) Attach(slot indexer.Slot) {
	h.x.mu.Lock()
	defer h.x.mu.Unlock()
	h.x.live[slot] = map[indexer.SequenceHash]*place{}
}

// Detach implements indexer.Writer.
func (h handle) Detach(slot indexer.Slot) {
	h.x.mu.Lock()
	defer h.x.mu.Unlock()
	h.x.clear(slot)
	delete(h.x.live, slot)
}

// Blocks implements indexer.Writer.
func (h handle) Blocks(slot indexer.Slot) int {
	h.x.mu.Lock()
	defer h.x.mu.Unlock()
	return len(h.x.live[slot])
}

// Park implements indexer.Writer.
func (h handle) Park() {}

// Close implements indexer.Reader.
func (h handle) Close() {}

// Apply implements indexer.Writer.
func (h handle) Apply(ev *indexer.Event) indexer.Effect {
	h.x.mu.Lock()
	defer h.x.mu.Unlock()
	switch ev.Kind {
	case indexer.Stored:
		return h.x.store(ev)
	case indexer.Removed:
		return h.x.remove(ev)
	case indexer.Cleared:
		return indexer.Effect{ClearedBlocks: uint32(h.x.clear(ev.Slot))}
	}
	return indexer.Effect{Malformed: 1}
}

func (x *Index) store(ev *indexer.Event) indexer.Effect {
	n := uint32(len(ev.Sequences))
	if len(ev.Locals) != len(ev.Sequences) {
		return indexer.Effect{Malformed: 1}
	}
	live := x.live[ev.Slot]
	start := x.root
	if ev.HasParent {
		if start = live[ev.Parent]; start == nil {
			return indexer.Effect{Orphaned: n}
		}
	}
	// A first pass looks for a conflict, so that a rejected event changes
	// nothing. The places that it walks over may not exist yet.
	seen := map[indexer.SequenceHash]bool{}
	p := start
	for i, seq := range ev.Sequences {
		if p != nil {
			p = p.children[ev.Locals[i]]
		}
		if at, ok := live[seq]; seen[seq] || ok && at != p {
			return indexer.Effect{Conflicting: n}
		}
		seen[seq] = true
	}
	var e indexer.Effect
	p = start
	for i, seq := range ev.Sequences {
		p = p.child(ev.Locals[i])
		if live[seq] == p {
			e.Duplicate++
			continue
		}
		live[seq] = p
		if p.names == nil {
			p.names = map[indexer.Slot]int{}
		}
		p.names[ev.Slot]++
		e.Stored++
	}
	return e
}

func (x *Index) remove(ev *indexer.Event) indexer.Effect {
	var e indexer.Effect
	for _, seq := range ev.Sequences {
		if x.drop(ev.Slot, seq) {
			e.Removed++
		} else {
			e.UnknownRemoved++
		}
	}
	return e
}

func (x *Index) clear(slot indexer.Slot) int {
	n := len(x.live[slot])
	for seq := range x.live[slot] {
		x.drop(slot, seq)
	}
	return n
}

// drop takes one hash out of a live set and reports whether it was there.
func (x *Index) drop(slot indexer.Slot, seq indexer.SequenceHash) bool {
	p, ok := x.live[slot][seq]
	if !ok {
		return false
	}
	delete(x.live[slot], seq)
	if p.names[slot]--; p.names[slot] == 0 {
		delete(p.names, slot)
	}
	for p.parent != nil && len(p.names) == 0 && len(p.children) == 0 {
		delete(p.parent.children, p.local)
		p = p.parent
	}
	return true
}

// child returns the place below p, making it if need be.
func (p *place) child(local indexer.LocalHash) *place {
	if c := p.children[local]; c != nil {
		return c
	}
	c := &place{parent: p, local: local}
	if p.children == nil {
		p.children = map[indexer.LocalHash]*place{}
	}
	p.children[local] = c
	return c
}

// Find implements indexer.Reader.
func (h handle) Find(query []indexer.LocalHash, opts indexer.FindOptions, ans *indexer.Answer) {
	h.x.mu.Lock()
	defer h.x.mu.Unlock()
	ans.Reset()
	defer ans.Keep(opts.MaxRanks)
	p := h.x.root
	for depth, local := range query {
		if p = p.children[local]; p == nil {
			return
		}
		held := 0
		for slot := range p.names {
			if depth == 0 || ans.Score(slot) == uint32(depth) {
				ans.Set(slot, uint32(depth)+1)
				held++
			}
		}
		if held == 0 || held == 1 && opts.EarlyExit {
			return
		}
	}
}
