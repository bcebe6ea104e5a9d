package corpus

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Rescale returns the same work over another window, in memory of its own: every
// deadline, first token and end of a request becomes floor(it x window / old
// window), computed exactly, but 2^63-1 where that is more.
//
// The deadlines differ by at most 1 ns from those of the same trace prepared for
// the window if that is not longer than the old one; a longer one keeps the
// grain of the old one. Ops that come to share a deadline are put in the order of
// the format, so that a query can move before events of its rank, never after.
func (c *Corpus) Rescale(window time.Duration) (*Corpus, error) {
	if window <= 0 {
		return nil, fmt.Errorf("a window of %v; it must be positive", window)
	}
	out := &Corpus{
		Manifest: c.Manifest,
		Ranks:    slices.Clone(c.Ranks),
		Requests: make([]Request, 0, len(c.Requests)),
		Ops:      slices.Clone(c.Ops),
		Hashes:   make([]uint64, 0, len(c.Hashes)),
	}
	out.Manifest.WindowNS = int64(window)
	for i := range out.Ops {
		op := &out.Ops[i]
		op.Deadline = rescaled(op.Deadline, int64(window), c.Manifest.WindowNS)
	}
	// The order of the deadlines stays; only what has become equal is sorted.
	for from := 0; from < len(out.Ops); {
		to := from + 1
		for to < len(out.Ops) && out.Ops[to].Deadline == out.Ops[from].Deadline {
			to++
		}
		slices.SortStableFunc(out.Ops[from:to], func(a, b Op) int {
			if qa, qb := a.Kind == Query, b.Kind == Query; qa != qb {
				if qa {
					return -1
				}
				return 1
			}
			return cmp.Compare(a.Slot, b.Slot)
		})
		from = to
	}
	for i := range out.Ops {
		op := &out.Ops[i]
		at := uint64(len(out.Hashes))
		out.Hashes = append(out.Hashes, c.Hashes[op.Hashes:op.Hashes+op.HashCount()]...)
		op.Hashes = at
		if op.Kind == Query {
			r := c.Requests[op.Seq]
			if r.Ran() {
				r.FirstToken = rescaled(r.FirstToken, int64(window), c.Manifest.WindowNS)
				r.Finish = rescaled(r.Finish, int64(window), c.Manifest.WindowNS)
			}
			out.Requests = append(out.Requests, r)
			op.Seq = uint32(len(out.Requests) - 1)
		}
	}
	return out, out.Check()
}

// rescaled returns floor(t x window / old), at most 2^63-1. None is negative, and
// old is not 0.
func rescaled(t, window, old int64) int64 {
	hi, lo := bits.Mul64(uint64(t), uint64(window))
	if hi >= uint64(old) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(old))
	return int64(min(q, math.MaxInt64))
}
