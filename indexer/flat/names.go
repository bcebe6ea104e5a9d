package flat

import (
	"unsafe"

	"github.com/kvbench/kvbench/internal/hugepages"
)

// names maps the sequence hashes of one rank to places: open addressing, linear
// probing, deletion by moving back. All 2^64 sequence hashes are keys; a place
// is never 0, so 0 marks a free cell. (A rank's second table, from places to
// counts, which are not 0 either, is one of these too.)
type names struct {
	cells []name
	used  int
	huge  *hugepages.Heap // where the cells are from; nil: the Go heap
}

type name struct{ sequence, place uint64 }

const minNames = 16

func (n *names) home(sequence uint64) int {
	return int(mix(nameSeed, sequence)) & (len(n.cells) - 1)
}

// get returns the place of a sequence hash, 0 if it has none.
func (n *names) get(sequence uint64) uint64 {
	if n.used == 0 {
		return 0
	}
	for i := n.home(sequence); ; i = (i + 1) & (len(n.cells) - 1) {
		c := &n.cells[i]
		if c.place == 0 || c.sequence == sequence {
			return c.place
		}
	}
}

// put gives a sequence hash its place unless it has one. It returns the place
// that it had, 0 if it had none.
func (n *names) put(sequence, place uint64) uint64 {
	if 4*(n.used+1) > 3*len(n.cells) {
		n.resize(max(minNames, 2*len(n.cells)))
	}
	for i := n.home(sequence); ; i = (i + 1) & (len(n.cells) - 1) {
		c := &n.cells[i]
		if c.place == 0 {
			*c = name{sequence, place}
			n.used++
			return 0
		}
		if c.sequence == sequence {
			return c.place
		}
	}
}

// take removes a sequence hash and returns its place, 0 if it had none.
func (n *names) take(sequence uint64) uint64 {
	if n.used == 0 {
		return 0
	}
	mask := len(n.cells) - 1
	hole := n.home(sequence)
	for ; n.cells[hole].place == 0 || n.cells[hole].sequence != sequence; hole = (hole + 1) & mask {
		if n.cells[hole].place == 0 {
			return 0
		}
	}
	place := n.cells[hole].place
	n.cells[hole] = name{}
	n.used--
	for i := (hole + 1) & mask; n.cells[i].place != 0; i = (i + 1) & mask {
		// A cell may move back if its home does not lie in between.
		if (i-n.home(n.cells[i].sequence))&mask >= (i-hole)&mask {
			n.cells[hole], n.cells[i] = n.cells[i], name{}
			hole = i
		}
	}
	if len(n.cells) > minNames && 8*n.used < len(n.cells) {
		n.resize(len(n.cells) / 2)
	}
	return place
}

// bytes returns what the names take of the Go heap.
func (n *names) bytes() int64 {
	if hugepages.OnHeap(n.huge, n.cells) {
		return 0
	}
	return int64(cap(n.cells)) * int64(unsafe.Sizeof(name{}))
}

// reset takes all names away.
func (n *names) reset() {
	hugepages.Free(n.huge, n.cells)
	n.cells, n.used = nil, 0
}

func (n *names) resize(size int) {
	old := n.cells
	n.cells = hugepages.Make[name](n.huge, size)
	mask := size - 1
	for _, c := range old {
		if c.place == 0 {
			continue
		}
		i := n.home(c.sequence)
		for n.cells[i].place != 0 {
			i = (i + 1) & mask
		}
		n.cells[i] = c
	}
	hugepages.Free(n.huge, old)
}
