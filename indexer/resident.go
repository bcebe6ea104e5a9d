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

// ResidentCell is the counter of one rank: its resident blocks and, where the
// index knows them, the reachable ones, in one word, so that both are of the same
// moment. Only the rank's event thread stores into it, absolute values of
// Writer.Blocks and ReachableCounter.Reachable and nothing else. Any number of
// goroutines may read.
//
// The low half is the resident blocks. The high half is 0 if the reachable ones
// are not known, else one more than these: an index that cannot say stores the
// plain number.
type ResidentCell struct{ word atomic.Uint64 }

// Blocks returns the resident blocks after the last event that was applied for the
// rank, AbsentCount if the cell is that of no rank. It is one load.
func (c *ResidentCell) Blocks() uint32 { return uint32(c.word.Load()) }

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
type counterChunk [chunkLines * countersPerLine]ResidentCell

const chunkLines = 16

// counterSource hands out the counters of one event thread. A counter is never
// handed out again: whoever still holds an old table keeps reading the last
// true count of a gone rank, never one of another rank. The collector takes a
// chunk back when no table points into it.
type counterSource struct {
	layout CounterLayout
	rest   []ResidentCell // what is left of the chunk
}

// next returns a counter and what follows it in its chunk, so that it can be
// seen whether the next one lies beside it.
func (s *counterSource) next() []ResidentCell {
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

// absentCell is a cell of no rank, on a line of its own: nothing that is ever
// written lies beside it.
type absentCell struct {
	ResidentCell
	_ [idle.CacheLine - 8]byte
}

func newAbsentCell() *ResidentCell {
	c := new(absentCell)
	c.word.Store(AbsentCount)
	return &c.ResidentCell
}

// ResidentTable says which rank has which counter. It is immutable; the pool
// publishes a new one when a rank appears or goes. A table may be read by any
// number of goroutines, and the counts that it gives are current: a count is
// stored right after each event was applied.
type ResidentTable struct {
	cells    []*ResidentCell // by slot, absent: no count
	absent   *ResidentCell
	runs     []counterRun
	ranks    int // those with a count
	step     int
	threads  []uint16 // event thread by slot
	nThreads int
	slots    map[Rank]Slot
}

// counterRun is counters that lie side by side, from the first to the last, step
// apart. Adding them up by runs takes no pointer for each.
type counterRun []ResidentCell

// newResidentTable makes a table of the counters by slot, nil where there is no
// count, which thread tells the event thread of.
func newResidentTable(cells [][]ResidentCell, thread func(slot int) int, threads int, layout CounterLayout, slots map[Rank]Slot) *ResidentTable {
	t := &ResidentTable{
		cells: make([]*ResidentCell, len(cells)), absent: newAbsentCell(), threads: make([]uint16, len(cells)),
		nThreads: threads, step: layout.step(), slots: slots,
	}
	byThread := make([][]counterRun, threads)
	for slot, c := range cells {
		if c == nil {
			t.cells[slot] = t.absent
			continue
		}
		t.cells[slot] = &c[0]
		t.ranks++
		th := thread(slot)
		t.threads[slot] = uint16(th)
		runs := byThread[th]
		if n := len(runs); n == 0 || !runs[n-1].extend(c, t.step) {
			byThread[th] = append(runs, c[:1:len(c)])
		}
	}
	// By thread, so that lines are read in the order in which they lie.
	t.runs = slices.Concat(byThread...)
	return t
}

// extend adds a counter if it continues the run.
func (r *counterRun) extend(c []ResidentCell, step int) bool {
	at := len(*r) - 1 + step
	if at >= cap(*r) || &(*r)[:at+1][at] != &c[0] {
		return false
	}
	*r = (*r)[:at+1]
	return true
}

// AbsentCount is what a cell of no rank has. No count is as large.
const AbsentCount = 1<<32 - 1

// Cells returns the counters of slots 0 to slots-1, and those beyond if the table
// has more: who looks at each count once reads them in the loop that needs them,
// without a copy. Slots for which Count is false share a cell that has
// AbsentCount; absent is how many. The slice must not be changed. It is the
// table's own, and the call takes no time, unless slots is above Len.
func (t *ResidentTable) Cells(slots int) (cells []*ResidentCell, absent int) {
	cells = t.cells
	if slots > len(cells) {
		cells = slices.Grow(slices.Clip(cells), slots-len(cells))
		for len(cells) < slots {
			cells = append(cells, t.absent)
		}
	}
	return cells, len(cells) - t.ranks
}

// NoResidentCells is Cells of an index without counts.
func NoResidentCells(slots int) (cells []*ResidentCell, absent int) {
	return slices.Repeat([]*ResidentCell{newAbsentCell()}, slots), slots
}

// ReadCells sets out[i] to the blocks of cell i. It panics if out is shorter.
func ReadCells(cells []*ResidentCell, out []uint32) {
	out = out[:len(cells)]
	// Written out: how long a loop of one takes depends on where it comes to lie.
	i := 0
	for ; i <= len(cells)-4; i += 4 {
		c, o := cells[i:i+4:i+4], out[i:i+4:i+4]
		o[0] = c[0].Blocks()
		o[1] = c[1].Blocks()
		o[2] = c[2].Blocks()
		o[3] = c[3].Blocks()
	}
	for ; i < len(cells); i++ {
		out[i] = cells[i].Blocks()
	}
}

// Len returns the number of slots; each rank's slot is below it.
func (t *ResidentTable) Len() int { return len(t.cells) }

// Ranks returns the number of ranks with a count.
func (t *ResidentTable) Ranks() int { return t.ranks }

func (t *ResidentTable) has(slot Slot) bool {
	return int(slot) < len(t.cells) && t.cells[slot] != t.absent
}

// Count returns the resident blocks of the rank in slot. It is false for a rank
// that was never seen, was removed, or whose event thread has ended.
func (t *ResidentTable) Count(slot Slot) (uint64, bool) {
	if !t.has(slot) {
		return 0, false
	}
	return splitCount(t.cells[slot].word.Load()).Resident, true
}

// Counts is Count with the reachable blocks, at the cost of the same one load.
func (t *ResidentTable) Counts(slot Slot) (Counts, bool) {
	if !t.has(slot) {
		return Counts{}, false
	}
	return splitCount(t.cells[slot].word.Load()), true
}

// Threads returns the number of event threads, ended ones included.
func (t *ResidentTable) Threads() int { return t.nThreads }

// Thread returns the event thread that stores the count of the rank in slot. It is
// false where Count is.
func (t *ResidentTable) Thread(slot Slot) (int, bool) {
	if !t.has(slot) {
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
		cells := t.runs[i]
		for j := 0; j < len(cells); j += t.step {
			blocks += splitCount(cells[j].word.Load()).Resident
		}
	}
	return blocks, t.ranks
}

// SumReachable adds the reachable blocks of the ranks for which the index knows
// them, one load each, and returns how many ranks these are. As with Sum, the
// sum need not have been true at one moment.
func (t *ResidentTable) SumReachable() (blocks uint64, ranks int) {
	for i := range t.runs {
		cells := t.runs[i]
		for j := 0; j < len(cells); j += t.step {
			if n := splitCount(cells[j].word.Load()); n.ReachableKnown {
				blocks += n.Reachable
				ranks++
			}
		}
	}
	return blocks, ranks
}
