package runs

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kvbench/kvbench/internal/hugepages"
)

// Memory is cut from chunks of words, on the Go heap or on huge pages. A chunk has pieces
// of one size; it is dropped when the last of them is free. A ref is the chunk's
// number and the word in it; 0 is no piece, since chunk 0 does not exist.
const (
	chunkBits  = 13
	chunkWords = 1 << chunkBits
	maxChunks  = 1 << (32 - chunkBits)
)

type ref = uint32

type chunk struct {
	words [chunkWords]uint64
}

// slab is what the allocator knows of a chunk; guarded by arena.mu.
type slab struct {
	size  uint16 // words of a piece, 0: no chunk
	used  uint16 // pieces given out
	cut   uint16 // pieces cut so far, given out or free
	free  uint16 // first free piece + 1; each holds the next one
	place int32  // position in the list of slabs with room, -1: full
}

// arena hands out pieces. Anyone may resolve a ref that was published to it;
// alloc and release may be called from any writer.
type arena struct {
	table atomic.Pointer[[]atomic.Pointer[chunk]]

	mu     sync.Mutex
	slabs  []slab
	unused []uint32 // numbers of chunks that do not exist
	room   [maxClass + 1][]uint32
	chunks int
	spare  *chunk          // one dropped chunk, so that a border case does not allocate
	limit  int             // chunks, lowered by tests
	huge   *hugepages.Pool // where chunks are from; nil: the Go heap
}

func (a *arena) init(huge *hugepages.Pool) {
	a.huge = huge
	table := make([]atomic.Pointer[chunk], 16)
	a.table.Store(&table)
	a.slabs = make([]slab, 1, 16)
	a.limit = maxChunks
}

// at returns the piece's words up to the end of its chunk.
func (a *arena) at(r ref) []uint64 {
	return (*a.table.Load())[r>>chunkBits].Load().words[r&(chunkWords-1):]
}

// Piece sizes: 1 to 8 units of 4 words, then 4 sizes a doubling up to half a
// chunk.
const (
	unit     = 4
	maxPiece = chunkWords / 2
	maxClass = 8 + 4*7 - 1
)

// classOf returns the smallest class with room for n words.
func classOf(n int) int {
	u := (n + unit - 1) / unit
	if u <= 8 {
		return max(u, 1) - 1
	}
	shift := bits.Len(uint(u-1)) - 3 // quarter of the doubling
	return 8 + 4*(shift-1) + (u-1)>>shift - 4
}

// classWords is the inverse of classOf: words of a piece.
func classWords(class int) int {
	if class < 8 {
		return (class + 1) * unit
	}
	k := class - 8
	return unit * (5 + k%4) << (k/4 + 1)
}

// alloc returns a piece of at least n words, n ≤ maxPiece. Its words are not
// zeroed.
func (a *arena) alloc(n int) ref {
	class := classOf(n)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.room[class]) == 0 {
		a.addChunk(class)
	}
	list := a.room[class]
	c := list[len(list)-1]
	s := &a.slabs[c]
	var piece uint16
	if s.free != 0 {
		piece = s.free - 1
		s.free = uint16(a.at(c<<chunkBits | uint32(piece)*uint32(s.size))[0])
	} else {
		piece = s.cut
		s.cut++
	}
	s.used++
	if s.free == 0 && int(s.cut+1)*int(s.size) > chunkWords {
		a.leaveRoom(class, s)
	}
	return c<<chunkBits | uint32(piece)*uint32(s.size)
}

func (a *arena) leaveRoom(class int, s *slab) {
	list := a.room[class]
	last := list[len(list)-1]
	list[s.place] = last
	a.slabs[last].place = s.place
	a.room[class] = list[:len(list)-1]
	s.place = -1
}

func (a *arena) enterRoom(class int, c uint32) {
	a.slabs[c].place = int32(len(a.room[class]))
	a.room[class] = append(a.room[class], c)
}

func (a *arena) addChunk(class int) {
	var c uint32
	if n := len(a.unused); n > 0 {
		c, a.unused = a.unused[n-1], a.unused[:n-1]
	} else {
		c = uint32(len(a.slabs))
		if int(c) >= a.limit {
			panic("runs: more than 32 GiB of runs; the index cannot address them")
		}
		a.slabs = append(a.slabs, slab{})
	}
	table := *a.table.Load()
	if int(c) >= len(table) {
		bigger := make([]atomic.Pointer[chunk], 2*len(table))
		for i := range table {
			bigger[i].Store(table[i].Load())
		}
		a.table.Store(&bigger)
		table = bigger
	}
	fresh := a.spare
	a.spare = nil
	if fresh == nil {
		fresh = a.newChunk()
	}
	table[c].Store(fresh)
	a.chunks++
	a.slabs[c] = slab{size: uint16(classWords(class))}
	a.enterRoom(class, c)
}

// newChunk returns a chunk with any content.
func (a *arena) newChunk() *chunk {
	if a.huge == nil {
		return new(chunk)
	}
	p, err := a.huge.Get()
	if err != nil {
		panic(fmt.Sprintf("runs: %v", err)) // as the Go heap does
	}
	return (*chunk)(p)
}

// release takes a piece back. Nobody may reach it any more.
func (a *arena) release(r ref) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := r >> chunkBits
	s := &a.slabs[c]
	class := classOf(int(s.size))
	s.used--
	if s.used == 0 {
		if s.place >= 0 {
			a.leaveRoom(class, s)
		}
		table := *a.table.Load()
		if a.spare == nil {
			a.spare = table[c].Load()
		} else if a.huge != nil {
			a.huge.Put(unsafe.Pointer(table[c].Load()))
		}
		table[c].Store(nil)
		*s = slab{}
		a.chunks--
		a.unused = append(a.unused, c)
		return
	}
	a.at(r)[0] = uint64(s.free)
	s.free = uint16(r&(chunkWords-1))/s.size + 1
	if s.place < 0 {
		a.enterRoom(class, c)
	}
}

// words returns the length of a piece.
func (a *arena) words(r ref) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int(a.slabs[r>>chunkBits].size)
}

// pieces returns how many are given out.
func (a *arena) pieces() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, s := range a.slabs {
		n += int(s.used)
	}
	return n
}

func (a *arena) bytes() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.chunks
	if a.spare != nil {
		n++
	}
	total := int64(n)*chunkWords*8 + int64(len(*a.table.Load()))*8 + int64(cap(a.slabs))*12 + int64(cap(a.unused))*4
	for _, list := range a.room {
		total += int64(cap(list)) * 4
	}
	return total
}
