package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/fileid"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/results"
)

// Options say how a sweep is run.
type Options struct {
	// Dir keeps the plan, the journal and the records; "": a folder that is
	// deleted afterwards.
	Dir string
	// Resume goes on with the sweep in Dir, whose plan must be the same.
	Resume bool
	Runner Runner
	// Tell, if set, is told what happens next and what happened, in words,
	// always between children.
	Tell func(text string)

	// Unlocked says why other measurements may run on the machine meanwhile; "":
	// the caller sees to it that none does.
	Unlocked string

	// counters replaces those of the machine in tests.
	counters func() host.Counters
}

// Run runs what is left of a sweep and returns its result. If ctx ends, the
// running trial is dropped and the result of the others is returned, marked as
// interrupted, with a nil error. The error is about a sweep that could not
// measure at all.
func Run(ctx context.Context, plan Plan, o Options) (res *Result, err error) {
	if err := plan.check(); err != nil {
		return nil, err
	}
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	if o.counters == nil {
		o.counters = host.ReadCounters
	}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "kvbench-sweep")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		o.Dir = filepath.Join(dir, "sweep")
	}
	open := create
	if o.Resume {
		open = resume
	}
	f, err := open(o.Dir, plan)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && !o.Resume && len(f.trials) == 0 {
			// Nothing was measured: the folder is free for another try.
			err = errors.Join(err, f.erase())
		}
		err = errors.Join(err, f.close())
	}()
	s := &sweeper{folder: f, o: o, axis: plan.axis()}
	// The work takes space and can be made again.
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Join(f.dir, workDir))) }()
	interrupted := false
	if plan.KeepUp != nil {
		err = s.findKeepUp(ctx)
	} else {
		err = s.points(ctx)
	}
	if err != nil && ctx.Err() != nil {
		interrupted, err = true, nil
	}
	if err != nil {
		return nil, err
	}
	return analyse(&plan, f.trials, f.records, interrupted)
}

// sweeper runs the children.
type sweeper struct {
	*folder
	o    Options
	axis Axis
	base string // corpus that points share; "": not made yet

	watch fileid.Watch
}

// unchanged finds a source, or a file that a flag names, that was changed since the
// sweep began: trials before and after would not be comparable.
func (s *sweeper) unchanged() error {
	for _, f := range s.plan.watched() {
		if now, changed := s.watch.Changed(f); changed {
			return changedError(f.Path, f.SHA256, now)
		}
	}
	return nil
}

func changedError(what, was, is string) error {
	return fmt.Errorf("%s was changed since the sweep began, and trials before and after would not be comparable: its SHA-256 was %s, is %s; restore it and go on by --resume, or begin another sweep", what, was, is)
}

func (s *sweeper) points(ctx context.Context) error {
	order := s.plan.order()
	left := map[int64]int{}
	for _, k := range order {
		if _, done := s.done(k); !done {
			left[k.value]++
		}
	}
	for i, k := range order {
		if _, done := s.done(k); done {
			continue
		}
		where := fmt.Sprintf("[%d/%d%s]", i+1, len(order), s.timeLeft(order[i:]))
		if _, err := s.trial(ctx, k, where); err != nil {
			return err
		}
		if left[k.value]--; left[k.value] == 0 {
			if err := s.discard(k.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// timeLeft guesses how long the trials that are left will take, from those that
// were: a trial of the same value takes as long, another one longer or shorter by
// the difference of the windows.
func (s *sweeper) timeLeft(left []trialKey) string {
	if len(s.trials) == 0 {
		return ""
	}
	took, overhead := map[int64]int64{}, int64(0)
	window := func(value int64) int64 {
		if s.axis.Name == Window {
			return value
		}
		return 0
	}
	for _, t := range s.trials {
		took[t.Value] = t.TookNS
		overhead += t.TookNS - window(t.Value)
	}
	overhead /= int64(len(s.trials))
	var sum int64
	for _, k := range left {
		if _, done := s.done(k); done {
			continue
		}
		if ns, ok := took[k.value]; ok {
			sum += ns
		} else {
			sum += max(0, window(k.value)+overhead)
		}
	}
	return fmt.Sprintf(", %v left", time.Duration(sum).Round(time.Second))
}

func (s *sweeper) findKeepUp(ctx context.Context) error {
	b := newBisection(*s.plan.KeepUp)
	last := int64(0)
	for {
		window, run, more := b.next()
		if last != 0 && window != last {
			if err := s.discard(last); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		last = window
		k := trialKey{window, run}
		t, done := s.done(k)
		if !done {
			var err error
			if t, err = s.trial(ctx, k, fmt.Sprintf("[trial %d, at most %d here]", len(s.trials)+1, s.plan.KeepUp.Runs)); err != nil {
				return err
			}
		}
		b.record(window, t.Record != "" && s.records[k].Validity.KeptUp)
	}
}

// trial runs one trial and adds it to the journal.
func (s *sweeper) trial(ctx context.Context, k trialKey, where string) (Trial, error) {
	if err := ctx.Err(); err != nil {
		return Trial{}, context.Cause(ctx)
	}
	if err := s.unchanged(); err != nil {
		return Trial{}, err
	}
	label := s.axis.label(k.value)
	s.o.Tell(fmt.Sprintf("%s %s %s, run %d", where, s.axis.Name, label, k.run))
	t := Trial{Value: k.value, Run: k.run, Record: filepath.Join(recordDir, fmt.Sprintf("%s-%s-%d.json", s.axis.Name, label, k.run)), Start: now(), Unlocked: s.o.Unlocked}
	work, err := s.work(ctx, k.value)
	var unprepared *prepareError
	if errors.As(err, &unprepared) && s.axis.Prepares() && len(s.trials) > 0 {
		// Other points may do: this one alone asks for too much.
		t.Record, t.Failure, t.Exit = "", err.Error(), unprepared.exit
		return t, s.keep(t)
	}
	if err != nil {
		return t, err
	}
	// A record that is there already was lost to the journal.
	args := append([]string{"replay", work, "--quiet", "--overwrite", "--out=" + filepath.Join(s.dir, t.Record)}, s.plan.ReplayFlags...)
	if kind, ok := s.axis.kind(); ok && !kind.prepares {
		args = append(args, "--"+kind.flag+"="+label)
	}
	if err := remove(filepath.Join(s.dir, t.Record)); err != nil {
		return t, err
	}
	began, before := time.Now(), s.o.counters()
	out, err := s.o.Runner.Run(ctx, args)
	if err != nil {
		return t, err
	}
	happened := s.o.counters().Sub(before)
	t.TookNS, t.Exit = int64(time.Since(began)), out.Exit
	if ctx.Err() != nil {
		// What an interrupted child left is no trial.
		if err := remove(filepath.Join(s.dir, t.Record)); err != nil {
			return t, err
		}
		return t, context.Cause(ctx)
	}
	switch {
	case out.TimedOut:
		t.Record, t.Failure = "", "took longer than --trial-timeout and was ended"
	case out.Exit != 0 && out.Exit != exitInvalid:
		t.Record, t.Failure = "", fmt.Sprintf("exit code %d: %s", out.Exit, out.lastLine())
	}
	if t.Record != "" {
		r, err := results.Read(filepath.Join(s.dir, t.Record))
		switch {
		case err != nil:
			t.Record, t.Failure = "", fmt.Sprintf("exit code %d, and no result record: %v", out.Exit, err)
		case r.Provenance.BinarySHA256 != s.plan.BinarySHA256:
			return t, changedError("kvbench", s.plan.BinarySHA256, r.Provenance.BinarySHA256)
		default:
			t.Machine = host.Happened(happened, !r.Config.SharedCPUs)
		}
	}
	if err := s.unchanged(); err != nil {
		return t, err
	}
	if t.Failure != "" {
		if err := atomicfile.Room(filepath.Join(s.dir, recordDir), recordRoom); err != nil {
			return t, fmt.Errorf("%s %s, run %d left no result, which tells nothing of it, because there is no room for one; make some, and go on by --resume: %w", s.axis.Name, label, k.run, err)
		}
	}
	if t.Failure != "" && len(s.trials) == 0 {
		// What stops the first trial stops most likely all.
		return t, fmt.Errorf("the first trial failed, %s %s: %s", s.axis.Name, label, t.Failure)
	}
	return t, s.keep(t)
}

// keep adds a trial to the journal and says what became of it.
func (s *sweeper) keep(t Trial) error {
	if err := s.add(t); err != nil {
		return err
	}
	s.o.Tell("  " + s.say(t))
	return nil
}

// prepareError is about a child that could not prepare the work.
type prepareError struct {
	exit int
	text string
}

func (e *prepareError) Error() string { return e.text }

// recordRoom is what a record needs on disk, in bytes, and more than most do.
const recordRoom = 256 << 10

// exitInvalid is the exit code of a replay that ran but is not valid.
const exitInvalid = 3

// say is what became of a trial, in a line.
func (s *sweeper) say(t Trial) string {
	if t.Failure != "" {
		return "failed: " + t.Failure
	}
	return summary(s.records[t.key()])
}

func summary(r *results.Record) string {
	v := &r.Validity
	state := "did not keep up"
	switch {
	case !v.Valid && len(v.Reasons) > 0:
		return "invalid: " + v.Reasons[0].Rule + ": " + v.Reasons[0].Detail
	case v.KeptUp:
		state = "kept up"
	}
	return fmt.Sprintf("%s, %s of %s block-ops/s", state, short(r.Rates.AchievedBlockOpsPerSec), short(r.Rates.OfferedBlockOpsPerSec))
}

// work returns the corpus of a point, made now if it is not there.
func (s *sweeper) work(ctx context.Context, value int64) (string, error) {
	if s.axis.Prepares() {
		return s.make(ctx, s.axis.Name+"-"+s.axis.label(value), func(out string) []string {
			return s.write(out, s.plan.WindowNS, "--"+s.axis.Flag()+"="+s.axis.label(value))
		})
	}
	if s.base == "" {
		if s.plan.Saved {
			s.base = s.plan.Source
		} else {
			base, err := s.make(ctx, "base", func(out string) []string { return s.write(out, s.plan.longest()) })
			if err != nil {
				return "", err
			}
			s.base = base
		}
	}
	if s.axis.Name != Window {
		return s.base, nil
	}
	label := s.axis.label(value)
	return s.make(ctx, Window+"-"+label, func(out string) []string {
		return []string{"corpus", "rescale", s.base, "--quiet", "--duration=" + label, "--out=" + out}
	})
}

// write are the arguments that prepare the source.
func (s *sweeper) write(out string, window int64, more ...string) []string {
	args := append([]string{"corpus", "write", s.plan.Source, "--quiet", "--out=" + out}, s.plan.PrepareFlags...)
	return append(append(args, "--duration="+time.Duration(window).String()), more...)
}

// make runs a child that writes a corpus, unless the corpus is there: it appears
// whole or not at all.
func (s *sweeper) make(ctx context.Context, name string, args func(out string) []string) (string, error) {
	out := filepath.Join(s.dir, workDir, name+".corpus")
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	s.o.Tell("prepare " + name)
	o, err := s.o.Runner.Run(ctx, args(out))
	switch {
	case err != nil:
		return "", err
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case o.TimedOut:
		return "", &prepareError{o.Exit, fmt.Sprintf("prepare %s: took longer than --trial-timeout and was ended", name)}
	case o.Exit != 0:
		return "", &prepareError{o.Exit, fmt.Sprintf("prepare %s: exit code %d: %s", name, o.Exit, o.lastLine())}
	}
	return out, nil
}

// discard deletes the work of a point that needs it no more.
func (s *sweeper) discard(value int64) error {
	if !s.axis.Prepares() && s.axis.Name != Window {
		return nil
	}
	return remove(filepath.Join(s.dir, workDir, s.axis.Name+"-"+s.axis.label(value)+".corpus"))
}

// remove removes a file that may not be there.
func remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
