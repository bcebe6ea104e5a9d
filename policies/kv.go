package policies

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/kvbench/kvbench/indexer"
)

// Role says what a rank does for a request.
type Role uint8

const (
	// RoleAggregated: the rank computes the prompt and the answer.
	RoleAggregated Role = iota
	// RoleDecode: another rank has computed the prompt; prefill is not tracked.
	RoleDecode
)

// KVParams are the parameters of KV.
type KVParams struct {
	// Overlap is what a cached block of the prompt is worth in blocks of prefill,
	// from 0. At 0 the cost does not read CACHE.
	Overlap float64
	// Decay lets a cached block be worth less on ranks with a long prefill queue,
	// from 0, which is not at all.
	Decay float64
	// Prefill is the weight of the blocks to prefill, from 0.
	Prefill float64
	// Requests is what an active request costs, in blocks, from 0.
	Requests float64
	// Tag is the weight of each tag that the request prefers and the rank has. If
	// it is not 0 the cost reads TAGS. Tags with a positive weight attract.
	Tag float64
	// Role is what the ranks do.
	Role Role
}

// DefaultKVParams returns the published defaults.
func DefaultKVParams() KVParams { return KVParams{Overlap: 1, Prefill: 1} }

func (p *KVParams) check() error {
	for _, f := range []struct {
		name  string
		value float64
		least float64
	}{
		{"overlap", p.Overlap, 0}, {"decay", p.Decay, 0}, {"prefill", p.Prefill, 0},
		{"requests", p.Requests, 0}, {"tag", p.Tag, -math.MaxFloat64},
	} {
		if !(f.value >= f.least) || math.IsInf(f.value, 0) {
			from := "finite"
			if f.least == 0 {
				from = "finite and not negative"
			}
			return fmt.Errorf("KV cost: %s is %v; it must be %s", f.name, f.value, from)
		}
	}
	if p.Role > RoleDecode {
		return fmt.Errorf("KV cost: there is no role %d", p.Role)
	}
	return nil
}

// KV costs a rank the blocks of work that it would have with the request. For a
// request of n blocks, which the rank holds the first o of and is active with
// the first s of:
//
//	cost    = Prefill * max(0, (queued prefill tokens + prompt tokens)/block size - credit)
//	          + active blocks + n - s + Requests * active requests
//	credit  = Overlap * o / (1 + Decay * (queued prefill tokens - least among candidates)/block size / n)
//
// and for RoleDecode
//
//	cost    = max(0, active blocks + n - s - credit) + Requests * active requests
//
// If the request prefers tags, the cost is multiplied by exp(-tanh(Tag * k)),
// where k of them are the rank's.
//
// This is the default cost of ai-dynamo/dynamo's router for what kvbench has:
// one tier of cache and no cache that ranks share, so that its credits for host
// memory, disks and shared hits have no counterpart, and one weight for all tags
// instead of one for each. Two of its consequences: the tokens of a prompt
// that are cached count as queued prefill until the credit takes them off, and
// with Overlap above 1 the credit also pays for the work of others. As there, a
// rank of unknown load costs as much as an idle one.
//
// # Exactness
//
// Each term is rounded to a multiple of 2^-20 block, and so is the product with
// the factor of tags. Sums of such numbers below 2^33 are exact whatever their
// order, so that equal work is an exact tie. To stay below, each of these must
// be under 2^27 blocks: Prefill times the queued and times the prompt's tokens
// over the block size, active blocks, n, Requests times the active requests, and
// the credit of the whole prompt. Where one is not, the cost is +Inf, which
// makes the selection fail.
type KV struct {
	p    KVParams
	t    kvTerms
	rest kvRest
}

// NewKV makes the scorer.
func NewKV(p KVParams) (*KV, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return &KV{p: p}, nil
}

// KVRecipe is the policy of the least KV cost: with a temperature above 0 by
// Softmax, else by LeastCost with a KVChooser before the scan.
func KVRecipe(p KVParams, temperature float64, scale Scale) (Recipe, error) {
	scorer, err := NewKV(p)
	if err != nil {
		return Recipe{}, err
	}
	r := Recipe{Scorers: []Weighted{{Name: "kv", Scorer: scorer, Weight: 1}}}
	if temperature != 0 {
		softmax, err := NewSoftmax(temperature, scale)
		if err != nil {
			return Recipe{}, err
		}
		r.Picker = Named[Picker]{"softmax", softmax}
		return r, nil
	}
	r.Picker = Named[Picker]{"min", LeastCost{}}
	chooser, err := NewKVChooser(p)
	if err != nil {
		return Recipe{}, err
	}
	r.Chooser = chooser
	return r, nil
}

// Inputs implements Component.
func (s *KV) Inputs() Inputs { return s.p.inputs() }

func (p *KVParams) inputs() Inputs {
	in := Load
	if p.Overlap > 0 {
		in |= Cache
	}
	if p.Tag != 0 {
		in |= Tags
	}
	return in
}

// kvLimit bounds each term of the cost, in blocks. See KV.
const kvLimit = 1 << 27

// exact rounds to the nearest multiple of 2^-20, for numbers below 2^31: behind
// the sum the last bit of a float64 is worth just that. The conversions keep
// compilers from fusing.
func exact(x float64) float64 {
	const shift = 3 << 31 // 1.5 * 2^32
	return float64(x+shift) - shift
}

// kvTerms are what the costs of one selection are made of.
type kvTerms struct {
	perToken   float64 // of prefill
	perRequest float64
	perBlock   float64 // credit
	prompt     float64 // to prefill of this request
	blocks     float64 // of this request
	decay      float64 // each queued token above the least
	least      int64   // queued tokens
	decode     bool

	n        uint32
	overlap  []uint32 // nil if it is worth nothing
	touched  []indexer.Slot
	shared   []uint32
	sharing  []indexer.Slot
	prefill  []int64
	active   []int64
	requests []int32
}

// read sets the terms of a selection. It is false if the request alone is beyond
// the limit.
func (t *kvTerms) read(p *KVParams, v *View) bool {
	r, l := v.Request(), v.Load()
	n := r.Blocks()
	size := float64(r.BlockSize)
	t.blocks, t.n = float64(n), uint32(n)
	t.perRequest, t.perToken, t.prompt, t.perBlock = p.Requests, 0, 0, p.Overlap
	t.decode = p.Role == RoleDecode
	if !t.decode {
		t.perToken = p.Prefill / size
		t.prompt = exact(float64(p.Prefill * float64(r.PromptTokens) / size))
		t.perBlock *= p.Prefill
	}
	t.prefill, t.active, t.requests = l.PrefillTokens, l.DecodeBlocks, l.Requests
	t.shared, t.sharing = l.SharedBlocks, l.Sharing
	t.overlap, t.touched = nil, nil
	if p.Overlap > 0 {
		c := v.Cache()
		t.overlap, t.touched = c.Overlap, c.Touched
	}
	t.decay = 0
	if p.Decay > 0 && n > 0 && !t.decode {
		t.decay = p.Decay / size / t.blocks
		t.least = math.MaxInt64
		for _, slot := range v.Rows() {
			t.least = min(t.least, t.prefill[slot])
		}
	}
	return t.prompt < kvLimit && t.blocks < kvLimit && t.perBlock*t.blocks < kvLimit
}

// rest returns the part of a slot's cost that is the same for all requests of a
// block size, on a rank that has nothing of the request.
func (t *kvTerms) rest(slot indexer.Slot) float64 {
	return exact(float64(float64(t.prefill[slot])*t.perToken)) + float64(t.active[slot]) +
		exact(float64(float64(t.requests[slot])*t.perRequest))
}

// fixed returns what every rank costs more than rest if it has nothing of the
// request.
func (t *kvTerms) fixed() float64 { return t.prompt + t.blocks }

// within says whether a slot's load is within the limit.
func (t *kvTerms) within(slot indexer.Slot) bool {
	prefill, active, requests := t.prefill[slot], t.active[slot], t.requests[slot]
	return prefill >= 0 && active >= 0 && requests >= 0 &&
		float64(float64(prefill)*t.perToken) < kvLimit && float64(active) < kvLimit &&
		float64(float64(requests)*t.perRequest) < kvLimit
}

// cost returns the cost of a slot whose load is within the limit.
func (t *kvTerms) cost(slot indexer.Slot) float64 {
	credit := 0.0
	if t.overlap != nil {
		if o := min(t.overlap[slot], t.n); o > 0 {
			if t.decay == 0 {
				credit = exact(float64(t.perBlock * float64(o)))
			} else {
				credit = exact(float64(t.perBlock*float64(o)) / (1 + float64(t.decay*float64(t.prefill[slot]-t.least))))
			}
		}
	}
	blocks := float64(t.active[slot]) + float64(t.n-min(t.shared[slot], t.n))
	requests := exact(float64(float64(t.requests[slot]) * t.perRequest))
	if t.decode {
		return max(0, blocks-credit) + requests
	}
	queued := exact(float64(float64(t.prefill[slot]) * t.perToken))
	return max(0, queued+t.prompt-credit) + blocks + requests
}

// Score implements Scorer.
func (s *KV) Score(v *View, costs []float64) {
	t := &s.t
	if !t.read(&s.p, v) {
		for row := range costs {
			costs[row] = math.Inf(1)
		}
		return
	}
	rows, rest := v.Rows(), s.rest.follow(t, v)
	if v.Dense() {
		addTo(costs, rest, t.fixed())
		for _, list := range [2][]indexer.Slot{t.touched, t.sharing} {
			for _, slot := range list {
				if int(slot) < len(costs) {
					costs[slot] = t.near(slot, rest[slot])
				}
			}
		}
	} else {
		t.scoreRows(rows, costs, rest)
	}
	if preferred := v.Request().PreferredTags; preferred != 0 && s.p.Tag != 0 {
		s.attract(preferred, rows, v.Tags(), costs)
	}
}

// scoreRows sets the costs of some slots.
func (t *kvTerms) scoreRows(rows []indexer.Slot, costs, rest []float64) {
	fixed, overlap := t.fixed(), t.overlap
	costs = costs[:len(rows)]
	for row, slot := range rows {
		if t.shared[slot] == 0 && (overlap == nil || overlap[slot] == 0) {
			costs[row] = rest[slot] + fixed
		} else {
			costs[row] = t.near(slot, rest[slot])
		}
	}
}

// near is the cost of a slot that may have something of the request, infinite if
// its rest is.
func (t *kvTerms) near(slot indexer.Slot, rest float64) float64 {
	if t.decode || t.decay != 0 {
		if math.IsInf(rest, 1) {
			return rest
		}
		return t.cost(slot)
	}
	// The same sum in another order, which is as exact.
	credit := 0.0
	if t.overlap != nil {
		credit = exact(float64(t.perBlock * float64(min(t.overlap[slot], t.n))))
	}
	if prefill := exact(float64(float64(t.prefill[slot])*t.perToken)) + t.prompt; credit > prefill {
		credit = prefill
	}
	return rest + t.fixed() - credit - float64(min(t.shared[slot], t.n))
}

// addTo sets sums[i] to x[i] + y. It is written out: how long a loop of one takes
// depends on where it comes to lie.
func addTo(sums, x []float64, y float64) {
	x = x[:len(sums)]
	i := 0
	for ; i <= len(sums)-4; i += 4 {
		s, t := sums[i:i+4:i+4], x[i:i+4:i+4]
		s[0] = t[0] + y
		s[1] = t[1] + y
		s[2] = t[2] + y
		s[3] = t[3] + y
	}
	for ; i < len(sums); i++ {
		sums[i] = x[i] + y
	}
}

// kvRest keeps kvTerms.rest of every slot from one selection to the next, +Inf where
// the load is beyond the limit, so that a selection computes only those whose load
// has changed.
type kvRest struct {
	bySlot []float64

	// What it is of.
	log       *ChangeLog
	seen      uint64
	blockSize int
}

// follow makes it that of the view and returns it.
func (k *kvRest) follow(t *kvTerms, v *View) []float64 {
	log, slots := v.Load().Changes, len(t.prefill)
	if log != k.log || v.Request().BlockSize != k.blockSize || len(k.bySlot) != slots {
		k.seen = 0
	}
	changed, all, last := log.Since(k.seen)
	k.log, k.seen, k.blockSize = log, last, v.Request().BlockSize
	if !all && len(changed) < slots {
		for _, slot := range changed {
			k.bySlot[slot] = t.restWithin(slot)
		}
		return k.bySlot
	}
	k.bySlot = slices.Grow(k.bySlot[:0], slots)[:slots]
	for slot := range k.bySlot {
		k.bySlot[slot] = t.restWithin(indexer.Slot(slot))
	}
	return k.bySlot
}

// restWithin is rest, +Inf if the slot's load is beyond the limit.
func (t *kvTerms) restWithin(slot indexer.Slot) float64 {
	if !t.within(slot) {
		return math.Inf(1)
	}
	return t.rest(slot)
}

// attract multiplies each cost by the factor of the rank's preferred tags.
func (s *KV) attract(preferred TagSet, rows []indexer.Slot, tags []TagSet, costs []float64) {
	var factors [65]float64
	for k := range bits.OnesCount64(uint64(preferred)) + 1 {
		factors[k] = math.Exp(-math.Tanh(s.p.Tag * float64(k)))
	}
	for row, slot := range rows {
		costs[row] = exact(costs[row] * factors[bits.OnesCount64(uint64(tags[slot]&preferred))])
	}
}
