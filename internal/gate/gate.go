package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/stats"
)

// Input is all that a verdict depends on.
type Input struct {
	Name     string // of the experiment, for people
	Rows     []Row
	Controls []Control
	// Unfit lists what makes the machine unfit, such as a failed check of
	// package host; empty if nothing does.
	Unfit []string
	// Rounds are done, Planned were planned when the experiment was made.
	Rounds  int
	Planned int
	Look    Look
}

// Report is the verdict with everything it rests on.
type Report struct {
	Schema  string    `json:"schema"`
	Time    time.Time `json:"time,omitzero"` // of the look, UTC
	Name    string    `json:"name"`
	Verdict Verdict   `json:"verdict"`
	Reasons []string  `json:"reasons"`         // why it is not PASS, or why it is unmeasurable
	Unfit   []string  `json:"unfit,omitempty"` // what makes the machine unfit
	Rounds  int       `json:"rounds"`
	Planned int       `json:"planned_rounds"`
	Look    Look      `json:"look"`
	// Before are the other looks that were taken at the experiment, oldest first.
	Before   []Look          `json:"looks_before,omitempty"`
	Rows     []RowResult     `json:"rows"`
	Controls []ControlResult `json:"controls"`
}

// Schema names this version of the report's JSON form.
const Schema = "kvbench.gate/v1"

// ControlResult is an A/A comparison with its interval.
type ControlResult struct {
	Control
	Median   float64        `json:"median"`
	Interval stats.Interval `json:"interval"`
	OK       bool           `json:"ok"`
	Note     string         `json:"note,omitempty"`
}

// Judge gives the verdict. It is a function of its input alone.
func Judge(in Input) (*Report, error) {
	if len(in.Rows) == 0 {
		return nil, errors.New("there is nothing to gate: no metric of any ratio was asked for")
	}
	interval, err := in.Look.method()
	if err != nil {
		return nil, err
	}
	level := in.Look.Level
	r := &Report{Schema: Schema, Name: in.Name, Unfit: in.Unfit, Rounds: in.Rounds, Planned: in.Planned, Look: in.Look,
		Reasons: []string{}, Controls: []ControlResult{}}
	for i := range in.Rows {
		row := &in.Rows[i]
		rule := stats.Rule{Margin: row.Margin, Better: row.Better, FailBeyond: row.FailBeyond}
		if err := rule.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", row.Name(), err)
		}
		r.Rows = append(r.Rows, judgeRow(row, interval, in.Look))
	}
	holm(r.Rows, level)
	for _, c := range in.Controls {
		r.Controls = append(r.Controls, judgeControl(c, in.Rows, interval, level))
	}
	r.conclude()
	return r, nil
}

// judgeControl holds a control to the margins of the rows with its metric: its
// interval must contain 1 and lie within them.
func judgeControl(c Control, rows []Row, interval method, level float64) ControlResult {
	ratios := c.Pairs.Ratios()
	out := ControlResult{Control: c, Interval: interval(ratios, level)}
	if len(ratios) > 0 {
		out.Median = stats.Median(ratios)
	}
	margin := 1.0
	for i := range rows {
		if rows[i].Metric == c.Metric {
			margin = min(margin, rows[i].Margin)
		}
	}
	iv := out.Interval
	switch {
	case !iv.Ok():
		out.Note = iv.Explain()
	case iv.Low > 1 || iv.High < 1:
		out.Note = "the base differs from itself: something other than the variants decides"
	case iv.Low < 1-margin || iv.High > 1+margin:
		out.Note = fmt.Sprintf("the base against itself leaves %+.0f%% … %+.0f%% open, more than the margin of %g%%",
			100*(iv.Low-1), 100*(iv.High-1), 100*margin)
	default:
		out.OK = true
	}
	return out
}

// conclude joins the rows to one verdict.
func (r *Report) conclude() {
	for _, why := range r.Unfit {
		r.reason(Unmeasurable, "machine: %s", why)
	}
	for i := range r.Controls {
		if c := &r.Controls[i]; !c.OK {
			r.reason(Unmeasurable, "control %s %s/%s: %s", c.Metric, c.Of, c.To, c.Note)
		}
	}
	said := map[string]bool{} // what forbids several verdicts is one reason
	for i := range r.Rows {
		row := &r.Rows[i]
		switch row.Verdict {
		case Unmeasurable, Inconclusive:
			why := row.why()
			if key := string(row.Verdict) + why; !said[key] {
				said[key] = true
				r.reason(row.Verdict, "%s: %s", r.names(func(o *RowResult) bool { return o.Verdict == row.Verdict && o.why() == why }), why)
			}
		case Fail:
			r.reason(Fail, "%s: median %.4g, at best %.4g", row.Name(), row.Median, best(row))
		}
	}
	if r.Verdict == "" {
		r.Verdict = Pass
	}
}

// why is the reason of a row that neither passes nor fails.
func (r *RowResult) why() string {
	if n := len(r.Notes); n > 0 {
		return r.Notes[n-1]
	}
	return "the interval reaches both beyond the margin and beyond 1"
}

// names names the rows of which something holds, as briefly as can be: all of them,
// whole metrics, ratios of all metrics, or each.
func (r *Report) names(has func(*RowResult) bool) string {
	var names, metrics, ratios []string
	add := func(to *[]string, name string) {
		if !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	byMetric, byRatio := true, true
	for i := range r.Rows {
		row := &r.Rows[i]
		if !has(row) {
			continue
		}
		names = append(names, row.Name())
		add(&metrics, row.Metric)
		add(&ratios, row.Of+"/"+row.To)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if has(row) {
			continue
		}
		byMetric = byMetric && !slices.Contains(metrics, row.Metric)
		byRatio = byRatio && !slices.Contains(ratios, row.Of+"/"+row.To)
	}
	switch {
	case len(names) < 2:
	case len(names) == len(r.Rows):
		return fmt.Sprintf("all %d comparisons", len(names))
	case byRatio:
		return fmt.Sprintf("%s in all metrics", strings.Join(ratios, ", "))
	case byMetric && len(metrics) < len(names):
		return fmt.Sprintf("%s of all ratios", strings.Join(metrics, ", "))
	}
	return strings.Join(names, ", ")
}

// best is the end of the interval that speaks for the variant.
func best(r *RowResult) float64 {
	if r.Better == stats.Lower {
		return r.Interval.Low
	}
	return r.Interval.High
}

// rank orders verdicts by which of several decides. What could not be measured
// forbids every other verdict.
var rank = map[Verdict]int{Pass: 0, "": 0, Inconclusive: 1, Fail: 2, Unmeasurable: 3}

func (r *Report) reason(v Verdict, format string, args ...any) {
	r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...))
	if rank[v] > rank[r.Verdict] {
		r.Verdict = v
	}
}
