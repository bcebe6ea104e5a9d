package retention

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
)

// Lease is the hold of a running request on its blocks. The zero value is no
// lease.
type Lease uint64

// LRU keeps what fits a rank of known capacity.
//
// What counts against the capacity are copies of blocks and private blocks. A
// prompt takes hold of the oldest copy of each leading block that the rank has,
// and of a new copy of every other one. Blocks of an answer are always new
// copies, so a block can have several. Private blocks are those that are not full
// and that nobody else can use; they have a number and no name.
//
// Copies that no lease holds are evicted, while the rank is over its capacity:
// the longest released first, of one release the last block first. Copies in use
// and private blocks are never evicted, so a rank can be over its capacity, which
// is counted. A block goes when its last copy goes. Within one call Stored comes
// before Removed.
//
// A release puts its copies in a list, last block first, which is the order of
// eviction. The copies that a lease holds include one of each block's prefix, and
// they are released together, hence a block goes before its prefix.
type LRU struct {
	machine
	capacity int

	copies  []blockCopy
	free    int32 // linked by next
	used    int   // copies that are not free
	private int
	chains  []chain // copies of each place
	oldest  int32   // copy to evict next
	newest  int32
	epoch   uint64 // releases so far

	leases      []lease
	endedLeases []int32
	active      int
}

// blockCopy is one copy of a block. It is in a list of its place's copies and,
// if no lease holds it, in the list of eviction.
type blockCopy struct {
	place          int32 // none: free
	refs           int32
	prev, next     int32 // in the list of eviction
	older, younger int32 // copies of the same place
	epoch          uint64
}

type chain struct{ oldest, youngest int32 }

// lease is a running request. Its buffer is reused.
type lease struct {
	number  uint32 // of its Lease; 0 is never given
	open    bool
	cut     bool // by a collision: what follows has no place
	private int
	held    []int32 // copies by block
}

// NewLRU returns the machine of the rank in slot, empty. The capacity is in
// blocks, from 1 to 2^30.
func NewLRU(slot indexer.Slot, capacity int, emit Emit) (*LRU, error) {
	if capacity < 1 || capacity > 1<<30 {
		return nil, fmt.Errorf("retention: a capacity of %d blocks; it must lie in [1, 2^30]", capacity)
	}
	return &LRU{machine: newMachine(slot, emit), capacity: capacity, free: none, oldest: none, newest: none}, nil
}

// Acquire stores the full blocks of a prompt that was routed to the rank at time
// now, with so many private ones, and holds them until the lease is released. It
// returns how many leading blocks the rank held before. prompt is not kept.
func (r *LRU) Acquire(now int64, prompt []indexer.LocalHash, private int) (l Lease, held int) {
	r.now = max(r.now, now)
	var id int32
	if n := len(r.endedLeases); n > 0 {
		id, r.endedLeases = r.endedLeases[n-1], r.endedLeases[:n-1]
	} else {
		id = int32(len(r.leases))
		r.leases = append(r.leases, lease{})
	}
	x := &r.leases[id]
	if x.number++; x.number == 0 {
		x.number = 1
	}
	x.open, x.cut, x.private, x.held = true, false, max(private, 0), x.held[:0]
	r.private += x.private
	r.active++

	r.path = r.places.match(none, prompt, r.path[:0])
	held = len(r.path)
	r.stats.Decisions++
	r.stats.Predicted += int64(held)
	for _, p := range r.path {
		c := r.chains[p].oldest
		if r.copies[c].refs == 0 {
			r.unlink(c)
		}
		r.copies[c].refs++
		x.held = append(x.held, c)
	}
	r.extend(r.last(none), prompt[held:])
	r.hold(x, r.path[held:])
	x.cut = len(x.held) < len(prompt)
	r.shrink()
	return Lease(x.number)<<32 | Lease(id), held
}

// Materialize stores the next full blocks of a running request at time now,
// behind all before, and replaces its number of private blocks. It is false, and
// nothing happens, if the lease has ended.
func (r *LRU) Materialize(now int64, l Lease, blocks []indexer.LocalHash, private int) bool {
	r.now = max(r.now, now)
	x := r.lease(l)
	if x == nil {
		return false
	}
	private = max(private, 0)
	r.private += private - x.private
	x.private = private
	if !x.cut {
		parent := int32(none)
		if n := len(x.held); n > 0 {
			parent = r.copies[x.held[n-1]].place
		}
		r.path = r.places.match(parent, blocks, r.path[:0])
		known := len(r.path)
		stored := r.stats.Stored
		r.extend(r.last(parent), blocks[known:])
		r.stats.Output += r.stats.Stored - stored
		r.hold(x, r.path)
		x.cut = len(r.path) < len(blocks)
	}
	r.shrink()
	return true
}

// Release ends a lease at time now. It is false, and nothing happens, if the
// lease has ended before.
func (r *LRU) Release(now int64, l Lease) bool {
	r.now = max(r.now, now)
	x := r.lease(l)
	if x == nil {
		return false
	}
	r.epoch++
	for i := len(x.held) - 1; i >= 0; i-- {
		c := x.held[i]
		if r.copies[c].refs--; r.copies[c].refs == 0 {
			r.link(c)
		}
	}
	r.private -= x.private
	r.end(int32(uint32(l)))
	r.shrink()
	return true
}

// Clear forgets all blocks and ends all leases at time now: the rank has begun
// anew.
func (r *LRU) Clear(now int64) {
	r.now = max(r.now, now)
	for id := range r.leases {
		if r.leases[id].open {
			r.end(int32(id))
		}
	}
	r.copies, r.free, r.used, r.private = r.copies[:0], none, 0, 0
	r.chains, r.oldest, r.newest = r.chains[:0], none, none
	r.clear()
}

// Leases returns how many leases have not ended.
func (r *LRU) Leases() int { return r.active }

// InUse returns what counts against the capacity: copies, held or not, and
// private blocks.
func (r *LRU) InUse() int { return r.used + r.private }

// lease returns an open lease, or nil, which it counts.
func (r *LRU) lease(l Lease) *lease {
	if id := uint32(l); int(id) < len(r.leases) {
		if x := &r.leases[id]; x.open && x.number == uint32(l>>32) {
			return x
		}
	}
	r.stats.Ignored++
	return nil
}

func (r *LRU) end(id int32) {
	r.leases[id].open = false
	r.endedLeases = append(r.endedLeases, id)
	r.active--
}

// hold makes a new copy of each place and lets the lease hold it.
func (r *LRU) hold(x *lease, path []int32) {
	for len(r.chains) < len(r.places.list) {
		r.chains = append(r.chains, chain{none, none})
	}
	for _, p := range path {
		c := r.free
		if c == none {
			c = int32(len(r.copies))
			r.copies = append(r.copies, blockCopy{})
		} else {
			r.free = r.copies[c].next
		}
		r.used++
		youngest := r.chains[p].youngest
		r.copies[c] = blockCopy{place: p, refs: 1, prev: none, next: none, older: youngest, younger: none}
		if youngest == none {
			r.chains[p].oldest = c
		} else {
			r.copies[youngest].younger = c
		}
		r.chains[p].youngest = c
		x.held = append(x.held, c)
	}
}

// shrink evicts what is not in use until the rank is within its capacity, and
// counts if that is not enough.
func (r *LRU) shrink() {
	for r.InUse() > r.capacity && r.oldest != none {
		c := r.oldest
		r.unlink(c)
		s := r.copies[c]
		if s.older == none {
			r.chains[s.place].oldest = s.younger
		} else {
			r.copies[s.older].younger = s.younger
		}
		if s.younger == none {
			r.chains[s.place].youngest = s.older
		} else {
			r.copies[s.younger].older = s.older
		}
		if s.older == none && s.younger == none {
			r.drop(s.place)
		}
		r.copies[c] = blockCopy{place: none, next: r.free}
		r.free = c
		r.used--
	}
	r.report(r.now)
	if over := int64(r.InUse() - r.capacity); over > 0 {
		r.stats.OverCapacity++
		r.stats.PeakOver = max(r.stats.PeakOver, over)
	}
}

// link makes a copy the last to be evicted.
func (r *LRU) link(c int32) {
	s := &r.copies[c]
	s.prev, s.next, s.epoch = r.newest, none, r.epoch
	if r.newest == none {
		r.oldest = c
	} else {
		r.copies[r.newest].next = c
	}
	r.newest = c
}

func (r *LRU) unlink(c int32) {
	s := r.copies[c]
	if s.prev == none {
		r.oldest = s.next
	} else {
		r.copies[s.prev].next = s.next
	}
	if s.next == none {
		r.newest = s.prev
	} else {
		r.copies[s.next].prev = s.prev
	}
}

// Check verifies the invariants and returns the first violation.
func (r *LRU) Check() error {
	if err := r.places.check(); err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	refs := make([]int32, len(r.copies))
	active, private := 0, 0
	for i := range r.leases {
		x := &r.leases[i]
		if !x.open {
			continue
		}
		active++
		private += x.private
		parent := int32(none)
		for at, c := range x.held {
			refs[c]++
			place := r.copies[c].place
			if place == none || r.places.list[place].parent != parent || int(r.places.list[place].depth) != at {
				return fmt.Errorf("retention: lease %d holds copy %d, %+v, as its block %d behind place %d", i, c, r.copies[c], at, parent)
			}
			parent = place
		}
	}
	if active != r.active || active+len(r.endedLeases) != len(r.leases) || private != r.private {
		return fmt.Errorf("retention: %d leases of %d with %d private blocks; the counts say %d, %d ended and %d",
			active, len(r.leases), private, r.active, len(r.endedLeases), r.private)
	}
	free := 0
	for c := r.free; c != none && free <= len(r.copies); c = r.copies[c].next {
		free++
	}
	used, inactive, chained, chains := 0, 0, 0, 0
	for c := range r.copies {
		s := &r.copies[c]
		if s.place == none {
			continue
		}
		used++
		if s.refs != refs[c] {
			return fmt.Errorf("retention: copy %d is %+v; leases hold it %d times", c, *s, refs[c])
		}
		if s.refs == 0 {
			inactive++
		}
		if s.older == none {
			// The oldest copy leads to all of its place.
			chains++
			prev := int32(none)
			for at := int32(c); at != none; prev, at = at, r.copies[at].younger {
				if o := &r.copies[at]; o.older != prev || o.place != s.place {
					return fmt.Errorf("retention: copy %d is %+v, after %d of place %d", at, *o, prev, s.place)
				}
				chained++
			}
			if ch := r.chains[s.place]; ch != (chain{int32(c), prev}) {
				return fmt.Errorf("retention: place %d has copies %+v, found are %d to %d", s.place, ch, c, prev)
			}
		}
	}
	if used != r.used || free+used != len(r.copies) || chained != used {
		return fmt.Errorf("retention: %d copies used, %d free of %d, %d chained; the count says %d", used, free, len(r.copies), chained, r.used)
	}
	if chains != r.places.held {
		return fmt.Errorf("retention: %d places are held and %d have copies", r.places.held, chains)
	}
	listed, prev := 0, int32(none)
	for c := r.oldest; c != none && listed <= inactive; prev, c = c, r.copies[c].next {
		s := &r.copies[c]
		if s.refs != 0 || s.place == none || s.prev != prev {
			return fmt.Errorf("retention: copy %d is %+v, in the list of eviction after %d", c, *s, prev)
		}
		if prev != none {
			p := &r.copies[prev]
			if p.epoch > s.epoch || p.epoch == s.epoch && r.places.list[p.place].depth <= r.places.list[s.place].depth {
				return fmt.Errorf("retention: copy %d of release %d goes before copy %d of release %d", prev, p.epoch, c, s.epoch)
			}
		}
		listed++
	}
	if listed != inactive || prev != r.newest {
		return fmt.Errorf("retention: %d copies to evict up to %d, %d are not held and the last is %d", listed, prev, inactive, r.newest)
	}
	if r.InUse() > r.capacity && inactive > 0 {
		return fmt.Errorf("retention: %d blocks in use of %d, and %d copies could go", r.InUse(), r.capacity, inactive)
	}
	return nil
}

// Bytes returns the memory that the machine takes.
func (r *LRU) Bytes() int64 {
	n := r.places.bytes() + 32*int64(cap(r.copies)) + 8*int64(cap(r.chains)) + 40*int64(cap(r.leases)) +
		4*int64(cap(r.endedLeases)) + 4*int64(cap(r.path)) + 8*int64(cap(r.names))
	for i := range r.leases {
		n += 4 * int64(cap(r.leases[i].held))
	}
	return n
}
