package command

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/indexer/catalogue"
)

// TestTextsComplete looks for flags with texts as values of which a shell would
// complete names of files for want of something better.
func TestTextsComplete(t *testing.T) {
	a := &app{stdout: &standardOutput{w: io.Discard}, stderr: os.Stderr}
	texts := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			switch f.Value.Type() {
			case "string", "stringArray", "stringSlice":
			default:
				return
			}
			texts++
			_, values := cmd.GetFlagCompletionFunc(f.Name)
			_, files := f.Annotations[cobra.BashCompFilenameExt]
			_, folders := f.Annotations[cobra.BashCompSubdirsInDir]
			if !values && !files && !folders {
				t.Errorf("%s --%s has no completion", cmd.CommandPath(), f.Name)
			}
		})
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(a.root())
	if texts < 50 {
		t.Errorf("only %d flags with texts", texts)
	}
}

func TestCompletedValues(t *testing.T) {
	for _, c := range []struct {
		args string   // the last one is what was typed
		want []string // among what is offered
		not  string   // not among it
	}{
		{"rounds --variant tra", nil, ""},
		{"rounds --variant tracked=", []string{"tracked=--track-resident-blocks", "tracked=--index="}, "tracked=--workers="},
		{"rounds --variant tracked=--tra", []string{"tracked=--track-resident-blocks"}, "tracked=--index="},
		{"rounds --variant a=--workers=3 --ind", []string{"a=--workers=3 --index="}, "a=--workers=3 --assign="},
		{"rounds --variant a=--assign=", []string{"a=--assign=hash", "a=--assign=balanced"}, "a=--assign="},
		{"rounds --variant a=--assign=h", []string{"a=--assign=hash"}, "a=--assign=balanced"},
		{"rounds --variant a=--index=r", []string{"a=--index=radix", "a=--index=runs"}, "a=--index=flat"},
		{"rounds --variant a=--workers=", nil, ""},
		{"rounds --variant a=@./kv", nil, ""},
		{"sweep --over ", []string{"workers="}, ""},
		{"sweep --over wo", []string{"workers="}, "copies="},
		{"sweep --over workers=2", nil, ""},
		{"simulate --slo ", []string{"ttft=", "tpot=", "e2e="}, ""},
		{"simulate --slo ttft=2s,", []string{"ttft=2s,tpot=", "ttft=2s,e2e="}, "ttft=2s,ttft="},
		{"simulate --slo ttft=2s,tp", []string{"ttft=2s,tpot="}, "ttft=2s,e2e="},
	} {
		// A variant has spaces: what was typed is all after the name of its flag.
		words := strings.SplitN(c.args, " ", 3)
		got := completions(t, words)
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("%q: %q is not offered, but %q", c.args, want, got)
			}
		}
		if c.not != "" && slices.Contains(got, c.not) || c.want == nil && len(got) > 0 {
			t.Errorf("%q: %q are offered", c.args, got)
		}
	}
}

// completions returns what a shell gets to offer, without descriptions.
func completions(t *testing.T, words []string) []string {
	t.Helper()
	var b bytes.Buffer
	a := &app{indexes: catalogue.All(), stdout: &standardOutput{w: &b}, stderr: os.Stderr}
	root := a.root()
	root.SetErr(io.Discard) // the directive in words
	root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, words...))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(b.String()) {
		text, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !strings.HasPrefix(text, ":") {
			out = append(out, text)
		}
	}
	return out
}
