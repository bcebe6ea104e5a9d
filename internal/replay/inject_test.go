package replay

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/results"
)

// fakeClock moves by a step with each reading.
type fakeClock struct{ now, step int64 }

func (c *fakeClock) Now() int64 {
	c.now += c.step
	return c.now
}

// instantWriter applies nothing and says when.
type instantWriter struct {
	indexer.Writer
	applied func()
}

func (w instantWriter) Apply(*indexer.Event) indexer.Effect {
	w.applied()
	return indexer.Effect{Stored: 7}
}

func TestEventDelay(t *testing.T) {
	clock := &fakeClock{step: 10}
	var at int64
	w := &slowWriter{instantWriter{applied: func() { at = clock.now }}, clock, 200}
	for range 3 {
		before := clock.now
		effect := w.Apply(&indexer.Event{})
		if effect.Stored != 7 || at != before {
			t.Errorf("effect %+v, applied at %d, begun at %d", effect, at, before)
		}
		// One reading says when the delay begins, at most one more falls behind its end.
		if took := clock.now - at; took < 200 || took > 200+2*clock.step {
			t.Errorf("a delay of 200 took %d", took)
		}
	}
	ev := &indexer.Event{}
	if n := testing.AllocsPerRun(100, func() { w.Apply(ev) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNothingInjectedIsNothingAround(t *testing.T) {
	index, err := reference.New(indexer.Config{Threads: 1, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, none := range []Injection{{}, {QueryWork: 1}} {
		if got := none.wrap(index, &fakeClock{}); got != index || none.record() != nil {
			t.Errorf("%+v: %T, %+v", none, got, none.record())
		}
	}
	// One of the two leaves the other's handle alone.
	if r, slow := (Injection{EventDelay: 1}).wrap(index, &fakeClock{}).Reader().(*slowReader); slow {
		t.Errorf("a delay of events put %T around readers", r)
	}
	if w, slow := (Injection{QueryWork: 2}).wrap(index, &fakeClock{}).Writer(0).(*slowWriter); slow {
		t.Errorf("more work of queries put %T around writers", w)
	}
}

func TestInjectedTrial(t *testing.T) {
	c := testCorpus(t, 300, 100*time.Millisecond)
	var lookups, lookupsVerified, warm atomic.Int64
	cfg := testConfig(t, c, wrap(nil, func(r indexer.Reader, q []indexer.LocalHash, ans *indexer.Answer) {
		lookups.Add(1)
		r.Find(q, indexer.FindOptions{}, ans)
	}))
	cfg.Phase = func(p Phase) {
		switch p {
		case PhaseRun:
			warm.Store(lookups.Load())
		case PhaseVerify:
			lookupsVerified.Store(lookups.Load())
		}
	}
	cfg.Verify = true
	cfg.Inject = Injection{EventDelay: time.Microsecond, QueryWork: 3}
	rec := mustRun(t, cfg)
	if !rec.Validity.Valid && !onlyLate(rec) {
		t.Errorf("%+v", rec.Validity)
	}
	if rec.Verify == nil || !rec.Verify.OK {
		t.Errorf("answers differ: %+v", rec.Verify)
	}
	if got, want := lookupsVerified.Load()-warm.Load(), 3*rec.Totals.CompletedQueries; got != want {
		t.Errorf("%d lookups in the run, want %d", got, want)
	}
	if got, want := *rec.Injected, (results.Injected{EventDelayNS: 1000, QueryWork: 3}); got != want {
		t.Errorf("recorded %+v, want %+v", got, want)
	}
	if !slices.ContainsFunc(rec.Warnings, func(w string) bool { return strings.Contains(w, "slowed on purpose") }) {
		t.Errorf("no warning: %q", rec.Warnings)
	}
	// Each event spins for its delay, so its thread ran at least that long.
	var run int64
	for _, th := range rec.Threads {
		if th.Role == roleEvent {
			run += th.RunNS
		}
	}
	if least := rec.Totals.CompletedEvents * rec.Injected.EventDelayNS / 2; run >= 0 && run < least {
		t.Errorf("event threads ran for %d ns, want at least %d", run, least)
	}
	if rec := mustRun(t, testConfig(t, c, flat.Factory())); rec.Injected != nil {
		t.Errorf("nothing was injected: %+v", rec.Injected)
	}
}

func TestInjectionRefuses(t *testing.T) {
	for want, x := range map[string]Injection{
		"--inject-event-delay is -1ns":   {EventDelay: -1},
		"--inject-event-delay is 2s":     {EventDelay: 2 * time.Second},
		"--inject-query-work is -1x":     {QueryWork: -1},
		"--inject-query-work is 100000x": {QueryWork: 100000},
	} {
		if err := x.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", x, err, want)
		}
	}
}

func TestParseQueryWork(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "1x": 1, "2x": 2, "1000": 1000} {
		if got, err := ParseQueryWork(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "0", "0x", "-1", "1.5x", "2xx", "1001", "+2", "02", " 2", "2X"} {
		if got, err := ParseQueryWork(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

func FuzzParseQueryWork(f *testing.F) {
	f.Add("2x")
	f.Add("1000")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseQueryWork(s)
		if err == nil && (n < 1 || n > MaxQueryWork) {
			t.Errorf("%q: %d", s, n)
		}
	})
}
