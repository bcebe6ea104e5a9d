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

// counter is the resident blocks of one rank. Only the rank's event thread
// writes it, absolute values of Writer.Blocks and nothing else.
type counter = atomic.Uint64

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
	return t.counters[slot].Load(), true
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
		blocks += c.Load()
	}
	return blocks, len(t.live)
}
