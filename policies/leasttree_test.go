package policies

import (
	"math/rand/v2"
	"testing"
)

// TestLeastTreeEqualsList compares the tree with a list of its keys, also in a
// batch that is taken back.
func TestLeastTreeEqualsList(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 200 {
		keys := make([]int64, 1+rng.IntN(600))
		key := func() int64 {
			if rng.IntN(4) == 0 {
				return noKey
			}
			return int64(rng.IntN(6)) // few, so that many are equal
		}
		for slot := range keys {
			keys[slot] = key()
		}
		var tree leastTree
		tree.build(len(keys), func(slot int) int64 { return keys[slot] })
		compare := func(list []int64) {
			t.Helper()
			least, slots := int64(noKey), []int(nil)
			for slot, k := range list {
				if k < least {
					least, slots = k, slots[:0]
				}
				if k == least && k != noKey {
					slots = append(slots, slot)
				}
			}
			root := tree.root()
			if root.key != least || least != noKey && int(root.count) != len(slots) {
				t.Fatalf("%d keys: the root is %+v, want key %d, %d times", len(list), root, least, len(slots))
			}
			for j, slot := range slots {
				if got := tree.nth(uint32(j)); int(got) != slot {
					t.Fatalf("%d keys: least key number %d is of slot %d, want %d", len(list), j, got, slot)
				}
			}
		}
		for range 20 {
			for range rng.IntN(5) {
				slot := rng.IntN(len(keys))
				keys[slot] = key()
				tree.set(slot, keys[slot])
			}
			tree.settle()
			if err := tree.check(keys); err != nil {
				t.Fatal(err)
			}
			compare(keys)
			for slot, k := range keys {
				if tree.key(slot) != k {
					t.Fatalf("slot %d has key %d, want %d", slot, tree.key(slot), k)
				}
			}
			batch := append([]int64(nil), keys...)
			tree.begin()
			for range rng.IntN(70) {
				slot := rng.IntN(len(keys))
				batch[slot] = key()
				tree.set(slot, batch[slot])
			}
			tree.settle()
			compare(batch)
			tree.revert()
			if err := tree.check(keys); err != nil {
				t.Fatalf("after a batch was taken back: %v", err)
			}
		}
	}
}

// TestLeastTreeCheckSeesDamage damages every part that the check looks at.
func TestLeastTreeCheckSeesDamage(t *testing.T) {
	keys := make([]int64, 100)
	for slot := range keys {
		keys[slot] = int64(slot / 2)
	}
	for name, damage := range map[string]func(*leastTree){
		"a leaf":           func(t *leastTree) { t.nodes[3].key++ },
		"a count":          func(t *leastTree) { t.nodes[t.levels[1]].count++ },
		"a key above":      func(t *leastTree) { t.nodes[t.levels[1]+2].key++ },
		"filling":          func(t *leastTree) { t.nodes[103].key = 0 },
		"filling above":    func(t *leastTree) { t.nodes[len(t.nodes)-1].count = 1 },
		"a level cut off":  func(t *leastTree) { t.levels = t.levels[:2] },
		"not settled":      func(t *leastTree) { t.set(5, 1000) },
		"not reverted":     func(t *leastTree) { t.begin() },
		"a level too long": func(t *leastTree) { t.nodes = append(t.nodes, make([]leastNode, fanOut)...) },
	} {
		var tree leastTree
		tree.build(len(keys), func(slot int) int64 { return keys[slot] })
		if err := tree.check(keys); err != nil {
			t.Fatal(err)
		}
		damage(&tree)
		if err := tree.check(keys); err == nil {
			t.Errorf("%s: not seen", name)
		}
	}
}
