package mocker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// naivePool is the pool as plainly as possible: a list of copies in the order in
// which they were last used or freed.
type naivePool struct {
	capacity int
	copies   []*naiveCopy // oldest first
	clock    int
}

type naiveCopy struct {
	id     int32 // the real pool's name for it
	hash   indexer.SequenceHash
	cached bool
	refs   int
	born   int // when it was committed
	freed  int // when it became inactive
}

// find returns the oldest copy of a hash.
func (p *naivePool) find(h indexer.SequenceHash) *naiveCopy {
	var best *naiveCopy
	for _, c := range p.copies {
		if c.cached && c.hash == h && (best == nil || c.born < best.born) {
			best = c
		}
	}
	return best
}

func (p *naivePool) byID(id int32) *naiveCopy {
	for _, c := range p.copies {
		if c.id == id {
			return c
		}
	}
	return nil
}

func (p *naivePool) idle() (out []*naiveCopy) {
	for _, c := range p.copies {
		if c.refs == 0 {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *naiveCopy) int { return a.freed - b.freed })
	return out
}

func (p *naivePool) drop(c *naiveCopy) {
	p.copies = slices.DeleteFunc(p.copies, func(d *naiveCopy) bool { return d == c })
}

func TestPoolAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 12).Draw(t, "capacity")
		p, m := NewPool(capacity), &naivePool{capacity: capacity}
		var requests [][]int32
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "release") && len(requests) > 0 {
				i := rapid.IntRange(0, len(requests)-1).Draw(t, "which")
				held := requests[i]
				requests = slices.Delete(requests, i, i+1)
				p.Release(held)
				for _, id := range slices.Backward(held) {
					c := m.byID(id)
					if c.refs--; c.refs == 0 {
						m.clock++
						if c.freed = m.clock; !c.cached {
							m.drop(c)
						}
					}
				}
			} else {
				// A prompt is a path in a tree with few branches.
				prompt := make([]indexer.SequenceHash, rapid.IntRange(0, 5).Draw(t, "length"))
				for i := range prompt {
					prompt[i] = indexer.SequenceHash(i*3 + rapid.IntRange(0, 1).Draw(t, "branch"))
				}
				hits := 0
				for hits < len(prompt) && m.find(prompt[hits]) != nil {
					hits++
				}
				if got := p.Lookup(prompt); got != hits {
					t.Fatalf("lookup of %v: %d, want %d", prompt, got, hits)
				}
				used := rapid.IntRange(0, hits).Draw(t, "used hits")
				fresh := len(prompt) - used + rapid.IntRange(0, 1).Draw(t, "partial")
				var pinned []*naiveCopy
				for _, h := range prompt[:used] {
					pinned = append(pinned, m.find(h))
				}
				var victims []*naiveCopy
				for _, c := range m.idle() {
					if !slices.Contains(pinned, c) {
						victims = append(victims, c)
					}
				}
				needed := max(0, fresh-(capacity-len(m.copies)))
				held, evicted, ok := p.Reserve(prompt[:used], fresh, nil, nil)
				if ok != (needed <= len(victims)) {
					t.Fatalf("reserve %d beside %d hits: %v, with %d to evict of %d", fresh, used, ok, needed, len(victims))
				}
				if ok {
					var want []indexer.SequenceHash
					for _, c := range victims[:needed] {
						m.drop(c)
						if m.find(c.hash) == nil {
							want = append(want, c.hash)
						}
					}
					if !slices.Equal(evicted, want) {
						t.Fatalf("evicted %v, want %v", evicted, want)
					}
					for i, c := range pinned {
						if held[i] != c.id {
							t.Fatalf("hit %d is copy %d, want %d", i, held[i], c.id)
						}
						c.refs++
					}
					for _, id := range held[used:] {
						m.copies = append(m.copies, &naiveCopy{id: id, refs: 1})
					}
					for i := used; i < len(prompt); i++ {
						isNew := m.find(prompt[i]) == nil
						if got := p.Commit(held[i], prompt[i]); got != isNew {
							t.Fatalf("commit of %d: new %v, want %v", prompt[i], got, isNew)
						}
						m.clock++
						c := m.byID(held[i])
						c.cached, c.hash, c.born = true, prompt[i], m.clock
					}
					requests = append(requests, held)
				}
			}
			active, hashes := 0, map[indexer.SequenceHash]bool{}
			for _, c := range m.copies {
				if c.refs > 0 {
					active++
				}
				if c.cached {
					hashes[c.hash] = true
				}
			}
			if p.Active() != active || p.Cached() != len(hashes) {
				t.Fatalf("%d active and %d cached, want %d and %d", p.Active(), p.Cached(), active, len(hashes))
			}
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestLeavesGoBeforeRoots evicts one block at a time from a released prompt.
func TestLeavesGoBeforeRoots(t *testing.T) {
	p := NewPool(3)
	prompt := []indexer.SequenceHash{10, 11, 12}
	held, _, _ := p.Reserve(nil, 3, nil, nil)
	for i, h := range prompt {
		p.Commit(held[i], h)
	}
	p.Release(held)
	var gone []indexer.SequenceHash
	for range prompt {
		h, evicted, ok := p.Reserve(nil, 1, nil, nil)
		if !ok || len(evicted) != 1 {
			t.Fatalf("evicted %v, %v", evicted, ok)
		}
		gone = append(gone, evicted...)
		_ = h
	}
	if want := []indexer.SequenceHash{12, 11, 10}; !slices.Equal(gone, want) {
		t.Errorf("evicted %v, want %v", gone, want)
	}
	if _, _, ok := p.Reserve(nil, 1, nil, nil); ok {
		t.Error("an active block was evicted")
	}
}

// realTrace loads the shared trace.
func realTrace(t testing.TB) *trace.Trace {
	t.Helper()
	path, err := filepath.Abs("../../shared/traces/mooncake/conversation_trace.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the shared trace is not at %s", path)
	}
	tr, _, err := trace.Load(context.Background(), path, trace.ReaderOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestGoldenHits holds the pool against hit counts of the conversation trace
// that independent programs agree on.
func TestGoldenHits(t *testing.T) {
	tr := realTrace(t)
	for _, c := range []struct {
		capacity int
		full     bool
		hits     int64
		refs     int64
	}{
		{1000, false, 12847, 288500}, {10000, false, 61046, 288500}, {50000, false, 102290, 288500}, {1 << 30, false, 105710, 288500},
		{1000, true, 12990, 276491}, {10000, true, 62005, 276491}, {50000, true, 102724, 276491}, {1 << 30, true, 105592, 276491},
	} {
		if hits, refs := ReplayCache(tr, c.capacity, c.full); hits != c.hits || refs != c.refs {
			t.Errorf("capacity %d, full blocks only %v: %d hits of %d, want %d of %d", c.capacity, c.full, hits, refs, c.hits, c.refs)
		}
	}
	// In tokens: 16,384 tokens are 32 blocks, of which prompts have up to 247.
	for blocks, want := range map[int]float64{32: .0425, 128: .0427, 512: .0430, 2048: .0560, 8192: .1851, 32768: .3415} {
		if got := tokenHitShare(tr, blocks); got < want-.00005 || got > want+.00005 {
			t.Errorf("%d blocks: %.5f of the tokens hit, want %.4f", blocks, got, want)
		}
	}
}

// tokenHitShare is ReplayCache weighted with tokens.
func tokenHitShare(t *trace.Trace, capacity int) float64 {
	p := NewPool(capacity)
	var hit, all int64
	for i := range t.Len() {
		r := t.Request(i)
		var hashes []indexer.SequenceHash
		for _, id := range r.HashIDs[:min(len(r.HashIDs), capacity)] {
			hashes = append(hashes, indexer.SequenceHash(id))
		}
		n := p.Lookup(hashes)
		hit += int64(min(n*t.BlockSize, r.InputLength))
		all += int64(r.InputLength)
		held, _, _ := p.Reserve(hashes[:n], len(hashes)-n, nil, nil)
		for k := n; k < len(hashes); k++ {
			p.Commit(held[k], hashes[k])
		}
		p.Release(held)
	}
	return float64(hit) / float64(all)
}
