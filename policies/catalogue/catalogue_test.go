package catalogue

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/policies"
)

func TestStandard(t *testing.T) {
	form := regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	seen := map[string]bool{}
	for _, d := range Standard() {
		id := d.Kind.String() + " " + d.Name
		if seen[id] || !form.MatchString(d.Name) {
			t.Errorf("%s: names are lower case and different", id)
		}
		seen[id] = true
		for field, text := range map[string]string{"Summary": d.Summary, "Doc": d.Doc, "Source": d.Source, "GoesWrong": d.GoesWrong} {
			if text == "" {
				t.Errorf("%s has no %s", id, field)
			}
		}
		if len(d.Summary) > 80-2-len(d.Name) && len(d.Summary) > 76 {
			t.Errorf("%s: a summary of %d characters", id, len(d.Summary))
		}
		for i := range d.Params {
			p := &d.Params[i]
			if !form.MatchString(p.Name) || p.Doc == "" || p.Default == "" || p.Name == "weight" {
				t.Errorf("%s: parameter %q", id, p.Name)
			}
			if got, err := Parse(composed(d, d.Name+"("+p.Name+"="+p.Default+")"), Standard()); err != nil {
				t.Errorf("%s: the default of %s: %v", id, p.Name, err)
			} else if want, err := Parse(composed(d, d.Name), Standard()); err != nil || got.Text != want.Text {
				t.Errorf("%s: the default of %s written out gives %q", id, p.Name, got.Text)
			}
		}
		p, err := Parse(composed(d, d.Name), Standard())
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		a, err := p.New(1)
		if err != nil || a.Inputs() != p.Inputs() {
			t.Errorf("%s: reads %v, said %v: %v", id, a.Inputs(), p.Inputs(), err)
		}
	}
}

// composed is a policy that uses the definition in the way of its kind.
func composed(d Definition, use string) string {
	switch d.Kind {
	case KindFilter:
		return "filter(" + use + ") pick(min)"
	case KindScorer:
		if d.Name == "resident" { // does not read CACHE, which a policy with it must
			use += ",cache"
		}
		return "score(" + use + ") pick(min)"
	case KindPicker:
		return "pick(" + use + ")"
	}
	return use
}

func TestComposed(t *testing.T) {
	for _, c := range []struct {
		text, canonical string
		inputs          policies.Inputs
	}{
		{"score(cache=1,load=0.5) pick(min)", "score(cache=1,load=0.5) pick(min)", policies.Cache | policies.Load},
		{"pick(min)  score(cache)", "score(cache=1) pick(min)", policies.Cache},
		{"score( load(tokens) = 5e-1 ) pick( min() ) filter(requests-below:64)", "filter(requests-below(max=64)) score(load(by=tokens)=0.5) pick(min)", policies.Load},
		{"session:ttl=60s,inner=weighted(cache=1,load=0,capacity=0)", "session:ttl=1m0s,inner=weighted(cache=1,load=0,capacity=0)", policies.Session | policies.Cache},
		{"session:inner=score(cache) pick(min),ttl=5m", "session:ttl=5m0s,inner=score(cache=1) pick(min)", policies.Session | policies.Cache},
		{"sticky:4", "sticky:slack=4", policies.Session | policies.Load},
		{"sticky:inner=session(inner=random)", "sticky:inner=session(inner=random)", policies.Session | policies.Load},
		{"ttft:slo=inf", "ttft", policies.Cache | policies.Load},
		{"score(cache=1,load=0.5,resident=0.2) pick(softmax:0.1)", "score(cache=1,load=0.5,resident=0.2) pick(softmax:temperature=0.1)",
			policies.Cache | policies.Load | policies.Capacity | policies.ExperimentalResidentBlocks},
		{"score(cache,evictions(unit=capacity,stale=100)=2) pick(min)", "score(cache=1,evictions(unit=capacity,stale=100)=2) pick(min)",
			policies.Cache | policies.Capacity | policies.ExperimentalResidentBlocks},
		{"kv-resident:evict=0", "kv-resident:evict=0", policies.Cache | policies.Load},
		{"kv-resident:overlap=1,evict=2", "kv-resident:evict=2", policies.Cache | policies.Load | policies.Capacity | policies.ExperimentalResidentBlocks},
		{"eviction-pressure:load=0", "eviction-pressure:load=0", policies.Cache | policies.Capacity | policies.ExperimentalResidentBlocks},
	} {
		p, err := Parse(c.text, Standard())
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if p.Text != c.canonical || p.Inputs() != c.inputs {
			t.Errorf("%q: %q reads %v; want %q reads %v", c.text, p.Text, p.Inputs(), c.canonical, c.inputs)
		}
	}
}

// A scorer of one's own that says no weight has the weight that the user gives.
func TestOwnScorerWithoutWeight(t *testing.T) {
	own := Definition{Kind: KindScorer, Name: "own", Summary: "nothing", Build: func(Values) (policies.Recipe, error) {
		return policies.Recipe{Scorers: []policies.Weighted{{Scorer: policies.Multiplicative{}}}}, nil
	}}
	p, err := Parse("score(own=0.5) pick(min)", Merge(Standard(), []Definition{own}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.use.recipe()
	if err != nil {
		t.Fatal(err)
	}
	if w := r.Scorers[0]; w.Name != "own" || w.Weight != 0.5 {
		t.Errorf("%s has weight %v; want own with 0.5", w.Name, w.Weight)
	}
}

func TestComposedErrors(t *testing.T) {
	for _, c := range []struct {
		text    string
		column  int
		problem string
	}{
		{"score(cache=1)", 1, "needs a picker"},
		{"score(cach=1) pick(min)", 7, "did you mean cache?"},
		{"score(cache=-1) pick(min)", 13, "weight"},
		{"score(cache=inf) pick(min)", 13, "weight"},
		{"score(load:tokens=1) pick(min)", 7, "parentheses"},
		{"filter(requests-below=1) pick(min)", 23, "no weight"},
		{"pick(min,min)", 10, "one picker"},
		{"pick(min) pick(min)", 11, "twice"},
		{"score() pick(min)", 7, "missing"},
		{"session:ttl=-1s", 13, "a duration from 0s"},
		{"session:inner=falt", 15, "no policy"},
		{"chwbl:factor=0.9", 14, "a number from 1"},
		{"chwbl:factor=nan", 14, "a number from 1"},
		{"chwbl:nodes=1.5", 13, "an integer"},
		{"ttft:slo=0", 10, "above 0"},
		{"chwbl:factor=random(x)", 14, "not a policy"},
		{strings.Repeat("session(inner=", 40), 0, "nested"},
	} {
		_, err := Parse(c.text, Standard())
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: error %v", c.text, err)
			continue
		}
		if c.column != 0 && e.Column != c.column || !strings.Contains(e.Problem, c.problem) {
			t.Errorf("%q: column %d, %s; want column %d, %s", c.text, e.Column, e.Problem, c.column, c.problem)
		}
	}
	if _, err := Parse("score(load=0.5,resident=0.2) pick(min)", Standard()); !errors.Is(err, policies.ErrResidentWithoutCache) {
		t.Errorf("counts without CACHE: %v", err)
	}
	_, err := Parse("chwbl:facter=2", Standard())
	want := "policy, column 7: chwbl has no parameter \"facter\"; did you mean factor?\n  chwbl:facter=2\n        ^"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestYAML(t *testing.T) {
	for yaml, want := range map[string]string{
		"policy: random": "random",
		"policy:\n  chwbl: {factor: 1.5, key: session}":                             "chwbl:factor=1.5,key=session",
		"policy:\n  sticky: 4":                                                      "sticky:slack=4",
		"policy:\n  ttft:\n    slo: .inf":                                           "ttft",
		"policy:\n  session:\n    ttl: 60s\n    inner:\n      weighted: {cache: 1}": "session:ttl=1m0s,inner=weighted(cache=1)",
		"policy:\n  session:\n    inner:\n      score: {cache: 1}\n      pick: min": "session:inner=score(cache=1) pick(min)",
		"# a comment\nfilter: [requests-below: 64, preferred-tags]\nscore:\n  cache: 1\n  load: {weight: 0.5, by: tokens}\npick: min\n": "filter(requests-below(max=64),preferred-tags) score(cache=1,load(by=tokens)=0.5) pick(min)",
		"score: [cache: 1, cache: 2]\npick: min": "score(cache=1,cache=2) pick(min)",
		"score: cache\npick: min":                "score(cache=1) pick(min)",
	} {
		p, err := ParseYAML("p.yaml", []byte(yaml), Standard())
		if err != nil {
			t.Errorf("%q: %v", yaml, err)
			continue
		}
		if p.Text != want {
			t.Errorf("%q: %q, want %q", yaml, p.Text, want)
		}
	}
	for yaml, want := range map[string]string{
		"":                                        "p.yaml:1:1: the file is empty",
		"policy: randon":                          "p.yaml:1:9: no policy is named \"randon\"; did you mean random?",
		"policy:\n  chwbl:\n    facter: 2":        "p.yaml:3:5: chwbl has no parameter \"facter\"; did you mean factor?",
		"policy:\n  chwbl:\n    factor: 0":        "p.yaml:3:13: factor is \"0\"",
		"policy: random\nscore: cache":            "p.yaml:2:1: score stands beside policy",
		"scor: cache":                             "p.yaml:1:1: unknown field \"scor\"",
		"score: {cache: -1}\npick: min":           "p.yaml:1:16: weight \"-1\"",
		"policy: [a]":                             "p.yaml:1:9:",
		"policy: random\n---\npolicy: random":     "one policy",
		"a: b: c":                                 "p.yaml:1:4: not YAML",
		"policy: &x random":                       "p.yaml:1:9:",
		"score: {load: {weight: [1]}}\npick: min": "the weight of load must be a number",
	} {
		_, err := ParseYAML("p.yaml", []byte(yaml), Standard())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", yaml, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte("policy: random"), 0o666); err != nil {
		t.Fatal(err)
	}
	if p, err := Parse("@"+file, Standard()); err != nil || p.Text != "random" {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := Parse("@"+file+"x", Standard()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v for a file that is not there", err)
	}
	for name, want := range map[string]string{"/dev/zero": "is larger than 8 KiB, so it is not a policy", filepath.Dir(file): "is a folder"} {
		if _, err := Parse("@"+name, Standard()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
	if p, err := ParseYAML("p.yaml", []byte("\ufeffpolicy: random\r\n"), Standard()); err != nil || p.Text != "random" {
		t.Errorf("with a byte order mark: %v, %v", p, err)
	}
}

// roundTrips checks that the canonical texts give the same policy.
func roundTrips(t interface{ Fatalf(string, ...any) }, p *Policy) {
	for _, text := range []string{p.Text, p.Full} {
		again, err := Parse(text, Standard())
		if err != nil {
			t.Fatalf("%q does not parse: %v", text, err)
		}
		if again.Text != p.Text || again.Full != p.Full || again.Inputs() != p.Inputs() {
			t.Fatalf("%q became %q, %q", text, again.Text, again.Full)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	byKind := map[Kind][]Definition{}
	for _, d := range Standard() {
		byKind[d.Kind] = append(byKind[d.Kind], d)
	}
	rapid.Check(t, func(t *rapid.T) {
		var policy func(depth int) string
		call := func(k Kind, depth int) string {
			d := rapid.SampledFrom(byKind[k]).Draw(t, "definition")
			var args []string
			for _, p := range d.Params {
				if rapid.Bool().Draw(t, p.Name) {
					continue
				}
				value := ""
				switch p.Type {
				case Number:
					value = number(rapid.Float64Range(p.Min, min(p.Max, 1e300)).Draw(t, "number"))
					if p.Above && value == number(p.Min) {
						value = p.Default
					}
				case Integer:
					value = number(float64(rapid.IntRange(int(p.Min), int(p.Max)).Draw(t, "integer")))
				case Duration:
					value = valueText(time.Duration(rapid.Int64Range(0, 31536000e9).Draw(t, "duration")), true)
				case Choice:
					value = rapid.SampledFrom(p.Choices).Draw(t, "choice")
				case Inner:
					if depth > 3 {
						continue
					}
					value = policy(depth + 1)
				}
				if p.Type == Integer && strings.ContainsAny(value, "e+") {
					continue
				}
				args = append(args, p.Name+"="+value)
			}
			return d.Name + "(" + strings.Join(args, ",") + ")"
		}
		policy = func(depth int) string {
			if rapid.Bool().Draw(t, "ready") {
				return call(KindPolicy, depth)
			}
			var b strings.Builder
			for _, s := range []struct {
				name string
				kind Kind
			}{{"filter", KindFilter}, {"score", KindScorer}} {
				var items []string
				for range rapid.IntRange(0, 3).Draw(t, s.name) {
					item := call(s.kind, depth)
					if s.kind == KindScorer && rapid.Bool().Draw(t, "weighted") {
						item += "=" + number(rapid.Float64Range(0, 1e9).Draw(t, "weight"))
					}
					items = append(items, item)
				}
				if items != nil {
					b.WriteString(s.name + "(" + strings.Join(items, ",") + ") ")
				}
			}
			return b.String() + "pick(" + call(KindPicker, depth) + ")"
		}
		text := policy(0)
		p, err := Parse(text, Standard())
		if errors.Is(err, policies.ErrResidentWithoutCache) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		roundTrips(t, p)
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"random", "sticky:slack=3,inner=chwbl(key=session)", "filter(requests-below:3) score(cache=1,load(tokens)=.5) pick(min)", "least-loaded:bi=x", "a(b(c(", "session:ttl=1.5us"} {
		f.Add(s)
	}
	defs := Standard()
	f.Fuzz(func(t *testing.T, s string) {
		if strings.HasPrefix(s, "@") {
			return // would read files
		}
		p, err := Parse(s, defs)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without text")
			}
			return
		}
		roundTrips(t, p)
	})
}

// TestYAMLOfHostileFiles reads files that made the parser of YAML take seconds or
// minutes when they could be longer and deeper. If one does again, the test runs
// into its time limit.
func TestYAMLOfHostileFiles(t *testing.T) {
	for _, unit := range []string{"[", "{", "{a: ", "[a,", "- ", "- [\n", "? ", "a: ", ": ", "<<: ", "&a ", "*a ", "!a ", "\"", "a:\n - ", "[]", "a: |\n"} {
		if _, err := ParseYAML("p.yaml", []byte(strings.Repeat(unit, maxFile/len(unit))), Standard()); err == nil {
			t.Errorf("%q again and again is a policy", unit)
		}
	}
	for yaml, want := range map[string]string{
		strings.Repeat(" ", maxFile+1): "p.yaml:1:1: larger than",
		"\n" + strings.Repeat("[", 65): "p.yaml:2:65: more than 64 brackets",
	} {
		if _, err := ParseYAML("p.yaml", []byte(yaml), Standard()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := ParseYAML("p.yaml", []byte("# "+strings.Repeat("[]", 100)+"\npolicy: random"), Standard()); err != nil {
		t.Errorf("closed brackets: %v", err)
	}
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{"policy: random", "policy:\n  sticky: {slack: 3, inner: {chwbl: {key: session}}}", "filter: [preferred-tags]\nscore: {cache: 1}\npick: min", "policy: &a [*a]"} {
		f.Add([]byte(s))
	}
	defs := Standard()
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := ParseYAML("f.yaml", data, defs); err == nil {
			roundTrips(t, p)
		}
	})
}
