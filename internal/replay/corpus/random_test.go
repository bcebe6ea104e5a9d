package corpus

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// random makes a well-formed corpus of n ops by the rules of Check, without the
// code under test.
func random(seed uint64, n int) *Corpus {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &Corpus{Manifest: Manifest{
		Schema: SchemaV1, TraceName: "a <trace> & more", TraceSHA256: "00ff", Seed: seed, WindowNS: 1000,
		Options: Options{Workers: 2, DPRanks: 2, TraceBlockSize: 512, BlockSize: 128, GPUBlocks: 64,
			LengthFactor: 1, DuplicationFactor: 1, SpeedUp: 1.5, Rescale: RescaleRank, TimeModel: "default"},
		Totals: Totals{HitBlocks: 3, PeakActive: 5},
	}}
	if m := &c.Manifest; seed%3 == 2 {
		m.Schema, m.Options.Approximate, m.Options.TTLNS = SchemaV2, ApproximateTTL, 7
		m.Totals.Approximate = Approximate{PredictedBlocks: 4, OverPredicted: 2, UnderPredicted: 1, Decisions: 9}
	}
	for w := range uint64(2) {
		for dp := range uint32(2) {
			c.Ranks = append(c.Ranks, indexer.Rank{Worker: 1<<63 + w, DP: dp})
		}
	}
	for range n {
		op := Op{Deadline: r.Int64N(20) * 50, Kind: Kind(r.IntN(4)), Slot: r.Uint32N(4), Len: r.Uint32N(5)}
		switch op.Kind {
		case Cleared:
			op.Len = 0
		case Stored:
			if r.IntN(2) == 0 {
				op.HasParent, op.Parent = 1, r.Uint64()
			}
		}
		c.Ops = append(c.Ops, op)
	}
	slices.SortStableFunc(c.Ops, func(a, b Op) int {
		key := func(o Op) []int64 { return []int64{o.Deadline, int64(min(o.Kind, 1)), int64(o.Slot)} }
		return slices.Compare(key(a), key(b))
	})
	events := map[uint32]uint32{}
	for i := range c.Ops {
		op := &c.Ops[i]
		op.Hashes = uint64(len(c.Hashes))
		for range op.Len {
			c.Hashes = append(c.Hashes, r.Uint64())
		}
		t := &c.Manifest.Totals
		switch op.Kind {
		case Query:
			op.Seq = uint32(len(c.Requests))
			q := Request{Row: r.Uint32(), Session: r.Uint32(), InputTokens: r.Uint32(), OutputTokens: r.Uint32(), FirstToken: NeverRan, Finish: NeverRan}
			if r.IntN(8) > 0 {
				q.FirstToken = op.Deadline + r.Int64N(100)
				q.Finish = q.FirstToken + r.Int64N(400)
			} else {
				t.RefusedRequests++
			}
			c.Requests = append(c.Requests, q)
			t.Requests++
			t.RequestBlocks += int64(op.Len)
		case Stored:
			for range op.Len {
				c.Hashes = append(c.Hashes, r.Uint64())
			}
			t.StoredEvents++
			t.StoredBlocks += int64(op.Len)
		case Removed:
			t.RemovedEvents++
			t.RemovedBlocks += int64(op.Len)
		case Cleared:
			t.ClearedEvents++
		}
		if op.Kind != Query {
			op.Seq = events[op.Slot]
			events[op.Slot]++
		}
	}
	return c
}

// clone copies what a test may want to spoil.
func clone(c *Corpus) *Corpus {
	return &Corpus{Manifest: c.Manifest, Ranks: slices.Clone(c.Ranks), Requests: slices.Clone(c.Requests),
		Ops: slices.Clone(c.Ops), Hashes: slices.Clone(c.Hashes)}
}

// firstOp returns the position of the first op that is as asked.
func firstOp(t *testing.T, c *Corpus, what string, is func(*Op) bool) int {
	t.Helper()
	for i := range c.Ops {
		if is(&c.Ops[i]) {
			return i
		}
	}
	t.Fatalf("the random corpus has no %s", what)
	return 0
}
