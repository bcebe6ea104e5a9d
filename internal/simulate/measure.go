package simulate

import (
	"errors"
	"math"
	"slices"

	"github.com/kvbench/kvbench/internal/spool"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/fleet"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/trace"
)

// Request is what became of a request.
type Request struct {
	fleet.Outcome
	Turn     int   // in its session, from 0
	WarmUp   bool  // left out of the figures after warm-up
	Good     bool  // completed within all limits of the SLO
	Expected int   // prompt tokens that the router took to be in the rank's cache; -1: it does not look
	MaxGap   int64 // longest time between two tokens, ns; 0 with fewer than 2
	Again    int64 // tokens known when it was admitted again, summed up
	AgainHit int64 // of these, from the cache
}

// measure makes figures of what happens in a run.
type measure struct {
	cfg   *Config
	trace *trace.Trace
	notes *notes
	live  *underway
	audit *audit // nil: do not check
	warm  int    // arrivals that are left out after warm-up
	rows  int    // of the trace

	requests []Request     // by arrival; nil if nobody wants them
	spooled  spool.Mapping // of requests
	series   *Series       // nil if nobody wants it
	peak     int64         // most blocks resident at a sample

	whole, steady tally
	groups        grouped // after warm-up
	work          []int64 // tokens computed by rank, until the last sample
	imbalance     weighted
	maxOverMean   weighted
	last          []engine.Counts
	samples       int
	resident      float64 // sum over samples of the share of the pools
	peakWaiting   int
}

// tally is what figures are made of.
type tally struct {
	figures                Figures
	ttft, tpot, e2e, queue spool.List[int64]
	maxGaps                spool.List[int64]
	gaps                   histogram
	first, last, end       int64 // arrivals, and the last token
}

func newMeasure(cfg *Config, t *trace.Trace, n *notes, w *watch) (m *measure, err error) {
	rows := t.Len()
	m = &measure{
		cfg: cfg, trace: t, notes: n, live: n.live, audit: w.audit, rows: rows, warm: int(cfg.WarmUp * float64(rows)),
		work: make([]int64, cfg.Workers),
	}
	m.whole.first, m.steady.first = math.MaxInt64, math.MaxInt64
	if cfg.Requests != nil {
		if m.requests, m.spooled, err = spool.Make[Request](rows); err != nil {
			return nil, err
		}
	}
	if cfg.Detail && cfg.Window > 0 {
		m.series = newSeries(cfg)
	}
	return m, nil
}

// close gives files back. That of the requests is for somebody else, unless the
// run failed.
func (m *measure) close(failed bool) error {
	err := errors.Join(m.whole.close(), m.steady.close())
	if failed {
		err = errors.Join(err, m.spooled.Close())
	}
	return err
}

func (t *tally) lists() []*spool.List[int64] {
	return []*spool.List[int64]{&t.ttft, &t.tpot, &t.e2e, &t.queue, &t.maxGaps}
}

func (t *tally) close() error {
	var err error
	for _, l := range t.lists() {
		err = errors.Join(err, l.Close())
	}
	return err
}

// Gap implements fleet.Observer.
func (m *measure) Gap(o *fleet.Outcome, ns int64) {
	l := m.live.of(uint64(o.Row))
	l.maxGap = max(l.maxGap, ns)
	m.whole.gaps.add(ns)
	if o.Number >= m.warm {
		m.steady.gaps.add(ns)
	}
}

// Gaps implements fleet.GapsObserver.
func (m *measure) Gaps(of []*fleet.Outcome, ns []int64) {
	steady, most := 0, slices.Max(ns)
	for _, o := range of {
		l := m.live.of(uint64(o.Row))
		l.maxGap = max(l.maxGap, most)
		if o.Number >= m.warm {
			steady++
		}
	}
	for _, v := range ns {
		m.whole.gaps.addMany(v, int64(len(of)))
	}
	if steady > 0 && m.warm > 0 {
		for _, v := range ns {
			m.steady.gaps.addMany(v, int64(steady))
		}
	}
}

// Outcome implements fleet.Observer.
func (m *measure) Outcome(o *fleet.Outcome) {
	noted := m.live.of(uint64(o.Row))
	good := m.whole.add(o, noted, m)
	if o.Number >= m.warm {
		m.steady.add(o, noted, m)
		m.groups.add(o, m.rows, good)
	}
	if m.series != nil {
		m.series.request(o)
	}
	if m.requests != nil {
		m.requests[o.Number] = Request{
			Outcome: *o, Turn: m.turn(o), WarmUp: o.Number < m.warm, Good: good, Expected: int(noted.expected),
			MaxGap: noted.maxGap, Again: noted.again.tokens, AgainHit: noted.again.hits,
		}
		if o.Number&0x3fff == 0x3fff {
			m.spooled.Unload()
		}
	}
	m.live.end(uint64(o.Row))
}

// turn returns the number of a request in its session.
func (m *measure) turn(o *fleet.Outcome) int {
	turn, _ := slices.BinarySearch(m.trace.Turns(o.Session), uint32(o.Row))
	return turn
}

// add counts a request and says whether it holds all limits.
func (t *tally) add(o *fleet.Outcome, noted *live, m *measure) bool {
	f, slo := &t.figures, &m.cfg.SLO
	f.Requests++
	t.first, t.last = min(t.first, o.Arrival), max(t.last, o.Arrival)
	switch {
	case o.Rank == fleet.NoRank:
		f.Unrouted++
		return false
	case o.Refused != engine.Accepted:
		f.Refused++
		if f.RefusedBy == nil {
			f.RefusedBy = map[string]int64{}
		}
		f.RefusedBy[o.Refused.String()]++
		return false
	}
	f.Completed++
	f.PromptTokens += int64(o.Prompt)
	f.HitTokens += int64(o.Cached)
	f.HitBlocks += int64(o.Cached / m.cfg.Engine.BlockSize)
	if noted.expected >= 0 {
		f.ExpectedTokens += int64(noted.expected)
	}
	f.AgainTokens += noted.again.tokens
	f.AgainHitTokens += noted.again.hits
	f.AgainHitBlocks += noted.again.hits / int64(m.cfg.Engine.BlockSize)
	f.OutputTokens += int64(o.Output)
	f.Preemptions += int64(o.Preemptions)
	t.end = max(t.end, o.Last)
	ttft, e2e := o.First-o.Arrival, o.Last-o.Arrival
	// Lists keep their first error until they are read.
	_ = t.ttft.Add(ttft)
	_ = t.e2e.Add(e2e)
	_ = t.queue.Add(o.Admitted - o.Arrival)
	tpot := int64(0)
	if o.Output > 1 {
		tpot = int64(math.Round(float64(o.Last-o.First) / float64(o.Output-1)))
		_ = t.tpot.Add(tpot)
		_ = t.maxGaps.Add(noted.maxGap)
	}
	good := (slo.TTFT == 0 || ttft <= int64(slo.TTFT)) && (slo.TPOT == 0 || tpot <= int64(slo.TPOT)) && (slo.E2E == 0 || e2e <= int64(slo.E2E))
	if good {
		f.Good++
		f.goodTokens += int64(o.Output)
	}
	return good
}

// figuresOf finishes a tally.
func (t *tally) figuresOf(cfg *Config) (Figures, error) {
	f, slo := t.figures, &cfg.SLO
	f.Gaps = t.gaps.summary()
	var c Curves
	for i, to := range []struct {
		figure *results.Distribution
		curve  *[]int64
	}{{&f.TTFT, &c.TTFT}, {&f.TPOT, &c.TPOT}, {&f.E2E, &c.E2E}, {&f.Queue, &c.Queue}, {&f.MaxGaps, nil}} {
		values, mapping, err := t.lists()[i].Values()
		if err != nil {
			return Figures{}, err
		}
		*to.figure = results.Summarize(values)
		if cfg.Detail && to.curve != nil {
			*to.curve = curve(values) // they are sorted now
		}
		mapping.Unload()
	}
	if cfg.Detail {
		f.Curves = &c
	}
	if f.PromptTokens > 0 {
		f.HitRatio = float64(f.HitTokens) / float64(f.PromptTokens)
	}
	if t.last > t.first {
		f.OfferedPerSecond = float64(f.Requests) / (float64(t.last-t.first) / 1e9)
	}
	if f.Completed > 0 && t.end > t.first {
		f.SpanNanos = t.end - t.first
		s := float64(f.SpanNanos) / 1e9
		f.RequestsPerSecond = float64(f.Completed) / s
		f.PromptTokensPerSecond = float64(f.PromptTokens) / s
		f.OutputTokensPerSecond = float64(f.OutputTokens) / s
		if *slo != (SLO{}) {
			f.Goodput = &Goodput{
				Requests:              f.Good,
				Share:                 float64(f.Good) / float64(f.Requests),
				RequestsPerSecond:     float64(f.Good) / s,
				OutputTokensPerSecond: float64(f.goodTokens) / s,
			}
		}
	}
	return f, nil
}

// Sample implements fleet.Observer.
func (m *measure) Sample(at int64, counts []engine.Counts) {
	if m.series != nil {
		m.series.sample(at, counts)
	}
	var sum, squares, most float64
	waiting, resident := 0, 0
	for i := range counts {
		c := &counts[i]
		if m.audit != nil {
			m.audit.sample(i, m.cfg.Engine.blocks(i), c)
		}
		now := c.ChunkTokens + c.DecodeTokens
		w := float64(now - m.work[i])
		m.work[i] = now
		sum += w
		squares += w * w
		most = max(most, w)
		waiting += c.Waiting
		resident += c.Resident
	}
	n := float64(len(counts))
	if sum > 0 {
		mean := sum / n
		m.imbalance.add(math.Sqrt(max(0, squares/n-mean*mean))/mean, sum)
		m.maxOverMean.add(most/mean, sum)
	}
	m.samples++
	m.resident += float64(resident)
	m.peak = max(m.peak, int64(resident))
	m.peakWaiting = max(m.peakWaiting, waiting)
	m.last = append(m.last[:0], counts...)
}

func (m *measure) result(t fleet.Totals) (*RunResult, error) {
	whole, err := m.whole.figuresOf(m.cfg)
	if err != nil {
		return nil, err
	}
	r := &RunResult{
		Whole:  whole,
		Events: t.Events, EventsLost: t.EventsLost,
		Imbalance: Imbalance{
			WindowNanos: int64(m.cfg.Window), Variation: m.imbalance.mean(), MaxOverMean: m.maxOverMean.mean(),
			TotalVariation: variation(m.work), TotalMaxOverMean: maxOverMean(m.work),
		},
		Overloaded:     m.cfg.Concurrency == 0 && m.whole.end-m.whole.last > (m.whole.last-m.whole.first)/10,
		ResidentBlocks: m.resident / float64(m.samples),
		ResidentPeak:   m.peak,
		PeakWaiting:    m.peakWaiting,
		ComputedTokens: slices.Clone(m.work),
	}
	// A trace whose last answers outlast a tenth of it is short, not too much.
	r.Overloaded = r.Overloaded && r.Whole.Queue.P90 > 0
	total, _ := m.cfg.Engine.allBlocks(m.cfg.Workers)
	r.ResidentShare = r.ResidentBlocks / float64(total)
	if m.notes.clock != nil && m.notes.decisions.n > 0 {
		d := m.notes.decisions.summary()
		r.Decision = &d
	}
	r.Series = m.series
	r.groups = m.groups
	if m.warm > 0 {
		f, err := m.steady.figuresOf(m.cfg)
		if err != nil {
			return nil, err
		}
		r.Steady = &f
	}
	for i := range m.last {
		c := &m.last[i]
		r.Passes += c.Passes
		r.BusyNanos += c.BusyNanos
		r.Preemptions += c.Preemptions
		r.EvictedBlocks += c.RemovedBlocks
		r.StoredBlocks += c.StoredBlocks
	}
	r.EndNanos = t.EndNanos
	if t.EndNanos > 0 {
		r.BusyShare = float64(r.BusyNanos) / (float64(t.EndNanos) * float64(len(m.last)))
	}
	return r, nil
}

// weighted is a weighted mean.
type weighted struct{ sum, weight float64 }

func (w *weighted) add(x, weight float64) {
	w.sum += x * weight
	w.weight += weight
}

func (w *weighted) mean() float64 {
	if w.weight == 0 {
		return 0
	}
	return w.sum / w.weight
}

// variation returns the coefficient of variation, 0 if all are 0.
func variation(x []int64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += float64(v)
	}
	if sum == 0 {
		return 0
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	return math.Sqrt(squares/float64(len(x))) / mean
}

func maxOverMean(x []int64) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v)
	}
	if sum == 0 {
		return 0
	}
	return float64(slices.Max(x)) * float64(len(x)) / sum
}
