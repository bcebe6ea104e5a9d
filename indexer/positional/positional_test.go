package positional

import (
	"math/rand/v2"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/indextest"
	"github.com/kvbench/kvbench/indexer/reference"
)

var (
	_ indexer.Index            = (*Index)(nil)
	_ indexer.MemoryReporter   = (*Index)(nil)
	_ indexer.ShapeReporter    = (*Index)(nil)
	_ indexer.ReachableCounter = (*Writer)(nil)
)

func TestConformance(t *testing.T) { indextest.Run(t, reference.Factory(), Factory()) }

// TestConformanceBinary leaves out what does not depend on the search.
func TestConformanceBinary(t *testing.T) {
	indextest.Semantics(t, reference.Factory(), BinaryFactory())
	indextest.Concurrency(t, reference.Factory(), BinaryFactory())
}

// stepping builds an index with another step than the usual one.
func stepping(step int) indexer.Factory {
	return indexer.Factory{Name: "positional", New: func(cfg indexer.Config) (indexer.Index, error) { return New(cfg, step) }}
}

// FuzzPositional compares the index with the reference over histories that are
// coded as bytes; the first byte is the step.
func FuzzPositional(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for step, n := range []int{400, 100, 400, 1600, 4} {
		seed := make([]byte, 1+n)
		for i := range seed {
			seed[i] = byte(rng.Uint32())
		}
		seed[0] = byte(step)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		if err := indextest.Diff(reference.Factory(), stepping(int(data[0]%32)), indextest.DecodeOps(data[1:])); err != nil {
			t.Fatal(err)
		}
	})
}
