package rounds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// notesName is the file for notes on an experiment that another process runs, which
// alone may append to the journal. They wait there until that process ends, or the next
// one that appends, and move to the journal then.
const notesName = "notes.jsonl"

// errInUse says that another process has the folder.
var errInUse = errors.New("in use")

// Note remembers a value under a name: in the journal, or beside it while another
// process runs the experiment.
func (e *Experiment) Note(name string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("note %s: %w", name, err)
	}
	x := entry{Note: &note{Name: name, Value: b}}
	err = e.withJournal(func(j *journalWriter, _ *os.File) error { return e.add(j, x) })
	if !errors.Is(err, errInUse) {
		return err
	}
	x.Time = time.Now().UTC().Format(time.RFC3339Nano)
	if err := e.noteAside(x); err != nil {
		return fmt.Errorf("note %s: %w", name, err)
	}
	return e.apply(x)
}

// noteAside appends a note to the file of those that wait.
func (e *Experiment) noteAside(x entry) (err error) {
	f, err := os.OpenFile(e.path(notesName), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	line, err := encodeEntry(x)
	if err != nil {
		return err
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		// Half a line would hide what is appended behind it.
		return errors.Join(err, f.Truncate(end))
	}
	return nil
}

// waitingNotes reads the notes that wait, from the start of a file.
func waitingNotes(r io.Reader) ([]entry, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxJournal))
	if err != nil {
		return nil, err
	}
	entries, _, err := decodeJournal(b)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if entries[i].Note == nil {
			return nil, fmt.Errorf("line %d: not a note", i+1)
		}
	}
	return entries, nil
}

// readNotes adds the notes that wait to those of the journal.
func (e *Experiment) readNotes() error {
	b, err := os.ReadFile(e.path(notesName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	entries, err := waitingNotes(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("%s: %w", e.path(notesName), err)
	}
	for _, x := range entries {
		if err := e.apply(x); err != nil {
			return err
		}
	}
	return nil
}

// takeNotes moves the notes that wait to the journal, whose lock the caller has. The
// file stays, empty: whoever waits for its lock would append to one that is gone.
func (e *Experiment) takeNotes(j *journalWriter) (err error) {
	f, err := os.OpenFile(e.path(notesName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	entries, err := waitingNotes(f)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	for _, x := range entries {
		if err := j.append(x); err != nil {
			return err
		}
		e.good = j.size
	}
	return f.Truncate(0)
}
