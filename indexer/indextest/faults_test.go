package indextest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
)

func TestFaultsOfReference(t *testing.T) { Faults(t, reference.Factory()) }

// counting is a positional index as it is published: a table from position and local
// hash to ranks, searched by jumps that compare only how many ranks there are.
type counting struct {
	indexer.Index
	step  int
	table map[at]map[indexer.Slot]bool
	// where has the place of each hash of a rank.
	where map[named]at
}

type at struct {
	position int
	local    indexer.LocalHash
}

type named struct {
	slot indexer.Slot
	seq  indexer.SequenceHash
}

func newCounting(step int) func() *broken {
	return func() *broken {
		c := &counting{step: step, table: map[at]map[indexer.Slot]bool{}, where: map[named]at{}}
		return &broken{
			apply: func(good indexer.Writer, ev *indexer.Event) indexer.Effect {
				c.apply(ev)
				return good.Apply(ev)
			},
			find: func(_ indexer.Reader, query []indexer.LocalHash, ans *indexer.Answer) {
				ans.Reset()
				c.find(query, ans)
			},
		}
	}
}

func (c *counting) apply(ev *indexer.Event) {
	switch ev.Kind {
	case indexer.Stored:
		position := 0
		if ev.HasParent {
			position = c.where[named{ev.Slot, ev.Parent}].position + 1
		}
		for i, seq := range ev.Sequences {
			p := at{position + i, ev.Locals[i]}
			if c.table[p] == nil {
				c.table[p] = map[indexer.Slot]bool{}
			}
			c.table[p][ev.Slot] = true
			c.where[named{ev.Slot, seq}] = p
		}
	case indexer.Removed:
		for _, seq := range ev.Sequences {
			delete(c.table[c.where[named{ev.Slot, seq}]], ev.Slot)
		}
	}
}

func (c *counting) find(query []indexer.LocalHash, ans *indexer.Answer) {
	if len(query) == 0 {
		return
	}
	held := func(i int) map[indexer.Slot]bool { return c.table[at{i, query[i]}] }
	alive := held(0)
	if len(alive) == 0 {
		return
	}
	depth := 0
	for depth+1 < len(query) {
		probe := min(depth+c.step, len(query)-1)
		if len(held(probe)) != len(alive) {
			break
		}
		depth = probe
	}
	for slot := range alive {
		score := depth + 1
		for score < len(query) && held(score)[slot] {
			score++
		}
		ans.Set(slot, uint32(score))
	}
}

// published are faults that an index has or had, as changes of a correct one.
var published = map[string]func() *broken{
	"compares numbers of ranks, by jumps": newCounting(8),
	"compares numbers of ranks":           newCounting(1),
	"aborts at an unknown removal": func() *broken {
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			if ev.Kind != indexer.Removed {
				return w.Apply(ev)
			}
			var sum indexer.Effect
			for i := range ev.Sequences {
				part := *ev
				part.Sequences = ev.Sequences[i : i+1]
				if e := w.Apply(&part); e.UnknownRemoved > 0 {
					sum.UnknownRemoved++
					break
				}
				sum.Removed++
			}
			return sum
		}}
	},
	"counts failed removals": func() *broken {
		drift := 0
		return &broken{
			apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
				e := w.Apply(ev)
				drift += int(e.UnknownRemoved)
				return e
			},
			blocks: func(n int) int { return n + drift },
		}
	},
	"joins removals": func() *broken {
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			if ev.Kind != indexer.Removed || len(ev.Sequences) < 3 {
				return w.Apply(ev)
			}
			part := *ev
			part.Sequences = ev.Sequences[:len(ev.Sequences)-1]
			e := w.Apply(&part)
			e.Removed++
			return e
		}}
	},
	// The blocks that came with one event are an edge.
	"takes the rest of an edge out": func() *broken {
		edges := map[named]seqs{}
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			e := w.Apply(ev)
			for i, seq := range ev.Sequences {
				switch {
				case ev.Kind == indexer.Stored && e.Stored > 0:
					edges[named{ev.Slot, seq}] = slices.Clone(ev.Sequences[i+1:])
				case ev.Kind == indexer.Removed && e.Removed > 0:
					rest := remove(edges[named{ev.Slot, seq}]...)
					rest.Slot = ev.Slot
					w.Apply(&rest)
				}
			}
			return e
		}}
	},
	"counts less below short nodes": func() *broken {
		stores, removals := 0, 0
		return &broken{
			apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
				if ev.Kind == indexer.Stored && ev.HasParent && len(ev.Sequences) == 1 {
					stores++
				}
				e := w.Apply(ev)
				removals += int(e.Removed)
				return e
			},
			blocks: func(n int) int {
				if stores > 60 && removals > 0 {
					return n - 1
				}
				return n
			},
		}
	},
	"refuses parents below a hole": func() *broken {
		removed := map[indexer.Slot]bool{}
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			if ev.Kind == indexer.Removed {
				removed[ev.Slot] = true
			}
			if ev.HasParent && removed[ev.Slot] {
				return indexer.Effect{Orphaned: uint32(len(ev.Sequences))}
			}
			return w.Apply(ev)
		}}
	},
	"takes any rank's parent": func() *broken {
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			e := w.Apply(ev)
			if e.Orphaned > 0 {
				e = indexer.Effect{Stored: e.Orphaned}
			}
			return e
		}}
	},
	"merges contradictory hashes": func() *broken {
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			e := w.Apply(ev)
			if e.Conflicting > 0 {
				e = indexer.Effect{Duplicate: e.Conflicting}
			}
			return e
		}}
	},
	"knows only its own hashes": func() *broken {
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			e := w.Apply(ev)
			if e.Stored > 0 && ev.Sequences[0]>>63 != 0 {
				undo := remove(ev.Sequences...)
				undo.Slot = ev.Slot
				w.Apply(&undo)
			}
			return e
		}}
	},
	"gives a block up with one name": func() *broken {
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			e := w.Apply(ev)
			if ev.Kind == indexer.Removed && e.Removed > 0 {
				for _, seq := range ev.Sequences {
					other := on(ev.Slot, remove(maxHash-seq))
					w.Apply(&other)
				}
			}
			return e
		}}
	},
	"clears all ranks": func() *broken {
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			if ev.Kind == indexer.Cleared {
				both := on(1-ev.Slot, cleared)
				w.Apply(&both)
			}
			return w.Apply(ev)
		}}
	},
	"gives every rank 1 when it stops early": func() *broken { return &broken{} },
	"keeps what is empty": func() *broken {
		var kept []seqs
		return &broken{apply: func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			kept = append(kept, slices.Clone(ev.Sequences))
			return w.Apply(ev)
		}}
	},
}

// onesEarly answers EarlyExit as published positional indexes do.
type onesEarly struct{ indexer.Index }

type onesEarlyReader struct{ indexer.Reader }

func (x onesEarly) Reader() indexer.Reader { return onesEarlyReader{x.Index.Reader()} }

func (r onesEarlyReader) Find(query []indexer.LocalHash, opts indexer.FindOptions, ans *indexer.Answer) {
	r.Reader.Find(query, opts, ans)
	if opts.EarlyExit {
		for _, slot := range ans.Touched() {
			ans.Set(slot, min(ans.Score(slot), 1))
		}
	}
}

// TestEachFaultIsFound wants each published fault to fail a test, and each test to
// be failed by a published fault.
func TestEachFaultIsFound(t *testing.T) {
	tests := faultTests()
	failed := map[string]int{}
	for name, fault := range published {
		f := factory(fault)
		if name == "gives every rank 1 when it stops early" {
			inner := f
			f.New = func(cfg indexer.Config) (indexer.Index, error) {
				x, err := inner.New(cfg)
				return onesEarly{x}, err
			}
		}
		first, n := math.MaxInt, 0
		for i, test := range tests {
			if err := test.check(f); err != nil {
				failed[test.name]++
				first = min(first, i)
				n++
			}
		}
		if n == 0 {
			t.Errorf("an index that %s passes all tests", name)
			continue
		}
		t.Logf("an index that %s fails %d tests, the first is %q", name, n, tests[first].name)
	}
	for _, test := range tests {
		if failed[test.name] == 0 {
			t.Errorf("no published fault fails %q", test.name)
		}
	}
}

// TestFaultsAreDocumented wants the page on writing an index to name every test of a
// published fault, and every other test that it names to exist.
func TestFaultsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/writing-an-index.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, ok := strings.Cut(string(data), "\n## What published indexes are known to get wrong\n")
	if !ok {
		t.Fatal("the page has no such section")
	}
	for _, test := range faultTests() {
		if !strings.Contains(page, strconv.Quote(test.name)) {
			t.Errorf("%q is not named", test.name)
		}
	}
	var code strings.Builder
	err = filepath.WalkDir("..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test[A-Za-z]+)(?:/([A-Za-z]+))?`").FindAllStringSubmatch(page, -1)
	if len(named) < 20 {
		t.Errorf("%d tests are named by their functions", len(named))
	}
	for _, m := range named {
		if !strings.Contains(code.String(), "func "+m[1]+"(") || m[2] != "" && !strings.Contains(code.String(), fmt.Sprintf("t.Run(%q,", m[2])) {
			t.Errorf("there is no test %s", m[0])
		}
	}
}
