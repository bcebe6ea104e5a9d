package stats

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
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
		return Summary{}, fmt.Errorf("there are no numbers")
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

// WriteText writes the summary as a table for people.
func (s Summary) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "n\t%d\n", s.N)
	fmt.Fprintf(tw, "median\t%s\n", digits(s.Median))
	fmt.Fprintf(tw, "range\t%s to %s\n", digits(s.Min), digits(s.Max))
	if s.BootstrapSE != nil {
		fmt.Fprintf(tw, "standard error of the median (bootstrap)\t%.3g\n", *s.BootstrapSE)
	}
	if s.Sigma != nil {
		fmt.Fprintf(tw, "noise of one ratio (1.4826 MAD of ln)\t%.3g%%\n", 100**s.Sigma)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(s.Intervals) > 0 {
		fmt.Fprintf(w, "\n%.4g%% intervals\n", 100*s.Intervals[0].Level)
	}
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "method\testimate\tlow\thigh\ttrue level\tholds for")
	for _, iv := range s.Intervals {
		if !iv.Ok() {
			fmt.Fprintf(tw, "%s\tnone\t\t\t\t%s\n", iv.Method, iv.Explain())
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%.2f%%\t%s\n", iv.Method, digits(iv.Estimate), digits(iv.Low), digits(iv.High), 100*iv.TrueLevel, iv.Basis)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i, warning := range s.Warnings {
		if i == 0 {
			fmt.Fprintln(w)
		}
		if _, err := fmt.Fprintf(w, "warning: %s: %s\n", warning.Name, warning.Text); err != nil {
			return err
		}
	}
	return nil
}

// digits writes a figure with as many digits as a comparison of ratios needs.
func digits(v float64) string {
	if a := math.Abs(v); a >= 0.001 && a < 1000 {
		return fmt.Sprintf("%.6f", v)
	}
	return fmt.Sprintf("%.7g", v)
}
