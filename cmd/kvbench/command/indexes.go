package command

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (a *app) listIndexes() *cobra.Command {
	return &cobra.Command{
		Use:   "indexes",
		Short: "List the indexes that --index can name",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			tw := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, f := range a.indexes {
				fmt.Fprintf(tw, "%s\t%s\n", f.Name, f.Summary)
			}
			return tw.Flush()
		},
	}
}

func (a *app) completeIndex(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names := make([]string, len(a.indexes))
	for i, f := range a.indexes {
		names[i] = f.Name + "\t" + f.Summary
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
