package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/host"
)

func (a *app) host() *cobra.Command {
	var asJSON, requireFit, noProbe bool
	var suggest int
	var cpus string
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Say whether this machine is fit to measure on, and how it is built",
		Long: `Look at what disturbs measurements: other work, stolen CPU time, CPU quotas,
frequency, stalls of a spinning thread, late timers, and so on. Each check says
fit, doubtful (it blurs figures), unfit (they are worthless) or unknown, and what
to do about it. It takes one or two seconds and needs no privileges; nothing else
should be measured meanwhile.

--suggest N proposes CPUs for the N threads of a replay, one on each physical
core. Exit code 3: there are not enough of them, or --require-fit was given and
the machine is unfit or could not be judged.`,
		Example: `  kvbench host
  kvbench host --suggest 8
  kvbench host --require-fit --quiet && kvbench replay work.corpus`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := host.Options{NoProbe: noProbe}
			if cmd.Flags().Changed("cpus") {
				var err error
				if o.CPUs, err = host.ParseCPUs(cpus); err != nil {
					return fmt.Errorf("--cpus: %w", err)
				}
			}
			progress := a.progress()
			defer progress.Done()
			o.Progress = func(done, total int) {
				progress.Step("check the machine", int64(total))
				progress.Advance(int64(done))
			}
			r, err := host.Check(cmd.Context(), o)
			if err != nil {
				return err
			}
			progress.Done()
			out := struct {
				*host.Report
				Suggestion *host.Suggestion `json:"suggestion,omitempty"`
			}{Report: r}
			if cmd.Flags().Changed("suggest") {
				s, err := r.Suggest(suggest)
				if err != nil {
					return err
				}
				out.Suggestion = &s
			}
			switch {
			case asJSON:
				err = a.printJSON(out)
			case out.Suggestion != nil:
				err = out.Suggestion.WriteText(a.stdout)
			case !a.quiet:
				err = r.WriteText(a.stdout)
			}
			if err != nil {
				return err
			}
			return hostVerdict(r, out.Suggestion, requireFit)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	fl.IntVar(&suggest, "suggest", 0, "propose CPUs for so many threads of a replay instead of printing the checks")
	fl.BoolVar(&requireFit, "require-fit", false, "exit with 3 unless the machine is fit or at worst doubtful")
	fl.BoolVar(&noProbe, "no-probe", false, "keep no CPU busy: leave out burn-in, stalls, timer and clock")
	fl.StringVar(&cpus, "cpus", "", "judge these CPUs, those that threads will be pinned to, such as 2-9")
	return cmd
}

// hostVerdict turns what was found into an exit code.
func hostVerdict(r *host.Report, s *host.Suggestion, requireFit bool) error {
	if s != nil && s.TooSmall != "" {
		return &codeError{exitUnmeasurable, errors.New("--suggest: " + s.TooSmall)}
	}
	if !requireFit || r.Verdict == host.Fit || r.Verdict == host.Doubtful {
		return nil
	}
	var names []string
	for _, f := range r.With(host.Unfit) {
		names = append(names, f.Name)
	}
	if len(names) == 0 {
		return &codeError{exitUnmeasurable, errors.New("whether this machine is fit is unknown: no CPU was tried out")}
	}
	return &codeError{exitUnmeasurable, errors.New("this machine is unfit to measure on: " + strings.Join(names, ", "))}
}
