package crtc

import (
	"github.com/kvbench/kvbench/indexer"
)

// maxEdge is the longest edge in blocks. It bounds what a split has to move.
const maxEdge = 512

// node is a compressed edge, who holds its blocks, and what follows its last
// block. A root has no edge and no holders. All but the lock is read and written
// under the lock.
//
// It is three cache lines: what every visit needs, then the holders, then the
// children.
type node struct {
	rwLock
	number uint32
	// start is the position of the first block, 0 for a root and for a node
	// that nothing leads to.
	start position
	// up is the position of the block before the first one, 0 below a root.
	up position
	// edge is the local hashes, with the room that there is for more.
	edge []uint64
	// partial is the ranks that hold some blocks, in no order; each is there at
	// most once and not in full.
	partial []partial

	// Ranks that hold all blocks of the edge: a bitset of the first slots, and
	// in order the chunks of further slots that have a bit set.
	full [inlineSlots / 64]uint64
	more []slotChunk
	slab *slab

	kids kids
}

func (n *node) isRoot() bool { return n.slab == nil }

// end is the position after the last block.
func (n *node) end() position { return n.start + position(len(n.edge)) }

func (n *node) empty() bool {
	return n.full == [inlineSlots / 64]uint64{} && len(n.more) == 0 && len(n.partial) == 0
}

// child is a node by the first local hash of its edge.
type child struct {
	local uint64
	node  *node
}

// kids is the children of a node: few are kept in place, more in a hash table.
type kids struct {
	n     int
	few   [2]child
	table []child // open addressing; a free cell has no node
}

const minKidTable = 8

func kidHome(local uint64, size int) int {
	z := (local ^ local>>32) * 0x9e3779b97f4a7c15
	return int(z>>32) & (size - 1)
}

func (k *kids) get(local uint64) *node {
	if k.table == nil {
		for i := range k.n {
			if k.few[i].local == local {
				return k.few[i].node
			}
		}
		return nil
	}
	for i := kidHome(local, len(k.table)); ; i = (i + 1) & (len(k.table) - 1) {
		if c := &k.table[i]; c.node == nil || c.local == local {
			return c.node
		}
	}
}

// only returns the only child of a node that has one.
func (k *kids) only() child {
	if k.table == nil {
		return k.few[0]
	}
	i := 0
	for k.table[i].node == nil {
		i++
	}
	return k.table[i]
}

func (k *kids) each(f func(child)) {
	if k.table == nil {
		for i := range k.n {
			f(k.few[i])
		}
		return
	}
	for _, c := range k.table {
		if c.node != nil {
			f(c)
		}
	}
}

// add adds a child that is not there yet.
func (k *kids) add(p *pool[child], c child) {
	if k.table == nil && k.n < len(k.few) {
		k.few[k.n] = c
		k.n++
		return
	}
	if k.table == nil || 4*(k.n+1) > 3*len(k.table) {
		k.resize(p, max(minKidTable, 2*len(k.table)))
	}
	k.insert(c)
	k.n++
}

func (k *kids) insert(c child) {
	i := kidHome(c.local, len(k.table))
	for k.table[i].node != nil {
		i = (i + 1) & (len(k.table) - 1)
	}
	k.table[i] = c
}

func (k *kids) resize(p *pool[child], size int) {
	old := *k
	k.table = p.get(size)[:size]
	k.few = [2]child{}
	old.each(k.insert)
	p.put(old.table)
}

// remove removes a child that is there.
func (k *kids) remove(p *pool[child], local uint64) {
	if k.table == nil {
		i := 0
		for k.few[i].local != local {
			i++
		}
		k.n--
		k.few[i] = k.few[k.n]
		k.few[k.n] = child{}
		return
	}
	mask := len(k.table) - 1
	hole := kidHome(local, len(k.table))
	for k.table[hole].local != local || k.table[hole].node == nil {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; k.table[i].node != nil; i = (i + 1) & mask {
		if (i-kidHome(k.table[i].local, mask+1))&mask >= (i-hole)&mask {
			k.table[hole] = k.table[i]
			hole = i
		}
	}
	k.table[hole] = child{}
	k.n--
	switch {
	case k.n == 1:
		c := k.only()
		p.put(k.table)
		*k = kids{n: 1, few: [2]child{c}}
	case len(k.table) > minKidTable && 8*k.n < len(k.table):
		k.resize(p, len(k.table)/2)
	}
}

// common returns how many leading blocks an edge and a path share.
func common(edge []uint64, path []indexer.LocalHash) int {
	n := min(len(edge), len(path))
	edge, path = edge[:n], path[:n]
	for i, local := range edge {
		if local != uint64(path[i]) {
			return i
		}
	}
	return n
}
