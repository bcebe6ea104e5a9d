package indextest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
)

// broken is the reference with a fault of the reader, the writer or both.
type broken struct {
	indexer.Index
	apply func(w indexer.Writer, ev *indexer.Event) indexer.Effect
	find  func(r indexer.Reader, query []indexer.LocalHash, ans *indexer.Answer)
	// blocks changes a count.
	blocks func(n int) int
	// reachable is what it says of the places that a rank can reach.
	reachable func(w indexer.Writer, slot indexer.Slot) int
}

type brokenWriter struct {
	indexer.Writer
	x *broken
}

type brokenReader struct {
	indexer.Reader
	x *broken
}

func (b *broken) Writer(i int) indexer.Writer { return brokenWriter{b.Index.Writer(i), b} }
func (b *broken) Reader() indexer.Reader      { return brokenReader{b.Index.Reader(), b} }

func (w brokenWriter) Apply(ev *indexer.Event) indexer.Effect {
	if w.x.apply != nil {
		return w.x.apply(w.Writer, ev)
	}
	return w.Writer.Apply(ev)
}

func (w brokenWriter) Blocks(slot indexer.Slot) int {
	n := w.Writer.Blocks(slot)
	if w.x.blocks != nil {
		return w.x.blocks(n)
	}
	return n
}

func (w brokenWriter) Reachable(slot indexer.Slot) (int, bool) {
	if w.x.reachable == nil {
		return 0, false
	}
	return w.x.reachable(w.Writer, slot), true
}

func (r brokenReader) Find(query []indexer.LocalHash, opts indexer.FindOptions, ans *indexer.Answer) {
	if r.x.find != nil {
		r.x.find(r.Reader, query, ans)
		ans.Keep(opts.MaxRanks)
		return
	}
	r.Reader.Find(query, opts, ans)
}

func factory(fault func() *broken) indexer.Factory {
	return indexer.Factory{Name: "broken", New: func(cfg indexer.Config) (indexer.Index, error) {
		x, err := reference.New(cfg)
		if err != nil {
			return nil, err
		}
		b := fault()
		b.Index = x
		return b, nil
	}}
}

// dropsRemovals says what a correct index says of its events, but its answers
// come from one that never removes anything.
func dropsRemovals() *broken {
	stale, err := reference.New(indexer.Config{Threads: 1})
	if err != nil {
		panic(err)
	}
	w, r := stale.Writer(0), stale.Reader()
	attached := map[indexer.Slot]bool{}
	return &broken{
		apply: func(good indexer.Writer, ev *indexer.Event) indexer.Effect {
			if !attached[ev.Slot] {
				attached[ev.Slot] = true
				w.Attach(ev.Slot)
			}
			if ev.Kind != indexer.Removed {
				w.Apply(ev)
			}
			return good.Apply(ev)
		},
		find: func(_ indexer.Reader, query []indexer.LocalHash, ans *indexer.Answer) {
			r.Find(query, indexer.FindOptions{}, ans)
		},
	}
}

// overcounts is correct but for holes: it gives a rank that has the first block
// the depth of the deepest block that it has.
func overcounts() *broken {
	type key struct {
		slot indexer.Slot
		seq  indexer.SequenceHash
	}
	paths := map[key]string{}
	path := func(l []indexer.LocalHash) string { return fmt.Sprintln(l) }
	return &broken{
		apply: func(good indexer.Writer, ev *indexer.Event) indexer.Effect {
			e := good.Apply(ev)
			switch ev.Kind {
			case indexer.Stored:
				if e.Stored == 0 {
					return e
				}
				at := "["
				if ev.HasParent {
					at = paths[key{ev.Slot, ev.Parent}]
				}
				for i, seq := range ev.Sequences {
					at = strings.TrimPrefix(strings.TrimSuffix(at, "]\n"), " ")
					if at != "[" {
						at += " "
					}
					at += fmt.Sprintf("%d]\n", ev.Locals[i])
					paths[key{ev.Slot, seq}] = at
				}
			case indexer.Removed:
				for _, seq := range ev.Sequences {
					delete(paths, key{ev.Slot, seq})
				}
			case indexer.Cleared:
				for k := range paths {
					if k.slot == ev.Slot {
						delete(paths, k)
					}
				}
			}
			return e
		},
		find: func(r indexer.Reader, query []indexer.LocalHash, ans *indexer.Answer) {
			r.Find(query, indexer.FindOptions{}, ans)
			for depth := range query {
				for k, p := range paths {
					if p == path(query[:depth+1]) && ans.Score(k.slot) > 0 {
						ans.Set(k.slot, uint32(depth)+1)
					}
				}
			}
		},
	}
}

// faults are what the comparison must find.
var faults = map[string]func() *broken{
	"drops removals":         dropsRemovals,
	"overcounts after holes": overcounts,
	"counts one too many":    func() *broken { return &broken{blocks: func(n int) int { return n + n/6 }} },
	"says that all blocks can be reached": func() *broken {
		return &broken{reachable: func(w indexer.Writer, slot indexer.Slot) int { return w.Blocks(slot) }}
	},
	"forgets far slots": func() *broken {
		return &broken{find: func(r indexer.Reader, query []indexer.LocalHash, ans *indexer.Answer) {
			var all indexer.Answer
			r.Find(query, indexer.FindOptions{}, &all)
			ans.Reset()
			for _, slot := range all.Touched() {
				if slot < 4096 {
					ans.Set(slot, all.Score(slot))
				}
			}
		}}
	},
	"does not reset": func() *broken {
		return &broken{find: func(r indexer.Reader, query []indexer.LocalHash, ans *indexer.Answer) {
			var all indexer.Answer
			r.Find(query, indexer.FindOptions{}, &all)
			for _, slot := range all.Touched() {
				ans.Set(slot, all.Score(slot))
			}
		}}
	},
	"undercounts long prompts": func() *broken {
		return &broken{find: func(r indexer.Reader, query []indexer.LocalHash, ans *indexer.Answer) {
			r.Find(query[:min(len(query), 16)], indexer.FindOptions{}, ans)
		}}
	},
	"keeps part of a conflict": func() *broken {
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			e := w.Apply(ev)
			if e.Conflicting > 1 && ev.Kind == indexer.Stored {
				part := *ev
				part.Sequences, part.Locals = ev.Sequences[:1], ev.Locals[:1]
				w.Apply(&part)
			}
			return e
		}}
	},
	"stops at an unknown removal": func() *broken {
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			if ev.Kind != indexer.Removed {
				return w.Apply(ev)
			}
			var sum indexer.Effect
			for i := range ev.Sequences {
				part := *ev
				part.Sequences = ev.Sequences[i : i+1]
				e := w.Apply(&part)
				sum.Removed += e.Removed
				sum.UnknownRemoved += e.UnknownRemoved
				if e.UnknownRemoved > 0 {
					break
				}
			}
			return sum
		}}
	},
	"changes the event": func() *broken {
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			e := w.Apply(ev)
			if len(ev.Sequences) > 1 {
				ev.Sequences[0], ev.Sequences[1] = ev.Sequences[1], ev.Sequences[0]
			}
			return e
		}}
	},
}

// TestDiffFindsFaults lets random histories look for each fault.
func TestDiffFindsFaults(t *testing.T) {
	good := reference.Factory()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			histories := rapid.Custom(drawHistory)
			for seed := range 40 {
				if err := Diff(good, factory(fault), histories.Example(seed)); err != nil {
					t.Logf("found in history %d: %v", seed, err)
					return
				}
			}
			t.Error("40 random histories did not show it")
		})
	}
	t.Run("none", func(t *testing.T) {
		none := factory(func() *broken { return &broken{} })
		for seed := range 40 {
			if err := Diff(good, none, rapid.Custom(drawHistory).Example(seed)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// torn applies an event block by block, each as an event of its own. The
// outcome is right and what readers see on the way is not.
func torn() *broken {
	return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
		if ev.Kind == indexer.Cleared {
			return w.Apply(ev)
		}
		var sum indexer.Effect
		for i := range ev.Sequences {
			part := *ev
			part.Sequences = ev.Sequences[i : i+1]
			if ev.Kind == indexer.Stored {
				part.Locals = ev.Locals[i : i+1]
				if i > 0 {
					part.HasParent, part.Parent = true, ev.Sequences[i-1]
				}
			}
			sum.Stored += w.Apply(&part).Stored
			runtime.Gosched()
		}
		return sum
	}}
}

// twice asks two times and keeps the higher score of each rank: an answer that
// mixes two moments.
func twice() *broken {
	return &broken{find: func(r indexer.Reader, query []indexer.LocalHash, ans *indexer.Answer) {
		var a, b indexer.Answer
		r.Find(query[:len(query)/2], indexer.FindOptions{}, &a)
		runtime.Gosched()
		r.Find(query, indexer.FindOptions{}, &b)
		ans.Reset()
		for _, slot := range a.Touched() {
			ans.Set(slot, max(a.Score(slot), b.Score(slot)))
		}
		for _, slot := range b.Touched() {
			ans.Set(slot, max(a.Score(slot), b.Score(slot)))
		}
	}}
}

// late answers from what it read at the call before.
func late() *broken {
	var mu sync.Mutex
	old := map[int]*indexer.Answer{}
	return &broken{find: func(r indexer.Reader, query []indexer.LocalHash, ans *indexer.Answer) {
		now := &indexer.Answer{}
		r.Find(query, indexer.FindOptions{}, now)
		mu.Lock()
		defer mu.Unlock()
		before := old[len(query)]
		old[len(query)] = now
		ans.Reset()
		if before != nil {
			for _, slot := range before.Touched() {
				ans.Set(slot, before.Score(slot))
			}
		}
	}}
}

// TestConcurrentFindsFaults shows that answers which mix or miss events fail.
func TestConcurrentFindsFaults(t *testing.T) {
	good := reference.Factory()
	for name, fault := range map[string]func() *broken{"torn": torn, "twice": twice, "late": late} {
		t.Run(name, func(t *testing.T) {
			script, queries := HoleScript(64)
			err := CheckConcurrent(good, factory(fault), Play{Writers: 1, Scripts: []Script{script}, Queries: queries, Readers: 2, Answers: 20_000, Time: 5 * time.Second})
			if err == nil {
				t.Error("it was not found")
			}
			t.Log(err)
		})
	}
}

// TestDepthsOfHoleScript writes down what the script is said to do.
func TestDepthsOfHoleScript(t *testing.T) {
	script, queries := HoleScript(64)
	l := &life{script: script}
	if err := l.learn(reference.Factory(), queries); err != nil {
		t.Fatal(err)
	}
	want := []uint32{0, 48, 16, 16, 16, 32, 0, 0, 64, 0, 64, 16, 64, 32, 64, 0, 64, 0, 32, 0}
	for k := range l.truth {
		if l.truth[k][0] != want[k] {
			t.Errorf("after %d events the depth is %d, want %d", k, l.truth[k][0], want[k])
		}
	}
}

// TestDecodeOps covers every kind from bytes.
func TestDecodeOps(t *testing.T) {
	kinds := map[OpKind]int{}
	for i := range 1 << 12 {
		for _, op := range DecodeOps([]byte{byte(i), byte(i >> 8), byte(i * 7), byte(i * 13), 1}) {
			kinds[op.Kind%numOpKinds]++
		}
	}
	if len(kinds) != int(numOpKinds) {
		t.Errorf("bytes give %d kinds of operations, want %d", len(kinds), numOpKinds)
	}
	if ops := DecodeOps([]byte{1, 2, 3}); len(ops) != 0 {
		t.Errorf("3 bytes give %d operations", len(ops))
	}
}
