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
	tied   []indexer.Slot // those of the least sum
	pause  int            // selections that were left to the scan when it gave up last
	wait   int            // of these, yet to come

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
// A candidate costs at least its KV cost, whatever its surcharge. So the chooser reads
// the surcharges of those that hold something of the request and of one with the
// least KV cost, and then of all whose KV cost is not above the least sum that it has
// found by then. Let m be the least sum of all.
//
//   - A candidate whose KV cost is above m cannot be chosen, and its surcharge
//     changes nothing for others: where the surcharge of one depends on all, Of says
//     so and the scan does the selection.
//   - A candidate whose KV cost is at most m must be read. If its surcharge were 0,
//     its sum would be at most m and it would be chosen, or drawn with the others.
//     And nothing but reading tells that it is not: a count of blocks may change with
//     any event, so that what was read before does not bound it.
//
// So no exact way of choosing reads fewer than the candidates with a KV cost of at most
// m. They are few while those that are cheapest by the KV cost have little to pay, or
// one that holds much of the prompt is cheaper than the others with nothing to pay.
// But a router that goes by the sum sends requests to where it is least until all sums
// are about alike, and then m is above the KV cost of every rank that has as much to pay
// as the chosen one or more: of most of a fleet whose caches are full. There a way that
// takes less than time in proportion to the candidates does not exist. After a share of
// them the chooser gives up and the scan does the selection, and for a while the next
// ones too.
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

// readShare is the share of the candidates, as one in so many, after which a chooser
// with a surcharge leaves a selection to the scan.
const readShare = 32

// mostPause is how many selections a chooser with a surcharge leaves to the scan at
// once after it has given up in vain again and again.
const mostPause = 15

// chooseWithExtra is Choose where there is a surcharge.
func (c *KVChooser) chooseWithExtra(v *View, fixed int64) (row int, cost float64, ok bool) {
	if c.wait > 0 {
		c.wait--
		return 0, 0, false
	}
	if !c.extra.Begin(v) {
		return 0, 0, false
	}
	t := &c.t
	c.tied = c.tied[:0]
	w := leastSum{c: c, fixed: fixed, best: math.Inf(1), limit: noKey - 1, left: len(t.prefill)/readShare + 1, first: -1}
	for _, s := range t.touched {
		if int(s) < len(t.prefill) && c.tree.key(int(s)) != noKey && !w.look(s, t.cost(s)) {
			return 0, 0, false
		}
	}
	for _, s := range t.sharing {
		touched := t.overlap != nil && t.overlap[s] > 0
		if !touched && c.tree.key(int(s)) != noKey && !w.look(s, t.cost(s)) {
			return 0, 0, false
		}
	}
	if root := c.tree.root(); root.key <= w.limit {
		if int(root.count) > w.left { // all of them must be read
			w.left = -1
		} else {
			first := c.tree.nth(0) // a low sum to begin with
			ok = w.visit(first)
			w.first = first
			level := len(c.tree.levels) - 1
			ok = ok && w.below(level, c.tree.levels[level])
		}
		if w.left < 0 {
			// What was in vain now will be so the next time, more often than not.
			c.pause = min(2*c.pause+1, mostPause)
			c.wait = c.pause
		}
		if !ok {
			return 0, 0, false
		}
	}
	c.pause = 0
	j := 0
	if len(c.tied) > 1 {
		slices.Sort(c.tied)
		c.tied = slices.Compact(c.tied) // an answer may name a rank twice
		if n := len(c.tied); n > 1 {
			j = v.Rand().IntN(n)
		}
	}
	return rowOf(v, c.tied[j]), w.best, true
}

// leastSum looks for the least sum of KV cost and surcharge. Those that have it are
// in KVChooser.tied.
type leastSum struct {
	c     *KVChooser
	fixed int64
	best  float64
	limit int64 // the largest key of the tree with a KV cost of at most best
	first int   // the slot that was visited first, -1: none yet
	left  int   // slots that may still be visited
}

// look takes a candidate with a KV cost into account. It is false if the scan must
// do the selection.
func (w *leastSum) look(slot indexer.Slot, kv float64) bool {
	if kv > w.best {
		return true
	}
	extra, ok := w.c.extra.Of(slot)
	if !ok {
		return false
	}
	switch sum := kv + float64(w.c.weight*extra); {
	case sum < w.best:
		w.best, w.c.tied = sum, append(w.c.tied[:0], slot)
		if units := math.Floor(sum * kvUnit); units < noKey/2 {
			w.limit = int64(units) - w.fixed
		}
	case sum == w.best:
		w.c.tied = append(w.c.tied, slot)
	}
	return true
}

// visit looks at a slot of the tree, unless it has something of the request: its key
// is not its cost then, and it was looked at before. It is false if the scan must do
// the selection.
func (w *leastSum) visit(slot int) bool {
	t := &w.c.t
	if slot == w.first || t.shared[slot] > 0 || t.overlap != nil && t.overlap[slot] > 0 {
		return true
	}
	if w.left--; w.left < 0 {
		return false
	}
	return w.look(indexer.Slot(slot), float64(w.c.tree.key(slot)+w.fixed)/kvUnit)
}

// below visits the slots below some siblings of the tree whose KV cost is not above
// the least sum. It is false if the scan must do the selection.
func (w *leastSum) below(level, child int) bool {
	t := &w.c.tree
	for node := child; node < child+fanOut; node++ {
		switch {
		case t.nodes[node].key > w.limit:
		case level == 0:
			if !w.visit(node) {
				return false
			}
		case !w.below(level-1, t.levels[level-1]+(node-t.levels[level])*fanOut):
			return false
		}
	}
	return true
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
