package vllm

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/engine/enginetest"
	"github.com/kvbench/kvbench/mocker/steptime"
	"github.com/kvbench/kvbench/trace"
)

// pieceTale is told KV events in pieces, and by blocks as well if it reads them.
type pieceTale struct {
	tale
	reads  bool
	pieces []engine.Pieces
}

func (l *pieceTale) ReadsBlocks() bool { return l.reads }
func (l *pieceTale) ReadsPieces() bool { return true }

func (l *pieceTale) Pieces(_ int64, ev *engine.Pieces) {
	e := *ev
	e.Blocks = slices.Clone(ev.Blocks)
	l.pieces = append(l.pieces, e)
}

// TestPiecesAreBlocks: KV events in pieces say what those by blocks say, in the
// same order, whether the engine tells both or pieces alone.
func TestPiecesAreBlocks(t *testing.T) {
	var removed, preempted, several int
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 6))
		between := func(low, high int) int { return low + rng.IntN(high-low+1) }
		cfg := Config{
			Blocks: between(4, 40), BlockSize: between(1, 6), MaxBatchedTokens: between(1, 40), MaxSeqs: between(1, 5),
			FirstChunkOnly: rng.IntN(2) == 0, Time: steptime.Linear{Base: 100, PerToken: 10, PerPair: 0.25, PerContext: 0.75},
		}
		var rows []trace.Request
		for range between(2, 10) {
			ids := make([]uint64, between(1, 10))
			for i := range ids {
				ids[i] = uint64(rng.IntN(2))
			}
			rows = append(rows, trace.Request{HashIDs: ids, InputLength: 4*len(ids) - between(0, 3), OutputLength: between(0, 60)})
		}
		tr := enginetest.Requests(4, rows...)
		prompts := mocker.NewPrompts(tr, cfg.BlockSize)

		// place says where each block is.
		type at struct{ stretch, block int32 }
		place := map[indexer.SequenceHash]at{}
		for row, r := range rows {
			var c mocker.Chain
			c.StartIn(prompts, row, 1)
			_, sequences := c.Blocks(c.Prompt() + r.OutputLength)
			for i, s := range sequences {
				of := slices.IndexFunc(c.Path(), func(s mocker.Stretch) bool { return int(s.End) > i })
				place[s] = at{c.Path()[of].ID, int32(i)}
			}
		}

		both, alone := &pieceTale{reads: true}, &pieceTale{}
		var engines []*Engine
		for _, l := range []engine.Listener{both, alone} {
			e, err := New(cfg, l)
			if err != nil {
				t.Fatal(err)
			}
			now := int64(0)
			rng := rand.New(rand.NewPCG(seed, 7))
			for row := range rows {
				now += int64(rng.IntN(9000))
				if err := e.Advance(now); err != nil {
					t.Fatal(err)
				}
				c := new(mocker.Chain)
				c.StartIn(prompts, row, 1)
				e.Submit(now, engine.Request{ID: uint64(row), Chain: c, Output: rows[row].OutputLength})
			}
			if err := e.Advance(now + 1e9); err != nil {
				t.Fatal(err)
			}
			engines = append(engines, e)
		}
		if a, b := engines[0].Counts(), engines[1].Counts(); a != b {
			t.Fatalf("seed %d: with blocks %+v, with pieces alone %+v", seed, a, b)
		}
		if !reflect.DeepEqual(both.pieces, alone.pieces) {
			t.Fatalf("seed %d: with blocks\n%+v\nalone\n%+v", seed, both.pieces, alone.pieces)
		}
		n := 0
		for _, x := range alone.all {
			if x.kind == "event" {
				t.Fatalf("seed %d: an event by blocks for who reads none", seed)
			}
		}
		for _, x := range both.all {
			if x.kind != "event" {
				continue
			}
			p, ev := both.pieces[n], x.event
			n++
			var got, want []at
			for _, piece := range p.Blocks {
				for b := piece.From; b < piece.To; b++ {
					got = append(got, at{piece.Stretch, b})
				}
				if p.Kind == indexer.Removed { // each from its end
					slices.Reverse(got[len(got)-piece.Len():])
				}
			}
			for _, s := range ev.Sequences {
				want = append(want, place[s])
			}
			parent := at{}
			if ev.HasParent {
				parent = place[ev.Parent]
			}
			if p.ID != ev.ID || p.Kind != ev.Kind || p.HasParent != ev.HasParent || !slices.Equal(got, want) ||
				p.HasParent && (p.Parent != engine.Piece{Stretch: parent.stretch, From: parent.block, To: parent.block + 1}) {
				t.Fatalf("seed %d: %+v, in pieces %+v; blocks %v, parent %v", seed, ev, p, want, parent)
			}
			if p.Kind == indexer.Removed {
				removed++
			} else if len(p.Blocks) > 1 {
				several++
			}
		}
		if n != len(both.pieces) {
			t.Fatalf("seed %d: %d events by blocks, %d in pieces", seed, n, len(both.pieces))
		}
		preempted += int(engines[0].Counts().Preemptions)
	}
	if removed == 0 || preempted == 0 || several == 0 {
		t.Errorf("%d removals, %d preemptions, %d events with several pieces: this shows too little", removed, preempted, several)
	}
}
