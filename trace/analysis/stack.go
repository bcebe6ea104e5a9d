package analysis

import "math/bits"

// stack holds blocks in the order of their last use and says how many others were
// used since: the stack distance of Mattson et al., "Evaluation techniques for
// storage hierarchies", IBM Systems Journal 9(2), 1970. An LRU cache of c blocks
// holds what has fewer than c others above it, so that one pass answers for all
// sizes.
//
// A request uses its blocks from the last to the first. Its first block is then
// the newest, and what an LRU cache evicts first of a prompt is its tail. A block
// is thus never above the block before it, and what a cache of any size holds of
// a prompt is contiguous from the root.
//
// Each use takes the next slot. A slot whose block was used again since is dead;
// live ones are bits of a bitmap, with a Fenwick tree over the number of those in
// each chunk. When the slots are used up, live ones are renumbered, so that memory
// grows with blocks and not with uses: 4 bytes a block, and a quarter of one for
// the bitmap.
type stack struct {
	slot    []uint32 // of each block; blocks are numbered from 1
	live    []uint64 // bitmap of slots
	fenwick []uint32 // number of live slots by chunk
	next    uint32   // first slot that was never used
	blocks  int
}

const (
	chunkSlots = 1024
	chunkWords = chunkSlots / 64
	leastSlots = 1 << 14
)

func newStack() *stack {
	s := &stack{slot: make([]uint32, 1)}
	s.resize(leastSlots)
	return s
}

// resize makes room for at least n slots, all free.
func (s *stack) resize(n int) {
	chunks := (n + chunkSlots - 1) / chunkSlots
	s.live = make([]uint64, chunks*chunkWords)
	s.fenwick = make([]uint32, chunks+1)
	s.next = 0
}

// above returns how many blocks were used after the one in the slot.
func (s *stack) above(slot uint32) int {
	chunk := int(slot / chunkSlots)
	upTo := 0
	for i := chunk; i > 0; i &= i - 1 {
		upTo += int(s.fenwick[i])
	}
	word := int(slot / 64)
	for w := chunk * chunkWords; w < word; w++ {
		upTo += bits.OnesCount64(s.live[w])
	}
	upTo += bits.OnesCount64(s.live[word] << (63 - slot%64))
	return s.blocks - upTo
}

// run is a number of blocks of a prompt, from block First on, counted from 0,
// whose distances are Distance, Distance+1, and so on.
type run struct {
	first, blocks int
	distance      int
}

// use moves the blocks of a prompt to the top, of which the first known ones have
// been used before, and appends the distances that these had to runs. A block
// without use is numbered one above all others.
func (s *stack) use(blocks []uint32, known int, runs []run) []run {
	for i := 0; i < known; {
		top := s.slot[blocks[i]]
		n := 1
		for i+n < known && s.slot[blocks[i+n]] == top-uint32(n) {
			n++
		}
		runs = append(runs, run{i, n, s.above(top)})
		i += n
	}
	// All distances are those before the request.
	for i := 0; i < known; {
		top := s.slot[blocks[i]]
		n := 1
		for i+n < known && s.slot[blocks[i+n]] == top-uint32(n) {
			n++
		}
		s.mark(top-uint32(n-1), n, false)
		i += n
	}
	s.blocks -= known
	if int(s.next)+len(blocks) > len(s.live)*64 {
		s.compact(len(blocks))
	}
	for range len(blocks) - known {
		s.slot = append(s.slot, 0)
	}
	for i := range blocks {
		s.slot[blocks[len(blocks)-1-i]] = s.next + uint32(i)
	}
	s.mark(s.next, len(blocks), true)
	s.next += uint32(len(blocks))
	s.blocks += len(blocks)
	return runs
}

// mark makes n slots live or dead.
func (s *stack) mark(slot uint32, n int, live bool) {
	for n > 0 {
		chunk := slot / chunkSlots
		take := min(n, int((chunk+1)*chunkSlots-slot))
		for done := 0; done < take; {
			at := slot + uint32(done)
			width := min(take-done, 64-int(at%64))
			mask := ^uint64(0) >> (64 - width) << (at % 64)
			if live {
				s.live[at/64] |= mask
			} else {
				s.live[at/64] &^= mask
			}
			done += width
		}
		delta := uint32(take)
		if !live {
			delta = -delta
		}
		for i := int(chunk) + 1; i < len(s.fenwick); i += i & -i {
			s.fenwick[i] += delta
		}
		slot += uint32(take)
		n -= take
	}
}

// compact renumbers the live slots from 0, in their order, and makes room for as
// many again and the extra ones.
func (s *stack) compact(extra int) {
	before := make([]uint32, len(s.live)) // live slots in the words before
	sum := uint32(0)
	for w, word := range s.live {
		before[w] = sum
		sum += uint32(bits.OnesCount64(word))
	}
	for b := 1; b < len(s.slot); b++ {
		// What is dead gets a number too, which its next use replaces.
		slot := s.slot[b]
		s.slot[b] = before[slot/64] + uint32(bits.OnesCount64(s.live[slot/64]&(1<<(slot%64)-1)))
	}
	s.resize(max(leastSlots, 2*int(sum)+2*extra))
	s.mark(0, int(sum), true)
	s.next = sum
}
