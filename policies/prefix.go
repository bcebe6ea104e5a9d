package policies

import (
	"math"
	"slices"

	"github.com/kvbench/kvbench/indexer"
)

// LongestPrefix picks the rank with the longest match, among equal ones the least
// loaded. It is a warning: where all prompts begin alike, the ranks that got the
// first of them get all others.
type LongestPrefix struct {
	loads loads
	best  []int64
}

// Inputs implements Component.
func (*LongestPrefix) Inputs() Inputs { return Cache | Load }

// Pick implements Picker. The cost is the blocks that are not matched.
func (p *LongestPrefix) Pick(v *View, costs []float64) int {
	l, _, _ := p.loads.read(v)
	longest, _ := longestMatch(v)
	row := p.leastOf(v, l, longest)
	costs[row] = float64(v.Request().Blocks()) - float64(longest)
	return row
}

// leastOf returns the least loaded row among those with that overlap.
func (p *LongestPrefix) leastOf(v *View, l []int64, overlap uint32) int {
	p.best = slices.Grow(p.best[:0], len(l))[:len(l)]
	for row, slot := range v.Rows() {
		p.best[row] = math.MaxInt64
		if v.Cache().Overlap[slot] == overlap {
			p.best[row] = l[row]
		}
	}
	return leastRow(p.best, v.Rand())
}

// longestMatch returns the largest overlap of a candidate, and how many have it.
func longestMatch(v *View) (longest uint32, ranks int) {
	overlap := v.Cache().Overlap
	for _, slot := range v.Rows() {
		switch o := overlap[slot]; {
		case o > longest:
			longest, ranks = o, 1
		case o == longest:
			ranks++
		}
	}
	return longest, ranks
}

// PrefixThreshold is the cache-aware rule with a guard against imbalance: if
// max load - min load > Abs and max load > Rel * min load, the least loaded rank;
// else the rank with the longest match, if that is more than the share Threshold
// of the prompt's tokens; else the rank that has been sent the fewest tokens that
// it did not hold. Equal matches go by load, what is equal after that by chance.
type PrefixThreshold struct {
	// Threshold is a share of the prompt, Abs requests, Rel a factor.
	Threshold, Abs, Rel float64
	// ColdToLeastLoaded sends a prompt that nobody holds to the least loaded rank.
	ColdToLeastLoaded bool

	longest LongestPrefix
	sent    sentTokens
}

// sentTokens counts by slot the tokens that ranks were sent and did not hold.
type sentTokens struct {
	bySlot []int64
	rows   []int64
	// of the last selection
	request uint64
	overlap []uint32
}

func (s *sentTokens) see(v *View) {
	c, slots := v.Cache(), v.Rows()
	s.request = v.Request().ID
	if n := len(c.Overlap); n > len(s.bySlot) {
		s.bySlot = append(s.bySlot, make([]int64, n-len(s.bySlot))...)
	}
	s.overlap = append(s.overlap[:0], c.Overlap...) // lent for the call only
	s.rows = slices.Grow(s.rows[:0], len(slots))[:len(slots)]
	for row, slot := range slots {
		s.rows[row] = s.bySlot[slot]
	}
}

func (s *sentTokens) commit(r *Request, slot indexer.Slot) {
	if r.ID != s.request || int(slot) >= len(s.bySlot) || int(slot) >= len(s.overlap) {
		return
	}
	s.bySlot[slot] += int64(max(0, r.PromptTokens-int(s.overlap[slot])*r.BlockSize))
}

// Inputs implements Component.
func (*PrefixThreshold) Inputs() Inputs { return Cache | Load }

// Pick implements Picker.
func (p *PrefixThreshold) Pick(v *View, _ []float64) int {
	p.sent.see(v)
	l, least, most := p.longest.loads.read(v)
	if float64(most-least) > p.Abs && float64(most) > p.Rel*float64(least) {
		return leastRow(l, v.Rand())
	}
	r := v.Request()
	longest, _ := longestMatch(v)
	if float64(v.Cache().CachedTokens(r, longest)) > p.Threshold*float64(r.PromptTokens) {
		return p.longest.leastOf(v, l, longest)
	}
	if p.ColdToLeastLoaded {
		return leastRow(l, v.Rand())
	}
	return leastRow(p.sent.rows, v.Rand())
}

// Commit implements Committer.
func (p *PrefixThreshold) Commit(r *Request, slot indexer.Slot) { p.sent.commit(r, slot) }

// PrefixGuard is the prefix rule with a guard by deviation: if max load - min
// load > Abs, the least loaded rank; else, among the ranks that hold any of the
// prompt and whose load is at most mean + Factor * standard deviation, the one
// with the longest match, then the least load; if there is none, the least
// loaded rank. Mean and (population) deviation are those of the candidates.
type PrefixGuard struct {
	// Abs is in requests.
	Abs, Factor float64

	loads loads
	keys  []int64
}

// Inputs implements Component.
func (*PrefixGuard) Inputs() Inputs { return Cache | Load }

// Pick implements Picker.
func (p *PrefixGuard) Pick(v *View, _ []float64) int {
	l, least, most := p.loads.read(v)
	if float64(most-least) > p.Abs {
		return leastRow(l, v.Rand())
	}
	mean, squares := 0.0, 0.0
	for _, x := range l {
		mean += float64(x)
	}
	mean /= float64(len(l))
	for _, x := range l {
		squares += (float64(x) - mean) * (float64(x) - mean)
	}
	limit := mean + p.Factor*math.Sqrt(squares/float64(len(l)))
	overlap, best := v.Cache().Overlap, uint32(0)
	for row, slot := range v.Rows() {
		if float64(l[row]) <= limit {
			best = max(best, overlap[slot])
		}
	}
	if best == 0 {
		return leastRow(l, v.Rand())
	}
	p.keys = slices.Grow(p.keys[:0], len(l))[:len(l)]
	for row, slot := range v.Rows() {
		p.keys[row] = math.MaxInt64
		if overlap[slot] == best && float64(l[row]) <= limit {
			p.keys[row] = l[row]
		}
	}
	return leastRow(p.keys, v.Rand())
}
