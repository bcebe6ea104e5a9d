package sglang

import (
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

// TestTimelines plays requests whose times can be told by hand: pages and ids of 4
// tokens, 100 ns a pass and 1 ns a token.
func TestTimelines(t *testing.T) {
	for name, c := range map[string]struct {
		cfg      Config
		arrivals []arrival
		want     []string
	}{
		"pages enter the cache after they are computed, those of an answer at its end": {
			cfg:      Config{Blocks: 10, MaxPrefillTokens: 100, ChunkedPrefillSize: 100, MaxSeqs: 4},
			arrivals: []arrival{{0, 6, 4, []uint64{1, 2}}},
			want: []string{
				"0 request 0, 0 cached", "106 #0 stored 0", "106 token 0.1", "207 token 0.2", "308 token 0.3",
				"409 token 0.4", "409 #1 stored after 0: 1", "409 done 0",
			},
		},
		"requests of one pass do not share, and the pages of the second are given back": {
			cfg:      Config{Blocks: 20, MaxPrefillTokens: 100, ChunkedPrefillSize: 100, MaxSeqs: 4},
			arrivals: []arrival{{0, 8, 1, []uint64{1, 2}}, {0, 12, 1, []uint64{1, 2, 3}}},
			want: []string{
				"0 request 0, 0 cached", "0 request 1, 0 cached", "120 #0 stored 0 1", "120 token 0.1", "120 done 0",
				"120 #1 stored after 1: 2", "120 token 1.1", "120 done 1",
			},
		},
		"prompts come before decodes, and are cut": {
			// Row 1 is cut at 8 tokens; row 0 waits for it.
			cfg:      Config{Blocks: 20, MaxPrefillTokens: 100, ChunkedPrefillSize: 8, MaxSeqs: 4},
			arrivals: []arrival{{0, 4, 3, []uint64{1}}, {50, 12, 1, []uint64{2, 3, 4}}},
			want: []string{
				"0 request 0, 0 cached", "104 #0 stored 0", "104 token 0.1",
				"104 request 1, 0 cached", "212 #1 stored 1 2", "316 #2 stored after 2: 3", "316 token 1.1", "316 done 1",
				"417 token 0.2", "518 token 0.3", "518 done 0",
			},
		},
		"a match within a run splits it, and whole leaves are evicted": {
			// Row 2 shares one page of row 0's three; row 3 needs two pages and
			// takes the other two, used longest ago, as one leaf.
			cfg:      Config{Blocks: 6, MaxPrefillTokens: 100, ChunkedPrefillSize: 100, MaxSeqs: 4},
			arrivals: []arrival{{0, 12, 1, []uint64{1, 2, 3}}, {500, 8, 1, []uint64{1, 9}}, {1000, 12, 1, []uint64{4, 5, 6}}},
			want: []string{
				"0 request 0, 0 cached", "112 #0 stored 0 1 2", "112 token 0.1", "112 done 0",
				"500 request 1, 4 cached", "604 #1 stored after 0: 3", "604 token 1.1", "604 done 1",
				"1000 request 2, 0 cached", "1112 #2 removed 1 2", "1112 #3 stored 4 5 6", "1112 token 2.1", "1112 done 2",
			},
		},
		"who has generated least is retracted, and comes again at the end of the line": {
			// Both are admitted, as only a share of the tokens to come is kept
			// free, though they need 7 pages in the end.
			cfg:      Config{Blocks: 5, MaxPrefillTokens: 100, ChunkedPrefillSize: 100, MaxSeqs: 4, ClipNewTokens: 1},
			arrivals: []arrival{{0, 4, 10, []uint64{1}}, {104, 4, 8, []uint64{2}}},
			want: []string{
				"0 request 0, 0 cached", "104 #0 stored 0", "104 token 0.1",
				"104 request 1, 0 cached", "208 #1 stored 1", "208 token 1.1",
				"310 token 0.2", "310 token 1.2", "412 token 0.3", "412 token 1.3", "514 token 0.4", "514 token 1.4", "616 token 0.5", "616 token 1.5",
				// Token 9 of both needs a third page each. Both have as many tokens.
				"616 preempted 1", "717 token 0.6", "818 token 0.7", "919 token 0.8", "1020 token 0.9",
				"1121 token 0.10", "1121 #2 stored after 0: 2 3", "1121 done 0",
				// Row 1 has its prompt in the cache and computes 5 tokens anew, for
				// which it needs one page more than is free: a leaf of two goes.
				"1121 request 1 again, 4 cached", "1226 #3 removed 2 3", "1226 #4 stored after 1: 4", "1226 token 1.6",
				"1327 token 1.7", "1428 token 1.8", "1428 done 1",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.BlockSize, c.cfg.Time, c.cfg.Conservativeness = 4, perToken, 1
			if c.cfg.ClipNewTokens == 0 {
				c.cfg.ClipNewTokens = 4096
			}
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

func property(totals *enginetest.Totals) func(*rapid.T) {
	return func(t *rapid.T) {
		cfg := Config{
			Blocks:           rapid.IntRange(1, 40).Draw(t, "pool"),
			BlockSize:        rapid.IntRange(1, 9).Draw(t, "page"),
			MaxSeqs:          rapid.IntRange(1, 6).Draw(t, "seqs"),
			ClipNewTokens:    rapid.IntRange(1, 30).Draw(t, "clip"),
			Conservativeness: rapid.SampledFrom([]float64{0, 0.3, 1, 2}).Draw(t, "conservativeness"),
			Time:             steptime.Linear{Base: 1e5, PerToken: 1e4, PerPair: 10, PerContext: 10},
		}
		cfg.MaxPrefillTokens = rapid.IntRange(cfg.BlockSize, 80).Draw(t, "prefill tokens")
		cfg.ChunkedPrefillSize = rapid.IntRange(cfg.BlockSize, 80).Draw(t, "chunk")
		enginetest.Drive(t, cfg.BlockSize, true, func(l engine.Listener) (enginetest.Engine, error) { return New(cfg, l) }, totals)
	}
}

func TestProperties(t *testing.T) {
	var totals enginetest.Totals
	rapid.Check(t, property(&totals))
	if totals.Refused == 0 || totals.Preempted == 0 || totals.FirstHits == 0 || totals.AgainHits == 0 || totals.Removed == 0 || totals.Output == 0 {
		t.Errorf("%+v: this shows too little", totals)
	}
}

func FuzzOperations(f *testing.F) {
	var totals enginetest.Totals
	f.Fuzz(rapid.MakeFuzz(property(&totals)))
}

// naiveTree is the same as a tree of single pages, in the plainest way: each has the
// run that it is in only by when it was inserted or cut off.
type naiveTree struct {
	pages map[indexer.SequenceHash]*naivePage
}

type naivePage struct {
	hash   indexer.SequenceHash
	parent *naivePage
	head   bool // a run begins here
	used   uint64
	locks  int
	idle   int64 // since when nobody locks it
}

// run returns the pages of the run that begins at head, from the root side on.
func (t *naiveTree) run(head *naivePage) []*naivePage {
	out := []*naivePage{head}
	for {
		var next *naivePage
		for _, p := range t.pages {
			if p.parent == out[len(out)-1] && !p.head {
				next = p
			}
		}
		if next == nil {
			return out
		}
		out = append(out, next)
	}
}

func (t *naiveTree) match(pages []indexer.SequenceHash, clock uint64) (last *naivePage, depth int) {
	for depth < len(pages) {
		p := t.pages[pages[depth]]
		if p == nil || p.parent != last {
			break
		}
		last = p
		depth++
	}
	if last == nil {
		return nil, 0
	}
	// What follows in the run is cut off.
	for _, p := range t.pages {
		if p.parent == last && !p.head {
			p.head = true
		}
	}
	// A run is used as a whole.
	for p := last; p != nil; p = p.parent {
		p.used = clock
	}
	return last, depth
}

func (t *naiveTree) leaves() (out [][]*naivePage) {
	for _, p := range t.pages {
		if !p.head {
			continue
		}
		run := t.run(p)
		end, leaf := run[len(run)-1], true
		for _, q := range t.pages {
			if q.parent == end {
				leaf = false
			}
		}
		if leaf && end.locks == 0 {
			out = append(out, run)
		}
	}
	slices.SortFunc(out, func(a, b []*naivePage) int { return int(a[0].used) - int(b[0].used) })
	return out
}

// TestTree compares the radix tree with the naive one.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr, m := newTree(), &naiveTree{pages: map[indexer.SequenceHash]*naivePage{}}
		var locked []int32
		var lockedPages []*naivePage
		clock := uint64(0)
		var cached, dead int64 // page-ns; dead of the pages that are gone
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			pass := int64(rapid.IntRange(0, 3).Draw(t, "ns"))
			tr.now += pass
			cached += pass * int64(len(m.pages))
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				// A path in a tree with few branches; a hash names a path.
				pages := make([]indexer.SequenceHash, rapid.IntRange(1, 6).Draw(t, "length"))
				h := indexer.SequenceHash(1)
				for i := range pages {
					h = h*3 + indexer.SequenceHash(rapid.IntRange(0, 1).Draw(t, "branch"))
					pages[i] = h
				}
				clock++
				if have, want := tr.depth(pages), len(pages); have > want {
					t.Fatalf("depth %d of %d", have, want)
				}
				before := tr.depth(pages)
				at, depth := tr.match(pages)
				last, want := m.match(pages, clock)
				if depth != want || before != want {
					t.Fatalf("%v is there up to %d, before that %d, want %d", pages, depth, before, want)
				}
				if rapid.Bool().Draw(t, "insert") {
					at = tr.insert(at, depth, pages)
					for i := depth; i < len(pages); i++ {
						p := &naivePage{hash: pages[i], parent: last, head: i == depth, used: clock, idle: tr.now}
						m.pages[pages[i]] = p
						last = p
					}
				}
				if rapid.Bool().Draw(t, "lock") {
					tr.lock(at)
					locked = append(locked, at)
					lockedPages = append(lockedPages, last)
					for p := last; p != nil; p = p.parent {
						p.locks++
					}
				}
			case 2:
				if len(locked) > 0 {
					i := rapid.IntRange(0, len(locked)-1).Draw(t, "which")
					tr.unlock(locked[i])
					for p := lockedPages[i]; p != nil; p = p.parent {
						if p.locks--; p.locks == 0 {
							p.idle = tr.now
						}
					}
					locked, lockedPages = slices.Delete(locked, i, i+1), slices.Delete(lockedPages, i, i+1)
				}
			default:
				n := rapid.IntRange(1, 8).Draw(t, "evict")
				var have, want []indexer.SequenceHash
				tr.evict(n, func(pages []indexer.SequenceHash) { have = append(have, pages...) })
				for len(want) < n {
					leaves := m.leaves()
					if len(leaves) == 0 {
						break
					}
					for _, p := range leaves[0] {
						want = append(want, p.hash)
						delete(m.pages, p.hash)
						dead += tr.now - p.idle
					}
				}
				if !slices.Equal(have, want) {
					t.Fatalf("evicted %v, want %v", have, want)
				}
			}
			if err := tr.check(locked); err != nil {
				t.Fatalf("%v", err)
			}
			idle, unused := 0, dead
			for _, p := range m.pages {
				if p.locks == 0 {
					idle++
					unused += tr.now - p.idle
				}
			}
			if tr.pages != len(m.pages) || tr.idle != idle {
				t.Fatalf("%d pages, %d idle, want %d and %d", tr.pages, tr.idle, len(m.pages), idle)
			}
			if c, d := tr.residency(tr.now); c != cached || d != unused {
				t.Fatalf("pages were there for %d, dead for %d, want %d and %d", c, d, cached, unused)
			}
		}
	})
}

func TestConfigErrors(t *testing.T) {
	good := Default()
	good.Blocks, good.Time = 10, perToken
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"pool of 0":              func(c *Config) { c.Blocks = 0 },
		"pages of 0":             func(c *Config) { c.BlockSize = 0 },
		"chunks of 10":           func(c *Config) { c.BlockSize, c.ChunkedPrefillSize = 16, 10 },
		"at most 0":              func(c *Config) { c.MaxSeqs = 0 },
		"0 expected":             func(c *Config) { c.ClipNewTokens = 0 },
		"conservativeness of -1": func(c *Config) { c.Conservativeness = -1 },
		"no time model":          func(c *Config) { c.Time = nil },
	} {
		c := good
		change(&c)
		if _, err := New(c, new(enginetest.Log)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		prompt, output int
		want           engine.Refusal
	}{{0, 1, engine.EmptyPrompt}, {17, 0, engine.PromptNoRoom}, {12, 5, engine.AnswerNoRoom}, {12, 4, engine.Accepted}, {16, 0, engine.Accepted}} {
		cfg := Default()
		cfg.Blocks, cfg.BlockSize, cfg.Time = 4, 4, perToken
		e, err := New(cfg, new(enginetest.Log))
		if err != nil {
			t.Fatal(err)
		}
		tr := enginetest.Requests(20, trace.Request{InputLength: c.prompt, OutputLength: c.output, HashIDs: []uint64{1}})
		var chain mocker.Chain
		chain.Start(tr, 0, 4, 1)
		if got := e.Submit(0, engine.Request{Chain: &chain, Output: c.output}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if err := enginetest.Finish(e); err != nil {
			t.Error(err)
		}
	}
}
