package soak

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/catalogue"
	"github.com/kvbench/kvbench/indexer/flat"
)

func small(f indexer.Factory) *Options {
	return &Options{Index: f, EventWorkers: 2, Readers: 2, Ranks: 12, Seed: 7, Operations: 6000, CheckEvery: 300,
		Questions: 40, Hang: time.Minute}
}

func TestCatalogue(t *testing.T) {
	for _, f := range catalogue.All() {
		if f.Null {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			r, err := Run(context.Background(), small(f))
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := r.WriteText(&b); err != nil {
				t.Error(err)
			}
			t.Log(b.String())
			if r.Problem != nil {
				t.Error(r.Problem)
			}
			e := &r.Effects
			if r.Operations != 6000 || r.Rounds != 20 || r.Compared < 800 || r.Answers == 0 || r.Registered < 13 || e.Stored == 0 || e.Removed == 0 || e.ClearedBlocks == 0 ||
				e.Duplicate == 0 || e.Orphaned == 0 || e.Conflicting == 0 || e.UnknownRemoved == 0 || e.Malformed == 0 {
				t.Errorf("something was not done: %+v", r)
			}
		})
	}
}

// broken is an index with a fault.
type broken struct {
	indexer.Index
	apply  func(w indexer.Writer, ev *indexer.Event) indexer.Effect
	blocks int
}

type brokenWriter struct {
	indexer.Writer
	x *broken
}

func (b *broken) Writer(i int) indexer.Writer { return brokenWriter{b.Index.Writer(i), b} }

func (w brokenWriter) Apply(ev *indexer.Event) indexer.Effect {
	if w.x.apply != nil {
		return w.x.apply(w.Writer, ev)
	}
	return w.Writer.Apply(ev)
}

func (w brokenWriter) Blocks(slot indexer.Slot) int { return w.Writer.Blocks(slot) + w.x.blocks }

func breaking(b broken) indexer.Factory {
	f := flat.Factory()
	return indexer.Factory{Name: "broken", Summary: "broken", New: func(cfg indexer.Config) (indexer.Index, error) {
		x, err := f.New(cfg)
		c := b
		c.Index = x
		return &c, err
	}}
}

// dropsRemovals says that it removed what it keeps.
var dropsRemovals = broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
	if ev.Kind == indexer.Removed && len(ev.Sequences) > 3 {
		return indexer.Effect{Removed: uint32(len(ev.Sequences))}
	}
	return w.Apply(ev)
}}

func TestBroken(t *testing.T) {
	type leak struct{ bytes [][]byte }
	kept := &leak{}
	for name, c := range map[string]struct {
		b      broken
		want   string
		memory bool
	}{
		"drops removals": {dropsRemovals, "effect", false},
		"wrong count":    {broken{blocks: 1}, "resident blocks", false},
		"leaks": {broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			kept.bytes = append(kept.bytes, make([]byte, 2000))
			return w.Apply(ev)
		}}, "all ranks have gone", true},
		"panics": {broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			if len(ev.Sequences) > 100 {
				panic("too long for me")
			}
			return w.Apply(ev)
		}}, "too long for me", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := small(breaking(c.b))
			if c.memory {
				o.EventWorkers = 1 // it keeps what it leaks without a lock
			}
			r, err := Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Problem == nil || !strings.Contains(r.Problem.Text, c.want) || r.Problem.Memory != c.memory {
				t.Errorf("the problem is %v, want %q", r.Problem, c.want)
			}
		})
	}
	kept.bytes = nil
}

func TestSameOperations(t *testing.T) {
	a, b := newGenerator(3, 8), newGenerator(3, 8)
	for range 5 {
		x, y := a.next(nil, 500), b.next(nil, 500)
		for i := range x {
			if x[i].String() != y[i].String() || x[i].life != y[i].life {
				t.Fatalf("operation %d: %v and %v", i, &x[i], &y[i])
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"answers nothing":   func(o *Options) { o.Index.Null = true },
		"0 event workers":   func(o *Options) { o.EventWorkers = 0 },
		"-1 readers":        func(o *Options) { o.Readers = -1 },
		"65537 ranks":       func(o *Options) { o.Ranks = indexer.MaxRanks + 1 },
		"1 operation and 1": func(o *Options) { o.CheckEvery = 0 },
		"never end":         func(o *Options) { o.Operations = 0 },
	} {
		o := small(flat.Factory())
		change(o)
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error is %v, want %q", err, name)
		}
	}
}
