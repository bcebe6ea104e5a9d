package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// Options say what Run does.
type Options struct {
	Index        indexer.Factory
	EventWorkers int // event threads, at least 1; 1 for an index that can have only one
	Readers      int // goroutines that ask meanwhile
	Ranks        int // at most so many at one time
	Seed         uint64
	Duration     time.Duration // at least so long; 0: no limit
	Operations   uint64        // so many; 0: no limit
	CheckEvery   int           // operations of a round
	Questions    int           // answers compared after a round
	// Hang is how long a round may take before the index counts as hung.
	Hang time.Duration
	// Progress, if set, is told after every round how far the work is.
	Progress func(operations uint64, elapsed time.Duration)
}

func (o *Options) check() error {
	switch {
	case o.Index.Null:
		return fmt.Errorf("index %s answers nothing, so there is nothing to compare", o.Index.Name)
	case o.EventWorkers < 1:
		return fmt.Errorf("%d event workers; there must be at least 1", o.EventWorkers)
	case o.Readers < 0:
		return fmt.Errorf("%d readers; there must be at least 0", o.Readers)
	case o.Ranks < 1 || o.Ranks > indexer.MaxRanks:
		return fmt.Errorf("%d ranks; there must be 1 to %d", o.Ranks, indexer.MaxRanks)
	case o.CheckEvery < 1 || o.Questions < 1:
		return errors.New("a round needs at least 1 operation and 1 question")
	case o.Duration <= 0 && o.Operations == 0:
		return errors.New("a duration or a number of operations is needed, else it would never end")
	case o.Hang <= 0:
		return errors.New("the time after which an index counts as hung must be positive")
	}
	return nil
}

// Problem is what went wrong.
type Problem struct {
	// Operation is the number of the operation, from 0; where Exact is false, of
	// the last one before the problem was seen.
	Operation uint64 `json:"operation"`
	Exact     bool   `json:"exact"`
	Text      string `json:"text"`
	// Memory says that it is a bound of memory that is broken.
	Memory bool `json:"memory"`
}

func (p *Problem) Error() string {
	if p.Exact {
		return fmt.Sprintf("operation %d: %s", p.Operation, p.Text)
	}
	return fmt.Sprintf("at or before operation %d: %s", p.Operation, p.Text)
}

// run is one soak under way.
type run struct {
	o     *Options
	index indexer.Index
	pool  *indexer.Pool
	truth *truth
	gen   *generator
	res   *Result

	// The round. Event threads read ops and at by the number of an operation and
	// write got.
	ops  []op
	at   []indexer.Slot
	got  []indexer.Effect
	want []indexer.Effect

	slots  []indexer.Slot // by rank, of those that are present
	lives  []int
	is     []bool // present
	totals []indexer.EffectTotals
	reader indexer.Reader

	asking readers
	hist   history
}

// Event implements indexer.Source.
func (r *run) Event(id uint32, ev *indexer.Event) {
	*ev = r.ops[id].event
	ev.ID, ev.Slot = uint64(id), r.at[id]
}

// Applied implements indexer.Observer.
func (r *run) Applied(_ int, id uint32, _ indexer.Slot, eff *indexer.Effect) { r.got[id] = *eff }

// Run soaks one index. What is wrong with the index is in the result; the error
// says that nothing could be done. When ctx ends, so does the soak after the round
// it is in.
func Run(ctx context.Context, o *Options) (res *Result, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	threads := o.EventWorkers
	if o.Index.SingleThread {
		threads = 1
	}
	r := &run{o: o, gen: newGenerator(o.Seed, o.Ranks), slots: make([]indexer.Slot, o.Ranks), lives: make([]int, o.Ranks),
		is: make([]bool, o.Ranks), totals: make([]indexer.EffectTotals, o.Ranks)}
	r.res = &Result{Index: o.Index.Name, Seed: o.Seed, EventWorkers: threads, Readers: o.Readers, Ranks: o.Ranks, CheckEvery: o.CheckEvery}
	if r.index, err = o.Index.New(indexer.Config{Threads: threads, Slots: o.Ranks}); err != nil {
		return nil, err
	}
	r.pool, err = indexer.NewPool(indexer.PoolConfig{Index: r.index, Source: r, Threads: threads,
		Producers: max(2, threads), QueueCapacity: 256, Observer: r})
	if err != nil {
		return nil, errors.Join(err, r.index.Close())
	}
	if err := r.pool.TrackResidentBlocks(ctx); err != nil {
		return nil, err
	}
	m := &r.res.Memory
	m.StartIndex, m.Counted = own(r.index)
	m.StartHeap = heap()
	if r.truth, err = newTruth(o.Ranks); err != nil {
		return nil, err
	}
	r.reader = r.index.Reader()
	began := time.Now()
	problem := r.soak(ctx, began)
	r.res.Elapsed = time.Since(began)
	if problem == nil {
		problem = r.end()
	}
	r.asking.stop()
	if problem == nil {
		r.reader.Close()
	}
	m.close(&r.hist, threads)
	if err := m.err(); err != nil && problem == nil {
		problem = &Problem{Operation: r.res.Operations, Text: err.Error(), Memory: true}
	}
	r.res.Problem, r.res.Answers = problem, r.asking.answers.Load()
	// An index that went wrong may not be able to end.
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	closed := r.pool.Close(closing)
	if problem == nil {
		if err := errors.Join(closed, r.index.Close()); err != nil {
			r.res.Problem = &Problem{Operation: r.res.Operations, Text: fmt.Sprintf("closing: %v", err)}
		}
	}
	return r.res, nil
}

// soak plays rounds until it is time to end.
func (r *run) soak(ctx context.Context, began time.Time) *Problem {
	o := r.o
	r.asking.start(r)
	for round := uint64(0); ; round++ {
		n := o.CheckEvery
		if o.Operations > 0 {
			n = int(min(uint64(n), o.Operations-r.res.Operations))
		}
		if ctx.Err() != nil {
			r.res.Interrupted = true
			return nil
		}
		if n == 0 || o.Duration > 0 && round > 0 && time.Since(began) >= o.Duration {
			return nil
		}
		r.ops = r.gen.next(r.ops[:0], n)
		quiet := make(map[int]bool)
		touched := make(map[int]bool)
		for i := range r.ops {
			touched[r.ops[i].rank] = true
		}
		for rank := range o.Ranks {
			quiet[rank] = r.is[rank] && !touched[rank]
		}
		if p := r.round(quiet); p != nil {
			return p
		}
		if p := r.compare(round); p != nil {
			return p
		}
		r.res.Rounds++
		if o.Progress != nil {
			o.Progress(r.res.Operations, time.Since(began))
		}
	}
}

// notApplied is an effect that no event has.
var notApplied = indexer.Effect{Stored: 1<<32 - 1, Malformed: 1<<32 - 1}

// round plays r.ops and compares their effects. It returns with the readers
// stopped, as it is called.
func (r *run) round(quiet map[int]bool) *Problem {
	n := len(r.ops)
	r.at = append(r.at[:0], make([]indexer.Slot, n)...)
	r.got, r.want = r.got[:0], r.want[:0]
	for range n {
		r.got = append(r.got, notApplied)
	}
	r.asking.prepare(r, quiet)
	first := r.res.Operations
	last := first + uint64(n) - 1
	hung := fmt.Errorf("it took longer than %v: something hangs", r.o.Hang)
	ctx, cancel := context.WithTimeoutCause(context.Background(), r.o.Hang, hung)
	defer cancel()
	r.asking.resume()
	producers := max(2, r.res.EventWorkers)
	errs := make([]error, producers)
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() { errs[i] = r.produce(ctx, i, producers) })
	}
	for i := range r.ops {
		r.want = append(r.want, r.truth.apply(&r.ops[i]))
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = r.pool.Flush(ctx)
	}
	if !r.asking.pause(r.o.Hang) {
		return &Problem{Operation: last, Text: "a query does not return: " + hung.Error()}
	}
	r.res.Operations += uint64(n)
	if err != nil {
		return &Problem{Operation: last, Text: err.Error()}
	}
	for i := range r.ops {
		o := &r.ops[i]
		switch o.do {
		case apply:
			r.res.Blocks += uint64(len(o.event.Sequences))
			if r.got[i] != r.want[i] {
				return &Problem{Operation: first + uint64(i), Exact: true, Text: fmt.Sprintf("%v: the effect is %+v, want %+v", o, r.got[i], r.want[i])}
			}
			add(&r.totals[o.rank], &r.want[i])
			add(&r.res.Effects, &r.want[i])
		case register:
			r.totals[o.rank] = indexer.EffectTotals{}
			r.res.Registered++
		}
	}
	if err := r.asking.problem(); err != nil {
		return &Problem{Operation: last, Text: fmt.Sprintf("an answer given while events were applied: %v", err)}
	}
	return nil
}

func add(t *indexer.EffectTotals, e *indexer.Effect) {
	t.Events++
	t.Stored += uint64(e.Stored)
	t.Removed += uint64(e.Removed)
	t.ClearedBlocks += uint64(e.ClearedBlocks)
	t.Duplicate += uint64(e.Duplicate)
	t.UnknownRemoved += uint64(e.UnknownRemoved)
	t.Orphaned += uint64(e.Orphaned)
	t.Conflicting += uint64(e.Conflicting)
	t.Malformed += uint64(e.Malformed)
}

// produce plays the operations of the ranks that belong to one producer.
func (r *run) produce(ctx context.Context, number, producers int) error {
	p := r.pool.Producer(number)
	defer p.Publish()
	rng := rand.New(rand.NewPCG(r.o.Seed, r.res.Operations+uint64(number)))
	batch := 1
	for i := range r.ops {
		o := &r.ops[i]
		if o.rank%producers != number {
			continue
		}
		switch o.do {
		case register:
			slots, err := r.pool.Register(ctx, []indexer.Rank{o.identity()})
			if err != nil {
				return err
			}
			r.slots[o.rank], r.lives[o.rank], r.is[o.rank] = slots[0], o.life, true
		case unregister:
			p.Publish()
			if err := r.pool.Unregister(ctx, o.identity()); err != nil {
				return err
			}
			r.is[o.rank] = false
		case apply:
			r.at[i] = r.slots[o.rank]
			if err := p.Push(r.at[i], uint32(i)); err != nil {
				return err
			}
			if batch--; batch == 0 {
				p.Publish()
				batch = 1 + rng.IntN(64)
			}
		}
	}
	return nil
}

// guard turns a panic of f into an error.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

// compare compares everything while nothing moves.
func (r *run) compare(round uint64) *Problem {
	if err := guard(func() error { return r.same(round) }); err != nil {
		return &Problem{Operation: r.res.Operations - 1, Text: err.Error()}
	}
	return nil
}

func (r *run) same(round uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.o.Hang)
	defer cancel()
	totals, err := r.pool.Effects(ctx)
	if err != nil {
		return err
	}
	table, resident := r.pool.Residents(), uint64(0)
	for rank := range r.o.Ranks {
		id := (&op{rank: rank, life: r.lives[rank]}).identity()
		count, present := table.CountRank(id)
		if present != r.is[rank] {
			return fmt.Errorf("rank %v has a count: %v, want %v", id, present, r.is[rank])
		}
		if !present {
			continue
		}
		want := uint64(r.truth.writer.Blocks(indexer.Slot(rank)))
		if count != want {
			return fmt.Errorf("rank %v has %d resident blocks, want %d", id, count, want)
		}
		resident += want
		if got := totals[r.slots[rank]]; got != r.totals[rank] {
			return fmt.Errorf("rank %v: the effects add up to %+v, want %+v", id, got, r.totals[rank])
		}
		counts, _ := table.Counts(r.slots[rank])
		if counts.ReachableKnown && (uint64(rank)+round)%8 == 0 {
			if want := r.truth.index.CountReachable(indexer.Slot(rank)); counts.Reachable != uint64(want) {
				return fmt.Errorf("rank %v can reach %d places, want %d", id, counts.Reachable, want)
			}
		}
	}
	for i, s := range r.pool.Stats() {
		if s.Dropped != 0 || s.Accepted != s.Applied {
			return fmt.Errorf("event thread %d: accepted %d, applied %d, dropped %d", i, s.Accepted, s.Applied, s.Dropped)
		}
	}
	r.asking.questions = r.gen.questions(rand.New(rand.NewPCG(r.o.Seed, round)), r.o.Questions)
	var ans indexer.Answer
	for _, q := range r.asking.questions {
		if err := r.sameAnswer(q, &ans); err != nil {
			return fmt.Errorf("a query of %s: %w", plural(len(q.query), "block"), err)
		}
	}
	var checked error
	var bytes int64
	if err := r.pool.Pause(ctx, func() {
		checked = guard(r.index.Check)
		bytes, _ = own(r.index)
	}); err != nil {
		return err
	}
	r.hist.add(Sample{r.res.Operations, resident, bytes, liveHeap()})
	return checked
}

func (r *run) sameAnswer(q question, ans *indexer.Answer) error {
	want := make(map[indexer.Slot]uint32)
	for rank, n := range r.truth.find(q.query) {
		want[r.slots[rank]] = n
	}
	for i, opts := range []indexer.FindOptions{{}, {MaxRanks: 3}, {EarlyExit: true}, {MaxRanks: 2, EarlyExit: true}} {
		r.reader.Find(q.query, opts, ans)
		got, err := read(ans, r.o.Ranks, q.limit)
		switch {
		case err != nil:
			return err
		case i == 0 && !maps.Equal(got, want):
			return fmt.Errorf("the answer by slot is %v, want %v", got, want)
		case i > 0:
			if err := narrowed(got, want, opts); err != nil {
				return fmt.Errorf("with %+v: %w", opts, err)
			}
		}
	}
	r.res.Compared++
	return nil
}

// end removes all ranks and takes the memory.
func (r *run) end() *Problem {
	r.ops = r.ops[:0]
	for rank, present := range r.is {
		if present {
			r.ops = append(r.ops, op{do: unregister, rank: rank, life: r.lives[rank]})
		}
	}
	before := r.res.Operations
	if len(r.ops) > 0 {
		if p := r.round(nil); p != nil {
			return p
		}
	}
	if p := r.compare(1 << 40); p != nil {
		return p
	}
	r.res.Operations = before // ranks that go at the end are not counted
	r.asking.stop()
	r.truth, r.ops, r.at, r.got, r.want, r.gen, r.asking.questions, r.asking.quiet = nil, nil, nil, nil, nil, nil, nil, nil
	m := &r.res.Memory
	ctx, cancel := context.WithTimeout(context.Background(), r.o.Hang)
	defer cancel()
	if err := r.pool.Pause(ctx, func() {
		m.EndHeap = heap()
		m.EndIndex, _ = own(r.index)
		m.Ended = true
	}); err != nil {
		return &Problem{Operation: before, Text: err.Error()}
	}
	return nil
}
