package recorded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvbench/kvbench/internal/gate"
	"github.com/kvbench/kvbench/internal/rounds"
)

// recordedIn says whether a study was recorded. One that was recorded in part
// fails.
func recordedIn(t *testing.T, b *bytes.Buffer, dir string, files ...string) bool {
	t.Helper()
	missing := 0
	for _, name := range files {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			missing++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if missing == 0 {
		return true
	}
	if missing < len(files) {
		t.Fatalf("%s: %d of %d files are missing", dir, missing, len(files))
	}
	fmt.Fprintf(b, "\nNot recorded yet; `results/recorded/%s/run.sh` does it.\n\n", dir)
	return false
}

// TestTrackingCost keeps the table of what tracking resident blocks costs.
func TestTrackingCost(t *testing.T) {
	var b bytes.Buffer
	if recordedIn(t, &b, "tracking-cost", "manifest.json", "journal.jsonl.gz") {
		experimentTable(t, &b, "tracking-cost")
		b.WriteByte('\n')
	}
	keepTable(t, "tracking cost", b.Bytes())
}

// TestInjection keeps the table of the slowness that was put in on purpose.
func TestInjection(t *testing.T) {
	var b bytes.Buffer
	if recordedIn(t, &b, "injection", "overloaded/manifest.json", "keep-up/manifest.json") {
		found := map[string]rounds.Comparison{}
		for _, name := range []string{"overloaded", "keep-up"} {
			experimentTable(t, &b, filepath.Join("injection", name))
			a, err := openExperiment(t, filepath.Join("injection", name)).Analyse(rounds.AnalyseOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range a.Comparisons {
				found[fmt.Sprintf("%s %s %s", name, c.Metric.Path, c.Ratio)] = c
			}
		}
		b.WriteByte('\n')
		// What each load is for must find what was put in.
		for _, find := range []struct {
			key  string
			less bool
		}{
			{"overloaded rates.achieved_block_ops_per_sec events/base", true},
			{"keep-up queries.service.p50 queries/base", false},
		} {
			c, ok := found[find.key]
			if !ok || c.Refused != "" {
				t.Errorf("%s has no result: %s", find.key, c.Refused)
			} else if in := c.Result.Interpolated; find.less && in.High >= 1 || !find.less && in.Low <= 1 {
				t.Errorf("%s: the interval %.3f to %.3f does not find it", find.key, in.Low, in.High)
			}
		}
	}
	keepTable(t, "injection tables", b.Bytes())
}

// TestRealGates keeps the count of verdicts on a program compared with itself.
func TestRealGates(t *testing.T) {
	const experiments = 20
	var b bytes.Buffer
	files := []string{"version.json"}
	for i := range experiments {
		files = append(files, fmt.Sprintf("gates/%02d.json", i+1))
	}
	if recordedIn(t, &b, "gate-real", files...) {
		verdicts := map[string]int{}
		var margin float64
		for _, name := range files[1:] {
			data, err := os.ReadFile(filepath.Join("gate-real", name))
			if err != nil {
				t.Fatal(err)
			}
			var r gate.Report
			if err := json.Unmarshal(data, &r); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			verdicts[string(r.Verdict)]++
			if len(r.Rows) != 1 {
				t.Fatalf("%s: %d rows", name, len(r.Rows))
			}
			margin = r.Rows[0].Margin
		}
		fmt.Fprintf(&b, "\n%d experiments of ten rounds by `results/recorded/gate-real/run.sh`, %s. Margin %g%%, one look each: ",
			experiments, buildOf(t, "gate-real"), 100*margin)
		fmt.Fprintf(&b, "%d PASS, %d INCONCLUSIVE, %d UNMEASURABLE, **%d FAIL**.\n\n",
			verdicts["PASS"], verdicts["INCONCLUSIVE"], verdicts["UNMEASURABLE"], verdicts["FAIL"])
		// At a rate of 2.5% three or more of twenty happen once in 75 times.
		if verdicts["FAIL"] > 2 {
			t.Errorf("%d of %d gates fail a program compared with itself", verdicts["FAIL"], experiments)
		}
	}
	keepTable(t, "real gates", b.Bytes())
}

// TestProfiles keeps the profiles of the index runs.
func TestProfiles(t *testing.T) {
	var b bytes.Buffer
	if recordedIn(t, &b, "profile", "version.json", "apply.txt", "mixed.txt") {
		fmt.Fprintf(&b, "\nBy `results/recorded/profile/run.sh`, %s.\n", buildOf(t, "profile"))
		for _, mode := range []struct{ name, what string }{{"apply", "events alone"}, {"mixed", "events and queries in their order"}} {
			data, err := os.ReadFile(filepath.Join("profile", mode.name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "\n%s:\n\n```\n%s\n```\n", mode.what, bytes.TrimSpace(data))
		}
		b.WriteByte('\n')
	}
	keepTable(t, "profiles", b.Bytes())
}

// buildOf says which program made a study.
func buildOf(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "version.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Commit   string `json:"commit"`
		Modified bool   `json:"modified"`
		Go       string `json:"go_version"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if v.Commit == "" || v.Modified {
		t.Fatalf("%s was not made by a clean build: %+v", dir, v)
	}
	return fmt.Sprintf("commit %.12s, %s", v.Commit, v.Go)
}
