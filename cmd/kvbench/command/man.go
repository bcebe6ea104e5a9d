package command

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/buildinfo"
	"github.com/kvbench/kvbench/internal/manual"
)

func (a *app) man() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page for every command",
		Long: `Write a manual page for every command into a folder, which is made if need be.
Pages that are there already are replaced. The same build writes the same bytes.`,
		Example: `  kvbench man ~/.local/share/man/man1 && man kvbench-replay`,
		Args:    exactArgs("DIR, the folder to write to"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := filepath.Clean(args[0])
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return err
			}
			var when time.Time
			b := buildinfo.Read()
			if b.CommitTime != "" {
				when, _ = time.Parse(time.RFC3339, b.CommitTime)
			}
			return manual.Write(cmd.Context(), cmd.Root(), dir, b.Version, when)
		},
	}
}
