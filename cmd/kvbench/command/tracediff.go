package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/trace"
	"github.com/kvbench/kvbench/trace/analysis"
)

func (a *app) traceDiff() *cobra.Command {
	var reading readingFlags
	opts := analysis.Options{Compare: true}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say how alike two traces are: lengths, gaps, reuse, turns",
		Long: `Compare the distributions of two traces by two distances. That of Kolmogorov and
Smirnov (KS) is the largest difference of the shares of values up to some value,
from 0 to 1. That of Wasserstein is how far values move on average to become those
of the other trace, in their own unit.

There are no p-values: requests of a trace depend on each other, so that a test
would find traces of the same process to differ. The yardstick beside each KS is
the KS of the first half of each trace and its second: how far it is from itself.

What is reused grows with the number of requests. If the traces differ in that,
shared prefixes and reuse distances are of equally many first requests, as far as
that goes, and --requests takes as many of both for all else too.`,
		Example: `  kvbench trace diff trace.jsonl synthetic.jsonl
  kvbench trace diff conversation-small agentic-small --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%s takes two traces and got %d; see '%s --help'", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			var sides [2]*analysis.Collector
			var sources [2]trace.Source
			for i, name := range args {
				var err error
				if sides[i], sources[i], err = a.analyse(cmd, name, &reading, opts); err != nil {
					return err
				}
			}
			c, err := analysis.Compare(sides[0], sides[1])
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(struct {
					SourceA sourceJSON `json:"source_a"`
					SourceB sourceJSON `json:"source_b"`
					analysis.Comparison
				}{newSourceJSON(sources[0]), newSourceJSON(sources[1]), c})
			}
			if err := c.WriteText(a.stdout, sources[0].Name, sources[1].Name); err != nil {
				return err
			}
			var b text.Builder
			for i, src := range sources {
				for _, note := range append(src.Notes, src.Warnings...) {
					b.Wrap(string(rune('A'+i))+": ", note)
				}
			}
			_, err = io.WriteString(a.stdout, b.String())
			return err
		},
	}
	reading.register(cmd.Flags())
	reading.complete(cmd)
	fl := cmd.Flags()
	fl.IntVar(&opts.Requests, "requests", 0, "compare the first requests only (default: all)")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
