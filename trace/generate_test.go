package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustGenerate(t testing.TB, p GenerateParams) *Trace {
	t.Helper()
	tr, err := Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestGenerate(t *testing.T) {
	for name, p := range map[string]GenerateParams{"conversation": ConversationParams(), "agentic": AgenticParams()} {
		t.Run(name, func(t *testing.T) {
			tr := mustGenerate(t, p)
			rows := rowsOf(tr)
			if len(rows) != p.Requests {
				t.Fatalf("%d rows, want %d", len(rows), p.Requests)
			}
			checkIDs(t, rows, p.BlockSize)
			checkGrouping(t, tr)

			// Ids are numbered as they appear.
			next := uint64(0)
			firsts := map[uint64]int{}
			for _, q := range rows {
				for _, id := range q.HashIDs {
					if id > next {
						t.Fatalf("id %d appears before %d", id, next)
					} else if id == next {
						next++
					}
				}
				firsts[q.HashIDs[0]]++
			}
			// A few prompts head most rows. One shorter than a block heads none.
			counts := []int{}
			for _, n := range firsts {
				counts = append(counts, n)
			}
			slices.Sort(counts)
			slices.Reverse(counts)
			if shared := counts[0] + counts[1] + counts[2]; shared < len(rows)/3 || counts[0] == len(rows) {
				t.Errorf("the first blocks are shared by %v", counts[:3])
			}

			branches, turnsMax := 0, 0
			for s := range tr.Sessions() {
				turns := tr.Turns(s)
				turnsMax = max(turnsMax, len(turns))
				for k, i := range turns {
					q := tr.Request(int(i))
					if k == 0 {
						if q.Session == "" {
							branches++
						}
						continue
					}
					// A turn continues the whole blocks of the one before it,
					// and more than its answer was added.
					before := tr.Request(int(turns[k-1]))
					whole := before.InputLength / p.BlockSize
					if !slices.Equal(q.HashIDs[:whole], before.HashIDs[:whole]) || q.InputLength <= before.InputLength+before.OutputLength {
						t.Fatalf("turn %d of session %d does not extend the one before it", k, s)
					}
					if before.InputLength%p.BlockSize != 0 && q.HashIDs[whole] == before.HashIDs[whole] {
						t.Fatalf("turn %d of session %d fills a partial block and keeps its id", k, s)
					}
					if !math.IsNaN(q.Timestamp) || !(q.Delay >= 0) {
						t.Fatalf("turn %d of session %d has timestamp %v and delay %v", k, s, q.Timestamp, q.Delay)
					}
				}
			}
			if turnsMax < 5 {
				t.Errorf("the longest session has %d turns", turnsMax)
			}
			if hasTools := p.ToolShare > 0; hasTools != (branches > len(rows)/10) {
				t.Errorf("%d rows are tool calls", branches)
			}

			// Bursts: the counts in buckets vary far more than those of a
			// Poisson process, whose variance is its mean.
			if d := dispersion(tr); d < 3 {
				t.Errorf("arrivals have a variance of %.1f times their mean", d)
			}
			info := Describe(tr)
			for _, l := range []LengthInfo{info.Input, info.Output} {
				if float64(l.P99Tokens) < 3*float64(l.P50Tokens) {
					t.Errorf("the lengths have no heavy tail: %+v", l)
				}
			}
			for _, q := range rows {
				if q.InputLength > p.MaxInputTokens || q.OutputLength > p.OutputTokens.Max || q.OutputLength < p.OutputTokens.Min {
					t.Fatalf("row %+v is out of range", q)
				}
			}
		})
	}
}

// dispersion is the variance of the starts of named sessions in 60 buckets,
// divided by their mean.
func dispersion(tr *Trace) float64 {
	_, last := tr.starts()
	counts := make([]float64, 60)
	sum := 0.0
	for s := range tr.Sessions() {
		if q := tr.Request(int(tr.Turns(s)[0])); q.Session != "" {
			counts[min(int(q.Timestamp/last*60), 59)]++
			sum++
		}
	}
	mean, variance := sum/60, 0.0
	for _, n := range counts {
		variance += (n - mean) * (n - mean) / 60
	}
	return variance / mean
}

// Tool calls of one turn share its context and its answer, as the next turn does.
func TestToolCallsFanOut(t *testing.T) {
	p := AgenticParams()
	p.BlockSize = 1 // so that ids say exactly what is shared
	p.Requests = 60
	p.ToolShare, p.MeanTurns, p.MaxToolCalls = 1, 100, 3
	p.SessionsPerSecond = 1e-6 // one session at a time
	p.BurstShare = 0
	tr := mustGenerate(t, p)
	turns := tr.Turns(0)
	fanned := 0
	for i := range tr.Len() {
		call := tr.Request(i)
		if call.Session != "" {
			continue
		}
		// The turn that it follows is the last one that it extends.
		deepest := 0
		for _, k := range turns {
			turn := tr.Request(int(k))
			if n := turn.InputLength; n < len(call.HashIDs) && slices.Equal(call.HashIDs[:n], turn.HashIDs) {
				deepest = max(deepest, n+turn.OutputLength)
			}
		}
		if deepest == 0 || call.InputLength <= deepest {
			t.Fatalf("row %d extends no turn", i)
		}
		for _, k := range turns {
			if turn := tr.Request(int(k)); turn.InputLength > deepest && slices.Equal(call.HashIDs[:deepest], turn.HashIDs[:deepest]) {
				fanned++
				break
			}
		}
	}
	if fanned < 20 {
		t.Errorf("%d tool calls share their prefix with the next turn", fanned)
	}
}

func TestGenerateWithoutBurstsIsPoisson(t *testing.T) {
	p := ConversationParams()
	p.MeanTurns, p.Requests = 1, 20000
	p.BurstShare = 0
	tr := mustGenerate(t, p)
	if d := dispersion(tr); d < 0.4 || d > 1.8 {
		t.Errorf("arrivals have a variance of %.2f times their mean", d)
	}
	for _, share := range []float64{0, 0.3} {
		p.BurstShare = share
		_, last := mustGenerate(t, p).starts()
		if rate := float64(p.Requests) / last * 1000; math.Abs(rate/p.SessionsPerSecond-1) > 0.1 {
			t.Errorf("with bursts in %v of the time %v sessions start each second, want %v", share, rate, p.SessionsPerSecond)
		}
	}
}

// The whole text of a trace is pinned: it must be the same on every machine, also
// where products and sums are fused, as with GOAMD64=v3.
func TestGenerateGolden(t *testing.T) {
	for _, tc := range []struct {
		p    GenerateParams
		want string
	}{
		{ConversationParams(), "0c67043d5d28d1d1"},
		{AgenticParams(), "4e37099c2ed0815a"},
	} {
		text, err := write(rowsOf(mustGenerate(t, tc.p)), string(tc.p.Record()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if got := hex.EncodeToString(sum[:8]); got != tc.want {
			t.Errorf("the trace is %s, want %s: if that is meant, raise GeneratorVersion and write the embedded traces again", got, tc.want)
		}
		other := tc.p
		other.Seed++
		if slices.EqualFunc(rowsOf(mustGenerate(t, tc.p)), rowsOf(mustGenerate(t, other)), same) {
			t.Error("the seed changes nothing")
		}
	}
}

func TestGenerateRecord(t *testing.T) {
	p := AgenticParams()
	p.Requests, p.SystemSkew = 50, 0.3
	text, err := write(rowsOf(mustGenerate(t, p)), string(p.Record()))
	if err != nil {
		t.Fatal(err)
	}
	tr, src, err := load(string(text), ReaderOptions{BlockSize: p.BlockSize})
	if err != nil || tr.Len() != 50 || len(src.Warnings) > 0 {
		t.Fatalf("%+v, %v", src, err)
	}
	got, err := ParseGenerateParams(src.Generator)
	if err != nil || got != p {
		t.Errorf("the record says %+v, %v, want %+v", got, err, p)
	}
	for _, bad := range []string{"", "[]", `{"name":"other","version":1}`, strings.Replace(string(p.Record()), `"version":1`, `"version":2`, 1),
		strings.Replace(string(p.Record()), `"requests":50`, `"requests":0`, 1)} {
		if _, err := ParseGenerateParams(json.RawMessage(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestGenerateFlags(t *testing.T) {
	p := ConversationParams()
	var record map[string]any
	if err := json.Unmarshal(p.Record(), &record); err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Flags() {
		name := strings.ReplaceAll(f.Name, "-", "_")
		if _, ok := record[name]; !ok || f.Usage == "" {
			t.Errorf("--%s is not recorded", f.Name)
		}
		delete(record, name)
		_, isNumber := limits[f.Name]
		switch v := f.Value.(type) {
		case *Length:
			if err := v.Set(v.String()); err != nil {
				t.Error(err)
			}
		case *int, *float64:
			if !isNumber {
				t.Errorf("--%s has no limits", f.Name)
			}
		case *uint64:
		default:
			t.Errorf("--%s is a %T", f.Name, v)
		}
	}
	if len(record) != 2 {
		t.Errorf("recorded without a flag: %v", record)
	}
	if p != ConversationParams() {
		t.Error("setting lengths to what they are changes them")
	}
	var l Length
	if err := l.Set("300,0.5,1,2000"); err != nil || l != (Length{300, 0.5, 1, 2000}) {
		t.Errorf("%+v, %v", l, err)
	}
	for _, bad := range []string{"", "1", "1,2,3", "a,0,1,2", "1,0,1,2,3", "1.5,0,1,2"} {
		if err := l.Set(bad); err == nil || !strings.Contains(err.Error(), "median,sigma,min,max") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestGenerateValidates(t *testing.T) {
	for flag, change := range map[string]func(*GenerateParams){
		"--block-size is 0":                 func(p *GenerateParams) { p.BlockSize = 0 },
		"--requests is 0; give 1 to":        func(p *GenerateParams) { p.Requests = 0 },
		"--sessions-per-second is NaN":      func(p *GenerateParams) { p.SessionsPerSecond = nan },
		"--burst-factor is 0.5":             func(p *GenerateParams) { p.BurstFactor = 0.5 },
		"--burst-share is 1":                func(p *GenerateParams) { p.BurstShare = 1 },
		"--burst-seconds is +Inf":           func(p *GenerateParams) { p.BurstSeconds = math.Inf(1) },
		"1000 bursts pass between two":      func(p *GenerateParams) { p.SessionsPerSecond = 1e-6 },
		"--system-prompts is 0":             func(p *GenerateParams) { p.SystemPrompts = 0 },
		"--system-skew is -1":               func(p *GenerateParams) { p.SystemSkew = -1 },
		"--mean-turns is 0.9":               func(p *GenerateParams) { p.MeanTurns = 0.9 },
		"--max-turns is 0":                  func(p *GenerateParams) { p.MaxTurns = 0 },
		"--max-input-tokens is 100":         func(p *GenerateParams) { p.MaxInputTokens = 100 },
		"--tool-share is 1.1":               func(p *GenerateParams) { p.ToolShare = 1.1 },
		"--max-tool-calls is 0":             func(p *GenerateParams) { p.MaxToolCalls = 0 },
		"--output-token-ms is -1":           func(p *GenerateParams) { p.OutputTokenMS = -1 },
		"--output-tokens is 5,0.5,6,9":      func(p *GenerateParams) { p.OutputTokens = Length{5, 0.5, 6, 9} },
		"--first-tokens is 10,0.5,6,9":      func(p *GenerateParams) { p.FirstTokens = Length{10, 0.5, 6, 9} },
		"--think-ms is 1,NaN,0,9":           func(p *GenerateParams) { p.ThinkMS = Length{1, nan, 0, 9} },
		"--tool-ms is 1,1,-1,9":             func(p *GenerateParams) { p.ToolMS = Length{1, 1, -1, 9} },
		"--system-tokens is 1,1,1,99999999": func(p *GenerateParams) { p.SystemTokens = Length{1, 1, 1, 9999999999} },
	} {
		p := ConversationParams()
		change(&p)
		if _, err := Generate(p); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("got %v, want %q", err, flag)
		}
	}
	p := ConversationParams()
	p.Requests, p.MaxTurns = -1, -1
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "--requests") || !strings.Contains(err.Error(), "--max-turns") {
		t.Errorf("not all is named in %v", err)
	}
}

// Any valid parameters give a trace that is consistent.
func TestGenerateProperties(t *testing.T) {
	length := rapid.Custom(func(t *rapid.T) Length {
		lo := rapid.IntRange(0, 50).Draw(t, "min")
		median := lo + rapid.IntRange(0, 50).Draw(t, "median")
		return Length{median, rapid.Float64Range(0, 10).Draw(t, "sigma"), lo, median + rapid.IntRange(0, 100).Draw(t, "max")}
	})
	rapid.Check(t, func(rt *rapid.T) {
		p := GenerateParams{
			Seed: rapid.Uint64().Draw(rt, "seed"), BlockSize: rapid.IntRange(1, 64).Draw(rt, "block"), Requests: rapid.IntRange(1, 40).Draw(rt, "requests"),
			SessionsPerSecond: rapid.Float64Range(1e-2, 1e6).Draw(rt, "rate"), BurstFactor: rapid.Float64Range(1, 1e6).Draw(rt, "factor"),
			BurstShare: rapid.Float64Range(0, 0.999).Draw(rt, "share"), BurstSeconds: rapid.Float64Range(1, 1e6).Draw(rt, "burst"),
			SystemPrompts: rapid.IntRange(1, 20).Draw(rt, "prompts"), SystemSkew: rapid.Float64Range(0, 10).Draw(rt, "skew"),
			SystemTokens: length.Draw(rt, "system"), MeanTurns: rapid.Float64Range(1, 20).Draw(rt, "turns"), MaxTurns: rapid.IntRange(1, 15).Draw(rt, "most"),
			FirstTokens: length.Draw(rt, "first"), MessageTokens: length.Draw(rt, "message"), OutputTokens: length.Draw(rt, "output"), ThinkMS: length.Draw(rt, "think"),
			MaxInputTokens: rapid.IntRange(300, 1000).Draw(rt, "input"), ToolShare: rapid.Float64Range(0, 1).Draw(rt, "tools"),
			MaxToolCalls: rapid.IntRange(1, 4).Draw(rt, "calls"), ToolTokens: length.Draw(rt, "tool"), ToolMS: length.Draw(rt, "wait"),
			OutputTokenMS: rapid.IntRange(0, 100).Draw(rt, "speed"),
		}
		tr, err := Generate(p)
		if err != nil {
			rt.Fatal(err)
		}
		rows := rowsOf(tr)
		if len(rows) != p.Requests {
			rt.Fatalf("%d rows, want %d", len(rows), p.Requests)
		}
		checkIDs(t, rows, p.BlockSize)
		for _, q := range rows {
			if q.InputLength > p.MaxInputTokens || q.InputLength < 1 {
				rt.Fatalf("a prompt of %d tokens", q.InputLength)
			}
		}
	})
}

func TestOwnExpAndLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-60, 60).Draw(t, "x")
		if got, want := exp(x), math.Exp(x); math.Abs(got/want-1) > 1e-13 {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
		y := rapid.Float64Range(1e-300, 1e300).Draw(t, "y")
		if got, want := log(y), math.Log(y); math.Abs(got-want) > 1e-14*max(1, math.Abs(want)) {
			t.Fatalf("log(%v) = %v, want %v", y, got, want)
		}
	})
	if exp(0) != 1 || log(1) != 0 {
		t.Errorf("exp(0) = %v, log(1) = %v", exp(0), log(1))
	}
}

// TestTooLarge: what memory could not hold is an error, not the end of the process.
func TestTooLarge(t *testing.T) {
	p := AgenticParams()
	p.Requests = 200
	whole, err := Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := generate(p, 1<<20); err != nil || again.Len() != whole.Len() {
		t.Fatalf("%v", err)
	}
	if _, err := generate(p, 1000); err == nil || !strings.Contains(err.Error(), "for the 200 asked for have more than 1000 ids") {
		t.Errorf("error %v", err)
	}
}
