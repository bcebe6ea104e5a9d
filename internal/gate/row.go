package gate

import (
	"fmt"
	"slices"

	"github.com/kvbench/kvbench/stats"
)

// Verdict is what a gate says. Its values are stable.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "PASS"
	Fail         Verdict = "FAIL"
	Inconclusive Verdict = "INCONCLUSIVE"
	Unmeasurable Verdict = "UNMEASURABLE"
)

// Row is one thing that is gated: a metric of a ratio, with its margin and what
// was measured of it.
type Row struct {
	Metric string       `json:"metric"`
	Unit   string       `json:"unit"`
	Better stats.Better `json:"better"`
	Of     string       `json:"of"` // the variant that is judged
	To     string       `json:"to"` // the variant it is compared with
	// Margin is the loss that is accepted, 0.02 for 2%.
	Margin float64 `json:"margin"`
	// FailBeyond makes FAIL stricter; see stats.Rule.
	FailBeyond float64     `json:"fail_beyond,omitempty"`
	Pairs      stats.Pairs `json:"pairs"`
	// Unpaired is what there is in place of Pairs against a stored baseline.
	Unpaired *Unpaired `json:"unpaired,omitempty"`
	// Refused is why the metric is no result under the experiment's load, "" if
	// it is one.
	Refused string `json:"refused,omitempty"`
}

// Name returns "metric of/to".
func (r *Row) Name() string { return fmt.Sprintf("%s %s/%s", r.Metric, r.Of, r.To) }

// RowResult is a row with its verdict.
type RowResult struct {
	Row
	Verdict Verdict `json:"verdict"`
	// Raw is the verdict before Holm's correction.
	Raw      Verdict        `json:"raw_verdict"`
	Median   float64        `json:"median"` // of the same-round ratios
	Interval stats.Interval `json:"interval"`
	Used     int            `json:"pairs_used"`
	Planned  int            `json:"pairs_planned"`
	// Loss is the largest loss that the interval allows, 0.013 for 1.3%.
	Loss float64 `json:"loss"`
	// P is the one-sided p-value of "not worse", for Holm; 1 without an interval.
	P        float64         `json:"p"`
	Notes    []string        `json:"notes,omitempty"`
	Warnings []stats.Warning `json:"warnings,omitempty"`
}

// Control is an A/A comparison: the base against itself under another name.
type Control struct {
	Metric string      `json:"metric"`
	Of     string      `json:"of"`
	To     string      `json:"to"`
	Pairs  stats.Pairs `json:"pairs"`
}

// method computes the interval that a look may use.
type method func(ratios []float64, level float64) stats.Interval

// maxDropped is the share of a variant's rounds that may be invalid in a row that
// passes: beyond it, what was left out could decide.
const maxDropped = 0.10

// judgeRow gives the verdict of one row, before Holm's correction.
func judgeRow(r *Row, interval method, look Look) RowResult {
	if r.Unpaired != nil {
		return judgeUnpaired(r, look.Level)
	}
	ratios := r.Pairs.Ratios()
	out := RowResult{
		Row: *r, Interval: interval(ratios, look.Level), Used: len(ratios), Planned: r.Pairs.Planned(),
		P: 1, Warnings: stats.Warnings(r.Pairs, look.Level),
	}
	// That one is about the bootstrap's interval, which no gate uses.
	out.Warnings = slices.DeleteFunc(out.Warnings, func(w stats.Warning) bool { return w.Name == stats.WarnLevel })
	if len(ratios) > 0 {
		out.Median = stats.Median(ratios)
	}
	rule := stats.Rule{Margin: r.Margin, Better: r.Better, FailBeyond: r.FailBeyond}
	j := rule.Judge(out.Interval)
	out.Raw, out.Loss = Verdict(j.Verdict), j.Loss
	if j.Note != "" {
		out.Notes = append(out.Notes, j.Note)
	}
	if out.Interval.Ok() {
		out.P = pValue(ratios, interval, look.Schedule, rule)
	}
	switch dropped := len(r.Pairs.Dropped); {
	case r.Refused != "":
		out.Raw = Unmeasurable
		out.Notes = append(out.Notes, r.Refused)
	case len(ratios) == 0:
		out.Raw = Unmeasurable
		out.Notes = append(out.Notes, "no round has a valid trial of both variants")
	case float64(dropped) > maxDropped*float64(out.Planned):
		out.Raw = Unmeasurable
		out.Notes = append(out.Notes, fmt.Sprintf("%d of %d rounds have an invalid trial; more than %g%% cannot be left out", dropped, out.Planned, 100*maxDropped))
	case out.Raw == Pass:
		if i := slices.IndexFunc(out.Warnings, func(w stats.Warning) bool { return w.Name == stats.WarnMissingness }); i >= 0 {
			out.Raw = Unmeasurable
			out.Notes = append(out.Notes, out.Warnings[i].Text)
		}
	}
	out.Verdict = out.Raw
	return out
}

// pValue is the one-sided p-value against "not worse than FailBeyond".
func pValue(ratios []float64, interval method, schedule Schedule, rule stats.Rule) float64 {
	switch {
	case schedule != Anytime && rule.Better == stats.Lower:
		return stats.PAbove(ratios, 1+rule.FailBeyond)
	case schedule != Anytime:
		return stats.PBelow(ratios, 1-rule.FailBeyond)
	}
	// The anytime sequence has a p-value that holds at all looks.
	return invert(func(level float64) stats.Interval { return interval(ratios, level) }, rule)
}

// invert returns half of one minus the largest level at which an interval excludes
// what is not worse.
func invert(interval func(level float64) stats.Interval, rule stats.Rule) float64 {
	at := func(level float64) bool {
		iv := interval(level)
		return iv.Ok() && worse(iv, rule)
	}
	const least = 0.01
	if !at(least) {
		return 1
	}
	lo, hi := least, 1.0
	for range 60 {
		if mid := (lo + hi) / 2; at(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (1 - lo) / 2
}

func worse(iv stats.Interval, rule stats.Rule) bool {
	if rule.Better == stats.Lower {
		return iv.Low > 1+rule.FailBeyond
	}
	return iv.High < 1-rule.FailBeyond
}

// holm takes back the FAIL of rows whose p-value does not stand among all rows.
// It changes nothing if there is one row.
func holm(rows []RowResult, level float64) {
	var measured []*RowResult
	var p []float64
	for i := range rows {
		if rows[i].Raw != Unmeasurable {
			measured = append(measured, &rows[i])
			p = append(p, rows[i].P)
		}
	}
	if len(measured) < 2 {
		return
	}
	alpha := (1 - level) / 2
	for i, adjusted := range stats.Holm(p) {
		r := measured[i]
		if r.Raw != Fail {
			continue
		}
		// A hair above alpha is rounding of the inversion, not evidence.
		if adjusted > alpha*(1+1e-9) {
			r.Verdict = Inconclusive
			r.Notes = append(r.Notes, fmt.Sprintf("fails alone (p %.3g), not after Holm's correction over %d rows", r.P, len(p)))
		} else {
			r.Notes = append(r.Notes, fmt.Sprintf("fails after Holm's correction over %d rows", len(p)))
		}
	}
}
