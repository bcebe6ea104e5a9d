package coverage

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/kvbench/kvbench/stats"
)

// Study says what is simulated.
type Study struct {
	// Datasets is the number of experiments for each design and size, from 100.
	Datasets int
	// Sizes are the numbers of ratios, each from 6 to 500.
	Sizes []int
	Level float64 // of the intervals, such as 0.95
	Seed  uint64
}

// Table is what a study found.
type Table struct {
	Datasets int     `json:"datasets"`
	Level    float64 `json:"level"`
	Seed     uint64  `json:"seed"`
	Cells    []Cell  `json:"cells"` // by design, size and method
}

// Cell is one method on one design at one size.
type Cell struct {
	Design string       `json:"design"`
	N      int          `json:"n"`
	Method stats.Method `json:"method"`
	// Absent is why there is no interval; then there is nothing else.
	Absent stats.Reason `json:"absent,omitempty"`
	// TrueLevel is what the method states, for the distributions of Basis.
	TrueLevel float64     `json:"true_level,omitempty"`
	Basis     stats.Basis `json:"basis,omitempty"`
	// Covered counts the intervals that contain the true median ratio, OwnCovered
	// those that contain what the method estimates (pseudomedian, geometric mean).
	Covered    int `json:"covered"`
	OwnCovered int `json:"own_covered"`
	// Width is the mean width of the intervals, 0.02 for 2%.
	Width float64 `json:"width"`
}

// methods are those studied.
func methods() []stats.Method {
	return []stats.Method{stats.MethodInterpolated, stats.MethodExactBootstrap, stats.MethodConservative,
		stats.MethodHodgesLehmann, stats.MethodLogT, stats.MethodTrimmedLogT, stats.MethodAnytime}
}

func (s Study) check() error {
	if s.Datasets < 100 || s.Datasets > 10_000_000 {
		return fmt.Errorf("%d data sets: give 100 to 10,000,000", s.Datasets)
	}
	if !(s.Level > 0 && s.Level < 1) {
		return fmt.Errorf("confidence %g: give a share between 0 and 1, such as 0.95", s.Level)
	}
	if len(s.Sizes) == 0 {
		return fmt.Errorf("no sizes: give at least one number of ratios")
	}
	seen := map[int]bool{}
	for _, n := range s.Sizes {
		if n < stats.MinValues || n > 500 {
			return fmt.Errorf("size %d: give numbers of ratios from %d to 500", n, stats.MinValues)
		}
		if seen[n] {
			return fmt.Errorf("size %d is given twice", n)
		}
		seen[n] = true
	}
	return nil
}

// Experiments returns the number of all experiments.
func (s Study) Experiments() int64 {
	return int64(len(Designs())) * int64(len(s.Sizes)) * int64(s.Datasets)
}

// Run does the study on all CPUs. progress, which may be nil, is told the experiments
// done, from several goroutines. A done context ends it with its cause.
func (s Study) Run(ctx context.Context, progress func(done int64)) (Table, error) {
	if err := s.check(); err != nil {
		return Table{}, err
	}
	var done atomic.Int64
	table := Table{Datasets: s.Datasets, Level: s.Level, Seed: s.Seed}
	for d, design := range Designs() {
		target := design.targets()
		for _, n := range s.Sizes {
			cells, err := s.cells(ctx, design, uint64(d), target, n, func(k int) {
				now := done.Add(int64(k))
				if progress != nil {
					progress(now)
				}
			})
			if err != nil {
				return Table{}, err
			}
			table.Cells = append(table.Cells, cells...)
		}
	}
	return table, nil
}

// chunk is the number of experiments with one seed. It is part of what a seed means.
const chunk = 100

// cells counts all methods on the same experiments of one design and size.
func (s Study) cells(ctx context.Context, design Design, number uint64, target truth, n int, advance func(int)) ([]Cell, error) {
	procedures := make([]stats.Procedure, len(methods()))
	for i, m := range methods() {
		procedures[i] = stats.Prepare(m, n, s.Level)
	}
	parts := make([][]Cell, (s.Datasets+chunk-1)/chunk)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for c := range parts {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			k := min(chunk, s.Datasets-c*chunk)
			rng := rand.New(rand.NewPCG(s.Seed, number<<48|uint64(n)<<32|uint64(c)))
			parts[c] = experiments(rng, k, n, design, target, procedures)
			advance(k)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	cells := make([]Cell, len(procedures))
	for i, p := range procedures {
		blank := p.Blank()
		cells[i] = Cell{Design: design.Name, N: n, Method: blank.Method, Absent: blank.Absent, TrueLevel: blank.TrueLevel, Basis: blank.Basis}
		// In the order of the chunks, so that the sum of widths is the same each time.
		for _, part := range parts {
			cells[i].Covered += part[i].Covered
			cells[i].OwnCovered += part[i].OwnCovered
			cells[i].Width += part[i].Width / float64(s.Datasets)
		}
	}
	return cells, nil
}

func experiments(rng *rand.Rand, k, n int, design Design, target truth, procedures []stats.Procedure) []Cell {
	cells := make([]Cell, len(procedures))
	logs, ratios := make([]float64, n), make([]float64, n)
	for range k {
		design.draw(rng, logs)
		for i, l := range logs {
			ratios[i] = math.Exp(l)
		}
		for i, p := range procedures {
			if !p.Blank().Ok() {
				continue
			}
			iv := p.Interval(ratios)
			own := target.median
			switch iv.Method {
			case stats.MethodHodgesLehmann:
				own = target.pseudomedian
			case stats.MethodLogT:
				own = target.mean
			case stats.MethodTrimmedLogT:
				own = target.trimmed
			}
			if iv.Contains(math.Exp(target.median)) {
				cells[i].Covered++
			}
			if iv.Contains(math.Exp(own)) {
				cells[i].OwnCovered++
			}
			cells[i].Width += iv.High - iv.Low
		}
	}
	return cells
}
