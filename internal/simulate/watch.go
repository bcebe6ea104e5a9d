package simulate

import (
	"fmt"
	"math/bits"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
)

// watch follows the engines of a run: how long blocks stay in the caches without
// use, and, if the run is strict, which request no rank could hold.
//
// A block is dead from the end of the last request that had it until it is
// evicted or the run ends: what it took then served nobody. That is known
// afterwards only. Of a large fleet a part of the blocks is followed, chosen by
// name, so that all blocks have the same chance whatever is done with them.
type watch struct {
	ranks  []rankWatch
	mask   indexer.SequenceHash // a block is followed if its name has none of these bits
	shift  int
	chains []*mocker.Chain // by row, while the request is in an engine
	output []int32         // by row: tokens generated
	again  []again         // by row
	strict func(rank int, row uint64, why engine.Refusal)
}

// again is what a request had when it was admitted again after it lost its blocks.
type again struct{ tokens, hits int64 }

// followed is how many blocks there are at least to follow, if the pools are so
// large.
const followed = 1 << 15

func newWatch(cfg *Config, requests int, strict func(int, uint64, engine.Refusal)) *watch {
	total, _ := cfg.Engine.allBlocks(cfg.Workers)
	shift := max(0, bits.Len(uint(total/followed))-1)
	w := &watch{
		ranks: make([]rankWatch, cfg.Workers), shift: shift, mask: 1<<shift - 1,
		chains: make([]*mocker.Chain, requests), output: make([]int32, requests), again: make([]again, requests), strict: strict,
	}
	for i := range w.ranks {
		w.ranks[i] = rankWatch{watch: w, number: i, blocks: map[indexer.SequenceHash]stay{}}
	}
	return w
}

// stay is one block in the cache of one rank.
type stay struct{ since, used int64 }

// rankWatch stands between an engine and what listens to it.
type rankWatch struct {
	watch  *watch
	number int
	engine rankEngine
	next   engine.Listener

	blocks      map[indexer.SequenceHash]stay
	sumSince    int64 // of the blocks that are there
	sumUsed     int64
	there, dead int64 // block-ns of those that are gone
}

// Submit implements fleet.Engine.
func (r *rankWatch) Submit(now int64, req engine.Request) engine.Refusal {
	w := r.watch
	w.chains[req.ID], w.output[req.ID] = req.Chain, 0
	why := r.engine.Submit(now, req)
	if why != engine.Accepted {
		w.chains[req.ID] = nil
		if w.strict != nil {
			w.strict(r.number, req.ID, why)
		}
	}
	return why
}

// Next implements fleet.Engine.
func (r *rankWatch) Next() (int64, bool) { return r.engine.Next() }

// Begin implements fleet.Engine.
func (r *rankWatch) Begin() error { return r.engine.Begin() }

// Advance implements fleet.Engine.
func (r *rankWatch) Advance(to int64) error { return r.engine.Advance(to) }

// Counts implements fleet.Engine.
func (r *rankWatch) Counts() engine.Counts { return r.engine.Counts() }

// Check implements fleet.Engine.
func (r *rankWatch) Check() error { return r.engine.Check() }

// Event implements engine.Listener.
func (r *rankWatch) Event(at int64, ev *indexer.Event) {
	switch ev.Kind {
	case indexer.Stored:
		for _, s := range ev.Sequences {
			if s&r.watch.mask == 0 {
				r.blocks[s] = stay{at, at}
				r.sumSince += at
				r.sumUsed += at
			}
		}
	case indexer.Removed:
		for _, s := range ev.Sequences {
			if s&r.watch.mask == 0 {
				b := r.blocks[s]
				delete(r.blocks, s)
				r.there += at - b.since
				r.dead += at - b.used
				r.sumSince -= b.since
				r.sumUsed -= b.used
			}
		}
	}
	r.next.Event(at, ev)
}

// Admitted implements engine.Listener.
func (r *rankWatch) Admitted(at int64, id uint64, cached int, again bool) {
	if again {
		a := &r.watch.again[id]
		a.tokens += int64(r.watch.chains[id].Prompt()) + int64(r.watch.output[id])
		a.hits += int64(cached)
	}
	r.next.Admitted(at, id, cached, again)
}

// Token implements engine.Listener.
func (r *rankWatch) Token(at int64, id uint64, n int) {
	r.watch.output[id] = int32(n)
	r.next.Token(at, id, n)
}

// Preempted implements engine.Listener.
func (r *rankWatch) Preempted(at int64, id uint64) {
	r.use(at, id)
	r.next.Preempted(at, id)
}

// Done implements engine.Listener.
func (r *rankWatch) Done(at int64, id uint64) {
	r.use(at, id)
	r.watch.chains[id] = nil
	r.next.Done(at, id)
}

// use notes that a request had its blocks until now.
func (r *rankWatch) use(at int64, id uint64) {
	w := r.watch
	chain := w.chains[id]
	_, sequences := chain.Blocks(chain.Prompt() + max(0, int(w.output[id])-1))
	for _, s := range sequences {
		if s&w.mask == 0 {
			if b, ok := r.blocks[s]; ok {
				r.sumUsed += at - b.used
				b.used = at
				r.blocks[s] = b
			}
		}
	}
}

// residency sums up at the end of the run.
func (w *watch) residency(end int64) Residency {
	out := Residency{FollowedShare: 1 / float64(int64(1)<<w.shift)}
	var there, dead float64
	for i := range w.ranks {
		r := &w.ranks[i]
		n := int64(len(r.blocks))
		there += float64(r.there + n*end - r.sumSince)
		dead += float64(r.dead + n*end - r.sumUsed)
	}
	if there > 0 {
		out.DeadShare = dead / there
	}
	return out
}

// refused is the error of a strict run.
type refused struct {
	rank, row, line int
	why             engine.Refusal
}

func (e *refused) Error() string {
	return fmt.Sprintf("line %d, row %d of the trace: rank %d refuses the request (%v); give --gpu-blocks that hold it, or leave --strict out to count such requests",
		e.line, e.row, e.rank, e.why)
}
