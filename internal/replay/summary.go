package replay

import (
	"fmt"
	"slices"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/results"
)

// stamps joins what all threads wrote, by position in the corpus. Times are ns
// from the start of the window. seen says which of them count.
type stamps struct {
	handed   []int64
	started  []int64 // queries only
	finished []int64
	seen     []uint8
}

const (
	seenHanded   = 1
	seenFinished = 2
)

func (s *stamps) hand(op uint32, at int64) {
	s.handed[op] = at
	s.seen[op] |= seenHanded
}

// join fills the stamps and reports broken rules of completion and order.
func (t *trial) join() (*stamps, []results.Reason) {
	n := len(t.corpus.Ops)
	s := &stamps{
		handed:   make([]int64, n),
		started:  make([]int64, n),
		finished: make([]int64, n),
		seen:     make([]uint8, n),
	}
	for i, at := range t.queryIssuer.handed {
		s.hand(t.plan.queries[i], at-t.start)
	}
	for i, e := range t.issuers {
		for k, at := range e.handed {
			s.hand(t.plan.events[i][k], at-t.start)
		}
	}
	var broken findings
	complete := func(op uint32, at int64) bool {
		if int(op) >= n {
			broken.add("completion", "operation %d is not in the corpus", op)
			return false
		}
		if s.seen[op]&seenFinished != 0 {
			broken.add("completion", "operation %d was completed twice", op)
			return false
		}
		s.seen[op] |= seenFinished
		s.finished[op] = at - t.start
		return true
	}
	if !t.lost {
		next := make([]int, len(t.lanes))
		for _, q := range t.queryThreads {
			for _, d := range q.done {
				if !complete(d.op, d.finished) {
					continue
				}
				s.started[d.op] = d.started - t.start
				l := t.lanes[d.lane]
				if k := next[d.lane]; k >= len(l.ops) || l.ops[k] != d.op {
					broken.add("lane_order", "lane %d answered operation %d as number %d, out of the order of issue", d.lane, d.op, k)
				}
				next[d.lane]++
			}
			if q.full > 0 {
				broken.add("buffer_overflow", "query thread %d had no room for %d results", q.number, q.full)
			}
		}
	}
	if !t.unfinished {
		next := make([]uint32, len(t.corpus.Ranks))
		for thread, done := range t.observer.done {
			for _, d := range done {
				if !complete(d.op, d.finished) {
					continue
				}
				op := &t.corpus.Ops[d.op]
				if op.Seq != next[op.Slot] {
					broken.add("rank_order", "rank %v: event %d was applied where event %d was due", t.corpus.Ranks[op.Slot], op.Seq, next[op.Slot])
				}
				next[op.Slot] = op.Seq + 1
				if owner := t.pool.ThreadOf(indexer.Slot(op.Slot)); owner != thread {
					broken.add("thread_affinity", "rank %v belongs to event thread %d, thread %d applied its event %d", t.corpus.Ranks[op.Slot], owner, thread, op.Seq)
				}
			}
			if full := t.observer.full[thread].n; full > 0 {
				broken.add("buffer_overflow", "event thread %d had no room for %d results", thread, full)
			}
		}
	}
	for op, seen := range s.seen {
		switch seen {
		case seenHanded | seenFinished:
		case seenHanded:
			query := t.corpus.Ops[op].Kind == corpus.Query
			// What a drain that was given up did is not known.
			if !t.unfinished && (!query || !t.abort.Load()) {
				broken.add("completion", "operation %d was issued and never completed", op)
			}
		case seenFinished:
			broken.add("completion", "operation %d was completed and never issued", op)
		default:
			broken.add("not_issued", "operation %d was never issued", op)
		}
	}
	return s, broken.reasons()
}

// findings counts what is wrong by rule and keeps the first instance of each.
type findings struct {
	rules []string
	first map[string]string
	count map[string]int
}

func (f *findings) add(rule, format string, args ...any) {
	if f.count == nil {
		f.first, f.count = map[string]string{}, map[string]int{}
	}
	if f.count[rule] == 0 {
		f.rules = append(f.rules, rule)
		f.first[rule] = fmt.Sprintf(format, args...)
	}
	f.count[rule]++
}

func (f *findings) reasons() []results.Reason {
	out := make([]results.Reason, 0, len(f.rules))
	for _, rule := range f.rules {
		detail := f.first[rule]
		if n := f.count[rule]; n > 1 {
			detail = fmt.Sprintf("%d times; first: %s", n, detail)
		}
		out = append(out, results.Reason{Rule: rule, Detail: detail})
	}
	return out
}

// summarise turns what the run left behind into a record. Provenance is left to
// the caller, but for what only the run knows.
func (t *trial) summarise(raw *raw) *results.Record {
	s, reasons := t.join()
	if t.cfg.Timeline != nil {
		t.stamps = s
	}
	rec := &results.Record{
		Schema:   results.ReplayV1,
		Kind:     "replay",
		Config:   t.config(),
		Warnings: []string{},
		Injected: t.cfg.Inject.record(),
	}
	rec.Provenance.StartTime = raw.startTime.UTC().Format(time.RFC3339Nano)
	t.timing(rec, s)
	t.totals(rec, s)
	t.rates(rec)
	t.latencies(rec, s)
	t.depths(rec, s, raw.stats)
	t.eventThreads(rec, raw.stats)
	t.usage(rec, raw)
	t.resident(rec)
	t.anomalies(rec, raw.effects)
	if t.cfg.Policy != nil && !t.lost {
		rec.Policy = t.policyRecord()
		reasons = append(reasons, t.endPartitions()...)
	}
	rec.Validity.Reasons = append(reasons, t.brokenRules(rec, raw)...)
	rec.Validity.Interrupted = raw.interrupted
	rec.Validity.Valid = len(rec.Validity.Reasons) == 0
	rec.Validity.KeptUp = rec.Validity.Valid && !t.cfg.Serial && float64(rec.Timing.EndNS) <= keptUpLimit*float64(rec.Timing.WindowNS)
	t.warn(rec)
	return rec
}

func (t *trial) config() results.Config {
	p, o := &t.cfg.Placement, &t.corpus.Manifest.Options
	c := results.Config{
		Index:               t.cfg.Index.Name,
		Workers:             o.Workers,
		DPRanks:             o.DPRanks,
		Ranks:               len(t.corpus.Ranks),
		BlockSize:           o.BlockSize,
		TraceBlockSize:      o.TraceBlockSize,
		GPUBlocks:           o.GPUBlocks,
		LengthFactor:        o.LengthFactor,
		DuplicationFactor:   o.DuplicationFactor,
		SpeedUp:             o.SpeedUp,
		Rescale:             o.Rescale,
		TimeModel:           o.TimeModel,
		Approximate:         o.Approximate,
		TTLNS:               o.TTLNS,
		WindowNS:            t.corpus.Manifest.WindowNS,
		EventThreads:        p.Threads.EventThreads,
		QueryThreads:        p.Threads.QueryThreads,
		QueryLanes:          t.cfg.QueryLanes,
		EventIssuers:        p.Threads.EventIssuers,
		QueueCapacity:       t.cfg.QueueCapacity,
		Assign:              t.cfg.Assign.String(),
		HugePages:           t.cfg.HugePages,
		IssuerSpinNS:        t.spinNS,
		QuiesceNS:           int64(t.cfg.Quiesce),
		WarmupLookups:       t.cfg.WarmupLookups,
		TrackResidentBlocks: t.cfg.TrackResidentBlocks,
		CounterLayout:       t.cfg.Layout.String(),
		TrackedFor:          t.cfg.trackedFor,
		Policy:              "none",
		Serial:              t.cfg.Serial,
		Pinned:              p.Pinned,
		SharedCPUs:          p.Shared,
		Idle:                "yield",
		ReaderRate:          t.cfg.ReaderRate,
	}
	if t.ownCPUs {
		c.Idle = "spin"
	}
	if !c.TrackResidentBlocks {
		c.CounterLayout = ""
	}
	if t.cfg.Policy != nil {
		c.Policy = t.cfg.Policy.Text
	}
	if c.Serial {
		c.EventIssuers = 0
	}
	if p.Pinned && c.Serial {
		c.BackendCPUs = cpuSet(slices.Concat(p.Query[:1], p.Event))
	} else if p.Pinned {
		c.QueryIssuerCPU = host.FormatCPUs([]int{p.QueryIssuer})
		c.IssuerCPUs = cpuSet(p.Issuers)
		c.BackendCPUs = cpuSet(slices.Concat(p.Query, p.Event))
	}
	if p.Pinned && p.Reader != NoCPU {
		c.ReaderCPU = host.FormatCPUs([]int{p.Reader})
	}
	return c
}

func cpuSet(cpus []int) string { return listCPUs(slices.Compact(slices.Sorted(slices.Values(cpus)))) }

func (t *trial) timing(rec *results.Record, s *stamps) {
	tm := &rec.Timing
	tm.WindowNS = t.corpus.Manifest.WindowNS
	for i, seen := range s.seen {
		if seen&seenHanded != 0 {
			tm.IssueEndNS = max(tm.IssueEndNS, s.handed[i])
		}
		if seen&seenFinished == 0 {
			continue
		}
		if t.corpus.Ops[i].Kind == corpus.Query {
			tm.LastQueryEndNS = max(tm.LastQueryEndNS, s.finished[i])
		} else {
			tm.LastEventEndNS = max(tm.LastEventEndNS, s.finished[i])
		}
	}
	tm.EndNS = max(tm.LastQueryEndNS, tm.LastEventEndNS)
	tm.DrainNS = max(0, tm.EndNS-tm.IssueEndNS)
}

func (t *trial) totals(rec *results.Record, s *stamps) {
	m, tt := &t.corpus.Manifest.Totals, &rec.Totals
	tt.Queries, tt.RequestBlocks = m.Requests, m.RequestBlocks
	tt.StoredEvents, tt.StoredBlocks = m.StoredEvents, m.StoredBlocks
	tt.RemovedEvents, tt.RemovedBlocks = m.RemovedEvents, m.RemovedBlocks
	tt.ClearedEvents, tt.BlockOps = m.ClearedEvents, m.BlockOps()
	tt.EngineHitBlocks = m.HitBlocks
	if t.corpus.Manifest.Options.Approximate != "" {
		rec.Approximate = approximate(&m.Approximate)
	}
	for i, seen := range s.seen {
		query := t.corpus.Ops[i].Kind == corpus.Query
		if seen&seenHanded != 0 {
			if query {
				tt.IssuedQueries++
			} else {
				tt.IssuedEvents++
			}
			tt.IssuedBlockOps += int64(t.corpus.Ops[i].Len)
		}
		if seen&seenFinished != 0 {
			if query {
				tt.CompletedQueries++
			} else {
				tt.CompletedEvents++
			}
			tt.CompletedBlockOps += int64(t.corpus.Ops[i].Len)
		}
	}
	if t.lost {
		return
	}
	for _, q := range t.queryThreads {
		for _, d := range q.done {
			tt.MatchedRanks += int64(d.matched)
			tt.RankBlocks += int64(d.rankHeld)
		}
	}
}

func (t *trial) rates(rec *results.Record) {
	perSec := func(n, ns int64) float64 {
		if ns <= 0 {
			return 0
		}
		return float64(n) / (float64(ns) / 1e9)
	}
	tt, tm := &rec.Totals, &rec.Timing
	rec.Rates = results.Rates{
		OfferedOpsPerSec:       perSec(int64(len(t.corpus.Ops)), tm.WindowNS),
		IssuedOpsPerSec:        perSec(tt.IssuedQueries+tt.IssuedEvents, tm.IssueEndNS),
		AchievedOpsPerSec:      perSec(tt.CompletedQueries+tt.CompletedEvents, tm.EndNS),
		OfferedBlockOpsPerSec:  perSec(tt.BlockOps, tm.WindowNS),
		IssuedBlockOpsPerSec:   perSec(tt.IssuedBlockOps, tm.IssueEndNS),
		AchievedBlockOpsPerSec: perSec(tt.CompletedBlockOps, tm.EndNS),
	}
	if t.cfg.Serial {
		// Nothing has a time at which it is offered.
		rec.Rates.OfferedOpsPerSec, rec.Rates.OfferedBlockOpsPerSec = 0, 0
	}
}

// latencies keeps every sample; one array is reused for each distribution.
func (t *trial) latencies(rec *results.Record, s *stamps) {
	samples := make([]int64, 0, len(s.seen))
	dist := func(query bool, need uint8, of func(i int) int64) results.Distribution {
		samples = samples[:0]
		for i, seen := range s.seen {
			if seen&need == need && (t.corpus.Ops[i].Kind == corpus.Query) == query {
				samples = append(samples, of(i))
			}
		}
		return results.Summarize(samples)
	}
	const both = seenHanded | seenFinished
	lag := func(i int) int64 { return s.handed[i] - t.corpus.Ops[i].Deadline }
	total := func(i int) int64 { return s.finished[i] - t.corpus.Ops[i].Deadline }
	rec.Queries.Service = dist(true, seenFinished, func(i int) int64 { return s.finished[i] - s.started[i] })
	// An issuer that met a full queue stamps after the wait, when the first
	// events of its batch may be done already.
	rec.Events.AcceptedToFinished = dist(false, both, func(i int) int64 { return max(0, s.finished[i]-s.handed[i]) })
	if !t.cfg.Serial {
		rec.Queries.IssueLag = dist(true, seenHanded, lag)
		rec.Queries.QueueWait = dist(true, both, func(i int) int64 { return s.started[i] - s.handed[i] })
		rec.Queries.ScheduledToFinished = dist(true, both, total)
		rec.Events.IssueLag = dist(false, seenHanded, lag)
		rec.Events.ScheduledToFinished = dist(false, both, total)
	}
	if t.cfg.Policy == nil {
		rec.Queries.Lookup = rec.Queries.Service
	} else if !t.lost {
		t.policyLatencies(rec)
	}
}

func (t *trial) depths(rec *results.Record, s *stamps, stats []indexer.ThreadStats) {
	d := &rec.Depths
	d.LaneAtIssueEnd = make([]int64, len(t.lanes))
	d.EventThreadAtIssueEnd = make([]int64, t.cfg.Placement.Threads.EventThreads)
	for i, seen := range s.seen {
		if seen&seenHanded == 0 || seen&seenFinished != 0 && s.finished[i] <= rec.Timing.IssueEndNS {
			continue
		}
		op := &t.corpus.Ops[i]
		if op.Kind == corpus.Query {
			d.QueriesAtIssueEnd++
			d.LaneAtIssueEnd[laneOf(op.Slot, len(t.lanes))]++
		} else {
			d.EventsAtIssueEnd++
			d.EventThreadAtIssueEnd[t.pool.ThreadOf(indexer.Slot(op.Slot))]++
		}
	}
	d.MaxQueries = t.maxDepth(s, true)
	d.MaxEvents = t.maxDepth(s, false)
	for _, st := range stats {
		d.BlockedSubmits += int64(st.Blocked)
		d.BlockedNS += int64(st.BlockedFor)
	}
}

func (t *trial) eventThreads(rec *results.Record, stats []indexer.ThreadStats) {
	for i, st := range stats {
		th := results.EventThread{
			Number: i, Ranks: st.Ranks,
			Accepted: int64(st.Accepted), Applied: int64(st.Applied), Dropped: int64(st.Dropped),
			BusyNS: -1, BusyShare: -1, QueueHighWater: int64(st.QueueHighWater),
			BlockedSubmits: int64(st.Blocked), BlockedNS: int64(st.BlockedFor),
		}
		// A thread that is still at work is not at the end that the share is of.
		if !t.unfinished && rec.Timing.EndNS > 0 {
			// Nothing is applied after the end; a thread that lost its CPU just
			// then notices later that it has nothing more to do.
			th.BusyNS = min(int64(st.Busy), rec.Timing.EndNS)
			th.BusyShare = float64(th.BusyNS) / float64(rec.Timing.EndNS)
		}
		rec.EventThreads = append(rec.EventThreads, th)
	}
}

// maxDepth is the highest number of operations that were handed over and not
// finished at one moment.
func (t *trial) maxDepth(s *stamps, query bool) int64 {
	var in, out []int64
	for i, seen := range s.seen {
		if (t.corpus.Ops[i].Kind == corpus.Query) != query {
			continue
		}
		if seen&seenHanded != 0 {
			in = append(in, s.handed[i])
			if seen&seenFinished != 0 {
				out = append(out, max(s.finished[i], s.handed[i]))
			}
		}
	}
	slices.Sort(in)
	slices.Sort(out)
	var deepest int64
	o := 0
	for i, at := range in {
		for o < len(out) && out[o] < at {
			o++
		}
		deepest = max(deepest, int64(i+1-o))
	}
	return deepest
}

func (t *trial) usage(rec *results.Record, raw *raw) {
	for i := range t.threads {
		th := &t.threads[i]
		out := results.Thread{
			Role: th.role, Number: th.number, CPU: th.cpu,
			PinConfirmed: th.confirmed && th.held,
			Operations:   t.operations(th),
		}
		if th.haveUsage {
			u := th.after.Sub(th.before)
			out.UserNS, out.SystemNS = u.UserNS, u.SystemNS
			out.RunNS, out.RunQueueWaitNS = u.RunNS, u.RunQueueWaitNS
			out.VoluntaryContextSwitches = u.VoluntaryContextSwitches
			out.InvoluntaryContextSwitches = u.InvoluntaryContextSwitches
		} else {
			out.UserNS, out.SystemNS, out.RunNS, out.RunQueueWaitNS = -1, -1, -1, -1
			out.VoluntaryContextSwitches, out.InvoluntaryContextSwitches = -1, -1
		}
		rec.Threads = append(rec.Threads, out)
	}
	b, a := &raw.before, &raw.after
	rec.Machine = results.MachineUse{
		GarbageCollections: int64(a.mem.NumGC - b.mem.NumGC),
		HeapAllocations:    int64(a.mem.Mallocs - b.mem.Mallocs),
		HeapAllocatedBytes: int64(a.mem.TotalAlloc - b.mem.TotalAlloc),
		MajorFaults:        a.proc.MajorFaults - b.proc.MajorFaults,
		MinorFaults:        a.proc.MinorFaults - b.proc.MinorFaults,
		StealNS:            raw.steal,
		PeakRSSBytes:       a.proc.PeakRSSBytes,
		ClockReadNS:        raw.clockRead,
	}
	if r := t.reader; r != nil {
		sec := float64(r.endNS-r.firstNS) / 1e9
		rec.Reader = &results.Reader{
			Rate: t.cfg.ReaderRate, Passes: r.passes, Reads: r.reads,
			LastRanks: int64(r.lastRanks), LastSum: int64(r.lastSum), MissedPasses: r.missed,
		}
		if sec > 0 {
			rec.Reader.PassesPerSec = float64(r.passes) / sec
			rec.Reader.ReadsPerSec = float64(r.reads) / sec
		}
	}
}

func (t *trial) operations(th *threadInfo) int64 {
	switch th.role {
	case roleQueryIssuer:
		return int64(len(t.queryIssuer.handed))
	case roleEventIssuer:
		return int64(len(t.issuers[th.number].handed))
	case roleQuery:
		if t.lost {
			return -1
		}
		if t.serial == nil {
			return int64(len(t.queryThreads[th.number].done))
		}
		answered := 0
		for _, q := range t.queryThreads {
			answered += len(q.done)
		}
		return int64(answered)
	case roleEvent:
		return int64(t.pool.Stats()[th.number].Applied)
	default:
		return t.reader.passes
	}
}

func (t *trial) resident(rec *results.Record) {
	table := t.pool.Residents()
	if table == nil {
		return
	}
	r := &results.Resident{ByRank: []results.RankBlocks{}}
	var counts []int64
	for slot, rank := range t.corpus.Ranks {
		n, ok := table.Count(indexer.Slot(slot))
		if !ok {
			continue
		}
		counts = append(counts, int64(n))
		r.Sum += int64(n)
		r.ByRank = append(r.ByRank, results.RankBlocks{Worker: rank.Worker, DP: rank.DP, Blocks: int64(n)})
	}
	if r.Ranks = len(counts); r.Ranks > 0 {
		d := results.Summarize(counts)
		r.Min, r.Median, r.Max = slices.Min(counts), d.P50, d.Max
	}
	reachable, known := table.SumReachable()
	r.ReachableSum, r.ReachableRanks = int64(reachable), known
	rec.Resident = r
}

func (t *trial) anomalies(rec *results.Record, effects []indexer.EffectTotals) {
	a := &rec.Anomalies
	a.ByRank = []results.RankAnomaly{}
	for slot := range effects {
		e := &effects[slot]
		if e.Duplicate|e.UnknownRemoved|e.Orphaned|e.Conflicting|e.Malformed == 0 {
			continue
		}
		rank := t.corpus.Ranks[slot]
		one := results.RankAnomaly{
			Worker: rank.Worker, DP: rank.DP,
			Duplicate: int64(e.Duplicate), UnknownRemoved: int64(e.UnknownRemoved),
			Orphaned: int64(e.Orphaned), Conflicting: int64(e.Conflicting), Malformed: int64(e.Malformed),
		}
		a.Duplicate += one.Duplicate
		a.UnknownRemoved += one.UnknownRemoved
		a.Orphaned += one.Orphaned
		a.Conflicting += one.Conflicting
		a.Malformed += one.Malformed
		a.ByRank = append(a.ByRank, one)
	}
}

func approximate(a *corpus.Approximate) *results.Approximate {
	return &results.Approximate{
		PredictedBlocks: a.PredictedBlocks,
		OverPredicted:   a.OverPredicted,
		UnderPredicted:  a.UnderPredicted,
		Decisions:       a.Decisions,
		ExpiredBlocks:   a.ExpiredBlocks,
		EvictedBlocks:   a.EvictedBlocks,
		OverCapacity:    a.OverCapacity,
		PeakOver:        a.PeakOver,
		PeakBlocks:      a.PeakBlocks,
		Collisions:      a.Collisions,
	}
}
