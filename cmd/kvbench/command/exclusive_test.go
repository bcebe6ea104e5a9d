package command

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/settings"
)

func TestExclusive(t *testing.T) {
	for _, c := range []struct {
		args    string
		applied []settings.Setting
		want    string
	}{
		{"", nil, ""},
		{"--json", nil, ""},
		{"--csv --text", nil, ""},
		{"--csv --json", nil, "--json and --csv exclude each other; leave one out"},
		{"--json --text", nil, "--json and --text exclude each other; leave one out"},
		{"--json --csv", []settings.Setting{{Flag: "csv", Origin: "k.yaml:3:1"}}, "--json and --csv (set by k.yaml:3:1) exclude each other; leave one out"},
	} {
		cmd := &cobra.Command{Use: "x"}
		for _, name := range []string{"json", "csv", "text"} {
			cmd.Flags().Bool(name, false, "")
		}
		exclusive(cmd, "json", "csv")
		exclusive(cmd, "json", "text")
		if err := cmd.ParseFlags(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := (&app{applied: c.applied}).checkExclusive(cmd.Flags()); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: %q; want %q", c.args, got, c.want)
		}
	}
}
