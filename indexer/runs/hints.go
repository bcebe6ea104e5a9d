package runs

// hints say where some names of a rank are: those that are likely to be asked for,
// as the parent of what comes next or as the first victim. A hint is believed only
// if the name is there. So hints are only ever added, and made anew when there are
// too many of them.
//
// A cell is a tag of the name's hash, whether it is kept, segment and offset; 0 is
// free, since segment 0 is none.
type hints struct {
	cells []uint64
	used  int
}

const (
	offBits     = 12 // offsets are below maxRun
	segBits     = 27
	maxSegments = 1<<segBits - 1
	keptHint    = 1 << (offBits + segBits)
	hintTag     = ^uint64(0) &^ (1<<(offBits+segBits+1) - 1)

	minHints = 16
)

func spotOf(cell uint64) spot {
	return spot{uint32(cell >> offBits & maxSegments), uint32(cell & (1<<offBits - 1))}
}

func tagOf(hash uint64) uint64 { return hash << (offBits + segBits + 1) }

// probe is a search among the hints.
type probe struct {
	at  uint32
	tag uint64
}

func (h *hints) start(name uint64) probe {
	hash := mix(name)
	return probe{uint32(uint64(uint32(hash>>32)) * uint64(len(h.cells)) >> 32), tagOf(hash)}
}

// next returns the next spot at which the name may be.
func (h *hints) next(p *probe) (spot, bool) {
	if h.used == 0 {
		return spot{}, false
	}
	for {
		c := h.cells[p.at]
		if c == 0 {
			return spot{}, false
		}
		if p.at++; int(p.at) == len(h.cells) {
			p.at = 0
		}
		if c&hintTag == p.tag {
			return spotOf(c), true
		}
	}
}

// full says whether there is no room for n more.
func (h *hints) full(n int) bool { return 4*(h.used+n) > 3*len(h.cells) }

// add adds a hint, for which there is room.
func (h *hints) add(name uint64, at spot, kept bool) {
	p := h.start(name)
	cell := p.tag | uint64(at.seg)<<offBits | uint64(at.off)
	if kept {
		cell |= keptHint
	}
	for {
		switch h.cells[p.at] | keptHint {
		case cell | keptHint:
			h.cells[p.at] |= cell
			return
		case keptHint:
			h.cells[p.at] = cell
			h.used++
			return
		}
		if p.at++; int(p.at) == len(h.cells) {
			p.at = 0
		}
	}
}

// make takes all hints away and makes so many cells. Some that fit for a while are
// used again, so that a rank whose content only changes does not allocate.
func (h *hints) make(want int) {
	want = max(minHints, want)
	if len(h.cells) >= want*3/4 && len(h.cells) <= 3*want {
		clear(h.cells)
	} else {
		h.cells = make([]uint64, want)
	}
	h.used = 0
}
