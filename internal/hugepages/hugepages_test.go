package hugepages

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"
)

func TestPool(t *testing.T) {
	const slab = 64 << 10
	p, err := New(slab)
	if err != nil {
		t.Skipf("no huge pages here: %v", err)
	}
	seen := map[unsafe.Pointer]bool{}
	var slabs []unsafe.Pointer
	for range 3*RegionBytes/slab + 1 {
		s, err := p.Get()
		if err != nil {
			t.Fatal(err)
		}
		if seen[s] {
			t.Fatalf("slab %p was given out twice", s)
		}
		seen[s] = true
		b := unsafe.Slice((*byte)(s), slab)
		for i := range b {
			b[i] = byte(len(slabs))
		}
		slabs = append(slabs, s)
	}
	for i, s := range slabs {
		for _, c := range unsafe.Slice((*byte)(s), slab) {
			if c != byte(i) {
				t.Fatalf("slab %d was written to by another", i)
			}
		}
	}
	all, huge, err := p.Bytes()
	if err != nil || all != 4*RegionBytes || huge < 0 || huge > all || huge%RegionBytes != 0 {
		t.Errorf("%d bytes, %d on huge pages, %v; want %d and no more than that", all, huge, err, 4*RegionBytes)
	}
	p.Put(slabs[5])
	if s, err := p.Get(); s != slabs[5] || err != nil {
		t.Errorf("a slab that was given back is not used again: %v", err)
	}
	// Every third goes first, so that regions have room before they are empty.
	for first := range 3 {
		for i := first; i < len(slabs); i += 3 {
			p.Put(slabs[i])
		}
	}
	if all, _, err := p.Bytes(); err != nil || all != RegionBytes {
		t.Errorf("all slabs are back and the pool has %d bytes (%v), want one region", all, err)
	}
	for range RegionBytes/slab + 1 {
		if _, err := p.Get(); err != nil {
			t.Error(err)
		}
	}
	if all, _, err := p.Bytes(); err != nil || all != 2*RegionBytes || p.empty != 0 || len(p.roomy) != 1 {
		t.Errorf("%d bytes, %d regions empty, %d with room (%v) for a slab more than fits one", all, p.empty, len(p.roomy), err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestPoolFromManyGoroutines: a slab is one goroutine's until it gives it back.
func TestPoolFromManyGoroutines(t *testing.T) {
	const slab = 64 << 10
	p, err := New(slab)
	if err != nil {
		t.Skipf("no huge pages here: %v", err)
	}
	defer p.Close()
	var wg sync.WaitGroup
	for g := range byte(4) {
		wg.Go(func() {
			for range 200 {
				s, err := p.Get()
				if err != nil {
					t.Error(err)
					return
				}
				b := unsafe.Slice((*byte)(s), slab)
				for i := range 64 {
					b[i] = g
				}
				runtime.Gosched()
				for i, c := range b[:64] {
					if c != g {
						t.Errorf("byte %d of a slab of goroutine %d is from %d", i, g, c)
						return
					}
				}
				p.Put(s)
				if _, _, err := p.Bytes(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestPoolRefusesOddSlabs(t *testing.T) {
	for _, n := range []int{0, -1, 3 << 10, 4 << 20} {
		if _, err := New(n); err == nil {
			t.Errorf("slabs of %d bytes are accepted", n)
		}
	}
}
