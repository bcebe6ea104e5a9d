package crtc

import "math/bits"

// pool recycles the slices of one event thread: those that nodes have for their
// partial holders, chunks of the bitset and children. Capacities are powers of
// two.
type pool[T any] struct{ free [bits.UintSize][][]T }

// keep bounds what a pool keeps of each capacity, in elements.
const keep = 1024

// get returns an empty slice with room for n.
func (p *pool[T]) get(n int) []T {
	class := bits.Len(uint(n - 1))
	if f := p.free[class]; len(f) > 0 {
		s := f[len(f)-1]
		f[len(f)-1] = nil
		p.free[class] = f[:len(f)-1]
		return s
	}
	return make([]T, 0, 1<<class)
}

// put takes back what get returned. Nothing may refer to it any more.
func (p *pool[T]) put(s []T) {
	if cap(s) == 0 {
		return
	}
	class := bits.Len(uint(cap(s) - 1))
	if (len(p.free[class])+1)<<class > keep {
		return
	}
	clear(s[:cap(s)])
	p.free[class] = append(p.free[class], s[:0])
}

// grow returns s with room for one more.
func (p *pool[T]) grow(s []T, least int) []T {
	if len(s) < cap(s) {
		return s
	}
	g := append(p.get(max(least, 2*len(s))), s...)
	p.put(s)
	return g
}

// shrink returns s in a smaller slice if three quarters of it are empty, nil if
// all of it is.
func (p *pool[T]) shrink(s []T, least int) []T {
	switch {
	case len(s) == 0:
		p.put(s)
		return nil
	case cap(s) > least && 4*len(s) <= cap(s):
		g := append(p.get(cap(s)/2), s...)
		p.put(s)
		return g
	}
	return s
}

// elements returns the number of elements that are kept.
func (p *pool[T]) elements() int {
	n := 0
	for class, f := range p.free {
		n += len(f) << class
	}
	return n
}
