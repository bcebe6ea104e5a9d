package micro

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/trace"
)

// IndexOptions say what Index measures.
type IndexOptions struct {
	// Indexes are the variants, at least one. Null indexes cannot be measured.
	Indexes []indexer.Factory
	// Cases are names of IndexCases, Passes of IndexPasses; empty: all.
	Cases     []string
	Passes    []string
	Trace     *trace.Trace
	TraceName string
	BlockSize int // tokens of a block
	GPUBlocks int // blocks that a rank's cache holds
	Rounds    int // measured rounds, at least 1; one more is discarded
	Seed      uint64
	Progress
}

// indexCase is one kind of work.
type indexCase struct {
	name string
	// build prepares the work. What it returns is called with each index once
	// a round and returns the metrics of that round.
	build func(context.Context, *IndexOptions) (about string, slots int, measure func(*subject) ([]metric, error), err error)
	// alone says that it has no concurrent passes.
	alone bool
}

var indexCases = []indexCase{
	{name: "x1", build: replayCase(cacheWork, 128, 1, false)},
	{name: "x20", build: replayCase(cacheWork, 128, 20, false)},
	{name: "random-victims", build: replayCase(cacheWork, 128, 20, true), alone: true},
	{name: "1024-ranks", build: replayCase(cacheWork, 1024, 20, false), alone: true},
	{name: "10000-ranks", build: replayCase(cacheWork, 10_000, 20, false), alone: true},
	{name: "engine-x1", build: replayCase(engineWork, 128, 1, false)},
	{name: "engine-x20", build: replayCase(engineWork, 128, 20, false)},
	{name: "one-block-128", build: oneBlockCase(128)},
	{name: "one-block-1024", build: oneBlockCase(1024)},
	{name: "held-by-128", build: sharedCase(128)},
	{name: "held-by-1024", build: sharedCase(1024)},
	{name: "held-by-10000", build: sharedCase(10_000)},
}

// IndexCases returns the names of the cases that Index knows.
func IndexCases() []string {
	names := make([]string, len(indexCases))
	for i, c := range indexCases {
		names[i] = c.name
	}
	return names
}

// What is done with the work of a trace, each time from empty ranks.
const (
	passApply   = "apply"   // all events; then memory and a collection
	passMixed   = "mixed"   // events and queries in order
	passLookup  = "lookup"  // the same, each query timed by itself
	passBeside  = "beside"  // a reader beside a writer
	passThreads = "threads" // two writers
)

// IndexPasses returns the names of what Index does with the work of a trace. Cases of
// many ranks and of random victims have no concurrent passes.
func IndexPasses() []string {
	return []string{passApply, passMixed, passLookup, passBeside, passThreads}
}

// CheckIndexOptions returns what is wrong with the options, before anything long
// is done.
func CheckIndexOptions(o *IndexOptions) error {
	if len(o.Indexes) == 0 {
		return errors.New("no index was given")
	}
	for _, f := range o.Indexes {
		if f.Null {
			return fmt.Errorf("index %s answers nothing, so there is nothing to measure", f.Name)
		}
	}
	if o.Rounds < 1 {
		return fmt.Errorf("%d rounds; there must be at least 1", o.Rounds)
	}
	if o.BlockSize < 1 {
		return fmt.Errorf("blocks of %d tokens; there must be at least 1", o.BlockSize)
	}
	if o.GPUBlocks < 1 {
		return fmt.Errorf("a rank's cache of %d blocks; there must be at least 1", o.GPUBlocks)
	}
	for _, name := range o.Cases {
		if !slices.Contains(IndexCases(), name) {
			return fmt.Errorf("no case is named %q; there are %s", name, strings.Join(IndexCases(), ", "))
		}
	}
	for _, name := range o.Passes {
		if !slices.Contains(IndexPasses(), name) {
			return fmt.Errorf("no pass is named %q; there are %s", name, strings.Join(IndexPasses(), ", "))
		}
	}
	if len(o.Passes) == 0 || slices.ContainsFunc(o.Passes, func(p string) bool { return !concurrent(p) }) {
		return nil
	}
	for _, c := range indexCases {
		if c.alone && o.asksFor(&c) {
			return fmt.Errorf("case %s has no concurrent passes, and no others were asked for; ask for %s too, or for other cases", c.name, passApply)
		}
	}
	return nil
}

func (o *IndexOptions) asksFor(c *indexCase) bool {
	return len(o.Cases) == 0 || slices.Contains(o.Cases, c.name)
}

func concurrent(pass string) bool { return pass == passBeside || pass == passThreads }

// Index measures indexes against each other. The answers of all indexes must be
// the same; a difference is an error. It takes two CPUs.
func Index(ctx context.Context, o *IndexOptions) (*Report, error) {
	if err := CheckIndexOptions(o); err != nil {
		return nil, err
	}
	r := &Report{Schema: Schema, Benchmark: "index", Rounds: o.Rounds}
	for _, c := range indexCases {
		if !o.asksFor(&c) {
			continue
		}
		if err := r.runIndexCase(ctx, o, &c); err != nil {
			return nil, fmt.Errorf("case %s: %w", c.name, err)
		}
	}
	return r, nil
}

func (r *Report) runIndexCase(ctx context.Context, o *IndexOptions, c *indexCase) (err error) {
	about, slots, measure, err := c.build(ctx, o)
	if err != nil {
		return err
	}
	r.Work = append(r.Work, Work{c.name, about})
	var subjects []*subject
	defer func() {
		for _, s := range subjects {
			err = errors.Join(err, s.close())
		}
	}()
	for _, f := range o.Indexes {
		s, err := open(f, slots)
		if err != nil {
			return err
		}
		subjects = append(subjects, s)
	}
	variants := make([]string, len(subjects))
	for i, s := range subjects {
		variants[i] = s.name
	}
	return r.run(ctx, &o.Progress, c.name, variants, func(i int) ([]metric, error) { return measure(subjects[i]) })
}

// replayCase applies the events of a trace, asks its queries, and does both.
func replayCase(work func(context.Context, *IndexOptions, int, int) (*corpus.Corpus, error), ranks, copies int, shuffled bool) func(context.Context, *IndexOptions) (string, int, func(*subject) ([]metric, error), error) {
	return func(ctx context.Context, o *IndexOptions) (string, int, func(*subject) ([]metric, error), error) {
		c, err := work(ctx, o, ranks, copies)
		if err != nil {
			return "", 0, nil, err
		}
		t := c.Manifest.Totals
		about := fmt.Sprintf("%s of %s on %d ranks of %d blocks; %d queries (%d blocks), %d events (%d stored, %d removed)",
			copiesText(copies), o.TraceName, ranks, o.GPUBlocks, t.Requests, t.RequestBlocks, t.Events(), t.StoredBlocks, t.RemovedBlocks)
		if shuffled {
			c = shuffleVictims(c, o.Seed)
			about += "; each event's removals in random order"
		}
		m := &replayMeasure{c: c, totals: t, passes: o.Passes}
		if len(m.passes) == 0 {
			m.passes = IndexPasses()
		}
		if shuffled || ranks > 128 {
			m.passes = slices.DeleteFunc(slices.Clone(m.passes), concurrent)
		}
		for i := range c.Ops {
			if c.Ops[i].Kind == corpus.Query {
				m.queries = append(m.queries, uint32(i))
			}
		}
		if len(m.queries) == 0 {
			return "", 0, nil, errors.New("the trace has no request of at least one block")
		}
		return about, ranks, m.measure, nil
	}
}

func copiesText(n int) string {
	if n == 1 {
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", n)
}

type replayMeasure struct {
	c       *corpus.Corpus
	totals  corpus.Totals
	queries []uint32
	passes  []string
	rec     recorder

	checksum uint64
	answered string // the index that the checksum is from
}

func (m *replayMeasure) measure(s *subject) ([]metric, error) {
	var out []metric
	for _, p := range []struct {
		name    string
		writers int
		measure func(*subject) ([]metric, error)
	}{
		{passApply, 1, m.apply}, {passMixed, 1, m.mixed}, {passLookup, 1, m.lookup}, {passBeside, 1, m.beside}, {passThreads, 2, m.threads},
	} {
		if p.writers > len(s.writers) || !slices.Contains(m.passes, p.name) {
			continue
		}
		s.attach(p.writers)
		metrics, err := p.measure(s)
		s.detach()
		if err != nil {
			return nil, err
		}
		out = append(out, metrics...)
	}
	return out, nil
}

func rate(name, unit string, n int64, took time.Duration) metric {
	return metric{name, unit, true, float64(n) / took.Seconds()}
}

// quantiles returns those of the recorded times.
func (m *replayMeasure) quantiles(name string) []metric {
	m.rec.sort()
	return []metric{{name + " p50", "ns", false, m.rec.quantile(0.5)}, {name + " p99", "ns", false, m.rec.quantile(0.99)}}
}

func (m *replayMeasure) apply(s *subject) ([]metric, error) {
	before := mallocs()
	start := time.Now()
	blocks, sum := s.apply(m.c, 0)
	took := time.Since(start)
	allocated := mallocs() - before
	if err := expect(s.name, sum, &m.totals); err != nil {
		return nil, err
	}
	out := []metric{rate("apply", "blocks/s", blocks, took), {"allocations", "per event", false, float64(allocated) / float64(m.totals.Events())}}
	if full, measured := s.bytes(); measured && s.pairs() > 0 {
		out = append(out, metric{"memory", "bytes per resident pair", false, float64(full) / float64(s.pairs())},
			metric{"memory of an empty rank", "bytes", false, s.rankBytes})
	}
	start = time.Now()
	runtime.GC()
	return append(out, metric{"collection", "ms", false, time.Since(start).Seconds() * 1e3}), nil
}

func (m *replayMeasure) mixed(s *subject) ([]metric, error) {
	start := time.Now()
	s.mixed(m.c, nil)
	return []metric{rate("mixed", "block-ops/s", m.totals.BlockOps(), time.Since(start))}, nil
}

func (m *replayMeasure) lookup(s *subject) ([]metric, error) {
	m.rec.reset()
	s.mixed(m.c, &m.rec)
	if m.answered == "" {
		m.checksum, m.answered = m.rec.checksum, s.name
	} else if m.rec.checksum != m.checksum {
		return nil, fmt.Errorf("its answers differ from those of %s", m.answered)
	}
	return m.quantiles("lookup"), nil
}

func (m *replayMeasure) beside(s *subject) ([]metric, error) {
	m.rec.reset()
	blocks, took := s.together(m.c, m.queries, &m.rec)
	out := []metric{rate("apply beside a reader", "blocks/s", blocks, took), rate("lookups beside a writer", "1/s", int64(len(m.rec.times)), took)}
	return append(out, m.quantiles("lookup beside a writer")...), nil
}

func (m *replayMeasure) threads(s *subject) ([]metric, error) {
	blocks, took := s.applyAll(m.c)
	return []metric{rate("apply on 2 threads", "blocks/s", blocks, took)}, nil
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// oneBlockEvents is how many events a round of oneBlockCase times.
const oneBlockEvents = 200_000

func oneBlockCase(ranks int) func(context.Context, *IndexOptions) (string, int, func(*subject) ([]metric, error), error) {
	return func(_ context.Context, o *IndexOptions) (string, int, func(*subject) ([]metric, error), error) {
		fill, tails, holes := oneBlockWork(ranks, oneBlockEvents, o.Seed)
		about := fmt.Sprintf("%d ranks with 64 prompts of %d blocks; an event removes one block or stores it again, each of a random prompt of a random rank", ranks, promptBlocks)
		return about, ranks, func(s *subject) ([]metric, error) {
			s.attach(1)
			defer s.detach()
			s.apply(fill, 0)
			var out []metric
			for _, work := range []struct {
				name string
				c    *corpus.Corpus
			}{{"event at the end of a prompt", tails}, {"event in the middle of a prompt", holes}} {
				start := time.Now()
				blocks, sum := s.apply(work.c, 0)
				took := time.Since(start)
				if int64(sum.Stored+sum.Removed) != blocks {
					return nil, fmt.Errorf("of %d blocks %d were stored and %d removed", blocks, sum.Stored, sum.Removed)
				}
				out = append(out, metric{work.name, "ns", false, float64(took.Nanoseconds()) / float64(blocks)})
			}
			return out, nil
		}, nil
	}
}

// sharedLookups returns how many lookups a round of sharedCase times: so many that
// answers have a quarter of a million ranks together, which takes an index of maps a
// few seconds.
func sharedLookups(ranks int) int { return max(100, 256_000/ranks) }

func sharedCase(ranks int) func(context.Context, *IndexOptions) (string, int, func(*subject) ([]metric, error), error) {
	return func(_ context.Context, o *IndexOptions) (string, int, func(*subject) ([]metric, error), error) {
		c, query := sharedWork(ranks, o.Seed)
		about := fmt.Sprintf("%d ranks hold one prompt of %d blocks, which is looked up", ranks, promptBlocks)
		return about, ranks, func(s *subject) ([]metric, error) {
			s.attach(1)
			defer s.detach()
			s.apply(c, 0)
			start := time.Now()
			lookups := sharedLookups(ranks)
			for range lookups {
				s.reader.Find(query, indexer.FindOptions{}, &s.answer)
			}
			took := time.Since(start)
			if n := len(s.answer.Touched()); n != ranks {
				return nil, fmt.Errorf("%d ranks in the answer, want %d", n, ranks)
			}
			per := float64(took.Nanoseconds()) / float64(lookups)
			start = time.Now()
			for range lookups {
				s.reader.Find(query, indexer.FindOptions{MaxRanks: 16}, &s.answer)
			}
			few := float64(time.Since(start).Nanoseconds()) / float64(lookups)
			return []metric{{"lookup", "ns", false, per}, {"lookup, a rank", "ns", false, per / float64(ranks)},
				{"lookup of the 16 deepest", "ns", false, few}}, nil
		}, nil
	}
}
