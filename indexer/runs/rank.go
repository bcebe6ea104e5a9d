package runs

import (
	"slices"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
)

// rank is what only its event thread knows: which sequence hash names which
// place. The names of a segment lie beside each other in the order of its run, in
// a piece of the writer's arena; see the package comment.
//
// Its fields are in the order in which events need them: no cache has a rank when
// its event comes.
type rank struct {
	filter filter // says of most names that the rank does not have them
	hints  hints  // says of some names where they are

	segs    []segment // segment 0 is not used
	byRun   table     // run -> segment
	freeSeg uint32    // first free segment, chained by names
	oldest  uint8     // of ends

	// The victim that is expected next, 0 if its name is not known, and where.
	nextName uint64
	next     spot

	live   int // names in lanes
	bare   int // names that came since all were hinted: at most so many need a search
	credit int // lanes that searches may look at, see find
	stale  int // names that went and are in the filter
	eager  int // so many names to come before names are left in it again
	missed int // names that came since a search found that the filter erred

	// The last names of the last events that stored something: what continues
	// them comes soon. They get a hint when they leave the list.
	endNames [recentEnds]uint64
	ends     [recentEnds]spot

	// A second name of a place is an alias. Engines do not send any unless two
	// of their names collide in content, so they may be slow. So may the name 0,
	// which marks a lane without a name and is always an alias.
	aliases table // name -> segment << 32 | offset + 1
	extra   table // segment << 32 | offset + 1 -> its number of aliases

	slot indexer.Slot
	_    [512 - 388]byte // in steps of cache lines
}

const recentEnds = 8

// spot is a place as its rank knows it. Segment 0 is none.
type spot struct{ seg, off uint32 }

// segment is what a rank has of a run.
type segment struct {
	run   ref
	hold  holder
	names ref // piece of the writer's arena; 0: none

	room      uint16 // lanes of the piece
	length    uint16 // lanes in use; the last of them has a name
	cutoff    uint16 // places [0, cutoff) are held
	published uint16 // the cutoff that readers see
	resident  uint16 // places that are held

	upOff uint16 // the run hangs at this offset of
	up    uint32 // this segment, or did when this one was opened

	dirty   bool
	holed   bool // places behind the cutoff are held, as published
	receded bool // the event took places away from the run's end, perhaps
	hinted  bool // every name has a hint
}

// blocks returns the number of names.
func (r *rank) blocks() int { return r.live + r.aliases.used }

func mix(name uint64) uint64 {
	h := (name ^ name>>32) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// lanes returns the lanes in use of a segment.
func (w *Writer) lanes(s *segment) []uint64 {
	if s.length == 0 {
		return nil
	}
	return w.names.at(s.names)[:s.length]
}

// isNamed says whether a name is that of a spot's lane. Any spot may be asked for,
// one that does not exist any more too.
func (w *Writer) isNamed(r *rank, at spot, name uint64) bool {
	if int(at.seg) >= len(r.segs) {
		return false
	}
	s := &r.segs[at.seg]
	return at.off < uint32(s.length) && name != 0 && w.names.at(s.names)[at.off] == name
}

// A search that looks at few lanes is free. Others need credit: each name that is
// stored gives some. A search without it gives all names hints instead, so that an
// engine that asks for names nobody expects costs a hint for each name at most.
const (
	freeSearch   = 512
	searchCredit = 8
	maxCredit    = 1 << 19
	nearbySearch = 64 // lanes on each side of an expected place
)

// find returns where the lane of a name is.
func (w *Writer) find(r *rank, name uint64) (spot, bool) {
	if name == 0 || r.live == 0 {
		return spot{}, false
	}
	if at, ok := w.hinted(r, name); ok {
		return at, true
	}
	if !r.filter.has(mix(name)) {
		return spot{}, false
	}
	cost := min(r.bare, r.live)
	if cost == 0 {
		return spot{}, false
	}
	if cost > freeSearch {
		if r.credit < cost {
			w.hintAll(r)
			return w.hinted(r, name)
		}
		r.credit -= cost
	}
	for id := range r.segs {
		s := &r.segs[id]
		if s.run == 0 || s.hinted {
			continue
		}
		if off := slices.Index(w.lanes(s), name); off >= 0 {
			at := spot{uint32(id), uint32(off)}
			w.hint(r, name, at, true)
			return at, true
		}
	}
	w.erred(r)
	return spot{}, false
}

// nearby looks for a name around a place. Victims that come in any order are
// mostly of the same prompt.
func (w *Writer) nearby(r *rank, at spot, name uint64) (spot, bool) {
	if int(at.seg) >= len(r.segs) || name == 0 {
		return spot{}, false
	}
	lanes := w.lanes(&r.segs[at.seg])
	from := max(0, int(at.off)-nearbySearch)
	to := min(len(lanes), int(at.off)+nearbySearch)
	if from >= to {
		return spot{}, false
	}
	off := slices.Index(lanes[from:to], name)
	return spot{at.seg, uint32(from + off)}, off >= 0
}

// held returns the place of a name.
func (w *Writer) held(r *rank, name uint64) (spot, bool) {
	if at, ok := w.find(r, name); ok {
		return at, true
	}
	if v := r.aliases.get(name); v != 0 {
		return spot{uint32(v >> 32), uint32(v) - 1}, true
	}
	return spot{}, false
}

// hinted asks the expected victim, the recent ends and the hints for a name.
func (w *Writer) hinted(r *rank, name uint64) (spot, bool) {
	if r.nextName == name && w.isNamed(r, r.next, name) {
		return r.next, true
	}
	for i := range r.endNames {
		if r.endNames[i] == name && w.isNamed(r, r.ends[i], name) {
			return r.ends[i], true
		}
	}
	for p := r.hints.start(name); ; {
		at, ok := r.hints.next(&p)
		if !ok {
			return spot{}, false
		}
		if w.isNamed(r, at, name) {
			return at, true
		}
	}
}

// hint notes where a name is. A kept one outlives the making of new hints.
func (w *Writer) hint(r *rank, name uint64, at spot, kept bool) {
	if r.hints.full(1) {
		w.rehint(r, 1)
	}
	r.hints.add(name, at, kept)
}

// ended notes the last name that an event stored, which continues another one if
// parent is its name.
func (w *Writer) ended(r *rank, parent, name uint64, at spot) {
	if r.bare == 0 {
		return // all names have hints
	}
	for i := range r.endNames {
		if r.endNames[i] == parent {
			r.endNames[i], r.ends[i] = name, at
			return
		}
	}
	i := r.oldest
	r.oldest = (i + 1) % recentEnds
	w.hintEnd(r, r.endNames[i], r.ends[i])
	r.endNames[i], r.ends[i] = name, at
}

// hintEnd gives a hint to a name that was expected and did not come. Whether it is
// there still is not looked at, which would be a visit to memory more.
func (w *Writer) hintEnd(r *rank, name uint64, at spot) {
	if name != 0 && at.seg != 0 && r.bare > 0 {
		w.hint(r, name, at, false)
	}
}

// hintAll gives hints to all names.
func (w *Writer) hintAll(r *rank) {
	more := 0
	for id := range r.segs {
		if s := &r.segs[id]; s.run != 0 && !s.hinted {
			more += int(s.length)
		}
	}
	if r.hints.full(more) {
		w.rehint(r, more)
	}
	for id := range r.segs {
		s := &r.segs[id]
		if s.run == 0 || s.hinted {
			continue
		}
		w.hintLanes(r, uint32(id))
		s.hinted = true
	}
	r.bare = 0
}

func (w *Writer) hintLanes(r *rank, seg uint32) {
	for off, name := range w.lanes(&r.segs[seg]) {
		if name != 0 {
			r.hints.add(name, spot{seg, uint32(off)}, false)
		}
	}
}

// Cells for a hint when hints are made: those that were given one by one are soon
// out of date.
const (
	fewCells = 4
	allCells = 2
)

// rehint makes the hints anew, with room for more: those of segments in which
// every name has one, of the last name of the others, and the kept ones.
func (w *Writer) rehint(r *rank, more int) {
	w.kept = w.kept[:0]
	for _, c := range r.hints.cells {
		if c&keptHint == 0 {
			continue
		}
		at := spotOf(c)
		if int(at.seg) >= len(r.segs) || at.off >= uint32(r.segs[at.seg].length) {
			continue
		}
		if name := w.lanes(&r.segs[at.seg])[at.off]; name != 0 && tagOf(mix(name)) == c&hintTag {
			w.kept = append(w.kept, at)
		}
	}
	few, all := 0, more
	for id := range r.segs {
		if s := &r.segs[id]; s.hinted {
			all += int(s.length)
		} else if s.run != 0 {
			few++
		}
	}
	if len(w.kept) > few {
		w.kept = w.kept[:0] // they must not grow for ever
	}
	r.hints.make(allCells*all + fewCells*(few+len(w.kept)))
	for id := range r.segs {
		s := &r.segs[id]
		if s.length == 0 {
			continue
		}
		if s.hinted {
			w.hintLanes(r, uint32(id))
			continue
		}
		off := uint32(s.length) - 1
		r.hints.add(w.lanes(s)[off], spot{uint32(id), off}, false)
	}
	for _, at := range w.kept {
		r.hints.add(w.lanes(&r.segs[at.seg])[at.off], at, true)
	}
}

// reserve makes room for n more names in the filter.
func (w *Writer) reserve(r *rank, n int) {
	w.coming = n
	if r.filter.full(n) {
		w.refilter(r, n)
	}
}

// A name that goes stays in the filter, which saves a visit to memory that is in no
// cache. Where names come back that went a short while ago, each of them would need
// a search. So when the filter errs twice within errorsNear names, it is made anew,
// and names that go are taken out of it until eagerFor times as many came as there are.
const (
	errorsNear = 32
	eagerFor   = 1
	minEager   = 1024
)

// erred notes that the filter had a name that the rank has not.
func (w *Writer) erred(r *rank) {
	if r.stale > 0 && r.missed < errorsNear {
		w.refilter(r, w.coming)
		r.eager = max(minEager, eagerFor*r.live)
	}
	r.missed = 0
}

// refilter makes the filter anew, with room for n more names.
func (w *Writer) refilter(r *rank, n int) {
	r.filter.make(r.live + n)
	r.stale = 0
	for id := range r.segs {
		for _, name := range w.lanes(&r.segs[id]) {
			if name != 0 {
				r.filter.insert(mix(name))
			}
		}
	}
}

// makeRoom gives a segment n lanes or more. Those that were not in use have any
// content.
func (w *Writer) makeRoom(s *segment, n uint32) []uint64 {
	if uint32(s.room) < n {
		if s.room != 0 {
			n = min(maxRun, n+n/4) // it grows, and will again
		}
		w.moveNames(s, n)
	}
	return w.names.at(s.names)[:s.room]
}

func (w *Writer) moveNames(s *segment, n uint32) {
	to := w.names.alloc(max(1, int(n)))
	if s.names != 0 {
		copy(w.names.at(to)[:s.length], w.lanes(s))
		w.names.release(s.names)
	}
	s.names, s.room = to, uint16(classWords(classOf(max(1, int(n)))))
}

// slackLanes is how many unused lanes a segment may keep besides as many as it
// uses.
const slackLanes = 16

// trimLanes takes lanes without names off the end.
func trimLanes(s *segment, lanes []uint64) {
	n := int(s.length)
	for n > 0 && lanes[n-1] == 0 {
		n--
	}
	s.length = uint16(n)
}

func placeKey(at spot) uint64 { return uint64(at.seg)<<32 | uint64(at.off+1) }

// hasAlias says whether a place has a name besides that of its lane.
func (r *rank) hasAlias(at spot) bool {
	return r.extra.used != 0 && r.extra.get(placeKey(at)) != 0
}

func (r *rank) addAlias(name uint64, at spot) {
	key := placeKey(at)
	r.aliases.add(name, key)
	r.extra.add(key, r.extra.take(key)+1)
}

// takeAlias removes an alias and returns its place.
func (r *rank) takeAlias(name uint64) (spot, bool) {
	key := r.aliases.take(name)
	if key == 0 {
		return spot{}, false
	}
	if n := r.extra.take(key); n > 1 {
		r.extra.add(key, n-1)
	}
	return spot{uint32(key >> 32), uint32(key) - 1}, true
}

// isHeld says whether a place has a name.
func (w *Writer) isHeld(r *rank, at spot) bool {
	lanes := w.lanes(&r.segs[at.seg])
	return int(at.off) < len(lanes) && lanes[at.off] != 0 || r.hasAlias(at)
}

// advance moves the cutoff of a segment over what is held behind it.
func (w *Writer) advance(r *rank, seg uint32) {
	s := &r.segs[seg]
	for s.cutoff < s.resident && w.isHeld(r, spot{seg, uint32(s.cutoff)}) {
		s.cutoff++
	}
}

// segment returns the rank's segment of a run, 0 if it has none.
func (r *rank) segment(run ref) uint32 { return uint32(r.byRun.get(uint64(run))) }

// open makes a segment of a run that hangs at a place.
func (r *rank) open(run ref, hold holder, up spot) uint32 {
	id := r.freeSeg
	if id != 0 {
		r.freeSeg = r.segs[id].names
	} else {
		if len(r.segs) == 0 {
			r.segs = append(r.segs, segment{})
		}
		id = uint32(len(r.segs))
		if id > maxSegments {
			panic("runs: a rank has more than 2^27 segments, which hints cannot address")
		}
		r.segs = append(r.segs, segment{})
	}
	r.segs[id] = segment{run: run, hold: hold, up: up.seg, upOff: uint16(up.off)}
	r.byRun.add(uint64(run), uint64(id))
	return id
}

// close gives a segment up.
func (w *Writer) close(r *rank, id uint32) {
	s := &r.segs[id]
	if s.names != 0 {
		w.names.release(s.names)
	}
	r.byRun.take(uint64(s.run))
	r.segs[id] = segment{names: r.freeSeg}
	r.freeSeg = id
}

// shrink gives memory back after content went. What is kept is at most a few
// times what is used, so a rank whose content only changes does not allocate.
func (w *Writer) shrink(r *rank) {
	const small = 32
	if n := len(r.segs); n > small && 4*(r.byRun.used+1) < n {
		w.compactSegs(r)
	}
	if r.filter.wide(r.live) {
		w.refilter(r, 0)
	}
	if n := len(r.hints.cells); n > 8*minHints && n > 8*fewCells*(r.byRun.used+1) && n > 8*allCells*(r.live+1) {
		w.rehint(r, 0)
	}
}

// compactSegs moves the segments together.
func (w *Writer) compactSegs(r *rank) {
	segs := make([]segment, 1, r.byRun.used+1+r.byRun.used/4)
	byRun, moved := table{}, table{}
	for id, s := range r.segs {
		if s.run == 0 {
			continue
		}
		to := uint64(len(segs))
		segs = append(segs, s)
		byRun.add(uint64(s.run), to)
		moved.add(uint64(id), to)
	}
	for id := range segs {
		segs[id].up = uint32(moved.get(uint64(segs[id].up)))
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
	r.next.seg = uint32(moved.get(uint64(r.next.seg)))
	for i := range r.ends {
		r.ends[i].seg = uint32(moved.get(uint64(r.ends[i].seg)))
	}
	r.hints.used = 0
	clear(r.hints.cells)
	w.rehint(r, 0)
}

// bytes is the rank's memory without its names, which are the writer's.
func (r *rank) bytes() int64 {
	return int64(unsafe.Sizeof(*r)) + int64(cap(r.filter.words)+cap(r.hints.cells))*8 +
		int64(cap(r.segs))*int64(unsafe.Sizeof(segment{})) +
		int64(cap(r.byRun.cells)+cap(r.aliases.cells)+cap(r.extra.cells))*16
}
