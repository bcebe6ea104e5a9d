package vllm

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/engine/enginetest"
	"github.com/kvbench/kvbench/mocker/steptime"
	"github.com/kvbench/kvbench/trace"
)

// perToken takes 1 ns for each token of a pass and 100 for the pass.
var perToken = steptime.Linear{Base: 100, PerToken: 1}

type arrival struct {
	at     int64
	prompt int
	output int
	ids    []uint64
}

// TestTimelines plays requests whose times can be told by hand: blocks of 4
// tokens, ids of 4 tokens, 100 ns a pass and 1 ns a token.
func TestTimelines(t *testing.T) {
	for name, c := range map[string]struct {
		cfg      Config
		arrivals []arrival
		want     []string
	}{
		"a prompt, then one token a pass; the last token is not computed": {
			cfg:      Config{Blocks: 10, MaxBatchedTokens: 100, MaxSeqs: 4},
			arrivals: []arrival{{0, 6, 4, []uint64{1, 2}}},
			want: []string{
				"0 request 0, 0 cached", "0 #0 stored 0", "106 token 0.1",
				"207 token 0.2", // computes token 7
				"207 #1 stored after 0: 1",
				"308 token 0.3", // computes token 8 and fills block 1
				"409 token 0.4", "409 done 0",
			},
		},
		"a prompt is cut into chunks, and decodes come first": {
			cfg:      Config{Blocks: 20, MaxBatchedTokens: 5, MaxSeqs: 4},
			arrivals: []arrival{{0, 4, 3, []uint64{1}}, {50, 12, 1, []uint64{2, 3, 4}}},
			want: []string{
				"0 request 0, 0 cached", "0 #0 stored 0", "104 token 0.1",
				"104 request 1, 0 cached", "104 #1 stored 1", "209 token 0.2",
				"209 #2 stored after 1: 2", "314 token 0.3", "314 done 0",
				"314 #3 stored after 2: 3", "418 token 1.1", "418 done 1",
			},
		},
		"requests of one pass share, and the last token is always computed": {
			cfg:      Config{Blocks: 20, MaxBatchedTokens: 100, MaxSeqs: 4},
			arrivals: []arrival{{0, 8, 1, []uint64{1, 2}}, {0, 8, 1, []uint64{1, 2}}},
			want: []string{
				"0 request 0, 0 cached", "0 #0 stored 0 1", "0 request 1, 4 cached",
				"112 token 0.1", "112 token 1.1", "112 done 0", "112 done 1",
			},
		},
		"blocks of an answer are found by who goes on from it": {
			cfg:      Config{Blocks: 20, MaxBatchedTokens: 100, MaxSeqs: 4},
			arrivals: []arrival{{0, 4, 6, []uint64{1}}, {1000, 4, 1, []uint64{1}}},
			want: []string{
				"0 request 0, 0 cached", "0 #0 stored 0", "104 token 0.1", "205 token 0.2", "306 token 0.3", "407 token 0.4",
				"407 #1 stored after 0: 1", "508 token 0.5", "609 token 0.6", "609 done 0",
				"1000 request 1, 0 cached", "1104 token 1.1", "1104 done 1",
			},
		},
		"who does not fit waits, and so do all behind it": {
			// Row 1 needs 4 of 5 blocks while row 0 has 2; row 2 would fit.
			cfg:      Config{Blocks: 5, MaxBatchedTokens: 100, MaxSeqs: 4},
			arrivals: []arrival{{0, 8, 2, []uint64{1, 2}}, {0, 16, 1, []uint64{3, 4, 5, 6}}, {0, 4, 1, []uint64{7}}},
			want: []string{
				"0 request 0, 0 cached", "0 #0 stored 0 1", "108 token 0.1", "209 token 0.2", "209 done 0",
				"209 #1 removed 1", "209 request 1, 0 cached", "209 #2 stored 2 3 4 5",
				"209 #3 removed 0", "209 request 2, 0 cached", "209 #4 stored 6",
				"329 token 1.1", "329 token 2.1", "329 done 1", "329 done 2",
			},
		},
		"with the first chunk only it is admitted, and gives way in its prefill": {
			cfg:      Config{Blocks: 5, MaxBatchedTokens: 9, MaxSeqs: 4, FirstChunkOnly: true},
			arrivals: []arrival{{0, 8, 6, []uint64{1, 2}}, {50, 12, 1, []uint64{3, 4, 5}}},
			want: []string{
				"0 request 0, 0 cached", "0 #0 stored 0 1", "108 token 0.1",
				// Token 9 takes block 3 of row 0, 8 tokens of row 1 the last two.
				"108 request 1, 0 cached", "108 #1 stored 2 3", "217 token 0.2",
				// Its other 4 tokens have no block: it gives way to nobody but itself.
				"217 preempted 1",
				// Its 2 cached blocks and a third one do not fit beside row 0.
				"318 token 0.3", "419 token 0.4", "419 #2 stored after 1: 4", "520 token 0.5",
				// Token 13 of row 0 needs a block: the last one of row 1 goes first.
				"520 #3 removed 3", "621 token 0.6", "621 done 0",
				"621 #4 removed 4", "621 request 1 again, 4 cached", "621 #5 stored after 2: 3 5", "729 token 1.1", "729 done 1",
			},
		},
		"the one admitted last gives way, keeps its tokens and finds its blocks": {
			cfg:      Config{Blocks: 4, MaxBatchedTokens: 100, MaxSeqs: 4},
			arrivals: []arrival{{0, 4, 6, []uint64{1}}, {0, 4, 6, []uint64{2}}},
			want: []string{
				"0 request 0, 0 cached", "0 #0 stored 0", "0 request 1, 0 cached", "0 #1 stored 1",
				"108 token 0.1", "108 token 1.1", // each takes its second block
				"210 token 0.2", "210 token 1.2", "312 token 0.3", "312 token 1.3", "414 token 0.4", "414 token 1.4",
				"414 #2 stored after 0: 2", "414 #3 stored after 1: 3", "516 token 0.5", "516 token 1.5",
				// Row 0 needs a third block: row 1 gives both of its own.
				"516 preempted 1", "516 #4 removed 3", "617 token 0.6", "617 done 0",
				// Row 1 knows 9 tokens and finds 4 of them.
				"617 #5 removed 2", "617 request 1 again, 4 cached", "617 #6 stored after 1: 3",
				"722 token 1.6", "722 done 1",
			},
		},
		"a block with two copies is removed with the last": {
			// Row 1 computes the second block although row 0 has it. Row 2 evicts one
			// copy, row 3 the other one and the first block.
			cfg:      Config{Blocks: 4, MaxBatchedTokens: 100, MaxSeqs: 4},
			arrivals: []arrival{{0, 8, 1, []uint64{1, 2}}, {0, 8, 1, []uint64{1, 2}}, {500, 8, 1, []uint64{3, 4}}, {900, 8, 1, []uint64{5, 6}}},
			want: []string{
				"0 request 0, 0 cached", "0 #0 stored 0 1", "0 request 1, 4 cached", "112 token 0.1", "112 token 1.1", "112 done 0", "112 done 1",
				"500 request 2, 0 cached", "500 #1 stored 2 3", "608 token 2.1", "608 done 2",
				"900 #2 removed 1 0", "900 request 3, 0 cached", "900 #3 stored 4 5", "1008 token 3.1", "1008 done 3",
			},
		},
		"a watermark stays free while others run": {
			// Row 1 would fit, but leaves 0 of 4 blocks.
			cfg:      Config{Blocks: 4, MaxBatchedTokens: 100, MaxSeqs: 4, Watermark: 0.25},
			arrivals: []arrival{{0, 8, 1, []uint64{1, 2}}, {0, 8, 1, []uint64{3, 4}}},
			want: []string{
				"0 request 0, 0 cached", "0 #0 stored 0 1", "108 token 0.1", "108 done 0",
				"108 request 1, 0 cached", "108 #1 stored 2 3", "216 token 1.1", "216 done 1",
			},
		},
		"as many as may run": {
			cfg:      Config{Blocks: 4, MaxBatchedTokens: 100, MaxSeqs: 1},
			arrivals: []arrival{{0, 4, 0, []uint64{1}}, {0, 4, 1, []uint64{3}}},
			want: []string{
				"0 request 0, 0 cached", "0 #0 stored 0", "104 done 0",
				"104 request 1, 0 cached", "104 #1 stored 1", "208 token 1.1", "208 done 1",
			},
		},
		"without chunked prefill a prompt waits for a pass with room": {
			cfg:      Config{Blocks: 20, MaxBatchedTokens: 12, MaxSeqs: 4, NoChunkedPrefill: true},
			arrivals: []arrival{{0, 8, 1, []uint64{1, 2}}, {0, 8, 1, []uint64{3, 4}}},
			want: []string{
				"0 request 0, 0 cached", "0 #0 stored 0 1", "108 token 0.1", "108 done 0",
				"108 request 1, 0 cached", "108 #1 stored 2 3", "216 token 1.1", "216 done 1",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.BlockSize, c.cfg.Time = 4, perToken
			var l enginetest.Log
			e, err := New(c.cfg, &l)
			if err != nil {
				t.Fatal(err)
			}
			var rows []trace.Request
			for _, a := range c.arrivals {
				rows = append(rows, trace.Request{InputLength: a.prompt, OutputLength: a.output, HashIDs: a.ids})
			}
			tr := enginetest.Requests(4, rows...)
			for i, a := range c.arrivals {
				if err := e.Advance(a.at); err != nil {
					t.Fatal(err)
				}
				if why := e.Submit(a.at, engine.Request{ID: uint64(i), Chain: enginetest.Chain(tr, i, 4), Output: a.output}); why != engine.Accepted {
					t.Fatal(why)
				}
			}
			if err := enginetest.Finish(e); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(l.Lines, c.want) {
				t.Errorf("timeline\n%s\nwant\n%s", strings.Join(l.Lines, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		cfg            Config
		prompt, output int
		want           engine.Refusal
	}{
		"nothing":               {Config{Blocks: 4, MaxBatchedTokens: 100}, 0, 5, engine.EmptyPrompt},
		"fits just so":          {Config{Blocks: 4, MaxBatchedTokens: 100}, 12, 5, engine.Accepted},
		"answer":                {Config{Blocks: 4, MaxBatchedTokens: 100}, 12, 6, engine.AnswerNoRoom},
		"prompt":                {Config{Blocks: 4, MaxBatchedTokens: 100}, 17, 1, engine.PromptNoRoom},
		"length":                {Config{Blocks: 4, MaxBatchedTokens: 100, MaxModelLen: 10}, 10, 1, engine.PromptTooLong},
		"length cuts an answer": {Config{Blocks: 4, MaxBatchedTokens: 100, MaxModelLen: 13}, 12, 100, engine.Accepted},
		"budget":                {Config{Blocks: 4, MaxBatchedTokens: 11, NoChunkedPrefill: true}, 12, 1, engine.BudgetTooLow},
		"budget with chunks":    {Config{Blocks: 4, MaxBatchedTokens: 11}, 12, 1, engine.Accepted},
	} {
		c.cfg.BlockSize, c.cfg.MaxSeqs, c.cfg.Time = 4, 4, perToken
		e, err := New(c.cfg, new(enginetest.Log))
		if err != nil {
			t.Fatal(err)
		}
		tr := enginetest.Requests(20, trace.Request{InputLength: c.prompt, OutputLength: c.output, HashIDs: []uint64{1}})
		if got := e.Submit(0, engine.Request{Chain: enginetest.Chain(tr, 0, 4), Output: c.output}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if err := enginetest.Finish(e); err != nil {
			t.Fatal(err)
		}
		if n := e.Counts(); c.want != engine.Accepted && n.Refused != 1 || c.want == engine.Accepted && n.Done != 1 {
			t.Errorf("%s: %+v", name, n)
		}
		if n := e.Counts().OutputTokens; c.cfg.MaxModelLen == 13 && n != 1 {
			t.Errorf("%s: %d tokens", name, n)
		}
	}
}

func property(totals *enginetest.Totals) func(*rapid.T) {
	return func(t *rapid.T) {
		cfg := Config{
			Blocks:           rapid.IntRange(1, 40).Draw(t, "pool"),
			BlockSize:        rapid.IntRange(1, 9).Draw(t, "block"),
			MaxBatchedTokens: rapid.IntRange(1, 60).Draw(t, "budget"),
			MaxSeqs:          rapid.IntRange(1, 6).Draw(t, "seqs"),
			NoChunkedPrefill: rapid.Bool().Draw(t, "no chunks"),
			FirstChunkOnly:   rapid.Bool().Draw(t, "first chunk"),
			Watermark:        rapid.SampledFrom([]float64{0, 0.1, 0.5, 1}).Draw(t, "watermark"),
			Time:             steptime.Linear{Base: 1e5, PerToken: 1e4, PerPair: 10, PerContext: 10},
		}
		enginetest.Drive(t, cfg.BlockSize, false, func(l engine.Listener) (enginetest.Engine, error) { return New(cfg, l) }, totals)
	}
}

func TestProperties(t *testing.T) {
	var totals enginetest.Totals
	little := true
	for n := 0; little && n < 20; n++ {
		rapid.Check(t, property(&totals))
		little = totals.Refused == 0 || totals.Preempted == 0 || totals.FirstHits == 0 || totals.AgainHits == 0 || totals.Removed == 0 || totals.Output == 0
	}
	if little {
		t.Errorf("%+v: this shows too little", totals)
	}
}

func FuzzOperations(f *testing.F) {
	var totals enginetest.Totals
	f.Fuzz(rapid.MakeFuzz(property(&totals)))
}

// quiet hears nothing.
type quiet struct{}

func (quiet) Event(int64, *indexer.Event)       {}
func (quiet) Admitted(int64, uint64, int, bool) {}
func (quiet) Token(int64, uint64, int)          {}
func (quiet) Preempted(int64, uint64)           {}
func (quiet) Done(int64, uint64)                {}
func (quiet) ReadsBlocks() bool                 { return false }

// TestGoldenHits plays the public conversation trace through one engine, request
// by request. In a cache with no bound it finds exactly what a cache without an
// engine finds, mocker.ReplayCache; that no prompt of this trace is cached up to its
// last token is checked. In a bounded one a prompt's partial last block takes
// room while it runs, so that a few hits are lost: exactly those that a bare pool
// loses in which it takes room too.
func TestGoldenHits(t *testing.T) {
	path, err := filepath.Abs("../../../shared/traces/mooncake/conversation_trace.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("the public conversation trace is not here: ", err)
	}
	tr, _, err := trace.Load(context.Background(), path, trace.ReaderOptions{BlockSize: 512}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		blocks     int
		bare, want int64 // hits without and with room for partial blocks
	}{{1000, 12990, 12988}, {10000, 62005, 62001}, {50000, 102724, 102723}, {1 << 20, 105592, 105592}} {
		cfg := Default()
		cfg.Blocks, cfg.BlockSize, cfg.Time = c.blocks, 512, perToken
		e, err := New(cfg, quiet{})
		if err != nil {
			t.Fatal(err)
		}
		pool := mocker.NewPool(c.blocks)
		prompts := mocker.NewPrompts(tr, 512)
		var chain mocker.Chain
		now, model := int64(0), int64(0)
		for row := range tr.Len() {
			chain.StartIn(prompts, row, 1)
			n := chain.Prompt()
			if n%512 == 0 && e.Cached(&chain, n) == n {
				t.Fatalf("row %d is cached up to its last token", row)
			}
			if why := e.Submit(now, engine.Request{ID: uint64(row), Chain: &chain, Output: 1}); why != engine.Accepted {
				t.Fatal(why)
			}
			if err := enginetest.Finish(e); err != nil {
				t.Fatal(err)
			}
			now = e.now

			_, sequences := chain.Blocks(n)
			hits := pool.Lookup(sequences)
			model += int64(hits)
			held, _, ok := pool.Reserve(sequences[:hits], (n+511)/512-hits, nil, nil)
			if !ok {
				t.Fatal("no room in a pool that nobody else uses")
			}
			for i := hits; i < len(sequences); i++ {
				pool.Commit(held[i], sequences[i])
			}
			pool.Release(held)
		}
		if hits, _ := mocker.ReplayCache(tr, c.blocks, true); hits != c.bare {
			t.Errorf("%d blocks: a bare cache has %d hits, want %d", c.blocks, hits, c.bare)
		}
		if hits := e.Counts().FirstHitTokens / 512; hits != c.want || model != c.want {
			t.Errorf("%d blocks: %d hits, a pool with partial blocks %d, want %d", c.blocks, hits, model, c.want)
		}
	}
}

// TestSteadyStateAllocates: buffers are reused.
func TestSteadyStateAllocates(t *testing.T) {
	cfg := Default()
	cfg.Blocks, cfg.Time = 200, perToken
	e, err := New(cfg, quiet{})
	if err != nil {
		t.Fatal(err)
	}
	tr := enginetest.Requests(64, trace.Request{InputLength: 640, HashIDs: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		trace.Request{InputLength: 640, HashIDs: []uint64{1, 2, 3, 14, 15, 16, 17, 18, 19, 20}})
	a, b := enginetest.Chain(tr, 0, 16), enginetest.Chain(tr, 1, 16)
	run := func() {
		for i, c := range []*mocker.Chain{a, b} {
			if why := e.Submit(e.now, engine.Request{ID: uint64(i), Chain: c, Output: 40}); why != engine.Accepted {
				t.Fatal(why)
			}
		}
		if err := enginetest.Finish(e); err != nil {
			t.Fatal(err)
		}
	}
	run()
	run()
	if n := testing.AllocsPerRun(20, run); n > 0 {
		t.Errorf("%v allocations for two requests", n)
	}
}

func TestConfigErrors(t *testing.T) {
	good := Default()
	good.Blocks, good.Time = 10, perToken
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"pool of 0":         func(c *Config) { c.Blocks = 0 },
		"blocks of 0":       func(c *Config) { c.BlockSize = 0 },
		"budget of 0":       func(c *Config) { c.MaxBatchedTokens = 0 },
		"at most 0":         func(c *Config) { c.MaxSeqs = 0 },
		"length of -1":      func(c *Config) { c.MaxModelLen = -1 },
		"watermark of 2":    func(c *Config) { c.Watermark = 2 },
		"no time model":     func(c *Config) { c.Time = nil },
		"coefficient token": func(c *Config) { c.Time = steptime.Linear{Base: 1, PerToken: -1} },
	} {
		c := good
		change(&c)
		if _, err := New(c, quiet{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
