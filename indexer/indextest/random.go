package indextest

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
)

// shares is how often each kind of operation occurs, in percent: mostly
// what engines do, with more removals than an engine would have, for holes.
var shares = []struct {
	kind  OpKind
	share int
}{
	{OpStore, 45}, {OpRemove, 38}, {OpClear, 3}, {OpReattach, 2},
	{OpOrphan, 2}, {OpConflict, 3}, {OpRepeat, 2}, {OpUnknown, 2}, {OpMalformed, 2}, {OpEmpty, 1},
}

// draw returns a number in [0, n), n ≤ 256, all equally likely; rapid's own
// numbers are mostly small, which would make most histories alike. Shrinking
// tends to 0.
func draw(t *rapid.T, n int, label string) uint8 {
	v := 0
	for range 8 {
		v *= 2
		if rapid.Bool().Draw(t, label) {
			v++
		}
	}
	return uint8(v * n / 256)
}

// drawHistory draws operations on few or many slots and documents: a crowd
// shares places, a few slots have histories long enough for holes and refills.
func drawHistory(t *rapid.T) []Op {
	slots := rapid.SampledFrom([]int{len(testSlots), 4, 1}).Draw(t, "slots")
	docs := rapid.SampledFrom([]int{numDocs, 4, 1}).Draw(t, "documents")
	first := draw(t, numDocs, "first document")
	drawOp := func(t *rapid.T) Op {
		op := Op{
			Slot: draw(t, slots, "slot"), Doc: first + draw(t, docs, "document"),
			From: draw(t, longLen, "from"), N: draw(t, longLen, "n"), Flavor: draw(t, 4, "flavor"),
		}
		percent := int(draw(t, 100, "kind"))
		for _, s := range shares {
			if percent < s.share {
				op.Kind = s.kind
				break
			}
			percent -= s.share
		}
		// Three of four stores start at the root; the others extend.
		if op.Kind == OpStore && draw(t, 4, "extend") < 3 {
			op.From = 0
		}
		return op
	}
	atLeast := rapid.IntRange(1, 200).Draw(t, "length")
	return rapid.SliceOfN(rapid.Custom(drawOp), atLeast, 250).Draw(t, "operations")
}

func testRandom(t *testing.T, oracle, f indexer.Factory) {
	rapid.Check(t, func(t *rapid.T) {
		if err := Diff(oracle, f, drawHistory(t)); err != nil {
			t.Fatal(err)
		}
	})
}
