package catalogue

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/hugepages"
	"github.com/kvbench/kvbench/internal/invariants"
)

// TestHugePagesComeAndGo fills indexes on huge pages with some regions of content and
// empties them, over and over, while readers ask: what goes back to the system must
// be what nobody reads.
func TestHugePagesComeAndGo(t *testing.T) {
	if _, err := hugepages.New(hugepages.RegionBytes); err != nil {
		t.Skip(err)
	}
	on := 0
	for _, f := range exact() {
		x, err := f.New(indexer.Config{Threads: 1, HugePages: true})
		if err != nil {
			continue
		}
		on++
		t.Run(f.Name, func(t *testing.T) { comeAndGo(t, x) })
	}
	if on < 2 {
		t.Errorf("%d indexes can be put on huge pages, want runs and flat", on)
	}
}

func comeAndGo(t *testing.T, x indexer.Index) {
	const ranks, documents, length = 3, 300, 600
	rounds := 3
	if invariants.Enabled {
		rounds = 1 // the race detector makes it slow
	}
	own := func() (bytes int64) {
		for _, p := range x.(indexer.MemoryReporter).Memory() {
			bytes += p.Bytes
		}
		return bytes
	}
	// Half of a document is that of all ranks.
	var names [ranks][documents][]indexer.SequenceHash
	var paths [ranks][documents][]indexer.LocalHash
	for slot := range ranks {
		for number := range documents {
			for i := range uint64(length) {
				block := uint64(number)<<32 | i
				if i >= length/2 {
					block |= uint64(slot+1) << 48
				}
				names[slot][number] = append(names[slot][number], indexer.SequenceHash(block))
				paths[slot][number] = append(paths[slot][number], indexer.LocalHash(block|1<<63))
			}
		}
	}
	var stop atomic.Bool
	var readers sync.WaitGroup
	for k := range 2 {
		readers.Go(func() {
			r := x.Reader()
			defer r.Close()
			var ans indexer.Answer
			for n := k; !stop.Load(); n++ {
				r.Find(paths[n%ranks][n%documents], indexer.FindOptions{}, &ans)
				for _, slot := range ans.Touched() {
					if got := ans.Score(slot); slot >= ranks || got != length && got != length/2 {
						t.Errorf("slot %d holds %d blocks, want none, %d or %d", slot, got, length/2, length)
						return
					}
				}
				runtime.Gosched()
			}
		})
	}
	w := x.Writer(0)
	for slot := range indexer.Slot(ranks) {
		w.Attach(slot)
	}
	empty, least := own(), int64(1<<62)
	for round := range rounds {
		for number := range documents {
			for slot := range indexer.Slot(ranks) {
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Stored, Sequences: names[slot][number], Locals: paths[slot][number]})
			}
		}
		full := own()
		for number := range documents {
			for slot := range indexer.Slot(ranks) {
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: names[slot][number][length/2:]})
				if round%2 == 0 {
					w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: names[slot][number][:length/2]})
				}
			}
		}
		for slot := range indexer.Slot(ranks) {
			w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Cleared})
			if n := w.Blocks(slot); n != 0 {
				t.Errorf("slot %d has %d blocks left", slot, n)
			}
		}
		least = min(least, own())
		if full < 3*hugepages.RegionBytes {
			t.Errorf("full, the index has %d bytes: too few for regions to go", full)
		}
		t.Logf("%d bytes full, %d empty", full, own())
	}
	stop.Store(true)
	readers.Wait()
	if err := x.Check(); err != nil {
		t.Error(err)
	}
	// A region for each of the sizes of flat's tables, and one that is part used.
	if least > empty+10*hugepages.RegionBytes {
		t.Errorf("%d bytes at first, %d after content has gone", empty, least)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
