package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/stats"
)

func (a *app) stats() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Compute intervals of ratios, and check how far they can be trusted",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.statsInterval())
	return cmd
}

func (a *app) statsInterval() *cobra.Command {
	var confidence float64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "interval < NUMBERS",
		Short: "Print the median and every interval of numbers on standard input",
		Long: `Print the median of the numbers on standard input, such as same-round ratios, and
every interval that kvbench knows, each with the level that it truly has. Numbers
are separated by spaces or line ends, in the order in which they were measured;
what follows a # is left out.`,
		Example: "  kvbench stats interval < ratios.txt\n  kvbench stats interval --confidence 0.99 --json < ratios.txt",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			values, err := stats.ReadNumbers(cmd.InOrStdin())
			if err != nil {
				return fmt.Errorf("standard input, %w", err)
			}
			s, err := stats.Summarize(values, confidence)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(s)
			}
			return s.WriteText(a.stdout)
		},
	}
	cmd.Flags().Float64Var(&confidence, "confidence", 0.95, "level of the intervals, a share between 0 and 1")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
