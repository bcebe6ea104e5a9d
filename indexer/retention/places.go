package retention

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
)

// none stands for no place, copy or lease in links.
const none = -1

// seed is the parent's name of a first block.
const seed = 0x72657461696e6564

// mix spreads two words over one: the finaliser of SplitMix64 (Steele, Lea and
// Flood, 2014) over their sum. It is a bijection of b.
func mix(a, b uint64) uint64 {
	z := a*0xff51afd7ed558ccd + b + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// place is a block in its prefix that the rank holds, or a free entry, of which
// only parent counts: the next free one.
type place struct {
	name   indexer.SequenceHash
	local  indexer.LocalHash
	parent int32 // none: the block starts a prompt
	depth  int32 // blocks before it
}

// places finds the places of a rank by their names: an open-addressed table with
// linear probing and no tombstones, over entries that stay where they are.
type places struct {
	mix   func(parent, local uint64) uint64 // mix, but for tests of collisions
	list  []place
	free  int32
	held  int
	table []int32 // of entries + 1, by name; a power of two, at most 3/4 full
}

func newPlaces() places { return places{mix: mix, free: none} }

// name returns the name of the block with this local hash behind parent.
func (p *places) name(parent int32, local indexer.LocalHash) indexer.SequenceHash {
	before := uint64(seed)
	if parent != none {
		before = uint64(p.list[parent].name)
	}
	return indexer.SequenceHash(p.mix(before, uint64(local)))
}

// find returns the place of a name, or none.
func (p *places) find(name indexer.SequenceHash) int32 {
	if len(p.table) == 0 {
		return none
	}
	mask := uint64(len(p.table) - 1)
	for i := uint64(name) & mask; ; i = (i + 1) & mask {
		id := p.table[i] - 1
		if id == none || p.list[id].name == name {
			return id
		}
	}
}

// add makes a place of a name that has none.
func (p *places) add(name indexer.SequenceHash, parent int32, local indexer.LocalHash) int32 {
	if 4*(p.held+1) > 3*len(p.table) {
		p.grow()
	}
	id := p.free
	if id == none {
		id = int32(len(p.list))
		p.list = append(p.list, place{})
	} else {
		p.free = p.list[id].parent
	}
	depth := int32(0)
	if parent != none {
		depth = p.list[parent].depth + 1
	}
	p.list[id] = place{name: name, local: local, parent: parent, depth: depth}
	p.held++
	p.put(id)
	return id
}

// put enters a place that is not in the table.
func (p *places) put(id int32) {
	mask := uint64(len(p.table) - 1)
	i := uint64(p.list[id].name) & mask
	for p.table[i] != 0 {
		i = (i + 1) & mask
	}
	p.table[i] = id + 1
}

func (p *places) grow() {
	old := p.table
	p.table = make([]int32, max(16, 2*len(old)))
	for _, e := range old {
		if e != 0 {
			p.put(e - 1)
		}
	}
}

// remove takes a place away.
func (p *places) remove(id int32) {
	mask := uint64(len(p.table) - 1)
	i := uint64(p.list[id].name) & mask
	for p.table[i] != id+1 {
		i = (i + 1) & mask
	}
	// Entries behind the gap move into it if their way from where they belong
	// leads over it.
	for j := i; ; {
		j = (j + 1) & mask
		e := p.table[j]
		if e == 0 {
			break
		}
		home := uint64(p.list[e-1].name) & mask
		if (j-home)&mask >= (j-i)&mask {
			p.table[i] = e
			i = j
		}
	}
	p.table[i] = 0
	p.list[id] = place{parent: p.free}
	p.free = id
	p.held--
}

// clear takes all places away.
func (p *places) clear() {
	p.list, p.free, p.held = p.list[:0], none, 0
	clear(p.table)
}

// match appends the places of the leading blocks that are held behind parent to
// path. It stops at a collision too, which extend then meets again.
func (p *places) match(parent int32, blocks []indexer.LocalHash, path []int32) []int32 {
	for _, local := range blocks {
		id := p.find(p.name(parent, local))
		if id == none || p.list[id].parent != parent || p.list[id].local != local {
			break
		}
		path = append(path, id)
		parent = id
	}
	return path
}

// check verifies the table, and that each place's parent is held.
func (p *places) check() error {
	freed := map[int32]bool{}
	for id := p.free; id != none; id = p.list[id].parent {
		if freed[id] {
			return fmt.Errorf("free place %d twice", id)
		}
		freed[id] = true
	}
	if len(p.list) != p.held+len(freed) {
		return fmt.Errorf("%d places, %d held and %d free", len(p.list), p.held, len(freed))
	}
	entries := 0
	for _, e := range p.table {
		if e != 0 {
			entries++
		}
	}
	if entries != p.held || 4*p.held > 3*len(p.table) {
		return fmt.Errorf("%d entries in a table of %d for %d places", entries, len(p.table), p.held)
	}
	for i := range p.list {
		id, pl := int32(i), &p.list[i]
		if freed[id] {
			continue
		}
		if at := p.find(pl.name); at != id {
			return fmt.Errorf("place %d is %+v, and %d is found under its name", id, *pl, at)
		}
		depth := int32(0)
		if pl.parent != none {
			if int(pl.parent) >= len(p.list) || freed[pl.parent] {
				return fmt.Errorf("place %d is %+v, its parent is not held", id, *pl)
			}
			depth = p.list[pl.parent].depth + 1
		}
		if pl.depth != depth || pl.name != p.name(pl.parent, pl.local) {
			return fmt.Errorf("place %d is %+v, which its parent contradicts", id, *pl)
		}
	}
	return nil
}

// bytes returns the memory of the places.
func (p *places) bytes() int64 { return 24*int64(cap(p.list)) + 4*int64(cap(p.table)) }
