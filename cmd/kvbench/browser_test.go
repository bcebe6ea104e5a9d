//go:build browser

package main

import (
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kvbench/kvbench/internal/report/browsertest"
)

// TestPagesInBrowser opens the pages that the commands write.
func TestPagesInBrowser(t *testing.T) {
	browser := browsertest.Browser(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/browser",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"replays": replays,
			"sweeps":  sweeps,
			"rounds":  experiment("rounds", "--gap", "0s", "--quiet-limit", "0s", "--quick-host"),
			// browses FILE N opens a page, which must have at least so many pictures.
			"browses": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: browses FILE PICTURES")
				}
				pictures, err := strconv.Atoi(args[1])
				ts.Check(err)
				for _, p := range browsertest.Problems(t, browser, ts.MkAbs(args[0]), pictures) {
					t.Errorf("%s: %s", args[0], p)
				}
			},
		},
	})
}
