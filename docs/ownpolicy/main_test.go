package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain runs the example itself when a test asks for it.
func TestMain(m *testing.M) {
	if os.Getenv("OWNPOLICY_RUN") != "" {
		main()
	}
	os.Exit(m.Run())
}

func run(t *testing.T, want string, args ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "OWNPOLICY_RUN=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPolicyIsListed(t *testing.T) {
	run(t, "reads       LOAD", "policies", "show", "fewest-blocks")
}

func TestPolicyIsReplayed(t *testing.T) {
	run(t, "policy   fewest-blocks", "replay", "conversation-small", "--workers", "4", "--duration", "100ms", "--quiesce", "0s",
		"--serial", "--policy", "fewest-blocks")
}
