package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/replay/trial"
	"github.com/kvbench/kvbench/internal/settings"
	"github.com/kvbench/kvbench/internal/sweep"
	"github.com/kvbench/kvbench/internal/terminal"
)

// sweepFlags are the flags of sweep that are not those of replay.
type sweepFlags struct {
	min, max  time.Duration
	steps     int
	repeat    int
	over      string
	find      bool
	runs      int
	need      int
	precision float64
	dir       string
	resume    bool
	json, csv bool
	timeout   time.Duration
	machine   machineFlags
}

// sweepOwn are their names: they are not passed on.
var sweepOwn = []string{"min", "max", "steps", "repeat", "over", "find-keepup", "keepup-runs", "keepup-need", "keepup-precision",
	"out", "resume", "json", "csv", "trial-timeout", "machine-lock", "machine-lock-file", "quiet", "verbose", "help", settings.FileFlag}

func (a *app) sweep() *cobra.Command {
	var f sweepFlags
	var replay replayFlags
	var prep prepareFlags
	cmd := &cobra.Command{
		Use:   "sweep TRACE|CORPUS|NAME",
		Short: "Replay at several loads or sizes; where it stops keeping up",
		Long: `Replay at several points, each trial in a fresh process.

By default the points are windows from --min to --max, each longer than the one
before by the same factor: the shorter, the higher the load. The result has the
knee, the highest load that was kept up with. --find-keepup looks for it by
bisection: the shortest window that is kept up with in --keepup-need of
--keepup-runs trials. The work is prepared once and its deadlines are scaled.

With --over AXIS=VALUES the window stays and the work grows along one of
  ` + strings.Join(sweep.AxisNames(), "\n  ") + `

Flags of 'kvbench replay' hold for every trial. --out DIR keeps the plan, the
journal and every record; --resume goes on after an interruption. Exit codes: 2 a
trial failed; 3 a point has no valid trial, or nothing was found; 130
interrupted, and the result of what was done is printed.`,
		Example: `  kvbench sweep trace.jsonl --min 750ms --max 24s --steps 6 --repeat 3 --out sweep/
  kvbench sweep trace.jsonl --min 100ms --max 60s --find-keepup
  kvbench sweep trace.jsonl --over workers=2,16,128,1024 --duration 2s --csv`,
		Args:              exactArgs("TRACE, CORPUS or NAME"),
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := f.plan(cmd.Context(), a, cmd.Flags(), args[0], &replay, &prep)
			if err != nil {
				return err
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			defer f.machine.release()
			if err := f.machine.take(a, cmd, f.dir); err != nil {
				return err
			}
			tell := terminal.Status(a.stderr, a.quiet || a.verbose)
			log := a.log()
			res, err := sweep.Run(cmd.Context(), plan, sweep.Options{
				Dir:      f.dir,
				Resume:   f.resume,
				Unlocked: f.machine.missing(),
				Runner:   &sweep.Process{Program: program, Name: a.argv[0], Timeout: f.timeout},
				Tell: func(text string) {
					tell(text)
					log.Info("sweep", "step", text)
				},
			})
			if err != nil {
				return err
			}
			switch {
			case f.json:
				err = a.printJSON(res)
			case f.csv:
				err = res.WriteCSV(a.stdout)
			case !a.quiet:
				err = res.WriteText(a.stdout)
			}
			if err != nil {
				return err
			}
			return sweepVerdict(res)
		},
	}
	fl := cmd.Flags()
	prep.register(fl)
	prep.complete(cmd)
	replay.register(a, cmd)
	f.machine.register(cmd)
	fl.DurationVar(&f.min, "min", 750*time.Millisecond, "shortest window")
	fl.DurationVar(&f.max, "max", 24*time.Second, "longest window")
	fl.IntVar(&f.steps, "steps", 6, "windows in all")
	fl.IntVar(&f.repeat, "repeat", 1, "trials of each point")
	fl.StringVar(&f.over, "over", "", "let the work grow instead, such as workers=2,16,128")
	fl.BoolVar(&f.find, "find-keepup", false, "look for the shortest window that is kept up with")
	fl.IntVar(&f.runs, "keepup-runs", 3, "trials of a window for --find-keepup, at most")
	fl.IntVar(&f.need, "keepup-need", 2, "of these must keep up")
	fl.Float64Var(&f.precision, "keepup-precision", 0.05, "how close --find-keepup must come, as a share of the window")
	fl.StringVarP(&f.dir, "out", "o", "", "folder that keeps plan, journal and records")
	fl.BoolVar(&f.resume, "resume", false, "go on with the sweep in --out; trace and flags as before")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.BoolVar(&f.csv, "csv", false, "print one row for each trial as CSV")
	fl.DurationVar(&f.timeout, "trial-timeout", time.Hour, "end a trial that takes longer; 0: never")
	_ = cmd.RegisterFlagCompletionFunc("over", completeAxis)
	exclusive(cmd, "json", "csv")
	exclusive(cmd, "over", "find-keepup", "min", "max", "steps")
	exclusive(cmd, "find-keepup", "steps", "repeat")
	return cmd
}

// plan turns flags into a plan.
func (f *sweepFlags) plan(ctx context.Context, a *app, fl *pflag.FlagSet, source string, replay *replayFlags, prep *prepareFlags) (sweep.Plan, error) {
	p := sweep.Plan{Schema: sweep.SweepV1, Source: source, Repeat: f.repeat, PrepareFlags: []string{}, ReplayFlags: []string{}}
	switch {
	case f.resume && f.dir == "":
		return p, errors.New("--resume needs --out, the folder of the sweep")
	case fl.Changed("out") && f.dir == "":
		return p, errors.New("--out is empty; name the folder to write")
	case replay.cfg.Serial:
		return p, errors.New("--serial keeps no window, and a sweep is about windows or rates; leave it out")
	case f.timeout < 0:
		return p, fmt.Errorf("--trial-timeout is %v; it must not be negative", f.timeout)
	case fl.Changed("duration") && f.over == "":
		return p, errors.New("--duration has no effect on a sweep of windows; give --min and --max")
	}
	for _, name := range []string{"keepup-runs", "keepup-need", "keepup-precision"} {
		if fl.Changed(name) && !f.find {
			return p, fmt.Errorf("--%s has no effect without --find-keepup; add that or leave this out", name)
		}
	}
	// What every trial would refuse is refused before the first one.
	replay.out = f.dir
	if err := replay.resolve(fl, a); err != nil {
		return p, err
	}
	in, err := prep.input(fl, source)
	if err != nil {
		return p, err
	}
	if p.Saved, err = trial.IsCorpus(in.Source); err != nil {
		return p, err
	}
	switch {
	case f.find:
		p.Repeat = 1
		p.KeepUp = &sweep.KeepUp{Shortest: int64(f.min), Longest: int64(f.max), Runs: f.runs, Need: f.need, Precision: f.precision}
		p.Axis = sweep.Axis{Name: sweep.Window, Values: []int64{}}
	case f.over != "":
		if p.Axis, err = sweep.ParseAxis(f.over); err != nil {
			return p, fmt.Errorf("--over: %w", err)
		}
		if flag := p.Axis.Flag(); fl.Changed(flag) {
			return p, fmt.Errorf("--%s and --over %s contradict each other; leave one out", flag, p.Axis.Name)
		}
		if !p.Saved {
			p.WindowNS = int64(in.Window)
		}
	default:
		if p.Axis, err = sweep.Windows(f.min, f.max, f.steps); err != nil {
			return p, err
		}
	}
	fl.Visit(func(flag *pflag.Flag) {
		text := "--" + flag.Name + "=" + flag.Value.String()
		switch {
		case slices.Contains(sweepOwn, flag.Name), flag.Name == "duration":
		case slices.Contains(preparation, flag.Name), flag.Name == "max-line-bytes":
			p.PrepareFlags = append(p.PrepareFlags, text)
		default:
			p.ReplayFlags = append(p.ReplayFlags, text)
		}
	})
	return p, p.Identify(ctx)
}

// sweepVerdict turns what was found into an exit code.
func sweepVerdict(res *sweep.Result) error {
	axis, failed, unmeasured := res.AxisName(), res.Failures(), res.Unmeasured()
	switch {
	case res.Interrupted:
		return &codeError{exitInterrupted, errors.New("interrupted; the result holds what was done until then")}
	case len(failed) > 0:
		return fmt.Errorf("%d trials failed; the first, %s %s", len(failed), axis, failed[0])
	case res.KeepUp != nil && res.KeepUp.WindowNS == 0:
		return &codeError{exitUnmeasurable, errors.New("nothing found: " + res.KeepUp.Reason)}
	case res.KeepUp == nil && len(unmeasured) > 0:
		return &codeError{exitUnmeasurable, fmt.Errorf("no valid trial at %s %s", axis, strings.Join(unmeasured, ", "))}
	}
	return nil
}
