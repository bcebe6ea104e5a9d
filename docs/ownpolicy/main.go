// Command ownpolicy is kvbench with a policy and a scorer of its own beside the
// built-in ones.
package main

import (
	"os"

	"github.com/kvbench/kvbench"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/catalogue"
)

func main() {
	os.Exit(kvbench.Main(os.Args, kvbench.Extensions{Policies: []catalogue.Definition{{
		Name: "fewest-blocks", Summary: "the rank whose active requests hold the fewest blocks",
		Build: func(catalogue.Values) (policies.Recipe, error) {
			return policies.Recipe{Picker: policies.Named[policies.Picker]{Component: fewestBlocks{}}}, nil
		},
	}, justChosen()}}))
}

// fewestBlocks reads LOAD, and can read nothing else.
type fewestBlocks struct{}

func (fewestBlocks) Inputs() policies.Inputs { return policies.Load }

func (fewestBlocks) Pick(v *policies.View, costs []float64) int {
	load, rows, best, ties := v.Load(), v.Rows(), 0, 0
	for row, slot := range rows {
		switch d := load.DecodeBlocks[slot] - load.DecodeBlocks[rows[best]]; {
		case !load.Known[slot]: // nobody knows what it does, so it is not idle
		case ties == 0 || d < 0:
			best, ties = row, 1
		case d == 0:
			if ties++; v.Rand().IntN(ties) == 0 {
				best = row
			}
		}
	}
	if ties == 0 {
		best = v.Rand().IntN(len(rows))
	}
	return best
}
