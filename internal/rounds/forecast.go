package rounds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"github.com/kvbench/kvbench/stats"
)

// pilotFolder holds the A/A experiment that a forecast is made from.
const pilotFolder = "pilot"

// Pilot runs an experiment of that many rounds that compares the base with itself,
// in the folder of e and with its rules, or goes on with the one that is there. More
// rounds than that one has are added to it; of more, none are left out.
func (e *Experiment) Pilot(ctx context.Context, rounds int, o RunOptions) (p *Experiment, err error) {
	if rounds < stats.MinValues {
		return nil, fmt.Errorf("%d rounds say too little about noise; give at least %d", rounds, stats.MinValues)
	}
	// Neither may run beside the other.
	lock, err := e.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	dir := e.path(pilotFolder)
	p, err = Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		p, err = e.beginPilot(dir, rounds)
	}
	if err != nil {
		return nil, fmt.Errorf("pilot: %w", err)
	}
	if have := p.Rounds(); rounds > have {
		if err := p.Extend(rounds, "more rounds of a pilot were asked for"); err != nil {
			return nil, fmt.Errorf("pilot: %w", err)
		}
	}
	if err := p.Run(ctx, o); err != nil {
		return p, err
	}
	return p, nil
}

func (e *Experiment) beginPilot(dir string, rounds int) (*Experiment, error) {
	m := *e.Manifest
	base := m.Variants[0]
	for _, v := range m.Variants {
		if v.Name == m.Base {
			base = v
		}
	}
	again := base
	again.Name = base.Name + "-aa"
	m.Variants = []Entrant{base, again}
	m.Base, m.Control = base.Name, again.Name
	m.Ratios = []Ratio{{Of: again.Name, To: base.Name}}
	m.Rounds = rounds
	m.Sequence = m.Order.Sequence(2, 0, rounds, m.Seed)
	m.Work.Corpus = e.corpusPath()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(&m, "", "  ")
	if err != nil {
		return nil, err
	}
	p := &Experiment{Dir: dir, Manifest: &m}
	if err := errors.Join(writeFile(p.path(journalName), nil), writeFile(p.path(manifestName), append(b, '\n'))); err != nil {
		return nil, err
	}
	return Open(dir)
}

// Forecast is what the noise of an A/A says about an experiment to come.
type Forecast struct {
	Metric Metric
	Pairs  int     // of the A/A
	Sigma  float64 // noise of one ratio
	// Resolves is the smallest effect that the planned rounds find with
	// probability Power; NaN if the noise is not known.
	Resolves float64
	// Needed is the number of rounds that resolve the margin; math.MaxInt if no
	// practical number does, 0 if the noise is not known.
	Needed int
}

// Forecasts makes one for each metric of the A/A comparisons of an analysis, for
// a plan of so many rounds and a margin such as 0.01.
func (a *Analysis) Forecasts(rounds int, margin float64) []Forecast {
	var out []Forecast
	for _, c := range a.Floor {
		if c.Refused != "" {
			continue
		}
		f := Forecast{Metric: c.Metric, Pairs: len(c.Result.Pairs.Kept), Sigma: c.Result.Sigma, Resolves: math.NaN()}
		if f.Sigma > 0 {
			f.Resolves = stats.Resolvable(f.Sigma, rounds, a.Level, Power, stats.MedianEfficiency)
			f.Needed = stats.RoundsNeeded(f.Sigma, margin, a.Level, Power, stats.MedianEfficiency)
		}
		out = append(out, f)
	}
	return out
}

// Text says it in a sentence.
func (f Forecast) Text(rounds int, margin float64) string {
	if f.Needed == 0 {
		return fmt.Sprintf("%s: %d pairs of an A/A do not tell its noise", f.Metric.Path, f.Pairs)
	}
	needed := fmt.Sprintf("%d rounds", f.Needed)
	if f.Needed == math.MaxInt {
		needed = "more rounds than anyone runs"
	}
	return fmt.Sprintf("%s: at a noise of %s a round (%d pairs of an A/A), these %d rounds resolve ±%s; to resolve ±%s takes %s",
		f.Metric.Path, percentText(f.Sigma), f.Pairs, rounds, percentText(f.Resolves), percentText(margin), needed)
}
