// Package residency has the components that read the experimental input
// RESIDENT_BLOCKS: costs of how full a rank's cache is, and of what a placement
// would push out of it. It may change or go in any release.
//
// # Ranks of which nothing is known
//
// A count that is absent is not 0, and neither is an unknown capacity: such a
// rank gets the mean cost of the candidates of which both are known, so that
// these costs neither draw requests to it nor keep them away. If nothing is known
// of any candidate, all cost 0. A rank whose cache was cleared has the count 0,
// which is known.
//
// Where a component has a bound on staleness, in events, a count counts as absent
// if it may lack more events than that of its rank's event thread. Without a
// bound (an infinite one) freshness is not read.
package residency

import (
	"math"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/experimental/residentblocks"
)

// counts reads the counts of the candidates.
type counts struct {
	stale float64 // events
	fresh []*indexer.ResidentCell
	none  *indexer.ResidentCell
}

func newCounts(stale float64) counts {
	cells, _ := indexer.NoResidentCells(1)
	return counts{stale: stale, none: cells[0]}
}

// read returns the counters by slot, which have residentblocks.Absent where there
// is no count that is fresh enough. Those of slots that are no candidates mean
// nothing.
func (c *counts) read(v *policies.View) []*indexer.ResidentCell {
	cells, all := c.readFresh(v)
	if all {
		return cells
	}
	f := residentblocks.LiveFresh(v)
	c.fresh = append(c.fresh[:0], f.Cells...)
	for _, slot := range v.Rows() {
		if at, ok := f.Freshness(slot); !ok || float64(at.Backlog()) > c.stale {
			c.fresh[slot] = c.none
		}
	}
	return c.fresh
}

// readFresh returns the counters by slot, and whether all are fresh enough.
func (c *counts) readFresh(v *policies.View) (cells []*indexer.ResidentCell, all bool) {
	if math.IsInf(c.stale, 1) {
		return residentblocks.Live(v).Cells, true
	}
	f := residentblocks.LiveFresh(v)
	return f.Cells, float64(f.MaxBacklog()) <= c.stale
}

// unknown is the cost of a rank of which not all is known, until fillMean: NaN.
func unknown() float64 { return math.NaN() }

// fillMean gives the rows that are unknown the mean of the others, 0 if there
// are none.
func fillMean(costs []float64) {
	known, sum := 0, 0.0
	for _, c := range costs {
		if !math.IsNaN(c) {
			known++
			sum += c
		}
	}
	if known == len(costs) {
		return
	}
	mean := sum / float64(max(known, 1))
	for row, c := range costs {
		if math.IsNaN(c) {
			costs[row] = mean
		}
	}
}

// Fill costs a rank the share of its blocks that hold something, used or idle:
// resident / capacity, at most 1.
type Fill struct{ counts counts }

// NewFill makes one. stale is how many events a count may lack at most.
func NewFill(stale float64) *Fill { return &Fill{newCounts(stale)} }

// Inputs implements policies.Component.
func (*Fill) Inputs() policies.Inputs {
	return policies.Capacity | policies.ExperimentalResidentBlocks
}

// Score implements policies.Scorer.
func (s *Fill) Score(v *policies.View, costs []float64) {
	cells, capacity := s.counts.read(v), v.CapacityBlocks()
	for row, slot := range v.Rows() {
		n, room := cells[slot].Blocks(), capacity[slot]
		if n == residentblocks.Absent || room == 0 {
			costs[row] = unknown()
			continue
		}
		costs[row] = min(1, float64(n)/float64(room))
	}
	fillMean(costs)
}

// Evictions costs a rank the blocks that it would have to evict to hold the
// request's prompt:
//
//	max(0, resident + needed - capacity)
//
// in blocks, where needed is the blocks of the prompt, a partial last one
// included, without the leading ones that the rank holds. Resident are all blocks
// that it holds, those of active requests too; which of them would go, and
// whether anyone would miss them, is not priced, and neither are the blocks of
// the answer. With PerCapacity the cost is that over the capacity of the rank.
//
// It is a policies.Surcharge too, of a selection in which no event thread is further
// behind than the bound.
type Evictions struct {
	perCapacity bool
	counts      counts
	now         evictionTerms // of a selection as a Surcharge
}

type evictionTerms struct {
	blocks            int64 // of the prompt
	cells             []*indexer.ResidentCell
	capacity, overlap []uint32
}

// NewEvictions makes one. stale is how many events a count may lack at most.
func NewEvictions(perCapacity bool, stale float64) *Evictions {
	return &Evictions{perCapacity: perCapacity, counts: newCounts(stale)}
}

// Inputs implements policies.Component.
func (*Evictions) Inputs() policies.Inputs {
	return policies.Cache | policies.Capacity | policies.ExperimentalResidentBlocks
}

// Score implements policies.Scorer.
func (s *Evictions) Score(v *policies.View, costs []float64) {
	cells, capacity, overlap := s.counts.read(v), v.CapacityBlocks(), v.Cache().Overlap
	n, rows := int64(v.Request().Blocks()), v.Rows()
	costs = costs[:len(rows)]
	missing := 0
	for row, slot := range rows {
		resident, room := cells[slot].Blocks(), capacity[slot]
		if resident == residentblocks.Absent || room == 0 {
			costs[row] = unknown()
			missing++
			continue
		}
		costs[row] = float64(evicted(n, resident, room, overlap[slot]))
	}
	if s.perCapacity {
		for row, slot := range rows {
			costs[row] /= float64(max(1, capacity[slot]))
		}
	}
	if missing > 0 {
		fillMean(costs)
	}
}

// Begin implements policies.Surcharge.
func (s *Evictions) Begin(v *policies.View) bool {
	cells, all := s.counts.readFresh(v)
	s.now = evictionTerms{int64(v.Request().Blocks()), cells, v.CapacityBlocks(), v.Cache().Overlap}
	return all
}

// Of implements policies.Surcharge.
func (s *Evictions) Of(slot indexer.Slot) (cost float64, ok bool) {
	cost = s.cost(&s.now, slot)
	return cost, !math.IsNaN(cost)
}

// cost is unknown if the count or the capacity of the slot is.
func (s *Evictions) cost(t *evictionTerms, slot indexer.Slot) float64 {
	resident, room := t.cells[slot].Blocks(), t.capacity[slot]
	if resident == residentblocks.Absent || room == 0 {
		return unknown()
	}
	c := float64(evicted(t.blocks, resident, room, t.overlap[slot]))
	if s.perCapacity {
		c /= float64(room)
	}
	return c
}

// evicted returns the blocks that go if a prompt of n blocks comes.
func evicted(n int64, resident, capacity, overlap uint32) int64 {
	return max(0, int64(resident)+max(0, n-int64(overlap))-int64(capacity))
}

var (
	_ = [...]policies.Scorer{(*Fill)(nil), (*Evictions)(nil)}

	_ policies.Surcharge = (*Evictions)(nil)
)
