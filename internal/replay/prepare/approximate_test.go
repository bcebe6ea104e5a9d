package prepare

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/trace"
)

// approximately prepares a small trace with real engines.
func approximately(t *testing.T, kind string, ttl time.Duration, blocks int) *corpus.Corpus {
	t.Helper()
	opts := options(3, 2)
	opts.Approximate, opts.TTLNS, opts.GPUBlocks, opts.BlockSize = kind, int64(ttl), blocks, 32
	c, err := with(t.Context(), mocker.RunRank, smallTrace(t, 400), opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// play applies the events to the reference index and returns, over all queries,
// what it answered for the query's rank. An index must find nothing odd in them.
func play(t *testing.T, c *corpus.Corpus) (score int64) {
	t.Helper()
	x, err := reference.New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w, r := x.Writer(0), x.Reader()
	for slot := range c.Ranks {
		w.Attach(indexer.Slot(slot))
	}
	var ev indexer.Event
	var ans indexer.Answer
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Kind == corpus.Query {
			r.Find(c.Locals(uint32(i)), indexer.FindOptions{}, &ans)
			score += int64(ans.Score(indexer.Slot(op.Slot)))
			continue
		}
		c.Event(uint32(i), &ev)
		want := indexer.Effect{}
		if ev.Kind == indexer.Stored {
			want.Stored = op.Len
		} else {
			want.Removed = op.Len
		}
		if got := w.Apply(&ev); got != want || op.Len == 0 {
			t.Fatalf("op %d: the effect is %+v, want %+v", i, got, want)
		}
	}
	return score
}

func TestApproximate(t *testing.T) {
	own := approximately(t, "", 0, 64)
	if own.Manifest.Schema != corpus.SchemaV1 {
		t.Errorf("schema %s", own.Manifest.Schema)
	}
	for _, tc := range []struct {
		kind   string
		ttl    time.Duration
		blocks int
	}{
		{corpus.ApproximateTTL, 1, 64}, {corpus.ApproximateTTL, 2 * time.Second, 64}, {corpus.ApproximateTTL, time.Hour, 64},
		{corpus.ApproximateLRU, 0, 1000}, {corpus.ApproximateLRU, 0, 120}, {corpus.ApproximateLRU, 0, 1 << 20},
	} {
		c := approximately(t, tc.kind, tc.ttl, tc.blocks)
		engines := approximately(t, "", 0, tc.blocks)
		tot, a := c.Manifest.Totals, c.Manifest.Totals.Approximate
		score := play(t, c)
		t.Logf("%s %v, %d blocks: %d hit, %d in the corpus, %+v", tc.kind, tc.ttl, tc.blocks, tot.HitBlocks, score, a)
		switch {
		case c.Manifest.Schema != corpus.SchemaV2:
			t.Errorf("schema %s", c.Manifest.Schema)
		case tot.Requests != engines.Manifest.Totals.Requests || tot.HitBlocks != engines.Manifest.Totals.HitBlocks:
			t.Errorf("%+v; the engines say %+v", tot, engines.Manifest.Totals)
		case a.Decisions != tot.Requests:
			t.Errorf("%d decisions for %d requests", a.Decisions, tot.Requests)
		case a.ExpiredBlocks+a.EvictedBlocks != tot.RemovedBlocks:
			t.Errorf("%d expired, %d evicted of %d removed", a.ExpiredBlocks, a.EvictedBlocks, tot.RemovedBlocks)
		case tc.kind == corpus.ApproximateTTL && (tot.OutputBlocks != 0 || a.EvictedBlocks != 0 || a.OverCapacity != 0):
			t.Errorf("%+v: more than a TTL does", tot)
		case tc.kind == corpus.ApproximateLRU && (tot.OutputBlocks == 0 || a.ExpiredBlocks != 0):
			t.Errorf("%+v: answers are not stored", tot)
		}
		switch {
		case tc.ttl == time.Hour && (a.UnderPredicted != 0 || a.ExpiredBlocks != 0):
			// What is never forgotten is never predicted too low.
			t.Errorf("%+v", a)
		case tc.ttl == 1 && a.ExpiredBlocks == 0, tc.kind == corpus.ApproximateLRU && tc.blocks == 120 && (a.EvictedBlocks == 0 || a.OverCapacity == 0):
			t.Errorf("%+v: this shows too little", a)
		case tc.blocks == 1<<20 && (a.EvictedBlocks != 0 || a.OverPredicted != 0 || a.UnderPredicted != 0):
			// Where nothing is ever evicted, the guess is the truth.
			t.Errorf("%+v", a)
		}
	}
}

// The queries are those of the exact corpus, in their order; only deadlines move
// with the length of the timelines.
func TestApproximateKeepsTheQueries(t *testing.T) {
	rows := func(c *corpus.Corpus) []corpus.Request {
		r := slices.Clone(c.Requests)
		for i := range r {
			if r[i].Ran() {
				r[i].FirstToken, r[i].Finish = 0, 0
			}
		}
		slices.SortFunc(r, func(a, b corpus.Request) int { return int(a.Row) - int(b.Row) })
		return r
	}
	own := rows(approximately(t, "", 0, 64))
	for _, kind := range []string{corpus.ApproximateTTL, corpus.ApproximateLRU} {
		ttl := time.Duration(0)
		if kind == corpus.ApproximateTTL {
			ttl = time.Second
		}
		if !slices.Equal(rows(approximately(t, kind, ttl, 64)), own) {
			t.Errorf("%s: other requests", kind)
		}
	}
}

func TestApproximateRefuses(t *testing.T) {
	for _, tc := range []struct {
		kind string
		ttl  int64
		want string
	}{
		{"lfu", 0, `--approximate is "lfu"`}, {corpus.ApproximateTTL, 0, "--ttl is 0s"}, {corpus.ApproximateTTL, -1, "--ttl is -1ns"},
		{corpus.ApproximateLRU, 1, "no effect"}, {"", 1, "no effect"},
	} {
		opts := options(1, 1)
		opts.Approximate, opts.TTLNS = tc.kind, tc.ttl
		if err := CheckOptions(opts, time.Second); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want an error with %q", err, tc.want)
		}
	}
	// An engine that does not say when requests end.
	opts := options(1, 1)
	opts.Approximate = corpus.ApproximateLRU
	silent := func(_ context.Context, t *trace.Trace, sessions []int, _ mocker.Config, rec mocker.Recorder) (mocker.Summary, error) {
		for i := range t.Len() {
			rec.Query(int64(i), i, nil)
		}
		return mocker.Summary{}, nil
	}
	if _, err := with(t.Context(), silent, smallTrace(t, 5), opts, nil); err == nil || !strings.Contains(err.Error(), "5 requests without an end") {
		t.Errorf("got %v", err)
	}
}
