package micro

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/policies"
)

func TestResidentReadMeasures(t *testing.T) {
	o := &ResidentReadOptions{Cases: []string{"32", "1024-padded"}, Rounds: 2, most: 2000}
	r, err := ResidentRead(t.Context(), o)
	for try := 0; err != nil && strings.Contains(err.Error(), "no counter was rewritten") && try < 20; try++ {
		o.most *= 2 // the thread that rewrites got no CPU meanwhile
		r, err = ResidentRead(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Work) != 2 {
		t.Errorf("%d cases", len(r.Work))
	}
	for _, c := range o.Cases {
		for _, v := range []string{ResidentReadBase, readIdle, readCopied, readRewritten} {
			if v == readRewritten && len(r.Notes) > 0 {
				continue // one CPU
			}
			s := r.find(c, v, "selection")
			if s == nil || len(s.Values) != 2 || !(s.Values[0] > 0) {
				t.Fatalf("case %s, %s: %+v", c, v, s)
			}
			cost := r.find(c, v, readCost)
			if (cost == nil) != (v == ResidentReadBase) || cost != nil && len(cost.Values) != 2 {
				t.Errorf("case %s, %s: the cost is %+v", c, v, cost)
			}
			if v == readRewritten && !(r.find(c, v, "rewrites of all counters").Values[1] > 0) {
				t.Errorf("case %s: nothing was rewritten", c)
			}
		}
	}
}

// TestCountReaderScores sees that the scorers differ by the counts.
func TestCountReaderScores(t *testing.T) {
	for _, c := range residentReadCases {
		s, err := newCountReader(c)
		if err != nil {
			t.Fatal(err)
		}
		last := policies.Named[policies.Picker]{Name: "last", Component: lastRow{}}
		costs := map[string]float64{}
		for variant, scorer := range readScorers() {
			p, err := policies.NewPipeline(policies.Recipe{Scorers: []policies.Weighted{{Name: "s", Scorer: scorer, Weight: 1}}, Picker: last}, 1)
			if err != nil {
				t.Fatal(err)
			}
			choice, err := p.Select(&s.request, &s.state)
			if err != nil {
				t.Fatal(err)
			}
			costs[variant] = choice.Cost
		}
		for variant, cost := range costs {
			want := costs[ResidentReadBase]
			if variant != ResidentReadBase {
				want += float64(c.candidates - 1)
			}
			if cost != want {
				t.Errorf("%s: by %s the last candidate costs %v, want %v", c.name(), variant, cost, want)
			}
		}
	}
}

// TestSelectionsDoNotAllocate has every selection that is measured.
func TestSelectionsDoNotAllocate(t *testing.T) {
	for _, c := range residentReadCases {
		s, err := newCountReader(c)
		if err != nil {
			t.Fatal(err)
		}
		for variant, p := range s.pipelines {
			if n := testing.AllocsPerRun(100, func() {
				if err := s.selections(p, 1); err != nil {
					t.Error(err)
				}
			}); n != 0 {
				t.Errorf("%s, %s: %v allocations", c.name(), variant, n)
			}
		}
	}
	for _, candidates := range selectionCandidates {
		for _, v := range selectionVariants {
			s, err := newSelector(candidates, v, 42)
			if err != nil {
				t.Fatal(err)
			}
			if n := testing.AllocsPerRun(100, func() {
				if _, err := s.selections(1); err != nil {
					t.Error(err)
				}
			}); n != 0 {
				t.Errorf("%d, %s: %v allocations", candidates, v.name, n)
			}
		}
	}
}

type lastRow struct{ firstRow }

func (lastRow) Pick(v *policies.View, _ []float64) int { return len(v.Rows()) - 1 }

func TestResidentReadOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		o    ResidentReadOptions
		want string
	}{
		{ResidentReadOptions{}, "0 rounds"},
		{ResidentReadOptions{Rounds: 1, Cases: []string{"9"}}, `no case is named "9"; there are 2, 32,`},
	} {
		if _, err := ResidentRead(t.Context(), &c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c.o, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ResidentRead(ctx, &ResidentReadOptions{Rounds: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
