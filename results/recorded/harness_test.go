package recorded

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/kvbench/kvbench/stats"
)

// TestHarnessTables keeps what the document says of the harness itself true.
func TestHarnessTables(t *testing.T) {
	for name, of := range map[string]func(*testing.T, []*benchfmt.Result) string{
		"issue": issueText, "progress": progressText, "lookahead": lookAheadText,
	} {
		text := "Not recorded yet; `results/recorded/harness/run.sh` does it.\n"
		if runs := benchmarks(t, "harness/"+name+".txt"); runs != nil {
			text = of(t, runs)
		}
		keepTable(t, name+" figures", []byte("\n"+text+"\n"))
	}
}

// benchmarks reads a file in the Go benchmark format; nil: there is none.
func benchmarks(t *testing.T, path string) []*benchfmt.Result {
	t.Helper()
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []*benchfmt.Result
	r := benchfmt.NewReader(f, path)
	for r.Scan() {
		switch res := r.Result().(type) {
		case *benchfmt.Result:
			out = append(out, res.Clone())
		case *benchfmt.SyntaxError:
			t.Fatal(res)
		}
	}
	if err := r.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%s: %d benchmarks, %v", path, len(out), err)
	}
	return out
}

// where says what a file of benchmarks was measured on.
func where(t *testing.T, r *benchfmt.Result) string {
	t.Helper()
	for _, key := range []string{"commit", "toolchain", "cpus", "load-before"} {
		if r.GetConfig(key) == "" {
			t.Fatalf("a recorded benchmark does not say its %s", key)
		}
	}
	cpu := ""
	if model := r.GetConfig("cpu"); model != "" {
		cpu = ", " + strings.Join(strings.Fields(model), " ")
	}
	load, err := strconv.ParseFloat(r.GetConfig("load-before"), 64)
	if err != nil {
		t.Fatal(err)
	}
	shared := ""
	if load > 0.5 {
		shared = ", so **other work shared the machine**"
	}
	return fmt.Sprintf("Commit %.12s, %s%s, %s CPUs, load average %.1f before it began%s.",
		r.GetConfig("commit"), r.GetConfig("toolchain"), cpu, r.GetConfig("cpus"), load, shared)
}

// collect returns the values of a unit of the benchmarks whose name has a part.
func collect(t *testing.T, runs []*benchfmt.Result, part, unit string) []float64 {
	t.Helper()
	var out []float64
	for _, r := range runs {
		if !strings.Contains(string(r.Name), part) {
			continue
		}
		for _, v := range r.Values {
			// The reader turns ns into seconds and remembers what was written.
			if v.Unit == unit {
				out = append(out, v.Value)
			} else if v.OrigUnit == unit {
				out = append(out, v.OrigValue)
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("no benchmark %s has %s", part, unit)
	}
	return out
}

func issueText(t *testing.T, runs []*benchfmt.Result) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("| | runs | million/s | ns each |\n|---|---|---|---|\n")
	for _, x := range [][2]string{{"events", "one event issuer to an event thread that applies nothing"}, {"queries", "the query issuer to lanes that nobody empties"}} {
		rate, each := collect(t, runs, "/"+x[0], "ops/s"), collect(t, runs, "/"+x[0], "ns/handover")
		fmt.Fprintf(&b, "| %s, %s | %d | %.1f to %.1f | %.0f to %.0f |\n", x[0], x[1], len(rate), slices.Min(rate)/1e6, slices.Max(rate)/1e6, slices.Min(each), slices.Max(each))
	}
	return b.String() + "\n" + where(t, runs[0]) + "\n"
}

func progressText(t *testing.T, runs []*benchfmt.Result) string {
	t.Helper()
	before, after := collect(t, runs, "program=before", "cpu-ns/op"), collect(t, runs, "program=after", "cpu-ns/op")
	if len(before) != len(after) {
		t.Fatalf("%d runs before and %d after", len(before), len(after))
	}
	// Both are in the order of the pairs.
	ratios := make([]float64, len(before))
	for i := range ratios {
		ratios[i] = after[i] / before[i]
	}
	iv := stats.Interpolated(ratios, 0.95)
	if !iv.Ok() {
		t.Fatal(iv.Explain())
	}
	return fmt.Sprintf("%d pairs in alternating order: median %.1f ns an event before (commit %.12s), %.1f after; median of the ratios %.3f, 95%% interval %.3f to %.3f, range %.2f to %.2f. %s\n",
		len(ratios), stats.Median(before), runs[0].GetConfig("before"), stats.Median(after), stats.Median(ratios), iv.Low, iv.High, slices.Min(ratios), slices.Max(ratios), where(t, runs[0]))
}

func lookAheadText(t *testing.T, runs []*benchfmt.Result) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("| index | ways | plain, ns an event | speed when looking ahead | single pairs |\n|---|---|---|---|---|\n")
	for _, x := range [][2]string{{"noop", "`noop`"}, {"reading", "one that only reads all hashes"}, {"flat", "`flat`"}} {
		part := "/" + x[0] + "/"
		plain, speed := collect(t, runs, part, "ns/event"), collect(t, runs, part, "speedup")
		fmt.Fprintf(&b, "| %s | %d | %.0f to %.0f | %.2f to %.2f | %.2f to %.2f |\n", x[1], len(speed), slices.Min(plain), slices.Max(plain),
			slices.Min(speed), slices.Max(speed), slices.Min(collect(t, runs, part, "speedup-min")), slices.Max(collect(t, runs, part, "speedup-max")))
	}
	return b.String() + "\n" + where(t, runs[0]) + "\n"
}
