package report

import (
	"fmt"
	"path/filepath"

	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/internal/report/page"
	"github.com/kvbench/kvbench/internal/sweep"
)

// sweepPage is the page of a sweep.
func sweepPage(dir string, r *sweep.Result, timelines []*timeline, o Options) *page.Page {
	title := o.Title
	if title == "" {
		title = "Sweep over " + r.AxisName() + ": " + filepath.Base(filepath.Clean(dir))
	}
	p := page.New(title, "A replay at several points of one axis. A sweep shows how figures change along it; whether one variant is slower than another is a question for rounds.")
	sweepVerdict(p, r)
	s := p.Section("Warnings")
	warnings := r.Warnings
	for _, f := range r.Failures() {
		warnings = append(warnings, "no record: "+f)
	}
	labels := map[int64]string{}
	for _, pt := range r.Points {
		labels[pt.Value] = pt.Label
	}
	var trials []trial
	for i := range r.Trials {
		t := &r.Trials[i]
		if rec := r.Record(t); rec != nil {
			label := labels[t.Value]
			trials = append(trials, trial{Group: r.AxisName() + " " + label, Name: fmt.Sprintf("%s %s, run %d", r.AxisName(), label, t.Run), Record: rec})
		}
	}
	addWarnings(s, warnings, trials)
	sweepCurves(p, r)
	p.Section("Trials").Table(validityTable(trials))
	trialSections(p, trials, timelines)
	p.Provenance(
		page.Fact{Name: "source", Value: r.Plan.Source},
		page.Fact{Name: "machine", Value: r.Plan.Machine},
		page.Fact{Name: "flags of the work", Value: quote(r.Plan.PrepareFlags)},
		page.Fact{Name: "flags of replay", Value: quote(r.Plan.ReplayFlags)},
	)
	p.Provenance(provenance(trials)...)
	return p
}

func sweepVerdict(p *page.Page, r *sweep.Result) {
	switch {
	case r.KeepUp != nil && r.KeepUp.WindowNS > 0:
		f := r.KeepUp
		text := fmt.Sprintf("the shortest window that is kept up with is %s, which offers %s block operations (%d of %d trials kept up).",
			chart.Format(float64(f.WindowNS), chart.Nanoseconds), chart.Format(f.Offered, chart.PerSecond), f.KeptUp, f.Trials)
		if f.Reason != "" {
			text += " But: " + f.Reason + "."
		}
		p.Verdict(page.Plain, "KEEPS UP", text)
	case r.KeepUp != nil:
		p.Verdict(page.Doubt, "NOT FOUND", r.KeepUp.Reason+".")
	case r.Knee != nil && r.Knee.LastLabel != "":
		k := r.Knee
		text := fmt.Sprintf("up to %s block operations offered (window %s).", chart.Format(k.Last, chart.PerSecond), k.LastLabel)
		if k.FirstLabel != "" {
			text += fmt.Sprintf(" Not any more at %s (window %s).", chart.Format(k.First, chart.PerSecond), k.FirstLabel)
		} else {
			text += " No point was overloaded: the limit lies above."
		}
		text += fmt.Sprintf(" The most that was achieved anywhere is %s.", chart.Format(k.Most, chart.PerSecond))
		p.Verdict(page.Plain, "KEEPS UP", text)
	case r.Knee != nil:
		p.Verdict(page.Doubt, "NEVER KEPT UP", fmt.Sprintf("even the longest window was too short; the most that was achieved is %s block operations.", chart.Format(r.Knee.Most, chart.PerSecond)))
	default:
		p.Verdict(page.Plain, "SWEEP", fmt.Sprintf("%d points along %s.", len(r.Points), r.AxisName()))
	}
	if gone := r.Unmeasured(); len(gone) > 0 {
		p.Verdict(page.Doubt, "INCOMPLETE", fmt.Sprintf("%d of %d points have no valid trial: %s.", len(gone), len(r.Points), joinSome(gone, 10)))
	}
}

// sweepCurves draws what changes along the axis.
func sweepCurves(p *page.Page, r *sweep.Result) {
	s := p.Section("Along the axis")
	var points []sweep.Point
	for _, pt := range r.Points {
		if pt.Valid > 0 {
			points = append(points, pt)
		}
	}
	if len(points) == 0 {
		s.Missing("No point has a valid trial.")
		return
	}
	window := r.AxisName() == sweep.Window
	x := chart.Axis{Label: r.AxisName(), Log: true}
	at := func(pt *sweep.Point) float64 { return float64(pt.Value) }
	if window {
		x = chart.Axis{Label: "offered block operations per second", Unit: chart.PerSecond, Log: true}
		at = func(pt *sweep.Point) float64 { return pt.Offered }
	}
	line := func(name string, of func(*sweep.Point) float64) chart.Series {
		out := chart.Series{Name: name, Style: chart.LineDot}
		for i := range points {
			if v := of(&points[i]); v > 0 {
				out.X, out.Y = append(out.X, at(&points[i])), append(out.Y, v)
			}
		}
		return out
	}
	rate := &chart.Lines{
		Head: chart.Head{Title: "Offered against achieved", Description: "Block operations per second, medians of the valid trials; the area reaches from the lowest to the highest trial. On the dashed line all that is offered is done; where the curve leaves it, the index stops keeping up."},
		X:    x, Y: chart.Axis{Label: "achieved block operations per second", Unit: chart.PerSecond, Log: true},
		Series: []chart.Series{line("achieved", func(p *sweep.Point) float64 { return p.Achieved }), line("offered", func(p *sweep.Point) float64 { return p.Offered })},
	}
	rate.Series[1].Style = chart.Line
	band := chart.Band{Name: "achieved, lowest to highest trial"}
	for i := range points {
		band.X, band.Low, band.High = append(band.X, at(&points[i])), append(band.Low, points[i].Lowest), append(band.High, points[i].Highest)
	}
	rate.Bands = []chart.Band{band}
	quantile := func(title, about string, of func(*sweep.Point) sweep.Quantiles) chart.Chart {
		return &chart.Lines{
			Head: chart.Head{Title: title, Description: about}, X: x, Y: chart.Axis{Label: "time", Unit: chart.Nanoseconds, Log: true},
			Series: []chart.Series{
				line("p50", func(p *sweep.Point) float64 { return of(p).P50 }),
				line("p99", func(p *sweep.Point) float64 { return of(p).P99 }),
				line("p99.9", func(p *sweep.Point) float64 { return of(p).P999 }),
			},
		}
	}
	s.Charts(rate,
		&chart.Lines{Head: chart.Head{Title: "Done, in windows", Description: "When the last operation was done, as a multiple of the window; up to 1.1 the index kept up."}, X: x, Y: chart.Axis{Label: "windows", Log: true},
			Series: []chart.Series{line("done", func(p *sweep.Point) float64 { return p.Done })}, References: []chart.Reference{{Value: 1.1, Label: "kept up"}}},
		quantile("Query service", "Medians of each trial's quantile.", func(p *sweep.Point) sweep.Quantiles { return p.QueryService }),
		quantile("Query, scheduled to finished", "What a client would wait.", func(p *sweep.Point) sweep.Quantiles { return p.QueryTotal }),
		quantile("Event, scheduled to finished", "How old the index is.", func(p *sweep.Point) sweep.Quantiles { return p.EventTotal }),
		&chart.Lines{Head: chart.Head{Title: "Cost of a block operation", Description: "Time until the last operation was done by block operation, and CPU time of event threads by block; the first is a cost of the index only where it did not keep up."}, X: x, Y: chart.Axis{Label: "time", Unit: chart.Nanoseconds, Log: true},
			Series: []chart.Series{line("time by block operation", func(p *sweep.Point) float64 { return p.NSPerBlockOp }), line("CPU time of event threads by block", func(p *sweep.Point) float64 { return p.EventCPUNS })}},
		&chart.Lines{Head: chart.Head{Title: "Highest resident memory", Description: "Of the process, with the corpus."}, X: x, Y: chart.Axis{Label: "memory", Unit: chart.Bytes, Zero: true},
			Series: []chart.Series{line("memory", func(p *sweep.Point) float64 { return p.PeakRSSBytes })}},
	)
	t := &chart.Table{Caption: "Points", Columns: []chart.Column{{Name: r.AxisName()}, {Name: "trials"}, {Name: "valid"}, {Name: "kept up"},
		{Name: "offered", Unit: chart.PerSecond}, {Name: "achieved", Unit: chart.PerSecond}, {Name: "lowest", Unit: chart.PerSecond}, {Name: "highest", Unit: chart.PerSecond},
		{Name: "done in windows"}, {Name: "query service p50", Unit: chart.Nanoseconds}, {Name: "p99", Unit: chart.Nanoseconds}, {Name: "event scheduled to finished p99", Unit: chart.Nanoseconds}}}
	for _, pt := range r.Points {
		row := []any{pt.Label, pt.Trials, pt.Valid, pt.KeptUp}
		for _, v := range []float64{pt.Offered, pt.Achieved, pt.Lowest, pt.Highest, pt.Done, pt.QueryService.P50, pt.QueryService.P99, pt.EventTotal.P99} {
			if pt.Valid == 0 {
				v = nan
			}
			row = append(row, v)
		}
		t.Rows = append(t.Rows, row)
	}
	s.Table(t)
	if r.Growth != nil {
		g := &chart.Table{Caption: "Growth between neighbours: the exponent e where a figure is proportional to value^e", Columns: []chart.Column{{Name: "from"}, {Name: "to"}, {Name: "time by block operation"}, {Name: "event CPU by block"}, {Name: "query p50"}, {Name: "query p99"}, {Name: "memory"}}}
		at := func(v *float64) float64 {
			if v == nil {
				return nan
			}
			return *v
		}
		for _, x := range r.Growth {
			g.Rows = append(g.Rows, []any{x.From, x.To, at(x.NSPerBlockOp), at(x.EventCPU), at(x.QueryP50), at(x.QueryP99), at(x.PeakRSS)})
		}
		s.Table(g)
	}
}
