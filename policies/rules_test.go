package policies

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// table is a selection as a test writes it, by slot.
type table struct {
	prompt    int // tokens; blocks have 10
	id        uint64
	now       time.Duration
	rows      []indexer.Slot // nil: all
	overlap   []uint32
	known     []bool // nil: all
	prefill   []int64
	decode    []int64
	requests  []int32
	capacity  []uint32
	tags      []TagSet
	preferred TagSet
	session   SessionInput
	hasKey    bool
	key       uint64
	locals    []indexer.LocalHash
}

// view is what a component with the inputs sees of the table.
func (tb *table) view(in Inputs, seed uint64) *View {
	n := max(len(tb.overlap), len(tb.requests), len(tb.prefill), len(tb.decode), len(tb.capacity), len(tb.tags))
	rows := tb.rows
	if rows == nil {
		for slot := range indexer.Slot(n) {
			rows = append(rows, slot)
		}
	}
	known := tb.known
	if known == nil {
		known = slices.Repeat([]bool{true}, n)
	}
	pad64 := func(s []int64) []int64 { return append(slices.Clone(s), make([]int64, n-len(s))...) }
	return &View{name: "test", declared: in, shared: &selection{
		request: &Request{ID: tb.id, Now: tb.now, PromptTokens: tb.prompt, BlockSize: 10, Locals: tb.locals,
			Session: tb.key, HasSession: tb.hasKey, PreferredTags: tb.preferred},
		state: &State{Slots: n, CapacityBlocks: tb.capacity, RankTags: tb.tags},
		rows:  rows, dense: len(rows) == n, rand: rand.New(rand.NewPCG(seed, 1)),
		cache: CacheColumns{Overlap: append(slices.Clone(tb.overlap), make([]uint32, n-len(tb.overlap))...)},
		load: LoadColumns{Known: known, PrefillTokens: pad64(tb.prefill), DecodeBlocks: pad64(tb.decode),
			Requests: append(slices.Clone(tb.requests), make([]int32, n-len(tb.requests))...)},
		session: tb.session,
	}}
}

// scores are the costs that a scorer gives.
func scores(s Scorer, tb table) []float64 {
	v := tb.view(s.Inputs(), 1)
	costs := make([]float64, len(v.Rows()))
	for row := range costs {
		costs[row] = math.NaN()
	}
	s.Score(v, costs)
	return costs
}

// picked are the slots that a picker picks of the table with 200 seeds.
func picked(p Picker, tb table) []indexer.Slot {
	var out []indexer.Slot
	for seed := range uint64(200) {
		v := tb.view(p.Inputs(), seed)
		slot := v.Rows()[p.Pick(v, make([]float64, len(v.Rows())))]
		if !slices.Contains(out, slot) {
			out = append(out, slot)
		}
	}
	slices.Sort(out)
	return out
}

func TestScorers(t *testing.T) {
	unknown := []bool{true, true, false}
	for _, c := range []struct {
		name   string
		scorer Scorer
		tb     table
		want   []float64
	}{
		{"uncached", Uncached{}, table{prompt: 40, overlap: []uint32{0, 1, 4}}, []float64{1, 0.75, 0}},
		{"uncached partial last block", Uncached{}, table{prompt: 35, overlap: []uint32{4, 0}}, []float64{0, 1}},
		{"uncached no prompt", Uncached{}, table{overlap: []uint32{0, 0}}, []float64{1, 1}},
		{"uncached some rows", Uncached{}, table{prompt: 20, rows: []indexer.Slot{0, 2}, overlap: []uint32{1, 2, 2}}, []float64{0.5, 0}},
		{"load", NewRelativeLoad(ByRequests), table{requests: []int32{3, 5, 7}}, []float64{0, 0.5, 1}},
		{"load all equal", NewRelativeLoad(ByRequests), table{requests: []int32{4, 4}}, []float64{0, 0}},
		{"load unknown is the worst", NewRelativeLoad(ByRequests), table{requests: []int32{3, 5, 0}, known: unknown}, []float64{0, 1, 1}},
		{"load in tokens", NewRelativeLoad(ByTokens), table{prefill: []int64{100, 0, 50}, decode: []int64{0, 5, 10}}, []float64{0.5, 0, 1}},
		{"utilisation", Utilisation{}, table{decode: []int64{0, 50, 300}, capacity: []uint32{100, 200, 200}}, []float64{0, 0.25, 1}},
		{"utilisation unknown capacity", Utilisation{}, table{decode: []int64{50, 100, 7}, capacity: []uint32{200, 200, 0}}, []float64{0.25, 0.5, 0.375}},
		{"utilisation unknown load", Utilisation{}, table{decode: []int64{50, 100, 0}, capacity: []uint32{200, 200, 200}, known: unknown}, []float64{0.25, 0.5, 0.5}},
		{"utilisation nothing known", Utilisation{}, table{decode: []int64{50, 100}, capacity: []uint32{0, 0}}, []float64{0, 0}},
		// (40-10+100)*(2+1), (40+0)*(0+1), (40-40+100)*(2+1)
		{"multiplicative", Multiplicative{}, table{prompt: 40, overlap: []uint32{1, 0, 4}, prefill: []int64{100, 0, 0}, requests: []int32{2, 0, 0}, known: unknown}, []float64{390, 40, 300}},
		// 2*queue + 5 + n*(2 + 0.5*(cached + n/2)): 5+40*(2+10)=485; 200+5+20*(2+0.5*30)=545; all cached: 200
		{"first token", FirstToken{Model: PrefillModel{5, 2, 0.5}}, table{prompt: 40, overlap: []uint32{0, 2, 4}, prefill: []int64{0, 100, 0}, known: unknown}, []float64{485, 545, 200}},
		// The best holds 40. 20 is not less than half of it: no fetch, 5+20*2.
		{"first token with transfer", FirstToken{Model: PrefillModel{5, 2, 0}, Transfer: 0.25, Ratio: 2}, table{prompt: 40, overlap: []uint32{0, 2, 4}}, []float64{10, 45, 0}},
	} {
		if got := scores(c.scorer, c.tb); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFilters(t *testing.T) {
	estimate := FirstToken{Model: PrefillModel{0, 1, 0}}
	for _, c := range []struct {
		name   string
		filter Filter
		tb     table
		want   []bool
	}{
		{"requests below", RequestsBelow{Max: 5}, table{requests: []int32{4, 5, 0}}, []bool{true, false, true}},
		{"requests below, unknown as the fullest", RequestsBelow{Max: 5}, table{requests: []int32{4, 5, 0}, known: []bool{true, true, false}}, []bool{true, false, false}},
		{"requests below, none is", RequestsBelow{Max: 1}, table{requests: []int32{4, 5}}, []bool{true, true}},
		{"requests below, none is, strict", RequestsBelow{Max: 1, Strict: true}, table{requests: []int32{4, 5}}, []bool{false, false}},
		{"near least load", NewNearLeastLoad(2, ByRequests), table{requests: []int32{3, 5, 6}}, []bool{true, true, false}},
		{"prefix", PrefixAtLeast{0.5}, table{prompt: 40, overlap: []uint32{1, 2, 3}}, []bool{false, true, true}},
		{"prefix, none", PrefixAtLeast{0.5}, table{prompt: 40, overlap: []uint32{1, 1}}, []bool{true, true}},
		{"tags", PreferredTags{}, table{tags: []TagSet{1, 3, 7}, preferred: 3}, []bool{false, true, true}},
		{"tags, none", PreferredTags{}, table{tags: []TagSet{1, 1}, preferred: 2}, []bool{true, true}},
		{"first token", NewFirstTokenWithin(estimate, 30), table{prompt: 40, overlap: []uint32{0, 1, 2}}, []bool{false, true, true}},
	} {
		v := c.tb.view(c.filter.Inputs(), 1)
		keep := slices.Repeat([]bool{true}, len(v.Rows()))
		if c.filter.Keep(v, keep); !slices.Equal(keep, c.want) {
			t.Errorf("%s: %v, want %v", c.name, keep, c.want)
		}
	}
}

func TestRules(t *testing.T) {
	slots := func(s ...indexer.Slot) []indexer.Slot { return s }
	recipe := func(p Picker) Recipe { return Recipe{Picker: Named[Picker]{"inner", p}} }
	served := SessionInput{Known: true, Target: 1, LastSeen: 10 * time.Second}
	for _, c := range []struct {
		name   string
		picker Picker
		tb     table
		want   []indexer.Slot // all that may be picked and are, over many seeds
	}{
		{"random", Random{}, table{requests: []int32{0, 9, 0}}, slots(0, 1, 2)},
		{"random, some rows", Random{}, table{requests: []int32{0, 9, 0}, rows: slots(1, 2)}, slots(1, 2)},
		{"round-robin starts at the first", &RoundRobin{}, table{requests: []int32{0, 0}}, slots(0)},
		{"least-loaded", NewLeastLoaded(ByRequests), table{requests: []int32{3, 2, 5}}, slots(1)},
		{"least-loaded ties", NewLeastLoaded(ByRequests), table{requests: []int32{3, 2, 5, 2}}, slots(1, 3)},
		{"least-loaded unknown", NewLeastLoaded(ByRequests), table{requests: []int32{3, 2, 0}, known: []bool{true, true, false}}, slots(1)},
		{"least-loaded all unknown", NewLeastLoaded(ByRequests), table{requests: []int32{0, 0}, known: []bool{false, false}}, slots(0, 1)},
		{"least-loaded in tokens", NewLeastLoaded(ByTokens), table{prefill: []int64{0, 90, 99}, decode: []int64{10, 0, 0}}, slots(1)},
		{"power-of-two never the worst", PowerOfTwo{}, table{requests: []int32{1, 5, 2}}, slots(0, 2)},
		{"power-of-two unknown loses", PowerOfTwo{}, table{requests: []int32{0, 5}, known: []bool{false, true}}, slots(1)},
		{"power-of-two ties", PowerOfTwo{}, table{requests: []int32{4, 4}}, slots(0, 1)},
		{"power-of-two one row", PowerOfTwo{}, table{requests: []int32{4}}, slots(0)},

		{"longest", &LongestPrefix{}, table{prompt: 40, overlap: []uint32{1, 3, 2}, requests: []int32{0, 99, 0}}, slots(1)},
		{"longest ties by load", &LongestPrefix{}, table{prompt: 40, overlap: []uint32{3, 3, 3, 2}, requests: []int32{2, 1, 1, 0}}, slots(1, 2)},

		{"threshold: match", &PrefixThreshold{Threshold: 0.3, Abs: 64, Rel: 1.5}, table{prompt: 100, overlap: []uint32{0, 4, 2}, requests: []int32{0, 60, 0}}, slots(1)},
		{"threshold: exactly the share is not more", &PrefixThreshold{Threshold: 0.4, Abs: 64, Rel: 1.5}, table{prompt: 100, overlap: []uint32{0, 4, 2}, requests: []int32{0, 60, 0}}, slots(0, 1, 2)},
		{"threshold: cold by load", &PrefixThreshold{Threshold: 0.4, Abs: 64, Rel: 1.5, ColdToLeastLoaded: true}, table{prompt: 100, overlap: []uint32{0, 4, 2}, requests: []int32{7, 60, 5}}, slots(2)},
		{"threshold: unbalanced", &PrefixThreshold{Threshold: 0.3, Abs: 64, Rel: 1.5}, table{prompt: 100, overlap: []uint32{0, 9, 2}, requests: []int32{0, 65, 0}}, slots(0, 2)},
		{"threshold: unbalanced, but not relatively", &PrefixThreshold{Threshold: 0.3, Abs: 64, Rel: 1.5}, table{prompt: 100, overlap: []uint32{0, 9, 2}, requests: []int32{200, 300, 200}}, slots(1)},

		{"guard: match", &PrefixGuard{Abs: 8, Factor: 1}, table{prompt: 100, overlap: []uint32{1, 4, 2}, requests: []int32{0, 0, 0}}, slots(1)},
		// mean 2, deviation sqrt(14/3) = 2.16: 5 is too much
		{"guard: the best is too loaded", &PrefixGuard{Abs: 8, Factor: 1}, table{prompt: 100, overlap: []uint32{0, 4, 2}, requests: []int32{0, 5, 1}}, slots(2)},
		{"guard: of equal matches the least loaded", &PrefixGuard{Abs: 8, Factor: 1}, table{prompt: 100, overlap: []uint32{2, 2, 0}, requests: []int32{1, 2, 0}}, slots(0)},
		{"guard: none matches", &PrefixGuard{Abs: 8, Factor: 1}, table{prompt: 100, overlap: []uint32{0, 0, 0}, requests: []int32{1, 2, 1}}, slots(0, 2)},
		{"guard: unbalanced", &PrefixGuard{Abs: 8, Factor: 9}, table{prompt: 100, overlap: []uint32{9, 0}, requests: []int32{9, 0}}, slots(1)},

		{"affinity", WithAffinity(recipe(Random{}), time.Minute, -1).Picker.Component, table{requests: []int32{0, 99, 0}, session: served, now: 70 * time.Second}, slots(1)},
		{"affinity: too old", WithAffinity(recipe(Random{}), time.Minute, -1).Picker.Component, table{requests: []int32{0, 99, 0}, session: served, now: 70*time.Second + 1}, slots(0, 1, 2)},
		{"affinity: not a candidate", WithAffinity(recipe(Random{}), time.Minute, -1).Picker.Component, table{requests: []int32{0, 99, 0}, rows: slots(0, 2), session: served, now: 20 * time.Second}, slots(0, 2)},
		{"sticky: within the slack", WithAffinity(recipe(NewLeastLoaded(ByRequests)), time.Minute, 3).Picker.Component, table{requests: []int32{2, 5, 7}, session: served, now: 20 * time.Second}, slots(1)},
		{"sticky: beyond it", WithAffinity(recipe(NewLeastLoaded(ByRequests)), time.Minute, 3).Picker.Component, table{requests: []int32{1, 5, 7}, session: served, now: 20 * time.Second}, slots(0)},
		{"sticky: unknown load", WithAffinity(recipe(NewLeastLoaded(ByRequests)), time.Minute, 3).Picker.Component, table{requests: []int32{1, 0, 7}, known: []bool{true, false, true}, session: served, now: 20 * time.Second}, slots(0)},

		{"ring: no key", NewHashRing(1.25, 8, 1, false), table{requests: []int32{4, 3, 3}}, slots(1, 2)},
		{"ring: no session", NewHashRing(1.25, 8, 1, true), table{requests: []int32{4, 3, 3}}, slots(1, 2)},
	} {
		if got := picked(c.picker, c.tb); !slices.Equal(got, c.want) {
			t.Errorf("%s: picks %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRoundRobin(t *testing.T) {
	p := &RoundRobin{}
	all, some := table{requests: make([]int32, 4)}, table{requests: make([]int32, 4), rows: []indexer.Slot{0, 2}}
	var got []indexer.Slot
	for i := range 10 {
		tb := &all
		if i >= 6 {
			tb = &some
		}
		v := tb.view(0, 1)
		slot := v.Rows()[p.Pick(v, nil)]
		if i != 3 { // a choice that the host does not act on takes no turn
			p.Commit(nil, slot)
		}
		got = append(got, slot)
	}
	if want := []indexer.Slot{0, 1, 2, 3, 3, 0, 2, 0, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestColdTurn compares with the rule done naively: sort by the last cold request.
func TestColdTurn(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	s := &ColdTurn{}
	last := map[indexer.Slot]int{}
	for step := 1; step < 3000; step++ {
		n := 1 + r.IntN(12)
		tb := table{prompt: 20, id: uint64(step), overlap: make([]uint32, n)}
		for slot := range indexer.Slot(n) {
			if r.IntN(4) > 0 {
				tb.rows = append(tb.rows, slot)
			}
		}
		if len(tb.rows) == 0 {
			continue
		}
		cold := true
		if r.IntN(3) == 0 {
			slot := r.IntN(n)
			tb.overlap[slot] = 1
			cold = !slices.Contains(tb.rows, indexer.Slot(slot))
		}
		want := make([]float64, len(tb.rows))
		if cold && len(tb.rows) > 1 {
			for row, slot := range tb.rows {
				if last[slot] == 0 {
					continue
				}
				before := 0
				for _, other := range tb.rows {
					if last[other] < last[slot] {
						before++
					}
				}
				want[row] = float64(before) / float64(len(tb.rows)-1)
			}
		}
		if got := scores(s, tb); !slices.Equal(got, want) {
			t.Fatalf("step %d: %v, want %v", step, got, want)
		}
		if r.IntN(5) > 0 {
			slot := tb.rows[r.IntN(len(tb.rows))]
			s.Commit(&Request{ID: tb.id}, slot)
			if cold {
				last[slot] = step
			}
		}
	}
}

func TestSentTokens(t *testing.T) {
	p := &PrefixThreshold{Threshold: 0.9, Abs: 64, Rel: 1.5}
	tb := table{prompt: 100, overlap: []uint32{3, 0, 0}}
	commit := func(slot indexer.Slot) {
		tb.id++
		v := tb.view(p.Inputs(), 1)
		p.Pick(v, nil)
		p.Commit(v.Request(), slot)
	}
	commit(0)
	commit(1)
	commit(2)
	if got, want := p.sent.bySlot, []int64{70, 100, 100}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := picked(p, tb); !slices.Equal(got, []indexer.Slot{0}) {
		t.Errorf("picks %v, want the one that was sent the least", got)
	}
}

// TestHashRing compares with the rule done naively and checks the bound.
func TestHashRing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for step := range 400 {
		n, nodes, factor := 1+r.IntN(9), 1+r.IntN(20), 1+r.Float64()
		p := NewHashRing(factor, nodes, 2, step%2 == 0)
		tb := table{prompt: 30, requests: make([]int32, n), hasKey: true, key: r.Uint64(), locals: []indexer.LocalHash{indexer.LocalHash(r.Uint64()), indexer.LocalHash(r.Uint64()), 9}}
		total := 1
		for slot := range indexer.Slot(n) {
			if tb.requests[slot] = int32(r.IntN(6)); r.IntN(4) > 0 || slot == indexer.Slot(n-1) {
				tb.rows = append(tb.rows, slot)
				total += int(tb.requests[slot])
			}
		}
		limit := math.Ceil(factor * float64(total) / float64(len(tb.rows)))
		key := scatter(tb.key)
		if step%2 == 1 {
			key = scatter(scatter(uint64(tb.locals[0])) ^ uint64(tb.locals[1]))
		}
		var best indexer.Slot
		nearest, found := uint64(0), false
		for _, slot := range tb.rows {
			if float64(tb.requests[slot]+1) > limit {
				continue
			}
			for node := range nodes {
				// How far round the ring from the key, wrapping at 2^64.
				if d := scatter(scatter(uint64(slot))+uint64(node)) - key; !found || d < nearest {
					best, nearest, found = slot, d, true
				}
			}
		}
		if got := picked(p, tb); !slices.Equal(got, []indexer.Slot{best}) {
			t.Fatalf("step %d: picks %v, want %d", step, got, best)
		}
	}
}

// TestHashesOnDemand: a request whose host makes hashes when they are asked for is
// the same to all who read them as one that has them.
func TestHashesOnDemand(t *testing.T) {
	locals := []indexer.LocalHash{7, 8, 9}
	asked := 0
	given := Request{PromptTokens: 14, BlockSize: 4, Locals: locals}
	made := Request{PromptTokens: 14, BlockSize: 4, Stretches: []Stretch{{1, 1}, {2, 3}}, Hashes: func(n int) []indexer.LocalHash {
		asked++
		return locals[:n]
	}}
	for n := range 5 {
		if have, want := made.Leading(n), given.Leading(n); !slices.Equal(have, want) || len(want) != min(n, 3) {
			t.Errorf("the first %d: %v, given %v", n, have, want)
		}
	}
	if asked != 4 || made.FullBlocks() != 3 || given.FullBlocks() != 3 {
		t.Errorf("asked %d times, %d and %d full blocks", asked, made.FullBlocks(), given.FullBlocks())
	}
	for blocks := 1; blocks < 5; blocks++ {
		ring := NewHashRing(1.25, 10, blocks, false)
		have, ok := ring.key(&made)
		want, _ := ring.key(&given)
		if have != want || !ok {
			t.Errorf("the key of %d blocks is %d, %v, given %d", blocks, have, ok, want)
		}
	}
}

// TestHashRingMovesLittle takes a candidate away: only its keys may move.
func TestHashRingMovesLittle(t *testing.T) {
	p := NewHashRing(100, 64, 1, true)
	all := table{requests: make([]int32, 10), hasKey: true}
	less := all
	less.rows = []indexer.Slot{0, 1, 2, 3, 4, 5, 6, 8, 9}
	count := make([]int, 10)
	for key := range uint64(2000) {
		all.key, less.key = key, key
		va, vl := all.view(Load, 1), less.view(Load, 1)
		a, l := va.Rows()[p.Pick(va, nil)], vl.Rows()[p.Pick(vl, nil)]
		if a != 7 && a != l {
			t.Fatalf("key %d moves from %d to %d, though %d went", key, a, l, 7)
		}
		count[a]++
	}
	if slices.Min(count) < 80 || slices.Max(count) > 400 {
		t.Errorf("keys by slot %v; none should have far more than others", count)
	}
}

// TestRulesRandomly compares the prefix rules with naive ones.
func TestRulesRandomly(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 5))
	for step := range 500 {
		n := 1 + r.IntN(6)
		tb := table{prompt: 95, overlap: make([]uint32, n), requests: make([]int32, n), known: make([]bool, n)}
		for slot := range n {
			tb.overlap[slot], tb.requests[slot], tb.known[slot] = uint32(r.IntN(4)*3), int32(r.IntN(6)), r.IntN(6) > 0
			if !tb.known[slot] {
				tb.requests[slot] = 0
			}
		}
		worst := int32(0)
		for slot := range n {
			worst = max(worst, tb.requests[slot])
		}
		load := func(slot indexer.Slot) float64 {
			if !tb.known[slot] {
				return float64(worst)
			}
			return float64(tb.requests[slot])
		}
		all := make([]indexer.Slot, n)
		for slot := range all {
			all[slot] = indexer.Slot(slot)
		}
		// keep leaves the slots where f is the largest.
		keep := func(in []indexer.Slot, f func(indexer.Slot) float64) []indexer.Slot {
			best := math.Inf(-1)
			for _, s := range in {
				best = max(best, f(s))
			}
			var out []indexer.Slot
			for _, s := range in {
				if f(s) == best {
					out = append(out, s)
				}
			}
			return out
		}
		overlap := func(s indexer.Slot) float64 { return float64(tb.overlap[s]) }
		idle := func(s indexer.Slot) float64 { return -load(s) }
		least, most, mean, dev := math.Inf(1), 0.0, 0.0, 0.0
		for _, s := range all {
			least, most, mean = min(least, load(s)), max(most, load(s)), mean+load(s)/float64(n)
		}
		for _, s := range all {
			dev += (load(s) - mean) * (load(s) - mean) / float64(n)
		}
		leastLoaded, longest := keep(all, idle), keep(keep(all, overlap), idle)

		threshold := longest
		if most-least > 3 && most > 1.5*least || min(overlap(longest[0])*10, 95) <= 0.5*95 {
			threshold = leastLoaded
		}
		guard := leastLoaded
		if most-least <= 4 {
			var ok []indexer.Slot
			for _, s := range all {
				// Far enough from the edge for any order of the sums.
				if load(s) <= mean+0.7*math.Sqrt(dev)+1e-9 && tb.overlap[s] > 0 {
					ok = append(ok, s)
				}
			}
			if len(ok) > 0 {
				guard = keep(keep(ok, overlap), idle)
			}
		}
		for _, c := range []struct {
			name   string
			picker Picker
			want   []indexer.Slot
		}{
			{"least-loaded", NewLeastLoaded(ByRequests), leastLoaded},
			{"longest", &LongestPrefix{}, longest},
			{"threshold", &PrefixThreshold{Threshold: 0.5, Abs: 3, Rel: 1.5, ColdToLeastLoaded: true}, threshold},
			{"guard", &PrefixGuard{Abs: 4, Factor: 0.7}, guard},
		} {
			if got := picked(c.picker, tb); !slices.Equal(got, c.want) {
				t.Fatalf("step %d, %s: picks %v, want %v; %+v", step, c.name, got, c.want, tb)
			}
		}
	}
}

// TestTiesAreUniform counts picks among equal ranks: none is preferred.
func TestTiesAreUniform(t *testing.T) {
	same := table{prompt: 40, overlap: []uint32{2, 2, 2, 2}, requests: []int32{1, 1, 1, 1}}
	for _, p := range []Picker{Random{}, NewLeastLoaded(ByRequests), PowerOfTwo{}, &LongestPrefix{}, &PrefixGuard{Abs: 8, Factor: 1},
		&PrefixThreshold{Threshold: 0.3, Abs: 64, Rel: 1.5}, &PrefixThreshold{Threshold: 0.9, Abs: 64, Rel: 1.5}, NewHashRing(1.25, 4, 1, true)} {
		count := make([]int, 4)
		v := same.view(p.Inputs(), 9)
		for range 4000 {
			count[p.Pick(v, make([]float64, 4))]++
		}
		for _, c := range count {
			// 1000 expected, standard deviation 27.
			if c < 850 || c > 1150 {
				t.Errorf("%T: picks %v of 4000", p, count)
				break
			}
		}
	}
}

// TestRulesDoNotAllocate runs every component warm.
func TestRulesDoNotAllocate(t *testing.T) {
	for _, n := range []int{2, 100, 10000} {
		tb := table{prompt: 200, overlap: make([]uint32, n), requests: make([]int32, n), capacity: slices.Repeat([]uint32{50}, n),
			tags: make([]TagSet, n), hasKey: true, locals: make([]indexer.LocalHash, 20), session: SessionInput{Known: true, Target: 1}}
		for slot := range n {
			tb.requests[slot] = int32(slot % 7)
		}
		costs, keep := make([]float64, n), make([]bool, n)
		r := &Request{PromptTokens: 200, BlockSize: 10}
		components := []Component{&RoundRobin{}, Random{}, NewLeastLoaded(ByTokens), PowerOfTwo{}, &LongestPrefix{}, &PrefixThreshold{Rel: 1, Abs: 3},
			&PrefixGuard{Abs: 9, Factor: 1}, NewHashRing(1.25, 4, 1, false), WithAffinity(Recipe{Picker: Named[Picker]{"p", NewLeastLoaded(ByRequests)}}, 1, 0).Picker.Component,
			Uncached{}, NewRelativeLoad(ByRequests), Utilisation{}, Multiplicative{}, FirstToken{Transfer: 1, Ratio: 2}, &ColdTurn{},
			RequestsBelow{Max: 3}, NewNearLeastLoad(2, ByRequests), PrefixAtLeast{0.5}, PreferredTags{}, NewFirstTokenWithin(FirstToken{}, 1)}
		for _, c := range components {
			v := tb.view(c.Inputs(), 1)
			one := func() {
				switch c := c.(type) {
				case Picker:
					c.Pick(v, costs)
				case Scorer:
					c.Score(v, costs)
				case Filter:
					c.Keep(v, keep)
				}
				if m, ok := c.(Committer); ok {
					m.Commit(r, 1)
				}
			}
			one()
			if allocs := testing.AllocsPerRun(5, one); allocs != 0 {
				t.Errorf("%T with %d candidates: %v allocations", c, n, allocs)
			}
		}
	}
}

func ExampleWithAffinity() {
	recipe := WithAffinity(Recipe{Picker: Named[Picker]{"least-loaded", NewLeastLoaded(ByRequests)}}, 5*time.Minute, 8)
	fmt.Println(recipe.Picker.Component.Inputs())
	// Output: LOAD|SESSION
}
