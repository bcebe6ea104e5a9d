package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/internal/invariants"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/mocker/sglang"
	"github.com/kvbench/kvbench/mocker/steptime"
	"github.com/kvbench/kvbench/mocker/vllm"
	"github.com/kvbench/kvbench/policies/catalogue"
	"github.com/kvbench/kvbench/stats"
	"github.com/kvbench/kvbench/trace"
)

func parse(t testing.TB, texts ...string) []*catalogue.Policy {
	t.Helper()
	var out []*catalogue.Policy
	for _, text := range texts {
		p, err := catalogue.Parse(text, catalogue.Standard())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// config is a small fleet that is busy and evicts.
func config(t testing.TB, tr *trace.Trace, texts ...string) Config {
	t.Helper()
	e := Engines{Kind: VLLM, Blocks: 2000, BlockSize: 64, VLLM: vllm.Default(), SGLang: sglang.Default()}
	preset, err := steptime.Find("llama-3.1-8b/h100")
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Trace: tr, Source: trace.Source{Name: "test"}, Policies: parse(t, texts...), Workers: 4, Engine: e, Time: preset,
		SpeedUps: []float64{1}, Seeds: []uint64{42}, EventDelay: 5 * time.Millisecond, LoadDelay: 5 * time.Millisecond,
		Routers: 1, Window: time.Minute, Oracle: true, Bounds: true,
	}
}

// agentic is sessions whose turns extend each other.
func agentic(t *testing.T, requests int) *trace.Trace {
	t.Helper()
	p := trace.AgenticParams()
	p.Requests = requests
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func run(t testing.TB, cfg Config) *Result {
	t.Helper()
	res, err := Run(context.Background(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (r *Result) of(t *testing.T, policy string) *RunResult {
	t.Helper()
	i := slices.IndexFunc(r.Runs, func(r RunResult) bool { return r.Policy == policy })
	if i < 0 {
		t.Fatalf("no run of %s", policy)
	}
	return &r.Runs[i]
}

// TestSameBytes: however many runs go side by side, the result is the same, and
// another seed gives another one.
func TestSameBytes(t *testing.T) {
	cfg := config(t, agentic(t, 120), "round-robin", "random", "power-of-two", "kv:temperature=0.5", "session")
	cfg.SpeedUps, cfg.Seeds, cfg.EventLoss, cfg.Routers, cfg.WarmUp = []float64{1, 3}, []uint64{1, 2}, 0.01, 2, 0.25
	cfg.SLO = SLO{TTFT: time.Second}
	var first []byte
	for _, parallel := range []int{1, 3, 3} {
		cfg.Parallel = parallel
		text, err := json.Marshal(run(t, cfg))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = text
		} else if !bytes.Equal(first, text) {
			t.Errorf("%d side by side give another result", parallel)
		}
	}
	res := run(t, cfg)
	if n := len(res.Runs); n != 24 {
		t.Fatalf("%d runs", n)
	}
	a, b := res.Runs[1], res.Runs[7] // random, of both seeds
	if a.Policy != "random" || b.Policy != "random" || a.Seed == b.Seed || a.SpeedUp != b.SpeedUp || a.Whole.HitTokens == b.Whole.HitTokens {
		t.Errorf("two seeds of one policy: %s %d %d, %s %d %d", a.Policy, a.Seed, a.Whole.HitTokens, b.Policy, b.Seed, b.Whole.HitTokens)
	}
	for i := range res.Runs {
		if r := &res.Runs[i]; r.EventsLost == 0 || r.Steady == nil || r.Steady.Requests != 90 || r.Whole.Requests != 120 || r.Whole.Goodput == nil {
			t.Errorf("run %d: %+v", i, r)
		}
	}
}

// TestOneBigRank: with one rank whose cache never fills, policies do not differ,
// and hit what a cache without engines does.
func TestOneBigRank(t *testing.T) {
	serial(t)
	p := trace.ConversationParams()
	p.Requests = 300
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	// Far apart, so that requests do not compute the same side by side.
	if tr, err = tr.SpeedUp(0.001); err != nil {
		t.Fatal(err)
	}
	cfg := config(t, tr, "round-robin", "least-loaded", "longest-prefix", "kv", "random", "ttft")
	cfg.Workers, cfg.Engine.Blocks = 1, 1<<20
	res := run(t, cfg)
	want := res.Bounds[1]
	if want.HitTokens == 0 || res.Bounds[0].HitTokens != want.HitTokens {
		t.Fatalf("%+v", res.Bounds)
	}
	for i := range res.Runs {
		if f := &res.Runs[i].Whole; f.HitTokens != want.HitTokens || f.PromptTokens != want.PromptTokens || f.Completed != 300 {
			t.Errorf("%s hits %d of %d tokens, the cache %d of %d", res.Runs[i].Policy, f.HitTokens, f.PromptTokens, want.HitTokens, want.PromptTokens)
		}
	}
}

// TestOrderings: what must come out whatever the numbers.
func TestOrderings(t *testing.T) {
	serial(t)
	tr := agentic(t, 1000)
	hit := map[int]float64{}
	for _, workers := range []int{1, 2, 4, 8} {
		cfg := config(t, tr, "round-robin", "kv")
		cfg.Workers, cfg.Engine.Blocks = workers, 16000/workers
		res := run(t, cfg)
		hit[workers] = res.of(t, "round-robin").Whole.HitRatio
		kv, oracle := res.of(t, "kv").Whole.HitRatio, res.of(t, oracleName).Whole.HitRatio
		if workers > 1 && (kv <= hit[workers] || oracle <= hit[workers]) {
			t.Errorf("%d ranks: round robin hits %g, kv %g, the oracle %g", workers, hit[workers], kv, oracle)
		}
		if b := res.Bounds; kv > b[1].HitRatio || b[0].HitRatio > b[1].HitRatio {
			t.Errorf("%d ranks: kv hits %g, %+v", workers, kv, b)
		}
	}
	if !(hit[1] > hit[2] && hit[2] > hit[4] && hit[4] > hit[8]) {
		t.Errorf("round robin hits %v by ranks; more ranks must hit less", hit)
	}
}

// TestSGLang: the other engine gives the same bytes each time, and the same
// ordering.
func TestSGLang(t *testing.T) {
	cfg := config(t, agentic(t, 300), "round-robin", "kv")
	cfg.Engine.Kind = SGLang
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
			t.Error("the second time was different")
		}
		rr, kv := res.of(t, "round-robin"), res.of(t, "kv")
		if rr.Whole.Completed != 300 || kv.Whole.HitRatio <= rr.Whole.HitRatio || kv.Router.Orphaned+kv.Router.UnknownRemoved+kv.Router.Conflicting != 0 || kv.Router.Stored == 0 {
			t.Errorf("round robin %+v\nkv %+v", rr, kv)
		}
	}
}

// TestLongestPrefixCollapses: if all prompts begin alike and the first one comes
// alone, the rank that got it gets all others. If they come together, ranks get
// them before anyone holds anything, and it does not.
func TestLongestPrefixCollapses(t *testing.T) {
	for _, c := range []struct {
		alone    bool
		unevenly bool
	}{{true, true}, {false, false}} {
		var rows []trace.Request
		for i := range 64 {
			at := float64(i/8) * 500
			if i > 0 && c.alone {
				at += 5000
			}
			rows = append(rows, trace.Request{Timestamp: at, InputLength: 4096, OutputLength: 20,
				HashIDs: []uint64{0, uint64(8 * i), uint64(8*i + 1), uint64(8*i + 2), uint64(8*i + 3), uint64(8*i + 4), uint64(8*i + 5), uint64(8*i + 6)}})
		}
		tr, err := trace.New(512, rows)
		if err != nil {
			t.Fatal(err)
		}
		cfg := config(t, tr, "longest-prefix")
		got := run(t, cfg).of(t, "longest-prefix").Imbalance.TotalMaxOverMean
		if c.unevenly != (got > 3.99) {
			t.Errorf("the first alone %v: the busiest of 4 ranks computes %g times the mean", c.alone, got)
		}
	}
}

// TestStaleness: the later a router hears of ranks, the less a policy that
// relies on it is worth.
func TestStaleness(t *testing.T) {
	serial(t)
	hits := func(delay time.Duration) float64 {
		cfg := config(t, agentic(t, 1000), "kv")
		cfg.SpeedUps, cfg.EventDelay, cfg.LoadDelay = []float64{4}, delay, delay
		return run(t, cfg).of(t, "kv").Whole.HitRatio
	}
	if now, late := hits(0), hits(time.Hour); now <= late*1.05 {
		t.Errorf("hits %g without delay, %g an hour late", now, late)
	}
}

// conversation returns the public trace with prompts alone, as the table below has
// it: one token of an answer costs nothing but its prompt.
func conversation(t *testing.T) *trace.Trace {
	t.Helper()
	path, err := filepath.Abs("../../../shared/traces/mooncake/conversation_trace.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("the public conversation trace is not here: ", err)
	}
	tr, _, err := trace.Load(context.Background(), path, trace.ReaderOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var rows []trace.Request
	for i := range tr.Len() {
		r := tr.Request(i)
		r.OutputLength = 1
		// The first request comes alone. In the trace seven come at once, and each
		// rank gets the block that all prompts begin with before anyone holds it.
		if i > 0 {
			r.Timestamp += 60_000
		}
		rows = append(rows, r)
	}
	if tr, err = trace.New(tr.BlockSize, rows); err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestSanity compares with a table that was made with another, simpler simulator:
// prompts only, the polynomial time model, a cache view without delay, 8 ranks of
// 2^20 tokens. Hits and mean TTFT must be near and in the order of the table. Its
// least-work knows the work of each rank exactly, where least-loaded by tokens adds
// what requests hold; its cost is the oracle here.
func TestSanity(t *testing.T) {
	if invariants.Enabled {
		t.Skip("nothing here is concurrent, and checks make it long")
	}
	tr := conversation(t)
	table := map[string]struct {
		hit  float64
		ttft [3]float64 // ms, at speed-ups 1, 4 and 8
		near float64    // TTFT to this share
	}{
		"round-robin":            {.082, [3]float64{296, 379, 1069}, 0.1},
		"least-loaded:by=tokens": {.080, [3]float64{254, 265, 366}, 0.35},
		oracleName:               {.243, [3]float64{214, 220, 268}, 0.15},
		"longest-prefix":         {.056, [3]float64{2472, 1.04e6, 1.27e6}, 0.1},
	}
	cfg := config(t, tr, "round-robin", "least-loaded:by=tokens", "longest-prefix")
	cfg.Workers, cfg.Engine.Blocks, cfg.Engine.BlockSize, cfg.Bounds = 8, 2048, 512, false
	cfg.EventDelay, cfg.LoadDelay, cfg.SpeedUps = 0, 0, []float64{1, 4, 8}
	var err error
	if cfg.Time, err = steptime.Find("polynomial"); err != nil {
		t.Fatal(err)
	}
	res := run(t, cfg)
	ttft := map[string][]float64{}
	for _, r := range res.Runs {
		want, at := table[r.Policy], len(ttft[r.Policy])
		ms := r.Whole.TTFT.Mean / 1e6
		ttft[r.Policy] = append(ttft[r.Policy], ms)
		t.Logf("x%g %-22s hit %.4f (table %.3f), TTFT %.0f ms (table %.0f)", r.SpeedUp, r.Policy, r.Whole.HitRatio, want.hit, ms, want.ttft[at])
		if math.Abs(r.Whole.HitRatio-want.hit) > 0.02 || math.Abs(ms/want.ttft[at]-1) > want.near {
			t.Errorf("x%g %s: hit %.4f, table %.3f; TTFT %.0f ms, table %.0f", r.SpeedUp, r.Policy, r.Whole.HitRatio, want.hit, ms, want.ttft[at])
		}
		if r.Policy == "longest-prefix" && r.Imbalance.TotalMaxOverMean < 7.99 {
			t.Errorf("longest-prefix: the busiest of 8 ranks computes %g times the mean", r.Imbalance.TotalMaxOverMean)
		}
	}
	for i := range 3 {
		if !(ttft[oracleName][i] < ttft["least-loaded:by=tokens"][i] && ttft["least-loaded:by=tokens"][i] < ttft["round-robin"][i] && ttft["round-robin"][i] < ttft["longest-prefix"][i]) {
			t.Errorf("not in the order of the table: %v", ttft)
		}
	}
	// 4 ranks, and 8 of four times the size.
	for _, c := range []struct {
		workers, blocks int
		blind, cost     float64
	}{{4, 2048, .082, .160}, {8, 8192, .127, .337}} {
		cfg.Policies, cfg.SpeedUps = parse(t, "round-robin"), []float64{1}
		cfg.Workers, cfg.Engine.Blocks = c.workers, c.blocks
		res := run(t, cfg)
		blind, oracle := res.of(t, "round-robin").Whole.HitRatio, res.of(t, oracleName).Whole.HitRatio
		if math.Abs(blind-c.blind) > 0.005 || math.Abs(oracle-c.cost) > 0.02 {
			t.Errorf("%d ranks of %d blocks: round robin hits %.4f, table %g; the oracle %.4f, table %g", c.workers, c.blocks, blind, c.blind, oracle, c.cost)
		}
	}
}

// TestOverload: more than the ranks can serve is said to be.
func TestOverload(t *testing.T) {
	var rows []trace.Request
	for i := range 100 {
		rows = append(rows, trace.Request{Timestamp: 100 * float64(i), InputLength: 1024, OutputLength: 20, HashIDs: []uint64{uint64(2 * i), uint64(2*i + 1)}})
	}
	tr, err := trace.New(512, rows)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t, tr, "round-robin")
	cfg.SpeedUps, cfg.Oracle = []float64{1, 100}, false
	res := run(t, cfg)
	if res.Runs[0].Overloaded || !res.Runs[1].Overloaded || len(res.Warnings) != 1 {
		t.Errorf("%v %v %q", res.Runs[0].Overloaded, res.Runs[1].Overloaded, res.Warnings)
	}
}

// TestShortIsNotOverloaded plays two requests that meet idle ranks, of which the last
// is answered long after it came.
func TestShortIsNotOverloaded(t *testing.T) {
	row := func(at float64, id uint64) trace.Request {
		return trace.Request{Timestamp: at, InputLength: 512, OutputLength: 50, HashIDs: []uint64{id}}
	}
	tr, err := trace.New(512, []trace.Request{row(0, 1), row(100, 2)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t, tr, "round-robin")
	cfg.Oracle = false
	if res := run(t, cfg); res.Runs[0].Overloaded {
		t.Errorf("overloaded, with a queue time of %v", res.Runs[0].Whole.Queue)
	}
	// Times of two kinds leave a gap of decades, each minute of which would be
	// looked at.
	if tr, err = trace.New(512, []trace.Request{row(0, 1), row(1e12, 2)}); err != nil {
		t.Fatal(err)
	}
	cfg.Trace = tr
	if _, err := Run(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), "--window") {
		t.Errorf("a gap of decades: error %v", err)
	}
}

func TestInterrupted(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cfg := config(t, agentic(t, 300), "round-robin", "random", "kv")
	cfg.Parallel = 1
	res, err := Run(ctx, cfg, func(done, _ int) {
		if done == 2 {
			cancel(stop)
		}
	})
	if !errors.Is(err, stop) || res == nil || !res.Partial || len(res.Warnings) == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestBadConfigs(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"no requests":             func(c *Config) { c.Trace = new(trace.Trace) },
		"no policy":               func(c *Config) { c.Policies, c.Oracle = nil, false },
		"0 workers":               func(c *Config) { c.Workers = 0 },
		"0 routers":               func(c *Config) { c.Routers = 0 },
		"no speed-up":             func(c *Config) { c.SpeedUps = nil },
		"speed-up of NaN":         func(c *Config) { c.SpeedUps = []float64{math.NaN()} },
		"speed-up of 0;":          func(c *Config) { c.SpeedUps = []float64{1, 0} },
		"at a speed-up of 1e-300": func(c *Config) { c.SpeedUps = []float64{1e-300} },
		"speed-up 2 is given":     func(c *Config) { c.SpeedUps = []float64{2, 2} },
		"warm-up share of 1":      func(c *Config) { c.WarmUp = 1 },
		"round-robin is given":    func(c *Config) { c.Policies = append(c.Policies, c.Policies[0]) },
		"window of -1":            func(c *Config) { c.Window = -1 },
		"a pool of 0 blocks":      func(c *Config) { c.Engine.Blocks = 0 },
		"a pass takes 1": func(c *Config) {
			c.Time = steptime.Preset{Name: "x", Time: steptime.Scaled{Model: steptime.Polynomial{}, By: math.Inf(1)}}
		},
		"speed-ups with a concur": func(c *Config) { c.SpeedUps, c.Concurrency = []float64{1, 2}, 3 },
	} {
		cfg := config(t, agentic(t, 20), "round-robin")
		change(&cfg)
		if _, err := Run(context.Background(), cfg, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRefusals: what cannot be served is counted with its reason.
func TestRefusals(t *testing.T) {
	rows := []trace.Request{
		{Timestamp: 0, InputLength: 512, OutputLength: 3, HashIDs: []uint64{1}},
		{Timestamp: 1, InputLength: 0, OutputLength: 3},
		{Timestamp: 2, InputLength: 1536, OutputLength: 3, HashIDs: []uint64{1, 2, 3}},
		{Timestamp: 3, InputLength: 1024, OutputLength: 5, HashIDs: []uint64{1, 2}},
		{Timestamp: 4, InputLength: 512, OutputLength: 0, HashIDs: []uint64{1}},
	}
	tr, err := trace.New(512, rows)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t, tr, "round-robin")
	cfg.Engine.Blocks = 16
	f := run(t, cfg).of(t, "round-robin").Whole
	if f.Requests != 5 || f.Completed != 2 || f.Refused != 3 || f.OutputTokens != 3 ||
		f.RefusedBy["empty-prompt"] != 1 || f.RefusedBy["prompt-exceeds-pool"] != 1 || f.RefusedBy["answer-exceeds-pool"] != 1 {
		t.Errorf("%+v", f)
	}
}

// TestComparisons: a policy against itself under another name does not differ, one
// that is better does, and estimates are those of the figures.
func TestComparisons(t *testing.T) {
	serial(t)
	cfg := config(t, agentic(t, 1200), "round-robin", "kv", "least-loaded")
	cfg.Workers, cfg.Engine.Blocks, cfg.WarmUp = 4, 4000, 0.2
	res := run(t, cfg)
	if n := len(res.Comparisons); n != 3 { // the oracle too
		t.Fatalf("%d comparisons", n)
	}
	for _, c := range res.Comparisons {
		a, b := res.of(t, c.Policy).Steady, res.of(t, c.Baseline).Steady
		for name, x := range map[string][2]float64{
			"TTFT": {c.TTFT.Estimate, a.TTFT.Mean / b.TTFT.Mean},
			"E2E":  {c.E2E.Estimate, a.E2E.Mean / b.E2E.Mean},
			"hit":  {c.HitRatio.Estimate, a.HitRatio - b.HitRatio},
		} {
			if math.Abs(x[0]-x[1]) > 1e-9 {
				t.Errorf("%s against %s, %s: %g, by the figures %g", c.Policy, c.Baseline, name, x[0], x[1])
			}
		}
		if c.Policy == "kv" && (Verdict(c.HitRatio, 0) != "higher" || Verdict(c.TTFT, 1) != "lower") {
			t.Errorf("kv: %+v", c)
		}
	}
	g := seeded{&res.Runs[0].groups}
	for _, iv := range []stats.Interval{compare(g, g, Comparison{}, 0.95, 1).TTFT, compare(g, g, Comparison{}, 0.95, 1).HitRatio} {
		if !iv.Ok() || iv.Low != iv.High {
			t.Errorf("a policy against itself: %+v", iv)
		}
	}
	if v := Verdict(compare(g, g, Comparison{}, 0.95, 1).TTFT, 1); v != "not distinguishable" {
		t.Error(v)
	}
	if iv := compare(seeded{new(grouped)}, seeded{new(grouped)}, Comparison{}, 0.95, 1).TTFT; iv.Ok() {
		t.Errorf("nothing against nothing: %+v", iv)
	}
}

// TestHistogram compares with all values kept.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64/2), 1, 50).Draw(t, "values")
		for i := range values {
			values[i] >>= rapid.IntRange(0, 62).Draw(t, "shift")
		}
		var h histogram
		for _, v := range values {
			h.add(v)
			if c := class(v); least(c) > v || least(c+1) <= v || v >= 2048 && float64(least(c+1)-least(c)) > float64(v)/1024 || v < 2048 && least(c) != v {
				t.Fatalf("%d is in class %d, from %d to %d", v, c, least(c), least(c+1))
			}
		}
		slices.Sort(values)
		d := h.summary()
		n := len(values)
		for _, q := range []struct {
			have int64
			k    int
		}{{d.P50, 500}, {d.P90, 900}, {d.P99, 990}, {d.P999, 999}} {
			want := values[(n*q.k+999)/1000-1]
			if q.have < want || float64(q.have) > float64(want)*(1+1.0/1024)+1 {
				t.Fatalf("quantile %d of %v is %d, want %d", q.k, values, q.have, want)
			}
		}
		if d.N != int64(n) || d.Max != values[n-1] {
			t.Fatalf("%+v of %v", d, values)
		}
	})
}

func TestParseSLO(t *testing.T) {
	s, err := ParseSLO("ttft=2s, tpot=50ms,e2e=1m")
	if want := (SLO{2 * time.Second, 50 * time.Millisecond, time.Minute}); err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{"ttft", "ttft=", "ttft=0", "ttft=-1s", "ttft=1", "itl=1s", "ttft=1s,ttft=2s", ","} {
		if s, err := ParseSLO(text); err == nil || s != (SLO{}) {
			t.Errorf("%q is %+v, %v", text, s, err)
		}
	}
}

func FuzzParseSLO(f *testing.F) {
	f.Add("ttft=2s,tpot=50ms")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSLO(text); err == nil && (s.TTFT < 0 || s.TPOT < 0 || s.E2E < 0 || text != "" && s == SLO{}) {
			t.Errorf("%q is %+v", text, s)
		}
	})
}

// TestBoundIsACache: the bound with blocks of the trace's size and prompts only
// is what mocker.ReplayCache counts, less last tokens.
func TestBoundIsACache(t *testing.T) {
	var rows []trace.Request
	for i := range 200 {
		ids := []uint64{uint64(i % 3), uint64(10 + i%17), uint64(100 + i%41)}
		rows = append(rows, trace.Request{Timestamp: float64(i), InputLength: 511 + 2*512, OutputLength: 1, HashIDs: ids})
	}
	tr, err := trace.New(512, rows)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t, tr, "round-robin")
	cfg.Engine.BlockSize, cfg.Engine.Blocks = 512, 12
	b, err := (&boundJob{blocks: 12}).run(context.Background(), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	// One block of the pool is the partial one's.
	if hits, _ := mocker.ReplayCache(tr, 11, true); b.HitTokens != 512*hits || hits == 0 {
		t.Errorf("%d tokens hit, a bare cache has %d blocks", b.HitTokens, hits)
	}
}

func TestWriteText(t *testing.T) {
	cfg := config(t, agentic(t, 100), "round-robin", "kv")
	cfg.WarmUp, cfg.SLO, cfg.EventDelay = 0.5, SLO{TTFT: time.Second}, 0
	var b strings.Builder
	if err := run(t, cfg).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"round-robin", "(oracle)", "good %", "first 50% of the requests left out", "dead %", "whole: hit %", "by mean TTFT", "warning: routers hear", "unbounded cache", "measured", "against round-robin at speed-up 1"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

// TestTextOfFigures: a sign is written once, what is one is not many, and a search
// that found no load ranks nothing.
func TestTextOfFigures(t *testing.T) {
	iv := func(estimate, low, high float64) stats.Interval {
		return stats.Interval{Estimate: estimate, Low: low, High: high}
	}
	res := &Result{
		Options:     Options{Workers: 1, Routers: 1, SpeedUps: []float64{1}, KneeShare: 0.9, KneePrecision: 0.05},
		Comparisons: []Comparison{{Policy: "kv", Baseline: "random", SpeedUp: 1, HitRatio: iv(-0.008, -0.0254, 0.007), TTFT: iv(0.9, 0.8, 1), E2E: iv(1, 1, 1)}},
	}
	var b strings.Builder
	if err := res.writeComparisons(&b, 1); err != nil {
		t.Fatal(err)
	}
	if want := "hit  -0.80 [-2.54, 0.70] not distinguishable"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in\n%s", want, b.String())
	}
	res.Comparisons[0].HitRatio = iv(0.02, 0.01, 0.03)
	b.Reset()
	if err := res.writeComparisons(&b, 1); err != nil {
		t.Fatal(err)
	}
	if want := "hit  +2.00 [1.00, 3.00] higher"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in\n%s", want, b.String())
	}
	knee := func(policy string, carried float64) Knee {
		return Knee{Policy: policy, Seed: 1, Carried: carried, Broken: 0.5, Steps: []KneeStep{{SpeedUp: 0.5, Share: 0.42}}}
	}
	res.Comparisons, res.Knees = nil, []Knee{knee("kv", 0), knee("random", 0), knee(oracleName, 0.25)}
	res.KneeRanking = orderKnees(res.Knees)
	b.Reset()
	if err := res.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "None carried any load") || !strings.Contains(got, "at best 42.0%") || strings.Contains(got, "speed-up 0") || strings.Contains(got, "1. ") ||
		!strings.Contains(got, "1 rank of") || !strings.Contains(got, "1 router\n") {
		t.Error(got)
	}
	res.Knees[1].Carried = 0.4
	res.KneeRanking = orderKnees(res.Knees)
	b.Reset()
	if err := res.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Contains(got, "None carried") || !strings.Contains(got, "kv (carried no load)") || !strings.Contains(got, "random (speed-up 0.4,") {
		t.Error(got)
	}
}
