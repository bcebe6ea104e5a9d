package runs

import (
	"math/rand/v2"
	"testing"

	"github.com/kvbench/kvbench/indexer/indextest"
	"github.com/kvbench/kvbench/indexer/reference"
)

func TestConformance(t *testing.T) { indextest.Run(t, reference.Factory(), Factory()) }

// FuzzRuns compares the index with the reference over histories that are coded
// as bytes.
func FuzzRuns(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{4, 100, 400, 1600} {
		seed := make([]byte, n)
		for i := range seed {
			seed[i] = byte(rng.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := indextest.Diff(reference.Factory(), Factory(), indextest.DecodeOps(data)); err != nil {
			t.Fatal(err)
		}
	})
}
