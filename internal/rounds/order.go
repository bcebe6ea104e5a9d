package rounds

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Order says in which order the variants of a round run.
type Order string

// The orders.
const (
	// Balanced is Thue-Morse for two variants and Williams sequences for more:
	// over a block of rounds each variant runs equally often in each slot, and
	// with Williams sequences after each other variant.
	Balanced Order = "balanced"
	// Cyclic is ABC, BCA, CAB: balanced for slots and not for predecessors.
	Cyclic Order = "cyclic"
	// Random draws each round's order.
	Random Order = "random"
)

// Orders lists the orders.
func Orders() []string { return []string{string(Balanced), string(Cyclic), string(Random)} }

// ParseOrder returns the order of that name.
func ParseOrder(s string) (Order, error) {
	if !slices.Contains(Orders(), s) {
		return "", fmt.Errorf("order %q; there are balanced, cyclic and random", s)
	}
	return Order(s), nil
}

// Block returns the number of rounds over which k variants are balanced, 1 if
// the order promises nothing.
func (o Order) Block(k int) int {
	switch {
	case o == Random || k < 2:
		return 1
	case o == Balanced && k > 2 && k%2 == 1:
		return 2 * k
	}
	return k
}

// Sequence returns the order of rounds from+1 to to of k variants: one row for
// each round, which holds the variants' numbers by slot. The same arguments give
// the same rows, and rows do not depend on how many are asked for.
func (o Order) Sequence(k, from, to int, seed uint64) [][]int {
	rows := make([][]int, 0, max(0, to-from))
	for round := from; round < to; round++ { // round counts from 0 here
		rows = append(rows, o.row(k, round, seed))
	}
	return rows
}

func (o Order) row(k, round int, seed uint64) []int {
	switch {
	case o == Random:
		return draw(seed, uint64(round)).Perm(k)
	case o == Cyclic || k < 2:
		return rotation(k, round)
	case k == 2:
		// The parity of the ones of the round's number is the Thue-Morse
		// sequence, which cancels drift of higher degree with every doubling of
		// the rounds. The seed says who begins.
		first := (bits.OnesCount(uint(round)) + int(seed)) & 1
		return []int{first, 1 - first}
	}
	// Rows are shuffled and variants renamed from block to block, so that what
	// a block cannot balance does not always hit the same variant.
	block := o.Block(k)
	rng := draw(seed, uint64(round/block))
	rows, names := rng.Perm(block), rng.Perm(k)
	row := williams(k, rows[round%block])
	for slot, v := range row {
		row[slot] = names[v]
	}
	return row
}

func draw(seed, n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }

func rotation(k, by int) []int {
	row := make([]int, k)
	for slot := range row {
		row[slot] = (slot + by) % k
	}
	return row
}

// williams returns one row of the Williams design of k variants (E. J. Williams,
// 1949): k rows for an even k, 2k for an odd one, the second half of them
// mirrored. Over all rows each variant is in each slot equally often and directly
// after each other variant equally often.
func williams(k, number int) []int {
	mirrored := number >= k
	row := make([]int, k)
	for slot := range row {
		// The first row is 0, 1, k-1, 2, k-2, ...
		v := (slot + 1) / 2
		if slot%2 == 0 {
			v = (k - slot/2) % k
		}
		row[slot] = (v + number) % k
	}
	if mirrored {
		slices.Reverse(row)
	}
	return row
}
