package recorded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// TestSpeedTable keeps the table of how fast simulations are played true.
func TestSpeedTable(t *testing.T) {
	var s struct {
		Schema      string  `json:"schema"`
		Commit      string  `json:"commit"`
		Dirty       bool    `json:"dirty"`
		Go          string  `json:"go"`
		CPU         string  `json:"cpu"`
		CPUs        int     `json:"cpus"`
		LoadAverage float64 `json:"load_average"`
		Trace       string  `json:"trace_sha256"`
		Time        string  `json:"time"`
		Runs        []struct {
			Policy string  `json:"policy"`
			Clock  float64 `json:"requests_per_second"`
			CPU    float64 `json:"requests_per_cpu_second"`
			Bytes  float64 `json:"bytes_allocated"`
		} `json:"runs"`
	}
	readJSON(t, "simulate-speed/speed.json", &s)
	if s.Schema != "kvbench.simulate-speed/v1" || s.Dirty || len(s.Runs) == 0 {
		t.Fatalf("not a recording of a commit: %s, dirty %v, %d runs", s.Schema, s.Dirty, len(s.Runs))
	}
	var names []string
	clock, cpu, allocated := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for _, r := range s.Runs {
		if clock[r.Policy] == nil {
			names = append(names, r.Policy)
		}
		clock[r.Policy] = append(clock[r.Policy], r.Clock)
		cpu[r.Policy] = append(cpu[r.Policy], r.CPU)
		allocated[r.Policy] = append(allocated[r.Policy], r.Bytes)
	}
	median := func(x []float64) float64 {
		slices.Sort(x)
		return stat.Quantile(0.5, stat.Empirical, x, nil)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "\nTrace sha256 %s; 8 ranks of 65,536 blocks of 16 tokens, one core; commit %s, %s, %s with %d cores, a load of %.2f when it ended, %s.\n\n",
		s.Trace[:12], s.Commit[:12], s.Go, s.CPU, s.CPUs, s.LoadAverage, s.Time)
	b.WriteString("| policy | runs | requests a second, median [least, most] | requests a second of CPU time, median [least, most] | allocated in a run |\n|---|---|---|---|---|\n")
	for _, name := range names {
		rates := func(x []float64) string {
			m := median(x)
			return fmt.Sprintf("%s [%s, %s]", thousands(m), thousands(x[0]), thousands(x[len(x)-1]))
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %.0f MB |\n", name, len(clock[name]), rates(clock[name]), rates(cpu[name]), median(allocated[name])/1e6)
	}
	b.WriteByte('\n')
	keepPart(t, simulateDoc, "speed table", b.Bytes())
}

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// thousands writes a whole number with separators.
func thousands(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
