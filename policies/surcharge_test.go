package policies

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// tolls are a surcharge by slot that changes with every selection; NaN is one that
// is the mean of the others. As a Scorer it is the same written plainly.
type tolls struct {
	bySlot *[]float64
	shut   *bool // the scan must do it
	asked  int
}

func (*tolls) Inputs() Inputs { return Cache }

func (s *tolls) Begin(v *View) bool {
	v.Cache() // a chooser reads what its surcharge declares
	return !*s.shut
}

func (s *tolls) Of(slot indexer.Slot) (float64, bool) {
	s.asked++
	c := (*s.bySlot)[slot]
	return c, !math.IsNaN(c)
}

func (s *tolls) Score(v *View, costs []float64) {
	sum, known := 0.0, 0
	for row, slot := range v.Rows() {
		costs[row] = (*s.bySlot)[slot]
		if !math.IsNaN(costs[row]) {
			sum += costs[row]
			known++
		}
	}
	for row, c := range costs {
		if math.IsNaN(c) {
			costs[row] = sum / float64(max(known, 1))
		}
	}
}

// TestSurchargeChooserIsTheScan lets a pipeline with the chooser and one without go
// through the same selections.
func TestSurchargeChooserIsTheScan(t *testing.T) {
	runs, steps := 250, 200
	if testing.Short() {
		runs = 50
	}
	chosen, scanned, drawn, beside := 0, 0, 0, 0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(rng, pick(rng, 1, 9, 65, 200, 513, 700, 900))
		p := randomParams(rng)
		if rng.IntN(4) > 0 {
			p.Decay = 0
		}
		weight := pick(rng, 0, 1, 1, 0.3, 7)
		var bySlot []float64
		shut := false
		kv, err := NewKV(p)
		if err != nil {
			t.Fatal(err)
		}
		toll := &tolls{bySlot: &bySlot, shut: &shut}
		chooser, err := NewKVSurchargeChooser(p, toll, weight)
		if err != nil {
			t.Fatal(err)
		}
		watch := &watchedChooser{KVChooser: chooser}
		recipe := func(kv *KV, c Chooser) *Pipeline {
			r := Recipe{Scorers: []Weighted{{"kv", kv, 1}, {"tolls", &tolls{bySlot: &bySlot, shut: &shut}, weight}}, Picker: Named[Picker]{"min", LeastCost{}}, Chooser: c}
			pipe, err := NewPipeline(r, seed)
			if err != nil {
				t.Fatal(err)
			}
			return pipe
		}
		plain, err := NewKV(p)
		if err != nil {
			t.Fatal(err)
		}
		fast, scan := recipe(kv, watch), recipe(plain, nil)
		values := pick(rng, []float64{0}, []float64{0, 0, 0, 4}, []float64{8, 8, 8, 7.5}, []float64{0, 0.1, 3, 100})
		for step := range steps {
			for range rng.IntN(4) {
				w.stir()
			}
			r := w.request()
			w.state.Cache = w.cache(r)
			bySlot = bySlot[:0]
			for range w.state.Slots {
				bySlot = append(bySlot, pick(rng, values...))
				if rng.IntN(200) == 0 {
					bySlot[len(bySlot)-1] = math.NaN()
				}
			}
			shut = rng.IntN(40) == 0
			before := fast.pcg
			toll.asked, watch.ok = 0, false
			got, err := fast.Select(r, &w.state)
			want, wantErr := scan.Select(r, &w.state)
			if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("seed %d, step %d, %+v, weight %v, %d slots: %+v, %v; the scan says %+v, %v", seed, step, p, weight, w.state.Slots, got, err, want, wantErr)
			}
			if fast.pcg != scan.pcg {
				t.Fatalf("seed %d, step %d: the random streams differ", seed, step)
			}
			if before != fast.pcg {
				drawn++
			}
			if err := watch.check(&w.state); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if watch.ok && shut {
				t.Fatal("it chose though the surcharge is for the scan")
			}
			if watch.ok && err == nil {
				// It asks for no more than the rule makes it: the candidates that have
				// something of the request, and those whose KV cost is not above the
				// sums of these and of the cheapest of the others.
				v := &scan.scorerViews[0]
				costs := make([]float64, len(v.Rows()))
				plain.Score(v, costs)
				near := func(slot indexer.Slot) bool {
					scores := w.state.Cache.Scores()
					return p.Overlap > 0 && int(slot) < len(scores) && scores[slot] > 0 || v.Load().SharedBlocks[slot] > 0
				}
				bound, least, dearest := math.Inf(1), math.Inf(1), math.Inf(1)
				for row, c := range costs {
					slot := v.Rows()[row]
					sum := c + weight*bySlot[slot]
					switch {
					case math.IsNaN(sum):
					case near(slot):
						bound = min(bound, sum)
					case c < least:
						least, dearest = c, sum
					case c == least:
						dearest = max(dearest, sum)
					}
				}
				bound = min(bound, dearest)
				cheap := 0
				for row, c := range costs {
					if slot := v.Rows()[row]; c <= bound || near(slot) {
						cheap++
					}
				}
				if toll.asked > cheap {
					t.Fatalf("seed %d, step %d: it asked for %d surcharges, which %d candidates are to be asked for", seed, step, toll.asked, cheap)
				}
				if want.Cost > 0 && toll.asked < want.Candidates/4 {
					beside++
				}
			}
			if err == nil && rng.IntN(3) > 0 {
				if err := w.dispatch(r, got.Slot, int(got.Overlap)); err != nil {
					t.Fatal(err)
				}
			}
		}
		chosen, scanned = chosen+watch.chose, scanned+watch.left
	}
	if all := runs * steps; chosen < all/15 || scanned < all/8 || drawn < all/16 || beside < all/20 {
		t.Errorf("of %d selections %d were chosen, %d with a look at few, %d left to the scan, %d drew among ties", all, chosen, beside, scanned, drawn)
	}
	t.Logf("%d selections: %d chosen, %d with a look at few, %d left to the scan, %d with a draw", runs*steps, chosen, beside, scanned, drawn)
}

func TestSurchargeChooserIsChecked(t *testing.T) {
	for _, weight := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := NewKVSurchargeChooser(DefaultKVParams(), &tolls{}, weight); err == nil {
			t.Errorf("weight %v is accepted", weight)
		}
	}
	if _, err := NewKVSurchargeChooser(KVParams{Overlap: -1}, &tolls{}, 1); err == nil {
		t.Error("wrong parameters are accepted")
	}
	c, err := NewKVSurchargeChooser(KVParams{Prefill: 1}, &tolls{}, 1)
	if err != nil || c.Inputs() != Cache|Load {
		t.Errorf("it reads %v: %v", c.Inputs(), err)
	}
}
