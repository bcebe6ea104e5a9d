package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/rounds"
)

// Options say how an experiment is gated.
type Options struct {
	Config Config
	// Margin and FailBeyond are for the metrics that the experiment or its load
	// names, where Config lists none; Margin 0: none is accepted.
	Margin     float64
	FailBeyond float64
	Ratios     []rounds.Ratio // none: those of the experiment
	Schedule   Schedule
	// Append is the number of rounds to run before looking; only for Anytime.
	Append int
	// AllowUnfit lets a machine that host calls unfit give a verdict all the same.
	AllowUnfit bool
	// Baseline is a stored experiment that variants are compared with in place of
	// each other; nil: none. Only for Fixed.
	Baseline *rounds.Experiment
	Run      rounds.RunOptions
}

// noteName is under what name an experiment remembers looks.
const noteName = "gate"

// Experiment gates an experiment: it runs the rounds that the schedule asks for,
// judges, and has the experiment remember the look. The sequential schedule goes
// on until it has a verdict, the last look, or an unfit machine.
//
// The error wraps ErrSpent if earlier looks forbid this one, and what
// rounds.Experiment.Run returns if rounds could not be run.
func Experiment(ctx context.Context, exp *rounds.Experiment, o Options) (*Report, error) {
	if o.Append != 0 && o.Schedule != Anytime {
		return nil, errors.New("rounds can be appended only with the anytime schedule, since the others hold for one number of rounds fixed before")
	}
	if o.Baseline != nil && o.Schedule != Fixed {
		return nil, errors.New("a stored baseline is compared once; the sequential and anytime schedules are for pairs of the same rounds")
	}
	if o.Config.Confidence == 0 {
		o.Config.Confidence = DefaultLevel
	}
	if o.Schedule == Sequential && o.Config.Confidence != DefaultLevel {
		return nil, fmt.Errorf("the boundaries of the sequential schedule are for a confidence of %g%%", 100*DefaultLevel)
	}
	if o.Append > 0 {
		if err := exp.Extend(exp.Rounds()+o.Append, appendedWhy); err != nil {
			return nil, err
		}
		if err := exp.Run(ctx, o.Run); err != nil {
			return nil, err
		}
	}
	if o.Schedule != Sequential {
		done, err := doneRounds(exp)
		if err != nil {
			return nil, err
		}
		return look(exp, o, done)
	}
	for i, n := range sequentialRounds {
		before, err := ParseLooks(exp.Notes(noteName))
		if err != nil {
			return nil, err
		}
		// A look that was taken and left it open is not taken again.
		if i+1 < len(sequentialRounds) && slices.ContainsFunc(before, func(b Look) bool { return b.Schedule == Sequential && b.Rounds > n }) {
			continue
		}
		if exp.Rounds() < n {
			if err := exp.Extend(n, fmt.Sprintf("sequential look %d", i+1)); err != nil {
				return nil, err
			}
		}
		if done, err := doneRounds(exp); err != nil {
			return nil, err
		} else if done < n {
			if err := exp.Run(ctx, o.Run); err != nil {
				return nil, err
			}
		}
		r, err := look(exp, o, n)
		if err != nil || !r.open() {
			return r, err
		}
		if n == sequentialRounds[len(sequentialRounds)-1] {
			return r, nil
		}
	}
	return nil, errors.New("the sequential schedule has no look")
}

// open says whether more rounds may bring a verdict that is not there yet.
func (r *Report) open() bool {
	return r.Verdict == Inconclusive || r.Verdict == Unmeasurable && len(r.Unfit) == 0
}

// doneRounds returns in how many rounds every variant ran.
func doneRounds(exp *rounds.Experiment) (int, error) {
	a, err := exp.Analyse(rounds.AnalyseOptions{})
	if err != nil {
		return 0, err
	}
	return a.Done, nil
}

// Looks returns the looks that an experiment remembers, oldest first.
func Looks(exp *rounds.Experiment) ([]Look, error) { return ParseLooks(exp.Notes(noteName)) }

// look judges the first n rounds and notes it.
func look(exp *rounds.Experiment, o Options, n int) (*Report, error) {
	in, err := input(exp, o, n)
	if err != nil {
		return nil, err
	}
	before, err := ParseLooks(exp.Notes(noteName))
	if err != nil {
		return nil, err
	}
	if o.Schedule != Anytime {
		if err := unspoilt(exp, o.Schedule); err != nil {
			return nil, err
		}
	}
	if in.Look, err = Plan(o.Schedule, o.Config.Confidence, n, in.Planned, RuleOf(in.Rows), before); err != nil {
		return nil, err
	}
	r, err := Judge(in)
	if err != nil {
		return nil, err
	}
	r.Look.Verdict, r.Time = r.Verdict, time.Now().UTC().Truncate(time.Second)
	inherited, err := mergedLooks(exp)
	if err != nil {
		return nil, err
	}
	for _, b := range slices.Concat(inherited, before) {
		if b != r.Look {
			r.Before = append(r.Before, b)
		}
	}
	if slices.Contains(before, r.Look) {
		return r, nil
	}
	if err := exp.Note(noteName, r.Look); err != nil {
		return nil, fmt.Errorf("this look could not be noted in the experiment, so it must not be used: %w", err)
	}
	return r, nil
}

// mergedLooks returns the looks at the experiments that this one was merged from.
func mergedLooks(exp *rounds.Experiment) ([]Look, error) {
	var out []Look
	name := noteName
	for range maxMerges {
		name = rounds.MergedNote + "." + name
		looks, err := ParseLooks(exp.Notes(name))
		if err != nil {
			return nil, err
		}
		out = append(out, looks...)
	}
	return out, nil
}

// maxMerges bounds how often what was merged may have been merged again.
const maxMerges = 16

// unspoilt refuses a look that holds for a number of rounds fixed before, where the
// number was chosen after something had been seen.
func unspoilt(exp *rounds.Experiment, s Schedule) error {
	inherited, err := mergedLooks(exp)
	if err != nil {
		return err
	}
	if len(inherited) > 0 {
		return fmt.Errorf("%w before it was merged: %s; another look is only allowed with --anytime (--append)", ErrSpent, inherited[0].Text())
	}
	for _, x := range exp.Extensions {
		if s == Fixed || x.Why == appendedWhy {
			return fmt.Errorf("%w or begun to be gated: rounds were added to those planned (%s), and a %s look needs the plan; use --anytime (--append)", ErrSpent, x.Why, s)
		}
	}
	return nil
}

// appendedWhy is why rounds were added for the anytime schedule.
const appendedWhy = "appended for the gate"

// input gathers the first n rounds of an experiment.
func input(exp *rounds.Experiment, o Options, n int) (Input, error) {
	m := exp.Manifest
	in := Input{Name: exp.Dir, Rounds: n, Planned: exp.Rounds()}
	if o.Schedule == Sequential {
		in.Planned = sequentialRounds[len(sequentialRounds)-1]
	}
	if !o.AllowUnfit {
		in.Unfit = unfit(exp)
	}
	metrics := o.Config.Metrics
	if len(metrics) == 0 {
		// What the experiment asks for, or what its load makes meaningful.
		a, err := exp.Analyse(rounds.AnalyseOptions{Ratios: o.Ratios, Rounds: n})
		if err != nil {
			return in, err
		}
		for _, c := range a.Comparisons {
			if !slices.ContainsFunc(metrics, func(m MetricConfig) bool { return m.Metric == c.Metric.Path }) {
				metrics = append(metrics, MetricConfig{Metric: c.Metric.Path, Margin: o.Margin, FailBeyond: o.FailBeyond})
			}
		}
	}
	if o.Baseline != nil {
		var err error
		if in.Rows, err = baselineRows(exp, o, metrics, n); err != nil || o.AllowUnfit {
			return in, err
		}
		for _, why := range unfit(o.Baseline) {
			in.Unfit = append(in.Unfit, "baseline: "+why)
		}
		return in, nil
	}
	var controlled []string
	for _, mc := range metrics {
		ratios := o.Ratios
		if mc.Ratio != "" {
			r, err := rounds.ParseRatio(mc.Ratio)
			if err != nil {
				return in, fmt.Errorf("%s: ratio: %w", mc.where(), err)
			}
			ratios = []rounds.Ratio{r}
		}
		a, err := exp.Analyse(rounds.AnalyseOptions{Ratios: ratios, Metrics: []string{mc.Metric}, Rounds: n, Level: o.Config.Confidence})
		if err != nil {
			return in, fmt.Errorf("%s: %w", mc.where(), err)
		}
		for _, c := range a.Comparisons {
			better := c.Metric.Better
			switch {
			case mc.Better != "" && better != "" && mc.Better != better:
				return in, fmt.Errorf("%s: better is %s, and %s is better when %s; leave better out", mc.where(), mc.Better, c.Metric.Path, better)
			case mc.Better != "":
				better = mc.Better
			case better == "":
				return in, fmt.Errorf("metric %s is better neither when higher nor when lower; say which in a gate file with better: higher or better: lower", c.Metric.Path)
			}
			row := Row{
				Metric: c.Metric.Path, Unit: c.Metric.Unit, Better: better, Of: c.Ratio.Of, To: c.Ratio.To,
				Margin: mc.Margin, FailBeyond: mc.FailBeyond, Pairs: c.Result.Pairs, Refused: c.Refused,
			}
			if slices.ContainsFunc(in.Rows, func(o Row) bool { return o.Name() == row.Name() }) {
				return in, fmt.Errorf("%s: %s is asked for twice, and a row more makes the correction for all of them stricter; name each once", mc.where(), row.Name())
			}
			in.Rows = append(in.Rows, row)
		}
		for _, c := range a.Floor {
			if !slices.Contains(controlled, c.Metric.Path) {
				controlled = append(controlled, c.Metric.Path)
				in.Controls = append(in.Controls, Control{Metric: c.Metric.Path, Of: m.Control, To: m.Base, Pairs: c.Result.Pairs})
			}
		}
	}
	return in, nil
}

// unfit lists what the host checks of the sessions call unfit, and what happened to
// the machine between them, each once.
func unfit(exp *rounds.Experiment) []string {
	var out []string
	add := func(name, detail string) {
		if !slices.ContainsFunc(out, func(s string) bool { return strings.HasPrefix(s, name+":") }) {
			out = append(out, name+": "+detail)
		}
	}
	for _, s := range exp.Sessions {
		for _, report := range []*host.Report{s.Host, s.HostAtEnd} {
			if report == nil {
				continue
			}
			for _, f := range report.With(host.Unfit) {
				add(f.Name, f.Detail)
			}
		}
		if s.Host == nil || s.HostAtEnd == nil {
			continue
		}
		// Trials keep CPUs busy themselves, so pressure meanwhile is not judged.
		for _, c := range host.Compare(s.Host, s.HostAtEnd, false) {
			if c.Verdict == host.Unfit {
				add(c.Name, "while the rounds ran, "+c.Detail)
			}
		}
	}
	return out
}
