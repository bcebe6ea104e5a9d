package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/archive"
	"github.com/kvbench/kvbench/internal/wholefile"
	"github.com/kvbench/kvbench/results"
)

func (a *app) results() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "results",
		Short: "Find, show, compare, export, merge and check results",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.resultsList(), a.resultsShow(), a.resultsDiff(), a.resultsExport(), a.resultsMerge(), a.resultsValidate(), a.resultsSchema())
	return cmd
}

func (a *app) resultsShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show RESULT...",
		Short: "Print what results say",
		Long: `Print the summary of a record, the tables of an experiment, sweep or simulation,
or what a Parquet table holds and the medians of its trials.`,
		Args: someArgs("RESULT: a file, or the folder of an experiment or sweep"),
		RunE: func(_ *cobra.Command, args []string) error {
			for i, path := range args {
				s, err := archive.Open(path)
				if err != nil {
					return err
				}
				if len(args) > 1 {
					fmt.Fprintf(a.stdout, "%s== %s\n", strings.Repeat("\n", min(i, 1)), path)
				}
				if err := s.WriteText(a.stdout); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func someArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s takes one or more of %s; see '%s --help'", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

func (a *app) resultsValidate() *cobra.Command {
	var valid, keptUp bool
	cmd := &cobra.Command{
		Use:   "validate RECORD...",
		Short: "Check records against the JSON Schema and against themselves",
		Long: `Check that records have the form that the JSON Schema describes, and that their
fields do not contradict each other: sums, rates, quantiles in order, a verdict
that its reasons bear out. Whether a trial measured anything is another question:
--require-valid and --require-kept-up ask it, and exit with 3 where the answer is
no.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%s takes one or more records; see '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			for _, path := range args {
				b, err := wholefile.Read(path, "a result record", results.MaxRecord)
				if err != nil {
					return err
				}
				if err := results.Validate(b); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				r, err := results.Decode(b)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				if found := results.Contradictions(r); len(found) > 0 {
					return fmt.Errorf("%s: the record contradicts itself:\n  %s", path, strings.Join(found, "\n  "))
				}
				switch {
				case (valid || keptUp) && !r.Validity.Valid:
					return &codeError{exitUnmeasurable, fmt.Errorf("%s: the trial is not valid", path)}
				case keptUp && !r.Validity.KeptUp:
					return &codeError{exitUnmeasurable, fmt.Errorf("%s: the index did not keep up", path)}
				}
				if !a.quiet {
					fmt.Fprintf(a.stdout, "%s: matches %s\n", path, results.ReplayV1)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&valid, "require-valid", false, "exit with 3 if a trial is not valid")
	cmd.Flags().BoolVar(&keptUp, "require-kept-up", false, "exit with 3 if a trial is not valid or did not keep up")
	return cmd
}

func (a *app) resultsSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a result record",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(results.Schema())
			return err
		},
	}
}
