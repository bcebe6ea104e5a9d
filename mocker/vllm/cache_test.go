package vllm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine/enginetest"
	"github.com/kvbench/kvbench/trace"
)

// pair is a request in a cache and the same in mocker.Pool, block by block.
type pair struct {
	chain  *mocker.Chain
	held   held
	copies []int32
	stored int
}

// stays is how long copies of a pool were there and idle, each by itself.
type stays struct {
	now, cached, dead int64
	committed         map[int32]bool
	holders           map[int32]int
	idle              map[int32]int64 // since when, of the committed ones
}

func newStays() *stays {
	return &stays{committed: map[int32]bool{}, holders: map[int32]int{}, idle: map[int32]int64{}}
}

func (s *stays) pass(ns int64) {
	s.now += ns
	s.cached += ns * int64(len(s.committed))
}

// hold says that a request takes copies, of which the first hits were found.
func (s *stays) hold(copies []int32, hits int) {
	for i, c := range copies {
		if since, ok := s.idle[c]; ok {
			delete(s.idle, c)
			if i >= hits { // it was evicted for this request
				s.dead += s.now - since
				delete(s.committed, c)
			}
		}
		s.holders[c]++
	}
}

func (s *stays) release(copies []int32) {
	for _, c := range copies {
		if s.holders[c]--; s.holders[c] == 0 && s.committed[c] {
			s.idle[c] = s.now
		}
	}
}

func (s *stays) sums() (cached, dead int64) {
	dead = s.dead
	for _, since := range s.idle {
		dead += s.now - since
	}
	return s.cached, dead
}

// TestCacheIsThePool does the same to a cache and to mocker.Pool, which has each
// block by itself, and compares all that an engine sees.
func TestCacheIsThePool(t *testing.T) {
	var hits, evicted, doubles, partial, refused int
	var lived, died int64
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		between := func(low, high int) int { return low + rng.IntN(high-low+1) }
		traceBlock, size := between(1, 5), between(1, 3)
		var rows []trace.Request
		for i := range between(2, 8) {
			var ids []uint64
			if i > 0 && between(0, 3) > 0 {
				before := rows[between(0, i-1)].HashIDs
				ids = append(ids, before[:between(0, len(before))]...)
			}
			for range between(0, 5) {
				ids = append(ids, uint64(between(0, 2)))
			}
			rows = append(rows, trace.Request{HashIDs: ids, InputLength: between(min(len(ids), max(0, len(ids)-1)*traceBlock+1), len(ids)*traceBlock)})
		}
		tr := enginetest.Requests(traceBlock, rows...)
		prompts := mocker.NewPrompts(tr, size)
		blocks := between(1, 60)
		c, pool := newCache(blocks, true), mocker.NewPool(blocks)
		var running []*pair
		var spans []span
		var evict []indexer.SequenceHash
		times := newStays()
		compare := func() {
			cached, dead := c.residency(c.now)
			if wantCached, wantDead := times.sums(); cached != wantCached || dead != wantDead {
				t.Fatalf("seed %d: blocks were there for %d, dead for %d; each by itself for %d and %d", seed, cached, dead, wantCached, wantDead)
			}
			lived, died = lived+cached-dead, died+dead
			if c.active() != pool.Active() || c.used != pool.Used() || c.distinct != pool.Cached() {
				t.Fatalf("seed %d: %d active, %d used, %d distinct; the pool has %d, %d, %d", seed, c.active(), c.used, c.distinct, pool.Active(), pool.Used(), pool.Cached())
			}
			if !slices.Equal(c.evicted, evict) || c.gone != len(evict) {
				t.Fatalf("seed %d: evicted %x, %d, the pool %x", seed, c.evicted, c.gone, evict)
			}
			var holders []*held
			for _, r := range running {
				holders = append(holders, &r.held)
				if r.held.stored != r.stored || r.held.blocks() != len(r.copies) {
					t.Fatalf("seed %d: %+v holds %d, %d stored", seed, r.held, len(r.copies), r.stored)
				}
			}
			if err := c.check(holders); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			evicted += len(evict)
		}
		actions := []func(){
			func() { // admit
				r := &pair{chain: new(mocker.Chain)}
				r.chain.StartIn(prompts, between(0, len(rows)-1), 1)
				limit := (r.chain.Prompt() + between(0, 8)) / size
				_, sequences := r.chain.Blocks(limit * size)
				var n, active int
				spans, n, active = c.match(r.chain.Path(), limit, spans[:0])
				found, poolActive := pool.Match(sequences, nil)
				if n != len(found) || active != poolActive {
					t.Fatalf("seed %d: %d hits, %d active, the pool has %d, %d", seed, n, active, len(found), poolActive)
				}
				fresh := between(0, 6)
				ok := c.hold(&r.held, spans, n, active, fresh)
				var poolOK bool
				r.copies, evict, poolOK = pool.Hold(found, fresh, nil, evict[:0])
				if ok != poolOK {
					t.Fatalf("seed %d: held %v, the pool %v", seed, ok, poolOK)
				}
				if !ok {
					refused++
				} else {
					hits += n
					times.hold(r.copies, n)
					r.stored = n
					running = append(running, r)
				}
				compare()
			},
			func() { // grow
				if len(running) == 0 {
					return
				}
				r := running[between(0, len(running)-1)]
				fresh := between(0, 4)
				ok := c.hold(&r.held, nil, 0, 0, fresh)
				var poolOK bool
				had := len(r.copies)
				if r.copies, evict, poolOK = pool.Hold(nil, fresh, r.copies, evict[:0]); ok != poolOK {
					t.Fatalf("seed %d: held %v, the pool %v", seed, ok, poolOK)
				}
				times.hold(r.copies[had:], 0)
				compare()
			},
			func() { // store
				if len(running) == 0 {
					return
				}
				r := running[between(0, len(running)-1)]
				to := between(r.stored, len(r.copies))
				_, sequences := r.chain.Blocks(to * size)
				fresh := c.store(&r.held, r.chain.Path(), to, sequences)
				var want []stretch
				for i := int32(r.stored); i < int32(to); i++ {
					times.committed[r.copies[i]] = true
					switch {
					case !pool.Commit(r.copies[i], sequences[i]):
						doubles++
					case len(want) > 0 && want[len(want)-1].to == i:
						want[len(want)-1].to++
					default:
						want = append(want, stretch{i, i + 1})
					}
				}
				if len(want) > 0 && want[0].from > int32(r.stored) {
					partial++
				}
				if !slices.Equal(fresh, want) {
					t.Fatalf("seed %d: new: %v, in the pool %v", seed, fresh, want)
				}
				r.stored = to
				c.evicted, c.gone, evict = nil, 0, nil
				compare()
			},
			func() { // release
				if len(running) == 0 {
					return
				}
				i := between(0, len(running)-1)
				r := running[i]
				running = slices.Delete(running, i, i+1)
				c.release(&r.held)
				pool.Release(r.copies)
				times.release(r.copies)
				c.evicted, c.gone, evict = nil, 0, nil
				compare()
			},
		}
		for range between(0, 150) {
			times.pass(int64(between(0, 3)))
			c.now = times.now
			actions[between(0, len(actions)-1)]()
		}
	}
	if hits == 0 || evicted == 0 || doubles == 0 || partial == 0 || refused == 0 || lived == 0 || died == 0 {
		t.Errorf("the test shows too little: %d hits, %d evicted, %d doubles, %d stores of which a part was there, %d refused, %d ns of use, %d dead", hits, evicted, doubles, partial, refused, lived, died)
	}
}
