package replay

import (
	"slices"

	"github.com/kvbench/kvbench/internal/replay/corpus"
)

// plan is who does which operation, worked out before the run. Operations are
// named by their position in the corpus.
type plan struct {
	queries   []uint32   // all queries, in order of issue
	events    [][]uint32 // by event issuer, in order of issue
	issuerOf  []int      // event issuer by slot
	laneSizes []int      // queries by lane
	perThread []int      // events by event thread
	numEvents int
	maxPair   int // most events between one issuer and one event thread
}

// laneOf returns the lane of the queries of a rank.
func laneOf(slot uint32, lanes int) int { return int(slot) % lanes }

// newPlan splits the corpus: each event issuer owns a contiguous group of ranks
// with about the same number of ranks, and threadOf says which event thread owns
// a rank.
func newPlan(c *corpus.Corpus, issuers, lanes, eventThreads int, threadOf func(slot uint32) int) *plan {
	p := &plan{
		issuerOf:  make([]int, len(c.Ranks)),
		events:    make([][]uint32, issuers),
		laneSizes: make([]int, lanes),
		perThread: make([]int, eventThreads),
	}
	for slot := range c.Ranks {
		p.issuerOf[slot] = slot * issuers / len(c.Ranks)
	}
	pairs := make([]int, issuers*eventThreads)
	numQueries := 0
	counts := make([]int, issuers)
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Kind == corpus.Query {
			numQueries++
			p.laneSizes[laneOf(op.Slot, lanes)]++
			continue
		}
		issuer, thread := p.issuerOf[op.Slot], threadOf(op.Slot)
		counts[issuer]++
		p.perThread[thread]++
		pairs[issuer*eventThreads+thread]++
	}
	p.maxPair = slices.Max(pairs)
	p.queries = make([]uint32, 0, numQueries)
	for i := range p.events {
		p.events[i] = make([]uint32, 0, counts[i])
		p.numEvents += counts[i]
	}
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Kind == corpus.Query {
			p.queries = append(p.queries, uint32(i))
		} else {
			issuer := p.issuerOf[op.Slot]
			p.events[issuer] = append(p.events[issuer], uint32(i))
		}
	}
	return p
}
