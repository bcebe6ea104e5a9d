package command

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kballard/go-shellquote"
	"github.com/spf13/cobra"
)

// fenced is a block of code in Markdown without a language, or one of a shell.
var fenced = regexp.MustCompile("(?ms)^```(?:sh|bash|console)?\n(.*?)^```$")

// TestCallsInDocuments parses every call of kvbench in the documents and in the
// help: commands and flags must exist and go together.
func TestCallsInDocuments(t *testing.T) {
	files := documents(t)
	calls := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fenced.FindAllStringSubmatch(string(data), -1) {
			calls += checkScript(t, file, block[1])
		}
	}
	if calls < 20 {
		t.Errorf("only %d calls were found in %q", calls, files)
	}

	a := &app{stdout: &standardOutput{w: io.Discard}, stderr: os.Stderr}
	inHelp := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		inHelp += checkScript(t, cmd.CommandPath()+" --help", cmd.Example)
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(a.root())
	if inHelp < 10 {
		t.Errorf("only %d calls were found in the help", inHelp)
	}
}

// documents returns the paths of all documents.
func documents(t *testing.T) []string {
	t.Helper()
	var files []string
	if err := filepath.WalkDir("../../..", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// link is a link in Markdown, with its target.
var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// TestLinksInDocuments looks for what links within the repository lead to.
func TestLinksInDocuments(t *testing.T) {
	links := 0
	for _, file := range documents(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil {
				t.Errorf("%s: link to %s: %v", file, m[1], err)
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links were found", links)
	}
}

// checkScript checks the calls of kvbench in a script and returns how many there
// are.
func checkScript(t *testing.T, where, script string) int {
	t.Helper()
	calls := 0
	for line := range strings.SplitSeq(continued.ReplaceAllString(script, ""), "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		words, err := shellquote.Split(line)
		if err != nil {
			continue // no line of a shell
		}
		for _, call := range callsOf(words) {
			calls++
			if !t.Run(strings.Join(call, " "), func(t *testing.T) { checkCall(t, call) }) {
				t.Errorf("in %s", where)
			}
		}
	}
	return calls
}

// callsOf returns the arguments of the calls of kvbench in a line.
func callsOf(words []string) [][]string {
	var out [][]string
	var split []string
	for _, w := range words {
		if before, ok := strings.CutSuffix(w, ";"); ok {
			split = append(split, before, ";")
		} else {
			split = append(split, w)
		}
	}
	words = split
	for len(words) > 0 {
		end := len(words)
		for i, w := range words {
			if strings.ContainsAny(w[:min(1, len(w))], "|<>&#;") || w == "2>" || w == "…" {
				end = i
				break
			}
		}
		call := words[:end]
		words = words[min(end+1, len(words)):]
		for len(call) > 0 && strings.Contains(call[0], "=") && !strings.HasPrefix(call[0], "-") {
			call = call[1:] // a variable
		}
		switch {
		case len(call) > 1 && (call[0] == "kvbench" || call[0] == "./kvbench"):
			out = append(out, call[1:])
		case len(call) > 3 && call[0] == "go" && call[1] == "run" && call[2] == "./cmd/kvbench":
			out = append(out, call[3:])
		}
	}
	return out
}
