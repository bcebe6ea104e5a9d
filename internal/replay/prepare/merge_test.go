package prepare

import (
	"context"
	"math"
	"math/big"
	"reflect"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
)

// call is one call of a recorder.
type call struct {
	at        int64
	row       int // of a query, -1: an event
	hasParent bool
	kind      corpus.Kind
	a, b      []uint64 // locals of a query; sequences and locals of an event

	// Of a query: whether it runs, and when it has its first token and ends.
	ran        bool
	first, end int64
}

var drawHashes = rapid.SliceOfN(rapid.Uint64(), 0, 100)

// drawCalls draws the timeline of one rank.
func drawCalls(t *rapid.T) []call {
	at := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-5, 5), rapid.Just(int64(math.MinInt64))).Draw(t, "start")
	// Small steps make many ops meet on one deadline, large ones strain the
	// arithmetic.
	step := rapid.SampledFrom([]int64{0, 1, 1000, math.MaxInt64}).Draw(t, "step")
	calls := make([]call, rapid.IntRange(0, 30).Draw(t, "calls"))
	for i := range calls {
		d := rapid.Int64Range(0, step).Draw(t, "d")
		if at > 0 {
			d = min(d, math.MaxInt64-at)
		}
		at += d
		c := call{at: at, row: -1, kind: corpus.Kind(rapid.IntRange(0, 3).Draw(t, "kind"))}
		switch c.kind {
		case corpus.Query:
			c.row = i
			c.a = drawHashes.Draw(t, "hashes")
		case corpus.Stored:
			c.a = drawHashes.Draw(t, "hashes")
			c.b = make([]uint64, len(c.a))
			for i := range c.b {
				c.b[i] = c.a[i] ^ 1
			}
			c.hasParent = rapid.Bool().Draw(t, "parent")
		case corpus.Removed:
			c.a = drawHashes.Draw(t, "hashes")
		}
		calls[i] = c
	}
	// Requests have first tokens and ends when something else happens, or behind
	// all that is an op.
	if len(calls) == 0 {
		return calls
	}
	late := rapid.Int64Range(0, step).Draw(t, "late")
	if at > 0 {
		late = min(late, math.MaxInt64-at)
	}
	times := []int64{}
	for _, c := range calls {
		times = append(times, c.at)
	}
	times = append(times, at+late)
	for i := range calls {
		if c := &calls[i]; c.row >= 0 {
			first := rapid.IntRange(i, len(times)-1).Draw(t, "first")
			end := rapid.IntRange(first, len(times)-1).Draw(t, "end")
			c.ran = rapid.IntRange(0, 3).Draw(t, "ran") > 0
			c.first, c.end = times[first], times[end]
		}
	}
	return calls
}

func hashesAs[H ~uint64](s []uint64) []H {
	out := make([]H, len(s))
	for i, v := range s {
		out[i] = H(v)
	}
	return out
}

// record plays calls to a recorder.
func record(t *rapid.T, slot int, calls []call) timeline {
	var line timeline
	rec := &recorder{line: &line, slot: uint32(slot), rows: 100, tally: &tally{maxOps: corpus.MaxOps}, stop: func() {}}
	events, queries := uint64(0), 0
	// settle reports what is due before a time.
	running := []call{}
	settle := func(before func(at int64) bool) {
		type due struct {
			at   int64
			row  int
			ends bool
		}
		var all []due
		for _, c := range running {
			if c.ran {
				all = append(all, due{c.first, c.row, false})
			}
			all = append(all, due{c.end, c.row, true})
		}
		sort.SliceStable(all, func(i, j int) bool { return all[i].at < all[j].at })
		for _, d := range all {
			switch {
			case !before(d.at):
			case d.ends:
				rec.Ended(d.at, d.row)
				running = slices.DeleteFunc(running, func(c call) bool { return c.row == d.row })
			default:
				rec.FirstToken(d.at, d.row)
				for i := range running {
					if running[i].row == d.row {
						running[i].ran = false // reported
					}
				}
			}
		}
	}
	for _, c := range calls {
		settle(func(at int64) bool { return at < c.at })
		if c.kind == corpus.Query {
			queries++
			rec.Query(c.at, c.row, hashesAs[indexer.LocalHash](c.a))
			running = append(running, c)
			continue
		}
		ev := indexer.Event{ID: events, Kind: indexer.EventKind(c.kind), HasParent: c.hasParent,
			Sequences: hashesAs[indexer.SequenceHash](c.a), Locals: hashesAs[indexer.LocalHash](c.b)}
		if c.hasParent {
			ev.Parent = 77
		}
		events++
		rec.Event(c.at, &ev)
	}
	settle(func(int64) bool { return true })
	rec.finish(queries)
	if rec.err != nil {
		t.Fatal(rec.err)
	}
	return line
}

func requestOf(row uint32) corpus.Request {
	return corpus.Request{Row: row, Session: row / 2, InputTokens: row * 3, OutputTokens: 1}
}

// naive does what mergeOps and gatherHashes do, plainly.
func naive(ranks [][]call, window int64, rescale string) (ops []corpus.Op, requests []corpus.Request, hashes []uint64) {
	span := func(calls []call) *big.Int {
		if len(calls) == 0 {
			return big.NewInt(0)
		}
		return new(big.Int).Sub(big.NewInt(calls[len(calls)-1].at), big.NewInt(calls[0].at))
	}
	longest := big.NewInt(0)
	for _, calls := range ranks {
		if s := span(calls); s.Cmp(longest) > 0 {
			longest = s
		}
	}
	type item struct {
		call
		deadline int64
		slot     int
		event    int
	}
	var items []item
	for slot, calls := range ranks {
		s := longest
		if rescale == corpus.RescaleRank {
			s = span(calls)
		}
		events := 0
		for _, c := range calls {
			it := item{call: c, slot: slot}
			scaled := func(at int64) int64 {
				if s.Sign() == 0 {
					return 0
				}
				d := new(big.Int).Sub(big.NewInt(at), big.NewInt(calls[0].at))
				d.Mul(d, big.NewInt(window))
				if d.Div(d, s); !d.IsInt64() {
					return math.MaxInt64
				}
				return d.Int64()
			}
			it.deadline = scaled(c.at)
			if it.first, it.end = corpus.NeverRan, corpus.NeverRan; c.ran {
				it.first, it.end = scaled(c.first), scaled(c.end)
			}
			if c.kind != corpus.Query {
				it.event = events
				events++
			}
			items = append(items, it)
		}
	}
	sort.SliceStable(items, func(i, j int) bool {
		a, b := items[i], items[j]
		if a.deadline != b.deadline {
			return a.deadline < b.deadline
		}
		if qa, qb := a.kind == corpus.Query, b.kind == corpus.Query; qa != qb {
			return qa
		}
		return a.slot < b.slot
	})
	for _, it := range items {
		op := corpus.Op{Deadline: it.deadline, Hashes: uint64(len(hashes)), Len: uint32(len(it.a)), Slot: uint32(it.slot), Kind: it.kind}
		if it.kind == corpus.Query {
			op.Seq = uint32(len(requests))
			r := requestOf(uint32(it.row))
			r.FirstToken, r.Finish = it.first, it.end
			requests = append(requests, r)
		} else {
			op.Seq = uint32(it.event)
		}
		if it.hasParent {
			op.HasParent, op.Parent = 1, 77
		}
		ops = append(ops, op)
		hashes = append(append(hashes, it.a...), it.b...)
	}
	return ops, requests, hashes
}

func TestMergeIsAStableSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := make([][]call, rapid.IntRange(1, 6).Draw(t, "ranks"))
		lines := make([]timeline, len(ranks))
		for slot := range ranks {
			ranks[slot] = drawCalls(t)
			lines[slot] = record(t, slot, ranks[slot])
		}
		window := rapid.SampledFrom([]int64{1, 3, 10, 1000, 2e9, math.MaxInt64}).Draw(t, "window")
		rescale := rapid.SampledFrom([]string{corpus.RescaleRank, corpus.RescaleGlobal}).Draw(t, "rescale")

		wantOps, wantRequests, wantHashes := naive(ranks, window, rescale)
		ops, requests, err := mergeOps(context.Background(), lines, scalesOf(lines, uint64(window), rescale), requestOf)
		if err != nil {
			t.Fatal(err)
		}
		hashes, err := gatherHashes(context.Background(), lines)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ops, wantOps) {
			t.Fatalf("ops\n%+v\nwant\n%+v", ops, wantOps)
		}
		if !slices.Equal(requests, wantRequests) || !slices.Equal(hashes, wantHashes) {
			t.Fatal("requests or hashes differ")
		}
		for i := range lines {
			if !reflect.DeepEqual(lines[i].queries, stream{}) || !reflect.DeepEqual(lines[i].events, stream{}) {
				t.Fatalf("timeline %d was not freed", i)
			}
		}

		// What the order must mean for one rank, said another way: its events
		// keep their order, and no query comes after an event that it preceded.
		for slot, calls := range ranks {
			position := make([]int, len(calls)) // of each call in ops
			var queries, events []int           // positions in ops
			for i, op := range ops {
				if int(op.Slot) != slot {
					continue
				}
				if op.Kind == corpus.Query {
					queries = append(queries, i)
				} else {
					if int(op.Seq) != len(events) {
						t.Fatalf("slot %d: event %d is the %dth", slot, op.Seq, len(events))
					}
					events = append(events, i)
				}
			}
			for k, c := range calls {
				from := &events
				if c.kind == corpus.Query {
					from = &queries
				}
				position[k], *from = (*from)[0], (*from)[1:]
			}
			for k, c := range calls {
				for later := k + 1; later < len(calls); later++ {
					queryMoved := c.kind != corpus.Query && calls[later].kind == corpus.Query
					if position[later] < position[k] && !queryMoved {
						t.Fatalf("slot %d: call %d comes after call %d", slot, k, later)
					}
				}
			}
		}
	})
}

func TestDeadline(t *testing.T) {
	for _, tc := range []struct {
		s    scale
		at   int64
		want int64
	}{
		{scale{first: 10, span: 0, window: 100}, 10, 0},
		{scale{first: 10, span: 3, window: 100}, 10, 0},
		{scale{first: 10, span: 3, window: 100}, 11, 33},
		{scale{first: 10, span: 3, window: 100}, 12, 66},
		{scale{first: 10, span: 3, window: 100}, 13, 100},
		{scale{first: math.MinInt64, span: math.MaxUint64, window: math.MaxInt64}, math.MaxInt64, math.MaxInt64},
		{scale{first: math.MinInt64, span: math.MaxUint64, window: math.MaxInt64}, math.MinInt64, 0},
		{scale{first: math.MinInt64, span: math.MaxUint64, window: 2}, 0, 1},
		{scale{first: math.MinInt64, span: math.MaxUint64, window: 2}, -1, 0},
		{scale{first: 0, span: 1, window: math.MaxInt64}, 1, math.MaxInt64},
		// Behind the window.
		{scale{first: 10, span: 3, window: 100}, 14, 133},
		{scale{first: 0, span: 1, window: math.MaxInt64}, 2, math.MaxInt64},
		{scale{first: 0, span: 1, window: math.MaxInt64}, math.MaxInt64, math.MaxInt64},
		{scale{first: math.MinInt64, span: 1, window: 3}, math.MaxInt64, math.MaxInt64},
	} {
		if got := tc.s.deadline(tc.at); got != tc.want {
			t.Errorf("%+v at %d: %d, want %d", tc.s, tc.at, got, tc.want)
		}
	}
}

func TestSlab(t *testing.T) {
	var s slab[uint64]
	var want []uint64
	for n := range 700 {
		hs := make([]indexer.LocalHash, n)
		for i := range hs {
			hs[i] = indexer.LocalHash(len(want) + i)
		}
		pushHashes(&s, hs)
		for _, h := range hs {
			want = append(want, uint64(h))
		}
		s.push(uint64(n))
		want = append(want, uint64(n))
	}
	s.trim()
	if got := slices.Concat(s.chunks...); !slices.Equal(got, want) || s.n != len(want) {
		t.Fatalf("%d values (%d counted), want %d", len(got), s.n, len(want))
	}
	capacity := 0
	for _, c := range s.chunks {
		if len(c) == 0 || cap(c) > maxChunk {
			t.Fatalf("a chunk with %d of %d values", len(c), cap(c))
		}
		capacity += cap(c)
	}
	if capacity != len(want) {
		t.Fatalf("room for %d values kept for %d", capacity, len(want))
	}
}
