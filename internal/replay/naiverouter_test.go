package replay

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
)

// naiveRouter is a partition and its index in their simplest form: maps, scans and
// formulas as they are written down, one operation after another.
type naiveRouter struct {
	corpus *corpus.Corpus
	rand   *rand.Rand
	// held has by rank the paths of local hashes of the blocks that it holds, and
	// named the path of each of its sequence hashes.
	held  []map[string]bool
	named []map[indexer.SequenceHash]string

	active  map[uint32]naiveRequest
	session map[uint32]int
	last    int // rank chosen last; -1: none
	now     int64
}

type naiveRequest struct {
	slot    int
	prefill int64
	paths   []string
	partial int64
}

// naiveView is what is known of the ranks when a request comes.
type naiveView struct {
	overlap, prefill, decode, requests, shared, resident []int64

	blocks, tokens int64 // of the prompt
	size, capacity int64
	session        int // rank that served the session last; -1: none
}

func newNaiveRouter(c *corpus.Corpus, number int) *naiveRouter {
	r := &naiveRouter{
		corpus: c, rand: rand.New(rand.NewPCG(seedOf(c.Manifest.Seed, number), 0x6b7662656e6368)),
		active: map[uint32]naiveRequest{}, session: map[uint32]int{}, last: -1,
	}
	for range c.Ranks {
		r.held = append(r.held, map[string]bool{})
		r.named = append(r.named, map[indexer.SequenceHash]string{})
	}
	return r
}

func longer(path string, local indexer.LocalHash) string {
	return string(binary.LittleEndian.AppendUint64([]byte(path), uint64(local)))
}

func (r *naiveRouter) apply(op uint32) {
	var ev indexer.Event
	r.corpus.Event(op, &ev)
	held, named := r.held[ev.Slot], r.named[ev.Slot]
	switch ev.Kind {
	case indexer.Stored:
		path := ""
		if ev.HasParent {
			path = named[ev.Parent]
		}
		for i, seq := range ev.Sequences {
			path = longer(path, ev.Locals[i])
			named[seq], held[path] = path, true
		}
	case indexer.Removed:
		for _, seq := range ev.Sequences {
			delete(held, named[seq])
		}
	case indexer.Cleared:
		clear(held)
	}
}

// look returns the state at the deadline of a query.
func (r *naiveRouter) look(op *corpus.Op, locals []indexer.LocalHash) *naiveView {
	r.now = max(r.now, op.Deadline)
	for id, a := range r.active {
		if r.corpus.Requests[id].FirstToken <= r.now {
			a.prefill = 0
			r.active[id] = a
		}
		if r.corpus.Requests[id].Finish <= r.now {
			delete(r.active, id)
		}
	}
	of, o := &r.corpus.Requests[op.Seq], &r.corpus.Manifest.Options
	v := &naiveView{tokens: int64(of.InputTokens), size: int64(o.BlockSize), capacity: int64(o.GPUBlocks), session: -1}
	v.blocks = (v.tokens + v.size - 1) / v.size
	if slot, ok := r.session[of.Session]; ok {
		v.session = slot
	}
	for slot := range r.corpus.Ranks {
		union := map[string]bool{}
		var prefill, own, requests int64
		for _, a := range r.active {
			if a.slot == slot {
				prefill += a.prefill
				own += a.partial
				requests++
				for _, p := range a.paths {
					union[p] = true
				}
			}
		}
		v.prefill = append(v.prefill, prefill)
		v.decode = append(v.decode, own+int64(len(union)))
		v.requests = append(v.requests, requests)
		v.overlap = append(v.overlap, leading(r.held[slot], locals))
		v.shared = append(v.shared, leading(union, locals))
		v.resident = append(v.resident, int64(len(r.held[slot])))
	}
	return v
}

func leading(held map[string]bool, locals []indexer.LocalHash) (n int64) {
	path := ""
	for _, local := range locals {
		if path = longer(path, local); !held[path] {
			break
		}
		n++
	}
	return n
}

// book dispatches a request.
func (r *naiveRouter) book(op *corpus.Op, locals []indexer.LocalHash, v *naiveView, slot int) {
	of := &r.corpus.Requests[op.Seq]
	r.last, r.session[of.Session] = slot, slot
	if !of.Ran() {
		return
	}
	a := naiveRequest{slot: slot, prefill: v.tokens - min(v.tokens, v.overlap[slot]*v.size), partial: v.blocks - int64(len(locals))}
	path := ""
	for _, local := range locals {
		path = longer(path, local)
		a.paths = append(a.paths, path)
	}
	r.active[op.Seq] = a
}

// naivePolicy chooses a rank and says what it costs.
type naivePolicy func(r *naiveRouter, v *naiveView) (slot int, cost float64)

// least picks the least cost, one of equal ones by chance.
func (r *naiveRouter) least(costs []float64) (int, float64) {
	best, least := []int{}, math.Inf(1)
	for slot, c := range costs {
		if c < least {
			best, least = nil, c
		}
		if c == least {
			best = append(best, slot)
		}
	}
	if len(best) == 1 {
		return best[0], least
	}
	return best[r.rand.IntN(len(best))], least
}

func asFloats(x []int64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = float64(x[i])
	}
	return out
}

// relative is where each lies between the least and the largest.
func relative(x []int64) []float64 {
	least, most := x[0], x[0]
	for _, n := range x {
		least, most = min(least, n), max(most, n)
	}
	out := make([]float64, len(x))
	for i, n := range x {
		if most > least {
			out[i] = float64(n-least) / float64(most-least)
		}
	}
	return out
}

func naiveLeastLoaded(r *naiveRouter, v *naiveView) (int, float64) {
	return r.least(asFloats(v.requests))
}

// naivePolicies are rules of the catalogue by the text that gives them.
var naivePolicies = map[string]naivePolicy{
	"round-robin": func(r *naiveRouter, v *naiveView) (int, float64) {
		return (r.last + 1) % len(v.requests), 0
	},
	"random": func(r *naiveRouter, v *naiveView) (int, float64) {
		return r.rand.IntN(len(v.requests)), 0
	},
	"least-loaded": naiveLeastLoaded,
	"session": func(r *naiveRouter, v *naiveView) (int, float64) {
		if v.session >= 0 {
			return v.session, 0
		}
		return naiveLeastLoaded(r, v)
	},
	"longest-prefix": func(r *naiveRouter, v *naiveView) (int, float64) {
		longest := int64(0)
		for _, o := range v.overlap {
			longest = max(longest, o)
		}
		costs := asFloats(v.requests)
		for slot, o := range v.overlap {
			if o < longest {
				costs[slot] = math.Inf(1)
			}
		}
		slot, _ := r.least(costs)
		return slot, float64(v.blocks - longest)
	},
	"kv": func(r *naiveRouter, v *naiveView) (int, float64) {
		costs := make([]float64, len(v.requests))
		for slot := range costs {
			prefill := float64(v.prefill[slot]+v.tokens)/float64(v.size) - float64(v.overlap[slot])
			costs[slot] = max(0, prefill) + float64(v.decode[slot]+v.blocks-v.shared[slot])
		}
		return r.least(costs)
	},
	"eviction-pressure": func(r *naiveRouter, v *naiveView) (int, float64) {
		costs := relative(v.requests)
		for slot := range costs {
			evicted := max(0, v.resident[slot]+max(0, v.blocks-v.overlap[slot])-v.capacity)
			costs[slot] = float64(evicted) + 0.5*costs[slot]
		}
		return r.least(costs)
	},
}
