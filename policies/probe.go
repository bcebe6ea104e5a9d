package policies

// probe is a hash table of references into a slab, with open addressing. Who
// owns the slab compares keys; 0 is no reference. After the table has had its
// largest number of entries nothing is allocated any more.
type probe struct {
	cells []cell // a power of two
	used  int
}

type cell struct {
	hash, ref uint32
}

const leastCells = 16

// reserve makes room for n entries.
func (t *probe) reserve(n int) {
	size := max(leastCells, len(t.cells))
	for n > size/4*3 {
		size *= 2
	}
	if size > len(t.cells) {
		t.resize(size)
	}
}

func (t *probe) resize(size int) {
	old := t.cells
	t.cells = make([]cell, size)
	for _, c := range old {
		if c.ref != 0 {
			t.put(c)
		}
	}
}

func (t *probe) put(c cell) {
	mask := uint32(len(t.cells) - 1)
	i := c.hash & mask
	for t.cells[i].ref != 0 {
		i = (i + 1) & mask
	}
	t.cells[i] = c
}

// insert adds an entry that is not there.
func (t *probe) insert(hash, ref uint32) {
	t.reserve(t.used + 1)
	t.put(cell{hash, ref})
	t.used++
}

// find returns the reference with this hash for which same is true, or 0.
func (t *probe) find(hash uint32, same func(ref uint32) bool) uint32 {
	if len(t.cells) == 0 {
		return 0
	}
	mask := uint32(len(t.cells) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		c := t.cells[i]
		if c.ref == 0 || c.hash == hash && same(c.ref) {
			return c.ref
		}
	}
}

// remove takes out an entry that is there. What follows it moves up, so that no
// mark of it stays.
func (t *probe) remove(hash, ref uint32) {
	mask := uint32(len(t.cells) - 1)
	i := hash & mask
	for t.cells[i].ref != ref {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; t.cells[j].ref != 0; j = (j + 1) & mask {
		// An entry may move up to i unless its own place lies behind i.
		if home := t.cells[j].hash & mask; (j-home)&mask >= (j-i)&mask {
			t.cells[i] = t.cells[j]
			i = j
		}
	}
	t.cells[i] = cell{}
	t.used--
}

// fold makes a hash for a probe of two words.
func fold(a, b uint64) uint32 { return uint32(mix64(mix64(a)^b) >> 32) }

// mix64 is the finaliser of MurmurHash3 (Appleby, public domain): a bijection
// whose output bits each depend on all input bits.
func mix64(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
