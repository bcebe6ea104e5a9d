package runs

// table maps a word to a word, without pointers: open addressing, linear
// probing, deletion by moving back. A value is never 0, which marks a free cell.
type table struct {
	cells []cell
	used  int
}

type cell struct{ key, value uint64 }

const minTable = 8

func (t *table) home(key uint64) int {
	h := (key ^ key>>32) * 0x9e3779b97f4a7c15
	return int((h ^ h>>29) & uint64(len(t.cells)-1))
}

// get returns the value of a key, 0 if it has none.
func (t *table) get(key uint64) uint64 {
	if t.used == 0 {
		return 0
	}
	for i := t.home(key); t.cells[i].value != 0; i = (i + 1) & (len(t.cells) - 1) {
		if t.cells[i].key == key {
			return t.cells[i].value
		}
	}
	return 0
}

// add gives a value to a key that has none.
func (t *table) add(key, value uint64) {
	if 4*(t.used+1) > 3*len(t.cells) {
		t.resize(max(minTable, 2*len(t.cells)))
	}
	t.used++
	t.place(cell{key, value})
}

func (t *table) place(c cell) {
	i := t.home(c.key)
	for t.cells[i].value != 0 {
		i = (i + 1) & (len(t.cells) - 1)
	}
	t.cells[i] = c
}

func (t *table) resize(n int) {
	old := t.cells
	t.cells = make([]cell, n)
	for _, c := range old {
		if c.value != 0 {
			t.place(c)
		}
	}
}

// take removes a key and returns the value that it had, 0 if none.
func (t *table) take(key uint64) uint64 {
	if t.used == 0 {
		return 0
	}
	mask := len(t.cells) - 1
	hole := t.home(key)
	for ; t.cells[hole].key != key || t.cells[hole].value == 0; hole = (hole + 1) & mask {
		if t.cells[hole].value == 0 {
			return 0
		}
	}
	value := t.cells[hole].value
	for i := (hole + 1) & mask; t.cells[i].value != 0; i = (i + 1) & mask {
		// A cell may move back if its home does not lie in between.
		if (i-t.home(t.cells[i].key))&mask >= (i-hole)&mask {
			t.cells[hole], hole = t.cells[i], i
		}
	}
	t.cells[hole] = cell{}
	t.used--
	if len(t.cells) > minTable && 8*t.used < len(t.cells) {
		t.resize(len(t.cells) / 2)
	}
	return value
}
