package residency

import (
	"math"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/policies"
)

// PrebleParams are the parameters of Preble.
type PrebleParams struct {
	// Window is how long a request that was sent to a rank counts as its load.
	Window time.Duration
	// Token is the ms to compute a token of a prompt, Decode the ms of a rank's
	// time that a token of an answer takes. Both are finite and at least 0.
	Token, Decode float64
	// Output is the tokens of an answer where the request has no guess.
	Output int
	// Stale is how many events a count may lack at most.
	Stale float64
}

// Preble exploits or explores: if some candidate holds at least as many of the
// prompt's tokens as it does not hold, the candidate with the longest match gets
// the request, among equal ones that of the least load cost; else the candidate
// of the least load cost of all, which is in ms
//
//	Token * (uncached tokens of what was sent to it within Window, this request's included)
//	+ Decode * (tokens of the answers of these)
//	+ Token * block size * (blocks that this request would evict)
//
// The last is a count of Evictions, the mean of the known ones where it is
// unknown. What was sent is known from Commit; of a request that another
// component placed the whole prompt counts as uncached. Equal costs go by chance.
type Preble struct {
	p         PrebleParams
	evictions *Evictions
	least     policies.LeastCost

	// sent are the requests of the window from head on, in the order of their
	// times; load is their sum by slot. Both are in ns, so that what is added and
	// taken away later leaves nothing.
	sent []sentRequest
	head int
	load []int64

	picked   bool   // anything yet
	request  uint64 // the last one
	chosen   indexer.Slot
	uncached int
}

type sentRequest struct {
	at   time.Duration
	slot indexer.Slot
	cost int64
}

// NewPreble makes one.
func NewPreble(p PrebleParams) *Preble {
	return &Preble{p: p, evictions: NewEvictions(false, p.Stale)}
}

// Inputs implements policies.Component.
func (s *Preble) Inputs() policies.Inputs { return s.evictions.Inputs() }

// Pick implements policies.Picker. The costs become load costs, infinite for rows
// that are out of the question.
func (s *Preble) Pick(v *policies.View, costs []float64) int {
	r, c, rows := v.Request(), v.Cache(), v.Rows()
	s.forget(r.Now)
	s.grow(rows[len(rows)-1])
	s.evictions.Score(v, costs)
	longest := uint32(0)
	for _, slot := range rows {
		longest = max(longest, c.Overlap[slot])
	}
	cached := c.CachedTokens(r, longest)
	exploit := cached > 0 && cached >= r.PromptTokens-cached
	for row, slot := range rows {
		if exploit && c.Overlap[slot] != longest {
			costs[row] = math.Inf(1)
			continue
		}
		own := s.cost(r, r.PromptTokens-c.CachedTokens(r, c.Overlap[slot]))
		costs[row] = float64(s.load[slot]+own)/1e6 + s.p.Token*float64(r.BlockSize)*costs[row]
	}
	row := s.least.Pick(v, costs)
	s.picked, s.request, s.chosen = true, r.ID, rows[row]
	s.uncached = r.PromptTokens - c.CachedTokens(r, c.Overlap[s.chosen])
	return row
}

// cost returns the ns that a request with so many uncached tokens takes.
func (s *Preble) cost(r *policies.Request, uncached int) int64 {
	output := r.ExpectedOutputTokens
	if output == 0 {
		output = s.p.Output
	}
	return int64(math.Round(1e6 * (s.p.Token*float64(uncached) + s.p.Decode*float64(output))))
}

// Commit implements policies.Committer.
func (s *Preble) Commit(r *policies.Request, slot indexer.Slot) {
	uncached := r.PromptTokens
	if s.picked && r.ID == s.request && slot == s.chosen {
		uncached = s.uncached
	}
	s.forget(r.Now)
	s.grow(slot)
	cost := s.cost(r, uncached)
	s.sent = append(s.sent, sentRequest{r.Now, slot, cost})
	s.load[slot] += cost
}

// forget drops what was sent before the window.
func (s *Preble) forget(now time.Duration) {
	for s.head < len(s.sent) && now-s.sent[s.head].at > s.p.Window {
		old := &s.sent[s.head]
		s.load[old.slot] -= old.cost
		s.head++
	}
	if s.head > len(s.sent)/2 {
		s.sent = s.sent[:copy(s.sent, s.sent[s.head:])]
		s.head = 0
	}
}

// grow makes room for a slot.
func (s *Preble) grow(slot indexer.Slot) {
	if n := int(slot) + 1 - len(s.load); n > 0 {
		s.load = append(s.load, make([]int64, n)...)
	}
}

var _ interface {
	policies.Picker
	policies.Committer
} = (*Preble)(nil)
