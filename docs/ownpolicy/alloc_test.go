package main

import (
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/catalogue"
)

// TestWarmSelectionAllocatesNothing chooses, books and ends requests on 8 ranks, of
// which two hold the beginning of the prompt.
func TestWarmSelectionAllocatesNothing(t *testing.T) {
	policy, err := catalogue.Parse("score(cache=1,just-chosen=0.5) pick(min)",
		catalogue.Merge(catalogue.Standard(), []catalogue.Definition{justChosen()}))
	if err != nil {
		t.Fatal(err)
	}
	pipeline, err := policy.New(1)
	if err != nil {
		t.Fatal(err)
	}
	const ranks = 8
	load := policies.NewActiveLoad(ranks, 64)
	for slot := range indexer.Slot(ranks) {
		load.SetKnown(slot)
	}
	var held indexer.Answer // what an index fills
	held.Set(2, 3)
	held.Set(5, 1)
	request := policies.Request{PromptTokens: 4 * 16, BlockSize: 16, Locals: []indexer.LocalHash{1, 2, 3, 4}}
	state := policies.State{Slots: ranks, Cache: &held, Load: load}

	chosen := map[indexer.Slot]int{}
	choose := func() {
		choice, err := pipeline.Select(&request, &state)
		if err != nil {
			t.Fatal(err)
		}
		chosen[choice.Slot]++
		if err := load.Dispatch(&request, choice.Slot, int(choice.Overlap)*request.BlockSize); err != nil {
			t.Fatal(err)
		}
		load.Finish(request.ID)
		pipeline.Commit(&request, choice.Slot)
		request.ID++
	}
	if allocations := testing.AllocsPerRun(1000, choose); allocations != 0 {
		t.Errorf("a selection allocates %v times", allocations)
	}
	// The longest match gets most, but not all: it was just chosen.
	if chosen[2] < 300 || len(chosen) < 2 {
		t.Errorf("chosen were %v", chosen)
	}
}
