package indexer

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/kvbench/kvbench/internal/idle"
)

// CounterLayout is how the counters of resident blocks lie in memory.
type CounterLayout uint8

const (
	// Packed puts the counters of one event thread side by side. No thread's
	// counter shares a line with that of another thread.
	Packed CounterLayout = iota
	// Padded gives every counter a line of its own.
	Padded
)

// String returns the name that ParseCounterLayout reads.
func (l CounterLayout) String() string {
	if l == Padded {
		return "padded"
	}
	return "packed"
}

// ParseCounterLayout reads "packed" or "padded".
func ParseCounterLayout(s string) (CounterLayout, error) {
	switch s {
	case "packed":
		return Packed, nil
	case "padded":
		return Padded, nil
	}
	return 0, fmt.Errorf("unknown layout %q; it must be packed or padded", s)
}

// counter is the resident blocks of one rank and, where the index knows them,
// the reachable ones: one word, so that both are of the same moment. Only the
// rank's event thread writes it, absolute values of Writer.Blocks and
// ReachableCounter.Reachable and nothing else.
//
// The low half is the resident blocks. The high half is 0 if the reachable ones
// are not known, else one more than these: an index that cannot say stores the
// plain number.
type counter = atomic.Uint64

// maxCount is the largest number of blocks that a counter holds; one more in the
// high half still fits.
const maxCount = 1<<32 - 2

func makeCount(resident, reachable int, known bool) uint64 {
	if !known {
		return uint64(resident)
	}
	return uint64(resident) | (uint64(reachable)+1)<<32
}

// Counts are the blocks of one rank after one of its events.
type Counts struct {
	// Resident is the number of distinct blocks that the index tracks.
	Resident uint64
	// Reachable is how many places can be reached from the root, which is what
	// a query can match: a block behind a hole is resident and not reachable,
	// and two sequence hashes at one place are two resident blocks and one place.
	Reachable uint64
	// ReachableKnown is false if the index cannot say, and Reachable then 0.
	ReachableKnown bool
}

func splitCount(word uint64) Counts {
	c := Counts{Resident: word & (1<<32 - 1)}
	if high := word >> 32; high > 0 {
		c.Reachable, c.ReachableKnown = high-1, true
	}
	return c
}

// countersPerLine is how many counters fill a line.
const countersPerLine = idle.CacheLine / 8

// counterChunk is some lines of counters. Objects of this size are aligned to a
// line by the allocator, so two of them share none.
type counterChunk [chunkLines * countersPerLine]counter

const chunkLines = 16

// counterSource hands out the counters of one event thread. A counter is never
// handed out again: whoever still holds an old table keeps reading the last
// true count of a gone rank, never one of another rank. The collector takes a
// chunk back when no table points into it.
type counterSource struct {
	layout CounterLayout
	rest   []counter // what is left of the chunk
}

// next returns a counter and what follows it in its chunk, so that it can be
// seen whether the next one lies beside it.
func (s *counterSource) next() []counter {
	if len(s.rest) == 0 {
		s.rest = new(counterChunk)[:]
	}
	c := s.rest
	s.rest = s.rest[s.layout.step():]
	return c
}

// step is the distance of two counters that lie beside each other.
func (l CounterLayout) step() int {
	if l == Padded {
		return countersPerLine
	}
	return 1
}

// ResidentTable says which rank has which counter. It is immutable; the pool
// publishes a new one when a rank appears or goes. A table may be read by any
// number of goroutines, and the counts that it gives are current: a count is
// stored right after each event was applied.
type ResidentTable struct {
	counters []*counter // by slot, nil: no count
	runs     []counterRun
	ranks    int // those with a count
	step     int
	absent   []Slot
	threads  []uint16 // event thread by slot
	nThreads int
	slots    map[Rank]Slot
}

// counterRun is counters that lie side by side, of slots that ascend by stride.
// Reading many counts by runs takes neither a pointer nor a slot number for each.
type counterRun struct {
	cells  []counter // from the first to the last, step apart
	slot   Slot
	stride Slot
}

// newResidentTable makes a table of the counters by slot, nil where there is no
// count, which thread tells the event thread of.
func newResidentTable(cells [][]counter, thread func(slot int) int, threads int, layout CounterLayout, slots map[Rank]Slot) *ResidentTable {
	t := &ResidentTable{
		counters: make([]*counter, len(cells)), threads: make([]uint16, len(cells)),
		nThreads: threads, step: layout.step(), slots: slots,
	}
	byThread := make([][]counterRun, threads)
	for i, c := range cells {
		slot := Slot(i)
		if c == nil {
			t.absent = append(t.absent, slot)
			continue
		}
		t.counters[slot] = &c[0]
		t.ranks++
		th := thread(i)
		t.threads[slot] = uint16(th)
		runs := byThread[th]
		if n := len(runs); n == 0 || !runs[n-1].extend(c, slot, t.step) {
			byThread[th] = append(runs, counterRun{cells: c[:1:len(c)], slot: slot, stride: 1})
		}
	}
	// By thread, so that lines are read in the order in which they lie.
	t.runs = slices.Concat(byThread...)
	return t
}

// extend adds the counter of a slot if it continues the run.
func (r *counterRun) extend(c []counter, slot Slot, step int) bool {
	at := len(r.cells) - 1 + step
	if at >= cap(r.cells) || &r.cells[:at+1][at] != &c[0] {
		return false
	}
	n := Slot(at / step)
	if n == 1 {
		r.stride = slot - r.slot
	} else if slot != r.slot+n*r.stride {
		return false
	}
	r.cells = r.cells[:at+1]
	return true
}

// AbsentCount is what Read gives a slot without a count. No count is as large.
const AbsentCount = 1<<32 - 1

// Read sets out[slot] to the resident blocks of every slot, AbsentCount where
// Count is false, slots beyond Len included, and returns how many are absent. It
// is one load for each count, in the order in which they lie; as with Sum, the
// counts need not have been true at one moment. It panics if out is shorter than
// Len.
func (t *ResidentTable) Read(out []uint32) (absent int) {
	for i := range out[len(t.counters):] {
		out[len(t.counters)+i] = AbsentCount
	}
	for _, slot := range t.absent {
		out[slot] = AbsentCount
	}
	if len(t.runs)*runPays > t.ranks {
		for slot, c := range t.counters {
			if c != nil {
				out[slot] = uint32(c.Load())
			}
		}
		return len(out) - t.ranks
	}
	for i := range t.runs {
		switch r := &t.runs[i]; {
		case t.step > 1:
			slot := r.slot
			for j := 0; j < len(r.cells); j += t.step {
				out[slot] = uint32(r.cells[j].Load())
				slot += r.stride
			}
		case r.stride == 1:
			readBeside(r.cells, out[r.slot:])
		default:
			readApart(r.cells, out[r.slot:], int(r.stride))
		}
	}
	return len(out) - t.ranks
}

// runPays is the number of counters from which on a run is read faster as such.
const runPays = 6

// readBeside sets out[i] to count i. Written out, as the loop would cost more
// than the loads.
func readBeside(cells []counter, out []uint32) {
	out = out[:len(cells)]
	i := 0
	for ; i+8 <= len(cells) && i+8 <= len(out); i += 8 {
		c, o := (*[8]counter)(cells[i:]), (*[8]uint32)(out[i:])
		o[0] = uint32(c[0].Load())
		o[1] = uint32(c[1].Load())
		o[2] = uint32(c[2].Load())
		o[3] = uint32(c[3].Load())
		o[4] = uint32(c[4].Load())
		o[5] = uint32(c[5].Load())
		o[6] = uint32(c[6].Load())
		o[7] = uint32(c[7].Load())
	}
	for ; i < len(cells); i++ {
		out[i] = uint32(cells[i].Load())
	}
}

// readApart sets out[i*stride] to count i.
func readApart(cells []counter, out []uint32, stride int) {
	i, at := 0, 0
	for ; i+4 <= len(cells); i += 4 {
		c := (*[4]counter)(cells[i:])
		out[at] = uint32(c[0].Load())
		out[at+stride] = uint32(c[1].Load())
		out[at+2*stride] = uint32(c[2].Load())
		out[at+3*stride] = uint32(c[3].Load())
		at += 4 * stride
	}
	for ; i < len(cells); i++ {
		out[at] = uint32(cells[i].Load())
		at += stride
	}
}

// Len returns the number of slots; each rank's slot is below it.
func (t *ResidentTable) Len() int { return len(t.counters) }

// Ranks returns the number of ranks with a count.
func (t *ResidentTable) Ranks() int { return t.ranks }

// Count returns the resident blocks of the rank in slot. It is false for a rank
// that was never seen, was removed, or whose event thread has ended.
func (t *ResidentTable) Count(slot Slot) (uint64, bool) {
	if int(slot) >= len(t.counters) || t.counters[slot] == nil {
		return 0, false
	}
	return splitCount(t.counters[slot].Load()).Resident, true
}

// Counts is Count with the reachable blocks, at the cost of the same one load.
func (t *ResidentTable) Counts(slot Slot) (Counts, bool) {
	if int(slot) >= len(t.counters) || t.counters[slot] == nil {
		return Counts{}, false
	}
	return splitCount(t.counters[slot].Load()), true
}

// Threads returns the number of event threads, ended ones included.
func (t *ResidentTable) Threads() int { return t.nThreads }

// Thread returns the event thread that stores the count of the rank in slot. It is
// false where Count is.
func (t *ResidentTable) Thread(slot Slot) (int, bool) {
	if int(slot) >= len(t.counters) || t.counters[slot] == nil {
		return 0, false
	}
	return int(t.threads[slot]), true
}

// CountRank is Count for a rank.
func (t *ResidentTable) CountRank(rank Rank) (uint64, bool) {
	slot, ok := t.slots[rank]
	if !ok {
		return 0, false
	}
	return t.Count(slot)
}

// Sum adds all counts, one load each. The counts are read one after the other
// while event threads go on, so the sum need not have been true at one moment.
func (t *ResidentTable) Sum() (blocks uint64, ranks int) {
	for i := range t.runs {
		cells := t.runs[i].cells
		for j := 0; j < len(cells); j += t.step {
			blocks += splitCount(cells[j].Load()).Resident
		}
	}
	return blocks, t.ranks
}

// SumReachable adds the reachable blocks of the ranks for which the index knows
// them, one load each, and returns how many ranks these are. As with Sum, the
// sum need not have been true at one moment.
func (t *ResidentTable) SumReachable() (blocks uint64, ranks int) {
	for i := range t.runs {
		cells := t.runs[i].cells
		for j := 0; j < len(cells); j += t.step {
			if n := splitCount(cells[j].Load()); n.ReachableKnown {
				blocks += n.Reachable
				ranks++
			}
		}
	}
	return blocks, ranks
}
