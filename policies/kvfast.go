package policies

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvbench/kvbench/indexer"
)

// KVChooser chooses the candidate of the least KV cost without a look at all of
// them: at those that hold or share blocks of the request, and at the best of the
// rest. For these the cost is a sum of what the rank has to do and what the
// request costs everywhere, so that their order is that of their load, which a
// tree keeps from one selection to the next.
//
// It leaves to the scan what does not fit that: with Decay, requests that
// prefer tags if Tag is set, requests with candidates of their own, and requests
// of which so many ranks have something that the scan is faster. After a
// change of block size or of the candidates the next selection builds the tree
// anew, which takes longer than a scan.
//
// It is for a pipeline whose only scorer is a KV of the same parameters with
// weight 1 and whose picker is LeastCost; KVRecipe makes one.
type KVChooser struct {
	p    KVParams
	t    kvTerms
	tree leastTree

	extra  Surcharge // nil: none
	weight float64
	near   []indexer.Slot // those that have something of the request
	tied   []indexer.Slot // those of the least sum

	// What the tree was built for.
	log        *ChangeLog
	seen       uint64
	candidates uint64
	blockSize  int
}

// NewKVChooser makes a chooser.
func NewKVChooser(p KVParams) (*KVChooser, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return &KVChooser{p: p}, nil
}

// Surcharge is a second cost beside that of KV, which a KVChooser can take into
// account: one that is never negative. It belongs to one chooser.
type Surcharge interface {
	Component
	// Begin begins a selection. It is false if that must be done by the scan.
	Begin(v *View) bool
	// Of returns what the scorer would give a candidate, at least 0, or false if
	// that depends on other candidates.
	Of(slot indexer.Slot) (cost float64, ok bool)
}

// NewKVSurchargeChooser makes a chooser for a pipeline with two scorers: a KV of the
// same parameters with weight 1 and, after it, the scorer of the surcharge with
// this weight, which is finite and not negative.
//
// # What it looks at
//
// A candidate costs at least its KV cost, whatever its surcharge. So the chooser goes
// from the least KV cost upwards, reads the surcharge of each candidate on its way,
// and ends before the first whose KV cost is above the least sum found. That it
// must read those, and no other, follows from the rule:
//
//   - One whose KV cost is above the least sum m cannot be the least, and since the
//     surcharge that another candidate gets where its own depends on all is not
//     negative either, it changes nothing.
//   - One whose KV cost is at most m would have a sum of at most m if its surcharge
//     were 0, and would then be chosen or drawn with the others. If the surcharge may
//     have changed since it was last read, as a count of blocks can with any event,
//     nothing but reading it tells. Whoever does not may choose another rank than the
//     scan.
//
// So a selection takes time in proportion to the candidates whose KV cost is at most
// the least sum, and no exact way of choosing can read fewer surcharges. They are
// few while the cheapest ranks have little to pay or one holds much of the prompt; if
// every rank pays about as much and none holds anything, they are all whose loads
// differ by less than that. After a share of the candidates the chooser gives up,
// and the scan does the selection.
func NewKVSurchargeChooser(p KVParams, extra Surcharge, weight float64) (*KVChooser, error) {
	c, err := NewKVChooser(p)
	if err != nil {
		return nil, err
	}
	if !(weight >= 0) || math.IsInf(weight, 0) {
		return nil, fmt.Errorf("surcharge: weight %v; it must be finite and not negative", weight)
	}
	c.extra, c.weight = extra, weight
	return c, nil
}

// Inputs implements Component.
func (c *KVChooser) Inputs() Inputs {
	in := c.p.inputs()
	if c.extra != nil {
		in |= c.extra.Inputs()
	}
	return in
}

// Keys are costs in units of 2^-20 block.
const kvUnit = 1 << 20

// beyondKey is the key of candidates whose load is beyond the limit: less than
// any other, so that the root tells that there is one.
const beyondKey = math.MinInt64

// scanShare is how many ranks that have something of a request are worth one
// tree operation each: a scan looks at so many slots meanwhile.
const scanShare = 16

// Choose implements Chooser.
func (c *KVChooser) Choose(v *View) (row int, cost float64, ok bool) {
	if v.Candidates() == 0 || c.p.Decay > 0 || c.p.Tag != 0 && v.Request().PreferredTags != 0 {
		return 0, 0, false
	}
	t := &c.t
	if !t.read(&c.p, v) || (len(t.touched)+len(t.sharing))*scanShare > len(t.prefill) {
		return 0, 0, false
	}
	c.follow(v)
	root := c.tree.root()
	if root.key == beyondKey {
		return 0, 0, false
	}
	fixed := int64(t.fixed() * kvUnit)
	if c.extra != nil {
		return c.chooseWithExtra(v, fixed)
	}

	// The least of those that have something. Their loads alone are not above
	// their costs, so that nothing of the rest is below the root.
	best, slot, more := int64(noKey), indexer.Slot(0), false
	for _, list := range [2][]indexer.Slot{t.touched, t.sharing} {
		for _, s := range list {
			if int(s) >= len(t.prefill) || c.tree.key(int(s)) == noKey {
				continue
			}
			switch key := int64(t.cost(s) * kvUnit); {
			case key < best:
				best, slot, more = key, s, false
			case key == best && s != slot:
				more = true
			}
		}
	}
	if best >= root.key+fixed || more {
		best, slot = c.among(v, fixed)
	}
	return rowOf(v, slot), float64(best) / kvUnit, true
}

func rowOf(v *View, slot indexer.Slot) int {
	if v.Dense() {
		return int(slot)
	}
	row, _ := slices.BinarySearch(v.Rows(), slot)
	return row
}

// giveUpShare is how many candidates are worth a look at one in the order of their
// KV costs: a scan looks at so many meanwhile.
const giveUpShare = 64

// chooseWithExtra is Choose where there is a surcharge.
func (c *KVChooser) chooseWithExtra(v *View, fixed int64) (row int, cost float64, ok bool) {
	if !c.extra.Begin(v) {
		return 0, 0, false
	}
	t := &c.t
	best := math.Inf(1)
	c.tied = c.tied[:0]
	// look takes a candidate of a KV cost into account.
	look := func(slot indexer.Slot, kv float64) bool {
		if kv > best {
			return true
		}
		extra, known := c.extra.Of(slot)
		if !known {
			return false
		}
		switch sum := kv + float64(c.weight*extra); {
		case sum < best:
			best, c.tied = sum, append(c.tied[:0], slot)
		case sum == best && !slices.Contains(c.tied, slot):
			c.tied = append(c.tied, slot)
		}
		return true
	}
	c.near = c.near[:0]
	for _, s := range t.touched {
		if int(s) < len(t.prefill) && c.tree.key(int(s)) != noKey {
			c.near = append(c.near, s)
		}
	}
	for _, s := range t.sharing {
		if c.tree.key(int(s)) != noKey && (t.overlap == nil || t.overlap[s] == 0) {
			c.near = append(c.near, s)
		}
	}
	for _, s := range c.near {
		if !look(s, t.cost(s)) {
			return 0, 0, false
		}
	}
	sum := func(key int64) float64 { return float64(key+fixed) / kvUnit }
	// None of the rest costs less than the root.
	if sum(c.tree.root().key) <= best {
		c.tree.begin()
		defer c.tree.revert()
		for _, s := range c.near {
			c.tree.set(int(s), noKey)
		}
		c.tree.settle()
		for left := len(t.prefill)/giveUpShare + 1; ; left-- {
			root := c.tree.root()
			if root.key == noKey || sum(root.key) > best {
				break
			}
			if left == 0 {
				return 0, 0, false
			}
			slot := indexer.Slot(c.tree.nth(0))
			if !look(slot, sum(root.key)) {
				return 0, 0, false
			}
			c.tree.set(int(slot), noKey)
			c.tree.settle()
		}
	}
	j := 0
	if len(c.tied) > 1 {
		slices.Sort(c.tied)
		j = v.Rand().IntN(len(c.tied))
	}
	return rowOf(v, c.tied[j]), best, true
}

// among puts the costs of those that have something into the tree for a while,
// and takes the least of all, as LeastCost would.
func (c *KVChooser) among(v *View, fixed int64) (int64, indexer.Slot) {
	t := &c.t
	c.tree.begin()
	for _, list := range [2][]indexer.Slot{t.touched, t.sharing} {
		for _, s := range list {
			if int(s) < len(t.prefill) && c.tree.key(int(s)) != noKey {
				c.tree.set(int(s), int64(t.cost(s)*kvUnit)-fixed)
			}
		}
	}
	c.tree.settle()
	root := c.tree.root()
	j := 0
	if root.count > 1 {
		j = v.Rand().IntN(int(root.count))
	}
	slot := indexer.Slot(c.tree.nth(uint32(j)))
	c.tree.revert()
	return root.key + fixed, slot
}

// follow makes the tree that of the view.
func (c *KVChooser) follow(v *View) {
	log := v.Load().Changes
	slots := len(c.t.prefill)
	if log != c.log || v.Candidates() != c.candidates || v.Request().BlockSize != c.blockSize {
		c.seen = 0
	}
	changed, all, last := log.Since(c.seen)
	c.log, c.seen, c.candidates, c.blockSize = log, last, v.Candidates(), v.Request().BlockSize
	if !all && len(changed) == 0 {
		return
	}
	if all || len(changed)*scanShare > slots {
		rows := v.Rows()
		c.tree.build(slots, func(slot int) int64 {
			if len(rows) == 0 || int(rows[0]) != slot {
				return noKey
			}
			rows = rows[1:]
			return c.t.key(indexer.Slot(slot))
		})
		return
	}
	for _, slot := range changed {
		if c.tree.key(int(slot)) != noKey {
			c.tree.set(int(slot), c.t.key(slot))
		}
	}
	c.tree.settle()
}

// key is what a rank costs that has nothing of the request, without what any
// rank costs for it.
func (t *kvTerms) key(slot indexer.Slot) int64 {
	if !t.within(slot) {
		return beyondKey
	}
	return int64(t.rest(slot) * kvUnit)
}
