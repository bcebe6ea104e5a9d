package sweep

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/internal/fileid"
)

// TestChangedFiles changes the source and a policy while a sweep runs and before it
// goes on: trials of different things must not stand on one curve.
func TestChangedFiles(t *testing.T) {
	for _, name := range []string{"policy", "trace"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			write("policy", "one")
			write("trace", "one")
			plan := func() Plan {
				p := windowPlan(t, 1)
				p.Source = filepath.Join(dir, "trace")
				p.ReplayFlags = []string{"--policy=@" + filepath.Join(dir, "policy")}
				if err := p.Identify(t.Context()); err != nil {
					t.Fatal(err)
				}
				p.BinarySHA256 = "" // the fake's records name none
				return p
			}
			out := filepath.Join(t.TempDir(), "sweep")
			k := &fakeKvbench{t: t, capacity: 3e6}
			k.before = func(call int, _ []string) (Outcome, bool) {
				if call == 5 { // within the second trial
					write(name, "two")
				}
				return Outcome{}, false
			}
			r, err := Run(t.Context(), plan(), Options{counters: still, Dir: out, Runner: k})
			if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)+" was changed since the sweep began") {
				t.Fatalf("%+v, %v", r, err)
			}
			o := Options{counters: still, Dir: out, Resume: true, Runner: &fakeKvbench{t: t, capacity: 3e6}}
			want := map[string]string{"policy": "the file " + filepath.Join(dir, name) + " had the SHA-256 ", "trace": "source_sha256 was "}[name]
			if r, err := Run(t.Context(), plan(), o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("resumed: %+v, %v", r, err)
			}
			write(name, "one")
			if r, err = Run(t.Context(), plan(), o); err != nil || len(r.Trials) != 5 || len(r.Failures()) > 0 {
				t.Errorf("restored: %+v, %v", r, err)
			}
		})
	}
}

// TestReplacedProgram: a kvbench that was built anew meanwhile is another one.
func TestReplacedProgram(t *testing.T) {
	p := windowPlan(t, 1)
	p.BinarySHA256 = "another"
	if r, err := Run(t.Context(), p, Options{counters: still, Runner: &fakeKvbench{t: t, capacity: 3e6}}); err == nil || !strings.Contains(err.Error(), "kvbench was changed since the sweep began") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestOtherFiles names what was added and taken away as well.
func TestOtherFiles(t *testing.T) {
	got := strings.Join(otherFiles([]byte(`[{"path":"a","sha256":"1"},{"path":"b","sha256":"2"},{"path":"c","sha256":"3"}]`),
		[]fileid.File{{Path: "a", SHA256: "1"}, {Path: "c", SHA256: "4"}, {Path: "d", SHA256: "5"}}), "; ")
	if want := "the file b had the SHA-256 2 and has none; the file c had the SHA-256 3 and has 4; the file d had the SHA-256 none and has 5"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestNoRecord: a child that says it is well and leaves no record, or half of one, is a
// failure of that trial.
func TestNoRecord(t *testing.T) {
	for _, remains := range []string{"", `{"schema":`} {
		k := &fakeKvbench{t: t, capacity: 3e6, before: func(_ int, args []string) (Outcome, bool) {
			hit := args[0] == "replay" && strings.Contains(args[1], "400ms")
			if hit && remains != "" {
				for _, a := range args {
					if path, ok := strings.CutPrefix(a, "--out="); ok {
						if err := os.WriteFile(path, []byte(remains), 0o666); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			return Outcome{}, hit
		}}
		r, err := Run(t.Context(), windowPlan(t, 1), Options{counters: still, Runner: k})
		if err != nil || len(r.Trials) != 5 || len(r.Failures()) != 1 || !strings.Contains(r.Failures()[0], "exit code 0, and no result record: ") {
			t.Errorf("%q: %+v, %v", remains, r, err)
		}
	}
}

// TestKilledBeforeThePlan: what a process leaves that is killed at once is no sweep, and
// the folder can be used.
func TestKilledBeforeThePlan(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{recordDir, workDir} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	torn := filepath.Join(dir, ".kvbench-0123abcd.tmp")
	for _, path := range []string{filepath.Join(dir, lockName), torn} {
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := func() error {
		_, err := Run(t.Context(), windowPlan(t, 1), Options{counters: still, Dir: dir, Runner: &fakeKvbench{t: t, capacity: 3e6}})
		return err
	}
	// A record is what someone measured.
	record := filepath.Join(dir, recordDir, "a.json")
	if err := os.WriteFile(record, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := run(); err == nil || !strings.Contains(err.Error(), "records in it is of no sweep") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	if err := run(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(torn); err == nil {
		t.Error("the rest of a file is still there")
	}
}

// TestTornJournal cuts the journal behind every byte and lets the sweep go on: every
// trial is there once, in the order of one that nobody disturbed.
func TestTornJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	plan := windowPlan(t, 1)
	o := Options{counters: still, Dir: dir, Runner: &fakeKvbench{t: t, capacity: 3e6}}
	if _, err := Run(t.Context(), plan, o); err != nil {
		t.Fatal(err)
	}
	o.Resume = true
	path := filepath.Join(dir, journalName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	keys := func(trials []Trial) (out []trialKey) {
		for _, x := range trials {
			out = append(out, x.key())
		}
		return out
	}
	for cut := 0; cut <= len(whole); cut += 41 {
		for _, remains := range []string{"", "\x00\x00\x00}\n"} {
			part := whole[:cut]
			if remains != "" { // of a last line whose beginning was not written
				part = append(bytes.Clone(part[:bytes.LastIndexByte(part, '\n')+1]), remains...)
			}
			if err := os.WriteFile(path, part, 0o666); err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), plan, o)
			if err != nil || len(r.Trials) != 5 {
				t.Fatalf("cut at %d, %q: %+v, %v", cut, remains, r, err)
			}
			for i, k := range keys(r.Trials) {
				if k != plan.order()[i] {
					t.Fatalf("cut at %d, %q: %v", cut, remains, keys(r.Trials))
				}
			}
		}
	}
}

// TestFullDisk: a line for which there is no room leaves nothing of itself.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	f := &folder{dir: dir}
	if err := f.openJournal(); err != nil {
		t.Fatal(err)
	}
	defer f.journal.Close()
	trial := Trial{Value: 1, Run: 1, Failure: "none"}
	if err := f.add(trial); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	// The size of files is limited to that of a line and a half.
	restore := limitFiles(t, uint64(len(before)*3/2))
	trial.Run = 2
	err = f.add(trial)
	restore()
	if err == nil || !strings.Contains(err.Error(), "what was written before is kept") || len(f.trials) != 1 {
		t.Errorf("%v, %+v", err, f.trials)
	}
	if after, err := os.ReadFile(filepath.Join(dir, journalName)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%q, %v", after, err)
	}
	if err := f.add(trial); err != nil || len(f.trials) != 2 {
		t.Errorf("with room again: %v, %+v", err, f.trials)
	}
}

// limitFiles limits the size of files until the function that it returns is called.
func limitFiles(t *testing.T, bytes uint64) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	set := func(l unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &l); err != nil {
			t.Error(err)
		}
	}
	set(unix.Rlimit{Cur: bytes, Max: old.Max})
	return func() { set(old) }
}

// TestNoRoom: a child that fails on a full disk tells nothing of its point, which is
// tried again when there is room.
func TestNoRoom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	plan := windowPlan(t, 1)
	restore := func() {}
	k := &fakeKvbench{t: t, capacity: 3e6, before: func(_ int, args []string) (Outcome, bool) {
		full := args[0] == "replay" && strings.Contains(args[1], "400ms")
		if full {
			restore = limitFiles(t, recordRoom/2)
		}
		return Outcome{Exit: 2, Stderr: "kvbench: no space"}, full
	}}
	r, err := Run(t.Context(), plan, Options{counters: still, Dir: dir, Runner: k})
	restore()
	if err == nil || !strings.Contains(err.Error(), "window 400ms, run 1 left no result, which tells nothing of it") {
		t.Fatalf("%+v, %v", r, err)
	}
	r, err = Run(t.Context(), plan, Options{counters: still, Dir: dir, Resume: true, Runner: &fakeKvbench{t: t, capacity: 3e6}})
	if err != nil || len(r.Trials) != 5 || len(r.Failures()) > 0 {
		t.Errorf("with room again: %+v, %v", r, err)
	}
}

// TestKneeWithoutRecord: of a window whose child was ended nothing is known, neither its
// load nor whether it is kept up with.
func TestKneeWithoutRecord(t *testing.T) {
	k := &fakeKvbench{t: t, capacity: 3e6, before: func(_ int, args []string) (Outcome, bool) {
		return Outcome{Exit: -1, TimedOut: true}, args[0] == "replay" && strings.Contains(args[1], "1.6s")
	}}
	r, err := Run(t.Context(), windowPlan(t, 1), Options{counters: still, Runner: k})
	if err != nil {
		t.Fatal(err)
	}
	if k := r.Knee; k.LastLabel != "400ms" || k.FirstLabel != "200ms" {
		t.Errorf("%+v", k)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil || !strings.Contains(b.String(), "no record") || strings.Contains(b.String(), "below 0") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
