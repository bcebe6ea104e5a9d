package report

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/internal/report/page"
	"github.com/kvbench/kvbench/results/table"
)

// timelineBins is the number of equal parts of time that rates, quantiles and
// resident blocks over time are given for.
const timelineBins = 120

// timeline is what the operations of one trial say over time.
type timeline struct {
	name string
	meta table.Meta

	queries, events   chart.Series // unfinished over time
	end               float64      // of the last operation, in ns
	offered, achieved []float64    // block operations of each part of time
	p50, p99          []float64    // of queries from deadline to answer, by the part in which they were due
	query, event      chart.Series // quantiles of deadline to done, over all operations
	ranks             []string
	resident          [][]float64 // blocks of each rank at the end of each part
	undone            int         // operations that were never done
	rows              int
}

// rankID names a rank.
type rankID struct {
	worker uint64
	dp     uint32
}

// readTimeline reads a table of operations that 'kvbench replay --timeline' wrote.
// It holds some numbers of each operation in memory, of one file at a time.
func readTimeline(path string) (tl *timeline, err error) {
	r, err := table.Open[table.Operation](path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	base := filepath.Base(path)
	tl = &timeline{name: strings.TrimSuffix(base, filepath.Ext(base)), meta: r.Meta()}
	var query, event moments
	var ops []operation
	rows := make([]table.Operation, 1024)
	for {
		n, err := r.Read(rows)
		for i := range rows[:n] {
			row := &rows[i]
			tl.rows++
			m, isQuery := &event, row.Kind == "query"
			if isQuery {
				m = &query
			}
			if row.AcceptedNS != nil {
				m.accepted = append(m.accepted, *row.AcceptedNS)
			}
			if row.FinishedNS == nil {
				tl.undone++
				continue
			}
			m.finished = append(m.finished, *row.FinishedNS)
			m.took = append(m.took, float64(*row.FinishedNS-row.DeadlineNS))
			tl.end = max(tl.end, float64(*row.FinishedNS))
			change := row.Blocks
			switch row.Kind {
			case "removed":
				change = -change
			case "cleared":
				change = cleared
			case "query":
				change = 0
			}
			ops = append(ops, operation{rankID{row.WorkerID, row.DPRank}, row.DeadlineNS, *row.FinishedNS, row.Blocks, change, isQuery})
		}
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if tl.end <= 0 {
		return nil, fmt.Errorf("%s: no operation of it was done, so there is nothing to draw", path)
	}
	tl.queries, tl.events = query.depth("queries"), event.depth("KV events")
	tl.query, tl.event = quantileCurve(tl.name, query.took), quantileCurve(tl.name, event.took)
	tl.overTime(ops)
	return tl, nil
}

// cleared is the change of an operation that leaves a rank without blocks.
const cleared = math.MinInt64

// operation is what is kept of a row.
type operation struct {
	rank           rankID
	deadline, done int64
	blocks, change int64
	query          bool
}

// moments are those of all queries, or of all events.
type moments struct {
	accepted, finished []int64
	took               []float64
}

// depth is the number of operations that were handed over and not done, over time.
func (m *moments) depth(name string) chart.Series {
	slices.Sort(m.accepted)
	slices.Sort(m.finished)
	var t chart.Thinner
	waiting := 0
	i, k := 0, 0
	for i < len(m.accepted) || k < len(m.finished) {
		// At the same moment, what comes comes before what goes.
		if k >= len(m.finished) || i < len(m.accepted) && m.accepted[i] <= m.finished[k] {
			waiting++
			t.Add(float64(m.accepted[i]), float64(waiting))
			i++
		} else {
			waiting--
			t.Add(float64(m.finished[k]), float64(waiting))
			k++
		}
	}
	s := t.Series(name)
	s.Style = chart.Step
	return s
}

// quantileCurve turns all samples into the time that each share of them did not
// exceed; of n samples, the i-th smallest stands at (i - 1/2)/n.
func quantileCurve(name string, samples []float64) chart.Series {
	e := chart.ECDF(name, samples)
	half := 0.5 / float64(len(samples))
	out := chart.Series{Name: name, Of: e.Of, Missed: e.Missed}
	for i := range e.X {
		out.X, out.Y = append(out.X, e.Y[i]-half), append(out.Y, e.X[i])
	}
	return out
}

// overTime fills what is given by parts of time.
func (tl *timeline) overTime(ops []operation) {
	wide := tl.end / timelineBins
	part := func(ns int64) int { return min(max(int(float64(ns)/wide), 0), timelineBins-1) }
	perSecond := 1e9 / wide
	tl.offered, tl.achieved = make([]float64, timelineBins), make([]float64, timelineBins)
	took := make([][]float64, timelineBins)
	slots := map[rankID]int{}
	var order []rankID
	for i := range ops {
		o := &ops[i]
		tl.offered[part(o.deadline)] += float64(o.blocks) * perSecond
		tl.achieved[part(o.done)] += float64(o.blocks) * perSecond
		if o.query {
			took[part(o.deadline)] = append(took[part(o.deadline)], float64(o.done-o.deadline))
			continue
		}
		if _, ok := slots[o.rank]; !ok {
			slots[o.rank] = 0
			order = append(order, o.rank)
		}
	}
	for _, v := range took {
		slices.Sort(v)
		tl.p50, tl.p99 = append(tl.p50, nearestRank(v, 0.5)), append(tl.p99, nearestRank(v, 0.99))
	}
	slices.SortFunc(order, func(a, b rankID) int {
		switch {
		case a.worker != b.worker && a.worker < b.worker, a.worker == b.worker && a.dp < b.dp:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	dp := slices.ContainsFunc(order, func(r rankID) bool { return r.dp > 0 })
	for i, r := range order {
		slots[r] = i
		name := fmt.Sprintf("worker %d", r.worker)
		if dp {
			name += fmt.Sprintf(" rank %d", r.dp)
		}
		tl.ranks = append(tl.ranks, name)
		row := make([]float64, timelineBins)
		for k := range row {
			row[k] = nan
		}
		tl.resident = append(tl.resident, row)
	}
	// Events of one rank are applied in the order in which they stand.
	held := make([]float64, len(order))
	for i := range ops {
		o := &ops[i]
		if o.query {
			continue
		}
		at := slots[o.rank]
		if o.change == cleared {
			held[at] = 0
		} else {
			held[at] += float64(o.change)
		}
		tl.resident[at][part(o.done)] = held[at]
	}
	for _, row := range tl.resident {
		last := 0.0
		for k, v := range row {
			if math.IsNaN(v) {
				row[k] = last
			}
			last = row[k]
		}
	}
}

// nearestRank is the smallest of sorted samples that at least that share does not
// exceed; NaN without any.
func nearestRank(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return nan
	}
	return sorted[max(int(math.Ceil(share*float64(len(sorted)))), 1)-1]
}

// mostHeats is the number of timelines with a picture of each rank.
const mostHeats = 4

// readTimelines reads files that 'kvbench replay --timeline' wrote.
func readTimelines(paths []string) ([]*timeline, error) {
	names := shortNames(paths)
	var all []*timeline
	for i, path := range paths {
		tl, err := readTimeline(path)
		if err != nil {
			return nil, fmt.Errorf("timeline: %w", err)
		}
		if len(paths) > 1 {
			tl.name = strings.TrimSuffix(names[i], filepath.Ext(names[i]))
			tl.query.Name, tl.event.Name = tl.name, tl.name
		}
		all = append(all, tl)
	}
	return all, nil
}

// timelineSection shows what the operations of trials say over time.
func timelineSection(p *page.Page, all []*timeline) {
	if len(all) == 0 {
		return
	}
	s := p.Section("Over time")
	s.Textf("From the stamps of every operation of %s. Times are from the start of the window; rates and quantiles are those of %d equal parts of the time until the last operation was done.", countText(len(all), "trial"), timelineBins)
	x := chart.Axis{Label: "time", Unit: chart.Nanoseconds}
	depth := func(title, about string, of func(*timeline) chart.Series) chart.Chart {
		c := &chart.Lines{Head: chart.Head{Title: title, Description: about}, X: x, Y: chart.Axis{Label: "unfinished", Zero: true}}
		for _, tl := range all {
			line := of(tl)
			line.Name = tl.name
			c.Series = append(c.Series, line)
		}
		return c
	}
	parts := func(title, about string, y chart.Axis, lines ...func(*timeline) (string, []float64)) chart.Chart {
		c := &chart.Lines{Head: chart.Head{Title: title, Description: about}, X: x, Y: y}
		for _, tl := range all {
			for _, f := range lines {
				name, v := f(tl)
				if len(all) > 1 {
					name = tl.name + ", " + name
				}
				line := chart.Series{Name: name, Y: v}
				for k := range v {
					line.X = append(line.X, tl.end*(float64(k)+0.5)/timelineBins)
				}
				c.Series = append(c.Series, line)
			}
		}
		return c
	}
	share := chart.Axis{Label: "share of samples that took no longer", Unit: chart.Share, Tail: true}
	time := chart.Axis{Label: "time", Unit: chart.Nanoseconds, Log: true}
	query := &chart.Lines{Head: chart.Head{Title: "Query, scheduled to finished, all samples", Description: "From the deadline of a query to its answer, of every query. Both axes are logarithmic."}, X: share, Y: time}
	event := &chart.Lines{Head: chart.Head{Title: "Event, scheduled to finished, all samples", Description: "From the deadline of a KV event until it was applied, of every event. Both axes are logarithmic."}, X: share, Y: time}
	for _, tl := range all {
		if len(tl.query.X) > 0 {
			query.Series = append(query.Series, tl.query)
		}
		if len(tl.event.X) > 0 {
			event.Series = append(event.Series, tl.event)
		}
	}
	s.Charts(
		depth("Events unfinished over time", "KV events handed over and not yet applied.", func(tl *timeline) chart.Series { return tl.events }),
		depth("Queries unfinished over time", "Queries handed over and not yet answered.", func(tl *timeline) chart.Series { return tl.queries }),
		parts("Offered and achieved over time", "Block operations per second that were due, and that were done.", chart.Axis{Label: "block operations per second", Unit: chart.PerSecond, Zero: true},
			func(tl *timeline) (string, []float64) { return "offered", tl.offered },
			func(tl *timeline) (string, []float64) { return "achieved", tl.achieved }),
		parts("Query latency over time", "From the deadline of a query to its answer, by when the query was due.", time,
			func(tl *timeline) (string, []float64) { return "p50", tl.p50 },
			func(tl *timeline) (string, []float64) { return "p99", tl.p99 }),
		query, event)
	var heats []chart.Chart
	for _, tl := range all[:min(len(all), mostHeats)] {
		if len(tl.ranks) == 0 {
			continue
		}
		heats = append(heats, &chart.Heat{
			Head: chart.Head{Title: "Resident blocks by rank over time: " + tl.name, Description: "Blocks stored less blocks removed by the events that were applied so far; a block that was stored twice counts twice."},
			X:    x, Rows: tl.ranks, From: 0, To: tl.end, Values: tl.resident,
		})
	}
	s.Charts(heats...)
	if len(all) > mostHeats {
		s.Missing(fmt.Sprintf("Resident blocks by rank are drawn for the first %d of %d trials.", mostHeats, len(all)))
	}
	for _, tl := range all {
		if tl.undone > 0 {
			s.Missing(fmt.Sprintf("%s: %d of %d operations were never done; they are left out.", tl.name, tl.undone, tl.rows))
		}
		facts := []string{fmt.Sprintf("%d operations", tl.rows), "kvbench " + tl.meta.Version + " " + tl.meta.Commit, quote(tl.meta.Command)}
		for _, k := range slices.Sorted(maps.Keys(tl.meta.Facts)) {
			facts = append(facts, k+" "+tl.meta.Facts[k])
		}
		p.Provenance(page.Fact{Name: "timeline " + tl.name, Value: strings.Join(facts, "; ")})
		if len(tl.meta.Warnings) > 0 {
			s.Warnings(tl.meta.Warnings...)
		}
	}
}

func countText(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
