package micro

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/policies"
)

func TestDefaultSelectionMeasuresEveryMetric(t *testing.T) {
	o := &SelectionOptions{Cases: []string{"8", "4096"}, Rounds: 1, Seed: 42, most: 300}
	var steps []string
	o.Step = func(name string, _ int64) { steps = append(steps, name) }
	r, err := DefaultSelection(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(steps, " "); got != "8 4096" {
		t.Errorf("steps %q", got)
	}
	if want := 2 * len(selectionVariants) * 4; len(r.Work) != 2 || len(r.Series) != want {
		t.Fatalf("%d cases and %d series, want 2 and %d", len(r.Work), len(r.Series), want)
	}
	for _, s := range r.Series {
		if len(s.Values) != 1 {
			t.Errorf("%+v: %d values", s, len(s.Values))
		}
		if allocations := s.Metric == "allocations"; !allocations && !(s.Values[0] > 0) {
			t.Errorf("%s of %s in case %s is %v", s.Metric, s.Variant, s.Case, s.Values[0])
		}
	}
}

// TestSelectorsChooseTheSame goes through the measured work.
func TestSelectorsChooseTheSame(t *testing.T) {
	for _, evictions := range []bool{false, true} {
		var selectors [2]*selector
		var sums [2]uint64
		for i, scan := range []bool{true, false} {
			s, err := newSelector(2000, selectionVariant{scan: scan, evictions: evictions}, 7)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.cache.touched) != selectionMatched || s.sharing != selectionSharing {
				t.Errorf("%d ranks hold the prompt and %d are active with it", len(s.cache.touched), s.sharing)
			}
			if sums[i], err = s.served(3000); err != nil {
				t.Fatal(err)
			}
			selectors[i] = s
		}
		if sums[0] != sums[1] {
			t.Errorf("evictions %v: they choose different ranks", evictions)
		}
		if a, b := selectors[0].load.Active(), selectors[1].load.Active(); a != b || a < 2000 {
			t.Errorf("%d and %d requests are active", a, b)
		}
	}
}

// watched counts the selections that a chooser does not leave to the scan.
type watched struct {
	policies.Chooser
	chose int
}

func (w *watched) Choose(v *policies.View) (row int, cost float64, ok bool) {
	if row, cost, ok = w.Chooser.Choose(v); ok {
		w.chose++
	}
	return row, cost, ok
}

// TestSublinearIsWhatIsMeasured sees that the choosers choose with many candidates.
// That with evictions leaves selections to the scan once the requests that it placed
// have made all sums alike.
func TestSublinearIsWhatIsMeasured(t *testing.T) {
	for _, v := range selectionVariants {
		if v.scan {
			continue
		}
		r, err := v.recipe()
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{Chooser: r.Chooser}
		r.Chooser = w
		s, err := newSelector(10_000, v, 42)
		if err != nil {
			t.Fatal(err)
		}
		if s.pipeline, err = policies.NewPipeline(r, 42); err != nil {
			t.Fatal(err)
		}
		if _, err := s.served(1000); err != nil {
			t.Fatal(err)
		}
		if least := map[bool]int{false: 990, true: 300}[v.evictions]; w.chose < least {
			t.Errorf("%s: the chooser did %d selections of 1000", v.name, w.chose)
		}
	}
}

func TestSelectionOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		o    SelectionOptions
		want string
	}{
		{SelectionOptions{}, "0 rounds"},
		{SelectionOptions{Rounds: 1, Cases: []string{"9"}}, `no case is named "9"; there are 8, 64,`},
	} {
		if _, err := DefaultSelection(t.Context(), &c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c.o, err)
		}
	}
}

func TestDefaultSelectionStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, err := DefaultSelection(ctx, &SelectionOptions{Cases: []string{"8"}, Rounds: 1}); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}
