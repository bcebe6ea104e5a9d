package mocker

import (
	"math"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// Chain is the tokens of one request and the hashes of its full blocks: first
// those of the prompt, then of what an engine generates. Hashes are made when
// they are asked for. A Chain can be started again for another request and then
// reuses its memory.
type Chain struct {
	content   content
	size      int
	locals    []indexer.LocalHash
	sequences []indexer.SequenceHash
	path      []Stretch
}

// Start makes it the chain of a row of t in blocks of size tokens, without any
// hash yet. The content of generated tokens is drawn from seed and row. The ids
// of the row are borrowed.
func (c *Chain) Start(t *trace.Trace, row, size int, seed uint64) {
	in := t.Request(row)
	*c = Chain{
		content: content{
			ids:        in.HashIDs,
			traceBlock: t.BlockSize,
			// Tokens that no id names have no content to hash.
			prompt: min(in.InputLength, len(in.HashIDs)*t.BlockSize),
			output: mix(seed, uint64(row)),
		},
		size:      size,
		locals:    c.locals[:0],
		sequences: c.sequences[:0],
		path:      c.path[:0],
	}
}

// Prompt returns the length of the prompt in tokens.
func (c *Chain) Prompt() int { return c.content.prompt }

// BlockSize returns the tokens of a block.
func (c *Chain) BlockSize() int { return c.size }

// Locals returns the hashes of the full blocks of the first tokens tokens, each of
// its block alone. They are valid until the chain is started again.
func (c *Chain) Locals(tokens int) []indexer.LocalHash {
	n := tokens / c.size
	if n > math.MaxInt32 {
		panic("mocker: a chain of more than 2^31 blocks")
	}
	for i := len(c.locals); i < n; i++ {
		c.locals = append(c.locals, c.content.local(i*c.size, (i+1)*c.size))
	}
	return c.locals[:n:n]
}

// Blocks returns the same hashes and those of the sequences up to each block, for
// as long.
func (c *Chain) Blocks(tokens int) ([]indexer.LocalHash, []indexer.SequenceHash) {
	locals := c.Locals(tokens)
	for i := len(c.sequences); i < len(locals); i++ {
		var parent indexer.SequenceHash
		if i > 0 {
			parent = c.sequences[i-1]
		}
		c.sequences = append(c.sequences, sequence(parent, i > 0, locals[i]))
	}
	n := len(locals)
	return locals, c.sequences[:n:n]
}
