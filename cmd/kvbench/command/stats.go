package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/stats"
	"github.com/kvbench/kvbench/stats/coverage"
)

func (a *app) stats() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Compute intervals of ratios, and check how far they can be trusted",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.statsInterval(), a.statsCoverage(), a.statsGates())
	return cmd
}

// errNoLevel refuses levels that no interval has.
var errNoLevel = errors.New("--confidence must lie between 0% and 100%, such as 95%")

func (a *app) statsInterval() *cobra.Command {
	confidence := percent(0.95)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "interval < NUMBERS",
		Short: "Print the median and every interval of numbers on standard input",
		Long: `Print the median of the numbers on standard input, such as same-round ratios, and
every interval that kvbench knows, each with the level that it truly has. Numbers
are separated by spaces or line ends, in the order in which they were measured;
what follows a # is left out.`,
		Example: "  kvbench stats interval < ratios.txt\n  kvbench stats interval --confidence 99% --json < ratios.txt",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if confidence <= 0 || confidence >= 1 {
				return errNoLevel
			}
			values, err := stats.ReadNumbers(cmd.InOrStdin())
			if err != nil {
				return fmt.Errorf("standard input, %w", err)
			}
			s, err := stats.Summarize(values, float64(confidence))
			if err != nil {
				return fmt.Errorf("standard input: %w", err)
			}
			if asJSON {
				return a.printJSON(s)
			}
			return s.WriteText(a.stdout)
		},
	}
	cmd.Flags().Var(&confidence, "confidence", "level of the intervals")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) statsCoverage() *cobra.Command {
	var study coverage.Study
	confidence := percent(0.95)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "coverage",
		Short: "Count how often each interval covers the truth",
		Long: `Simulate experiments whose true ratio is known, with noise of many forms, and count
how often each interval covers it. The same seed gives the same table.`,
		Example: "  kvbench stats coverage --datasets 2000 --n 9,20",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if confidence <= 0 || confidence >= 1 {
				return errNoLevel
			}
			study.Level = float64(confidence)
			progress := a.progress()
			defer progress.Done()
			progress.Step("simulating experiments", study.Experiments())
			table, err := study.Run(cmd.Context(), progress.Advance)
			progress.Done()
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(table)
			}
			return table.WriteText(a.stdout)
		},
	}
	cmd.Flags().IntVar(&study.Datasets, "datasets", 2000, "experiments for each form of noise and each size")
	cmd.Flags().IntSliceVar(&study.Sizes, "n", []int{6, 9, 10, 20, 40}, "numbers of ratios in an experiment")
	cmd.Flags().Var(&confidence, "confidence", "level of the intervals")
	cmd.Flags().Uint64Var(&study.Seed, "seed", 1, "seed of the simulation")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
