package gate

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/stats"
)

// SelfTest is what a gate made of a base against itself and of a canary that is
// slowed on purpose.
type SelfTest struct {
	Margin float64 `json:"margin"`
	Rounds int     `json:"rounds"`
	// DelayNS is what each event of the canary was slowed by.
	DelayNS int64      `json:"delay_ns"`
	AA      *RowResult `json:"aa"`
	Canary  *RowResult `json:"canary"`
	// Unlocked says why no lock kept other measurements away; "": one did.
	Unlocked string `json:"unlocked,omitempty"`
}

// OK says whether the gate did what it must: pass the one, fail the other.
func (t *SelfTest) OK() bool { return t.AA.Verdict == Pass && t.Canary.Verdict == Fail }

// selfTestMetric is what a slowed event thread shows in under overload.
const selfTestMetric = "rates.achieved_block_ops_per_sec"

// canaryMargins is how many margins the canary is slowed by, one after another.
const canaryMargins = 3

// selfTestPower is the probability of the right verdict that the advice is for.
const selfTestPower = 0.9

// SelfTestWork are the arguments of the trials of a self-test, whose one event
// thread is what they wait for. The window is long enough for issuers that share
// their CPUs to keep to it, and holds several times what the thread can do in it.
func SelfTestWork() []string {
	return []string{"replay", "conversation-small", "--workers=16", "--duration=300ms", "--duplication-factor=40",
		"--quiesce=0s", "--event-workers=1", "--query-threads=1", "--allow-shared-cpus"}
}

// ErrNoCanary says that the trials of the base do not tell how a canary is to be
// slowed.
var ErrNoCanary = errors.New("the machine cannot show the difference")

// canaryMetrics are the time of a trial, its events and the threads they are for.
var canaryMetrics = []string{"timing.end_ns", "totals.completed_events", "config.event_threads"}

// CanaryDelay returns the delay for each event that leaves an overloaded
// experiment's base a throughput of (1-margin)³, three margins one after another,
// as far as its event threads are what it waits for.
func CanaryDelay(exp *rounds.Experiment, margin float64) (ns int64, err error) {
	a, err := exp.Analyse(rounds.AnalyseOptions{Ratios: []rounds.Ratio{{Of: exp.Manifest.Control, To: exp.Manifest.Base}},
		Metrics: canaryMetrics})
	if err != nil {
		return 0, err
	}
	if a.Load != rounds.Overloaded {
		return 0, fmt.Errorf("%w: the trials of the base are not overloaded (%s), so throughput says nothing", ErrNoCanary, a.Load)
	}
	median := func(i int) float64 { return a.Comparisons[i].MedianTo }
	if median(1) <= 0 {
		return 0, fmt.Errorf("%w: no trial of the base is valid", ErrNoCanary)
	}
	return canaryDelay(median(0), median(1), median(2), margin), nil
}

// canaryDelay spreads the time that is missing over the events of each thread.
func canaryDelay(endNS, events, threads, margin float64) int64 {
	slower := math.Pow(1-margin, -canaryMargins) - 1
	return int64(math.Ceil(slower * endNS * threads / events))
}

// JudgeAA gates the two copies of an experiment's base.
func JudgeAA(exp *rounds.Experiment, margin float64) (*RowResult, error) {
	return judgeOne(exp, rounds.Ratio{Of: exp.Manifest.Control, To: exp.Manifest.Base}, margin)
}

// JudgeCanary gates an experiment's first ratio.
func JudgeCanary(exp *rounds.Experiment, margin float64) (*RowResult, error) {
	return judgeOne(exp, exp.Manifest.Ratios[0], margin)
}

func judgeOne(exp *rounds.Experiment, r rounds.Ratio, margin float64) (*RowResult, error) {
	a, err := exp.Analyse(rounds.AnalyseOptions{Ratios: []rounds.Ratio{r}, Metrics: []string{selfTestMetric}})
	if err != nil {
		return nil, err
	}
	c := a.Comparisons[0]
	return judgeHalf(Row{Metric: c.Metric.Path, Unit: c.Metric.Unit, Better: c.Metric.Better, Of: r.Of, To: r.To, Margin: margin, Pairs: c.Result.Pairs, Refused: c.Refused},
		r.Of == exp.Manifest.Control)
}

// judgeHalf gates a half of the self-test. The base against itself is held to what
// an A/A control is held to as well: a pass by noise is none.
func judgeHalf(row Row, control bool) (*RowResult, error) {
	n := row.Pairs.Planned()
	in := Input{Rounds: n, Planned: n, Rows: []Row{row}, Look: Look{Schedule: Fixed, Rounds: n, Level: DefaultLevel}}
	if control {
		in.Controls = []Control{{Metric: row.Metric, Of: row.Of, To: row.To, Pairs: row.Pairs}}
	}
	report, err := Judge(in)
	if err != nil {
		return nil, err
	}
	out := &report.Rows[0]
	for _, c := range report.Controls {
		if !c.OK && out.Verdict == Pass {
			out.Verdict = Unmeasurable
			out.Notes = append(out.Notes, c.Note)
		}
	}
	return out, nil
}

// WriteText writes both halves for a terminal.
func (t *SelfTest) WriteText(w io.Writer) error {
	var b text.Builder
	b.Wrap("", fmt.Sprintf("self-test of the gate: margin %g%%, %d rounds, canary slowed by %d ns an event", 100*t.Margin, t.Rounds, t.DelayNS))
	table := text.Table{Left: []int{1, 2, 4}}
	table.Row("", "verdict", "wanted", "median", "interval", "pairs")
	for _, half := range []struct {
		name string
		row  *RowResult
		want Verdict
	}{{"base against itself", t.AA, Pass}, {"canary", t.Canary, Fail}} {
		table.Row(half.name, string(half.row.Verdict), string(half.want), fmt.Sprintf("%.4f", half.row.Median),
			half.row.interval(), fmt.Sprintf("%d of %d", half.row.Used, half.row.Planned))
	}
	table.Write(&b)
	if t.Unlocked != "" {
		b.Wrap("", "warning: no lock kept other measurements of kvbench off the machine: "+t.Unlocked)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Advice says what would help where the self-test did not come out right.
func (t *SelfTest) Advice() []string {
	var out []string
	for _, r := range []*RowResult{t.AA, t.Canary} {
		out = append(out, r.Notes...)
	}
	if sigma, ok := stats.Noise(t.AA.Pairs.Ratios()); ok {
		out = append(out, fmt.Sprintf("the noise of one ratio is %.1f%%, so a margin of %g%% needs %d rounds (--self-test-rounds), and %d rounds show a margin of %.0f%% (--margin)",
			100*sigma, 100*t.Margin, stats.RoundsNeeded(sigma, t.Margin, DefaultLevel, selfTestPower, stats.MedianEfficiency),
			t.Rounds, math.Ceil(100*stats.Resolvable(sigma, t.Rounds, DefaultLevel, selfTestPower, stats.MedianEfficiency))))
	}
	return out
}
