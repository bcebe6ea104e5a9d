package simulate

import (
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/fleet"
)

// Series are figures over virtual time, in windows that begin at its origin.
type Series struct {
	WindowNanos int64 `json:"window_ns"`
	// By the window in which requests arrived; of the completed ones but for
	// Requests.
	Requests     []int64 `json:"requests"`
	Completed    []int64 `json:"completed"`
	PromptTokens []int64 `json:"prompt_tokens"`
	HitTokens    []int64 `json:"hit_tokens"`
	TTFTNanos    []int64 `json:"ttft_ns"` // sum
	E2ENanos     []int64 `json:"e2e_ns"`  // sum
	// By rank, then by window: the tokens that it computed, and at the window's end
	// its distinct cached blocks and the requests that wait. The last window ends
	// with the run.
	Computed [][]int64 `json:"computed_tokens"`
	Resident [][]int32 `json:"resident_blocks"`
	Waiting  [][]int32 `json:"waiting"`

	work []int64 // by rank, at the last sample
}

func newSeries(cfg *Config) *Series {
	return &Series{
		WindowNanos: int64(cfg.Window), work: make([]int64, cfg.Workers),
		Computed: make([][]int64, cfg.Workers), Resident: make([][]int32, cfg.Workers), Waiting: make([][]int32, cfg.Workers),
	}
}

// request counts one.
func (s *Series) request(o *fleet.Outcome) {
	i := int(o.Arrival / s.WindowNanos)
	for len(s.Requests) <= i {
		s.Requests = append(s.Requests, 0)
		s.Completed = append(s.Completed, 0)
		s.PromptTokens = append(s.PromptTokens, 0)
		s.HitTokens = append(s.HitTokens, 0)
		s.TTFTNanos = append(s.TTFTNanos, 0)
		s.E2ENanos = append(s.E2ENanos, 0)
	}
	s.Requests[i]++
	if o.Rank == fleet.NoRank || o.Refused != engine.Accepted {
		return
	}
	s.Completed[i]++
	s.PromptTokens[i] += int64(o.Prompt)
	s.HitTokens[i] += int64(o.Cached)
	s.TTFTNanos[i] += o.First - o.Arrival
	s.E2ENanos[i] += o.Last - o.Arrival
}

// sample notes the ranks' numbers.
func (s *Series) sample(_ int64, counts []engine.Counts) {
	for i := range counts {
		c := &counts[i]
		now := c.ChunkTokens + c.DecodeTokens
		s.Computed[i] = append(s.Computed[i], now-s.work[i])
		s.work[i] = now
		s.Resident[i] = append(s.Resident[i], int32(c.Resident))
		s.Waiting[i] = append(s.Waiting[i], int32(c.Waiting))
	}
}

// Curves are distributions by their quantiles, in ns: element i is the smallest
// value that at least i per cent of the values do not exceed, the first one the
// smallest. They are empty without values.
type Curves struct {
	TTFT  []int64 `json:"ttft"`
	TPOT  []int64 `json:"tpot"`
	E2E   []int64 `json:"e2e"`
	Queue []int64 `json:"queue"`
}

// curve reads sorted values.
func curve(sorted []int64) []int64 {
	out := []int64{}
	for i := range 101 {
		if len(sorted) > 0 {
			out = append(out, sorted[max(0, (len(sorted)*i+99)/100-1)])
		}
	}
	return out
}
