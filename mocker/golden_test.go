package mocker

import (
	"context"
	"encoding/binary"
	"hash"
	"hash/fnv"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// digest hashes every argument of every call.
type digest struct{ hash.Hash64 }

func (d digest) words(words ...uint64) {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	d.Write(b)
}

func (d digest) Query(at int64, row int, locals []indexer.LocalHash) {
	d.words(uint64(at), uint64(row), uint64(len(locals)))
	for _, h := range locals {
		d.words(uint64(h))
	}
}

func (d digest) Event(at int64, ev *indexer.Event) {
	root := uint64(1)
	if ev.HasParent {
		root = 0
	}
	d.words(uint64(at), ev.ID, uint64(ev.Kind), root, uint64(ev.Parent), uint64(len(ev.Sequences)), uint64(len(ev.Locals)))
	for _, h := range ev.Sequences {
		d.words(uint64(h))
	}
	for _, h := range ev.Locals {
		d.words(uint64(h))
	}
}

// TestTimelinesAreKept holds whole timelines, times included: a change of them
// changes corpora.
func TestTimelinesAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		params    trace.GenerateParams
		cfg       Config
		want      uint64
		preempted bool
	}{
		"conversation": {trace.ConversationParams(), Config{GPUBlocks: 6000, BlockSize: 128, Seed: 1}, 0x90c35fb43518babf, false},
		"agentic":      {trace.AgenticParams(), Config{GPUBlocks: 5000, BlockSize: 96, Seed: 2}, 0x823a944b5225e0f3, false},
		"crowded":      {trace.AgenticParams(), Config{GPUBlocks: 1200, BlockSize: 48, Seed: 2}, 0x73755696afbf8147, true},
	} {
		t.Run(name, func(t *testing.T) {
			c.params.Requests = 500
			tr, err := trace.Generate(c.params)
			if err != nil {
				t.Fatal(err)
			}
			d := digest{fnv.New64a()}
			sum, err := RunRank(context.Background(), tr, allSessions(tr), c.cfg, d)
			if err != nil {
				t.Fatal(err)
			}
			if sum.RemovedBlocks == 0 || (sum.Preempted > 0) != c.preempted {
				t.Errorf("the timeline shows too little or too much: %+v", sum)
			}
			if got := d.Sum64(); got != c.want {
				t.Errorf("%#x, want %#x; %+v", got, c.want, sum)
			}
		})
	}
}
