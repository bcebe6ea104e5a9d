package recorded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/simulate"
)

const (
	simulateDoc   = "../../docs/policies-compared.md"
	simulateBegin = "<!-- tables: go test ./results/recorded -run Simulate -update -->\n"
	simulateEnd   = "<!-- end of tables -->\n"
)

// TestSimulateTables keeps the tables of the recorded comparison true.
func TestSimulateTables(t *testing.T) {
	data, err := os.ReadFile("simulate/comparison.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatal("the comparison is not recorded: run results/recorded/simulate/run.sh")
	}
	if err != nil {
		t.Fatal(err)
	}
	var res simulate.Result
	if err := json.Unmarshal(data, &res); err != nil {
		t.Fatal(err)
	}
	if res.Schema != simulate.ResultV1 || res.Partial || len(res.Runs) == 0 || len(res.Warnings) != 0 {
		t.Fatalf("not a whole comparison: %s, partial %v, %d runs, %q", res.Schema, res.Partial, len(res.Runs), res.Warnings)
	}
	doc, err := os.ReadFile(simulateDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(doc, []byte(simulateBegin))
	tables, after, ok2 := bytes.Cut(rest, []byte(simulateEnd))
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the tables", simulateDoc)
	}
	want := simulateTables(&res)
	if *update {
		if err := os.WriteFile(simulateDoc, bytes.Join([][]byte{before, []byte(simulateBegin), want, []byte(simulateEnd), after}, nil), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(tables, want) {
		t.Errorf("the tables in %s are not those of the recorded comparison; run: go test ./results/recorded -run Simulate -update", simulateDoc)
	}
}

func simulateTables(res *simulate.Result) []byte {
	var b bytes.Buffer
	o := &res.Options
	fmt.Fprintf(&b, "\n%s, %d requests, sha256 %s; %d ranks of %s of %d tokens, %s; %s; events and ends are heard %v and %v late; means of %d seeds; the first %g%% of the requests left out.\n",
		res.Trace.Name, res.Trace.Requests, res.Trace.SHA256[:12], o.Workers, o.Pools(), o.BlockSize, o.Engine, o.Time.Name,
		time.Duration(o.EventDelayNanos), time.Duration(o.LoadDelayNanos), len(o.Seeds), 100*o.WarmUp)
	for _, bound := range res.Bounds {
		fmt.Fprintf(&b, "Hits of %s, requests one by one: %.1f%%.\n", bound.Name, 100*bound.HitRatio)
	}
	for _, x := range o.SpeedUps {
		fmt.Fprintf(&b, "\n**Speed-up %g**\n\n| policy | hit | TTFT mean | p99 | TPOT p99 | E2E mean | hold the SLO | dead blocks | TTFT against %s (95%%) | place by TTFT |\n|---|---|---|---|---|---|---|---|---|---|\n", x, res.Runs[0].Policy)
		var names []string
		by := map[string][]*simulate.RunResult{}
		for i := range res.Runs {
			if run := &res.Runs[i]; run.SpeedUp == x {
				if by[run.Policy] == nil {
					names = append(names, run.Policy)
				}
				by[run.Policy] = append(by[run.Policy], run)
			}
		}
		for _, name := range names {
			runs := by[name]
			mean := func(of func(r *simulate.RunResult) float64) float64 {
				sum := 0.0
				for _, r := range runs {
					sum += of(r)
				}
				return sum / float64(len(runs))
			}
			ms := func(of func(f *simulate.Figures) float64) string {
				return fmt.Sprintf("%.0f ms", mean(func(r *simulate.RunResult) float64 { return of(r.Figures()) })/1e6)
			}
			against, place := "", ""
			for _, c := range res.Comparisons {
				if c.SpeedUp == x && c.Policy == name {
					against = fmt.Sprintf("%.3f [%.3f, %.3f]", c.TTFT.Estimate, c.TTFT.Low, c.TTFT.High)
				}
			}
			for _, k := range res.Rankings {
				if k.SpeedUp != x || k.Figure != simulate.ByTTFT {
					continue
				}
				for _, p := range k.Places {
					if p.Policy == name {
						place = fmt.Sprint(p.Place)
						if len(p.NotDistinguishable) > 0 {
							place += ", not distinguishable from " + strings.Join(p.NotDistinguishable, ", ")
						}
					}
				}
			}
			fmt.Fprintf(&b, "| %s | %.1f%% | %s | %s | %s | %s | %.1f%% | %.1f%% | %s | %s |\n", name,
				100*mean(func(r *simulate.RunResult) float64 { return r.Figures().HitRatio }),
				ms(func(f *simulate.Figures) float64 { return f.TTFT.Mean }),
				ms(func(f *simulate.Figures) float64 { return float64(f.TTFT.P99) }),
				ms(func(f *simulate.Figures) float64 { return float64(f.TPOT.P99) }),
				ms(func(f *simulate.Figures) float64 { return f.E2E.Mean }),
				100*mean(func(r *simulate.RunResult) float64 { return r.Figures().Goodput.Share }),
				100*mean(func(r *simulate.RunResult) float64 { return r.Residency.DeadShare }), against, place)
		}
	}
	b.WriteString("\n")
	return b.Bytes()
}
