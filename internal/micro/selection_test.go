package micro

import (
	"context"
	"errors"
	"strings"
	"testing"
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
	if len(r.Work) != 2 || len(r.Series) != 2*3*4 {
		t.Fatalf("%d cases and %d series, want 2 and 24", len(r.Work), len(r.Series))
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

// TestSelectorsChooseTheSame goes through the measured work, in which the chooser
// must not leave everything to the scan.
func TestSelectorsChooseTheSame(t *testing.T) {
	scan, err := newSelector(2000, 0, true, 7)
	if err != nil {
		t.Fatal(err)
	}
	fast, err := newSelector(2000, 0, false, 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*selector{scan, fast} {
		if len(s.cache.touched) != selectionMatched || s.sharing != selectionSharing {
			t.Errorf("%d ranks hold the prompt and %d are active with it", len(s.cache.touched), s.sharing)
		}
	}
	a, err := scan.served(3000)
	if err != nil {
		t.Fatal(err)
	}
	b, err := fast.served(3000)
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Error("they choose different ranks")
	}
	if scan.load.Active() != fast.load.Active() || scan.load.Active() < 2000 {
		t.Errorf("%d and %d requests are active", scan.load.Active(), fast.load.Active())
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
