package analysis

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/trace"
)

func fitted(tb testing.TB, t *trace.Trace) Fitted {
	tb.Helper()
	f, err := Fit(t)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// near fails unless got is within a share of want.
func near(tb testing.TB, name string, got, want, within float64) {
	tb.Helper()
	if math.Abs(got-want) > within*want {
		tb.Errorf("%s: %v, want %v within %v%%", name, got, want, 100*within)
	}
}

// The parameters of generated traces are found again.
func TestFitFindsParameters(t *testing.T) {
	for name, p := range map[string]trace.GenerateParams{"conversation": trace.ConversationParams(), "agentic": trace.AgenticParams()} {
		p.Requests = 6000
		tr, err := trace.Generate(p)
		if err != nil {
			t.Fatal(err)
		}
		f := fitted(t, tr)
		q := f.Params
		near(t, name+": sessions per second", q.SessionsPerSecond, p.SessionsPerSecond, 0.2)
		near(t, name+": burst factor", q.BurstFactor, p.BurstFactor, 0.4)
		near(t, name+": burst share", q.BurstShare, p.BurstShare, 0.5)
		near(t, name+": burst seconds", q.BurstSeconds, p.BurstSeconds, 0.7)
		near(t, name+": mean turns", q.MeanTurns, p.MeanTurns, 0.15)
		near(t, name+": skew", q.SystemSkew, p.SystemSkew, 0.5)
		near(t, name+": first tokens", float64(q.FirstTokens.Median), float64(p.FirstTokens.Median), 0.1)
		near(t, name+": message tokens", float64(q.MessageTokens.Median), float64(p.MessageTokens.Median), 0.15)
		near(t, name+": output tokens", float64(q.OutputTokens.Median), float64(p.OutputTokens.Median), 0.03)
		near(t, name+": output sigma", q.OutputTokens.Sigma, p.OutputTokens.Sigma, 0.08)
		near(t, name+": think ms", float64(q.ThinkMS.Median), float64(p.ThinkMS.Median), 0.1)
		if q.BlockSize != p.BlockSize || q.Requests != p.Requests {
			t.Errorf("%s: %+v", name, q)
		}
		if name == "agentic" {
			near(t, name+": tool share", q.ToolShare, p.ToolShare, 0.1)
			near(t, name+": tool tokens", float64(q.ToolTokens.Median), float64(p.ToolTokens.Median), 0.1)
			near(t, name+": tool ms", float64(q.ToolMS.Median), float64(p.ToolMS.Median), 0.3)
			if q.MaxToolCalls != p.MaxToolCalls {
				t.Errorf("%d tool calls, want %d", q.MaxToolCalls, p.MaxToolCalls)
			}
		} else if q.ToolShare != 0 || len(f.Notes) != 0 || q.SystemPrompts != p.SystemPrompts {
			t.Errorf("tool share %v, notes %q, %d system prompts", q.ToolShare, f.Notes, q.SystemPrompts)
		}
	}
}

// Without names of sessions turns are told by their prefixes.
func TestFitWithoutSessions(t *testing.T) {
	named := generated(t, func(p *trace.GenerateParams) { p.Requests = 3000 })
	var rows []trace.Request
	ended := map[string]float64{}
	for i := range named.Len() {
		q := named.Request(i)
		if math.IsNaN(q.Timestamp) {
			q.Timestamp = ended[q.Session] + q.Delay
		}
		ended[q.Session] = q.Timestamp + float64(20*q.OutputLength)
		q.Session, q.Delay = "", math.NaN()
		rows = append(rows, q)
	}
	bare, err := trace.New(named.BlockSize, rows)
	if err != nil {
		t.Fatal(err)
	}
	a, b := fitted(t, named).Params, fitted(t, bare)
	if again := fitted(t, bare); !reflect.DeepEqual(again, b) {
		t.Errorf("fitted again it is %+v, not %+v", again, b)
	}
	near(t, "mean turns", b.Params.MeanTurns, a.MeanTurns, 0.1)
	near(t, "sessions per second", b.Params.SessionsPerSecond, a.SessionsPerSecond, 0.1)
	near(t, "first tokens", float64(b.Params.FirstTokens.Median), float64(a.FirstTokens.Median), 0.1)
	near(t, "message tokens", float64(b.Params.MessageTokens.Median), float64(a.MessageTokens.Median), 0.15)
	near(t, "think ms", float64(b.Params.ThinkMS.Median), float64(a.ThinkMS.Median), 0.15)
	if len(b.Notes) != 1 || !strings.Contains(b.Notes[0], "as far as their prefixes tell") {
		t.Errorf("notes %q", b.Notes)
	}
}

// What is generated with fitted parameters is like the trace.
func TestFitIsLike(t *testing.T) {
	tr := conversation(t)
	f := fitted(t, tr)
	g, err := trace.Generate(f.Params)
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Compare(tr, g)
	if err != nil {
		t.Fatal(err)
	}
	for name, most := range map[string]float64{"input": 0.2, "output": 0.25, "shared prefix": 0.1, "reuse distance": 0.25} {
		if m := c.metric(t, name); *m.KS > most {
			t.Errorf("%s: KS %.3f, want at most %v", name, *m.KS, most)
		}
	}
	near(t, "hits", c.B.HitTokenShare, c.A.HitTokenShare, 0.2)
	near(t, "rate", c.B.RequestsPerSecond, c.A.RequestsPerSecond, 0.1)
	near(t, "mean input", c.metric(t, "input").B.Mean, c.metric(t, "input").A.Mean, 0.1)
	if len(c.Metrics) != 5 {
		t.Errorf("%d metrics, want none of turns that have been guessed", len(c.Metrics))
	}
	var text bytes.Buffer
	if err := f.WriteText(&text); err != nil || !strings.Contains(text.String(), "--system-prompts") || !strings.Contains(text.String(), "note: ") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// A trace of agents is fitted so well that what is generated is like it.
func TestFitCompare(t *testing.T) {
	p := trace.AgenticParams()
	p.Requests = 1500
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	f := fitted(t, tr)
	f.Params.Seed = 7
	g, err := trace.Generate(f.Params)
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Compare(tr, g)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Metrics {
		if *m.KS > 0.2 {
			t.Errorf("%s: KS %.3f", m.Name, *m.KS)
		}
	}
	// Sessions have names, so turns and delays are compared too.
	if len(c.Metrics) != 7 {
		t.Errorf("%d metrics", len(c.Metrics))
	}
}

// Traces with little or nothing to find give parameters that generate all the same.
func TestFitOddTraces(t *testing.T) {
	row := func(at float64, input, output int, ids ...uint64) trace.Request {
		return trace.Request{Timestamp: at, Delay: math.NaN(), InputLength: input, OutputLength: output, HashIDs: ids}
	}
	for name, rows := range map[string][]trace.Request{
		"all at once":     {row(0, 10, 5, 1), row(0, 20, 0, 2, 3)},
		"all the same":    {row(0, 16, 5, 1), row(1, 16, 5, 1), row(2, 16, 5, 1)},
		"empty prompts":   {row(0, 0, 0), row(10, 0, 0)},
		"days apart":      {row(0, 10, 5, 1), row(1e12, 10, 5, 2)},
		"backwards":       {row(1000, 10, 5, 1), row(0, 10, 5, 2), row(500, 10, 5, 3)},
		"one long":        {row(0, 1, 1, 1), row(1, 160, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)},
		"within a second": {row(0, 10, 5, 1), row(0.001, 10, 5, 1), row(0.002, 10, 5, 1)},
	} {
		tr, err := trace.New(16, rows)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Fit(tr)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := trace.Generate(f.Params); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	tr, err := trace.New(16, []trace.Request{row(0, 10, 5, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Fit(tr); err == nil || !strings.Contains(err.Error(), "fewer than two") {
		t.Errorf("one request: %v", err)
	}
}

func TestBursts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 30 {
		at, poisson := 0.0, newTimes()
		for range 2000 {
			at += r.ExpFloat64() * 100
			poisson.add(at)
		}
		if fitBursts(poisson).share != 0 {
			found++
		}
	}
	if found > 1 {
		t.Errorf("bursts in %d of 30 Poisson processes", found)
	}
	// Bursts of 20 s at ten times the rate, a tenth of the time.
	at, until, burst, bursty := 0.0, 0.0, true, newTimes()
	for range 20_000 {
		for {
			rate := map[bool]float64{false: 1, true: 10}[burst]
			if gap := r.ExpFloat64() / rate * 1000; at+gap < until {
				at += gap
				break
			}
			at, burst = until, !burst
			until += r.ExpFloat64() * map[bool]float64{false: 180_000, true: 20_000}[burst]
		}
		bursty.add(at)
	}
	b := fitBursts(bursty)
	near(t, "factor", b.factor, 10, 0.2)
	near(t, "share", b.share, 0.1, 0.3)
	near(t, "seconds", b.seconds, 20, 0.3)
}

func TestZipf(t *testing.T) {
	for _, want := range []float64{0, 0.7, 1.5, 3} {
		var groups []int
		for i := range 40 {
			groups = append(groups, int(1e7*math.Pow(float64(i+1), -want)))
		}
		if got := zipf(groups); math.Abs(got-want) > 0.01 {
			t.Errorf("skew %v, want %v", got, want)
		}
	}
	if got := zipf([]int{5}); got != 0 {
		t.Errorf("skew of one: %v", got)
	}
}

func TestLengthFit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	c := counts{}
	for range 20_000 {
		c[uint64(clamp(500*math.Exp(0.8*r.NormFloat64()), 10, 3000))]++
	}
	l := c.length()
	near(t, "median", float64(l.Median), 500, 0.03)
	near(t, "sigma", l.Sigma, 0.8, 0.07)
	if l := (counts{7: 5}).length(); l != (trace.Length{Median: 7, Min: 7, Max: 7}) {
		t.Errorf("one value: %+v", l)
	}
	if l := (counts{0: 5, 3: 1}).length(); l.Min != 0 || l.Max != 3 || l.Median < 0 {
		t.Errorf("mostly 0: %+v", l)
	}
}
