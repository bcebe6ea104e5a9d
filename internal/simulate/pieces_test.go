package simulate

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/indexer/runs"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/trace"
)

// TestPieceIndex puts random events of several ranks, whole and odd ones, into the
// index of pieces, the one of blocks and the naive one: each event does the same, and
// all prompts get the same answers after it.
func TestPieceIndex(t *testing.T) {
	var total indexer.Effect
	holes := 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 8))
		var rows []trace.Request
		for range 12 {
			ids := make([]uint64, 1+rng.IntN(8))
			for i := range ids {
				ids[i] = uint64(rng.IntN(2))
			}
			rows = append(rows, trace.Request{HashIDs: ids, InputLength: 6*len(ids) - rng.IntN(6), OutputLength: rng.IntN(30)})
		}
		tr, err := trace.New(6, rows)
		if err != nil {
			t.Fatal(err)
		}
		size, slots := 1+rng.IntN(8), 1+rng.IntN(4+int(seed%2)*10)
		prompts := mocker.NewPrompts(tr, size)
		x := newPieceIndex(slots)
		naive, err := reference.New(indexer.Config{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := runs.New(indexer.Config{Threads: 1, Slots: slots})
		if err != nil {
			t.Fatal(err)
		}
		var writers []indexer.Writer
		var readers []indexer.Reader
		for _, index := range []indexer.Index{naive, blocks} {
			w := index.Writer(0)
			for slot := range slots {
				w.Attach(indexer.Slot(slot))
			}
			writers, readers = append(writers, w), append(readers, index.Reader())
		}
		chains := make([]mocker.Chain, len(rows))
		for row := range chains {
			chains[row].StartIn(prompts, row, 1)
		}
		for range 150 {
			row := rng.IntN(len(rows))
			c := &chains[row]
			locals, sequences := c.Blocks(c.Prompt() + rows[row].OutputLength)
			if len(locals) == 0 {
				continue
			}
			at := func(block int) engine.Piece {
				of := slices.IndexFunc(c.Path(), func(s mocker.Stretch) bool { return int(s.End) > block })
				return engine.Piece{Stretch: c.Path()[of].ID, From: int32(block), To: int32(block + 1)}
			}
			from := rng.IntN(len(locals))
			if rng.IntN(3) == 0 {
				from = 0
			}
			to := from + 1 + rng.IntN(len(locals)-from)
			ev := indexer.Event{Kind: indexer.Stored, Slot: indexer.Slot(rng.IntN(slots))}
			p := engine.Pieces{Kind: indexer.Stored, Slot: ev.Slot}
			switch k := rng.IntN(60); {
			case k == 0:
				ev.Kind, p.Kind = indexer.Cleared, indexer.Cleared
			case k < 25:
				ev.Kind, p.Kind = indexer.Removed, indexer.Removed
			default:
				ev.Locals = locals[from:to]
				if from > 0 {
					ev.HasParent, ev.Parent = true, sequences[from-1]
					p.HasParent, p.Parent = true, at(from-1)
				}
			}
			if ev.Kind != indexer.Cleared {
				ev.Sequences = sequences[from:to]
				for b := from; b < to; b++ {
					next := at(b)
					if last := len(p.Blocks) - 1; last >= 0 && p.Blocks[last].Stretch == next.Stretch && rng.IntN(8) > 0 {
						p.Blocks[last].To = next.To
					} else {
						p.Blocks = append(p.Blocks, next)
					}
				}
			}
			did := x.apply(&p)
			for k, w := range writers {
				if want := w.Apply(&ev); did != want {
					t.Fatalf("seed %d: %+v did %+v, index %d %+v", seed, p, did, k, want)
				}
				if have, want := x.blocks[ev.Slot], w.Blocks(ev.Slot); have != want {
					t.Fatalf("seed %d: %d blocks after %+v, index %d has %d", seed, have, p, k, want)
				}
			}
			total.Stored += did.Stored
			total.Removed += did.Removed
			total.ClearedBlocks += did.ClearedBlocks
			total.Duplicate += did.Duplicate
			total.UnknownRemoved += did.UnknownRemoved
			total.Orphaned += did.Orphaned
			if err := x.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			var have, want indexer.Answer
			have.Grow(slots)
			want.Grow(slots)
			for row := range rows {
				c := &chains[row]
				locals, _ := c.Blocks(c.Prompt())
				x.find(stretches(c, nil), &have)
				for k, r := range readers {
					r.Find(locals, indexer.FindOptions{}, &want)
					if !slices.Equal(have.Scores(), want.Scores()) || !slices.Equal(slices.Sorted(slices.Values(have.Touched())), slices.Sorted(slices.Values(want.Touched()))) {
						t.Fatalf("seed %d: row %d gets %v %v, from index %d %v %v, after %+v", seed, row, have.Scores(), have.Touched(), k, want.Scores(), want.Touched(), p)
					}
				}
			}
			for _, n := range x.nodes {
				for _, h := range n.holds {
					holes += len(h.more)
				}
			}
		}
	}
	if total.Stored == 0 || total.Removed == 0 || total.ClearedBlocks == 0 || total.Duplicate == 0 || total.UnknownRemoved == 0 || total.Orphaned == 0 || holes == 0 {
		t.Errorf("%+v, %d holes: this shows too little", total, holes)
	}
}

// TestPieceIndexMalformed: an event that makes no sense is counted and changes
// nothing.
func TestPieceIndexMalformed(t *testing.T) {
	x := newPieceIndex(2)
	for _, ev := range []engine.Pieces{
		{Kind: indexer.Stored, Blocks: []engine.Piece{{Stretch: 1, From: 0, To: 2}, {Stretch: 2, From: 2, To: 2}}},
		{Kind: indexer.Stored, Blocks: []engine.Piece{{Stretch: -1, From: 0, To: 2}}},
		{Kind: indexer.Removed, Blocks: []engine.Piece{{Stretch: 1, From: -1, To: 2}}},
		{Kind: indexer.Stored, Slot: 2, Blocks: []engine.Piece{{Stretch: 1, From: 0, To: 2}}},
		{Kind: 9},
	} {
		if e := x.apply(&ev); e != (indexer.Effect{Malformed: 1}) || !slices.Equal(x.blocks, []int{0, 0}) || x.check() != nil {
			t.Errorf("%+v: %+v, %v blocks", ev, e, x.blocks)
		}
	}
}

// TestPieceIndexAllocates: nothing, in steady state.
func TestPieceIndexAllocates(t *testing.T) {
	x := newPieceIndex(3)
	prompt := []policies.Stretch{{ID: 0, End: 5}, {ID: 1, End: 9}}
	var answer indexer.Answer
	answer.Grow(3)
	round := func() {
		for slot := range indexer.Slot(3) {
			x.apply(&engine.Pieces{Kind: indexer.Stored, Slot: slot, Blocks: []engine.Piece{{Stretch: 0, From: 0, To: 5}, {Stretch: 1, From: 5, To: 9}}})
			x.apply(&engine.Pieces{Kind: indexer.Removed, Slot: slot, Blocks: []engine.Piece{{Stretch: 1, From: 6, To: 7}}})
		}
		x.find(prompt, &answer)
		if answer.Score(2) != 6 {
			t.Fatal(answer.Scores())
		}
		for slot := range indexer.Slot(3) {
			x.apply(&engine.Pieces{Kind: indexer.Removed, Slot: slot, Blocks: []engine.Piece{{Stretch: 0, From: 0, To: 5}}})
			x.apply(&engine.Pieces{Kind: indexer.Stored, Slot: slot, Blocks: []engine.Piece{{Stretch: 0, From: 0, To: 5}}})
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestPiecesGiveTheSame plays whole runs with routers that are told of blocks and
// with those that are told pieces, if they can be: the results have the same bytes.
func TestPiecesGiveTheSame(t *testing.T) {
	serial(t)
	all := []string{"kv:temperature=0.5", "kv-resident", "preble", "longest-prefix"}
	var hits, lost, preempted, orphaned, unknown int64
	for name, change := range map[string]func(*Config){
		"as it is":       func(*Config) {},
		"no delay":       func(c *Config) { c.EventDelay, c.LoadDelay = 0, 0 },
		"long delay":     func(c *Config) { c.EventDelay = 3 * time.Second },
		"loss":           func(c *Config) { c.EventLoss = 0.1 },
		"loss and delay": func(c *Config) { c.EventLoss, c.EventDelay, c.Routers = 0.3, time.Second, 2 },
		"two routers":    func(c *Config) { c.Routers = 2 },
		"odd blocks":     func(c *Config) { c.Engine.BlockSize, c.Engine.Blocks = 7, 15000 },
		"large blocks":   func(c *Config) { c.Engine.BlockSize, c.Engine.Blocks = 700, 200 },
		"preemption":     func(c *Config) { c.Engine.Blocks, c.Engine.VLLM.FirstChunkOnly, c.SpeedUps = 700, true, []float64{20} },
		"pools":          func(c *Config) { c.Engine.RankBlocks = []int{4000, 600, 2000, 1000} },
		"concurrency":    func(c *Config) { c.Concurrency = 6 },
		"speed":          func(c *Config) { c.SpeedUps, c.Seeds = []float64{1, 8}, []uint64{1, 2} },
		"approximate":    func(c *Config) { c.Approximate = ApproximateLRU },
		"one-turn":       func(c *Config) { c.Trace = oneTurn(t, c.Trace) },
		"one-turn delay": func(c *Config) { c.Trace, c.EventDelay, c.Routers = oneTurn(t, c.Trace), 2*time.Second, 2 },
		"SGLang":         func(c *Config) { c.Engine.Kind, c.Engine.BlockSize, c.Engine.Blocks = SGLang, 16, 8000 },
	} {
		cfg := config(t, agentic(t, 60), all...)
		cfg.Oracle, cfg.Bounds, cfg.Detail = false, false, true
		change(&cfg)
		var results [2][]byte
		for k := range results {
			cfg.byBlocks = k == 1
			res := run(t, cfg)
			for i := range res.Runs {
				r := &res.Runs[i]
				hits += r.Whole.HitTokens
				lost += r.EventsLost
				preempted += r.Whole.Preemptions
				orphaned += r.Router.Orphaned
				unknown += r.Router.UnknownRemoved
			}
			var err error
			if results[k], err = json.Marshal(res); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(results[0], results[1]) {
			at := 0
			for at < min(len(results[0]), len(results[1])) && results[0][at] == results[1][at] {
				at++
			}
			t.Errorf("%s: pieces\n…%s\nblocks\n…%s", name, results[0][max(0, at-200):min(len(results[0]), at+100)], results[1][max(0, at-200):min(len(results[1]), at+100)])
		}
	}
	if hits == 0 || lost == 0 || preempted == 0 || orphaned == 0 || unknown == 0 {
		t.Errorf("%d hits, %d events lost, %d preemptions, %d blocks without a parent, %d unknown: this shows too little", hits, lost, preempted, orphaned, unknown)
	}
}

// oneTurn is a trace whose requests have no sessions, so that ranks run ahead.
func oneTurn(t *testing.T, tr *trace.Trace) *trace.Trace {
	t.Helper()
	var rows []trace.Request
	for i := range tr.Len() {
		r := tr.Request(i)
		r.Session, r.Delay, r.Timestamp = "", 0, float64(i)*400
		rows = append(rows, r)
	}
	out, err := trace.New(tr.BlockSize, rows)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
