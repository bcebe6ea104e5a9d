package sglang

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
)

// root is the node without pages that all others hang below. It is never evicted.
const root = 0

// tree is a radix tree of pages. A node has a run of pages, at least one; where a
// prompt leaves a run, or ends in it, the node is split.
//
// Requests lock the nodes from theirs up to the root. What is not locked can be
// evicted, leaves first: the one whose last use is longest ago, as a whole.
type tree struct {
	nodes   []node
	unused  []int32
	byFirst map[indexer.SequenceHash]int32 // a node by its first page; a sequence hash names a path
	clock   uint64                         // uses
	leaves  leafHeap                       // with entries that no longer hold
	pages   int                            // of all nodes
	idle    int                            // of the nodes that nobody locks

	now    int64 // virtual time, kept up to date by the engine
	since  int64 // sum over the pages that are there of when they came
	cached int64 // page-ns of those that are gone, less when they came
	dead   int64 // page-ns of those that are gone, after they were locked last
}

// residency returns for how long pages were there until a time, in page-ns, and for
// how long of it nobody locked them any more.
func (t *tree) residency(until int64) (cached, dead int64) {
	cached, dead = t.cached+int64(t.pages)*until-t.since, t.dead
	for i := range t.nodes {
		if n := &t.nodes[i]; n.live && n.locks == 0 {
			dead += int64(len(n.sequences)) * (until - n.idleSince)
		}
	}
	return cached, dead
}

type node struct {
	parent    int32
	children  int32
	locks     int32
	live      bool
	used      uint64
	idleSince int64 // if nobody locks it
	sequences []indexer.SequenceHash
}

func newTree() *tree {
	return &tree{nodes: []node{{parent: -1, locks: 1, live: true}}, byFirst: map[indexer.SequenceHash]int32{}}
}

// depth returns how many leading pages are in the tree. It changes nothing.
func (t *tree) depth(pages []indexer.SequenceHash) int {
	i := 0
	for i < len(pages) {
		at, ok := t.byFirst[pages[i]]
		if !ok {
			break
		}
		n := common(t.nodes[at].sequences, pages[i:])
		i += n
		if n < len(t.nodes[at].sequences) {
			break
		}
	}
	return i
}

// match walks down pages as far as they are in the tree, which counts as a use,
// and splits the node in which that ends. It returns the node that ends there.
func (t *tree) match(pages []indexer.SequenceHash) (at int32, depth int) {
	t.clock++
	at = root
	for depth < len(pages) {
		child, ok := t.byFirst[pages[depth]]
		if !ok {
			break
		}
		n := common(t.nodes[child].sequences, pages[depth:])
		if n < len(t.nodes[child].sequences) {
			child = t.split(child, n)
		}
		t.use(child)
		depth += n
		at = child
	}
	return at, depth
}

func common(a, b []indexer.SequenceHash) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func (t *tree) use(at int32) {
	n := &t.nodes[at]
	n.used = t.clock
	t.offer(at)
}

// offer makes a node known to eviction if it can be evicted.
func (t *tree) offer(at int32) {
	n := &t.nodes[at]
	if n.locks == 0 && n.children == 0 {
		if len(t.leaves) > 64+4*len(t.nodes) {
			t.tidy()
		}
		t.leaves.push(leaf{n.used, at})
	}
}

// evictable says whether an entry of the heap still holds.
func (t *tree) evictable(l leaf) bool {
	n := &t.nodes[l.node]
	return n.live && n.locks == 0 && n.children == 0 && n.used == l.used && l.node != root
}

// tidy drops entries of the heap that no longer hold, and doubles.
func (t *tree) tidy() {
	old := t.leaves
	t.leaves = nil
	seen := make(map[int32]bool, len(t.nodes))
	for _, l := range old {
		if t.evictable(l) && !seen[l.node] {
			seen[l.node] = true
			t.leaves.push(l)
		}
	}
}

func (t *tree) place() int32 {
	if n := len(t.unused); n > 0 {
		at := t.unused[n-1]
		t.unused = t.unused[:n-1]
		return at
	}
	t.nodes = append(t.nodes, node{})
	return int32(len(t.nodes) - 1)
}

// split cuts a node behind its first n pages: these become a new node above it,
// with the locks that it has, as whoever locks it locks all above it.
func (t *tree) split(at int32, n int) int32 {
	upper := t.place()
	lower := &t.nodes[at]
	u := &t.nodes[upper]
	*u = node{parent: lower.parent, children: 1, locks: lower.locks, live: true, used: lower.used, idleSince: lower.idleSince, sequences: append(u.sequences[:0], lower.sequences[:n]...)}
	rest := copy(lower.sequences, lower.sequences[n:])
	lower.sequences = lower.sequences[:rest]
	lower.parent = upper
	t.byFirst[u.sequences[0]] = upper
	t.byFirst[lower.sequences[0]] = at
	return upper
}

// insert adds pages, of which depth are in the tree already and end with node at.
func (t *tree) insert(at int32, depth int, pages []indexer.SequenceHash) int32 {
	if depth == len(pages) {
		return at
	}
	child := t.place()
	n := &t.nodes[child]
	*n = node{parent: at, live: true, used: t.clock, idleSince: t.now, sequences: append(n.sequences[:0], pages[depth:]...)}
	t.nodes[at].children++
	t.byFirst[pages[depth]] = child
	t.pages += len(n.sequences)
	t.idle += len(n.sequences)
	t.since += int64(len(n.sequences)) * t.now
	t.offer(child)
	return child
}

func (t *tree) lock(at int32) {
	for ; at != root; at = t.nodes[at].parent {
		n := &t.nodes[at]
		if n.locks == 0 {
			t.idle -= len(n.sequences)
		}
		n.locks++
	}
}

func (t *tree) unlock(at int32) {
	for ; at != root; at = t.nodes[at].parent {
		n := &t.nodes[at]
		n.locks--
		if n.locks == 0 {
			t.idle += len(n.sequences)
			n.idleSince = t.now
			t.offer(at)
		}
	}
}

// evict takes whole leaves out until at least pages are, if there are so many,
// and tells each with its pages from its root side on.
func (t *tree) evict(pages int, gone func([]indexer.SequenceHash)) {
	for pages > 0 && len(t.leaves) > 0 {
		l := t.leaves.pop()
		if !t.evictable(l) {
			continue
		}
		n := &t.nodes[l.node]
		delete(t.byFirst, n.sequences[0])
		pages -= len(n.sequences)
		t.pages -= len(n.sequences)
		t.idle -= len(n.sequences)
		t.cached += int64(len(n.sequences)) * t.now
		t.dead += int64(len(n.sequences)) * (t.now - n.idleSince)
		gone(n.sequences)
		parent := n.parent
		*n = node{sequences: n.sequences[:0]}
		t.unused = append(t.unused, l.node)
		t.nodes[parent].children--
		t.offer(parent)
	}
}

// check verifies the tree and returns the first violation. Locks of the requests
// are given by their nodes.
func (t *tree) check(locked []int32) error {
	locks := make([]int32, len(t.nodes))
	for _, at := range locked {
		for ; at != root; at = t.nodes[at].parent {
			locks[at]++
		}
	}
	children := make([]int32, len(t.nodes))
	offered := make([]bool, len(t.nodes))
	for _, l := range t.leaves {
		if t.evictable(l) {
			offered[l.node] = true
		}
	}
	pages, idle, live := 0, 0, 0
	for at := 1; at < len(t.nodes); at++ {
		n := &t.nodes[at]
		if !n.live {
			continue
		}
		live++
		if len(n.sequences) == 0 || n.locks != locks[at] || !t.nodes[n.parent].live {
			return fmt.Errorf("sglang: node %d is %+v, with %d locks below a node that lives: %v", at, *n, locks[at], t.nodes[n.parent].live)
		}
		if found, ok := t.byFirst[n.sequences[0]]; !ok || found != int32(at) {
			return fmt.Errorf("sglang: node %d is found as %d, %v", at, found, ok)
		}
		children[n.parent]++
		pages += len(n.sequences)
		if n.locks == 0 {
			idle += len(n.sequences)
		}
	}
	for at := range t.nodes {
		n := &t.nodes[at]
		if n.live && n.children != children[at] {
			return fmt.Errorf("sglang: node %d has %d children, counted as %d", at, children[at], n.children)
		}
		if at != root && n.live && n.locks == 0 && n.children == 0 && !offered[at] {
			return fmt.Errorf("sglang: node %d can be evicted and is not known to eviction", at)
		}
	}
	if pages != t.pages || idle != t.idle || live != len(t.byFirst) || live+len(t.unused)+1 != len(t.nodes) {
		return fmt.Errorf("sglang: %d pages, %d idle, %d nodes; counted as %d, %d, %d", pages, idle, live, t.pages, t.idle, len(t.byFirst))
	}
	return nil
}

// leaf is a node that could be evicted when it was last used.
type leaf struct {
	used uint64
	node int32
}

func (l leaf) before(o leaf) bool { return l.used < o.used || l.used == o.used && l.node < o.node }

// leafHeap is a binary heap of leaves, the one to evict next first.
type leafHeap []leaf

func (h *leafHeap) push(l leaf) {
	*h = append(*h, l)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s[i].before(s[parent]) {
			break
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

func (h *leafHeap) pop() leaf {
	s := *h
	top := s[0]
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(s) {
			return top
		}
		if child+1 < len(s) && s[child+1].before(s[child]) {
			child++
		}
		if !s[child].before(s[i]) {
			return top
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}
