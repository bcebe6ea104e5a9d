package crtc

import (
	"fmt"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
)

// names is the lookup map of one rank, from sequence hash to position: open
// addressing, linear probing, deletion by moving back. All 2^64 hashes are keys;
// position 0 marks a free cell. (A rank's second table, from positions to counts,
// which are not 0 either, is one of these too.)
type names struct {
	cells []name
	used  int
}

// name is 12 bytes, as two halves of the sequence hash would be aligned.
type name struct {
	low, high uint32
	at        position
}

func (c *name) sequence() uint64 { return uint64(c.high)<<32 | uint64(c.low) }

const minNames = 16

// home is where probing for a hash starts: the product's high bits, which all
// bits of the hash reach after the fold.
func (n *names) home(sequence uint64) int {
	z := (sequence ^ sequence>>32) * 0x9e3779b97f4a7c15
	return int(z^z>>29) >> 7 & (len(n.cells) - 1)
}

// find returns the cell of a sequence hash, -1 if it has none.
func (n *names) find(sequence uint64) int {
	if n.used == 0 {
		return -1
	}
	for i := n.home(sequence); ; i = (i + 1) & (len(n.cells) - 1) {
		c := &n.cells[i]
		if c.at == 0 {
			return -1
		}
		if c.sequence() == sequence {
			return i
		}
	}
}

// get returns the position of a sequence hash, 0 if it has none.
func (n *names) get(sequence uint64) position {
	if i := n.find(sequence); i >= 0 {
		return n.cells[i].at
	}
	return 0
}

// reserve makes room for so many more, after which put moves no cell.
func (n *names) reserve(more int) {
	if 4*(n.used+more) <= 3*len(n.cells) {
		return
	}
	size := max(minNames, len(n.cells))
	for 4*(n.used+more) > 3*size {
		size *= 2
	}
	n.resize(size)
}

// ahead is how many cells are fetched at a time.
const ahead = 16

// fetch loads the cells in which probing for some hashes starts. Nothing in the
// loop waits for what was loaded, so the cache misses overlap; those of one probe
// after another would not, as every probe ends in a branch that cannot be
// foretold. What it returns keeps the loads from being left out.
func (n *names) fetch(sequences []indexer.SequenceHash) (sum position) {
	if len(n.cells) == 0 {
		return 0
	}
	for _, s := range sequences[:min(len(sequences), ahead)] {
		sum += n.cells[n.home(uint64(s))].at
	}
	return sum
}

// put returns the cell of a sequence hash and the position that it had; one that
// had none gets at. There must be room.
func (n *names) put(sequence uint64, at position) (cell int, had position) {
	for i := n.home(sequence); ; i = (i + 1) & (len(n.cells) - 1) {
		c := &n.cells[i]
		if c.at == 0 {
			*c = name{uint32(sequence), uint32(sequence >> 32), at}
			n.used++
			return i, 0
		}
		if c.sequence() == sequence {
			return i, c.at
		}
	}
}

// take removes a sequence hash and returns its position, 0 if it had none.
func (n *names) take(sequence uint64) position {
	hole := n.find(sequence)
	if hole < 0 {
		return 0
	}
	at := n.cells[hole].at
	mask := len(n.cells) - 1
	for i := (hole + 1) & mask; n.cells[i].at != 0; i = (i + 1) & mask {
		// A cell may move back if its home does not lie in between.
		if (i-n.home(n.cells[i].sequence()))&mask >= (i-hole)&mask {
			n.cells[hole] = n.cells[i]
			hole = i
		}
	}
	n.cells[hole] = name{}
	n.used--
	if len(n.cells) > minNames && 8*n.used < len(n.cells) {
		n.resize(len(n.cells) / 2)
	}
	return at
}

func (n *names) resize(size int) {
	old := n.cells
	n.cells = make([]name, size)
	n.used = 0
	for i := range old {
		if c := &old[i]; c.at != 0 {
			n.put(c.sequence(), c.at)
		}
	}
}

func (n *names) bytes() int64 { return int64(cap(n.cells)) * int64(unsafe.Sizeof(name{})) }

// check verifies that every key can be found and the count is right.
func (n *names) check() error {
	used := 0
	for i := range n.cells {
		c := &n.cells[i]
		if c.at == 0 {
			continue
		}
		used++
		if n.find(c.sequence()) != i {
			return fmt.Errorf("key %x cannot be found", c.sequence())
		}
	}
	if used != n.used {
		return fmt.Errorf("%d keys, the count says %d", used, n.used)
	}
	return nil
}
