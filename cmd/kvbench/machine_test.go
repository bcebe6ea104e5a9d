package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/machinelock"
	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/internal/sweep"
)

// kvbenchProcess is this test binary under the name by which it is kvbench.
func kvbenchProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "kvbench")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	return exec.Command(link, args...)
}

// TestMachineLock: while something measures on the machine, what measures too
// waits or is refused and is told of the other, unless it asks for the contrary,
// and then its results say so.
func TestMachineLock(t *testing.T) {
	dir := t.TempDir()
	path, busy := filepath.Join(dir, "machine.lock"), filepath.Join(dir, "busy")
	lock, err := machinelock.Acquire(context.Background(), path, machinelock.Refuse, machinelock.Holder{Command: "kvbench rounds", Folder: busy}, nil)
	if err != nil || lock.Missing() != "" {
		t.Fatal(err, lock)
	}
	defer func() { _ = lock.Release() }()
	at := []string{"--machine-lock-file", path}
	micro := append([]string{"micro", "default_selection", "--case", "8", "--rounds", "1"}, at...)
	work := []string{"--", "replay", "conversation-small", "--workers", "2", "--duration", "100ms", "--quiesce", "0s", "--allow-shared-cpus"}
	experiment := func(out string, more ...string) []string {
		args := append([]string{"rounds", "--rounds", "1", "--warmup-rounds", "0", "--gap", "0s", "--quiet-limit", "0s", "--quick-host",
			"--variant", "a=", "--variant", "b=", "--out", filepath.Join(dir, out)}, at...)
		return append(append(args, more...), work...)
	}
	swept := append([]string{"sweep", "conversation-small", "--min", "100ms", "--max", "200ms", "--steps", "2", "--workers", "2", "--quiesce", "0s",
		"--allow-shared-cpus", "--out", filepath.Join(dir, "swept")}, at...)

	for name, args := range map[string][]string{
		"micro":       append(micro, "--machine-lock", "refuse"),
		"rounds":      experiment("a", "--machine-lock", "refuse"),
		"same folder": experiment("busy"), // although it would wait for others
		"sweep":       append(swept, "--machine-lock", "refuse"),
		"self-test":   append([]string{"gate", "--self-test", "--machine-lock", "refuse"}, at...),
	} {
		out, err := kvbenchProcess(t, args...).CombinedOutput()
		if code(err) != 3 || !strings.Contains(string(out), "kvbench rounds (process ") || !strings.Contains(string(out), "folder "+busy) {
			t.Errorf("%s: exit code %d: %s", name, code(err), out)
		}
	}
	for _, folder := range []string{"a", "busy", "swept"} {
		if _, err := os.Stat(filepath.Join(dir, folder)); err == nil {
			t.Errorf("%s was made although it was refused", folder)
		}
	}

	if out, err := kvbenchProcess(t, append(micro, "--machine-lock", "off")...).CombinedOutput(); err != nil || !strings.Contains(string(out), "no lock kept other measurements") {
		t.Errorf("micro: %v: %s", err, out)
	}
	// Whether a busy machine was late is not the point here.
	if out, err := kvbenchProcess(t, experiment("off", "--machine-lock", "off")...).CombinedOutput(); code(err) != 0 && code(err) != 3 || !strings.Contains(string(out), "no lock kept other") {
		t.Errorf("rounds: %v: %s", err, out)
	}
	if exp, err := rounds.Open(filepath.Join(dir, "off")); err != nil || len(exp.Sessions) != 1 || exp.Sessions[0].Unlocked == "" {
		t.Errorf("rounds: %v", err)
	}
	if out, err := kvbenchProcess(t, append(swept, "--machine-lock", "off")...).CombinedOutput(); code(err) != 0 && code(err) != 3 || !strings.Contains(string(out), "in 2 of 2 trials no lock kept") {
		t.Errorf("sweep: %v: %s", err, out)
	}
	if r, err := sweep.Open(filepath.Join(dir, "swept")); err != nil || len(r.Trials) != 2 || r.Trials[0].Unlocked == "" {
		t.Errorf("sweep: %v", err)
	}

	wrong := append(append([]string{}, micro[:len(micro)-1]...), filepath.Join(dir, "none", "lock"))
	if out, err := kvbenchProcess(t, wrong...).CombinedOutput(); code(err) != 2 || !strings.Contains(string(out), "--machine-lock-file") {
		t.Errorf("a file that cannot be: %v: %s", err, out)
	}
	if out, err := kvbenchProcess(t, append(micro, "--machine-lock", "on")...).CombinedOutput(); code(err) != 2 || !strings.Contains(string(out), "refuse, wait, off") {
		t.Errorf("a mode that is none: %v: %s", err, out)
	}

	waits := kvbenchProcess(t, micro...)
	told, err := waits.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := waits.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(told).ReadString('\n')
	if err != nil || !strings.Contains(line, "waiting: kvbench rounds (process ") {
		t.Errorf("%q, %v", line, err)
	}
	if err := errors.Join(lock.Release(), waits.Wait()); err != nil {
		t.Errorf("after the other ended: %v", err)
	}
}
