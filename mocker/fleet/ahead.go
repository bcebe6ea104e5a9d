package fleet

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
)

// Ranks know nothing of each other. What one does until a time follows from the
// requests that it was given before. If no end of a request lets another arrive,
// all arrivals are known beforehand, and so each rank can do in a row what it does
// until the next arrival for which somebody looks at it: routers that hear of ranks
// or look at them do so at every arrival, others when a request is for the rank.
// What it does on the way is told later, in the order of time, but for KV events:
// no answer of an index depends on the order of two ranks' events.
//
// If events get lost, they do so by one draw after the other, in the order of time.

// afterRanks is the rank of what happens after all that ranks do at one time.
const afterRanks = math.MaxInt32

// catchUpEvery is after how many arrivals all ranks catch up, so that what is to
// be told does not pile up.
const catchUpEvery = 1 << 12

// happened is a first token or the end of a request, which are told later.
type happened struct {
	at    int64
	rank  int32
	slot  int32
	ended bool
	heard bool // by the router
}

// pending is a heap of KV events that are on their way, the next one first.
type pending []*eventMessage

func (p pending) Len() int { return len(p) }
func (p pending) Less(i, j int) bool {
	return p[i].at < p[j].at || p[i].at == p[j].at && p[i].number < p[j].number
}
func (p pending) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

// Push implements heap.Interface.
func (p *pending) Push(x any) { *p = append(*p, x.(*eventMessage)) }

// Pop implements heap.Interface.
func (p *pending) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	*p = (*p)[:last]
	return x
}

// hearing returns what any of the routers hears or looks at.
func (f *fleet) hearing() (events, load, looks bool) {
	for _, r := range f.cfg.Routers {
		e, l, k := true, true, true
		if h, ok := r.(Hearer); ok {
			e, l, k = h.Hears()
		}
		events, load, looks = events || e, load || l, looks || k
	}
	return events, load, looks
}

// independent says whether ranks can run ahead of each other.
func (f *fleet) independent() bool {
	if f.cfg.Concurrency > 0 || f.cfg.EventLoss > 0 {
		return false
	}
	for s := range f.trace.Sessions() {
		if len(f.trace.Turns(s)) > 1 {
			return false
		}
	}
	return true
}

func (f *fleet) runAhead(ctx context.Context) error {
	watched := f.events || f.load || f.looks
	for n := 0; f.opened < len(f.first); n++ {
		if n&0xff == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at := f.first[f.opened].at
		for f.sample <= at {
			if err := f.sampleAhead(); err != nil {
				return err
			}
		}
		f.now, f.last = at, max(f.last, at)
		if watched || n%catchUpEvery == 0 {
			if err := f.catchUp(); err != nil {
				return err
			}
		}
		if err := f.arrivals(); err != nil {
			return err
		}
		if watched {
			if err := f.begin(); err != nil {
				return err
			}
		}
		if f.failure != nil {
			return f.failure
		}
	}
	for f.cfg.Sample > 0 && f.sample < math.MaxInt64 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := f.before(f.sample); err != nil {
			return err
		}
		if f.idle() && f.last < f.sample {
			break
		}
		if err := f.sampleAhead(); err != nil {
			return err
		}
	}
	for !f.idle() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if f.now > math.MaxInt64/2 {
			return fmt.Errorf("fleet: the clock is at %d ns; that is too far", f.now)
		}
		if err := f.before(f.now + 60e9); err != nil {
			return err
		}
	}
	// The last news arrives. The clock may stand beyond it.
	for f.now = max(f.now, f.last); ; f.now = f.last {
		if err := f.catchUp(); err != nil {
			return err
		}
		if f.last <= f.now {
			break
		}
	}
	f.now = f.last
	f.totals.EndNanos = f.now
	f.tell(f.now)
	return f.failure
}

// before lets all happen that happens before a time.
func (f *fleet) before(at int64) error {
	f.now = max(0, at-1)
	if err := f.catchUp(); err != nil {
		return err
	}
	return f.begin()
}

func (f *fleet) idle() bool {
	for i := range f.ranks {
		if _, ok := f.ranks[i].engine.Next(); ok {
			return false
		}
	}
	return true
}

func (f *fleet) sampleAhead() error {
	if err := f.before(f.sample); err != nil {
		return err
	}
	f.tell(f.sample)
	if f.sample > math.MaxInt64-f.cfg.Sample {
		f.sample = math.MaxInt64
	} else {
		f.sample += f.cfg.Sample
	}
	return nil
}

// catchUp lets all ranks do what they do until now, but for the passes that begin
// now, and tells it.
func (f *fleet) catchUp() error {
	if !(f.events || f.load || f.looks) {
		for i := range f.ranks {
			if err := f.ranks[i].engine.Advance(f.now); err != nil {
				return fmt.Errorf("rank %d: %w", i, err)
			}
		}
		return f.tellAll()
	}
	// Before events of the same ranks that come later.
	for len(f.pending) > 0 && f.pending[0].at <= f.now {
		m := heap.Pop(&f.pending).(*eventMessage)
		if err := f.give(m.router, m.at, &m.event); err != nil {
			return err
		}
		f.news.giveBack(m)
	}
	for {
		at, rank, ok := f.ends.top()
		if !ok || at > f.now {
			break
		}
		f.ends.remove(rank)
		if err := f.ranks[rank].engine.Advance(f.now); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		f.wait(rank)
	}
	return f.tellAll()
}

// begin lets the passes begin that begin now.
func (f *fleet) begin() error {
	if !(f.events || f.load || f.looks) {
		for i := range f.ranks {
			if err := f.ranks[i].engine.Begin(); err != nil {
				return fmt.Errorf("rank %d: %w", i, err)
			}
		}
		return f.failure
	}
	return f.beginDue()
}

// eventAhead gives the event to the routers, now if it reaches them before anybody
// looks, else later.
func (f *fleet) eventAhead(at int64) {
	due := at + f.cfg.EventDelay
	f.last = max(f.last, due)
	if !f.events {
		return
	}
	for i := range f.cfg.Routers {
		if due <= f.now {
			f.fail(f.give(i, due, &f.event))
			continue
		}
		m := f.news.message(due, i, &f.event)
		m.number = f.totals.Events
		heap.Push(&f.pending, m)
	}
}

func (f *fleet) tellLater(h happened) { f.told = append(f.told, h) }

// tellAll tells what happened until now.
func (f *fleet) tellAll() error {
	slices.SortStableFunc(f.told, func(a, b happened) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank)) })
	for _, h := range f.told {
		fl := f.flights[h.slot]
		f.last = max(f.last, h.at)
		if fl.Rank != NoRank {
			due := h.at + f.cfg.LoadDelay
			f.last = max(f.last, due)
			if f.load && !h.heard {
				f.news.addLoad(due, message{finished: h.ended, id: uint64(fl.Row), router: fl.Router})
			}
		}
		if h.ended {
			f.obs.Outcome(&fl.Outcome)
			f.unused = append(f.unused, h.slot)
		}
	}
	f.told = f.told[:0]
	for {
		m, ok := f.news.takeLoad(f.now)
		if !ok {
			return f.failure
		}
		f.hear(m.at, m)
	}
}
