package policies

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

func kvScorer(t testing.TB, p KVParams) *KV {
	t.Helper()
	s, err := NewKV(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func softmax(t testing.TB, temperature float64, scale Scale) *Softmax {
	t.Helper()
	s, err := NewSoftmax(temperature, scale)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// naiveKV is the formula of KVCost for one candidate, step by step.
func naiveKV(k KVParams, prompt, size, overlap, prefill, leastPrefill, decode, shared, requests float64) float64 {
	blocks := math.Ceil(prompt / size)
	decay := 1.0
	if k.Decay > 0 && k.Role != RoleDecode && blocks > 0 {
		decay = 1 / (1 + k.Decay*((prefill-leastPrefill)/size)/blocks)
	}
	credit := k.Overlap * decay * overlap
	held := decode + blocks - shared
	if k.Role == RoleDecode {
		return math.Max(0, held-credit) + k.Requests*requests
	}
	return k.Prefill*math.Max(0, (prefill+prompt)/size-credit) + held + k.Requests*requests
}

func TestKVCostByHand(t *testing.T) {
	// 64 tokens in blocks of 16; slot 0 idle, slot 1 holds all and has one
	// request of 100 tokens to prefill (7 blocks), slot 2 holds two blocks.
	l := NewActiveLoad(3, 4)
	if err := l.Dispatch(&Request{ID: 9, BlockSize: 16, PromptTokens: 100, Locals: []indexer.LocalHash{1, 2, 3, 4, 5, 6}}, 1, 0); err != nil {
		t.Fatal(err)
	}
	r := &Request{ID: 1, BlockSize: 16, PromptTokens: 64, Locals: []indexer.LocalHash{1, 2, 3, 9}}
	s := &State{Slots: 3, Load: l, Cache: &found{scores: []uint32{0, 4, 2}, touched: []indexer.Slot{1, 2}}}
	for _, tt := range []struct {
		k    KVParams
		want []float64
	}{
		// idle: 4 + 4; full: (164/16 - 4) + 7 + 4 - 3; half: 2 + 4
		{KVParams{Overlap: 1, Prefill: 1}, []float64{8, 14.25, 6}},
		{KVParams{Overlap: 0, Prefill: 1}, []float64{8, 18.25, 8}},
		{KVParams{Overlap: 1, Prefill: 2, Requests: 3}, []float64{12, 23.5, 8}},
		// the credit of slot 1 falls to 4 / (1 + 100/16/4)
		{KVParams{Overlap: 1, Prefill: 1, Decay: 1}, []float64{8, 10.25 - 4/(1+6.25/4) + 8, 6}},
		{KVParams{Overlap: 1, Prefill: 1, Role: RoleDecode, Requests: 1}, []float64{4, 5, 2}},
		{KVParams{Overlap: 9, Prefill: 1}, []float64{8, 8, 4}},
	} {
		costs := make([]float64, 3)
		p := pipeline(t, Recipe{Scorers: []Weighted{{"kv", kvScorer(t, tt.k), 1}}, Picker: Named[Picker]{"copy", pickerFunc(func(_ *View, c []float64) int { copy(costs, c); return 0 })}})
		if _, err := p.Select(r, s); err != nil {
			t.Fatal(err)
		}
		for slot, want := range tt.want {
			if math.Abs(costs[slot]-want) > 1e-5 {
				t.Errorf("%+v: slot %d costs %v, want %v", tt.k, slot, costs[slot], want)
			}
		}
	}
}

func TestKVCostEqualsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		n := 1 + rng.IntN(6)
		l, answer := NewActiveLoad(n, 8), &found{scores: make([]uint32, n)}
		locals := []indexer.LocalHash{1, 2, 3, 4, 5}
		for id := range uint64(rng.IntN(10)) {
			m := rng.IntN(6)
			q := &Request{ID: id, BlockSize: 8, PromptTokens: m*8 + rng.IntN(8), Locals: locals[:m]}
			if err := l.Dispatch(q, indexer.Slot(rng.IntN(n)), rng.IntN(q.PromptTokens+1)); err != nil {
				t.Fatal(err)
			}
		}
		for slot := range answer.scores {
			if o := rng.IntN(6); o > 0 {
				answer.scores[slot] = uint32(o)
				answer.touched = append(answer.touched, indexer.Slot(slot))
			}
		}
		var dead []bool // one that leaves the candidates not dense
		if n > 1 && rng.IntN(2) == 0 {
			dead = make([]bool, n)
			dead[n-1] = true
		}
		k := KVParams{Overlap: rng.Float64() * 2, Decay: float64(rng.IntN(2)) * rng.Float64(), Prefill: rng.Float64() * 2, Requests: rng.Float64(), Role: Role(rng.IntN(2))}
		r := &Request{ID: 99, BlockSize: 8, PromptTokens: 40 + rng.IntN(8), Locals: locals}
		costs := make([]float64, n)
		p := pipeline(t, Recipe{Scorers: []Weighted{{"kv", kvScorer(t, k), 1}}, Picker: Named[Picker]{"copy", pickerFunc(func(_ *View, c []float64) int { copy(costs, c); return 0 })}})
		if _, err := p.Select(r, &State{Slots: n, Load: l, Cache: answer, Dead: dead}); err != nil {
			t.Fatal(err)
		}
		var c LoadColumns
		l.columns(r, &c)
		least := math.Inf(1)
		rows := n
		if dead != nil {
			rows--
		}
		for _, x := range c.PrefillTokens[:rows] {
			least = min(least, float64(x))
		}
		for slot := range rows {
			want := naiveKV(k, float64(r.PromptTokens), 8, float64(answer.scores[slot]), float64(c.PrefillTokens[slot]), least,
				float64(c.DecodeBlocks[slot]), float64(c.SharedBlocks[slot]), float64(c.Requests[slot]))
			if math.Abs(costs[slot]-want) > 1e-5*(1+math.Abs(want)) {
				t.Fatalf("%+v: slot %d costs %v, want %v", k, slot, costs[slot], want)
			}
		}
	}
}

// drawn returns how often each row is picked.
func drawn(t *testing.T, temperature float64, scale Scale, costs []float64, n int) []float64 {
	t.Helper()
	out := make([]float64, len(costs))
	p := pipeline(t, Recipe{
		Scorers: []Weighted{{"given", scorerFunc{0, func(_ *View, c []float64) { copy(c, costs) }}, 1}},
		Picker:  Named[Picker]{"softmax", softmax(t, temperature, scale)},
	})
	for range n {
		c, err := p.Select(request(), &State{Slots: len(costs)})
		if err != nil {
			t.Fatal(err)
		}
		out[c.Slot]++
	}
	return out
}

func TestSoftmaxDistribution(t *testing.T) {
	const n = 40000
	for name, tt := range map[string]struct {
		temperature float64
		scale       Scale
		costs       []float64
		want        []float64 // up to a factor
	}{
		"relative":      {0.5, ScaleMinMax, []float64{1, 2, 3}, []float64{1, math.Exp(-1), math.Exp(-2)}},
		"relative, far": {0.5, ScaleMinMax, []float64{1000, 2000, 3000}, []float64{1, math.Exp(-1), math.Exp(-2)}},
		"raw":           {2, ScaleRaw, []float64{1, 2, 3}, []float64{1, math.Exp(-0.5), math.Exp(-1)}},
		"equal":         {0.5, ScaleMinMax, []float64{7, 7, 7}, []float64{1, 1, 1}},
		"huge range":    {1, ScaleMinMax, []float64{-math.MaxFloat64, 0, math.MaxFloat64}, []float64{1, math.Exp(-0.5), math.Exp(-1)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := drawn(t, tt.temperature, tt.scale, tt.costs, n)
			sum := 0.0
			for _, w := range tt.want {
				sum += w
			}
			chi := 0.0
			for i, w := range tt.want {
				e := n * w / sum
				chi += (got[i] - e) * (got[i] - e) / e
			}
			if chi > 13.8 { // 0.1% with two degrees of freedom; the seed is fixed
				t.Errorf("drawn %v for %v", got, tt.want)
			}
		})
	}
	if got := drawn(t, 1e-300, ScaleRaw, []float64{2, 1, 1, math.MaxFloat64}, 1000); got[0]+got[3] != 0 || got[1] == 0 || got[2] == 0 {
		t.Errorf("near temperature 0: %v", got)
	}
}

func TestWarmKVDoesNotAllocate(t *testing.T) {
	for _, slots := range []int{2, 1024, 10000} {
		l := NewActiveLoad(slots, 16)
		for _, picker := range []Picker{LeastCost{}, softmax(t, 0.7, ScaleMinMax)} {
			p := pipeline(t, Recipe{Scorers: []Weighted{{"kv", kvScorer(t, KVParams{Overlap: 1, Prefill: 1, Decay: 1}), 1}}, Picker: Named[Picker]{"p", picker}})
			r := &Request{ID: 1, BlockSize: 16, PromptTokens: 64, Locals: []indexer.LocalHash{1, 2, 3, 4}}
			s := &State{Slots: slots, Load: l, Cache: &found{scores: make([]uint32, slots)}}
			sel := func() {
				if _, err := p.Select(r, s); err != nil {
					t.Error(err)
				}
			}
			sel()
			if n := testing.AllocsPerRun(50, sel); n != 0 {
				t.Errorf("%d candidates, %T: %v allocations", slots, picker, n)
			}
		}
	}
}

func BenchmarkSelectKV(b *testing.B) {
	for _, slots := range []int{8, 64, 1024, 10000} {
		for _, picker := range []Picker{LeastCost{}, softmax(b, 0.7, ScaleMinMax)} {
			b.Run(map[bool]string{true: "min", false: "softmax"}[picker == LeastCost{}]+"/"+strconv.Itoa(slots), func(b *testing.B) {
				l := NewActiveLoad(slots, 16)
				rng := rand.New(rand.NewPCG(1, 1))
				for id := range uint64(slots) {
					q := &Request{ID: id, BlockSize: 16, PromptTokens: 1 + rng.IntN(4096)}
					if err := l.Dispatch(q, indexer.Slot(rng.IntN(slots)), 0); err != nil {
						b.Fatal(err)
					}
				}
				p := pipeline(b, Recipe{Scorers: []Weighted{{"kv", kvScorer(b, DefaultKVParams()), 1}}, Picker: Named[Picker]{"p", picker}})
				r := &Request{ID: 1 << 40, BlockSize: 16, PromptTokens: 2048, Locals: make([]indexer.LocalHash, 128)}
				answer := &found{scores: make([]uint32, slots)}
				for range min(64, slots) {
					slot := indexer.Slot(rng.IntN(slots))
					answer.scores[slot] = uint32(1 + rng.IntN(128))
					answer.touched = append(answer.touched, slot)
				}
				s := &State{Slots: slots, Load: l, Cache: answer}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := p.Select(r, s); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(slots), "ns/candidate")
			})
		}
	}
}

// TestKVChooserEqualsScan runs a pipeline with the chooser and one without beside
// each other, with the same seed, through loads that change.
func TestKVChooserEqualsScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 60 {
		n := 1 + rng.IntN(200)
		k := KVParams{Overlap: float64(rng.IntN(4)) / 2, Prefill: float64(rng.IntN(3)), Requests: float64(rng.IntN(2)) * 0.3, Role: Role(rng.IntN(5) / 4)}
		if rng.IntN(6) == 0 {
			k.Decay = 0.5
		}
		fast, err := KVRecipe(k, 0, ScaleMinMax)
		if err != nil {
			t.Fatal(err)
		}
		scan := fast
		scan.Chooser = nil
		a, b := pipeline(t, fast), pipeline(t, scan)
		l, dead, version := NewActiveLoad(n, 8), make([]bool, n), uint64(0)
		var active []uint64
		for id := range uint64(300) {
			m := rng.IntN(6)
			locals := []indexer.LocalHash{1, indexer.LocalHash(rng.IntN(2)), 3, 4, 5, 6}[:m]
			r := &Request{ID: id, BlockSize: 8, PromptTokens: m*8 + rng.IntN(2)*4, Locals: locals}
			answer := &found{scores: make([]uint32, n)}
			if m > 0 {
				for range rng.IntN(4) {
					if slot := rng.IntN(n); answer.scores[slot] == 0 {
						answer.scores[slot] = uint32(1 + rng.IntN(m))
						answer.touched = append(answer.touched, indexer.Slot(slot))
					}
				}
			}
			if rng.IntN(20) == 0 {
				slot := rng.IntN(n)
				dead[slot] = !dead[slot]
				version++
			}
			if rng.IntN(10) == 0 {
				r.Allowed = []indexer.Slot{indexer.Slot(rng.IntN(n)), indexer.Slot(rng.IntN(n))}
			}
			s := &State{Slots: n, Load: l, Cache: answer, Dead: dead, Version: version}
			got, err := a.Select(r, s)
			want, err2 := b.Select(r, s)
			if (err != nil) != (err2 != nil) || got != want {
				t.Fatalf("%+v, %d slots: %+v, %v; the scan: %+v, %v", k, n, got, err, want, err2)
			}
			if err == nil {
				if err := l.Dispatch(r, got.Slot, 0); err != nil {
					t.Fatal(err)
				}
				active = append(active, id)
			}
			for len(active) > 0 && rng.IntN(3) > 0 {
				i := rng.IntN(len(active))
				if l.FirstToken(active[i]); rng.IntN(2) == 0 {
					l.Finish(active[i])
					active[i] = active[len(active)-1]
					active = active[:len(active)-1]
				}
			}
		}
	}
}
