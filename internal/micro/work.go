package micro

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/internal/replay/prepare"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/trace"
)

// The window of a prepared corpus decides the order of its operations and
// nothing else here.
const window = time.Minute

// replayWork prepares copies of a trace for a number of ranks.
func replayWork(ctx context.Context, t *trace.Trace, o *IndexOptions, ranks, copies int) (*corpus.Corpus, error) {
	opts := corpus.Options{
		Workers: ranks, DPRanks: 1, TraceBlockSize: t.BlockSize, BlockSize: o.BlockSize, GPUBlocks: o.GPUBlocks,
		LengthFactor: 1, DuplicationFactor: copies, SpeedUp: 1, Rescale: corpus.RescaleRank, TimeModel: fmt.Sprint(mocker.DefaultTime),
	}
	step := func(done, total int64) {
		if done == 0 {
			o.step("prepare", total)
		}
		o.advance(done)
	}
	return prepare.Prepare(ctx, t, prepare.Origin{Name: o.TraceName}, opts, o.Seed, window, mocker.DefaultTime, step)
}

// shuffleVictims puts the hashes of every Removed event in random order. Engines
// evict the end of a prompt first; nothing promises that they do.
func shuffleVictims(c *corpus.Corpus, seed uint64) *corpus.Corpus {
	out := &corpus.Corpus{Manifest: c.Manifest, Ranks: c.Ranks, Requests: c.Requests, Ops: c.Ops, Hashes: slices.Clone(c.Hashes)}
	rng := rand.New(rand.NewPCG(seed, 0x5bd1e995))
	for i := range out.Ops {
		if op := &out.Ops[i]; op.Kind == corpus.Removed {
			h := out.Hashes[op.Hashes : op.Hashes+uint64(op.Len)]
			rng.Shuffle(len(h), func(a, b int) { h[a], h[b] = h[b], h[a] })
		}
	}
	return out
}

// builder makes a corpus by hand. Deadlines do not count here and are all 0.
type builder struct{ c corpus.Corpus }

func newBuilder(ranks int) *builder {
	b := &builder{}
	for i := range ranks {
		b.c.Ranks = append(b.c.Ranks, indexer.Rank{Worker: uint64(i)})
	}
	return b
}

func (b *builder) add(kind corpus.Kind, slot int, parent *uint64, hashes ...[]uint64) {
	op := corpus.Op{Kind: kind, Slot: uint32(slot), Hashes: uint64(len(b.c.Hashes)), Len: uint32(len(hashes[0]))}
	if parent != nil {
		op.HasParent, op.Parent = 1, *parent
	}
	for _, h := range hashes {
		b.c.Hashes = append(b.c.Hashes, h...)
	}
	b.c.Ops = append(b.c.Ops, op)
}

// promptBlocks is the length of the prompts made by hand, that of an average
// event of the conversation trace with blocks of 128 tokens.
const promptBlocks = 90

// oneBlockWork returns a corpus that fills ranks and two that change one block
// at an event: the last of a prompt, which goes and comes back, and one in the
// middle. Both leave the ranks as they were.
func oneBlockWork(ranks, events int, seed uint64) (fill, tails, holes *corpus.Corpus) {
	const prompts = 64 // of each rank
	rng := rand.New(rand.NewPCG(seed, 1))
	random := func(n int) []uint64 {
		h := make([]uint64, n)
		for i := range h {
			h[i] = rng.Uint64()
		}
		return h
	}
	b := newBuilder(ranks)
	type prompt struct{ names, locals []uint64 }
	all := make([][]prompt, ranks)
	for slot := range ranks {
		for range prompts {
			p := prompt{random(promptBlocks), random(promptBlocks)}
			all[slot] = append(all[slot], p)
			b.add(corpus.Stored, slot, nil, p.names, p.locals)
		}
	}
	change := func(at int) *corpus.Corpus {
		b := newBuilder(ranks)
		for range events / 2 {
			slot := rng.IntN(ranks)
			p := all[slot][rng.IntN(prompts)]
			b.add(corpus.Removed, slot, nil, p.names[at:at+1])
			b.add(corpus.Stored, slot, &p.names[at-1], p.names[at:at+1], p.locals[at:at+1])
		}
		return &b.c
	}
	return &b.c, change(promptBlocks - 1), change(promptBlocks / 2)
}

// sharedWork returns a corpus in which every rank stores the same prompt, and
// the prompt.
func sharedWork(ranks int, seed uint64) (*corpus.Corpus, []indexer.LocalHash) {
	rng := rand.New(rand.NewPCG(seed, 2))
	b := newBuilder(ranks)
	names, locals := make([]uint64, promptBlocks), make([]uint64, promptBlocks)
	query := make([]indexer.LocalHash, promptBlocks)
	for i := range names {
		names[i], locals[i] = rng.Uint64(), rng.Uint64()
		query[i] = indexer.LocalHash(locals[i])
	}
	for slot := range ranks {
		b.add(corpus.Stored, slot, nil, names, locals)
	}
	return &b.c, query
}
