package table

// Request is what became of one request of a simulation in one run: one policy, at
// one speed-up, with one seed. Times are virtual, from the origin of the trace.
type Request struct {
	Policy  string  `parquet:"policy,dict"` // policy that chose, as it was given
	SpeedUp float64 `parquet:"speed_up"`    // arrivals came this many times as fast as in the trace
	Seed    uint64  `parquet:"seed"`        // seed of the run

	Request  int64  `parquet:"request,delta"` // number of the arrival in the run, from 0
	TraceRow int64  `parquet:"trace_row"`     // row of the trace, from 0
	Session  int64  `parquet:"session"`       // number of the session, from 0
	Turn     *int64 `parquet:"turn,optional"` // number of the request in its session, from 0; null: unknown
	WarmUp   bool   `parquet:"warm_up"`       // left out of the figures after warm-up

	State  string `parquet:"state,dict"`    // completed, refused (by its rank), unrouted (no rank was found) or unfinished
	Reason string `parquet:"reason,dict"`   // why it was refused or not routed; "" else
	Good   *bool  `parquet:"good,optional"` // it held every limit of the SLO; null: there is none

	Router   int64   `parquet:"router"`             // number of the router that chose, from 0
	WorkerID *uint64 `parquet:"worker_id,optional"` // worker that it went to; null: unrouted
	DPRank   *uint32 `parquet:"dp_rank,optional"`   // data-parallel number of the rank; null: unrouted

	ArrivalNS    int64  `parquet:"arrival_ns" unit:"ns"`              // it came to the router
	DispatchNS   *int64 `parquet:"dispatch_ns,optional" unit:"ns"`    // it came to the engine; null: it never did
	AdmittedNS   *int64 `parquet:"admitted_ns,optional" unit:"ns"`    // its first admission to a batch; null: there was none
	FirstTokenNS *int64 `parquet:"first_token_ns,optional" unit:"ns"` // its first token, or the end of its prompt if it has none; null: not completed
	FinishNS     *int64 `parquet:"finish_ns,optional" unit:"ns"`      // its last token, or the same; null: not completed

	QueueNS *int64   `parquet:"queue_ns,optional" unit:"ns"` // arrival to first admission; null: not admitted
	TTFTNS  *int64   `parquet:"ttft_ns,optional" unit:"ns"`  // arrival to first token; null: not completed
	TPOTNS  *float64 `parquet:"tpot_ns,optional" unit:"ns"`  // mean time between two of its tokens; null: fewer than 2 tokens
	E2ENS   *int64   `parquet:"e2e_ns,optional" unit:"ns"`   // arrival to last token; null: not completed

	PromptTokens int64  `parquet:"prompt_tokens" unit:"tokens"`                // tokens of the prompt
	OutputTokens int64  `parquet:"output_tokens" unit:"tokens"`                // tokens of the answer that it got
	HitTokens    *int64 `parquet:"hit_tokens,optional" unit:"tokens"`          // of the prompt, from the cache at the first admission; null: not admitted
	HitBlocks    *int64 `parquet:"hit_blocks,optional" unit:"blocks"`          // the same in whole KV blocks
	ExpectedHits *int64 `parquet:"expected_hit_tokens,optional" unit:"tokens"` // that the router took to be in the cache of the rank it chose; null: it does not look, or unrouted
	MaxITLNS     *int64 `parquet:"max_itl_ns,optional" unit:"ns"`              // longest time between two of its tokens; null: fewer than 2 tokens
	Preemptions  int64  `parquet:"preemptions"`                                // times that it lost its place in the batch
	AgainTokens  *int64 `parquet:"again_tokens,optional" unit:"tokens"`        // that it had when it was admitted again, summed over its preemptions; null: unknown
	AgainHits    *int64 `parquet:"again_hit_tokens,optional" unit:"tokens"`    // of these, from the cache; null: unknown
}

// Decision is what a policy chose for one query of a replay.
type Decision struct {
	Request     int64 `parquet:"request"`               // number of the query in the corpus, from 0
	TraceRow    int64 `parquet:"trace_row"`             // row of the transformed trace that it comes from, from 0
	Session     int64 `parquet:"session"`               // number of the session
	QueryThread int32 `parquet:"query_thread"`          // query thread, each of which is a router with a state of its own
	Number      int64 `parquet:"number"`                // number of the decision on its query thread, from 0
	DeadlineNS  int64 `parquet:"deadline_ns" unit:"ns"` // when the query was due, from the start of the window

	State         string   `parquet:"state,dict"`         // chosen or failed
	WorkerID      *uint64  `parquet:"worker_id,optional"` // worker of the chosen rank; null: failed
	DPRank        *uint32  `parquet:"dp_rank,optional"`   // data-parallel number of the chosen rank; null: failed
	TraceWorkerID uint64   `parquet:"trace_worker_id"`    // worker of the rank that the trace's draw gave the request
	TraceDPRank   uint32   `parquet:"trace_dp_rank"`      // data-parallel number of that rank
	Candidates    int64    `parquet:"candidates"`         // ranks left to choose from after the filters
	Cost          *float64 `parquet:"cost,optional"`      // cost of the chosen rank as the policy computes it, 0 of a policy without costs; null: failed

	RequestBlocks      int64  `parquet:"request_blocks" unit:"blocks"`                // full blocks of the prompt
	OverlapBlocks      *int64 `parquet:"overlap_blocks,optional" unit:"blocks"`       // leading blocks that the chosen rank held according to the index; null: failed, or the policy does not read CACHE
	TraceOverlapBlocks *int64 `parquet:"trace_overlap_blocks,optional" unit:"blocks"` // the same of the rank of the trace's draw; null: unknown
	BestOverlapBlocks  *int64 `parquet:"best_overlap_blocks,optional" unit:"blocks"`  // the same of the rank that held most; null: unknown

	LookupNS    *int64 `parquet:"lookup_ns,optional" unit:"ns"`    // time of the lookup in the index; null: not measured
	SelectionNS *int64 `parquet:"selection_ns,optional" unit:"ns"` // time of the choice after the lookup; null: not measured
}

// Operation is one query or one KV event of a replay trial, with its stamps. Times
// are from the start of the window.
type Operation struct {
	Op       int64  `parquet:"op,delta"`             // position in the order of the corpus, from 0
	Kind     string `parquet:"kind,dict"`            // query, stored, removed or cleared
	WorkerID uint64 `parquet:"worker_id"`            // worker of the rank: of a query, the one that the trace's draw gave it
	DPRank   uint32 `parquet:"dp_rank"`              // data-parallel number of the rank
	Seq      uint64 `parquet:"seq"`                  // number among all queries; id of the event within its rank
	Blocks   int64  `parquet:"blocks" unit:"blocks"` // full blocks of the prompt, or blocks stored or removed; 0: cleared
	Thread   *int32 `parquet:"thread,optional"`      // query or event thread that did it; null: never done

	DeadlineNS int64  `parquet:"deadline_ns,delta" unit:"ns"`    // when it was due
	AcceptedNS *int64 `parquet:"accepted_ns,optional" unit:"ns"` // when it was handed over; null: never issued
	StartedNS  *int64 `parquet:"started_ns,optional" unit:"ns"`  // of a query: when its lookup began; null: an event, or never done
	FinishedNS *int64 `parquet:"finished_ns,optional" unit:"ns"` // when it was answered or applied; null: never done
}
