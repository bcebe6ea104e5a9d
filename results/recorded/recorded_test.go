package recorded

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/results"
)

var update = flag.Bool("update", false, "rewrite the tables of documents")

const (
	benchDoc = "../../INDEXER_BENCH.md"
	begin    = "<!-- first table: go test ./results/recorded -update -->\n"
	end      = "<!-- end of first table -->\n"
)

func TestFirstTable(t *testing.T) {
	doc, err := os.ReadFile(benchDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(doc, []byte(begin))
	table, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", benchDoc)
	}
	want := firstTable(t)
	if *update {
		if err := os.WriteFile(benchDoc, bytes.Join([][]byte{before, []byte(begin), want, []byte(end), after}, nil), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(table, want) {
		t.Errorf("the table in %s is not that of the recorded trials; run: go test ./results/recorded -update", benchDoc)
	}
}

// read returns the trials of a file with one record a line.
func read(t *testing.T, path string) []*results.Record {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []*results.Record
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		if err := results.Validate(s.Bytes()); err != nil {
			t.Fatalf("%s, record %d: %v", path, len(out)+1, err)
		}
		r, err := results.Decode(s.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// group is the trials of one variant on one load, in the order of the rounds.
type group struct {
	load, variant string
	trials        []*results.Record
}

func groups(trials []*results.Record) []*group {
	var out []*group
	for _, r := range trials {
		load := "keep-up"
		if r.Config.DuplicationFactor > 1 {
			load = "overloaded"
		}
		variant := r.Config.Index
		if r.Config.TrackResidentBlocks {
			variant += ", tracked"
		}
		i := slices.IndexFunc(out, func(g *group) bool { return g.load == load && g.variant == variant })
		if i < 0 {
			i = len(out)
			out = append(out, &group{load: load, variant: variant})
		}
		out[i].trials = append(out[i].trials, r)
	}
	slices.SortStableFunc(out, func(a, b *group) int {
		if c := strings.Compare(b.load, a.load); c != 0 {
			return c
		}
		return strings.Compare(b.variant, a.variant)
	})
	return out
}

// spread writes the median of a figure and its range over the valid trials.
func (g *group) spread(figure func(*results.Record) float64, unit float64, format string) string {
	var v []float64
	for _, r := range g.trials {
		if r.Validity.Valid {
			v = append(v, figure(r)/unit)
		}
	}
	return spread(v, format)
}

func spread(v []float64, format string) string {
	if len(v) == 0 {
		return "none valid"
	}
	slices.Sort(v)
	median := (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	return fmt.Sprintf(format+" ("+format+" to "+format+")", median, v[0], v[len(v)-1])
}

func firstTable(t *testing.T) []byte {
	t.Helper()
	trials := read(t, "first/trials.jsonl")
	all := groups(trials)
	p := &trials[0].Provenance
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%d trials in fresh processes, 7 rounds in rotating order, made by `results/recorded/first/run.sh` on `%s` (sha256 %s…),\n", len(trials), p.TraceName, p.TraceSHA256[:12])
	fmt.Fprintf(&b, "commit %s, %s, %s, %d CPUs (virtualized: %s), Linux %s. The records are in `results/recorded/first/trials.jsonl`.\n", p.Commit[:12], p.GoVersion, p.Host.CPUModel, p.Host.LogicalCPUs, p.Host.Virtualized, p.Host.Kernel)
	c := &trials[0].Config
	fmt.Fprintf(&b, "Threads: 1 query issuer, %d event issuer, %d query threads, %d event threads; **not pinned, CPUs shared**.\n", c.EventIssuers, c.QueryThreads, c.EventThreads)
	for _, r := range trials {
		if r.Provenance.Commit != p.Commit || r.Provenance.Modified || r.Provenance.BinarySHA256 != p.BinarySHA256 {
			t.Fatal("the trials are not of one clean build")
		}
		if !r.Config.SharedCPUs || r.Config.Pinned || r.Config.EventThreads != c.EventThreads {
			t.Fatal("the trials did not run as the text says")
		}
	}
	b.WriteString("Each cell is the median over the valid trials and, in brackets, their range.\n")
	b.WriteString("\n| load | variant | valid, kept up | achieved block-ops/s (M) | query service p50, µs | p99, µs | event scheduled to finished p50, ms |\n|---|---|---|---|---|---|---|\n")
	for _, g := range all {
		valid, kept := 0, 0
		for _, r := range g.trials {
			if r.Validity.Valid {
				valid++
			}
			if r.Validity.KeptUp {
				kept++
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %d, %d of %d | %s | %s | %s | %s |\n", g.load, g.variant, valid, kept, len(g.trials),
			g.spread(func(r *results.Record) float64 { return r.Rates.AchievedBlockOpsPerSec }, 1e6, "%.2f"),
			g.spread(func(r *results.Record) float64 { return float64(r.Queries.Service.P50) }, 1e3, "%.2f"),
			g.spread(func(r *results.Record) float64 { return float64(r.Queries.Service.P99) }, 1e3, "%.1f"),
			g.spread(func(r *results.Record) float64 { return float64(r.Events.ScheduledToFinished.P50) }, 1e6, "%.2f"))
	}
	fmt.Fprintf(&b, "\nTracked over untracked, achieved block-ops/s when overloaded, same round: %s.\n", ratios(all, "flat, tracked", "flat"))
	b.WriteString("On two shared CPUs that range is the machine's noise; it bounds the cost of tracking and does not measure it.\n\n")
	return b.Bytes()
}

// ratios compares two variants round by round.
func ratios(all []*group, over, under string) string {
	find := func(variant string) *group {
		return all[slices.IndexFunc(all, func(g *group) bool { return g.load == "overloaded" && g.variant == variant })]
	}
	a, b := find(over), find(under)
	var v []float64
	for i := range min(len(a.trials), len(b.trials)) {
		if a.trials[i].Validity.Valid && b.trials[i].Validity.Valid {
			v = append(v, a.trials[i].Rates.AchievedBlockOpsPerSec/b.trials[i].Rates.AchievedBlockOpsPerSec)
		}
	}
	return spread(v, "%.3f")
}
