package residency

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/experimental/residentblocks"
)

// fleet is what a test knows of the ranks, by slot.
type fleet struct {
	prompt   int // tokens; blocks have 10
	rows     []indexer.Slot
	overlap  []uint32
	capacity []uint32
	resident []uint32 // residentblocks.Absent: no count
	backlog  []uint64 // events that the counts may lack
}

func (f *fleet) Scores() []uint32 { return f.overlap }

func (f *fleet) Touched() []indexer.Slot {
	var out []indexer.Slot
	for slot, n := range f.overlap {
		if n > 0 {
			out = append(out, indexer.Slot(slot))
		}
	}
	return out
}

// behind is an event thread that has events to do.
type behind uint64

func (b behind) Load() (applied, accepted uint64) { return 100, 100 + uint64(b) }

// feed has the counts of the ranks before the first without one: a table ends
// somewhere.
func (f *fleet) feed() *residentblocks.Feed {
	threads := make([]int, 0, len(f.resident))
	var progress []residentblocks.Progress
	for slot, n := range f.resident {
		if n == residentblocks.Absent {
			break
		}
		threads = append(threads, slot)
		b := behind(0)
		if f.backlog != nil {
			b = behind(f.backlog[slot])
		}
		progress = append(progress, b)
	}
	counters := indexer.NewResidentCounters(threads, indexer.Packed)
	for slot := range threads {
		counters.Store(indexer.Slot(slot), f.resident[slot])
	}
	return residentblocks.NewFeed(counters, progress, slog.New(slog.DiscardHandler))
}

func (f *fleet) state() *policies.State {
	return &policies.State{Slots: len(f.resident), Cache: f, CapacityBlocks: f.capacity, ResidentBlocks: f.feed().Reader(),
		Load: policies.NewActiveLoad(len(f.resident), 8)}
}

// look is a picker that keeps the costs.
type look struct{ costs []float64 }

func (*look) Inputs() policies.Inputs { return policies.Cache }

func (l *look) Pick(_ *policies.View, costs []float64) int {
	l.costs = slices.Clone(costs)
	return 0
}

func (f *fleet) costs(s policies.Scorer) ([]float64, error) {
	l := &look{}
	p, err := policies.NewPipeline(policies.Recipe{
		Scorers: []policies.Weighted{{Name: "s", Scorer: s, Weight: 1}},
		Picker:  policies.Named[policies.Picker]{Name: "look", Component: l},
	}, 1)
	if err != nil {
		return nil, err
	}
	_, err = p.Select(&policies.Request{PromptTokens: f.prompt, BlockSize: 10, Allowed: f.rows}, f.state())
	return l.costs, err
}

func TestScorers(t *testing.T) {
	const none = residentblocks.Absent
	unbounded := math.Inf(1)
	for _, c := range []struct {
		name   string
		scorer policies.Scorer
		fleet  fleet
		want   []float64
	}{
		{"fill", NewFill(unbounded), fleet{capacity: []uint32{100, 200, 50}, resident: []uint32{50, 50, 80}}, []float64{0.5, 0.25, 1}},
		{"fill: absent is the mean, 0 is 0", NewFill(unbounded), fleet{capacity: []uint32{100, 100, 100}, resident: []uint32{0, 50, none}}, []float64{0, 0.5, 0.25}},
		{"fill: unknown capacity", NewFill(unbounded), fleet{capacity: []uint32{100, 0}, resident: []uint32{50, 10}}, []float64{0.5, 0.5}},
		{"fill: nothing known", NewFill(unbounded), fleet{capacity: []uint32{100, 100}, resident: []uint32{none, none}}, []float64{0, 0}},
		{"fill: stale", NewFill(3), fleet{capacity: []uint32{100, 100, 100}, resident: []uint32{25, 75, 90}, backlog: []uint64{0, 3, 4}}, []float64{0.25, 0.75, 0.5}},
		{"fill: fresh alone", NewFill(0), fleet{capacity: []uint32{100, 100}, resident: []uint32{20, 40}, backlog: []uint64{0, 1}}, []float64{0.2, 0.2}},

		// A prompt of 95 tokens takes 10 blocks: 95+10-100, 95+10-6-100, 90+10-100.
		{"evictions", NewEvictions(false, unbounded), fleet{prompt: 95, capacity: []uint32{100, 100, 100, 100}, resident: []uint32{95, 95, 90, 100}, overlap: []uint32{0, 6, 0, 10}}, []float64{5, 0, 0, 0}},
		{"evictions per capacity", NewEvictions(true, unbounded), fleet{prompt: 100, capacity: []uint32{100, 200}, resident: []uint32{100, 200}}, []float64{0.1, 0.05}},
		{"evictions: absent is the mean, 0 is 0", NewEvictions(false, unbounded), fleet{prompt: 100, capacity: []uint32{100, 8, 100}, resident: []uint32{100, 0, none}}, []float64{10, 2, 6}},
		{"evictions: unknown capacity", NewEvictions(true, unbounded), fleet{prompt: 100, capacity: []uint32{100, 0}, resident: []uint32{100, 0}}, []float64{0.1, 0.1}},
		{"evictions: stale", NewEvictions(false, 0), fleet{prompt: 100, capacity: []uint32{100, 100, 100}, resident: []uint32{92, 98, 100}, backlog: []uint64{0, 0, 1}}, []float64{2, 8, 5}},
		{"evictions: some rows", NewEvictions(false, unbounded), fleet{prompt: 100, rows: []indexer.Slot{0, 2}, capacity: []uint32{100, 100, 100}, resident: []uint32{92, 98, none}}, []float64{2, 2}},
	} {
		got, err := c.fleet.costs(c.scorer)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v (%v), want %v", c.name, got, err, c.want)
		}
	}
}

// TestAgainstPlainRule compares with the rule written down with maps and big
// loops.
func TestAgainstPlainRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "ranks")
		present := rapid.IntRange(0, n).Draw(t, "with a count")
		f := fleet{prompt: rapid.IntRange(0, 400).Draw(t, "tokens")}
		blocks := (f.prompt + 9) / 10
		for slot := range n {
			f.capacity = append(f.capacity, rapid.Uint32Range(0, 60).Draw(t, "capacity"))
			f.overlap = append(f.overlap, uint32(rapid.IntRange(0, blocks).Draw(t, "overlap")))
			f.backlog = append(f.backlog, rapid.Uint64Range(0, 4).Draw(t, "backlog"))
			r := rapid.Uint32Range(0, 70).Draw(t, "resident")
			if slot >= present {
				r = residentblocks.Absent
			}
			f.resident = append(f.resident, r)
			if rapid.Bool().Draw(t, "allowed") {
				f.rows = append(f.rows, indexer.Slot(slot))
			}
		}
		rows := f.rows
		if rows == nil {
			for slot := range n {
				rows = append(rows, indexer.Slot(slot))
			}
		}
		stale := rapid.SampledFrom([]float64{math.Inf(1), 0, 2}).Draw(t, "stale")
		per := rapid.Bool().Draw(t, "per capacity")
		known := map[indexer.Slot]bool{}
		for _, slot := range rows {
			known[slot] = f.resident[slot] != residentblocks.Absent && f.capacity[slot] > 0 && float64(f.backlog[slot]) <= stale
		}
		for name, rule := range map[string]func(slot indexer.Slot) float64{
			"fill": func(slot indexer.Slot) float64 {
				return math.Min(1, float64(f.resident[slot])/float64(f.capacity[slot]))
			},
			"evictions": func(slot indexer.Slot) float64 {
				over := int(f.resident[slot]) + blocks - int(f.overlap[slot]) - int(f.capacity[slot])
				if over < 0 {
					return 0
				}
				if per {
					return float64(over) / float64(f.capacity[slot])
				}
				return float64(over)
			},
		} {
			var sum, count float64
			for _, slot := range rows {
				if known[slot] {
					sum += rule(slot)
					count++
				}
			}
			var want []float64
			for _, slot := range rows {
				switch {
				case known[slot]:
					want = append(want, rule(slot))
				case count > 0:
					want = append(want, sum/count)
				default:
					want = append(want, 0)
				}
			}
			scorer := policies.Scorer(NewFill(stale))
			if name == "evictions" {
				scorer = NewEvictions(per, stale)
			}
			got, err := f.costs(scorer)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%s: %v (%v), want %v", name, got, err, want)
			}
		}
	})
}

// tooMuch reads with a scorer what it does not declare.
type tooMuch struct {
	policies.Scorer
	in policies.Inputs
}

func (s tooMuch) Inputs() policies.Inputs { return s.in }

func TestUndeclaredReadsFail(t *testing.T) {
	f := fleet{prompt: 10, capacity: []uint32{9}, resident: []uint32{9}}
	for _, in := range []policies.Inputs{policies.Cache, policies.Capacity, policies.ExperimentalResidentBlocks} {
		s := NewEvictions(false, math.Inf(1))
		// Beside a component that declares everything.
		all := policies.Weighted{Name: "all", Scorer: NewEvictions(false, math.Inf(1)), Weight: 1}
		p, err := policies.NewPipeline(policies.Recipe{
			Scorers: []policies.Weighted{all, {Name: "s", Scorer: tooMuch{s, s.Inputs() &^ in}, Weight: 1}},
			Picker:  policies.Named[policies.Picker]{Name: "min", Component: policies.LeastCost{}},
		}, 1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Select(&policies.Request{PromptTokens: f.prompt, BlockSize: 10}, f.state())
		var broken *policies.ComponentError
		if !errors.As(err, &broken) || broken.Component != "scorer s" || !strings.Contains(broken.Problem, in.String()) {
			t.Errorf("%v: %v", in, err)
		}
	}
}

func TestWarmScoresDoNotAllocate(t *testing.T) {
	f := fleet{prompt: 100}
	for slot := range 500 {
		f.capacity = append(f.capacity, 100)
		f.resident = append(f.resident, uint32(slot%120))
		f.overlap = append(f.overlap, uint32(slot%7))
	}
	for _, stale := range []float64{math.Inf(1), 10} {
		p, err := policies.NewPipeline(policies.Recipe{
			Scorers: []policies.Weighted{{Name: "fill", Scorer: NewFill(stale), Weight: 1}, {Name: "evictions", Scorer: NewEvictions(false, stale), Weight: 1}},
			Picker:  policies.Named[policies.Picker]{Name: "min", Component: policies.LeastCost{}},
		}, 1)
		if err != nil {
			t.Fatal(err)
		}
		r, s := &policies.Request{PromptTokens: f.prompt, BlockSize: 10}, f.state()
		s.Cache = &touched{f.overlap, f.Touched()}
		if n := testing.AllocsPerRun(100, func() {
			if _, err := p.Select(r, s); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Error(fmt.Sprint(stale), n, "allocations")
		}
	}
}

type touched struct {
	scores []uint32
	slots  []indexer.Slot
}

func (a *touched) Scores() []uint32        { return a.scores }
func (a *touched) Touched() []indexer.Slot { return a.slots }
