// Package fleet runs mock engines behind routers in virtual time. Requests of a
// trace arrive, a router picks a rank for each, the rank's engine computes it, and
// what the engine tells comes back to the routers after a delay, or never.
//
// # Order
//
// Time is in whole ns. What happens at one time happens in this order:
//
//  1. passes end, by rank;
//  2. what was told reaches the routers: KV events, then first tokens and ends,
//     each in the order in which they were told;
//  3. requests arrive, by row of the trace;
//  4. passes begin, by rank.
//
// With a delay of 0 routers are told at once. There is no other order and no
// randomness but the loss of events, so that the same arguments give the same
// calls, whatever the machine.
//
// What ranks do between two arrivals does not depend on each other. Where it does
// not decide when requests arrive either, each rank does it in a row (ahead.go), and
// KV events of different ranks reach routers in another order than that of time.
//
// The package has no policy: a router is whatever picks a rank. It computes no
// figures either; it tells an Observer what became of each request.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/invariants"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/trace"
)

// Engine is one rank's. Packages vllm and sglang have some.
type Engine interface {
	Submit(now int64, r engine.Request) engine.Refusal
	Next() (at int64, ok bool)
	Begin() error
	Advance(to int64) error
	Counts() engine.Counts
	Check() error
}

// Arrival is a request that asks a router for a rank.
type Arrival struct {
	// ID is the row of the trace.
	ID uint64
	// Session is the session's number in the trace.
	Session int
	// Chain is the request's tokens.
	Chain *mocker.Chain
}

// NoRank is what a router returns that finds no rank for a request.
const NoRank = -1

// Router picks ranks. It is told what the ranks do after a delay, before the first
// request for which it could matter; arguments are borrowed for the call.
type Router interface {
	// Route returns the rank for a request, or NoRank. An error ends the run.
	Route(now int64, a *Arrival) (rank int, err error)
	// Event is a KV event of a rank, with the rank as its slot. Those of a rank
	// come in order of time.
	Event(now int64, ev *indexer.Event) error
	// FirstToken says that a request which this router sent has its first token
	// or, if it has none, that its prompt is computed. It does not come for a
	// request that the rank refused.
	FirstToken(now int64, id uint64)
	// Finished says that such a request is done or was refused by its rank.
	Finished(now int64, id uint64)
}

// Hearer is a Router that can do without some of what ranks do. Engines are then
// spared to tell it.
type Hearer interface {
	Router
	// Hears says whether KV events, and whether first tokens and ends, matter to it;
	// and whether it looks at engines itself when it is asked for a rank.
	Hears() (events, load, looks bool)
}

// PieceHearer is a Hearer that can take KV events in pieces. If one router of a
// fleet wants them so, all must, and all engines must tell them.
type PieceHearer interface {
	Hearer
	// HearsPieces says whether it wants them. Then Pieces is called in the place of
	// Event.
	HearsPieces() bool
	// Pieces is Event for the same event in pieces.
	Pieces(now int64, ev *engine.Pieces) error
}

// Outcome is what became of a request. Times are in ns.
type Outcome struct {
	Row     int
	Number  int // of the arrival, from 0
	Session int
	Rank    int // NoRank if the router found none
	Router  int
	Refused engine.Refusal

	Arrival  int64
	Admitted int64 // at its first admission
	First    int64 // its first token, or the end of its prompt if it has none
	Last     int64 // its last token, or the same

	Prompt      int // tokens
	Output      int // tokens that it got
	Cached      int // prompt tokens from the cache at the first admission
	Preemptions int
}

// Observer is told what happens, in order of time but for gaps.
type Observer interface {
	// Gap is the time between two tokens of the answer of a request, which is on its
	// way; it is borrowed. A request's gaps come before its end.
	Gap(o *Outcome, ns int64)
	// Outcome is a request at its end; it is borrowed.
	Outcome(o *Outcome)
	// Sample has the numbers of all ranks at the end of each Config.Sample, and at
	// the end of the run. It is borrowed.
	Sample(at int64, counts []engine.Counts)
}

// GapsObserver is an Observer that takes gaps together.
type GapsObserver interface {
	Observer
	// Gaps says that each of these requests had all of these gaps. Both lists are
	// borrowed.
	Gaps(of []*Outcome, ns []int64)
}

// Config describes a run.
type Config struct {
	// BlockSize is the tokens of a block of every engine.
	BlockSize int
	// Prompts is the tree of the trace's prompts in such blocks, which runs can
	// share; nil: it is made.
	Prompts *mocker.Prompts
	// Open makes the engine of each rank, Ranks in number.
	Ranks int
	Open  func(rank int, l engine.Listener) (Engine, error)
	// Routers take turns with the arrivals. Each has KV events of all ranks, but
	// knows of its own requests only.
	Routers []Router
	// EventDelay is how long a KV event takes to a router, LoadDelay how long the
	// news of a first token or an end takes.
	EventDelay, LoadDelay int64
	// EventLoss is the probability, 0 to 1, with which a KV event never reaches a
	// router; each router loses its own.
	EventLoss float64
	// Concurrency, if not 0, ignores the times at which sessions start: so many
	// sessions are served at any time, in the order of the trace, and the next one
	// starts when one has had its last turn.
	Concurrency int
	// Sample is how often numbers are sampled, in ns; 0: only at the end.
	Sample int64
	// Seed draws the content of answers and the loss of events.
	Seed uint64

	inOrder bool // ranks do not run ahead of each other, for tests
}

func (c *Config) validate() error {
	switch {
	case c.Ranks < 1 || c.Ranks > indexer.MaxRanks:
		return fmt.Errorf("fleet: %d ranks; there must be 1 to %d", c.Ranks, indexer.MaxRanks)
	case len(c.Routers) < 1:
		return errors.New("fleet: no router")
	case c.BlockSize < 1:
		return fmt.Errorf("fleet: blocks of %d tokens; there must be at least 1", c.BlockSize)
	case c.EventDelay < 0 || c.LoadDelay < 0 || c.EventDelay > math.MaxInt64/4 || c.LoadDelay > math.MaxInt64/4:
		return fmt.Errorf("fleet: delays of %d and %d ns; they must not be negative or longer than 73 years", c.EventDelay, c.LoadDelay)
	case !(c.EventLoss >= 0 && c.EventLoss <= 1):
		return fmt.Errorf("fleet: events are lost with a probability of %g; it must be from 0 to 1", c.EventLoss)
	case c.Concurrency < 0 || c.Sample < 0:
		return fmt.Errorf("fleet: a concurrency of %d and samples each %d ns; neither may be negative", c.Concurrency, c.Sample)
	}
	return nil
}

// Totals are the numbers of a run.
type Totals struct {
	Arrived    int64
	Unrouted   int64 // arrivals for which the router found no rank
	Refused    int64 // arrivals that their rank refused
	Done       int64
	Events     int64 // KV events, each counted once
	EventsLost int64 // deliveries to a router that never came
	EndNanos   int64 // time of the last happening
}

// Run plays a trace. It ends early with an error when ctx is done; Totals then
// has what happened until then.
func Run(ctx context.Context, t *trace.Trace, cfg Config, obs Observer) (Totals, error) {
	if err := cfg.validate(); err != nil {
		return Totals{}, err
	}
	if cfg.Prompts == nil {
		cfg.Prompts = mocker.NewPrompts(t, cfg.BlockSize)
	}
	f := &fleet{trace: t, cfg: cfg, obs: obs, slotOf: make([]int32, t.Len()), ends: newEnds(cfg.Ranks), waits: make([]bool, cfg.Ranks)}
	f.events, f.load, f.looks = f.hearing()
	if err := f.hearPieces(); err != nil {
		return Totals{}, err
	}
	f.gaps, _ = obs.(GapsObserver)
	for i := range cfg.Routers {
		f.loss = append(f.loss, rand.New(rand.NewPCG(cfg.Seed, 0x6c6f7373<<16|uint64(i))))
	}
	f.ranks = make([]rank, cfg.Ranks)
	f.counts = make([]engine.Counts, cfg.Ranks)
	for i := range f.ranks {
		r := &f.ranks[i]
		r.fleet, r.number = f, i
		var err error
		if r.engine, err = cfg.Open(i, r); err != nil {
			return Totals{}, fmt.Errorf("rank %d: %w", i, err)
		}
	}
	if err := f.start(); err != nil {
		return Totals{}, err
	}
	var err error
	if f.ahead = f.independent() && !cfg.inOrder; f.ahead {
		err = f.runAhead(ctx)
	} else {
		err = f.run(ctx)
	}
	if err == nil {
		err = f.balance()
	}
	return f.totals, err
}

type fleet struct {
	trace  *trace.Trace
	cfg    Config
	obs    Observer
	ranks  []rank
	ends   ends   // of the passes that run
	waits  []bool // ranks that may have a pass to begin
	due    []int  // the same, as a list
	loss   []*rand.Rand
	counts []engine.Counts
	sample int64 // time of the next one

	first   []opening // of sessions, in order
	opened  int
	later   agenda // turns that come after others
	news    news
	totals  Totals
	now     int64
	turn    int // of the routers
	failure error

	events, load, looks bool          // what routers hear or look at
	pieces              []PieceHearer // the routers, if they take KV events so
	gaps                GapsObserver

	ahead   bool
	told    []happened
	pending pending
	last    int64 // time of the last happening
	of      []*Outcome
	between []int64

	flights []*flight // engines keep the chains, so that these stay where they are
	unused  []int32
	slotOf  []int32 // flight of a row that is in flight
	event   kvEvent
	arrival Arrival
}

// flight is a request on its way.
type flight struct {
	Outcome
	chain mocker.Chain
	turn  int
}

// opening is the first turn of a session.
type opening struct {
	at      int64
	session int
	row     int
}

func (f *fleet) start() error {
	for s := range f.trace.Sessions() {
		turns := f.trace.Turns(s)
		if len(turns) == 0 {
			continue
		}
		o := opening{session: s, row: int(turns[0])}
		if f.cfg.Concurrency == 0 {
			in := f.trace.Request(o.row)
			at := math.Round(in.Timestamp * 1e6)
			if !(at >= 0 && at < math.MaxInt64/4) {
				return fmt.Errorf("fleet: line %d: a timestamp of %g ms cannot be played; it must be 0 or more and below %d days",
					in.Line, in.Timestamp, int64(math.MaxInt64/4/86_400_000_000_000))
			}
			o.at = int64(at)
		}
		f.first = append(f.first, o)
	}
	if f.cfg.Concurrency == 0 {
		slices.SortFunc(f.first, func(a, b opening) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.row, b.row)) })
	} else {
		for range min(f.cfg.Concurrency, len(f.first)) {
			f.open(0)
		}
	}
	f.sample = math.MaxInt64
	if f.cfg.Sample > 0 {
		f.sample = f.cfg.Sample
	}
	return nil
}

// open lets the next session start at a time of its own.
func (f *fleet) open(at int64) {
	if f.opened < len(f.first) {
		o := f.first[f.opened]
		f.opened++
		f.later.push(happening{at: at, row: o.row, session: o.session})
	}
}

// next returns the time of what happens next.
func (f *fleet) next() (int64, bool) {
	at := int64(math.MaxInt64)
	if f.cfg.Concurrency == 0 && f.opened < len(f.first) {
		at = f.first[f.opened].at
	}
	if len(f.later) > 0 {
		at = min(at, f.later[0].at)
	}
	if t, _, ok := f.ends.top(); ok {
		at = min(at, t)
	}
	if t, ok := f.news.next(); ok {
		at = min(at, t)
	}
	return at, at < math.MaxInt64
}

func (f *fleet) run(ctx context.Context) error {
	for n := 0; ; n++ {
		if n&0xff == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at, ok := f.next()
		if !ok {
			break
		}
		for f.sample <= at {
			f.tell(f.sample)
			if f.sample > math.MaxInt64-f.cfg.Sample {
				f.sample = math.MaxInt64
				break
			}
			f.sample += f.cfg.Sample
		}
		f.now = at
		if err := f.instant(); err != nil {
			return err
		}
	}
	f.totals.EndNanos = f.now
	f.tell(f.now)
	return nil
}

// instant does what happens at one time.
func (f *fleet) instant() error {
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
	if err := f.deliver(); err != nil {
		return err
	}
	if err := f.arrivals(); err != nil {
		return err
	}
	return f.beginDue()
}

// beginDue lets passes begin on the ranks that may have one to begin, by rank.
func (f *fleet) beginDue() error {
	slices.Sort(f.due)
	for _, rank := range f.due {
		f.waits[rank] = false
		e := f.ranks[rank].engine
		// An engine that runs a pass has its end in the heap already.
		if f.ends.has(rank) {
			continue
		}
		if err := e.Advance(f.now); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		if err := e.Begin(); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		if end, ok := e.Next(); ok {
			if end <= f.now {
				return fmt.Errorf("rank %d: a pass that begins at %d ends at %d", rank, f.now, end)
			}
			f.ends.add(rank, end)
		}
	}
	f.due = f.due[:0]
	return f.failure
}

func (f *fleet) wait(rank int) {
	if !f.waits[rank] {
		f.waits[rank] = true
		f.due = append(f.due, rank)
	}
}

// arrivals lets all requests arrive that are due, by row. One of them that is
// refused can let the next turn of its session arrive at the same time, after
// those that are there already.
func (f *fleet) arrivals() error {
	for {
		o, found := happening{row: math.MaxInt}, false
		if f.cfg.Concurrency == 0 && f.opened < len(f.first) && f.first[f.opened].at <= f.now {
			first := f.first[f.opened]
			o, found = happening{at: first.at, row: first.row, session: first.session}, true
		}
		if len(f.later) > 0 && f.later[0].at <= f.now && f.later[0].row < o.row {
			o, found = f.later[0], true
			f.later.pop()
		} else if found {
			f.opened++
		}
		if !found {
			return nil
		}
		if err := f.arrive(o); err != nil {
			return err
		}
	}
}

func (f *fleet) arrive(h happening) error {
	slot := f.place()
	fl := f.flights[slot]
	in := f.trace.Request(h.row)
	f.slotOf[h.row] = slot
	fl.chain.StartIn(f.cfg.Prompts, h.row, f.cfg.Seed)
	fl.turn = h.turn
	fl.Outcome = Outcome{Row: h.row, Number: int(f.totals.Arrived), Session: h.session, Rank: NoRank, Router: f.turn, Arrival: f.now, Prompt: fl.chain.Prompt()}
	f.turn = (f.turn + 1) % len(f.cfg.Routers)
	if f.totals.Arrived++; f.totals.Arrived&0x3fff == 0 {
		f.trace.Unload()
	}
	f.arrival = Arrival{ID: uint64(h.row), Session: h.session, Chain: &fl.chain}
	rank, err := f.cfg.Routers[fl.Router].Route(f.now, &f.arrival)
	switch {
	case err != nil:
		return fmt.Errorf("request of line %d, row %d: %w", in.Line, h.row, err)
	case rank == NoRank:
		f.totals.Unrouted++
		if f.ahead {
			f.tellLater(happened{at: f.now, rank: afterRanks, slot: slot, ended: true})
			return nil
		}
		return f.end(slot)
	case rank < 0 || rank >= len(f.ranks):
		return fmt.Errorf("request of line %d, row %d: the router picked rank %d, which does not exist; there are %d", in.Line, h.row, rank, len(f.ranks))
	}
	fl.Rank = rank
	e := f.ranks[rank].engine
	if !f.ends.has(rank) {
		if err := e.Advance(f.now); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	if fl.Refused = e.Submit(f.now, engine.Request{ID: uint64(h.row), Chain: &fl.chain, Output: in.OutputLength}); fl.Refused != engine.Accepted {
		f.totals.Refused++
		if f.ahead {
			// The next request that arrives now may look.
			heard := f.load && f.cfg.LoadDelay == 0
			if heard {
				f.hear(f.now, message{finished: true, id: uint64(h.row), router: fl.Router})
			}
			f.tellLater(happened{at: f.now, rank: afterRanks, slot: slot, ended: true, heard: heard})
			return nil
		}
		f.tellLoad(message{finished: true, id: uint64(h.row), router: fl.Router})
		return f.end(slot)
	}
	f.wait(rank)
	return nil
}

func (f *fleet) place() int32 {
	if n := len(f.unused); n > 0 {
		slot := f.unused[n-1]
		f.unused = f.unused[:n-1]
		return slot
	}
	f.flights = append(f.flights, new(flight))
	return int32(len(f.flights) - 1)
}

// end reports a request and lets the next turn of its session come.
func (f *fleet) end(slot int32) error {
	fl := f.flights[slot]
	f.obs.Outcome(&fl.Outcome)
	session, turn := fl.Session, fl.turn+1
	f.unused = append(f.unused, slot)
	turns := f.trace.Turns(session)
	if turn == len(turns) {
		if f.cfg.Concurrency > 0 {
			f.open(f.now)
		}
		return nil
	}
	in := f.trace.Request(int(turns[turn]))
	ns := math.Round(in.Delay * 1e6)
	if !(ns >= 0 && ns < math.MaxInt64/4) || f.now > math.MaxInt64/2 {
		return fmt.Errorf("fleet: line %d: a delay of %g ms at %g ms cannot be played", in.Line, in.Delay, float64(f.now)/1e6)
	}
	f.later.push(happening{at: f.now + int64(ns), row: int(turns[turn]), session: session, turn: turn})
	return nil
}

// tell samples the numbers of all ranks.
func (f *fleet) tell(at int64) {
	for i := range f.ranks {
		f.counts[i] = f.ranks[i].engine.Counts()
	}
	f.obs.Sample(at, f.counts)
}

// balance checks that nothing was lost, when all is done.
func (f *fleet) balance() error {
	var done int64
	for i := range f.ranks {
		e := f.ranks[i].engine
		c := e.Counts()
		done += c.Done
		if c.Waiting != 0 || c.Running != 0 || c.ActiveBlocks != 0 || c.Submitted != c.Done+c.Refused {
			return fmt.Errorf("rank %d ended with %+v", i, c)
		}
		if invariants.Enabled {
			if err := e.Check(); err != nil {
				return fmt.Errorf("rank %d: %w", i, err)
			}
		}
	}
	if t := &f.totals; t.Arrived != t.Unrouted+t.Refused+t.Done || done != t.Done || int(t.Arrived) != f.trace.Len() {
		return fmt.Errorf("fleet: requests are missing at the end: %+v of %d, %d done by the engines", *t, f.trace.Len(), done)
	}
	return nil
}

// rank is one engine and what listens to it.
type rank struct {
	fleet  *fleet
	number int
	engine Engine
}

func (r *rank) flight(id uint64) *flight { return r.fleet.flights[r.fleet.slotOf[id]] }

// Event implements engine.Listener.
func (r *rank) Event(at int64, ev *indexer.Event) {
	f := r.fleet
	if f.pieces != nil {
		f.fail(fmt.Errorf("rank %d: its engine does not tell KV events in pieces, which the routers take only", r.number))
		return
	}
	f.event.blocks = *ev
	f.event.blocks.Slot = indexer.Slot(r.number)
	f.spread(at)
}

// ReadsPieces implements engine.PieceReader.
func (r *rank) ReadsPieces() bool { return r.fleet.pieces != nil }

// Pieces implements engine.PieceReader.
func (r *rank) Pieces(at int64, ev *engine.Pieces) {
	f := r.fleet
	f.event.pieces = *ev
	f.event.pieces.Slot = indexer.Slot(r.number)
	f.spread(at)
}

// hearPieces finds out whether the routers take KV events in pieces.
func (f *fleet) hearPieces() error {
	hearers, other := make([]PieceHearer, len(f.cfg.Routers)), false
	wanted := false
	for i, r := range f.cfg.Routers {
		if h, ok := r.(PieceHearer); ok && h.HearsPieces() {
			hearers[i], wanted = h, true
		} else {
			other = true
		}
	}
	switch {
	case wanted && other:
		return errors.New("fleet: some routers take KV events in pieces and some do not; they must agree")
	case wanted && f.events:
		f.pieces = hearers
	}
	return nil
}

// give gives a KV event to a router.
func (f *fleet) give(router int, now int64, ev *kvEvent) error {
	if f.pieces != nil {
		return f.pieces[router].Pieces(now, &ev.pieces)
	}
	return f.cfg.Routers[router].Event(now, &ev.blocks)
}

// spread lets the event go to the routers.
func (f *fleet) spread(at int64) {
	f.totals.Events++
	if f.ahead {
		f.eventAhead(at)
		return
	}
	for i := range f.cfg.Routers {
		if f.cfg.EventLoss > 0 && f.loss[i].Float64() < f.cfg.EventLoss {
			f.totals.EventsLost++
			continue
		}
		if f.cfg.EventDelay > 0 {
			f.news.addEvent(f.now+f.cfg.EventDelay, i, &f.event)
			continue
		}
		f.fail(f.give(i, f.now, &f.event))
	}
}

func (f *fleet) fail(err error) {
	if f.failure == nil {
		f.failure = err
	}
}

// Admitted implements engine.Listener.
func (r *rank) Admitted(at int64, id uint64, cached int, again bool) {
	if !again {
		fl := r.flight(id)
		fl.Admitted, fl.Cached = at, cached
	}
}

// Token implements engine.Listener.
func (r *rank) Token(at int64, id uint64, n int) {
	fl := r.flight(id)
	fl.Output = n
	if n == 1 {
		fl.First = at
		r.firstToken(at, fl)
	} else {
		r.fleet.obs.Gap(&fl.Outcome, at-fl.Last)
	}
	fl.Last = at
}

func (r *rank) firstToken(at int64, fl *flight) {
	if f := r.fleet; f.ahead {
		f.tellLater(happened{at: at, rank: int32(r.number), slot: f.slotOf[fl.Row]})
	} else {
		f.tellLoad(message{id: uint64(fl.Row), router: fl.Router})
	}
}

// Tokens implements engine.TokenReader.
func (r *rank) Tokens(ids []uint64, at []int64) {
	f := r.fleet
	f.of, f.between = f.of[:0], f.between[:0]
	for i := 1; i < len(at); i++ {
		f.between = append(f.between, at[i]-at[i-1])
	}
	for _, id := range ids {
		fl := r.flight(id)
		f.obs.Gap(&fl.Outcome, at[0]-fl.Last)
		fl.Output += len(at)
		fl.Last = at[len(at)-1]
		f.of = append(f.of, &fl.Outcome)
	}
	if len(f.between) == 0 {
		return
	}
	if f.gaps != nil {
		f.gaps.Gaps(f.of, f.between)
		return
	}
	for _, ns := range f.between {
		for _, o := range f.of {
			f.obs.Gap(o, ns)
		}
	}
}

// ReadsBlocks implements engine.BlockReader.
func (r *rank) ReadsBlocks() bool { return r.fleet.events && r.fleet.pieces == nil }

// Preempted implements engine.Listener.
func (r *rank) Preempted(_ int64, id uint64) { r.flight(id).Preemptions++ }

// Done implements engine.Listener.
func (r *rank) Done(at int64, id uint64) {
	f, fl := r.fleet, r.flight(id)
	if fl.Output == 0 {
		fl.First, fl.Last = at, at
		r.firstToken(at, fl)
	}
	f.totals.Done++
	if f.ahead {
		f.tellLater(happened{at: at, rank: int32(r.number), slot: f.slotOf[id], ended: true})
		return
	}
	f.tellLoad(message{finished: true, id: id, router: fl.Router})
	f.fail(f.end(f.slotOf[id]))
}

func (f *fleet) tellLoad(m message) {
	if f.cfg.LoadDelay > 0 {
		f.news.addLoad(f.now+f.cfg.LoadDelay, m)
		return
	}
	f.hear(f.now, m)
}

func (f *fleet) hear(now int64, m message) {
	if m.finished {
		f.cfg.Routers[m.router].Finished(now, m.id)
	} else {
		f.cfg.Routers[m.router].FirstToken(now, m.id)
	}
}

// deliver gives routers the news that is due.
func (f *fleet) deliver() error {
	for {
		m, ok := f.news.takeEvent(f.now)
		if !ok {
			break
		}
		if err := f.give(m.router, f.now, &m.event); err != nil {
			return err
		}
		f.news.giveBack(m)
	}
	for {
		m, ok := f.news.takeLoad(f.now)
		if !ok {
			return nil
		}
		f.hear(f.now, m)
	}
}
