package policies

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// naiveKV is the rule as its doc comment has it, for one row.
func naiveKV(p KVParams, v *View, row int) float64 {
	r, l := v.Request(), v.Load()
	slot := v.Rows()[row]
	n, size := float64(r.Blocks()), float64(r.BlockSize)
	o := 0.0
	if p.Overlap > 0 {
		o = float64(v.Cache().Overlap[slot])
	}
	least := math.Inf(1)
	for _, s := range v.Rows() {
		least = min(least, float64(l.PrefillTokens[s]))
	}
	queued := float64(l.PrefillTokens[slot])
	credit := 0.0
	if o > 0 {
		credit = p.Overlap * o
		if p.Role == RoleAggregated {
			credit /= 1 + p.Decay*(queued-least)/size/n
		}
	}
	blocks := float64(l.DecodeBlocks[slot]) + n - float64(l.SharedBlocks[slot])
	cost := p.Prefill*max(0, (queued+float64(r.PromptTokens))/size-credit) + blocks
	if p.Role == RoleDecode {
		cost = max(0, blocks-credit)
	}
	cost += p.Requests * float64(l.Requests[slot])
	if r.PreferredTags != 0 && p.Tag != 0 {
		cost *= math.Exp(-math.Tanh(p.Tag * float64(bits.OnesCount64(uint64(v.Tags()[slot]&r.PreferredTags)))))
	}
	return cost
}

// answer is an Overlaps.
type answer struct {
	scores  []uint32
	touched []indexer.Slot
}

func (a *answer) Scores() []uint32        { return a.scores }
func (a *answer) Touched() []indexer.Slot { return a.touched }

func (a *answer) set(slot indexer.Slot, blocks uint32) {
	if a.scores[slot] == 0 {
		a.touched = append(a.touched, slot)
	}
	a.scores[slot] = blocks
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func randomParams(rng *rand.Rand) KVParams {
	return KVParams{
		Overlap:  pick(rng, 0, 0.5, 1, 1, 1, 0.3, 2.7),
		Decay:    pick(rng, 0, 0, 0, 0, 1, 0.37),
		Prefill:  pick(rng, 0, 1, 1, 1, 0.7),
		Requests: pick(rng, 0, 0, 0.5, 1.3),
		Tag:      pick(rng, 0, 0, 0.8, -0.4),
		Role:     pick(rng, RoleAggregated, RoleAggregated, RoleAggregated, RoleDecode),
	}
}

// world is a router in miniature, in which a test does odd things.
type world struct {
	rng    *rand.Rand
	state  State
	load   *ActiveLoad
	size   int
	nextID uint64
	active []uint64
}

func newWorld(rng *rand.Rand, slots int) *world {
	w := &world{rng: rng, load: NewActiveLoad(slots, 16), size: 16}
	w.state = State{Slots: slots, Load: w.load, Dead: make([]bool, slots), RankTags: make([]TagSet, slots)}
	for i := range w.state.RankTags {
		w.state.RankTags[i] = TagSet(rng.IntN(8))
	}
	return w
}

// request is one of few prompts, so that ranks share some.
func (w *world) request() *Request {
	w.nextID++
	r := &Request{ID: w.nextID, BlockSize: w.size}
	family := w.rng.IntN(4)
	for i := range w.rng.IntN(12) {
		r.Locals = append(r.Locals, indexer.LocalHash(family*100+i+w.rng.IntN(60)/59))
	}
	r.PromptTokens = len(r.Locals)*w.size + w.rng.IntN(w.size)
	switch w.rng.IntN(20) {
	case 0:
		r.Allowed = []indexer.Slot{}
		for range 1 + w.rng.IntN(4) {
			r.Allowed = append(r.Allowed, indexer.Slot(w.rng.IntN(w.state.Slots)))
		}
	case 1:
		r.Pinned, r.HasPin = indexer.Slot(w.rng.IntN(w.state.Slots)), true
	case 2:
		r.RequiredTags = 1
	case 3, 4:
		r.PreferredTags = TagSet(w.rng.IntN(16))
	}
	return r
}

// cache is an answer about the request that may be of any rank, dead ones too.
func (w *world) cache(r *Request) *answer {
	// An index that has never seen the last slots gives fewer scores than slots.
	a := &answer{scores: make([]uint32, max(1, w.state.Slots-w.rng.IntN(3)))}
	holders := pick(w.rng, 0, 1, 2, 5, len(a.scores)/20, len(a.scores)/20, len(a.scores))
	for range holders {
		if len(r.Locals) > 0 {
			a.set(indexer.Slot(w.rng.IntN(len(a.scores))), uint32(1+w.rng.IntN(len(r.Locals))))
		}
	}
	return a
}

// stir changes something.
func (w *world) stir() {
	slot := indexer.Slot(w.rng.IntN(w.state.Slots))
	end := func(do func(id uint64)) {
		if len(w.active) > 0 {
			do(w.active[w.rng.IntN(len(w.active))])
		}
	}
	switch w.rng.IntN(16) {
	case 0:
		w.state.Dead[slot] = !w.state.Dead[slot]
		w.state.Version++
	case 1:
		w.load.SetUnknown(slot)
	case 2:
		w.load.Forget(slot)
	case 3, 4, 5:
		end(func(id uint64) { w.load.FirstToken(id) })
	case 6, 7:
		end(func(id uint64) { w.load.Grow(id, w.rng.IntN(3)) })
	case 8, 9, 10, 11:
		end(func(id uint64) { w.load.Finish(id) })
	case 12:
		if w.rng.IntN(20) == 0 {
			w.size = pick(w.rng, 16, 32, 48)
		}
	case 13:
		if w.rng.IntN(40) == 0 {
			w.state.Slots++
			w.load.Extend(w.state.Slots)
			w.state.Dead = append(w.state.Dead, false)
			w.state.RankTags = append(w.state.RankTags, 1)
		}
	case 14:
		if w.rng.IntN(100) == 0 {
			for range 2000 { // more than the log remembers
				w.load.SetKnown(slot)
			}
		}
	}
}

func (w *world) dispatch(r *Request, slot indexer.Slot, cached int) error {
	w.active = append(w.active, r.ID)
	return w.load.Dispatch(r, slot, min(cached*r.BlockSize, r.PromptTokens))
}

// TestKVIsItsFormula compares the costs with the formula computed plainly, and
// says that they are multiples of 2^-20.
func TestKVIsItsFormula(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(rng, 1+rng.IntN(40))
		p := randomParams(rng)
		kv, err := NewKV(p)
		if err != nil {
			t.Fatal(err)
		}
		pipe, err := NewPipeline(Recipe{Scorers: []Weighted{{"kv", kv, 1}}, Picker: Named[Picker]{"min", LeastCost{}}}, seed)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			w.stir()
			r := w.request()
			w.state.Cache = w.cache(r)
			choice, err := pipe.Select(r, &w.state)
			if err != nil {
				continue
			}
			v := &pipe.scorerViews[0]
			costs := make([]float64, len(v.Rows()))
			kv.Score(v, costs)
			// One that has not followed the load until now, of which it knows nothing.
			fresh, err := NewKV(p)
			if err != nil {
				t.Fatal(err)
			}
			anew := make([]float64, len(costs))
			fresh.Score(v, anew)
			for row, c := range costs {
				want := naiveKV(p, v, row)
				if c != anew[row] {
					t.Fatalf("seed %d, %+v, row %d: cost %v, anew %v", seed, p, row, c, anew[row])
				}
				if plain := fresh.t.cost(v.Rows()[row]); r.PreferredTags == 0 && c != plain {
					t.Fatalf("seed %d, %+v, row %d: cost %v, by itself %v", seed, p, row, c, plain)
				}
				if math.Abs(c-want) > 8.0/kvUnit {
					t.Fatalf("seed %d, %+v, row %d: cost %v, want %v", seed, p, row, c, want)
				}
				if c*kvUnit != math.Trunc(c*kvUnit) {
					t.Fatalf("seed %d, row %d: %v is not a multiple of 2^-20", seed, row, c)
				}
				if c < choice.Cost {
					t.Fatalf("seed %d: row %d costs %v, the chosen one %v", seed, row, c, choice.Cost)
				}
			}
			if err := w.dispatch(r, choice.Slot, int(choice.Overlap)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestKVByHand(t *testing.T) {
	tb := table{
		prompt: 95, overlap: []uint32{0, 4, 9, 9}, prefill: []int64{0, 30, 200, 0},
		decode: []int64{0, 2, 0, 40}, requests: []int32{0, 1, 2, 3}, tags: []TagSet{0, 1, 3, 0},
	}
	shared := []uint32{0, 3, 0, 0}
	for _, c := range []struct {
		name      string
		p         KVParams
		preferred TagSet
		want      []float64
	}{
		// 9.5 blocks to prefill, 10 to hold.
		{"defaults", DefaultKVParams(), 0, []float64{9.5 + 10, 8.5 + 9, 20.5 + 10, 0.5 + 50}},
		{"load only", KVParams{Prefill: 1}, 0, []float64{9.5 + 10, 12.5 + 9, 29.5 + 10, 9.5 + 50}},
		{"twice the prefill", KVParams{Overlap: 1, Prefill: 2}, 0, []float64{19 + 10, 17 + 9, 41 + 10, 1 + 50}},
		{"more credit than prefill", KVParams{Overlap: 2, Prefill: 1}, 0, []float64{19.5, 4.5 + 9, 11.5 + 10, 0 + 50}},
		{"requests", KVParams{Overlap: 1, Prefill: 1, Requests: 0.25}, 0, []float64{19.5, 17.75, 31, 51.25}},
		// The credit of slot 2 is 9 / (1 + 20/10).
		{"decay", KVParams{Overlap: 1, Prefill: 1, Decay: 1}, 0, []float64{19.5, 12.5 - 4/1.3 + 9, 29.5 - 3 + 10, 50.5}},
		{"decode", KVParams{Overlap: 1, Prefill: 1, Role: RoleDecode}, 0, []float64{10, 5, 1, 41}},
		{"decode, much credit", KVParams{Overlap: 5, Role: RoleDecode, Requests: 1}, 0, []float64{10, 1, 2, 8}},
		{"decode without cache", KVParams{Role: RoleDecode}, 0, []float64{10, 9, 10, 50}},
		{"tags", KVParams{Overlap: 1, Prefill: 1, Tag: 0.5}, 3, []float64{19.5,
			17.5 * math.Exp(-math.Tanh(0.5)), 30.5 * math.Exp(-math.Tanh(1)), 50.5}},
		{"tags that repel", KVParams{Overlap: 1, Prefill: 1, Tag: -0.5}, 1, []float64{19.5,
			17.5 * math.Exp(math.Tanh(0.5)), 30.5 * math.Exp(math.Tanh(0.5)), 50.5}},
	} {
		kv, err := NewKV(c.p)
		if err != nil {
			t.Fatal(err)
		}
		tb.preferred = c.preferred
		v := tb.view(kv.Inputs(), 1)
		v.shared.load.SharedBlocks, v.shared.load.Sharing = shared, []indexer.Slot{1}
		v.shared.cache.Touched = []indexer.Slot{2, 1, 3}
		for _, dense := range []bool{true, false} {
			v.shared.dense = dense
			costs := make([]float64, 4)
			kv.Score(v, costs)
			for row, got := range costs {
				if math.Abs(got-c.want[row]) > 3.0/kvUnit {
					t.Errorf("%s, dense %v, slot %d: cost %v, want %v", c.name, dense, row, got, c.want[row])
				}
			}
		}
	}
}

func TestKVParamsAreChecked(t *testing.T) {
	for _, c := range []struct {
		p    KVParams
		want string
	}{
		{KVParams{Overlap: -1}, "overlap is -1"},
		{KVParams{Decay: math.NaN()}, "decay is NaN"},
		{KVParams{Prefill: math.Inf(1)}, "prefill is +Inf"},
		{KVParams{Requests: -0.5}, "requests is -0.5"},
		{KVParams{Tag: math.Inf(-1)}, "tag is -Inf; it must be finite"},
		{KVParams{Role: 7}, "no role 7"},
	} {
		for _, make := range []func() error{
			func() error { _, err := NewKV(c.p); return err },
			func() error { _, err := NewKVChooser(c.p); return err },
			func() error { _, err := KVRecipe(c.p, 0, ScaleMinMax); return err },
		} {
			if err := make(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: error %v, want %q", c.p, err, c.want)
			}
		}
	}
	if _, err := KVRecipe(DefaultKVParams(), -1, ScaleMinMax); err == nil {
		t.Error("a temperature of -1 is accepted")
	}
}

// TestKVLimits says that sums which could be inexact fail by scan and chooser
// alike, and that one below the limit is still right.
func TestKVLimits(t *testing.T) {
	const limit = int64(kvLimit)
	for _, c := range []struct {
		name    string
		change  func(l *LoadColumns, r *Request, p *KVParams)
		refused bool
	}{
		{"prefill below", func(l *LoadColumns, _ *Request, _ *KVParams) { l.PrefillTokens[2] = limit*10 - 1 }, false},
		{"prefill", func(l *LoadColumns, _ *Request, _ *KVParams) { l.PrefillTokens[2] = limit * 10 }, true},
		{"negative prefill", func(l *LoadColumns, _ *Request, _ *KVParams) { l.PrefillTokens[2] = -1 }, true},
		{"blocks below", func(l *LoadColumns, _ *Request, _ *KVParams) { l.DecodeBlocks[2] = limit - 1 }, false},
		{"blocks", func(l *LoadColumns, _ *Request, _ *KVParams) { l.DecodeBlocks[2] = limit }, true},
		{"requests", func(l *LoadColumns, _ *Request, p *KVParams) { l.Requests[2], p.Requests = math.MaxInt32, 1 }, true},
		{"prompt", func(_ *LoadColumns, r *Request, _ *KVParams) { r.PromptTokens = int(limit) * 10 }, true},
		{"prompt below", func(_ *LoadColumns, r *Request, _ *KVParams) { r.PromptTokens = int(limit)*10 - 10 }, false},
		{"credit", func(_ *LoadColumns, _ *Request, p *KVParams) { p.Overlap = 1e9 }, true},
		{"weight", func(_ *LoadColumns, _ *Request, p *KVParams) { p.Prefill = math.MaxFloat64 }, true},
	} {
		for _, dense := range []bool{true, false} {
			p := DefaultKVParams()
			tb := table{prompt: 30, requests: make([]int32, 20)}
			if !dense {
				tb.rows = []indexer.Slot{0, 1, 2, 3, 4, 5, 6, 19}
			}
			v := tb.view(allInputs, 1)
			log := &ChangeLog{}
			log.start(20)
			v.shared.epoch = 1
			v.shared.load.SharedBlocks, v.shared.load.Changes = make([]uint32, 20), log
			c.change(&v.shared.load, v.shared.request, &p)
			kv, err := NewKV(p)
			if err != nil {
				t.Fatal(err)
			}
			costs := make([]float64, len(v.Rows()))
			kv.Score(v, costs)
			if got := math.IsInf(costs[2], 1); got != c.refused {
				t.Errorf("%s, dense %v: cost %v", c.name, dense, costs[2])
			}
			if want := naiveKV(p, v, 2); !c.refused && math.Abs(costs[2]-want) > 8.0/kvUnit {
				t.Errorf("%s: cost %v, want %v", c.name, costs[2], want)
			}
			chooser, err := NewKVChooser(p)
			if err != nil {
				t.Fatal(err)
			}
			if row, cost, ok := chooser.Choose(v); ok == c.refused {
				t.Errorf("%s, dense %v: the chooser says %d, %v, %v", c.name, dense, row, cost, ok)
			}
		}
	}
}

// TestKVChooserIsTheScan lets a pipeline with the chooser and one without go
// through the same selections.
func TestKVChooserIsTheScan(t *testing.T) {
	runs, steps := 250, 250
	if testing.Short() {
		runs = 50
	}
	chosen, scanned, drawn, failed := 0, 0, 0, 0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(rng, pick(rng, 1, 2, 7, 8, 9, 40, 64, 65, 200, 513, 700))
		p := randomParams(rng)
		recipe, err := KVRecipe(p, 0, ScaleMinMax)
		if err != nil {
			t.Fatal(err)
		}
		chooser := recipe.Chooser.(*KVChooser)
		watch := &watchedChooser{KVChooser: chooser}
		recipe.Chooser = watch
		fast, err := NewPipeline(recipe, seed)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := KVRecipe(p, 0, ScaleMinMax)
		if err != nil {
			t.Fatal(err)
		}
		plain.Chooser = nil
		scan, err := NewPipeline(plain, seed)
		if err != nil {
			t.Fatal(err)
		}
		for step := range steps {
			for range rng.IntN(4) {
				w.stir()
			}
			r := w.request()
			w.state.Cache = w.cache(r)
			before := fast.pcg
			got, err := fast.Select(r, &w.state)
			want, wantErr := scan.Select(r, &w.state)
			if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("seed %d, step %d, %+v, %d slots: %+v, %v; the scan says %+v, %v", seed, step, p, w.state.Slots, got, err, want, wantErr)
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
			if err != nil {
				failed++
				continue
			}
			if rng.IntN(3) > 0 {
				if err := w.dispatch(r, got.Slot, int(got.Overlap)); err != nil {
					t.Fatal(err)
				}
			}
		}
		chosen, scanned = chosen+watch.chose, scanned+watch.left
	}
	// A test of nothing would pass too.
	if all := runs * steps; chosen < all/8 || scanned < all/8 || drawn < all/16 || failed == 0 {
		t.Errorf("of %d selections %d were chosen, %d left to the scan, %d drew among ties and %d failed", runs*steps, chosen, scanned, drawn, failed)
	}
	t.Logf("%d selections: %d chosen, %d left to the scan, %d with a draw, %d failed", runs*steps, chosen, scanned, drawn, failed)
}

// watchedChooser counts, and keeps what the tree should be.
type watchedChooser struct {
	*KVChooser
	chose, left int
	keys        []int64
	ok          bool
}

func (w *watchedChooser) Choose(v *View) (int, float64, bool) {
	row, cost, ok := w.KVChooser.Choose(v)
	if w.ok = ok; !ok {
		w.left++
		return row, cost, ok
	}
	w.chose++
	l, r := v.Load(), v.Request()
	w.keys = w.keys[:0]
	for range l.Known {
		w.keys = append(w.keys, noKey)
	}
	for _, slot := range v.Rows() {
		tokens := 0.0
		if w.p.Role == RoleAggregated {
			tokens = math.RoundToEven(float64(l.PrefillTokens[slot])*(w.p.Prefill/float64(r.BlockSize))*kvUnit) / kvUnit
		}
		w.keys[slot] = int64((tokens + float64(l.DecodeBlocks[slot]) +
			math.RoundToEven(float64(l.Requests[slot])*w.p.Requests*kvUnit)/kvUnit) * kvUnit)
	}
	return row, cost, ok
}

// check compares the tree with its keys, computed plainly.
func (w *watchedChooser) check(s *State) error {
	if !w.ok {
		return nil
	}
	if len(w.keys) != s.Slots {
		return fmt.Errorf("%d keys for %d slots", len(w.keys), s.Slots)
	}
	return w.tree.check(w.keys)
}

// TestKVTiesAreUniform counts who gets requests that cost the same on several
// ranks, by scan and by chooser.
func TestKVTiesAreUniform(t *testing.T) {
	const slots, draws = 100, 70_000
	for _, fast := range []bool{true, false} {
		recipe, err := KVRecipe(DefaultKVParams(), 0, ScaleMinMax)
		if err != nil {
			t.Fatal(err)
		}
		if !fast {
			recipe.Chooser = nil
		}
		pipe, err := NewPipeline(recipe, 4)
		if err != nil {
			t.Fatal(err)
		}
		load := NewActiveLoad(slots, 100)
		// Slots 10 to 14 are idle, 15 and 16 hold what makes up for their load, 17
		// holds as much and is busier, all others are busy.
		tied := []indexer.Slot{10, 11, 12, 13, 14, 15, 16}
		for slot := range indexer.Slot(slots) {
			tokens := 160
			switch {
			case slot >= 10 && slot < 15:
				continue
			case slot == 15 || slot == 16:
				tokens = 16
			}
			if err := load.Dispatch(&Request{ID: uint64(slot), PromptTokens: tokens, BlockSize: 16}, slot, 0); err != nil {
				t.Fatal(err)
			}
		}
		cache := &answer{scores: make([]uint32, slots)}
		cache.set(16, 2)
		cache.set(15, 2)
		cache.set(17, 2)
		state := &State{Slots: slots, Load: load, Cache: cache}
		r := &Request{PromptTokens: 64, BlockSize: 16, Locals: []indexer.LocalHash{1, 2, 3, 4}}
		count := map[indexer.Slot]float64{}
		for range draws {
			c, err := pipe.Select(r, state)
			if err != nil {
				t.Fatal(err)
			}
			count[c.Slot]++
		}
		observed, expected := make([]float64, len(tied)), make([]float64, len(tied))
		for i, slot := range tied {
			observed[i], expected[i] = count[slot], draws/float64(len(tied))
			delete(count, slot)
		}
		if len(count) > 0 {
			t.Errorf("fast %v: ranks that are not tied were chosen: %v", fast, count)
		}
		fits(t, fmt.Sprintf("ties, fast %v", fast), observed, expected)
	}
}

func TestKVSelectionsDoNotAllocate(t *testing.T) {
	for _, slots := range []int{2, 32, 1024, 10_000} {
		for _, c := range []struct {
			temperature float64
			scan        bool
		}{{0, false}, {0, true}, {0.7, true}} {
			recipe, err := KVRecipe(KVParams{Overlap: 1, Prefill: 1, Requests: 0.5}, c.temperature, ScaleMinMax)
			if err != nil {
				t.Fatal(err)
			}
			if c.scan {
				recipe.Chooser = nil
			}
			pipe, err := NewPipeline(recipe, 1)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			w := newWorld(rng, slots)
			r := &Request{PromptTokens: 2048, BlockSize: 16, Locals: make([]indexer.LocalHash, 128)}
			cache := &answer{scores: make([]uint32, slots)}
			for range slots / 16 {
				cache.set(indexer.Slot(rng.IntN(slots)), uint32(1+rng.IntN(128)))
			}
			w.state.Cache = cache
			round := func() {
				choice, err := pipe.Select(r, &w.state)
				if err != nil {
					t.Fatal(err)
				}
				r.ID++
				if err := w.load.Dispatch(r, choice.Slot, int(choice.Overlap)*16); err != nil {
					t.Fatal(err)
				}
				w.load.Finish(r.ID - 3)
				w.load.FirstToken(r.ID - 1)
			}
			for range 2 * slots / 16 {
				round()
			}
			if n := testing.AllocsPerRun(100, round); n != 0 {
				t.Errorf("%d slots, temperature %v, scan %v: %v allocations a selection", slots, c.temperature, c.scan, n)
			}
		}
	}
}

func TestKVErrorNamesTheScorer(t *testing.T) {
	recipe, err := KVRecipe(KVParams{Overlap: 1e12, Prefill: 1}, 0, ScaleMinMax)
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := NewPipeline(recipe, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pipe.Select(&Request{PromptTokens: 16, BlockSize: 16}, &State{Slots: 3, Load: NewActiveLoad(3, 1)})
	if c := (*ComponentError)(nil); !errors.As(err, &c) || c.Component != "scorer kv" {
		t.Errorf("error %v", err)
	}
}
