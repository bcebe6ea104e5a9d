package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/results"
)

// fakeKvbench is a kvbench whose index does capacity block-ops a second. Its
// corpora are files that hold their window.
type fakeKvbench struct {
	t        *testing.T
	capacity float64
	calls    []string // command and axis flag, in order
	shared   bool     // its threads share CPUs
	// before, if set, may end the child in its place.
	before func(call int, args []string) (Outcome, bool)
}

const fakeBlockOps = 1_000_000

func (f *fakeKvbench) Run(ctx context.Context, args []string) (Outcome, error) {
	f.t.Helper()
	flag := func(name string) string {
		for _, a := range slices.Backward(args) {
			if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
				return v
			}
		}
		return ""
	}
	f.calls = append(f.calls, strings.Join(args, " "))
	if f.before != nil {
		if out, ended := f.before(len(f.calls), args); ended {
			return out, nil
		}
	}
	switch args[0] {
	case "corpus":
		if args[1] == "rescale" {
			if _, err := os.Stat(args[2]); err != nil {
				return Outcome{Exit: 2, Stderr: "kvbench: " + err.Error()}, nil
			}
		}
		return Outcome{}, os.WriteFile(flag("out"), []byte(flag("duration")), 0o666)
	case "replay":
		b, err := os.ReadFile(args[1])
		if err != nil {
			return Outcome{Exit: 2, Stderr: "kvbench: " + err.Error()}, nil
		}
		window, err := time.ParseDuration(string(b))
		if err != nil {
			f.t.Fatal(err)
		}
		r := fakeRecord(window, f.capacity)
		r.Config.SharedCPUs = f.shared
		return Outcome{}, results.Write(flag("out"), r, true)
	}
	f.t.Fatalf("unexpected: %q", args)
	return Outcome{}, nil
}

func fakeRecord(window time.Duration, capacity float64) *results.Record {
	end := max(int64(window), int64(fakeBlockOps/capacity*1e9))
	r := &results.Record{Schema: results.ReplayV1, Kind: results.KindReplay}
	r.Timing = results.Timing{WindowNS: int64(window), EndNS: end, IssueEndNS: int64(window)}
	r.Totals = results.Totals{BlockOps: fakeBlockOps, CompletedBlockOps: fakeBlockOps}
	r.Rates.OfferedBlockOpsPerSec = fakeBlockOps / window.Seconds()
	r.Rates.AchievedBlockOpsPerSec = fakeBlockOps / (float64(end) / 1e9)
	wait := end - int64(window)
	r.Queries.Service = results.Distribution{N: 10, P50: 1500, P99: 9000, P999: 20000, Max: 30000}
	r.Queries.ScheduledToFinished = results.Distribution{N: 10, P50: 2000 + wait/2, P99: 15000 + wait, P999: 20000 + wait, Max: 30000 + wait}
	r.Events.ScheduledToFinished = r.Queries.ScheduledToFinished
	r.Machine.PeakRSSBytes = 100 << 20
	r.Validity = results.Validity{Valid: true, KeptUp: float64(end) <= 1.1*float64(window), Reasons: []results.Reason{}}
	return r
}

// still is a machine to which nothing happens.
func still() host.Counters { return host.Counters{UnixNS: time.Now().UnixNano()} }

func windowPlan(t *testing.T, repeat int) Plan {
	t.Helper()
	axis, err := Windows(100*time.Millisecond, 1600*time.Millisecond, 5)
	if err != nil {
		t.Fatal(err)
	}
	return Plan{Schema: SweepV1, Source: "trace.jsonl", Axis: axis, Repeat: repeat,
		PrepareFlags: []string{"--workers=8"}, ReplayFlags: []string{"--index=flat"}}
}

func TestSweepOfWindows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	k := &fakeKvbench{t: t, capacity: 3e6}
	r, err := Run(t.Context(), windowPlan(t, 2), Options{counters: still, Dir: dir, Runner: k})
	if err != nil {
		t.Fatal(err)
	}
	// Done once: prepared for the longest window; each window is scaled once.
	var prepared, scaled, replayed []string
	for _, c := range k.calls {
		switch {
		case strings.HasPrefix(c, "corpus write"):
			prepared = append(prepared, c)
		case strings.HasPrefix(c, "corpus rescale"):
			scaled = append(scaled, c)
		default:
			replayed = append(replayed, filepath.Base(strings.Fields(c)[1]))
			if !strings.Contains(c, "--index=flat") || strings.Contains(c, "--workers") {
				t.Errorf("flags of a replay: %s", c)
			}
		}
	}
	if len(prepared) != 1 || !strings.Contains(prepared[0], "--workers=8") || !strings.Contains(prepared[0], "--duration=1.6s") || len(scaled) != 5 {
		t.Errorf("prepared %q, scaled %d times", prepared, len(scaled))
	}
	order := strings.Join(replayed, " ")
	up := "window-100ms.corpus window-200ms.corpus window-400ms.corpus window-800ms.corpus window-1.6s.corpus"
	down := "window-1.6s.corpus window-800ms.corpus window-400ms.corpus window-200ms.corpus window-100ms.corpus"
	if order != up+" "+down {
		t.Errorf("order: %s", order)
	}
	// 3M block-ops/s keep up with a window of a third of a second.
	if k := r.Knee; k.LastLabel != "400ms" || k.FirstLabel != "200ms" || k.Last != 2.5e6 || k.First != 5e6 || int(k.Most+.5) != 3_000_000 {
		t.Errorf("knee: %+v", r.Knee)
	}
	if len(r.Points) != 5 || r.Points[0].Label != "1.6s" || r.Points[0].KeptUp != 2 || r.Points[4].KeptUp != 0 || r.Points[4].Valid != 2 {
		t.Errorf("points: %+v", r.Points)
	}
	if len(r.Trials) != 10 || len(r.Unmeasured()) != 0 || len(r.Failures()) != 0 || r.Interrupted {
		t.Errorf("trials: %+v", r.Trials)
	}
	if _, err := os.Stat(filepath.Join(dir, workDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the prepared work is still there: %v", err)
	}
	if kept, err := os.ReadDir(filepath.Join(dir, recordDir)); err != nil || len(kept) != 10 {
		t.Errorf("%d records kept, %v", len(kept), err)
	}
	// The folder is taken, by name and with what to do.
	if _, err := Run(t.Context(), windowPlan(t, 2), Options{counters: still, Dir: dir, Runner: k}); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("the same folder again: %v", err)
	}
	// Nothing is left to do.
	calls := len(k.calls)
	again, err := Run(t.Context(), windowPlan(t, 2), Options{counters: still, Dir: dir, Resume: true, Runner: k})
	if err != nil || len(k.calls) != calls || len(again.Trials) != 10 {
		t.Errorf("resumed after the end: %d more calls, %v", len(k.calls)-calls, err)
	}
	// Another plan is refused, and what differs is named.
	other := windowPlan(t, 2)
	other.ReplayFlags = []string{"--index=radix"}
	_, err = Run(t.Context(), other, Options{counters: still, Dir: dir, Resume: true, Runner: k})
	if err == nil || !strings.Contains(err.Error(), `replay_flags was ["--index=flat"] and is ["--index=radix"]`) || strings.Contains(err.Error(), "repeat") {
		t.Errorf("another plan: %v", err)
	}
}

// TestInterruptAndResume ends a sweep in each of its children, once in order and
// once as kill -9 would, and expects the same trials in the end.
func TestInterruptAndResume(t *testing.T) {
	plan := windowPlan(t, 2)
	for at := 1; at <= 16; at++ {
		for _, cut := range []bool{false, true} {
			dir := filepath.Join(t.TempDir(), "sweep")
			ctx, cancel := context.WithCancel(t.Context())
			k := &fakeKvbench{t: t, capacity: 3e6, before: func(call int, args []string) (Outcome, bool) {
				if call == at {
					cancel()
				}
				return Outcome{Exit: 130}, call == at
			}}
			r, err := Run(ctx, plan, Options{counters: still, Dir: dir, Runner: k})
			if err != nil {
				t.Fatalf("interrupted in child %d: %v", at, err)
			}
			if !r.Interrupted {
				t.Fatalf("interrupted in child %d: not said", at)
			}
			done := len(r.Trials)
			if cut {
				// A line that was being written, and a record that was not journalled.
				j, err := os.OpenFile(filepath.Join(dir, journalName), os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := j.WriteString(`{"value":100000000,"run`); err != nil {
					t.Fatal(err)
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				next := plan.order()[done]
				name := fmt.Sprintf("window-%v-%d.json", time.Duration(next.value), next.run)
				if err := os.WriteFile(filepath.Join(dir, recordDir, name), []byte("half a rec"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			k2 := &fakeKvbench{t: t, capacity: 3e6}
			r, err = Run(t.Context(), plan, Options{counters: still, Dir: dir, Resume: true, Runner: k2})
			if err != nil {
				t.Fatalf("resumed after child %d: %v", at, err)
			}
			replays := 0
			for _, c := range k2.calls {
				if strings.HasPrefix(c, "replay") {
					replays++
				}
			}
			var keys []trialKey
			for _, x := range r.Trials {
				keys = append(keys, x.key())
			}
			if !slices.Equal(keys, plan.order()) || replays != 10-done || r.Interrupted {
				t.Fatalf("resumed after child %d, cut %v: %d done, %d more, trials %v", at, cut, done, replays, keys)
			}
			// The journal can still be read.
			if r, err = Run(t.Context(), plan, Options{counters: still, Dir: dir, Resume: true, Runner: k2}); err != nil || len(r.Trials) != 10 {
				t.Fatalf("resumed once more after child %d, cut %v: %+v, %v", at, cut, r, err)
			}
		}
	}
}

func TestFindKeepUp(t *testing.T) {
	plan := Plan{Schema: SweepV1, Source: "trace.jsonl", Repeat: 1, PrepareFlags: []string{}, ReplayFlags: []string{},
		Axis:   Axis{Name: Window, Values: []int64{}},
		KeepUp: &KeepUp{Shortest: 10e6, Longest: 10e9, Runs: 3, Need: 2, Precision: 0.05}}
	dir := filepath.Join(t.TempDir(), "sweep")
	ctx, cancel := context.WithCancel(t.Context())
	k := &fakeKvbench{t: t, capacity: 3e6, before: func(call int, _ []string) (Outcome, bool) {
		if call == 12 {
			cancel()
		}
		return Outcome{}, false
	}}
	r, err := Run(ctx, plan, Options{counters: still, Dir: dir, Runner: k})
	if err != nil || !r.Interrupted || r.KeepUp.Reason != "the search is not over" {
		t.Fatalf("interrupted: %+v, %v", r, err)
	}
	k = &fakeKvbench{t: t, capacity: 3e6}
	if r, err = Run(t.Context(), plan, Options{counters: still, Dir: dir, Resume: true, Runner: k}); err != nil {
		t.Fatal(err)
	}
	// A third of a second of work, of which a window of 1/1.1 is kept up with.
	threshold := 1e9 / 3 / 1.1
	f := r.KeepUp
	if float64(f.WindowNS) < threshold || float64(f.FailsNS) >= threshold || float64(f.WindowNS) > 1.05*float64(f.FailsNS) || f.Reason != "" || f.KeptUp != 2 {
		t.Errorf("%+v, want one just above %v", f, time.Duration(threshold))
	}
	seen := map[trialKey]bool{}
	for _, x := range r.Trials {
		if seen[x.key()] {
			t.Errorf("%+v ran twice", x.key())
		}
		seen[x.key()] = true
	}
	for capacity, want := range map[float64]string{1e3: "even the longest window, 10s", 1e12: "even the shortest window"} {
		r, err := Run(t.Context(), plan, Options{counters: still, Runner: &fakeKvbench{t: t, capacity: capacity}})
		if err != nil || !strings.Contains(r.KeepUp.Reason, want) || (capacity == 1e3) != (r.KeepUp.WindowNS == 0) {
			t.Errorf("capacity %g: %+v, %v; want %q", capacity, r.KeepUp, err, want)
		}
	}
}

func TestSweepOverWork(t *testing.T) {
	plan := Plan{Schema: SweepV1, Source: "trace.jsonl", Repeat: 1, Axis: Axis{"workers", []int64{2, 16}}, WindowNS: 2e9, PrepareFlags: []string{}, ReplayFlags: []string{}}
	k := &fakeKvbench{t: t, capacity: 3e6}
	if _, err := Run(t.Context(), plan, Options{counters: still, Runner: k}); err != nil {
		t.Fatal(err)
	}
	if len(k.calls) != 4 || !strings.Contains(k.calls[0], "--duration=2s --workers=2") || !strings.Contains(k.calls[2], "--workers=16") || strings.Contains(k.calls[3], "--workers") {
		t.Errorf("%q", k.calls)
	}
	// Threads share the work.
	plan.Axis = Axis{"event-threads", []int64{1, 2}}
	k = &fakeKvbench{t: t, capacity: 3e6}
	if _, err := Run(t.Context(), plan, Options{counters: still, Runner: k}); err != nil {
		t.Fatal(err)
	}
	if len(k.calls) != 3 || !strings.HasPrefix(k.calls[0], "corpus write") || !strings.Contains(k.calls[1], "--event-workers=1") || !strings.Contains(k.calls[2], "--event-workers=2") {
		t.Errorf("%q", k.calls)
	}
	// A saved corpus is used as it is, and only along what is not prepared.
	saved := filepath.Join(t.TempDir(), "work.corpus")
	if err := os.WriteFile(saved, []byte("2s"), 0o666); err != nil {
		t.Fatal(err)
	}
	plan.Source, plan.Saved, plan.WindowNS = saved, true, 0
	k = &fakeKvbench{t: t, capacity: 3e6}
	if _, err := Run(t.Context(), plan, Options{counters: still, Runner: k}); err != nil || len(k.calls) != 2 {
		t.Errorf("%q, %v", k.calls, err)
	}
	if _, err := os.Stat(saved); err != nil {
		t.Errorf("the user's corpus: %v", err)
	}
	plan.Axis = Axis{"workers", []int64{1, 2}}
	if _, err := Run(t.Context(), plan, Options{counters: still, Runner: k}); err == nil || !strings.Contains(err.Error(), "needs a trace") {
		t.Errorf("workers of a saved corpus: %v", err)
	}
}

func TestFailuresAreKeptAndNamed(t *testing.T) {
	fails := func(when string, out Outcome) *fakeKvbench {
		return &fakeKvbench{t: t, capacity: 3e6, before: func(_ int, args []string) (Outcome, bool) {
			return out, strings.Contains(strings.Join(args, " "), when)
		}}
	}
	over := Plan{Schema: SweepV1, Source: "trace.jsonl", Repeat: 1, Axis: Axis{"workers", []int64{2, 16, 99}}, WindowNS: 2e9, PrepareFlags: []string{}, ReplayFlags: []string{}}
	// One point asks for too much.
	r, err := Run(t.Context(), over, Options{counters: still, Runner: fails("--workers=16", Outcome{Exit: 2, Stderr: "kvbench: no memory\n"})})
	if err != nil || len(r.Trials) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	if got, want := strings.Join(r.Failures(), "; "), "16, run 1: prepare workers-16: exit code 2: no memory"; got != want {
		t.Errorf("failures: %q, want %q", got, want)
	}
	// A child crashed, another took too long.
	for want, out := range map[string]Outcome{"exit code -1: panic: x": {Exit: -1, Stderr: "panic: x"}, "took longer than --trial-timeout": {Exit: -1, TimedOut: true}} {
		r, err = Run(t.Context(), windowPlan(t, 1), Options{counters: still, Runner: fails("window-400ms.corpus --quiet", out)})
		if err != nil || len(r.Trials) != 5 || len(r.Failures()) != 1 || !strings.Contains(r.Failures()[0], want) {
			t.Errorf("%+v: %+v, %v", out, r, err)
		}
		if u := r.Unmeasured(); !slices.Equal(u, []string{"400ms"}) {
			t.Errorf("unmeasured: %q", u)
		}
	}
	// What stops the first trial stops the sweep.
	if r, err = Run(t.Context(), windowPlan(t, 1), Options{counters: still, Runner: fails("replay", Outcome{Exit: 2, Stderr: "kvbench: --index: none"})}); err == nil || !strings.Contains(err.Error(), "the first trial failed, window 100ms: exit code 2: --index: none") {
		t.Errorf("%+v, %v", r, err)
	}
	// Nothing was measured, so the folder is free for another try.
	dir := filepath.Join(t.TempDir(), "sweep")
	if r, err = Run(t.Context(), over, Options{counters: still, Dir: dir, Runner: fails("replay", Outcome{Exit: 2})}); err == nil {
		t.Errorf("%+v", r)
	}
	if r, err = Run(t.Context(), windowPlan(t, 1), Options{counters: still, Dir: dir, Runner: &fakeKvbench{t: t, capacity: 3e6}}); err != nil {
		t.Errorf("the same folder: %+v, %v", r, err)
	}
	if r, err = Run(t.Context(), over, Options{counters: still, Runner: fails("corpus", Outcome{Exit: 2, Stderr: "kvbench: no trace"})}); err == nil || !strings.Contains(err.Error(), "no trace") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWhatHappensToTheMachine lets the hypervisor take a CPU and threads wait for
// one during the second trial.
func TestWhatHappensToTheMachine(t *testing.T) {
	for _, shared := range []bool{false, true} {
		at, reads := int64(0), 0
		counters := func() host.Counters {
			reads++
			at += 1e9
			c := host.Counters{UnixNS: at, BootID: "b"}
			if reads >= 4 {
				c.StealNS, c.CPUPressureUS = 1e9, 500_000
			}
			return c
		}
		r, err := Run(t.Context(), windowPlan(t, 1), Options{counters: counters, Runner: &fakeKvbench{t: t, capacity: 3e6, shared: shared}})
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range r.Trials {
			var names []string
			for _, c := range x.Machine {
				names = append(names, c.Name)
			}
			var want []string
			switch {
			case i == 1 && shared:
				want = []string{"steal"} // the threads waited for each other
			case i == 1:
				want = []string{"cpu_pressure", "steal"}
			}
			if !slices.Equal(names, want) {
				t.Errorf("shared %v, trial %d: %q, want %q", shared, i, names, want)
			}
		}
		if want := "during window 200ms, run 1, steal: the hypervisor took 100.00% of a CPU (limit 0.5%)"; !slices.Contains(r.Warnings, want) {
			t.Errorf("%q, want %q", r.Warnings, want)
		}
	}
}

func TestTimeLeft(t *testing.T) {
	s := &sweeper{folder: &folder{}, axis: Axis{Name: Window}}
	left := []trialKey{{1e9, 2}, {4e9, 1}, {4e9, 2}}
	if got := s.timeLeft(left); got != "" {
		t.Errorf("known before the first trial: %q", got)
	}
	// A trial took 2 s more than its window: 3 + 6 + 6 are left.
	s.trials = []Trial{{Value: 1e9, Run: 1, TookNS: 3e9}}
	if got := s.timeLeft(left); got != ", 15s left" {
		t.Errorf("%q", got)
	}
	s.trials = append(s.trials, Trial{Value: 1e9, Run: 2, TookNS: 3e9})
	if got := s.timeLeft(left); got != ", 12s left" {
		t.Errorf("%q", got)
	}
}

func TestTwoProcessesCannotShareAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	plan := windowPlan(t, 1)
	k := &fakeKvbench{t: t, capacity: 3e6}
	k.before = func(call int, _ []string) (Outcome, bool) {
		if call == 4 {
			_, err := Run(t.Context(), plan, Options{counters: still, Dir: dir, Resume: true, Runner: &fakeKvbench{t: t}})
			if err == nil || !strings.Contains(err.Error(), "another kvbench") {
				t.Errorf("a second process: %v", err)
			}
		}
		return Outcome{}, false
	}
	if _, err := Run(t.Context(), plan, Options{counters: still, Dir: dir, Runner: k}); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "mine"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), plan, Options{counters: still, Dir: other, Runner: k}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("someone else's folder: %v", err)
	}
	if _, err := Run(t.Context(), plan, Options{counters: still, Dir: other, Resume: true, Runner: k}); err == nil || !strings.Contains(err.Error(), "no sweep to resume") {
		t.Errorf("nothing to resume: %v", err)
	}
}

func TestParseJournal(t *testing.T) {
	const good = `{"value":5,"run":1,"record":"records/a.json","failure":"","exit":0,"start":"","took_ns":1}` + "\n"
	if got, err := parseJournal([]byte(good)); err != nil || len(got) != 1 || got[0].Record != "records/a.json" {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"{}\n":      "line 1: value 0",
		good + good: "line 2: run 1 of value 5 is there twice",
		"x\n":       "line 1: not a trial",
		good + "\n": "line 2: not a trial",
		strings.Replace(good, "records/a", "../a", 1):      "not below the sweep's folder",
		strings.Replace(good, "records/a.json", "", 1):     "either a record or a failure",
		strings.Replace(good, `"exit"`, `"exits"`, 1):      "exits",
		strings.Replace(good, `"value":5`, `"value":0`, 1): "value 0",
	} {
		if got, err := parseJournal([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
		}
	}
}

func FuzzParseJournal(f *testing.F) {
	f.Add([]byte(`{"value":5,"run":1,"record":"records/a.json","failure":"","exit":0,"start":"","took_ns":1}` + "\n"))
	f.Add([]byte(`{"value":5,"run":2,"record":"","failure":"x","exit":2,"start":"","took_ns":1}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		trials, err := parseJournal(b)
		if err != nil {
			return
		}
		for _, x := range trials {
			if x.Value < 1 || x.Run < 1 || x.Record != "" && !filepath.IsLocal(x.Record) {
				t.Errorf("%+v", x)
			}
		}
	})
}
