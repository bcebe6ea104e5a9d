package simulate

import (
	"cmp"
	"context"
	"slices"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker"
)

// The names of the bounds.
const (
	SharedCache    = "one shared cache"
	UnboundedCache = "unbounded cache"
)

// boundJob is one cache to play.
type boundJob struct {
	name   string
	blocks int // 0: no bound

	result *Bound
}

func boundJobs(cfg *Config) []*boundJob {
	if !cfg.Bounds {
		return nil
	}
	total, _ := cfg.Engine.allBlocks(cfg.Workers)
	return []*boundJob{
		{name: SharedCache, blocks: min(1<<30, total)},
		{name: UnboundedCache},
	}
}

// do implements task.
func (j *boundJob) do(ctx context.Context, cfg *Config) (err error) {
	j.result, err = j.run(ctx, cfg)
	return err
}

// report implements task.
func (j *boundJob) report(_ *Config, res *Result) error {
	res.Bounds = append(res.Bounds, *j.result)
	return nil
}

// run plays the trace through the cache. A request that every engine would refuse
// is left out.
func (j *boundJob) run(ctx context.Context, cfg *Config) (*Bound, error) {
	t, size := cfg.Trace, cfg.Engine.BlockSize
	type arrival struct {
		at  float64
		row int
	}
	// A later turn comes at its delays after the start of its session at the
	// earliest; requests take no time here.
	order := make([]arrival, 0, t.Len())
	for s := range t.Sessions() {
		at := 0.0
		for i, row := range t.Turns(s) {
			if in := t.Request(int(row)); i == 0 {
				at = in.Timestamp
			} else {
				at += in.Delay
			}
			order = append(order, arrival{at, int(row)})
		}
	}
	slices.SortStableFunc(order, func(a, b arrival) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.row, b.row)) })

	b := &Bound{Name: j.name, Blocks: j.blocks}
	_, largest := cfg.Engine.allBlocks(cfg.Workers)
	capacity := j.blocks
	if capacity == 0 {
		capacity = 1 << 30
	}
	pool := mocker.NewPool(capacity)
	var chain mocker.Chain
	var held []int32
	var evicted []indexer.SequenceHash
	for n, a := range order {
		if n&0xff == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		chain.Start(t, a.row, size, cfg.Seeds[0])
		prompt := chain.Prompt()
		tokens := prompt + max(0, t.Request(a.row).OutputLength-1)
		if blocks := (tokens + size - 1) / size; prompt == 0 || blocks > largest {
			continue
		}
		_, sequences := chain.Blocks(tokens)
		hits := pool.Lookup(sequences[:(prompt-1)/size])
		b.PromptTokens += int64(prompt)
		b.HitTokens += int64(hits * size)
		held, evicted, _ = pool.Reserve(sequences[:hits], (tokens+size-1)/size-hits, held[:0], evicted[:0])
		for i := hits; i < len(sequences); i++ {
			pool.Commit(held[i], sequences[i])
		}
		pool.Release(held)
	}
	if b.PromptTokens > 0 {
		b.HitRatio = float64(b.HitTokens) / float64(b.PromptTokens)
	}
	return b, nil
}
