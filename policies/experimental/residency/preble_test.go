package residency

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/experimental/residentblocks"
)

func prebleOf(t testing.TB, p PrebleParams, seed uint64) *policies.Pipeline {
	t.Helper()
	pipe, err := policies.NewPipeline(policies.Recipe{Picker: policies.Named[policies.Picker]{Name: "preble", Component: NewPreble(p)}}, seed)
	if err != nil {
		t.Fatal(err)
	}
	return pipe
}

func TestPrebleByHand(t *testing.T) {
	params := PrebleParams{Window: time.Minute, Token: 1, Decode: 0.5, Output: 10, Stale: math.Inf(1)}
	const none = residentblocks.Absent
	for _, c := range []struct {
		name  string
		fleet fleet
		sent  []indexer.Slot // requests of 20 tokens, a second apart
		now   time.Duration
		want  indexer.Slot
		cost  float64
	}{
		// Half of the prompt is held by rank 1: 50 uncached + 5 for the answer.
		{"exploit", fleet{prompt: 100, overlap: []uint32{0, 5, 4}, capacity: []uint32{99, 99, 99}, resident: []uint32{0, 0, 0}}, []indexer.Slot{1, 1}, time.Second, 1, 50 + 55},
		// Not half: rank 2 has got the least, 100+5 for this request.
		{"explore", fleet{prompt: 100, overlap: []uint32{4, 3, 0}, capacity: []uint32{99, 99, 99}, resident: []uint32{0, 0, 0}}, []indexer.Slot{0, 0, 1, 1, 1}, time.Second, 2, 105},
		// What is sent to rank 1, 2 * 25, is more than what its match saves.
		{"of equal matches the less loaded", fleet{prompt: 100, overlap: []uint32{6, 6, 0}, capacity: []uint32{99, 99, 99}, resident: []uint32{0, 0, 0}}, []indexer.Slot{1}, time.Second, 0, 45},
		// Rank 0 would evict 8 blocks of 10 tokens, which is worse than 25 more of load.
		{"evictions", fleet{prompt: 100, overlap: []uint32{0, 0}, capacity: []uint32{50, 50}, resident: []uint32{48, 0}}, []indexer.Slot{1}, time.Second, 1, 25 + 105},
		// Rank 1 has no count, so that it evicts as much as rank 0: 80, beside 25 of load.
		{"no count is the mean", fleet{prompt: 100, overlap: []uint32{0, 0}, capacity: []uint32{50, 50}, resident: []uint32{48, none}}, []indexer.Slot{1}, time.Second, 0, 80 + 105},
		// At 61 s what was sent at 0 is forgotten, and what was sent at 1 s is not.
		{"the window", fleet{prompt: 100, overlap: []uint32{0, 0}, capacity: []uint32{50, 50}, resident: []uint32{0, 0}}, []indexer.Slot{0, 1}, 61 * time.Second, 0, 105},
	} {
		pipe, state := prebleOf(t, params, 1), c.fleet.state()
		for i, slot := range c.sent {
			// None of them was picked, so that all of their 20 tokens count.
			pipe.Commit(&policies.Request{ID: uint64(i), Now: time.Duration(i) * time.Second, PromptTokens: 20, BlockSize: 10}, slot)
		}
		got, err := pipe.Select(&policies.Request{ID: 1, Now: time.Duration(len(c.sent))*time.Second + c.now, PromptTokens: c.fleet.prompt, BlockSize: 10}, state)
		if c.name == "the window" {
			got, err = pipe.Select(&policies.Request{ID: 1, Now: c.now, PromptTokens: c.fleet.prompt, BlockSize: 10}, state)
		}
		if err != nil || got.Slot != c.want || math.Abs(got.Cost-c.cost) > 1e-9 {
			t.Errorf("%s: %+v (%v), want slot %d at %v", c.name, got, err, c.want, c.cost)
		}
	}
}

// TestPrebleAgainstPlainRule goes through random requests beside the rule written
// down with a list of all that was ever sent.
func TestPrebleAgainstPlainRule(t *testing.T) {
	exploited, explored := 0, 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rng.IntN(6)
		p := PrebleParams{Window: time.Duration(1+rng.IntN(20)) * time.Second, Token: 0.25, Decode: 0.5, Output: rng.IntN(20), Stale: math.Inf(1)}
		pipe := prebleOf(t, p, seed)
		type sent struct {
			at   time.Duration
			slot indexer.Slot
			ms   float64
		}
		var all []sent
		now := time.Duration(0)
		for id := range uint64(150) {
			now += time.Duration(rng.IntN(2000)) * time.Millisecond
			f := fleet{prompt: 10 + rng.IntN(200)}
			for range n {
				f.capacity = append(f.capacity, uint32(30+rng.IntN(10)))
				f.resident = append(f.resident, uint32(rng.IntN(40)))
				f.overlap = append(f.overlap, uint32(rng.IntN((f.prompt+9)/10+1)*rng.IntN(2)))
			}
			r := &policies.Request{ID: id, Now: now, PromptTokens: f.prompt, BlockSize: 10, ExpectedOutputTokens: rng.IntN(2) * rng.IntN(50)}
			answer := float64(r.ExpectedOutputTokens)
			if answer == 0 {
				answer = float64(p.Output)
			}
			own := func(slot indexer.Slot) float64 {
				uncached := max(0, f.prompt-10*int(f.overlap[slot]))
				return p.Token*float64(uncached) + p.Decode*answer
			}
			cost := func(slot indexer.Slot) float64 {
				ms := own(slot)
				for _, s := range all {
					if s.slot == slot && now-s.at <= p.Window {
						ms += s.ms
					}
				}
				over := int(f.resident[slot]) + (f.prompt+9)/10 - int(f.overlap[slot]) - int(f.capacity[slot])
				return ms + p.Token*10*float64(max(0, over))
			}
			best := uint32(0)
			for _, o := range f.overlap {
				best = max(best, o)
			}
			cached := min(10*int(best), f.prompt)
			least := math.Inf(1)
			for slot := range n {
				if 2*cached < f.prompt || f.overlap[slot] == best {
					least = min(least, cost(indexer.Slot(slot)))
				}
			}
			got, err := pipe.Select(r, f.state())
			if err != nil {
				t.Fatal(err)
			}
			if exploit := 2*cached >= f.prompt; exploit {
				exploited++
				if f.overlap[got.Slot] != best {
					t.Fatalf("seed %d, request %d: it holds %d of %d blocks, and %d could be had", seed, id, f.overlap[got.Slot], (f.prompt+9)/10, best)
				}
			} else {
				explored++
			}
			if want := cost(got.Slot); math.Abs(got.Cost-want) > 1e-6 || want > least+1e-6 {
				t.Fatalf("seed %d, request %d: cost %v of slot %d, which costs %v; the least is %v", seed, id, got.Cost, got.Slot, want, least)
			}
			switch slot := got.Slot; rng.IntN(4) {
			case 0: // the host places it elsewhere
				slot = indexer.Slot(rng.IntN(n))
				pipe.Commit(r, slot)
				ms := own(slot)
				if slot != got.Slot {
					ms = p.Token*float64(f.prompt) + p.Decode*answer
				}
				all = append(all, sent{now, slot, ms})
			case 1: // it is given up
			default:
				pipe.Commit(r, slot)
				all = append(all, sent{now, slot, own(slot)})
			}
		}
	}
	if exploited < 500 || explored < 500 {
		t.Errorf("%d exploited, %d explored", exploited, explored)
	}
}

func TestWarmPrebleDoesNotAllocate(t *testing.T) {
	f := fleet{prompt: 100}
	for slot := range 200 {
		f.capacity, f.resident, f.overlap = append(f.capacity, 50), append(f.resident, uint32(slot%60)), append(f.overlap, uint32(slot%4))
	}
	pipe := prebleOf(t, PrebleParams{Window: time.Second, Token: 1, Stale: math.Inf(1)}, 1)
	r, s := &policies.Request{PromptTokens: f.prompt, BlockSize: 10}, f.state()
	s.Cache = &touched{f.overlap, f.Touched()}
	round := func() {
		r.ID++
		r.Now += 10 * time.Millisecond
		c, err := pipe.Select(r, s)
		if err != nil {
			t.Fatal(err)
		}
		pipe.Commit(r, c.Slot)
	}
	for range 1000 {
		round()
	}
	if n := testing.AllocsPerRun(500, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
