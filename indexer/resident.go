package indexer

import (
	"fmt"
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

// countersPerLine is how many counters one allocation of counterLine holds.
const countersPerLine = idle.CacheLine / 8

// counterLine is one line of counters. Objects of this size are aligned to it by
// the allocator, so two of them share no line.
type counterLine [countersPerLine]counter

// counterSource hands out the counters of one event thread. A counter is never
// handed out again: whoever still holds an old table keeps reading the last
// true count of a gone rank, never one of another rank. The collector takes a
// line back when no table points into it.
type counterSource struct {
	layout CounterLayout
	line   *counterLine
	used   int
}

func (s *counterSource) next() *counter {
	if s.layout == Padded || s.line == nil || s.used == countersPerLine {
		s.line, s.used = new(counterLine), 0
	}
	c := &s.line[s.used]
	s.used++
	return c
}

// ResidentTable says which rank has which counter. It is immutable; the pool
// publishes a new one when a rank appears or goes. A table may be read by any
// number of goroutines, and the counts that it gives are current: a count is
// stored right after each event was applied.
type ResidentTable struct {
	counters []*counter // by slot, nil: no count
	live     []*counter // those that are not nil
	slots    map[Rank]Slot
}

// Len returns the number of slots; each rank's slot is below it.
func (t *ResidentTable) Len() int { return len(t.counters) }

// Ranks returns the number of ranks with a count.
func (t *ResidentTable) Ranks() int { return len(t.live) }

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
	for _, c := range t.live {
		blocks += splitCount(c.Load()).Resident
	}
	return blocks, len(t.live)
}

// SumReachable adds the reachable blocks of the ranks for which the index knows
// them, one load each, and returns how many ranks these are. As with Sum, the
// sum need not have been true at one moment.
func (t *ResidentTable) SumReachable() (blocks uint64, ranks int) {
	for _, c := range t.live {
		if n := splitCount(c.Load()); n.ReachableKnown {
			blocks += n.Reachable
			ranks++
		}
	}
	return blocks, ranks
}
