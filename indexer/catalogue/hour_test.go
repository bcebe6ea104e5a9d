package catalogue

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/retention"
	"github.com/kvbench/kvbench/internal/invariants"
)

// TestHourEndsWhereItBegan gives every index an hour of virtual time: ranks get
// prompts, some of which share their beginning, and keep each block for two minutes
// after the last prompt that had it. After the hour the index must have no more memory
// than after ten minutes, and when the last block has gone what it had at first, but
// for a stated number of bytes.
func TestHourEndsWhereItBegan(t *testing.T) {
	for _, f := range exact() {
		if f.Name == "reference" || f.Name == "positional-binary" {
			continue // the one need not be lean, the other has positional's tables
		}
		t.Run(f.Name, func(t *testing.T) { hour(t, f) })
	}
}

const (
	hourRanks = 12
	// slackGrowth is for tables that have just doubled, slackEnd what an index may
	// keep ready: some pieces of each size, and a table that it does not make smaller.
	slackGrowth = 1 << 20
	slackEnd    = 1 << 20
)

func hour(t *testing.T, f indexer.Factory) {
	minutes := int64(60)
	if invariants.Enabled {
		minutes = 20 // the race detector makes it slow
	}
	base := heapBytes()
	x, err := f.New(indexer.Config{Threads: 1, Slots: hourRanks})
	if err != nil {
		t.Fatal(err)
	}
	w := x.Writer(0)
	for slot := range indexer.Slot(hourRanks) {
		w.Attach(slot)
	}
	fresh := heapBytes() - base
	var stored, removed, odd uint64
	var ranks []*retention.TTL
	for slot := range indexer.Slot(hourRanks) {
		r, err := retention.NewTTL(slot, retention.DefaultTTL, func(_ int64, ev *indexer.Event) {
			e := w.Apply(ev)
			stored += uint64(e.Stored)
			removed += uint64(e.Removed)
			odd += uint64(e.Duplicate + e.UnknownRemoved + e.Orphaned + e.Conflicting + e.Malformed)
		})
		if err != nil {
			t.Fatal(err)
		}
		ranks = append(ranks, r)
	}
	rng := rand.New(rand.NewPCG(1, 60))
	prompt := make([]indexer.LocalHash, 60)
	fresher := indexer.LocalHash(1 << 20)
	var early, late int64
	for second := int64(0); second < minutes*60; second += 2 {
		if second == minutes*10 {
			early = heapBytes() - base
		}
		for _, r := range ranks {
			// One of 50 beginnings, left at some block for what nobody has seen.
			of, own := rng.IntN(50), rng.IntN(len(prompt))
			for i := range prompt {
				prompt[i] = indexer.LocalHash(of*100 + i)
				if i >= own {
					prompt[i] = fresher
					fresher++
				}
			}
			r.Route(second*int64(time.Second), prompt)
		}
	}
	late = heapBytes() - base
	end := minutes*int64(time.Minute) + int64(retention.DefaultTTL+retention.Bucket)
	for slot, r := range ranks {
		r.Advance(end)
		if n := w.Blocks(indexer.Slot(slot)); n != 0 {
			t.Errorf("slot %d has %d blocks in the end", slot, n)
		}
	}
	empty := heapBytes() - base
	t.Logf("%d blocks came and went; heap: %d at first, %d early, %d late, %d in the end", stored, fresh, early, late, empty)
	if stored < uint64(minutes)*10_000 || removed != stored || odd != 0 {
		t.Errorf("%d blocks were stored and %d removed, %d were odd", stored, removed, odd)
	}
	if late > early+slackGrowth {
		t.Errorf("after ten minutes there were %d bytes and after %d %d", early, minutes, late)
	}
	// What the retention itself needs does not come back.
	var own int64
	for _, r := range ranks {
		own += r.Bytes()
	}
	if empty > fresh+own+slackEnd {
		t.Errorf("%d bytes are left of %d; it began with %d, and %d are not the index's", empty, late, fresh, own)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

// heapBytes collects and returns what is left.
func heapBytes() int64 {
	// Twice, since sweeping what the first found is part of the second.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
