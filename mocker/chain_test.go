package mocker

import (
	"slices"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// TestChainIsTheEnginesOwn: a chain has the hashes that RunRank tells.
func TestChainIsTheEnginesOwn(t *testing.T) {
	tr := newTrace(t, 8, turn("", 0, nan, 30, 20, 5, 6, 7, 8), turn("", 1e6, nan, 8, 1, 9))
	var sequences []indexer.SequenceHash
	var locals []indexer.LocalHash
	if _, err := RunRank(t.Context(), tr, []int{0}, Config{GPUBlocks: 100, BlockSize: 4, Seed: 3, Time: steady{1, 1}}, recorder(func(ev *indexer.Event) {
		sequences = append(sequences, ev.Sequences...)
		locals = append(locals, ev.Locals...)
	})); err != nil {
		t.Fatal(err)
	}
	var c Chain
	c.Start(tr, 1, 4, 3)
	c.Blocks(8)
	c.Start(tr, 0, 4, 3)
	if c.Prompt() != 30 || c.BlockSize() != 4 {
		t.Errorf("a prompt of %d tokens in blocks of %d", c.Prompt(), c.BlockSize())
	}
	for _, tokens := range []int{26, 9, 45, 49} {
		if more := min(len(locals), tokens/4+1); !slices.Equal(c.Locals(4*more), locals[:more]) {
			t.Errorf("the first %d blocks alone are %v, want %v", more, c.Locals(4*more), locals[:more])
		}
		l, s := c.Blocks(tokens)
		if n := tokens / 4; !slices.Equal(l, locals[:n]) || !slices.Equal(s, sequences[:n]) {
			t.Errorf("the blocks of %d tokens are %v %v, want %v %v", tokens, l, s, locals[:n], sequences[:n])
		}
	}
}
