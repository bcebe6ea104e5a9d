package micro

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/experimental/residentblocks"
)

// ResidentReadOptions say what ResidentRead measures.
type ResidentReadOptions struct {
	// Cases are names of ResidentReadCases; empty: all.
	Cases  []string
	Rounds int // measured rounds, at least 1; one more is discarded
	Progress

	most int // bounds the selections of a metric, for tests; 0: no bound
}

// residentReadCase is a number of candidates and a layout of their counters.
type residentReadCase struct {
	candidates int
	layout     indexer.CounterLayout
}

func (c residentReadCase) name() string {
	if c.layout == indexer.Padded {
		return strconv.Itoa(c.candidates) + "-padded"
	}
	return strconv.Itoa(c.candidates)
}

var residentReadCases = []residentReadCase{
	{2, indexer.Packed}, {32, indexer.Packed}, {1024, indexer.Packed}, {10_000, indexer.Packed},
	{1024, indexer.Padded}, {10_000, indexer.Padded},
}

// ResidentReadCases returns the names of the cases that ResidentRead knows: the
// number of candidates, of packed counters unless the name says otherwise.
func ResidentReadCases() []string {
	var names []string
	for _, c := range residentReadCases {
		names = append(names, c.name())
	}
	return names
}

// Variants of ResidentRead. ResidentReadBase is what ratios are to.
const (
	ResidentReadBase = "without"
	readIdle         = "with counts"
	readCopied       = "with a copy of the counts"
	readRewritten    = "with counts, all rewritten meanwhile"
)

// readCost is the metric of ResidentRead that is made of two variants.
const readCost = "reading counts, a candidate"

// residentThreads is how many event threads the ranks are dealt out to.
const residentThreads = 8

// CheckResidentReadOptions returns what is wrong with the options.
func CheckResidentReadOptions(o *ResidentReadOptions) error {
	if o.Rounds < 1 {
		return fmt.Errorf("%d rounds; there must be at least 1", o.Rounds)
	}
	for _, name := range o.Cases {
		if !slices.Contains(ResidentReadCases(), name) {
			return fmt.Errorf("no case is named %q; there are %s", name, strings.Join(ResidentReadCases(), ", "))
		}
	}
	return nil
}

// ResidentRead measures what a scorer pays for the resident-block counts: a
// selection by a scorer that adds each candidate's count against one by the same
// scorer without it; again by the copy of the counts that all components of a
// selection share; and again while a thread on another CPU stores every counter
// without pause. It takes two CPUs; with one the last variant is left out and a
// note says so.
func ResidentRead(ctx context.Context, o *ResidentReadOptions) (*Report, error) {
	if err := CheckResidentReadOptions(o); err != nil {
		return nil, err
	}
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	r := &Report{Schema: Schema, Benchmark: "resident_blocks_read", Rounds: o.Rounds}
	variants := []string{ResidentReadBase, readIdle, readCopied, readRewritten}
	if len(cpus) < 2 {
		variants = variants[:3]
		r.Notes = append(r.Notes, fmt.Sprintf("%q is left out: it takes two CPUs and there is one", readRewritten))
	}
	for _, c := range residentReadCases {
		if len(o.Cases) > 0 && !slices.Contains(o.Cases, c.name()) {
			continue
		}
		if err := r.runResidentRead(ctx, o, c, variants, cpus); err != nil {
			return nil, fmt.Errorf("case %s: %w", c.name(), err)
		}
	}
	return r, nil
}

func (r *Report) runResidentRead(ctx context.Context, o *ResidentReadOptions, c residentReadCase, variants []string, cpus []int) error {
	s, err := newCountReader(c)
	if err != nil {
		return err
	}
	if o.most > 0 {
		s.count = min(s.count, o.most)
	}
	name := c.name()
	r.Work = append(r.Work, Work{name, fmt.Sprintf("%d candidates with %v counters of %d event threads; %d selections a round",
		c.candidates, c.layout, min(residentThreads, c.candidates), s.count)})
	err = r.run(ctx, &o.Progress, name, variants, func(i int) (metrics []metric, err error) {
		measure := func() error {
			return onCPU(cpus[0], func() (err error) {
				metrics, err = s.measure(s.pipelines[variants[i]])
				return err
			})
		}
		if variants[i] != readRewritten {
			err = measure()
			return metrics, err
		}
		passes, err := s.rewritten(cpus[1], measure)
		return append(metrics, passes), err
	})
	if err != nil {
		return err
	}
	// What the counts cost is the difference within a round.
	const per = "selection, a candidate"
	base := r.find(name, ResidentReadBase, per)
	for _, v := range variants[1:] {
		with := r.find(name, v, per)
		cost := Series{Case: name, Variant: v, Metric: readCost, Unit: "ns"}
		for i := range with.Values {
			cost.Values = append(cost.Values, with.Values[i]-base.Values[i])
		}
		r.Series = append(r.Series, cost)
	}
	return nil
}

// countReader is the selections of one case.
type countReader struct {
	counters  *indexer.ResidentCounters
	pipelines map[string]*policies.Pipeline // by variant
	state     policies.State
	request   policies.Request
	count     int // selections of a round
}

func newCountReader(c residentReadCase) (*countReader, error) {
	threads := make([]int, c.candidates)
	for slot := range threads {
		threads[slot] = slot % residentThreads
	}
	s := &countReader{counters: indexer.NewResidentCounters(threads, c.layout), request: policies.Request{BlockSize: 16}, count: min(max(8_000_000/c.candidates, 2000), 50_000)}
	cache := &matched{scores: make([]uint32, c.candidates)}
	for slot := range threads {
		s.counters.Store(indexer.Slot(slot), uint32(slot))
		cache.scores[slot] = uint32(slot % 128)
	}
	feed := residentblocks.NewFeed(s.counters, nil, slog.New(slog.DiscardHandler))
	s.state = policies.State{Slots: c.candidates, Cache: cache, ResidentBlocks: feed.Reader()}
	s.pipelines = map[string]*policies.Pipeline{}
	for variant, scorer := range readScorers() {
		p, err := policies.NewPipeline(policies.Recipe{
			Scorers: []policies.Weighted{{Name: "overlap", Scorer: scorer, Weight: 1}},
			Picker:  policies.Named[policies.Picker]{Name: "first", Component: firstRow{}},
		}, 1)
		if err != nil {
			return nil, err
		}
		s.pipelines[variant] = p
	}
	return s, nil
}

// readScorers returns the scorer of each variant.
func readScorers() map[string]policies.Scorer {
	return map[string]policies.Scorer{
		ResidentReadBase: overlapCost{}, readIdle: overlapAndCount{}, readCopied: overlapAndCopy{}, readRewritten: overlapAndCount{},
	}
}

// The loops of the scorers are written out four candidates at a time. As loops of one
// they would take between 0.5 and 1 ns for a candidate, depending on where the
// compiler happens to put them, and differences of that are what is measured.

// overlapCost is the scorer without counts.
type overlapCost struct{}

func (overlapCost) Inputs() policies.Inputs { return policies.Cache }

func (overlapCost) Score(v *policies.View, costs []float64) {
	overlap := v.Cache().Overlap[:len(costs)] // everyone is a candidate
	i := 0
	for ; i <= len(costs)-4; i += 4 {
		c, o := costs[i:i+4:i+4], overlap[i:i+4:i+4]
		c[0] = float64(int64(o[0]))
		c[1] = float64(int64(o[1]))
		c[2] = float64(int64(o[2]))
		c[3] = float64(int64(o[3]))
	}
	for ; i < len(costs); i++ {
		costs[i] = float64(int64(overlap[i]))
	}
}

// overlapAndCount is the same with each candidate's count. One without a count
// gets none.
type overlapAndCount struct{}

func (overlapAndCount) Inputs() policies.Inputs {
	return policies.Cache | policies.ExperimentalResidentBlocks
}

func (overlapAndCount) Score(v *policies.View, costs []float64) {
	overlap, counts := v.Cache().Overlap[:len(costs)], residentblocks.Live(v)
	cells := counts.Cells[:len(costs)]
	if counts.Missing > 0 {
		for i := range costs {
			costs[i] = overlapAnd(overlap[i], cells[i].Blocks())
		}
		return
	}
	i := 0
	for ; i <= len(costs)-4; i += 4 {
		c, o, n := costs[i:i+4:i+4], overlap[i:i+4:i+4], cells[i:i+4:i+4]
		c[0] = float64(int64(o[0]) + int64(n[0].Blocks()))
		c[1] = float64(int64(o[1]) + int64(n[1].Blocks()))
		c[2] = float64(int64(o[2]) + int64(n[2].Blocks()))
		c[3] = float64(int64(o[3]) + int64(n[3].Blocks()))
	}
	for ; i < len(costs); i++ {
		costs[i] = float64(int64(overlap[i]) + int64(cells[i].Blocks()))
	}
}

// overlapAnd is the cost of a candidate that may have no count.
func overlapAnd(overlap, blocks uint32) float64 {
	if blocks == residentblocks.Absent {
		blocks = 0
	}
	return float64(int64(overlap) + int64(blocks))
}

// overlapAndCopy is overlapAndCount by the counts that all components share.
type overlapAndCopy struct{ overlapAndCount }

func (overlapAndCopy) Score(v *policies.View, costs []float64) {
	overlap, counts := v.Cache().Overlap[:len(costs)], residentblocks.Of(v)
	blocks := counts.Blocks[:len(costs)]
	if counts.Missing > 0 {
		for i := range costs {
			costs[i] = overlapAnd(overlap[i], blocks[i])
		}
		return
	}
	i := 0
	for ; i <= len(costs)-4; i += 4 {
		c, o, n := costs[i:i+4:i+4], overlap[i:i+4:i+4], blocks[i:i+4:i+4]
		c[0] = float64(int64(o[0]) + int64(n[0]))
		c[1] = float64(int64(o[1]) + int64(n[1]))
		c[2] = float64(int64(o[2]) + int64(n[2]))
		c[3] = float64(int64(o[3]) + int64(n[3]))
	}
	for ; i < len(costs); i++ {
		costs[i] = float64(int64(overlap[i]) + int64(blocks[i]))
	}
}

// firstRow picks without looking.
type firstRow struct{}

func (firstRow) Inputs() policies.Inputs            { return 0 }
func (firstRow) Pick(*policies.View, []float64) int { return 0 }

func (s *countReader) selections(p *policies.Pipeline, n int) error {
	for range n {
		if _, err := p.Select(&s.request, &s.state); err != nil {
			return err
		}
	}
	return nil
}

// measure returns the metrics of one round of one of the pipelines.
func (s *countReader) measure(p *policies.Pipeline) ([]metric, error) {
	if err := s.selections(p, 100); err != nil {
		return nil, err
	}
	allocated, err := leastAllocated(func() error { return s.selections(p, selectionAllocated) })
	if err != nil {
		return nil, err
	}
	n := s.count
	start := time.Now()
	err = s.selections(p, n)
	took := time.Since(start)
	if err != nil {
		return nil, err
	}
	per := float64(took.Nanoseconds()) / float64(n)
	return []metric{
		{"selection", "ns", false, per},
		{"selection, a candidate", "ns", false, per / float64(s.state.Slots)},
		{"allocations", fmt.Sprintf("per %d selections", selectionAllocated), false, float64(allocated)},
	}, nil
}

// rewritten runs f while a thread on a CPU stores every counter again and again,
// and returns how often it did.
func (s *countReader) rewritten(cpu int, f func() error) (metric, error) {
	var stop atomic.Bool
	var passes atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- onCPU(cpu, func() error {
			for blocks := uint32(0); !stop.Load(); blocks++ {
				s.counters.StoreAll(blocks)
				passes.Add(1)
			}
			return nil
		})
	}()
	for passes.Load() == 0 {
		select {
		case err := <-ended: // the CPU is not to be had
			return metric{}, err
		default:
			runtime.Gosched()
		}
	}
	before, start := passes.Load(), time.Now()
	err := f()
	n, took := passes.Load()-before, time.Since(start)
	stop.Store(true)
	err = errors.Join(err, <-ended)
	if err == nil && n == 0 {
		err = errors.New("no counter was rewritten while the counts were read")
	}
	return metric{"rewrites of all counters", "1/s", true, float64(n) / took.Seconds()}, err
}

// onCPU runs f on an OS thread that is pinned to a CPU and ends with it.
func onCPU(cpu int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // without the unlocking the thread ends here
		if err := host.PinThread(cpu); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}
