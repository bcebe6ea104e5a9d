package micro

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/indexer/noop"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/trace"
	"github.com/kvbench/kvbench/traces"
)

func options(t testing.TB, cases ...string) *IndexOptions {
	t.Helper()
	f, err := traces.Open("conversation-small")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tr, _, err := trace.LoadReader(t.Context(), f, "conversation-small", trace.ReaderOptions{BlockSize: trace.DefaultBlockSize}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &IndexOptions{
		Indexes: []indexer.Factory{flat.Factory(), flat.Factory()}, Cases: cases,
		Trace: tr, TraceName: "conversation-small", BlockSize: 128, GPUBlocks: 16384, Rounds: 2, Seed: 42,
	}
}

func TestIndexMeasuresEveryMetric(t *testing.T) {
	o := options(t, "x1", "one-block-128", "held-by-128")
	o.Indexes[1].Name = "other"
	var steps []string
	var last int64
	o.Step = func(name string, total int64) { steps = append(steps, name); last = 0 }
	o.Advance = func(done int64) {
		if done < last {
			t.Errorf("the progress went from %d to %d", last, done)
		}
		last = done
	}
	r, err := Index(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"x1": 13, "one-block-128": 2, "held-by-128": 3} // metrics
	for c, metrics := range want {
		for _, variant := range []string{"flat", "other"} {
			n := 0
			for _, s := range r.Series {
				if s.Case != c || s.Variant != variant {
					continue
				}
				n++
				if len(s.Values) != o.Rounds {
					t.Errorf("%s of %s has %d values, want %d", s.Metric, variant, len(s.Values), o.Rounds)
				}
				for _, v := range s.Values {
					if math.IsNaN(v) || v < 0 || v == 0 && s.Metric != "allocations" {
						t.Errorf("%s of %s is %v", s.Metric, variant, v)
					}
				}
			}
			if n != metrics {
				t.Errorf("%s of %s: %d metrics, want %d", c, variant, n, metrics)
			}
		}
	}
	if got := strings.Join(steps, " "); got != "prepare x1 one-block-128 held-by-128" {
		t.Errorf("steps: %s", got)
	}
	var text strings.Builder
	if err := r.WriteText(&text, "flat"); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(text.String(), "\n") {
		if len(line) > 80 && strings.HasPrefix(line, "  ") {
			t.Errorf("a row is %d columns wide: %s", len(line), line)
		}
	}
}

// forgetful is flat with a reader that loses one rank of every large answer.
type forgetful struct{ *flat.Index }

type forgetfulReader struct{ indexer.Reader }

func (f forgetful) Reader() indexer.Reader { return forgetfulReader{f.Index.Reader()} }

func (r forgetfulReader) Find(query []indexer.LocalHash, opts indexer.FindOptions, ans *indexer.Answer) {
	r.Reader.Find(query, opts, ans)
	ans.Keep(len(ans.Touched()) - 1)
}

func TestIndexComparesAnswers(t *testing.T) {
	o := options(t, "x1")
	o.Indexes[1] = indexer.Factory{Name: "forgetful", New: func(cfg indexer.Config) (indexer.Index, error) {
		x, err := flat.New(cfg)
		return forgetful{x}, err
	}}
	_, err := Index(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "forgetful: its answers differ from those of flat") {
		t.Errorf("the error is %v", err)
	}
}

// lazy is an index that stores nothing.
type lazy struct{ indexer.Writer }

func (l lazy) Apply(*indexer.Event) indexer.Effect { return indexer.Effect{} }

type lazyIndex struct{ *reference.Index }

func (x lazyIndex) Writer(i int) indexer.Writer { return lazy{x.Index.Writer(i)} }

func TestIndexNoticesWhatIsNotDone(t *testing.T) {
	for _, c := range []string{"x1", "one-block-128", "held-by-128"} {
		o := options(t, c)
		o.Indexes = []indexer.Factory{{Name: "lazy", New: func(cfg indexer.Config) (indexer.Index, error) {
			x, err := reference.New(cfg)
			return lazyIndex{x}, err
		}}}
		if _, err := Index(t.Context(), o); err == nil {
			t.Errorf("%s: an index that does nothing was measured", c)
		}
	}
}

func TestIndexStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	o := options(t, "held-by-128")
	o.Step = func(string, int64) { cancel(why) }
	if _, err := Index(ctx, o); !errors.Is(err, why) {
		t.Errorf("the error is %v", err)
	}
}

func TestCheckIndexOptions(t *testing.T) {
	for name, spoil := range map[string]func(*IndexOptions){
		"no index":          func(o *IndexOptions) { o.Indexes = nil },
		"a null index":      func(o *IndexOptions) { o.Indexes = append(o.Indexes, noop.Factory()) },
		"no round":          func(o *IndexOptions) { o.Rounds = 0 },
		"a case without it": func(o *IndexOptions) { o.Cases = []string{"x2"} },
		"no such pass":      func(o *IndexOptions) { o.Passes = []string{"apply", "look"} },
		"no tokens":         func(o *IndexOptions) { o.BlockSize = 0 },
		"no cache":          func(o *IndexOptions) { o.GPUBlocks = 0 },
		"nothing for a case": func(o *IndexOptions) {
			o.Cases, o.Passes = []string{"x1", "10000-ranks"}, []string{"beside", "threads"}
		},
	} {
		o := options(t)
		spoil(o)
		if err := CheckIndexOptions(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if err := CheckIndexOptions(options(t, IndexCases()...)); err != nil {
		t.Error(err)
	}
}

func TestIndexPasses(t *testing.T) {
	o := options(t, "x1")
	o.Indexes, o.Rounds = o.Indexes[:1], 1
	o.Passes = []string{"beside", "mixed"}
	r, err := Index(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Series {
		got = append(got, s.Metric)
	}
	want := []string{"mixed", "apply beside a reader", "lookups beside a writer", "lookup beside a writer p50", "lookup beside a writer p99"}
	if !slices.Equal(got, want) {
		t.Errorf("the metrics are %q, want %q", got, want)
	}
	o.Cases, o.Passes, o.GPUBlocks = []string{"1024-ranks"}, []string{"beside"}, 1<<20
	if _, err := Index(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no concurrent passes") {
		t.Errorf("a case without the pass: %v", err)
	}
}

func TestShuffleVictimsKeepsTheRest(t *testing.T) {
	o := options(t)
	o.GPUBlocks = 900
	c, err := cacheWork(t.Context(), o, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	if c.Manifest.Totals.RemovedBlocks == 0 {
		t.Fatal("nothing is removed")
	}
	d := shuffleVictims(c, 1)
	moved := 0
	for i := range c.Ops {
		var a, b indexer.Event
		c.Event(uint32(i), &a)
		d.Event(uint32(i), &b)
		sum := map[indexer.SequenceHash]int{}
		for k := range a.Sequences {
			sum[a.Sequences[k]]++
			sum[b.Sequences[k]]--
			if a.Sequences[k] != b.Sequences[k] {
				if a.Kind != indexer.Removed {
					t.Fatalf("operation %d is %v and has changed", i, a.Kind)
				}
				moved++
			}
		}
		for h, n := range sum {
			if n != 0 {
				t.Fatalf("operation %d: hash %x occurs %d times more", i, h, n)
			}
		}
	}
	if moved == 0 {
		t.Error("nothing has moved")
	}
}

// TestCacheWork plays the queries again on caches that are slices.
func TestCacheWork(t *testing.T) {
	o := options(t)
	longest := 0
	for i := range o.Trace.Len() {
		longest = max(longest, expansion*len(o.Trace.Request(i).HashIDs))
	}
	o.GPUBlocks = longest
	const ranks, copies = 3, 2
	c, err := cacheWork(t.Context(), o, ranks, copies)
	if err != nil {
		t.Fatal(err)
	}
	caches := make([][]uint64, ranks) // the next victim first
	next := 0
	take := func(kind corpus.Kind, slot uint32) *corpus.Op {
		if next < len(c.Ops) && c.Ops[next].Kind == kind && c.Ops[next].Slot == slot {
			next++
			return &c.Ops[next-1]
		}
		return nil
	}
	queries, evicted, reused := 0, 0, 0
	for next < len(c.Ops) {
		op := take(corpus.Query, c.Ops[next].Slot)
		if op == nil {
			t.Fatalf("operation %d is a %v and belongs to no query", next, c.Ops[next].Kind)
		}
		queries++
		locals := c.Hashes[op.Hashes : op.Hashes+uint64(op.Len)]
		names := make([]uint64, len(locals))
		name := uint64(0)
		for k, local := range locals {
			name = scramble(local, name)
			names[k] = name
		}
		cache := caches[op.Slot]
		held := 0
		for held < len(names) && slices.Contains(cache, names[held]) {
			held++
		}
		reused += held
		cache = slices.DeleteFunc(cache, func(n uint64) bool { return slices.Contains(names[:held], n) })
		victims := max(0, len(cache)+len(names)-o.GPUBlocks)
		if victims > 0 {
			removed := take(corpus.Removed, op.Slot)
			if removed == nil || !slices.Equal(c.Hashes[removed.Hashes:][:removed.Len], cache[:victims]) {
				t.Fatalf("query %d: %v goes, want %x", queries, removed, cache[:victims])
			}
			evicted += victims
		}
		if held < len(names) {
			stored := take(corpus.Stored, op.Slot)
			want := slices.Concat(names[held:], locals[held:])
			if stored == nil || !slices.Equal(c.Hashes[stored.Hashes:][:2*stored.Len], want) {
				t.Fatalf("query %d: %v comes, want %x", queries, stored, want)
			}
			if parent := held > 0; parent != (stored.HasParent == 1) || parent && stored.Parent != names[held-1] {
				t.Fatalf("query %d: what comes hangs at %d %x", queries, stored.HasParent, stored.Parent)
			}
		}
		slices.Reverse(names)
		caches[op.Slot] = append(cache[victims:], names...)
	}
	if queries != copies*o.Trace.Len() || evicted == 0 || reused == 0 {
		t.Errorf("%d queries, %d blocks evicted, %d used again", queries, evicted, reused)
	}
	if got := corpus.CountOps(c.Ops); got != c.Manifest.Totals {
		t.Errorf("the totals are %+v, want %+v", c.Manifest.Totals, got)
	}

	o.GPUBlocks--
	if _, err := cacheWork(t.Context(), o, ranks, copies); err == nil || !strings.Contains(err.Error(), "--gpu-blocks") {
		t.Errorf("a prompt that no cache can hold: %v", err)
	}
}
