// Package hugepages gives out slabs of memory for which the system was asked for
// transparent huge pages, and says what it gave. The memory is not the Go heap's:
// the collector neither scans nor frees it, so it must not hold Go pointers, and a
// Pool is closed by hand. It does not reserve pages beforehand (hugetlbfs), and it
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
	free    []unsafe.Pointer
	regions []region
}

type region struct {
	mapped []byte // as mapped, with room for the alignment
	start  uintptr
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
	return &Pool{slab: slab}, nil
}

// Get returns a slab, aligned to its size up to a page. Its bytes have any value.
func (p *Pool) Get() (unsafe.Pointer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		if err := p.grow(); err != nil {
			return nil, err
		}
	}
	last := len(p.free) - 1
	s := p.free[last]
	p.free = p.free[:last]
	return s, nil
}

// Put takes a slab back that Get returned. Its memory stays the pool's until Close.
func (p *Pool) Put(slab unsafe.Pointer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, slab)
}

func (p *Pool) grow() error {
	r, at, err := reserve()
	if err != nil {
		return fmt.Errorf("%d bytes of memory for huge pages: %w", RegionBytes, err)
	}
	p.regions = append(p.regions, r)
	// Slabs are taken from the end of the list: the region is used from its
	// beginning on.
	for off := RegionBytes - p.slab; off >= 0; off -= p.slab {
		p.free = append(p.free, unsafe.Add(at, off))
	}
	return nil
}

// Bytes returns how much memory the pool has, and how much of it the system has put
// on huge pages.
func (p *Pool) Bytes() (all, huge int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	huge, err = onHugePages(p.regions)
	return int64(len(p.regions)) * RegionBytes, huge, err
}

// Close gives all memory back. No slab may be used afterwards.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, r := range p.regions {
		errs = append(errs, r.unmap())
	}
	p.regions, p.free = nil, nil
	return errors.Join(errs...)
}
