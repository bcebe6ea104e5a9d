package simulate

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/stats"
)

// WriteText writes the result for people: a table for each speed-up and seed, the
// bounds, and what to know about them.
func (r *Result) WriteText(w io.Writer) error {
	o := &r.Options
	var b text.Builder
	b.Line(fmt.Sprintf("%s: %d requests in %d sessions", r.Trace.Name, r.Trace.Requests, r.Trace.Sessions))
	b.Line(fmt.Sprintf("%d ranks of %d blocks of %d tokens, %s, %d router(s)", o.Workers, o.GPUBlocks, o.BlockSize, o.Engine, o.Routers))
	b.Wrap("time model ", fmt.Sprintf("%s: %s, %s; %s", o.Time.Name, o.Time.Model, o.Time.GPU, o.Time.Limits))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	for i := range r.Runs {
		if i > 0 && r.Runs[i].SpeedUp == r.Runs[i-1].SpeedUp && r.Runs[i].Seed == r.Runs[i-1].Seed {
			continue
		}
		if err := r.writeTable(w, i); err != nil {
			return err
		}
	}
	var tail text.Builder
	for i, c := range r.Comparisons {
		if i == 0 || c.SpeedUp != r.Comparisons[i-1].SpeedUp {
			tail.Line("")
			tail.Line(fmt.Sprintf("against %s at speed-up %g, 95%% intervals over %d groups of requests:", c.Baseline, c.SpeedUp, c.Groups))
		}
		tail.Line(fmt.Sprintf("  %s", c.Policy))
		tail.Line("    TTFT x " + written(c.TTFT, 1, 1, "%.3f"))
		tail.Line("    E2E  x " + written(c.E2E, 1, 1, "%.3f"))
		tail.Line("    hit  + " + written(c.HitRatio, 0, 100, "%.2f") + " (points of %)")
	}
	if len(r.Bounds) > 0 {
		tail.Line("")
		for _, bound := range r.Bounds {
			size := "without a bound"
			if bound.Blocks > 0 {
				size = fmt.Sprintf("%d blocks", bound.Blocks)
			}
			tail.Line(fmt.Sprintf("%s (%s), requests one by one: hit %.2f%%", bound.Name, size, 100*bound.HitRatio))
		}
	}
	for _, warning := range r.Warnings {
		tail.Wrap("warning: ", warning)
	}
	_, err := io.WriteString(w, tail.String())
	return err
}

// writeTable writes the runs of one speed-up and seed, from run first on.
func (r *Result) writeTable(w io.Writer, first int) error {
	f := &r.Runs[first]
	what := "all requests"
	if f.Steady != nil {
		what = fmt.Sprintf("the first %g%% of the requests left out", 100*r.Options.WarmUp)
	}
	if _, err := fmt.Fprintf(w, "\nspeed-up %g, seed %d; %s\n", f.SpeedUp, f.Seed, what); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "policy\thit %\tTTFT mean\tp50\tp99\tTPOT p50\tp99\tITL p99\tE2E mean\tqueue p99\treq/s\ttokens/s\tunevenness\tpreempted\trefused\t")
	if f.Whole.Goodput != nil {
		fmt.Fprint(t, "good %\t")
	}
	fmt.Fprintln(t)
	for i := first; i < len(r.Runs) && r.Runs[i].SpeedUp == f.SpeedUp && r.Runs[i].Seed == f.Seed; i++ {
		run := &r.Runs[i]
		g := run.Steady
		if g == nil {
			g = &run.Whole
		}
		fmt.Fprintf(t, "%s\t%.2f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t%.0f\t%.2f\t%d\t%d\t", run.Policy, 100*g.HitRatio,
			span(int64(g.TTFT.Mean)), span(g.TTFT.P50), span(g.TTFT.P99), span(g.TPOT.P50), span(g.TPOT.P99), span(g.Gaps.P99),
			span(int64(g.E2E.Mean)), span(g.Queue.P99), g.RequestsPerSecond, g.OutputTokensPerSecond, run.Imbalance.Variation,
			g.Preemptions, g.Refused+g.Unrouted)
		if g.Goodput != nil {
			fmt.Fprintf(t, "%.1f\t", 100*g.Goodput.Share)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// written writes an interval with what it says.
func written(iv stats.Interval, none, scale float64, format string) string {
	if !iv.Ok() {
		return "- (" + string(iv.Absent) + ")"
	}
	number := func(x float64) string { return fmt.Sprintf(format, x*scale) }
	return fmt.Sprintf("%s [%s, %s] %s", number(iv.Estimate), number(iv.Low), number(iv.High), verdict(iv, none))
}

// span writes a duration with three or four digits.
func span(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d >= 100*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
