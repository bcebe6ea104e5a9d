package rounds

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// notesOf opens the experiment anew and returns its notes under a name.
func notesOf(t *testing.T, e *Experiment, name string) string {
	t.Helper()
	again, err := Open(e.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range again.Notes(name) {
		out = append(out, string(n))
	}
	return strings.Join(out, " ")
}

// A note made while another process runs the experiment waits beside the journal, is
// read like any other, and is in the journal as soon as that is free.
func TestNoteWhileRunning(t *testing.T) {
	e := create(t, fakePlan(t, 1, fake(t, "a", ""), fake(t, "b", "")))
	other, err := Open(e.Dir)
	if err != nil {
		t.Fatal(err)
	}
	journal := func() []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(e.Dir, journalName))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	err = other.withJournal(func(j *journalWriter, _ *os.File) error {
		before := journal()
		if err := e.Note("x", 1); err != nil {
			t.Fatal(err)
		}
		if got := e.Notes("x"); len(got) != 1 {
			t.Errorf("whoever noted it has %q", got)
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				third := &Experiment{Dir: e.Dir, Manifest: e.Manifest}
				if err := third.Note("many", 7); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if !bytes.Equal(journal(), before) {
			t.Error("the journal of the one that runs was written to")
		}
		if got := notesOf(t, e, "x"); got != "1" {
			t.Errorf("read while it waits: %q", got)
		}
		return other.add(j, entry{Note: &note{Name: "own", Value: []byte("3")}})
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(e.Dir, notesName)); err != nil || info.Size() != 0 {
		t.Errorf("notes still wait: %v, %v", info, err)
	}
	if n := bytes.Count(journal(), []byte(`"name":"many"`)); n != 20 {
		t.Errorf("%d of 20 notes are in the journal", n)
	}
	if x, own := notesOf(t, e, "x"), notesOf(t, e, "own"); x != "1" || own != "3" {
		t.Errorf("read afterwards: %q, %q", x, own)
	}

	// Those of a process that was killed move with the next entry.
	if err := e.noteAside(entry{Time: "2026-01-02T03:04:05Z", Note: &note{Name: "x", Value: []byte("2")}}); err != nil {
		t.Fatal(err)
	}
	if got := notesOf(t, e, "x"); got != "1 2" {
		t.Errorf("read after a kill: %q", got)
	}
	if err := e.Note("y", 5); err != nil {
		t.Fatal(err)
	}
	if x, y := notesOf(t, e, "x"), notesOf(t, e, "y"); x != "1 2" || y != "5" {
		t.Errorf("read after the next entry: %q, %q", x, y)
	}
	if err := run(t, e); err != nil || !e.Done() {
		t.Fatal(err)
	}

	// What is no note is said, with the file.
	if err := os.WriteFile(filepath.Join(e.Dir, notesName), []byte("{\"time\":\"\",\"extension\":{}}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(e.Dir); err == nil || !strings.Contains(err.Error(), notesName) {
		t.Errorf("a file of something else: %v", err)
	}
}
