package mocker

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
)

// TestNames compares the table with a map, on hashes that collide in their places.
func TestNames(t *testing.T) {
	var close []indexer.SequenceHash
	for h := indexer.SequenceHash(0); len(close) < 40; h++ {
		if spread(h)%leastNames < 3 || spread(h)%leastNames > 61 {
			close = append(close, h)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var n names
		model := map[indexer.SequenceHash]int32{}
		copies := make([]copyState, 200)
		for c := range copies {
			copies[c].hash = rapid.SampledFrom(close).Draw(t, "hash")
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			c := rapid.Int32Range(0, int32(len(copies)-1)).Draw(t, "copy")
			h := copies[c].hash
			switch have, ok := model[h]; {
			case !ok:
				n.insert(c, copies)
				model[h] = c
			case rapid.Bool().Draw(t, "replace"):
				n.replace(have, c, copies)
				model[h] = c
			default:
				n.remove(have, copies)
				delete(model, h)
			}
			for _, h := range close {
				want, ok := model[h]
				if !ok {
					want = none
				}
				if got := n.find(h, copies); got != want {
					t.Fatalf("%d is found as %d, want %d", h, got, want)
				}
			}
			if n.len() != len(model) {
				t.Fatalf("%d entries, want %d", n.len(), len(model))
			}
		}
	})
}
