package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/archive"
	"github.com/kvbench/kvbench/internal/rounds"
)

func (a *app) resultsDiff() *cobra.Command {
	var (
		sel      archive.Selection
		variants []string
		level    percent = rounds.DefaultLevel
		asJSON   bool
	)
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two results: what made them, then their figures",
		Long: `Compare two records, experiments, sweeps or tables of trials: first what differs
in machine, build, work, configuration and rules, then the medians of the valid
trials and the ratio of B to A.

Ratios of what was not measured in the same rounds are marked as unpaired: what
changed on the machine meanwhile is in them. If A and B are one experiment, with
--variant A=B, the ratio is that within rounds.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%s takes two results, and got %d; see '%s --help'", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			for _, v := range variants {
				x, y, two := strings.Cut(v, "=")
				if !two {
					y = x
				}
				sel.Variants = append(sel.Variants, [2]string{x, y})
			}
			if sel.Level = float64(level); sel.Level <= 0 || sel.Level >= 1 {
				return fmt.Errorf("--confidence is %v; it must lie between 0%% and 100%%", &level)
			}
			x, err := archive.Open(args[0])
			if err != nil {
				return err
			}
			y, err := archive.Open(args[1])
			if err != nil {
				return err
			}
			c, err := archive.Compare(x, y, sel)
			if err != nil {
				return err
			}
			if asJSON {
				return c.WriteJSON(a.stdout)
			}
			return c.WriteText(a.stdout)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&variants, "variant", nil, "variant to compare, or A=B for one of each side; repeatable (default: those that both have)")
	fl.StringSliceVar(&sel.Metrics, "metric", nil, "metrics of the record, such as query_service.p50 (default: throughput, latencies, memory)")
	fl.Var(&level, "confidence", "level of the intervals")
	fl.BoolVar(&asJSON, "json", false, "print a JSON object")
	_ = cmd.RegisterFlagCompletionFunc("metric", fixed(rounds.Metrics()...))
	return cmd
}
