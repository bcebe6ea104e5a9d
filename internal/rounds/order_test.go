package rounds

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestOrderIsBalanced counts slots and predecessors over whole blocks.
func TestOrderIsBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(2, 9).Draw(t, "k")
		o := rapid.SampledFrom([]Order{Balanced, Cyclic}).Draw(t, "order")
		seed := rapid.Uint64().Draw(t, "seed")
		blocks := rapid.IntRange(1, 4).Draw(t, "blocks")
		n := blocks * o.Block(k)
		slots, after := make([][]int, k), make([][]int, k)
		for i := range k {
			slots[i], after[i] = make([]int, k), make([]int, k)
		}
		for r, row := range o.Sequence(k, 0, n, seed) {
			checkPermutation(t, row, k)
			for s, v := range row {
				slots[v][s]++
				if s > 0 {
					after[v][row[s-1]]++
				}
			}
			_ = r
		}
		for v := range k {
			for s := range k {
				if slots[v][s]*k != n {
					t.Errorf("variant %d is %d times in slot %d of %d rounds", v, slots[v][s], s, n)
				}
				// Each of n rounds has k-1 pairs of neighbours, k(k-1) kinds of them.
				if o == Balanced && s != v && after[v][s]*k != n {
					t.Errorf("variant %d comes %d times after %d in %d rounds", v, after[v][s], s, n)
				}
			}
		}
	})
}

func checkPermutation(t interface{ Errorf(string, ...any) }, row []int, k int) {
	sorted := slices.Sorted(slices.Values(row))
	want := make([]int, k)
	for i := range want {
		want[i] = i
	}
	if !slices.Equal(sorted, want) {
		t.Errorf("%v is not a permutation of %d variants", row, k)
	}
}

// TestOrderDoesNotDependOnLength: more rounds later continue the same sequence.
func TestOrderDoesNotDependOnLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 7).Draw(t, "k")
		o := rapid.SampledFrom([]Order{Balanced, Cyclic, Random}).Draw(t, "order")
		seed := rapid.Uint64().Draw(t, "seed")
		n := rapid.IntRange(0, 40).Draw(t, "n")
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		whole := o.Sequence(k, 0, n, seed)
		parts := append(o.Sequence(k, 0, cut, seed), o.Sequence(k, cut, n, seed)...)
		if fmt.Sprint(whole) != fmt.Sprint(parts) {
			t.Errorf("%v in one, %v in two", whole, parts)
		}
		for _, row := range whole {
			checkPermutation(t, row, k)
		}
	})
}

// TestThueMorse: with two variants, over 2^j rounds polynomial drift below degree
// j adds equally to both.
func TestThueMorse(t *testing.T) {
	if got := fmt.Sprint(Balanced.Sequence(2, 0, 8, 0)); got != "[[0 1] [1 0] [1 0] [0 1] [1 0] [0 1] [0 1] [1 0]]" {
		t.Errorf("%s", got)
	}
	for degree := range 4 {
		sum := [2]int{}
		for r, row := range Balanced.Sequence(2, 0, 1<<(degree+1), 1) {
			for s, v := range row {
				drift := 1
				for range degree {
					drift *= 2*r + s
				}
				sum[v] += drift
			}
		}
		if sum[0] != sum[1] {
			t.Errorf("drift of degree %d adds %d and %d", degree, sum[0], sum[1])
		}
	}
}

func TestOrderSeed(t *testing.T) {
	a, b := Balanced.Sequence(2, 0, 1, 0), Balanced.Sequence(2, 0, 1, 1)
	if a[0][0] == b[0][0] {
		t.Error("the seed does not say which of two begins")
	}
	differ := false
	for seed := range uint64(10) {
		differ = differ || fmt.Sprint(Balanced.Sequence(3, 0, 6, seed)) != fmt.Sprint(Balanced.Sequence(3, 0, 6, 99))
	}
	if !differ {
		t.Error("the seed changes nothing for three variants")
	}
}

func TestParseOrder(t *testing.T) {
	for _, name := range Orders() {
		if o, err := ParseOrder(name); err != nil || string(o) != name {
			t.Errorf("%s: %v, %v", name, o, err)
		}
	}
	if _, err := ParseOrder("Balanced"); err == nil {
		t.Error("no error")
	}
}
