package steptime

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func chunk(n, before int) *Pass {
	var p Pass
	p.AddChunk(n, before)
	return &p
}

// TestPolynomial compares with the published table.
func TestPolynomial(t *testing.T) {
	for tokens, want := range map[int]float64{1: 16.52, 512: 24.39, 2048: 49.36, 8192: 169.14, 16384: 378.28, 32768: 966.08} {
		if ms := (Polynomial{}).Nanos(chunk(tokens, 0)) / 1e6; math.Abs(ms-want) > 0.005+1e-9 {
			t.Errorf("prefill of %d tokens: %.4f ms, want %.2f", tokens, ms, want)
		}
	}
	for u, want := range map[float64]float64{0: 5.74, .1: 10.88, .25: 17.63, .5: 26.31, .75: 31.77, 1: 34.01, 3: 34.01} {
		p := Pass{Decodes: 1, Context: int64(u * 1e6), Capacity: 1e6}
		if ms := (Polynomial{}).Nanos(&p) / 1e6; math.Abs(ms-want) > 0.005+1e-9 {
			t.Errorf("decode at %g of the pool: %.4f ms, want %.2f", u, ms, want)
		}
	}
	// What cutting a prompt does to it is documented: so it must be.
	for size, want := range map[int]float64{126195: 8637, 8192: 2609, 2048: 3048, 512: 6019} {
		ms := 0.0
		for at := 0; at < 126195; at += size {
			ms += (Polynomial{}).Nanos(chunk(min(size, 126195-at), at)) / 1e6
		}
		if math.Abs(ms-want) > 0.5 {
			t.Errorf("a prompt of 126,195 tokens in chunks of %d: %.1f ms, want %g", size, ms, want)
		}
	}
	// Means are in whole tokens: (10+5)/2 - (0+0)/2 is 7.
	p := chunk(10, 0)
	p.AddChunk(5, 0)
	if got, want := (Polynomial{}).Nanos(p), (Polynomial{}).Nanos(chunk(14, 0)); got != want {
		t.Errorf("two chunks of 10 and 5 tokens: %g, want as 14: %g", got, want)
	}
}

// TestLinearChunks: a prompt in chunks costs a Base for each and nothing else more.
func TestLinearChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Linear{Base: 1e6, PerToken: 30000, PerPair: 1.5, PerContext: 50}
		n := rapid.IntRange(1, 100000).Draw(t, "tokens")
		size := rapid.IntRange(1, 20000).Draw(t, "chunk")
		before := rapid.IntRange(0, 100000).Draw(t, "before")
		sum, chunks := 0.0, 0
		for at := 0; at < n; at += size {
			sum += m.Nanos(chunk(min(size, n-at), before+at))
			chunks++
		}
		if want := m.Nanos(chunk(n, before)) + float64(chunks-1)*m.Base; math.Abs(sum-want) > 1e-9*want {
			t.Fatalf("%d chunks take %g, want %g", chunks, sum, want)
		}
	})
}

func TestOfRefuses(t *testing.T) {
	for _, ns := range []float64{0, -1, 0.4, math.NaN(), math.Inf(1), 2e15} {
		if d, err := Of(constant(ns), chunk(1, 0)); err == nil {
			t.Errorf("%g ns became %d", ns, d)
		}
	}
	if d, err := Of(constant(1.5), chunk(1, 0)); err != nil || d != 2 {
		t.Errorf("1.5 ns became %d, %v", d, err)
	}
	for _, m := range []Linear{{Base: -1}, {Base: math.NaN()}, {PerToken: math.Inf(1)}, {PerPair: 1}} {
		if m.Validate() == nil {
			t.Errorf("%v is accepted", m)
		}
	}
}

type constant float64

func (c constant) Nanos(*Pass) float64 { return float64(c) }
func (c constant) String() string      { return "constant" }

func TestPresets(t *testing.T) {
	for _, p := range Presets() {
		if p.Name == "" || p.Model == "" || p.GPU == "" || p.Source == "" || p.Limits == "" {
			t.Errorf("%+v leaves something unsaid", p)
		}
		if found, err := Find(p.Name); err != nil || found.Time.String() != p.Time.String() {
			t.Errorf("%s is not found: %v", p.Name, err)
		}
		if m, ok := p.Time.(Linear); ok {
			if err := m.Validate(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Find("gpt"); err == nil || !strings.Contains(err.Error(), "llama-3.1-8b/h100") {
		t.Errorf("%v", err)
	}
	// By hand: 2 bytes x 8.03e9 over 2.68e12 bytes/s is 5.99 ms, and 1 ms.
	m := Presets()[0].Time.(Linear)
	for name, c := range map[string][2]float64{
		"base": {m.Base, 6.993e6}, "token": {m.PerToken, 29525}, "pair": {m.PerPair, 1.3253}, "context": {m.PerContext, 48.907},
	} {
		if math.Abs(c[0]-c[1]) > 1e-3*c[1] {
			t.Errorf("%s is %g, want %g", name, c[0], c[1])
		}
	}
}

const profile = `phase,tokens,context,ms
prefill,1,0,10
prefill,1001,0,110
prefill,1,1000,20
prefill,1001,1000,220
decode,1,100,5
`

func TestProfile(t *testing.T) {
	m, err := ReadProfile(strings.NewReader(profile), "p.csv")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pass *Pass
		ms   float64
	}{
		{chunk(1, 0), 10}, {chunk(501, 0), 60}, {chunk(1, 500), 15}, {chunk(501, 500), 90},
		{chunk(2001, 0), 210}, {chunk(1, 2000), 30}, // beyond the grid
		{&Pass{Decodes: 8, Context: 8000}, 5},
		{&Pass{Chunks: 1, New: 1, Decodes: 8, Context: 8000}, 15},
	} {
		if ms := m.Nanos(c.pass) / 1e6; math.Abs(ms-c.ms) > 1e-9 {
			t.Errorf("%+v: %g ms, want %g", *c.pass, ms, c.ms)
		}
	}
}

func TestProfileErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "p.csv: no header",
		"phase,tokens,ms\n":                  "p.csv:1: csv: 3 fields",
		"phase,tokens,ms,context\n":          "p.csv:1: header: column 3 is \"ms\"; it must be context",
		"phase,tokens,context,ms\n":          "p.csv: prefill: no rows",
		profile + "warm,1,1,1\n":             "p.csv:7: phase: \"warm\"",
		profile + "decode,0,1,1\n":           "p.csv:7: tokens: \"0\"",
		profile + "decode,1,-1,1\n":          "p.csv:7: context: \"-1\"",
		profile + "decode,1,1,NaN\n":         "p.csv:7: ms: \"NaN\"",
		profile + "decode,1,1,0\n":           "p.csv:7: ms: 0; a pass takes time",
		profile + "decode,1,1,x\n":           "p.csv:7: ms: \"x\"",
		profile + "decode,\"1\n":             "p.csv:7: csv:",
		profile + "decode,1,100,6\n":         "p.csv: decode: lines 6 and 7 are both for 1 tokens",
		profile + "decode,2,200,6\n":         "p.csv: decode: no row for 1 tokens and a context of 200",
		profile + strings.Repeat("x", 10):    "p.csv:7: csv: 1 fields",
		profile + "\ndecode,1,100,5,6,7,8\n": "p.csv:8: csv: 7 fields",
	} {
		if _, err := ReadProfile(strings.NewReader(text), "p.csv"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzProfile(f *testing.F) {
	f.Add(profile, int16(3), int32(700))
	f.Add("phase,tokens,context,ms\nprefill,1,0,1\ndecode,1,0,1\n", int16(1), int32(0))
	f.Fuzz(func(t *testing.T, text string, n int16, before int32) {
		m, err := ReadProfile(strings.NewReader(text), "p.csv")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "p.csv:") {
				t.Fatalf("%v does not name the file", err)
			}
			return
		}
		p := chunk(max(1, int(n)), max(0, int(before)))
		p.AddDecode(1 + max(0, int(before)))
		if ns := m.Nanos(p); math.IsNaN(ns) {
			t.Fatalf("%+v takes %g", *p, ns)
		}
	})
}

// TestProfileOfFile keeps the example of the documentation readable.
func TestProfileOfFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.csv")
	if err := os.WriteFile(path, []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"polynomial":                   "polynomial",
		"profile:" + path:              "profile:" + path,
		"profile:" + path + ".missing": "no such file",
		"gpu":                          "no time model",
	} {
		p, err := Load(text)
		if got := func() string {
			if err != nil {
				return err.Error()
			}
			return p.Time.String()
		}(); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
