package mocker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// watcher follows requests and checks what it is told.
type watcher struct {
	exact
	t     *rapid.T
	size  int
	tr    *trace.Trace
	now   int64
	open  map[int]*watched
	ended int
	hits  int64
	grown int64 // blocks
	runs  int64 // requests that were admitted
}

type watched struct {
	locals   []indexer.LocalHash
	admitted bool
	begun    bool
}

func (w *watcher) at(at int64) {
	if at < w.now {
		w.t.Fatalf("time goes back from %d to %d", w.now, at)
	}
	w.now = at
}

func (w *watcher) Query(at int64, row int, locals []indexer.LocalHash) {
	w.exact.Query(at, row, locals)
	w.at(at)
	if w.open[row] != nil {
		w.t.Fatalf("row %d comes twice", row)
	}
	w.open[row] = &watched{locals: slices.Clone(locals)}
}

func (w *watcher) request(row int) *watched {
	if w.open[row] == nil {
		w.t.Fatalf("row %d is not there", row)
	}
	return w.open[row]
}

func (w *watcher) Admitted(at int64, row, hits, most int) {
	w.at(at)
	r := w.request(row)
	if r.admitted || hits > most || most > len(r.locals) || len(r.locals)-most > 1 {
		w.t.Fatalf("row %d of %d blocks: %d hits of at most %d; admitted before: %v", row, len(r.locals), hits, most, r.admitted)
	}
	r.admitted = true
	w.runs++
	w.hits += int64(hits)
}

func (w *watcher) FirstToken(at int64, row int) {
	w.at(at)
	r := w.request(row)
	if !r.admitted || r.begun {
		w.t.Fatalf("row %d, admitted %v, has a first token; one before: %v", row, r.admitted, r.begun)
	}
	r.begun = true
}

func (w *watcher) Grown(at int64, row int, locals []indexer.LocalHash, partial int) {
	w.at(at)
	r := w.request(row)
	if !r.admitted || partial < 0 || partial > 1 {
		w.t.Fatalf("row %d, admitted %v, holds %d partial blocks", row, r.admitted, partial)
	}
	r.locals = append(r.locals, locals...)
	w.grown += int64(len(locals))
}

// Ended checks that all full blocks of the request have been reported.
func (w *watcher) Ended(at int64, row int) {
	w.at(at)
	r := w.request(row)
	delete(w.open, row)
	w.ended++
	in := w.tr.Request(row)
	tokens := min(in.InputLength, len(in.HashIDs)*w.tr.BlockSize)
	if r.begun != r.admitted {
		w.t.Fatalf("row %d ended; admitted %v, first token %v", row, r.admitted, r.begun)
	}
	if r.admitted {
		tokens += max(0, in.OutputLength-1)
	}
	if len(r.locals) != tokens/w.size {
		w.t.Fatalf("row %d ended with %d blocks of %d tokens; it has %d tokens", row, len(r.locals), w.size, tokens)
	}
}

func TestFollower(t *testing.T) {
	var refused, preempted, grown int64
	rapid.Check(t, func(t *rapid.T) {
		traceBlock := rapid.IntRange(1, 12).Draw(t, "trace block")
		tr, err := trace.New(traceBlock, drawTrace(t, traceBlock))
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{
			GPUBlocks: rapid.IntRange(1, 40).Draw(t, "pool"),
			BlockSize: rapid.IntRange(1, 9).Draw(t, "block"),
			Time:      steady{prefill: 1e6, decode: 1e6},
		}
		w := watcher{t: t, size: cfg.BlockSize, tr: tr, open: map[int]*watched{}}
		sum, err := RunRank(context.Background(), tr, allSessions(tr), cfg, &w)
		if err != nil {
			t.Fatal(err)
		}
		if len(w.open) > 0 || w.ended != tr.Len() || w.hits != sum.HitBlocks || w.runs != sum.Requests-sum.Refused || w.now > sum.EndNanos {
			t.Fatalf("%d of %d requests ended, %d ran with %d hits, last at %d: %+v", w.ended, tr.Len(), w.runs, w.hits, w.now, sum)
		}
		// A follower changes nothing.
		var alone exact
		if _, err := RunRank(context.Background(), tr, allSessions(tr), cfg, &alone); err != nil || !slices.Equal(alone.lines, w.lines) {
			t.Fatalf("%v; timeline %q, want %q", err, w.lines, alone.lines)
		}
		refused, preempted, grown = refused+sum.Refused, preempted+sum.Preempted, grown+w.grown
	})
	if refused == 0 || preempted == 0 || grown == 0 {
		t.Errorf("%d refused, %d preempted, %d blocks grown; this shows too little", refused, preempted, grown)
	}
}

// times keeps in words when requests had their first tokens and ended.
type times struct{ lines []string }

func (l *times) add(what string, row int, at int64) {
	l.lines = append(l.lines, fmt.Sprintf("%s %d at %v", what, row, time.Duration(at)))
}

func (l *times) Query(int64, int, []indexer.LocalHash)      {}
func (l *times) Event(int64, *indexer.Event)                {}
func (l *times) Admitted(at int64, row, _, _ int)           { l.add("admitted", row, at) }
func (l *times) FirstToken(at int64, row int)               { l.add("first", row, at) }
func (l *times) Grown(int64, int, []indexer.LocalHash, int) {}
func (l *times) Ended(at int64, row int)                    { l.add("end", row, at) }

// TestFirstToken plays requests whose times can be told by hand.
func TestFirstToken(t *testing.T) {
	// Blocks of 4 tokens, 1 ms for each token, unless cached.
	tr, err := trace.New(4, []trace.Request{
		// Computes 8 tokens, then one each ms up to its 13th.
		{Session: "a", Timestamp: 0, InputLength: 8, OutputLength: 6, HashIDs: []uint64{1, 2}},
		// Never fits.
		{Session: "b", Timestamp: 0, InputLength: 24, OutputLength: 1, HashIDs: []uint64{6, 7, 8, 9, 10, 11}},
		// Fits beside the first one until that needs a third block, 1 ms before
		// its own first token. What it had computed of it is lost.
		{Session: "c", Timestamp: 1, InputLength: 8, OutputLength: 1, HashIDs: []uint64{3, 4}},
		// No token to compute, and one to answer with though it asks for none.
		{Session: "d", Timestamp: 100, InputLength: 0, OutputLength: 0},
		// Takes a third block at 208 ms and with it those of the next one, which
		// had its first token at 205 ms and computes all 8 so far anew, from 209 ms.
		{Session: "e", Timestamp: 200, InputLength: 4, OutputLength: 6, HashIDs: []uint64{12}},
		{Session: "f", Timestamp: 201, InputLength: 4, OutputLength: 7, HashIDs: []uint64{13}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got times
	if _, err := RunRank(context.Background(), tr, allSessions(tr), Config{GPUBlocks: 4, BlockSize: 4, Time: steady{prefill: 1e6, decode: 1e6}}, &got); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"admitted 0 at 0s", "end 1 at 0s", "admitted 2 at 1ms", "first 0 at 8ms", "end 0 at 13ms", "first 2 at 21ms", "end 2 at 21ms",
		"admitted 3 at 100ms", "first 3 at 100ms", "end 3 at 100ms",
		"admitted 4 at 200ms", "admitted 5 at 201ms", "first 4 at 204ms", "first 5 at 205ms", "end 4 at 209ms", "end 5 at 215ms",
	}
	if !slices.Equal(got.lines, want) {
		t.Errorf("%q, want %q", got.lines, want)
	}
}
