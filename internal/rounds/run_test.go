package rounds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/internal/fileid"
	"github.com/kvbench/kvbench/results"
)

func ignoreTerm() { signal.Ignore(syscall.SIGTERM) }

// skipIfSlow skips a test that starts many children where each takes seconds. What
// runs concurrently in the parent runs in other tests as well.
func skipIfSlow(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("children start too slowly under the race detector")
	}
}

func TestRun(t *testing.T) {
	p := fakePlan(t, 6, fake(t, "base", "--value 100"), fake(t, "head", "--value 90 --sleep 1ms"))
	p.AA = true
	e := create(t, p)
	var told []Status
	if err := e.Run(context.Background(), RunOptions{QuickHost: true, Progress: func(s Status) { told = append(told, s) }}); err != nil {
		t.Fatal(err)
	}
	if len(e.Trials) != 7*3 || !e.Done() || len(told) != 21 || told[20].Left != 1 || told[0].Left != 21 {
		t.Fatalf("%d trials, done %v, %d times told", len(e.Trials), e.Done(), len(told))
	}
	// Whatever a variant's flags, the system builds stacks of one size for a
	// round, and another for the next.
	sizes := map[int]bool{}
	for i, tr := range e.Trials {
		if !tr.Valid || tr.Exit != "exit status 0" || tr.WallNS <= 0 || tr.Usage.MaxRSSBytes == 0 {
			t.Fatalf("%+v", tr)
		}
		if first := e.Trials[i-i%3]; tr.ArgBytes != first.ArgBytes || tr.Pointers != first.Pointers {
			t.Errorf("round %d: %s has %d bytes and %d pointers, %s has %d and %d", tr.Round, tr.Variant, tr.ArgBytes, tr.Pointers, first.Variant, first.ArgBytes, first.Pointers)
		}
		sizes[tr.ArgBytes] = true
	}
	if len(sizes) < 4 {
		t.Errorf("the padding does not differ from round to round: %v", sizes)
	}
	again, err := Open(e.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(steps(again), steps(e)) {
		t.Error("what is read is not what was written")
	}
	a, err := again.Analyse(AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := a.Comparisons[0]; len(a.Comparisons) != 1 || c.Ratio.String() != "head/base" || c.Metric.Path != "rates.achieved_block_ops_per_sec" || c.Result.Median < 0.899 || c.Result.Median > 0.901 || !c.Result.Interpolated.Ok() {
		t.Errorf("%+v", a.Comparisons)
	}
	if len(a.Floor) != 1 || a.Floor[0].Result.Median != 1 {
		t.Errorf("%+v", a.Floor)
	}
}

// TestBadChildren: whatever a child does becomes a trial with a reason.
func TestBadChildren(t *testing.T) {
	for mode, want := range map[string]struct {
		rule   string
		failed bool
	}{
		"late":      {"issue_span", false},
		"crash":     {"no_record", true},
		"hang":      {"timeout", true},
		"garbage":   {"bad_record", true},
		"huge":      {"bad_record", true},
		"talk":      {"no_record", true},
		"other":     {"other_corpus", true},
		"nothing":   {"no_record", true},
		"exit":      {"exit", false},
		"self-kill": {"no_record", true},
		"no-folder": {"no_record", true},
		"file":      {"no_record", true},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := fakePlan(t, 1, fake(t, "bad", "--mode "+mode))
			if mode == "hang" {
				p.Rules.TrialTimeout = 300 * time.Millisecond
			}
			e := create(t, p)
			err := run(t, e)
			var child *ChildError
			if errors.As(err, &child) != want.failed || err != nil && !want.failed {
				t.Fatal(err)
			}
			first := e.Trials[0]
			if first.Valid || first.Failed != want.failed || !slices.ContainsFunc(first.Reasons, func(r results.Reason) bool { return r.Rule == want.rule }) {
				t.Errorf("%+v", first)
			}
			if len(first.Output) > 3*tailBytes+100 {
				t.Errorf("%d bytes of output are kept", len(first.Output))
			}
			switch mode {
			case "crash":
				if !strings.Contains(err.Error(), "this crash is a test's") || !strings.Contains(first.Exit, "2") {
					t.Errorf("%v, %s", err, first.Exit)
				}
			case "self-kill":
				if !strings.Contains(first.Exit, "killed") {
					t.Error(first.Exit)
				}
			case "huge":
				if !strings.Contains(err.Error(), "larger than 64 MiB") {
					t.Error(err)
				}
			}
			// Read again, it is the same.
			if again, err := Open(e.Dir); err != nil || !slices.Equal(steps(again), steps(e)) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestStubbornChild(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the second signal")
	}
	t.Parallel()
	p := fakePlan(t, 1, fake(t, "bad", "--mode stubborn"))
	// The child must have come to ignore signals by then, on a slow machine too.
	p.Rules.TrialTimeout = 3 * time.Second
	e := create(t, p)
	var child *ChildError
	if err := run(t, e); !errors.As(err, &child) || !strings.Contains(e.Trials[0].Exit, "killed") {
		t.Errorf("%v %+v", err, e.Trials)
	}
}

// TestLeftovers: what a child leaves behind does not disturb the next one, nor keep
// the folder.
func TestLeftovers(t *testing.T) {
	for mode, left := range map[string]int{"daemon": 0, "escape": 1} {
		t.Run(mode, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "pid")
			e := create(t, fakePlan(t, 1, fake(t, "messy", "--mode "+mode+" --state "+state)))
			// A process without other children may end all that it finds.
			if out, err := exec.Command(os.Args[0], "fake-parent", e.Dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			b, err := os.ReadFile(state)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(string(b))
			if err != nil {
				t.Fatal(err)
			}
			if !gone(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Errorf("process %d still lives", pid)
			}
			if e, err = Open(e.Dir); err != nil {
				t.Fatal(err)
			}
			if tr := e.Trials[1]; !tr.Valid || tr.LeftBehind != left {
				t.Errorf("%+v", tr)
			}
			a, err := e.Analyse(AnalyseOptions{Ratios: []Ratio{}})
			if err != nil {
				t.Fatal(err)
			}
			if warned := slices.ContainsFunc(a.Warnings, func(w Warning) bool {
				return strings.Contains(w.Text, "left processes behind, which were ended: messy 1")
			}); warned != (left > 0) {
				t.Errorf("%+v", a.Warnings)
			}
			lock, err := e.lock()
			if err != nil {
				t.Fatal(err)
			}
			_ = lock.Close()
		})
	}
}

// gone waits for the end of a process, which whoever adopted it may take a moment to
// reap.
func gone(pid int) bool {
	for range 100 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// TestFailuresInARow: a variant that worked may fail now and then, not for good.
func TestFailuresInARow(t *testing.T) {
	skipIfSlow(t)
	dir := t.TempDir()
	p := fakePlan(t, 8, fake(t, "base", ""), fake(t, "once", "--mode hang-later --state "+dir+"/1"))
	p.Rules.TrialTimeout = time.Second
	e := create(t, p)
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	a, err := e.Analyse(AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := a.Comparisons[0]; len(c.Result.Pairs.Dropped) != 1 || len(c.Result.Pairs.Kept) != 7 || c.Planned != 8 || !strings.Contains(c.Result.Pairs.DroppedText(), "timeout") {
		t.Errorf("%+v", c.Result.Pairs)
	}
	e = create(t, fakePlan(t, 8, fake(t, "base", ""), fake(t, "dies", "--mode crash-later --state "+dir+"/2")))
	var child *ChildError
	if err := run(t, e); !errors.As(err, &child) || child.Trials != mostFailures || child.Variant != "dies" {
		t.Errorf("%v", err)
	}
}

func TestRetryInvalid(t *testing.T) {
	p := fakePlan(t, 4, fake(t, "base", ""), fake(t, "late", "--mode late-once --state "+filepath.Join(t.TempDir(), "n")))
	p.Rules.RetryInvalid = 2
	e := create(t, p)
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	// The third call is that of round 2; it is repeated at the end of the round.
	if len(e.Trials) != 11 {
		t.Fatalf("%v", steps(e))
	}
	i := slices.IndexFunc(e.Trials, func(t Trial) bool { return t.Attempt == 2 })
	if x := e.Trials[i]; x.Round != 2 || x.Slot != 2 || x.Variant != "late" || !x.Valid {
		t.Errorf("%v", steps(e))
	}
	a, err := e.Analyse(AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if v := a.Variants[1]; v.Trials != 5 || v.Invalid != 1 || v.Retries != 1 || v.Rules["issue_span"] != 1 {
		t.Errorf("%+v", v)
	}
	if c := a.Comparisons[0]; len(c.Result.Pairs.Kept) != 4 || len(c.Result.Pairs.Dropped) != 0 {
		t.Errorf("%+v", c.Result.Pairs)
	}
}

// TestKillAndResume kills the parent again and again, wherever it is, and lets it
// go on: the trials are those of an experiment that nobody disturbed.
func TestKillAndResume(t *testing.T) {
	plan := func() *Plan {
		return fakePlan(t, 6, fake(t, "a", "--sleep 10ms"), fake(t, "b", "--sleep 10ms --value 90"), fake(t, "c", "--sleep 10ms"))
	}
	skipIfSlow(t)
	whole := create(t, plan())
	began := time.Now()
	if err := run(t, whole); err != nil {
		t.Fatal(err)
	}
	// Some sessions last too short for a trial, some for several of them.
	longest := max(300*time.Millisecond, time.Since(began)/2)
	e := create(t, plan())
	kills := 0
	for range 200 {
		cmd := exec.Command(os.Args[0], "fake-parent", e.Dir)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err == nil {
				goto done
			}
			// A child of the one that was killed may take a moment to die.
			if !strings.Contains(errs.String(), "is in use") {
				t.Fatalf("%v: %s", err, errs.String())
			}
			time.Sleep(20 * time.Millisecond)
		case <-time.After(30*time.Millisecond + rand.N(longest)):
			_ = cmd.Process.Kill()
			<-ended
			kills++
		}
	}
done:
	got, err := Open(e.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Done() || !slices.Equal(steps(got), steps(whole)) {
		t.Errorf("killed %d times: %v, want %v", kills, steps(got), steps(whole))
	}
	t.Logf("killed %d times in %d sessions", kills, len(got.Sessions))
	if kills > 0 && len(got.Sessions) < 2 {
		t.Error("no session was killed")
	}
}

// TestChildDiesWithParent: kill -9 of the parent leaves nothing running.
func TestChildDiesWithParent(t *testing.T) {
	e := create(t, fakePlan(t, 1, fake(t, "slow", "--sleep 1h")))
	cmd := exec.Command(os.Args[0], "fake-parent", e.Dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The folder is in use, by the parent and then by nobody.
	for range 500 {
		time.Sleep(10 * time.Millisecond)
		if _, err := os.Stat(filepath.Join(e.Dir, trialFolder)); err == nil {
			break
		}
	}
	time.Sleep(100 * time.Millisecond)
	if err := run(t, e); err == nil || !strings.Contains(err.Error(), "in use by process "+strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("a second run: %v", err)
	}
	if err := e.Note("x", 1); err != nil {
		t.Errorf("a note while another runs: %v", err)
	}
	if _, _, err := Create(context.Background(), e.Dir, fakePlan(t, 1, fake(t, "slow", "")), noProgress{}); err == nil {
		t.Error("a second experiment took the folder")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for range 500 {
		if lock, err := e.lock(); err == nil {
			_ = lock.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the child still holds the lock")
}

func TestInterrupt(t *testing.T) {
	e := create(t, fakePlan(t, 3, fake(t, "a", "--sleep 50ms"), fake(t, "b", "--sleep 50ms")))
	ctx, cancel := context.WithCancelCause(context.Background())
	n := 0
	err := e.Run(ctx, RunOptions{QuickHost: true, Progress: func(Status) {
		if n++; n == 4 {
			time.AfterFunc(20*time.Millisecond, func() { cancel(errors.New("a signal")) })
		}
	}})
	if !errors.Is(err, ErrInterrupted) || len(e.Trials) != 3 {
		t.Fatalf("%v after %d trials", err, len(e.Trials))
	}
	if s := e.Sessions[0]; s.Ended != ErrInterrupted.Error() || s.HostAtEnd == nil {
		t.Errorf("%+v", s)
	}
	if err := run(t, e); err != nil || !e.Done() || len(e.Trials) != 8 {
		t.Errorf("%v after %d trials", err, len(e.Trials))
	}
}

func TestExtendAndNotes(t *testing.T) {
	skipIfSlow(t)
	p := fakePlan(t, 2, fake(t, "a", ""), fake(t, "b", ""), fake(t, "c", ""))
	e := create(t, p)
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	if err := e.Note("gate", map[string]int{"look": 1}); err != nil {
		t.Fatal(err)
	}
	if err := e.Extend(2, "no more"); err == nil {
		t.Error("an extension to what is there")
	}
	if err := e.Extend(5, "one more look"); err != nil || e.Done() || e.Rounds() != 5 {
		t.Fatal(err)
	}
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	again, err := Open(e.Dir)
	if err != nil {
		t.Fatal(err)
	}
	p.Rounds = 5
	long := create(t, p)
	if err := run(t, long); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(steps(again), steps(long)) {
		t.Errorf("%v, planned at once: %v", steps(again), steps(long))
	}
	if notes := again.Notes("gate"); len(notes) != 1 || string(notes[0]) != `{"look":1}` || again.Notes("other") != nil {
		t.Errorf("%s", notes)
	}
	a, err := again.Analyse(AnalyseOptions{Rounds: 3})
	if err != nil || a.Planned != 3 || a.Done != 3 {
		t.Errorf("%v %+v", err, a)
	}
}

// TestChanged: nothing goes on with other things than it began with.
func TestChanged(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "driver")
	write := func(text string) {
		if err := os.WriteFile(script, []byte("#!/bin/sh\n"+text+"\nexec "+os.Args[0]+" fake-child \"$@\"\n"), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	v, err := ParseVariant("a=!" + script + " --corpus {corpus} --out {out}")
	if err != nil {
		t.Fatal(err)
	}
	e := create(t, fakePlan(t, 2, v))
	if err := e.CheckSame(fakePlan(t, 2, v)); err != nil {
		t.Errorf("the same plan: %v", err)
	}
	for name, want := range map[string]string{"rounds": "rounds: was 2, is 3", "seed": "seed: was 7, is 8", "flags": "variant a, args: was", "order": "order: was balanced, is random", "variants": "variant b, name: was absent, is b", "environment": `environment: was without, is "ADDED=1"`, "gap": "rules.gap: was 0s, is 1s"} {
		p := fakePlan(t, 2, v)
		switch name {
		case "rounds":
			p.Rounds = 3
		case "seed":
			p.Seed = 8
		case "flags":
			p.Variants[0].Args = append(p.Variants[0].Args, "--value", "5")
		case "order":
			p.Order = Random
		case "environment":
			p.Env = []string{"ADDED=1"}
		case "gap":
			p.Rules.Gap = time.Second
		case "variants":
			p.Variants = append(p.Variants, fake(t, "b", ""))
		}
		var changed *ChangedError
		if err := e.CheckSame(p); !errors.As(err, &changed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		v.Args = v.Args[:4]
	}
	// Between trials.
	err = e.Run(context.Background(), RunOptions{QuickHost: true, Progress: func(s Status) {
		if s.Done == 1 {
			write("true # changed")
		}
	}})
	var changed *ChangedError
	if !errors.As(err, &changed) || !strings.Contains(err.Error(), script) || len(e.Trials) != 1 {
		t.Errorf("%v after %d trials", err, len(e.Trials))
	}
	if err := run(t, e); !errors.As(err, &changed) || !strings.Contains(err.Error(), "the program of variant a, "+script+", SHA-256: was "+e.Manifest.Variants[0].SHA256+", is ") {
		t.Errorf("resumed: %v", err)
	}
	write("")
	if err := run(t, e); err != nil || !e.Done() {
		t.Errorf("restored: %v", err)
	}
}

// TestChangedFiles changes files that variants name, by every way to name one,
// between trials, during one, and between two runs.
func TestChangedFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"flag", "at", "word", "variable"} {
		write(name, "one")
	}
	plan := func() *Plan {
		named := fmt.Sprintf("--ignored=%[1]s/flag --ignored=@%[1]s/at --ignored=%[1]s/absent -- %[1]s/word", dir)
		p := fakePlan(t, 3, fake(t, "a", ""), fake(t, "b", named))
		p.Env = []string{"KVBENCH_CONFIG=" + filepath.Join(dir, "variable"), "OTHER=" + filepath.Join(dir, "word")}
		return p
	}
	e := create(t, plan())
	var got []string
	for _, f := range e.Manifest.Variants[1].Files {
		got = append(got, filepath.Base(f.Path))
	}
	if want := []string{"flag", "at", "word", "variable"}; !slices.Equal(got, want) || len(e.Manifest.Variants[0].Files) != 1 {
		t.Fatalf("files %v, want %v; %v", got, want, e.Manifest.Variants[0].Files)
	}
	for _, name := range got {
		write(name, "two")
		for what, check := range map[string]func() error{"planned anew": func() error { return e.CheckSame(plan()) }, "resumed": func() error { return run(t, e) }} {
			var changed *ChangedError
			if err := check(); !errors.As(err, &changed) || !strings.Contains(err.Error(), "/"+name+" that variant b names, SHA-256: was ") || len(e.Trials) > 0 {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		write(name, "one")
	}
	if err := e.CheckSame(plan()); err != nil {
		t.Error(err)
	}
	// Between trials: b is not started while its file is another one.
	if err := e.Run(context.Background(), RunOptions{QuickHost: true, Progress: func(s Status) {
		switch {
		case s.Step.Variant == "b" && s.Step.Round == 2:
			write("at", "two")
		case s.Step.Variant == "a":
			write("at", "one") // the same as before, but written again
		}
	}}); err != nil {
		t.Fatal(err)
	}
	for _, tr := range e.Trials {
		if hit := tr.Variant == "b" && tr.Round == 2; tr.Valid == hit || tr.Failed != hit {
			t.Errorf("round %d, %s: valid %v, failed %v, %s", tr.Round, tr.Variant, tr.Valid, tr.Failed, reasonText(tr.Reasons))
		} else if hit && (tr.Reasons[0].Rule != "changed_file" || !strings.Contains(tr.Reasons[0].Detail, filepath.Join(dir, "at")+" was ") || tr.Exit != "not started") {
			t.Errorf("%+v", tr)
		}
	}
	if again, err := Open(e.Dir); err != nil || !slices.Equal(steps(again), steps(e)) {
		t.Errorf("read again: %v", err)
	}
	// For good: the run ends and says why.
	e = create(t, plan())
	err := e.Run(context.Background(), RunOptions{QuickHost: true, Progress: func(s Status) {
		if s.Done == 2 { // the warm-up
			write("flag", "two")
		}
	}})
	var child *ChildError
	if !errors.As(err, &child) || child.Variant != "b" || !strings.Contains(err.Error(), "changed_file: "+filepath.Join(dir, "flag")) {
		t.Errorf("%v", err)
	}
	write("flag", "one")
	// During a trial: it counts no more than one before which it changed.
	writer := fake(t, "c", "--state "+filepath.Join(dir, "state"))
	write("state", "1")
	e = create(t, fakePlan(t, 1, writer))
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	if first, next := e.Trials[0], e.Trials[1]; first.Valid || first.Failed || len(first.Record) == 0 || reasonText(first.Reasons) != reasonText(next.Reasons) || next.Exit != "not started" {
		t.Errorf("changed during a trial: %s, %s; then %s, %s", first.Exit, reasonText(first.Reasons), next.Exit, reasonText(next.Reasons))
	}
}

// TestNamedFiles finds the policy of a replay among flags of all and of one
// variant, and takes nothing for a file that is none.
func TestNamedFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"p.yaml", "q.yaml", "runs"} {
		if err := os.WriteFile(name, []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("folder", 0o777); err != nil {
		t.Fatal(err)
	}
	v, err := ParseVariant("v=--policy=@q.yaml --index=folder --workers 128")
	if err != nil {
		t.Fatal(err)
	}
	p := fakePlan(t, 1, v)
	p.Arguments = []string{"--policy=@p.yaml", "--empty=", "--at=@", "--query-threads=1"}
	m, err := p.manifest(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range m.Variants[0].Files {
		got = append(got, f.Path)
		if want, err := fileid.Hash(f.Path); err != nil || f.SHA256 != want {
			t.Errorf("%v: %v", f, err)
		}
	}
	if want := []string{filepath.Join(dir, "p.yaml"), filepath.Join(dir, "q.yaml")}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCreateRefuses(t *testing.T) {
	e := create(t, fakePlan(t, 1, fake(t, "a", "")))
	// Nothing was measured, so it may be begun anew, without what a killed process
	// left of its corpus.
	torn := e.path(".kvbench-0123abcd.tmp")
	if err := os.WriteFile(torn, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Create(context.Background(), e.Dir, fakePlan(t, 1, fake(t, "b", "")), noProgress{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(torn); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	e, err := Open(e.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Create(context.Background(), e.Dir, fakePlan(t, 1, fake(t, "b", "")), noProgress{}); !errors.Is(err, ErrExists) {
		t.Errorf("%v", err)
	}
	// Not even if the manifest was lost, or the journal packed.
	if err := os.Rename(e.path(manifestName), e.path(".lost")); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(e.path(journalName))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Create(context.Background(), e.Dir, fakePlan(t, 1, fake(t, "b", "")), noProgress{}); err == nil || !strings.Contains(err.Error(), "holds trials, but its manifest.json is missing") {
		t.Errorf("%v", err)
	}
	if after, err := os.ReadFile(e.path(journalName)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the journal was touched: %v", err)
	}
	if err := os.WriteFile(e.path(journalName), []byte("{\n{\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Create(context.Background(), e.Dir, fakePlan(t, 1, fake(t, "b", "")), noProgress{}); err == nil || !strings.Contains(err.Error(), "cannot be read (line 1") {
		t.Errorf("%v", err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.tex"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Create(context.Background(), other, fakePlan(t, 1, fake(t, "b", "")), noProgress{}); err == nil || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("%v", err)
	}
	if _, err := Open(other); err == nil || !strings.Contains(err.Error(), "holds no experiment") {
		t.Errorf("%v", err)
	}
	if _, _, err := Create(context.Background(), filepath.Join(other, "x", "y"), fakePlan(t, 1, fake(t, "b", "")), noProgress{}); err == nil || !strings.Contains(err.Error(), "make it first") {
		t.Errorf("%v", err)
	}
}

// TestParentCPU: the parent leaves its children alone, and gets its CPUs back.
func TestParentCPU(t *testing.T) {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	if before.Count() < 2 {
		t.Skip("one CPU only")
	}
	cpu := 0
	for !before.IsSet(cpu) {
		cpu++
	}
	p := fakePlan(t, 1, fake(t, "a", ""))
	p.Rules.ParentCPU = cpu
	e := create(t, p)
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	s := e.Sessions[0]
	if s.ParentCPU != cpu || s.ParentNote != "" || strings.HasPrefix(s.ChildCPUs, strconv.Itoa(cpu)) {
		t.Errorf("%+v", s)
	}
	var after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != before {
		t.Errorf("afterwards the mask is %v, before it was %v", after, before)
	}
}

// TestFullDiskForReal fills a small file system: what was written stays, and when
// there is room again the experiment goes on.
func TestFullDiskForReal(t *testing.T) {
	skipIfSlow(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount a file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	p := fakePlan(t, 60, fake(t, "a", ""), fake(t, "b", ""))
	p.Warmup = 0
	e, _, err := Create(context.Background(), filepath.Join(dir, "exp"), p, noProgress{})
	if err != nil {
		t.Fatal(err)
	}
	// Either the journal has no room, or the child's record has none, which is no
	// failure of the variant.
	err = run(t, e)
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("%v after %d trials", err, len(e.Trials))
	}
	before := steps(e)
	again, err := Open(e.Dir)
	if err != nil || len(before) < 5 || !slices.Equal(steps(again), before) || again.torn != 0 {
		t.Fatalf("%v: %d trials are read, %d were made", err, len(again.Trials), len(before))
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	if err = run(t, again); err != nil || !again.Done() || !slices.Equal(steps(again)[:len(before)], before) {
		t.Errorf("%v: done %v", err, again.Done())
	}
	for _, tr := range again.Trials {
		if !tr.Valid {
			t.Errorf("%s in round %d: %s", tr.Variant, tr.Round, reasonText(tr.Reasons))
		}
	}
}

// TestKilledAtEveryCall kills kvbench, and only it, in calls on its journal, as strace
// can; afterwards it goes on, and what it says is what it would have said.
func TestKilledAtEveryCall(t *testing.T) {
	skipIfSlow(t)
	strace, err := exec.LookPath("strace")
	if err == nil {
		err = exec.Command(strace, "-qq", "-o", "/dev/null", "-e", "trace=fsync", "true").Run()
	}
	if err != nil {
		t.Skipf("no strace that may trace: %v", err)
	}
	plan := func() *Plan {
		p := fakePlan(t, 2, fake(t, "a", ""), fake(t, "b", "--value 90"))
		p.Metrics = []string{"rates.achieved_block_ops_per_sec"}
		return p
	}
	said := func(e *Experiment) string {
		a, err := e.Analyse(AnalyseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := a.Write(&b, CSV); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	whole := create(t, plan())
	if err := run(t, whole); err != nil {
		t.Fatal(err)
	}
	for _, inject := range []string{
		"ftruncate:signal=KILL", "pwrite64:signal=KILL", "pwrite64:signal=KILL:when=2", "fsync:signal=KILL:when=2",
		"pwrite64:error=ENOSPC:when=3", "fsync:error=EIO:when=2",
	} {
		t.Run(inject, func(t *testing.T) {
			t.Parallel()
			e := create(t, plan())
			call, _, _ := strings.Cut(inject, ":")
			out, err := exec.Command(strace, "-f", "-qq", "-o", "/dev/null", "-P", e.path(journalName),
				"-e", "trace="+call, "-e", "inject="+inject, os.Args[0], "fake-parent", e.Dir).CombinedOutput()
			if err == nil {
				t.Fatalf("it was not disturbed: %s", out)
			}
			if e, err = Open(e.Dir); err != nil {
				t.Fatal(err)
			}
			before := steps(e)
			if err := run(t, e); err != nil {
				t.Fatal(err)
			}
			if got := steps(e); !slices.Equal(got, steps(whole)) || !slices.Equal(got[:len(before)], before) {
				t.Errorf("%v, want %v", got, steps(whole))
			}
			if got, want := said(e), said(whole); got != want {
				t.Errorf("%s\nwant\n%s", got, want)
			}
		})
	}
}
