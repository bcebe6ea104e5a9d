package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/text"
)

func (a *app) listIndexes() *cobra.Command {
	return &cobra.Command{
		Use:   "indexes",
		Short: "List the indexes that --index can name",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			widest := 0
			for _, f := range a.indexes {
				widest = max(widest, len(f.Name))
			}
			var b text.Builder
			for _, f := range a.indexes {
				b.Wrap(fmt.Sprintf("%-*s  ", widest, f.Name), f.Summary)
			}
			_, err := io.WriteString(a.stdout, b.String())
			return err
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
