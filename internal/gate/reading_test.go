package gate

import (
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/stats"
)

// analysis has a comparison for each row.
func analysis(rows ...Row) *rounds.Analysis {
	a := &rounds.Analysis{Level: DefaultLevel, Done: 20, Planned: 20}
	for i := range rows {
		a.Comparisons = append(a.Comparisons, comparison(&rows[i], rows[i].Of, rows[i].To))
	}
	return a
}

func comparison(r *Row, of, to string) rounds.Comparison {
	return rounds.Comparison{
		Metric: rounds.Metric{Path: r.Metric, Unit: r.Unit, Better: r.Better}, Ratio: rounds.Ratio{Of: of, To: to}, Refused: r.Refused,
		Planned: 20, Result: stats.Compare(r.Pairs, DefaultLevel),
	}
}

// weakly are 20 ratios of which 15 lie on one side of 1: alone their interval
// leaves 1 aside, with others it may be chance.
func weakly(sign float64) []float64 {
	out := make([]float64, 20)
	for i := range out {
		out[i] = 1 + sign*(0.03+float64(i)/1000)
		if i%4 == 3 {
			out[i] = 1 - sign*(0.001+float64(i)/1000)
		}
	}
	return out
}

func TestRead(t *testing.T) {
	r := func(better stats.Better, ratios ...float64) Row { return row(t, "m", better, 0, ratios...) }
	same := r(stats.Higher, around(1, 0.01, 20)...)
	for _, c := range []struct {
		name string
		rows []Row // the first is read
		aa   []float64
		want Side
		why  string
	}{
		{"lower where higher is better", []Row{r(stats.Higher, around(0.9, 0.01, 20)...)}, nil, Worse, ""},
		{"higher where higher is better", []Row{r(stats.Higher, around(1.1, 0.01, 20)...)}, nil, Better, ""},
		{"higher where lower is better", []Row{r(stats.Lower, around(1.1, 0.01, 20)...)}, nil, Worse, ""},
		{"lower where lower is better", []Row{r(stats.Lower, around(0.9, 0.01, 20)...)}, nil, Better, ""},
		{"neither is better", []Row{r("", around(0.9, 0.01, 20)...)}, nil, Different, ""},
		{"neither is better, higher", []Row{r("", around(1.1, 0.01, 20)...)}, nil, Different, ""},
		{"the same", []Row{same}, nil, Open, ""},
		{"weak alone", []Row{r(stats.Lower, weakly(1)...)}, nil, Worse, ""},
		{"weak among six", []Row{r(stats.Lower, weakly(1)...), same, same, same, same, same}, nil, Open, "Holm's correction over 6 comparisons"},
		{"weak gain among six", []Row{r(stats.Lower, weakly(-1)...), same, same, same, same, same}, nil, Open, "Holm's correction over 6 comparisons"},
		{"clear among three", []Row{r(stats.Lower, around(1.1, 0.01, 20)...), same, same}, nil, Worse, ""},
		{"a narrow control", []Row{r(stats.Lower, around(1.1, 0.01, 20)...)}, around(1, 0.01, 20), Worse, ""},
		{"a control as wide", []Row{r(stats.Lower, around(1.1, 0.01, 20)...)}, around(1, 0.5, 20), Open, "within what the same program shows against itself"},
		{"a control as wide as a gain", []Row{r(stats.Lower, around(0.9, 0.01, 20)...)}, around(1, 0.5, 20), Open, "within what the same program shows against itself"},
		{"a control that is off", []Row{r(stats.Lower, around(1.1, 0.01, 20)...)}, around(1.03, 0.01, 20), Open, "differs from itself"},
		{"a control too short", []Row{r(stats.Lower, around(1.1, 0.01, 20)...)}, around(1, 0.001, 4), Open, "at least 6"},
	} {
		a := analysis(c.rows...)
		if c.aa != nil {
			aa := row(t, "m", c.rows[0].Better, 0, c.aa...)
			a.Floor = []rounds.Comparison{comparison(&aa, "base'", "base")}
		}
		got := Read(a)
		if got.Family != len(c.rows) || got.Of[0].Side != c.want || (c.why == "") != (got.Of[0].Why == "") || !strings.Contains(got.Of[0].Why, c.why) {
			t.Errorf("%s: %+v, want %s, %q", c.name, got, c.want, c.why)
		}
	}
}

// TestReadClaimsNoMoreThanTheGate: what is read as worse fails the gate at a margin
// of nothing, whatever stands beside it.
func TestReadClaimsNoMoreThanTheGate(t *testing.T) {
	worse := 0
	for n := range 60 {
		var rows []Row
		for i := range 1 + n%8 {
			ratios := around(1+0.004*float64((n+3*i)%9-4), 0.02, 20)
			if (n+i)%4 == 0 {
				ratios = weakly(1 - 2*float64(n%2))
			}
			rows = append(rows, row(t, string(rune('a'+i)), []stats.Better{stats.Higher, stats.Lower}[(n/2+i)%2], 0, ratios...))
		}
		got := Read(analysis(rows...))
		for i, r := range judge(t, Input{Rows: rows}).Rows {
			if (got.Of[i].Side == Worse) != (r.Verdict == Fail) {
				t.Errorf("case %d: %s is read as %+v, and the gate says %s", n, r.Name(), got.Of[i], r.Verdict)
			}
			if got.Of[i].Side == Worse {
				worse++
			}
		}
	}
	if worse == 0 {
		t.Error("nothing is worse in any case")
	}
}
