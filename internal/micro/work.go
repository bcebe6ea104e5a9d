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
)

// The window of a prepared corpus decides the order of its operations and
// nothing else here.
const window = time.Minute

// engineWork prepares copies of a trace as replays do: mock engines send the events,
// the blocks of prompts as they are scheduled and those of answers as they fill up.
func engineWork(ctx context.Context, o *IndexOptions, ranks, copies int) (*corpus.Corpus, error) {
	t := o.Trace
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

// expansion is how many blocks an id of the trace becomes in cacheWork: 512 tokens
// in blocks of 128.
const expansion = 4

// cacheWork plays copies of a trace on ranks that are nothing but caches: each
// holds capacity blocks and evicts the least recently used, the end of a prompt
// before its beginning. A request goes to a random rank and makes one query, one
// Removed for what must give way, if anything must, and one Stored with what was
// not there, if anything was not. Answers leave no blocks. So an event is as long
// as it can be, which is what the published measurements of indexes replay; an
// engine sends its blocks in several events, see engineWork. Requests come in the
// order of the trace's rows, those of all copies beside each other.
func cacheWork(ctx context.Context, o *IndexOptions, ranks, copies int) (*corpus.Corpus, error) {
	t := o.Trace
	rows := t.Len()
	long, err := t.ExpandPrefix(expansion)
	if err != nil {
		return nil, err
	}
	all, err := long.Duplicate(copies)
	if err != nil {
		return nil, err
	}
	rank := all.Partition(ranks, o.Seed)
	caches := make([]lru, ranks)
	b := newBuilder(ranks)
	o.step("prepare", int64(all.Len()))
	var locals, names, victims []uint64
	for row := range rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for copied := range copies {
			i := copied*rows + row
			ids := all.Request(i).HashIDs
			if len(ids) == 0 {
				continue
			}
			if len(ids) > o.GPUBlocks {
				return nil, fmt.Errorf("request %d has %d blocks and a rank's cache has %d; raise --gpu-blocks", row+1, len(ids), o.GPUBlocks)
			}
			locals, names = locals[:0], names[:0]
			name := uint64(0)
			for _, id := range ids {
				local := scramble(id, 0)
				name = scramble(local, name)
				locals, names = append(locals, local), append(names, name)
			}
			slot := rank[all.SessionOf(i)]
			c := &caches[slot]
			b.add(corpus.Query, slot, nil, locals)
			var held int
			if held, victims = c.request(names, o.GPUBlocks, victims[:0]); len(victims) > 0 {
				b.add(corpus.Removed, slot, nil, victims)
			}
			if held < len(names) {
				var parent *uint64
				if held > 0 {
					parent = &names[held-1]
				}
				b.add(corpus.Stored, slot, parent, names[held:], locals[held:])
			}
		}
		o.advance(int64((row + 1) * copies))
	}
	b.c.Manifest.Totals = corpus.CountOps(b.c.Ops)
	return &b.c, nil
}

// scramble spreads two words over one, as SplitMix64 does. Two zeros do not give
// zero, a name that no engine happens to have.
func scramble(a, b uint64) uint64 {
	z := (a+0x9e3779b97f4a7c15)*0xff51afd7ed558ccd + b
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// lru is a rank's cache: the names that it holds, in a ring from the least to the
// most recently used. Entry 0 is the ring's head.
type lru struct {
	at   map[uint64]uint32
	ring []lruEntry
	free []uint32
}

type lruEntry struct {
	name         uint64
	older, newer uint32
}

// request uses the names of a prompt, in its order, of which there are at most
// capacity. It returns how many of them lead without a gap, and appends to victims
// what went to make room for the others, in the order in which it went. The end of
// the prompt is less recently used than its beginning.
func (c *lru) request(names []uint64, capacity int, victims []uint64) (held int, _ []uint64) {
	if c.at == nil {
		c.at, c.ring = make(map[uint64]uint32), make([]lruEntry, 1)
	}
	for held < len(names) {
		e, ok := c.at[names[held]]
		if !ok {
			break
		}
		c.unlink(e) // out of the victims' way
		held++
	}
	for len(c.at)+len(names)-held > capacity {
		e := c.ring[0].newer
		victims = append(victims, c.ring[e].name)
		delete(c.at, c.ring[e].name)
		c.unlink(e)
		c.free = append(c.free, e)
	}
	for k := len(names) - 1; k >= 0; k-- {
		e := c.at[names[k]]
		if k >= held { // and so not there: a name never outlives those before it
			e = c.entry()
			c.ring[e].name = names[k]
			c.at[names[k]] = e
		}
		c.link(e)
	}
	return held, victims
}

// entry returns an entry that is in use for nothing.
func (c *lru) entry() uint32 {
	if n := len(c.free); n > 0 {
		e := c.free[n-1]
		c.free = c.free[:n-1]
		return e
	}
	c.ring = append(c.ring, lruEntry{})
	return uint32(len(c.ring) - 1)
}

func (c *lru) link(e uint32) {
	last := c.ring[0].older
	c.ring[e].older, c.ring[e].newer = last, 0
	c.ring[last].newer, c.ring[0].older = e, e
}

func (c *lru) unlink(e uint32) {
	x := c.ring[e]
	c.ring[x.older].newer, c.ring[x.newer].older = x.newer, x.older
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
