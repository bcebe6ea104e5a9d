package prepare

import (
	"context"
	"errors"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/trace"
)

func TestPrepare(t *testing.T) {
	tr := smallTrace(t, 300)
	for _, rescale := range []string{corpus.RescaleRank, corpus.RescaleGlobal} {
		opts := options(3, 2)
		opts.Rescale = rescale
		var calls, last atomic.Int64
		c, err := with(t.Context(), fakeRun, tr, opts, func(done, total int64) {
			if total != 300 || done < last.Load() || (done == 0) != (calls.Load() == 0) {
				t.Errorf("progress went from %d to %d of %d", last.Load(), done, total)
			}
			last.Store(done)
			calls.Add(1)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		if last.Load() != 300 || calls.Load() > 7 {
			t.Errorf("progress ended at %d after %d calls", last.Load(), calls.Load())
		}
		wantRanks := []indexer.Rank{{Worker: 0, DP: 0}, {Worker: 0, DP: 1}, {Worker: 1, DP: 0}, {Worker: 1, DP: 1}, {Worker: 2, DP: 0}, {Worker: 2, DP: 1}}
		if !slices.Equal(c.Ranks, wantRanks) {
			t.Errorf("ranks %v", c.Ranks)
		}
		opts.TraceBlockSize = 512
		m := c.Manifest
		if m.Options != opts || m.Seed != 42 || m.WindowNS != 1e9 || m.TraceName != "small" || m.TraceSHA256 != "00" {
			t.Errorf("manifest %+v", m)
		}
		want := corpus.CountOps(c.Ops)
		want.HitBlocks, want.OutputBlocks, want.RefusedRequests, want.Preemptions, want.PeakActive, want.PeakQueue = 600, 900, 100, 1500, 1299, 299
		if m.Totals != want {
			t.Errorf("totals %+v, want %+v", m.Totals, want)
		}

		// Every row is there once, with its facts, on the rank of its session.
		slotOf := tr.Partition(6, 42)
		seen := make([]bool, tr.Len())
		for _, op := range c.Ops {
			if op.Kind != corpus.Query {
				continue
			}
			r := c.Requests[op.Seq]
			row := tr.Request(int(r.Row))
			if seen[r.Row] || int(r.Session) != tr.SessionOf(int(r.Row)) || int(r.InputTokens) != row.InputLength ||
				int(r.OutputTokens) != row.OutputLength || int(op.Slot) != slotOf[r.Session] || int(op.Len) != row.InputLength/128 {
				t.Fatalf("request %+v on slot %d", r, op.Slot)
			}
			if r.Ran() != (r.Row%3 != 0) || r.Ran() && (r.FirstToken < op.Deadline || r.Finish < r.FirstToken) {
				t.Fatalf("request %+v with deadline %d", r, op.Deadline)
			}
			seen[r.Row] = true
		}
		if slices.Contains(seen, false) {
			t.Error("a row is missing")
		}

		// The window is filled by all ranks, or by the longest one.
		ends := make([]int64, 6)
		starts := slices.Repeat([]int64{math.MaxInt64}, 6)
		for _, op := range c.Ops {
			ends[op.Slot] = max(ends[op.Slot], op.Deadline)
			starts[op.Slot] = min(starts[op.Slot], op.Deadline)
		}
		if slices.Max(starts) != 0 || slices.Max(ends) != 1e9 {
			t.Errorf("%s: starts %v, ends %v", rescale, starts, ends)
		}
		if all := slices.Min(ends) == 1e9; all != (rescale == corpus.RescaleRank) {
			t.Errorf("%s: ends %v", rescale, ends)
		}
	}
}

func TestPrepareIsDeterministic(t *testing.T) {
	tr := smallTrace(t, 500)
	ids := map[string]bool{}
	for _, procs := range []int{1, 2, 4} {
		previous := runtime.GOMAXPROCS(procs)
		c, err := with(t.Context(), fakeRun, tr, options(7, 1), nil)
		runtime.GOMAXPROCS(previous)
		if err != nil {
			t.Fatal(err)
		}
		ids[c.SHA256()] = true
	}
	if len(ids) != 1 {
		t.Fatalf("the number of cores changes the corpus: %v", ids)
	}
}

func TestRanksWithoutRequests(t *testing.T) {
	c, err := with(t.Context(), fakeRun, smallTrace(t, 5), options(100, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil || len(c.Ranks) != 100 || len(c.Requests) != 5 {
		t.Fatalf("%v, %d ranks, %d requests", err, len(c.Ranks), len(c.Requests))
	}
}

// Engines see the trace after the transforms, in the order of the doc comment.
func TestWhatEnginesGet(t *testing.T) {
	tr := smallTrace(t, 40)
	want, err := tr.ExpandPrefix(2)
	if err != nil {
		t.Fatal(err)
	}
	if want, err = want.Duplicate(3); err != nil {
		t.Fatal(err)
	}
	if want, err = want.SpeedUp(4); err != nil {
		t.Fatal(err)
	}
	opts := options(4, 1)
	opts.LengthFactor, opts.DuplicationFactor, opts.SpeedUp = 2, 3, 4
	engines := atomic.Int64{}
	c, err := with(t.Context(), func(ctx context.Context, got *trace.Trace, sessions []int, cfg mocker.Config, rec mocker.Recorder) (mocker.Summary, error) {
		engines.Add(1)
		if cfg.BlockSize != 128 || cfg.GPUBlocks != 64 || cfg.Seed != 42 {
			t.Errorf("config %+v", cfg)
		}
		if got.Len() != want.Len() {
			t.Errorf("%d requests, want %d", got.Len(), want.Len())
		}
		for i := range got.Len() {
			a, b := got.Request(i), want.Request(i)
			if a.Session != b.Session || a.Timestamp != b.Timestamp || a.InputLength != b.InputLength || !slices.Equal(a.HashIDs, b.HashIDs) {
				t.Errorf("row %d: %+v, want %+v", i, a, b)
				break
			}
		}
		return fakeRun(ctx, got, sessions, cfg, rec)
	}, tr, opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Requests) != 120 || engines.Load() != 4 {
		t.Errorf("%d requests on %d engines", len(c.Requests), engines.Load())
	}
}

func TestPrepareRefusesOptions(t *testing.T) {
	tr := smallTrace(t, 5)
	for _, tc := range []struct {
		change func(*corpus.Options)
		want   string
	}{
		{func(o *corpus.Options) { o.Workers = 0 }, "--workers is 0"},
		{func(o *corpus.Options) { o.DPRanks = -1 }, "--dp-ranks is -1"},
		{func(o *corpus.Options) { o.Workers, o.DPRanks = 32769, 2 }, "more than 65536 ranks"},
		{func(o *corpus.Options) { o.Workers = math.MaxInt }, "more than 65536 ranks"},
		{func(o *corpus.Options) { o.Workers, o.DPRanks = 1<<32, 1<<32 }, "more than 65536 ranks"},
		{func(o *corpus.Options) { o.BlockSize = 0 }, "--block-size is 0"},
		{func(o *corpus.Options) { o.GPUBlocks = 0 }, "--gpu-blocks is 0"},
		{func(o *corpus.Options) { o.LengthFactor = 0 }, "--length-factor is 0"},
		{func(o *corpus.Options) { o.DuplicationFactor = 0 }, "--duplication-factor is 0"},
		{func(o *corpus.Options) { o.SpeedUp = 0 }, "--speed-up is 0"},
		{func(o *corpus.Options) { o.SpeedUp = math.NaN() }, "--speed-up is NaN"},
		{func(o *corpus.Options) { o.SpeedUp = math.Inf(1) }, "--speed-up is +Inf"},
		{func(o *corpus.Options) { o.Rescale = "worker" }, `--rescale is "worker"`},
		{func(o *corpus.Options) { o.TraceBlockSize = 16 }, "--trace-block-size is 16"},
	} {
		opts := options(2, 1)
		tc.change(&opts)
		if _, err := with(t.Context(), fakeRun, tr, opts, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want an error with %q", err, tc.want)
		}
	}
	opts := options(0, 0)
	_, err := Prepare(t.Context(), tr, Origin{}, opts, 1, 0, nil, nil)
	for _, want := range []string{"--workers", "--dp-ranks", "--duration is 0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	empty, err := trace.New(512, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := with(t.Context(), fakeRun, empty, options(1, 1), nil); err == nil || !strings.Contains(err.Error(), "no requests") {
		t.Errorf("empty trace: %v", err)
	}
}

// An engine that breaks its contract ends the preparation and is named.
func TestPrepareDistrustsEngines(t *testing.T) {
	tr := smallTrace(t, 20)
	hashes := []indexer.SequenceHash{1, 2}
	boom := errors.New("boom")
	for _, tc := range []struct {
		name string
		do   func(rec mocker.Recorder) error
		want string
	}{
		{"own error", func(mocker.Recorder) error { return boom }, "boom"},
		{"requests missing", func(mocker.Recorder) error { return nil }, "0 of 20 requests"},
		{"row", func(rec mocker.Recorder) error { rec.Query(0, 20, nil); return nil }, "row 20 of 20"},
		{"negative row", func(rec mocker.Recorder) error { rec.Query(0, -1, nil); return nil }, "row -1"},
		{"time", func(rec mocker.Recorder) error { rec.Query(1, 0, nil); rec.Query(0, 1, nil); return nil }, "went back from 1 to 0"},
		{"row twice", func(rec mocker.Recorder) error { rec.Query(0, 3, nil); rec.Query(1, 3, nil); return nil }, "row 3 twice"},
		{"first token of nobody", func(rec mocker.Recorder) error { rec.(mocker.Follower).FirstToken(0, 7); return nil }, "row 7, which is not on its way"},
		{"two first tokens", func(rec mocker.Recorder) error {
			rec.Query(0, 3, nil)
			rec.(mocker.Follower).FirstToken(0, 3)
			rec.(mocker.Follower).FirstToken(0, 3)
			return nil
		}, "two first tokens of row 3"},
		{"two ends", func(rec mocker.Recorder) error {
			rec.Query(0, 3, nil)
			rec.(mocker.Follower).Ended(0, 3)
			rec.(mocker.Follower).Ended(0, 3)
			return nil
		}, "row 3, which is not on its way"},
		{"end in the past", func(rec mocker.Recorder) error {
			rec.Query(0, 3, nil)
			rec.(mocker.Follower).FirstToken(5, 3)
			rec.(mocker.Follower).Ended(4, 3)
			return nil
		}, "went back from 5 to 4"},
		{"no end", func(rec mocker.Recorder) error {
			for row := range 20 {
				rec.Query(0, row, nil)
			}
			rec.(mocker.Follower).Ended(0, 3)
			return nil
		}, "leaves 19 requests without an end"},
		{"id", func(rec mocker.Recorder) error {
			rec.Event(0, &indexer.Event{ID: 1, Kind: indexer.Cleared})
			return nil
		}, "should have id 0"},
		{"kind", func(rec mocker.Recorder) error { rec.Event(0, &indexer.Event{}); return nil }, "no known kind"},
		{"parent", func(rec mocker.Recorder) error {
			rec.Event(0, &indexer.Event{Kind: indexer.Removed, HasParent: true})
			return nil
		}, "has a parent"},
		{"locals missing", func(rec mocker.Recorder) error {
			rec.Event(0, &indexer.Event{Kind: indexer.Stored, Sequences: hashes})
			return nil
		}, "2 sequence hashes and 0 local hashes"},
		{"locals", func(rec mocker.Recorder) error {
			rec.Event(0, &indexer.Event{Kind: indexer.Removed, Locals: []indexer.LocalHash{1}})
			return nil
		}, "has local hashes"},
		{"cleared", func(rec mocker.Recorder) error {
			rec.Event(0, &indexer.Event{Kind: indexer.Cleared, Sequences: hashes})
			return nil
		}, "has blocks"},
		{"stopped", func(rec mocker.Recorder) error { rec.Event(0, &indexer.Event{}); return context.Canceled }, "no known kind"},
	} {
		run := func(ctx context.Context, _ *trace.Trace, _ []int, _ mocker.Config, rec mocker.Recorder) (mocker.Summary, error) {
			return mocker.Summary{}, tc.do(rec)
		}
		_, err := with(t.Context(), run, tr, options(1, 1), nil)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "rank 0/0") {
			t.Errorf("%s: got %v, want an error with %q", tc.name, err, tc.want)
		}
	}
}

// An engine that is wrong does not run on to its end.
func TestPrepareStopsWrongEngine(t *testing.T) {
	run := func(ctx context.Context, _ *trace.Trace, _ []int, _ mocker.Config, rec mocker.Recorder) (mocker.Summary, error) {
		rec.Query(0, -1, nil)
		<-ctx.Done()
		return mocker.Summary{}, ctx.Err()
	}
	if _, err := with(t.Context(), run, smallTrace(t, 20), options(4, 1), nil); err == nil || !strings.Contains(err.Error(), "row -1") {
		t.Fatalf("got %v", err)
	}
}

func TestTooManyOps(t *testing.T) {
	tr := smallTrace(t, 300)
	c, err := with(t.Context(), fakeRun, tr, options(2, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := preparer{run: fakeRun, maxOps: int64(len(c.Ops))}
	if _, err := p.prepare(t.Context(), tr, Origin{}, options(2, 1), 42, time.Second, nil, nil); err != nil {
		t.Fatal(err)
	}
	p.maxOps--
	if _, err := p.prepare(t.Context(), tr, Origin{}, options(2, 1), 42, time.Second, nil, nil); !errors.Is(err, errTooManyOps) {
		t.Fatalf("got %v", err)
	}
}

func TestCancel(t *testing.T) {
	tr := smallTrace(t, 300)
	ctx, cancel := context.WithCancel(t.Context())
	run := func(ctx context.Context, tr *trace.Trace, sessions []int, cfg mocker.Config, rec mocker.Recorder) (mocker.Summary, error) {
		cancel()
		<-ctx.Done()
		return mocker.Summary{}, ctx.Err()
	}
	if _, err := with(ctx, run, tr, options(8, 1), nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("while engines run: %v", err)
	}
	if _, err := with(ctx, fakeRun, tr, options(8, 1), nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("before the start: %v", err)
	}

	// The later phases look at the context too.
	lines, _, err := (&preparer{run: fakeRun, maxOps: corpus.MaxOps}).play(t.Context(), tr, make([]indexer.Rank, 2), mocker.Config{BlockSize: 128}, &corpus.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := mergeOps(ctx, lines, scalesOf(lines, 100, corpus.RescaleRank), requestOf); !errors.Is(err, context.Canceled) {
		t.Fatalf("while merging: %v", err)
	}
	if _, err := gatherHashes(ctx, lines); !errors.Is(err, context.Canceled) {
		t.Fatalf("while copying: %v", err)
	}
}

// TestTimesOfRequests plays real engines and compares the times of the corpus
// with what a follower of the same engine hears.
func TestTimesOfRequests(t *testing.T) {
	tr := smallTrace(t, 60)
	for _, approximate := range []string{"", corpus.ApproximateLRU} {
		opts := options(1, 1)
		opts.GPUBlocks = 20 // some requests do not fit, others wait
		opts.Approximate = approximate
		heard := &hearing{first: map[int]int64{}, end: map[int]int64{}}
		c, err := with(t.Context(), func(ctx context.Context, tr *trace.Trace, sessions []int, cfg mocker.Config, rec mocker.Recorder) (mocker.Summary, error) {
			if _, err := mocker.RunRank(ctx, tr, sessions, cfg, heard); err != nil {
				return mocker.Summary{}, err
			}
			return mocker.RunRank(ctx, tr, sessions, cfg, rec)
		}, tr, opts, nil)
		if err != nil {
			t.Fatal(err)
		}
		last := heard.ops[len(heard.ops)-1]
		s := scale{first: heard.ops[0], span: uint64(last - heard.ops[0]), window: uint64(time.Second)}
		want := func(at int64) int64 { return s.deadline(at) }
		if approximate != "" {
			// The span is another, which cancels out in the order of all times.
			want = heard.sameOrder(t, c)
		}
		refused, later := 0, 0
		for _, r := range c.Requests {
			if !r.Ran() {
				if _, ran := heard.first[int(r.Row)]; ran {
					t.Errorf("request %+v ran", r)
				}
				refused++
				continue
			}
			if w := heard.first[int(r.Row)]; r.FirstToken != want(w) {
				t.Errorf("%q: row %d has its first token at %d, want %d", approximate, r.Row, r.FirstToken, want(w))
			}
			if w := heard.end[int(r.Row)]; r.Finish != want(w) {
				t.Errorf("%q: row %d ends at %d, want %d", approximate, r.Row, r.Finish, want(w))
			}
			if r.Finish > int64(time.Second) {
				later++
			}
		}
		if refused == 0 || refused == len(c.Requests) || approximate == "" && later == 0 {
			t.Errorf("%q: %d of %d requests refused, %d end behind the window; this shows too little", approximate, refused, len(c.Requests), later)
		}
	}
}

// sameOrder returns the times of the corpus by those that were heard, after a
// look that both have one order.
func (h *hearing) sameOrder(t *testing.T, c *corpus.Corpus) func(int64) int64 {
	of := map[int64]int64{}
	for _, r := range c.Requests {
		if r.Ran() {
			of[h.first[int(r.Row)]], of[h.end[int(r.Row)]] = r.FirstToken, r.Finish
		}
	}
	previous := int64(0)
	for _, at := range slices.Sorted(maps.Keys(of)) {
		if of[at] < previous {
			t.Errorf("%d ns are scaled to %d, an earlier time to %d", at, of[at], previous)
		}
		previous = of[at]
	}
	return func(at int64) int64 { return of[at] }
}

// hearing keeps the times of an engine.
type hearing struct {
	ops        []int64 // of queries and events
	first, end map[int]int64
}

func (h *hearing) Query(at int64, _ int, _ []indexer.LocalHash) { h.ops = append(h.ops, at) }
func (h *hearing) Event(at int64, _ *indexer.Event)             { h.ops = append(h.ops, at) }
func (h *hearing) Admitted(int64, int, int, int)                {}
func (h *hearing) FirstToken(at int64, row int)                 { h.first[row] = at }
func (h *hearing) Grown(int64, int, []indexer.LocalHash, int)   {}
func (h *hearing) Ended(at int64, row int)                      { h.end[row] = at }
