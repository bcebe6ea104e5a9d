package mocker

import (
	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// ReplayCache plays all requests of t one after the other, in file order and
// without time, through one cache of capacity trace blocks, and counts how many
// of the blocks that they refer to are found: leading ones without a gap.
// fullOnly leaves out a request's last block if it is not full.
//
// A prompt longer than the cache leaves its first blocks in it.
func ReplayCache(t *trace.Trace, capacity int, fullOnly bool) (hits, references int64) {
	capacity = max(0, capacity)
	p := NewPool(capacity)
	var hashes []indexer.SequenceHash
	var held []int32
	var evicted []indexer.SequenceHash
	for i := range t.Len() {
		r := t.Request(i)
		ids := r.HashIDs
		if fullOnly {
			ids = ids[:min(len(ids), r.InputLength/t.BlockSize)]
		}
		references += int64(len(ids))
		hashes = hashes[:0]
		for k, id := range ids[:min(len(ids), capacity)] {
			var parent indexer.SequenceHash
			if k > 0 {
				parent = hashes[k-1]
			}
			hashes = append(hashes, sequence(parent, k > 0, indexer.LocalHash(id)))
		}
		n := p.Lookup(hashes)
		hits += int64(n)
		var ok bool
		if held, evicted, ok = p.Reserve(hashes[:n], len(hashes)-n, held[:0], evicted[:0]); !ok {
			panic("mocker: a cache that nobody else uses has no room")
		}
		for k := n; k < len(hashes); k++ {
			p.Commit(held[k], hashes[k])
		}
		p.Release(held)
	}
	return hits, references
}
