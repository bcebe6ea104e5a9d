package analysis

import (
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/trace"
)

// conversation loads the public trace, which lies beside the repository.
func conversation(tb testing.TB) *trace.Trace {
	tb.Helper()
	path, err := filepath.Abs("../../../shared/traces/mooncake/conversation_trace.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		tb.Skipf("the public trace is not at %s", path)
	}
	t, _, err := trace.Load(tb.Context(), path, trace.ReaderOptions{}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// Hits that others have published or computed for the trace, each with an
// implementation of its own.
func TestConversationHits(t *testing.T) {
	tr := conversation(t)
	sizes := []int{1000, 10000, 50000, 1 << 30, 32, 128, 512, 2048, 8192, 32768}
	info, err := Describe(tr, Options{CacheBlocks: sizes})
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]CacheHits{}
	for _, c := range info.Caches {
		got[c.CacheBlocks] = c
		if c.References != 288500 {
			t.Errorf("%d references, want 288500", c.References)
		}
	}
	for blocks, want := range map[int]int{1000: 12847, 10000: 61046, 50000: 102290, 1 << 30: 105710} {
		if got[blocks].Hits != want {
			t.Errorf("%d blocks: %d hits, want %d", blocks, got[blocks].Hits, want)
		}
	}
	// Sizes of 16K, 64K, 256K, 1M, 4M and 16M tokens.
	for blocks, want := range map[int]float64{32: .0425, 128: .0427, 512: .0430, 2048: .0560, 8192: .1851, 32768: .3415, 1 << 30: .3736} {
		if share := got[blocks].HitTokenShare; math.Round(share*1e4)/1e4 != want {
			t.Errorf("%d blocks: %.4f of the tokens, want %.4f", blocks, share, want)
		}
	}
	if info.Tree.TopRootRequests != 12031 || info.Tree.Roots != 1 || info.Tree.Nodes != 182790 || info.Tree.MaxDepth != 247 {
		t.Errorf("tree %+v", info.Tree)
	}
	if last := info.HitCurve[len(info.HitCurve)-1]; last.Hits != 105710 {
		t.Errorf("the curve ends with %d hits", last.Hits)
	}
}

// Blocks that are full, as engines cache them.
func TestConversationHitsOfFullBlocks(t *testing.T) {
	tr := conversation(t)
	c, err := NewCollector(tr.BlockSize, Options{CacheBlocks: []int{1000, 10000, 50000, 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.Len() {
		q := tr.Request(i)
		full := q.InputLength / tr.BlockSize
		q.HashIDs, q.InputLength = q.HashIDs[:full], full*tr.BlockSize
		if err := c.Add(&q); err != nil {
			t.Fatal(err)
		}
	}
	info := c.Info()
	for i, want := range []int{12990, 62005, 102724, 105592} {
		if c := info.Caches[i]; c.Hits != want || c.References != 276491 {
			t.Errorf("%d blocks: %d hits of %d, want %d of 276491", c.CacheBlocks, c.Hits, c.References, want)
		}
	}
}

// The second half of the trace, when caches are warm.
func TestConversationHitsWhenWarm(t *testing.T) {
	tr := conversation(t)
	info, err := Describe(tr, Options{CacheBlocks: []int{32, 128, 512, 2048, 8192, 32768, 1 << 30}, WarmUpRequests: tr.Len() / 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{.0454, .0454, .0454, .0564, .1882, .3558, .3981} {
		if c := info.Caches[i]; math.Round(c.HitTokenShare*1e4)/1e4 != want {
			t.Errorf("%d blocks: %.4f of the tokens, want %.4f", c.CacheBlocks, c.HitTokenShare, want)
		}
	}
	if last := info.HitCurve[len(info.HitCurve)-1]; last.Hits != info.Caches[6].Hits || info.WarmUpRequests != 6015 {
		t.Errorf("the curve ends with %+v after %d requests", last, info.WarmUpRequests)
	}
}

// requests draws a trace in which prompts share prefixes, ids come back under
// other parents and repeat inside a prompt.
func requests(t *rapid.T, blockSize int) []trace.Request {
	var out []trace.Request
	at := 0.0
	stamped := map[string]bool{}
	for range rapid.IntRange(1, 60).Draw(t, "requests") {
		q := trace.Request{Timestamp: math.NaN(), Delay: math.NaN(), OutputLength: rapid.IntRange(0, 300).Draw(t, "output")}
		if len(out) > 0 && rapid.Bool().Draw(t, "extends") {
			from := out[rapid.IntRange(0, len(out)-1).Draw(t, "from")].HashIDs
			q.HashIDs = slices.Clone(from[:rapid.IntRange(0, len(from)).Draw(t, "keep")])
		}
		q.HashIDs = append(q.HashIDs, rapid.SliceOfN(rapid.Uint64Range(0, 30), 0, 12).Draw(t, "ids")...)
		q.InputLength = rapid.IntRange(max(0, len(q.HashIDs)*blockSize-2*blockSize), len(q.HashIDs)*blockSize).Draw(t, "input")
		q.Session = rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "session")
		at += float64(rapid.IntRange(0, 4).Draw(t, "gap") * 250)
		later := q.Session != "" && stamped[q.Session]
		switch {
		case !later || rapid.Bool().Draw(t, "stamped"):
			q.Timestamp = at
			if q.Session == "" && rapid.IntRange(0, 9).Draw(t, "unsorted") == 0 {
				q.Timestamp = at / 2
			}
		default:
			q.Delay = float64(rapid.IntRange(0, 4000).Draw(t, "delay"))
		}
		stamped[q.Session] = true
		out = append(out, q)
	}
	return out
}

// What trace.Describe computes with all rows in memory is the same.
func TestInfoEqualsDescribe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blockSize := rapid.IntRange(1, 40).Draw(t, "block size")
		tr, err := trace.New(blockSize, requests(t, blockSize))
		if err != nil {
			t.Fatal(err)
		}
		info, err := Describe(tr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if want := trace.Describe(tr); !reflect.DeepEqual(info.Info, want) {
			t.Fatalf("got  %+v\nwant %+v", info.Info, want)
		}
	})
}

// lru is a cache that does what CacheHits says, in the plainest way: the prefixes
// it holds, as strings, the newest first.
type lru struct {
	blocks int
	held   []string
}

func prefixOf(ids []uint64) string {
	b := make([]byte, 0, len(ids))
	for _, id := range ids {
		b = append(b, byte(id))
	}
	return string(b)
}

func (c *lru) request(ids []uint64) (hits int) {
	for hits < len(ids) && slices.Contains(c.held, prefixOf(ids[:hits+1])) {
		hits++
	}
	for n := len(ids); n > 0; n-- {
		p := prefixOf(ids[:n])
		if at := slices.Index(c.held, p); at >= 0 {
			c.held = slices.Delete(c.held, at, at+1)
		}
		c.held = slices.Insert(c.held, 0, p)
	}
	c.held = c.held[:min(len(c.held), c.blocks)]
	return hits
}

func TestHitsEqualLRU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blockSize := rapid.IntRange(1, 40).Draw(t, "block size")
		rows := requests(t, blockSize)
		sizes := rapid.SliceOfNDistinct(rapid.IntRange(1, 80), 1, 6, rapid.ID[int]).Draw(t, "sizes")
		tr, err := trace.New(blockSize, rows)
		if err != nil {
			t.Fatal(err)
		}
		info, err := Describe(tr, Options{CacheBlocks: sizes})
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range append(info.Caches, info.HitCurve...) {
			c, hits, tokens := lru{blocks: got.CacheBlocks}, 0, 0
			for _, q := range rows {
				h := c.request(q.HashIDs)
				hits += h
				tokens += min(h*blockSize, q.InputLength)
			}
			if got.Hits != hits || got.HitTokens != int64(tokens) {
				t.Fatalf("%d blocks: %d hits of %d tokens, want %d of %d", got.CacheBlocks, got.Hits, got.HitTokens, hits, tokens)
			}
		}
	})
}

// The stack beside a list of the blocks, over so many uses that slots are
// renumbered many times.
func TestStack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStack()
		var list []uint32 // newest first
		blocks := uint32(0)
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			// Known blocks in any order, and new ones, numbered on.
			known := list
			if len(list) > 0 {
				r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
				known = slices.Clone(list)
				r.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
				known = known[:rapid.IntRange(0, len(known)).Draw(t, "known")]
				if rapid.Bool().Draw(t, "in order") {
					slices.Sort(known)
				}
			}
			path := slices.Clone(known)
			for range rapid.IntRange(0, 700).Draw(t, "new") {
				blocks++
				path = append(path, blocks)
			}
			place := make([]int, blocks+1)
			for i, b := range list {
				place[b] = i
			}
			runs := s.use(path, len(known), nil)
			i := 0
			for _, r := range runs {
				for k := range r.blocks {
					if want := place[path[i]]; r.first+k != i || r.distance+k != want {
						t.Fatalf("block %d of the request: run %+v, want the distance %d", i, r, want)
					}
					i++
				}
			}
			if i != len(known) {
				t.Fatalf("distances of %d blocks, want %d", i, len(known))
			}
			used := make([]bool, blocks+1)
			for _, b := range path {
				used[b] = true
			}
			rest := slices.DeleteFunc(slices.Clone(list), func(b uint32) bool { return used[b] })
			list = append(path, rest...)
			s.check(t)
		}
	})
}

// check is the invariants of a stack.
func (s *stack) check(t *rapid.T) {
	if s.blocks != len(s.slot)-1 {
		t.Fatalf("%d live blocks of %d", s.blocks, len(s.slot)-1)
	}
	seen := make([]uint64, len(s.live))
	for _, slot := range s.slot[1:] {
		seen[slot/64] |= 1 << (slot % 64)
	}
	if !slices.Equal(seen, s.live) {
		t.Fatal("the bitmap is not of the slots of the blocks")
	}
	if len(s.live)*64 > max(leastSlots, 4*(s.blocks+4096)) {
		t.Fatalf("%d slots for %d blocks", len(s.live)*64, s.blocks)
	}
}

func TestStackMemory(t *testing.T) {
	s := newStack()
	path := make([]uint32, 100)
	for i := range path {
		path[i] = uint32(i + 1)
	}
	runs := s.use(path, 0, nil)
	if n := testing.AllocsPerRun(1000, func() { runs = s.use(path, len(path), runs[:0]) }); n > 0.1 {
		t.Errorf("%v allocations for each use", n)
	}
	c, err := NewCollector(16, Options{CacheBlocks: []int{10, 1000}})
	if err != nil {
		t.Fatal(err)
	}
	q := trace.Request{Session: "a", Delay: math.NaN(), InputLength: 1600, OutputLength: 5, HashIDs: make([]uint64, 100)}
	for i := range q.HashIDs {
		q.HashIDs[i] = uint64(i % 37)
	}
	add := func() {
		q.HashIDs[0] ^= 1 // two prompts in turn
		if err := c.Add(&q); err != nil {
			t.Error(err)
		}
	}
	add()
	add()
	if n := testing.AllocsPerRun(1000, add); n > 0.1 {
		t.Errorf("%v allocations for each request", n)
	}
	if len(s.live)*64 != leastSlots {
		t.Errorf("%d slots for 100 blocks after 100,000 uses", len(s.live)*64)
	}
}

func TestCollectorRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		rows []trace.Request
	}{
		{"a prompt without ids", []trace.Request{{InputLength: 5}}},
		{"no first timestamp", []trace.Request{{Timestamp: math.NaN()}}},
		{"a delay on the first turn", []trace.Request{{Session: "a", Delay: 5}}},
		{"time that goes back", []trace.Request{{Session: "a", Timestamp: 5, Delay: math.NaN()}, {Session: "a", Timestamp: 4, Delay: math.NaN()}}},
	} {
		col, err := NewCollector(16, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.rows {
			err = col.Add(&c.rows[i])
		}
		if err == nil {
			t.Errorf("%s is accepted", c.name)
		}
	}
	if _, err := NewCollector(0, Options{}); err == nil {
		t.Error("blocks of 0 tokens are accepted")
	}
	if _, err := NewCollector(16, Options{CacheBlocks: []int{0}}); err == nil {
		t.Error("a cache of 0 blocks is accepted")
	}
}

// What is described in parts and put together is the same.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := requests(t, 16)
		rows = append(rows, rows...)
		for i := range rows {
			rows[i].Session, rows[i].Timestamp, rows[i].Delay = "", float64(i), math.NaN()
		}
		tr, err := trace.New(16, rows)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := Describe(tr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := collect(tr, Options{parts: 4})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range c.parts {
			n += c.parts[i].requests
			if i+1 < len(c.parts) && c.parts[i].requests != c.partSize {
				t.Fatalf("part %d of %d has %d requests, want %d", i, len(c.parts), c.parts[i].requests, c.partSize)
			}
		}
		if n != len(rows) || len(c.parts) > 4 {
			t.Fatalf("%d requests in %d parts, want %d", n, len(c.parts), len(rows))
		}
		if got := c.Info(); !reflect.DeepEqual(got, whole) {
			t.Fatalf("got  %+v\nwant %+v", got, whole)
		}
	})
}

func TestTree(t *testing.T) {
	// Two prompts share 1 2, one of them goes on twice; another begins anew.
	var rows []trace.Request
	for i, ids := range [][]uint64{{1, 2, 3}, {1, 2, 4, 5}, {7}, {1, 2, 4, 2}} {
		rows = append(rows, trace.Request{Timestamp: float64(i), Delay: math.NaN(), InputLength: len(ids) * 16, HashIDs: ids})
	}
	tr, err := trace.New(16, rows)
	if err != nil {
		t.Fatal(err)
	}
	info, err := Describe(tr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := Tree{
		Nodes: 7, Roots: 2, Leaves: 4, Branches: 2, MaxChildren: 2, MeanChildren: 5.0 / 3, MaxDepth: 4, MeanLeafDepth: 3,
		SharedNodes: 3, SharedNodeShare: 3.0 / 7, SharedReferences: 8, SharedReferenceShare: 8.0 / 12, TopRootRequests: 3,
		Levels: []Level{{1, 1, 2, 1, 0}, {2, 3, 3, 2, 2}, {4, 4, 2, 0, 0}},
	}
	if !reflect.DeepEqual(info.Tree, want) {
		t.Errorf("got  %+v\nwant %+v", info.Tree, want)
	}
	if info.DistinctBlocks != 6 || info.RepeatedBlocks != 3 {
		t.Errorf("%d ids, %d repeated", info.DistinctBlocks, info.RepeatedBlocks)
	}
}

func TestBins(t *testing.T) {
	for v := range uint64(5000) {
		b := bin(v)
		if from, below := binFrom(b), binFrom(b+1); float64(v) < from || float64(v) >= below {
			t.Fatalf("%d is in the bin from %v to %v", v, from, below)
		}
	}
	for _, v := range []uint64{0, 1, 1<<14 - 1, 1 << 14, 1<<14 + 1, 123456789, math.MaxUint64} {
		if c := coarse(v); c > v || float64(v-c) > 0.00013*float64(v) || coarse(c) != c {
			t.Errorf("coarse(%d) = %d", v, c)
		}
	}
}

func TestBurstiness(t *testing.T) {
	even, bursts := newTimes(), newTimes()
	for i := range 1000 {
		even.add(float64(i * 100))
		bursts.add(float64(i / 50 * 5000))
	}
	for _, b := range even.burstiness() {
		if b.Dispersion > 0.01 || b.EmptyShare != 0 || b.PeakPerSecond != 10 {
			t.Errorf("even: %+v", b)
		}
	}
	b := bursts.burstiness()
	if len(b) != 2 || b[1].WindowMS != 1000 || b[1].PeakPerSecond != 50 || b[1].EmptyShare != 0.8 || b[1].Dispersion < 30 {
		t.Errorf("bursts: %+v", b)
	}
}

func BenchmarkAdd(b *testing.B) {
	tr := conversation(b)
	for b.Loop() {
		if _, err := collect(tr, Options{CacheBlocks: []int{1000, 10000}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/288500, "ns/reference")
}
