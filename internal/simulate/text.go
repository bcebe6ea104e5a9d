package simulate

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/stats"
)

// WriteText writes the result for people: tables for each speed-up with the means
// over the seeds, rankings, the bounds, and what to know about them.
func (r *Result) WriteText(w io.Writer) error {
	o := &r.Options
	var b text.Builder
	b.Line(fmt.Sprintf("%s: %d requests in %d sessions", r.Trace.Name, r.Trace.Requests, r.Trace.Sessions))
	b.Line(fmt.Sprintf("%s of %s of %d tokens, %s, %s", text.Count(o.Workers, "rank"), o.Pools(), o.BlockSize, o.Engine, text.Count(o.Routers, "router")))
	b.Wrap("time model ", fmt.Sprintf("%s: %s, %s; %s", o.Time.Name, o.Time.Model, o.Time.GPU, o.Time.Limits))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	for _, x := range o.SpeedUps {
		if err := r.writeTables(w, x); err != nil {
			return err
		}
	}
	if err := r.writeKnees(w); err != nil {
		return err
	}
	var tail text.Builder
	if len(r.Bounds) > 0 {
		tail.Line("")
		for _, bound := range r.Bounds {
			size := "without a bound"
			if bound.Blocks > 0 {
				size = fmt.Sprintf("%d blocks", bound.Blocks)
			}
			if bound.PromptTokens == 0 {
				tail.Line(fmt.Sprintf("%s (%s): no prompts, so no hits to count", bound.Name, size))
				continue
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

// Pools says how large the ranks' pools are.
func (o *Options) Pools() string {
	if len(o.RankBlocks) == 0 {
		return fmt.Sprintf("%d blocks", o.GPUBlocks)
	}
	return fmt.Sprintf("%d to %d blocks", slices.Min(o.RankBlocks), slices.Max(o.RankBlocks))
}

// runsOf are the runs of one policy at one speed-up, by seed.
type runsOf []*RunResult

// mean returns the mean of a figure over the seeds.
func (r runsOf) mean(of func(run *RunResult) float64) float64 {
	sum := 0.0
	for _, run := range r {
		sum += of(run)
	}
	return sum / float64(len(r))
}

// of is mean for a figure of the requests, after warm-up if there is one.
func (r runsOf) of(of func(f *Figures) float64) float64 {
	return r.mean(func(run *RunResult) float64 { return of(run.Figures()) })
}

// time is of for a time, written.
func (r runsOf) time(of func(f *Figures) float64) string { return span(int64(math.Round(r.of(of)))) }

// policies returns the runs of a speed-up by policy, in their order.
func (r *Result) policies(x float64) []runsOf {
	var out []runsOf
	place := map[string]int{}
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.SpeedUp != x {
			continue
		}
		at, ok := place[run.Policy]
		if !ok {
			at = len(out)
			place[run.Policy] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], run)
	}
	return out
}

// writeTables writes what there is of one speed-up.
func (r *Result) writeTables(w io.Writer, x float64) error {
	all := r.policies(x)
	if len(all) == 0 {
		return nil
	}
	o := &r.Options
	what := "all requests"
	if all[0][0].Steady != nil {
		what = fmt.Sprintf("the first %g%% of the requests left out, but for 'whole'", 100*o.WarmUp)
	}
	seeds := fmt.Sprintf("seed %d", o.Seeds[0])
	if n := len(o.Seeds); n > 1 {
		seeds = fmt.Sprintf("means of %d seeds", n)
	}
	var title text.Builder
	title.Line("")
	title.Wrap("", fmt.Sprintf("speed-up %g, %s; %s", x, seeds, what))
	if _, err := io.WriteString(w, title.String()); err != nil {
		return err
	}
	var t text.Table
	head := []string{"policy", "hit %", "TTFT mean", "TTFT p50", "TTFT p90", "TTFT p99", "E2E mean", "refused"}
	if o.HasSLO() {
		head = append(head, "good %", "good/s")
	}
	head = append(head, "TPOT p50", "TPOT p99", "ITL p99", "queue p99", "req/s", "tokens/s")
	if all[0][0].Steady != nil {
		head = append(head, "whole: hit %", "whole: TTFT mean")
	}
	t.Row(head...)
	for _, p := range all {
		row := []string{p[0].Policy,
			fmt.Sprintf("%.2f", 100*p.of(func(f *Figures) float64 { return f.HitRatio })),
			p.time(func(f *Figures) float64 { return f.TTFT.Mean }),
			p.time(func(f *Figures) float64 { return float64(f.TTFT.P50) }),
			p.time(func(f *Figures) float64 { return float64(f.TTFT.P90) }),
			p.time(func(f *Figures) float64 { return float64(f.TTFT.P99) }),
			p.time(func(f *Figures) float64 { return f.E2E.Mean }),
			count(p.of(func(f *Figures) float64 { return float64(f.Refused + f.Unrouted) }))}
		if o.HasSLO() {
			row = append(row,
				fmt.Sprintf("%.1f", 100*p.of(func(f *Figures) float64 { return f.goodput().Share })),
				fmt.Sprintf("%.2f", p.of(func(f *Figures) float64 { return f.goodput().RequestsPerSecond })))
		}
		row = append(row,
			p.time(func(f *Figures) float64 { return float64(f.TPOT.P50) }),
			p.time(func(f *Figures) float64 { return float64(f.TPOT.P99) }),
			p.time(func(f *Figures) float64 { return float64(f.Gaps.P99) }),
			p.time(func(f *Figures) float64 { return float64(f.Queue.P99) }),
			fmt.Sprintf("%.2f", p.of(func(f *Figures) float64 { return f.RequestsPerSecond })),
			fmt.Sprintf("%.0f", p.of(func(f *Figures) float64 { return f.OutputTokensPerSecond })))
		if p.of(func(f *Figures) float64 { return float64(f.Completed) }) == 0 {
			// Nothing was served: there are counts, but no times or shares.
			for i := range row {
				if i > 0 && head[i] != "refused" && head[i] != "good %" && !strings.HasSuffix(head[i], "/s") {
					row[i] = "-"
				}
			}
		}
		if all[0][0].Steady != nil {
			row = append(row, fmt.Sprintf("%.2f", 100*p.mean(func(r *RunResult) float64 { return r.Whole.HitRatio })),
				span(int64(p.mean(func(r *RunResult) float64 { return r.Whole.TTFT.Mean }))))
		}
		t.Row(row...)
	}
	if err := writeTable(w, &t); err != nil {
		return err
	}
	if err := r.writeRanks(w, all); err != nil {
		return err
	}
	return r.writeComparisons(w, x)
}

// writeRanks writes what the ranks did in the runs of a speed-up.
func (r *Result) writeRanks(w io.Writer, all []runsOf) error {
	if _, err := fmt.Fprintf(w, "\nthe ranks, in the whole run; unevenness of tokens computed in windows of %v\n", time.Duration(all[0][0].Imbalance.WindowNanos)); err != nil {
		return err
	}
	possible, decisions := false, false
	for _, p := range all {
		possible = possible || p[0].Possible != nil && *p[0].Possible != Possible{}
		decisions = decisions || p[0].Decision != nil
	}
	var t text.Table
	head := []string{"policy", "unevenness CV", "max/mean", "busy %", "preempted", "hit again %",
		"resident blocks", "% of room", "dead %", "evicted"}
	if possible {
		head = append(head, "hits % of shared", "hits % of unbounded", "TTFT x oracle")
	}
	if decisions {
		head = append(head, "decision p50", "decision p99")
	}
	t.Row(head...)
	for _, p := range all {
		row := []string{p[0].Policy,
			fmt.Sprintf("%.2f", p.mean(func(r *RunResult) float64 { return r.Imbalance.Variation })),
			fmt.Sprintf("%.2f", p.mean(func(r *RunResult) float64 { return r.Imbalance.MaxOverMean })),
			fmt.Sprintf("%.1f", 100*p.mean(func(r *RunResult) float64 { return r.BusyShare })),
			count(p.mean(func(r *RunResult) float64 { return float64(r.Preemptions) })),
			p.again(),
			fmt.Sprintf("%.0f", p.mean(func(r *RunResult) float64 { return r.ResidentBlocks })),
			fmt.Sprintf("%.1f", 100*p.mean(func(r *RunResult) float64 { return r.ResidentShare })),
			fmt.Sprintf("%.1f", 100*p.mean(func(r *RunResult) float64 { return r.Residency.DeadShare })),
			fmt.Sprintf("%.0f", p.mean(func(r *RunResult) float64 { return float64(r.EvictedBlocks) }))}
		if possible {
			row = append(row,
				share(100*p.mean(func(r *RunResult) float64 { return r.Possible.OfShared }), "%.1f"),
				share(100*p.mean(func(r *RunResult) float64 { return r.Possible.OfUnbounded }), "%.1f"),
				share(p.mean(func(r *RunResult) float64 { return r.Possible.TTFTOfOracle }), "%.2f"))
		}
		if decisions && p[0].Decision == nil {
			row = append(row, "-", "-")
		} else if decisions {
			row = append(row,
				fmt.Sprintf("%dns", int64(p.mean(func(r *RunResult) float64 { return float64(r.Decision.P50) }))),
				fmt.Sprintf("%dns", int64(p.mean(func(r *RunResult) float64 { return float64(r.Decision.P99) }))))
		}
		t.Row(row...)
	}
	return writeTable(w, &t)
}

func writeTable(w io.Writer, t *text.Table) error {
	var b text.Builder
	t.Write(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// again writes the share of the tokens that came from the cache when requests
// were admitted again, "-" if none was.
func (r runsOf) again() string {
	hits := r.mean(func(r *RunResult) float64 { return float64(r.Whole.AgainHitTokens) })
	tokens := r.mean(func(r *RunResult) float64 { return float64(r.Whole.AgainTokens) })
	if tokens == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*hits/tokens)
}

// count writes a mean of counts.
func count(x float64) string {
	if x == math.Trunc(x) {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1f", x)
}

// share writes a share of something that may be missing.
func share(x float64, format string) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf(format, x)
}

// HasSLO says whether there is a limit for goodput.
func (o *Options) HasSLO() bool { return o.SLOTTFTNanos > 0 || o.SLOTPOTNanos > 0 || o.SLOE2ENanos > 0 }

// goodput returns the goodput, nothing if there is none because nothing completed.
func (f *Figures) goodput() Goodput {
	if f.Goodput == nil {
		return Goodput{}
	}
	return *f.Goodput
}

// writeComparisons writes the comparisons and rankings of a speed-up.
func (r *Result) writeComparisons(w io.Writer, x float64) error {
	var b text.Builder
	first := true
	for _, c := range r.Comparisons {
		if c.SpeedUp != x {
			continue
		}
		if first {
			b.Line("")
			b.Line(fmt.Sprintf("against %s at speed-up %g, 95%% intervals over %d groups of requests:", c.Baseline, c.SpeedUp, c.Groups))
			first = false
		}
		b.Line(fmt.Sprintf("  %s", c.Policy))
		b.Line("    TTFT x " + written(c.TTFT, 1, 1, "%.3f"))
		b.Line("    E2E  x " + written(c.E2E, 1, 1, "%.3f"))
		b.Line("    hit  " + written(c.HitRatio, 0, 100, "%+.2f") + " (points of %)")
		if r.Options.HasSLO() {
			b.Line("    good " + written(c.Good, 0, 100, "%+.2f") + " (points of %)")
		}
	}
	for _, k := range r.Rankings {
		if k.SpeedUp != x {
			continue
		}
		b.Line("")
		b.Line(fmt.Sprintf("by %s at speed-up %g:", k.Figure, k.SpeedUp))
		for _, p := range k.Places {
			value := fmt.Sprintf("%.2f%%", 100*p.Value)
			if k.Figure == ByTTFT {
				value = span(int64(p.Value))
			}
			b.Wrap(fmt.Sprintf("  %d. ", p.Place), fmt.Sprintf("%s (%s)%s", p.Policy, value, not(p.NotDistinguishable)))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// not says from which policies one is not distinguishable.
func not(others []string) string {
	if len(others) == 0 {
		return ""
	}
	return ", not distinguishable from " + strings.Join(others, ", ")
}

// writeKnees writes what a search of the load came to.
func (r *Result) writeKnees(w io.Writer) error {
	if len(r.Knees) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\nload at which %g%% of the requests hold the SLO, found to %g%%\n", 100*r.Options.KneeShare, 100*r.Options.KneePrecision); err != nil {
		return err
	}
	var t text.Table
	t.Row("policy", "seed", "carried speed-up", "req/s", "good %", "hit %", "TTFT mean", "broken speed-up", "good %")
	for _, k := range r.Knees {
		at := func(x float64) *KneeStep {
			for i := range k.Steps {
				if k.Steps[i].SpeedUp == x {
					return &k.Steps[i]
				}
			}
			return nil
		}
		row := []string{k.Policy, fmt.Sprint(k.Seed), "none", "-", "-", "-", "-", "none", "-"}
		if s := at(k.Carried); s != nil {
			row[2], row[3] = fmt.Sprintf("%.3g", k.Carried), fmt.Sprintf("%.3g", k.RequestsPerSecond)
			row[4], row[5], row[6] = fmt.Sprintf("%.2f", 100*s.Share), fmt.Sprintf("%.2f", 100*s.HitRatio), span(int64(s.TTFTMeanNanos))
		}
		if s := at(k.Broken); s != nil {
			row[7], row[8] = fmt.Sprintf("%.3g", k.Broken), fmt.Sprintf("%.2f", 100*s.Share)
		}
		t.Row(row...)
	}
	if err := writeTable(w, &t); err != nil {
		return err
	}
	if r.KneeRanking == nil {
		return nil
	}
	var b text.Builder
	b.Line("")
	if none := r.NoneCarried(); none != "" {
		b.Wrap("", none)
		_, err := io.WriteString(w, b.String())
		return err
	}
	b.Line("by the load carried:")
	for _, p := range r.KneeRanking.Places {
		load := "carried no load"
		if p.Most > 0 {
			load = fmt.Sprintf("speed-up %.3g", p.Mean)
		}
		if p.OfOracle > 0 && p.Most > 0 {
			load += fmt.Sprintf(", %.0f%% of the oracle's", 100*p.OfOracle)
		}
		b.Wrap(fmt.Sprintf("  %d. ", p.Place), fmt.Sprintf("%s (%s)%s", p.Policy, load, not(p.NotDistinguishable)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// NoneCarried says that no policy carried any load, and what to do; "" if one did
// or no load was searched for. The oracle may have.
func (r *Result) NoneCarried() string {
	if r.KneeRanking == nil || slices.ContainsFunc(r.KneeRanking.Places, func(p KneePlace) bool { return p.Most > 0 }) {
		return ""
	}
	best := 0.0
	for _, k := range r.Knees {
		for _, s := range k.Steps {
			if k.Policy != oracleName {
				best = max(best, s.Share)
			}
		}
	}
	return fmt.Sprintf("None carried any load, so there is no ranking: at no load tried did %g%% of the requests hold the SLO, and at best %.1f%% did. Relax the SLO or ask for a smaller share.",
		100*r.Options.KneeShare, 100*best)
}

// written writes an interval with what it says; a plus in the format is for the
// estimate alone.
func written(iv stats.Interval, none, scale float64, format string) string {
	if !iv.Ok() {
		return "- (" + string(iv.Absent) + ")"
	}
	end := strings.Replace(format, "+", "", 1)
	return fmt.Sprintf(format+" ["+end+", "+end+"] %s", iv.Estimate*scale, iv.Low*scale, iv.High*scale, Verdict(iv, none))
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
