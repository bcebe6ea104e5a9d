package radix

import "unsafe"

// table is a Go map that is made again when it has become too large or too small
// for what it holds. The zero value is an empty table.
type table[K comparable, V any] struct {
	m    map[K]V
	room int // the slots of m: 0, or a power of two from minRoom
}

// minRoom is what the smallest Go map has room for, all of it in one group.
const minRoom = 8

// limit is how many entries the map may have. Go doubles one by itself when
// entries and traces of removed ones fill seven eighths. If entries fill at most
// five, enough is left for the traces to be swept in time.
func (t *table[K, V]) limit() int {
	if t.room <= minRoom {
		return t.room
	}
	return t.room / 8 * 5
}

func (t *table[K, V]) len() int { return len(t.m) }

// get returns the value of a key, the zero value if it has none.
func (t *table[K, V]) get(key K) V { return t.m[key] }

func (t *table[K, V]) has(key K) bool {
	_, ok := t.m[key]
	return ok
}

// put sets the value of a key.
func (t *table[K, V]) put(key K, value V) {
	if len(t.m) >= t.limit() {
		t.resize(max(minRoom, 2*t.room))
	}
	t.m[key] = value
}

// remove takes a key out, if it is there.
func (t *table[K, V]) remove(key K) {
	delete(t.m, key)
	if t.room > minRoom && len(t.m) < t.room/8 {
		t.resize(t.room / 2)
	}
}

func (t *table[K, V]) resize(room int) {
	old := t.m
	// Go makes a map with eight slots for every seven entries asked for.
	t.m, t.room = make(map[K]V, max(minRoom, room/8*7)), room
	for key, value := range old {
		t.m[key] = value
	}
}

// The parts of a Go map, from internal/runtime/maps: a header; beyond minRoom
// slots a directory of tables of at most tableSlots; slots in groups of eight
// with one word.
const (
	mapHeader  = 48
	tableSize  = 32
	tableSlots = 1024
)

// bytes returns the memory of the table, by what Go's maps are known to have. It
// may be too low by a quarter for one that stays as full as it may be for long.
func (t *table[K, V]) bytes() int64 {
	if t.room == 0 {
		return 0
	}
	var slot struct {
		key   K
		value V
	}
	group := 8 + 8*int64(unsafe.Sizeof(slot))
	if t.room <= minRoom {
		return mapHeader + allocated(group)
	}
	tables := int64(max(1, t.room/tableSlots))
	return mapHeader + tables*(8+tableSize+allocated(group*int64(min(t.room, tableSlots)/8)))
}

// allocated returns what the allocator takes for n bytes. Its size classes are
// about sixteenths of powers of two.
func allocated(n int64) int64 {
	step := int64(16)
	for step*16 < n {
		step *= 2
	}
	return (n + step - 1) / step * step
}
