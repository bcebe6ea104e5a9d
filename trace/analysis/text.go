package analysis

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/trace"
)

// WriteText writes the description for people, at most 80 columns wide.
func (info *Info) WriteText(w io.Writer, src trace.Source) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("trace", "%s, %d bytes", src.Name, src.Bytes)
	row("sha256", "%s", src.SHA256)
	how, units, _ := strings.Cut(strings.TrimPrefix(src.Notes[0], "read as "), ": ")
	row("format", "%s", how)
	row("", "%s", units)
	row("requests", "%d in %d sessions", info.Requests, info.Sessions)
	row("span", "%s, %d distinct arrival times", duration(info.SpanMS), info.DistinctArrivalTimes)
	if info.SpanMS > 0 {
		row("gaps", "ms: %s, max %s", info.Gaps.text(), short(info.Gaps.Max))
	}
	for i, b := range info.Burstiness {
		name := ""
		if i == 0 {
			name = "bursts"
		}
		row(name, "in %s: at most %.4g/s, %.3g%% empty, variance/mean %.4g",
			duration(b.WindowMS), b.PeakPerSecond, 100*b.EmptyShare, b.Dispersion)
	}
	row("blocks", "%d references to %d distinct blocks of %d tokens", info.BlockReferences, info.DistinctBlocks, info.BlockSize)
	row("repeated", "%d of the distinct blocks; at most %d blocks in a request", info.RepeatedBlocks, info.MaxRequestBlocks)
	for _, l := range []struct {
		name string
		trace.LengthInfo
	}{{"input", info.Input}, {"output", info.Output}} {
		row(l.name, "tokens: mean %.2f, p50 %d, p90 %d, p99 %d, max %d", l.MeanTokens, l.P50Tokens, l.P90Tokens, l.P99Tokens, l.MaxTokens)
	}
	if info.Turns.Max > 1 {
		row("turns", "of a session: %s, max %s", info.Turns.text(), short(info.Turns.Max))
		row("delays", "ms before later turns: %s", info.Delays.text())
	}
	row("reuse", "%.3f%% of block references and %.3f%% of input tokens hit", 100*info.PrefixHitBlockShare, 100*info.PrefixHitTokenShare)
	row("", "an unbounded prefix cache")
	if d := info.ReuseDistance; d.N > 0 {
		row("", "blocks used in between: %s", d.text())
	}
	name := "LRU hits"
	for _, c := range info.Caches {
		row(name, "%d blocks: %d of %d references (%.2f%%), %.2f%% of tokens", c.CacheBlocks, c.Hits, c.References, 100*c.HitShare, 100*c.HitTokenShare)
		name = ""
	}
	if half, ok := info.blocksFor(0.5); ok && len(info.Caches) == 0 {
		most, _ := info.blocksFor(0.99)
		row(name, "half of the unbounded cache's with %d blocks, 99%% with %d", half, most)
		name = ""
	}
	if n := info.WarmUpRequests; n > 0 {
		row(name, "without the first %d requests, which fill the cache", n)
	}
	if t := info.Tree; t.Nodes > 0 {
		row("prefixes", "tree of %d nodes and %d first blocks, at most %d deep", t.Nodes, t.Roots, t.MaxDepth)
		row("", "%.3g%% of the nodes are shared, with %.3g%% of the references", 100*t.SharedNodeShare, 100*t.SharedReferenceShare)
		row("", "%d branch, into at most %d; %d requests begin alike", t.Branches, t.MaxChildren, t.TopRootRequests)
	}
	if src.Generator != nil {
		row("generated", "yes; --json shows the parameters")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	var b text.Builder
	for _, note := range src.Notes[1:] {
		b.Wrap("note: ", note)
	}
	for _, warning := range src.Warnings {
		b.Wrap("warning: ", warning)
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", b.String(), info.Plot(80))
	return err
}

// blocksFor returns the least size in the curve that hits that share of what an
// unbounded cache hits.
func (info *Info) blocksFor(share float64) (int, bool) {
	if len(info.HitCurve) == 0 {
		return 0, false
	}
	most := info.HitCurve[len(info.HitCurve)-1].Hits
	for _, h := range info.HitCurve {
		if h.Hits > 0 && float64(h.Hits) >= share*float64(most) {
			return h.CacheBlocks, true
		}
	}
	return 0, false
}

func (d *Distribution) text() string {
	return fmt.Sprintf("mean %s, p50 %s, p90 %s, p99 %s", short(d.Mean), short(d.P50), short(d.P90), short(d.P99))
}

func duration(ms float64) string {
	const day = 86_400_000
	if ms >= 30*day {
		return fmt.Sprintf("%.3g days", ms/day)
	}
	return time.Duration(ms * 1e6).Round(time.Millisecond).String()
}

// WriteText writes the comparison for people, at most 80 columns wide. The names are
// those of the traces.
func (c *Comparison) WriteText(w io.Writer, nameA, nameB string) error {
	var b text.Builder
	for _, side := range []struct {
		letter, name string
		Side
	}{{"A", nameA, c.A}, {"B", nameB, c.B}} {
		rate := "all at once"
		if side.SpanMS > 0 {
			rate = fmt.Sprintf("%.4g/s for %s", side.RequestsPerSecond, duration(side.SpanMS))
		}
		b.Wrap(side.letter+"  ", fmt.Sprintf("%s: %d requests in %d sessions, %s", side.name, side.Requests, side.Sessions, rate))
	}
	b.Line("")
	values := text.Table{Left: []int{1}}
	values.Row("", "", "n", "mean", "p10", "p50", "p90", "p99")
	distances := text.Table{}
	distances.Row("", "KS", "halves of A", "halves of B", "distance", "of A's mean")
	var notes []string
	for _, m := range c.Metrics {
		for i, d := range []Distribution{m.A, m.B} {
			cells := []string{m.Name, "A", fmt.Sprint(d.N)}
			switch {
			case i > 0:
				cells[1] = "B"
			case m.Unit != m.Name:
				cells[0] += ", " + m.Unit
			}
			for _, v := range []float64{d.Mean, d.P10, d.P50, d.P90, d.P99} {
				if d.N == 0 {
					cells = append(cells, "-")
					continue
				}
				cells = append(cells, short(v))
			}
			if i > 0 {
				cells[0] = ""
			}
			values.Row(cells...)
		}
		cells := []string{m.Name, "-", "-", "-", "-", "-"}
		for i, v := range []*float64{m.KS, m.HalvesA, m.HalvesB} {
			if v != nil {
				cells[1+i] = fmt.Sprintf("%.3f", *v)
			}
		}
		if m.Wasserstein != nil {
			cells[4] = short(*m.Wasserstein) + " " + m.Unit
		}
		if m.WassersteinRelative != nil {
			cells[5] = fmt.Sprintf("%.1f%%", 100**m.WassersteinRelative)
		}
		distances.Row(cells...)
		if m.Why != "" {
			notes = append(notes, m.Name+": "+m.Why)
		}
	}
	values.Write(&b)
	b.Line("")
	distances.Write(&b)
	b.Line("")
	b.Line("share of input tokens that a cache hits")
	var caches text.Table
	caches.Row("its tokens", "A", "B")
	for _, p := range c.Caches {
		caches.Row(fmt.Sprint(p.Tokens), percent(p.A), percent(p.B))
	}
	caches.Row("unbounded", percent(c.A.HitTokenShare), percent(c.B.HitTokenShare))
	caches.Write(&b)
	b.Line("")
	b.Wrap("", "KS is from 0 (alike) to 1. Halves is the KS of the first and second half of a trace, how far it is from itself; there is no p, as requests depend on each other. Distance is how far values move on average to become those of the other trace.")
	for _, n := range append(notes, c.Notes...) {
		b.Wrap("note: ", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func percent(share float64) string { return fmt.Sprintf("%.2f%%", 100*share) }

// short writes a number in few characters.
func short(v float64) string {
	switch {
	case v >= 1e7:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}
