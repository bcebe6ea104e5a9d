package retention

import (
	"fmt"
	"math"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// DefaultTTL is how long a block is kept if nothing else is asked for.
const DefaultTTL = 120 * time.Second

// Bucket is the grid of expiry times: they are rounded up to a multiple of it, so
// that what was stored at nearly the same time goes in one event.
const Bucket = 100 * time.Millisecond

// never is the expiry of what outlives the clock.
const never = math.MaxInt64

// TTL keeps each block for a time after the last decision that had it in its
// prompt. Neither the answer nor the end of a request makes a difference.
//
// Since the time is the same for all blocks, those refreshed earlier always go
// earlier: the timers are one list in the order of refreshing. A decision
// refreshes its last block first, so that a block goes before its prefix.
type TTL struct {
	machine
	ttl    int64
	timers []timer // by place
	oldest int32
	newest int32
}

type timer struct {
	expiry     int64
	prev, next int32
}

// NewTTL returns the machine of the rank in slot, empty. ttl must be positive.
func NewTTL(slot indexer.Slot, ttl time.Duration, emit Emit) (*TTL, error) {
	if ttl <= 0 {
		return nil, fmt.Errorf("retention: blocks that live %v; it must be more than 0", ttl)
	}
	return &TTL{machine: newMachine(slot, emit), ttl: int64(ttl), oldest: none, newest: none}, nil
}

// Route stores the full blocks of a prompt that was routed to the rank at time
// now, after what was due by then has gone. It returns how many leading blocks
// the rank still held. prompt is not kept.
func (r *TTL) Route(now int64, prompt []indexer.LocalHash) (held int) {
	r.Advance(now)
	r.path = r.places.match(none, prompt, r.path[:0])
	held = len(r.path)
	r.stats.Decisions++
	r.stats.Predicted += int64(held)
	r.extend(r.last(none), prompt[held:])
	for len(r.timers) < len(r.places.list) {
		r.timers = append(r.timers, timer{})
	}
	expiry := r.expiryAt(r.now)
	for i := len(r.path) - 1; i >= 0; i-- {
		if i < held {
			r.unlink(r.path[i])
		}
		r.link(r.path[i], expiry)
	}
	return held
}

// expiryAt returns when what is refreshed now goes: the first multiple of Bucket
// that is not before now + ttl.
func (r *TTL) expiryAt(now int64) int64 {
	if now > never-r.ttl {
		return never
	}
	at := now + r.ttl
	up := -at % int64(Bucket)
	if up < 0 {
		up += int64(Bucket)
	}
	if at > never-up {
		return never
	}
	return at + up
}

// Advance lets the time come to now: what is due by then goes, in one event for
// each expiry time and with that as its time.
func (r *TTL) Advance(now int64) {
	for r.oldest != none {
		at := r.timers[r.oldest].expiry
		if at > now || at == never {
			break
		}
		for r.oldest != none && r.timers[r.oldest].expiry == at {
			id := r.oldest
			r.unlink(id)
			r.drop(id)
		}
		r.report(at)
	}
	r.now = max(r.now, now)
}

// Next returns when the next block is due to go, and false if none is.
func (r *TTL) Next() (at int64, ok bool) {
	if r.oldest == none || r.timers[r.oldest].expiry == never {
		return 0, false
	}
	return r.timers[r.oldest].expiry, true
}

// Clear forgets all blocks at time now: the rank has begun anew.
func (r *TTL) Clear(now int64) {
	r.Advance(now)
	r.clear()
	r.timers, r.oldest, r.newest = r.timers[:0], none, none
}

func (r *TTL) link(id int32, expiry int64) {
	r.timers[id] = timer{expiry: expiry, prev: r.newest, next: none}
	if r.newest == none {
		r.oldest = id
	} else {
		r.timers[r.newest].next = id
	}
	r.newest = id
}

func (r *TTL) unlink(id int32) {
	t := r.timers[id]
	if t.prev == none {
		r.oldest = t.next
	} else {
		r.timers[t.prev].next = t.next
	}
	if t.next == none {
		r.newest = t.prev
	} else {
		r.timers[t.next].prev = t.prev
	}
}

// Check verifies the invariants and returns the first violation.
func (r *TTL) Check() error {
	if err := r.places.check(); err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	order := make(map[int32]int, r.places.held)
	prev := int32(none)
	for id := r.oldest; id != none; id = r.timers[id].next {
		t := r.timers[id]
		switch _, twice := order[id]; {
		case twice:
			return fmt.Errorf("retention: place %d is twice among the timers", id)
		case t.prev != prev:
			return fmt.Errorf("retention: place %d comes after %d among the timers and says %d", id, prev, t.prev)
		case prev != none && r.timers[prev].expiry > t.expiry:
			return fmt.Errorf("retention: place %d goes at %d, after place %d at %d", prev, r.timers[prev].expiry, id, t.expiry)
		case t.expiry <= r.now && t.expiry != never:
			return fmt.Errorf("retention: place %d was due at %d, it is %d", id, t.expiry, r.now)
		}
		order[id] = len(order)
		prev = id
	}
	if prev != r.newest || len(order) != r.places.held {
		return fmt.Errorf("retention: %d timers up to place %d, the last is %d; %d places are held", len(order), prev, r.newest, r.places.held)
	}
	for id, at := range order {
		if parent := r.places.list[id].parent; parent != none && order[parent] < at {
			return fmt.Errorf("retention: place %d goes before place %d, which follows it", parent, id)
		}
	}
	return nil
}

// Bytes returns the memory that the machine takes.
func (r *TTL) Bytes() int64 {
	return r.places.bytes() + 16*int64(cap(r.timers)) + 4*int64(cap(r.path)) + 8*int64(cap(r.names))
}
