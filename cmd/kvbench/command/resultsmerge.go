package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/archive"
	"github.com/kvbench/kvbench/results/table"
)

func (a *app) resultsMerge() *cobra.Command {
	var out string
	var overwrite bool
	cmd := &cobra.Command{
		Use:   "merge RESULT RESULT...",
		Short: "Merge experiments of the same variants, or tables of one schema",
		Long: `Merge finished experiments of the same variants, programs, corpus, machine and
rules into a new one that has the rounds of the oldest first; a note in its journal
says where each round comes from. Experiments that did not measure the same thing
are refused, and what differs is named.

Parquet tables of one schema are merged into one, row after row.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("%s takes two or more experiments or tables, and got %d; see '%s --help'", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("name the new folder or file by --out")
			}
			text, err := archive.Merge(args, &archive.Export{Path: out, Overwrite: overwrite, Meta: table.NewMeta(a.argv, nil)})
			if err == nil && !a.quiet {
				fmt.Fprint(a.stdout, text)
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&out, "out", "o", "", "folder of the merged experiment, or file of the merged table")
	fl.BoolVar(&overwrite, "overwrite", false, "replace the file of --out if it exists; folders never are")
	return cmd
}
