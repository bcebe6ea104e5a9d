package rounds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/fileid"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/results"
)

// RunOptions are what does not change the figures.
type RunOptions struct {
	// Progress, if set, is called before each trial. Nothing else of kvbench runs
	// while a trial does.
	Progress func(Status)
	// RequireFit refuses to run on a machine that is unfit.
	RequireFit bool
	// QuickHost leaves out of the host check what takes time: watching and trying
	// out CPUs.
	QuickHost bool
	// Unlocked says why other measurements may run on the machine meanwhile; "":
	// the caller sees to it that none does.
	Unlocked string
	// Sole says that this process has no other children meanwhile. Then what a trial
	// leaves behind is ended even outside of the trial's process group.
	Sole bool
	Log  *slog.Logger // nil: none
}

// Status is how far an experiment is when a trial is about to start.
type Status struct {
	Step   Step
	Rounds int           // planned
	Done   int           // trials done
	Left   int           // trials left, this one included
	Time   time.Duration // expected for these; 0: not known yet
}

// ErrInterrupted says that ctx ended before all trials were done. The journal holds
// those that were.
var ErrInterrupted = errors.New("interrupted")

// ChildError says that a variant cannot be measured: its first trial failed, or
// several in a row did. They are in the journal.
type ChildError struct {
	Variant string
	Trials  int // failed in a row
	Last    Trial
}

func (e *ChildError) Error() string {
	text := fmt.Sprintf("variant %s gives no result: ", e.Variant)
	if e.Trials > 1 {
		text = fmt.Sprintf("variant %s gave no result %d times in a row: ", e.Variant, e.Trials)
	}
	text += reasonText(e.Last.Reasons)
	if e.Last.Output != "" {
		text += "; it printed: " + e.Last.Output
	}
	return text
}

func reasonText(reasons []results.Reason) string {
	var parts []string
	for _, r := range reasons {
		parts = append(parts, r.Rule+": "+r.Detail)
	}
	return strings.Join(parts, "; ")
}

// UnfitError says that the machine is unfit to measure on.
type UnfitError struct{ Report *host.Report }

func (e *UnfitError) Error() string {
	var parts []string
	for _, f := range e.Report.With(host.Unfit) {
		parts = append(parts, f.Name+": "+f.Detail)
	}
	return "the machine is unfit to measure on: " + strings.Join(parts, "; ")
}

// mostFailures in a row of one variant end an experiment.
const mostFailures = 3

// maxRecord is the largest result record that is read, in bytes.
const maxRecord = 64 << 20

// recordRoom is what a record needs on disk, in bytes, and more than most do.
const recordRoom = 256 << 10

// padRange is the range of the padding that differs from round to round, in bytes.
const padRange = 4096

// Run runs all trials that are left. It returns nil when the planned rounds are
// done, [ErrInterrupted] if ctx ended, a [*ChildError] if a variant cannot run, a
// [*ChangedError] if something is not as the manifest says. Whatever it returns,
// the trials that ended are in the journal.
func (e *Experiment) Run(ctx context.Context, o RunOptions) error {
	return e.withJournal(func(j *journalWriter, lock *os.File) error {
		if e.Done() {
			return nil
		}
		if err := e.CheckSame(nil); err != nil {
			return err
		}
		r := &runner{e: e, j: j, lock: lock, o: o}
		if r.o.Log == nil {
			r.o.Log = slog.New(slog.DiscardHandler)
		}
		return r.run(ctx)
	})
}

// runner is one session on an experiment.
type runner struct {
	e    *Experiment
	j    *journalWriter
	lock *os.File
	o    RunOptions
	cpus pinning

	frame    frame
	watch    fileid.Watch  // of programs and files
	previous string        // variant
	took     time.Duration // by the trials of this session, waits included
	trials   int           // of this session
}

func (r *runner) run(ctx context.Context) (err error) {
	m := r.e.Manifest
	report, err := r.check(ctx)
	if err != nil {
		return interruption(ctx, err)
	}
	if r.o.RequireFit && report.Verdict == host.Unfit {
		return &UnfitError{report}
	}
	if r.cpus, err = place(m); err != nil {
		return err
	}
	if r.o.Sole {
		restore, err := adopting()
		if err != nil {
			return err
		}
		defer restore()
	}
	if err := r.remember(); err != nil {
		return err
	}
	for i := range m.Variants {
		f := frameOf(r.argv(&m.Variants[i]))
		r.frame = frame{path: max(r.frame.path, f.path), args: max(r.frame.args, f.args), pointers: max(r.frame.pointers, f.pointers)}
	}
	if err := r.cpus.settle(); err != nil {
		// Not worth failing: the parent sleeps while a child runs.
		r.cpus.note = "kvbench is not pinned: " + err.Error()
		r.cpus.parent, r.cpus.children = NoCPU, r.cpus.all
	}
	defer func() { err = errors.Join(err, r.cpus.release()) }()
	if err := r.e.add(r.j, entry{Session: &Session{
		Tool: toolNow(), PID: os.Getpid(), ParentCPU: r.cpus.parent, ParentNote: r.cpus.note,
		ChildCPUs: host.FormatCPUs(r.cpus.children), TornBytes: r.e.torn, Host: report, Unlocked: r.o.Unlocked,
	}}); err != nil {
		return err
	}
	runErr := r.all(ctx)
	end := &sessionEnd{How: "done"}
	if runErr != nil {
		end.How = runErr.Error()
	}
	if err := r.cpus.release(); err == nil {
		// A full look would keep someone waiting who pressed Ctrl-C.
		if end.Host, err = r.check(context.WithoutCancel(ctx)); err != nil {
			end.Host = nil
		}
	}
	if err := r.e.add(r.j, entry{End: end}); err != nil {
		return errors.Join(runErr, err)
	}
	return runErr
}

// check looks at the machine.
func (r *runner) check(ctx context.Context) (*host.Report, error) {
	o := host.Options{}
	if r.o.QuickHost || ctx.Err() != nil {
		o = host.Options{NoProbe: true, Watch: -1}
	}
	return host.Check(ctx, o)
}

func interruption(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return ErrInterrupted
	}
	return err
}

// all runs trial after trial.
func (r *runner) all(ctx context.Context) error {
	for {
		step, more := r.e.next()
		if !more {
			return nil
		}
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		if r.o.Progress != nil {
			r.o.Progress(r.status(step))
		}
		began := time.Now()
		t, err := r.trial(ctx, step)
		if err != nil {
			return interruption(ctx, err)
		}
		if err := r.e.add(r.j, entry{Trial: t}); err != nil {
			return err
		}
		r.took += time.Since(began)
		r.trials++
		r.previous = t.Variant
		r.o.Log.Info("trial", "round", t.Round, "variant", t.Variant, "valid", t.Valid, "wall", time.Duration(t.WallNS), "reasons", reasonText(t.Reasons))
		if err := r.hopeless(t); err != nil {
			return err
		}
	}
}

func (r *runner) status(step Step) Status {
	s := Status{Step: step, Rounds: r.e.Rounds()}
	s.Done, s.Left = r.e.Counts()
	s.Left = max(s.Left, 1) // a retry is no planned trial
	if r.trials > 0 {
		s.Time = r.took / time.Duration(r.trials) * time.Duration(s.Left)
	}
	return s
}

// hopeless ends the experiment when a variant has never worked, or has ceased to.
func (r *runner) hopeless(t *Trial) error {
	if !t.Failed {
		return nil
	}
	failed, worked := 0, false
	for _, past := range slices.Backward(r.e.Trials) {
		if past.Variant != t.Variant {
			continue
		}
		if !past.Failed {
			worked = true
			break
		}
		failed++
	}
	if !worked || failed >= mostFailures {
		return &ChildError{Variant: t.Variant, Trials: failed, Last: *t}
	}
	return nil
}

// remember notes what the files look like that CheckSame has hashed.
func (r *runner) remember() error {
	for _, v := range r.e.Manifest.Variants {
		for _, f := range append(slices.Clone(v.Files), v.program()) {
			if err := r.watch.Trust(f.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *Entrant) program() File { return File{Path: v.Path, SHA256: v.SHA256} }

// unchanged finds a program that was replaced since it was hashed, as by a build.
func (r *runner) unchanged() error {
	for _, v := range r.e.Manifest.Variants {
		if sum, changed := r.watch.Changed(v.program()); changed {
			return &ChangedError{Dir: r.e.Dir, Differences: []Difference{{Field: v.Path, What: fmt.Sprintf("the program of variant %s, %s, SHA-256", v.Name, v.Path), Was: v.SHA256, Is: sum}}}
		}
	}
	return nil
}

// argv is the command line of a variant.
func (r *runner) argv(v *Entrant) []string {
	record := filepath.Join(r.e.path(trialFolder), recordName)
	work := r.e.corpusPath()
	if v.Kind == Command {
		args := []string{v.Path}
		for _, a := range v.Args {
			args = append(args, strings.NewReplacer(corpusWord, work, outWord, record).Replace(a))
		}
		return args
	}
	args := []string{v.Path, "replay", work}
	args = append(args, r.e.Manifest.Arguments...)
	args = append(args, v.Args...)
	return append(args, "--quiet", "--out", record)
}

// trial waits for a quiet machine and runs one trial. An error means that there
// is none; that a trial is invalid is no error.
func (r *runner) trial(ctx context.Context, step Step) (*Trial, error) {
	m := r.e.Manifest
	v := &m.Variants[slices.Index(m.names(), step.Variant)]
	record := filepath.Join(r.e.path(trialFolder), recordName)
	if err := emptyFolder(filepath.Dir(record)); err != nil {
		return nil, err
	}
	quiet, err := waitQuiet(ctx, m.Rules, host.ReadCounters)
	if err != nil {
		return nil, err
	}
	if err := r.unchanged(); err != nil {
		return nil, err
	}
	if reasons := r.changedFiles(v); reasons != nil {
		return &Trial{
			Round: step.Round, Slot: step.Slot, Variant: step.Variant, Attempt: step.Attempt, After: r.previous,
			Start: time.Now().UTC().Format(time.RFC3339Nano), Exit: "not started", Quiet: quiet, Failed: true, Reasons: reasons,
		}, nil
	}
	if err := r.cpus.settle(); err != nil { // threads may have been added
		return nil, err
	}
	argv := r.argv(v)
	extra := int(draw(m.Seed, uint64(step.Round)).Uint64N(padRange))
	path, args, padding, err := pad(argv, r.frame, extra)
	if err != nil {
		return nil, err
	}
	env := append(slices.Clone(m.Env), padding...)
	p := process{path: path, argv: args, env: env, dir: m.Dir, lock: r.lock, time: m.Rules.TrialTimeout, cpus: r.cpus, adopt: r.o.Sole}
	before := host.ReadCounters()
	o, err := p.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("variant %s: %w", v.Name, err)
	}
	if o.interrupted {
		return nil, context.Cause(ctx)
	}
	t := &Trial{
		Round: step.Round, Slot: step.Slot, Variant: step.Variant, Attempt: step.Attempt, After: r.previous,
		Start: o.start.UTC().Format(time.RFC3339Nano), WallNS: int64(o.wall),
		Exit: o.state.String(), Quiet: quiet, Usage: usage(o.state),
		Counters: host.ReadCounters().Sub(before), Pointers: len(args) + len(env), Reasons: r.changedFiles(v),
		LeftBehind: o.leftBehind,
	}
	for _, list := range [][]string{args, env} {
		for _, s := range list {
			t.ArgBytes += len(s) + 1
		}
	}
	raw, readErr := readRecord(record)
	judge(t, m, &o, raw, readErr)
	if err := emptyFolder(filepath.Dir(record)); err != nil {
		return nil, err
	}
	if t.Failed {
		t.Output = o.output
		if err := atomicfile.Room(filepath.Dir(record), recordRoom); err != nil {
			return nil, fmt.Errorf("%s gave no result, which tells nothing of it, because there is no room for one; make some, and go on by --resume: %w", step, err)
		}
	}
	return t, nil
}

// emptyFolder removes what a trial left in its folder, and makes the folder where the
// trial made something else of it.
func emptyFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o777))
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// readRecord reads what a trial wrote, unless it is larger than any record.
func readRecord(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, unix.ENOTDIR) {
		err = fs.ErrNotExist // the trial made a file of its folder
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil && len(b) > maxRecord {
		err = fmt.Errorf("it is larger than %d MiB", maxRecord>>20)
	}
	return b, err
}

// judge decides whether a trial counts, without looking at its figures.
func judge(t *Trial, m *Manifest, o *outcome, raw []byte, readErr error) {
	bad := func(rule, format string, args ...any) {
		t.Reasons = append(t.Reasons, results.Reason{Rule: rule, Detail: fmt.Sprintf(format, args...)})
	}
	if o.timedOut {
		// kvbench still writes a record, of an interrupted trial.
		t.Failed = true
		bad("timeout", "it ran longer than %v and was ended", m.Rules.TrialTimeout)
	}
	var rec *results.Record
	compact := &bytes.Buffer{}
	err := readErr
	if err == nil {
		if rec, err = results.Decode(raw); err == nil {
			err = json.Compact(compact, raw)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Failed = true
		bad("no_record", "it ended with %s and wrote no result record", t.Exit)
	case err != nil:
		t.Failed = true
		bad("bad_record", "it ended with %s, and what it wrote is no result record: %v", t.Exit, err)
	case rec.Provenance.CorpusSHA256 != m.Work.SHA256:
		t.Failed = true
		bad("other_corpus", "its record is of the corpus %q, not of %s", rec.Provenance.CorpusSHA256, m.Work.SHA256)
	default:
		t.Record = compact.Bytes()
		if !rec.Validity.Valid {
			t.Reasons = append(t.Reasons, rec.Validity.Reasons...)
			if len(rec.Validity.Reasons) == 0 {
				bad("not_valid", "its record does not say that it is valid, nor why not")
			}
		} else if !o.state.Success() {
			bad("exit", "it ended with %s although its record says that it is valid", t.Exit)
		}
	}
	for _, c := range host.Happened(t.Counters, false) {
		if c.Verdict == host.Unfit {
			bad(c.Name, "%s", c.Detail)
		}
	}
	if share, ok := t.Counters.CPUPressure(); ok && m.Rules.MaxPressure > 0 && share > m.Rules.MaxPressure {
		bad("cpu_pressure", "for %.1f%% of the time threads waited for a CPU; the limit is %.1f%%", 100*share, 100*m.Rules.MaxPressure)
	}
	t.Valid = len(t.Reasons) == 0
}

// quietLook is how long the pressure is watched for one look.
const quietLook = 250 * time.Millisecond

// waitQuiet rests for the gap and then until the machine is quiet, or the limit is
// reached.
func waitQuiet(ctx context.Context, rules Rules, read func() host.Counters) (Quiet, error) {
	began := time.Now()
	q := Quiet{Pressure: -1}
	look := func(d time.Duration) error {
		before := read()
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		diff := read().Sub(before)
		var ok bool
		if q.Pressure, ok = diff.CPUPressure(); !ok {
			q.Pressure = -1
		}
		return nil
	}
	done := func() (Quiet, error) {
		q.WaitedNS = int64(time.Since(began))
		q.Reached = rules.QuietLimit == 0 || q.Pressure >= 0 && q.Pressure <= rules.QuietPressure
		return q, nil
	}
	if rules.Gap > 0 {
		// The gap ends with a look, so that a quiet machine waits no longer.
		if rest := rules.Gap - quietLook; rest > 0 {
			if err := look(rest); err != nil {
				return q, err
			}
		}
		if err := look(min(rules.Gap, quietLook)); err != nil {
			return q, err
		}
	} else if rules.QuietLimit > 0 {
		if err := look(min(rules.QuietLimit, quietLook)); err != nil {
			return q, err
		}
	}
	for waited := time.Duration(0); waited < rules.QuietLimit && q.Pressure > rules.QuietPressure; waited += quietLook {
		if err := look(quietLook); err != nil {
			return q, err
		}
	}
	return done()
}
