package replay

import (
	"context"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/results"
)

// indexState asks the drained index what it holds and how, with the event
// threads standing still.
func (t *trial) indexState(ctx context.Context, index indexer.Index, effects []indexer.EffectTotals) (*results.IndexState, error) {
	out := &results.IndexState{}
	for i := range effects {
		e := &effects[i]
		out.ResidentPairs += int64(e.Stored) - int64(e.Removed) - int64(e.ClearedBlocks)
	}
	// An interrupted trial has its state too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.cfg.DrainTimeout)
	defer cancel()
	err := t.pool.Pause(ctx, func() {
		if r, ok := index.(indexer.MemoryReporter); ok {
			out.Memory = indexMemory(r.Memory(), out.ResidentPairs)
		}
		if r, ok := index.(indexer.ShapeReporter); ok {
			out.Shape = indexShape(r.Shape())
		}
	})
	return out, err
}

func indexMemory(parts []indexer.MemoryPart, pairs int64) *results.IndexMemory {
	m := &results.IndexMemory{Parts: []results.MemoryPart{}}
	for _, p := range parts {
		m.Bytes += p.Bytes
		m.HugeBytes += p.HugeBytes
		m.Parts = append(m.Parts, results.MemoryPart{Name: p.Name, Bytes: p.Bytes, HugeBytes: p.HugeBytes})
	}
	if pairs > 0 {
		m.BytesPerPair = float64(m.Bytes) / float64(pairs)
	}
	return m
}

func indexShape(s indexer.Shape) *results.IndexShape {
	return &results.IndexShape{
		Unit: s.Unit, Units: s.Units, Blocks: s.Blocks, MaxDepth: s.MaxDepth,
		Holders: s.Holders, MaxHolders: s.MaxHolders,
	}
}
