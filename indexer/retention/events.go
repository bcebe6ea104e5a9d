package retention

import (
	"math"

	"github.com/kvbench/kvbench/indexer"
)

// Emit receives the events of a rank in their order, with their times in ns,
// which never fall. The event is borrowed: it and its slices are valid during the
// call only. Emit must not call the machine that calls it.
type Emit func(at int64, ev *indexer.Event)

// Stats counts what a machine did, in blocks unless said otherwise.
type Stats struct {
	Decisions int64 // routing decisions, a number
	Predicted int64 // leading blocks of the prompts that were held already
	Stored    int64 // blocks that came, Output included
	Output    int64 // of these, blocks of answers
	Removed   int64 // blocks that went, but for those cleared
	Peak      int64 // most blocks held at once

	// OverCapacity counts the calls after which more was in use than the
	// capacity, PeakOver is by how many blocks it was at most. LRU only.
	OverCapacity int64
	PeakOver     int64
	// Ignored counts calls for a lease that has ended. LRU only.
	Ignored int64
	// Collisions counts the prompts and answers that were cut off at a block
	// whose name another place of the rank had.
	Collisions int64
}

// Add adds the counts of another rank; peaks become the higher one.
func (s *Stats) Add(o Stats) {
	s.Decisions += o.Decisions
	s.Predicted += o.Predicted
	s.Stored += o.Stored
	s.Output += o.Output
	s.Removed += o.Removed
	s.Peak = max(s.Peak, o.Peak)
	s.OverCapacity += o.OverCapacity
	s.PeakOver = max(s.PeakOver, o.PeakOver)
	s.Ignored += o.Ignored
	s.Collisions += o.Collisions
}

// machine is what the two kinds of retention have in common.
type machine struct {
	places places
	slot   indexer.Slot
	emit   Emit
	now    int64
	stats  Stats

	path   []int32                // places of the current call
	names  []indexer.SequenceHash // of the current event; empty between events
	event  indexer.Event          // the current one
	events uint64                 // emitted so far
}

func newMachine(slot indexer.Slot, emit Emit) machine {
	return machine{places: newPlaces(), slot: slot, emit: emit, now: math.MinInt64}
}

// Blocks returns how many blocks the rank holds, each place counted once.
func (m *machine) Blocks() int { return m.places.held }

// Stats returns what was counted so far.
func (m *machine) Stats() Stats { return m.stats }

func (m *machine) send(at int64, ev indexer.Event) {
	ev.ID, ev.Slot = m.events, m.slot
	m.events++
	m.event = ev
	m.emit(at, &m.event)
}

// drop takes a place away; report tells of all that went since the last report.
func (m *machine) drop(id int32) {
	m.names = append(m.names, m.places.list[id].name)
	m.places.remove(id)
}

func (m *machine) report(at int64) {
	if len(m.names) == 0 {
		return
	}
	m.stats.Removed += int64(len(m.names))
	m.send(at, indexer.Event{Kind: indexer.Removed, Sequences: m.names})
	m.names = m.names[:0]
}

// extend makes places of blocks that follow parent, none of which the rank holds
// there, appends them to path, and reports them as stored. A collision cuts the
// rest off.
func (m *machine) extend(parent int32, blocks []indexer.LocalHash) {
	first := parent
	for _, local := range blocks {
		name := m.places.name(parent, local)
		// A block is never held without its prefix. So whatever has this name,
		// it is another place.
		if m.places.find(name) != none {
			m.stats.Collisions++
			break
		}
		parent = m.places.add(name, parent, local)
		m.path = append(m.path, parent)
		m.names = append(m.names, name)
	}
	n := len(m.names)
	if n == 0 {
		return
	}
	ev := indexer.Event{Kind: indexer.Stored, Sequences: m.names, Locals: blocks[:n]}
	if first != none {
		ev.HasParent, ev.Parent = true, m.places.list[first].name
	}
	m.stats.Stored += int64(n)
	m.stats.Peak = max(m.stats.Peak, int64(m.places.held))
	m.send(m.now, ev)
	m.names = m.names[:0]
}

// clear forgets all blocks and reports it.
func (m *machine) clear() {
	m.places.clear()
	m.send(m.now, indexer.Event{Kind: indexer.Cleared})
}

// last returns the last place of the path behind parent, or parent.
func (m *machine) last(parent int32) int32 {
	if n := len(m.path); n > 0 {
		return m.path[n-1]
	}
	return parent
}
