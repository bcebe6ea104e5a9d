package indexer

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestKeepIsSortingAndCutting compares Keep with a full sort.
func TestKeepIsSortingAndCutting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var ans Answer
	for round := range 2000 {
		ans.Reset()
		n, depths := rng.IntN(200), 1+rng.IntN(1<<rng.IntN(10))
		for _, slot := range rng.Perm(300)[:n] {
			ans.Set(Slot(slot), 1+uint32(rng.IntN(depths)))
		}
		want := slices.Clone(ans.Touched())
		scores := slices.Clone(ans.Scores())
		slices.SortFunc(want, func(a, b Slot) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
		keep := rng.IntN(210)
		if keep > 0 && keep < len(want) {
			want = want[:keep]
		}
		ans.Keep(keep)
		got := slices.Sorted(slices.Values(ans.Touched()))
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: %d of %d: %v, want %v", round, keep, n, got, want)
		}
		for slot, score := range ans.Scores() {
			if _, kept := slices.BinarySearch(want, Slot(slot)); kept && score != scores[slot] || !kept && score != 0 {
				t.Fatalf("round %d: slot %d has %d", round, slot, score)
			}
		}
	}
	for slot := range 300 {
		ans.Set(Slot(slot), uint32(slot%7)+1)
	}
	if n := testing.AllocsPerRun(10, func() { ans.Keep(50) }); n != 0 {
		t.Errorf("Keep allocates %v times", n)
	}
}
