package hugepages

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"unsafe"
)

// MinTable is the size in bytes from which Make takes a table from a Heap. Smaller
// ones lie on the Go heap: most of a page would be empty.
const MinTable = 4 << 10

// classes are the sizes of which a region has several: MinTable, twice that, and so
// on, up to half a region.
const classes = 9

// Heap gives out tables of any size for Make and Free. Sizes up to half a region are
// rounded up to a power of two and come from a Pool for each; larger ones are mapped
// alone and go back to the system when they are freed.
// It may be used from any goroutine. The nil Heap stands for the Go heap.
type Heap struct {
	pools [classes]*Pool

	mu    sync.Mutex
	large map[unsafe.Pointer]region
}

// NewHeap returns an empty heap, or the error of New.
func NewHeap() (*Heap, error) {
	h := &Heap{large: map[unsafe.Pointer]region{}}
	for class := range h.pools {
		var err error
		if h.pools[class], err = New(MinTable << class); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Make returns n zero values, as make does. T must not have Go pointers. It panics
// where make would, if there is no memory.
func Make[T any](h *Heap, n int) []T {
	size := bytesOf[T](n)
	if h == nil || size < MinTable {
		return make([]T, n)
	}
	p, err := h.get(size)
	if err != nil {
		panic(fmt.Sprintf("hugepages: %v", err))
	}
	table := unsafe.Slice((*T)(p), n)
	clear(table)
	return table
}

// Free takes back what Make returned, with its whole capacity. Nobody may use it
// afterwards.
func Free[T any](h *Heap, table []T) {
	if OnHeap(h, table) {
		h.put(unsafe.Pointer(unsafe.SliceData(table)), bytesOf[T](cap(table)))
	}
}

// OnHeap says whether a table of Make's lies on the Heap, and not on the Go heap.
func OnHeap[T any](h *Heap, table []T) bool {
	return h != nil && bytesOf[T](cap(table)) >= MinTable
}

func bytesOf[T any](n int) int {
	var v T
	return n * int(unsafe.Sizeof(v))
}

// classOf returns the class of a size from MinTable on; beyond the last one: large.
func classOf(size int) int { return bits.Len(uint(size-1) / MinTable) }

func (h *Heap) get(size int) (unsafe.Pointer, error) {
	if class := classOf(size); class < classes {
		return h.pools[class].Get()
	}
	r, at, err := reserve((size + RegionBytes - 1) &^ (RegionBytes - 1))
	if err != nil {
		return nil, fmt.Errorf("%d bytes of memory for huge pages: %w", size, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.large[at] = r
	return at, nil
}

func (h *Heap) put(p unsafe.Pointer, size int) {
	if class := classOf(size); class < classes {
		h.pools[class].Put(p)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.large[p]
	if !ok {
		panic(fmt.Sprintf("hugepages: a table of %d bytes is freed that was not given out", size))
	}
	delete(h.large, p)
	if err := r.unmap(); err != nil {
		panic(fmt.Sprintf("hugepages: %v", err))
	}
}

// Bytes returns how much memory the heap has, free tables included, and how much of
// it the system has put on huge pages.
func (h *Heap) Bytes() (all, huge int64, err error) {
	var regions []region
	for _, p := range h.pools {
		p.mu.Lock()
		regions = p.appendRegions(regions)
		p.mu.Unlock()
	}
	h.mu.Lock()
	for _, r := range h.large {
		regions = append(regions, r)
	}
	h.mu.Unlock()
	for _, r := range regions {
		all += int64(r.size)
	}
	huge, err = onHugePages(regions)
	return all, huge, err
}

// Close gives all memory back. No table may be used afterwards.
func (h *Heap) Close() error {
	var errs []error
	for _, p := range h.pools {
		errs = append(errs, p.Close())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.large {
		errs = append(errs, r.unmap())
	}
	clear(h.large)
	return errors.Join(errs...)
}
