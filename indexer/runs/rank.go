package runs

import (
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
)

// rank is what only its event thread knows.
type rank struct {
	slot  indexer.Slot
	names table      // sequence hash -> segment << 32 | offset + 1
	byRun table      // run -> segment + 1
	segs  []*segment // nil: free
	free  []uint32   // positions in segs
	spare []*segment // a few given up, to be used again
}

// held returns where a sequence hash is live.
func (r *rank) held(name uint64) (position, bool) {
	v := r.names.get(name)
	return r.position(v), v != 0
}

func (r *rank) position(v uint64) position {
	if v == 0 {
		return position{}
	}
	return position{r.segs[v>>32], uint32(v) - 1}
}

// segment returns the rank's segment of a run, nil if it has none.
func (r *rank) segment(run ref) *segment {
	if v := r.byRun.get(uint64(run)); v != 0 {
		return r.segs[v-1]
	}
	return nil
}

// open makes a segment.
func (r *rank) open(run ref, hold holder) *segment {
	var s *segment
	if n := len(r.spare); n > 0 {
		s, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		s = new(segment)
	}
	id := uint32(len(r.segs))
	if n := len(r.free); n > 0 {
		id, r.free = r.free[n-1], r.free[:n-1]
		r.segs[id] = s
	} else {
		r.segs = append(r.segs, s)
	}
	*s = segment{run: run, hold: hold, id: id, names: s.names[:0]}
	r.byRun.add(uint64(run), uint64(id)+1)
	return s
}

// What of given up segments is kept.
const (
	maxSpare      = 8
	maxSpareNames = 256
)

// close gives a segment up.
func (r *rank) close(s *segment) {
	r.byRun.take(uint64(s.run))
	r.segs[s.id] = nil
	r.free = append(r.free, s.id)
	if r.byRun.used == 0 {
		r.segs, r.free = r.segs[:0], r.free[:0]
		if cap(r.segs) > 64 {
			r.segs, r.free, r.spare = nil, nil, nil
		}
	}
	if len(r.spare) < maxSpare && cap(s.names) <= maxSpareNames {
		r.spare = append(r.spare, s)
	}
}

// position is a place: a segment of the rank and the offset in its run.
type position struct {
	seg *segment
	off uint32
}

// segment is what a rank has of a run.
type segment struct {
	run       ref
	id        uint32 // position in rank.segs
	hold      holder
	names     []uint32 // by offset: how many names the place has
	cutoff    uint32   // places [0, cutoff) are held
	published uint32
	resident  uint32 // places that are held
	dirty     bool
}

func (s *segment) add(off uint32) {
	for int(off) >= len(s.names) {
		s.names = append(s.names, 0)
	}
	if s.names[off]++; s.names[off] == 1 {
		s.resident++
	}
	for int(s.cutoff) < len(s.names) && s.names[s.cutoff] > 0 {
		s.cutoff++
	}
}

func (s *segment) sub(off uint32) {
	if s.names[off]--; s.names[off] == 0 {
		s.resident--
		s.cutoff = min(s.cutoff, off)
	}
	for n := len(s.names); n > 0 && s.names[n-1] == 0; n-- {
		s.names = s.names[:n-1]
	}
}

func (r *rank) bytes() int64 {
	n := int64(unsafe.Sizeof(*r)) + int64(cap(r.names.cells)+cap(r.byRun.cells))*16 +
		int64(cap(r.segs)+cap(r.spare))*8 + int64(cap(r.free))*4
	for _, list := range [][]*segment{r.segs, r.spare} {
		for _, s := range list {
			if s != nil {
				n += int64(unsafe.Sizeof(*s)) + int64(cap(s.names))*4
			}
		}
	}
	return n
}
