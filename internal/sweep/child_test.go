package sweep

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script writes an executable that runs as the child.
func script(t *testing.T, text string) *Process {
	t.Helper()
	path := filepath.Join(t.TempDir(), "child")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	return &Process{Program: path, Name: "child"}
}

func TestProcess(t *testing.T) {
	for text, want := range map[string]Outcome{
		"exit 0":                                {},
		"exit 3":                                {Exit: 3},
		"echo >&2 first; echo >&2 last; exit 2": {Exit: 2, Stderr: "first\nlast\n"},
		"kill -9 $$":                            {Exit: -1},
	} {
		out, err := script(t, text).Run(t.Context(), nil)
		if err != nil || out != want {
			t.Errorf("%q: %+v, %v; want %+v", text, out, err, want)
		}
	}
	out, err := script(t, `echo >&2 "$1,$2"`).Run(t.Context(), []string{"a b", "c"})
	if err != nil || out.lastLine() != "a b,c" {
		t.Errorf("arguments arrive as %q, %v", out.Stderr, err)
	}
	out, err = script(t, `i=0; while [ $i -lt 2000 ]; do echo >&2 "line $i of many"; i=$((i+1)); done`).Run(t.Context(), nil)
	if err != nil || len(out.Stderr) > 8<<10 || out.lastLine() != "line 1999 of many" {
		t.Errorf("%d bytes kept, the last line is %q, %v", len(out.Stderr), out.lastLine(), err)
	}
	if out, err := (&Process{Program: filepath.Join(t.TempDir(), "none"), Name: "none"}).Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a program that is not there: %+v, %v", out, err)
	}
	if got := (&Outcome{}).lastLine(); got != "it said nothing" {
		t.Errorf("silence: %q", got)
	}
}

func TestProcessTimeout(t *testing.T) {
	p := script(t, "exec sleep 60")
	p.Timeout = 100 * time.Millisecond
	out, err := p.Run(t.Context(), nil)
	if err != nil || !out.TimedOut || out.Exit != -1 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestProcessIsEndedInOrder(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ready := filepath.Join(t.TempDir(), "ready")
	p := script(t, "trap 'echo >&2 ended; exit 130' INT; touch "+ready+"; while :; do sleep 0.01; done")
	go func() {
		for {
			if _, err := os.Stat(ready); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	out, err := p.Run(ctx, nil)
	if err != nil || out.Exit != 130 || out.TimedOut || out.lastLine() != "ended" {
		t.Errorf("%+v, %v", out, err)
	}
}
