package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/steptime"
	"github.com/kvbench/kvbench/mocker/vllm"
	"github.com/kvbench/kvbench/trace"
)

func vllmConfig(blocks, size int) vllm.Config {
	return vllm.Config{Blocks: blocks, BlockSize: size, MaxBatchedTokens: 100, MaxSeqs: 4, Time: steptime.Linear{Base: 100, PerToken: 1}}
}

func opener(cfg vllm.Config, keep *[]*vllm.Engine) func(int, engine.Listener) (Engine, error) {
	return func(_ int, l engine.Listener) (Engine, error) {
		e, err := vllm.New(cfg, l)
		if keep != nil {
			*keep = append(*keep, e)
		}
		return e, err
	}
}

// log is a router and an observer that keeps all calls in words.
type log struct {
	lines []string
	route func(a *Arrival) (int, error)
}

func (l *log) add(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) Route(now int64, a *Arrival) (int, error) {
	rank, err := l.route(a)
	l.add("%d route %d to %d", now, a.ID, rank)
	return rank, err
}

func (l *log) Event(now int64, ev *indexer.Event) error {
	l.add("%d rank %d #%d %v %d blocks", now, ev.Slot, ev.ID, ev.Kind, len(ev.Sequences))
	return nil
}
func (l *log) FirstToken(now int64, id uint64) { l.add("%d first %d", now, id) }
func (l *log) Finished(now int64, id uint64)   { l.add("%d finished %d", now, id) }
func (l *log) Gap(o *Outcome, ns int64)        { l.add("gap of %d: %d", o.Row, ns) }
func (l *log) Outcome(o *Outcome) {
	l.add("row %d on %d: %v, arrived %d, admitted %d, first %d, last %d, %d of %d cached, %d out",
		o.Row, o.Rank, o.Refused, o.Arrival, o.Admitted, o.First, o.Last, o.Cached, o.Prompt, o.Output)
}
func (l *log) Sample(at int64, counts []engine.Counts) {
	l.add("%d sample: rank 0 has %d running and %d waiting", at, counts[0].Running, counts[0].Waiting)
}

func byID(a *Arrival) (int, error) { return int(a.ID) % 2, nil }

func row(session string, at, delay float64, input, output int, ids ...uint64) trace.Request {
	return trace.Request{Session: session, Timestamp: at, Delay: delay, InputLength: input, OutputLength: output, HashIDs: ids}
}

var nan = math.NaN()

func newTrace(t *testing.T, rows ...trace.Request) *trace.Trace {
	t.Helper()
	tr, err := trace.New(4, rows)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestTimeline: the order of what happens at one time, delays, and what a
// request that is refused leads to.
func TestTimeline(t *testing.T) {
	tr := newTrace(t,
		row("a", 0, nan, 8, 2, 1, 2),                              // rank 0
		row("b", 0, nan, 4, 1, 3),                                 // rank 1
		row("a", nan, 0, 8, 1, 1, 2),                              // comes when row 0 ends
		row("c", 0, nan, 44, 1, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 10), // never fits
		row("c", nan, 0.000001, 4, 0, 1),
	)
	l := &log{route: byID}
	totals, err := Run(context.Background(), tr, Config{
		BlockSize: 4, Ranks: 2, Open: opener(vllmConfig(10, 4), nil), Routers: []Router{l}, EventDelay: 110, LoadDelay: 5, Sample: 100,
	}, l)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0 route 0 to 0", "0 route 1 to 1", "0 route 3 to 1",
		"row 3 on 1: prompt-exceeds-pool, arrived 0, admitted 0, first 0, last 0, 0 of 44 cached, 0 out",
		"1 route 4 to 0", // 1 ns after row 3 was refused
		"5 finished 3",
		"100 sample: rank 0 has 1 running and 1 waiting",
		"row 1 on 1: accepted, arrived 0, admitted 0, first 104, last 104, 0 of 4 cached, 1 out",
		"109 first 1", "109 finished 1",
		"110 rank 0 #0 stored 2 blocks", "110 rank 1 #0 stored 1 blocks",
		"113 first 0",
		"200 sample: rank 0 has 2 running and 0 waiting",
		// Row 4 has no whole block but its last in the cache, which is computed anew.
		"gap of 0: 105",
		"row 0 on 0: accepted, arrived 0, admitted 0, first 108, last 213, 0 of 8 cached, 2 out",
		"row 4 on 0: accepted, arrived 1, admitted 108, first 213, last 213, 0 of 4 cached, 0 out",
		"213 route 2 to 0",
		"218 finished 0", "218 first 4", "218 finished 4",
		"300 sample: rank 0 has 1 running and 0 waiting",
		"row 2 on 0: accepted, arrived 213, admitted 213, first 317, last 317, 4 of 8 cached, 1 out",
		"322 first 2", "322 finished 2",
		"322 sample: rank 0 has 0 running and 0 waiting",
	}
	if !slices.Equal(l.lines, want) {
		t.Errorf("timeline\n%s\nwant\n%s", strings.Join(l.lines, "\n"), strings.Join(want, "\n"))
	}
	if want := (Totals{Arrived: 5, Refused: 1, Done: 4, Events: 2, EndNanos: 322}); totals != want {
		t.Errorf("%+v, want %+v", totals, want)
	}
}

// TestConcurrency: timestamps do not count, and a session keeps its place until
// its last turn.
func TestConcurrency(t *testing.T) {
	tr := newTrace(t,
		row("a", 900, nan, 4, 1, 1), row("b", 5, nan, 4, 1, 2), row("c", 1, nan, 4, 1, 3),
		row("a", nan, 0.001, 4, 1, 4),
	)
	l := &log{route: byID}
	if _, err := Run(context.Background(), tr, Config{
		BlockSize: 4, Ranks: 2, Open: opener(vllmConfig(10, 4), nil), Routers: []Router{l}, Concurrency: 2,
	}, l); err != nil {
		t.Fatal(err)
	}
	var routes []string
	for _, line := range l.lines {
		if strings.Contains(line, "route") {
			routes = append(routes, line)
		}
	}
	if want := []string{"0 route 0 to 0", "0 route 1 to 1", "104 route 2 to 0", "1104 route 3 to 1"}; !slices.Equal(routes, want) {
		t.Errorf("%q, want %q", routes, want)
	}
}

func TestBadRouters(t *testing.T) {
	tr := newTrace(t, row("", 0, nan, 4, 1, 1), row("", 1, nan, 4, 1, 1))
	run := func(ctx context.Context, route func(*Arrival) (int, error)) (Totals, error) {
		l := &log{route: route}
		return Run(ctx, tr, Config{BlockSize: 4, Ranks: 2, Open: opener(vllmConfig(10, 4), nil), Routers: []Router{l}}, l)
	}
	oops := errors.New("oops")
	for want, route := range map[string]func(*Arrival) (int, error){
		"picked rank 2, which does not exist; there are 2": func(*Arrival) (int, error) { return 2, nil },
		"picked rank -2": func(*Arrival) (int, error) { return -2, nil },
		"row 0: oops":    func(*Arrival) (int, error) { return 0, oops },
	} {
		if _, err := run(context.Background(), route); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	totals, err := run(context.Background(), func(*Arrival) (int, error) { return NoRank, nil })
	if err != nil || totals.Unrouted != 2 || totals.Arrived != 2 {
		t.Errorf("%+v, %v", totals, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(oops)
	if _, err := run(ctx, byID); !errors.Is(err, oops) {
		t.Errorf("%v after the end of the context", err)
	}
	for want, change := range map[string]func(*Config){
		"0 ranks":            func(c *Config) { c.Ranks = 0 },
		"no router":          func(c *Config) { c.Routers = nil },
		"blocks of 0":        func(c *Config) { c.BlockSize = 0 },
		"delays of -1":       func(c *Config) { c.EventDelay = -1 },
		"a probability of 2": func(c *Config) { c.EventLoss = 2 },
		"concurrency of -1":  func(c *Config) { c.Concurrency = -1 },
		"a pool of 0":        func(c *Config) { c.Open = opener(vllmConfig(0, 4), nil) },
		"gives NaN ns":       func(c *Config) { v := vllmConfig(10, 4); v.Time = nanTime{}; c.Open = opener(v, nil) },
	} {
		l := &log{route: byID}
		c := Config{BlockSize: 4, Ranks: 2, Open: opener(vllmConfig(10, 4), nil), Routers: []Router{l}}
		change(&c)
		if _, err := Run(context.Background(), tr, c, l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

type nanTime struct{}

func (nanTime) Nanos(*steptime.Pass) float64 { return math.NaN() }
func (nanTime) String() string               { return "nan" }

// checker is a router with an index of its own that checks what it is told.
type checker struct {
	t      *rapid.T
	ranks  int
	index  indexer.Index
	writer indexer.Writer
	now    int64
	routed int64
	told   int64          // the last event
	events []int64        // the last of each rank
	sent   map[uint64]int // 1 sent, 2 had its first token, 3 finished
	nextID []uint64
	lossy  bool
}

func newChecker(t *rapid.T, ranks int, lossy bool) *checker {
	x, err := reference.New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatalf("%v", err)
	}
	c := &checker{t: t, ranks: ranks, index: x, writer: x.Writer(0), sent: map[uint64]int{}, nextID: make([]uint64, ranks), lossy: lossy, events: make([]int64, ranks)}
	for i := range ranks {
		c.writer.Attach(indexer.Slot(i))
	}
	return c
}

func (c *checker) at(now int64) {
	if now < c.now {
		c.t.Fatalf("time goes back from %d to %d", c.now, now)
	}
	c.now = now
}

func (c *checker) Route(now int64, a *Arrival) (int, error) {
	c.at(max(now, c.told))
	if c.routed = now; c.told > now {
		c.t.Fatalf("an event at %d is told before a request at %d", c.told, now)
	}
	if c.sent[a.ID] != 0 {
		c.t.Fatalf("request %d arrives twice", a.ID)
	}
	if a.ID%11 == 10 {
		c.sent[a.ID] = 3
		return NoRank, nil
	}
	c.sent[a.ID] = 1
	return int(a.ID*7) % c.ranks, nil
}

func (c *checker) Event(now int64, ev *indexer.Event) error {
	if now < c.events[ev.Slot] || now < c.routed {
		c.t.Fatalf("an event of rank %d at %d, after one at %d and a request at %d", ev.Slot, now, c.events[ev.Slot], c.routed)
	}
	c.events[ev.Slot], c.told = now, max(c.told, now)
	if ev.ID < c.nextID[ev.Slot] || !c.lossy && ev.ID != c.nextID[ev.Slot] {
		c.t.Fatalf("event %d of rank %d, %d was due", ev.ID, ev.Slot, c.nextID[ev.Slot])
	}
	c.nextID[ev.Slot] = ev.ID + 1
	e := c.writer.Apply(ev)
	if !c.lossy && int(e.Stored+e.Removed) != len(ev.Sequences) {
		c.t.Fatalf("event %d of rank %d: %+v", ev.ID, ev.Slot, e)
	}
	return nil
}

func (c *checker) FirstToken(now int64, id uint64) {
	c.at(now)
	if c.sent[id] != 1 {
		c.t.Fatalf("the first token of request %d, in state %d", id, c.sent[id])
	}
	c.sent[id] = 2
}

func (c *checker) Finished(now int64, id uint64) {
	c.at(now)
	if c.sent[id] != 1 && c.sent[id] != 2 {
		c.t.Fatalf("the end of request %d, in state %d", id, c.sent[id])
	}
	c.sent[id] = 3
}

type collector struct{ outcomes []Outcome }

func (*collector) Gap(*Outcome, int64)           {}
func (c *collector) Outcome(o *Outcome)          { c.outcomes = append(c.outcomes, *o) }
func (*collector) Sample(int64, []engine.Counts) {}

// TestProperties plays random sessions on random fleets. Every request has one
// outcome with times in order; each router is told all of its own requests; the
// routers' indexes hold in the end what the engines do, if no event is lost; a
// second time gives the same.
func TestProperties(t *testing.T) {
	lost, refused, unrouted := int64(0), int64(0), int64(0)
	rapid.Check(t, func(t *rapid.T) {
		var rows []trace.Request
		next := uint64(10)
		for s := range rapid.IntRange(1, 8).Draw(t, "sessions") {
			ids := []uint64{uint64(rapid.IntRange(0, 2).Draw(t, "system"))}
			for turn := range rapid.IntRange(1, 3).Draw(t, "turns") {
				for range rapid.IntRange(0, 4).Draw(t, "more") {
					ids = append(ids, next)
					next++
				}
				r := row(fmt.Sprint("s", s), nan, float64(rapid.IntRange(0, 3).Draw(t, "delay"))*1e-4, 4*len(ids)-rapid.IntRange(0, 3).Draw(t, "partial"), rapid.IntRange(0, 9).Draw(t, "output"), slices.Clone(ids)...)
				if turn == 0 {
					r.Timestamp, r.Delay = float64(rapid.IntRange(0, 9).Draw(t, "start"))*1e-4, nan
				}
				rows = append(rows, r)
			}
		}
		tr, err := trace.New(4, rows)
		if err != nil {
			t.Fatalf("%v", err)
		}
		cfg := Config{
			BlockSize:   rapid.IntRange(1, 6).Draw(t, "block"),
			Ranks:       rapid.IntRange(1, 5).Draw(t, "ranks"),
			EventDelay:  rapid.Int64Range(0, 400).Draw(t, "event delay"),
			LoadDelay:   rapid.Int64Range(0, 400).Draw(t, "load delay"),
			EventLoss:   rapid.SampledFrom([]float64{0, 0, 0.3, 1}).Draw(t, "loss"),
			Concurrency: rapid.IntRange(0, 3).Draw(t, "concurrency"),
			Seed:        rapid.Uint64().Draw(t, "seed"),
		}
		blocks := rapid.IntRange(4, 40).Draw(t, "pool")
		routers := rapid.IntRange(1, 3).Draw(t, "routers")
		var first []Outcome
		for range 2 {
			var engines []*vllm.Engine
			cfg.Open = opener(vllmConfig(blocks, cfg.BlockSize), &engines)
			cfg.Routers = nil
			var checkers []*checker
			for range routers {
				c := newChecker(t, cfg.Ranks, cfg.EventLoss > 0)
				checkers = append(checkers, c)
				cfg.Routers = append(cfg.Routers, c)
			}
			var got collector
			totals, err := Run(context.Background(), tr, cfg, &got)
			if err != nil {
				t.Fatalf("%v", err)
			}
			sent := 0
			for i, c := range checkers {
				for id, state := range c.sent {
					if sent++; state != 3 {
						t.Fatalf("router %d does not know the end of request %d", i, id)
					}
				}
				for slot, e := range engines {
					if have, want := c.writer.Blocks(indexer.Slot(slot)), e.Counts().Resident; cfg.EventLoss == 0 && have != want {
						t.Fatalf("router %d knows %d blocks of rank %d, which has %d", i, have, slot, want)
					}
				}
			}
			if sent != len(rows) || len(got.outcomes) != len(rows) || int(totals.Arrived) != len(rows) {
				t.Fatalf("%d requests, %d sent, %d outcomes, %+v", len(rows), sent, len(got.outcomes), totals)
			}
			for i := range got.outcomes {
				o := &got.outcomes[i]
				if o.Rank == NoRank || o.Refused != engine.Accepted {
					continue
				}
				if o.Admitted < o.Arrival || o.First <= o.Admitted || o.Last < o.First || o.Output != rows[o.Row].OutputLength || o.Cached >= o.Prompt {
					t.Fatalf("outcome %+v of %+v", *o, rows[o.Row])
				}
			}
			if first == nil {
				first = got.outcomes
			} else if !slices.Equal(first, got.outcomes) {
				t.Fatalf("the second time was different")
			}
			lost += totals.EventsLost
			refused += totals.Refused
			unrouted += totals.Unrouted
		}
	})
	if lost == 0 || refused == 0 || unrouted == 0 {
		t.Errorf("%d events lost, %d requests refused, %d unrouted: this shows too little", lost, refused, unrouted)
	}
}

// TestEnds compares the heap of passes with a list.
func TestEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "ranks")
		e, model := newEnds(n), map[int]int64{}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			rank := rapid.IntRange(0, n-1).Draw(t, "rank")
			if e.has(rank) != (func() bool { _, ok := model[rank]; return ok })() {
				t.Fatalf("rank %d: %v", rank, e.has(rank))
			}
			if !e.has(rank) && rapid.Bool().Draw(t, "add") {
				at := rapid.Int64Range(0, 5).Draw(t, "at")
				e.add(rank, at)
				model[rank] = at
			} else if at, top, ok := e.top(); ok {
				for r, a := range model {
					if a < at || a == at && r < top {
						t.Fatalf("rank %d at %d is on top of rank %d at %d", top, at, r, a)
					}
				}
				e.remove(top)
				delete(model, top)
			} else if len(model) > 0 {
				t.Fatalf("empty, with %v in it", model)
			}
		}
	})
}
