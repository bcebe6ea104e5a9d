package gate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/stats"
)

// Unpaired holds what a row rests on if its sides were not measured in the same
// rounds.
type Unpaired struct {
	X stats.Series `json:"x"` // the variant now
	Y stats.Series `json:"y"` // the same variant in the stored experiment
}

// storedName marks the other side of a ratio to a stored experiment wherever the
// ratio is named. It says which, so that a look at another baseline is another look.
func storedName(variant string, base *rounds.Manifest) string {
	return fmt.Sprintf("%s (STORED BASELINE of %s, UNPAIRED)", variant, base.Created)
}

// unpairedWarning is what a reader of such a verdict has to know.
const unpairedWarning = "UNPAIRED, against a stored baseline: whatever changed on the machine between the two experiments is in the ratio; rounds that run both are better"

// tooMuchDropped says whether either side lost more than may be left out.
func (u *Unpaired) tooMuchDropped() (stats.Series, bool) {
	for _, s := range []stats.Series{u.X, u.Y} {
		if all := len(s.Readings); float64(all-len(s.Values())) > maxDropped*float64(all) {
			return s, true
		}
	}
	return stats.Series{}, false
}

// judgeUnpaired gives the verdict of a row against a stored baseline.
func judgeUnpaired(r *Row, level float64) RowResult {
	x, y := r.Unpaired.X.Values(), r.Unpaired.Y.Values()
	interval := func(level float64) stats.Interval { return stats.Unpaired(x, y, level) }
	iv := interval(level)
	out := RowResult{Row: *r, Interval: iv, Median: iv.Estimate, Used: iv.N, Planned: min(len(r.Unpaired.X.Readings), len(r.Unpaired.Y.Readings)), P: 1,
		Notes: []string{unpairedWarning}}
	rule := stats.Rule{Margin: r.Margin, Better: r.Better, FailBeyond: r.FailBeyond}
	j := rule.Judge(iv)
	out.Raw, out.Loss = Verdict(j.Verdict), j.Loss
	if j.Note != "" {
		out.Notes = append(out.Notes, j.Note)
	}
	if iv.Ok() {
		out.P = invert(interval, rule)
	}
	short, dropped := r.Unpaired.tooMuchDropped()
	switch {
	case r.Refused != "":
		out.Raw = Unmeasurable
		out.Notes = append(out.Notes, r.Refused)
	case len(x) == 0 || len(y) == 0:
		out.Raw = Unmeasurable
		out.Notes = append(out.Notes, "one of the experiments has no valid trial")
	case dropped:
		out.Raw = Unmeasurable
		out.Notes = append(out.Notes, fmt.Sprintf("%d of %d trials of %s are valid; more than %g%% cannot be left out", len(short.Values()), len(short.Readings), short.Variant, 100*maxDropped))
	}
	out.Verdict = out.Raw
	return out
}

// checkBaseline refuses a baseline that differs in more than the programs.
func checkBaseline(exp, base *rounds.Experiment) error {
	a, b := exp.Manifest, base.Manifest
	switch {
	case exp.Dir == base.Dir:
		return errors.New("the baseline is the experiment itself")
	case a.Host != b.Host:
		return fmt.Errorf("the baseline %s was measured on another machine (%s, this one is %s): such ratios say nothing", base.Dir, b.Host.Fingerprint(), a.Host.Fingerprint())
	case a.Work.SHA256 != b.Work.SHA256:
		return fmt.Errorf("the baseline %s replayed another corpus (sha256 %.12s, this one %.12s)", base.Dir, b.Work.SHA256, a.Work.SHA256)
	case !slices.Equal(a.Arguments, b.Arguments):
		return fmt.Errorf("the baseline %s was run with other flags (%q, this one with %q)", base.Dir, b.Arguments, a.Arguments)
	}
	return nil
}

// baselineRows makes a row for each metric and variant.
func baselineRows(exp *rounds.Experiment, o Options, metrics []MetricConfig, n int) ([]Row, error) {
	if err := checkBaseline(exp, o.Baseline); err != nil {
		return nil, err
	}
	if len(metrics) == 0 {
		return nil, fmt.Errorf("%s compares nothing by itself; say what to compare with the baseline with --metric or --criteria", exp.Dir)
	}
	var rows []Row
	for _, mc := range metrics {
		var names []string
		ratios := o.Ratios
		if mc.Ratio != "" {
			r, err := rounds.ParseRatio(mc.Ratio)
			if err != nil {
				return nil, fmt.Errorf("%s: ratio: %w", mc.where(), err)
			}
			ratios = []rounds.Ratio{r}
		}
		for _, r := range ratios {
			names = append(names, r.Of)
		}
		if len(names) == 0 {
			for _, v := range exp.Manifest.Variants {
				if v.Name != exp.Manifest.Control {
					names = append(names, v.Name)
				}
			}
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			row, err := baselineRow(exp, o.Baseline, mc, name, n)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(rows, func(o Row) bool { return o.Name() == row.Name() }) {
				return nil, fmt.Errorf("%s: %s is asked for twice, and a row more makes the correction for all of them stricter; name each once", mc.where(), row.Name())
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func baselineRow(exp, base *rounds.Experiment, mc MetricConfig, name string, n int) (Row, error) {
	now, err := exp.Alone(mc.Metric, name, n)
	if err != nil {
		return Row{}, err
	}
	then, err := base.Alone(mc.Metric, name, 0)
	if err != nil {
		return Row{}, fmt.Errorf("baseline: %w", err)
	}
	args := func(e *rounds.Experiment) []string {
		i := slices.IndexFunc(e.Manifest.Variants, func(v rounds.Entrant) bool { return v.Name == name })
		return e.Manifest.Variants[i].Args
	}
	if a, b := args(exp), args(base); !slices.Equal(a, b) {
		return Row{}, fmt.Errorf("the baseline's %s has other flags (%q, here %q)", name, b, a)
	}
	better := now.Metric.Better
	if mc.Better != "" && better != "" && mc.Better != better {
		return Row{}, fmt.Errorf("%s: better is %s, and %s is better when %s; leave better out", mc.where(), mc.Better, now.Metric.Path, better)
	}
	if mc.Better != "" {
		better = mc.Better
	}
	if better == "" {
		return Row{}, fmt.Errorf("metric %s is better neither when higher nor when lower; say which in a gate file with better: higher or better: lower", now.Metric.Path)
	}
	row := Row{Metric: now.Metric.Path, Unit: now.Metric.Unit, Better: better, Of: name, To: storedName(name, base.Manifest),
		Margin: mc.Margin, FailBeyond: mc.FailBeyond, Refused: now.Refused, Unpaired: &Unpaired{X: now.Series, Y: then.Series}}
	if row.Refused == "" && then.Refused != "" {
		row.Refused = "baseline: " + then.Refused
	}
	return row, nil
}
