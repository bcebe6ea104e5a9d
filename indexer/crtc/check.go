package crtc

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
)

// held is a place that a rank holds.
type held struct {
	at   position
	slot indexer.Slot
}

// Check implements indexer.Index: what the ranks' names say is what the nodes
// say, nodes that nobody needs are gone, and every table can be probed.
func (x *Index) Check() error {
	names := map[held]int{}
	for _, w := range x.writers {
		if w == nil {
			continue
		}
		for slot, r := range w.ranks {
			if r == nil {
				continue
			}
			if err := r.check(indexer.Slot(slot), names); err != nil {
				return fmt.Errorf("crtc: slot %d: %w", slot, err)
			}
		}
	}
	c := checker{x: x, names: names, used: map[*slab]*[slabUnits / 64]uint64{}}
	for i := range x.roots {
		n := &x.roots[i]
		if n.start != 0 || n.up != 0 || n.edge != nil || n.slab != nil || !n.empty() || n.word.Load() != 0 {
			return fmt.Errorf("crtc: root %d has an edge or holders", i)
		}
		if err := c.below(n); err != nil {
			return fmt.Errorf("crtc: %w", err)
		}
	}
	if c.pairs != len(names) {
		return fmt.Errorf("crtc: %d ranks in nodes, %d places have names", c.pairs, len(names))
	}
	return c.memory()
}

func (r *rank) check(slot indexer.Slot, names map[held]int) error {
	if r.version.Load()%2 != 0 {
		return fmt.Errorf("an event is being applied")
	}
	if err := r.names.check(); err != nil {
		return err
	}
	if err := r.more.check(); err != nil {
		return fmt.Errorf("counts: %w", err)
	}
	distinct := 0
	for i := range r.names.cells {
		if at := r.names.cells[i].at; at != 0 {
			if names[held{at, slot}] == 0 {
				distinct++
			}
			names[held{at, slot}]++
		}
	}
	for i := range r.more.cells {
		c := &r.more.cells[i]
		if c.at == 0 {
			continue
		}
		distinct += int(c.at)
		if k := names[held{position(c.sequence()), slot}]; k != int(c.at)+1 {
			return fmt.Errorf("position %d has %d names, %d beyond the first are counted", c.sequence(), k, c.at)
		}
	}
	if distinct != r.names.used {
		return fmt.Errorf("%d names, %d with those counted beyond the first of a place", r.names.used, distinct)
	}
	return nil
}

// checker walks over the nodes.
type checker struct {
	x     *Index
	names map[held]int
	used  map[*slab]*[slabUnits / 64]uint64
	nodes int
	pairs int
}

func (c *checker) below(n *node) error {
	count := 0
	var err error
	n.kids.each(func(k child) {
		count++
		if err != nil {
			return
		}
		if k.node == nil || n.kids.get(k.local) != k.node {
			err = fmt.Errorf("node %d: the child %x cannot be found", n.number, k.local)
			return
		}
		if err = c.node(n, k); err != nil {
			err = fmt.Errorf("node %d: %w", k.node.number, err)
		}
	})
	if err == nil && count != n.kids.n {
		err = fmt.Errorf("node %d: %d children, the count says %d", n.number, count, n.kids.n)
	}
	return err
}

func (c *checker) node(above *node, k child) error {
	n := k.node
	c.nodes++
	switch {
	case n.start == 0 || n.slab == nil || len(n.edge) == 0 || len(n.edge) > maxEdge:
		return fmt.Errorf("an edge of %d blocks at %d", len(n.edge), n.start)
	case n.word.Load() != 0:
		return fmt.Errorf("it is locked")
	case n.edge[0] != k.local:
		return fmt.Errorf("it begins with %x, the node above says %x", n.edge[0], k.local)
	case above.isRoot() && (n.up != 0 || above != &c.x.roots[rootOf(k.local)]):
		return fmt.Errorf("it is below the wrong root, or thinks that it is below %d", n.up)
	case !above.isRoot() && n.up != above.end()-1:
		return fmt.Errorf("it thinks that it is below %d, not %d", n.up, above.end()-1)
	case n.kids.n == 0 && n.extent() != len(n.edge):
		return fmt.Errorf("a leaf of %d blocks, of which ranks hold %d", len(n.edge), n.extent())
	case len(n.partial) > maxPartial && len(n.edge) > 1:
		return fmt.Errorf("%d ranks hold parts", len(n.partial))
	}
	first := n.slab.at(n.start)
	for i := range n.edge {
		if owner := n.slab.owners[first+i]; owner != n.number || c.x.node(owner) != n {
			return fmt.Errorf("block %d is said to be of node %d", i, owner)
		}
	}
	if c.used[n.slab] == nil {
		c.used[n.slab] = &[slabUnits / 64]uint64{}
	}
	end := first + cap(n.edge)
	for u := first / unit; u < (end+unit-1)/unit; u++ {
		c.used[n.slab][u/64] |= 1 << (u % 64)
	}
	if err := c.holders(n); err != nil {
		return err
	}
	return c.below(n)
}

func (c *checker) holders(n *node) error {
	for i := range n.more {
		if n.more[i].bits == noBits || n.more[i].index == 0 || i > 0 && n.more[i-1].index >= n.more[i].index {
			return fmt.Errorf("chunk %d of its holders is empty or out of order", n.more[i].index)
		}
	}
	var err error
	has := func(slot indexer.Slot, i int) {
		c.pairs++
		if at := n.start + position(i); err == nil && c.names[held{at, slot}] == 0 {
			err = fmt.Errorf("slot %d holds block %d, position %d, and has no name for it", slot, i, at)
		}
	}
	n.eachFull(func(slot indexer.Slot) {
		for i := range n.edge {
			has(slot, i)
		}
	})
	for k := range n.partial {
		p := &n.partial[k]
		if n.isFull(p.slot) || n.partOf(p.slot) != k || int(p.cutoff) >= len(n.edge) || p.extent() == 0 || p.extent() > len(n.edge) {
			return fmt.Errorf("slot %d is there twice, or holds %d of %d blocks up to %d", p.slot, p.cutoff, len(n.edge), p.extent())
		}
		if p.holes != nil && (p.holes.leading() != int(p.cutoff) || p.holes.extent() == int(p.cutoff)) {
			return fmt.Errorf("slot %d has cutoff %d and bits from 0 to %d, with %d leading", p.slot, p.cutoff, p.holes.extent(), p.holes.leading())
		}
		for i := range n.edge {
			if i < int(p.cutoff) || p.holes != nil && p.holes.has(i) {
				has(p.slot, i)
			}
		}
	}
	return err
}

// memory compares what the heaps say with what the nodes have.
func (c *checker) memory() error {
	var err error
	c.x.slabs.all(func(s *slab) {
		free := slabUnits
		for i, v := range s.used {
			free -= bits.OnesCount64(v)
			var want uint64
			if u := c.used[s]; u != nil {
				want = u[i]
			}
			if v != want && err == nil {
				err = fmt.Errorf("crtc: slab %d, word %d: units %064b are in use, nodes have %064b", s.number, i, v, want)
			}
		}
		if err == nil && (s.free != free || s.longest != s.measure()) {
			err = fmt.Errorf("crtc: slab %d has %d units, the longest stretch is %d; the counts say %d and %d", s.number, free, s.measure(), s.free, s.longest)
		}
	})
	used := 0
	c.x.chunks.all(func(k *chunk) { used += chunkNodes - bits.OnesCount64(k.free) })
	if err == nil && used != c.nodes {
		err = fmt.Errorf("crtc: %d nodes are in use, %d can be reached", used, c.nodes)
	}
	return err
}

// Shape implements indexer.ShapeReporter.
func (x *Index) Shape() indexer.Shape {
	shape := indexer.Shape{Unit: "node"}
	var below func(n *node, depth int)
	below = func(n *node, depth int) {
		n.kids.each(func(k child) {
			holders := k.node.fullCount() + len(k.node.partial)
			shape.Units++
			shape.Blocks += int64(len(k.node.edge))
			shape.MaxDepth = max(shape.MaxDepth, depth)
			shape.Holders += int64(holders)
			shape.MaxHolders = max(shape.MaxHolders, holders)
			below(k.node, depth+1)
		})
	}
	for i := range x.roots {
		below(&x.roots[i], 1)
	}
	return shape
}

// Memory implements indexer.MemoryReporter.
func (x *Index) Memory() []indexer.MemoryPart {
	var edges, nodes, holders, children, private int64
	x.slabs.all(func(*slab) { edges += int64(unsafe.Sizeof(slab{})) })
	edges += x.slabs.bytes()
	nodes += x.chunks.bytes()
	const (
		part   = int64(unsafe.Sizeof(partial{}))
		bitset = int64(unsafe.Sizeof(bitmap{}))
		more   = int64(unsafe.Sizeof(slotChunk{}))
		kid    = int64(unsafe.Sizeof(child{}))
	)
	of := func(n *node) {
		children += int64(cap(n.kids.table)) * kid
		holders += int64(cap(n.partial))*part + int64(cap(n.more))*more
		for i := range n.partial {
			if n.partial[i].holes != nil {
				holders += bitset
			}
		}
	}
	x.chunks.all(func(c *chunk) {
		nodes += int64(unsafe.Sizeof(chunk{}))
		for i := range c.nodes {
			of(&c.nodes[i])
		}
	})
	for i := range x.roots {
		of(&x.roots[i])
	}
	for _, w := range x.writers {
		if w == nil {
			continue
		}
		holders += int64(w.parts.elements())*part + int64(w.chunks.elements())*more + int64(len(w.bitmaps))*bitset
		children += int64(w.kids.elements()) * kid
		private += int64(unsafe.Sizeof(*w)) + int64(cap(w.ranks))*8 + int64(cap(w.blocks))*int64(unsafe.Sizeof(storedBlock{})) + int64(cap(w.held))*4
		for _, r := range w.ranks {
			if r != nil {
				private += int64(unsafe.Sizeof(rank{})) + r.names.bytes() + r.more.bytes()
			}
		}
	}
	return []indexer.MemoryPart{
		{Name: "edges", Bytes: edges},
		{Name: "nodes", Bytes: nodes},
		{Name: "holders", Bytes: holders},
		{Name: "children", Bytes: children},
		{Name: "names", Bytes: private},
		{Name: "fixed", Bytes: int64(unsafe.Sizeof(Index{}))},
	}
}
