package command

import (
	"bytes"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelpFits looks for lines of help that a terminal of 80 columns breaks.
func TestHelpFits(t *testing.T) {
	a := &app{stdout: &standardOutput{w: io.Discard}, stderr: os.Stderr}
	commands := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		commands++
		var b bytes.Buffer
		cmd.SetOut(&b)
		cmd.Example = "" // one is for copying
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			// A word alone may be longer, such as a name with a default.
			if utf8.RuneCountInString(line) > 80 && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%s --help has a line of %d columns:\n%s", cmd.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(a.root())
	if commands < 40 {
		t.Errorf("only %d commands", commands)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]size{"0": 0, "1000": 1000, "64MiB": 64 << 20, "64 MiB": 64 << 20, "1MB": 1e6, "2gib": 2 << 30, "1.5KiB": 1536, "3k": 3000} {
		var s size
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("%q is %d, %v; want %d", text, s, err, want)
		}
		var again size
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%q is written %q and read as %d, %v", text, s.String(), again, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1XB", "1e99", "99999999999999999999", "NaN"} {
		s := size(7)
		if err := s.Set(text); err == nil || s != 7 {
			t.Errorf("%q was accepted as %d", text, s)
		}
	}
	if got := (*size)(new(size)).String(); got != "0" {
		t.Errorf("no bytes are written %q", got)
	}
	most := size(math.MaxInt)
	if got := most.String(); got != "9223372036854775807" {
		t.Errorf("the most bytes are written %q", got)
	}
}
