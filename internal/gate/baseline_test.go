package gate

import (
	"math"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/stats"
)

// stored makes a row against a stored baseline of 20 rounds around 1.
func stored(t *testing.T, centre, spread float64, invalid int) Row {
	t.Helper()
	series := func(values []float64) (s stats.Series) {
		s.Variant = "head"
		for i, v := range values {
			s.Readings = append(s.Readings, stats.Reading{Round: i + 1, Value: v})
		}
		return s
	}
	u := &Unpaired{X: series(around(centre, spread, 20)), Y: series(around(1, spread, 20))}
	for i := range invalid {
		u.Y.Readings[i].Invalid = "issue_span"
	}
	return Row{Metric: "m", Better: stats.Higher, Of: "head", To: "head (stored)", Margin: 0.02, Unpaired: u}
}

func TestUnpairedVerdicts(t *testing.T) {
	for _, c := range []struct {
		name           string
		centre, spread float64
		invalid        int
		want           Verdict
	}{
		{"the same", 1, 0.01, 0, Pass},
		{"slower", 0.9, 0.01, 0, Fail},
		{"noisy", 1, 0.3, 0, Inconclusive},
		{"two of 20 invalid", 1, 0.01, 2, Pass},
		{"three of 20 invalid", 1, 0.01, 3, Unmeasurable},
		{"none valid", 1, 0.01, 20, Unmeasurable},
	} {
		r := judge(t, Input{Rows: []Row{stored(t, c.centre, c.spread, c.invalid)}})
		if r.Verdict != c.want {
			t.Errorf("%s: %s, want %s (%v)", c.name, r.Verdict, c.want, r.Reasons)
		}
		if notes := strings.Join(r.Rows[0].Notes, "\n"); !strings.Contains(notes, "UNPAIRED") || !r.unpaired() {
			t.Errorf("%s: nothing says that it is unpaired: %q", c.name, notes)
		}
	}
}

// TestUnpairedP has the p-value on the side of alpha on which the interval is.
func TestUnpairedP(t *testing.T) {
	for _, centre := range []float64{0.9, 0.97, 0.98, 0.99, 1, 1.02} {
		r := judge(t, Input{Rows: []Row{stored(t, centre, 0.03, 0)}}).Rows[0]
		if below := r.Interval.High < 1; below != (r.P <= (1-DefaultLevel)/2*(1+1e-9)) || math.IsNaN(r.P) {
			t.Errorf("around %g: the interval ends at %g and p is %g", centre, r.Interval.High, r.P)
		}
	}
}

func TestBaselineOfOtherGroundIsRefused(t *testing.T) {
	experiment := func(dir string, change func(*rounds.Manifest)) *rounds.Experiment {
		m := &rounds.Manifest{Host: host.Identity{CPUModel: "A", LogicalCPUs: 2}, Arguments: []string{"--event-workers=1"}}
		m.Work.SHA256 = "0123456789abcdef"
		change(m)
		return &rounds.Experiment{Dir: dir, Manifest: m}
	}
	exp := experiment("/now", func(*rounds.Manifest) {})
	for _, c := range []struct {
		name, dir string
		change    func(*rounds.Manifest)
		want      string
	}{
		{"the same ground", "/then", func(*rounds.Manifest) {}, ""},
		{"another build", "/then", func(m *rounds.Manifest) { m.Tool.Commit = "other" }, ""},
		{"itself", "/now", func(*rounds.Manifest) {}, "itself"},
		{"another machine", "/then", func(m *rounds.Manifest) { m.Host.CPUModel = "B" }, "another machine"},
		{"another CPU mask", "/then", func(m *rounds.Manifest) { m.Host.AllowedCPUs = "1" }, "another machine"},
		{"another corpus", "/then", func(m *rounds.Manifest) { m.Work.SHA256 = "f" }, "another corpus"},
		{"other flags", "/then", func(m *rounds.Manifest) { m.Arguments = nil }, "other flags"},
	} {
		err := checkBaseline(exp, experiment(c.dir, c.change))
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q", c.name, err, c.want)
		}
	}
}
