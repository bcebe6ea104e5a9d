package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/archive"
)

func (a *app) resultsList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [PATH...]",
		Short: "List the results in folders",
		Long: `List the results at and below the paths, or below the working directory: records,
files of records, experiments, sweeps, simulations and Parquet tables, with what
is valid of them, when and by which kvbench they were made, and on which trace.

JSON and Parquet files that are no results are named on standard error with the
reason, unless --quiet; those that name no schema, as traces, are only counted
unless --verbose. Results that cannot be read are named, too, and make the exit
code 2.`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			found := archive.Find(args)
			var err error
			if asJSON {
				err = found.WriteJSON(a.stdout)
			} else {
				err = found.WriteList(a.stdout)
			}
			if err != nil {
				return err
			}
			return a.problems(found)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// problems names what was found and is no result, and fails if it should be one.
func (a *app) problems(found *archive.Found) error {
	broken := found.Broken()
	if a.quiet {
		found = &archive.Found{Problems: broken}
	}
	if err := found.WriteProblems(a.stderr, a.verbose); err != nil {
		return err
	}
	if len(broken) > 0 {
		return &codeError{code: exitError, err: errors.New("some results cannot be read; they are named above")}
	}
	return nil
}
