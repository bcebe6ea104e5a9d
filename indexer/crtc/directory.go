package crtc

import "sync/atomic"

// directory gives what can be reached by number its number, from 1. Looking up
// takes no lock. What was dropped stays readable for those that have it: the
// collector keeps it.
type directory[T any] struct {
	mu    rwLock
	table atomic.Pointer[[]atomic.Pointer[T]]
	next  uint32   // numbers from here on were never used
	free  []uint32 // numbers given up
}

// get returns what has the number, which must be in use.
func (d *directory[T]) get(number uint32) *T { return (*d.table.Load())[number].Load() }

func (d *directory[T]) add(v *T) uint32 {
	d.mu.lock()
	defer d.mu.unlock()
	var number uint32
	if n := len(d.free); n > 0 {
		number, d.free = d.free[n-1], d.free[:n-1]
	} else {
		d.next = max(d.next, 1)
		number = d.next
		d.next++
	}
	old := d.table.Load()
	if old == nil || int(number) >= len(*old) {
		grown := make([]atomic.Pointer[T], max(8, 2*int(number)))
		if old != nil {
			for i := range *old {
				grown[i].Store((*old)[i].Load())
			}
		}
		old = &grown
		d.table.Store(old)
	}
	(*old)[number].Store(v)
	return number
}

func (d *directory[T]) drop(number uint32) {
	d.mu.lock()
	defer d.mu.unlock()
	(*d.table.Load())[number].Store(nil)
	d.free = append(d.free, number)
}

// all calls f for everything in the directory.
func (d *directory[T]) all(f func(*T)) {
	if t := d.table.Load(); t != nil {
		for i := range *t {
			if v := (*t)[i].Load(); v != nil {
				f(v)
			}
		}
	}
}

func (d *directory[T]) bytes() int64 {
	n := int64(cap(d.free)) * 4
	if t := d.table.Load(); t != nil {
		n += int64(len(*t)) * 8
	}
	return n
}
