package analysis

import (
	"slices"
	"sort"
)

// CacheHits is what one LRU cache of so many blocks of the trace hits when all
// requests pass through it in file order: of a prompt the leading blocks that the
// cache holds. A request then uses all of its blocks from the last to the first,
// and the cache lets go of those used longest ago, so that prompts lose their
// tails first.
type CacheHits struct {
	CacheBlocks   int     `json:"cache_blocks"`
	CacheTokens   int64   `json:"cache_tokens"`
	Hits          int     `json:"hits"`       // block references
	References    int     `json:"references"` // all of them
	HitShare      float64 `json:"hit_share"`
	HitTokens     int64   `json:"hit_tokens"` // input tokens in blocks that were hit
	HitTokenShare float64 `json:"hit_token_share"`
}

// hitCounter counts hits for several sizes of a cache.
type hitCounter struct {
	blocks []int // sizes, ascending
	hits   []int // by the smallest size that hits
	tokens []int64
}

func newHitCounter(sizes []int) *hitCounter {
	sizes = slices.Compact(slices.Sorted(slices.Values(sizes)))
	return &hitCounter{blocks: sizes, hits: make([]int, len(sizes)), tokens: make([]int64, len(sizes))}
}

// add counts a run of a prompt of that many tokens.
func (h *hitCounter) add(r run, blockSize, input int) {
	for at := sort.SearchInts(h.blocks, r.distance+1); r.blocks > 0 && at < len(h.blocks); at++ {
		n := min(r.blocks, h.blocks[at]-r.distance)
		h.hits[at] += n
		h.tokens[at] += int64(min((r.first+n)*blockSize, input) - min(r.first*blockSize, input))
		r.first += n
		r.blocks -= n
		r.distance += n
	}
}

// all returns the hits of every size.
func (h *hitCounter) all(blockSize, references int, inputTokens int64) []CacheHits {
	out := make([]CacheHits, len(h.blocks))
	hits, tokens := 0, int64(0)
	for i, blocks := range h.blocks {
		hits += h.hits[i]
		tokens += h.tokens[i]
		out[i] = CacheHits{CacheBlocks: blocks, CacheTokens: int64(blocks) * int64(blockSize), Hits: hits, References: references, HitTokens: tokens}
		if references > 0 {
			out[i].HitShare = float64(hits) / float64(references)
		}
		if inputTokens > 0 {
			out[i].HitTokenShare = float64(tokens) / float64(inputTokens)
		}
	}
	return out
}

// curveSizes are 1, 2, 3, 4, 6, 8, 12 and so on up to maxNodes.
func curveSizes() []int {
	sizes := []int{1}
	for n := 2; n <= maxNodes; n *= 2 {
		sizes = append(sizes, n, n+n/2)
	}
	return sizes
}
