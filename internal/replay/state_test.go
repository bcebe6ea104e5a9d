package replay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/crtc"
	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/indexer/noop"
)

// hugeIndex says that it has huge pages, and of every rank that half of its
// blocks can be reached.
type hugeIndex struct {
	indexer.Index
	huge int64
}

type halfReachable struct{ indexer.Writer }

func (w halfReachable) Reachable(slot indexer.Slot) (int, bool) { return w.Blocks(slot) / 2, slot != 0 }

func (x hugeIndex) Writer(i int) indexer.Writer { return halfReachable{x.Index.Writer(i)} }
func (x hugeIndex) Memory() []indexer.MemoryPart {
	return []indexer.MemoryPart{{Name: "table", Bytes: 4 << 20, HugeBytes: x.huge}, {Name: "names", Bytes: 100}}
}

// hugeFactory counts how often an index was asked for huge pages.
func hugeFactory(huge int64, asked *int) indexer.Factory {
	return indexer.Factory{Name: "huge", New: func(cfg indexer.Config) (indexer.Index, error) {
		if cfg.HugePages {
			*asked++
		}
		x, err := flat.New(indexer.Config{Threads: cfg.Threads, Slots: cfg.Slots})
		return hugeIndex{x, huge}, err
	}}
}

func TestStateOfTheIndex(t *testing.T) {
	c := testCorpus(t, 300, 50*time.Millisecond)
	cfg := testConfig(t, c, flat.Factory())
	cfg.TrackResidentBlocks = true
	rec := mustRun(t, cfg)
	m := &c.Manifest.Totals
	x := rec.Index
	if x == nil || x.ResidentPairs != m.StoredBlocks-m.RemovedBlocks || x.ResidentPairs != rec.Resident.Sum {
		t.Fatalf("index %+v; %d blocks were stored and %d removed", x, m.StoredBlocks, m.RemovedBlocks)
	}
	var sum int64
	for _, p := range x.Memory.Parts {
		sum += p.Bytes
	}
	if sum == 0 || x.Memory.Bytes != sum || x.Memory.BytesPerPair != float64(sum)/float64(x.ResidentPairs) || x.Memory.HugeBytes != 0 {
		t.Errorf("memory %+v", x.Memory)
	}
	if x.Shape == nil || x.Shape.Unit == "" || x.Shape.Blocks == 0 || x.Shape.Holders == 0 {
		t.Errorf("shape %+v", x.Shape)
	}
	if rec.Resident.ReachableRanks != 0 || rec.Resident.ReachableSum != 0 || rec.Config.HugePages {
		t.Errorf("resident %+v of an index that does not know what can be reached", rec.Resident)
	}
}

func TestStateOfAnIndexThatSaysNothing(t *testing.T) {
	c := testCorpus(t, 250, 20*time.Millisecond)
	rec := mustRun(t, testConfig(t, c, noop.Factory()))
	if x := rec.Index; x == nil || x.Memory != nil || x.Shape != nil || x.ResidentPairs != 0 {
		t.Errorf("index %+v", rec.Index)
	}
}

func TestNoStateAfterAPanic(t *testing.T) {
	c := testCorpus(t, 250, 20*time.Millisecond)
	rec := mustRun(t, testConfig(t, c, wrap(func(indexer.Writer, *indexer.Event) indexer.Effect { panic("cannot apply") }, nil)))
	if rec.Index != nil || !brokenBy(rec, "event_thread_failed") {
		t.Errorf("index %+v, %+v", rec.Index, rec.Validity)
	}
}

func TestHugePages(t *testing.T) {
	c := testCorpus(t, 250, 20*time.Millisecond)
	for name, huge := range map[string]int64{"none obtained": 0, "some obtained": 2 << 20} {
		asked := 0
		cfg := testConfig(t, c, hugeFactory(huge, &asked))
		cfg.HugePages, cfg.TrackResidentBlocks = true, true
		rec := mustRun(t, cfg)
		if asked != 2 || !rec.Config.HugePages || rec.Index.Memory.HugeBytes != huge || rec.Index.Memory.Bytes != 4<<20+100 || len(rec.Index.Memory.Parts) != 2 {
			t.Errorf("%s: asked %d times, index %+v", name, asked, rec.Index.Memory)
		}
		if warned := strings.Contains(strings.Join(rec.Warnings, " "), "huge pages were asked for and 0 bytes"); warned != (huge == 0) {
			t.Errorf("%s: warnings %q", name, rec.Warnings)
		}
		// Where the writer knows what can be reached, the record has the sum.
		var want int64
		for slot, r := range rec.Resident.ByRank {
			if slot != 0 {
				want += r.Blocks / 2
			}
		}
		if rec.Resident.ReachableSum != want || rec.Resident.ReachableRanks != 5 || want == 0 {
			t.Errorf("%d places can be reached on %d ranks, want %d on 5", rec.Resident.ReachableSum, rec.Resident.ReachableRanks, want)
		}
	}
	// Half of the blocks is not what can be reached, and --verify says so.
	cfg := testConfig(t, c, hugeFactory(0, new(int)))
	cfg.Verify = true
	if rec := mustRun(t, cfg); rec.Verify.OK || rec.Verify.Mismatches != 5 || !strings.Contains(rec.Verify.First[0], "can reach") {
		t.Errorf("verify %+v", rec.Verify)
	}
	// Not asked for: not mentioned.
	asked := 0
	rec := mustRun(t, testConfig(t, c, hugeFactory(0, &asked)))
	if asked != 0 || strings.Contains(strings.Join(rec.Warnings, " "), "huge") {
		t.Errorf("asked %d times, warnings %q", asked, rec.Warnings)
	}
}

// TestHugePagesRefused is told before the rest that comes first in a run: a run
// that begins is stopped there.
func TestHugePagesRefused(t *testing.T) {
	c := testCorpus(t, 250, 20*time.Millisecond)
	for _, f := range []indexer.Factory{crtc.Factory(), noop.Factory()} {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		cfg := testConfig(t, c, f)
		cfg.HugePages, cfg.Quiesce = true, time.Hour
		cfg.Phase = func(p Phase) {
			t.Errorf("%s: the run began with %s", f.Name, p)
			stop()
		}
		if rec, err := Run(ctx, cfg); rec != nil || err == nil || !strings.Contains(err.Error(), "--huge-pages: "+f.Name) {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	// The probe is closed, and its own error is not swallowed.
	broken := errors.New("does not close")
	cfg := testConfig(t, c, indexer.Factory{Name: "x", New: func(indexer.Config) (indexer.Index, error) { return closeFails{err: broken}, nil }})
	cfg.HugePages = true
	if _, err := Run(context.Background(), cfg); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

type closeFails struct {
	indexer.Index
	err error
}

func (x closeFails) Close() error { return x.err }
