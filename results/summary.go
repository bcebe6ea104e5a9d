package results

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/internal/text"
)

// WriteSummary writes a record for people: the verdict first, then what ran, how
// fast, and what to know about it. No line is wider than 80 columns.
func WriteSummary(w io.Writer, r *Record) error {
	s := &summary{}
	s.verdict(r)
	s.what(r)
	s.rates(r)
	s.latencies(r)
	s.state(r)
	s.machine(r)
	for _, text := range r.Warnings {
		s.wrap("warning: ", text)
	}
	_, err := io.WriteString(w, s.b.String())
	return err
}

type summary struct{ b text.Builder }

func (s *summary) line(format string, args ...any) { s.b.Line(fmt.Sprintf(format, args...)) }

func (s *summary) wrap(first, text string) { s.b.Wrap(first, text) }

func (s *summary) verdict(r *Record) {
	switch {
	case r.Validity.Interrupted:
		s.line("INTERRUPTED: not a measurement")
	case !r.Validity.Valid:
		s.line("INVALID: not a measurement")
	case r.Config.Serial:
		s.line("VALID, serial: one operation after another; rates are not comparable")
	case r.Validity.KeptUp:
		s.line("VALID, kept up: done at %.3f x window", over(r.Timing.EndNS, r.Timing.WindowNS))
	default:
		s.line("VALID, did not keep up (overloaded): done at %.3f x window", over(r.Timing.EndNS, r.Timing.WindowNS))
	}
	if x := r.Injected; x != nil {
		s.wrap("NOT A REAL FIGURE: ", fmt.Sprintf("slowed on purpose, each event by %s, each lookup done %d times", ns(x.EventDelayNS), x.QueryWork))
	}
	for _, reason := range r.Validity.Reasons {
		s.wrap("  "+reason.Rule+": ", firstLine(reason.Detail))
	}
	if v := r.Verify; v != nil {
		if v.OK {
			s.wrap("verified: ", fmt.Sprintf("%d resident counts and %d answers equal the reference index", v.Ranks, v.Queries))
		} else {
			s.line("NOT VERIFIED: %d mismatches with the reference index", v.Mismatches)
			for _, m := range v.First {
				s.wrap("  ", m)
			}
		}
	}
	s.line("")
}

func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return text
}

func over(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func (s *summary) what(r *Record) {
	c := &r.Config
	s.wrap("trace    ", fmt.Sprintf("%s, seed %d, length x %d, copies x %d", r.Provenance.TraceName, r.Provenance.Seed, c.LengthFactor, c.DuplicationFactor))
	s.wrap("index    ", fmt.Sprintf("%s, %d ranks (%d workers x %d) of %d blocks of %d tokens", c.Index, c.Ranks, c.Workers, c.DPRanks, c.GPUBlocks, c.BlockSize))
	assigned := ""
	if c.Assign != "" {
		assigned = " (" + c.Assign + ")"
	}
	switch {
	case c.Approximate == "":
	case c.TTLNS > 0:
		s.wrap("events   ", fmt.Sprintf("APPROXIMATE, not the engines': %s retention of routing decisions for %s", c.Approximate, ns(c.TTLNS)))
	default:
		s.wrap("events   ", fmt.Sprintf("APPROXIMATE, not the engines': %s retention of routing decisions", c.Approximate))
	}
	if r.Policy != nil {
		s.wrap("policy   ", r.Policy.Text)
		s.wrap("         ", fmt.Sprintf("reads %s; %d router%s with a state of %s own",
			inputs(r.Policy.Inputs), r.Policy.Partitions, plural(r.Policy.Partitions), its(r.Policy.Partitions)))
	}
	if c.Serial {
		s.wrap("threads  ", fmt.Sprintf("1 that issues and answers everything in turn, %d event%s", c.EventThreads, assigned))
	} else {
		s.wrap("threads  ", fmt.Sprintf("1 query issuer, %d event issuer%s, %d query, %d event%s", c.EventIssuers, plural(c.EventIssuers), c.QueryThreads, c.EventThreads, assigned))
	}
	pins := fmt.Sprintf("query issuer %s, issuers %s, backend %s%s", c.QueryIssuerCPU, c.IssuerCPUs, c.BackendCPUs, readerCPU(c))
	if c.Serial {
		pins = fmt.Sprintf("all of them on %s%s", c.BackendCPUs, readerCPU(c))
	}
	switch {
	case c.Pinned && c.SharedCPUs:
		s.wrap("CPUs     ", "pinned and SHARED: "+pins)
	case c.Pinned:
		s.wrap("CPUs     ", "pinned: "+pins)
	default:
		s.wrap("CPUs     ", "SHARED, not pinned: any of "+orUnknown(r.Provenance.Host.AllowedCPUs))
	}
	s.wrap("resident ", tracking(c))
	s.line("")
}

func inputs(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

func its(n int) string {
	if n == 1 {
		return "its"
	}
	return "their"
}

func readerCPU(c *Config) string {
	if c.ReaderCPU == "" {
		return ""
	}
	return ", reader " + c.ReaderCPU
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

func tracking(c *Config) string {
	if !c.TrackResidentBlocks {
		return "blocks not tracked"
	}
	text := "blocks tracked, counters " + c.CounterLayout
	if c.TrackedFor == "policy" {
		text += ", for the policy"
	}
	return text
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func (s *summary) rates(r *Record) {
	t, x := &r.Totals, &r.Rates
	s.wrap("work     ", fmt.Sprintf("%s queries, %s events, %s block-ops (%s request + %s stored + %s removed)",
		count(float64(t.Queries)), count(float64(t.StoredEvents+t.RemovedEvents+t.ClearedEvents)), count(float64(t.BlockOps)),
		count(float64(t.RequestBlocks)), count(float64(t.StoredBlocks)), count(float64(t.RemovedBlocks))))
	s.wrap("time     ", fmt.Sprintf("window %s, issued by %s, drained in %s, prepared in %s",
		ns(r.Timing.WindowNS), ns(r.Timing.IssueEndNS), ns(r.Timing.DrainNS), ns(r.Timing.PrepareNS)))
	s.line("")
	s.line("%-14s %12s %12s %12s", "", "offered/s", "issued/s", "achieved/s")
	offered := func(perSec float64) string {
		if r.Config.Serial { // one operation after another, without deadlines
			return "none"
		}
		return count(perSec)
	}
	s.line("%-14s %12s %12s %12s", "block-ops", offered(x.OfferedBlockOpsPerSec), count(x.IssuedBlockOpsPerSec), count(x.AchievedBlockOpsPerSec))
	s.line("%-14s %12s %12s %12s", "operations", offered(x.OfferedOpsPerSec), count(x.IssuedOpsPerSec), count(x.AchievedOpsPerSec))
	s.line("")
}

func (s *summary) latencies(r *Record) {
	s.line("%-30s %9s %9s %9s %9s %9s", "latency", "p50", "p90", "p99", "p99.9", "max")
	row := func(name string, d Distribution) {
		if d.N == 0 {
			s.line("%-30s %9s", name, "none")
			return
		}
		s.line("%-30s %9s %9s %9s %9s %9s", name, ns(d.P50), ns(d.P90), ns(d.P99), ns(d.P999), ns(d.Max))
	}
	row("query issue lag", r.Queries.IssueLag)
	row("query queue wait", r.Queries.QueueWait)
	if r.Policy != nil {
		row("  of it upkeep of load", r.Queries.Upkeep)
	}
	row("query service", r.Queries.Service)
	if r.Policy != nil {
		row("  of it lookup", r.Queries.Lookup)
		row("  of it selection", r.Queries.Selection)
		row("  of it booking", r.Queries.Booking)
	}
	row("query scheduled to finished", r.Queries.ScheduledToFinished)
	row("event issue lag", r.Events.IssueLag)
	row("event accepted to finished", r.Events.AcceptedToFinished)
	row("event scheduled to finished", r.Events.ScheduledToFinished)
	s.line("")
}

func (s *summary) state(r *Record) {
	d := &r.Depths
	s.wrap("waiting  ", fmt.Sprintf("at the end of issuing %d queries and %d events; at most %d and %d",
		d.QueriesAtIssueEnd, d.EventsAtIssueEnd, d.MaxQueries, d.MaxEvents))
	s.eventThreads(r)
	matched := fmt.Sprintf("%.1f ranks matched a query", over(r.Totals.MatchedRanks, r.Totals.CompletedQueries))
	if r.Policy != nil && r.Policy.ChosenBlocks < 0 {
		matched = "nothing was looked up: the policy does not read CACHE"
	}
	s.wrap("answers  ", fmt.Sprintf("%s; the mock engines hit %.1f%% of the request blocks", matched, 100*over(r.Totals.EngineHitBlocks, r.Totals.RequestBlocks)))
	s.policy(r)
	if a := r.Approximate; a != nil {
		share := func(n int64) float64 { return 100 * over(n, r.Totals.RequestBlocks) }
		s.wrap("guessed  ", fmt.Sprintf("approximate retention predicted %.1f%%: %.1f%% too many and %.1f%% too few, request by request; %s blocks expired, %s were evicted",
			share(a.PredictedBlocks), share(a.OverPredicted), share(a.UnderPredicted), count(float64(a.ExpiredBlocks)), count(float64(a.EvictedBlocks))))
		if a.OverCapacity > 0 {
			s.wrap("         ", fmt.Sprintf("over capacity after %s changes, by up to %s blocks", count(float64(a.OverCapacity)), count(float64(a.PeakOver))))
		}
		if a.Collisions > 0 {
			s.wrap("         ", fmt.Sprintf("prompts and answers cut off where two blocks had one name: %d", a.Collisions))
		}
	}
	if b := r.Resident; b != nil {
		s.wrap("resident ", fmt.Sprintf("%s blocks on %d ranks; min %s, median %s, max %s a rank",
			count(float64(b.Sum)), b.Ranks, count(float64(b.Min)), count(float64(b.Median)), count(float64(b.Max))))
		if b.ReachableRanks > 0 {
			s.wrap("         ", fmt.Sprintf("%s reachable on %d ranks", count(float64(b.ReachableSum)), b.ReachableRanks))
		}
	}
	if x := r.Reader; x != nil {
		s.wrap("reader   ", fmt.Sprintf("%s passes/s, %s reads/s; the last pass saw %s blocks on %d ranks",
			count(x.PassesPerSec), count(x.ReadsPerSec), count(float64(x.LastSum)), x.LastRanks))
	}
	s.index(r)
	if a := &r.Anomalies; len(a.ByRank) > 0 {
		s.wrap("odd      ", fmt.Sprintf("%d blocks stored twice, %d unknown removed, %d orphaned, %d conflicting; %d malformed events",
			a.Duplicate, a.UnknownRemoved, a.Orphaned, a.Conflicting, a.Malformed))
	}
}

func (s *summary) policy(r *Record) {
	p := r.Policy
	if p == nil {
		return
	}
	text := fmt.Sprintf("%s selections, %s failures; %d of %d ranks, the busiest %.2f x the mean; the trace's rank %.1f%%",
		count(float64(p.Selections)), count(float64(p.Failures)), p.DistinctRanks, r.Config.Ranks, p.Imbalance, 100*over(p.TraceRank, p.Selections))
	s.wrap("chosen   ", text)
	if p.ChosenBlocks >= 0 {
		share := func(n int64) float64 { return 100 * over(n, r.Totals.RequestBlocks) }
		s.wrap("         ", fmt.Sprintf("the index had %.1f%% of the request blocks on the chosen ranks, %.1f%% on the trace's, %.1f%% on the best",
			share(p.ChosenBlocks), share(p.TraceBlocks), share(p.BestBlocks)))
	}
}

// shownThreads bounds how many event threads are shown one by one.
const shownThreads = 8

func (s *summary) eventThreads(r *Record) {
	n := len(r.EventThreads)
	if n == 0 {
		return
	}
	shares, depths := make([]float64, n), make([]int64, n)
	for i, th := range r.EventThreads {
		shares[i], depths[i] = th.BusyShare, th.QueueHighWater
	}
	between := ", "
	if n > shownThreads {
		between = " to "
		shares = []float64{slices.Min(shares), slices.Max(shares)}
		depths = []int64{slices.Min(depths), slices.Max(depths)}
	}
	var busy, queued []string
	for i, share := range shares {
		if share < 0 {
			busy = append(busy, "unknown")
		} else {
			busy = append(busy, percent(share, 1))
		}
		queued = append(queued, count(float64(depths[i])))
	}
	s.wrap("busy     ", fmt.Sprintf("event threads %s of the run; at most %s events in a queue of %s",
		strings.Join(busy, between), strings.Join(queued, between), count(float64(r.Config.QueueCapacity))))
}

func (s *summary) index(r *Record) {
	x := r.Index
	if x == nil {
		return
	}
	if m := x.Memory; m != nil {
		text := count(float64(m.Bytes)) + "B"
		if m.BytesPerPair > 0 {
			text += fmt.Sprintf(", %s B for each of %s resident blocks", significant(m.BytesPerPair), count(float64(x.ResidentPairs)))
		}
		if r.Config.HugePages || m.HugeBytes != 0 {
			text += fmt.Sprintf("; %sB on huge pages", count(float64(m.HugeBytes)))
		}
		s.wrap("memory   ", text)
	}
	if h := x.Shape; h != nil {
		text := fmt.Sprintf("%s %ss of %s distinct blocks, held by at most %s ranks", count(float64(h.Units)), h.Unit, count(float64(h.Blocks)), count(float64(h.MaxHolders)))
		if h.MaxDepth > 0 {
			text += fmt.Sprintf("; at most %s deep", count(float64(h.MaxDepth)))
		}
		s.wrap("shape    ", text)
	}
}

func (s *summary) machine(r *Record) {
	type use struct {
		threads              int
		run, wait, preempted int64
	}
	var roles []string
	uses := map[string]use{}
	for _, th := range r.Threads {
		u, seen := uses[th.Role]
		if !seen {
			roles = append(roles, th.Role)
		}
		uses[th.Role] = use{u.threads + 1, plus(u.run, th.RunNS), plus(u.wait, th.RunQueueWaitNS), plus(u.preempted, th.InvoluntaryContextSwitches)}
	}
	if len(roles) > 0 {
		s.line("")
		s.line("%-14s %8s %10s %8s %17s %12s", "CPU time", "threads", "on a CPU", "share", "waiting for one", "preempted")
		for _, role := range roles {
			u := uses[role]
			// The share of the time in which all threads of the role could have run.
			share := func(run int64) string { return percent(float64(run), float64(r.Timing.EndNS)*float64(u.threads)) }
			s.line("%-14.14s %8d %10s %8s %17s %12s", role, u.threads, known(u.run, ns), known(u.run, share), known(u.wait, ns),
				known(u.preempted, func(n int64) string { return count(float64(n)) }))
		}
	}
	m := &r.Machine
	s.line("")
	s.wrap("machine  ", fmt.Sprintf("%d collections, %d heap allocations, %d major faults, steal %s, peak %s resident",
		m.GarbageCollections, m.HeapAllocations, m.MajorFaults, known(m.StealNS, ns), count(float64(m.PeakRSSBytes))+"B"))
}

// plus adds usages; with one that is not known, the sum is not known either.
func plus(a, b int64) int64 {
	switch {
	case a < 0 || b < 0:
		return -1
	case a > math.MaxInt64-b:
		return math.MaxInt64
	}
	return a + b
}

// percent writes part of whole, as in "97%".
func percent(part, whole float64) string {
	if whole <= 0 {
		return "unknown"
	}
	return significant(100*part/whole) + "%"
}

// known writes a usage that may be -1.
func known(n int64, write func(int64) string) string {
	if n < 0 {
		return "unknown"
	}
	return write(n)
}

// ns writes a duration in ns with three significant digits.
func ns(n int64) string {
	units := []struct {
		size float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}}
	v := float64(n)
	for _, u := range units {
		// Rounding must not leave 1000 of the smaller unit.
		if math.Abs(v) >= u.size*0.9995 {
			return significant(v/u.size) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "ns"
}

// count writes a number with three significant digits and k, M or G.
func count(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= u.size*0.9995 {
			return significant(v/u.size) + u.name
		}
	}
	return significant(v)
}

// significant writes three digits, but for whole numbers, which it writes as
// they are. Of what no trial has it writes the magnitude, so that columns hold.
func significant(v float64) string {
	switch a := math.Abs(v); {
	case a >= 999_999.5:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case a == math.Trunc(a) && a < 1000, a >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
