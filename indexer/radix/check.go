package radix

import (
	"fmt"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
)

// Check implements indexer.Index: the tree and the live sets say the same, and no
// node is in the tree that nobody needs.
func (x *Index) Check() error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	type held struct {
		node *node
		slot indexer.Slot
	}
	names := map[held]uint32{}
	for slot := range x.live {
		live := &x.live[slot]
		if err := live.check(); err != nil {
			return fmt.Errorf("radix: slot %d: %w", slot, err)
		}
		for _, n := range live.m {
			names[held{n, indexer.Slot(slot)}]++
		}
	}
	nodes, pairs := 0, 0
	err := x.walk(func(n *node, depth int) error {
		nodes++
		if err := n.children.check(); err != nil {
			return fmt.Errorf("radix: a node's children: %w", err)
		}
		if err := n.names.check(); err != nil {
			return fmt.Errorf("radix: a node's ranks: %w", err)
		}
		for local, child := range n.children.m {
			if child.local != local || child.parent != n {
				return fmt.Errorf("radix: the child %x at depth %d has the hash %x or another parent", local, depth+1, child.local)
			}
		}
		if n == &x.root {
			if n.names.len() != 0 {
				return fmt.Errorf("radix: the root is held by %d ranks", n.names.len())
			}
			return nil
		}
		if n.names.len() == 0 && n.children.len() == 0 {
			return fmt.Errorf("radix: nobody needs the node %x at depth %d", n.local, depth)
		}
		for slot, count := range n.names.m {
			if want := names[held{n, slot}]; count != want || count == 0 {
				return fmt.Errorf("radix: slot %d has %d names for a node at depth %d, its live set has %d", slot, count, depth, want)
			}
			pairs++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if nodes--; nodes != x.nodes {
		return fmt.Errorf("radix: %d nodes, the count says %d", nodes, x.nodes)
	}
	if pairs != len(names) {
		return fmt.Errorf("radix: the tree has %d pairs of a node and a rank, the live sets have %d", pairs, len(names))
	}
	spares := 0
	for n := x.spare; n != nil; n = n.parent {
		if spares++; spares > x.spares || n.names.len() != 0 || n.children.len() != 0 {
			return fmt.Errorf("radix: spare node %d of %d is in use", spares, x.spares)
		}
	}
	if spares != x.spares || spares > max(minSpares, x.nodes/8) {
		return fmt.Errorf("radix: %d spare nodes, the count says %d, with %d in use", spares, x.spares, x.nodes)
	}
	return nil
}

// check verifies that the map is not larger than its content calls for.
func (t *table[K, V]) check() error {
	if len(t.m) > t.limit() || t.room > minRoom && len(t.m) < t.room/8 {
		return fmt.Errorf("%d entries in a map with room for %d", len(t.m), t.room)
	}
	return nil
}

// walk calls f for every node with the number of blocks down to it, the root first.
func (x *Index) walk(f func(n *node, depth int) error) error {
	type step struct {
		node  *node
		depth int
	}
	for todo := []step{{&x.root, 0}}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if err := f(s.node, s.depth); err != nil {
			return err
		}
		for _, child := range s.node.children.m {
			todo = append(todo, step{child, s.depth + 1})
		}
	}
	return nil
}

// Memory implements indexer.MemoryReporter. The maps are counted by what Go's are
// known to take, not asked, which nobody can.
func (x *Index) Memory() []indexer.MemoryPart {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var children, names, live int64
	count := func(n *node) {
		children += n.children.bytes()
		names += n.names.bytes()
	}
	x.walk(func(n *node, _ int) error {
		count(n)
		return nil
	})
	for n := x.spare; n != nil; n = n.parent {
		count(n)
	}
	for slot := range x.live {
		live += x.live[slot].bytes()
	}
	size := int64(unsafe.Sizeof(node{}))
	return []indexer.MemoryPart{
		{Name: "nodes", Bytes: size * int64(x.nodes+x.spares)},
		{Name: "children", Bytes: children},
		{Name: "ranks", Bytes: names},
		{Name: "names", Bytes: live + int64(cap(x.live))*int64(unsafe.Sizeof(table[indexer.SequenceHash, *node]{}))},
		{Name: "fixed", Bytes: int64(unsafe.Sizeof(Index{})) + int64(cap(x.stored))*8},
	}
}

// Shape implements indexer.ShapeReporter. A place that nobody holds is a block
// too while others hang below it.
func (x *Index) Shape() indexer.Shape {
	x.mu.RLock()
	defer x.mu.RUnlock()
	shape := indexer.Shape{Unit: "node"}
	x.walk(func(n *node, depth int) error {
		if n == &x.root {
			return nil
		}
		shape.Units++
		shape.Blocks++
		shape.MaxDepth = max(shape.MaxDepth, depth)
		shape.Holders += int64(n.names.len())
		shape.MaxHolders = max(shape.MaxHolders, n.names.len())
		return nil
	})
	return shape
}
