package rounds

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/internal/replay/trial"
	"github.com/kvbench/kvbench/internal/wholefile"
)

// The files of an experiment.
const (
	manifestName = "manifest.json"
	journalName  = "journal.jsonl"
	packedName   = "journal.jsonl.gz" // of an experiment that was put away
	lockName     = "lock"
	corpusName   = "work.corpus"
	trialFolder  = "trial"
	recordName   = "record.json"
)

// Experiment is a folder of trials. See the package comment.
type Experiment struct {
	Dir      string // absolute
	Manifest *Manifest
	// What the journal holds, oldest first.
	Trials     []Trial
	Sessions   []Session
	Extensions []Extension

	notes []note
	rows  [][]int // order of the measured rounds, extensions included
	good  int64   // bytes of the journal that count
	torn  int     // bytes behind them
}

// Open reads the experiment in a folder, be it finished, interrupted or running, or
// put away with its journal packed by gzip, as journal.jsonl.gz.
func Open(dir string) (*Experiment, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	m, err := readManifest(abs)
	if err != nil {
		return nil, err
	}
	e := &Experiment{Dir: abs, Manifest: m}
	return e, e.readJournal()
}

func (e *Experiment) path(name string) string { return filepath.Join(e.Dir, name) }

// readJournal fills in what the journal holds.
func (e *Experiment) readJournal() error {
	path, b, err := unpackJournal(e.Dir)
	if err != nil {
		return err
	}
	if err := e.load(b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return e.readNotes()
}

// unpackJournal returns the journal in a folder, unpacked.
func unpackJournal(dir string) (path string, b []byte, err error) {
	path = filepath.Join(dir, journalName)
	b, err = wholefile.Read(path, "the journal of an experiment", maxJournal)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, b, err
	}
	packed, packedErr := os.Open(filepath.Join(dir, packedName))
	if errors.Is(packedErr, fs.ErrNotExist) {
		return path, nil, err
	} else if packedErr != nil {
		return path, nil, packedErr
	}
	defer packed.Close()
	path = packed.Name()
	z, err := gzip.NewReader(packed)
	if err == nil {
		b, err = wholefile.ReadFrom(z, path, "the journal of an experiment", maxJournal)
		return path, b, err
	}
	return path, nil, fmt.Errorf("%s: %w", path, err)
}

// load rebuilds the experiment from the bytes of its journal. Trials that the
// manifest does not plan are an error: the files belong to different experiments.
func (e *Experiment) load(b []byte) error {
	entries, good, err := decodeJournal(b)
	if err != nil {
		return err
	}
	e.Trials, e.Sessions, e.Extensions, e.notes = nil, nil, nil, nil
	e.rows = slices.Clone(e.Manifest.Sequence)
	e.good, e.torn = int64(good), len(b)-good
	for i, x := range entries {
		if err := e.apply(x); err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return nil
}

func (e *Experiment) apply(x entry) error {
	switch {
	case x.Session != nil:
		e.Sessions = append(e.Sessions, *x.Session)
	case x.End != nil:
		if len(e.Sessions) == 0 {
			return errors.New("a session ends that did not begin")
		}
		s := &e.Sessions[len(e.Sessions)-1]
		s.Ended, s.HostAtEnd = x.End.How, x.End.Host
	case x.Note != nil:
		e.notes = append(e.notes, *x.Note)
	case x.Extension != nil:
		if x.Extension.Rounds != len(e.rows)+len(x.Extension.Sequence) {
			return fmt.Errorf("an extension to %d rounds adds %d to %d", x.Extension.Rounds, len(x.Extension.Sequence), len(e.rows))
		}
		for _, row := range x.Extension.Sequence {
			if err := checkRow(row, len(e.Manifest.Variants)); err != nil {
				return fmt.Errorf("extension: %w", err)
			}
		}
		e.Extensions = append(e.Extensions, *x.Extension)
		e.rows = append(e.rows, x.Extension.Sequence...)
	case x.Trial != nil:
		want, more := e.next()
		got := Step{Round: x.Trial.Round, Slot: x.Trial.Slot, Variant: x.Trial.Variant, Attempt: x.Trial.Attempt}
		if !more || got != want {
			return fmt.Errorf("the trial is %s and the plan says %s: manifest and journal are not of one experiment", got, want)
		}
		if sum := x.Trial.corpus(); sum != "" && sum != e.Manifest.Work.SHA256 {
			return fmt.Errorf("the record is of the corpus %s and the manifest names %s: manifest and journal are not of one experiment", sum, e.Manifest.Work.SHA256)
		}
		e.Trials = append(e.Trials, *x.Trial)
	}
	return nil
}

// corpus returns the hash of the corpus that the trial's record names, "" if there is
// none or it is damaged, which is said where records are read.
func (t *Trial) corpus() string {
	var r struct {
		Provenance struct {
			CorpusSHA256 string `json:"corpus_sha256"`
		} `json:"provenance"`
	}
	if err := json.Unmarshal(t.Record, &r); err != nil {
		return ""
	}
	return r.Provenance.CorpusSHA256
}

// Step names a trial of the plan.
type Step struct {
	Round   int
	Slot    int
	Variant string
	Attempt int
}

func (s Step) String() string {
	if s == (Step{}) {
		return "that all is done"
	}
	text := fmt.Sprintf("%s in slot %d of round %d", s.Variant, s.Slot, s.Round)
	if s.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	return text
}

// next returns the step after the trials so far, false if all is done. It depends
// on manifest and journal only, so that a resume goes on exactly where it stopped.
func (e *Experiment) next() (Step, bool) {
	round := 1 - e.Manifest.Warmup
	start := 0
	if n := len(e.Trials); n > 0 {
		round = e.Trials[n-1].Round
		for start = n; start > 0 && e.Trials[start-1].Round == round; start-- {
		}
	}
	for ; round <= len(e.rows); round, start = round+1, len(e.Trials) {
		if variant, attempt, ok := e.nextOf(round, e.Trials[start:]); ok {
			return Step{Round: round, Slot: len(e.Trials) - start, Variant: variant, Attempt: attempt}, true
		}
	}
	return Step{}, false
}

// nextOf returns what is left of a round after some of its trials: the variants
// in order, then those whose last trial was invalid, while they have retries.
func (e *Experiment) nextOf(round int, done []Trial) (variant string, attempt int, ok bool) {
	order := make([]int, len(e.Manifest.Variants))
	for i := range order {
		order[i] = i // the order of warm-up rounds
	}
	if round > 0 {
		order = e.rows[round-1]
	}
	if len(done) < len(order) {
		return e.Manifest.Variants[order[len(done)]].Name, 1, true
	}
	if round < 1 {
		return "", 0, false
	}
	last := map[string]Trial{}
	for _, t := range done {
		last[t.Variant] = t
	}
	for try := 1; try <= e.Manifest.Rules.RetryInvalid; try++ {
		for _, v := range order {
			name := e.Manifest.Variants[v].Name
			if t := last[name]; !t.Valid && t.Attempt == try {
				return name, try + 1, true
			}
		}
	}
	return "", 0, false
}

// Rounds returns the number of measured rounds that are planned, extensions
// included.
func (e *Experiment) Rounds() int { return len(e.rows) }

// Done says whether all planned trials are there.
func (e *Experiment) Done() bool {
	_, more := e.next()
	return !more
}

// Counts returns the trials that are there and the first attempts that are still
// to run, warm-up included.
func (e *Experiment) Counts() (done, left int) {
	k := len(e.Manifest.Variants)
	first := 0
	for _, t := range e.Trials {
		if t.Attempt == 1 {
			first++
		}
	}
	return len(e.Trials), (len(e.rows)+e.Manifest.Warmup)*k - first
}

// measured says whether a trial of a measured round is there.
func (e *Experiment) measured() bool {
	return slices.ContainsFunc(e.Trials, func(t Trial) bool { return t.Round > 0 })
}

// Notes returns what was noted under a name, oldest first.
func (e *Experiment) Notes(name string) []json.RawMessage {
	var out []json.RawMessage
	for _, n := range e.notes {
		if n.Name == name {
			out = append(out, n.Value)
		}
	}
	return out
}

// ErrExists says that a folder holds an experiment with measured trials.
var ErrExists = errors.New("the folder holds an experiment already")

// Create begins an experiment in a folder, which is made if it is missing: it
// prepares the corpus, if the work is a trace, and writes manifest and an empty
// journal. A folder with an experiment is refused with [ErrExists] unless that
// has no measured trial, in which case it is begun anew. p is told how far the
// preparation is; warnings are what was odd about the trace.
func Create(ctx context.Context, dir string, plan *Plan, p trial.Progress) (e *Experiment, warnings []string, err error) {
	m, err := plan.manifest(time.Now())
	if err != nil {
		return nil, nil, err
	}
	work, saved, err := plan.work()
	if err != nil {
		return nil, nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	e = &Experiment{Dir: abs, Manifest: m}
	if err := e.makeFolder(); err != nil {
		return nil, nil, err
	}
	lock, err := e.lock()
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := e.mayBegin(); err != nil {
		return nil, nil, err
	}
	if err := atomicfile.Clean(e.Dir); err != nil {
		return nil, nil, err
	}
	in := plan.Work
	c, warnings, err := trial.Open(ctx, in, p)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	work.Corpus, work.SHA256 = corpusName, c.SHA256()
	if saved {
		work.Corpus = work.Source
	} else {
		p.Step("write corpus", 0)
		if err := c.Write(e.path(corpusName), true); err != nil {
			return nil, warnings, err
		}
	}
	m.Work = work
	if err := writeFile(e.path(journalName), nil); err != nil {
		return nil, warnings, err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, warnings, err
	}
	// The manifest comes last: with it, the folder is an experiment.
	if err := writeFile(e.path(manifestName), append(b, '\n')); err != nil {
		return nil, warnings, err
	}
	return e, warnings, e.readJournal()
}

func writeFile(path string, b []byte) error {
	return atomicfile.Write(path, true, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// makeFolder makes the folder, or finds that it is one that may be used.
func (e *Experiment) makeFolder() error {
	err := os.Mkdir(e.Dir, 0o777)
	switch {
	case err == nil || errors.Is(err, fs.ErrExist):
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot make the folder %s: %s does not exist; make it first", e.Dir, filepath.Dir(e.Dir))
	default:
		return err
	}
	entries, err := os.ReadDir(e.Dir)
	if err != nil {
		return err
	}
	for _, x := range entries {
		if !slices.Contains([]string{manifestName, journalName, packedName, lockName, corpusName, trialFolder, pilotFolder}, x.Name()) && !strings.HasPrefix(x.Name(), ".") {
			return fmt.Errorf("%s is not empty and %s in it is no part of an experiment; name a folder of its own", e.Dir, x.Name())
		}
	}
	return nil
}

// mayBegin says whether a new experiment may take the folder.
func (e *Experiment) mayBegin() error {
	old, err := Open(e.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e.noTrials()
	case err != nil:
		return fmt.Errorf("%w, but it cannot be read: %w", ErrExists, err)
	}
	if done, left := old.Counts(); old.measured() {
		return fmt.Errorf("%s: %w, with %d trials done and %d to do", e.Dir, ErrExists, done, left)
	}
	// A pilot and notes are of the experiment that is replaced.
	return errors.Join(os.RemoveAll(e.path(pilotFolder)), os.RemoveAll(e.path(notesName)), os.Remove(e.path(manifestName)))
}

// noTrials finds trials in a journal whose manifest was lost: a new experiment would
// overwrite them. Killed between the two, mayBegin leaves a journal without any.
func (e *Experiment) noTrials() error {
	path, b, err := unpackJournal(e.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var entries []entry
	if err == nil {
		entries, _, err = decodeJournal(b)
	}
	if err == nil && !slices.ContainsFunc(entries, func(x entry) bool { return x.Trial != nil && x.Trial.Round > 0 }) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s holds a journal without its %s, and it cannot be read (%w); restore that file, or name another folder", path, manifestName, err)
	}
	return fmt.Errorf("%s holds trials, but its %s is missing; restore that file, or name another folder", path, manifestName)
}

// lock takes the folder, so that two processes cannot run one experiment. The lock
// belongs to the open file: children that inherit it hold it too.
func (e *Experiment) lock() (*os.File, error) {
	f, err := os.OpenFile(e.path(lockName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		b := make([]byte, 32)
		n, _ := f.ReadAt(b, 0)
		_ = f.Close()
		return nil, fmt.Errorf("%s is %w by process %s or a trial that it started; wait for it, or end it", e.Dir, errInUse, strings.TrimSpace(string(b[:n])))
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		// Only a hint for the message above: a full disk must not matter.
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		return f, nil
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
}

// withJournal locks the experiment, reads what the journal holds by now, and lets
// f append to it.
func (e *Experiment) withJournal(f func(j *journalWriter, lock *os.File) error) (err error) {
	lock, err := e.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := e.readJournal(); err != nil {
		return err
	}
	j, err := openJournal(e.path(journalName), e.good)
	if errors.Is(err, fs.ErrNotExist) { // it was read a moment ago
		return fmt.Errorf("%s: the journal is packed as %s; unpack it to go on", e.Dir, packedName)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.f.Close()) }()
	if err := e.takeNotes(j); err != nil {
		return err
	}
	// Those that were made meanwhile are in the journal as soon as it is free.
	err = f(j, lock)
	if waiting := e.takeNotes(j); waiting != nil {
		return errors.Join(err, waiting)
	}
	return err
}

// add appends an entry to the journal and to the experiment.
func (e *Experiment) add(j *journalWriter, x entry) error {
	if err := j.append(x); err != nil {
		return err
	}
	e.good = j.size
	return e.apply(x)
}

// Extend plans more rounds, so that there are that many in all, and records why.
// The order goes on as if they had been planned from the start.
func (e *Experiment) Extend(rounds int, why string) error {
	return e.withJournal(func(j *journalWriter, _ *os.File) error {
		have := len(e.rows)
		if rounds <= have || rounds > maxRounds {
			return fmt.Errorf("cannot extend to %d rounds: there are %d", rounds, have)
		}
		m := e.Manifest
		return e.add(j, entry{Extension: &Extension{Rounds: rounds, Why: why, Sequence: m.Order.Sequence(len(m.Variants), have, rounds, m.Seed)}})
	})
}

// CheckSame compares a plan with the experiment's manifest. A difference is a
// [*ChangedError]. A nil plan compares nothing but what lies outside the
// manifest: programs, files, corpus and machine.
func (e *Experiment) CheckSame(plan *Plan) error {
	m := e.Manifest
	var now *Manifest
	if plan != nil {
		var err error
		if now, err = plan.manifest(time.Now()); err != nil {
			return err
		}
		work, saved, err := plan.work()
		if err != nil {
			return err
		}
		work.Corpus = corpusName
		if saved {
			work.Corpus = work.Source
		}
		now.Work = work
		// What Analyse shows may be asked for differently each time.
		now.Ratios, now.Metrics = m.Ratios, m.Metrics
		if now.Control == "" {
			now.Base = m.Base
		}
	} else {
		c := *m
		now = &c
		now.Variants = slices.Clone(m.Variants)
		for i, hashes := 0, map[string]string{}; i < len(now.Variants); i++ {
			v := &now.Variants[i]
			v.SHA256 = hashNow(v.Path, hashes)
			v.Files = slices.Clone(v.Files)
			for f := range v.Files {
				v.Files[f].SHA256 = hashNow(v.Files[f].Path, hashes)
			}
		}
		report, err := identity()
		if err != nil {
			return err
		}
		now.Host = report.Identity
	}
	now.Work.SHA256 = corpusHash(e.corpusPath())
	differences, err := diff(m, now)
	if err != nil {
		return err
	}
	if len(differences) > 0 {
		m.explain(differences, now)
		return &ChangedError{Dir: e.Dir, Differences: differences}
	}
	return nil
}

// hashNow returns the hash of a file, or what is wrong with it.
func hashNow(path string, known map[string]string) string {
	sum, err := hashOnce(path, known)
	if err != nil {
		return err.Error()
	}
	return sum
}

// corpusHash is hashNow for a corpus, which has a hash of its own.
func corpusHash(path string) string {
	c, err := corpus.Open(path)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	return c.SHA256()
}

// corpusPath returns where the corpus is.
func (e *Experiment) corpusPath() string {
	if filepath.IsAbs(e.Manifest.Work.Corpus) {
		return e.Manifest.Work.Corpus
	}
	return e.path(e.Manifest.Work.Corpus)
}
