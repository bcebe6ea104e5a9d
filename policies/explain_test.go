package policies_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/catalogue"
)

// overlaps is an answer of an index.
type overlaps []uint32

func (o overlaps) Scores() []uint32 { return o }
func (o overlaps) Touched() []indexer.Slot {
	var out []indexer.Slot
	for slot, n := range o {
		if n > 0 {
			out = append(out, indexer.Slot(slot))
		}
	}
	return out
}

// TestExplain: what is explained is what is then chosen, with its cost, and
// explaining changes nothing that is chosen later.
func TestExplain(t *testing.T) {
	for _, text := range []string{
		"round-robin", "random", "power-of-two", "kv", "kv:temperature=0.7", "prefix-threshold",
		"filter(requests-below:2) score(cache=1,load(by=tokens)=0.5) pick(min)",
	} {
		p, err := catalogue.Parse(text, catalogue.Standard())
		if err != nil {
			t.Fatal(err)
		}
		explained, err := p.New(7)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := p.New(7)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		a, b := policies.NewActiveLoad(4, 16), policies.NewActiveLoad(4, 16)
		for id := range uint64(50) {
			cache := make(overlaps, 4)
			for i := range cache {
				cache[i] = rng.Uint32N(5)
			}
			locals := []indexer.LocalHash{1, indexer.LocalHash(id % 3), 3, indexer.LocalHash(id)}
			req := &policies.Request{ID: id, PromptTokens: 70, BlockSize: 16, Locals: locals}
			state := func(l *policies.ActiveLoad) *policies.State {
				return &policies.State{Slots: 4, Cache: cache, Load: l, CapacityBlocks: make([]uint32, 4), Sessions: policies.NewSessions(1, 0)}
			}
			e, err := explained.Explain(req, state(a))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			choice, err := explained.Select(req, state(a))
			if err != nil {
				t.Fatal(err)
			}
			want, err := plain.Select(req, state(b))
			if err != nil {
				t.Fatal(err)
			}
			if choice != e.Choice || choice != want {
				t.Fatalf("%s: explained %+v, chosen %+v, without explanation %+v", text, e.Choice, choice, want)
			}
			in := explained.Inputs()
			if in.Has(policies.Cache) != (e.Cache != nil) || in.Has(policies.Load) != (e.Load != nil) || e.Cache != nil && !slices.Equal(e.Cache, cache) {
				t.Fatalf("%s reads %v: %+v", text, in, e)
			}
			row := slices.Index(e.Rows, choice.Slot)
			if row < 0 || len(e.Rows)+len(e.Dropped) != 4 || (len(e.Total) > 0) != (len(e.Terms) > 0) {
				t.Fatalf("%s: %+v", text, e)
			}
			if len(e.Total) > 0 {
				sum := 0.0
				for _, term := range e.Terms {
					sum += term.Weight * term.Costs[row]
				}
				if math.Abs(sum-e.Total[row]) > 1e-9 || math.Abs(sum-choice.Cost) > 1e-9 {
					t.Fatalf("%s: terms give %g, total %g, cost %g", text, sum, e.Total[row], choice.Cost)
				}
			}
			for _, side := range []struct {
				p *policies.Pipeline
				l *policies.ActiveLoad
			}{{explained, a}, {plain, b}} {
				side.p.Commit(req, choice.Slot)
				if err := side.l.Dispatch(req, choice.Slot, 0); err != nil {
					t.Fatal(err)
				}
				if id > 5 {
					side.l.Finish(id - 5)
				}
			}
		}
	}
}

// TestExplainFailure: a selection that fails fails the same, and says what dropped
// the candidates.
func TestExplainFailure(t *testing.T) {
	p, err := catalogue.Parse("filter(requests-below(max=1,none=refuse)) score(load=1) pick(min)", catalogue.Standard())
	if err != nil {
		t.Fatal(err)
	}
	pl, err := p.New(1)
	if err != nil {
		t.Fatal(err)
	}
	load := policies.NewActiveLoad(2, 4)
	state := &policies.State{Slots: 2, Load: load}
	for slot := range indexer.Slot(2) {
		if err := load.Dispatch(&policies.Request{ID: uint64(slot), PromptTokens: 10, BlockSize: 16}, slot, 0); err != nil {
			t.Fatal(err)
		}
	}
	req := &policies.Request{ID: 9, PromptTokens: 10, BlockSize: 16}
	e, err := pl.Explain(req, state)
	_, want := pl.Select(req, state)
	if err == nil || want == nil || err.Error() != want.Error() || len(e.Dropped) != 2 || len(e.Rows) != 0 {
		t.Errorf("%v, want %v; %+v", err, want, e)
	}
}
