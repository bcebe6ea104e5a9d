package mocker

import (
	"context"
	"slices"
	"testing"

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
