package mocker

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
)

// none stands for no copy in links between copies.
const none = -1

// Pool is the block pool of one rank. A block of content may be in it several
// times: what is counted, held and evicted are copies.
//
// A copy is free, private (its content is not complete or not known to others)
// or cached (found by its sequence hash). A copy that requests hold is active;
// a cached one that none holds is inactive, lies in a list from the longest to
// the shortest unused and may be evicted from its head. Requests give their
// copies back last block first, so that of one prompt leaves go before roots.
//
// A Pool is for one goroutine.
type Pool struct {
	capacity int
	used     int // copies that are not free
	inactive int
	copies   []copyState
	free     int32   // first free copy, linked by next
	oldest   int32   // head of the inactive list
	newest   int32   // its tail
	primary  names   // the copies that lookups find
	found    []int32 // scratch of Reserve
}

type copyState struct {
	hash   indexer.SequenceHash
	refs   int32 // requests that hold it
	cached bool
	later  bool  // cached, and an older copy has the same hash
	next   int32 // in the inactive or the free list
	prev   int32 // in the inactive list
	other  int32 // next younger copy of the same hash
}

// NewPool returns an empty pool of capacity blocks. Memory grows with what is in
// it.
func NewPool(capacity int) *Pool {
	return &Pool{capacity: capacity, free: none, oldest: none, newest: none}
}

// Active returns the number of copies that requests hold, private ones included.
func (p *Pool) Active() int { return p.used - p.inactive }

// Used returns the number of copies that are not free: the active ones and those
// that are cached and that nobody holds.
func (p *Pool) Used() int { return p.used }

// Capacity returns how many copies there can be.
func (p *Pool) Capacity() int { return p.capacity }

// Cached returns the number of different hashes in the pool.
func (p *Pool) Cached() int { return p.primary.len() }

// Lookup returns how many leading hashes are in the pool.
func (p *Pool) Lookup(hashes []indexer.SequenceHash) int {
	for i, h := range hashes {
		if p.primary.find(h, p.copies) == none {
			return i
		}
	}
	return len(hashes)
}

// Reserve takes hold of cached blocks, all of which must be in the pool, and of
// fresh private copies, evicting as many inactive copies as that needs. Either
// all of it happens or, if active copies leave no room, nothing and ok is false.
// The copies are appended to held, the hashes whose last copy was evicted to
// evicted.
func (p *Pool) Reserve(hits []indexer.SequenceHash, fresh int, held []int32, evicted []indexer.SequenceHash) (_ []int32, _ []indexer.SequenceHash, ok bool) {
	p.found = p.found[:0]
	for _, h := range hits {
		p.found = append(p.found, p.primary.find(h, p.copies))
	}
	return p.Hold(p.found, fresh, held, evicted)
}

// Match appends to copies those that lookups find for the leading hashes that are
// in the pool. active is how many of them requests hold.
func (p *Pool) Match(hashes []indexer.SequenceHash, copies []int32) (_ []int32, active int) {
	for _, h := range hashes {
		c := p.primary.find(h, p.copies)
		if c == none {
			break
		}
		if p.copies[c].refs > 0 {
			active++
		}
		copies = append(copies, c)
	}
	return copies, active
}

// Hold is Reserve for the copies that Match found, with nothing done to the pool
// in between.
func (p *Pool) Hold(copies []int32, fresh int, held []int32, evicted []indexer.SequenceHash) (_ []int32, _ []indexer.SequenceHash, ok bool) {
	idle := 0
	for _, c := range copies {
		if p.copies[c].refs == 0 {
			idle++
		}
	}
	needed := max(0, fresh-(p.capacity-p.used))
	if needed > p.inactive-idle {
		return held, evicted, false
	}
	for _, c := range copies {
		if p.copies[c].refs == 0 {
			p.unlink(c)
		}
		p.copies[c].refs++
		held = append(held, c)
	}
	for range needed {
		evicted = p.evict(evicted)
	}
	for range fresh {
		held = append(held, p.take())
	}
	return held, evicted, true
}

// Commit makes a private copy findable under its hash. It reports whether the
// hash is new in the pool; if not, the copy waits behind the older ones.
func (p *Pool) Commit(c int32, hash indexer.SequenceHash) bool {
	p.copies[c].cached, p.copies[c].hash, p.copies[c].other = true, hash, none
	at := p.primary.find(hash, p.copies)
	if at == none {
		p.primary.insert(c, p.copies)
		return true
	}
	for p.copies[at].other != none {
		at = p.copies[at].other
	}
	p.copies[at].other, p.copies[c].later = c, true
	return false
}

// Release gives copies back, the last one first.
func (p *Pool) Release(held []int32) {
	for i := len(held) - 1; i >= 0; i-- {
		c := held[i]
		s := &p.copies[c]
		s.refs--
		switch {
		case s.refs > 0:
		case s.cached:
			p.link(c)
		default:
			p.giveBack(c)
		}
	}
}

// take returns a private copy with one reference. There must be room.
func (p *Pool) take() int32 {
	p.used++
	c := p.free
	if c == none {
		c = int32(len(p.copies))
		p.copies = append(p.copies, copyState{})
	} else {
		p.free = p.copies[c].next
	}
	p.copies[c] = copyState{refs: 1, next: none, prev: none, other: none}
	return c
}

func (p *Pool) giveBack(c int32) {
	p.used--
	p.copies[c] = copyState{next: p.free, prev: none, other: none}
	p.free = c
}

// evict takes the oldest inactive copy out of the pool.
func (p *Pool) evict(evicted []indexer.SequenceHash) []indexer.SequenceHash {
	c := p.oldest
	s := p.copies[c]
	p.unlink(c)
	if s.later {
		first := p.primary.find(s.hash, p.copies)
		for p.copies[first].other != c {
			first = p.copies[first].other
		}
		p.copies[first].other = s.other
	} else if s.other != none {
		p.primary.replace(c, s.other, p.copies)
		p.copies[s.other].later = false
	} else {
		p.primary.remove(c, p.copies)
		evicted = append(evicted, s.hash)
	}
	p.giveBack(c)
	return evicted
}

// link makes a copy the newest inactive one.
func (p *Pool) link(c int32) {
	p.copies[c].prev, p.copies[c].next = p.newest, none
	if p.newest == none {
		p.oldest = c
	} else {
		p.copies[p.newest].next = c
	}
	p.newest = c
	p.inactive++
}

func (p *Pool) unlink(c int32) {
	s := &p.copies[c]
	if s.prev == none {
		p.oldest = s.next
	} else {
		p.copies[s.prev].next = s.next
	}
	if s.next == none {
		p.newest = s.prev
	} else {
		p.copies[s.next].prev = s.prev
	}
	s.prev, s.next = none, none
	p.inactive--
}

// Check verifies the pool's invariants and returns the first violation.
func (p *Pool) Check() error {
	// A walk that is longer than all copies goes in circles; its count is wrong.
	free, used, inactive := 0, 0, 0
	for c := p.free; c != none && free <= len(p.copies); c = p.copies[c].next {
		free++
	}
	for c, prev := p.oldest, int32(none); c != none && inactive <= len(p.copies); prev, c = c, p.copies[c].next {
		s := &p.copies[c]
		if s.refs != 0 || !s.cached || s.prev != prev {
			return fmt.Errorf("mocker: inactive copy %d is %+v, after %d", c, *s, prev)
		}
		inactive++
	}
	chained := 0
	var lost error
	p.primary.all(func(first int32) {
		hash := p.copies[first].hash
		if p.primary.find(hash, p.copies) != first {
			lost = fmt.Errorf("mocker: copy %d is %+v and is not found", first, p.copies[first])
		}
		for c := first; c != none && chained <= len(p.copies); c = p.copies[c].other {
			if s := &p.copies[c]; !s.cached || s.hash != hash || s.later != (c != first) {
				lost = fmt.Errorf("mocker: copy %d is %+v and is found under %d", c, p.copies[c], hash)
			}
			chained++
		}
	})
	if lost != nil {
		return lost
	}
	active, cached := 0, 0
	for i := range p.copies {
		s := &p.copies[i]
		if s.refs < 0 {
			return fmt.Errorf("mocker: copy %d is held %d times", i, s.refs)
		}
		if s.refs > 0 {
			active++
		}
		if s.refs > 0 || s.cached {
			used++
		}
		if s.cached {
			cached++
		}
	}
	if used != p.used || used > p.capacity || inactive != p.inactive || active+inactive != used || free != len(p.copies)-used || cached != chained {
		return fmt.Errorf("mocker: %d used of %d, %d inactive, %d free, %d cached, %d found; the counts say %d used, %d inactive, %d copies",
			used, p.capacity, inactive, free, cached, chained, p.used, p.inactive, len(p.copies))
	}
	return nil
}
