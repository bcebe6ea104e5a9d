package gate

import (
	"fmt"
	"math"

	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/stats"
)

// Side is what an experiment shows of a comparison where no margin was asked for.
type Side string

// The sides.
const (
	Open      Side = "open" // 1 is not ruled out, or something forbids to say so
	Worse     Side = "worse"
	Better    Side = "better"
	Different Side = "different" // of a metric of which neither direction is better
)

// Reading is what may be said of one comparison.
type Reading struct {
	Side Side
	// Why says why it is open although its interval leaves 1 aside; "" otherwise.
	Why string
}

// Readings are those of an analysis.
type Readings struct {
	Of []Reading // by the place in Analysis.Comparisons
	// Family is how many comparisons were corrected for each other: those that
	// were measured.
	Family int
}

// Read says of every comparison on which side of 1 it lies, as a gate would: each
// direction is judged like the loss of a fixed look, with Holm's correction over
// all comparisons; where there is a control, its interval must lie nearer to 1 than
// the median; and too many rounds left out forbid a claim. It takes no look and
// gives no verdict: that the machine was fit and that one looked once is not asked.
func Read(a *rounds.Analysis) *Readings {
	look := Look{Schedule: Fixed, Rounds: a.Done, Level: a.Level}
	// judged has every comparison as a loss if it is worse when lower, or higher.
	judged := func(worse func(b stats.Better) stats.Better) []RowResult {
		out := make([]RowResult, len(a.Comparisons))
		for i := range a.Comparisons {
			c := &a.Comparisons[i]
			out[i] = judgeRow(&Row{
				Metric: c.Metric.Path, Unit: c.Metric.Unit, Better: worse(c.Metric.Better), Of: c.Ratio.Of, To: c.Ratio.To,
				Pairs: c.Result.Pairs, Refused: c.Refused,
			}, stats.Interpolated, look)
		}
		holm(out, a.Level)
		return out
	}
	losses := judged(func(b stats.Better) stats.Better { return b })
	gains := judged(func(b stats.Better) stats.Better {
		if b == stats.Lower {
			return stats.Higher
		}
		return stats.Lower
	})
	r := &Readings{Of: make([]Reading, len(a.Comparisons)), Family: max(measured(losses), measured(gains))}
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		loss, gain := &losses[i], &gains[i]
		out := &r.Of[i]
		*out = Reading{Side: Open}
		side, row := Worse, loss
		// A gain passes at any margin; the zero margin passes what lies beyond 1.
		if crosses(gain) {
			side, row = Better, gain
		} else if !crosses(loss) {
			continue
		}
		if c.Metric.Better == "" {
			side = Different
		}
		if out.Why = forbids(a, c, row, side, r.Family); out.Why == "" {
			out.Side = side
		}
	}
	return r
}

// Unfit lists what made the machine of an experiment unfit for a verdict, each once.
func Unfit(exp *rounds.Experiment) []string { return unfit(exp) }

// crosses says whether the interval of a row lies on its worse side of 1.
func crosses(r *RowResult) bool {
	return r.Refused == "" && r.Interval.Ok() && worse(r.Interval, stats.Rule{Better: r.Better})
}

// measured counts the rows that Holm's correction is over.
func measured(rows []RowResult) int {
	n := 0
	for i := range rows {
		if rows[i].Raw != Unmeasurable {
			n++
		}
	}
	return n
}

// forbids says why a comparison whose interval leaves 1 aside is open; "" if it is
// not.
func forbids(a *rounds.Analysis, c *rounds.Comparison, row *RowResult, side Side, family int) string {
	switch {
	case row.Raw == Fail && row.Verdict != Fail:
		return fmt.Sprintf("alone its interval leaves 1 aside (p %.2g on its side), but not after Holm's correction over %d comparisons", row.P, family)
	case row.Verdict != Fail && len(row.Notes) > 0:
		return row.Notes[len(row.Notes)-1]
	}
	if side != Worse {
		for _, w := range row.Warnings {
			if w.Name == stats.WarnMissingness {
				return w.Text
			}
		}
	}
	for i := range a.Floor {
		f := &a.Floor[i]
		if f.Metric.Path != c.Metric.Path {
			continue
		}
		effect := Row{Metric: c.Metric.Path, Margin: math.Abs(row.Median - 1)}
		control := judgeControl(Control{Metric: f.Metric.Path, Of: f.Ratio.Of, To: f.Ratio.To, Pairs: f.Result.Pairs}, []Row{effect}, stats.Interpolated, a.Level)
		iv := control.Interval
		switch {
		case control.OK:
		case !iv.Ok() || iv.Low > 1 || iv.High < 1:
			return fmt.Sprintf("the control %s forbids more: %s", f.Ratio, control.Note)
		default:
			return fmt.Sprintf("within what the same program shows against itself: the interval of the control %s is %.3f to %.3f", f.Ratio, iv.Low, iv.High)
		}
	}
	return ""
}
