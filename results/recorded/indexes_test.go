package recorded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/buildinfo"
	"github.com/kvbench/kvbench/internal/micro"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/stats"
)

// TestIndexTables keeps the tables of the microbenchmarks true.
func TestIndexTables(t *testing.T) {
	keepTable(t, "index tables", indexTables(t))
}

// microRun is a recorded report with what it says of machine and build.
type microRun struct {
	micro.Report
	Machine results.Host   `json:"machine"`
	Build   buildinfo.Info `json:"build"`
}

// unstamped is the commit of the clean clone that recorded the reports which do
// not say it: their program was built without the Go tool's stamp.
const unstamped = "a58e62071909d4e97dd10c83028fdd6957db821c"

// indexBase is the index that ratios are to.
const indexBase = "flat"

func indexTables(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, name := range []string{"one", "twenty"} {
		data, err := os.ReadFile("indexes/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var r microRun
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		if r.Build.Commit == "" {
			r.Build.Commit = unstamped
		}
		if r.Schema != micro.Schema || r.Build.Modified {
			t.Fatalf("%s: not a report of a clean build: %+v", name, r.Build)
		}
		fmt.Fprintf(&b, "\n%d rounds after a discarded one, by `results/recorded/indexes/run.sh`, commit %s, %s, %s, %d CPUs (virtualized: %s).\n",
			r.Rounds, r.Build.Commit[:12], r.Build.Go, r.Machine.CPUModel, r.Machine.LogicalCPUs, r.Machine.Virtualized)
		for _, work := range r.Work {
			fmt.Fprintf(&b, "\n**%s**: %s\n", work.Case, work.About)
			caseTable(&b, &r.Report, work.Case)
		}
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// caseTable writes a row for each metric and two columns for each index: the
// median, and the ratio to the base within a round with its interval.
func caseTable(b *bytes.Buffer, r *micro.Report, c string) {
	var variants, metrics []string
	for _, s := range r.Series {
		if s.Case != c {
			continue
		}
		if !slices.Contains(variants, s.Variant) {
			variants = append(variants, s.Variant)
		}
		if !slices.Contains(metrics, s.Metric) {
			metrics = append(metrics, s.Metric)
		}
	}
	fmt.Fprintf(b, "\n| | %s |\n|---%s|\n", strings.Join(variants, " | "), strings.Repeat("|---", len(variants)))
	for _, m := range metrics {
		var cells []string
		unit := ""
		for _, v := range variants {
			i := slices.IndexFunc(r.Series, func(s micro.Series) bool { return s.Case == c && s.Variant == v && s.Metric == m })
			if i < 0 {
				cells = append(cells, "")
				continue
			}
			s := &r.Series[i]
			unit = s.Unit
			cell := figure(s.Median())
			if ratios := r.Ratios(c, m, v, indexBase); v != indexBase && ratios != nil {
				if iv := stats.Interpolated(ratios, 0.95); iv.Ok() {
					cell += fmt.Sprintf(" (×%s [%s, %s])", figure(stats.Median(ratios)), figure(iv.Low), figure(iv.High))
				}
			}
			cells = append(cells, cell)
		}
		fmt.Fprintf(b, "| %s, %s | %s |\n", m, unit, strings.Join(cells, " | "))
	}
}

// figure writes about three digits.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case a >= 100 || a == 0:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}
