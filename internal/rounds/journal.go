package rounds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/results"
)

// Trial is one run of one variant, valid or not.
type Trial struct {
	Round   int    `json:"round"` // from 1; 0 and below: warm-up
	Slot    int    `json:"slot"`  // place in the round, from 0; retries come after the variants
	Variant string `json:"variant"`
	Attempt int    `json:"attempt"` // from 1; more: a retry of an invalid trial
	After   string `json:"after"`   // the variant that ran before, "" for the first of a session

	Start  string `json:"start"`   // RFC 3339 with ns, UTC
	WallNS int64  `json:"wall_ns"` // from the start of the process to its end

	// Exit is how the process ended, such as "exit status 0", or "not started".
	Exit    string           `json:"exit"`
	Valid   bool             `json:"valid"`
	Failed  bool             `json:"failed"` // there is no usable record: it crashed, hung or wrote something else
	Reasons []results.Reason `json:"reasons,omitempty"`
	// Output is the end of what the process printed; only of a failed trial.
	Output string `json:"output,omitempty"`
	// LeftBehind counts processes of the trial that still ran when it had ended, as
	// far as they were found and ended.
	LeftBehind int `json:"left_behind,omitempty"`

	Quiet    Quiet         `json:"quiet"`    // the wait before it
	Usage    Usage         `json:"usage"`    // what the process and its children used
	Counters host.Counters `json:"machine"`  // what happened on the machine meanwhile
	ArgBytes int           `json:"arg_env"`  // bytes of arguments and environment, padding included
	Pointers int           `json:"pointers"` // number of arguments and variables, padding included

	// Record is the result record as the program wrote it, without blanks; nil
	// if the trial failed.
	Record json.RawMessage `json:"record,omitempty"`
}

// Quiet is the wait for a quiet machine.
type Quiet struct {
	WaitedNS int64   `json:"waited_ns"` // gap included
	Pressure float64 `json:"pressure"`  // CPU pressure last seen, 0 to 1; -1: unknown
	Reached  bool    `json:"reached"`   // the machine was quiet, or nothing was asked
}

// Usage is what the system says a child used.
type Usage struct {
	UserNS                     int64 `json:"user_ns"`
	SystemNS                   int64 `json:"system_ns"`
	MaxRSSBytes                int64 `json:"max_rss_bytes"`
	MinorFaults                int64 `json:"minor_faults"`
	MajorFaults                int64 `json:"major_faults"`
	VoluntaryContextSwitches   int64 `json:"voluntary_context_switches"`
	InvoluntaryContextSwitches int64 `json:"involuntary_context_switches"`
}

// Session is one start of the runner on an experiment.
type Session struct {
	Tool       Tool         `json:"kvbench"`
	PID        int          `json:"pid"`
	ParentCPU  int          `json:"parent_cpu"` // CPU that kvbench waits on; NoCPU: not pinned
	ParentNote string       `json:"parent_note,omitempty"`
	ChildCPUs  string       `json:"child_cpus"`         // CPU list that children may use
	TornBytes  int          `json:"torn_bytes"`         // of an unfinished last line that was taken off
	Unlocked   string       `json:"unlocked,omitempty"` // why no lock kept other measurements away; "": one did
	Host       *host.Report `json:"host"`               // at the start
	HostAtEnd  *host.Report `json:"host_end,omitempty"` // filled in from the end of the session
	Ended      string       `json:"ended,omitempty"`    // done, interrupted or what went wrong; "" if it was killed
}

// sessionEnd closes a session.
type sessionEnd struct {
	How  string       `json:"how"`
	Host *host.Report `json:"host,omitempty"`
}

// Extension adds rounds to an experiment.
type Extension struct {
	Rounds   int     `json:"rounds"` // in all
	Why      string  `json:"why"`
	Sequence [][]int `json:"sequence"` // of the added rounds
}

// note is something that a caller wants remembered.
type note struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// entry is a line of the journal. Exactly one of the pointers is set.
type entry struct {
	Time      string      `json:"time"` // RFC 3339 with ns, UTC
	Session   *Session    `json:"session,omitempty"`
	End       *sessionEnd `json:"end,omitempty"`
	Trial     *Trial      `json:"trial,omitempty"`
	Extension *Extension  `json:"extension,omitempty"`
	Note      *note       `json:"note,omitempty"`
}

func (e *entry) parts() int {
	n := 0
	for _, set := range []bool{e.Session != nil, e.End != nil, e.Trial != nil, e.Extension != nil, e.Note != nil} {
		if set {
			n++
		}
	}
	return n
}

// decodeJournal reads the lines of a journal. A last line that is not finished,
// because the process was killed or the disk was full, is left out: good is the
// number of bytes before it. Any other line that cannot be read is an error.
func decodeJournal(b []byte) (entries []entry, good int, err error) {
	for number := 1; good < len(b); number++ {
		end := bytes.IndexByte(b[good:], '\n')
		if end < 0 {
			return entries, good, nil
		}
		line := b[good : good+end]
		last := good+end+1 == len(b)
		var e entry
		err := json.Unmarshal(line, &e)
		if err == nil && e.parts() != 1 {
			err = fmt.Errorf("it holds %d kinds of entries instead of one", e.parts())
		}
		if err == nil && e.Trial != nil {
			err = e.Trial.check()
		}
		if err != nil {
			// Remains of a line are no JSON. What is may be the entry of another
			// version, and is not to be thrown away.
			if last && !json.Valid(line) {
				return entries, good, nil
			}
			return entries, good, fmt.Errorf("line %d: not an entry of a journal: %w; restore the file from a copy, or keep the %s before that and go on by --resume", number, err, text.Count(number-1, "line"))
		}
		entries = append(entries, e)
		good += end + 1
	}
	return entries, good, nil
}

func (t *Trial) check() error {
	switch {
	case t.Variant == "":
		return errors.New("a trial names no variant")
	case t.Attempt < 1 || t.Slot < 0:
		return fmt.Errorf("a trial has slot %d and attempt %d", t.Slot, t.Attempt)
	case t.Valid && (t.Failed || len(t.Record) == 0):
		return errors.New("a valid trial has no record")
	}
	return nil
}

// journalWriter appends entries so that each is on disk whole before append
// returns, or not in the journal at all.
type journalWriter struct {
	f    journalFile
	size int64
	now  func() time.Time
}

// journalFile is what journalWriter needs of an *os.File.
type journalFile interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

func (j *journalWriter) append(e entry) error {
	e.Time = j.now().UTC().Format(time.RFC3339Nano)
	line, err := encodeEntry(e)
	if err != nil {
		return err
	}
	_, err = j.f.WriteAt(line, j.size)
	if err == nil {
		err = j.f.Sync()
	}
	if err != nil {
		// What was written before stays; half a line would only be in the way.
		return fmt.Errorf("journal: %w; what was written before is kept", errors.Join(err, j.f.Truncate(j.size)))
	}
	j.size += int64(len(line))
	return nil
}

// encodeEntry returns a line of a journal.
func encodeEntry(e entry) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return b.Bytes(), nil
}

// openJournal opens the journal for appending behind its last good line.
func openJournal(path string, good int64) (*journalWriter, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(good); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &journalWriter{f: f, size: good, now: time.Now}, nil
}
