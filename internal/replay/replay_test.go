package replay

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/indexer/noop"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/internal/replay/prepare"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/trace"
)

// testCorpus is a small generated trace on ranks that must evict.
func testCorpus(t testing.TB, requests int, window time.Duration) *corpus.Corpus {
	t.Helper()
	return prepareTest(t, requests, window, 1)
}

func prepareTest(t testing.TB, requests int, window time.Duration, speedUp float64) *corpus.Corpus {
	t.Helper()
	p := trace.ConversationParams()
	p.Requests = requests
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	c, err := prepare.Prepare(context.Background(), tr, prepare.Origin{Name: "generated", SHA256: strings.Repeat("0", 64)},
		corpus.Options{Workers: 3, DPRanks: 2, BlockSize: 128, GPUBlocks: 1200, LengthFactor: 1, DuplicationFactor: 1, SpeedUp: speedUp, Rescale: corpus.RescaleRank},
		1, window, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Manifest.Totals.RemovedBlocks == 0 {
		t.Fatal("the corpus has no removals; the test would show little")
	}
	return c
}

// testConfig runs unpinned, as on a machine with few CPUs.
func testConfig(t testing.TB, c *corpus.Corpus, index indexer.Factory) Config {
	t.Helper()
	p, err := Place(noRequest(), ThreadCounts{EventIssuers: 2, QueryThreads: 2, EventThreads: 2}, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Corpus: c, Index: index, Placement: p, IssuerSpin: -1, WarmupLookups: 16}
}

func mustRun(t testing.TB, cfg Config) *results.Record {
	t.Helper()
	rec, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// brokenBy tells whether a rule is among the reasons.
func brokenBy(rec *results.Record, rule string) bool {
	for _, r := range rec.Validity.Reasons {
		if r.Rule == rule {
			return true
		}
	}
	return false
}

// onlyLate says whether a trial is valid but for having been issued late, which
// a busy machine can cause and no test can prevent.
func onlyLate(rec *results.Record) bool {
	for _, r := range rec.Validity.Reasons {
		if r.Rule != "issue_span" {
			return false
		}
	}
	return true
}

func TestRunIsCompleteAndVerified(t *testing.T) {
	c := testCorpus(t, 600, 300*time.Millisecond)
	for _, f := range []indexer.Factory{flat.Factory(), reference.Factory()} {
		t.Run(f.Name, func(t *testing.T) {
			cfg := testConfig(t, c, f)
			cfg.Verify, cfg.TrackResidentBlocks, cfg.Placement.Threads.Reader = true, true, 1
			rec := mustRun(t, cfg)
			if !onlyLate(rec) {
				t.Fatalf("not valid: %+v", rec.Validity.Reasons)
			}
			m, tt := &c.Manifest.Totals, &rec.Totals
			if tt.CompletedQueries != m.Requests || tt.CompletedEvents != m.Events() || tt.CompletedBlockOps != m.BlockOps() || tt.IssuedBlockOps != m.BlockOps() {
				t.Errorf("totals %+v of a corpus with %+v", tt, m)
			}
			for name, d := range map[string]results.Distribution{"lag": rec.Queries.IssueLag, "wait": rec.Queries.QueueWait, "service": rec.Queries.Service, "query": rec.Queries.ScheduledToFinished} {
				if d.N != m.Requests || d.P50 < 0 || d.Max < d.P999 || d.P999 < d.P50 {
					t.Errorf("queries, %s: %+v", name, d)
				}
			}
			for name, d := range map[string]results.Distribution{"lag": rec.Events.IssueLag, "done": rec.Events.AcceptedToFinished, "event": rec.Events.ScheduledToFinished} {
				if d.N != m.Events() || d.P50 < 0 || d.Max < d.P50 {
					t.Errorf("events, %s: %+v", name, d)
				}
			}
			v := rec.Verify
			if v == nil || !v.OK || v.Ranks != 6 || v.Queries != 600 {
				t.Errorf("verify %+v", v)
			}
			want := m.StoredBlocks - m.RemovedBlocks
			if rec.Resident == nil || rec.Resident.Sum != want || rec.Resident.Ranks != 6 || len(rec.Resident.ByRank) != 6 {
				t.Errorf("resident %+v, stored - removed is %d", rec.Resident, want)
			}
			if r := rec.Reader; r == nil || r.Passes < 1 || r.PassesPerSec <= 0 || r.LastRanks != 6 || r.LastSum < 0 || r.LastSum > m.StoredBlocks {
				t.Errorf("reader %+v", r)
			}
			if tm := &rec.Timing; tm.EndNS < tm.IssueEndNS || tm.EndNS != max(tm.LastQueryEndNS, tm.LastEventEndNS) || tm.DrainNS != tm.EndNS-tm.IssueEndNS || tm.IssueEndNS < 290e6 {
				t.Errorf("timing %+v", tm)
			}
			if n := len(rec.Threads); n != 1+2+2+2+1 {
				t.Errorf("%d threads in the record", n)
			}
			for _, th := range rec.Threads {
				if th.Operations == 0 || th.PinConfirmed || th.CPU != NoCPU {
					t.Errorf("thread %+v", th)
				}
			}
			if rec.Machine.GarbageCollections != 0 || !rec.Config.SharedCPUs || len(rec.Warnings) == 0 {
				t.Errorf("machine %+v, shared %v, warnings %q", rec.Machine, rec.Config.SharedCPUs, rec.Warnings)
			}
			var b bytes.Buffer
			if err := rec.Encode(&b); err != nil {
				t.Fatal(err)
			}
			if err := results.Validate(b.Bytes()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPacedReader asks for more passes than the trial is long enough for, or
// fewer, and looks whether the figures say so.
func TestPacedReader(t *testing.T) {
	c := testCorpus(t, 300, 300*time.Millisecond)
	cfg := testConfig(t, c, flat.Factory())
	cfg.TrackResidentBlocks, cfg.Placement.Threads.Reader, cfg.ReaderRate = true, 1, 100
	r := mustRun(t, cfg).Reader
	// About 30 passes; late ones are missed, not made up for.
	if total := r.Passes + r.MissedPasses; total < 20 || total > 200 || r.PassesPerSec > 130 || r.Rate != 100 {
		t.Errorf("reader %+v", r)
	}
}

// wrapped is an index with some calls replaced.
type wrapped struct {
	indexer.Index
	apply func(w indexer.Writer, ev *indexer.Event) indexer.Effect
	find  func(r indexer.Reader, q []indexer.LocalHash, ans *indexer.Answer)
}

type wrappedWriter struct {
	indexer.Writer
	x *wrapped
}

func (w wrappedWriter) Apply(ev *indexer.Event) indexer.Effect { return w.x.apply(w.Writer, ev) }

type wrappedReader struct {
	indexer.Reader
	x *wrapped
}

func (r wrappedReader) Find(q []indexer.LocalHash, _ indexer.FindOptions, ans *indexer.Answer) {
	r.x.find(r.Reader, q, ans)
}

func (x *wrapped) Writer(i int) indexer.Writer { return wrappedWriter{x.Index.Writer(i), x} }
func (x *wrapped) Reader() indexer.Reader      { return wrappedReader{x.Index.Reader(), x} }

func wrap(apply func(indexer.Writer, *indexer.Event) indexer.Effect, find func(indexer.Reader, []indexer.LocalHash, *indexer.Answer)) indexer.Factory {
	if apply == nil {
		apply = func(w indexer.Writer, ev *indexer.Event) indexer.Effect { return w.Apply(ev) }
	}
	if find == nil {
		find = func(r indexer.Reader, q []indexer.LocalHash, ans *indexer.Answer) {
			r.Find(q, indexer.FindOptions{}, ans)
		}
	}
	return indexer.Factory{Name: "wrapped", New: func(cfg indexer.Config) (indexer.Index, error) {
		x, err := flat.New(cfg)
		return &wrapped{x, apply, find}, err
	}}
}

func TestVerifyFindsAWrongIndex(t *testing.T) {
	c := testCorpus(t, 400, 100*time.Millisecond)
	for name, f := range map[string]indexer.Factory{
		"drops removals": wrap(func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			if ev.Kind == indexer.Removed {
				return indexer.Effect{}
			}
			return w.Apply(ev)
		}, nil),
		"loses a rank from answers": wrap(nil, func(r indexer.Reader, q []indexer.LocalHash, ans *indexer.Answer) {
			var full indexer.Answer
			r.Find(q, indexer.FindOptions{}, &full)
			ans.Reset()
			for _, slot := range full.Touched() {
				if slot != 3 {
					ans.Set(slot, full.Score(slot))
				}
			}
		}),
	} {
		cfg := testConfig(t, c, f)
		cfg.Verify = true
		rec := mustRun(t, cfg)
		if rec.Validity.Valid || !brokenBy(rec, "verify") || rec.Verify.OK || rec.Verify.Mismatches == 0 || len(rec.Verify.First) == 0 {
			t.Errorf("%s: validity %+v, verify %+v", name, rec.Validity, rec.Verify)
		}
	}
}

func TestFailuresEndTheTrialWithAReason(t *testing.T) {
	c := testCorpus(t, 300, 100*time.Millisecond)
	var events, queries atomic.Int64
	for rule, f := range map[string]indexer.Factory{
		"event_thread_failed": wrap(func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			if events.Add(1) == 100 {
				panic("cannot apply")
			}
			return w.Apply(ev)
		}, nil),
		"thread_failed": wrap(nil, func(r indexer.Reader, q []indexer.LocalHash, ans *indexer.Answer) {
			if queries.Add(1) == 100 {
				panic("cannot find")
			}
			r.Find(q, indexer.FindOptions{}, ans)
		}),
		"event_failed": wrap(func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
			e := w.Apply(ev)
			e.Malformed = 1
			return e
		}, nil),
	} {
		cfg := testConfig(t, c, f)
		cfg.Verify = true
		rec := mustRun(t, cfg)
		if rec.Validity.Valid || rec.Validity.KeptUp || !brokenBy(rec, rule) {
			t.Errorf("%s: %+v", rule, rec.Validity)
		}
	}
}

func TestDrainThatDoesNotEnd(t *testing.T) {
	c := testCorpus(t, 250, 20*time.Millisecond)
	cfg := testConfig(t, c, wrap(func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
		time.Sleep(20 * time.Millisecond)
		return w.Apply(ev)
	}, nil))
	cfg.DrainTimeout = 50 * time.Millisecond
	rec := mustRun(t, cfg)
	if rec.Validity.Valid || !brokenBy(rec, "drain") {
		t.Errorf("%+v", rec.Validity)
	}
}

func TestLateIssueIsInvalid(t *testing.T) {
	c := testCorpus(t, 300, time.Nanosecond)
	rec := mustRun(t, testConfig(t, c, flat.Factory()))
	if rec.Validity.Valid || !brokenBy(rec, "issue_span") {
		t.Errorf("a window of 1 ns: %+v", rec.Validity)
	}
}

func TestSmallQueueMakesIssuersWait(t *testing.T) {
	c := testCorpus(t, 300, 10*time.Millisecond)
	cfg := testConfig(t, c, wrap(func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
		time.Sleep(100 * time.Microsecond)
		return w.Apply(ev)
	}, nil))
	cfg.QueueCapacity, cfg.Verify = 2, true
	rec := mustRun(t, cfg)
	if rec.Depths.BlockedSubmits == 0 || rec.Depths.BlockedNS == 0 || !rec.Verify.OK || rec.Config.QueueCapacity != 2 {
		t.Errorf("depths %+v, verify %+v", rec.Depths, rec.Verify)
	}
}

func TestInterrupt(t *testing.T) {
	c := testCorpus(t, 600, 30*time.Second)
	ctx, cancel := context.WithCancelCause(context.Background())
	cfg := testConfig(t, c, flat.Factory())
	cfg.Verify = true
	because := errors.New("stop")
	cfg.Phase = func(p Phase) {
		if p == PhaseRun {
			time.AfterFunc(150*time.Millisecond, func() { cancel(because) })
		}
	}
	began := time.Now()
	rec, err := Run(ctx, cfg)
	if err != nil {
		t.Fatalf("what was measured is gone: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the trial went on for %v", took)
	}
	if v := &rec.Validity; !v.Interrupted || v.Valid || !brokenBy(rec, "interrupted") {
		t.Errorf("%+v", rec.Validity)
	}
	if tt := &rec.Totals; tt.IssuedQueries == tt.Queries || tt.CompletedQueries != tt.IssuedQueries || tt.CompletedEvents != tt.IssuedEvents {
		t.Errorf("totals %+v", tt)
	}

	// Before the run there is nothing to keep.
	cfg.Phase, cfg.Quiesce = nil, time.Minute
	if rec, err := Run(ctx, cfg); rec != nil || !errors.Is(err, because) {
		t.Errorf("cancelled before the start: %v, %v", rec, err)
	}
}

// TestPinThatFails simulates a kernel that does not let threads be pinned, for
// one role after another.
func TestPinThatFails(t *testing.T) {
	c := testCorpus(t, 250, 10*time.Millisecond)
	for _, cpu := range []int{0, 1, 2, 3, 4} {
		cfg := testConfig(t, c, flat.Factory())
		cfg.Placement = Placement{Threads: ThreadCounts{1, 1, 1, 1}, QueryIssuer: 0, Issuers: []int{1}, Query: []int{2}, Event: []int{3}, Reader: 4, Pinned: true}
		cfg.TrackResidentBlocks = true
		cfg.pin = func(n int) error {
			if n == cpu {
				return unix.EPERM
			}
			return nil
		}
		rec, err := Run(context.Background(), cfg)
		if rec != nil || !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "pin") {
			t.Errorf("CPU %d: record %v, error %v", cpu, rec != nil, err)
		}
	}
	// A pin that was granted and did not hold makes the trial invalid.
	cfg := testConfig(t, c, flat.Factory())
	cfg.Placement = Placement{Threads: ThreadCounts{1, 1, 1, 0}, QueryIssuer: 9000, Issuers: []int{9001}, Query: []int{9002}, Event: []int{9003}, Reader: NoCPU, Pinned: true, Shared: true}
	cfg.pin = func(int) error { return nil }
	if rec := mustRun(t, cfg); rec.Validity.Valid || !brokenBy(rec, "pin") {
		t.Errorf("pins that did not hold: %+v", rec.Validity)
	}
}

// TestWindowDoesNotAllocate compares two corpora of which one has ten times the
// work: what is allocated must not depend on it, and be a handful.
func TestWindowDoesNotAllocate(t *testing.T) {
	allocations := func(requests int) int64 {
		c := testCorpus(t, requests, 200*time.Millisecond)
		rec := mustRun(t, testConfig(t, c, noop.Factory()))
		return rec.Machine.HeapAllocations
	}
	// The runtime allocates a few objects for threads that sleep and wake.
	const handful = 100
	small, large := allocations(250), allocations(2500)
	if small > handful || large > handful {
		t.Errorf("%d objects with 250 requests, %d with 2500; the harness itself must not allocate", small, large)
	}
}

func TestConfigRefuses(t *testing.T) {
	c := testCorpus(t, 250, time.Millisecond)
	for want, change := range map[string]func(*Config){
		"no corpus":                 func(c *Config) { c.Corpus = nil },
		"no index":                  func(c *Config) { c.Index = indexer.Factory{} },
		"--query-lanes is 1":        func(c *Config) { c.QueryLanes = 1 },
		"--queue-capacity is -1":    func(c *Config) { c.QueueCapacity = -1 },
		"--quiesce":                 func(c *Config) { c.Quiesce = -1 },
		"--warmup-lookups":          func(c *Config) { c.WarmupLookups = -1 },
		"--drain-timeout":           func(c *Config) { c.DrainTimeout = -1 },
		"--verify-queries":          func(c *Config) { c.VerifyQueries = -1 },
		"reader-rate":               func(c *Config) { c.ReaderRate = -1 },
		"needs --track-resident":    func(c *Config) { c.Placement.Threads.Reader = 1 },
		"nothing to verify":         func(c *Config) { c.Index, c.Verify = noop.Factory(), true },
		"works with one event":      func(c *Config) { c.Index.SingleThread = true },
		"the corpus has no ranks":   func(c *Config) { c.Corpus = &corpus.Corpus{} },
		"the placement has no thre": func(c *Config) { c.Placement = Placement{} },
	} {
		cfg := testConfig(t, c, flat.Factory())
		change(&cfg)
		if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func TestMoreEventThreadsThanRanks(t *testing.T) {
	c := testCorpus(t, 250, 50*time.Millisecond)
	p, err := Place(noRequest(), ThreadCounts{EventThreads: 8, EventIssuers: 9}, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t, c, flat.Factory())
	cfg.Placement, cfg.Verify = p, true
	rec := mustRun(t, cfg)
	if !onlyLate(rec) || !rec.Verify.OK || !strings.Contains(strings.Join(rec.Warnings, " "), "8 event threads but 6 ranks") {
		t.Errorf("validity %+v, warnings %q", rec.Validity, rec.Warnings)
	}
}
