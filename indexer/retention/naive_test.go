package retention

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kvbench/kvbench/indexer"
)

// The naive machines name a block by the text of its path and say what happens in
// words. They follow the rules as plainly as possible.

func pathOf(blocks []indexer.LocalHash) string { return fmt.Sprint(blocks) }

// nameOf chains the name of the last block of a path.
func nameOf(mix func(a, b uint64) uint64, path []indexer.LocalHash) uint64 {
	h := uint64(seed)
	for _, l := range path {
		h = mix(h, uint64(l))
	}
	return h
}

// cutAt returns how many blocks of a prompt can be stored: those before the first
// that is not held and whose name a held path has.
func cutAt(mix func(a, b uint64) uint64, prompt []indexer.LocalHash, held map[string][]indexer.LocalHash) int {
	names := map[uint64]bool{}
	for _, path := range held {
		names[nameOf(mix, path)] = true
	}
	for i := range prompt {
		if held[pathOf(prompt[:i+1])] != nil {
			continue
		}
		if n := nameOf(mix, prompt[:i+1]); names[n] {
			return i
		} else {
			names[n] = true
		}
	}
	return len(prompt)
}

func storedText(at int64, prompt []indexer.LocalHash, from int) string {
	return fmt.Sprintf("%d stored %v after %v", at, prompt[from:], prompt[:from])
}

func removedText(at int64, paths []string) string { return fmt.Sprintf("%d removed %v", at, paths) }

func clearedText(at int64) string { return fmt.Sprintf("%d cleared", at) }

type naiveTTL struct {
	mix        func(a, b uint64) uint64
	ttl        int64
	now        int64
	decisions  int
	collisions int64
	blocks     map[string]*naiveTimer
	log        []string
}

type naiveTimer struct {
	path    []indexer.LocalHash
	expiry  int64
	refresh int // decision
}

func (n *naiveTTL) advance(now int64) {
	var due []*naiveTimer
	for _, b := range n.blocks {
		if b.expiry <= now && b.expiry != math.MaxInt64 {
			due = append(due, b)
		}
	}
	slices.SortFunc(due, func(a, b *naiveTimer) int {
		return cmp.Or(cmp.Compare(a.expiry, b.expiry), cmp.Compare(a.refresh, b.refresh), cmp.Compare(len(b.path), len(a.path)))
	})
	for len(due) > 0 {
		at := due[0].expiry
		var paths []string
		for len(due) > 0 && due[0].expiry == at {
			paths = append(paths, pathOf(due[0].path))
			delete(n.blocks, pathOf(due[0].path))
			due = due[1:]
		}
		n.log = append(n.log, removedText(at, paths))
	}
	n.now = max(n.now, now)
}

func (n *naiveTTL) route(now int64, prompt []indexer.LocalHash) int {
	n.advance(now)
	n.decisions++
	held := map[string][]indexer.LocalHash{}
	for key, b := range n.blocks {
		held[key] = b.path
	}
	cut := cutAt(n.mix, prompt, held)
	if cut < len(prompt) {
		n.collisions++
	}
	prompt = prompt[:cut]
	hits := 0
	for hits < len(prompt) && held[pathOf(prompt[:hits+1])] != nil {
		hits++
	}
	if hits < len(prompt) {
		n.log = append(n.log, storedText(n.now, prompt, hits))
	}
	expiry := int64(math.MaxInt64)
	// The first multiple of 100 ms that is not before the end, counted by hand.
	if n.now <= math.MaxInt64-n.ttl {
		end := n.now + n.ttl
		buckets := end / 100_000_000
		if buckets*100_000_000 < end {
			buckets++
		}
		if buckets <= math.MaxInt64/100_000_000 {
			expiry = buckets * 100_000_000
		}
	}
	for i := range prompt {
		n.blocks[pathOf(prompt[:i+1])] = &naiveTimer{path: prompt[:i+1], expiry: expiry, refresh: n.decisions}
	}
	return hits
}

func (n *naiveTTL) clear(now int64) {
	n.advance(now)
	clear(n.blocks)
	n.log = append(n.log, clearedText(n.now))
}

type naiveLRU struct {
	mix        func(a, b uint64) uint64
	capacity   int
	now        int64
	epoch      int
	nextID     int
	copies     []*naiveCopy // in the order of their ids
	leases     []*naiveLease
	log        []string
	over       int64
	peakOver   int64
	collisions int64
	ignored    int64
}

type naiveCopy struct {
	id, refs, epoch int
	path            []indexer.LocalHash
}

type naiveLease struct {
	open, cut bool
	private   int
	path      []indexer.LocalHash
	held      []*naiveCopy
}

func (n *naiveLRU) first(path []indexer.LocalHash) *naiveCopy {
	for _, c := range n.copies {
		if slices.Equal(c.path, path) {
			return c
		}
	}
	return nil
}

func (n *naiveLRU) held() map[string][]indexer.LocalHash {
	held := map[string][]indexer.LocalHash{}
	for _, c := range n.copies {
		held[pathOf(c.path)] = c.path
	}
	return held
}

func (n *naiveLRU) inUse() int {
	sum := len(n.copies)
	for _, l := range n.leases {
		if l.open {
			sum += l.private
		}
	}
	return sum
}

// add gives a lease new copies of the blocks of path from from on.
func (n *naiveLRU) add(l *naiveLease, path []indexer.LocalHash, from int) {
	held := n.held()
	firstNew := -1
	for i := from; i < len(path); i++ {
		if held[pathOf(path[:i+1])] == nil && firstNew < 0 {
			firstNew = i
		}
		c := &naiveCopy{id: n.nextID, refs: 1, path: path[:i+1]}
		n.nextID++
		n.copies = append(n.copies, c)
		l.held = append(l.held, c)
	}
	l.path = path
	if firstNew >= 0 {
		n.log = append(n.log, storedText(n.now, path, firstNew))
	}
}

func (n *naiveLRU) acquire(now int64, prompt []indexer.LocalHash, private int) int {
	n.now = max(n.now, now)
	l := &naiveLease{open: true, private: private}
	n.leases = append(n.leases, l)
	cut := cutAt(n.mix, prompt, n.held())
	if cut < len(prompt) {
		l.cut = true
		n.collisions++
		prompt = prompt[:cut]
	}
	hits := 0
	for hits < len(prompt) {
		c := n.first(prompt[:hits+1])
		if c == nil {
			break
		}
		c.refs++
		l.held = append(l.held, c)
		hits++
	}
	n.add(l, prompt, hits)
	n.evict()
	return hits
}

func (n *naiveLRU) materialize(now int64, k int, blocks []indexer.LocalHash, private int) bool {
	n.now = max(n.now, now)
	l := n.leases[k]
	if !l.open {
		n.ignored++
		return false
	}
	l.private = private
	if !l.cut {
		path := slices.Concat(l.path, blocks)
		if cut := cutAt(n.mix, path, n.held()); cut < len(path) {
			l.cut = true
			n.collisions++
			path = path[:cut]
		}
		n.add(l, path, len(l.path))
	}
	n.evict()
	return true
}

func (n *naiveLRU) release(now int64, k int) bool {
	n.now = max(n.now, now)
	l := n.leases[k]
	if !l.open {
		n.ignored++
		return false
	}
	l.open = false
	n.epoch++
	for _, c := range l.held {
		c.refs--
		c.epoch = n.epoch
	}
	n.evict()
	return true
}

func (n *naiveLRU) evict() {
	var gone []string
	for n.inUse() > n.capacity {
		victim := -1
		for i, c := range n.copies {
			if c.refs > 0 {
				continue
			}
			if victim < 0 || cmp.Or(cmp.Compare(c.epoch, n.copies[victim].epoch),
				cmp.Compare(len(n.copies[victim].path), len(c.path)), cmp.Compare(c.id, n.copies[victim].id)) < 0 {
				victim = i
			}
		}
		if victim < 0 {
			break
		}
		path := n.copies[victim].path
		n.copies = slices.Delete(n.copies, victim, victim+1)
		if n.first(path) == nil {
			gone = append(gone, pathOf(path))
		}
	}
	if len(gone) > 0 {
		n.log = append(n.log, removedText(n.now, gone))
	}
	if over := n.inUse() - n.capacity; over > 0 {
		n.over++
		n.peakOver = max(n.peakOver, int64(over))
	}
}

func (n *naiveLRU) clear(now int64) {
	n.now = max(n.now, now)
	for _, l := range n.leases {
		l.open = false
	}
	n.copies = nil
	n.log = append(n.log, clearedText(n.now))
}
