package recorded

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/rounds"
)

// TestRoundsTables keeps the tables of the recorded experiments true: they are
// what the journals say.
func TestRoundsTables(t *testing.T) {
	var b bytes.Buffer
	for _, name := range []string{"indexes", "tracking"} {
		experimentTable(t, &b, filepath.Join("rounds", name))
	}
	b.WriteByte('\n')
	keepTable(t, "rounds tables", b.Bytes())
}

// keepTable compares a marked part of the document on indexes with what it must be.
func keepTable(t *testing.T, name string, want []byte) {
	t.Helper()
	keepPart(t, benchDoc, name, want)
}

// keepPart compares a marked part of a document with what it must be.
func keepPart(t *testing.T, path, name string, want []byte) {
	t.Helper()
	begin := "<!-- " + name + ": go test ./results/recorded -update -->\n"
	end := "<!-- end of " + name + " -->\n"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(doc, []byte(begin))
	table, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the %s", path, name)
	}
	if *update {
		if err := os.WriteFile(path, bytes.Join([][]byte{before, []byte(begin), want, []byte(end), after}, nil), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(table, want) {
		t.Errorf("the %s in %s are not those of the recorded runs; run: go test ./results/recorded -update", name, path)
	}
}

// openExperiment opens a recorded experiment.
func openExperiment(t *testing.T, dir string) *rounds.Experiment {
	t.Helper()
	exp, err := rounds.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return exp
}

// experimentTable writes the comparisons of a recorded experiment.
func experimentTable(t *testing.T, b *bytes.Buffer, dir string) {
	t.Helper()
	name, exp := filepath.Base(dir), openExperiment(t, dir)
	a, err := exp.Analyse(rounds.AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := exp.Manifest
	if a.Done != m.Rounds {
		t.Fatalf("%s: %d of %d rounds are done", name, a.Done, m.Rounds)
	}
	if m.Tool.Modified || m.Tool.Commit == "" {
		t.Fatalf("%s: not made by a clean build: %+v", name, m.Tool)
	}
	fmt.Fprintf(b, "\n**%s**: %d rounds of %d variants, %s; `%s`; commit %.12s, %s. Load: %s.\n\n",
		name, a.Done, len(a.Variants), a.Workload, strings.Join(m.Arguments, " "), m.Tool.Commit, a.Machine, a.Load)
	b.WriteString("| metric | ratio | medians | same-round ratio | 95% interval | pairs | resolves |\n|---|---|---|---|---|---|---|\n")
	for _, c := range a.Comparisons {
		fmt.Fprintf(b, "| %s | %s | %s / %s | ", c.Metric.Path, c.Ratio, figure(c.MedianOf), figure(c.MedianTo))
		if c.Refused != "" {
			fmt.Fprintf(b, "no result: %s | | %d of %d | |\n", c.Refused, len(c.Result.Ratios), c.Planned)
			continue
		}
		fmt.Fprintf(b, "%.3f | %.3f to %.3f | %d of %d | ±%.1f%% |\n", c.Result.Median,
			c.Result.Interpolated.Low, c.Result.Interpolated.High, len(c.Result.Ratios), c.Planned, 100*c.Resolves)
	}
}
