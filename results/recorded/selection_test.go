package recorded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/micro"
	"github.com/kvbench/kvbench/stats"
)

// TestSelectionTables keeps the tables of selection and of the resident counts
// true.
func TestSelectionTables(t *testing.T) {
	keepTable(t, "selection tables", selectionTables(t))
}

// selectionRuns are the recorded benchmarks, with the variant that ratios are to.
var selectionRuns = []struct{ name, base string }{
	{"default_selection", micro.SelectionBase},
	{"resident_blocks_read", micro.ResidentReadBase},
	{"resident_blocks_write", micro.ResidentWriteBase},
}

func selectionTables(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	missing := 0
	for _, run := range selectionRuns {
		data, err := os.ReadFile("selection/" + run.name + ".json")
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var r microRun
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("%s: %v", run.name, err)
		}
		if r.Schema != micro.Schema || r.Benchmark != run.name || r.Build.Modified || len(r.Build.Commit) < 12 {
			t.Fatalf("%s: not a report of it by a clean build: %s, %s, %+v", run.name, r.Schema, r.Benchmark, r.Build)
		}
		fmt.Fprintf(&b, "\n**%s**: %d rounds after a discarded one, by `results/recorded/selection/run.sh`, commit %s, %s, %s, %d CPUs (virtualized: %s); ratios are to *%s*.\n",
			run.name, r.Rounds, r.Build.Commit[:12], r.Build.Go, r.Machine.CPUModel, r.Machine.LogicalCPUs, r.Machine.Virtualized, run.base)
		metricTables(&b, &r.Report, run.base)
		for _, note := range r.Notes {
			fmt.Fprintf(&b, "\nNote: %s.\n", note)
		}
	}
	switch missing {
	case 0:
	case len(selectionRuns):
		b.WriteString("\nNot recorded yet; `results/recorded/selection/run.sh` does it.\n")
	default:
		t.Fatalf("%d of %d benchmarks are not recorded; run results/recorded/selection/run.sh", missing, len(selectionRuns))
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// metricTables writes a table for each metric: a row for each case and a column
// for each variant.
func metricTables(b *bytes.Buffer, r *micro.Report, base string) {
	type metric struct{ name, unit string }
	var metrics []metric
	for _, s := range r.Series {
		m := metric{s.Metric, s.Unit}
		if strings.HasPrefix(m.unit, "per ") {
			m.unit = "per many selections" // how many depends on the case
		}
		if !slices.Contains(metrics, m) {
			metrics = append(metrics, m)
		}
	}
	for _, m := range metrics {
		var variants []string
		for _, s := range r.Series {
			if s.Metric == m.name && !slices.Contains(variants, s.Variant) {
				variants = append(variants, s.Variant)
			}
		}
		fmt.Fprintf(b, "\n| %s, %s | %s |\n|---%s|\n", m.name, m.unit, strings.Join(variants, " | "), strings.Repeat("|---", len(variants)))
		for _, work := range r.Work {
			cells := make([]string, len(variants))
			for i, v := range variants {
				cells[i] = metricCell(r, work.Case, m.name, v, base)
			}
			fmt.Fprintf(b, "| %s | %s |\n", work.Case, strings.Join(cells, " | "))
		}
	}
}

// metricCell is the median with the ratio to the base, or with its own interval
// where the base does not have the metric.
func metricCell(r *micro.Report, c, metric, variant, base string) string {
	find := func(variant string) *micro.Series {
		i := slices.IndexFunc(r.Series, func(s micro.Series) bool { return s.Case == c && s.Metric == metric && s.Variant == variant })
		if i < 0 {
			return nil
		}
		return &r.Series[i]
	}
	s := find(variant)
	if s == nil {
		return ""
	}
	cell := figure(s.Median())
	if variant == base {
		return cell
	}
	if find(base) == nil {
		if iv := stats.Interpolated(s.Values, 0.95); iv.Ok() {
			cell += fmt.Sprintf(" [%s, %s]", figure(iv.Low), figure(iv.High))
		}
		return cell
	}
	ratios := r.Ratios(c, metric, variant, base)
	if iv := stats.Interpolated(ratios, 0.95); iv.Ok() {
		cell += fmt.Sprintf(" (×%s [%s, %s])", figure(stats.Median(ratios)), figure(iv.Low), figure(iv.High))
	}
	return cell
}
