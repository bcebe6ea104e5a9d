package replay

import (
	"fmt"
	"time"

	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/results"
)

// Limits of validity and of keeping up, as shares of the window.
const (
	issueLimit  = 1.01
	keptUpLimit = 1.10
	// overloadedFrom is where the throughput is that of the backend and hardly
	// that of the window.
	overloadedFrom = 1.5
)

// brokenRules lists the rules of validity that the trial as a whole broke; join
// has those of single operations.
func (t *trial) brokenRules(rec *results.Record, raw *raw) []results.Reason {
	var out []results.Reason
	broken := func(rule, format string, args ...any) {
		out = append(out, results.Reason{Rule: rule, Detail: fmt.Sprintf(format, args...)})
	}
	if raw.interrupted {
		broken("interrupted", "a signal stopped the trial after %d of %d operations",
			rec.Totals.IssuedQueries+rec.Totals.IssuedEvents, len(t.corpus.Ops))
	}
	for _, err := range t.failed {
		broken("thread_failed", "%v", err)
	}
	if err := t.queryIssuer.err; err != nil {
		broken("issuer_failed", "query issuer: %v", err)
	}
	if t.serial != nil && t.serial.err != nil {
		broken("issuer_failed", "serial run: %v", t.serial.err)
	}
	for _, e := range t.issuers {
		if e.err != nil {
			broken("issuer_failed", "event issuer %d: %v", e.number, e.err)
		}
	}
	if err := t.pool.Err(); err != nil {
		broken("event_thread_failed", "%v", err)
	}
	if raw.drainErr != nil {
		broken("drain", "%v", raw.drainErr)
	}
	window := rec.Timing.WindowNS
	if limit := int64(issueLimit * float64(window)); rec.Timing.IssueEndNS > limit && !t.cfg.Serial {
		broken("issue_span", "the last operation was issued at %v, %.2f%% of the window of %v; the limit is %.0f%%",
			time.Duration(rec.Timing.IssueEndNS), 100*float64(rec.Timing.IssueEndNS)/float64(window), time.Duration(window), 100*issueLimit)
	}
	if n := rec.Machine.GarbageCollections; n > 0 {
		broken("garbage_collection", "%d collections ran in the timed run", n)
	}
	if n := rec.Anomalies.Malformed; n > 0 {
		broken("event_failed", "%d events were malformed", n)
	}
	for _, th := range rec.Threads {
		if th.CPU != NoCPU && !th.PinConfirmed {
			broken("pin", "%s thread %d was not on CPU %d alone from start to end", th.Role, th.Number, th.CPU)
		}
	}
	return out
}

// invalidate adds a reason that is known only after the summary.
func invalidate(rec *results.Record, rule, detail string) {
	rec.Validity.Reasons = append(rec.Validity.Reasons, results.Reason{Rule: rule, Detail: detail})
	rec.Validity.Valid, rec.Validity.KeptUp = false, false
}

// warn adds what does not make the trial invalid but should be known to whoever
// reads its figures.
func (t *trial) warn(rec *results.Record) {
	say := func(format string, args ...any) { rec.Warnings = append(rec.Warnings, fmt.Sprintf(format, args...)) }
	if x := rec.Injected; x != nil {
		say("slowed on purpose: each event took %v longer and each lookup was done %d times (--inject-event-delay, --inject-query-work); no figure is that of the index",
			time.Duration(x.EventDelayNS), x.QueryWork)
	}
	if t.cfg.Serial {
		say("one operation after another (--serial): no rate and no latency is comparable with that of another trial, but decisions are")
	}
	if x := rec.Policy; x != nil && x.ChosenBlocks >= 0 && !t.cfg.Serial && !rec.Validity.KeptUp {
		say("the policy chose late: when a query was looked up, the index held events that were due after it, those of its own request too, so that more was matched than a router would have seen; --serial has the order of the corpus")
	}
	p := &t.cfg.Placement
	if p.Note != "" {
		say("%s; figures are not comparable with those of a pinned run", p.Note)
	} else if p.Shared {
		say("threads share CPUs (--allow-shared-cpus); figures are not comparable with those of a run on CPUs of its own")
	}
	if p.Pinned {
		t.warnOfSiblings(say)
	}
	if ranks := len(t.corpus.Ranks); p.Threads.EventThreads > ranks {
		say("%d event threads but %d ranks: %d threads have nothing to do", p.Threads.EventThreads, ranks, p.Threads.EventThreads-ranks)
	}
	if a := &rec.Anomalies; len(a.ByRank) > 0 {
		say("the index met odd events on %d ranks: %d blocks stored twice, %d unknown removed, %d orphaned, %d conflicting; a corpus of kvbench's own has none, so the index or the corpus is at fault",
			len(a.ByRank), a.Duplicate, a.UnknownRemoved, a.Orphaned, a.Conflicting)
	}
	if t.plan.numEvents == 0 {
		say("the corpus has no events, so the index stayed empty")
	}
	if n := rec.Depths.BlockedSubmits; n > 0 {
		say("issuers met a full queue %d times and waited %v; the issue lag includes that", n, time.Duration(rec.Depths.BlockedNS))
	}
	if n := t.corpus.Manifest.Totals.RefusedRequests; n > 0 {
		say("%d requests were larger than a whole rank and were asked for but never stored; a larger --gpu-blocks holds them", n)
	}
	if n := rec.Machine.MajorFaults; n > 0 {
		say("%d major page faults in the timed run", n)
	}
	if r := rec.Reader; r != nil && r.MissedPasses > 0 {
		say("the reader missed %d of its paced passes and made %d: it ran at %.0f passes/s, asked were %.0f", r.MissedPasses, r.Passes, r.PassesPerSec, r.Rate)
	}
	if steal := rec.Machine.StealNS; steal > 0 && rec.Timing.EndNS > 0 && float64(steal) > 0.01*float64(rec.Timing.EndNS) {
		say("the hypervisor took %v of CPU time meanwhile", time.Duration(steal))
	}
	if rec.Validity.Valid && !rec.Validity.KeptUp && !t.cfg.Serial {
		switch over := float64(rec.Timing.EndNS) / float64(rec.Timing.WindowNS); {
		case over < overloadedFrom:
			say("done at %.2f x window, which is neither keep-up (at most %.2f) nor clearly overloaded (at least %.1f): shorten the window to measure throughput, lengthen it to measure latency", over, keptUpLimit, overloadedFrom)
		default:
			say("overloaded: done at %.2f x window; throughput measures the backend, latencies measure the queue", over)
		}
	}
}

// warnOfIndex adds what only the state of the index shows.
func (t *trial) warnOfIndex(rec *results.Record) {
	if !t.cfg.HugePages {
		return
	}
	switch m := rec.Index.Memory; {
	case m == nil:
		rec.Warnings = append(rec.Warnings, "huge pages were asked for; the index does not say what it obtained")
	case m.HugeBytes == 0:
		rec.Warnings = append(rec.Warnings, "huge pages were asked for and 0 bytes of the index lie on them: /sys/kernel/mm/transparent_hugepage/enabled must say always or madvise, and the machine must have free memory in pieces of that size")
	}
}

// warnOfSiblings says which threads compete for the units of one physical core
// though each has a CPU of its own.
func (t *trial) warnOfSiblings(say func(format string, args ...any)) {
	topology, err := host.Topology()
	if err != nil {
		say("the kernel does not say which CPUs share a physical core, so threads may: %v", err)
		return
	}
	cpus := make([]int, len(t.threads))
	for i := range t.threads {
		cpus[i] = t.threads[i].cpu
	}
	for _, shared := range host.SharedCores(cpus, topology) {
		say("CPUs %s are on one physical core, so their threads slow each other down; give each thread a core of its own", host.FormatCPUs(shared))
	}
}
