package crtc

import (
	"math/rand/v2"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/indextest"
	"github.com/kvbench/kvbench/indexer/reference"
)

var (
	_ indexer.Index          = (*Index)(nil)
	_ indexer.MemoryReporter = (*Index)(nil)
	_ indexer.ShapeReporter  = (*Index)(nil)
)

func TestConformance(t *testing.T) { indextest.Run(t, reference.Factory(), Factory()) }

// FuzzCRTC compares the index with the reference over histories that are coded
// as bytes.
func FuzzCRTC(f *testing.F) {
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

func BenchmarkApply(b *testing.B) { indextest.BenchmarkApply(b, Factory()) }

func BenchmarkFind(b *testing.B) { indextest.BenchmarkFind(b, Factory()) }

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []indexer.Config{{}, {Threads: -1}, {Threads: 1, HugePages: true}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("an index with %+v was built", cfg)
		}
	}
}
