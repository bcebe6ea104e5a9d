// Package results holds the records that kvbench writes, their JSON Schema, and
// their readers and writers. It measures nothing.
package results

// ReplayV1 is the schema name of Record.
const ReplayV1 = "kvbench.result/v1"

// KindReplay is the kind of a Record.
const KindReplay = "replay"

// Record is the result of one replay trial. Times are in ns and rates in 1/s
// unless a name says otherwise. Readers ignore fields they do not know; a field
// that is removed is never reused for something else. One that was added later
// is written always and marked as optional, since older records lack it.
type Record struct {
	Schema string `json:"schema"` // name and version of this format: "kvbench.result/v1"
	Kind   string `json:"kind"`   // what kind of trial it was: "replay"

	Provenance Provenance `json:"provenance"` // what made the record
	Config     Config     `json:"config"`     // what was asked for and what it became
	Totals     Totals     `json:"totals"`     // work offered and work done
	Rates      Rates      `json:"rates"`      // work per second, offered, issued and achieved
	Timing     Timing     `json:"timing"`     // moments of the trial

	Queries QueryLatencies `json:"queries"` // latencies of queries
	Events  EventLatencies `json:"events"`  // latencies of KV events

	Depths       Depths        `json:"depths"`                           // what waited where
	Threads      []Thread      `json:"threads"`                          // what each thread of the timed run used
	EventThreads []EventThread `json:"event_threads,omitempty"`          // how far each event thread came and how busy it was; older records lack it
	Index        *IndexState   `json:"index,omitempty"`                  // what the index held after the drain and how; only if the drain ended and no event thread failed
	Resident     *Resident     `json:"resident_blocks,omitempty"`        // resident blocks after the drain; only if they were tracked
	Reader       *Reader       `json:"resident_blocks_reader,omitempty"` // what the reader of resident blocks achieved; only if there was one
	Approximate  *Approximate  `json:"approximate,omitempty"`            // what approximate retention did in the place of the engines' KV events when the corpus was prepared; only if it did
	Policy       *Policy       `json:"policy,omitempty"`                 // what the policy chose; only if the trial had one
	Anomalies    Anomalies     `json:"anomalies"`                        // odd events that the index met
	Validity     Validity      `json:"validity"`                         // whether the trial measured what it set out to
	Verify       *Verify       `json:"verify,omitempty"`                 // comparison with the reference index; only if it was asked for
	Machine      MachineUse    `json:"machine_use"`                      // what the process and the machine did meanwhile
	Injected     *Injected     `json:"injected,omitempty"`               // slowdown put in on purpose; only if there was one, and then no figure is that of the index
	Warnings     []string      `json:"warnings"`                         // what a reader of the figures should know though the trial is valid, in words
}

// Provenance says what made the record.
type Provenance struct {
	Argv         []string `json:"argv"`           // command line, program name first
	Version      string   `json:"version"`        // version of kvbench; "" if the build does not know
	Commit       string   `json:"commit"`         // commit it was built from; "" if the build does not know
	Modified     bool     `json:"modified"`       // built from a tree with changes
	GoVersion    string   `json:"go_version"`     // version of Go it was built with, e.g. "go1.26.1"
	BinarySHA256 string   `json:"binary_sha256"`  // of the running executable, hexadecimal
	TraceName    string   `json:"trace_name"`     // base name of the trace
	TraceSHA256  string   `json:"trace_sha256"`   // of the trace file's bytes, hexadecimal
	CorpusSHA256 string   `json:"corpus_sha256"`  // of the corpus as it would be saved, hexadecimal
	Seed         uint64   `json:"seed"`           // seed of everything drawn at random
	StartTime    string   `json:"start_time"`     // of the start barrier, RFC 3339 with ns, UTC
	Host         Host     `json:"host"`           // the machine
	Build        []string `json:"build_settings"` // settings of the build as "key=value", as the Go tool records them
}

// Host describes the machine. Unknown facts are empty or 0, never guessed.
type Host struct {
	OS            string `json:"os"`                     // operating system as Go names it
	Arch          string `json:"arch"`                   // architecture as Go names it
	Kernel        string `json:"kernel"`                 // release of the kernel
	CPUModel      string `json:"cpu_model"`              // model name of the first CPU
	LogicalCPUs   int    `json:"logical_cpus"`           // CPUs online; 0: unknown
	AllowedCPUs   string `json:"allowed_cpus"`           // CPU list that this process may use
	PhysicalCores int    `json:"physical_cores"`         // cores of the CPUs online; 0: unknown
	Virtualized   string `json:"virtualized"`            // hypervisor vendor, "yes" if the vendor is unknown, "" if no hypervisor is seen
	MemoryBytes   int64  `json:"memory_bytes"`           // memory of the machine in bytes; 0: unknown
	Governor      string `json:"governor"`               // cpufreq governor of the first allowed CPU; "": unknown
	CPUQuota      string `json:"cpu_quota"`              // tightest cgroup CPU quota as "quota period" in us; "" or "max": none seen
	THP           string `json:"transparent_huge_pages"` // transparent huge pages: always, madvise or never; "": unknown
	ClockSource   string `json:"clock_source"`           // the kernel's clock source; "": unknown
}

// Config is what was asked for and what it became.
type Config struct {
	Index               string  `json:"index"`                         // name of the index
	Workers             int     `json:"workers"`                       // workers of the fleet
	DPRanks             int     `json:"dp_ranks"`                      // data-parallel ranks of each worker
	Ranks               int     `json:"ranks"`                         // ranks in all
	BlockSize           int     `json:"block_size"`                    // tokens of a KV block
	TraceBlockSize      int     `json:"trace_block_size"`              // tokens that one hash id of the trace stands for
	GPUBlocks           int     `json:"gpu_blocks"`                    // KV blocks that one rank can hold
	LengthFactor        int     `json:"length_factor"`                 // prompts are this many times as long as in the trace
	DuplicationFactor   int     `json:"duplication_factor"`            // copies of the trace with blocks of their own
	SpeedUp             float64 `json:"speed_up"`                      // arrivals come this many times as fast before the scaling to the window
	Rescale             string  `json:"rescale"`                       // how timelines were scaled to the window
	TimeModel           string  `json:"time_model"`                    // time model of the mock engines
	Approximate         string  `json:"approximate" schema:"optional"` // what took the place of the engines' KV events: "ttl" or "lru" retention of routing decisions; "" or absent: nothing
	TTLNS               int64   `json:"ttl_ns" schema:"optional"`      // how long blocks live with "ttl", in ns of the engines' time; else 0
	WindowNS            int64   `json:"window_ns"`                     // window over which operations are offered, in ns
	EventThreads        int     `json:"event_threads"`                 // threads that apply events
	QueryThreads        int     `json:"query_threads"`                 // threads that answer queries, each with a policy of its own if there is one; with serial one of them does everything
	QueryLanes          int     `json:"query_lanes"`                   // queues of queries
	EventIssuers        int     `json:"event_issuers"`                 // threads that issue events
	Assign              string  `json:"assign" schema:"optional"`      // how ranks went to event threads: "roundrobin", "hash" or "balanced"; older records lack it and had "roundrobin"
	HugePages           bool    `json:"huge_pages" schema:"optional"`  // the index was asked to put its large tables on huge pages
	QueueCapacity       int     `json:"queue_capacity"`                // events that wait at most between one issuer and one event thread
	IssuerSpinNS        int64   `json:"issuer_spin_ns"`                // an issuer sleeps until so many ns before a deadline, then spins
	QuiesceNS           int64   `json:"quiesce_ns"`                    // quiet time before the start, in ns
	WarmupLookups       int     `json:"warmup_lookups"`                // lookups before the start
	TrackResidentBlocks bool    `json:"track_resident_blocks"`         // resident blocks were counted
	CounterLayout       string  `json:"counter_layout"`                // "packed" or "padded" counters; "" without them
	TrackedFor          string  `json:"tracked_for" schema:"optional"` // who asked for resident blocks to be counted: "flag", "policy" or "flag, policy"; "" or absent: nobody, or not known
	Policy              string  `json:"policy" schema:"optional"`      // policy that chose a rank for each query, in its shortest text; "none" or absent: queries were lookups alone
	Serial              bool    `json:"serial" schema:"optional"`      // one operation after another in the order of the corpus, without waiting for deadlines; rates and latencies are not comparable with others
	Pinned              bool    `json:"pinned"`                        // every thread on a CPU of its own choosing, confirmed
	SharedCPUs          bool    `json:"shared_cpus"`                   // threads of different roles may share a CPU
	Idle                string  `json:"idle"`                          // what a thread without work does: "spin" or "yield"
	QueryIssuerCPU      string  `json:"query_issuer_cpu"`              // CPU list of the query issuer; "" if not pinned
	IssuerCPUs          string  `json:"issuer_cpus"`                   // CPU list of the event issuers; "" if not pinned
	BackendCPUs         string  `json:"backend_cpus"`                  // CPU list of query and event threads; "" if not pinned
	ReaderCPU           string  `json:"reader_cpu"`                    // CPU list of the reader; "" if not pinned or none
	ReaderRate          float64 `json:"reader_rate"`                   // passes/s asked of the reader; 0: without pause, or no reader
	GOMAXPROCS          int     `json:"gomaxprocs"`                    // Go code that may run at the same time, in threads
}

// Totals counts the work that was offered and the work that was done.
type Totals struct {
	Queries       int64 `json:"queries"`        // queries offered
	RequestBlocks int64 `json:"request_blocks"` // blocks of the queries offered
	StoredEvents  int64 `json:"stored_events"`  // Stored events offered
	StoredBlocks  int64 `json:"stored_blocks"`  // blocks of the Stored events offered
	RemovedEvents int64 `json:"removed_events"` // Removed events offered
	RemovedBlocks int64 `json:"removed_blocks"` // blocks of the Removed events offered
	ClearedEvents int64 `json:"cleared_events"` // Cleared events offered
	BlockOps      int64 `json:"block_ops"`      // request, stored and removed blocks offered

	IssuedQueries     int64 `json:"issued_queries"`      // queries handed over
	IssuedEvents      int64 `json:"issued_events"`       // events handed over
	IssuedBlockOps    int64 `json:"issued_block_ops"`    // block-ops handed over
	CompletedQueries  int64 `json:"completed_queries"`   // queries answered
	CompletedEvents   int64 `json:"completed_events"`    // events applied
	CompletedBlockOps int64 `json:"completed_block_ops"` // block-ops of what was answered and applied

	MatchedRanks int64 `json:"matched_ranks"` // sum over queries of the ranks with a match
	// Sum over the queries of the score of the rank that the draw gave the
	// request. That rank stores the prompt at the same deadline, and a query
	// may be answered before or after: this is what the index answered, not the
	// hit rate of the engines.
	RankBlocks int64 `json:"rank_blocks"`
	// Request blocks that the mock engines found in their own caches when the
	// corpus was prepared.
	EngineHitBlocks int64 `json:"engine_hit_blocks"`
}

// Rates are offered (by the corpus over the window), issued (over the span in
// which the issuers issued) and achieved (until the last query and the last
// event were done). An operation is one query or one event.
type Rates struct {
	OfferedOpsPerSec       float64 `json:"offered_ops_per_sec"`        // operations/s of the corpus over the window
	IssuedOpsPerSec        float64 `json:"issued_ops_per_sec"`         // operations/s over the span in which issuers issued
	AchievedOpsPerSec      float64 `json:"achieved_ops_per_sec"`       // operations/s until the last was done
	OfferedBlockOpsPerSec  float64 `json:"offered_block_ops_per_sec"`  // block-ops/s of the corpus over the window
	IssuedBlockOpsPerSec   float64 `json:"issued_block_ops_per_sec"`   // block-ops/s over the span in which issuers issued
	AchievedBlockOpsPerSec float64 `json:"achieved_block_ops_per_sec"` // block-ops/s until the last operation was done
}

// Timing gives moments in ns from the start barrier.
type Timing struct {
	WindowNS       int64 `json:"window_ns"`         // end of the window, in ns
	IssueEndNS     int64 `json:"issue_end_ns"`      // last operation handed over, in ns
	LastQueryEndNS int64 `json:"last_query_end_ns"` // last query answered, in ns
	LastEventEndNS int64 `json:"last_event_end_ns"` // last event applied, in ns
	EndNS          int64 `json:"end_ns"`            // the later of the last query and the last event, in ns
	DrainNS        int64 `json:"drain_ns"`          // end_ns - issue_end_ns, in ns
	PrepareNS      int64 `json:"prepare_ns"`        // time from trace to corpus, before the trial, in ns
}

// QueryLatencies are distributions over all queries. A serial trial has no issue
// lag, no queue wait and nothing from the deadline on.
type QueryLatencies struct {
	IssueLag  Distribution `json:"issue_lag"`  // deadline to handed over, in ns
	QueueWait Distribution `json:"queue_wait"` // handed over to started, in ns
	Service   Distribution `json:"service"`    // started to finished, in ns
	// What has become known of earlier requests by the deadline, first tokens and
	// ends, booked before the service starts and part of the queue wait, in ns; no
	// samples without a policy that reads LOAD.
	Upkeep Distribution `json:"upkeep" schema:"optional"`
	// Lookup in the index, in ns: the whole service without a policy, the first
	// part of it with one, and no samples if the policy does not read CACHE.
	Lookup Distribution `json:"lookup" schema:"optional"`
	// Choice of a rank by the policy, after the lookup, in ns; no samples without a
	// policy.
	Selection Distribution `json:"selection" schema:"optional"`
	// Booking of the choice, the rest of the service: the account of load, of
	// sessions and of the policy itself, in ns; no samples without a policy.
	Booking             Distribution `json:"booking" schema:"optional"`
	ScheduledToFinished Distribution `json:"scheduled_to_finished"` // deadline to finished, in ns
}

// EventLatencies are distributions over all events. A serial trial has no issue
// lag and nothing from the deadline on.
type EventLatencies struct {
	IssueLag            Distribution `json:"issue_lag"`             // deadline to handed over, in ns
	AcceptedToFinished  Distribution `json:"accepted_to_finished"`  // handed over to applied, in ns
	ScheduledToFinished Distribution `json:"scheduled_to_finished"` // deadline to applied, in ns
}

// Distribution summarises n samples in ns. Quantiles are nearest rank: the
// smallest sample that at least that share of the samples does not exceed.
type Distribution struct {
	N    int64   `json:"n"`     // samples
	Mean float64 `json:"mean"`  // arithmetic mean
	P50  int64   `json:"p50"`   // median
	P90  int64   `json:"p90"`   // 90% quantile
	P99  int64   `json:"p99"`   // 99% quantile
	P999 int64   `json:"p99_9"` // 99.9% quantile
	Max  int64   `json:"max"`   // largest sample
}

// Depths says what waited where.
type Depths struct {
	QueriesAtIssueEnd     int64   `json:"queries_at_issue_end"`      // queries handed over and not finished when the last operation was issued
	EventsAtIssueEnd      int64   `json:"events_at_issue_end"`       // events handed over and not finished when the last operation was issued
	MaxQueries            int64   `json:"max_queries"`               // highest number of unfinished queries at any moment, rebuilt from the stamps
	MaxEvents             int64   `json:"max_events"`                // highest number of unfinished events at any moment, rebuilt from the stamps
	LaneAtIssueEnd        []int64 `json:"lane_at_issue_end"`         // queries_at_issue_end by query lane
	EventThreadAtIssueEnd []int64 `json:"event_thread_at_issue_end"` // events_at_issue_end by event thread
	BlockedSubmits        int64   `json:"blocked_submits"`           // events that met a full queue
	BlockedNS             int64   `json:"blocked_ns"`                // time that issuers waited for room, in ns
}

// Thread says what one thread of the timed run used.
type Thread struct {
	Role                       string `json:"role"`                         // query_issuer, event_issuer, query, event or reader
	Number                     int    `json:"number"`                       // number within the role, from 0
	CPU                        int    `json:"cpu"`                          // CPU it was pinned to; -1: not pinned
	PinConfirmed               bool   `json:"pin_confirmed"`                // mask read back before the start and after the end
	RunNS                      int64  `json:"run_ns"`                       // time on a CPU, exact, in ns; -1: unknown
	UserNS                     int64  `json:"user_ns"`                      // time in user mode in ns, in steps of a clock tick; -1: unknown
	SystemNS                   int64  `json:"system_ns"`                    // time in the kernel in ns, in steps of a clock tick; -1: unknown
	VoluntaryContextSwitches   int64  `json:"voluntary_context_switches"`   // times it gave up its CPU; -1: unknown
	InvoluntaryContextSwitches int64  `json:"involuntary_context_switches"` // times its CPU was taken away; -1: unknown
	RunQueueWaitNS             int64  `json:"run_queue_wait_ns"`            // time ready but not running, in ns; -1: unknown
	Operations                 int64  `json:"operations"`                   // operations issued, answered or applied, or passes made; -1: unknown
}

// EventThread says how far one event thread came. Counts are from the start of
// its pool, in which nothing came before the window.
type EventThread struct {
	Number         int     `json:"number"`           // number of the event thread, from 0
	Ranks          int     `json:"ranks"`            // ranks that it owns
	Accepted       int64   `json:"accepted"`         // events that were published to it
	Applied        int64   `json:"applied"`          // of these, applied or dropped
	Dropped        int64   `json:"dropped"`          // of these, dropped because their rank had been removed
	BusyNS         int64   `json:"busy_ns"`          // time from the start to the end of the drain in which it was applying events, waits for its CPU and for locks of the index included, in ns; -1: unknown
	BusyShare      float64 `json:"busy_share"`       // busy_ns over timing.end_ns; -1: unknown
	QueueHighWater int64   `json:"queue_high_water"` // most events that it found waiting in one of its queues, of config.queue_capacity
	BlockedSubmits int64   `json:"blocked_submits"`  // events that met a full queue of it
	BlockedNS      int64   `json:"blocked_ns"`       // time that issuers waited for room in its queues, in ns
}

// IndexState is what the index held after the drain and how.
type IndexState struct {
	ResidentPairs int64        `json:"resident_pairs"`   // pairs of a rank and a block that it holds: stored less removed and cleared, as the index said of each event
	Memory        *IndexMemory `json:"memory,omitempty"` // memory of the index; only if the index says
	Shape         *IndexShape  `json:"shape,omitempty"`  // how it is laid out; only if the index says
}

// IndexMemory is the memory of the index, without what the collector has not
// freed yet.
type IndexMemory struct {
	Bytes        int64        `json:"bytes"`          // of all parts
	HugeBytes    int64        `json:"huge_bytes"`     // of these, what the system had put on huge pages
	BytesPerPair float64      `json:"bytes_per_pair"` // bytes over resident_pairs; 0 if nothing is resident
	Parts        []MemoryPart `json:"parts"`          // memory by part
}

// MemoryPart is the memory of one part of the index.
type MemoryPart struct {
	Name      string `json:"name"`       // name that the index gives it
	Bytes     int64  `json:"bytes"`      // memory in bytes
	HugeBytes int64  `json:"huge_bytes"` // of these, what the system had put on huge pages
}

// IndexShape is how an index has laid out what it holds.
type IndexShape struct {
	Unit       string `json:"unit"`        // what it is made of: node, run or place
	Units      int64  `json:"units"`       // number of them
	Blocks     int64  `json:"blocks"`      // distinct places in them, held by a rank or not
	MaxDepth   int    `json:"max_depth"`   // most units on one way from the root; 0 if the index does not know which unit follows which
	Holders    int64  `json:"holders"`     // pairs of a unit and a rank that holds a block of it
	MaxHolders int    `json:"max_holders"` // most such ranks of one unit
}

// Resident gives the resident blocks after the drain.
type Resident struct {
	Ranks  int   `json:"ranks"`  // ranks with a count
	Sum    int64 `json:"sum"`    // blocks of all ranks
	Min    int64 `json:"min"`    // smallest count, in blocks
	Median int64 `json:"median"` // median count, in blocks, nearest rank
	Max    int64 `json:"max"`    // largest count, in blocks
	// Places of all ranks that can be reached from the root, over the ranks for
	// which the index knows that; a block behind one that is gone cannot.
	ReachableSum   int64        `json:"reachable_sum" schema:"optional"`
	ReachableRanks int          `json:"reachable_ranks" schema:"optional"` // ranks for which the index knows reachable_sum
	ByRank         []RankBlocks `json:"by_rank"`                           // count of each rank
}

// RankBlocks is the count of one rank.
type RankBlocks struct {
	Worker uint64 `json:"worker"`  // worker of the rank
	DP     uint32 `json:"dp_rank"` // data-parallel number of the rank
	Blocks int64  `json:"blocks"`  // resident blocks
}

// Reader says what the thread that sums all counters achieved.
type Reader struct {
	Rate         float64 `json:"rate"`           // passes/s asked for; 0: without pause
	Passes       int64   `json:"passes"`         // passes made
	PassesPerSec float64 `json:"passes_per_sec"` // passes/s achieved
	Reads        int64   `json:"reads"`          // counters loaded
	ReadsPerSec  float64 `json:"reads_per_sec"`  // counters loaded per second
	LastRanks    int64   `json:"last_ranks"`     // ranks with a count that the last pass saw
	LastSum      int64   `json:"last_sum"`       // blocks of all ranks that the last pass saw
	MissedPasses int64   `json:"missed_passes"`  // paced passes that could not start within their period
}

// Anomalies sums what the indexes say of odd events, in blocks but for
// Malformed, which counts events.
type Anomalies struct {
	Duplicate      int64         `json:"duplicate"`       // blocks stored that were there already
	UnknownRemoved int64         `json:"unknown_removed"` // blocks removed that were not there
	Orphaned       int64         `json:"orphaned"`        // blocks stored below a parent that the rank does not hold
	Conflicting    int64         `json:"conflicting"`     // blocks stored under another parent than before
	Malformed      int64         `json:"malformed"`       // events that could not be understood
	ByRank         []RankAnomaly `json:"by_rank"`         // the same for each rank with at least one
}

// Approximate says what approximate retention did when the corpus was prepared,
// and how far it was from the engines. For each request that ran, the leading
// blocks that it held for the rank when the request came are compared with those
// that the engine found in its cache: predicted - over + under is
// totals.engine_hit_blocks.
type Approximate struct {
	PredictedBlocks int64 `json:"predicted_blocks"`       // blocks that it predicted to be hit
	OverPredicted   int64 `json:"over_predicted_blocks"`  // blocks predicted and not hit
	UnderPredicted  int64 `json:"under_predicted_blocks"` // blocks hit and not predicted
	Decisions       int64 `json:"decisions"`              // requests that were routed
	ExpiredBlocks   int64 `json:"expired_blocks"`         // blocks that went by time
	EvictedBlocks   int64 `json:"evicted_blocks"`         // blocks that went for room
	OverCapacity    int64 `json:"over_capacity"`          // decisions and changes after which more blocks were in use than a rank holds
	PeakOver        int64 `json:"peak_over_blocks"`       // by how many blocks at most
	PeakBlocks      int64 `json:"peak_blocks"`            // most blocks held for one rank
	Collisions      int64 `json:"collisions"`             // prompts and answers cut off at a block whose name was taken
}

// Policy says what the policy chose. Every query thread is a router of its own, a
// partition, that sees the load of its own dispatches alone. The load follows the
// trace's own timing on the ranks that the policy chose, while the KV events stay
// those of the ranks that the trace's draw chose: this measures what a selection
// costs, and says little of how well it serves. In a window much shorter than the
// trace, a query that is late finds in the index what its own request stored.
type Policy struct {
	Name       string   `json:"name"`       // name of the policy; "composed" if it is made of components
	Text       string   `json:"text"`       // shortest text that means this policy
	Full       string   `json:"full"`       // the same with every parameter
	Inputs     []string `json:"inputs"`     // what it reads: CACHE, LOAD, CAPACITY, SESSION, TAGS, RESIDENT_BLOCKS
	Partitions int      `json:"partitions"` // routers with a state of their own, one for each query thread

	Selections   int64  `json:"selections"`    // queries that got a rank
	Failures     int64  `json:"failures"`      // queries that got none, or whose choice could not be booked; any makes the trial invalid
	FirstFailure string `json:"first_failure"` // the first of them in words; "" if there is none

	ChosenBlocks int64 `json:"chosen_blocks"` // leading blocks of the prompts that the chosen ranks held according to the index at the lookup, summed over the selections; -1: unknown, since the policy does not read CACHE
	TraceBlocks  int64 `json:"trace_blocks"`  // the same of the ranks that the trace's draw gave the requests; -1: unknown
	BestBlocks   int64 `json:"best_blocks"`   // the same of the ranks that held most; -1: unknown

	TraceRank      int64   `json:"trace_rank_chosen"` // selections of the rank that the trace's draw gave the request
	DistinctRanks  int     `json:"distinct_ranks"`    // ranks that were chosen at least once
	MaxDispatches  int64   `json:"max_dispatches"`    // selections of the rank chosen most often
	MeanDispatches float64 `json:"mean_dispatches"`   // selections over all ranks
	Imbalance      float64 `json:"imbalance"`         // max_dispatches over mean_dispatches; 0 without selections

	ByPartition []Partition `json:"by_partition"` // what each partition chose
}

// Partition is what one router chose.
type Partition struct {
	Number       int   `json:"number"`        // number of its query thread
	Selections   int64 `json:"selections"`    // queries that got a rank
	Failures     int64 `json:"failures"`      // queries that got none
	ChosenBlocks int64 `json:"chosen_blocks"` // blocks that the chosen ranks held; -1: unknown
}

// RankAnomaly is the odd events of one rank.
type RankAnomaly struct {
	Worker         uint64 `json:"worker"`          // worker of the rank
	DP             uint32 `json:"dp_rank"`         // data-parallel number of the rank
	Duplicate      int64  `json:"duplicate"`       // blocks
	UnknownRemoved int64  `json:"unknown_removed"` // blocks
	Orphaned       int64  `json:"orphaned"`        // blocks
	Conflicting    int64  `json:"conflicting"`     // blocks
	Malformed      int64  `json:"malformed"`       // events
}

// Validity says whether the trial measured what it set out to.
type Validity struct {
	Valid       bool     `json:"valid"`       // the trial measured what it set out to
	KeptUp      bool     `json:"kept_up"`     // valid, and done within 1.10 x window
	Interrupted bool     `json:"interrupted"` // ended by a signal; never valid
	Reasons     []Reason `json:"reasons"`     // why it is not valid; empty if it is
}

// Reason is one broken rule, with figures.
type Reason struct {
	Rule   string `json:"rule"`   // stable name of the broken rule, e.g. "issue_span"
	Detail string `json:"detail"` // what was found, with figures
}

// Verify is the comparison with the reference index after the drain.
type Verify struct {
	OK         bool     `json:"ok"`         // no mismatch
	Ranks      int      `json:"ranks"`      // resident counts compared
	Queries    int      `json:"queries"`    // answers compared
	Mismatches int64    `json:"mismatches"` // comparisons that differed
	First      []string `json:"first"`      // the first few mismatches, in words
}

// Injected is a slowdown put in on purpose, to show that a comparison finds it.
type Injected struct {
	EventDelayNS int64 `json:"event_delay_ns"` // that each event took longer on its event thread, in ns
	QueryWork    int   `json:"query_work"`     // times that each lookup was done; 1: once, as it should be
}

// MachineUse is what the process and the machine did meanwhile. -1: unknown.
type MachineUse struct {
	GarbageCollections int64   `json:"garbage_collections"`  // collections in the window and the drain
	HeapAllocations    int64   `json:"heap_allocations"`     // objects allocated, by anything in the process
	HeapAllocatedBytes int64   `json:"heap_allocated_bytes"` // bytes allocated, by anything in the process
	MajorFaults        int64   `json:"major_faults"`         // page faults of the process that waited for a disk
	MinorFaults        int64   `json:"minor_faults"`         // page faults of the process that did not
	StealNS            int64   `json:"steal_ns"`             // time that the hypervisor ran others while a CPU was ready, of all CPUs, in ns; -1: unknown
	PeakRSSBytes       int64   `json:"peak_rss_bytes"`       // highest resident memory of the process since it began, in bytes
	ClockReadNS        float64 `json:"clock_read_ns"`        // cost of one stamp in ns, measured before the start
}
