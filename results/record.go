// Package results holds the records that kvbench writes, their JSON Schema, and
// their readers and writers. It measures nothing.
package results

// ReplayV1 is the schema name of Record.
const ReplayV1 = "kvbench.result/v1"

// Record is the result of one replay trial. Times are in ns and rates in 1/s
// unless a name says otherwise. Readers ignore fields they do not know; a field
// that is removed is never reused for something else.
type Record struct {
	Schema string `json:"schema"` // ReplayV1
	Kind   string `json:"kind"`   // "replay"

	Provenance Provenance `json:"provenance"`
	Config     Config     `json:"config"`
	Totals     Totals     `json:"totals"`
	Rates      Rates      `json:"rates"`
	Timing     Timing     `json:"timing"`

	Queries QueryLatencies `json:"queries"`
	Events  EventLatencies `json:"events"`

	Depths    Depths     `json:"depths"`
	Threads   []Thread   `json:"threads"`
	Resident  *Resident  `json:"resident_blocks,omitempty"`
	Reader    *Reader    `json:"resident_blocks_reader,omitempty"`
	Anomalies Anomalies  `json:"anomalies"`
	Validity  Validity   `json:"validity"`
	Verify    *Verify    `json:"verify,omitempty"`
	Machine   MachineUse `json:"machine_use"`
	Warnings  []string   `json:"warnings"`
}

// Provenance says what made the record.
type Provenance struct {
	Argv         []string `json:"argv"`
	Version      string   `json:"version"`
	Commit       string   `json:"commit"`         // "" if the build does not know
	Modified     bool     `json:"modified"`       // built from a tree with changes
	GoVersion    string   `json:"go_version"`     // e.g. "go1.26.1"
	BinarySHA256 string   `json:"binary_sha256"`  // of the running executable
	TraceName    string   `json:"trace_name"`     // base name
	TraceSHA256  string   `json:"trace_sha256"`   // of the file's bytes
	CorpusSHA256 string   `json:"corpus_sha256"`  // of the corpus as it would be saved
	Seed         uint64   `json:"seed"`           //
	StartTime    string   `json:"start_time"`     // RFC 3339 with ns, UTC, of the start barrier
	Host         Host     `json:"host"`           //
	Build        []string `json:"build_settings"` // "key=value", as the Go tool records them
}

// Host describes the machine. Unknown facts are empty or 0, never guessed.
type Host struct {
	OS            string `json:"os"`
	Arch          string `json:"arch"`
	Kernel        string `json:"kernel"`
	CPUModel      string `json:"cpu_model"`
	LogicalCPUs   int    `json:"logical_cpus"`   // online
	AllowedCPUs   string `json:"allowed_cpus"`   // CPU list that this process may use
	PhysicalCores int    `json:"physical_cores"` // 0: unknown
	Virtualized   string `json:"virtualized"`    // hypervisor vendor, "" if none is seen
	MemoryBytes   int64  `json:"memory_bytes"`   //
	Governor      string `json:"governor"`       // cpufreq governor of the first allowed CPU
	CPUQuota      string `json:"cpu_quota"`      // cgroup cpu.max, "" or "max": none
	THP           string `json:"transparent_huge_pages"`
	ClockSource   string `json:"clock_source"`
}

// Config is what was asked for and what it became.
type Config struct {
	Index               string  `json:"index"`
	Workers             int     `json:"workers"`
	DPRanks             int     `json:"dp_ranks"`
	Ranks               int     `json:"ranks"`
	BlockSize           int     `json:"block_size"`
	TraceBlockSize      int     `json:"trace_block_size"`
	GPUBlocks           int     `json:"gpu_blocks"`
	LengthFactor        int     `json:"length_factor"`
	DuplicationFactor   int     `json:"duplication_factor"`
	SpeedUp             float64 `json:"speed_up"`
	Rescale             string  `json:"rescale"`
	TimeModel           string  `json:"time_model"`
	WindowNS            int64   `json:"window_ns"`
	EventThreads        int     `json:"event_threads"`
	QueryThreads        int     `json:"query_threads"`
	QueryLanes          int     `json:"query_lanes"`
	EventIssuers        int     `json:"event_issuers"`
	QueueCapacity       int     `json:"queue_capacity"` // events, for each issuer and event thread
	IssuerSpinNS        int64   `json:"issuer_spin_ns"`
	QuiesceNS           int64   `json:"quiesce_ns"`
	WarmupLookups       int     `json:"warmup_lookups"`
	TrackResidentBlocks bool    `json:"track_resident_blocks"`
	CounterLayout       string  `json:"counter_layout"`   // "packed" or "padded"
	Pinned              bool    `json:"pinned"`           // every thread on a CPU of its own choosing, confirmed
	SharedCPUs          bool    `json:"shared_cpus"`      // threads of different roles may share a CPU
	Idle                string  `json:"idle"`             // "spin" or "yield": what a thread without work does
	QueryIssuerCPU      string  `json:"query_issuer_cpu"` // CPU lists; "" if not pinned
	IssuerCPUs          string  `json:"issuer_cpus"`      //
	BackendCPUs         string  `json:"backend_cpus"`     //
	ReaderCPU           string  `json:"reader_cpu"`       //
	ReaderRate          float64 `json:"reader_rate"`      // passes/s asked for, 0: without pause; only with a reader
	GOMAXPROCS          int     `json:"gomaxprocs"`       //
}

// Totals counts the work that was offered and the work that was done.
type Totals struct {
	Queries       int64 `json:"queries"`
	RequestBlocks int64 `json:"request_blocks"`
	StoredEvents  int64 `json:"stored_events"`
	StoredBlocks  int64 `json:"stored_blocks"`
	RemovedEvents int64 `json:"removed_events"`
	RemovedBlocks int64 `json:"removed_blocks"`
	ClearedEvents int64 `json:"cleared_events"`
	BlockOps      int64 `json:"block_ops"` // request + stored + removed blocks

	IssuedQueries     int64 `json:"issued_queries"`
	IssuedEvents      int64 `json:"issued_events"`
	IssuedBlockOps    int64 `json:"issued_block_ops"`
	CompletedQueries  int64 `json:"completed_queries"`
	CompletedEvents   int64 `json:"completed_events"`
	CompletedBlockOps int64 `json:"completed_block_ops"`

	MatchedRanks int64 `json:"matched_ranks"` // sum over queries of the ranks with a match
	RankBlocks   int64 `json:"rank_blocks"`   // sum over queries of the score of the rank that the trace's draw gave the request
}

// Rates are offered (by the corpus over the window), issued (over the span in
// which the issuers issued) and achieved (until the last query and the last
// event were done). An operation is one query or one event.
type Rates struct {
	OfferedOpsPerSec       float64 `json:"offered_ops_per_sec"`
	IssuedOpsPerSec        float64 `json:"issued_ops_per_sec"`
	AchievedOpsPerSec      float64 `json:"achieved_ops_per_sec"`
	OfferedBlockOpsPerSec  float64 `json:"offered_block_ops_per_sec"`
	IssuedBlockOpsPerSec   float64 `json:"issued_block_ops_per_sec"`
	AchievedBlockOpsPerSec float64 `json:"achieved_block_ops_per_sec"`
}

// Timing gives moments in ns from the start barrier.
type Timing struct {
	WindowNS       int64 `json:"window_ns"`
	IssueEndNS     int64 `json:"issue_end_ns"`      // last operation handed over
	LastQueryEndNS int64 `json:"last_query_end_ns"` //
	LastEventEndNS int64 `json:"last_event_end_ns"` //
	EndNS          int64 `json:"end_ns"`            // the later of the two
	DrainNS        int64 `json:"drain_ns"`          // EndNS - IssueEndNS
	PrepareNS      int64 `json:"prepare_ns"`        // trace to corpus, untimed part
}

// QueryLatencies are distributions over all queries.
type QueryLatencies struct {
	IssueLag            Distribution `json:"issue_lag"`             // handed over after its deadline by
	QueueWait           Distribution `json:"queue_wait"`            // handed over to started
	Service             Distribution `json:"service"`               // started to finished
	ScheduledToFinished Distribution `json:"scheduled_to_finished"` // deadline to finished
}

// EventLatencies are distributions over all events.
type EventLatencies struct {
	IssueLag            Distribution `json:"issue_lag"`
	AcceptedToFinished  Distribution `json:"accepted_to_finished"`
	ScheduledToFinished Distribution `json:"scheduled_to_finished"`
}

// Distribution summarises n samples in ns. Quantiles are nearest rank: the
// smallest sample that at least that share of the samples does not exceed.
type Distribution struct {
	N    int64   `json:"n"`
	Mean float64 `json:"mean"`
	P50  int64   `json:"p50"`
	P90  int64   `json:"p90"`
	P99  int64   `json:"p99"`
	P999 int64   `json:"p99_9"`
	Max  int64   `json:"max"`
}

// Depths says what waited where.
type Depths struct {
	QueriesAtIssueEnd     int64   `json:"queries_at_issue_end"` // handed over, not finished
	EventsAtIssueEnd      int64   `json:"events_at_issue_end"`
	MaxQueries            int64   `json:"max_queries"` // highest number at any moment, rebuilt from the stamps
	MaxEvents             int64   `json:"max_events"`
	LaneAtIssueEnd        []int64 `json:"lane_at_issue_end"`         // by query lane
	EventThreadAtIssueEnd []int64 `json:"event_thread_at_issue_end"` // by event thread
	BlockedSubmits        int64   `json:"blocked_submits"`           // events that met a full queue
	BlockedNS             int64   `json:"blocked_ns"`                // time that issuers waited for room
}

// Thread says what one thread of the timed run used.
type Thread struct {
	Role                       string `json:"role"` // query_issuer, event_issuer, query, event, reader
	Number                     int    `json:"number"`
	CPU                        int    `json:"cpu"`           // -1: not pinned
	PinConfirmed               bool   `json:"pin_confirmed"` // mask read back before the start and after the end
	RunNS                      int64  `json:"run_ns"`        // on a CPU, exact; -1: the kernel does not say
	UserNS                     int64  `json:"user_ns"`
	SystemNS                   int64  `json:"system_ns"`
	VoluntaryContextSwitches   int64  `json:"voluntary_context_switches"`
	InvoluntaryContextSwitches int64  `json:"involuntary_context_switches"`
	RunQueueWaitNS             int64  `json:"run_queue_wait_ns"` // ready but not running; -1: the kernel does not say
	Operations                 int64  `json:"operations"`        // issued, answered, applied, or passes
}

// Resident gives the resident blocks after the drain.
type Resident struct {
	Ranks  int          `json:"ranks"` // with a count
	Sum    int64        `json:"sum"`
	Min    int64        `json:"min"`
	Median int64        `json:"median"`
	Max    int64        `json:"max"`
	ByRank []RankBlocks `json:"by_rank"`
}

// RankBlocks is the count of one rank.
type RankBlocks struct {
	Worker uint64 `json:"worker"`
	DP     uint32 `json:"dp_rank"`
	Blocks int64  `json:"blocks"`
}

// Reader says what the thread that sums all counters achieved.
type Reader struct {
	Rate         float64 `json:"rate"` // passes/s asked for, 0: without pause
	Passes       int64   `json:"passes"`
	PassesPerSec float64 `json:"passes_per_sec"`
	Reads        int64   `json:"reads"` // counters loaded
	ReadsPerSec  float64 `json:"reads_per_sec"`
	LastRanks    int64   `json:"last_ranks"`    // ranks with a count that the last pass saw
	LastSum      int64   `json:"last_sum"`      // sum that the last pass saw
	MissedPasses int64   `json:"missed_passes"` // paced passes that could not start within their period
}

// Anomalies sums what the indexes say of odd events, in blocks but for
// Malformed, which counts events.
type Anomalies struct {
	Duplicate      int64         `json:"duplicate"`
	UnknownRemoved int64         `json:"unknown_removed"`
	Orphaned       int64         `json:"orphaned"`
	Conflicting    int64         `json:"conflicting"`
	Malformed      int64         `json:"malformed"`
	ByRank         []RankAnomaly `json:"by_rank"` // ranks with at least one
}

// RankAnomaly is the odd events of one rank.
type RankAnomaly struct {
	Worker         uint64 `json:"worker"`
	DP             uint32 `json:"dp_rank"`
	Duplicate      int64  `json:"duplicate"`
	UnknownRemoved int64  `json:"unknown_removed"`
	Orphaned       int64  `json:"orphaned"`
	Conflicting    int64  `json:"conflicting"`
	Malformed      int64  `json:"malformed"`
}

// Validity says whether the trial measured what it set out to.
type Validity struct {
	Valid       bool     `json:"valid"`
	KeptUp      bool     `json:"kept_up"`     // valid, and done within 1.10 x window
	Interrupted bool     `json:"interrupted"` // by a signal; never valid
	Reasons     []Reason `json:"reasons"`     // why not valid
}

// Reason is one broken rule, with figures.
type Reason struct {
	Rule   string `json:"rule"` // stable name, e.g. "issue_span"
	Detail string `json:"detail"`
}

// Verify is the comparison with the reference index after the drain.
type Verify struct {
	OK         bool     `json:"ok"`
	Ranks      int      `json:"ranks"`   // resident counts compared
	Queries    int      `json:"queries"` // answers compared
	Mismatches int64    `json:"mismatches"`
	First      []string `json:"first"` // the first few mismatches, in words
}

// MachineUse is what the process and the machine did meanwhile. -1: unknown.
type MachineUse struct {
	GarbageCollections int64   `json:"garbage_collections"` // in the window and the drain
	HeapAllocations    int64   `json:"heap_allocations"`    // objects, by anything in the process
	HeapAllocatedBytes int64   `json:"heap_allocated_bytes"`
	MajorFaults        int64   `json:"major_faults"`
	MinorFaults        int64   `json:"minor_faults"`
	StealNS            int64   `json:"steal_ns"` // of all CPUs
	PeakRSSBytes       int64   `json:"peak_rss_bytes"`
	ClockReadNS        float64 `json:"clock_read_ns"` // cost of one stamp, measured before the start
}
