// Package enginetest checks mock engines: it drives one through random arrivals,
// keeps what it tells in words or in an index of its own, and compares.
package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/trace"
)

// Engine is what is tested.
type Engine interface {
	Submit(now int64, r engine.Request) engine.Refusal
	Next() (at int64, ok bool)
	Begin() error
	Advance(to int64) error
	Counts() engine.Counts
	Cached(c *mocker.Chain, known int) int
	Check() error
}

// Log keeps what an engine tells in words. Blocks have numbers in the order in
// which they appear.
type Log struct {
	Lines []string
	names map[indexer.SequenceHash]int
}

func (l *Log) add(format string, args ...any) {
	l.Lines = append(l.Lines, fmt.Sprintf(format, args...))
}

func (l *Log) name(h indexer.SequenceHash) int {
	if l.names == nil {
		l.names = map[indexer.SequenceHash]int{}
	}
	if _, ok := l.names[h]; !ok {
		l.names[h] = len(l.names)
	}
	return l.names[h]
}

// Event implements engine.Listener.
func (l *Log) Event(at int64, ev *indexer.Event) {
	var s strings.Builder
	if ev.HasParent {
		fmt.Fprintf(&s, " after %d:", l.name(ev.Parent))
	}
	for _, h := range ev.Sequences {
		fmt.Fprintf(&s, " %d", l.name(h))
	}
	l.add("%d #%d %v%s", at, ev.ID, ev.Kind, s.String())
}

// Admitted implements engine.Listener.
func (l *Log) Admitted(at int64, id uint64, cached int, again bool) {
	if again {
		l.add("%d request %d again, %d cached", at, id, cached)
	} else {
		l.add("%d request %d, %d cached", at, id, cached)
	}
}

// Token implements engine.Listener.
func (l *Log) Token(at int64, id uint64, n int) { l.add("%d token %d.%d", at, id, n) }

// Preempted implements engine.Listener.
func (l *Log) Preempted(at int64, id uint64) { l.add("%d preempted %d", at, id) }

// Done implements engine.Listener.
func (l *Log) Done(at int64, id uint64) { l.add("%d done %d", at, id) }

// Requests is a trace for tests: rows of prompts whose ids name blocks of size
// tokens.
func Requests(size int, rows ...trace.Request) *trace.Trace {
	t, err := trace.New(size, rows)
	if err != nil {
		panic(err)
	}
	return t
}

// Chain returns the chain of a row in blocks of size tokens.
func Chain(t *trace.Trace, row, size int) *mocker.Chain {
	c := new(mocker.Chain)
	c.StartIn(mocker.NewPrompts(t, size), row, 1)
	return c
}

// Finish lets an engine run until it is idle.
func Finish(e Engine) error {
	for {
		at, ok := e.Next()
		if !ok {
			return nil
		}
		if err := e.Advance(at); err != nil {
			return err
		}
		if err := e.Begin(); err != nil {
			return err
		}
	}
}

// Totals is what Drive saw, so that a test can say whether it shows anything.
type Totals struct {
	Refused, Preempted, FirstHits, AgainHits, Removed, Output int64
}

// Drive makes an engine with a listener and drives it through requests that
// share prefixes, then checks what an engine owes: invariants and conservation,
// time that never goes back, the life of each request, and events that give an
// index exactly what the engine would find in its cache, at every end and
// beginning of a pass. If late is set, events come at the end of a pass, and what
// happens to the cache within one is not compared.
func Drive(t *rapid.T, blockSize int, late bool, open func(engine.Listener) (Engine, error), totals *Totals) {
	d := &driver{t: t, late: late, requests: map[uint64]*life{}}
	index, err := reference.New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatalf("%v", err)
	}
	d.writer, d.reader = index.Writer(0), index.Reader()
	d.writer.Attach(0)
	if d.engine, err = open(d); err != nil {
		t.Fatalf("%v", err)
	}

	traceBlock := rapid.IntRange(1, 12).Draw(t, "trace block")
	tr := Requests(traceBlock, draw(t, traceBlock)...)
	now := int64(0)
	for row := range tr.Len() {
		// Time goes on by passes, and a little beyond.
		for range rapid.IntRange(0, 6).Draw(t, "passes") {
			at, ok := d.engine.Next()
			if !ok {
				break
			}
			now = at
			d.step(now)
		}
		if rapid.Bool().Draw(t, "wait") {
			now += rapid.Int64Range(0, 5e6).Draw(t, "more")
			d.must(d.engine.Advance(now))
			d.clock = now
			d.compare()
		}
		c := Chain(tr, row, blockSize)
		d.chains = append(d.chains, c)
		id := uint64(row) * 7
		d.requests[id] = &life{output: tr.Request(row).OutputLength, prompt: c.Prompt()}
		if why := d.engine.Submit(now, engine.Request{ID: id, Chain: c, Output: tr.Request(row).OutputLength}); why != engine.Accepted {
			totals.Refused++
			delete(d.requests, id)
		}
		d.compare()
	}
	for {
		at, ok := d.engine.Next()
		if !ok {
			break
		}
		d.step(at)
	}
	for _, id := range slices.Sorted(maps.Keys(d.requests)) {
		if r := d.requests[id]; !r.done {
			t.Fatalf("request %d was never done: %+v", id, *r)
		}
	}
	c := d.engine.Counts()
	if c.Submitted != int64(tr.Len()) || c.Refused != int64(tr.Len()-len(d.requests)) || c.Done != int64(len(d.requests)) ||
		c.Waiting != 0 || c.Running != 0 || c.ActiveBlocks != 0 || c.Preemptions != d.preempted || c.OutputTokens != d.output ||
		c.FirstHitTokens != d.firstHits || c.AgainHitTokens != d.againHits || c.RemovedBlocks != d.removed {
		t.Fatalf("at the end %+v; seen: %d requests, %d accepted, %+v", c, tr.Len(), len(d.requests), d)
	}
	totals.Preempted += d.preempted
	totals.FirstHits += d.firstHits
	totals.AgainHits += d.againHits
	totals.Removed += d.removed
	totals.Output += d.output
}

// draw makes prompts that share and extend prefixes.
func draw(t *rapid.T, size int) []trace.Request {
	var rows []trace.Request
	prompts := [][]uint64{{0}, {1}}
	next := uint64(100)
	for range rapid.IntRange(1, 14).Draw(t, "requests") {
		ids := slices.Clone(prompts[rapid.IntRange(0, len(prompts)-1).Draw(t, "extends")])
		for range rapid.IntRange(0, 3).Draw(t, "more ids") {
			ids = append(ids, next)
			next++
		}
		prompts = append(prompts, ids)
		rows = append(rows, trace.Request{
			InputLength:  max(0, len(ids)*size-rapid.IntRange(0, size).Draw(t, "partial")),
			OutputLength: rapid.IntRange(0, 30).Draw(t, "output"),
			HashIDs:      ids,
		})
	}
	return rows
}

type life struct {
	prompt, output, tokens int
	running, admitted      bool
	done                   bool
}

type driver struct {
	t        *rapid.T
	late     bool
	engine   Engine
	clock    int64 // the engine's
	writer   indexer.Writer
	reader   indexer.Reader
	answer   indexer.Answer
	requests map[uint64]*life
	chains   []*mocker.Chain

	now                                              int64
	nextEvent                                        uint64
	preempted, firstHits, againHits, removed, output int64
}

func (d *driver) must(err error) {
	if err != nil {
		d.t.Fatalf("%v", err)
	}
}

func (d *driver) step(at int64) {
	if at < d.now {
		d.t.Fatalf("the next thing is at %d, before %d", at, d.now)
	}
	d.must(d.engine.Advance(at))
	d.clock = at
	d.compare()
	d.must(d.engine.Begin())
	d.compare()
}

// compare compares the engine with what its events say.
func (d *driver) compare() {
	d.must(d.engine.Check())
	if at, ok := d.engine.Next(); d.late && ok && at > d.clock {
		return // in a pass
	}
	if have, want := d.writer.Blocks(0), d.engine.Counts().Resident; have != want {
		d.t.Fatalf("by the events %d blocks are resident, the engine says %d", have, want)
	}
	for i, c := range d.chains {
		locals, _ := c.Blocks(c.Prompt())
		d.reader.Find(locals, indexer.FindOptions{}, &d.answer)
		if have, want := int(d.answer.Score(0))*c.BlockSize(), d.engine.Cached(c, c.Prompt()); have != want {
			d.t.Fatalf("request %d: by the events %d tokens are cached, the engine says %d", i, have, want)
		}
	}
}

func (d *driver) at(at int64) {
	if at < d.now {
		d.t.Fatalf("time goes back from %d to %d", d.now, at)
	}
	d.now = at
}

func (d *driver) life(id uint64, running bool) *life {
	r := d.requests[id]
	if r == nil || r.done || r.running != running {
		d.t.Fatalf("request %d is %+v; running must be %v", id, r, running)
	}
	return r
}

func (d *driver) Event(at int64, ev *indexer.Event) {
	d.at(at)
	if ev.ID != d.nextEvent {
		d.t.Fatalf("event %d; %d was due", ev.ID, d.nextEvent)
	}
	d.nextEvent++
	if n := len(ev.Sequences); n == 0 {
		d.t.Fatalf("event %d has no blocks", ev.ID)
	} else if ev.Kind == indexer.Removed {
		d.removed += int64(n)
	}
	effect := d.writer.Apply(ev)
	if int(effect.Stored+effect.Removed) != len(ev.Sequences) {
		d.t.Fatalf("%v of %d blocks does not do what it says: %+v", ev.Kind, len(ev.Sequences), effect)
	}
}

func (d *driver) Admitted(at int64, id uint64, cached int, again bool) {
	d.at(at)
	r := d.life(id, false)
	if r.admitted != again || cached >= r.prompt+r.tokens || cached < 0 {
		d.t.Fatalf("request %d is admitted with %d tokens, again %v: %+v", id, cached, again, *r)
	}
	if again {
		d.againHits += int64(cached)
	} else {
		d.firstHits += int64(cached)
	}
	r.running, r.admitted = true, true
}

func (d *driver) Token(at int64, id uint64, n int) {
	d.at(at)
	r := d.life(id, true)
	if r.tokens++; n != r.tokens || n > r.output {
		d.t.Fatalf("request %d has token %d: %+v", id, n, *r)
	}
	d.output++
}

func (d *driver) Preempted(at int64, id uint64) {
	d.at(at)
	d.life(id, true).running = false
	d.preempted++
}

func (d *driver) Done(at int64, id uint64) {
	d.at(at)
	r := d.life(id, true)
	if r.tokens != r.output {
		d.t.Fatalf("request %d is done with %d of %d tokens", id, r.tokens, r.output)
	}
	r.running, r.done = false, true
}
