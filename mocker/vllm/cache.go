package vllm

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
)

// none is no piece.
const none = -1

// cache is the block pool of an engine: what mocker.Pool is, kept in pieces. A
// piece is a run of physical blocks with successive content, all of which the same
// requests hold or none does, so that a request of hundreds of blocks is a few
// steps. cache_test.go compares the two.
//
// Blocks are named by their stretch of the requests' paths (mocker.Prompts) and
// their place. In each stretch the pieces that lookups find, the primary ones, are
// in a list by place and do not overlap. A later copy of the same blocks is a piece
// with exactly the same place as a primary one and waits behind it; where pieces
// would overlap in part they are cut. Pieces that nobody holds are in a list by
// their last use and are eaten from its head, each from its end. So of one prompt
// leaves go before roots, as if each block were given back alone, the last first.
//
// Pieces are cut and never joined. A holder knows a piece by its lower end: what was
// cut off is found through rest.
//
// Complete blocks only are in pieces. Others belong to one request, which has
// their number.
type cache struct {
	capacity int
	used     int // blocks that are not free
	idle     int // of these, held by nobody
	distinct int // blocks that lookups find

	pieces []piece
	unused int32           // pieces, linked by next
	first  map[int32]int32 // the first primary piece of a stretch
	oldest int32           // of the idle pieces
	newest int32

	// named says that pieces have the hashes of their blocks, for evicted.
	named   bool
	evicted []indexer.SequenceHash // by the last hold, if named
	lost    []engine.Piece         // the same blocks in pieces
	gone    int                    // the number of blocks that these are or would be

	now  int64 // virtual time, kept up to date by the engine
	gaps residency

	fresh []stretch // scratch of store
	order []int32   // scratch of release
}

// stretch is blocks of a request, from the start of its prompt.
type stretch struct{ from, to int32 }

// residency sums up how long blocks were in pieces.
type residency struct {
	blocks int   // in pieces now
	since  int64 // sum over these of when they came
	cached int64 // block-ns of those that are gone
	dead   int64 // of these, after they were held last
}

func (c *cache) come(blocks int) {
	c.gaps.blocks += blocks
	c.gaps.since += int64(blocks) * c.now
}

// leave notes that idle blocks of a piece are gone. When each of them came is not
// kept: what all of them have together is.
func (c *cache) leave(p *piece, blocks int) {
	c.gaps.blocks -= blocks
	c.gaps.cached += int64(blocks) * c.now
	c.gaps.dead += int64(blocks) * (c.now - p.idleSince)
}

// residency returns the sums until a time that is not before the last change.
func (c *cache) residency(until int64) (cached, dead int64) {
	cached, dead = c.gaps.cached+int64(c.gaps.blocks)*until-c.gaps.since, c.gaps.dead
	for p := c.oldest; p != none; p = c.pieces[p].next {
		dead += int64(c.pieces[p].len()) * (until - c.pieces[p].idleSince)
	}
	return cached, dead
}

type piece struct {
	id       int32 // of the stretch
	from, to int32 // blocks from the start of a prompt
	refs     int32 // requests that hold it
	primary  bool

	idleSince int64 // if nobody holds it

	prev, next    int32 // among the idle; next of those unused
	before, after int32 // primary pieces of the same stretch
	younger       int32 // the next copy of the same blocks
	rest          int32 // what was cut off last, if any; it may be gone if nobody holds it

	sequences []indexer.SequenceHash
}

func (p *piece) len() int { return int(p.to - p.from) }

// span is a piece that a request holds, with what was cut off it up to block to.
type span struct{ piece, to int32 }

// held is what a request has of the cache: complete blocks in spans, and private
// ones behind them.
type held struct {
	spans   []span
	stored  int // blocks in spans
	private int
	at      int // in the path: the stretch of block stored
}

// blocks returns how many blocks it holds.
func (h *held) blocks() int { return h.stored + h.private }

func newCache(capacity int, named bool) *cache {
	return &cache{capacity: capacity, unused: none, first: map[int32]int32{}, oldest: none, newest: none, named: named}
}

func (c *cache) active() int { return c.used - c.idle }

// head returns the first primary piece of a stretch, or none.
func (c *cache) head(id int32) int32 {
	if p, ok := c.first[id]; ok {
		return p
	}
	return none
}

// match appends to spans what is there of the leading blocks of a path, up to
// limit. Of hits blocks requests hold active.
func (c *cache) match(path []mocker.Stretch, limit int, spans []span) (_ []span, hits, active int) {
	at := int32(0)
	for _, s := range path {
		for p := c.head(s.ID); p != none && int(at) < limit && c.pieces[p].from == at; p = c.pieces[p].after {
			to := min(c.pieces[p].to, int32(limit))
			if c.pieces[p].refs > 0 {
				active += int(to - at)
			}
			spans = append(spans, span{p, to})
			at = to
		}
		if at < s.End {
			break
		}
	}
	return spans, int(at), active
}

// hold gives a request, which holds nothing or is given no hits, what was just
// matched, of which active blocks are held by others, and fresh blocks of its own.
// Either all of it happens or, if there is no room, nothing. Blocks that were
// evicted for it are in evicted, lost and gone.
func (c *cache) hold(h *held, spans []span, hits, active, fresh int) bool {
	c.evicted, c.lost, c.gone = c.evicted[:0], c.lost[:0], 0
	needed := max(0, fresh-(c.capacity-c.used))
	if needed > c.idle-(hits-active) {
		return false
	}
	for _, s := range spans {
		if s.to < c.pieces[s.piece].to {
			c.cut(s.piece, s.to)
		}
		if c.pieces[s.piece].refs == 0 {
			c.unlink(s.piece)
		}
		c.pieces[s.piece].refs++
		h.spans = append(h.spans, s)
	}
	h.stored += hits
	c.evict(needed)
	h.private += fresh
	c.used += fresh
	return true
}

// store makes blocks of a request, which holds them, known up to block to. The
// runs of them that were not there are appended to fresh, which is valid until the
// next call. sequences are the hashes of the request's blocks, if pieces have such.
func (c *cache) store(h *held, path []mocker.Stretch, to int, sequences []indexer.SequenceHash) []stretch {
	c.fresh = c.fresh[:0]
	pos, end, first := int32(h.stored), int32(to), int32(h.stored)
	for pos < end {
		for path[h.at].End <= pos {
			h.at++
		}
		id, most := path[h.at].ID, min(path[h.at].End, end)
		last := c.last(h)
		// The primary pieces before and behind.
		cell, next := int32(none), int32(none)
		if last != none && c.pieces[last].primary && c.pieces[last].id == id {
			cell, next = last, c.pieces[last].after
		} else {
			next = c.head(id)
		}
		for next != none && c.pieces[next].from <= pos {
			cell, next = next, c.pieces[next].after
		}
		if cell != none && c.pieces[cell].to > pos {
			if c.pieces[cell].from < pos {
				cell = c.cut(cell, pos)
			}
			to := min(c.pieces[cell].to, most)
			if to < c.pieces[cell].to {
				c.cut(cell, to)
			}
			copied := c.place(piece{id: id, from: pos, to: to, refs: 1})
			c.name(copied, sequences)
			for c.pieces[cell].younger != none {
				cell = c.pieces[cell].younger
			}
			c.pieces[cell].younger = copied
			h.spans = append(h.spans, span{copied, to})
			if first < pos {
				c.fresh = append(c.fresh, stretch{first, pos})
			}
			pos, first = to, to
			continue
		}
		to := most
		if next != none {
			to = min(to, c.pieces[next].from)
		}
		c.distinct += int(to - pos)
		if p := cell; p != none && p == last && c.pieces[p].to == pos && c.pieces[p].refs == 1 && c.pieces[p].younger == none {
			c.pieces[p].to = to
			if c.named {
				c.pieces[p].sequences = append(c.pieces[p].sequences, sequences[pos:to]...)
			}
			h.spans[len(h.spans)-1].to = to
			pos = to
			continue
		}
		p := c.place(piece{id: id, from: pos, to: to, refs: 1, primary: true})
		c.name(p, sequences)
		c.insert(p, cell, next)
		h.spans = append(h.spans, span{p, to})
		pos = to
	}
	if first < end {
		c.fresh = append(c.fresh, stretch{first, end})
	}
	c.come(to - h.stored)
	h.private -= to - h.stored
	h.stored = to
	return c.fresh
}

// last returns the piece that a request's spans end with, or none.
func (c *cache) last(h *held) int32 {
	if len(h.spans) == 0 {
		return none
	}
	s := h.spans[len(h.spans)-1]
	p := s.piece
	for c.pieces[p].to < s.to {
		p = c.pieces[p].rest
	}
	return p
}

// release gives back all that a request holds.
func (c *cache) release(h *held) {
	c.used -= h.private
	for i := len(h.spans) - 1; i >= 0; i-- {
		s := h.spans[i]
		c.order = append(c.order[:0], s.piece)
		for p := s.piece; c.pieces[p].to < s.to; {
			p = c.pieces[p].rest
			c.order = append(c.order, p)
		}
		for k := len(c.order) - 1; k >= 0; k-- {
			p := c.order[k]
			if c.pieces[p].refs--; c.pieces[p].refs == 0 {
				c.link(p)
			}
		}
	}
	*h = held{spans: h.spans[:0]}
}

func (c *cache) place(p piece) int32 {
	p.prev, p.next, p.before, p.after, p.younger, p.rest = none, none, none, none, none, none
	at := c.unused
	if at == none {
		c.pieces = append(c.pieces, p)
		return int32(len(c.pieces) - 1)
	}
	c.unused = c.pieces[at].next
	c.pieces[at] = p
	return at
}

func (c *cache) name(at int32, sequences []indexer.SequenceHash) {
	if p := &c.pieces[at]; c.named {
		p.sequences = append([]indexer.SequenceHash(nil), sequences[p.from:p.to]...)
	}
}

// cut cuts a piece and all copies of the same blocks at a block, and returns what
// is behind it of the piece.
func (c *cache) cut(at, block int32) int32 {
	first := at
	if !c.pieces[at].primary {
		first = c.primary(at)
	}
	upper, older := int32(none), int32(none)
	for p := first; p != none; p = c.pieces[p].younger {
		q := c.place(c.pieces[p])
		low, high := &c.pieces[p], &c.pieces[q]
		high.from, low.to = block, block
		high.rest, low.rest = low.rest, q
		if c.named {
			k := block - low.from
			high.sequences = low.sequences[k:]
			low.sequences = low.sequences[:k:k]
		}
		if p == first {
			c.insert(q, p, low.after)
		} else {
			c.pieces[older].younger = q
		}
		if low.refs == 0 {
			// Of a piece the end goes first.
			high.prev, high.next = low.prev, p
			if low.prev == none {
				c.oldest = q
			} else {
				c.pieces[low.prev].next = q
			}
			low.prev = q
		}
		if p == at {
			upper = q
		}
		older = q
	}
	return upper
}

// primary returns the piece that lookups find in the place of a copy.
func (c *cache) primary(at int32) int32 {
	p := c.head(c.pieces[at].id)
	for c.pieces[p].from != c.pieces[at].from {
		p = c.pieces[p].after
	}
	return p
}

// insert puts a primary piece between two of its stretch.
func (c *cache) insert(at, before, after int32) {
	p := &c.pieces[at]
	p.before, p.after = before, after
	if before == none {
		c.first[p.id] = at
	} else {
		c.pieces[before].after = at
	}
	if after != none {
		c.pieces[after].before = at
	}
}

// evict takes idle blocks out, as many as there are at least.
func (c *cache) evict(blocks int) {
	for blocks > 0 {
		at := c.oldest
		p := &c.pieces[at]
		n := min(blocks, p.len())
		blocks -= n
		if n < p.len() {
			if !p.primary || p.younger != none {
				at = c.cut(at, p.to-int32(n))
			} else {
				c.lose(p, n)
				c.leave(p, n)
				p.to -= int32(n)
				c.idle -= n
				c.used -= n
				return
			}
		}
		c.drop(at)
	}
}

// lose notes that lookups no longer find the last blocks of a piece.
func (c *cache) lose(p *piece, blocks int) {
	c.gone += blocks
	c.lost = append(c.lost, engine.Piece{Stretch: p.id, From: p.to - int32(blocks), To: p.to})
	c.distinct -= blocks
	if c.named {
		k := len(p.sequences) - blocks
		for i := len(p.sequences) - 1; i >= k; i-- {
			c.evicted = append(c.evicted, p.sequences[i])
		}
		p.sequences = p.sequences[:k]
	}
}

// drop takes an idle piece out.
func (c *cache) drop(at int32) {
	c.unlink(at)
	p := &c.pieces[at]
	c.leave(p, p.len())
	c.used -= p.len()
	switch {
	case !p.primary:
		older := c.primary(at)
		for c.pieces[older].younger != at {
			older = c.pieces[older].younger
		}
		c.pieces[older].younger = p.younger
	case p.younger != none:
		c.pieces[p.younger].primary = true
		c.insert(p.younger, p.before, p.after)
	default:
		c.lose(p, p.len())
		if p.after != none {
			c.pieces[p.after].before = p.before
		}
		switch {
		case p.before != none:
			c.pieces[p.before].after = p.after
		case p.after != none:
			c.first[p.id] = p.after
		default:
			delete(c.first, p.id)
		}
	}
	*p = piece{next: c.unused}
	c.unused = at
}

// link makes a piece the one that was used last.
func (c *cache) link(at int32) {
	p := &c.pieces[at]
	p.prev, p.next = c.newest, none
	p.idleSince = c.now
	if c.newest == none {
		c.oldest = at
	} else {
		c.pieces[c.newest].next = at
	}
	c.newest = at
	c.idle += p.len()
}

func (c *cache) unlink(at int32) {
	p := &c.pieces[at]
	if p.prev == none {
		c.oldest = p.next
	} else {
		c.pieces[p.prev].next = p.next
	}
	if p.next == none {
		c.newest = p.prev
	} else {
		c.pieces[p.next].prev = p.prev
	}
	p.prev, p.next = none, none
	c.idle -= p.len()
}

// check verifies the cache, which is held by holders, and returns the first
// violation.
func (c *cache) check(holders []*held) error {
	refs := make([]int32, len(c.pieces))
	private := 0
	for _, h := range holders {
		private += h.private
		at := int32(0)
		for _, s := range h.spans {
			for p := s.piece; ; p = c.pieces[p].rest {
				if p == none || c.pieces[p].from != at || c.pieces[p].to > s.to {
					return fmt.Errorf("vllm: a request that holds %+v has piece %d at block %d", *h, p, at)
				}
				refs[p]++
				if at = c.pieces[p].to; at == s.to {
					break
				}
			}
		}
		if int(at) != h.stored || h.private < 0 {
			return fmt.Errorf("vllm: a request holds %+v, in pieces %d blocks", *h, at)
		}
	}
	unused := 0
	for p := c.unused; p != none && unused <= len(c.pieces); p = c.pieces[p].next {
		unused++
	}
	idle, pieces := 0, 0
	for p, prev := c.oldest, int32(none); p != none && pieces <= len(c.pieces); prev, p = p, c.pieces[p].next {
		if q := &c.pieces[p]; q.refs != 0 || q.prev != prev {
			return fmt.Errorf("vllm: idle piece %d is %+v, after %d", p, *q, prev)
		}
		idle += c.pieces[p].len()
		pieces++
	}
	found, used, distinct := 0, private, 0
	for id, first := range c.first {
		before, at := int32(none), int32(0)
		for p := first; p != none && found <= len(c.pieces); p = c.pieces[p].after {
			q := &c.pieces[p]
			if q.id != id || !q.primary || q.before != before || q.from < at {
				return fmt.Errorf("vllm: piece %d is %+v, after %d, which ends at %d, in stretch %d", p, *q, before, at, id)
			}
			distinct += q.len()
			for y := p; y != none && found <= len(c.pieces); y = c.pieces[y].younger {
				o := &c.pieces[y]
				if o.id != id || o.from != q.from || o.to != q.to || o.len() < 1 || o.refs != refs[y] || o.primary != (y == p) || c.named && len(o.sequences) != o.len() {
					return fmt.Errorf("vllm: piece %d is %+v, held by %d, in the place of %+v", y, *o, refs[y], *q)
				}
				if o.refs == 0 {
					pieces--
				}
				used += o.len()
				found++
			}
			before, at = p, q.to
		}
	}
	if c.gaps.blocks != used-private {
		return fmt.Errorf("vllm: %d blocks in pieces, counted as %d", used-private, c.gaps.blocks)
	}
	if pieces != 0 || found+unused != len(c.pieces) || idle != c.idle || used != c.used || distinct != c.distinct || used > c.capacity {
		return fmt.Errorf("vllm: %d pieces found and %d unused of %d, idle ones off by %d; blocks %d used, %d idle, %d distinct, counted as %d, %d, %d of %d",
			found, unused, len(c.pieces), pieces, used, idle, distinct, c.used, c.idle, c.distinct, c.capacity)
	}
	return nil
}
