package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/catalogue"
	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/soak"
)

func (a *app) soak() *cobra.Command {
	var o soak.Options
	var names []string
	var asJSON bool
	var from, repro string
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Run an index for long beside the reference",
		Long: `Run indexes one after the other, each for --duration, on event threads with ranks
that come and go, content that churns and readers that ask meanwhile. After every
round everything is flushed; effects of every event, counts of all ranks and a
sample of answers are compared with the reference index, and the index checks
itself. At the end all ranks go and the memory must be back within a stated bound.

The operations depend on --seed, --ranks and --check-every alone. A difference ends
the soak with exit code 2 and says seed and operation.`,
		Example: `  kvbench soak --index runs --duration 5m
  kvbench soak --index runs,crtc --operations 1000000 --seed 7 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from != "" {
				return a.replayRepro(from, names)
			}
			if repro != "" {
				if err := atomicfile.CheckWritable(repro, false); err != nil {
					return err
				}
			}
			if len(names) == 0 {
				names = []string{a.indexes[0].Name}
			}
			var indexes []indexer.Factory
			for _, name := range names {
				f, err := catalogue.Find(a.indexes, name)
				if err != nil {
					return err
				}
				indexes = append(indexes, f)
			}
			if o.Operations > 0 && !cmd.Flags().Changed("duration") {
				o.Duration = 0
			}
			return a.runSoaks(cmd.Context(), o, indexes, asJSON, repro)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&names, "index", nil, "indexes to run, one after the other (default: the recommended one)")
	fl.IntVar(&o.EventWorkers, "event-workers", 2, "event threads; an index that can have only one gets one")
	fl.IntVar(&o.Readers, "readers", 2, "goroutines that ask meanwhile")
	fl.IntVar(&o.Ranks, "ranks", 32, "most ranks at one time")
	fl.Uint64Var(&o.Seed, "seed", 42, "seed of every random choice")
	fl.DurationVar(&o.Duration, "duration", time.Hour, "end after the round in which this time is over; 0: no limit")
	fl.Uint64Var(&o.Operations, "operations", 0, "end after so many operations; 0: no limit")
	fl.IntVar(&o.CheckEvery, "check-every", 5000, "operations of a round")
	fl.IntVar(&o.Questions, "questions", 200, "answers compared after a round")
	fl.DurationVar(&o.Hang, "hang", 5*time.Minute, "a round that takes longer is a failure")
	fl.StringVar(&repro, "repro", "", "file for a short history that shows the first difference")
	fl.StringVar(&from, "from", "", "replay the history of such a file instead")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("index", a.completeIndex)
	return cmd
}

// runSoaks runs indexes one after the other and prints what came of each.
func (a *app) runSoaks(ctx context.Context, o soak.Options, indexes []indexer.Factory, asJSON bool, repro string) error {
	report := &soak.Report{Schema: soak.Schema}
	failed := 0
	for _, f := range indexes {
		progress := a.progress()
		total := int64(o.Operations)
		if total == 0 {
			total = int64(o.Duration.Seconds())
		}
		progress.Step("soak "+f.Name, total)
		o.Index = f
		o.Progress = func(operations uint64, elapsed time.Duration) {
			if o.Operations > 0 {
				progress.Advance(int64(operations))
			} else {
				progress.Advance(int64(elapsed.Seconds()))
			}
		}
		r, err := soak.Run(ctx, &o)
		progress.Done()
		if err != nil {
			return fmt.Errorf("soak of %s: %w", f.Name, err)
		}
		report.Results = append(report.Results, r)
		if r.Problem != nil {
			failed++
			if repro != "" && failed == 1 {
				if err := writeRepro(repro, &o, r.Problem); err != nil {
					a.warn(fmt.Sprintf("no reproduction was written: %v", err))
				}
			}
		}
		if !asJSON {
			if err := r.WriteText(a.stdout); err != nil {
				return err
			}
		}
		if r.Interrupted {
			break
		}
	}
	if asJSON {
		if err := a.printJSON(report); err != nil {
			return err
		}
	}
	switch {
	case failed > 0:
		return &codeError{exitError, fmt.Errorf("%d of %d indexes failed", failed, len(report.Results))}
	case ctx.Err() != nil:
		return &codeError{code: exitInterrupted}
	}
	return nil
}

func writeRepro(path string, o *soak.Options, p *soak.Problem) error {
	r, err := soak.Reproduce(o, p, time.Minute)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, false, func(w io.Writer) error { return r.Write(w) })
}

// replayRepro replays a file on the index that it names or on the named ones.
func (a *app) replayRepro(path string, names []string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := soak.ReadRepro(path, f)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{r.Index}
	}
	for _, name := range names {
		x, err := catalogue.Find(a.indexes, name)
		if err != nil {
			return err
		}
		if err := r.Replay(x); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(a.stdout, "%s: no difference in %d operations\n", name, r.Len())
	}
	return nil
}
