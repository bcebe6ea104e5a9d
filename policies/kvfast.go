package policies

import (
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

// Inputs implements Component.
func (c *KVChooser) Inputs() Inputs { return c.p.inputs() }

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
	row = int(slot)
	if !v.Dense() {
		row, _ = slices.BinarySearch(v.Rows(), slot)
	}
	return row, float64(best) / kvUnit, true
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
