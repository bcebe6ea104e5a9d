package gate

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/stats"
)

func TestStudyKeepsItsRate(t *testing.T) {
	s := Study{Gates: 50, Rounds: 20, Sigma: 0.02, Margin: 0.02, Seed: 3}
	var last int64
	table, err := s.Run(t.Context(), func(done int64) { last = done })
	if err != nil {
		t.Fatal(err)
	}
	if last != s.Simulated() || len(table.Lines) != 2*4*2 {
		t.Errorf("%d of %d gates, %d lines", last, s.Simulated(), len(table.Lines))
	}
	for _, l := range table.Lines {
		if l.Pass+l.Fail+l.Open != s.Gates {
			t.Errorf("%+v does not count %d gates", l, s.Gates)
		}
		// Of 50 gates at 2.5%, more than 5 are wrong once in 700 lines.
		if l.Wrong() > 5 {
			t.Errorf("%+v: %d of %d are wrong", l, l.Wrong(), s.Gates)
		}
		if l.Schedule == Fixed && l.Looks != s.Gates {
			t.Errorf("%+v: a fixed gate looks once", l)
		}
		if l.Schedule == appended && (l.Looks <= s.Gates || l.Looks > (1+appendSteps)*s.Gates) {
			t.Errorf("%+v: one to five looks are taken", l)
		}
		if l.Schedule == Sequential && (l.Looks <= s.Gates || l.Looks > 4*s.Gates) {
			t.Errorf("%+v: a sequential gate looks one to four times", l)
		}
	}
}

func TestStudyDependsOnItsSeedAlone(t *testing.T) {
	run := func(seed uint64) *StudyTable {
		s := Study{Gates: 5, Rounds: 10, Sigma: 0.02, Margin: 0.02, Seed: seed}
		table, err := s.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	if !reflect.DeepEqual(run(1), run(1)) {
		t.Error("the same seed gives two tables")
	}
	if reflect.DeepEqual(run(1).Lines, run(2).Lines) {
		t.Error("two seeds give one table")
	}
}

func TestStudyRefuses(t *testing.T) {
	good := Study{Gates: 1, Rounds: 6, Sigma: 0.02, Margin: 0.02}
	for _, break1 := range []func(*Study){
		func(s *Study) { s.Gates = 0 }, func(s *Study) { s.Rounds = 5 },
		func(s *Study) { s.Sigma = 0 }, func(s *Study) { s.Margin = 1 },
	} {
		s := good
		break1(&s)
		if _, err := s.Run(t.Context(), nil); err == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
}

func TestCanaryDelay(t *testing.T) {
	for _, name := range append(canaryMetrics, selfTestMetric) {
		if _, err := rounds.ResolveMetric(name); err != nil {
			t.Error(err)
		}
	}
	// Two threads that each did 500 events in 1 ms: 2 us an event. A margin of
	// 50% leaves one eighth of the throughput: 14 us more.
	if got := canaryDelay(1e6, 1000, 2, 0.5); got != 14000 {
		t.Errorf("the delay is %d ns, want 14000", got)
	}
	if got := canaryDelay(1e6, 1e9, 1, 0.001); got != 1 {
		t.Errorf("the delay is %d ns, want at least 1", got)
	}
}

func TestSelfTestSaysWhatWouldHelp(t *testing.T) {
	half := func(centre, spread float64) *RowResult {
		r := judge(t, Input{Rows: []Row{row(t, selfTestMetric, stats.Higher, 0.1, around(centre, spread, 20)...)}})
		return &r.Rows[0]
	}
	for _, c := range []struct {
		name       string
		aa, canary *RowResult
		ok         bool
	}{
		{"right", half(1, 0.02), half(0.7, 0.02), true},
		{"noisy control", half(1, 0.5), half(0.7, 0.02), false},
		{"canary not found", half(1, 0.02), half(1, 0.02), false},
	} {
		test := SelfTest{Margin: 0.1, Rounds: 20, AA: c.aa, Canary: c.canary}
		if test.OK() != c.ok {
			t.Errorf("%s: OK is %t", c.name, test.OK())
		}
		advice := strings.Join(test.Advice(), "; ")
		if !strings.Contains(advice, "--self-test-rounds") || !strings.Contains(advice, "--margin") {
			t.Errorf("%s: the advice is %q", c.name, advice)
		}
	}
}

// TestSelfTestIsNotPassedByNoise has a base against itself whose interval lies
// above 1 - margin only since it reaches far above 1.
func TestSelfTestIsNotPassedByNoise(t *testing.T) {
	for _, c := range []struct {
		centre float64
		want   Verdict
	}{{1, Pass}, {1.5, Unmeasurable}} {
		r, err := judgeHalf(row(t, selfTestMetric, stats.Higher, 0.1, around(c.centre, 0.02, 20)...), true)
		if err != nil || r.Verdict != c.want {
			t.Errorf("around %g: %+v, %v; want %s", c.centre, r, err, c.want)
		}
	}
}
