package simulate

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/results"
)

// ResultV1 is the schema of a Result.
const ResultV1 = "kvbench.simulation/v1"

// Result is what a comparison came to. Durations are in ns of virtual time; the
// virtual clock starts at the origin of the trace.
type Result struct {
	Schema   string      `json:"schema"`
	Trace    TraceInfo   `json:"trace"`
	Options  Options     `json:"options"`
	Partial  bool        `json:"partial"` // interrupted: runs are missing
	Warnings []string    `json:"warnings"`
	Runs     []RunResult `json:"runs"` // by speed-up, seed and policy, in the order given
	Bounds   []Bound     `json:"bounds"`
	// Comparisons are those of all policies but the first with the first, by
	// speed-up.
	Comparisons []Comparison `json:"comparisons"`
	// Rankings put the policies in order, by speed-up.
	Rankings []Ranking `json:"rankings"`
	// Knees are what a search of the load came to, by seed and policy; there are
	// no Runs then.
	Knees       []Knee     `json:"knees,omitempty"`
	KneeRanking *KneeOrder `json:"knee_ranking,omitempty"`
}

// TraceInfo says what was played.
type TraceInfo struct {
	Name      string `json:"name"`
	SHA256    string `json:"sha256"`
	Requests  int    `json:"requests"`
	Sessions  int    `json:"sessions"`
	BlockSize int    `json:"block_size"`
}

// Options are everything that decides the figures, beside the trace.
type Options struct {
	Policies        []string       `json:"policies"` // with every parameter
	Workers         int            `json:"workers"`
	Routers         int            `json:"routers"`
	Engine          string         `json:"engine"`
	GPUBlocks       int            `json:"gpu_blocks"` // of each rank; 0: see rank_blocks
	RankBlocks      []int          `json:"rank_blocks,omitempty"`
	BlockSize       int            `json:"block_size"`
	VLLM            *VLLMOptions   `json:"vllm,omitempty"` // of the engine that is used
	SGLang          *SGLangOptions `json:"sglang,omitempty"`
	Time            TimeModel      `json:"time_model"`
	SpeedUps        []float64      `json:"speed_ups"`
	Seeds           []uint64       `json:"seeds"`
	EventDelayNanos int64          `json:"event_delay_ns"`
	EventLoss       float64        `json:"event_loss"`
	LoadDelayNanos  int64          `json:"load_staleness_ns"`
	Approximate     string         `json:"approximate"` // ttl or lru: routers get no KV events and store their decisions; "": they get them
	TTLNanos        int64          `json:"ttl_ns"`      // with ttl, else 0
	Strict          bool           `json:"strict"`
	Concurrency     int            `json:"concurrency"` // 0: sessions start at their times
	WarmUp          float64        `json:"warm_up"`
	SLOTTFTNanos    int64          `json:"slo_ttft_ns"` // 0: no limit
	SLOTPOTNanos    int64          `json:"slo_tpot_ns"`
	SLOE2ENanos     int64          `json:"slo_e2e_ns"`
	KneeShare       float64        `json:"knee_share,omitempty"`     // of the requests that must hold the SLO
	KneePrecision   float64        `json:"knee_precision,omitempty"` // of the speed-up
}

// TimeModel says how long passes take, and how far that is to be trusted.
type TimeModel struct {
	Name    string `json:"name"`
	Formula string `json:"formula"`
	Model   string `json:"model"`
	GPU     string `json:"gpu"`
	Source  string `json:"source"`
	Limits  string `json:"limits"`
}

// RunResult is one policy on one load with one seed.
type RunResult struct {
	Policy  string  `json:"policy"`
	Full    string  `json:"full"` // with every parameter; empty for the oracle
	SpeedUp float64 `json:"speed_up"`
	Seed    uint64  `json:"seed"`

	Whole  Figures  `json:"whole"`
	Steady *Figures `json:"after_warm_up,omitempty"`

	// Overloaded says that the ranks were done later than a tenth of the arrivals'
	// span after the last arrival and that a tenth of the requests waited: queues
	// grew, and times say how long the trace was.
	Overloaded bool `json:"overloaded"`

	Imbalance      Imbalance    `json:"imbalance"`
	ComputedTokens []int64      `json:"computed_tokens"` // by rank
	Passes         int64        `json:"passes"`
	BusyNanos      int64        `json:"busy_ns"`    // of all ranks together
	BusyShare      float64      `json:"busy_share"` // of the time of all ranks from 0 to the end
	EndNanos       int64        `json:"end_ns"`     // when all was done
	Preemptions    int64        `json:"preemptions"`
	StoredBlocks   int64        `json:"stored_blocks"`
	EvictedBlocks  int64        `json:"evicted_blocks"`
	ResidentBlocks float64      `json:"resident_blocks"`      // distinct cached blocks of all ranks, mean over the windows' ends
	ResidentPeak   int64        `json:"peak_resident_blocks"` // most at the end of a window
	ResidentShare  float64      `json:"resident_share"`       // the mean by the blocks of the pools
	Residency      Residency    `json:"residency"`
	PeakWaiting    int          `json:"peak_waiting"` // most requests that waited at the end of a window
	Events         int64        `json:"events"`
	EventsLost     int64        `json:"events_lost"`
	Router         RouterCounts `json:"router"`

	// Decision is how long choices took on the wall clock of the machine, with the
	// lookup in the index and without what is booked after it; only if it was asked
	// for. Runs side by side disturb each other.
	Decision *results.Distribution `json:"decision_time,omitempty"`
	// Possible sets the run against what cannot be beaten, or hardly.
	Possible *Possible `json:"possible,omitempty"`
	Series   *Series   `json:"series,omitempty"`

	groups grouped
}

// RouterCounts says what the routers' indexes made of the events, in blocks, all
// routers together; zero for policies that read no cache.
type RouterCounts struct {
	Stored         int64 `json:"stored"`
	Removed        int64 `json:"removed"`
	Duplicate      int64 `json:"duplicate"`
	UnknownRemoved int64 `json:"unknown_removed"`
	Orphaned       int64 `json:"orphaned"`
	Conflicting    int64 `json:"conflicting"`
}

// note adds what one event did.
func (c *RouterCounts) note(e *indexer.Effect) {
	c.Stored += int64(e.Stored)
	c.Removed += int64(e.Removed)
	c.Duplicate += int64(e.Duplicate)
	c.UnknownRemoved += int64(e.UnknownRemoved)
	c.Orphaned += int64(e.Orphaned)
	c.Conflicting += int64(e.Conflicting)
}

func (c *RouterCounts) add(o *RouterCounts) {
	c.Stored += o.Stored
	c.Removed += o.Removed
	c.Duplicate += o.Duplicate
	c.UnknownRemoved += o.UnknownRemoved
	c.Orphaned += o.Orphaned
	c.Conflicting += o.Conflicting
}

// Residency is how long blocks were in the caches, and how long of it for nothing.
type Residency struct {
	// CachedBlockSeconds is the sum over complete blocks, each copy by itself.
	CachedBlockSeconds float64 `json:"cached_block_seconds"`
	// DeadShare is the share of it after the last request that held the block had
	// gone, until the block was evicted or the run ended. At the end of a run blocks
	// count as dead that a longer trace might have used again.
	DeadShare float64 `json:"dead_share"`
}

// Possible is how far a run is from what is possible. 0: the bound is missing or
// is 0 itself.
type Possible struct {
	// OfShared and OfUnbounded are the hit tokens of the whole run by those of the
	// caches in Bounds.
	OfShared    float64 `json:"hits_of_shared_cache"`
	OfUnbounded float64 `json:"hits_of_unbounded_cache"`
	// TTFTOfOracle and E2EOfOracle are the mean times by those of the oracle in the
	// run of the same speed-up and seed, after warm-up.
	TTFTOfOracle float64 `json:"ttft_of_oracle"`
	E2EOfOracle  float64 `json:"e2e_of_oracle"`
}

// Figures are those of the requests of a run or a part of it. Distributions are
// in ns.
type Figures struct {
	Requests  int64            `json:"requests"`
	Completed int64            `json:"completed"`
	Refused   int64            `json:"refused"` // by their ranks
	RefusedBy map[string]int64 `json:"refused_by,omitempty"`
	Unrouted  int64            `json:"unrouted"` // no rank was found

	PromptTokens int64   `json:"prompt_tokens"` // of completed requests, as all that follows
	HitTokens    int64   `json:"hit_tokens"`    // from the cache at the first admission
	HitBlocks    int64   `json:"hit_blocks"`    // the same in whole blocks
	HitRatio     float64 `json:"hit_ratio"`     // of the prompt tokens
	OutputTokens int64   `json:"output_tokens"`
	Preemptions  int64   `json:"preemptions"`
	// ExpectedTokens are those that routers took to be in the cache of the rank
	// when they chose it; 0 for policies that do not read CACHE.
	ExpectedTokens int64 `json:"expected_hit_tokens"`
	// AgainTokens were known of requests when they were admitted again after they
	// lost their blocks, AgainHitTokens of these came from the cache.
	AgainTokens    int64 `json:"readmitted_tokens"`
	AgainHitTokens int64 `json:"readmitted_hit_tokens"`
	AgainHitBlocks int64 `json:"readmitted_hit_blocks"` // the same in whole blocks

	TTFT    results.Distribution `json:"ttft"`    // from arrival to the first token
	TPOT    results.Distribution `json:"tpot"`    // of a request with 2 tokens or more: mean time between them, which is ITL by request
	Gaps    results.Distribution `json:"itl"`     // between two tokens of an answer, all answers together, which is ITL by gap; quantiles to 1/1024
	MaxGaps results.Distribution `json:"max_itl"` // of a request with 2 tokens or more: longest time between two of them
	E2E     results.Distribution `json:"e2e"`     // from arrival to the last token
	Queue   results.Distribution `json:"queue"`   // from arrival to the first admission

	SpanNanos             int64    `json:"span_ns"`                     // from the first arrival to the last token
	OfferedPerSecond      float64  `json:"offered_requests_per_second"` // all requests by the span of their arrivals
	RequestsPerSecond     float64  `json:"requests_per_second"`
	PromptTokensPerSecond float64  `json:"prompt_tokens_per_second"`
	OutputTokensPerSecond float64  `json:"output_tokens_per_second"`
	Curves                *Curves  `json:"curves,omitempty"`
	Good                  int64    `json:"-"`
	Goodput               *Goodput `json:"goodput,omitempty"` // if there is an SLO

	goodTokens int64
}

// Goodput is what held all limits of the SLO.
type Goodput struct {
	Requests              int64   `json:"requests"`
	Share                 float64 `json:"share"` // of all requests, refused ones too
	RequestsPerSecond     float64 `json:"requests_per_second"`
	OutputTokensPerSecond float64 `json:"output_tokens_per_second"`
}

// Imbalance is how unevenly tokens are computed by the ranks.
type Imbalance struct {
	WindowNanos      int64   `json:"window_ns"`
	Variation        float64 `json:"variation"`     // coefficient of variation within a window, mean weighted by its tokens
	MaxOverMean      float64 `json:"max_over_mean"` // the same for the most by the mean
	TotalVariation   float64 `json:"total_variation"`
	TotalMaxOverMean float64 `json:"total_max_over_mean"`
}

// Bound is the hits of a cache without engines or time: all requests one after the
// other, in the order of arrival, each with its answer.
type Bound struct {
	Name         string  `json:"name"`
	Blocks       int     `json:"blocks"` // 0: no bound
	PromptTokens int64   `json:"prompt_tokens"`
	HitTokens    int64   `json:"hit_tokens"`
	HitRatio     float64 `json:"hit_ratio"`
}

func newResult(cfg *Config) *Result {
	r := &Result{
		Schema: ResultV1,
		Trace: TraceInfo{
			Name: cfg.Source.Name, SHA256: cfg.Source.SHA256,
			Requests: cfg.Trace.Len(), Sessions: cfg.Trace.Sessions(), BlockSize: cfg.Trace.BlockSize,
		},
		Options: Options{
			Workers: cfg.Workers, Routers: cfg.Routers,
			Time: TimeModel{
				Name: cfg.Time.Name, Formula: cfg.Time.Time.String(), Model: cfg.Time.Model, GPU: cfg.Time.GPU,
				Source: cfg.Time.Source, Limits: cfg.Time.Limits,
			},
			SpeedUps: cfg.SpeedUps, Seeds: cfg.Seeds,
			EventDelayNanos: int64(cfg.EventDelay), EventLoss: cfg.EventLoss, LoadDelayNanos: int64(cfg.LoadDelay),
			Concurrency: cfg.Concurrency, WarmUp: cfg.WarmUp, Approximate: cfg.Approximate, Strict: cfg.Strict,
			SLOTTFTNanos: int64(cfg.SLO.TTFT), SLOTPOTNanos: int64(cfg.SLO.TPOT), SLOE2ENanos: int64(cfg.SLO.E2E),
		},
		Warnings:    []string{},
		Runs:        []RunResult{},
		Bounds:      []Bound{},
		Comparisons: []Comparison{},
		Rankings:    []Ranking{},
	}
	if cfg.Approximate == ApproximateTTL {
		r.Options.TTLNanos = int64(cfg.TTL)
	}
	if cfg.Knee != nil {
		r.Options.KneeShare, r.Options.KneePrecision = cfg.Knee.Share, cfg.Knee.Precision
	}
	cfg.Engine.record(&r.Options)
	for _, p := range cfg.Policies {
		r.Options.Policies = append(r.Options.Policies, p.Full)
	}
	if cfg.Approximate != "" {
		r.warn("routers get no KV events: they take the prompts that they sent a rank to be there (%s); answers and evictions are unknown to them", cfg.Approximate)
	}
	if cfg.EventDelay == 0 || cfg.LoadDelay == 0 {
		r.warn("routers hear of ranks without delay (events after %v, ends after %v): policies that rely on it look better than they are", cfg.EventDelay, cfg.LoadDelay)
	}
	if cfg.Concurrency > 0 {
		r.warn("%d sessions are served at any time, whatever the load; times until the first token say little about policies then", cfg.Concurrency)
	}
	return r
}

func (r *Result) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}
