package coverage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kvbench/kvbench/stats"
)

var update = flag.Bool("update", false, "rewrite the table of README.md")

const (
	readme = "README.md"
	record = "../../results/recorded/coverage/coverage.json"
	begin  = "<!-- coverage: go test ./stats/coverage -run Recorded -update -->\n"
	end    = "<!-- end of coverage -->\n"
)

func recorded(t *testing.T) Table {
	t.Helper()
	b, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	var table Table
	if err := json.Unmarshal(b, &table); err != nil {
		t.Fatalf("%s: %v", record, err)
	}
	return table
}

// TestRecordedTable compares the table of README.md with the record.
func TestRecordedTable(t *testing.T) {
	doc, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(doc, []byte(begin))
	table, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", readme)
	}
	var b bytes.Buffer
	b.WriteByte('\n')
	if err := recorded(t).WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	if *update {
		if err := os.WriteFile(readme, bytes.Join([][]byte{before, []byte(begin), b.Bytes(), []byte(end), after}, nil), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(table, b.Bytes()) {
		t.Errorf("the table in %s is not the recorded one; run: go test ./stats/coverage -run Recorded -update", readme)
	}
}

// TestRecordedIsOfThisCode simulates a part of the record again.
func TestRecordedIsOfThisCode(t *testing.T) {
	table := recorded(t)
	s := Study{Datasets: table.Datasets, Level: table.Level, Seed: table.Seed}
	for number, design := range Designs() {
		if design.Name != "normal" && design.Name != "skewed-one" {
			continue
		}
		for _, n := range []int{6} {
			got, err := s.cells(t.Context(), design, uint64(number), design.targets(), n, func(int) {})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range got {
				found := false
				for _, want := range table.Cells {
					if want.Design != g.Design || want.N != g.N || want.Method != g.Method {
						continue
					}
					found = true
					// Another processor may round otherwise.
					if d := g.Covered - want.Covered; d < -3 || d > 3 || math.Abs(g.Width-want.Width) > 1e-6 {
						t.Errorf("%s n=%d %s: covered %d width %g, recorded %d and %g; run results/recorded/coverage/run.sh", g.Design, g.N, g.Method, g.Covered, g.Width, want.Covered, want.Width)
					}
				}
				if !found {
					t.Errorf("%s n=%d %s is not in the record", g.Design, g.N, g.Method)
				}
			}
		}
	}
}

// TestTextIsTrue checks what README.md says about the record in words.
func TestTextIsTrue(t *testing.T) {
	table := recorded(t)
	share := func(c Cell) float64 { return 100 * float64(c.Covered) / float64(table.Datasets) }
	sound := map[string]bool{}
	for _, d := range Designs() {
		sound[d.Name] = d.Sound
	}
	for _, c := range table.Cells {
		if !sound[c.Design] {
			continue
		}
		switch c.Method {
		case stats.MethodInterpolated:
			// A slot effect that rotates is not an independent draw: it covers more.
			low, high := 93.8, 96.2
			if c.Design == "rotating-order" {
				high = 100
			}
			if c.Design == "modes-one-50" {
				low, high = 93.8, 97
				if c.N == 7 || c.N == 10 || c.N == 13 {
					low, high = 87.5, 92.5
				}
			}
			if s := share(c); s < low || s > high {
				t.Errorf("interpolated on %s at n=%d covers %.1f%%", c.Design, c.N, s)
			}
		case stats.MethodExactBootstrap:
			if s := share(c); s < 100*c.TrueLevel-1.3 || c.Design == "normal" && s > 100*c.TrueLevel+1 {
				t.Errorf("bootstrap on %s at n=%d covers %.1f%%, says %.1f%%", c.Design, c.N, s, 100*c.TrueLevel)
			}
		case stats.MethodAnytime:
			if s := share(c); c.Absent == "" && s < 95 {
				t.Errorf("anytime on %s at n=%d covers %.1f%%", c.Design, c.N, s)
			}
		}
	}
}

// TestLevels holds every method to the level that it states, for the distributions
// that it states it for: within four standard errors.
func TestLevels(t *testing.T) {
	s := Study{Datasets: 1000, Level: 0.95, Seed: 7}
	var cells []Cell
	designs := map[string]Design{}
	for number, d := range Designs() {
		// One normal, one skewed, one symmetric with two modes.
		if d.Name != "normal" && d.Name != "skewed-one" && d.Name != "modes-both" {
			continue
		}
		designs[d.Name] = d
		for _, n := range []int{6, 7, 12, 20} {
			c, err := s.cells(t.Context(), d, uint64(number), truth{median: d.median}, n, func(int) {})
			if err != nil {
				t.Fatal(err)
			}
			cells = append(cells, c...)
		}
	}
	checked := 0
	for _, c := range cells {
		d := designs[c.Design]
		if c.Absent != "" || c.Method == stats.MethodAnytime {
			continue
		}
		holds := c.Basis == stats.AnyContinuous || c.Basis == stats.Symmetric && d.symmetric || c.Basis == stats.Normal && d.Name == "normal"
		if !holds {
			continue
		}
		checked++
		got := float64(c.Covered) / float64(s.Datasets)
		if se := math.Sqrt(c.TrueLevel * (1 - c.TrueLevel) / float64(s.Datasets)); math.Abs(got-c.TrueLevel) > 4*se {
			t.Errorf("%s of %d on %s covers %.4f, states %.4f", c.Method, c.N, c.Design, got, c.TrueLevel)
		}
	}
	if checked < 30 {
		t.Errorf("only %d cells were checked", checked)
	}
}

func TestSameSeedSameCells(t *testing.T) {
	s := Study{Datasets: 350, Level: 0.9, Seed: 3}
	cells := func(number int) []Cell {
		d := Designs()[number]
		c, err := s.cells(t.Context(), d, uint64(number), truth{median: d.median}, 8, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for number := range Designs() {
		one := cells(number)
		before := runtime.GOMAXPROCS(1)
		two := cells(number)
		runtime.GOMAXPROCS(before)
		if diff := cmp.Diff(one, two); diff != "" {
			t.Errorf("two runs differ:\n%s", diff)
		}
		s.Seed++
		if cmp.Diff(one, cells(number)) == "" {
			t.Error("another seed gives the same cells")
		}
	}
}

func TestRun(t *testing.T) {
	s := Study{Datasets: 150, Sizes: []int{6, 8}, Level: 0.9, Seed: 3}
	var most, calls atomic.Int64
	table, err := s.Run(t.Context(), func(done int64) {
		calls.Add(1)
		for old := most.Load(); done > old && !most.CompareAndSwap(old, done); old = most.Load() {
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if most.Load() != s.Experiments() || s.Experiments() != int64(150*2*len(Designs())) || calls.Load() != int64(2*2*len(Designs())) {
		t.Errorf("progress ended at %d of %d after %d calls", most.Load(), s.Experiments(), calls.Load())
	}
	if want := len(Designs()) * 2 * len(methods()); len(table.Cells) != want {
		t.Errorf("%d cells, want %d", len(table.Cells), want)
	}
}

func TestBadStudies(t *testing.T) {
	good := Study{Datasets: 100, Sizes: []int{6}, Level: 0.95}
	for _, c := range []struct {
		change func(*Study)
		want   string
	}{
		{func(s *Study) { s.Datasets = 99 }, "99 data sets"},
		{func(s *Study) { s.Sizes = nil }, "no sizes"},
		{func(s *Study) { s.Sizes = []int{6, 5} }, "size 5"},
		{func(s *Study) { s.Sizes = []int{501} }, "size 501"},
		{func(s *Study) { s.Sizes = []int{6, 9, 6} }, "size 6 is given twice"},
		{func(s *Study) { s.Level = 1 }, "confidence 1"},
		{func(s *Study) { s.Level = math.NaN() }, "confidence NaN"},
	} {
		s := good
		c.change(&s)
		if _, err := s.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := Study{Datasets: 100_000, Sizes: []int{40}, Level: 0.95}
	_, err := s.Run(ctx, func(int64) { cancel(stop) })
	if !errors.Is(err, stop) {
		t.Errorf("error %v, want the cause", err)
	}
}

// TestTruth compares the stated medians with drawn ones.
func TestTruth(t *testing.T) {
	for _, d := range Designs() {
		if d.symmetric {
			continue
		}
		got := d.targets()
		rng := rand.New(rand.NewPCG(5, 5))
		logs := make([]float64, 200_000)
		d.draw(rng, logs)
		below := 0
		for _, l := range logs {
			if l < d.median {
				below++
			}
		}
		if share := float64(below) / float64(len(logs)); math.Abs(share-0.5) > 4*0.5/math.Sqrt(float64(len(logs))) {
			t.Errorf("%s: %.4f of the ratios lie below the stated median", d.Name, share)
		}
		if got.mean == d.median || got.pseudomedian == d.median {
			t.Errorf("%s: targets %+v are not drawn", d.Name, got)
		}
	}
}

func TestWorst(t *testing.T) {
	table := Table{Datasets: 100, Cells: []Cell{
		{Design: "normal", N: 6, Method: stats.MethodLogT, Covered: 95},
		{Design: "skewed-one", N: 6, Method: stats.MethodLogT, Covered: 80},
		{Design: "fixed-order", N: 6, Method: stats.MethodLogT, Covered: 10},
		{Design: "normal", N: 6, Method: stats.MethodAnytime, Absent: stats.LevelUnreached},
		{Design: "normal", N: 7, Method: stats.MethodInterpolated, Covered: 95},
		{Design: "normal", N: 6, Method: stats.MethodInterpolated, Covered: 94},
	}}
	got := table.Worst(6)
	if len(got) != 2 || got[0].Covered != 80 || got[1].Covered != 94 {
		t.Errorf("worst cells %+v", got)
	}
}
