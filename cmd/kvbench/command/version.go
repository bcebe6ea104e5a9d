package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/buildinfo"
)

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which kvbench this is",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			b := buildinfo.Read()
			commit := b.Commit
			switch {
			case commit == "":
				commit = "commit unknown"
			case b.Modified:
				commit += " with changes"
			}
			fmt.Fprintf(a.stdout, "kvbench %s, %s, %s\n", b.Version, commit, b.Go)
			return nil
		},
	}
}
