package policies

import (
	"github.com/kvbench/kvbench/indexer"
)

// Uncached costs a rank the share of the prompt that it does not hold, from 0
// (all is held) to 1. Without a prompt everyone costs 1.
type Uncached struct{}

// Inputs implements Component.
func (Uncached) Inputs() Inputs { return Cache }

// Score implements Scorer.
func (Uncached) Score(v *View, costs []float64) {
	r, c := v.Request(), v.Cache()
	for row := range costs {
		costs[row] = 1
	}
	if r.PromptTokens == 0 {
		return
	}
	for row, slot := range v.Rows() {
		if o := c.Overlap[slot]; o > 0 {
			costs[row] = 1 - float64(c.CachedTokens(r, o))/float64(r.PromptTokens)
		}
	}
}

// RelativeLoad costs a rank where its load lies between the least (0) and the
// largest (1) of the candidates: (load - min) / (max - min), 0 if all are equal.
// A rank of unknown load costs 1, unless nobody's differs.
type RelativeLoad struct {
	loads loads
}

// NewRelativeLoad makes one.
func NewRelativeLoad(by Measure) *RelativeLoad { return &RelativeLoad{loads{by: by}} }

// Inputs implements Component.
func (*RelativeLoad) Inputs() Inputs { return Load }

// Score implements Scorer.
func (s *RelativeLoad) Score(v *View, costs []float64) {
	l, least, most := s.loads.read(v)
	if least == most {
		clear(costs)
		return
	}
	span := float64(most - least)
	for row, x := range l {
		costs[row] = float64(x-least) / span
	}
}

// Utilisation costs a rank the share of its blocks that active requests hold, at
// most 1: decode blocks / capacity. A rank of unknown load costs as much as the
// costliest known, one of unknown capacity the mean of the known; if none is
// known, all cost 0. Blocks that are cached and idle are not counted: see the
// experimental residency scorers for those.
type Utilisation struct{}

// Inputs implements Component.
func (Utilisation) Inputs() Inputs { return Load | Capacity }

// Score implements Scorer.
func (Utilisation) Score(v *View, costs []float64) {
	l, capacity, rows := v.Load(), v.CapacityBlocks(), v.Rows()
	known, sum, most := 0, 0.0, 0.0
	for row, slot := range rows {
		if !l.Known[slot] || capacity[slot] == 0 {
			continue
		}
		costs[row] = min(1, float64(l.DecodeBlocks[slot])/float64(capacity[slot]))
		known++
		sum += costs[row]
		most = max(most, costs[row])
	}
	if known == len(rows) {
		return
	}
	mean := sum / float64(max(known, 1))
	for row, slot := range rows {
		switch {
		case !l.Known[slot]:
			costs[row] = most
		case capacity[slot] == 0:
			costs[row] = mean
		}
	}
}

// Multiplicative costs a rank the tokens that it would have to prefill before the
// request's first token, those of the queue included, times the requests that
// would be in its batch, this one included:
//
//	(prompt - cached + queued prefill tokens) * (requests + 1)
//
// Of an unknown load each factor counts as the largest known one.
type Multiplicative struct{}

// Inputs implements Component.
func (Multiplicative) Inputs() Inputs { return Cache | Load }

// Score implements Scorer.
func (Multiplicative) Score(v *View, costs []float64) {
	r, c, l := v.Request(), v.Cache(), v.Load()
	tokens, requests := worstKnown(v)
	for row, slot := range v.Rows() {
		queued, batch := tokens, requests
		if l.Known[slot] {
			queued, batch = l.PrefillTokens[slot], int64(l.Requests[slot])
		}
		uncached := r.PromptTokens - c.CachedTokens(r, c.Overlap[slot])
		costs[row] = float64(int64(uncached)+queued) * float64(batch+1)
	}
}

// worstKnown returns the most queued prefill tokens and the most requests of a
// candidate whose load is known, 0 if there is none.
func worstKnown(v *View) (tokens, requests int64) {
	l := v.Load()
	for _, slot := range v.Rows() {
		if l.Known[slot] {
			tokens = max(tokens, l.PrefillTokens[slot])
			requests = max(requests, int64(l.Requests[slot]))
		}
	}
	return tokens, requests
}

// PrefillModel says how long a prompt takes, in milliseconds:
//
//	Base + Token*n + Attention*n*(cached + n/2), 0 if n = 0
//
// where n tokens are computed behind cached ones.
type PrefillModel struct {
	Base, Token, Attention float64
}

func (m *PrefillModel) time(n, cached int) float64 {
	if n == 0 {
		return 0
	}
	return m.Base + float64(n)*(m.Token+m.Attention*(float64(cached)+float64(n)/2))
}

// FirstToken estimates the milliseconds until the request's first token: the
// queue, Token for each queued prefill token, and the prefill of what is not
// cached. If Transfer is not 0 and another candidate holds more than Ratio times
// what the rank does, the difference is fetched from it, at Transfer ms a token.
// A rank of unknown load has the longest queue known.
type FirstToken struct {
	Model    PrefillModel
	Transfer float64
	Ratio    float64
}

// Inputs implements Component.
func (FirstToken) Inputs() Inputs { return Cache | Load }

// Score implements Scorer.
func (s FirstToken) Score(v *View, costs []float64) {
	r, c, l := v.Request(), v.Cache(), v.Load()
	longest, _ := worstKnown(v)
	best := 0
	if s.Transfer != 0 {
		for _, slot := range v.Rows() {
			best = max(best, c.CachedTokens(r, c.Overlap[slot]))
		}
	}
	for row, slot := range v.Rows() {
		queued := longest
		if l.Known[slot] {
			queued = l.PrefillTokens[slot]
		}
		cached, fetch := c.CachedTokens(r, c.Overlap[slot]), 0.0
		if s.Transfer != 0 && float64(best) > s.Ratio*float64(cached) {
			fetch = s.Transfer * float64(best-cached)
			cached = best
		}
		costs[row] = s.Model.Token*float64(queued) + fetch + s.Model.time(r.PromptTokens-cached, cached)
	}
}

// ColdTurn spreads requests of which nobody holds anything: they prefer the rank
// that has had no such request for longest. Among n candidates the one that got
// the last costs 1, the one before it 1 - 1/(n-1) and so on; those that never
// got one cost 0. For other requests everyone costs 0.
type ColdTurn struct {
	// next and prev make a ring of coldHead and the slots that got a cold request,
	// from the longest ago to the last. Slot s is element s+1; one that never got
	// any points at itself.
	next, prev []uint32
	rowOf      []int32 // by slot: the row + 1, 0: not a candidate
	// of the last selection
	request uint64
	cold    bool
}

const coldHead = 0

// Inputs implements Component.
func (*ColdTurn) Inputs() Inputs { return Cache }

// Score implements Scorer.
func (s *ColdTurn) Score(v *View, costs []float64) {
	clear(costs)
	r, rows, overlap := v.Request(), v.Rows(), v.Cache().Overlap
	s.request, s.cold = r.ID, true
	for _, slot := range rows {
		if overlap[slot] > 0 {
			s.cold = false
		}
	}
	if !s.cold || len(rows) == 1 {
		return
	}
	s.grow(int(rows[len(rows)-1]))
	if n := len(s.next) - len(s.rowOf); n > 0 {
		s.rowOf = append(s.rowOf, make([]int32, n)...)
	}
	for row, slot := range rows {
		s.rowOf[slot] = int32(row) + 1
	}
	position := len(rows) - 1
	for e := s.prev[coldHead]; e != coldHead; e = s.prev[e] {
		if row := s.rowOf[e-1]; row > 0 {
			costs[row-1] = float64(position) / float64(len(rows)-1)
			position--
		}
	}
	for _, slot := range rows {
		s.rowOf[slot] = 0
	}
}

// grow makes room for a slot.
func (s *ColdTurn) grow(slot int) {
	for e := len(s.next); e <= slot+1; e++ {
		s.next = append(s.next, uint32(e))
		s.prev = append(s.prev, uint32(e))
	}
}

// Commit implements Committer.
func (s *ColdTurn) Commit(r *Request, slot indexer.Slot) {
	if !s.cold || r.ID != s.request {
		return
	}
	s.grow(int(slot))
	e := uint32(slot) + 1
	s.next[s.prev[e]], s.prev[s.next[e]] = s.next[e], s.prev[e]
	last := s.prev[coldHead]
	s.next[last], s.prev[e], s.next[e], s.prev[coldHead] = e, last, coldHead, e
}
