package policies

import (
	"math"
	"slices"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// Affinity picks the rank that served the request's session last, if that was at
// most TTL ago and the rank is a candidate, and else asks an inner picker. With
// a Slack of at least 0 it also asks it if the rank has more requests than the
// least loaded candidate by more than Slack; a rank of unknown load counts as
// the most loaded one known.
type Affinity struct {
	ttl   time.Duration
	slack int
	loads loads

	picker  Picker
	chooser Chooser
	view    View // what the inner component sees
}

// WithAffinity returns the recipe with an Affinity around its picker and its
// chooser. A slack below 0 leaves load out of it.
func WithAffinity(inner Recipe, ttl time.Duration, slack int) Recipe {
	a := &Affinity{ttl: ttl, slack: slack, picker: inner.Picker.Component}
	inner.Picker.Component = a
	if inner.Chooser != nil {
		inner.Chooser = &affinityChooser{Affinity{ttl: ttl, slack: slack, chooser: inner.Chooser}}
	}
	return inner
}

func (a *Affinity) own() Inputs {
	if a.slack >= 0 {
		return Session | Load
	}
	return Session
}

// Inputs implements Component.
func (a *Affinity) Inputs() Inputs { return a.own() | a.picker.Inputs() }

// Pick implements Picker.
func (a *Affinity) Pick(v *View, costs []float64) int {
	if row, ok := a.target(v); ok {
		return row
	}
	a.view = View{name: v.name, declared: a.picker.Inputs(), shared: v.shared}
	return a.picker.Pick(&a.view, costs)
}

// Commit implements Committer.
func (a *Affinity) Commit(r *Request, slot indexer.Slot) {
	if c, ok := a.picker.(Committer); ok {
		c.Commit(r, slot)
	}
}

// target returns the row that the request sticks to.
func (a *Affinity) target(v *View) (int, bool) {
	s := v.Session()
	if !s.Known || v.Request().Now-s.LastSeen > a.ttl {
		return 0, false
	}
	row, ok := slices.BinarySearch(v.Rows(), s.Target)
	if !ok {
		return 0, false
	}
	if a.slack >= 0 {
		if l, least, _ := a.loads.read(v); l[row]-least > int64(a.slack) {
			return 0, false
		}
	}
	return row, true
}

// affinityChooser leaves a request that sticks to the scan, which knows its cost.
type affinityChooser struct{ Affinity }

func (a *affinityChooser) Inputs() Inputs { return a.own() | a.chooser.Inputs() }

func (a *affinityChooser) Choose(v *View) (int, float64, bool) {
	if _, ok := a.target(v); ok {
		return 0, 0, false
	}
	a.view = View{name: v.name, declared: a.chooser.Inputs(), shared: v.shared}
	return a.chooser.Choose(&a.view)
}

func (a *affinityChooser) Commit(r *Request, slot indexer.Slot) {
	if c, ok := a.chooser.(Committer); ok {
		c.Commit(r, slot)
	}
}

// HashRing is consistent hashing with bounded load. Every slot has Nodes places
// on a ring. A request goes to the first candidate from its key's place on that
// has room: with it, at most the ceiling of Factor times the mean requests of the
// candidates, this request included. A request without a key goes to the least
// loaded candidate. A rank of unknown load counts as the most loaded one known.
type HashRing struct {
	factor  float64
	nodes   int
	blocks  int
	session bool

	loads loads
	ring  []ringNode
	slots int
}

type ringNode struct {
	place uint64
	slot  indexer.Slot
}

// NewHashRing makes one. The key is made of the first blocks blocks of the
// prompt, fewer if it has fewer, or of the session.
func NewHashRing(factor float64, nodes, blocks int, session bool) *HashRing {
	return &HashRing{factor: factor, nodes: nodes, blocks: blocks, session: session}
}

// Inputs implements Component.
func (*HashRing) Inputs() Inputs { return Load }

// Pick implements Picker.
func (p *HashRing) Pick(v *View, _ []float64) int {
	l, _, _ := p.loads.read(v)
	key, ok := p.key(v.Request())
	if !ok {
		return leastRow(l, v.Rand())
	}
	rows := v.Rows()
	p.build(int(rows[len(rows)-1]) + 1)
	total := int64(1)
	for _, x := range l {
		total += x
	}
	room := int64(math.Ceil(p.factor * float64(total) / float64(len(l))))
	at, _ := slices.BinarySearchFunc(p.ring, key, func(n ringNode, key uint64) int {
		if n.place < key {
			return -1
		}
		return 1
	})
	for i := range p.ring {
		n := p.ring[(at+i)%len(p.ring)]
		if row, ok := slices.BinarySearch(rows, n.slot); ok && l[row] < room {
			return row
		}
	}
	// Not reached: with a factor of at least 1 the least loaded rank has room.
	return leastRow(l, v.Rand())
}

func (p *HashRing) key(r *Request) (uint64, bool) {
	if p.session {
		return scatter(r.Session), r.HasSession
	}
	key := uint64(0)
	locals := r.Leading(p.blocks)
	for _, h := range locals {
		key = scatter(key ^ uint64(h))
	}
	return key, len(locals) > 0
}

// build makes the ring for at least so many slots.
func (p *HashRing) build(slots int) {
	if slots <= p.slots {
		return
	}
	for slot := p.slots; slot < slots; slot++ {
		for node := range p.nodes {
			p.ring = append(p.ring, ringNode{scatter(scatter(uint64(slot)) + uint64(node)), indexer.Slot(slot)})
		}
	}
	slices.SortFunc(p.ring, func(a, b ringNode) int {
		if a.place != b.place {
			if a.place < b.place {
				return -1
			}
			return 1
		}
		return int(a.slot) - int(b.slot)
	})
	p.slots = slots
}

// scatter is a bijection whose every output bit depends on every input bit: the
// finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
