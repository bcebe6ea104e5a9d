package main

import (
	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/catalogue"
)

// justChosen is a scorer with a parameter and a memory, for policies such as
// score(cache=1,just-chosen(half=8)=0.5) pick(min).
func justChosen() catalogue.Definition {
	return catalogue.Definition{
		Kind: catalogue.KindScorer, Name: "just-chosen", Summary: "how lately a rank was chosen, 0 to 1",
		Params: []catalogue.Param{{Name: "half", Doc: "choices after which the cost is a half", Default: "8", Max: 1e6, Above: true}},
		Build: func(v catalogue.Values) (policies.Recipe, error) {
			return policies.Recipe{Scorers: []policies.Weighted{{Scorer: &recency{half: v.Float("half")}}}}, nil
		},
	}
}

// recency has the memory of one router.
type recency struct {
	half    float64
	choices uint64
	last    []uint64 // by slot: the number of the choice; 0: never
}

func (*recency) Inputs() policies.Inputs { return 0 } // it reads nothing of the ranks

func (s *recency) Score(v *policies.View, costs []float64) {
	for row, slot := range v.Rows() {
		costs[row] = 0
		if int(slot) < len(s.last) && s.last[slot] > 0 {
			costs[row] = s.half / (s.half + float64(s.choices-s.last[slot]))
		}
	}
}

// Commit makes it a policies.Committer. Only here may the memory change: what was
// scored need not have been chosen.
func (s *recency) Commit(_ *policies.Request, slot indexer.Slot) {
	for int(slot) >= len(s.last) {
		s.last = append(s.last, 0)
	}
	s.choices++
	s.last[slot] = s.choices
}
