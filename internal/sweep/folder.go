package sweep

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/fileid"
	"github.com/kvbench/kvbench/internal/wholefile"
	"github.com/kvbench/kvbench/results"
)

// The files of a sweep's folder.
const (
	planName    = "sweep.json"
	journalName = "journal.jsonl"
	lockName    = "lock"
	recordDir   = "records"
	workDir     = "work" // prepared work; may be deleted when the sweep is over
)

// folder is where a sweep is kept.
type folder struct {
	dir     string
	plan    Plan
	trials  []Trial
	records map[trialKey]*results.Record
	journal *os.File
	lock    *os.File
}

// create makes the folder of a new sweep, which must not exist or be empty.
func create(dir string, plan Plan) (*folder, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, planName)); err == nil {
		return nil, fmt.Errorf("%s holds a sweep already; pass --resume to go on with it, or choose another folder", dir)
	}
	for _, e := range entries {
		if !ofNothing(dir, e) {
			return nil, fmt.Errorf("%s is not empty, and %s in it is of no sweep; choose another folder", dir, e.Name())
		}
	}
	f := &folder{dir: dir, plan: plan, records: map[trialKey]*results.Record{}}
	if err := f.acquire(); err != nil {
		return nil, err
	}
	if err = atomicfile.Clean(dir); err != nil {
		return nil, errors.Join(err, f.close())
	}
	// If another process was quicker, its plan is there and is not replaced.
	err = atomicfile.Write(filepath.Join(dir, planName), false, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(plan)
	})
	if err == nil {
		err = f.openJournal()
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// ofNothing says whether an entry is what create leaves when it is killed before the
// plan is there.
func ofNothing(dir string, e os.DirEntry) bool {
	switch name := e.Name(); name {
	case lockName:
		return true
	case recordDir, workDir:
		in, err := os.ReadDir(filepath.Join(dir, name))
		return err == nil && len(in) == 0
	default:
		return atomicfile.Unfinished(name)
	}
}

// What the files of a sweep are at most, in bytes.
const (
	maxPlan    = 64 << 20
	maxJournal = 1 << 30
)

// resume opens the folder of a sweep that has the same plan.
func resume(dir string, plan Plan) (*folder, error) {
	b, err := wholefile.Read(filepath.Join(dir, planName), "the plan of a sweep", maxPlan)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no sweep to resume: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	if err := samePlan(b, plan); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, planName), err)
	}
	f := &folder{dir: dir, plan: plan, records: map[trialKey]*results.Record{}}
	if err := f.acquire(); err != nil {
		return nil, err
	}
	if err := f.load(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// samePlan says in what a stored plan differs.
func samePlan(stored []byte, plan Plan) error {
	var old, now map[string]json.RawMessage
	if err := json.Unmarshal(stored, &old); err != nil {
		return fmt.Errorf("not the plan of a sweep: %w", err)
	}
	b, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &now); err != nil {
		return err
	}
	names := maps.Clone(old)
	maps.Copy(names, now)
	var differs []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := compact(old[name]), compact(now[name])
		switch {
		case a == b:
		case name == "files":
			differs = append(differs, otherFiles(old[name], plan.Files)...)
		default:
			differs = append(differs, fmt.Sprintf("%s was %s and is %s", name, a, b))
		}
	}
	if len(differs) > 0 {
		return fmt.Errorf("the sweep cannot go on with something else: %s", strings.Join(differs, "; "))
	}
	return nil
}

// otherFiles says which files that flags name are not what they were.
func otherFiles(stored json.RawMessage, now []fileid.File) []string {
	was, is := map[string]string{}, map[string]string{}
	var old []fileid.File
	if len(stored) > 0 && json.Unmarshal(stored, &old) != nil {
		return []string{"files was " + compact(stored)}
	}
	for _, f := range old {
		was[f.Path] = f.SHA256
	}
	for _, f := range now {
		is[f.Path] = f.SHA256
	}
	paths := maps.Clone(was)
	maps.Copy(paths, is)
	var out []string
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if was[path] != is[path] {
			out = append(out, fmt.Sprintf("the file %s had the SHA-256 %s and has %s", path, cmp.Or(was[path], "none"), cmp.Or(is[path], "none")))
		}
	}
	return out
}

func compact(b json.RawMessage) string {
	var out bytes.Buffer
	if len(b) == 0 || json.Compact(&out, b) != nil {
		return "absent"
	}
	return out.String()
}

// acquire keeps a second process out.
func (f *folder) acquire() error {
	path := filepath.Join(f.dir, lockName)
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	switch err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return errors.Join(fmt.Errorf("another kvbench works on the sweep in %s; wait for it, or end it", f.dir), lock.Close())
	case err != nil:
		return errors.Join(fmt.Errorf("lock %s: %w", path, err), lock.Close())
	}
	f.lock = lock
	for _, sub := range []string{recordDir, workDir} {
		if err := os.MkdirAll(filepath.Join(f.dir, sub), 0o777); err != nil {
			return errors.Join(err, f.close())
		}
	}
	return nil
}

// erase removes what create made, and the folder if nothing else is in it.
func (f *folder) erase() error {
	var errs []error
	for _, name := range []string{planName, journalName, lockName, recordDir, workDir} {
		errs = append(errs, os.RemoveAll(filepath.Join(f.dir, name)))
	}
	if err := os.Remove(f.dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (f *folder) close() error {
	var errs []error
	for _, file := range []*os.File{f.journal, f.lock} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// load reads journal and records. A last line that was cut off is a trial that
// was lost with its process, and is removed.
func (f *folder) load() error {
	torn, err := f.readTrials()
	if err != nil {
		return err
	}
	if torn >= 0 {
		if err := os.Truncate(filepath.Join(f.dir, journalName), torn); err != nil {
			return err
		}
	}
	return f.openJournal()
}

// readTrials reads journal and records. torn is where a last line begins that was
// cut off; -1: there is none.
func (f *folder) readTrials() (torn int64, err error) {
	path := filepath.Join(f.dir, journalName)
	b, err := wholefile.Read(path, "the journal of a sweep", maxJournal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return -1, err
	}
	whole := b[:bytes.LastIndexByte(b, '\n')+1]
	// After a loss of power the end of a line may be there without its beginning.
	if last := bytes.LastIndexByte(bytes.TrimSuffix(whole, []byte("\n")), '\n') + 1; !json.Valid(whole[last:]) {
		whole = whole[:last]
	}
	if f.trials, err = parseJournal(whole); err != nil {
		return -1, fmt.Errorf("%s: %w", path, err)
	}
	for i := range f.trials {
		if err := f.readRecord(&f.trials[i]); err != nil {
			return -1, fmt.Errorf("%s, line %d: %w", path, i+1, err)
		}
	}
	if len(whole) < len(b) {
		return int64(len(whole)), nil
	}
	return -1, nil
}

func (f *folder) readRecord(t *Trial) error {
	if t.Record == "" {
		return nil
	}
	r, err := results.Read(filepath.Join(f.dir, t.Record))
	if err != nil {
		return err
	}
	f.records[t.key()] = r
	return nil
}

// parseJournal reads whole lines.
func parseJournal(b []byte) ([]Trial, error) {
	var out []Trial
	seen := map[trialKey]bool{}
	line := 0
	for text := range bytes.Lines(b) {
		line++
		var t Trial
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&t); err != nil {
			return nil, fmt.Errorf("line %d: not a trial: %w", line, err)
		}
		switch {
		case t.Value < 1 || t.Run < 1:
			return nil, fmt.Errorf("line %d: value %d, run %d; both start at 1", line, t.Value, t.Run)
		case (t.Record == "") == (t.Failure == ""):
			return nil, fmt.Errorf("line %d: a trial has either a record or a failure", line)
		case t.Record != "" && !filepath.IsLocal(t.Record):
			return nil, fmt.Errorf("line %d: the record %q is not below the sweep's folder", line, t.Record)
		case seen[t.key()]:
			return nil, fmt.Errorf("line %d: run %d of value %d is there twice", line, t.Run, t.Value)
		}
		seen[t.key()] = true
		out = append(out, t)
	}
	return out, nil
}

func (f *folder) openJournal() error {
	j, err := os.OpenFile(filepath.Join(f.dir, journalName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	f.journal = j
	return err
}

// add appends a trial to the journal and syncs it.
func (f *folder) add(t Trial) error {
	if err := f.readRecord(&t); err != nil {
		return err
	}
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	size, err := f.journal.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	_, err = f.journal.Write(append(b, '\n'))
	if err == nil {
		err = f.journal.Sync()
	}
	if err != nil {
		// Half a line would only be in the way.
		return fmt.Errorf("journal: %w; what was written before is kept", errors.Join(err, f.journal.Truncate(size)))
	}
	f.trials = append(f.trials, t)
	return nil
}

func (f *folder) done(k trialKey) (Trial, bool) {
	for _, t := range f.trials {
		if t.key() == k {
			return t, true
		}
	}
	return Trial{}, false
}
