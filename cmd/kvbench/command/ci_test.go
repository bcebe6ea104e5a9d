package command

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/gate"
)

// TestWorkflowForGitHub parses the example workflow and every call of kvbench in
// it, down to the trial that rounds are given.
func TestWorkflowForGitHub(t *testing.T) {
	data, err := os.ReadFile("../../../docs/ci/github-actions.yml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Name string
				Uses string
				Run  string
			}
		}
	}
	if err := yaml.Unmarshal(data, &workflow); err != nil {
		t.Fatal(err)
	}
	var called []string
	uploads := false
	for _, job := range workflow.Jobs {
		for _, step := range job.Steps {
			uploads = uploads || strings.HasPrefix(step.Uses, "actions/upload-artifact@")
			for _, words := range callsIn(step.Run) {
				called = append(called, checkCall(t, words)...)
			}
		}
	}
	if want := []string{"kvbench host", "kvbench rounds", "kvbench replay", "kvbench gate"}; !slices.Equal(called, want) {
		t.Errorf("the workflow calls %q, want %q", called, want)
	}
	if !uploads {
		t.Error("the workflow keeps nothing")
	}

	file, err := os.Open("../../../docs/ci/gate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := gate.ReadConfig(file, "gate.yaml"); err != nil {
		t.Error(err)
	}
}

var continued = regexp.MustCompile(`\\\n\s*`)

// callsIn returns the words of every line of a shell script that starts kvbench.
func callsIn(script string) [][]string {
	var out [][]string
	for line := range strings.SplitSeq(continued.ReplaceAllString(script, ""), "\n") {
		if words := strings.Fields(line); len(words) > 0 && words[0] == "./kvbench" {
			out = append(out, words[1:])
		}
	}
	return out
}

// checkCall parses the flags of a call and of the command behind --, and returns
// the paths of the commands.
func checkCall(t *testing.T, words []string) []string {
	t.Helper()
	a := &app{stdout: &standardOutput{w: io.Discard}, stderr: os.Stderr}
	cmd, rest, err := a.root().Find(words)
	if err != nil {
		t.Errorf("%q: %v", words, err)
		return nil
	}
	if err := parse(cmd, rest); err != nil {
		t.Errorf("%q: %v", words, err)
	}
	called := []string{cmd.CommandPath()}
	if i := cmd.ArgsLenAtDash(); i >= 0 {
		called = append(called, checkCall(t, cmd.Flags().Args()[i:])...)
	}
	return called
}

func parse(cmd *cobra.Command, words []string) error {
	if err := cmd.ParseFlags(words); err != nil {
		return err
	}
	if err := cmd.ValidateFlagGroups(); err != nil {
		return err
	}
	if cmd.ArgsLenAtDash() >= 0 {
		return nil // what is behind it is checked as a command of its own
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestWorkflowCheckFindsMistakes(t *testing.T) {
	a := &app{stdout: &standardOutput{w: io.Discard}, stderr: os.Stderr}
	for _, call := range []string{"gate exp --margins 2%", "gate exp --margin 2%% ", "gate", "gate exp --sequential --anytime"} {
		cmd, rest, err := a.root().Find(strings.Fields(call))
		if err == nil {
			err = parse(cmd, rest)
		}
		if err == nil {
			t.Errorf("%q was accepted", call)
		}
	}
}
