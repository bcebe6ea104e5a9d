package trace

// content numbers the blocks of prompts whose ids a trace does not give.
type content struct {
	blockSize int
	nextID    uint64
}

func (c *content) newID() uint64 {
	c.nextID++
	return c.nextID - 1
}

// prefix is content that prompts can share: ids of its full blocks, and the
// tokens after them.
type prefix struct {
	ids  []uint64
	tail int
}

func (p prefix) tokens(blockSize int) int { return len(p.ids)*blockSize + p.tail }

// extend returns p followed by n tokens that are nowhere else. Blocks that get
// full get new ids: what a partial block was called is not used again.
func (c *content) extend(p prefix, n int) prefix {
	full := (p.tail + n) / c.blockSize
	ids := make([]uint64, len(p.ids), len(p.ids)+full+1) // one more for prompt
	copy(ids, p.ids)
	for range full {
		ids = append(ids, c.newID())
	}
	return prefix{ids: ids, tail: (p.tail + n) % c.blockSize}
}

// prompt returns the ids of a prompt that ends with p, with one for its partial
// block.
func (c *content) prompt(p prefix) []uint64 {
	if p.tail == 0 {
		return p.ids
	}
	return append(p.ids[:len(p.ids):len(p.ids)], c.newID())
}
