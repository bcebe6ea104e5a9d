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

func TestPolicyIsListed(t *testing.T) {
	cmd := exec.Command(os.Args[0], "policies", "show", "fewest-blocks")
	cmd.Env = append(os.Environ(), "OWNPOLICY_RUN=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "reads       LOAD") {
		t.Errorf("%v\n%s", err, out)
	}
}
