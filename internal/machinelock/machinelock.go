// Package machinelock lets one measurement at a time have a machine: two at once
// disturb each other, and neither's figures say so.
//
// The lock is an advisory one (flock) on a file that all users of the machine
// share. The kernel takes it back when the process that holds it ends, however it
// ends, so that it is never stale; the file stays. What is in the file only says
// who holds the lock. The package measures nothing and knows no commands.
package machinelock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultPath is the file of the lock. It does not follow TMPDIR, which jobs and
// users of one machine may have to themselves.
const DefaultPath = "/tmp/kvbench-machine.lock"

// Mode says what to do about another measurement.
type Mode string

// The modes.
const (
	Refuse Mode = "refuse" // fail with a [*BusyError]
	Wait   Mode = "wait"   // wait until it is over, but fail if it is of the same folder
	Off    Mode = "off"    // take no lock
)

// Modes lists the modes.
func Modes() []string { return []string{string(Refuse), string(Wait), string(Off)} }

// ParseMode returns the mode of that name.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Refuse, Wait, Off:
		return m, nil
	}
	return "", fmt.Errorf("%q; it is %s", s, strings.Join(Modes(), ", "))
}

// Holder says who holds a lock.
type Holder struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`          // such as "kvbench rounds"
	Folder  string `json:"folder,omitempty"` // of the experiment, absolute
	Since   string `json:"since"`            // RFC 3339, UTC
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "another process"
	}
	text := fmt.Sprintf("%s (process %d", h.Command, h.PID)
	if h.Folder != "" {
		text += ", folder " + h.Folder
	}
	return text + ", since " + h.Since + ")"
}

// BusyError says that another measurement has the machine.
type BusyError struct {
	Path   string
	Holder Holder // PID 0: not known
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s measures on this machine, and two measurements disturb each other (lock %s)", e.Holder, e.Path)
}

// Lock is the machine, or the reason why it was not to be had. It is not for
// concurrent use.
type Lock struct {
	file    *os.File
	missing string
}

// Missing says why there is no lock; "" if there is one.
func (l *Lock) Missing() string { return l.missing }

// Release gives the machine back. A second call does nothing.
func (l *Lock) Release() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// pollEvery is how often a waiting process looks again.
const pollEvery = 250 * time.Millisecond

// Acquire takes the lock at path for me, whose PID and Since it fills in. If
// another process has it, Refuse returns a [*BusyError] and Wait calls waiting, if
// that is set, once for each holder and goes on until the lock is free or ctx ends.
// Where no lock can be taken for another reason, such as a folder that may not be
// written, the error is nil and Missing says why: a measurement need not fail for
// it.
func Acquire(ctx context.Context, path string, mode Mode, me Holder, waiting func(*BusyError)) (*Lock, error) {
	if mode == Off {
		return &Lock{missing: "it was not asked for"}, nil
	}
	me.PID, me.Since = os.Getpid(), time.Now().UTC().Format(time.RFC3339)
	var told *Holder
	for {
		l, busy, err := try(path, me)
		if err != nil {
			return &Lock{missing: err.Error()}, nil
		}
		if busy == nil {
			return l, nil
		}
		if mode == Refuse || me.Folder != "" && me.Folder == busy.Holder.Folder {
			return nil, busy
		}
		// Between two holders there may be nobody's name in the file.
		if told == nil || busy.Holder.PID != 0 && *told != busy.Holder {
			told = &busy.Holder
			if waiting != nil {
				waiting(busy)
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// try takes the lock if it is free.
func try(path string, me Holder) (*Lock, *BusyError, error) {
	for {
		f, err := open(path)
		if err != nil {
			return nil, nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			busy := &BusyError{Path: path, Holder: holder(f)}
			return nil, busy, f.Close()
		}
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		// Somebody may have removed the file meanwhile, as cleaners of /tmp do:
		// then the next process would lock another.
		there, err := os.Lstat(path)
		mine, mineErr := f.Stat()
		if err == nil && mineErr == nil && os.SameFile(there, mine) {
			note(f, me)
			return &Lock{file: f}, nil, nil
		}
		if err := f.Close(); err != nil {
			return nil, nil, err
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) || mineErr != nil {
			return nil, nil, errors.Join(err, mineErr)
		}
	}
}

// open opens the file or makes it, for all users. Anyone may have put something
// else there, so that it must be a plain file with one name. To lock a file it is
// enough to read it.
func open(path string) (*os.File, error) {
	const flags = unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(path, os.O_RDWR|flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|flags, 0o666)
		if err == nil {
			// Others must be able to say that they hold it, whatever the umask.
			return f, f.Chmod(0o666)
		}
		if errors.Is(err, fs.ErrExist) {
			f, err = os.OpenFile(path, os.O_RDWR|flags, 0)
		}
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		first := err
		if f, err = os.OpenFile(path, os.O_RDONLY|flags, 0); err != nil {
			return nil, first
		}
	}
	if err != nil {
		return nil, err
	}
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	// No name at all: it was removed just now, which try finds out.
	if s.Mode&unix.S_IFMT != unix.S_IFREG || s.Nlink > 1 {
		return nil, errors.Join(fmt.Errorf("%s is no plain file with one name; remove it", path), f.Close())
	}
	return f, nil
}

// mostNote is the largest note that is read, in bytes.
const mostNote = 4096

// note says in the file who holds it. A full disk or a file that is another
// user's must not matter.
func note(f *os.File, me Holder) {
	b, err := json.Marshal(me)
	if err != nil || f.Truncate(0) != nil {
		return
	}
	_, _ = f.WriteAt(append(b, '\n'), 0)
}

// holder reads what note wrote. Anyone may have written something else, and it
// goes to terminals.
func holder(f *os.File) Holder {
	var h Holder
	b, err := io.ReadAll(io.NewSectionReader(f, 0, mostNote))
	if err != nil || json.Unmarshal(b, &h) != nil || h.PID <= 0 {
		return Holder{}
	}
	for _, s := range []*string{&h.Command, &h.Folder, &h.Since} {
		*s = strings.Map(func(r rune) rune {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				return '.'
			}
			return r
		}, *s)
	}
	return h
}
