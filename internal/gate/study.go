package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/stats"
)

// Study counts how often gates are wrong on simulated rounds whose true ratio is
// known. Its table is a function of its fields alone.
type Study struct {
	Gates  int     `json:"gates"`  // for each line of the table
	Rounds int     `json:"rounds"` // of a fixed gate
	Sigma  float64 `json:"sigma"`  // of the logarithm of a trial's figure
	Margin float64 `json:"margin"`
	Seed   uint64  `json:"seed"`
}

// StudyTable is what a study counted.
type StudyTable struct {
	Study
	Lines []StudyLine `json:"lines"`
}

// StudyLine counts verdicts of one schedule on one form of noise.
type StudyLine struct {
	Noise    string   `json:"noise"`
	Schedule Schedule `json:"schedule"`
	Truth    float64  `json:"truth"` // true ratio, 1 in an A/A gate
	Pass     int      `json:"pass"`
	Fail     int      `json:"fail"`
	Open     int      `json:"inconclusive"`
	Looks    int      `json:"looks"` // of all gates
}

// StatedRate returns the share of verdicts that may be wrong. A fixed look and the
// sequence after it may be wrong one after the other, so their shares add.
func (l *StudyLine) StatedRate() float64 {
	if l.Schedule == appended {
		return 1 - DefaultLevel
	}
	return (1 - DefaultLevel) / 2
}

// Wrong returns how many verdicts were false: FAIL without a difference, PASS of
// a loss of the margin.
func (l *StudyLine) Wrong() int {
	if l.Truth == 1 {
		return l.Fail
	}
	return l.Pass
}

// noises are the forms of noise of the logarithm of a trial's figure, with a
// scale of 1 each. Both sides of a pair also share a drift of the machine, which
// same-round ratios take out.
var noises = []struct {
	name string
	draw func(*rand.Rand) float64
}{
	{"log-normal", (*rand.Rand).NormFloat64},
	// What another tenant does to some trials: they are slowed, never sped up.
	{"log-normal, one trial in ten slowed", func(r *rand.Rand) float64 {
		v := r.NormFloat64()
		if r.Float64() < 0.1 {
			v -= 4 * r.ExpFloat64()
		}
		return v
	}},
}

// appended is what those do who want another verdict than a fixed look gave: they
// append a few rounds at a time and look by the anytime schedule, until they have one,
// or with a loss until it passes, whatever was said before.
const appended Schedule = "fixed, then append"

// appendStep and appendSteps are how many rounds they append, and how often.
const (
	appendStep  = 5
	appendSteps = 4
)

var studied = []Schedule{Fixed, Sequential, Anytime, appended}

// anytimeLast is at how many rounds the simulated users of the anytime schedule
// give up, having looked after every round.
const anytimeLast = 40

// Run simulates the gates. progress, which may be nil, is told how many are done.
func (s *Study) Run(ctx context.Context, progress func(done int64)) (*StudyTable, error) {
	switch {
	case s.Gates < 1:
		return nil, fmt.Errorf("%d gates; simulate at least 1", s.Gates)
	case s.Rounds < stats.MinValues:
		return nil, fmt.Errorf("%d rounds; an interval needs %d", s.Rounds, stats.MinValues)
	case !(s.Sigma > 0 && s.Sigma < 1):
		return nil, fmt.Errorf("the noise is %g; it must lie between 0 and 1", s.Sigma)
	case !(s.Margin > 0 && s.Margin < 1):
		return nil, fmt.Errorf("the margin is %g; it must lie between 0 and 1", s.Margin)
	}
	t := &StudyTable{Study: *s}
	var done int64
	for i, noise := range noises {
		for j, schedule := range studied {
			for k, truth := range []float64{1, 1 - s.Margin} {
				line := StudyLine{Noise: noise.name, Schedule: schedule, Truth: truth}
				rng := rand.New(rand.NewPCG(s.Seed, uint64(i*100+j*10+k)))
				for range s.Gates {
					if err := ctx.Err(); err != nil {
						return nil, err
					}
					if err := s.gate(&line, rng, noise.draw); err != nil {
						return nil, err
					}
					if done++; progress != nil {
						progress(done)
					}
				}
				t.Lines = append(t.Lines, line)
			}
		}
	}
	return t, nil
}

// Simulated returns how many gates Run simulates.
func (s *Study) Simulated() int64 { return int64(s.Gates*len(noises)*len(studied)) * 2 }

// gate simulates one experiment and looks at it as its schedule has it, until
// there is a verdict. The looks are planned as those of real experiments are.
func (s *Study) gate(line *StudyLine, rng *rand.Rand, noise func(*rand.Rand) float64) error {
	looks := []int{s.Rounds}
	switch line.Schedule {
	case Sequential:
		looks = sequentialRounds
	case Anytime:
		looks = nil
		for n := stats.MinValues; n <= anytimeLast; n++ {
			looks = append(looks, n)
		}
	case appended:
		for i := range appendSteps {
			looks = append(looks, s.Rounds+appendStep*(i+1))
		}
	}
	head, base := stats.Series{Variant: "head"}, stats.Series{Variant: "base"}
	drift := 0.0
	var before []Look
	for i, n := range looks {
		schedule := line.Schedule
		switch {
		case schedule == appended && i == 0:
			schedule = Fixed
		case schedule == appended:
			schedule = Anytime
		}
		for round := len(head.Readings) + 1; round <= n; round++ {
			drift += s.Sigma * rng.NormFloat64()
			value := func(truth float64) float64 { return truth * math.Exp(drift+s.Sigma*noise(rng)) }
			head.Readings = append(head.Readings, stats.Reading{Round: round, Slot: round % 2, Value: value(line.Truth)})
			base.Readings = append(base.Readings, stats.Reading{Round: round, Slot: (round + 1) % 2, Value: value(1)})
		}
		pairs, err := stats.Pair(head, base)
		if err != nil {
			return err
		}
		rows := []Row{{Metric: "simulated", Better: stats.Higher, Of: "head", To: "base", Margin: s.Margin, Pairs: pairs}}
		look, err := Plan(schedule, DefaultLevel, n, n, RuleOf(rows), before)
		if err != nil {
			return err
		}
		r, err := Judge(Input{Rows: rows, Rounds: n, Planned: n, Look: look})
		if err != nil {
			return err
		}
		look.Verdict = r.Verdict
		before = append(before, look)
		line.Looks++
		insists := line.Schedule == appended && line.Truth != 1 && i+1 < len(looks)
		switch {
		case r.Verdict == Pass:
			line.Pass++
			return nil
		case r.Verdict == Fail && !insists:
			line.Fail++
			return nil
		case r.Verdict == Unmeasurable:
			return errors.New("a simulated gate is unmeasurable: " + r.Reasons[0])
		}
	}
	line.Open++
	return nil
}

// WriteText writes the table for people.
func (t *StudyTable) WriteText(w io.Writer) error {
	var b text.Builder
	b.Wrap("", fmt.Sprintf("%d gates a line, noise of %g%% a trial, margin %g%%, fixed looks at %d rounds; at most 2.5%% may be wrong, and 5%% of a fixed look and what is appended to it",
		t.Gates, 100*t.Sigma, 100*t.Margin, t.Rounds))
	b.Line("")
	table := text.Table{Left: []int{1}}
	table.Row("noise", "schedule", "true ratio", "PASS", "FAIL", "INCONCLUSIVE", "looks", "wrong")
	for i := range t.Lines {
		l := &t.Lines[i]
		table.Row(string(l.Noise), string(l.Schedule), fmt.Sprintf("%g", l.Truth), fmt.Sprint(l.Pass), fmt.Sprint(l.Fail),
			fmt.Sprint(l.Open), fmt.Sprint(l.Looks), fmt.Sprintf("%.1f%%", 100*float64(l.Wrong())/float64(t.Gates)))
	}
	table.Write(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMarkdown writes the table for a document.
func (t *StudyTable) WriteMarkdown(w io.Writer) error {
	fmt.Fprintf(w, "%d simulated gates a line (seed %d), noise of %g%% a trial, margin %g%%; fixed: one look at %d rounds;\n"+
		"append: up to %d times %d more.\n"+
		"A share of 2.5%% counted in so many gates has a standard error of %.2f points.\n\n",
		t.Gates, t.Seed, 100*t.Sigma, 100*t.Margin, t.Rounds, appendSteps, appendStep, 100*math.Sqrt(0.025*0.975/float64(t.Gates)))
	fmt.Fprintln(w, "| noise | schedule | true ratio | PASS | FAIL | INCONCLUSIVE | looks | wrong |")
	fmt.Fprintln(w, "|---|---|---:|---:|---:|---:|---:|---:|")
	for i := range t.Lines {
		l := &t.Lines[i]
		if _, err := fmt.Fprintf(w, "| %s | %s | %g | %d | %d | %d | %d | %.1f%% |\n", l.Noise, l.Schedule, l.Truth, l.Pass, l.Fail, l.Open, l.Looks,
			100*float64(l.Wrong())/float64(t.Gates)); err != nil {
			return err
		}
	}
	return nil
}
