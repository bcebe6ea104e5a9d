package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/invariants"
	"github.com/kvbench/kvbench/mocker/steptime"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/catalogue"
	"github.com/kvbench/kvbench/trace"
)

// serial skips a test in which nothing is concurrent under the race detector, which
// makes it long.
func serial(t *testing.T) {
	if invariants.Enabled && !audited {
		t.Skip("nothing here is concurrent")
	}
}

func requests(t testing.TB, rows ...trace.Request) *trace.Trace {
	t.Helper()
	tr, err := trace.New(512, rows)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestStrict: a request that its rank cannot hold is an error that says which, and
// without Strict it is counted.
func TestStrict(t *testing.T) {
	tr := requests(t,
		trace.Request{Line: 3, InputLength: 512, OutputLength: 3, HashIDs: []uint64{1}},
		trace.Request{Line: 7, Timestamp: 1, InputLength: 1536, OutputLength: 3, HashIDs: []uint64{1, 2, 3}},
	)
	cfg := config(t, tr, "round-robin")
	cfg.Engine.Blocks, cfg.Oracle, cfg.Bounds = 16, false, false
	if f := run(t, cfg).Runs[0].Whole; f.Refused != 1 || f.Completed != 1 {
		t.Errorf("%+v", f)
	}
	cfg.Strict = true
	if _, err := Run(context.Background(), cfg, nil); err == nil || !strings.Contains(err.Error(), "row 1 of the trace: rank 1 refuses the request (prompt-exceeds-pool)") || !strings.Contains(err.Error(), "policy round-robin") {
		t.Error(err)
	}
	cfg.Engine.Blocks = 100
	if f := run(t, cfg).Runs[0].Whole; f.Completed != 2 {
		t.Errorf("%+v", f)
	}
}

// TestPoolsOfTheirOwn: each rank has its own pool, which the engine, policies that
// read CAPACITY, the shared cache and shares go by.
func TestPoolsOfTheirOwn(t *testing.T) {
	serial(t)
	cfg := config(t, agentic(t, 300), "round-robin", "kv-resident", "eviction-pressure")
	cfg.Oracle = false
	cfg.Engine.RankBlocks = []int{4000, 600, 2000, 1000}
	cfg.Detail, cfg.Window = true, 10*time.Second
	res := run(t, cfg)
	if res.Bounds[0].Blocks != 7600 || res.Options.GPUBlocks != 0 || len(res.Options.RankBlocks) != 4 {
		t.Errorf("%+v, %+v", res.Bounds[0], res.Options)
	}
	rr := res.of(t, "round-robin")
	for rank, blocks := range rr.Series.Resident {
		most := int32(0)
		for _, n := range blocks {
			most = max(most, n)
		}
		if most > int32(cfg.Engine.RankBlocks[rank]) || rank == 1 && most < 500 {
			t.Errorf("rank %d has up to %d blocks of %d", rank, most, cfg.Engine.RankBlocks[rank])
		}
	}
	if math.Abs(rr.ResidentShare-rr.ResidentBlocks/7600) > 1e-12 || rr.ResidentPeak > 7600 || rr.ResidentPeak == 0 {
		t.Errorf("%+v", rr)
	}
	small := res.of(t, "kv-resident").ComputedTokens
	if small[1] >= small[0] {
		t.Errorf("kv-resident computes %v on pools of %v", small, cfg.Engine.RankBlocks)
	}
	cfg.Engine.RankBlocks = []int{1, 2}
	if _, err := Run(context.Background(), cfg, nil); err == nil || !strings.Contains(err.Error(), "2 pool sizes for 4 workers") {
		t.Error(err)
	}
}

// oddTime is a time model that goes wrong at its n-th pass.
type oddTime struct {
	n   *int
	bad float64
}

func (m oddTime) Nanos(*steptime.Pass) float64 {
	if *m.n--; *m.n == 0 {
		return m.bad
	}
	return 1e6
}
func (m oddTime) String() string { return "odd" }

// TestOddTimes: a model that gives a pass no time that can be played ends the run
// with an error that says what it gave.
func TestOddTimes(t *testing.T) {
	for _, kind := range []string{VLLM, SGLang} {
		for _, bad := range []float64{0, -5, math.NaN(), math.Inf(1), 1e16} {
			for _, at := range []int{1, 20} {
				cfg := config(t, agentic(t, 20), "round-robin")
				cfg.Engine.Kind, cfg.Oracle, cfg.Time.Time = kind, false, oddTime{&at, bad}
				if _, err := Run(context.Background(), cfg, nil); err == nil || !strings.Contains(err.Error(), "the time model odd gives") {
					t.Errorf("%s, %g: %v", kind, bad, err)
				}
			}
		}
	}
}

// choice is a picker that picks what it likes.
type choice struct{ pick func(*policies.View) int }

func (choice) Inputs() policies.Inputs                  { return policies.Load }
func (c choice) Pick(v *policies.View, _ []float64) int { return c.pick(v) }
func (c choice) definition(name string) catalogue.Definition {
	return catalogue.Definition{Name: name, Summary: "x", Doc: "x", Source: "x", GoesWrong: "x", Build: func(catalogue.Values) (policies.Recipe, error) {
		return policies.Recipe{Picker: policies.Named[policies.Picker]{Component: c}}, nil
	}}
}

// TestBadPolicies: a policy that picks a rank that does not exist ends the run; one
// that finds none leaves the request unrouted, and nothing is lost.
func TestBadPolicies(t *testing.T) {
	for _, row := range []int{-1, 4, math.MaxInt} {
		p, err := catalogue.Parse("odd", []catalogue.Definition{choice{func(*policies.View) int { return row }}.definition("odd")})
		if err != nil {
			t.Fatal(err)
		}
		cfg := config(t, agentic(t, 20), "round-robin")
		cfg.Policies = append(cfg.Policies, p)
		if _, err := Run(context.Background(), cfg, nil); err == nil || !strings.Contains(err.Error(), "picked row") || !strings.Contains(err.Error(), "policy odd") {
			t.Errorf("row %d: %v", row, err)
		}
	}
	tr := agentic(t, 200)
	cfg := config(t, tr, "filter(requests-below(max=1,none=refuse)) score(load=1) pick(min)")
	cfg.SpeedUps, cfg.Oracle = []float64{50}, false
	f := run(t, cfg).Runs[0].Whole
	if f.Unrouted == 0 || f.Completed == 0 || f.Unrouted+f.Completed+f.Refused != 200 || f.Requests != 200 {
		t.Errorf("%+v", f)
	}
}

// TestAllRanksFull: when every rank runs all that it can, requests wait, lose their
// blocks, and are all served in the end.
func TestAllRanksFull(t *testing.T) {
	serial(t)
	var rows []trace.Request
	for i := range 24 {
		rows = append(rows, trace.Request{InputLength: 1024, OutputLength: 600, HashIDs: []uint64{uint64(2 * i), uint64(2*i + 1)}})
	}
	for _, kind := range []string{VLLM, SGLang} {
		cfg := config(t, requests(t, rows...), "round-robin", "least-loaded", "kv", "kv-resident")
		cfg.Engine.Kind, cfg.Engine.Blocks, cfg.Workers, cfg.Bounds = kind, 60, 2, false
		// More requests are admitted than can have their answers.
		cfg.Engine.SGLang.Conservativeness = 0.1
		cfg.Requests = func(run *RunResult, requests []Request) error {
			preemptions, again := 0, int64(0)
			for _, r := range requests {
				preemptions += r.Preemptions
				again += r.Again
				if r.Preemptions == 0 && r.Again != 0 || r.AgainHit > r.Again {
					t.Errorf("%s: %+v", kind, r)
				}
			}
			if int64(preemptions) != run.Preemptions || again != run.Whole.AgainTokens || preemptions == 0 || again == 0 {
				t.Errorf("%s: %d preemptions and %d tokens, counted %d and %d", run.Policy, preemptions, again, run.Preemptions, run.Whole.AgainTokens)
			}
			return nil
		}
		for _, r := range run(t, cfg).Runs {
			if f := r.Whole; f.Completed != 24 || f.OutputTokens != 24*600 || f.Queue.Max < int64(time.Second) || r.PeakWaiting == 0 && cfg.Window > 0 && r.EndNanos > int64(cfg.Window) {
				t.Errorf("%s, %s: %+v", kind, r.Policy, f)
			}
		}
	}
}

// TestApproximate: routers without events find what they sent somewhere, take it
// for longer than it is there, and let it go.
func TestApproximate(t *testing.T) {
	serial(t)
	tr := agentic(t, 500)
	hits := map[string]float64{}
	for _, c := range []struct {
		name, kind string
		ttl        time.Duration
	}{{"events", "", 0}, {"ttl", ApproximateTTL, 2 * time.Minute}, {"lru", ApproximateLRU, 0}, {"short", ApproximateTTL, time.Nanosecond}} {
		cfg := config(t, tr, "kv", "round-robin")
		cfg.Approximate, cfg.TTL, cfg.Oracle, cfg.Bounds = c.kind, c.ttl, false, false
		var first []byte
		for parallel := range 2 {
			cfg.Parallel = parallel + 1
			res := run(t, cfg)
			text, err := json.Marshal(res)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = text
			} else if !bytes.Equal(first, text) {
				t.Errorf("%s: the second time was different", c.name)
			}
			kv := res.of(t, "kv")
			if f := &kv.Whole; f.Completed != 500 || kv.Router.Orphaned+kv.Router.UnknownRemoved+kv.Router.Conflicting+kv.Router.Duplicate != 0 || kv.Router.Stored == 0 {
				t.Errorf("%s: %+v, %+v", c.name, kv.Router, f)
			}
			hits[c.name], hits["round-robin"] = kv.Whole.HitRatio, res.of(t, "round-robin").Whole.HitRatio
			hits[c.name+" expected"] = float64(kv.Whole.ExpectedTokens) / float64(kv.Whole.PromptTokens)
			if n := len(res.Warnings); (c.kind != "") != (n > 0) {
				t.Errorf("%s: %q", c.name, res.Warnings)
			}
		}
	}
	if hits["events"] <= hits["round-robin"] || hits["ttl"] <= hits["round-robin"] || hits["lru"] <= hits["round-robin"] {
		t.Errorf("%v", hits)
	}
	if hits["short expected"] > 0.02 || hits["short"] >= hits["ttl"] || hits["ttl expected"] < 0.1 {
		t.Errorf("%v", hits)
	}
}

// TestRankings: of two policies of which one is better there is an order, of two
// that do the same there is none, and the oracle has no place.
func TestRankings(t *testing.T) {
	serial(t)
	cfg := config(t, agentic(t, 800), "round-robin", "kv", "kv:temperature=0.000001")
	cfg.Engine.Blocks, cfg.Seeds = 4000, []uint64{1, 2}
	res := run(t, cfg)
	if len(res.Rankings) != 2 {
		t.Fatalf("%+v", res.Rankings)
	}
	for _, k := range res.Rankings {
		if len(k.Places) != 3 || math.Abs(k.Level-(1-0.05/3)) > 1e-12 {
			t.Fatalf("%+v", k)
		}
		for i, p := range k.Places {
			last := i == 2
			if (p.Policy == "round-robin") != last || last && (p.Place != 3 || len(p.NotDistinguishable) != 0) || !last && (p.Place != 1 || len(p.NotDistinguishable) != 1) {
				t.Errorf("by %s: %+v", k.Figure, k.Places)
			}
		}
	}
	for _, r := range res.Runs {
		p := r.Possible
		if p.OfUnbounded <= 0 || p.OfUnbounded > 1.001 || p.OfShared < p.OfUnbounded || p.TTFTOfOracle <= 0 || r.Policy == oracleName && p.TTFTOfOracle != 1 {
			t.Errorf("%s: %+v", r.Policy, p)
		}
	}
}

// TestSeedsWiden: the interval of several seeds that differ is wider than that of
// their sum, and with one seed it is the same as without drawing seeds.
func TestSeedsWiden(t *testing.T) {
	flat := func(ttft float64) *grouped {
		g := new(grouped)
		for i := range g {
			g[i] = sums{all: 1, n: 1, ttft: ttft, e2e: 1, prompt: 1}
		}
		return g
	}
	one := seeded{flat(1)}
	if iv := compare(seeded{flat(2)}, one, Comparison{}, 0.95, 1).TTFT; iv.Low != 2 || iv.High != 2 {
		t.Errorf("one seed: %+v", iv)
	}
	iv := compare(seeded{flat(1), flat(3)}, seeded{flat(1), flat(1)}, Comparison{}, 0.95, 1).TTFT
	if iv.Estimate != 2 || iv.Low != 1 || iv.High != 3 {
		t.Errorf("two seeds: %+v", iv)
	}
}

// TestKneeSearch: whatever the share does with the load, the search ends between a
// load that is carried and one that is not, near each other; it says if there is
// none.
func TestKneeSearch(t *testing.T) {
	search := DefaultKnee()
	for _, c := range []struct {
		start, knee float64
	}{{1, 1}, {1, 5.3}, {1, 0.013}, {8, 3}, {0.5, 300}, {1, math.Inf(1)}, {1, 0}} {
		var k Knee
		err := k.search(&search, c.start, func(x float64) (KneeStep, error) {
			return KneeStep{SpeedUp: x, Carried: x <= c.knee, RequestsPerSecond: 10 * x}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case math.IsInf(c.knee, 1):
			if k.Broken != 0 || k.Carried != c.start*search.Max {
				t.Errorf("%+v: %+v", c, k)
			}
		case c.knee == 0:
			if k.Carried != 0 || k.Broken != c.start/search.Max || k.RequestsPerSecond != 0 {
				t.Errorf("%+v: %+v", c, k)
			}
		default:
			if k.Carried > c.knee || k.Broken <= c.knee || k.Broken > k.Carried*(1+search.Precision) || len(k.Steps) > 20 || k.RequestsPerSecond != 10*k.Carried {
				t.Errorf("%+v: %+v", c, k)
			}
		}
	}
	bad := errors.New("bad")
	if err := new(Knee).search(&search, 1, func(float64) (KneeStep, error) { return KneeStep{}, bad }); !errors.Is(err, bad) {
		t.Error(err)
	}
	for want, k := range map[string]KneeSearch{"a share of": {0, 0.1, 2}, "a share of 1.5": {1.5, 0.1, 2}, "a precision": {0.9, 0, 2}, "a factor": {0.9, 0.1, 1}} {
		if err := k.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestKneeOrder: who carries with every seed what breaks the other is before it.
func TestKneeOrder(t *testing.T) {
	o := orderKnees([]Knee{
		{Policy: "a", Carried: 2, Broken: 2.1}, {Policy: "b", Carried: 3, Broken: 3.1}, {Policy: "c", Carried: 3.2, Broken: 3.3}, {Policy: "(oracle)", Carried: 5, Broken: 6},
		{Policy: "a", Carried: 2, Broken: 2.1}, {Policy: "b", Carried: 4, Broken: 4.1}, {Policy: "c", Carried: 3.2, Broken: 0}, {Policy: "(oracle)", Carried: 5, Broken: 6},
	})
	if len(o.Places) != 3 || o.Places[0].Policy != "b" || o.Places[1].Policy != "c" || o.Places[1].Place != 1 || o.Places[1].Bounded || o.Places[2].Place != 3 || o.Places[2].OfOracle != 0.4 ||
		len(o.Places[0].NotDistinguishable) != 1 || o.Places[0].Least != 3 || o.Places[0].Most != 4 {
		t.Errorf("%+v", o)
	}
}

// TestFindKnee: a search over real runs gives the same however many go side by
// side, and what it says of a load is what a run of that load says.
func TestFindKnee(t *testing.T) {
	cfg := config(t, agentic(t, 150), "round-robin", "kv")
	search := DefaultKnee()
	search.Share, search.Precision = 0.9, 0.2
	cfg.Knee, cfg.SLO, cfg.Seeds, cfg.Bounds = &search, SLO{TTFT: 2 * time.Second}, []uint64{1, 2}, false
	var first []byte
	for _, parallel := range []int{1, 3} {
		cfg.Parallel = parallel
		res := run(t, cfg)
		text, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		if first != nil {
			if !bytes.Equal(first, text) {
				t.Error("another result with more side by side")
			}
			continue
		}
		first = text
		if len(res.Knees) != 6 || len(res.Runs) != 0 || res.KneeRanking == nil || res.Knees[0].Policy != "round-robin" || res.Knees[0].Seed != 1 {
			t.Fatalf("%+v", res.Knees)
		}
		one := config(t, cfg.Trace, "round-robin")
		k := res.Knees[0]
		one.SpeedUps, one.Seeds, one.SLO = []float64{k.Carried}, []uint64{1}, cfg.SLO
		f := run(t, one).Runs[0].Whole
		for _, s := range k.Steps {
			if s.SpeedUp == k.Carried && (s.Share != f.Goodput.Share || s.RequestsPerSecond != f.OfferedPerSecond || !s.Carried) || s.SpeedUp == k.Broken && s.Share >= 0.9 {
				t.Errorf("%+v, a run %+v", s, f)
			}
		}
		var b strings.Builder
		if err := res.WriteText(&b); err != nil || !strings.Contains(b.String(), "by the load carried:") {
			t.Errorf("%v\n%s", err, b.String())
		}
	}
	cfg.SLO = SLO{}
	if _, err := Run(context.Background(), cfg, nil); err == nil || !strings.Contains(err.Error(), "needs an SLO") {
		t.Error(err)
	}
}

// TestExplain: the decision that is explained is the one that a run makes, and what
// it comes to is what the run has.
func TestExplain(t *testing.T) {
	serial(t)
	cfg := config(t, agentic(t, 300), "round-robin", "kv", "kv-resident", "session", "prefix-threshold", "filter(near-least-load) score(cache=1) pick(min)")
	cfg.Routers = 2
	want := map[string]Request{}
	const row = 211
	cfg.Requests = func(run *RunResult, requests []Request) error {
		for _, r := range requests {
			if r.Row == row {
				want[run.Policy] = r
			}
		}
		return nil
	}
	run(t, cfg)
	cfg.Requests = nil
	x, err := Explain(context.Background(), cfg, row)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Decisions) != 7 || x.Row != row || x.PromptTokens != want["kv"].Prompt {
		t.Fatalf("%+v", x)
	}
	for _, d := range x.Decisions {
		w := want[d.Policy]
		if d.Rank != w.Rank || d.HitTokens != w.Cached || d.AtNanos != w.Arrival || d.TTFTNanos != w.First-w.Arrival || d.E2ENanos != w.Last-w.Arrival || d.Expected != w.Expected || d.Router != w.Router {
			t.Errorf("%s: explained %+v, in a run %+v", d.Policy, d, w)
		}
		if len(d.Candidates) != 4 {
			t.Fatalf("%+v", d)
		}
		least := math.Inf(1)
		for _, c := range d.Candidates {
			if c.Total != nil {
				least = min(least, *c.Total)
			}
			if (c.Resident != nil) != (d.Policy == "kv-resident") || (c.Overlap == nil) != (d.Policy == "round-robin" || d.Policy == oracleName || d.Policy == "session" && c.Overlap == nil) {
				t.Errorf("%s: %+v", d.Policy, c)
			}
		}
		if total := d.Candidates[d.Rank].Total; total != nil && *total != least {
			t.Errorf("%s picks a rank of cost %g, the least is %g", d.Policy, *total, least)
		}
	}
	var b strings.Builder
	if err := x.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"row 211", "true overlap", "evictions x 1", "picked by", "(oracle)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	for _, row := range []int{-1, 300} {
		if _, err := Explain(context.Background(), cfg, row); err == nil || !strings.Contains(err.Error(), "its rows are 0 to 299") {
			t.Error(err)
		}
	}
}

// TestDecisionTime: it is measured only where it is asked for, once for each
// decision, and the rest of the result is the same.
func TestDecisionTime(t *testing.T) {
	cfg := config(t, agentic(t, 50), "kv")
	plain := run(t, cfg)
	cfg.DecisionTime = true
	timed := run(t, cfg)
	d := timed.of(t, "kv").Decision
	if d == nil || d.N != 50 || d.P50 <= 0 || plain.of(t, "kv").Decision != nil || timed.of(t, oracleName).Decision != nil {
		t.Fatalf("%+v", d)
	}
	for i := range timed.Runs {
		timed.Runs[i].Decision = nil
	}
	a, _ := json.Marshal(plain)
	b, _ := json.Marshal(timed)
	if !bytes.Equal(a, b) {
		t.Error("measuring changes the result")
	}
}
