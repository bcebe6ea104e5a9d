package report

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/internal/report/page"
	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/stats"
)

// trial is a record with what it is compared by.
type trial struct {
	Group  string // variant, or point of a sweep; trials of one look alike
	Name   string // of this trial
	Round  int    // 0: it has none
	Record *results.Record
}

var nan = math.NaN()

// valid returns the trials that measured something.
func valid(trials []trial) []trial {
	var out []trial
	for _, t := range trials {
		if t.Record.Validity.Valid {
			out = append(out, t)
		}
	}
	return out
}

// groups returns the names of groups in the order in which they come.
func groups(trials []trial) []string {
	var out []string
	for _, t := range trials {
		if !slices.Contains(out, t.Group) {
			out = append(out, t.Group)
		}
	}
	return out
}

func ofGroup(trials []trial, name string) []trial {
	var out []trial
	for _, t := range trials {
		if t.Group == name {
			out = append(out, t)
		}
	}
	return out
}

// values are those of a figure over trials, without those below 0, which are not
// known.
func values(trials []trial, of func(*results.Record) float64) []float64 {
	var out []float64
	for _, t := range trials {
		if v := of(t.Record); v >= 0 {
			out = append(out, v)
		}
	}
	return out
}

// median is NaN without values.
func median(v []float64) float64 {
	if len(v) == 0 {
		return nan
	}
	return stats.Median(v)
}

func least(v []float64) float64 {
	if len(v) == 0 {
		return nan
	}
	return slices.Min(v)
}

func most(v []float64) float64 {
	if len(v) == 0 {
		return nan
	}
	return slices.Max(v)
}

// latencies are the distributions of a record.
var latencies = []struct {
	name  string
	about string
	of    func(*results.Record) *results.Distribution
}{
	{"Query service", "From the start of a lookup, or of a selection with a policy, to its end.", func(r *results.Record) *results.Distribution { return &r.Queries.Service }},
	{"Query lookup", "The lookup in the index, the first part of the service.", func(r *results.Record) *results.Distribution { return &r.Queries.Lookup }},
	{"Query selection", "The choice of a rank by the policy, after the lookup.", func(r *results.Record) *results.Distribution { return &r.Queries.Selection }},
	{"Query queue wait", "From the hand-over of a query to the start of its service.", func(r *results.Record) *results.Distribution { return &r.Queries.QueueWait }},
	{"Query, scheduled to finished", "From the deadline of a query to its answer: what a client would wait, late issuing included.", func(r *results.Record) *results.Distribution { return &r.Queries.ScheduledToFinished }},
	{"Event, accepted to finished", "From the hand-over of a KV event until it was applied.", func(r *results.Record) *results.Distribution { return &r.Events.AcceptedToFinished }},
	{"Event, scheduled to finished", "From the deadline of a KV event until it was applied: how old the index is.", func(r *results.Record) *results.Distribution { return &r.Events.ScheduledToFinished }},
	{"Query issue lag", "From the deadline of a query to its hand-over: how late the replay itself was.", func(r *results.Record) *results.Distribution { return &r.Queries.IssueLag }},
	{"Event issue lag", "From the deadline of a KV event to its hand-over.", func(r *results.Record) *results.Distribution { return &r.Events.IssueLag }},
}

// quantiles are those that a record has.
var quantiles = []struct {
	share float64
	name  string
	of    func(*results.Distribution) int64
}{
	{0.5, "p50", func(d *results.Distribution) int64 { return d.P50 }},
	{0.9, "p90", func(d *results.Distribution) int64 { return d.P90 }},
	{0.99, "p99", func(d *results.Distribution) int64 { return d.P99 }},
	{0.999, "p99.9", func(d *results.Distribution) int64 { return d.P999 }},
}

// latencySection draws a curve of quantiles for each group.
func latencySection(p *page.Page, all []trial) {
	s := p.Section("Latency")
	trials := valid(all)
	if len(trials) == 0 {
		s.Missing("No trial is valid, so there is no latency to show.")
		return
	}
	late := 0
	for _, t := range trials {
		if !t.Record.Validity.KeptUp {
			late++
		}
	}
	s.Text("A record holds the median, the 90%, 99% and 99.9% quantile and the maximum of each latency, not every sample, so the curves join these. A line is the median of a quantile over the valid trials, the area around it (drawn for up to three) reaches from the lowest to the highest trial. The maximum stands at the share that one sample in the trial has. Both axes are logarithmic.")
	if late > 0 {
		s.Textf("%d of %d valid trials did not keep up with the load: their waiting times are those of a queue that grew until the end, and say how long the overload lasted.", late, len(trials))
	}
	names := groups(trials)
	var charts []chart.Chart
	var empty []string
	for _, l := range latencies {
		c := &chart.Lines{
			Head: chart.Head{Title: l.name, Description: l.about},
			X:    chart.Axis{Label: "share of samples that took no longer", Unit: chart.Share, Tail: true},
			Y:    chart.Axis{Label: "time", Unit: chart.Nanoseconds, Log: true},
		}
		for _, name := range names {
			line := chart.Series{Name: name, Style: chart.LineDot}
			band := chart.Band{Name: name + ", lowest to highest trial"}
			add := func(share float64, v []float64) {
				line.X, line.Y = append(line.X, share), append(line.Y, median(v))
				band.X, band.Low, band.High = append(band.X, share), append(band.Low, least(v)), append(band.High, most(v))
			}
			mine := ofGroup(trials, name)
			with := slices.DeleteFunc(slices.Clone(mine), func(t trial) bool { return l.of(t.Record).N == 0 })
			if len(with) == 0 {
				continue
			}
			for _, q := range quantiles {
				add(q.share, values(with, func(r *results.Record) float64 { return float64(q.of(l.of(r))) }))
			}
			n := median(values(with, func(r *results.Record) float64 { return float64(l.of(r).N) }))
			if last := 1 - 1/n; last > 0.999 {
				add(last, values(with, func(r *results.Record) float64 { return float64(l.of(r).Max) }))
			}
			c.Series = append(c.Series, line)
			if len(with) > 1 && len(names) <= 3 {
				band.Group = len(c.Series) - 1
				c.Bands = append(c.Bands, band)
			}
		}
		if len(c.Series) == 0 {
			empty = append(empty, l.name)
			continue
		}
		charts = append(charts, c)
	}
	s.Charts(charts...)
	if len(empty) > 0 {
		s.Missing("No trial has samples of: " + strings.Join(empty, "; ") + ".")
	}
	s.Table(latencyTable(trials))
}

// latencyTable has a row for each latency and group.
func latencyTable(trials []trial) *chart.Table {
	t := &chart.Table{Caption: "Latencies: medians over the valid trials", Columns: []chart.Column{{Name: "latency"}, {Name: "of"}, {Name: "trials"}, {Name: "samples"}, {Name: "mean", Unit: chart.Nanoseconds}}}
	for _, q := range quantiles {
		t.Columns = append(t.Columns, chart.Column{Name: q.name, Unit: chart.Nanoseconds})
	}
	t.Columns = append(t.Columns, chart.Column{Name: "max", Unit: chart.Nanoseconds})
	for _, l := range latencies {
		for _, name := range groups(trials) {
			with := slices.DeleteFunc(slices.Clone(ofGroup(trials, name)), func(t trial) bool { return l.of(t.Record).N == 0 })
			if len(with) == 0 {
				continue
			}
			m := func(of func(d *results.Distribution) float64) float64 {
				return median(values(with, func(r *results.Record) float64 { return of(l.of(r)) }))
			}
			row := []any{l.name, name, len(with), m(func(d *results.Distribution) float64 { return float64(d.N) }), m(func(d *results.Distribution) float64 { return d.Mean })}
			for _, q := range quantiles {
				row = append(row, m(func(d *results.Distribution) float64 { return float64(q.of(d)) }))
			}
			t.Rows = append(t.Rows, append(row, m(func(d *results.Distribution) float64 { return float64(d.Max) })))
		}
	}
	return t
}

// figure is one that every record has, for dots by trial.
type figure struct {
	title, about string
	axis         chart.Axis
	of           func(*results.Record) float64
}

// byTrial draws a figure of every trial: joined by round, or in order.
func byTrial(trials []trial, f figure) chart.Chart {
	names := groups(trials)
	if len(trials) > 0 && trials[0].Round > 0 && len(names) > 1 {
		c := &chart.Paired{Head: chart.Head{Title: f.title, Description: f.about}, Y: f.axis, Variants: names}
		at := map[int]int{}
		for _, t := range trials {
			if _, ok := at[t.Round]; !ok {
				at[t.Round] = len(c.Rounds)
				row := make([]float64, len(names))
				for i := range row {
					row[i] = nan
				}
				c.Rounds = append(c.Rounds, chart.PairedRound{Number: t.Round, Values: row})
			}
			c.Rounds[at[t.Round]].Values[slices.Index(names, t.Group)] = known(f.of(t.Record))
		}
		sort.Slice(c.Rounds, func(i, j int) bool { return c.Rounds[i].Number < c.Rounds[j].Number })
		return c
	}
	c := &chart.Bars{Head: chart.Head{Title: f.title, Description: f.about}, X: f.axis, Kind: []string{f.title}}
	for _, t := range trials {
		c.Rows = append(c.Rows, chart.Bar{Label: t.Name, Parts: []float64{known(f.of(t.Record))}})
	}
	return c
}

// known turns -1, which is not known, into NaN.
func known(v float64) float64 {
	if v < 0 {
		return nan
	}
	return v
}

// loadSection shows what was offered and what was done.
func loadSection(p *page.Page, all []trial) {
	s := p.Section("Load")
	trials := valid(all)
	if len(trials) == 0 {
		s.Missing("No trial is valid, so no rate is a measurement.")
		return
	}
	rates := []figure{
		{"Offered", "Block operations of the work over its window.", chart.Axis{}, func(r *results.Record) float64 { return r.Rates.OfferedBlockOpsPerSec }},
		{"Issued", "Block operations over the time in which they were handed over.", chart.Axis{}, func(r *results.Record) float64 { return r.Rates.IssuedBlockOpsPerSec }},
		{"Achieved", "Block operations over the time until the last was done.", chart.Axis{}, func(r *results.Record) float64 { return r.Rates.AchievedBlockOpsPerSec }},
	}
	c := &chart.Bars{
		Head: chart.Head{Title: "Offered, issued and achieved", Description: "Medians over the valid trials. Where achieved lies below offered, the index did not keep up, and achieved is its throughput."},
		X:    chart.Axis{Label: "block operations per second", Unit: chart.PerSecond}, Kind: []string{"rate"},
	}
	for _, name := range groups(trials) {
		for _, r := range rates {
			c.Rows = append(c.Rows, chart.Bar{Label: name + ", " + strings.ToLower(r.title), Parts: []float64{median(values(ofGroup(trials, name), r.of))}})
		}
	}
	done := figure{"Done, in windows", "When the last operation was done, as a multiple of the window: up to 1.1 the index kept up.", chart.Axis{Label: "windows", Log: true},
		func(r *results.Record) float64 {
			if r.Timing.WindowNS == 0 {
				return -1
			}
			return float64(r.Timing.EndNS) / float64(r.Timing.WindowNS)
		}}
	achieved := figure{"Achieved by trial", "Block operations per second until the last was done.", chart.Axis{Label: "block operations per second", Unit: chart.PerSecond}, rates[2].of}
	s.Charts(c, byTrial(trials, achieved), byTrial(trials, done))
	t := &chart.Table{Caption: "Rates: medians over the valid trials", Columns: []chart.Column{{Name: "of"}, {Name: "trials"}, {Name: "kept up"},
		{Name: "offered", Unit: chart.PerSecond}, {Name: "issued", Unit: chart.PerSecond}, {Name: "achieved", Unit: chart.PerSecond}, {Name: "offered operations", Unit: chart.PerSecond}, {Name: "achieved operations", Unit: chart.PerSecond}}}
	for _, name := range groups(trials) {
		mine := ofGroup(trials, name)
		kept := 0
		for _, x := range mine {
			if x.Record.Validity.KeptUp {
				kept++
			}
		}
		row := []any{name, len(mine), kept}
		for _, r := range rates {
			row = append(row, median(values(mine, r.of)))
		}
		t.Rows = append(t.Rows, append(row, median(values(mine, func(r *results.Record) float64 { return r.Rates.OfferedOpsPerSec })),
			median(values(mine, func(r *results.Record) float64 { return r.Rates.AchievedOpsPerSec }))))
	}
	s.Table(t)
}

// queueSection shows what waited.
func queueSection(p *page.Page, all []trial, timelines bool) {
	s := p.Section("Queues and drain")
	if timelines {
		s.Text("Depths over time are in the section Over time. Records hold what was unfinished when the last operation was issued, the highest number that was ever unfinished, and the time that the rest took.")
	} else {
		s.Missing("Records do not hold queue depths over time: there is what was unfinished when the last operation was issued, the highest number that was ever unfinished, and the time that the rest took. 'kvbench replay --timeline' keeps the stamps of every operation, and 'kvbench report --timeline' shows them.")
	}
	trials := valid(all)
	if len(trials) == 0 {
		s.Missing("No trial is valid.")
		return
	}
	count := chart.Axis{Label: "operations", Zero: true}
	var charts []chart.Chart
	var none []string
	for _, f := range []figure{
		{"Drain", "Time from the last hand-over until all was done.", chart.Axis{Label: "time", Unit: chart.Nanoseconds, Zero: true}, func(r *results.Record) float64 { return float64(r.Timing.DrainNS) }},
		{"Events unfinished at the end of issuing", "KV events handed over and not yet applied when the last operation was issued.", count, func(r *results.Record) float64 { return float64(r.Depths.EventsAtIssueEnd) }},
		{"Most events unfinished", "Highest number of KV events handed over and not yet applied, at any moment.", count, func(r *results.Record) float64 { return float64(r.Depths.MaxEvents) }},
		{"Most queries unfinished", "Highest number of queries handed over and not yet answered, at any moment.", count, func(r *results.Record) float64 { return float64(r.Depths.MaxQueries) }},
		{"Issuers blocked", "Time that issuers waited for room in a full queue.", chart.Axis{Label: "time", Unit: chart.Nanoseconds, Zero: true}, func(r *results.Record) float64 { return float64(r.Depths.BlockedNS) }},
	} {
		if most(values(trials, f.of)) == 0 {
			none = append(none, f.title)
			continue
		}
		charts = append(charts, byTrial(trials, f))
	}
	if len(none) > 0 {
		s.Text("0 in every valid trial: " + strings.Join(none, "; ") + ".")
	}
	s.Charts(charts...)
}

// threadSection shows what the threads used.
func threadSection(p *page.Page, all []trial) {
	s := p.Section("Threads")
	trials := valid(all)
	if len(trials) == 0 {
		s.Missing("No trial is valid.")
		return
	}
	s.Text("For each thread, the median over the valid trials of the time that it was on a CPU and of the time that it was ready and waited for one. What is left of the trial it slept. A thread that spins while it waits for work is on its CPU all the time.")
	var charts []chart.Chart
	t := &chart.Table{Caption: "Threads: medians over the valid trials", Columns: []chart.Column{{Name: "of"}, {Name: "thread"}, {Name: "CPU"},
		{Name: "on a CPU", Unit: chart.Nanoseconds}, {Name: "user", Unit: chart.Nanoseconds}, {Name: "kernel", Unit: chart.Nanoseconds}, {Name: "waiting for a CPU", Unit: chart.Nanoseconds},
		{Name: "preempted"}, {Name: "gave up its CPU"}, {Name: "operations"}}}
	for _, name := range groups(trials) {
		mine := ofGroup(trials, name)
		c := &chart.Bars{
			Head: chart.Head{Title: "CPU time of threads: " + name, Description: fmt.Sprintf("Medians over %s.", text.Count(len(mine), "trial"))},
			X:    chart.Axis{Label: "time", Unit: chart.Nanoseconds}, Kind: []string{"on a CPU", "waiting for a CPU"},
		}
		for _, k := range threadKeys(mine) {
			of := func(get func(*results.Thread) int64) float64 {
				return median(values(mine, func(r *results.Record) float64 {
					for i := range r.Threads {
						if th := &r.Threads[i]; th.Role == k.role && th.Number == k.number {
							return float64(get(th))
						}
					}
					return -1
				}))
			}
			label := fmt.Sprintf("%s %d", strings.ReplaceAll(k.role, "_", " "), k.number)
			run, wait := of(func(t *results.Thread) int64 { return t.RunNS }), of(func(t *results.Thread) int64 { return t.RunQueueWaitNS })
			c.Rows = append(c.Rows, chart.Bar{Label: label, Parts: []float64{run, wait}})
			cpu := "not pinned"
			if v := of(func(t *results.Thread) int64 { return int64(t.CPU) }); v >= 0 {
				cpu = fmt.Sprint(int(v))
			}
			t.Rows = append(t.Rows, []any{name, label, cpu, run, of(func(t *results.Thread) int64 { return t.UserNS }), of(func(t *results.Thread) int64 { return t.SystemNS }), wait,
				of(func(t *results.Thread) int64 { return t.InvoluntaryContextSwitches }), of(func(t *results.Thread) int64 { return t.VoluntaryContextSwitches }),
				of(func(t *results.Thread) int64 { return t.Operations })})
		}
		charts = append(charts, c)
	}
	busy := &chart.Bars{
		Head: chart.Head{Title: "Busy share of event threads", Description: "Share of the trial in which an event thread was applying events, medians over the valid trials. One near 100% sets the throughput."},
		X:    chart.Axis{Unit: chart.Share}, Kind: []string{"busy"},
	}
	for _, name := range groups(trials) {
		mine := ofGroup(trials, name)
		for i := range mine[0].Record.EventThreads {
			busy.Rows = append(busy.Rows, chart.Bar{Label: fmt.Sprintf("%s, event %d", name, i), Parts: []float64{median(values(mine, func(r *results.Record) float64 {
				if i >= len(r.EventThreads) {
					return -1
				}
				return r.EventThreads[i].BusyShare
			}))}})
		}
	}
	if len(busy.Rows) > 0 {
		charts = append(charts, busy)
	}
	s.Charts(charts...)
	s.Table(t)
	if len(busy.Rows) == 0 {
		s.Missing("These records do not say how busy event threads were.")
	}
}

type threadKey struct {
	role   string
	number int
}

func threadKeys(trials []trial) []threadKey {
	var out []threadKey
	seen := map[threadKey]bool{}
	for _, t := range trials {
		for _, th := range t.Record.Threads {
			if k := (threadKey{th.Role, th.Number}); !seen[k] {
				seen[k] = true
				out = append(out, k)
			}
		}
	}
	return out
}

// memorySection shows the memory of the index and of the process.
func memorySection(p *page.Page, all []trial) {
	s := p.Section("Memory")
	trials := valid(all)
	if len(trials) == 0 {
		s.Missing("No trial is valid.")
		return
	}
	charts := []chart.Chart{byTrial(trials, figure{"Highest resident memory of the process", "Since the process began, so with the corpus.", chart.Axis{Label: "memory", Unit: chart.Bytes, Zero: true},
		func(r *results.Record) float64 { return float64(r.Machine.PeakRSSBytes) }})}
	parts := &chart.Bars{
		Head: chart.Head{Title: "Memory of the index", Description: "After the drain, as the index says, by part; of the last valid trial of each."},
		X:    chart.Axis{Label: "memory", Unit: chart.Bytes},
	}
	var mute []string
	for _, name := range groups(trials) {
		mine := ofGroup(trials, name)
		x := mine[len(mine)-1].Record.Index
		if x == nil || x.Memory == nil {
			mute = append(mute, name)
			continue
		}
		for _, part := range x.Memory.Parts {
			if !slices.Contains(parts.Kind, part.Name) {
				parts.Kind = append(parts.Kind, part.Name)
			}
		}
	}
	for _, name := range groups(trials) {
		mine := ofGroup(trials, name)
		x := mine[len(mine)-1].Record.Index
		if x == nil || x.Memory == nil {
			continue
		}
		bar := chart.Bar{Label: name, Parts: make([]float64, len(parts.Kind))}
		for _, part := range x.Memory.Parts {
			bar.Parts[slices.Index(parts.Kind, part.Name)] += float64(part.Bytes)
		}
		parts.Rows = append(parts.Rows, bar)
	}
	if len(parts.Rows) > 0 && len(parts.Kind) > 0 {
		charts = append(charts, parts)
	}
	s.Charts(charts...)
	if len(mute) > 0 {
		s.Missing("The index does not say what memory it uses: " + strings.Join(mute, ", ") + ".")
	}
}

// residentSection shows the resident blocks of ranks.
func residentSection(p *page.Page, all []trial, timelines bool) {
	s := p.Section("Resident blocks")
	var charts []chart.Chart
	var without []string
	for _, name := range groups(all) {
		mine := ofGroup(valid(all), name)
		if len(mine) == 0 || mine[len(mine)-1].Record.Resident == nil {
			without = append(without, name)
			continue
		}
		last := mine[len(mine)-1]
		b := last.Record.Resident
		c := &chart.Lines{
			Head: chart.Head{Title: "Resident blocks by rank: " + name, Description: "After the drain of the last valid trial, ranks from the fewest to the most blocks."},
			X:    chart.Axis{Label: "rank, by its blocks"}, Y: chart.Axis{Label: "blocks", Zero: true},
		}
		ranks := slices.Clone(b.ByRank)
		slices.SortFunc(ranks, func(x, y results.RankBlocks) int { return cmp.Compare(x.Blocks, y.Blocks) })
		var line chart.Series
		line.Name, line.Style = last.Name, chart.Step
		for i, r := range ranks {
			line.X, line.Y = append(line.X, float64(i+1)), append(line.Y, float64(r.Blocks))
		}
		c.Series = []chart.Series{line}
		if full := float64(last.Record.Config.GPUBlocks); full > 0 && b.Max > 0 && full < 3*float64(b.Max) {
			c.References = []chart.Reference{{Value: full, Label: "blocks that a rank can hold"}}
		}
		charts = append(charts, c)
	}
	if len(charts) > 0 {
		if timelines {
			s.Text("After the drain; counts over time are in the section Over time.")
		} else {
			s.Missing("Records hold the counts after the drain, not over time; 'kvbench replay --timeline' and 'kvbench report --timeline' show these.")
		}
		s.Charts(charts...)
	}
	if len(without) > 0 {
		s.Missing("Resident blocks were not tracked, or no trial is valid: " + strings.Join(without, ", ") + ". 'kvbench replay --track-resident-blocks' counts them.")
	}
}

// validityTable has a row for each record.
func validityTable(trials []trial) *chart.Table {
	t := &chart.Table{Caption: "Trials", Columns: []chart.Column{{Name: "trial"}, {Name: "valid"}, {Name: "kept up"}, {Name: "done in windows"}, {Name: "start"}, {Name: "why not"}}}
	for _, x := range trials {
		r := x.Record
		var why []string
		for _, reason := range r.Validity.Reasons {
			why = append(why, reason.Rule+": "+reason.Detail)
		}
		done := nan
		if r.Timing.WindowNS > 0 {
			done = float64(r.Timing.EndNS) / float64(r.Timing.WindowNS)
		}
		t.Rows = append(t.Rows, []any{x.Name, yes(r.Validity.Valid), yes(r.Validity.KeptUp), done, r.Provenance.StartTime, strings.Join(why, "; ")})
	}
	return t
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// ownWarnings are what a record itself warns of.
func ownWarnings(r *results.Record) []string {
	own := slices.Clone(r.Warnings)
	if x := r.Injected; x != nil {
		own = append(own, fmt.Sprintf("NOT A REAL FIGURE: slowed on purpose, each event by %s, each lookup done %d times", chart.Format(float64(x.EventDelayNS), chart.Nanoseconds), x.QueryWork))
	}
	return own
}

// figures in a text: warnings that differ in these alone are of one kind.
var figuresInText = regexp.MustCompile(`[0-9][0-9.,]*`)

// recordWarnings lists the warnings of records, one of each kind and how many
// trials have one of it. Those of all trials are in warningTable.
func recordWarnings(trials []trial) []string {
	type kind struct {
		first, trial string
		trials       int
		same         bool
	}
	var order []string
	kinds := map[string]*kind{}
	for _, t := range trials {
		seen := map[string]bool{}
		for _, w := range ownWarnings(t.Record) {
			key := figuresInText.ReplaceAllString(w, "#")
			k := kinds[key]
			if k == nil {
				k = &kind{first: w, trial: t.Name, same: true}
				kinds[key] = k
				order = append(order, key)
			}
			k.same = k.same && k.first == w
			if !seen[key] {
				k.trials++
				seen[key] = true
			}
		}
	}
	var out []string
	for _, key := range order {
		k := kinds[key]
		text := k.first
		switch {
		case len(trials) == 1:
		case k.trials == 1:
			text += " (" + k.trial + ")"
		case k.same:
			text += fmt.Sprintf(" (%d of %d trials)", k.trials, len(trials))
		default:
			text += fmt.Sprintf(" (so %s; of this kind in %d of %d trials, with other figures)", k.trial, k.trials, len(trials))
		}
		out = append(out, text)
	}
	return out
}

// warningTable has every warning of every record.
func warningTable(trials []trial) *chart.Table {
	t := &chart.Table{Caption: "Every warning of every trial", Columns: []chart.Column{{Name: "trial"}, {Name: "warning"}}}
	for _, x := range trials {
		for _, w := range ownWarnings(x.Record) {
			t.Rows = append(t.Rows, []any{x.Name, w})
		}
	}
	return t
}

// addWarnings adds warnings and those of records.
func addWarnings(s *page.Section, own []string, trials []trial) {
	s.Warnings(append(own, recordWarnings(trials)...)...)
	if t := warningTable(trials); len(trials) > 1 && len(t.Rows) > 0 {
		s.Folded(fmt.Sprintf("All %d warnings of trials", len(t.Rows)), t)
	}
}

// provenance lists what made records. What all have in common is said once, and
// what differs is listed.
func provenance(trials []trial) []page.Fact {
	var facts []page.Fact
	add := func(name string, of func(r *results.Record) string) {
		var texts []string
		for _, t := range trials {
			text := of(t.Record)
			if text == "" {
				text = "unknown"
			}
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
		text := strings.Join(texts[:min(len(texts), 8)], "; ")
		if len(texts) > 8 {
			text += fmt.Sprintf("; and %d more", len(texts)-8)
		}
		if len(texts) > 1 {
			text = fmt.Sprintf("%d different: %s", len(texts), text)
		}
		facts = append(facts, page.Fact{Name: name, Value: text})
	}
	host := func(of func(h *results.Host) string) func(*results.Record) string {
		return func(r *results.Record) string { return of(&r.Provenance.Host) }
	}
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	add("command", func(r *results.Record) string { return quote(r.Provenance.Argv) })
	add("kvbench", func(r *results.Record) string { return r.Provenance.Version })
	add("commit", func(r *results.Record) string {
		if r.Provenance.Modified {
			return r.Provenance.Commit + ", with changes"
		}
		return r.Provenance.Commit
	})
	add("Go", func(r *results.Record) string { return r.Provenance.GoVersion })
	add("program SHA-256", func(r *results.Record) string { return r.Provenance.BinarySHA256 })
	add("trace", func(r *results.Record) string { return r.Provenance.TraceName })
	add("trace SHA-256", func(r *results.Record) string { return r.Provenance.TraceSHA256 })
	add("corpus SHA-256", func(r *results.Record) string { return r.Provenance.CorpusSHA256 })
	add("seed", func(r *results.Record) string { return fmt.Sprint(r.Provenance.Seed) })
	add("start", func(r *results.Record) string { return r.Provenance.StartTime })
	add("build", func(r *results.Record) string { return strings.Join(r.Provenance.Build, " ") })
	add("processor", host(func(h *results.Host) string { return h.CPUModel }))
	add("system", host(func(h *results.Host) string { return strings.TrimSpace(h.OS + " " + h.Arch + " " + h.Kernel) }))
	add("CPUs online", host(func(h *results.Host) string { return number(int64(h.LogicalCPUs)) }))
	add("cores", host(func(h *results.Host) string { return number(int64(h.PhysicalCores)) }))
	add("CPUs allowed", host(func(h *results.Host) string { return h.AllowedCPUs }))
	add("hypervisor", host(func(h *results.Host) string { return cmp.Or(h.Virtualized, "none seen") }))
	add("memory", host(func(h *results.Host) string {
		if h.MemoryBytes == 0 {
			return ""
		}
		return chart.Format(float64(h.MemoryBytes), chart.Bytes)
	}))
	add("frequency governor", host(func(h *results.Host) string { return h.Governor }))
	add("CPU quota", host(func(h *results.Host) string { return cmp.Or(h.CPUQuota, "none seen") }))
	add("transparent huge pages", host(func(h *results.Host) string { return h.THP }))
	add("clock source", host(func(h *results.Host) string { return h.ClockSource }))
	return facts
}
