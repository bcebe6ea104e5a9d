package trace

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/guptarohit/asciigraph"
)

// Info describes a trace.
type Info struct {
	Requests  int `json:"requests"`
	Sessions  int `json:"sessions"`
	BlockSize int `json:"block_size_tokens"`

	// SpanMS is the time from the first to the last arrival. A turn without a
	// timestamp arrives its delay after the turn before it, as if requests took
	// no time.
	SpanMS               float64  `json:"span_ms"`
	DistinctArrivalTimes int      `json:"distinct_arrival_times"`
	Arrivals             Arrivals `json:"arrivals"`

	BlockReferences  int `json:"block_references"` // ids in all rows
	DistinctBlocks   int `json:"distinct_blocks"`  // ids
	RepeatedBlocks   int `json:"repeated_blocks"`  // ids that are referenced more than once
	MaxRequestBlocks int `json:"max_request_blocks"`

	Input  LengthInfo `json:"input"`
	Output LengthInfo `json:"output"`

	// PrefixHitBlocks is the number of block references that one unbounded
	// prefix cache has when the rows pass through it in file order: those that
	// an earlier row had after the same ids. PrefixHitTokens is the number of
	// input tokens in such blocks. Shares are of all references and input
	// tokens, 0 if there are none.
	PrefixHitBlocks     int     `json:"prefix_hit_blocks"`
	PrefixHitTokens     int64   `json:"prefix_hit_tokens"`
	PrefixHitBlockShare float64 `json:"prefix_hit_block_share"`
	PrefixHitTokenShare float64 `json:"prefix_hit_token_share"`
}

// Arrivals is a histogram of arrivals: Requests[i] arrived from i x BucketMS to
// before (i+1) x BucketMS after the first, the last one included in the last.
type Arrivals struct {
	BucketMS float64 `json:"bucket_ms"`
	Requests []int   `json:"requests"`
}

// LengthInfo describes lengths in tokens. The p% quantile of n lengths is number
// floor((n-1) p/100) of the sorted ones, counted from 0, so that it occurs.
type LengthInfo struct {
	TotalTokens int64   `json:"total_tokens"`
	MeanTokens  float64 `json:"mean_tokens"`
	P50Tokens   int     `json:"p50_tokens"`
	P90Tokens   int     `json:"p90_tokens"`
	P99Tokens   int     `json:"p99_tokens"`
	MaxTokens   int     `json:"max_tokens"`
}

// arrivalBuckets is the number of buckets of the histogram of arrivals.
const arrivalBuckets = 60

// Describe computes the description of a trace.
func Describe(t *Trace) Info {
	info := Info{Requests: t.Len(), Sessions: t.Sessions(), BlockSize: t.BlockSize, BlockReferences: len(t.ids)}
	info.describeArrivals(t)
	info.describeBlocks(t)
	info.Input = describeLengths(t, func(r *row) uint32 { return r.input })
	info.Output = describeLengths(t, func(r *row) uint32 { return r.output })
	if info.BlockReferences > 0 {
		info.PrefixHitBlockShare = float64(info.PrefixHitBlocks) / float64(info.BlockReferences)
	}
	if info.Input.TotalTokens > 0 {
		info.PrefixHitTokenShare = float64(info.PrefixHitTokens) / float64(info.Input.TotalTokens)
	}
	return info
}

func (info *Info) describeArrivals(t *Trace) {
	at := t.arrivals()
	info.Arrivals.Requests = make([]int, arrivalBuckets)
	if len(at) == 0 {
		return
	}
	first := slices.Min(at)
	info.SpanMS = slices.Max(at) - first
	info.Arrivals.BucketMS = info.SpanMS / arrivalBuckets
	distinct := make(map[float64]struct{})
	for _, ms := range at {
		bucket := 0
		if info.SpanMS > 0 {
			bucket = min(int((ms-first)/info.SpanMS*arrivalBuckets), arrivalBuckets-1)
		}
		info.Arrivals.Requests[bucket]++
		distinct[ms] = struct{}{}
	}
	info.DistinctArrivalTimes = len(distinct)
}

// arrivals returns when each row arrives in ms if requests take no time.
func (t *Trace) arrivals() []float64 {
	at := make([]float64, t.Len())
	for s := range t.sessions {
		before := 0.0
		for _, i := range t.Turns(s) {
			r := &t.rows[i]
			if at[i] = r.timestamp; math.IsNaN(at[i]) {
				at[i] = before + r.delay
			}
			before = at[i]
		}
	}
	return at
}

func (info *Info) describeBlocks(t *Trace) {
	// A node is a path of ids from the root, which is what a prefix cache knows.
	type edge struct {
		parent uint32
		id     uint64
	}
	nodes := make(map[edge]uint32)
	seen := make(map[uint64]bool) // whether more than once
	for i := range t.rows {
		ids := t.hashIDs(i)
		info.MaxRequestBlocks = max(info.MaxRequestBlocks, len(ids))
		node, hit := uint32(0), 0
		for _, id := range ids {
			if again, ok := seen[id]; ok && !again {
				info.RepeatedBlocks++
				seen[id] = true
			} else if !ok {
				seen[id] = false
			}
			next, ok := nodes[edge{node, id}]
			if ok {
				hit++ // and so were all before it
			} else {
				next = uint32(len(nodes) + 1)
				nodes[edge{node, id}] = next
			}
			node = next
		}
		info.PrefixHitBlocks += hit
		info.PrefixHitTokens += int64(min(hit*t.BlockSize, int(t.rows[i].input)))
	}
	info.DistinctBlocks = len(seen)
}

func describeLengths(t *Trace, length func(*row) uint32) LengthInfo {
	n := t.Len()
	if n == 0 {
		return LengthInfo{}
	}
	var info LengthInfo
	sorted := make([]uint32, n)
	for i := range t.rows {
		sorted[i] = length(&t.rows[i])
		info.TotalTokens += int64(sorted[i])
	}
	slices.Sort(sorted)
	quantile := func(percent int) int { return int(sorted[(n-1)*percent/100]) }
	info.MeanTokens = float64(info.TotalTokens) / float64(n)
	info.P50Tokens, info.P90Tokens, info.P99Tokens = quantile(50), quantile(90), quantile(99)
	info.MaxTokens = quantile(100)
	return info
}

// Plot draws the rate of arrivals over time for a terminal, at most width and 80
// columns wide, but at least about 50. It returns "" if there is no rate, as all
// arrive within a nanosecond.
func (i Info) Plot(width int) string {
	if i.SpanMS < 1e-6 {
		return ""
	}
	width = min(width, 80)
	rates := make([]float64, len(i.Arrivals.Requests))
	for k, n := range i.Arrivals.Requests {
		rates[k] = float64(n) / (i.Arrivals.BucketMS / 1000)
	}
	// The labels take what their figures need, which is known once they are drawn.
	for columns := width; ; {
		plot := asciigraph.Plot(rates, asciigraph.Height(8), asciigraph.Width(columns), asciigraph.LowerBound(0),
			asciigraph.YAxisValueFormatter(func(rate float64) string { return fmt.Sprintf("%.3g", rate) }),
			asciigraph.Caption(fmt.Sprintf("requests per second over %.4g s", i.SpanMS/1000)))
		over := widest(plot) - width
		if over <= 0 || columns <= 20 {
			return plot
		}
		columns = max(columns-over, 20)
	}
}

func widest(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		n = max(n, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
	}
	return n
}
