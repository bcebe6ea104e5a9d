package positional

import "unsafe"

// table maps 64-bit keys, all of which are valid, to values: open addressing,
// linear probing, deletion by moving back. A cell with the zero value is free, so
// whoever leaves a zero value behind must remove the cell before anything else.
type table[V comparable] struct {
	cells []cell[V]
	used  int
}

type cell[V comparable] struct {
	key   uint64
	value V
}

// minCells is the size of the smallest table with content.
const minCells = 16

func (c *cell[V]) free() bool {
	var zero V
	return c.value == zero
}

// home is where probing for a key starts. Keys that the engine makes need not be
// spread at all.
func (t *table[V]) home(key uint64) int { return int(mix(tableSeed, key)) & (len(t.cells) - 1) }

// find returns the cell of a key, -1 if it has none.
func (t *table[V]) find(key uint64) int {
	if t.used == 0 {
		return -1
	}
	for i := t.home(key); ; i = (i + 1) & (len(t.cells) - 1) {
		if c := &t.cells[i]; c.free() {
			return -1
		} else if c.key == key {
			return i
		}
	}
}

// get returns the value of a key, zero if it has none.
func (t *table[V]) get(key uint64) V {
	if i := t.find(key); i >= 0 {
		return t.cells[i].value
	}
	var zero V
	return zero
}

// put returns the value of a key for the caller to change, zero if the key is new:
// then the caller must make it something else. The pointer is good until the next
// call.
func (t *table[V]) put(key uint64) *V {
	if 4*(t.used+1) > 3*len(t.cells) {
		t.resize(max(minCells, 2*len(t.cells)))
	}
	for i := t.home(key); ; i = (i + 1) & (len(t.cells) - 1) {
		c := &t.cells[i]
		if c.free() {
			c.key = key
			t.used++
			return &c.value
		}
		if c.key == key {
			return &c.value
		}
	}
}

// remove frees a cell, whatever its value is by now.
func (t *table[V]) remove(hole int) {
	mask := len(t.cells) - 1
	t.cells[hole] = cell[V]{}
	t.used--
	for i := (hole + 1) & mask; !t.cells[i].free(); i = (i + 1) & mask {
		// A cell may move back if its home does not lie in between.
		if (i-t.home(t.cells[i].key))&mask >= (i-hole)&mask {
			t.cells[hole], t.cells[i] = t.cells[i], cell[V]{}
			hole = i
		}
	}
	if len(t.cells) > minCells && 8*t.used < len(t.cells) {
		t.resize(len(t.cells) / 2)
	}
}

func (t *table[V]) resize(size int) {
	old := t.cells
	t.cells = make([]cell[V], size)
	for _, c := range old {
		if c.free() {
			continue
		}
		i := t.home(c.key)
		for !t.cells[i].free() {
			i = (i + 1) & (size - 1)
		}
		t.cells[i] = c
	}
}

func (t *table[V]) bytes() int64 { return int64(cap(t.cells)) * int64(unsafe.Sizeof(cell[V]{})) }
