package indextest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// workload is a corpus for benchmarks: each rank holds a window of documents whose
// beginnings are shared, and every step stores one document and removes the oldest.
type workload struct {
	index  indexer.Index
	writer indexer.Writer
	stores []indexer.Event
	drops  []indexer.Event // of the document of the store with the same number
	blocks int             // of one document
}

var benchmarkRanks = []int{16, 128}

func newWorkload(b *testing.B, f indexer.Factory, ranks int) *workload {
	b.Helper()
	const docs, window, shared, own = 64, 32, 30, 60
	x, err := f.New(indexer.Config{Threads: 1, Slots: ranks})
	if err != nil {
		b.Fatal(err)
	}
	w := &workload{index: x, writer: x.Writer(0), blocks: shared + own}
	rng := rand.New(rand.NewPCG(5, 6))
	random := func(n int) locals {
		l := make(locals, n)
		for i := range l {
			l[i] = indexer.LocalHash(rng.Uint64())
		}
		return l
	}
	beginnings := make([]locals, 8)
	for i := range beginnings {
		beginnings[i] = random(shared)
	}
	for slot := range indexer.Slot(ranks) {
		w.writer.Attach(slot)
	}
	for d := range docs {
		for slot := range indexer.Slot(ranks) {
			path := slices.Concat(beginnings[d%len(beginnings)], random(own))
			names := make(seqs, len(path))
			for i, h := range path {
				names[i] = indexer.SequenceHash(h * 3)
			}
			// Only the end is removed with a document; its beginning stays.
			w.stores = append(w.stores, on(slot, store(names, path)))
			w.drops = append(w.drops, on(slot, remove(names[shared:]...)))
		}
	}
	for i := range window * ranks {
		w.writer.Apply(&w.stores[i])
	}
	return w
}

// BenchmarkApply stores and removes documents, on one event thread.
func BenchmarkApply(b *testing.B, f indexer.Factory) {
	for _, ranks := range benchmarkRanks {
		b.Run(fmt.Sprintf("%dRanks", ranks), func(b *testing.B) {
			w := newWorkload(b, f, ranks)
			n, blocks := len(w.stores), 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				e := w.writer.Apply(&w.stores[(i+n/2)%n])
				d := w.writer.Apply(&w.drops[i%n])
				blocks += int(e.Stored + e.Duplicate + d.Removed)
			}
			b.ReportMetric(float64(blocks)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
		})
	}
}

// BenchmarkFind asks for documents whose beginning all ranks hold and one the rest.
func BenchmarkFind(b *testing.B, f indexer.Factory) {
	for _, ranks := range benchmarkRanks {
		b.Run(fmt.Sprintf("%dRanks", ranks), func(b *testing.B) {
			w := newWorkload(b, f, ranks)
			r := w.index.Reader()
			var ans indexer.Answer
			ans.Grow(ranks)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Find(w.stores[i%(len(w.stores)/2)].Locals, indexer.FindOptions{}, &ans)
			}
			if len(ans.Touched()) != ranks || int(ans.Best()) != w.blocks {
				b.Errorf("%d ranks in the answer, the best has %d blocks, want %d and %d", len(ans.Touched()), ans.Best(), ranks, w.blocks)
			}
			b.ReportMetric(float64(b.N*w.blocks)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
		})
	}
}
