package policies

import (
	"fmt"
	"math"
)

// fanOut is the children of a node of a leastTree: eight fill two cache lines.
const fanOut = 8

// noKey is the key of a slot that does not take part.
const noKey = math.MaxInt64

// leastTree keeps a key for each slot and knows the least one, how many slots
// have it, and which is the j-th of them. A change costs a few nodes on the way to
// the root.
//
// Changes come in batches: any number of set, then settle. Between begin and
// revert they are for a while: revert takes them back.
type leastTree struct {
	// nodes has the leaves, one for each slot, then the levels above up to the
	// root, each filled up to a multiple of fanOut with nodes without a key.
	nodes  []leastNode
	levels []int // the first node of each level
	stamps []uint32
	stamp  uint32
	dirty  []uint32 // nodes of one level to compute anew, each once: those with the stamp
	above  []uint32 // room for those of the level above
	logged []loggedNode
	log    bool
}

// leastNode is the least key below and how many leaves have it.
type leastNode struct {
	key   int64
	count uint32
}

type loggedNode struct {
	node uint32
	was  leastNode
}

// build makes the tree of slots keys.
func (t *leastTree) build(slots int, key func(slot int) int64) {
	t.nodes, t.levels = t.nodes[:0], t.levels[:0]
	t.dirty, t.logged, t.log = t.dirty[:0], t.logged[:0], false
	fill := func() {
		for len(t.nodes)%fanOut != 0 {
			t.nodes = append(t.nodes, leastNode{noKey, 0})
		}
	}
	t.levels = append(t.levels, 0)
	for slot := range slots {
		t.nodes = append(t.nodes, leastNode{key(slot), 1})
	}
	fill()
	for from := 0; len(t.nodes)-from > fanOut; {
		to := len(t.nodes)
		t.levels = append(t.levels, to)
		for child := from; child < to; child += fanOut {
			t.nodes = append(t.nodes, t.least(child))
		}
		fill()
		from = to
	}
	if len(t.stamps) < len(t.nodes) {
		t.stamps, t.stamp = make([]uint32, len(t.nodes)), 1
	}
}

// least computes the node above the children from child on.
func (t *leastTree) least(child int) leastNode {
	c := (*[fanOut]leastNode)(t.nodes[child:])
	n := c[0]
	for i := 1; i < fanOut; i++ {
		switch {
		case c[i].key < n.key:
			n = c[i]
		case c[i].key == n.key:
			n.count += c[i].count
		}
	}
	return n
}

// root returns the least key and how many slots have it.
func (t *leastTree) root() leastNode { return t.least(t.levels[len(t.levels)-1]) }

// nth returns the slot with the j-th least key in the order of slots, from 0.
func (t *leastTree) nth(j uint32) int {
	level := len(t.levels) - 1
	key := t.root().key
	for child := t.levels[level]; ; {
		for {
			n := &t.nodes[child]
			if n.key == key {
				if j < n.count {
					break
				}
				j -= n.count
			}
			child++
		}
		if level == 0 {
			return child
		}
		child = t.levels[level-1] + (child-t.levels[level])*fanOut
		level--
	}
}

// key returns the key of a slot.
func (t *leastTree) key(slot int) int64 { return t.nodes[slot].key }

// set changes the key of a slot. The nodes above are right after settle.
func (t *leastTree) set(slot int, key int64) {
	if t.nodes[slot].key == key {
		return
	}
	t.write(uint32(slot), leastNode{key, 1})
	if len(t.levels) > 1 {
		t.dirty = t.mark(t.dirty, 0, uint32(slot))
	}
}

func (t *leastTree) write(node uint32, n leastNode) {
	if t.log {
		t.logged = append(t.logged, loggedNode{node, t.nodes[node]})
	}
	t.nodes[node] = n
}

// mark adds the parent of a node of a level to a list, if it is not there.
func (t *leastTree) mark(list []uint32, level int, node uint32) []uint32 {
	up := uint32(t.levels[level+1]) + (node-uint32(t.levels[level]))/fanOut
	if t.stamps[up] == t.stamp {
		return list
	}
	t.stamps[up] = t.stamp
	return append(list, up)
}

// settle makes the nodes above the changed leaves right.
func (t *leastTree) settle() {
	for level := 1; len(t.dirty) > 0; level++ {
		above := t.above[:0]
		for _, node := range t.dirty {
			child := t.levels[level-1] + (int(node)-t.levels[level])*fanOut
			if n := t.least(child); n != t.nodes[node] {
				t.write(node, n)
				if level+1 < len(t.levels) {
					above = t.mark(above, level, node)
				}
			}
		}
		t.dirty, t.above = above, t.dirty[:0]
	}
	if t.stamp++; t.stamp == 0 {
		clear(t.stamps)
		t.stamp = 1
	}
}

// begin lets what follows be taken back.
func (t *leastTree) begin() { t.log = true }

// revert takes back what was set and settled since begin.
func (t *leastTree) revert() {
	for i := len(t.logged) - 1; i >= 0; i-- {
		t.nodes[t.logged[i].node] = t.logged[i].was
	}
	t.logged, t.log = t.logged[:0], false
}

// check returns what is wrong with the tree, whose keys should be those given.
func (t *leastTree) check(keys []int64) error {
	if t.log || len(t.logged) > 0 || len(t.dirty) > 0 {
		return fmt.Errorf("a batch is under way")
	}
	for slot, key := range keys {
		if n := t.nodes[slot]; n != (leastNode{key, 1}) {
			return fmt.Errorf("slot %d is %+v, want key %d", slot, n, key)
		}
	}
	for level, from := range t.levels {
		to := len(t.nodes)
		if level+1 < len(t.levels) {
			to = t.levels[level+1]
		}
		used := len(keys)
		if level > 0 {
			used = (from - t.levels[level-1]) / fanOut
		}
		if want := (used + fanOut - 1) / fanOut * fanOut; to-from != want {
			return fmt.Errorf("level %d has %d nodes, want %d", level, to-from, want)
		}
		for node := from; node < to; node++ {
			want := leastNode{noKey, 0}
			switch {
			case node-from >= used:
			case level == 0:
				continue
			default:
				want = t.least(t.levels[level-1] + (node-from)*fanOut)
			}
			if t.nodes[node] != want {
				return fmt.Errorf("node %d of level %d is %+v, want %+v", node-from, level, t.nodes[node], want)
			}
		}
		if level+1 == len(t.levels) && to-from != fanOut {
			return fmt.Errorf("the last level has %d nodes", to-from)
		}
	}
	return nil
}
