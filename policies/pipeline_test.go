package policies

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// scorerFunc is a scorer made for a test.
type scorerFunc struct {
	in    Inputs
	score func(v *View, costs []float64)
}

func (s scorerFunc) Inputs() Inputs                 { return s.in }
func (s scorerFunc) Score(v *View, costs []float64) { s.score(v, costs) }

type filterFunc struct {
	in   Inputs
	keep func(v *View, keep []bool)
}

func (f filterFunc) Inputs() Inputs            { return f.in }
func (f filterFunc) Keep(v *View, keep []bool) { f.keep(v, keep) }

type pickerFunc func(v *View, costs []float64) int

func (pickerFunc) Inputs() Inputs                      { return 0 }
func (p pickerFunc) Pick(v *View, costs []float64) int { return p(v, costs) }

// found is an answer of an index.
type found struct {
	scores  []uint32
	touched []indexer.Slot
}

func (f *found) Scores() []uint32        { return f.scores }
func (f *found) Touched() []indexer.Slot { return f.touched }

func least() Named[Picker] { return Named[Picker]{"min", LeastCost{}} }

func overlapScorer() scorerFunc {
	return scorerFunc{Cache, func(v *View, costs []float64) {
		c := v.Cache()
		for row, slot := range v.Rows() {
			costs[row] = -float64(c.Overlap[slot])
		}
	}}
}

func loadScorer() scorerFunc {
	return scorerFunc{Load, func(v *View, costs []float64) {
		c := v.Load()
		for row, slot := range v.Rows() {
			costs[row] = float64(c.Requests[slot])
		}
	}}
}

func pipeline(t testing.TB, r Recipe) *Pipeline {
	t.Helper()
	p, err := NewPipeline(r, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request() *Request { return &Request{ID: 1, PromptTokens: 64, BlockSize: 16} }

func TestEligibility(t *testing.T) {
	yes := func(n int, slots ...int) []bool {
		b := make([]bool, n)
		for _, s := range slots {
			b[s] = true
		}
		return b
	}
	for _, tt := range []struct {
		name  string
		state State
		req   func(r *Request)
		want  []indexer.Slot
		err   error
		not   error
	}{
		{name: "all", state: State{Slots: 3}, want: []indexer.Slot{0, 1, 2}},
		{name: "dead", state: State{Slots: 3, Dead: yes(3, 1)}, want: []indexer.Slot{0, 2}},
		{name: "overloaded", state: State{Slots: 3, Overloaded: yes(3, 0)}, want: []indexer.Slot{1, 2}},
		{name: "no slots", state: State{}, err: ErrNoCandidates, not: ErrOverloaded},
		{name: "all dead", state: State{Slots: 2, Dead: yes(2, 0, 1)}, err: ErrNoCandidates, not: ErrOverloaded},
		{name: "all live ones overloaded", state: State{Slots: 2, Dead: yes(2, 0), Overloaded: yes(2, 1)}, err: ErrOverloaded, not: ErrNoCandidates},
		{name: "allowed", state: State{Slots: 4, Dead: yes(4, 3)}, req: func(r *Request) { r.Allowed = []indexer.Slot{3, 2, 0, 2, 9} }, want: []indexer.Slot{0, 2}},
		{name: "nobody allowed", state: State{Slots: 4}, req: func(r *Request) { r.Allowed = []indexer.Slot{} }, err: ErrNoCandidates},
		{name: "allowed one overloaded", state: State{Slots: 4, Overloaded: yes(4, 2)}, req: func(r *Request) { r.Allowed = []indexer.Slot{2} }, err: ErrOverloaded},
		{name: "tags", state: State{Slots: 3, RankTags: []TagSet{1, 3, 2}}, req: func(r *Request) { r.RequiredTags = 2 }, want: []indexer.Slot{1, 2}},
		{name: "tags without a column", state: State{Slots: 3}, req: func(r *Request) { r.RequiredTags = 2 }, err: ErrNoCandidates},
		{name: "pin", state: State{Slots: 3}, req: func(r *Request) { r.HasPin, r.Pinned = true, 2 }, want: []indexer.Slot{2}},
		{name: "pin of nobody", state: State{Slots: 3}, req: func(r *Request) { r.HasPin, r.Pinned = true, 3 }, err: ErrPinned, not: ErrOverloaded},
		{name: "pin of a dead rank", state: State{Slots: 3, Dead: yes(3, 2)}, req: func(r *Request) { r.HasPin, r.Pinned = true, 2 }, err: ErrPinned},
		{name: "pin of an overloaded rank", state: State{Slots: 3, Overloaded: yes(3, 2)}, req: func(r *Request) { r.HasPin, r.Pinned = true, 2 }, err: ErrOverloaded},
		{name: "pin that is not allowed", state: State{Slots: 3}, req: func(r *Request) { r.HasPin, r.Pinned, r.Allowed = true, 2, []indexer.Slot{1} }, err: ErrPinned},
		{name: "pin without the tag", state: State{Slots: 3}, req: func(r *Request) { r.HasPin, r.Pinned, r.RequiredTags = true, 2, 1 }, err: ErrPinned},
		{name: "column of another length", state: State{Slots: 3, Dead: yes(2)}, err: errAny},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rows []indexer.Slot
			p := pipeline(t, Recipe{Picker: Named[Picker]{"first", pickerFunc(func(v *View, _ []float64) int {
				rows = slices.Clone(v.Rows())
				if v.Dense() != (len(rows) == tt.state.Slots) {
					t.Errorf("dense: %v with %d of %d", v.Dense(), len(rows), tt.state.Slots)
				}
				return 0
			})}})
			r := request()
			if tt.req != nil {
				tt.req(r)
			}
			c, err := p.Select(r, &tt.state)
			if tt.err != nil {
				if err == nil || tt.err != errAny && !errors.Is(err, tt.err) || tt.not != nil && errors.Is(err, tt.not) {
					t.Fatalf("error %v, want %v", err, tt.err)
				}
				return
			}
			if err != nil || !slices.Equal(rows, tt.want) || c.Slot != tt.want[0] || c.Candidates != len(tt.want) {
				t.Fatalf("rows %v, choice %+v, %v; want %v", rows, c, err, tt.want)
			}
		})
	}
}

// errAny stands for any error.
var errAny = errors.New("any")

func TestEligibilityFollowsVersion(t *testing.T) {
	p := pipeline(t, Recipe{Picker: least()})
	s := State{Slots: 2, Dead: []bool{true, false}}
	for i := range 4 {
		c, err := p.Select(request(), &s)
		if want := indexer.Slot(1 - i%2); err != nil || c.Slot != want {
			t.Fatalf("chose %d, %v, want %d", c.Slot, err, want)
		}
		s.Dead[0], s.Dead[1] = s.Dead[1], s.Dead[0]
		s.Version++
	}
}

// begun counts the selections that an experimental input is part of.
type begun int

func (b *begun) Begin() { *b++ }

// TestExperimentalInputBegins sees that only declaring pipelines begin it, once a
// selection.
func TestExperimentalInputBegins(t *testing.T) {
	for in, want := range map[Inputs]begun{Cache: 0, Cache | ExperimentalResidentBlocks: 3} {
		scorer := scorerFunc{in, func(_ *View, costs []float64) { clear(costs) }}
		p := pipeline(t, Recipe{Scorers: []Weighted{{"a", scorer, 1}, {"b", scorer, 1}}, Picker: least()})
		got := new(begun)
		for range 3 {
			if _, err := p.Select(request(), &State{Slots: 2, ResidentBlocks: got}); err != nil {
				t.Fatal(err)
			}
		}
		if *got != want {
			t.Errorf("%v: begun %d times, want %d", in, *got, want)
		}
	}
}

// TestUndeclared gives each component every input and lets one of them read
// what only the other one declares.
func TestUndeclared(t *testing.T) {
	reads := map[Inputs]func(v *View){
		Cache:                      func(v *View) { v.Cache() },
		Load:                       func(v *View) { v.Load() },
		Capacity:                   func(v *View) { v.CapacityBlocks() },
		Session:                    func(v *View) { v.Session() },
		Tags:                       func(v *View) { v.Tags() },
		ExperimentalResidentBlocks: func(v *View) { v.Experimental(ExperimentalResidentBlocks) },
	}
	state := State{Slots: 2, Load: NewActiveLoad(2, 1), CapacityBlocks: make([]uint32, 2), Sessions: NewSessions(1, 0), RankTags: make([]TagSet, 2), ResidentBlocks: new(begun)}
	zero := func(v *View, costs []float64) { clear(costs) }
	for in, read := range reads {
		declares := Weighted{"declares", scorerFunc{allInputs, func(v *View, costs []float64) { read(v); clear(costs) }}, 1}
		for _, r := range []Recipe{
			{Scorers: []Weighted{declares, {"sneaks", scorerFunc{allInputs &^ in, func(v *View, costs []float64) { read(v); clear(costs) }}, 1}}, Picker: least()},
			{Scorers: []Weighted{declares}, Filters: []Named[Filter]{{"sneaks", filterFunc{allInputs &^ in, func(v *View, keep []bool) { read(v) }}}}, Picker: least()},
			{Scorers: []Weighted{declares, {"idle", scorerFunc{0, zero}, 1}}, Picker: Named[Picker]{"sneaks", pickerFunc(func(v *View, _ []float64) int { read(v); return 0 })}},
		} {
			_, err := pipeline(t, r).Select(request(), &state)
			var c *ComponentError
			if !errors.As(err, &c) || !strings.HasSuffix(c.Component, " sneaks") || !strings.Contains(c.Problem, in.String()) {
				t.Errorf("%v: %v", in, err)
			}
		}
		if _, err := pipeline(t, Recipe{Scorers: []Weighted{declares}, Picker: least()}).Select(request(), &state); err != nil {
			t.Errorf("%v, declared: %v", in, err)
		}
	}
}

func TestComponentsThatBreakRules(t *testing.T) {
	costs := func(c ...float64) Weighted {
		return Weighted{"bad", scorerFunc{0, func(_ *View, costs []float64) { copy(costs, c) }}, 1}
	}
	for name, tt := range map[string]struct {
		r       Recipe
		problem string
	}{
		"a cost is not set":  {Recipe{Scorers: []Weighted{costs(1)}, Picker: least()}, "slot 1 the cost NaN"},
		"a cost is infinite": {Recipe{Scorers: []Weighted{costs(1, math.Inf(-1))}, Picker: least()}, "slot 1 the cost -Inf"},
		"infinite, no weight": {Recipe{Scorers: []Weighted{{"bad", costs(1, math.Inf(1)).Scorer, 0}}, Picker: least()},
			"slot 1 the cost +Inf"},
		"the sum overflows": {Recipe{Scorers: []Weighted{{"good", costs(math.MaxFloat64, 0).Scorer, 1}, costs(math.MaxFloat64, 0)}, Picker: least()}, "sum of slot 0"},
		"row too high":      {Recipe{Picker: Named[Picker]{"bad", pickerFunc(func(*View, []float64) int { return 2 })}}, "row 2 of 2"},
		"row negative":      {Recipe{Picker: Named[Picker]{"bad", pickerFunc(func(*View, []float64) int { return -1 })}}, "row -1 of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline(t, tt.r).Select(request(), &State{Slots: 2})
			var c *ComponentError
			if !errors.As(err, &c) || !strings.HasSuffix(c.Component, " bad") || !strings.Contains(c.Problem, tt.problem) {
				t.Errorf("%v, want %q", err, tt.problem)
			}
		})
	}
	drop := filterFunc{0, func(_ *View, keep []bool) { clear(keep) }}
	if _, err := pipeline(t, Recipe{Filters: []Named[Filter]{{"all", drop}}, Picker: least()}).Select(request(), &State{Slots: 2}); !errors.Is(err, ErrNoCandidates) || !strings.Contains(err.Error(), "filter all") {
		t.Errorf("a filter that drops all: %v", err)
	}
}

func TestNewPipelineRefuses(t *testing.T) {
	resident := scorerFunc{ExperimentalResidentBlocks, func(_ *View, costs []float64) { clear(costs) }}
	for name, tt := range map[string]struct {
		r    Recipe
		want string
	}{
		"no picker":               {Recipe{}, "needs a picker"},
		"no name":                 {Recipe{Picker: Named[Picker]{"", LeastCost{}}}, "no name"},
		"negative weight":         {Recipe{Scorers: []Weighted{{"load", loadScorer(), -1}}, Picker: least()}, "load: weight -1"},
		"infinite weight":         {Recipe{Scorers: []Weighted{{"load", loadScorer(), math.Inf(1)}}, Picker: least()}, "weight +Inf"},
		"weight not a number":     {Recipe{Scorers: []Weighted{{"load", loadScorer(), math.NaN()}}, Picker: least()}, "weight NaN"},
		"unknown input":           {Recipe{Scorers: []Weighted{{"odd", scorerFunc{1 << 9, nil}, 1}}, Picker: least()}, "unknown(0x200)"},
		"resident, without cache": {Recipe{Scorers: []Weighted{{"resident", resident, 1}}, Picker: least()}, "RESIDENT_BLOCKS is read without CACHE"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewPipeline(tt.r, 1); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	p := pipeline(t, Recipe{Scorers: []Weighted{{"resident", resident, 1}, {"cache", overlapScorer(), 1}}, Picker: least()})
	if p.Inputs() != Cache|ExperimentalResidentBlocks {
		t.Errorf("inputs %v", p.Inputs())
	}
}

func TestSelectNeedsDeclaredState(t *testing.T) {
	for in, want := range map[Inputs]string{Load: "LOAD", Capacity: "CAPACITY", Session: "SESSION", Tags: "TAGS", Cache | ExperimentalResidentBlocks: "RESIDENT_BLOCKS"} {
		p := pipeline(t, Recipe{Scorers: []Weighted{{"s", scorerFunc{in, func(_ *View, costs []float64) { clear(costs) }}, 1}}, Picker: least()})
		if _, err := p.Select(request(), &State{Slots: 2}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v not given: %v", in, err)
		}
	}
	if _, err := pipeline(t, Recipe{Picker: least()}).Select(&Request{PromptTokens: 1}, &State{Slots: 1}); err == nil {
		t.Error("a block of 0 tokens is accepted")
	}
}

func TestCacheIsWholeColumn(t *testing.T) {
	p := pipeline(t, Recipe{Scorers: []Weighted{{"cache", overlapScorer(), 2}}, Picker: least()})
	s := State{Slots: 4, Cache: &found{scores: []uint32{0, 3, 1}, touched: []indexer.Slot{2, 1}}}
	if c, err := p.Select(request(), &s); err != nil || c.Slot != 1 || c.Overlap != 3 || c.Cost != -6 {
		t.Errorf("short scores: %+v, %v", c, err)
	}
	s.Cache = &found{}
	if c, err := p.Select(request(), &s); err != nil || c.Overlap != 0 || c.Cost != 0 {
		t.Errorf("no match after a match: %+v, %v", c, err)
	}
	s.Cache = nil
	if c, err := p.Select(request(), &s); err != nil || c.Overlap != 0 {
		t.Errorf("no index: %+v, %v", c, err)
	}
}

func TestFiltersInOrder(t *testing.T) {
	even := filterFunc{0, func(v *View, keep []bool) {
		for row, slot := range v.Rows() {
			keep[row] = slot%2 == 0
		}
	}}
	lastOut := filterFunc{0, func(v *View, keep []bool) {
		if v.Dense() || v.Candidates() != 0 {
			t.Error("what is left by a filter passes for all")
		}
		keep[len(keep)-1] = false
	}}
	p := pipeline(t, Recipe{
		Filters: []Named[Filter]{{"even", even}, {"last", lastOut}},
		Scorers: []Weighted{{"high", scorerFunc{0, func(v *View, costs []float64) {
			for row, slot := range v.Rows() {
				costs[row] = -float64(slot)
			}
		}}, 1}},
		Picker: least(),
	})
	for range 3 {
		if c, err := p.Select(request(), &State{Slots: 9}); err != nil || c.Slot != 6 || c.Candidates != 4 {
			t.Fatalf("%+v, %v", c, err)
		}
	}
}

func TestTiesAreUniformAndSeeded(t *testing.T) {
	const slots, n = 5, 20000
	draw := func(seed uint64) (slots5 [slots]int, order []indexer.Slot) {
		p, err := NewPipeline(Recipe{Picker: least()}, seed)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			c, err := p.Select(request(), &State{Slots: slots})
			if err != nil {
				t.Fatal(err)
			}
			slots5[c.Slot]++
			order = append(order, c.Slot)
		}
		return slots5, order
	}
	counts, first := draw(7)
	chi := 0.0
	for _, c := range counts {
		d := float64(c) - n/slots
		chi += d * d / (n / slots)
	}
	if chi > 18.5 { // 0.1% of uniform draws; the seed is fixed
		t.Errorf("counts %v", counts)
	}
	if _, again := draw(7); !slices.Equal(first, again) {
		t.Error("the same seed draws otherwise")
	}
	if _, other := draw(8); slices.Equal(first, other) {
		t.Error("another seed draws the same")
	}
}

// warm returns a pipeline over everything and a selection by it.
func warm(t testing.TB, slots int) func() {
	p := pipeline(t, Recipe{
		Filters: []Named[Filter]{{"not 0", filterFunc{Tags, func(v *View, keep []bool) { keep[0] = len(v.Tags()) == 0 }}}},
		Scorers: []Weighted{{"cache", overlapScorer(), 1}, {"load", loadScorer(), 0.5}},
		Picker:  least(),
	})
	l := NewActiveLoad(slots, 1000)
	r := request()
	r.Locals = []indexer.LocalHash{1, 2, 3}
	if err := l.Dispatch(r, 1, 0); err != nil {
		t.Fatal(err)
	}
	s := State{Slots: slots, Load: l, RankTags: make([]TagSet, slots), Cache: &found{scores: []uint32{1}, touched: []indexer.Slot{0}}}
	return func() {
		if _, err := p.Select(r, &s); err != nil {
			t.Error(err)
		}
	}
}

func TestWarmSelectionDoesNotAllocate(t *testing.T) {
	for _, slots := range []int{2, 32, 1024, 10000} {
		sel := warm(t, slots)
		sel()
		if n := testing.AllocsPerRun(100, sel); n != 0 {
			t.Errorf("%d candidates: %v allocations", slots, n)
		}
	}
}

// TestPartitions shows the race detector that pipelines share nothing.
func TestPartitions(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		sel := warm(t, 64)
		wg.Go(func() {
			for range 500 {
				sel()
			}
		})
	}
	wg.Wait()
}
