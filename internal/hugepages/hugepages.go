// Package hugepages gives out memory for which the system was asked for transparent
// huge pages, and says what it gave: a Pool has slabs of one size, a Heap tables of
// any. The memory is not the Go heap's: the collector neither scans nor frees it, so
// it must not hold Go pointers, and a Pool or Heap is closed by hand. It does not reserve pages beforehand (hugetlbfs), and it
// does not promise any: how many there are is known only by Bytes.
package hugepages

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// RegionBytes is the size and the alignment of what is asked of the system at a
// time: one huge page of the usual size.
const RegionBytes = 2 << 20

// Pool gives out slabs of one size. Its methods may be called from any goroutine.
type Pool struct {
	slab int

	mu      sync.Mutex
	regions map[uintptr]*slabs // by where they start
	roomy   []*slabs           // those with a free slab
	empty   int                // those without another
}

// slabs is a region of a pool.
type slabs struct {
	region
	at    unsafe.Pointer // its start
	free  []int32        // offsets of free slabs
	place int            // in the list of those with a free slab, if it has one
}

// region is memory of the system.
type region struct {
	mapped []byte // as mapped, with room for the alignment
	start  uintptr
	size   int // a multiple of RegionBytes, from start on
}

// New returns an empty pool of slabs of so many bytes, a divisor of RegionBytes. It
// is an error if this system never gives transparent huge pages, or does not let
// the process read what it gave.
func New(slab int) (*Pool, error) {
	if slab <= 0 || RegionBytes%slab != 0 {
		return nil, fmt.Errorf("slabs of %d bytes do not divide %d", slab, RegionBytes)
	}
	if err := available(); err != nil {
		return nil, err
	}
	return &Pool{slab: slab, regions: map[uintptr]*slabs{}}, nil
}

// Get returns a slab, aligned to its size up to a page. Its bytes have any value.
func (p *Pool) Get() (unsafe.Pointer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.roomy) == 0 {
		if err := p.grow(); err != nil {
			return nil, err
		}
	}
	r := p.roomy[len(p.roomy)-1]
	if len(r.free)*p.slab == RegionBytes {
		p.empty--
	}
	last := len(r.free) - 1
	off := r.free[last]
	r.free = r.free[:last]
	if last == 0 {
		p.leaveRoomy(r)
	}
	return unsafe.Add(r.at, off), nil
}

// Put takes a slab back that Get returned. Nobody may use it afterwards: a region
// whose slabs are all free goes back to the system, but for one, which is kept for
// the next that is needed.
func (p *Pool) Put(slab unsafe.Pointer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	start := uintptr(slab) &^ (RegionBytes - 1)
	r := p.regions[start]
	if r == nil {
		panic("hugepages: a slab is given back that is not of this pool")
	}
	r.free = append(r.free, int32(uintptr(slab)-start))
	if len(r.free) == 1 {
		r.place = len(p.roomy)
		p.roomy = append(p.roomy, r)
	}
	if len(r.free)*p.slab < RegionBytes {
		return
	}
	if p.empty == 0 {
		p.empty++
		return
	}
	p.leaveRoomy(r)
	delete(p.regions, start)
	if err := r.unmap(); err != nil {
		panic(fmt.Sprintf("hugepages: %v", err))
	}
}

func (p *Pool) leaveRoomy(r *slabs) {
	last := p.roomy[len(p.roomy)-1]
	p.roomy[r.place] = last
	last.place = r.place
	p.roomy = p.roomy[:len(p.roomy)-1]
}

func (p *Pool) grow() error {
	m, at, err := reserve(RegionBytes)
	if err != nil {
		return fmt.Errorf("%d bytes of memory for huge pages: %w", RegionBytes, err)
	}
	r := &slabs{region: m, at: at, place: len(p.roomy), free: make([]int32, 0, RegionBytes/p.slab)}
	// Slabs are taken from the end of the list: the region is used from its
	// beginning on.
	for off := RegionBytes - p.slab; off >= 0; off -= p.slab {
		r.free = append(r.free, int32(off))
	}
	p.regions[r.start] = r
	p.roomy = append(p.roomy, r)
	p.empty++
	return nil
}

// Bytes returns how much memory the pool has, and how much of it the system has put
// on huge pages.
func (p *Pool) Bytes() (all, huge int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	regions := p.appendRegions(nil)
	huge, err = onHugePages(regions)
	return int64(len(regions)) * RegionBytes, huge, err
}

func (p *Pool) appendRegions(to []region) []region {
	for _, r := range p.regions {
		to = append(to, r.region)
	}
	return to
}

// Close gives all memory back. No slab may be used afterwards.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, r := range p.regions {
		errs = append(errs, r.unmap())
	}
	p.regions, p.roomy, p.empty = map[uintptr]*slabs{}, nil, 0
	return errors.Join(errs...)
}
