// Package residentblocks is the experimental input RESIDENT_BLOCKS: how many
// blocks each rank holds in its cache, used or idle, and how old that knowledge
// may be. It may change or go in any release.
//
// A component declares policies.ExperimentalResidentBlocks and reads Live, which
// costs least, or Of if several components are to see the same counts; LiveFresh
// or OfFresh if it wants to bound how stale they are. The host shares one Feed
// among its routing partitions and gives each of them a Reader in
// policies.State.ResidentBlocks; Track turns the counting on where, and only
// where, a pipeline declares the input.
//
// A count is that of the last event which the index has applied for the rank. A
// rank that the index never saw, that was removed, or whose event thread has
// ended has no count; one whose cache was cleared has 0. With an index that
// counts nothing, a remote one for example, no rank has a count.
package residentblocks

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/policies"
)

// Absent stands in Counts.Blocks for a rank without a count.
const Absent uint32 = indexer.AbsentCount

// Tables is who has the counts: *indexer.Pool.
type Tables interface {
	// Residents returns the current table, nil while nothing is counted.
	Residents() *indexer.ResidentTable
}

// Progress says how far an event thread is: indexer.ThreadProgress.
type Progress interface {
	// Load returns the events that the thread has applied and, of later, those
	// that it has been given.
	Load() (applied, accepted uint64)
}

// Tracker is what can begin to count: *indexer.Pool.
type Tracker interface {
	TrackResidentBlocks(ctx context.Context) error
}

// Track makes the index count if in, the inputs of a pipeline, declares so, and
// does nothing if not.
func Track(ctx context.Context, in policies.Inputs, t Tracker) error {
	if !in.Has(policies.ExperimentalResidentBlocks) {
		return nil
	}
	return t.TrackResidentBlocks(ctx)
}

// Feed is where counts come from. Any number of goroutines may use it.
type Feed struct {
	tables   Tables
	progress []Progress
	log      *slog.Logger
	why      string
	warn     sync.Once
}

// NewFeed makes a feed of the counts of an index in this process. progress has one
// element for each event thread, in their order, or none if no component reads
// OfFresh. If there are no counts when the first are read, log gets a warning,
// once.
func NewFeed(tables Tables, progress []Progress, log *slog.Logger) *Feed {
	return &Feed{tables: tables, progress: progress, log: log, why: "the index does not track them"}
}

// NoFeed makes a feed without counts, for an index that is absent or elsewhere.
// The first read gives log a warning that says why, no later one does.
func NoFeed(why string, log *slog.Logger) *Feed { return &Feed{log: log, why: why} }

func (f *Feed) warnOnce() {
	f.warn.Do(func() {
		f.log.Warn("no rank has a resident-block count, though the policy reads RESIDENT_BLOCKS", "why", f.why)
	})
}

// Reader reads a feed for one routing partition. It belongs to its goroutine.
type Reader struct {
	feed *Feed
	live LiveCounts
	of   *indexer.ResidentTable // that live is of, nil: of none

	read   bool // in this selection
	counts Counts

	progressRead bool // in this selection, right before the counts
	progress     []Freshness
}

// Reader makes a reader.
func (f *Feed) Reader() *Reader {
	return &Reader{feed: f, progress: make([]Freshness, len(f.progress))}
}

// Begin implements policies.ExperimentalInput: the counts are read anew if a
// component asks for them.
func (r *Reader) Begin() { r.read, r.progressRead = false, false }

// LiveCounts are the counters of the ranks, for a component that looks at each
// candidate's count once and so can do without a copy of them all. They are
// valid during the call in which a component asked for them.
type LiveCounts struct {
	// Cells are the counters by slot; Blocks of one that has no count is Absent.
	// Every candidate's slot is below its length. It must not be changed.
	Cells []*indexer.ResidentCell
	// Missing is how many of them have no count.
	Missing int
}

// Live returns the counters themselves: each look at one is a load of what the
// event threads have stored by then, so that two looks may differ, as may those of
// two components. Like every accessor it fails the selection of a component that
// does not declare the input.
func Live(v *policies.View) *LiveCounts { return &current(v).live }

// FreshLiveCounts are counters that it is known of how stale they can be.
type FreshLiveCounts struct {
	*LiveCounts
	freshness
}

// LiveFresh is Live with the freshness of each count, of the moment of the call.
// It fails the selection if the feed has counts and was made without the progress
// of all event threads.
func LiveFresh(v *policies.View) FreshLiveCounts {
	r := reader(v)
	r.readProgress()
	// What OfFresh has copied before may lack some of that.
	r.progressRead = false
	current(v)
	r.checkProgress(v)
	return FreshLiveCounts{&r.live, freshness{r}}
}

// Counts are the resident blocks of the ranks. They are valid during the call in
// which a component asked for them.
type Counts struct {
	// Blocks are the counts by slot, Absent where there is none. Every candidate's
	// slot is below its length.
	Blocks []uint32
	// Missing is how many of them are Absent.
	Missing int
}

// Count returns the blocks of the rank in slot, false if it has no count.
func (c *Counts) Count(slot indexer.Slot) (uint32, bool) {
	if int(slot) >= len(c.Blocks) || c.Blocks[slot] == Absent {
		return 0, false
	}
	return c.Blocks[slot], true
}

// Of returns the counts. All components of a selection see the same ones, unless
// one of them reads OfFresh: from it on they are as new as that. Like every
// accessor it fails the selection of a component that does not declare the
// input.
func Of(v *policies.View) *Counts {
	r := reader(v)
	if !r.read {
		r.load(v)
	}
	return &r.counts
}

// Freshness is what an event thread had been given and had done by the moment
// before the counts of its ranks were read: these contain the first Applied
// events, and of those that the thread was given by then they lack at most
// Accepted - Applied.
type Freshness struct {
	Applied, Accepted uint64
}

// Backlog returns the events that the counts may lack.
func (f Freshness) Backlog() uint64 { return f.Accepted - f.Applied }

// freshness knows that of each count of a reader.
type freshness struct{ r *Reader }

// Freshness returns that of the rank in slot, false if the rank has no count.
func (f freshness) Freshness(slot indexer.Slot) (Freshness, bool) {
	if f.r.of == nil {
		return Freshness{}, false
	}
	thread, ok := f.r.of.Thread(slot)
	if !ok {
		return Freshness{}, false
	}
	return f.r.progress[thread], true
}

// MaxBacklog returns the largest backlog of an event thread, ended ones included:
// no count lacks more events.
func (f freshness) MaxBacklog() uint64 {
	most := uint64(0)
	for _, p := range f.r.progress {
		most = max(most, p.Backlog())
	}
	return most
}

// FreshCounts are counts that it is known of how stale they can be.
type FreshCounts struct {
	*Counts
	freshness
}

// OfFresh is Of with the freshness of each count. It fails the selection if the
// feed has counts and was made without the progress of all event threads.
func OfFresh(v *policies.View) FreshCounts {
	r := reader(v)
	if !r.progressRead {
		r.readProgress()
		r.progressRead = true
		r.load(v)
	}
	r.checkProgress(v)
	return FreshCounts{&r.counts, freshness{r}}
}

// readProgress comes before the counts: what is applied by now is in them.
func (r *Reader) readProgress() {
	for i, p := range r.feed.progress {
		r.progress[i].Applied, r.progress[i].Accepted = p.Load()
	}
}

func (r *Reader) checkProgress(v *policies.View) {
	if r.of == nil {
		return
	}
	if threads := r.of.Threads(); len(r.progress) < threads {
		v.Fail(fmt.Sprintf("asks how fresh the counts are, of which the host knows the progress of %d event threads of %d", len(r.progress), threads))
	}
}

func reader(v *policies.View) *Reader {
	r, ok := v.Experimental(policies.ExperimentalResidentBlocks).(*Reader)
	if !ok {
		notReader(v)
	}
	return r
}

func notReader(v *policies.View) {
	v.Fail(fmt.Sprintf("reads RESIDENT_BLOCKS of a host whose State has a %T; it must be a *residentblocks.Reader", v.Experimental(policies.ExperimentalResidentBlocks)))
}

// current returns the reader with the counters of every slot that a row may have. They
// are listed anew only when ranks came or went. It has the whole of that in one
// function: with few candidates a call costs as much as a count.
func current(v *policies.View) *Reader {
	r, ok := v.Experimental(policies.ExperimentalResidentBlocks).(*Reader)
	if !ok {
		notReader(v)
	}
	var table *indexer.ResidentTable
	if r.feed.tables != nil {
		table = r.feed.tables.Residents()
	}
	if table == nil {
		r.feed.warnOnce()
	}
	rows := v.Rows()
	// Rows ascend.
	if n := len(rows); table != r.of || n > 0 && int(rows[n-1]) >= len(r.live.Cells) {
		r.relist(table, rows)
	}
	return r
}

func (r *Reader) relist(table *indexer.ResidentTable, rows []indexer.Slot) {
	slots := 0
	if len(rows) > 0 {
		slots = int(rows[len(rows)-1]) + 1
	}
	if table == nil {
		r.live.Cells, r.live.Missing = indexer.NoResidentCells(slots)
	} else {
		r.live.Cells, r.live.Missing = table.Cells(slots)
	}
	r.of = table
}

// load reads the counts of every slot that a row may have.
func (r *Reader) load(v *policies.View) {
	r.read = true
	live := &current(v).live
	n := len(live.Cells)
	if cap(r.counts.Blocks) < n {
		r.counts.Blocks = make([]uint32, n, n+n/4)
	}
	r.counts.Blocks, r.counts.Missing = r.counts.Blocks[:n], live.Missing
	indexer.ReadCells(live.Cells, r.counts.Blocks)
}

var (
	_ policies.ExperimentalInput = (*Reader)(nil)
	_ Tables                     = (*indexer.Pool)(nil)
	_ Tracker                    = (*indexer.Pool)(nil)
	_ Progress                   = indexer.ThreadProgress{}
)

// ProgressOf returns the progress of an index's event threads, for NewFeed.
func ProgressOf(threads int, of func(thread int) indexer.ThreadProgress) []Progress {
	out := make([]Progress, threads)
	for i := range out {
		out[i] = of(i)
	}
	return out
}
