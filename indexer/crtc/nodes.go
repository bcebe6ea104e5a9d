package crtc

import "math/bits"

const (
	chunkBits  = 6
	chunkNodes = 1 << chunkBits
)

// chunk is the memory of nodes. A node's number is that of the chunk and the
// place in it.
type chunk struct {
	heap       *nodeHeap
	prev, next *chunk // in the heap's list, if a node is free
	number     uint32
	free       uint64
	// The allocator of Go 1.22 and later puts 8 bytes before a value of this size,
	// so that 56 more let the nodes begin where cache lines do.
	_     [16]byte
	nodes [chunkNodes]node
}

// nodeHeap gives out nodes. Each event thread takes from a heap of its own;
// anyone may give back.
type nodeHeap struct {
	mu     rwLock
	x      *Index
	roomy  *chunk
	chunks int
	empty  int // chunks in the list without a node in use
}

func (x *Index) node(number uint32) *node {
	c := x.chunks.get(number >> chunkBits)
	return &c.nodes[number&(chunkNodes-1)]
}

func (h *nodeHeap) alloc() *node {
	h.mu.lock()
	defer h.mu.unlock()
	c := h.roomy
	if c == nil {
		c = &chunk{heap: h, free: ^uint64(0)}
		c.number = h.x.chunks.add(c)
		for i := range c.nodes {
			c.nodes[i].number = c.number<<chunkBits | uint32(i)
		}
		h.chunks++
		h.empty++
		h.roomy = c
	}
	if c.free == ^uint64(0) {
		h.empty--
	}
	i := bits.TrailingZeros64(c.free)
	c.free &^= 1 << i
	if c.free == 0 {
		h.remove(c)
	}
	return &c.nodes[i]
}

func (h *nodeHeap) remove(c *chunk) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		h.roomy = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}

// giveBack takes a node that nothing leads to. Its lock stays usable, for those
// that have been waiting for it.
func (x *Index) giveBack(n *node) {
	c := x.chunks.get(n.number >> chunkBits)
	h := c.heap
	h.mu.lock()
	defer h.mu.unlock()
	if c.free == 0 {
		c.next = h.roomy
		if c.next != nil {
			c.next.prev = c
		}
		h.roomy = c
	}
	c.free |= 1 << (n.number & (chunkNodes - 1))
	if c.free != ^uint64(0) {
		return
	}
	if h.empty < max(1, h.chunks/16) {
		h.empty++
		return
	}
	h.remove(c)
	h.chunks--
	h.x.chunks.drop(c.number)
}
