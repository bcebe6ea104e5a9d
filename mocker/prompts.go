package mocker

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// Prompts is the full blocks of all prompts of a trace as one tree of stretches:
// sequences of blocks in which no two prompts part. A prompt is a way from the root
// that ends with a stretch. So blocks can be compared and looked for by the
// stretch, of which a prompt has a few, where it has hundreds of blocks.
//
// It is made once for a trace and a size of blocks and then only read; concurrent
// reads are safe. It has no hashes of blocks: its memory is in proportion to the
// requests of the trace.
type Prompts struct {
	trace    *trace.Trace
	size     int
	parts    []part
	last     []int32 // by row: the stretch that its prompt ends with, none if it has no full block
	children map[branch]int32
}

// part is a stretch.
type part struct {
	parent     int32
	start, end int32 // blocks from the start of a prompt
	row        int32 // one of those that have it
}

// branch is where a stretch begins: behind another and with a block.
type branch struct {
	parent int32
	local  indexer.LocalHash
}

// Stretch is a part of the way of a prompt, or the blocks of a request's answer.
type Stretch struct {
	// ID is equal for equal blocks behind equal blocks.
	ID int32
	// End is the number of the request's blocks up to the end of the stretch.
	End int32
}

// NewPrompts makes the tree of a trace's prompts in blocks of size tokens. It
// panics at more than 2^29 requests or prompts of more than 2^31 blocks.
func NewPrompts(t *trace.Trace, size int) *Prompts {
	if t.Len() > 1<<29 {
		panic(fmt.Sprintf("mocker: a tree of %d prompts", t.Len()))
	}
	p := &Prompts{trace: t, size: size, last: make([]int32, t.Len()), children: make(map[branch]int32, t.Len())}
	for row := range t.Len() {
		if row&0x3fff == 0x3fff {
			t.Unload()
		}
		p.last[row] = p.add(row)
	}
	p.children = nil
	return p
}

func (p *Prompts) content(row int, seed uint64) content {
	in := p.trace.Request(row)
	return content{
		ids:        in.HashIDs,
		traceBlock: p.trace.BlockSize,
		// Tokens that no id names have no content to hash.
		prompt: min(in.InputLength, len(in.HashIDs)*p.trace.BlockSize),
		output: mix(seed, uint64(row)),
	}
}

// add puts a row's prompt in and returns the stretch that it ends with.
func (p *Prompts) add(row int) int32 {
	c := p.content(row, 0)
	blocks, at, depth := int32(c.prompt/p.size), int32(none), int32(0)
	for depth < blocks {
		key := branch{at, p.local(&c, depth)}
		next, ok := p.children[key]
		if !ok {
			next = int32(len(p.parts))
			p.parts = append(p.parts, part{parent: at, start: depth, end: blocks, row: int32(row)})
			p.children[key] = next
			return next
		}
		s := p.parts[next]
		other := p.content(int(s.row), 0)
		n := p.common(&c, &other, depth+1, min(s.end, blocks))
		if n < s.end {
			upper := int32(len(p.parts))
			p.parts = append(p.parts, part{parent: at, start: s.start, end: n, row: s.row})
			p.children[key] = upper
			p.parts[next].parent, p.parts[next].start = upper, n
			p.children[branch{upper, p.local(&other, n)}] = next
			next = upper
		}
		at, depth = next, n
	}
	return at
}

func (p *Prompts) local(c *content, block int32) indexer.LocalHash {
	return c.local(int(block)*p.size, (int(block)+1)*p.size)
}

// common returns how many leading blocks two prompts have in common, up to most,
// given that the first from are.
func (p *Prompts) common(a, b *content, from, most int32) int32 {
	first := int(from) * p.size / a.traceBlock
	need := (int(most)*p.size + a.traceBlock - 1) / a.traceBlock
	for i := first; i < need; i++ {
		if a.ids[i] != b.ids[i] {
			return max(from, int32(i*a.traceBlock/p.size))
		}
	}
	return most
}

// Path appends the stretches of a row's prompt, from the root on.
func (p *Prompts) Path(row int, path []Stretch) []Stretch {
	first := len(path)
	for at := p.last[row]; at != none; at = p.parts[at].parent {
		path = append(path, Stretch{at, p.parts[at].end})
	}
	slices.Reverse(path[first:])
	return path
}

// StartIn is Start for a row of the trace that p was made of, and gives the chain
// a path.
func (c *Chain) StartIn(p *Prompts, row int, seed uint64) {
	c.Start(p.trace, row, p.size, seed)
	c.path = append(p.Path(row, c.path[:0]), Stretch{int32(len(p.parts) + row), math.MaxInt32})
}

// Path returns the stretches of the request's blocks: those of its prompt and one
// for all blocks with tokens of its answer, which no other request has. It is nil
// if the chain was not started with StartIn; it is valid until it is started
// again.
func (c *Chain) Path() []Stretch { return c.path }
