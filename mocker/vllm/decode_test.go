package vllm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/engine/enginetest"
	"github.com/kvbench/kvbench/mocker/steptime"
	"github.com/kvbench/kvbench/trace"
)

// told is one thing that an engine told.
type told struct {
	at    int64
	kind  string
	id    uint64
	n     int
	again bool
	event indexer.Event
}

// tale keeps what an engine tells.
type tale struct{ all []told }

func (l *tale) Event(at int64, ev *indexer.Event) {
	e := *ev
	e.Sequences, e.Locals = slices.Clone(ev.Sequences), slices.Clone(ev.Locals)
	l.all = append(l.all, told{at: at, kind: "event", event: e})
}
func (l *tale) Admitted(at int64, id uint64, cached int, again bool) {
	l.all = append(l.all, told{at: at, kind: "admitted", id: id, n: cached, again: again})
}
func (l *tale) Token(at int64, id uint64, n int) {
	l.all = append(l.all, told{at: at, kind: "token", id: id, n: n})
}
func (l *tale) Preempted(at int64, id uint64) {
	l.all = append(l.all, told{at: at, kind: "preempted", id: id})
}
func (l *tale) Done(at int64, id uint64) { l.all = append(l.all, told{at: at, kind: "done", id: id}) }

// tokenTale is told tokens of many passes at a time.
type tokenTale struct {
	tale
	last  map[uint64]int
	bulks int
}

func (l *tokenTale) Token(at int64, id uint64, n int) {
	l.last[id] = n
	l.tale.Token(at, id, n)
}

func (l *tokenTale) Tokens(ids []uint64, at []int64) {
	l.bulks++
	for _, t := range at {
		for _, id := range ids {
			l.Token(t, id, l.last[id]+1)
		}
	}
}

// inOrder sorts by time: what an engine tells at a time after tokens that it told
// for many passes is in the order of one that tells pass by pass if, at one time,
// what ends a pass comes before what begins one.
func inOrder(all []told) []told {
	phase := func(x told) int {
		if x.kind == "token" || x.kind == "done" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b told) int {
		if a.at != b.at {
			return int(min(1, max(-1, a.at-b.at)))
		}
		return phase(a) - phase(b)
	})
	return all
}

// TestDecodeIsPassByPass drives three engines through the same arrivals: one that
// makes every pass by itself, one that lets passes of decodes follow each other,
// and one that tells their tokens together. They tell the same.
func TestDecodeIsPassByPass(t *testing.T) {
	var bulks, preempted int
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 2))
		between := func(low, high int) int { return low + rng.IntN(high-low+1) }
		cfg := Config{
			Blocks: between(4, 40), BlockSize: between(1, 6), MaxBatchedTokens: between(1, 40), MaxSeqs: between(1, 5),
			FirstChunkOnly: rng.IntN(2) == 0, Time: steptime.Linear{Base: 100, PerToken: 10, PerPair: 0.25, PerContext: 0.75},
		}
		var rows []trace.Request
		for range between(1, 8) {
			ids := make([]uint64, between(1, 10))
			for i := range ids {
				ids[i] = uint64(rng.IntN(2))
			}
			rows = append(rows, trace.Request{HashIDs: ids, InputLength: 4*len(ids) - between(0, 3), OutputLength: between(0, 60)})
		}
		tr := enginetest.Requests(4, rows...)
		prompts := mocker.NewPrompts(tr, cfg.BlockSize)
		slow, fast, bulk := &tale{}, &tale{}, &tokenTale{last: map[uint64]int{}}
		var engines []*Engine
		for _, l := range []engine.Listener{slow, fast, bulk} {
			e, err := New(cfg, l)
			if err != nil {
				t.Fatal(err)
			}
			engines = append(engines, e)
		}
		engines[0].slow = true
		all := func(do func(*Engine)) {
			for _, e := range engines {
				do(e)
			}
			if a, b, c := engines[0].Counts(), engines[1].Counts(), engines[2].Counts(); a != b || a != c {
				t.Fatalf("seed %d: pass by pass %+v\nin a row %+v\ntold together %+v", seed, a, b, c)
			}
		}
		now := int64(0)
		advance := func(to int64) {
			now = to
			all(func(e *Engine) {
				if err := e.Advance(to); err != nil {
					t.Fatal(err)
				}
			})
		}
		for row := range rows {
			for range between(0, 3) {
				if at, ok := engines[0].Next(); ok && rng.IntN(2) == 0 {
					advance(at)
				} else {
					advance(now + int64(between(0, 9000)))
				}
			}
			all(func(e *Engine) {
				c := new(mocker.Chain)
				c.StartIn(prompts, row, 1)
				e.Submit(now, engine.Request{ID: uint64(row), Chain: c, Output: rows[row].OutputLength})
			})
			if rng.IntN(2) == 0 {
				all(func(e *Engine) {
					if err := e.Begin(); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
		advance(now + 1e9)
		if c := engines[0].Counts(); c.Running+c.Waiting > 0 {
			t.Fatalf("seed %d: not done: %+v", seed, c)
		}
		equal := func(a, b told) bool {
			return a.at == b.at && a.kind == b.kind && a.id == b.id && a.n == b.n && a.again == b.again && a.event.ID == b.event.ID &&
				a.event.Kind == b.event.Kind && a.event.Parent == b.event.Parent && slices.Equal(a.event.Sequences, b.event.Sequences)
		}
		if !slices.EqualFunc(slow.all, fast.all, equal) {
			t.Fatalf("seed %d: pass by pass\n%+v\nin a row\n%+v", seed, slow.all, fast.all)
		}
		if !slices.EqualFunc(inOrder(slow.all), inOrder(bulk.all), equal) {
			t.Fatalf("seed %d: pass by pass\n%+v\ntold together\n%+v", seed, slow.all, bulk.all)
		}
		for _, e := range engines {
			if err := e.Check(); err != nil {
				t.Fatal(err)
			}
		}
		bulks += bulk.bulks
		preempted += int(engines[0].Counts().Preemptions)
	}
	if bulks == 0 || preempted == 0 {
		t.Errorf("%d times tokens together, %d preemptions: this shows too little", bulks, preempted)
	}
}
