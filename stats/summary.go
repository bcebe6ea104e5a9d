package stats

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/kvbench/kvbench/internal/text"
)

// Summary is a plain sample with every interval.
type Summary struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// BootstrapSE is the bootstrap's standard error of the median, absent where
	// [BootstrapSE] is NaN.
	BootstrapSE *float64 `json:"bootstrap_se,omitempty"`
	// Sigma is the noise of one ratio, absent where [Noise] fails.
	Sigma     *float64   `json:"sigma,omitempty"`
	Intervals []Interval `json:"intervals"`
	Warnings  []Warning  `json:"warnings"`
}

// methods are those of a plain sample, in the order of a summary.
func methods() []Method {
	return []Method{MethodInterpolated, MethodExactBootstrap, MethodConservative, MethodHodgesLehmann, MethodLogT, MethodTrimmedLogT, MethodAnytime}
}

// Summarize computes every interval of values, which are in the order in which
// they were measured. It is an error to give none, one that is not finite, or a
// level that is not between 0 and 1.
func Summarize(values []float64, level float64) (Summary, error) {
	switch {
	case !(level > 0 && level < 1):
		return Summary{}, fmt.Errorf("confidence %g: give a share between 0 and 1, such as 0.95", level)
	case len(values) == 0:
		return Summary{}, errors.New("there are no numbers; give at least one")
	}
	s := Summary{N: len(values), Median: Median(values), Min: math.Inf(1), Max: math.Inf(-1), Warnings: SampleWarnings(values, level)}
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Summary{}, fmt.Errorf("number %d is %g, which is not finite", i+1, v)
		}
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
	}
	if se := BootstrapSE(values); !math.IsNaN(se) {
		s.BootstrapSE = &se
	}
	if sigma, ok := Noise(values); ok {
		s.Sigma = &sigma
	}
	for _, m := range methods() {
		s.Intervals = append(s.Intervals, Prepare(m, len(values), level).Interval(values))
	}
	return s, nil
}

// WriteText writes the summary for people, within the width of a terminal.
func (s Summary) WriteText(w io.Writer) error {
	var b text.Builder
	facts := text.Table{Left: []int{1}}
	facts.Row("n", strconv.Itoa(s.N))
	facts.Row("median", digits(s.Median))
	facts.Row("range", digits(s.Min)+" to "+digits(s.Max))
	if s.BootstrapSE != nil {
		facts.Row("standard error of the median (bootstrap)", fmt.Sprintf("%.3g", *s.BootstrapSE))
	}
	if s.Sigma != nil {
		facts.Row("noise of one ratio (1.4826 MAD of ln)", fmt.Sprintf("%.3g%%", 100**s.Sigma))
	}
	facts.Write(&b)
	if len(s.Intervals) > 0 {
		b.Line("")
		b.Line(fmt.Sprintf("%.4g%% intervals", 100*s.Intervals[0].Level))
	}
	intervals := text.Table{Left: []int{5}}
	intervals.Row("method", "estimate", "low", "high", "true level", "holds for")
	for _, iv := range s.Intervals {
		if !iv.Ok() {
			intervals.Row(string(iv.Method), "none", "", "", "", iv.Explain())
			continue
		}
		holds := string(iv.Basis)
		if iv.Basis == Nominal {
			holds = "none exactly: the level is nominal"
		}
		intervals.Row(string(iv.Method), digits(iv.Estimate), digits(iv.Low), digits(iv.High), fmt.Sprintf("%.2f%%", 100*iv.TrueLevel), holds)
	}
	intervals.Write(&b)
	for i, warning := range s.Warnings {
		if i == 0 {
			b.Line("")
		}
		b.Wrap("warning: ", string(warning.Name)+": "+warning.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// digits writes a figure with as many digits as a comparison of ratios needs.
func digits(v float64) string {
	if a := math.Abs(v); a >= 0.001 && a < 1000 {
		return fmt.Sprintf("%.6f", v)
	}
	return fmt.Sprintf("%.7g", v)
}
