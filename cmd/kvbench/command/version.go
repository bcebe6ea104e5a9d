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
			_, err := fmt.Fprintln(a.stdout, "kvbench", buildText())
			return err
		},
	}
}

// buildText says which build this is, in one line.
func buildText() string {
	b := buildinfo.Read()
	commit := b.Commit
	switch {
	case commit == "":
		commit = "commit unknown"
	case b.Modified:
		commit += " with changes"
	}
	return fmt.Sprintf("%s, %s, %s", b.Version, commit, b.Go)
}
