package indexer

import (
	"math"
	"slices"
)

// Answer is caller-owned storage for the answer to one query. The zero value is
// ready; after the first few queries it has its final size and nothing more is
// allocated. An Answer belongs to one goroutine.
type Answer struct {
	scores  []uint32
	touched []Slot
}

// Grow makes room for slots [0, n).
func (a *Answer) Grow(n int) {
	if n <= len(a.scores) {
		return
	}
	scores := make([]uint32, n)
	copy(scores, a.scores)
	a.scores = scores
	if cap(a.touched) < n {
		touched := make([]Slot, len(a.touched), n)
		copy(touched, a.touched)
		a.touched = touched
	}
}

// Reset forgets the answer. It costs as much as the answer was long.
func (a *Answer) Reset() {
	for _, s := range a.touched {
		a.scores[s] = 0
	}
	a.touched = a.touched[:0]
}

// Set records that the rank in slot holds the first n blocks, n ≥ 1. Setting a
// slot again replaces its score. Only indexes call it.
func (a *Answer) Set(slot Slot, n uint32) {
	if int(slot) >= len(a.scores) {
		a.Grow(max(int(slot)+1, 2*len(a.scores)))
	}
	if a.scores[slot] == 0 {
		a.touched = append(a.touched, slot)
	}
	a.scores[slot] = n
}

// Open gives an index the storage of an answer that was just Reset, with room for
// slots [0, n): scores by slot, all 0, and an empty list of touched slots with room
// for n. The index fills both and calls Done with the list. It is Set without its
// tests, for indexes that set many scores; only indexes call it.
func (a *Answer) Open(n int) (scores []uint32, touched []Slot) {
	a.Grow(n)
	return a.scores, a.touched
}

// Done ends what Open began. Every slot with a score is in the list once.
func (a *Answer) Done(touched []Slot) { a.touched = touched }

// Score returns the number of leading blocks that the rank in slot holds.
func (a *Answer) Score(slot Slot) uint32 {
	if int(slot) >= len(a.scores) {
		return 0
	}
	return a.scores[slot]
}

// Touched returns the slots with a score of at least 1, in no particular
// order. The slice is valid until the next Reset.
func (a *Answer) Touched() []Slot { return a.touched }

// Scores returns the scores by slot; slots beyond its length have score 0. The
// slice is valid until the next Reset.
func (a *Answer) Scores() []uint32 { return a.scores }

// Best returns the highest score, 0 if no rank holds anything.
func (a *Answer) Best() uint32 {
	var best uint32
	for _, s := range a.touched {
		best = max(best, a.scores[s])
	}
	return best
}

// Keep drops all but the n deepest ranks, of equally deep ones those with the
// highest slots. It does not allocate. Only indexes call it, for
// FindOptions.MaxRanks.
func (a *Answer) Keep(n int) {
	if n <= 0 || n >= len(a.touched) {
		return
	}
	// A rank's place in the order is one number, deepest first, low slot first.
	order := func(s Slot) uint64 { return uint64(math.MaxUint32-a.scores[s])<<32 | uint64(s) }
	lo, hi := 0, len(a.touched)
	for hi-lo > 16 {
		// Hoare's selection of the n smallest around a median of three.
		x, y, z := order(a.touched[lo]), order(a.touched[lo+(hi-lo)/2]), order(a.touched[hi-1])
		pivot := max(min(x, y), min(max(x, y), z))
		i, j := lo, hi-1
		for i <= j {
			for order(a.touched[i]) < pivot {
				i++
			}
			for order(a.touched[j]) > pivot {
				j--
			}
			if i <= j {
				a.touched[i], a.touched[j] = a.touched[j], a.touched[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			hi = j + 1
		case n >= i:
			lo = i
		default:
			lo, hi = n, n
		}
	}
	slices.SortFunc(a.touched[lo:hi], func(s, t Slot) int {
		if order(s) < order(t) {
			return -1
		}
		return 1
	})
	for _, s := range a.touched[n:] {
		a.scores[s] = 0
	}
	a.touched = a.touched[:n]
}
