// Package tracepage puts the description of a trace on a page: pictures of what
// package analysis found, with their data in tables. It computes nothing but shares
// and sums of what it is given.
package tracepage

import (
	"fmt"
	"math"

	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/internal/report/page"
	"github.com/kvbench/kvbench/trace"
	"github.com/kvbench/kvbench/trace/analysis"
)

// New makes the page of a trace.
func New(info *analysis.Info, src trace.Source) *page.Page {
	p := page.New("Trace "+src.Name, "What a trace of requests asks of a prefix cache and of the engines behind it. All requests pass through one cache, in the order of the file and as if they took no time.")
	p.Verdict(page.Plain, "TRACE", fmt.Sprintf("%d requests in %d sessions over %s; an unbounded prefix cache hits %s of their input tokens.",
		info.Requests, info.Sessions, chart.Format(info.SpanMS/1000, chart.Seconds), chart.Format(info.PrefixHitTokenShare, chart.Share)))
	if len(src.Warnings) > 0 {
		p.Section("Warnings").Warnings(src.Warnings...)
	}
	overview(p, info)
	arrivals(p, info)
	lengths(p, info)
	reuse(p, info)
	tree(p, info)
	facts := []page.Fact{
		{Name: "trace", Value: src.Name}, {Name: "sha256", Value: src.SHA256}, {Name: "bytes", Value: fmt.Sprint(src.Bytes)},
	}
	for _, n := range src.Notes {
		facts = append(facts, page.Fact{Name: "note", Value: n})
	}
	if src.Generator != nil {
		facts = append(facts, page.Fact{Name: "generated with", Value: string(src.Generator)})
	}
	p.Provenance(facts...)
	return p
}

func overview(p *page.Page, info *analysis.Info) {
	t := &chart.Table{Caption: "Distributions", Columns: []chart.Column{
		{Name: "what"}, {Name: "n"}, {Name: "mean"}, {Name: "p10"}, {Name: "p50"}, {Name: "p90"}, {Name: "p99"}, {Name: "max"}, {Name: "sd / mean"},
	}}
	for _, r := range []struct {
		name string
		d    analysis.Distribution
	}{
		{"input, tokens", info.InputLength}, {"output, tokens", info.OutputLength}, {"gap between arrivals, ms", info.Gaps},
		{"shared prefix, tokens", info.SharedPrefix}, {"reuse distance, blocks", info.ReuseDistance},
		{"turns of a session", info.Turns}, {"delay before a later turn, ms", info.Delays},
	} {
		if r.d.N == 0 {
			t.Rows = append(t.Rows, []any{r.name, 0, math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()})
			continue
		}
		t.Rows = append(t.Rows, []any{r.name, r.d.N, r.d.Mean, r.d.P10, r.d.P50, r.d.P90, r.d.P99, r.d.Max, r.d.CV})
	}
	s := p.Section("Overview")
	s.Table(t)
	s.Textf("%d block references go to %d distinct blocks of %d tokens, of which %d are referenced more than once.",
		info.BlockReferences, info.DistinctBlocks, info.BlockSize, info.RepeatedBlocks)
}

func arrivals(p *page.Page, info *analysis.Info) {
	s := p.Section("Arrivals")
	if info.SpanMS <= 0 {
		s.Missing("arrivals over time: all requests arrive at once")
		return
	}
	line := chart.Series{Name: "requests per second", Style: chart.Step}
	for i, n := range info.Arrivals.Requests {
		line.X = append(line.X, float64(i)*info.Arrivals.BucketMS/1000)
		line.Y = append(line.Y, float64(n)/(info.Arrivals.BucketMS/1000))
	}
	gaps := histogram("Gaps between arrivals", "How many ms pass from one arrival to the next. A gap of 0 is an arrival at the same time.", "gap", chart.Milliseconds,
		set{"gaps", info.Histograms.Gaps})
	s.Charts(&chart.Lines{
		Head: chart.Head{Title: "Arrivals over time", Description: "Requests per second, over the whole trace."},
		X:    chart.Axis{Label: "time", Unit: chart.Seconds}, Y: chart.Axis{Label: "requests per second", Unit: chart.PerSecond, Zero: true},
		Series: []chart.Series{line},
	}, gaps)
	if len(info.Burstiness) == 0 {
		s.Missing("how arrivals bunch: the trace is shorter than ten windows of 100 ms")
		return
	}
	t := &chart.Table{Caption: "How arrivals bunch, in windows of one length", Note: "Variance over mean of the arrivals in a window is 1 for a Poisson process and 0 for an even one.",
		Columns: []chart.Column{{Name: "window", Unit: chart.Seconds}, {Name: "windows"}, {Name: "busiest", Unit: chart.PerSecond}, {Name: "empty", Unit: chart.Share}, {Name: "variance / mean"}}}
	for _, b := range info.Burstiness {
		t.Rows = append(t.Rows, []any{b.WindowMS / 1000, b.Windows, b.PeakPerSecond, b.EmptyShare, b.Dispersion})
	}
	s.Table(t)
}

func lengths(p *page.Page, info *analysis.Info) {
	s := p.Section("Lengths")
	s.Charts(
		histogram("Prompts and answers", "How many requests have an input or output of so many tokens, in bins that grow with the length.", "tokens", chart.Plain,
			set{"input", info.Histograms.Input}, set{"output", info.Histograms.Output}),
		histogram("Shared prefixes", "How many tokens of a prompt lie in the leading blocks that a request before it had. What shares nothing is counted as below all bins.", "tokens", chart.Plain,
			set{"shared prefix", info.Histograms.SharedPrefix}),
	)
	if info.Turns.Max > 1 {
		s.Charts(histogram("Turns", "How many sessions have so many turns.", "turns", chart.Plain, set{"sessions", info.Histograms.Turns}))
	}
}

func reuse(p *page.Page, info *analysis.Info) {
	s := p.Section("Reuse")
	if info.ReuseDistance.N == 0 {
		s.Missing("reuse distances and hits: no request begins with blocks that one before it had")
		return
	}
	distance := chart.Series{Name: "references", Style: chart.Line}
	sum := 0
	for _, b := range info.Histograms.ReuseDistance {
		sum += b.N
		distance.X = append(distance.X, b.Below)
		distance.Y = append(distance.Y, float64(sum)/float64(info.ReuseDistance.N))
	}
	references, tokens := chart.Series{Name: "block references"}, chart.Series{Name: "input tokens"}
	for _, h := range info.HitCurve {
		for _, c := range []struct {
			to    *chart.Series
			share float64
		}{{&references, h.HitShare}, {&tokens, h.HitTokenShare}} {
			c.to.X = append(c.to.X, float64(h.CacheBlocks))
			c.to.Y = append(c.to.Y, c.share)
		}
	}
	s.Charts(&chart.Lines{
		Head: chart.Head{Title: "Hits of a cache", Description: "The share of block references and of input tokens that an LRU cache of so many blocks hits. Prompts lose their tails first, and only leading blocks count."},
		X:    chart.Axis{Label: "blocks of the cache", Log: true}, Y: chart.Axis{Label: "share that is hit", Unit: chart.Share, Zero: true},
		Series:     []chart.Series{references, tokens},
		References: []chart.Reference{{Value: info.PrefixHitBlockShare, Label: "references, unbounded"}},
	}, &chart.Lines{
		Head: chart.Head{Title: "Reuse distance", Description: "The share of references to blocks that were used before, by how many distinct blocks were used in between at most."},
		X:    chart.Axis{Label: "fewer distinct blocks in between than", Log: true}, Y: chart.Axis{Label: "share of reused references", Unit: chart.Share, Zero: true},
		Series: []chart.Series{distance},
	})
	if len(info.Caches) > 0 {
		t := &chart.Table{Caption: "Hits of the caches asked for", Columns: []chart.Column{
			{Name: "blocks"}, {Name: "tokens"}, {Name: "hits"}, {Name: "references"}, {Name: "of references", Unit: chart.Share}, {Name: "of input tokens", Unit: chart.Share},
		}}
		for _, c := range info.Caches {
			t.Rows = append(t.Rows, []any{c.CacheBlocks, c.CacheTokens, c.Hits, c.References, c.HitShare, c.HitTokenShare})
		}
		s.Table(t)
	}
}

func tree(p *page.Page, info *analysis.Info) {
	s := p.Section("Tree of prefixes")
	t := info.Tree
	if t.Nodes == 0 {
		s.Missing("the tree of prefixes: no prompt has a block")
		return
	}
	bars := &chart.Bars{
		Head: chart.Head{Title: "Nodes by depth", Description: "A node is a block after all blocks before it. How many there are at a depth, counted in blocks from the start of a prompt, and how many of them two or more requests have."},
		X:    chart.Axis{Label: "nodes", Zero: true, Whole: true}, Kind: []string{"shared", "of one request"},
	}
	levels := &chart.Table{Caption: "Depths", Columns: []chart.Column{{Name: "depth, blocks"}, {Name: "nodes"}, {Name: "shared"}, {Name: "branches"}}}
	for _, l := range t.Levels {
		label := fmt.Sprint(l.FromDepth)
		if l.ToDepth > l.FromDepth {
			label = fmt.Sprintf("%d to %d", l.FromDepth, l.ToDepth)
		}
		bars.Rows = append(bars.Rows, chart.Bar{Label: label, Parts: []float64{float64(l.SharedNodes), float64(l.Nodes - l.SharedNodes)}})
		levels.Rows = append(levels.Rows, []any{label, l.Nodes, l.SharedNodes, l.Branches})
	}
	s.Charts(bars)
	s.Folded("Depths, with branches", levels)
	s.Facts(
		page.Fact{Name: "nodes", Value: fmt.Sprintf("%d, with %d leaves", t.Nodes, t.Leaves)},
		page.Fact{Name: "first blocks", Value: fmt.Sprintf("%d different ones; %d requests begin with the most frequent one", t.Roots, t.TopRootRequests)},
		page.Fact{Name: "depth", Value: fmt.Sprintf("at most %d blocks; a leaf lies %.4g deep on average", t.MaxDepth, t.MeanLeafDepth)},
		page.Fact{Name: "branches", Value: fmt.Sprintf("%d nodes have two or more children, at most %d; nodes with any have %.4g on average", t.Branches, t.MaxChildren, t.MeanChildren)},
		page.Fact{Name: "shared", Value: fmt.Sprintf("%s of the nodes, with %s of the references", chart.Format(t.SharedNodeShare, chart.Share), chart.Format(t.SharedReferenceShare, chart.Share))},
	)
}

type set struct {
	name string
	bins []analysis.Bin
}

// histogram draws bins on an axis of ratios; what is 0 lies below it.
func histogram(title, description, label string, unit chart.Unit, sets ...set) *chart.Histogram {
	h := &chart.Histogram{
		Head: chart.Head{Title: title, Description: description},
		X:    chart.Axis{Label: label, Unit: unit, Log: true}, Y: chart.Axis{Label: "number", Zero: true, Whole: true},
	}
	longest := sets[0].bins
	for _, s := range sets {
		if len(s.bins) > len(longest) {
			longest = s.bins
		}
	}
	// From the first bin above 0 that any of them uses.
	from := len(longest)
	for _, s := range sets {
		for i, b := range s.bins {
			if b.From > 0 && b.N > 0 {
				from = min(from, i)
				break
			}
		}
	}
	for _, b := range longest[min(from, len(longest)):] {
		h.Edges = append(h.Edges, b.From)
	}
	if n := len(longest); from < n {
		h.Edges = append(h.Edges, longest[n-1].Below)
	} else {
		h.Edges = []float64{1, 2} // all are 0
	}
	for _, s := range sets {
		c := chart.Counts{Name: s.name, Counts: make([]float64, len(h.Edges)-1)}
		for i, b := range s.bins {
			if i < from {
				c.Below += float64(b.N)
			} else {
				c.Counts[i-from] = float64(b.N)
			}
		}
		h.Sets = append(h.Sets, c)
	}
	return h
}
