package runs

import (
	"math/bits"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
)

// rank is what only its event thread knows: which sequence hash names which
// place. Names lie in granules of eight, in the order of their run, so that
// neighbours in a prompt are neighbours in memory; see the package comment.
type rank struct {
	slot indexer.Slot
	live int // names in granules

	// names[8*g+i] is lane i of granule g; granule 0 is not used, so position 0
	// is none.
	names    []uint64
	granules []granule
	freed    uint32 // first free granule, chained by next
	inUse    int    // granules

	// index finds positions by name; see probe.
	index   []uint32
	entries int  // cells that are not 0, stale ones included
	posBits uint // bits of a cell that are the position

	segs    []segment // segment 0 is not used
	freeSeg uint32    // first free segment, chained by head
	byRun   table     // run -> segment

	// A second name of a place is an alias. Engines do not send any unless two
	// of their names collide in content, so they may be slow.
	aliases table // name -> segment << 32 | offset + 1
	extra   table // segment << 32 | offset + 1 -> its number of aliases
}

// granule says where eight names belong.
type granule struct {
	seg        uint32
	next, prev uint32 // of the segment, by offset; 0: none
	ord        uint16 // offset of lane 0 / 8
	live       uint8  // lanes whose name is live
}

// segment is what a rank has of a run.
type segment struct {
	run        ref
	hold       holder
	head, tail uint32 // granules
	cutoff     uint32 // places [0, cutoff) are held
	published  uint32
	resident   uint32 // places that are held
	dirty      bool
	holed      bool // places behind the cutoff are held, as published
	receded    bool // the event took places away from the run's end, perhaps
}

// blocks returns the number of names.
func (r *rank) blocks() int { return r.live + r.aliases.used }

func mix(name uint64) uint64 {
	h := (name ^ name>>32) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// probe looks a name up. A cell holds a position and as many bits of the name's
// hash as have room beside it. Cells are only ever added: when a name goes, its
// cell stays behind and is recognised by the lane, which is not live or has
// another name. pos is 0 if the name has none, and cell is then where it may be
// added.
func (r *rank) probe(name uint64) (pos, cell, tag uint32) {
	h := mix(name)
	index := r.index
	i := uint32(uint64(uint32(h>>32)) * uint64(len(index)) >> 32)
	posMask := uint32(1)<<r.posBits - 1
	tag = uint32(h) &^ posMask
	for {
		if int(i) >= len(index) {
			i = 0
		}
		e := index[i]
		if e == 0 {
			return 0, i, tag
		}
		if e&^posMask == tag {
			pos = e & posMask
			if r.names[pos] == name && r.granules[pos/8].live>>(pos%8)&1 != 0 {
				return pos, i, tag
			}
		}
		i++
	}
}

// warmAhead is how many names are touched at a time.
const warmAhead = 64

// touch loads the cells where names begin to be looked for. The index of a rank
// is rarely in a cache when its event comes, and whether a cell is free cannot be
// guessed: looking names up one by one waits for one line after the other, while
// these loads wait together.
func (r *rank) touch(names []uint64) (sum uint32) {
	n := uint64(len(r.index))
	for _, name := range names {
		sum += r.index[uint64(uint32(mix(name)>>32))*n>>32]
	}
	return sum
}

// find returns the position of a name, 0 if it has none.
func (r *rank) find(name uint64) uint32 {
	if r.live == 0 {
		return 0
	}
	pos, _, _ := r.probe(name)
	return pos
}

// held returns the place of a name, as a segment and an offset.
func (r *rank) held(name uint64) (seg, off uint32, ok bool) {
	if pos := r.find(name); pos != 0 {
		g := &r.granules[pos/8]
		return g.seg, uint32(g.ord)*8 + pos%8, true
	}
	if v := r.aliases.get(name); v != 0 {
		return uint32(v >> 32), uint32(v) - 1, true
	}
	return 0, 0, false
}

// The index has cellsPerName cells for each name when it is made, and is made
// again when so many sixteenths of them are used. Every name that went leaves a
// cell behind: where as many go as come, 3/8 of the cells are filled between two
// makings, each of which fills 1/2.
const (
	cellsPerName = 2
	fullOf16     = 14
	minCells     = 32
)

// reserve makes room for n more names in the index, and positions for them.
func (r *rank) reserve(n int) {
	// Positions may grow by a granule for each name, if each is alone in one.
	most := uint64(len(r.granules)+n+1) * 8
	if 16*(r.entries+n) <= fullOf16*len(r.index) && most <= 1<<r.posBits {
		return
	}
	r.rebuild(n)
}

// rebuild makes the index anew, with room for n more names.
func (r *rank) rebuild(n int) {
	want := max(minCells, cellsPerName*(r.live+n))
	// An index that fits for a while is used again, so that a rank whose content
	// only changes does not allocate.
	if len(r.index) >= want*7/8 && len(r.index) <= 3*want {
		clear(r.index)
	} else {
		r.index = make([]uint32, want)
	}
	r.entries = 0
	r.posBits = uint(bits.Len64(uint64(len(r.granules)+n+1) * 8 * 2))
	if r.posBits > 32 {
		panic("runs: a rank holds more than 2^31 blocks, which the index cannot address")
	}
	for g := range r.granules {
		live := r.granules[g].live
		for ; live != 0; live &= live - 1 {
			pos := uint32(g)*8 + uint32(bits.TrailingZeros8(live))
			_, cell, tag := r.probe(r.names[pos])
			r.index[cell] = tag | pos
			r.entries++
		}
	}
}

// granuleAt returns the granule of a segment with that ordinal and makes it if it
// is missing. near is the last one of the segment that does not lie behind it, 0
// if there is none.
func (r *rank) granuleAt(seg, near uint32, ord uint16) uint32 {
	next := uint32(0)
	if near != 0 {
		if r.granules[near].ord == ord {
			return near
		}
		next = r.granules[near].next
	} else {
		next = r.segs[seg].head
	}
	if next != 0 && r.granules[next].ord == ord {
		return next
	}
	g := r.freed
	if g != 0 {
		r.freed = r.granules[g].next
	} else {
		if len(r.granules) == cap(r.granules) {
			r.grow()
		}
		g = uint32(len(r.granules))
		r.granules = r.granules[:g+1]
		r.names = r.names[:8*(g+1)]
	}
	r.inUse++
	r.granules[g] = granule{seg: seg, next: next, prev: near, ord: ord}
	s := &r.segs[seg]
	if near != 0 {
		r.granules[near].next = g
	} else {
		s.head = g
	}
	if next != 0 {
		r.granules[next].prev = g
	} else {
		s.tail = g
	}
	return g
}

// grow makes room for an eighth more granules. append would make more, and most
// of a rank's memory is here.
func (r *rank) grow() {
	n := max(1, len(r.granules))
	room := n + max(7, n/8)
	granules, names := make([]granule, n, room), make([]uint64, 8*n, 8*room)
	copy(granules, r.granules)
	copy(names, r.names)
	r.granules, r.names = granules, names
}

// release gives an empty granule back. Its prev and ord stay readable until one
// is made.
func (r *rank) release(g uint32) {
	gr := &r.granules[g]
	s := &r.segs[gr.seg]
	if gr.prev != 0 {
		r.granules[gr.prev].next = gr.next
	} else {
		s.head = gr.next
	}
	if gr.next != 0 {
		r.granules[gr.next].prev = gr.prev
	} else {
		s.tail = gr.prev
	}
	gr.next, r.freed = r.freed, g
	r.inUse--
}

// near returns the last granule of a segment that does not lie behind an offset.
func (r *rank) near(seg, off uint32) uint32 {
	g := r.segs[seg].tail
	for g != 0 && uint32(r.granules[g].ord)*8 > off {
		g = r.granules[g].prev
	}
	return g
}

// before and after return the neighbours of a position in its run, 0 if the rank
// has no granule there.
func (r *rank) before(pos uint32) uint32 {
	if pos%8 != 0 {
		return pos - 1
	}
	g := &r.granules[pos/8]
	if p := g.prev; p != 0 && r.granules[p].ord+1 == g.ord {
		return p*8 + 7
	}
	return 0
}

func (r *rank) after(pos uint32) uint32 {
	if pos%8 != 7 {
		return pos + 1
	}
	g := &r.granules[pos/8]
	if g.live == 0 {
		return 0 // it may have been given back, and next then means another thing
	}
	if n := g.next; n != 0 && r.granules[n].ord == g.ord+1 {
		return n * 8
	}
	return 0
}

// isNamed says whether the lane at a position is live and has that name.
func (r *rank) isNamed(pos uint32, name uint64) bool {
	return pos != 0 && r.names[pos] == name && r.granules[pos/8].live>>(pos%8)&1 != 0
}

func placeKey(seg, off uint32) uint64 { return uint64(seg)<<32 | uint64(off+1) }

// hasAlias says whether a place has a name besides that of its lane.
func (r *rank) hasAlias(seg, off uint32) bool {
	return r.extra.used != 0 && r.extra.get(placeKey(seg, off)) != 0
}

// isLive says whether the lane of a place has a name.
func (r *rank) isLive(seg, off uint32) bool {
	g := r.near(seg, off)
	return g != 0 && uint32(r.granules[g].ord) == off/8 && r.granules[g].live>>(off%8)&1 != 0
}

func (r *rank) addAlias(name uint64, seg, off uint32) {
	key := placeKey(seg, off)
	r.aliases.add(name, key)
	r.extra.add(key, r.extra.take(key)+1)
}

// takeAlias removes an alias and returns its place.
func (r *rank) takeAlias(name uint64) (seg, off uint32, ok bool) {
	key := r.aliases.take(name)
	if key == 0 {
		return 0, 0, false
	}
	if n := r.extra.take(key); n > 1 {
		r.extra.add(key, n-1)
	}
	return uint32(key >> 32), uint32(key) - 1, true
}

// advance moves the cutoff of a segment over what is held behind it. g is the last
// granule that does not lie behind the cutoff.
func (r *rank) advance(seg, g uint32) {
	s := &r.segs[seg]
	for s.cutoff < s.resident {
		ord := uint16(s.cutoff / 8)
		for g != 0 && r.granules[g].ord < ord {
			n := r.granules[g].next
			if n == 0 || r.granules[n].ord > ord {
				break
			}
			g = n
		}
		lane := s.cutoff % 8
		if g != 0 && r.granules[g].ord == ord && r.granules[g].live>>lane&1 != 0 {
			s.cutoff += uint32(min(bits.TrailingZeros8(^(r.granules[g].live >> lane)), int(8-lane)))
			continue
		}
		if !r.hasAlias(seg, s.cutoff) {
			return
		}
		s.cutoff++
	}
}

// segment returns the rank's segment of a run, 0 if it has none.
func (r *rank) segment(run ref) uint32 { return uint32(r.byRun.get(uint64(run))) }

// open makes a segment.
func (r *rank) open(run ref, hold holder) uint32 {
	id := r.freeSeg
	if id != 0 {
		r.freeSeg = r.segs[id].head
	} else {
		if len(r.segs) == 0 {
			r.segs = append(r.segs, segment{})
		}
		id = uint32(len(r.segs))
		r.segs = append(r.segs, segment{})
	}
	r.segs[id] = segment{run: run, hold: hold}
	r.byRun.add(uint64(run), uint64(id))
	return id
}

// close gives a segment up.
func (r *rank) close(id uint32) {
	r.byRun.take(uint64(r.segs[id].run))
	r.segs[id] = segment{head: r.freeSeg}
	r.freeSeg = id
}

// shrink gives memory back after content went. What is kept is at most a few
// times what is used, so a rank whose content only changes does not allocate.
func (r *rank) shrink() {
	const small = 32
	if n := len(r.granules); n > small && 4*(r.inUse+1) < n {
		r.compact()
	}
	if n := len(r.segs); n > small && 4*(r.byRun.used+1) < n {
		r.compactSegs()
	}
	if n := len(r.index); n > minCells && n > 6*cellsPerName*(r.live+1) {
		r.index = nil
		r.rebuild(0)
	}
}

// compact moves the granules together.
func (r *rank) compact() {
	granules := make([]granule, 1, r.inUse+1+r.inUse/4)
	names := make([]uint64, 8, 8*cap(granules))
	for id := range r.segs {
		s := &r.segs[id]
		if s.run == 0 {
			continue
		}
		prev, first := uint32(0), uint32(0)
		for g := s.head; g != 0; g = r.granules[g].next {
			at := uint32(len(granules))
			gr := r.granules[g]
			gr.prev, gr.next = prev, 0
			if prev != 0 {
				granules[prev].next = at
			} else {
				first = at
			}
			granules = append(granules, gr)
			names = append(names, r.names[8*g:8*g+8]...)
			prev = at
		}
		s.head, s.tail = first, prev
	}
	r.granules, r.names, r.freed = granules, names, 0
	r.rebuild(0)
}

// compactSegs moves the segments together.
func (r *rank) compactSegs() {
	segs := make([]segment, 1, r.byRun.used+1+r.byRun.used/4)
	byRun, moved := table{}, table{}
	for id := range r.segs {
		s := r.segs[id]
		if s.run == 0 {
			continue
		}
		to := uint32(len(segs))
		segs = append(segs, s)
		byRun.add(uint64(s.run), uint64(to))
		moved.add(uint64(id), uint64(to))
		for g := s.head; g != 0; g = r.granules[g].next {
			r.granules[g].seg = to
		}
	}
	if r.aliases.used > 0 {
		aliases, extra := table{}, table{}
		to := func(key uint64) uint64 { return moved.get(key>>32)<<32 | key&(1<<32-1) }
		for _, c := range r.aliases.cells {
			if c.value != 0 {
				aliases.add(c.key, to(c.value))
			}
		}
		for _, c := range r.extra.cells {
			if c.value != 0 {
				extra.add(to(c.key), c.value)
			}
		}
		r.aliases, r.extra = aliases, extra
	}
	r.segs, r.freeSeg, r.byRun = segs, 0, byRun
}

func (r *rank) bytes() int64 {
	return int64(unsafe.Sizeof(*r)) + int64(cap(r.names))*8 + int64(cap(r.granules))*int64(unsafe.Sizeof(granule{})) +
		int64(cap(r.index))*4 + int64(cap(r.segs))*int64(unsafe.Sizeof(segment{})) +
		int64(cap(r.byRun.cells)+cap(r.aliases.cells)+cap(r.extra.cells))*16
}
