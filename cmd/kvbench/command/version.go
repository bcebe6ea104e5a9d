package command

import (
	"fmt"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/buildinfo"
)

func (a *app) version() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which kvbench this is and how it was built",
		Long: `Say which kvbench this is and how it was built, as the Go tool recorded it in the
program. What the build does not know is empty: a checkout built without its
history has no commit. A program with the same sha256 is the same program.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			sum, err := buildinfo.SHA256()
			if err != nil {
				return err
			}
			b := buildinfo.Read()
			if asJSON {
				return a.printJSON(struct {
					Version    string   `json:"version"`
					Commit     string   `json:"commit"`
					CommitTime string   `json:"commit_time"`
					Modified   bool     `json:"modified"`
					Go         string   `json:"go_version"`
					OS         string   `json:"os"`
					Arch       string   `json:"arch"`
					SHA256     string   `json:"binary_sha256"`
					Settings   []string `json:"build_settings"`
				}{b.Version, b.Commit, b.CommitTime, b.Modified, b.Go, runtime.GOOS, runtime.GOARCH, sum, orEmpty(b.Settings)})
			}
			tw := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintf(tw, "kvbench %s\n", buildText())
			fmt.Fprintf(tw, "committed\t%s\n", orUnknown(b.CommitTime))
			fmt.Fprintf(tw, "platform\t%s/%s\n", runtime.GOOS, runtime.GOARCH)
			fmt.Fprintf(tw, "sha256\t%s\n", sum)
			for _, s := range b.Settings {
				if name, value, _ := strings.Cut(s, "="); !strings.HasPrefix(name, "vcs") && name != "GOOS" && name != "GOARCH" {
					fmt.Fprintf(tw, "%s\t%s\n", name, value)
				}
			}
			return tw.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
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
