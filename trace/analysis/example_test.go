package analysis_test

import (
	"fmt"
	"math"

	"github.com/kvbench/kvbench/trace"
	"github.com/kvbench/kvbench/trace/analysis"
)

// Four prompts of blocks of 512 tokens, and what caches of several sizes hit.
func ExampleCollector() {
	c, err := analysis.NewCollector(512, analysis.Options{CacheBlocks: []int{1, 3, 100}})
	if err != nil {
		panic(err)
	}
	for i, ids := range [][]uint64{{1, 2, 3}, {1, 2, 4}, {7, 8}, {1, 2, 4}} {
		err := c.Add(&trace.Request{
			Timestamp: float64(10 * i), Delay: math.NaN(),
			InputLength: 512 * len(ids), OutputLength: 100, HashIDs: ids,
		})
		if err != nil {
			panic(err)
		}
	}
	info := c.Info()
	for _, h := range info.Caches {
		fmt.Printf("%d blocks: %d of %d references\n", h.CacheBlocks, h.Hits, h.References)
	}
	fmt.Printf("%d nodes, %d of them shared\n", info.Tree.Nodes, info.Tree.SharedNodes)
	// Output:
	// 1 blocks: 1 of 11 references
	// 3 blocks: 3 of 11 references
	// 100 blocks: 5 of 11 references
	// 6 nodes, 3 of them shared
}
