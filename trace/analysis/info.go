package analysis

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/kvbench/kvbench/trace"
)

// Info describes a trace. All that is not of trace.Info is in the order of the
// file, through one cache, and as if requests took no time.
type Info struct {
	trace.Info

	// InputLength and OutputLength are Input and Output as all other distributions.
	InputLength  Distribution `json:"input_tokens"`
	OutputLength Distribution `json:"output_tokens"`
	// Gaps are the ms from one arrival to the next.
	Gaps       Distribution `json:"gaps_ms"`
	Burstiness []Burstiness `json:"burstiness"`

	// Turns are of sessions; a row without a session's name is a session of one
	// turn. Delays are what later turns wait after the one before.
	Turns  Distribution `json:"turns"`
	Delays Distribution `json:"delays_ms"`

	// SharedPrefix is, of each request, how many tokens of its prompt lie in the
	// leading blocks that a request before it had.
	SharedPrefix Distribution `json:"shared_prefix_tokens"`
	// ReuseDistance is, of each block reference that an unbounded cache hits, how
	// many distinct blocks were used since the block's last use: a cache of more
	// blocks than that hits it.
	ReuseDistance Distribution `json:"reuse_distance_blocks"`

	// Caches are of the sizes asked for, HitCurve of sizes from one block to what
	// hits as much as an unbounded cache. Both leave out the first WarmUpRequests,
	// which only fill the caches.
	Caches         []CacheHits `json:"caches"`
	HitCurve       []CacheHits `json:"hit_curve"`
	WarmUpRequests int         `json:"warm_up_requests"`

	Tree       Tree       `json:"tree"`
	Histograms Histograms `json:"histograms"`
}

// Histograms are those of the distributions in an Info, in the same units.
type Histograms struct {
	Input         []Bin `json:"input_tokens"`
	Output        []Bin `json:"output_tokens"`
	Gaps          []Bin `json:"gaps_ms"`
	Turns         []Bin `json:"turns"`
	SharedPrefix  []Bin `json:"shared_prefix_tokens"`
	ReuseDistance []Bin `json:"reuse_distance_blocks"`
}

// Bin counts values of From or more and below Below. Bounds are 0, 1, 2, 3, 4, 6,
// 8, 12, and so on.
type Bin struct {
	From  float64 `json:"from"`
	Below float64 `json:"below"`
	N     int     `json:"n"`
}

// Options say what to look at.
type Options struct {
	// CacheBlocks are sizes of caches to count hits for, in blocks of the trace, 1
	// or more.
	CacheBlocks []int
	// Compare keeps what Compare needs, which adds memory for up to 64 times as
	// many distinct values of the distributions.
	Compare bool
	// Requests is the number of requests to look at, 0 for all.
	Requests int
	// WarmUpRequests is the number of first requests whose hits in caches of a size
	// are not counted.
	WarmUpRequests int

	parts int // the most parts that distributions are kept for apart, 0 for one
}

// Collector collects what Info needs, request by request. Memory grows with
// distinct prefixes of prompts (some 30 bytes each, and 20 more at the end), distinct
// arrival times in a row (12 bytes), named sessions, and distinct lengths, and
// with nothing else. It is not for concurrent use.
type Collector struct {
	limit     int // of requests, 0: none
	warmUp    int // requests
	warm      warm
	blockSize int
	requests  int
	refs      int
	maxBlocks int
	inTokens  int64
	outTokens int64
	hitBlocks int
	hitTokens int64

	times    *times
	sessions sessions
	delays   counts // µs
	tree     *tree
	stack    *stack
	asked    *hitCounter
	curve    *hitCounter

	parts    []part
	maxParts int
	partSize int // requests of a part

	path []uint32
	runs []run
}

// warm is what counts for the hits of caches, after the requests of the warm-up.
type warm struct {
	refs      int
	inTokens  int64
	hitBlocks int
}

// part is what some requests that follow one another add to distributions.
type part struct {
	requests int
	input    counts // tokens
	output   counts
	depth    counts // tokens of the shared prefix
	reuse    counts // coarse distances in blocks
}

func newPart() part {
	return part{input: counts{}, output: counts{}, depth: counts{}, reuse: counts{}}
}

func (p *part) merge(q *part) {
	p.requests += q.requests
	p.input.merge(q.input)
	p.output.merge(q.output)
	p.depth.merge(q.depth)
	p.reuse.merge(q.reuse)
}

// leastPart is how many requests a part has at least.
const leastPart = 16

// NewCollector makes a collector for a trace whose ids stand for blockSize tokens.
func NewCollector(blockSize int, opts Options) (*Collector, error) {
	if blockSize < 1 || blockSize > math.MaxInt32 {
		return nil, fmt.Errorf("a block of %d tokens; give 1 or more", blockSize)
	}
	for _, n := range opts.CacheBlocks {
		if n < 1 {
			return nil, fmt.Errorf("a cache of %d blocks; give sizes of 1 block or more", n)
		}
	}
	if opts.Requests < 0 {
		return nil, fmt.Errorf("%d requests; give 1 or more", opts.Requests)
	}
	if opts.WarmUpRequests < 0 {
		return nil, fmt.Errorf("%d requests to warm up; give 0 or more", opts.WarmUpRequests)
	}
	if opts.Compare {
		opts.parts = compareParts
		opts.CacheBlocks = append(compareBlocks(blockSize), opts.CacheBlocks...)
	}
	c := &Collector{
		limit: opts.Requests, warmUp: opts.WarmUpRequests,
		blockSize: blockSize, times: newTimes(), delays: counts{}, tree: newTree(), stack: newStack(),
		asked: newHitCounter(opts.CacheBlocks), curve: newHitCounter(curveSizes()),
		maxParts: opts.parts, partSize: math.MaxInt,
	}
	if opts.parts > 0 {
		c.partSize = leastPart
	}
	return c, nil
}

// Add adds a request. Requests come in the order of the file. An error is a
// *trace.ParseError about the request, or says that the trace is too large; nothing
// can be added after it.
// What is more than Options.Requests is left out.
func (c *Collector) Add(q *trace.Request) error {
	if c.full() {
		return nil
	}
	if limit := len(q.HashIDs) * c.blockSize; q.InputLength > limit {
		return &trace.ParseError{Line: q.Line, Field: "input_length", Err: fmt.Errorf("%d tokens do not fit %d ids of %d tokens; give an id for every block", q.InputLength, len(q.HashIDs), c.blockSize)}
	}
	arrival, delay, field, err := c.sessions.add(q)
	if err != nil {
		return &trace.ParseError{Line: q.Line, Field: field, Err: err}
	}
	c.times.add(arrival)
	if !math.IsNaN(delay) {
		c.delays[coarse(micros(delay))]++
	}

	var known int
	if c.path, known, err = c.tree.walk(q.HashIDs, c.path[:0]); err != nil {
		return err
	}
	c.runs = c.stack.use(c.path, known, c.runs[:0])
	shared := min(known*c.blockSize, q.InputLength)

	c.requests++
	c.refs += len(q.HashIDs)
	c.maxBlocks = max(c.maxBlocks, len(q.HashIDs))
	c.inTokens += int64(q.InputLength)
	c.outTokens += int64(q.OutputLength)
	c.hitBlocks += known
	c.hitTokens += int64(shared)

	p := c.part()
	p.requests++
	p.input[uint64(q.InputLength)]++
	p.output[uint64(q.OutputLength)]++
	p.depth[uint64(shared)]++
	counted := c.requests > c.warmUp
	if counted {
		c.warm.refs += len(q.HashIDs)
		c.warm.inTokens += int64(q.InputLength)
		c.warm.hitBlocks += known
	}
	for _, r := range c.runs {
		if counted {
			c.asked.add(r, c.blockSize, q.InputLength)
			c.curve.add(r, c.blockSize, q.InputLength)
		}
		for d := r.distance; d < r.distance+r.blocks; d++ {
			p.reuse[coarse(uint64(d))]++
		}
	}
	return nil
}

func (c *Collector) full() bool { return c.limit > 0 && c.requests >= c.limit }

// part returns the part of the next request. When there would be too many, each
// two that follow one another become one.
func (c *Collector) part() *part {
	if n := len(c.parts); n > 0 && c.parts[n-1].requests < c.partSize {
		return &c.parts[n-1]
	}
	if c.maxParts > 0 && len(c.parts) == c.maxParts {
		for i := range c.maxParts / 2 {
			c.parts[2*i].merge(&c.parts[2*i+1])
			c.parts[i] = c.parts[2*i]
		}
		c.parts = c.parts[:c.maxParts/2]
		c.partSize *= 2
	}
	c.parts = append(c.parts, newPart())
	return &c.parts[len(c.parts)-1]
}

func micros(ms float64) uint64 { return uint64(math.Round(ms * 1000)) }

// total returns the distributions of all parts.
func (c *Collector) total() part {
	if len(c.parts) == 1 {
		return c.parts[0]
	}
	all := newPart()
	for i := range c.parts {
		all.merge(&c.parts[i])
	}
	return all
}

// Info returns the description of what was added.
func (c *Collector) Info() Info {
	all := c.total()
	c.times.sort()
	input, output := all.input.sample(1), all.output.sample(1)
	gaps := counts{}
	c.times.gaps(func(ms float64, n int) { gaps[coarse(micros(ms))] += uint64(n) })
	turns := c.sessions.turns()

	info := Info{
		InputLength:   input.describe(),
		OutputLength:  output.describe(),
		Gaps:          gaps.sample(1e-3).describe(),
		Burstiness:    c.times.burstiness(),
		Turns:         turns.sample(1).describe(),
		Delays:        c.delays.sample(1e-3).describe(),
		SharedPrefix:  all.depth.sample(1).describe(),
		ReuseDistance: all.reuse.sample(1).describe(),
		Caches:        c.asked.all(c.blockSize, c.warm.refs, c.warm.inTokens),
		HitCurve:      c.curve.all(c.blockSize, c.warm.refs, c.warm.inTokens),

		WarmUpRequests: min(c.warmUp, c.requests),
		Tree:           c.tree.shape(c.refs),
		Histograms: Histograms{
			Input: all.input.bins(1), Output: all.output.bins(1), Gaps: gaps.bins(1000), Turns: turns.bins(1),
			SharedPrefix: all.depth.bins(1), ReuseDistance: all.reuse.bins(1),
		},
	}
	for i, h := range info.HitCurve {
		if h.Hits == c.warm.hitBlocks {
			info.HitCurve = info.HitCurve[:i+1]
			break
		}
	}
	info.Info = trace.Info{
		Requests: c.requests, Sessions: c.sessions.len(), BlockSize: c.blockSize,
		DistinctArrivalTimes: c.times.distinct(),
		BlockReferences:      c.refs, MaxRequestBlocks: c.maxBlocks,
		Input: lengths(input, c.inTokens), Output: lengths(output, c.outTokens),
		PrefixHitBlocks: c.hitBlocks, PrefixHitTokens: c.hitTokens,
	}
	info.DistinctBlocks, info.RepeatedBlocks = c.tree.ids()
	_, info.SpanMS = c.times.span()
	info.Arrivals.Requests = c.times.histogram(arrivalBuckets)
	info.Arrivals.BucketMS = info.SpanMS / arrivalBuckets
	if c.refs > 0 {
		info.PrefixHitBlockShare = float64(c.hitBlocks) / float64(c.refs)
	}
	if c.inTokens > 0 {
		info.PrefixHitTokenShare = float64(c.hitTokens) / float64(c.inTokens)
	}
	return info
}

// arrivalBuckets is the number of buckets of trace.Arrivals.
const arrivalBuckets = 60

func lengths(s sample, total int64) trace.LengthInfo {
	if s.n == 0 {
		return trace.LengthInfo{}
	}
	return trace.LengthInfo{
		TotalTokens: total, MeanTokens: float64(total) / s.n,
		P50Tokens: int(s.quantile(50)), P90Tokens: int(s.quantile(90)), P99Tokens: int(s.quantile(99)), MaxTokens: int(s.quantile(100)),
	}
}

// bins returns the histogram of the values divided by unit.
func (c counts) bins(unit uint64) []Bin {
	numbers := map[int]int{}
	most := 0
	for v, n := range c {
		b := bin(v / unit)
		numbers[b] += int(n)
		most = max(most, b)
	}
	out := []Bin{}
	if len(c) == 0 {
		return out
	}
	for b := 0; b <= most; b++ {
		out = append(out, Bin{From: binFrom(b), Below: binFrom(b + 1), N: numbers[b]})
	}
	return out
}

// bin returns the number of the bin that v is in.
func bin(v uint64) int {
	if v < 2 {
		return int(v)
	}
	octave := bits.Len64(v) - 1
	return 2*octave + int(v>>(octave-1)&1)
}

// binFrom returns the lower bound of a bin.
func binFrom(b int) float64 {
	if b < 2 {
		return float64(b)
	}
	return math.Ldexp(float64(2+b%2), b/2-1)
}

// Describe describes a trace in memory.
func Describe(t *trace.Trace, opts Options) (Info, error) {
	c, err := collect(t, opts)
	if err != nil {
		return Info{}, err
	}
	return c.Info(), nil
}

func collect(t *trace.Trace, opts Options) (*Collector, error) {
	c, err := NewCollector(t.BlockSize, opts)
	if err != nil {
		return nil, err
	}
	for i := range t.Len() {
		if c.full() {
			break
		}
		q := t.Request(i)
		if err := c.Add(&q); err != nil {
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
	}
	return c, nil
}
