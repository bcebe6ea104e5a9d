package analysis

import (
	"errors"
	"math/bits"
)

// tree holds all prefixes that prompts have had, as a trie in flat slices: a node
// is a path of block ids from the root, which is what a prefix cache knows. Node
// 0 is the root, the empty prefix; a node's number is above that of its parent.
//
// It takes 16 bytes a node and 5.3 to 10.7 of the table that finds children.
type tree struct {
	nodes []node
	table []uint32 // nodes by hash of (parent, id), linear probing; 0: free
}

// node is one block after another, in a line of the processor's cache.
type node struct {
	id     uint64
	parent uint32
	visits uint32 // requests that had the node; stays at its maximum
}

// maxNodes leaves room for more than twice as many slots in 32 bits: see stack.
const maxNodes = 1 << 30

var errTooManyBlocks = errors.New("the trace has more than 2^30 distinct blocks, which is more than can be described; take a slice of it")

func newTree() *tree {
	return &tree{nodes: make([]node, 1), table: make([]uint32, 1<<10)}
}

// len returns the number of nodes without the root.
func (t *tree) len() int { return len(t.nodes) - 1 }

// walk appends the nodes of a prompt's blocks to path, adding those that are new,
// and returns how many of them were known: the first ones.
func (t *tree) walk(ids []uint64, path []uint32) (nodes []uint32, known int, err error) {
	at := uint32(0)
	for i, id := range ids {
		next := t.child(at, id)
		if next != 0 {
			known = i + 1 // a known node has known parents
		} else if next, err = t.add(at, id); err != nil {
			return path, known, err
		}
		if n := &t.nodes[next]; n.visits != ^uint32(0) {
			n.visits++
		}
		path = append(path, next)
		at = next
	}
	return path, known, nil
}

// child returns the child of parent with the id, 0 if there is none.
func (t *tree) child(parent uint32, id uint64) uint32 {
	// Blocks that were new together have numbers in a row.
	if next := parent + 1; int(next) < len(t.nodes) && t.nodes[next].id == id && t.nodes[next].parent == parent {
		return next
	}
	return t.table[t.find(parent, id)]
}

// add adds a child that is not there yet.
func (t *tree) add(parent uint32, id uint64) (uint32, error) {
	if len(t.nodes) >= maxNodes {
		return 0, errTooManyBlocks
	}
	next := uint32(len(t.nodes))
	t.table[t.find(parent, id)] = next
	t.nodes = append(t.nodes, node{id: id, parent: parent})
	if len(t.nodes) > len(t.table)/4*3 {
		t.grow()
	}
	return next, nil
}

// find returns where the child of parent with the id is in the table, or where
// it belongs.
func (t *tree) find(parent uint32, id uint64) int {
	mask := len(t.table) - 1
	for at := int(mix(parent, id)) & mask; ; at = (at + 1) & mask {
		if n := t.table[at]; n == 0 || t.nodes[n].id == id && t.nodes[n].parent == parent {
			return at
		}
	}
}

func (t *tree) grow() {
	t.table = nil // free for the collector before the new one is made
	t.table = make([]uint32, 1<<bits.Len(uint(len(t.nodes))*4/3))
	for n := 1; n < len(t.nodes); n++ {
		t.table[t.find(t.nodes[n].parent, t.nodes[n].id)] = uint32(n)
	}
}

// mix hashes by a multiplication to 128 bits whose halves are folded.
func mix(parent uint32, id uint64) uint64 {
	hi, lo := bits.Mul64(id^0x9e3779b97f4a7c15, uint64(parent)*0xd6e8feb86659fd93^0xa0761d6478bd642f)
	hi, lo = bits.Mul64(hi^lo, 0xe7037ed1a0b428db)
	return hi ^ lo
}

// ids returns the number of distinct ids and of those that were referenced more
// than once.
func (t *tree) ids() (distinct, repeated int) {
	table := make([]uint32, 1<<bits.Len(uint(len(t.nodes))*4/3))
	more := make([]bool, len(t.nodes))
	mask := len(table) - 1
	for n := 1; n < len(t.nodes); n++ {
		at := int(mix(0, t.nodes[n].id)) & mask
		for table[at] != 0 && t.nodes[table[at]].id != t.nodes[n].id {
			at = (at + 1) & mask
		}
		first := table[at]
		if first == 0 {
			first = uint32(n)
			table[at] = first
			distinct++
		}
		if !more[first] && (int(first) != n || t.nodes[n].visits > 1) {
			more[first] = true
			repeated++
		}
	}
	return distinct, repeated
}

// Tree is the shape of the tree of prefixes: a node is a block after all blocks
// before it, and a child of the node before it.
type Tree struct {
	Nodes int `json:"nodes"`
	// Roots is the number of different first blocks, Leaves that of nodes without
	// children, Branches that of nodes with two or more.
	Roots       int `json:"roots"`
	Leaves      int `json:"leaves"`
	Branches    int `json:"branches"`
	MaxChildren int `json:"max_children"`
	// MeanChildren is of the nodes that have any, the root not included.
	MeanChildren float64 `json:"mean_children"`
	MaxDepth     int     `json:"max_depth_blocks"`
	// MeanLeafDepth is the mean number of blocks from the root to a leaf.
	MeanLeafDepth float64 `json:"mean_leaf_depth_blocks"`
	// SharedNodes is the number of nodes that two or more requests have, and
	// SharedReferences that of block references to them.
	SharedNodes          int     `json:"shared_nodes"`
	SharedNodeShare      float64 `json:"shared_node_share"`
	SharedReferences     int     `json:"shared_references"`
	SharedReferenceShare float64 `json:"shared_reference_share"`
	// TopRootRequests is the number of requests that begin with the most frequent
	// first block.
	TopRootRequests int `json:"top_root_requests"`
	// Levels are ranges of depths, each twice as long as the one before.
	Levels []Level `json:"levels"`
}

// Level is what the tree has from block FromDepth to block ToDepth of a prompt,
// counted from 1.
type Level struct {
	FromDepth   int `json:"from_depth_blocks"`
	ToDepth     int `json:"to_depth_blocks"`
	Nodes       int `json:"nodes"`
	SharedNodes int `json:"shared_nodes"`
	Branches    int `json:"branches"`
}

// shape describes the tree. references is the number of blocks that were walked.
func (t *tree) shape(references int) Tree {
	out := Tree{Nodes: t.len(), Levels: []Level{}}
	n := len(t.nodes)
	children, depth := make([]uint32, n), make([]uint32, n)
	for i := 1; i < n; i++ {
		children[t.nodes[i].parent]++
		depth[i] = depth[t.nodes[i].parent] + 1
		out.MaxDepth = max(out.MaxDepth, int(depth[i]))
	}
	out.Roots = int(children[0])
	for from := 1; from <= out.MaxDepth; from *= 2 {
		out.Levels = append(out.Levels, Level{FromDepth: from, ToDepth: min(2*from-1, out.MaxDepth)})
	}
	leafDepth := 0
	for i := 1; i < n; i++ {
		level := &out.Levels[bits.Len32(depth[i])-1]
		level.Nodes++
		if t.nodes[i].visits > 1 {
			out.SharedNodes++
			level.SharedNodes++
		}
		if depth[i] == 1 {
			out.TopRootRequests = max(out.TopRootRequests, int(t.nodes[i].visits))
		}
		switch c := int(children[i]); {
		case c == 0:
			out.Leaves++
			leafDepth += int(depth[i])
		case c > 1:
			out.Branches++
			level.Branches++
			fallthrough
		default:
			out.MaxChildren = max(out.MaxChildren, c)
		}
	}
	if out.Nodes > 0 {
		out.MeanLeafDepth = float64(leafDepth) / float64(out.Leaves)
		out.SharedNodeShare = float64(out.SharedNodes) / float64(out.Nodes)
	}
	if inner := out.Nodes - out.Leaves; inner > 0 {
		out.MeanChildren = float64(out.Nodes-out.Roots) / float64(inner)
	}
	if references > 0 {
		// All other nodes were referenced once.
		out.SharedReferences = references - (out.Nodes - out.SharedNodes)
		out.SharedReferenceShare = float64(out.SharedReferences) / float64(references)
	}
	return out
}
