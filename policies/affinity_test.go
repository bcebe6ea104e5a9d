package policies

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// countedChooser counts how often it is asked and chooses.
type countedChooser struct {
	Chooser
	asked, chose int
}

func (c *countedChooser) Choose(v *View) (int, float64, bool) {
	c.asked++
	row, cost, ok := c.Chooser.Choose(v)
	if ok {
		c.chose++
	}
	return row, cost, ok
}

// TestAffinityWithAChooser lets a pipeline with affinity around a chooser and one
// without the chooser go through the same sessions.
func TestAffinityWithAChooser(t *testing.T) {
	const runs, steps = 60, 200
	for _, slack := range []int{-1, 0, 3} {
		stuck, asked, chose := 0, 0, 0
		for seed := range uint64(runs) {
			rng := rand.New(rand.NewPCG(seed, 5))
			w := newWorld(rng, pick(rng, 2, 9, 64, 200))
			sessions := NewSessions(30, 0)
			w.state.Sessions = sessions
			p := DefaultKVParams()
			build := func(fast bool) (*Pipeline, *countedChooser) {
				r, err := KVRecipe(p, 0, ScaleMinMax)
				if err != nil {
					t.Fatal(err)
				}
				counted := &countedChooser{Chooser: r.Chooser}
				if r.Chooser = nil; fast {
					r.Chooser = counted
				}
				pipe, err := NewPipeline(WithAffinity(r, time.Minute, slack), seed)
				if err != nil {
					t.Fatal(err)
				}
				want := Cache | Load | Session
				if pipe.Inputs() != want {
					t.Fatalf("it reads %v, want %v", pipe.Inputs(), want)
				}
				return pipe, counted
			}
			fast, counted := build(true)
			scan, _ := build(false)
			now := time.Duration(0)
			for step := range steps {
				for range rng.IntN(3) {
					w.stir()
				}
				r := w.request()
				now += time.Duration(rng.IntN(4)) * time.Second
				r.Now, r.Session, r.HasSession = now, uint64(rng.IntN(40)), rng.IntN(3) > 0
				w.state.Cache = w.cache(r)
				before := counted.asked
				got, err := fast.Select(r, &w.state)
				want, wantErr := scan.Select(r, &w.state)
				if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) || fast.pcg != scan.pcg {
					t.Fatalf("slack %d, seed %d, step %d: %+v, %v; without the chooser %+v, %v", slack, seed, step, got, err, want, wantErr)
				}
				if err != nil {
					continue
				}
				// Where the session stays, the inner chooser is not asked, and nowhere else.
				served := sessions.lookUp(r)
				fresh := served.Known && now-served.LastSeen <= time.Minute
				asks := counted.asked > before
				if slack < 0 && fresh && !asks {
					if got.Slot != served.Target {
						t.Fatalf("seed %d, step %d: the session was served by %d and goes to %d", seed, step, served.Target, got.Slot)
					}
				}
				if !fresh && !asks {
					t.Fatalf("slack %d, seed %d, step %d: nothing to stick to, and the chooser was not asked", slack, seed, step)
				}
				if !asks {
					stuck++
				}
				fast.Commit(r, got.Slot)
				scan.Commit(r, got.Slot)
				if r.HasSession {
					sessions.Serve(r.Session, got.Slot, now)
				}
				if err := w.dispatch(r, got.Slot, int(got.Overlap)); err != nil {
					t.Fatal(err)
				}
			}
			asked, chose = asked+counted.asked, chose+counted.chose
		}
		if all := runs * steps; stuck < all/20 || chose < all/20 {
			t.Errorf("slack %d: of %d selections %d stuck, %d asked the chooser and %d it chose", slack, all, stuck, asked, chose)
		}
	}
}

// committingChooser is a chooser that remembers.
type committingChooser struct {
	countedChooser
	told int
}

func (c *committingChooser) Commit(*Request, indexer.Slot) { c.told++ }

// TestAffinityTellsWhatIsInside commits to an inner chooser and to an inner picker,
// and lets neither read more than it declares.
func TestAffinityTellsWhatIsInside(t *testing.T) {
	w := newWorld(rand.New(rand.NewPCG(1, 1)), 4)
	w.state.Sessions = NewSessions(4, 0)
	r, err := KVRecipe(DefaultKVParams(), 0, ScaleMinMax)
	if err != nil {
		t.Fatal(err)
	}
	inner := &committingChooser{countedChooser: countedChooser{Chooser: r.Chooser}}
	r.Chooser = inner
	pipe := pipeline(t, WithAffinity(r, time.Minute, -1))
	choice, err := pipe.Select(request(), &w.state)
	if err != nil {
		t.Fatal(err)
	}
	if pipe.Commit(request(), choice.Slot); inner.told != 1 {
		t.Errorf("the chooser was told %d times", inner.told)
	}
	robin := &RoundRobin{}
	pipe = pipeline(t, WithAffinity(Recipe{Picker: Named[Picker]{"robin", robin}}, time.Minute, -1))
	if pipe.Commit(request(), 2); robin.next != 3 {
		t.Errorf("the picker goes on with %d", robin.next)
	}

	r.Chooser = chooserFunc(func(v *View) { v.Session() }) // what the affinity around it declares
	_, err = pipeline(t, WithAffinity(r, time.Minute, -1)).Select(request(), &w.state)
	if broken := (*ComponentError)(nil); !errors.As(err, &broken) || broken.Component != "chooser min" {
		t.Errorf("an inner chooser that reads SESSION: %v", err)
	}
}

type chooserFunc func(v *View)

func (chooserFunc) Inputs() Inputs { return 0 }

func (c chooserFunc) Choose(v *View) (int, float64, bool) {
	c(v)
	return 0, 0, true
}
