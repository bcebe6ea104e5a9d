package gate

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/rounds"
)

// What happened to the machine between the checks at the start and at the end of a
// session forbids a verdict as what the checks themselves found does.
func TestUnfit(t *testing.T) {
	calm := func() *host.Report {
		return &host.Report{Settings: host.Settings{Governors: []string{"performance"}}, Counters: host.Counters{UnixNS: 1, BootID: "a"}}
	}
	later := func(change func(*host.Report)) *host.Report {
		r := calm()
		r.Counters.UnixNS = 1e9
		change(r)
		return r
	}
	for _, c := range []struct {
		name string
		end  *host.Report
		want []string // beginnings
	}{
		{"nothing", later(func(*host.Report) {}), nil},
		{"no end", nil, nil},
		{"throttled", later(func(r *host.Report) { r.Counters.ThrottledPeriods = 3 }), []string{"throttling: while the rounds ran, the CPU quota stopped this cgroup in 3 periods"}},
		{"hot", later(func(r *host.Report) { r.Counters.ThermalThrottles = 1 }), []string{"thermal: while"}},
		{"swapped", later(func(r *host.Report) { r.Counters.SwapInPages = 7 }), []string{"swap: while"}},
		{"another CPU", later(func(r *host.Report) { r.Identity.CPUModel = "other" }), []string{"cpu_model: while"}},
		{"pressure is the trials' own", later(func(r *host.Report) { r.Counters.CPUPressureUS = 900_000 }), nil},
		{"another governor is doubtful only", later(func(r *host.Report) { r.Settings.Governors = nil }), nil},
		{"found once", later(func(r *host.Report) {
			r.Findings = []host.Finding{{Name: "throttling", Verdict: host.Unfit, Detail: "2 periods"}}
			r.Counters.ThrottledPeriods = 3
		}), []string{"throttling: 2 periods"}},
	} {
		exp := &rounds.Experiment{Sessions: []rounds.Session{{Host: calm(), HostAtEnd: c.end}}}
		got := unfit(exp)
		if !slices.EqualFunc(got, c.want, func(a, b string) bool { return strings.HasPrefix(a, b) }) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := unfit(&rounds.Experiment{Sessions: []rounds.Session{{}}}); got != nil {
		t.Errorf("without checks: %q", got)
	}
}

// Rounds that were added without a look are not what was planned.
func TestUnspoilt(t *testing.T) {
	extended := func(why string) *rounds.Experiment {
		return &rounds.Experiment{Extensions: []rounds.Extension{{Rounds: 20, Why: why}}}
	}
	for _, c := range []struct {
		exp      *rounds.Experiment
		schedule Schedule
		ok       bool
	}{
		{&rounds.Experiment{}, Fixed, true}, {&rounds.Experiment{}, Sequential, true},
		{extended("sequential look 2"), Sequential, true}, {extended("sequential look 2"), Fixed, false},
		{extended(appendedWhy), Sequential, false}, {extended(appendedWhy), Fixed, false},
	} {
		if err := unspoilt(c.exp, c.schedule); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrSpent) {
			t.Errorf("%+v, %s: %v", c.exp.Extensions, c.schedule, err)
		}
	}
}
