package replay

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/indexer/noop"
	"github.com/kvbench/kvbench/indexer/runs"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/catalogue"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/results/table"
)

func parsePolicy(t testing.TB, text string, added ...catalogue.Definition) *catalogue.Policy {
	t.Helper()
	p, err := catalogue.Parse(text, catalogue.Merge(catalogue.Standard(), added))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// keep returns a Config.Decisions that collects rows.
func keep(rows *[]table.Decision) func(*results.Validity, iter.Seq[table.Decision]) error {
	return func(_ *results.Validity, seq iter.Seq[table.Decision]) error {
		*rows = slices.Collect(seq)
		return nil
	}
}

// serially configures a serial trial with so many partitions.
func serially(t testing.TB, c *corpus.Corpus, index indexer.Factory, policy *catalogue.Policy, partitions, eventThreads int) Config {
	t.Helper()
	cfg := testConfig(t, c, index)
	p, err := Place(noRequest(), ThreadCounts{EventIssuers: 1, QueryThreads: partitions, EventThreads: eventThreads}, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Placement, cfg.Serial, cfg.Policy = p, true, policy
	return cfg
}

// naiveDecisions replays the corpus with one naive router for each partition.
func naiveDecisions(c *corpus.Corpus, policy naivePolicy, partitions, lanes int) []table.Decision {
	routers := make([]*naiveRouter, partitions)
	numbers := make([]int64, partitions)
	for i := range routers {
		routers[i] = newNaiveRouter(c, i)
	}
	var out []table.Decision
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Kind != corpus.Query {
			for _, r := range routers {
				r.apply(uint32(i))
			}
			continue
		}
		number := laneOf(op.Slot, lanes) % partitions
		r, locals := routers[number], c.Locals(uint32(i))
		v := r.look(op, locals)
		slot, cost := policy(r, v)
		r.book(op, locals, v, slot)
		chosen, drawn, of := c.Ranks[slot], c.Ranks[op.Slot], c.Requests[op.Seq]
		best := slices.Max(v.overlap)
		out = append(out, table.Decision{
			Request: int64(op.Seq), TraceRow: int64(of.Row), Session: int64(of.Session),
			QueryThread: int32(number), Number: numbers[number], DeadlineNS: op.Deadline,
			State: "chosen", WorkerID: &chosen.Worker, DPRank: &chosen.DP,
			TraceWorkerID: drawn.Worker, TraceDPRank: drawn.DP, Candidates: int64(len(c.Ranks)), Cost: &cost,
			RequestBlocks: int64(len(locals)), OverlapBlocks: &v.overlap[slot],
			TraceOverlapBlocks: &v.overlap[op.Slot], BestOverlapBlocks: &best,
		})
		numbers[number]++
	}
	return out
}

// busyCorpus is testCorpus with so many requests at a time that load matters.
func busyCorpus(t testing.TB, requests int) *corpus.Corpus {
	t.Helper()
	c := prepareTest(t, requests, 100*time.Millisecond, 20)
	if most := partitionSizes(c, 1, func(uint32) int { return 0 })[0].inFlight; most < 20 {
		t.Fatalf("at most %d requests are in flight; the test would show little", most)
	}
	return c
}

func TestSerialDecisionsAreThoseOfANaiveRouter(t *testing.T) {
	c := busyCorpus(t, 200)
	for text, naive := range naivePolicies {
		for _, partitions := range []int{1, 3} {
			if partitions == 1 && text != "kv" && text != "random" {
				continue // three show more than one does
			}
			t.Run(fmt.Sprintf("%s/%d", text, partitions), func(t *testing.T) {
				policy := parsePolicy(t, text)
				cfg := serially(t, c, runs.Factory(), policy, partitions, 2)
				cfg.QueryLanes = 4
				var got []table.Decision
				cfg.Decisions = keep(&got)
				rec := mustRun(t, cfg)
				if !rec.Validity.Valid {
					t.Fatalf("not valid: %+v", rec.Validity.Reasons)
				}
				want := naiveDecisions(c, naive, partitions, cfg.QueryLanes)
				moved, matched := 0, int64(0)
				for i := range want {
					matched += *want[i].OverlapBlocks
					if *want[i].WorkerID != want[i].TraceWorkerID {
						moved++
					}
					if !policy.Inputs().Has(policies.Cache) {
						want[i].OverlapBlocks, want[i].TraceOverlapBlocks, want[i].BestOverlapBlocks = nil, nil, nil
					}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("the decisions differ from those of the naive router: %.2000s", d)
				}
				if moved == 0 || matched == 0 {
					t.Error("the corpus is too easy")
				}
			})
		}
	}
}

// TestSerialDecisionsAreThoseOfTheCorpus changes everything that must not matter.
func TestSerialDecisionsAreThoseOfTheCorpus(t *testing.T) {
	c := busyCorpus(t, 250)
	for _, text := range []string{"kv:temperature=0.3", "kv-resident", "power-of-two", "chwbl", "prefix-threshold"} {
		policy := parsePolicy(t, text)
		var first, second []table.Decision
		cfg := serially(t, c, runs.Factory(), policy, 2, 1)
		cfg.Decisions = keep(&first)
		mustRun(t, cfg)
		cfg = serially(t, c, flat.Factory(), policy, 2, 3)
		cfg.Decisions, cfg.TrackResidentBlocks, cfg.WarmupLookups, cfg.Layout, cfg.Assign = keep(&second), true, 3, indexer.Padded, Balanced
		mustRun(t, cfg)
		if len(first) != 250 {
			t.Errorf("%s: %d decisions of 250", text, len(first))
		}
		if d := cmp.Diff(first, second); d != "" {
			t.Errorf("%s: %.1000s", text, d)
		}
	}
}

func TestSerialRecord(t *testing.T) {
	c := testCorpus(t, 300, 100*time.Millisecond)
	cfg := serially(t, c, flat.Factory(), nil, 1, 2)
	cfg.Verify = true
	rec := mustRun(t, cfg)
	if !rec.Validity.Valid || rec.Validity.KeptUp || !rec.Verify.OK {
		t.Errorf("%+v, %+v", rec.Validity, rec.Verify)
	}
	m := &c.Manifest.Totals
	if rec.Totals.CompletedBlockOps != m.BlockOps() || rec.Totals.IssuedBlockOps != m.BlockOps() {
		t.Errorf("totals %+v of a corpus with %+v", rec.Totals, m)
	}
	q, e := &rec.Queries, &rec.Events
	if q.Service.N != m.Requests || q.Lookup != q.Service || e.AcceptedToFinished.N != m.Events() {
		t.Errorf("latencies %+v, %+v", q, e)
	}
	if q.IssueLag.N+q.QueueWait.N+q.ScheduledToFinished.N+e.IssueLag.N+e.ScheduledToFinished.N+q.Selection.N+q.Booking.N != 0 {
		t.Errorf("latencies from deadlines that nothing waited for: %+v, %+v", q, e)
	}
	if !rec.Config.Serial || rec.Config.EventIssuers != 0 || rec.Rates.OfferedOpsPerSec != 0 || !strings.Contains(strings.Join(rec.Warnings, " "), "not") {
		t.Errorf("config %+v, rates %+v, warnings %q", rec.Config, rec.Rates, rec.Warnings)
	}
	if len(rec.Threads) != 1+2 || rec.Threads[0].Operations != m.Requests {
		t.Errorf("threads %+v", rec.Threads)
	}
	cfg.Placement.Threads.EventIssuers = 2
	if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "--serial") {
		t.Errorf("two issuers: %v", err)
	}
}

func TestSerialRunEndsWithItsEventThread(t *testing.T) {
	c := testCorpus(t, 300, 100*time.Millisecond)
	n := 0
	broken := wrap(func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
		if n++; n == 50 {
			panic("broken on purpose")
		}
		return w.Apply(ev)
	}, nil)
	rec := mustRun(t, serially(t, c, broken, nil, 1, 1))
	if rec.Validity.Valid || !brokenBy(rec, "event_thread_failed") || !brokenBy(rec, "issuer_failed") {
		t.Errorf("%+v", rec.Validity)
	}
}

// TestEveryPolicyInParallel runs whole trials and checks what is conserved.
func TestEveryPolicyInParallel(t *testing.T) {
	const requests = 300
	c := testCorpus(t, requests, 60*time.Millisecond)
	for _, d := range catalogue.Standard() {
		if d.Kind != catalogue.KindPolicy {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			cfg := testConfig(t, c, runs.Factory())
			cfg.Policy = parsePolicy(t, d.Name)
			var rows []table.Decision
			cfg.Decisions = keep(&rows)
			rec := mustRun(t, cfg)
			if !onlyLate(rec) {
				t.Fatalf("not valid: %+v", rec.Validity.Reasons)
			}
			p, cache := rec.Policy, cfg.Policy.Inputs().Has(policies.Cache)
			if p.Selections != requests || p.Failures != 0 || p.Partitions != 2 || len(p.ByPartition) != 2 || p.FirstFailure != "" {
				t.Fatalf("%+v", p)
			}
			if p.Name != d.Name || p.Text != d.Name || rec.Config.Policy != d.Name || strings.Join(p.Inputs, "|") != cfg.Policy.Inputs().String() && p.Inputs != nil && len(p.Inputs) > 0 {
				t.Errorf("%+v", p)
			}
			a, b := p.ByPartition[0], p.ByPartition[1]
			if a.Selections+b.Selections != requests || a.Selections == 0 || b.Selections == 0 {
				t.Errorf("partitions %+v", p.ByPartition)
			}
			q := &rec.Queries
			if q.Selection.N != requests || q.Booking.N != requests || q.Lookup.N != map[bool]int64{true: requests}[cache] {
				t.Errorf("%d lookups, %d selections, %d bookings", q.Lookup.N, q.Selection.N, q.Booking.N)
			}
			if load := cfg.Policy.Inputs().Has(policies.Load); q.Upkeep.N != map[bool]int64{true: requests}[load] || (q.Upkeep.Mean > 0) != load {
				t.Errorf("upkeep %+v", q.Upkeep)
			}
			if sum := q.Lookup.Mean + q.Selection.Mean + q.Booking.Mean; math.Abs(sum-q.Service.Mean) > 1 {
				t.Errorf("the parts have a mean of %v ns, the service %v", sum, q.Service.Mean)
			}
			if !cache {
				if p.ChosenBlocks != -1 || p.TraceBlocks != -1 || p.BestBlocks != -1 || rec.Totals.MatchedRanks != 0 {
					t.Errorf("nothing was looked up: %+v", p)
				}
			} else if p.ChosenBlocks < 0 || p.ChosenBlocks > p.BestBlocks || p.TraceBlocks > p.BestBlocks || p.BestBlocks == 0 ||
				a.ChosenBlocks+b.ChosenBlocks != p.ChosenBlocks || p.TraceBlocks != rec.Totals.RankBlocks {
				t.Errorf("blocks %+v", p)
			}
			var sum, overlap, same int64
			perRank := map[indexer.Rank]int64{}
			for i, row := range rows {
				if row.Request != int64(i) || row.State != "chosen" || row.SelectionNS == nil || (row.LookupNS == nil) == cache || row.Candidates < 1 {
					t.Fatalf("row %d: %+v", i, row)
				}
				rank := indexer.Rank{Worker: *row.WorkerID, DP: *row.DPRank}
				perRank[rank]++
				sum++
				if cache {
					overlap += *row.OverlapBlocks
				}
				if rank == (indexer.Rank{Worker: row.TraceWorkerID, DP: row.TraceDPRank}) {
					same++
				}
			}
			if sum != requests || cache && overlap != p.ChosenBlocks || same != p.TraceRank || len(perRank) != p.DistinctRanks {
				t.Errorf("the decisions do not add up to %+v", p)
			}
		})
	}
}

func TestPolicyTurnsTrackingOn(t *testing.T) {
	c := testCorpus(t, 250, 30*time.Millisecond)
	for _, test := range []struct {
		policy string
		flag   bool
		want   string
	}{
		{"kv", false, ""}, {"kv", true, "flag"},
		{"kv-resident", false, "policy"}, {"kv-resident", true, "flag, policy"},
		{"eviction-pressure", false, "policy"},
	} {
		cfg := testConfig(t, c, runs.Factory())
		cfg.Policy, cfg.TrackResidentBlocks = parsePolicy(t, test.policy), test.flag
		rec := mustRun(t, cfg)
		tracked := test.want != ""
		if rec.Config.TrackedFor != test.want || rec.Config.TrackResidentBlocks != tracked || (rec.Resident != nil) != tracked || (rec.Config.CounterLayout != "") != tracked {
			t.Errorf("%+v: for %q, tracked %v", test, rec.Config.TrackedFor, rec.Config.TrackResidentBlocks)
		}
	}
}

// scorer is a scorer for tests.
type scorer struct {
	in    policies.Inputs
	score func(v *policies.View, costs []float64)
}

func (s scorer) Inputs() policies.Inputs                 { return s.in }
func (s scorer) Score(v *policies.View, costs []float64) { s.score(v, costs) }

func scored(name string, s scorer) catalogue.Definition {
	return catalogue.Definition{Name: name, Summary: "for tests", Doc: "For tests.", Source: "tests", GoesWrong: "On purpose.",
		Build: func(catalogue.Values) (policies.Recipe, error) {
			return policies.Recipe{
				Scorers: []policies.Weighted{{Name: name, Scorer: s, Weight: 1}},
				Picker:  policies.Named[policies.Picker]{Component: policies.LeastCost{}},
			}, nil
		}}
}

func TestFailedSelectionsMakeATrialInvalid(t *testing.T) {
	const requests = 300
	c := testCorpus(t, requests, 60*time.Millisecond)
	failing := scored("failing", scorer{policies.Cache | policies.Load, func(v *policies.View, costs []float64) {
		clear(costs)
		if v.Request().ID%7 == 3 {
			costs[2] = math.Inf(1)
		}
	}})
	cfg := testConfig(t, c, runs.Factory())
	cfg.Policy = parsePolicy(t, "failing", failing)
	var rows []table.Decision
	cfg.Decisions = keep(&rows)
	rec := mustRun(t, cfg)
	const failures = (requests + 3) / 7
	p := rec.Policy
	if rec.Validity.Valid || !brokenBy(rec, "selection_failed") || p.Failures != failures || p.Selections != requests-failures ||
		!strings.Contains(p.FirstFailure, "scorer failing") || !strings.Contains(p.FirstFailure, "operation") {
		t.Errorf("%d failures: %+v, %+v", failures, rec.Validity, p)
	}
	failed := 0
	for _, row := range rows {
		if (row.Request%7 == 3) != (row.State == "failed") || (row.State == "failed") != (row.WorkerID == nil && row.DPRank == nil && row.Cost == nil && row.OverlapBlocks == nil) {
			t.Errorf("%+v", row)
		}
		if row.State == "failed" {
			failed++
		}
	}
	if failed != failures {
		t.Errorf("%d failed rows of %d", failed, failures)
	}
}

func TestPanickingPolicyEndsTheTrialWithAReason(t *testing.T) {
	c := testCorpus(t, 300, 60*time.Millisecond)
	panicking := scored("panicking", scorer{policies.Cache, func(v *policies.View, costs []float64) {
		clear(costs)
		if v.Request().ID == 150 {
			panic("on purpose")
		}
	}})
	cfg := testConfig(t, c, flat.Factory())
	cfg.Policy = parsePolicy(t, "panicking", panicking)
	rec := mustRun(t, cfg)
	if rec.Validity.Valid || !brokenBy(rec, "thread_failed") || rec.Policy.Selections >= 300 {
		t.Errorf("%+v, %+v", rec.Validity, rec.Policy)
	}
	cfg = serially(t, c, flat.Factory(), cfg.Policy, 1, 1)
	if rec := mustRun(t, cfg); rec.Validity.Valid || !brokenBy(rec, "thread_failed") || rec.Policy.Selections != 150 {
		t.Errorf("%+v, %+v", rec.Validity, rec.Policy)
	}
}

func TestResidentBlocksNeedCache(t *testing.T) {
	bad := scored("no-cache", scorer{policies.ExperimentalResidentBlocks, func(*policies.View, []float64) {}})
	if _, err := catalogue.Parse("no-cache", []catalogue.Definition{bad}); err == nil || !strings.Contains(err.Error(), policies.ErrResidentWithoutCache.Error()) {
		t.Errorf("%v", err)
	}
}

func TestPolicyConfigRefuses(t *testing.T) {
	c := testCorpus(t, 250, time.Millisecond)
	opened := 0
	index := flat.Factory()
	open := index.New
	index.New = func(cfg indexer.Config) (indexer.Index, error) { opened++; return open(cfg) }
	cfg := testConfig(t, c, index)
	cfg.Decisions = keep(new([]table.Decision))
	if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "--policy") {
		t.Errorf("decisions without a policy: %v", err)
	}
	if opened != 0 {
		t.Error("the index was opened for a trial that cannot be")
	}
	cfg.Policy = parsePolicy(t, "kv")
	cfg.Decisions = func(*results.Validity, iter.Seq[table.Decision]) error { return context.Canceled }
	if rec, err := Run(context.Background(), cfg); err == nil || rec == nil {
		t.Errorf("decisions that cannot be written: record %v, %v; the measurement must not be lost", rec != nil, err)
	}
}

// TestPolicyDoesNotAllocate is TestWindowDoesNotAllocate with policies.
func TestPolicyDoesNotAllocate(t *testing.T) {
	small, large := testCorpus(t, 250, 100*time.Millisecond), testCorpus(t, 2500, 100*time.Millisecond)
	for _, text := range []string{"round-robin", "least-loaded", "kv", "kv:temperature=0.5", "session", "chwbl", "prefix-threshold", "kv-resident"} {
		const handful = 100
		for _, c := range []*corpus.Corpus{small, large} {
			cfg := testConfig(t, c, noop.Factory())
			cfg.Policy = parsePolicy(t, text)
			if n := mustRun(t, cfg).Machine.HeapAllocations; n > handful {
				t.Errorf("%s: %d objects with %d requests", text, n, len(c.Requests))
			}
		}
	}
}

// ended returns a trial with a policy whose run is over.
func ended(t *testing.T) *trial {
	t.Helper()
	cfg := testConfig(t, testCorpus(t, 300, 50*time.Millisecond), flat.Factory())
	cfg.Policy = parsePolicy(t, "kv")
	if err := cfg.fill(); err != nil {
		t.Fatal(err)
	}
	index, err := flat.New(indexConfig(&cfg))
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{cfg: &cfg, corpus: cfg.Corpus, clock: host.NewClock()}
	ctx := context.Background()
	if err := tr.setUp(ctx, index); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.pool.Close(ctx) })
	if _, err := tr.measure(ctx); err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestEndPartitionsFindsWhatIsWrong(t *testing.T) {
	if reasons := ended(t).endPartitions(); len(reasons) > 0 {
		t.Fatalf("a good run: %+v", reasons)
	}
	for rule, falsify := range map[string]func(p *partition){
		"completion":       func(p *partition) { p.choices = p.choices[1:] },
		"selection_failed": func(p *partition) { p.fail(3, context.Canceled) },
		"load_left": func(p *partition) {
			r := p.request
			r.ID = 1 << 40
			if err := p.load.Dispatch(&r, 0, 0); err != nil {
				t.Error(err)
			}
		},
	} {
		tr := ended(t)
		falsify(tr.queryThreads[1].partition)
		if reasons := tr.endPartitions(); len(reasons) != 1 || reasons[0].Rule != rule {
			t.Errorf("%s: found %+v", rule, reasons)
		}
	}
}

// TestPartitionSizesAreNotExceeded looks at what the account really holds.
func TestPartitionSizesAreNotExceeded(t *testing.T) {
	c := testCorpus(t, 600, 100*time.Millisecond)
	sizes := partitionSizes(c, 2, func(slot uint32) int { return int(slot) % 2 })
	policy := parsePolicy(t, "session:inner=kv")
	for n, size := range sizes {
		var answer indexer.Answer
		answer.Grow(len(c.Ranks))
		p, err := newPartition(c, policy, n, size, &answer, nil)
		if err != nil {
			t.Fatal(err)
		}
		if size.queries == 0 || size.inFlight == 0 || size.longest == 0 {
			t.Fatalf("%+v", size)
		}
		queries, most, sessions, room := 0, 0, map[uint32]bool{}, cap(p.due)
		for i := range c.Ops {
			op := &c.Ops[i]
			if op.Kind != corpus.Query || int(op.Slot)%2 != n {
				continue
			}
			p.come(op.Deadline)
			p.ask(op, c.Locals(uint32(i)))
			chosen, err := p.pipeline.Select(&p.request, &p.state)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.book(&chosen); err != nil {
				t.Fatal(err)
			}
			queries++
			most = max(most, p.load.Active())
			sessions[c.Requests[op.Seq].Session] = true
		}
		if queries != size.queries || most > size.inFlight || len(sessions) != size.sessions || cap(p.due) != room {
			t.Errorf("%d queries, %d in flight, %d sessions, room for %d of %d: sized for %+v", queries, most, len(sessions), cap(p.due), room, size)
		}
		if p.end(); p.load.Active() != 0 || len(p.due) != 0 {
			t.Errorf("%d requests are left", p.load.Active())
		}
	}
}

func TestAgendaIsASortedList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var a agenda
		var want []moment
		for range r.IntN(200) {
			if len(a) > 0 && r.IntN(3) == 0 {
				if got := a.pop(); got != want[0] {
					t.Fatalf("%+v before %+v", got, want[0])
				}
				want = want[1:]
				continue
			}
			m := moment{at: r.Int64N(20), request: r.Uint32N(1000), ends: r.IntN(2) == 0}
			if slices.ContainsFunc(want, func(o moment) bool { return o.at == m.at && o.request == m.request }) {
				continue
			}
			a.push(m)
			at, _ := slices.BinarySearchFunc(want, m, func(x, y moment) int {
				if x.before(y) {
					return -1
				}
				return 1
			})
			want = slices.Insert(want, at, m)
		}
		for _, m := range want {
			if got := a.pop(); got != m {
				t.Fatalf("%+v before %+v", got, m)
			}
		}
	}
}
