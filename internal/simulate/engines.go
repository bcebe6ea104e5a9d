package simulate

import (
	"fmt"

	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/fleet"
	"github.com/kvbench/kvbench/mocker/sglang"
	"github.com/kvbench/kvbench/mocker/steptime"
	"github.com/kvbench/kvbench/mocker/vllm"
)

// The kinds of engines.
const (
	VLLM   = "vllm"
	SGLang = "sglang"
)

// Engines describes the engines of all ranks.
type Engines struct {
	// Kind is VLLM or SGLang.
	Kind string
	// Blocks is the size of a rank's pool, BlockSize the tokens of a block or page.
	Blocks    int
	BlockSize int
	// RankBlocks, if not empty, has the size of each rank's pool instead.
	RankBlocks []int
	// VLLM and SGLang have the rest; that of the other kind is not looked at.
	// Their pools, blocks and time models are set from here.
	VLLM   vllm.Config
	SGLang sglang.Config
}

// rankEngine is an engine with what the oracle looks at.
type rankEngine interface {
	fleet.Engine
	Backlog() (tokens int64, requests int)
	Cached(c *mocker.Chain, known int) int
	Residency(until int64) engine.Residency
}

// blocks returns the size of a rank's pool.
func (e *Engines) blocks(rank int) int {
	if len(e.RankBlocks) > 0 {
		return e.RankBlocks[rank]
	}
	return e.Blocks
}

// allBlocks returns the sizes of all pools together and of the largest.
func (e *Engines) allBlocks(ranks int) (total, largest int) {
	for i := range ranks {
		total += e.blocks(i)
		largest = max(largest, e.blocks(i))
	}
	return total, largest
}

func (e *Engines) open(rank int, time steptime.Model, l engine.Listener) (rankEngine, error) {
	switch e.Kind {
	case VLLM:
		c := e.VLLM
		c.Blocks, c.BlockSize, c.Time = e.blocks(rank), e.BlockSize, time
		return vllm.New(c, l)
	case SGLang:
		c := e.SGLang
		c.Blocks, c.BlockSize, c.Time = e.blocks(rank), e.BlockSize, time
		return sglang.New(c, l)
	}
	return nil, fmt.Errorf("no engine %q; there are %s and %s", e.Kind, VLLM, SGLang)
}

// VLLMOptions are those of vllm.Config that a result records.
type VLLMOptions struct {
	MaxBatchedTokens int     `json:"max_batched_tokens"`
	MaxSeqs          int     `json:"max_seqs"`
	MaxModelLen      int     `json:"max_model_len"` // 0: no limit
	ChunkedPrefill   bool    `json:"chunked_prefill"`
	FullSequence     bool    `json:"full_sequence_admission"`
	Watermark        float64 `json:"watermark"`
}

// SGLangOptions are those of sglang.Config that a result records.
type SGLangOptions struct {
	MaxPrefillTokens   int     `json:"max_prefill_tokens"`
	ChunkedPrefillSize int     `json:"chunked_prefill_size"`
	MaxSeqs            int     `json:"max_seqs"`
	ClipNewTokens      int     `json:"clip_new_tokens"`
	Conservativeness   float64 `json:"conservativeness"`
}

// record puts the engines into the options of a result.
func (e *Engines) record(o *Options) {
	o.Engine, o.GPUBlocks, o.RankBlocks, o.BlockSize = e.Kind, e.Blocks, e.RankBlocks, e.BlockSize
	if len(e.RankBlocks) > 0 {
		o.GPUBlocks = 0
	}
	if e.Kind == SGLang {
		c := &e.SGLang
		o.SGLang = &SGLangOptions{c.MaxPrefillTokens, c.ChunkedPrefillSize, c.MaxSeqs, c.ClipNewTokens, c.Conservativeness}
		return
	}
	c := &e.VLLM
	o.VLLM = &VLLMOptions{c.MaxBatchedTokens, c.MaxSeqs, c.MaxModelLen, !c.NoChunkedPrefill, !c.FirstChunkOnly, c.Watermark}
}
