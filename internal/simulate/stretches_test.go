package simulate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/trace"
)

// loadSpy is a picker that keeps the input LOAD.
type loadSpy struct{ shared, decode []int64 }

func (*loadSpy) Inputs() policies.Inputs { return policies.Load }

func (s *loadSpy) Pick(v *policies.View, _ []float64) int {
	l := v.Load()
	s.shared, s.decode = s.shared[:0], s.decode[:0]
	for i, n := range l.DecodeBlocks {
		s.decode = append(s.decode, n)
		s.shared = append(s.shared, int64(l.SharedBlocks[i]))
	}
	return 0
}

// TestStretchesAreBlocks books the same requests by their blocks and by their
// stretches: the account is the same at every step.
func TestStretchesAreBlocks(t *testing.T) {
	shared := int64(0)
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var rows []trace.Request
		for range 30 {
			ids := make([]uint64, 1+rng.IntN(8))
			for i := range ids {
				ids[i] = uint64(rng.IntN(2))
			}
			rows = append(rows, trace.Request{HashIDs: ids, InputLength: 6*len(ids) - rng.IntN(6)})
		}
		tr, err := trace.New(6, rows)
		if err != nil {
			t.Fatal(err)
		}
		size := 1 + rng.IntN(8)
		prompts := mocker.NewPrompts(tr, size)
		const slots = 3
		var accounts [2]*policies.ActiveLoad
		var spies [2]*loadSpy
		var pipelines [2]*policies.Pipeline
		for k := range accounts {
			accounts[k], spies[k] = policies.NewActiveLoad(slots, 0), &loadSpy{}
			if pipelines[k], err = policies.NewPipeline(policies.Recipe{Picker: policies.Named[policies.Picker]{Name: "spy", Component: spies[k]}}, 1); err != nil {
				t.Fatal(err)
			}
		}
		var active []uint64
		var chain mocker.Chain
		for row := range rows {
			chain.StartIn(prompts, row, 1)
			locals, _ := chain.Blocks(chain.Prompt())
			r := policies.Request{ID: uint64(row), PromptTokens: chain.Prompt(), Locals: locals, BlockSize: size}
			slot := indexer.Slot(rng.IntN(slots))
			for k, l := range accounts {
				if k == 1 {
					r.Locals, r.Stretches = nil, stretches(&chain, nil)
					if r.FullBlocks() != len(locals) {
						t.Fatalf("seed %d, row %d: %d full blocks, want %d", seed, row, r.FullBlocks(), len(locals))
					}
				}
				if _, err := pipelines[k].Select(&r, &policies.State{Slots: slots, Load: l}); err != nil {
					t.Fatal(err)
				}
				if err := l.Dispatch(&r, slot, 0); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(spies[0].shared, spies[1].shared) || !slices.Equal(spies[0].decode, spies[1].decode) {
				t.Fatalf("seed %d, row %d: by blocks %+v, by stretches %+v", seed, row, *spies[0], *spies[1])
			}
			for _, n := range spies[0].shared {
				shared += n
			}
			active = append(active, r.ID)
			for len(active) > 0 && rng.IntN(5) < 2 {
				i := rng.IntN(len(active))
				for _, l := range accounts {
					l.Finish(active[i])
				}
				active = slices.Delete(active, i, i+1)
			}
		}
	}
	if shared == 0 {
		t.Error("no prompt ever shared a block")
	}
}
