package mocker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// steady takes as long for each token, whatever the context.
type steady struct{ prefill, decode int64 }

func (s steady) Prefill(newTokens, _ int) int64 { return s.prefill * int64(newTokens) }
func (s steady) Decode(int) int64               { return s.decode }

// log keeps a timeline in words, with hashes as numbers in the order in which
// they appear.
type log struct {
	lines []string
	names map[indexer.SequenceHash]int
}

func (l *log) name(h indexer.SequenceHash) int {
	if l.names == nil {
		l.names = map[indexer.SequenceHash]int{}
	}
	if _, ok := l.names[h]; !ok {
		l.names[h] = len(l.names)
	}
	return l.names[h]
}

func (l *log) Query(at int64, row int, locals []indexer.LocalHash) {
	l.lines = append(l.lines, fmt.Sprintf("%d query row %d, %d blocks", at, row, len(locals)))
}

func (l *log) Event(at int64, ev *indexer.Event) {
	s := fmt.Sprintf("%d #%d %v", at, ev.ID, ev.Kind)
	if ev.HasParent {
		s += fmt.Sprintf(" after %d:", l.name(ev.Parent))
	}
	for _, h := range ev.Sequences {
		s += fmt.Sprintf(" %d", l.name(h))
	}
	l.lines = append(l.lines, s)
}

const nan = -1 // stands for NaN in tables

func turn(session string, at, delay float64, input, output int, ids ...uint64) trace.Request {
	r := trace.Request{Session: session, Timestamp: at, Delay: delay, InputLength: input, OutputLength: output, HashIDs: ids}
	if at == nan {
		r.Timestamp = math.NaN()
	}
	if delay == nan {
		r.Delay = math.NaN()
	}
	return r
}

func newTrace(t testing.TB, blockSize int, rows ...trace.Request) *trace.Trace {
	t.Helper()
	tr, err := trace.New(blockSize, rows)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func allSessions(t *trace.Trace) []int {
	out := make([]int, t.Sessions())
	for i := range out {
		out[i] = i
	}
	return out
}

func TestTimelines(t *testing.T) {
	// Blocks of 4 tokens, 1 ms a prompt token, 1 ms an answer token.
	model := steady{prefill: 1e6, decode: 1e6}
	for name, c := range map[string]struct {
		rows   []trace.Request
		blocks int
		want   []string
		sum    Summary
	}{
		"a prompt and its answer": {
			// 10 tokens of prompt, 4 of answer, of which 3 are computed: the
			// third block is complete when the second is, at 10 ms + 2 tokens.
			rows:   []trace.Request{turn("", 5, nan, 10, 4, 1, 2)},
			blocks: 10,
			want:   []string{"5000000 query row 0, 2 blocks", "5000000 #0 stored 0 1", "17000000 #1 stored after 1: 2"},
			sum:    Summary{Requests: 1, PromptBlocks: 2, StoredBlocks: 3, OutputBlocks: 1, PeakActive: 4, PeakQueue: 0, EndNanos: 18e6},
		},
		"a second turn hits the first": {
			rows:   []trace.Request{turn("s", 0, nan, 8, 1, 1), turn("s", nan, 2, 16, 1, 1, 2)},
			blocks: 10,
			want:   []string{"0 query row 0, 2 blocks", "0 #0 stored 0 1", "10000000 query row 1, 4 blocks", "10000000 #1 stored after 1: 2 3"},
			sum:    Summary{Requests: 2, PromptBlocks: 6, HitBlocks: 2, StoredBlocks: 4, PeakActive: 4, EndNanos: 18e6},
		},
		"a prompt that is cached whole computes its last block": {
			rows:   []trace.Request{turn("", 0, nan, 8, 1, 1), turn("", 100, nan, 8, 1, 1)},
			blocks: 10,
			want:   []string{"0 query row 0, 2 blocks", "0 #0 stored 0 1", "100000000 query row 1, 2 blocks"},
			sum:    Summary{Requests: 2, PromptBlocks: 4, HitBlocks: 1, StoredBlocks: 2, PeakActive: 2, EndNanos: 104e6},
		},
		"eviction from the leaf, before the store that needs the room": {
			rows:   []trace.Request{turn("", 0, nan, 8, 1, 1), turn("", 100, nan, 4, 1, 2), turn("", 200, nan, 8, 1, 3)},
			blocks: 3,
			want: []string{"0 query row 0, 2 blocks", "0 #0 stored 0 1", "100000000 query row 1, 1 blocks", "100000000 #1 stored 2",
				"200000000 query row 2, 2 blocks", "200000000 #2 removed 1 0", "200000000 #3 stored 3 4"},
			sum: Summary{Requests: 3, PromptBlocks: 5, StoredBlocks: 5, RemovedBlocks: 2, PeakActive: 2, EndNanos: 208e6},
		},
		"a prompt larger than the pool is asked for and not stored": {
			rows:   []trace.Request{turn("s", 0, nan, 16, 1, 1, 2), turn("s", nan, 1, 4, 1, 3)},
			blocks: 3,
			want:   []string{"0 query row 0, 4 blocks", "1000000 query row 1, 1 blocks", "1000000 #0 stored 0"},
			sum:    Summary{Requests: 2, Refused: 1, PromptBlocks: 5, StoredBlocks: 1, PeakActive: 1, EndNanos: 5e6},
		},
		"nothing to compute": {
			rows:   []trace.Request{turn("", 1, nan, 0, 0), turn("", 2, nan, 3, 0, 1)},
			blocks: 3,
			want:   []string{"1000000 query row 0, 0 blocks", "2000000 query row 1, 0 blocks"},
			sum:    Summary{Requests: 2, PeakActive: 1, EndNanos: 5e6},
		},
		"an answer without a prompt": {
			rows:   []trace.Request{turn("", 0, nan, 0, 6)},
			blocks: 3,
			want:   []string{"0 query row 0, 0 blocks", "4000000 #0 stored 0"},
			sum:    Summary{Requests: 1, StoredBlocks: 1, OutputBlocks: 1, PeakActive: 2, EndNanos: 5e6},
		},
		"who comes second waits for room": {
			rows:   []trace.Request{turn("", 0, nan, 12, 1, 1, 2), turn("", 1, nan, 8, 1, 3), turn("", 2, nan, 4, 1, 4)},
			blocks: 4,
			// Row 2 would fit beside row 0, but row 1 is before it in the line.
			want: []string{"0 query row 0, 3 blocks", "0 #0 stored 0 1 2", "1000000 query row 1, 2 blocks", "2000000 query row 2, 1 blocks",
				"12000000 #1 removed 2", "12000000 #2 stored 3 4", "12000000 #3 removed 1", "12000000 #4 stored 5"},
			sum: Summary{Requests: 3, PromptBlocks: 6, StoredBlocks: 6, RemovedBlocks: 2, PeakActive: 3, PeakQueue: 2, EndNanos: 20e6},
		},
		"room that is given back is there for who arrives then": {
			rows:   []trace.Request{turn("", 8, nan, 8, 1, 2), turn("", 0, nan, 8, 1, 1)},
			blocks: 2,
			want:   []string{"0 query row 1, 2 blocks", "0 #0 stored 0 1", "8000000 query row 0, 2 blocks", "8000000 #1 removed 1 0", "8000000 #2 stored 2 3"},
			sum:    Summary{Requests: 2, PromptBlocks: 4, StoredBlocks: 4, RemovedBlocks: 2, PeakActive: 2, EndNanos: 16e6},
		},
		"a block with two copies is removed with the last": {
			// Row 1 computes its last block although row 0 has it. Rows 2 and 3
			// evict one copy each.
			rows:   []trace.Request{turn("", 0, nan, 8, 1, 1), turn("", 0, nan, 8, 1, 1), turn("", 20, nan, 4, 1, 2), turn("", 30, nan, 4, 1, 3)},
			blocks: 3,
			want: []string{"0 query row 0, 2 blocks", "0 #0 stored 0 1", "0 query row 1, 2 blocks", "20000000 query row 2, 1 blocks",
				"20000000 #1 stored 2", "30000000 query row 3, 1 blocks", "30000000 #2 removed 1", "30000000 #3 stored 3"},
			sum: Summary{Requests: 4, PromptBlocks: 6, HitBlocks: 1, StoredBlocks: 4, RemovedBlocks: 1, PeakActive: 3, EndNanos: 34e6},
		},
		"who was admitted last gives way and keeps what it has generated": {
			// At 8 ms row 0 needs a third block. Row 1 has computed 7 tokens and
			// knows 8, which it computes from the cached 4 on when row 0 ends.
			rows:   []trace.Request{turn("", 0, nan, 4, 6, 1), turn("", 1, nan, 4, 5, 2)},
			blocks: 4,
			want: []string{"0 query row 0, 1 blocks", "0 #0 stored 0", "1000000 query row 1, 1 blocks", "1000000 #1 stored 1",
				"8000000 #2 stored after 0: 2", "9000000 #3 stored after 1: 3"},
			sum: Summary{Requests: 2, Preempted: 1, PromptBlocks: 2, StoredBlocks: 4, OutputBlocks: 2, PeakActive: 4, PeakQueue: 1, EndNanos: 13e6},
		},
		"who gives way to others waits for the block that it needs": {
			// At 5 ms row 1 needs a second block. Its one block is free for row 2,
			// but row 1 is before it in the line.
			rows:   []trace.Request{turn("", 0, nan, 12, 4, 1, 2), turn("", 1, nan, 4, 3, 3), turn("", 6, nan, 4, 1, 4)},
			blocks: 4,
			want: []string{"0 query row 0, 3 blocks", "0 #0 stored 0 1 2", "1000000 query row 1, 1 blocks", "1000000 #1 stored 3",
				"6000000 query row 2, 1 blocks", "12000000 #2 removed 3", "15000000 #3 removed 2", "15000000 #4 stored 3",
				"15000000 #5 removed 1", "15000000 #6 stored 4"},
			sum: Summary{Requests: 3, Preempted: 1, PromptBlocks: 5, StoredBlocks: 6, RemovedBlocks: 3, PeakActive: 4, PeakQueue: 2, EndNanos: 21e6},
		},
		"who gives way twice keeps what it had the first time": {
			// Row 2 gives way at 6 ms with 5 known tokens and again at 12 ms,
			// while it computes them.
			rows:   []trace.Request{turn("", 0, nan, 4, 14, 1), turn("", 1, nan, 8, 1, 2), turn("", 2, nan, 4, 6, 3)},
			blocks: 5,
			want: []string{"0 query row 0, 1 blocks", "0 #0 stored 0", "1000000 query row 1, 2 blocks", "1000000 #1 stored 1 2",
				"2000000 query row 2, 1 blocks", "2000000 #2 stored 3", "8000000 #3 stored after 0: 4", "8000000 #4 removed 3",
				"9000000 #5 removed 2 1", "9000000 #6 stored 3", "12000000 #7 stored after 4: 5", "16000000 #8 stored after 5: 6",
				"16000000 #9 removed 3", "17000000 #10 removed 6", "17000000 #11 stored 3",
				"25000000 #12 stored after 3: 7", "25000000 #13 removed 5"},
			sum: Summary{Requests: 3, Preempted: 2, PromptBlocks: 4, StoredBlocks: 10, RemovedBlocks: 6, OutputBlocks: 4, PeakActive: 5, PeakQueue: 1, EndNanos: 26e6},
		},
		"who gives way in its prefill starts it anew": {
			// At 4 ms row 0 needs a second block, while row 1 computes its prompt.
			rows:   []trace.Request{turn("", 0, nan, 4, 2, 1), turn("", 1, nan, 12, 1, 2, 3)},
			blocks: 4,
			want: []string{"0 query row 0, 1 blocks", "0 #0 stored 0", "1000000 query row 1, 3 blocks", "1000000 #1 stored 1 2 3",
				"4000000 #2 removed 3", "5000000 #3 stored after 2: 3"},
			sum: Summary{Requests: 2, Preempted: 1, PromptBlocks: 4, StoredBlocks: 5, RemovedBlocks: 1, PeakActive: 4, PeakQueue: 1, EndNanos: 9e6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrace(t, 8, c.rows...)
			var l log
			sum, err := RunRank(context.Background(), tr, allSessions(tr), Config{GPUBlocks: c.blocks, BlockSize: 4, Time: model}, &l)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(l.lines, c.want) {
				t.Errorf("timeline\n%s\nwant\n%s", strings.Join(l.lines, "\n"), strings.Join(c.want, "\n"))
			}
			if sum != c.sum {
				t.Errorf("summary %+v\nwant    %+v", sum, c.sum)
			}
		})
	}
}

// set replays events as a router would and checks what an engine owes it.
type set struct {
	t      interface{ Fatalf(string, ...any) }
	trace  *trace.Trace
	cfg    Config
	live   map[indexer.SequenceHash]bool
	lastAt int64
	next   uint64
	rows   map[int]int
	hits   int64 // of requests that are not refused, if all are admitted as they arrive
	stored int64
	gone   int64
}

func (s *set) time(at int64) {
	if at < s.lastAt {
		s.t.Fatalf("time goes back from %d to %d", s.lastAt, at)
	}
	s.lastAt = at
}

func (s *set) Query(at int64, row int, locals []indexer.LocalHash) {
	s.time(at)
	s.rows[row]++
	r := s.trace.Request(row)
	if blocksFor(r.InputLength+max(0, r.OutputLength-1), s.cfg.BlockSize) > s.cfg.GPUBlocks {
		return
	}
	var parent indexer.SequenceHash
	for i, l := range locals {
		parent = sequence(parent, i > 0, l)
		if (i+1)*s.cfg.BlockSize == r.InputLength || !s.live[parent] {
			return
		}
		s.hits++
	}
}

func (s *set) Event(at int64, ev *indexer.Event) {
	s.time(at)
	if ev.ID != s.next || len(ev.Sequences) == 0 {
		s.t.Fatalf("event %d with %d blocks, event %d was due", ev.ID, len(ev.Sequences), s.next)
	}
	s.next++
	switch ev.Kind {
	case indexer.Stored:
		if ev.HasParent && !s.live[ev.Parent] {
			s.t.Fatalf("event %d is stored after a block that is not there", ev.ID)
		}
		if len(ev.Locals) != len(ev.Sequences) {
			s.t.Fatalf("event %d has %d local hashes for %d blocks", ev.ID, len(ev.Locals), len(ev.Sequences))
		}
		for _, h := range ev.Sequences {
			if s.live[h] {
				s.t.Fatalf("event %d stores a block that is there", ev.ID)
			}
			s.live[h] = true
			s.stored++
		}
		if len(s.live) > s.cfg.GPUBlocks {
			s.t.Fatalf("%d blocks on a rank of %d", len(s.live), s.cfg.GPUBlocks)
		}
	case indexer.Removed:
		for _, h := range ev.Sequences {
			if !s.live[h] {
				s.t.Fatalf("event %d removes a block that is not there", ev.ID)
			}
			delete(s.live, h)
			s.gone++
		}
	default:
		s.t.Fatalf("event %d is %v", ev.ID, ev.Kind)
	}
}

// drawTrace makes sessions whose prompts share and extend prefixes.
func drawTrace(t *rapid.T, blockSize int) []trace.Request {
	var rows []trace.Request
	next := uint64(100)
	for s := range rapid.IntRange(1, 8).Draw(t, "sessions") {
		ids := []uint64{uint64(rapid.IntRange(0, 2).Draw(t, "system"))}
		at := float64(rapid.IntRange(0, 50).Draw(t, "start"))
		for k := range rapid.IntRange(1, 4).Draw(t, "turns") {
			for range rapid.IntRange(0, 3).Draw(t, "more") {
				ids = append(ids, next)
				next++
			}
			r := turn(fmt.Sprint("s", s), nan, float64(rapid.IntRange(0, 20).Draw(t, "delay")), 0, rapid.IntRange(0, 40).Draw(t, "output"), slices.Clone(ids)...)
			if k == 0 {
				r.Timestamp, r.Delay = at, math.NaN()
			}
			r.InputLength = max(0, len(ids)*blockSize-rapid.IntRange(0, blockSize-1).Draw(t, "partial"))
			rows = append(rows, r)
		}
	}
	return rows
}

// TestConservation plays random traces on small pools, so that requests wait and
// are preempted, and replays the events into a set.
func TestConservation(t *testing.T) {
	preempted, hits := int64(0), int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		traceBlock := rapid.IntRange(1, 12).Draw(rt, "trace block")
		rows := drawTrace(rt, traceBlock)
		tr, err := trace.New(traceBlock, rows)
		if err != nil {
			rt.Fatalf("%v", err)
		}
		cfg := Config{
			GPUBlocks: rapid.IntRange(1, 40).Draw(rt, "pool"),
			BlockSize: rapid.IntRange(1, 9).Draw(rt, "block"),
			Time:      steady{prefill: rapid.Int64Range(0, 3e6).Draw(rt, "prefill"), decode: rapid.Int64Range(0, 3e6).Draw(rt, "decode")},
		}
		s := &set{t: rt, trace: tr, cfg: cfg, live: map[indexer.SequenceHash]bool{}, rows: map[int]int{}}
		e := newEngine(tr, cfg, s)
		if err := errors.Join(e.arriveAll(allSessions(tr)), e.run(context.Background()), e.pool.Check()); err != nil {
			rt.Fatalf("%v", err)
		}
		if len(s.rows) != len(rows) {
			rt.Fatalf("%d of %d requests asked for a place", len(s.rows), len(rows))
		}
		for row, n := range s.rows {
			if n != 1 {
				rt.Fatalf("row %d asked %d times", row, n)
			}
		}
		if f := e.scheduler.(*firstCome); e.pool.Active() != 0 || len(f.waiting) != 0 || len(f.running) != 0 {
			rt.Fatalf("at the end %d blocks are active, %d requests wait, %d run", e.pool.Active(), len(f.waiting), len(f.running))
		}
		e.pool.primary.all(func(c int32) {
			if !s.live[e.pool.copies[c].hash] {
				rt.Fatalf("the pool has a block that the events do not")
			}
		})
		if len(s.live) != e.pool.Cached() || s.stored != e.sum.StoredBlocks || s.gone != e.sum.RemovedBlocks || s.stored-s.gone != int64(len(s.live)) {
			rt.Fatalf("events leave %d blocks (%d - %d), the pool has %d, the summary says %+v", len(s.live), s.stored, s.gone, e.pool.Cached(), e.sum)
		}
		if e.sum.PeakQueue == 0 {
			if s.hits != e.sum.HitBlocks {
				rt.Fatalf("by the events %d blocks hit, the summary says %+v", s.hits, e.sum)
			}
			hits += s.hits
		}
		preempted += e.sum.Preempted
	})
	if preempted == 0 || hits == 0 {
		t.Errorf("%d requests were preempted and %d blocks hit; this shows nothing", preempted, hits)
	}
}

func TestSameArgumentsSameTimeline(t *testing.T) {
	p := trace.AgenticParams()
	p.Requests = 300
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	play := func(seed uint64) string {
		var l log
		if _, err := RunRank(context.Background(), tr, allSessions(tr), Config{GPUBlocks: 2000, BlockSize: 64, Seed: seed}, &l); err != nil {
			t.Fatal(err)
		}
		return strings.Join(l.lines, "\n")
	}
	first := play(1)
	if first != play(1) {
		t.Error("the second time was different")
	}
	if !strings.Contains(first, "removed") {
		t.Error("nothing was removed; the timeline shows little")
	}
}

// TestStoredIsSplit: blocks that are in the pool already are left out, and what
// follows one of them names it as its parent.
func TestStoredIsSplit(t *testing.T) {
	var l log
	e := newEngine(newTrace(t, 4, turn("", 0, nan, 24, 1, 1, 2, 3, 4, 5, 6)), Config{GPUBlocks: 20, BlockSize: 4, Time: steady{}}, &l)
	r := &e.requests[e.open(0, 0)]
	for i, h := range r.sequences {
		l.name(h)
		if i == 0 || i == 3 || i == 5 {
			held, _, _ := e.pool.Reserve(nil, 1, nil, nil)
			e.pool.Commit(held[0], h)
		}
	}
	if !e.reserve(7, r, 0, 6) {
		t.Fatal("no room")
	}
	e.stored(7, r, 0, 6)
	if want := []string{"7 #0 stored after 0: 1 2", "7 #1 stored after 3: 4"}; !slices.Equal(l.lines, want) {
		t.Errorf("%q, want %q", l.lines, want)
	}
	if e.sum.StoredBlocks != 3 {
		t.Errorf("%d stored blocks are counted, want 3", e.sum.StoredBlocks)
	}
}

// TestRunRankAllocates: buffers are reused, so that allocations grow with the
// pool and with what runs at once, not with the requests.
func TestRunRankAllocates(t *testing.T) {
	p := trace.ConversationParams()
	p.Requests, p.SessionsPerSecond, p.BurstFactor = 6000, 0.1, 1
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	sessions := allSessions(tr)
	run := func(sessions []int) float64 {
		return testing.AllocsPerRun(1, func() {
			if _, err := RunRank(context.Background(), tr, sessions, Config{GPUBlocks: 16384, BlockSize: 512}, recorder(func(*indexer.Event) {})); err != nil {
				t.Fatal(err)
			}
		})
	}
	if third, all := run(sessions[:len(sessions)/3]), run(sessions); all > third+200 {
		t.Errorf("a third of the requests cost %v allocations, all %v", third, all)
	}
}

// TestHashesAreKept holds the values of hashes: a change of them changes every
// corpus.
func TestHashesAreKept(t *testing.T) {
	h := fnv.New64a()
	tr := newTrace(t, 8, turn("", 0, nan, 30, 20, 5, 6, 7, 8))
	e := newEngine(tr, Config{GPUBlocks: 100, BlockSize: 4, Seed: 3, Time: steady{1, 1}}, recorder(func(ev *indexer.Event) {
		for i := range ev.Sequences {
			fmt.Fprintln(h, ev.Sequences[i], ev.Locals[i])
		}
	}))
	if err := errors.Join(e.arriveAll([]int{0}), e.run(context.Background())); err != nil {
		t.Fatal(err)
	}
	const want = 0x7afbcff4ecac1a4a
	if got := h.Sum64(); got != want {
		t.Errorf("%#x, want %#x", got, uint64(want))
	}
}

type recorder func(*indexer.Event)

func (r recorder) Query(int64, int, []indexer.LocalHash) {}
func (r recorder) Event(_ int64, ev *indexer.Event)      { r(ev) }

// TestContentDecidesHashes: what is equal in content at equal places of trace
// blocks hashes equally, everything else differently.
func TestContentDecidesHashes(t *testing.T) {
	for _, size := range []int{1, 3, 4, 8, 16, 20} {
		a := content{ids: []uint64{1, 2, 3, 4}, traceBlock: 8, prompt: 32, output: 7}
		b := content{ids: []uint64{9, 2, 3, 4}, traceBlock: 8, prompt: 32, output: 8}
		seen := map[indexer.LocalHash]int{}
		for from := 0; from+size <= 48; from += size {
			ha, hb := a.local(from, from+size), b.local(from, from+size)
			// Blocks that touch neither the first id nor the answer are equal.
			if same := from >= 8 && from+size <= 32; (ha == hb) != same {
				t.Errorf("size %d, tokens from %d: equal %v, want %v", size, from, ha == hb, same)
			}
			if at, ok := seen[ha]; ok {
				t.Errorf("size %d: tokens from %d and from %d hash equally", size, at, from)
			}
			seen[ha] = from
		}
		// The position in the prompt does not count.
		c := content{ids: []uint64{2, 3}, traceBlock: 8, prompt: 16}
		if size <= 8 && 8%size == 0 && a.local(8, 8+size) != c.local(0, size) {
			t.Errorf("size %d: a block's local hash depends on its position", size)
		}
	}
	if sequence(0, true, 5) == sequence(0, false, 5) {
		t.Error("a first block is named like one after the block 0")
	}
}

func TestRunRankRefuses(t *testing.T) {
	tr := newTrace(t, 8, turn("", 0, nan, 30, 20, 5, 6, 7, 8))
	far, err := newTrace(t, 8, turn("", 1e12, nan, 8, 1, 1)).SpeedUp(1e-6)
	if err != nil {
		t.Fatal(err)
	}
	late, err := newTrace(t, 8, turn("s", 0, nan, 8, 1, 1), turn("s", nan, 1e12, 8, 1, 1)).SpeedUp(1e-4)
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		tr  *trace.Trace
		cfg Config
	}{
		"pool of 0":    {tr, Config{BlockSize: 4}},
		"blocks of -1": {tr, Config{GPUBlocks: 10, BlockSize: -1}},
		"2^30":         {tr, Config{GPUBlocks: 1 << 31, BlockSize: 4}},
		"time model":   {tr, Config{GPUBlocks: 100, BlockSize: 4, Time: steady{-1, 1}}},
		"1e+18 ms":     {far, Config{GPUBlocks: 100, BlockSize: 4}},
		"1e+16 ms":     {late, Config{GPUBlocks: 100, BlockSize: 4}},
		"decode is -1": {tr, Config{GPUBlocks: 100, BlockSize: 4, Time: ContextAware{DecodeBase: -1}}},
		"3 times a duration of 4611686018427387904 ns at 30 ns": {
			newTrace(t, 8, turn("", 0, nan, 30, 4, 5, 6, 7, 8)), Config{GPUBlocks: 100, BlockSize: 40, Time: steady{1, 1 << 62}}},
	} {
		if _, err := RunRank(context.Background(), c.tr, []int{0}, c.cfg, &log{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	because := errors.New("stop")
	cancel(because)
	if _, err := RunRank(ctx, tr, []int{0}, Config{GPUBlocks: 10, BlockSize: 4}, &log{}); !errors.Is(err, because) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestContextAware(t *testing.T) {
	m := ContextAware{Base: 100, PerToken: 10, PerPair: 2, DecodeBase: 7, DecodePerToken: 3}
	for _, c := range []struct {
		fresh, cached int
		want          int64
	}{{0, 50, 0}, {1, 0, 111}, {10, 0, 300}, {10, 5, 400}} {
		if got := m.Prefill(c.fresh, c.cached); got != c.want {
			t.Errorf("prefill of %d after %d: %d, want %d", c.fresh, c.cached, got, c.want)
		}
	}
	if got := m.Decode(4); got != 19 {
		t.Errorf("decode after 4: %d, want 19", got)
	}
	// Chunks cost what the whole costs, but for the base of each.
	if whole, chunks := m.Prefill(20, 0), m.Prefill(8, 0)+m.Prefill(12, 8)-100; whole != chunks {
		t.Errorf("20 tokens take %d, in chunks %d", whole, chunks)
	}
	rapid.Check(t, func(t *rapid.T) {
		n, c := rapid.IntRange(0, 200000).Draw(t, "new"), rapid.IntRange(0, 200000).Draw(t, "cached")
		d := DefaultTime
		if d.Prefill(n+1, c) <= d.Prefill(n, c) || d.Prefill(n, c+1) < d.Prefill(n, c) || d.Decode(c+1) < d.Decode(c) {
			t.Fatalf("more work takes less time at %d after %d", n, c)
		}
	})
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		if err := (ContextAware{PerPair: bad}).Validate(); err == nil || !strings.Contains(err.Error(), "pair") {
			t.Errorf("coefficient %g: %v", bad, err)
		}
	}
	if err := DefaultTime.Validate(); err != nil {
		t.Error(err)
	}
	if got := (ContextAware{PerPair: 1e300}).Prefill(1<<30, 0); got != math.MaxInt64 {
		t.Errorf("a prefill without end takes %d ns", got)
	}
	if got, want := m.String(), "context-aware(base=100ns,token=10ns,pair=2ns,decode=7ns,context=3ns)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func BenchmarkRunRank(b *testing.B) {
	p := trace.ConversationParams()
	p.Requests = 5000
	tr, err := trace.Generate(p)
	if err != nil {
		b.Fatal(err)
	}
	sessions := allSessions(tr)
	b.ReportAllocs()
	var blocks int64
	for b.Loop() {
		sum, err := RunRank(context.Background(), tr, sessions, Config{GPUBlocks: 16384, BlockSize: 128}, recorder(func(*indexer.Event) {}))
		if err != nil {
			b.Fatal(err)
		}
		blocks += sum.PromptBlocks + sum.StoredBlocks + sum.RemovedBlocks
	}
	b.ReportMetric(float64(blocks)/b.Elapsed().Seconds(), "block-ops/s")
}
