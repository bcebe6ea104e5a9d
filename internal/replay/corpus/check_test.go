package corpus

import (
	"math"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

func TestCheckAcceptsWellFormed(t *testing.T) {
	for seed := range uint64(50) {
		if err := random(seed, int(seed)*3).Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	c := random(1, 200)
	kind := func(k Kind) func(*Op) bool {
		return func(op *Op) bool { return op.Kind == k && (op.Len > 0 || k == Cleared) }
	}
	query, stored, removed, cleared := firstOp(t, c, "query", kind(Query)), firstOp(t, c, "stored", kind(Stored)),
		firstOp(t, c, "removed", kind(Removed)), firstOp(t, c, "cleared", kind(Cleared))
	root := firstOp(t, c, "stored root", func(op *Op) bool { return op.Kind == Stored && op.HasParent == 0 })
	op := firstOp(t, c, "query that ran late", func(op *Op) bool {
		return op.Kind == Query && op.Deadline > 0 && c.Requests[op.Seq].FirstToken > op.Deadline
	})
	ran := c.Ops[op].Seq
	late := firstOp(t, c, "late op", func(op *Op) bool { return op.Deadline > 500 })
	for _, tc := range []struct {
		name  string
		spoil func(*Corpus)
		want  string
	}{
		{"schema", func(c *Corpus) { c.Manifest.Schema = "kvbench.corpus/v3" }, "schema"},
		{"approximate schema", func(c *Corpus) { c.Manifest.Schema = SchemaV2 }, "says something else"},
		{"approximate", func(c *Corpus) { c.Manifest.Options.Approximate = ApproximateLRU }, "says something else"},
		{"unknown approximation", func(c *Corpus) {
			c.Manifest.Schema, c.Manifest.Options.Approximate = SchemaV2, "lfu"
		}, `approximate is "lfu"`},
		{"ttl", func(c *Corpus) { c.Manifest.Options.TTLNS = 1 }, "ttl_ns is 1"},
		{"no ttl", func(c *Corpus) {
			c.Manifest.Schema, c.Manifest.Options.Approximate = SchemaV2, ApproximateTTL
			c.Manifest.Totals.Approximate.UnderPredicted = c.Manifest.Totals.HitBlocks
		}, "ttl_ns is 0"},
		{"approximate totals", func(c *Corpus) { c.Manifest.Totals.Approximate.Decisions = 1 }, "totals of an approximation"},
		{"approximate hits", func(c *Corpus) {
			c.Manifest.Schema, c.Manifest.Options.Approximate = SchemaV2, ApproximateLRU
			c.Manifest.Totals.Approximate.PredictedBlocks = 1
		}, "1 hit blocks"},
		{"window", func(c *Corpus) { c.Manifest.WindowNS = 0 }, "window_ns"},
		{"speed-up", func(c *Corpus) { c.Manifest.Options.SpeedUp = math.NaN() }, "speed_up is NaN"},
		{"speed-up infinite", func(c *Corpus) { c.Manifest.Options.SpeedUp = math.Inf(-1) }, "speed_up is -Inf"},
		{"rank twice", func(c *Corpus) { c.Ranks[2] = c.Ranks[1] }, "rank 2"},
		{"ranks unsorted", func(c *Corpus) { c.Ranks[0], c.Ranks[1] = c.Ranks[1], c.Ranks[0] }, "rank 1"},
		{"too many ranks", func(c *Corpus) { c.Ranks = make([]indexer.Rank, indexer.MaxRanks+1) }, "65537 ranks"},
		{"kind", func(c *Corpus) { c.Ops[query].Kind = 4 }, "unknown kind 4"},
		{"slot", func(c *Corpus) { c.Ops[stored].Slot = 4 }, "slot 4 of 4"},
		{"deadline before", func(c *Corpus) { c.Ops[0].Deadline = -1 }, "op 0: deadline -1"},
		{"deadline after", func(c *Corpus) { c.Ops[len(c.Ops)-1].Deadline = 1001 }, "deadline 1001"},
		{"deadline unsorted", func(c *Corpus) { c.Ops[late].Deadline = 0 }, "sorted after"},
		{"parent mark 2", func(c *Corpus) { c.Ops[stored].HasParent = 2 }, "has-parent mark 2"},
		{"query with parent", func(c *Corpus) { c.Ops[query].HasParent = 1 }, "has-parent mark 1 on a query"},
		{"removed with parent", func(c *Corpus) { c.Ops[removed].HasParent = 1 }, "has-parent mark 1 on a removed"},
		{"parent without mark", func(c *Corpus) { c.Ops[root].Parent = 7 }, "parent without a mark"},
		{"cleared with blocks", func(c *Corpus) { c.Ops[cleared].Len = 1 }, "cleared with 1 blocks"},
		{"reserved", func(c *Corpus) { c.Ops[cleared].Reserved = 1 }, "reserved"},
		{"hashes elsewhere", func(c *Corpus) { c.Ops[stored].Hashes++ }, "are due"},
		{"hashes past end", func(c *Corpus) { c.Hashes = c.Hashes[:len(c.Hashes)-1] }, "are due"},
		{"hashes huge", func(c *Corpus) { c.Ops[stored].Len = 1<<32 - 1 }, "are due"},
		{"hashes left", func(c *Corpus) { c.Hashes = append(c.Hashes, 1) }, "1 hashes belong to no op"},
		{"request number", func(c *Corpus) { c.Ops[query].Seq++ }, "query of slot"},
		{"event number", func(c *Corpus) { c.Ops[removed].Seq++ }, "removed of slot"},
		{"request missing", func(c *Corpus) { c.Requests = c.Requests[1:] }, "requests for"},
		{"request left", func(c *Corpus) { c.Requests = append(c.Requests, Request{}) }, "requests for"},
		{"first token before the query", func(c *Corpus) { c.Requests[ran].FirstToken = c.Ops[op].Deadline - 1 }, "they must follow each other"},
		{"end before the first token", func(c *Corpus) { c.Requests[ran].Finish = c.Requests[ran].FirstToken - 1 }, "they must follow each other"},
		{"first token alone", func(c *Corpus) { c.Requests[ran].Finish = NeverRan }, "they must follow each other"},
		{"end alone", func(c *Corpus) { c.Requests[ran].FirstToken = NeverRan }, "they must follow each other"},
		{"refused", func(c *Corpus) { c.Manifest.Totals.RefusedRequests++ }, "requests never ran"},
		{"total requests", func(c *Corpus) { c.Manifest.Totals.Requests++ }, "total requests"},
		{"total request blocks", func(c *Corpus) { c.Manifest.Totals.RequestBlocks++ }, "total request_blocks"},
		{"total stored events", func(c *Corpus) { c.Manifest.Totals.StoredEvents++ }, "total stored_events"},
		{"total stored blocks", func(c *Corpus) { c.Manifest.Totals.StoredBlocks++ }, "total stored_blocks"},
		{"total removed events", func(c *Corpus) { c.Manifest.Totals.RemovedEvents++ }, "total removed_events"},
		{"total removed blocks", func(c *Corpus) { c.Manifest.Totals.RemovedBlocks++ }, "total removed_blocks"},
		{"total cleared", func(c *Corpus) { c.Manifest.Totals.ClearedEvents++ }, "total cleared_events"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := clone(c)
			tc.spoil(bad)
			err := bad.Check()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// At one deadline a query of any slot comes before an event of any slot.
func TestCheckOrder(t *testing.T) {
	c := &Corpus{
		Manifest: Manifest{Schema: SchemaV1, WindowNS: 10, Totals: Totals{Requests: 1, ClearedEvents: 1}},
		Ranks:    []indexer.Rank{{Worker: 0}, {Worker: 1}},
		Requests: []Request{{FirstToken: 5, Finish: 5}},
		Ops:      []Op{{Deadline: 5, Kind: Query, Slot: 1}, {Deadline: 5, Kind: Cleared, Slot: 0}},
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	c.Ops[0], c.Ops[1] = c.Ops[1], c.Ops[0]
	if err := c.Check(); err == nil {
		t.Fatal("an event before the query of the same deadline was accepted")
	}
}

func TestCountOps(t *testing.T) {
	for seed := range uint64(20) {
		c := random(seed, 100)
		want := c.Manifest.Totals
		want.HitBlocks, want.PeakActive, want.RefusedRequests, want.Approximate = 0, 0, 0, Approximate{}
		if got := CountOps(c.Ops); got != want {
			t.Fatalf("seed %d: %+v, want %+v", seed, got, want)
		}
	}
}

func TestViews(t *testing.T) {
	c := random(2, 200)
	at := 0
	for i, op := range c.Ops {
		n := int(op.Len)
		if op.Kind == Query {
			locals := c.Locals(uint32(i))
			if len(locals) != n {
				t.Fatalf("op %d: %d locals, want %d", i, len(locals), n)
			}
			for k, l := range locals {
				if uint64(l) != c.Hashes[at+k] {
					t.Fatalf("op %d: local %d is wrong", i, k)
				}
			}
			at += n
			continue
		}
		var ev indexer.Event
		c.Event(uint32(i), &ev)
		if ev.ID != uint64(op.Seq) || uint32(ev.Slot) != op.Slot || Kind(ev.Kind) != op.Kind ||
			ev.HasParent != (op.HasParent == 1) || uint64(ev.Parent) != op.Parent || len(ev.Sequences) != n {
			t.Fatalf("op %d: %+v from %+v", i, ev, op)
		}
		for k, s := range ev.Sequences {
			if uint64(s) != c.Hashes[at+k] {
				t.Fatalf("op %d: sequence %d is wrong", i, k)
			}
		}
		at += n
		if op.Kind != Stored {
			if ev.Locals != nil {
				t.Fatalf("op %d: a %s with locals", i, op.Kind)
			}
			continue
		}
		for k, l := range ev.Locals {
			if uint64(l) != c.Hashes[at+k] {
				t.Fatalf("op %d: local %d is wrong", i, k)
			}
		}
		if len(ev.Locals) != n {
			t.Fatalf("op %d: %d locals, want %d", i, len(ev.Locals), n)
		}
		at += n
	}
}
