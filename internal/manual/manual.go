// Package manual writes the manual pages of a command line. The text is that of
// the commands' help; the package adds none.
package manual

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/kvbench/kvbench/internal/atomicfile"
)

// Write writes a page in section 1 for cmd and every command below it into a
// folder that exists, in place of the pages that are there. when is the date that
// they bear; the zero time stands for an unknown one, which is the epoch.
func Write(ctx context.Context, cmd *cobra.Command, dir, version string, when time.Time) error {
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := Write(ctx, c, dir, version, when); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if when.IsZero() {
		when = time.Unix(0, 0)
	}
	when = when.UTC()
	cmd.DisableAutoGenTag = true
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	return atomicfile.Write(filepath.Join(dir, name), true, func(w io.Writer) error {
		return doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Date: &when, Source: "kvbench " + version, Manual: "kvbench"}, w)
	})
}
