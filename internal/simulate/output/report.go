package output

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/buildinfo"
	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/internal/report/page"
	"github.com/kvbench/kvbench/internal/simulate"
	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/stats"
)

// writeReport writes the result as a page.
func writeReport(w io.Writer, res *simulate.Result, argv []string) error {
	o := &res.Options
	p := page.New("Comparison of policies", fmt.Sprintf("%s: %d requests in %d sessions on %d mock %s engines, in virtual time.",
		res.Trace.Name, res.Trace.Requests, res.Trace.Sessions, o.Workers, o.Engine))
	verdicts(p, res)
	p.Section("Warnings").Warnings(res.Warnings...)
	for _, x := range o.SpeedUps {
		if all := policiesOf(res, x); len(all) > 0 {
			load(p, res, x, all)
		}
	}
	knees(p, res)
	bounds(p, res)
	p.Section("Time model and its limits").Textf("%s: %s on %s. %s. %s.", o.Time.Name, o.Time.Model, o.Time.GPU, capital(o.Time.Source), capital(o.Time.Limits))
	provenance(p, res, argv)
	return p.Write(w)
}

// policyRuns are the runs of a policy at one speed-up, by seed.
type policyRuns struct {
	name string
	runs []*simulate.RunResult
}

func policiesOf(res *simulate.Result, x float64) []policyRuns {
	var out []policyRuns
	for i := range res.Runs {
		run := &res.Runs[i]
		if run.SpeedUp != x {
			continue
		}
		at := slices.IndexFunc(out, func(p policyRuns) bool { return p.name == run.Policy })
		if at < 0 {
			at = len(out)
			out = append(out, policyRuns{name: run.Policy})
		}
		out[at].runs = append(out[at].runs, run)
	}
	return out
}

func (p *policyRuns) mean(of func(r *simulate.RunResult) float64) float64 {
	sum := 0.0
	for _, r := range p.runs {
		sum += of(r)
	}
	return sum / float64(len(p.runs))
}

// load writes what there is of one speed-up.
func load(p *page.Page, res *simulate.Result, x float64, all []policyRuns) {
	s := p.Section(fmt.Sprintf("Speed-up %g", x))
	if n := len(all[0].runs); n > 1 {
		s.Textf("Figures are means of %d seeds; pictures over time are of seed %d.", n, all[0].runs[0].Seed)
	}
	if w := res.Options.WarmUp; w > 0 {
		s.Textf("The first %g%% of the requests are left out of the figures but where 'whole' is said.", 100*w)
	}
	if f := forest(res, x); len(f.Rows) > 0 {
		s.Charts(f)
	}
	for _, k := range res.Rankings {
		if k.SpeedUp == x {
			s.Table(ranking(&k))
		}
	}
	s.Table(figures(res, all))
	s.Table(ranks(all))
	s.Charts(possible(res, x, all)...)
	s.Charts(overTime(all)...)
	s.Charts(curves(all)...)
	s.Heading("Load and residency of the ranks")
	for _, policy := range all {
		s.Charts(heat(policy.name, policy.runs[0], res)...)
	}
}

// figures is the table of what requests saw.
func figures(res *simulate.Result, all []policyRuns) *chart.Table {
	t := &chart.Table{Caption: "What requests saw", Columns: []chart.Column{{Name: "policy"}}}
	for i := range all {
		t.Rows = append(t.Rows, []any{all[i].name})
	}
	add := func(name string, unit chart.Unit, of func(f *simulate.Figures) float64) {
		t.Columns = append(t.Columns, chart.Column{Name: name, Unit: unit})
		for i := range all {
			t.Rows[i] = append(t.Rows[i], all[i].mean(func(r *simulate.RunResult) float64 { return of(r.Figures()) }))
		}
	}
	add("requests", chart.Plain, func(f *simulate.Figures) float64 { return float64(f.Requests) })
	add("refused or unrouted", chart.Plain, func(f *simulate.Figures) float64 { return float64(f.Refused + f.Unrouted) })
	add("hits", chart.Share, func(f *simulate.Figures) float64 { return f.HitRatio })
	for _, d := range []struct {
		name string
		of   func(f *simulate.Figures) *results.Distribution
	}{
		{"TTFT", func(f *simulate.Figures) *results.Distribution { return &f.TTFT }},
		{"TPOT", func(f *simulate.Figures) *results.Distribution { return &f.TPOT }},
		{"ITL", func(f *simulate.Figures) *results.Distribution { return &f.Gaps }},
		{"longest ITL", func(f *simulate.Figures) *results.Distribution { return &f.MaxGaps }},
		{"E2E", func(f *simulate.Figures) *results.Distribution { return &f.E2E }},
		{"queue", func(f *simulate.Figures) *results.Distribution { return &f.Queue }},
	} {
		add(d.name+" mean", chart.Nanoseconds, func(f *simulate.Figures) float64 { return d.of(f).Mean })
		add("p50", chart.Nanoseconds, func(f *simulate.Figures) float64 { return float64(d.of(f).P50) })
		add("p90", chart.Nanoseconds, func(f *simulate.Figures) float64 { return float64(d.of(f).P90) })
		add("p99", chart.Nanoseconds, func(f *simulate.Figures) float64 { return float64(d.of(f).P99) })
	}
	add("requests/s", chart.Plain, func(f *simulate.Figures) float64 { return f.RequestsPerSecond })
	add("output tokens/s", chart.Plain, func(f *simulate.Figures) float64 { return f.OutputTokensPerSecond })
	if res.Options.HasSLO() {
		add("hold the SLO", chart.Share, func(f *simulate.Figures) float64 {
			if f.Goodput == nil {
				return 0
			}
			return f.Goodput.Share
		})
		add("good/s", chart.Plain, func(f *simulate.Figures) float64 {
			if f.Goodput == nil {
				return 0
			}
			return f.Goodput.RequestsPerSecond
		})
	}
	if res.Options.WarmUp > 0 {
		for _, whole := range []struct {
			name string
			unit chart.Unit
			of   func(f *simulate.Figures) float64
		}{
			{"whole: hits", chart.Share, func(f *simulate.Figures) float64 { return f.HitRatio }},
			{"whole: TTFT mean", chart.Nanoseconds, func(f *simulate.Figures) float64 { return f.TTFT.Mean }},
			{"whole: E2E mean", chart.Nanoseconds, func(f *simulate.Figures) float64 { return f.E2E.Mean }},
		} {
			t.Columns = append(t.Columns, chart.Column{Name: whole.name, Unit: whole.unit})
			for i := range all {
				t.Rows[i] = append(t.Rows[i], all[i].mean(func(r *simulate.RunResult) float64 { return whole.of(&r.Whole) }))
			}
		}
	}
	return t
}

// ranks is the table of what the ranks did.
func ranks(all []policyRuns) *chart.Table {
	t := &chart.Table{Caption: "What the ranks did, in the whole run", Columns: []chart.Column{{Name: "policy"}}}
	for i := range all {
		t.Rows = append(t.Rows, []any{all[i].name})
	}
	add := func(name string, unit chart.Unit, of func(r *simulate.RunResult) float64) {
		t.Columns = append(t.Columns, chart.Column{Name: name, Unit: unit})
		for i := range all {
			t.Rows[i] = append(t.Rows[i], all[i].mean(of))
		}
	}
	add("unevenness (CV)", chart.Plain, func(r *simulate.RunResult) float64 { return r.Imbalance.Variation })
	add("most by mean", chart.Plain, func(r *simulate.RunResult) float64 { return r.Imbalance.MaxOverMean })
	add("busy", chart.Share, func(r *simulate.RunResult) float64 { return r.BusyShare })
	add("resident blocks", chart.Plain, func(r *simulate.RunResult) float64 { return r.ResidentBlocks })
	add("of the pools", chart.Share, func(r *simulate.RunResult) float64 { return r.ResidentShare })
	add("dead", chart.Share, func(r *simulate.RunResult) float64 { return r.Residency.DeadShare })
	add("evicted blocks", chart.Plain, func(r *simulate.RunResult) float64 { return float64(r.EvictedBlocks) })
	add("preemptions", chart.Plain, func(r *simulate.RunResult) float64 { return float64(r.Preemptions) })
	add("hits when admitted again", chart.Share, func(r *simulate.RunResult) float64 {
		if r.Whole.AgainTokens == 0 {
			return math.NaN()
		}
		return float64(r.Whole.AgainHitTokens) / float64(r.Whole.AgainTokens)
	})
	add("events lost", chart.Plain, func(r *simulate.RunResult) float64 { return float64(r.EventsLost) })
	if all[0].runs[0].Decision != nil {
		for _, q := range []struct {
			name string
			of   func(d *results.Distribution) int64
		}{
			{"decision p50", func(d *results.Distribution) int64 { return d.P50 }},
			{"decision p99", func(d *results.Distribution) int64 { return d.P99 }},
		} {
			add(q.name, chart.Nanoseconds, func(r *simulate.RunResult) float64 {
				if r.Decision == nil {
					return math.NaN()
				}
				return float64(q.of(r.Decision))
			})
		}
	}
	t.Note = "Dead: the share of the time that blocks were in a cache after the last request that had them had ended."
	return t
}

func ranking(k *simulate.Ranking) *chart.Table {
	unit := chart.Share
	if k.Figure == simulate.ByTTFT {
		unit = chart.Nanoseconds
	}
	t := &chart.Table{
		Caption: "Ranking by " + k.Figure,
		Columns: []chart.Column{{Name: "place"}, {Name: "policy"}, {Name: k.Figure, Unit: unit}, {Name: "not distinguishable from"}},
		Note:    fmt.Sprintf("Each pair is compared at a level of %.3f, so that all together hold with 95%%.", k.Level),
	}
	for _, p := range k.Places {
		t.Rows = append(t.Rows, []any{p.Place, p.Policy, p.Value, strings.Join(p.NotDistinguishable, ", ")})
	}
	return t
}

// forest shows the ratios of the comparisons.
func forest(res *simulate.Result, x float64) *chart.Forest {
	f := &chart.Forest{}
	for _, c := range res.Comparisons {
		if c.SpeedUp != x {
			continue
		}
		f.Head = chart.Head{
			Title:       fmt.Sprintf("Times against %s at speed-up %g", c.Baseline, x),
			Description: fmt.Sprintf("Mean TTFT and E2E of each policy by those of %s on the same arrivals, with 95%% intervals of a block bootstrap over %d groups of requests and %s. Below 1 is better.", c.Baseline, c.Groups, text.Count(c.Seeds, "seed")),
		}
		for _, figure := range []struct {
			name string
			iv   stats.Interval
		}{{"TTFT", c.TTFT}, {"E2E", c.E2E}} {
			r := chart.ForestRow{Label: c.Policy + " " + figure.name, Estimate: figure.iv.Estimate, Low: figure.iv.Low, High: figure.iv.High}
			switch {
			case !figure.iv.Ok():
				r.Low, r.High, r.Note = math.NaN(), math.NaN(), figure.iv.Explain()
				if figure.iv.Estimate == 0 {
					r.Estimate = math.NaN()
				}
			case figure.iv.Contains(1):
				r.Note = "not distinguishable"
			case figure.iv.Estimate < 1:
				r.Tone = chart.Better
			default:
				r.Tone = chart.Worse
			}
			f.Rows = append(f.Rows, r)
		}
	}
	return f
}

// possible sets hits against those of the bounds.
func possible(res *simulate.Result, x float64, all []policyRuns) []chart.Chart {
	b := &chart.Bars{
		Head: chart.Head{
			Title:       fmt.Sprintf("Hits against what is possible at speed-up %g", x),
			Description: "Share of the prompt tokens of the whole run that came from a cache, by policy, beside caches without engines that get the requests one by one.",
		},
		X: chart.Axis{Label: "share of prompt tokens", Unit: chart.Share}, Kind: []string{"hits"},
	}
	for i := range all {
		b.Rows = append(b.Rows, chart.Bar{Label: all[i].name, Parts: []float64{all[i].mean(func(r *simulate.RunResult) float64 { return r.Whole.HitRatio })}})
	}
	for _, bound := range res.Bounds {
		b.Rows = append(b.Rows, chart.Bar{Label: bound.Name, Parts: []float64{bound.HitRatio}})
	}
	return []chart.Chart{b}
}

// overTime shows the first seed's run of each policy over virtual time.
func overTime(all []policyRuns) []chart.Chart {
	x := chart.Axis{Label: "virtual time of arrival", Unit: chart.Seconds}
	hits := &chart.Lines{
		Head: chart.Head{Title: "Hit rate over time", Description: "Share of the prompt tokens from the cache, of the requests that arrived in each window."},
		X:    x, Y: chart.Axis{Label: "share of prompt tokens", Unit: chart.Share},
	}
	ttft := &chart.Lines{
		Head: chart.Head{Title: "TTFT over time", Description: "Mean time to the first token, of the requests that arrived in each window."},
		X:    x, Y: chart.Axis{Label: "mean TTFT", Unit: chart.Nanoseconds},
	}
	for i := range all {
		s := all[i].runs[0].Series
		if s == nil {
			return nil
		}
		h := chart.Series{Name: all[i].name, Style: chart.Line, Group: i}
		d := h
		for k := range s.Requests {
			at := (float64(k) + 0.5) * float64(s.WindowNanos) / 1e9
			hit, mean := math.NaN(), math.NaN()
			if s.PromptTokens[k] > 0 {
				hit = float64(s.HitTokens[k]) / float64(s.PromptTokens[k])
			}
			if s.Completed[k] > 0 {
				mean = float64(s.TTFTNanos[k]) / float64(s.Completed[k])
			}
			h.X, h.Y = append(h.X, at), append(h.Y, hit)
			d.X, d.Y = append(d.X, at), append(d.Y, mean)
		}
		hits.Groups, hits.Series = append(hits.Groups, all[i].name), append(hits.Series, h)
		ttft.Groups, ttft.Series = append(ttft.Groups, all[i].name), append(ttft.Series, d)
	}
	return []chart.Chart{hits, ttft}
}

// curves shows the distributions of the first seed's run of each policy.
func curves(all []policyRuns) []chart.Chart {
	var out []chart.Chart
	for _, c := range []struct {
		title, label string
		log          bool
		of           func(c *simulate.Curves) []int64
	}{
		{"Distribution of TTFT", "TTFT", true, func(c *simulate.Curves) []int64 { return c.TTFT }},
		{"Distribution of TPOT", "TPOT", true, func(c *simulate.Curves) []int64 { return c.TPOT }},
		{"Distribution of E2E", "E2E", true, func(c *simulate.Curves) []int64 { return c.E2E }},
		{"Distribution of queue times", "queue time", false, func(c *simulate.Curves) []int64 { return c.Queue }},
	} {
		l := &chart.Lines{
			Head: chart.Head{Title: c.title, Description: "Share of the requests whose " + c.label + " is at most that, by percentiles."},
			X:    chart.Axis{Label: c.label, Unit: chart.Nanoseconds, Log: c.log}, Y: chart.Axis{Label: "share of requests", Unit: chart.Share},
		}
		for i := range all {
			s := chart.Series{Name: all[i].name, Style: chart.Step, Group: i}
			if curves := all[i].runs[0].Figures().Curves; curves != nil {
				for k, ns := range c.of(curves) {
					s.X, s.Y = append(s.X, float64(ns)), append(s.Y, float64(k)/100)
				}
			}
			l.Groups, l.Series = append(l.Groups, s.Name), append(l.Series, s)
		}
		out = append(out, l)
	}
	return out
}

// heat shows the ranks of a run over time.
func heat(policy string, run *simulate.RunResult, res *simulate.Result) []chart.Chart {
	s := run.Series
	if s == nil || len(s.Computed) == 0 || len(s.Computed[0]) == 0 || run.EndNanos == 0 {
		return nil
	}
	n := len(s.Computed[0])
	// All windows are as long but for the last one, which the picture stretches.
	to := float64(n) * float64(s.WindowNanos) / 1e9
	work := &chart.Heat{
		Head: chart.Head{Title: "Tokens computed by rank: " + policy, Description: "Tokens that each rank computed in each window of virtual time. Rows that differ in shade are uneven load."},
		X:    chart.Axis{Label: "virtual time", Unit: chart.Seconds}, To: to, Unit: chart.Plain,
	}
	resident := &chart.Heat{
		Head: chart.Head{Title: "Pool in use by rank: " + policy, Description: "Distinct blocks in the cache of each rank at the end of each window, as a share of its pool."},
		X:    chart.Axis{Label: "virtual time", Unit: chart.Seconds}, To: to, Unit: chart.Share,
	}
	for rank := range s.Computed {
		pool := float64(res.Options.GPUBlocks)
		if len(res.Options.RankBlocks) > 0 {
			pool = float64(res.Options.RankBlocks[rank])
		}
		w, r := make([]float64, n), make([]float64, n)
		for k := range n {
			w[k], r[k] = float64(s.Computed[rank][k]), float64(s.Resident[rank][k])/pool
		}
		name := "rank " + strconv.Itoa(rank)
		work.Rows, work.Values = append(work.Rows, name), append(work.Values, w)
		resident.Rows, resident.Values = append(resident.Rows, name), append(resident.Values, r)
	}
	return []chart.Chart{work, resident}
}

// knees writes what a search of the load came to.
func knees(p *page.Page, res *simulate.Result) {
	if len(res.Knees) == 0 {
		return
	}
	s := p.Section("Load that each policy carries")
	s.Textf("The highest load found at which %g%% of the requests hold the SLO, to a precision of %g%%.", 100*res.Options.KneeShare, 100*res.Options.KneePrecision)
	t := &chart.Table{Caption: "Loads carried, by policy and seed", Columns: []chart.Column{
		{Name: "policy"}, {Name: "seed"}, {Name: "carried speed-up"}, {Name: "requests/s"}, {Name: "broken speed-up"}, {Name: "loads tried"},
	}, Note: "0: the search found none."}
	l := &chart.Lines{
		Head: chart.Head{Title: "Share of the requests that hold the SLO", Description: "By the load, for every load that the search tried."},
		X:    chart.Axis{Label: "speed-up", Log: true}, Y: chart.Axis{Label: "share of requests", Unit: chart.Share},
		References: []chart.Reference{{Value: res.Options.KneeShare, Label: "carried"}},
	}
	for _, k := range res.Knees {
		t.Rows = append(t.Rows, []any{k.Policy, strconv.FormatUint(k.Seed, 10), k.Carried, k.RequestsPerSecond, k.Broken, len(k.Steps)})
		group := slices.Index(l.Groups, k.Policy)
		if group < 0 {
			group = len(l.Groups)
			l.Groups = append(l.Groups, k.Policy)
		}
		steps := slices.Clone(k.Steps)
		slices.SortFunc(steps, func(a, b simulate.KneeStep) int {
			if a.SpeedUp < b.SpeedUp {
				return -1
			}
			return 1
		})
		line := chart.Series{Name: fmt.Sprintf("%s, seed %d", k.Policy, k.Seed), Style: chart.LineDot, Group: group}
		for _, step := range steps {
			line.X, line.Y = append(line.X, step.SpeedUp), append(line.Y, step.Share)
		}
		l.Series = append(l.Series, line)
	}
	s.Table(t)
	if none := res.NoneCarried(); none != "" {
		s.Text(none)
	} else if res.KneeRanking != nil {
		order := &chart.Table{Caption: "Ranking by the load carried", Columns: []chart.Column{
			{Name: "place"}, {Name: "policy"}, {Name: "mean speed-up"}, {Name: "least"}, {Name: "most"}, {Name: "of the oracle's", Unit: chart.Share}, {Name: "not distinguishable from"},
		}, Note: "One is before another if with every seed it carries what breaks the other."}
		for _, k := range res.KneeRanking.Places {
			of := math.NaN()
			if k.OfOracle > 0 {
				of = k.OfOracle
			}
			order.Rows = append(order.Rows, []any{k.Place, k.Policy, k.Mean, k.Least, k.Most, of, strings.Join(k.NotDistinguishable, ", ")})
		}
		s.Table(order)
	}
	s.Charts(l)
}

// bounds writes the caches without engines.
func bounds(p *page.Page, res *simulate.Result) {
	if len(res.Bounds) == 0 {
		return
	}
	s := p.Section("Caches without engines")
	s.Text("All requests one after the other, in the order of arrival, each with its answer: no policy with these ranks can hit much more than one cache of their size, and none more than a cache without a bound.")
	t := &chart.Table{Caption: "Hits of caches without engines", Columns: []chart.Column{{Name: "cache"}, {Name: "blocks"}, {Name: "hits", Unit: chart.Share}}}
	for _, b := range res.Bounds {
		blocks := "no bound"
		if b.Blocks > 0 {
			blocks = strconv.Itoa(b.Blocks)
		}
		t.Rows = append(t.Rows, []any{b.Name, blocks, b.HitRatio})
	}
	s.Table(t)
}

// provenance says where all this comes from.
func provenance(p *page.Page, res *simulate.Result, argv []string) {
	o, b := &res.Options, buildinfo.Read()
	p.Provenance(
		page.Fact{Name: "command", Value: strings.Join(argv, " ")},
		page.Fact{Name: "kvbench", Value: strings.TrimSpace(b.Version + " " + b.Commit)},
		page.Fact{Name: "trace", Value: res.Trace.Name + ", sha256 " + res.Trace.SHA256},
		page.Fact{Name: "ranks", Value: fmt.Sprintf("%d, %s, blocks of %d tokens, %s", o.Workers, o.Pools(), o.BlockSize, text.Count(o.Routers, "router"))},
		page.Fact{Name: "time model", Value: o.Time.Formula},
		page.Fact{Name: "delays", Value: fmt.Sprintf("events %v, ends %v; events lost %g", time.Duration(o.EventDelayNanos), time.Duration(o.LoadDelayNanos), o.EventLoss)},
		page.Fact{Name: "policies", Value: strings.Join(o.Policies, "; ")},
	)
	if o.Approximate != "" {
		p.Provenance(page.Fact{Name: "approximate", Value: o.Approximate})
	}
	if o.HasSLO() {
		var limits []string
		for _, l := range []struct {
			name string
			ns   int64
		}{{"TTFT", o.SLOTTFTNanos}, {"TPOT", o.SLOTPOTNanos}, {"E2E", o.SLOE2ENanos}} {
			if l.ns > 0 {
				limits = append(limits, l.name+" "+time.Duration(l.ns).String())
			}
		}
		p.Provenance(page.Fact{Name: "SLO", Value: strings.Join(limits, ", ")})
	}
}

// capital makes a sentence of a phrase.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
