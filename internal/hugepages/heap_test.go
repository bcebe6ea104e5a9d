package hugepages

import (
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"
)

func newTestHeap(t *testing.T) *Heap {
	t.Helper()
	h, err := NewHeap()
	if err != nil {
		t.Skipf("no huge pages here: %v", err)
	}
	return h
}

// TestHeapAgainstGo lets tables of all sizes come and go, from several goroutines,
// and wants each to be zero at first and nobody else's afterwards.
func TestHeapAgainstGo(t *testing.T) {
	h := newTestHeap(t)
	type pair struct{ a, b uint32 }
	const pairs = 4 * RegionBytes / 8
	var wg sync.WaitGroup
	for g := range uint32(3) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			var tables [12][]pair
			for step := range uint32(200) {
				i := rng.IntN(len(tables))
				for k, v := range tables[i] {
					if v != (pair{g, uint32(i)}) {
						t.Errorf("goroutine %d, table %d of %d: element %d is %v", g, i, len(tables[i]), k, v)
						return
					}
				}
				Free(h, tables[i])
				n := rng.IntN(1 << rng.IntN(16))
				if step%64 == 0 {
					n = pairs/2 + rng.IntN(pairs/2)
				}
				tables[i] = Make[pair](h, n)
				if len(tables[i]) != n || cap(tables[i]) != n {
					t.Errorf("a table of %d and %d, want %d", len(tables[i]), cap(tables[i]), n)
				}
				for k := range tables[i] {
					if tables[i][k] != (pair{}) {
						t.Errorf("element %d of a new table is %v", k, tables[i][k])
						return
					}
					tables[i][k] = pair{g, uint32(i)}
				}
			}
			for _, table := range tables {
				Free(h, table)
			}
		})
	}
	wg.Wait()
	if n := len(h.large); n != 0 {
		t.Errorf("%d large tables are left", n)
	}
	all, huge, err := h.Bytes()
	if err != nil || huge < 0 || huge > all || all%RegionBytes != 0 || all == 0 {
		t.Errorf("%d bytes, %d on huge pages: %v", all, huge, err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// TestHeapSizes asks for the sizes at the borders of the classes.
func TestHeapSizes(t *testing.T) {
	h := newTestHeap(t)
	defer h.Close()
	for _, size := range []int{0, 1, MinTable - 1, MinTable, MinTable + 1, RegionBytes/2 - 1, RegionBytes / 2, RegionBytes/2 + 1, RegionBytes, RegionBytes + 1} {
		table := Make[byte](h, size)
		if got, want := OnHeap(h, table), size >= MinTable; got != want {
			t.Errorf("%d bytes are on the heap: %v", size, got)
		}
		if len(h.large) != 0 != (size > RegionBytes/2) {
			t.Errorf("%d bytes: %d large tables", size, len(h.large))
		}
		for i := range table {
			table[i] = 1
		}
		if size >= RegionBytes/2+1 && uintptr(unsafe.Pointer(&table[0]))%RegionBytes != 0 {
			t.Errorf("%d bytes do not begin where huge pages do", size)
		}
		Free(h, table)
	}
	all, _, err := h.Bytes()
	if want := int64(3 * RegionBytes); all != want || err != nil {
		t.Errorf("%d bytes are kept (%v), want %d, a region for each of three classes", all, err, want)
	}
	var none *Heap
	if table := Make[uint64](none, 1<<20); len(table) != 1<<20 || OnHeap(none, table) {
		t.Error("without a heap tables are not the Go heap's")
	}
}

// TestHeapIsUsedAgain: a table that was freed has the next one's memory.
func TestHeapIsUsedAgain(t *testing.T) {
	h := newTestHeap(t)
	defer h.Close()
	for range 100 {
		for size := MinTable; size <= 4*RegionBytes; size *= 2 {
			Free(h, Make[byte](h, size-5))
		}
	}
	if all, _, err := h.Bytes(); all > classes*RegionBytes || err != nil {
		t.Errorf("%d bytes are kept: %v", all, err)
	}
}
