package rounds

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestEveryTruncation cuts the journal of an experiment behind every byte, as a
// loss of power may: what is left is a beginning of it, and what comes next is
// what came next.
func TestEveryTruncation(t *testing.T) {
	p := fakePlan(t, 3, fake(t, "a", ""), fake(t, "b", "--mode late"))
	p.Rules.RetryInvalid = 1
	e := create(t, p)
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(e.path(journalName))
	if err != nil {
		t.Fatal(err)
	}
	whole := steps(e)
	// Records make long lines; every 101st byte of them and all near their ends.
	for cut := range len(b) + 1 {
		if cut%101 != 0 && !slices.Contains(b[max(0, cut-3):min(len(b), cut+3)], '\n') {
			continue
		}
		part := &Experiment{Dir: e.Dir, Manifest: e.Manifest}
		if err := part.load(b[:cut]); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		got := steps(part)
		if n := len(got); !slices.Equal(got, whole[:n]) {
			t.Fatalf("cut at %d: %v", cut, got)
		}
		if int(part.good)+part.torn != cut || part.good > 0 && b[part.good-1] != '\n' {
			t.Fatalf("cut at %d: %d good bytes and %d torn", cut, part.good, part.torn)
		}
		next, more := part.next()
		if n := len(got); more != (n < len(whole)) || more && next != whole[n] {
			t.Fatalf("cut at %d: next is %v, %v", cut, next, more)
		}
		// Zeros or other remains of a last line are no line either.
		if err := part.load(append(slices.Clone(b[:part.good]), "\x00\x00{\"tri\n"...)); err != nil || len(part.Trials) != len(got) || part.torn == 0 {
			t.Fatalf("cut at %d, remains: %v", cut, err)
		}
	}
}

// TestJournalOfAnotherExperiment: the same plan on other work gives a journal of the
// same steps, which must not pass for the figures of this one.
func TestJournalOfAnotherExperiment(t *testing.T) {
	e := create(t, fakePlan(t, 1, fake(t, "a", ""), fake(t, "b", "")))
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(e.Dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(e.path(journalName))
	if err != nil {
		t.Fatal(err)
	}
	sum := e.Manifest.Work.SHA256
	if err := os.WriteFile(e.path(journalName), bytes.ReplaceAll(b, []byte(sum), []byte(strings.Repeat("0", len(sum)))), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(e.Dir); err == nil || !strings.Contains(err.Error(), "manifest and journal are not of one experiment") {
		t.Errorf("error %v", err)
	}
}

// TestResumeAfterTornLine goes on for real with such a journal.
func TestResumeAfterTornLine(t *testing.T) {
	e := create(t, fakePlan(t, 2, fake(t, "a", ""), fake(t, "b", "")))
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	whole := steps(e)
	b, err := os.ReadFile(e.path(journalName))
	if err != nil {
		t.Fatal(err)
	}
	third := 0
	for range 4 { // the session and three trials
		third += bytes.IndexByte(b[third:], '\n') + 1
	}
	if err := os.WriteFile(e.path(journalName), b[:third+100], 0o666); err != nil {
		t.Fatal(err)
	}
	again, err := Open(e.Dir)
	if err != nil || len(again.Trials) != 3 {
		t.Fatalf("%v, %v", err, steps(again))
	}
	if err := run(t, again); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(steps(again), whole) || again.Sessions[1].TornBytes != 100 {
		t.Errorf("%v, %+v", steps(again), again.Sessions[1].TornBytes)
	}
}

func TestDamagedJournal(t *testing.T) {
	e := create(t, fakePlan(t, 1, fake(t, "a", ""), fake(t, "b", "")))
	if err := run(t, e); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(e.path(journalName))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	for name, tc := range map[string]struct {
		lines [][]byte
		want  string
	}{
		"garbage":  {[][]byte{lines[0], []byte("x\n"), lines[1]}, "restore the file from a copy, or keep the 1 line before that"},
		"empty":    {[][]byte{lines[0], []byte("\n"), lines[1]}, "line 2: not an entry"},
		"nothing":  {[][]byte{lines[0], []byte("{}\n"), lines[1]}, "0 kinds of entries"},
		"swapped":  {[][]byte{lines[0], lines[2], lines[1]}, "line 2: the trial is b in slot 1 of round 0 and the plan says a in slot 0 of round 0"},
		"twice":    {[][]byte{lines[0], lines[1], lines[1], lines[2]}, "line 3: the trial is a"},
		"too many": {append(slices.Clone(lines[:5]), lines[1]), "the plan says that all is done"},
		// The last line is whole, so that nobody was killed while writing it.
		"of another version": {[][]byte{lines[0], []byte(`{"time":"","pause":{}}` + "\n")}, "line 2: not an entry of a journal: it holds 0 kinds"},
		"no record":          {[][]byte{[]byte(`{"time":"","trial":{"round":0,"slot":0,"variant":"a","attempt":1,"valid":true}}` + "\n"), lines[1]}, "a valid trial has no record"},
	} {
		part := &Experiment{Manifest: e.Manifest}
		if err := part.load(bytes.Join(tc.lines, nil)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// fullDisk is a file with room for a number of bytes.
type fullDisk struct {
	b      []byte
	room   int
	synced int
}

func (d *fullDisk) WriteAt(p []byte, at int64) (int, error) {
	d.b = append(d.b[:at], p...)
	if over := len(d.b) - d.room; over > 0 {
		d.b = d.b[:d.room]
		return len(p) - over, unix.ENOSPC
	}
	return len(p), nil
}
func (d *fullDisk) Truncate(n int64) error { d.b = d.b[:n]; return nil }
func (d *fullDisk) Sync() error            { d.synced = len(d.b); return nil }
func (d *fullDisk) Close() error           { return nil }

var _ io.WriterAt = (*fullDisk)(nil)

// TestFullDisk: whatever room there is, what was written stays and nothing half
// written is left.
func TestFullDisk(t *testing.T) {
	n := note{Name: "x", Value: json.RawMessage(`"<&>"`)}
	var length int
	for room := range 400 {
		d := &fullDisk{room: room}
		j := &journalWriter{f: d, now: func() time.Time { return time.Unix(1, 0) }}
		written := 0
		var err error
		for err == nil {
			if err = j.append(entry{Note: &n}); err == nil {
				written++
				if d.synced != len(d.b) {
					t.Fatal("it is not synced")
				}
			}
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		entries, good, err := decodeJournal(d.b)
		if err != nil || len(entries) != written || good != len(d.b) {
			t.Fatalf("room for %d: %d of %d entries, %d of %d bytes, %v", room, len(entries), written, good, len(d.b), err)
		}
		length = max(length, written)
	}
	if length < 3 {
		t.Errorf("at most %d entries were written", length)
	}
}

// FuzzJournal: nothing makes the reader panic, and what it takes it takes again.
func FuzzJournal(f *testing.F) {
	good := `{"time":"t","note":{"name":"a","value":1}}` + "\n"
	for _, s := range []string{"", good, good + "{", good + good, "{}\n" + good, `{"session":{"pid":1}}` + "\n" + `{"end":{"how":"done"}}` + "\n",
		`{"trial":{"round":0,"slot":0,"variant":"a","attempt":1}}` + "\n", `{"extension":{"rounds":3,"sequence":[[0,1]]}}` + "\n", "\xff\n", "null\n"} {
		f.Add([]byte(s))
	}
	m := &Manifest{Variants: []Entrant{{Variant: Variant{Name: "a"}}, {Variant: Variant{Name: "b"}}}, Rounds: 2, Warmup: 1, Sequence: [][]int{{0, 1}, {1, 0}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		e := &Experiment{Manifest: m}
		if err := e.load(b); err != nil {
			return
		}
		if e.good < 0 || e.good > int64(len(b)) || e.good > 0 && b[e.good-1] != '\n' {
			t.Fatalf("%d of %d bytes are good", e.good, len(b))
		}
		again := &Experiment{Manifest: m}
		if err := again.load(b[:e.good]); err != nil || again.torn != 0 || !slices.Equal(steps(again), steps(e)) {
			t.Errorf("%v", err)
		}
		if _, err := e.Analyse(AnalyseOptions{Metrics: []string{"trial.wall_ns"}, Ratios: []Ratio{{"a", "b"}}}); err != nil && !strings.Contains(err.Error(), "record of") {
			t.Error(err)
		}
	})
}

// FuzzManifest: nothing makes the reader panic.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schema":"kvbench.rounds/v1","variants":[{"name":"a"}],"rounds":1,"sequence":[[0]]}`))
	f.Add([]byte(`{"schema":"kvbench.rounds/v1","variants":[{"name":"a"},{"name":"b"}],"rounds":1,"sequence":[[0,0]]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeManifest(b)
		if err != nil {
			return
		}
		e := &Experiment{Manifest: m}
		if err := e.load(nil); err != nil {
			t.Fatal(err)
		}
		if m.Rounds > 0 {
			if _, more := e.next(); !more {
				t.Error("an empty journal leaves nothing to do")
			}
		}
	})
}
