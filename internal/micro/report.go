package micro

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kvbench/kvbench/stats"
)

// Schema names this version of the report's JSON form.
const Schema = "kvbench.micro/v1"

// Report is the outcome of one benchmark.
type Report struct {
	Schema    string   `json:"schema"`
	Benchmark string   `json:"benchmark"`
	Rounds    int      `json:"rounds"` // measured, without the discarded first one
	Machine   any      `json:"machine,omitempty"`
	Build     any      `json:"build,omitempty"`
	Work      []Work   `json:"work"`
	Series    []Series `json:"series"`
	Notes     []string `json:"notes,omitempty"`
}

// Work describes what a case did, in the words of the case.
type Work struct {
	Case  string `json:"case"`
	About string `json:"about"`
}

// Series is one metric of one variant in one case.
type Series struct {
	Case         string    `json:"case"`
	Variant      string    `json:"variant"`
	Metric       string    `json:"metric"`
	Unit         string    `json:"unit"`
	HigherBetter bool      `json:"higher_is_better"`
	Values       []float64 `json:"values"` // by round
}

// Median returns the median of the values, NaN if there is none.
func (s *Series) Median() float64 { return stats.Median(s.Values) }

// find returns the series, nil if there is none.
func (r *Report) find(c, variant, metric string) *Series {
	for i := range r.Series {
		if s := &r.Series[i]; s.Case == c && s.Variant == variant && s.Metric == metric {
			return s
		}
	}
	return nil
}

// Ratios returns the same-round ratios of two variants' values, nil if one of
// them does not have the metric.
func (r *Report) Ratios(c, metric, variant, base string) []float64 {
	a, b := r.find(c, variant, metric), r.find(c, base, metric)
	if a == nil || b == nil || len(a.Values) != len(b.Values) {
		return nil
	}
	out := make([]float64, len(a.Values))
	for i := range out {
		out[i] = a.Values[i] / b.Values[i]
	}
	return out
}

// level is that of the intervals.
const level = 0.95

// WriteText writes one table for each case and metric: the median of every
// variant, the range of its rounds, and the median of its same-round ratios to
// the base, with an interval if the rounds are enough for one, else their range.
// What the base does not have gets the interval of its median instead.
func (r *Report) WriteText(w io.Writer, base string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s in one process, median [lowest, highest];\n", r.Benchmark, plural(r.Rounds, "round"))
	if r.Rounds >= stats.MinValues {
		fmt.Fprintf(&b, "x: median ratio to %s within a round, with its %g%% interval\n", base, 100*level)
	} else {
		fmt.Fprintf(&b, "x: median ratio to %s within a round [lowest, highest]; %d rounds would give an interval\n", base, stats.MinValues)
	}
	for _, work := range r.Work {
		fmt.Fprintf(&b, "\n%s: %s\n", work.Case, work.About)
		tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		last := ""
		for i := range r.Series {
			s := &r.Series[i]
			if s.Case != work.Case || s.Metric == last {
				continue
			}
			last = s.Metric
			fmt.Fprintf(tw, "  %s (%s)\n", s.Metric, s.Unit)
			for j := range r.Series {
				v := &r.Series[j]
				if v.Case != s.Case || v.Metric != s.Metric {
					continue
				}
				fmt.Fprintf(tw, "    %s\t%s\t[%s, %s]", v.Variant, number(v.Median()), number(slices.Min(v.Values)), number(slices.Max(v.Values)))
				if ratios := r.Ratios(v.Case, v.Metric, v.Variant, base); ratios != nil && v.Variant != base {
					fmt.Fprint(tw, ratioCells(ratios))
				} else if iv := stats.Interpolated(v.Values, level); iv.Ok() && r.find(v.Case, base, v.Metric) == nil {
					fmt.Fprintf(tw, "\tmedian in\t[%s, %s]", number(iv.Low), number(iv.High))
				}
				fmt.Fprintln(tw)
			}
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nnote: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ratioCells returns the columns of a ratio, "" if a round gave none.
func ratioCells(ratios []float64) string {
	for _, v := range ratios {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return ""
		}
	}
	low, high := slices.Min(ratios), slices.Max(ratios)
	if iv := stats.Interpolated(ratios, level); iv.Ok() {
		low, high = iv.Low, iv.High
	}
	return fmt.Sprintf("\tx %s\t[%s, %s]", number(stats.Median(ratios)), number(low), number(high))
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// number prints three significant digits without an exponent.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return fmt.Sprint(v)
	case a == 0:
		return "0"
	case a >= 1e6:
		return fmt.Sprintf("%.4g M", v/1e6)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
