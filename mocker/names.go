package mocker

import "github.com/kvbench/kvbench/indexer"

// names finds copies by their hash: the primary ones of a pool. It is a table
// with open addressing, which unlike a Go map stays as fast as it was under any
// number of removals: what follows a removed entry moves up. The hashes lie with
// the copies; a cell has a part of one, so that few others are looked at.
type names struct {
	cells []nameCell // a power of two, or empty
	used  int
}

type nameCell struct {
	spread uint32 // of the hash
	copy   int32  // number + 1; 0: empty
}

const leastNames = 64

// spread makes 32 bits of a hash that need not be spread itself (the constant is
// that of Knuth's multiplicative hashing).
func spread(h indexer.SequenceHash) uint32 {
	x := uint64(h) * 0x9e3779b97f4a7c15
	x ^= x >> 32
	return uint32((x * 0x9e3779b97f4a7c15) >> 32)
}

func (n *names) len() int { return n.used }

// find returns the copy with a hash, or none.
func (n *names) find(h indexer.SequenceHash, copies []copyState) int32 {
	if len(n.cells) == 0 {
		return none
	}
	key := spread(h)
	mask := uint32(len(n.cells) - 1)
	for i := key & mask; ; i = (i + 1) & mask {
		c := n.cells[i]
		if c.copy == 0 {
			return none
		}
		if c.spread == key && copies[c.copy-1].hash == h {
			return c.copy - 1
		}
	}
}

// insert adds a copy whose hash no other entry has.
func (n *names) insert(copy int32, copies []copyState) {
	if 2*(n.used+1) > len(n.cells) {
		n.grow()
	}
	n.put(nameCell{spread(copies[copy].hash), copy + 1})
	n.used++
}

func (n *names) put(c nameCell) {
	mask := uint32(len(n.cells) - 1)
	i := c.spread & mask
	for n.cells[i].copy != 0 {
		i = (i + 1) & mask
	}
	n.cells[i] = c
}

func (n *names) grow() {
	old := n.cells
	n.cells = make([]nameCell, max(leastNames, 2*len(old)))
	for _, c := range old {
		if c.copy != 0 {
			n.put(c)
		}
	}
}

// at returns the cell of a copy that is there.
func (n *names) at(copy int32, copies []copyState) uint32 {
	mask := uint32(len(n.cells) - 1)
	i := spread(copies[copy].hash) & mask
	for n.cells[i].copy != copy+1 {
		i = (i + 1) & mask
	}
	return i
}

// replace puts another copy of the same hash in the place of one that is there.
func (n *names) replace(copy, by int32, copies []copyState) {
	n.cells[n.at(copy, copies)].copy = by + 1
}

// remove takes out a copy that is there, before its hash changes.
func (n *names) remove(copy int32, copies []copyState) {
	i := n.at(copy, copies)
	mask := uint32(len(n.cells) - 1)
	for j := (i + 1) & mask; n.cells[j].copy != 0; j = (j + 1) & mask {
		// An entry may move up to i unless its own place lies behind i.
		if home := n.cells[j].spread & mask; (j-home)&mask >= (j-i)&mask {
			n.cells[i] = n.cells[j]
			i = j
		}
	}
	n.cells[i] = nameCell{}
	n.used--
}

// all calls f with each copy in the table, in no order of use.
func (n *names) all(f func(copy int32)) {
	for _, c := range n.cells {
		if c.copy != 0 {
			f(c.copy - 1)
		}
	}
}
