package runs

import (
	"math/rand/v2"
	"testing"

	"github.com/kvbench/kvbench/indexer"
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

// TestHugePages: the same index on huge pages, where the system has any.
func TestHugePages(t *testing.T) {
	onHuge := Factory()
	onHuge.New = func(cfg indexer.Config) (indexer.Index, error) {
		cfg.HugePages = true
		return New(cfg)
	}
	x, err := onHuge.New(indexer.Config{Threads: 1})
	if err != nil {
		t.Skip(err)
	}
	w := x.Writer(0)
	w.Attach(0)
	s, l := tail(0, 0, 200_000)
	w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: s, Locals: l})
	found := false
	for _, p := range x.(indexer.MemoryReporter).Memory() {
		if p.HugeBytes > p.Bytes {
			t.Errorf("%d of %d bytes of %s are on huge pages", p.HugeBytes, p.Bytes, p.Name)
		}
		found = found || p.Name == "runs and names" && p.Bytes >= 16*200_000
	}
	if !found {
		t.Error("no part has the memory of 200,000 blocks and names")
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	for _, n := range []int{100, 1600} {
		data := make([]byte, n)
		rng := rand.New(rand.NewPCG(5, uint64(n)))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		if err := indextest.Diff(reference.Factory(), onHuge, indextest.DecodeOps(data)); err != nil {
			t.Error(err)
		}
	}
}
