package rounds

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseVariant(t *testing.T) {
	for in, want := range map[string]Variant{
		"base=":                                  {Name: "base", Kind: Flags, Args: []string{}},
		"tracked=--track-resident-blocks":        {Name: "tracked", Kind: Flags, Args: []string{"--track-resident-blocks"}},
		`q= --index "flat" -v `:                  {Name: "q", Kind: Flags, Args: []string{"--index", "flat", "-v"}},
		"old=@./kvbench-base":                    {Name: "old", Kind: Binary, Program: "./kvbench-base", Args: []string{}},
		"old=@'/a b/kvbench' --index flat":       {Name: "old", Kind: Binary, Program: "/a b/kvbench", Args: []string{"--index", "flat"}},
		"crtc=!./driver --corpus {corpus} {out}": {Name: "crtc", Kind: Command, Program: "./driver", Args: []string{"--corpus", "{corpus}", "{out}"}},
		"d=!sh -c 'x --in={corpus} > {out}'":     {Name: "d", Kind: Command, Program: "sh", Args: []string{"-c", "x --in={corpus} > {out}"}},
	} {
		got, err := ParseVariant(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", in, d)
		}
		again, err := ParseVariant(got.String())
		if d := cmp.Diff(want, again); err != nil || d != "" {
			t.Errorf("%s, written as %s: %v %s", in, got, err, d)
		}
	}
}

func TestParseVariantErrors(t *testing.T) {
	for in, want := range map[string]string{
		"base":                        "has no =",
		"=--x":                        "name is empty",
		"a b=":                        `holds ' '`,
		"a/b=":                        `holds '/'`,
		strings.Repeat("a", 41) + "=": "41 characters",
		"a=x":                         "a=@x for another kvbench, a=!x for another program",
		"a=@":                         `after the "@"`,
		"a=! ":                        `after the "!"`,
		"a=@x y":                      "not a flag",
		"a=--x 'y":                    "cannot split",
		"a=!d {out}":                  "{corpus}",
		"a=!d {corpus}":               "{out}",
		"a=--x\x00":                   "zero byte",
	} {
		if _, err := ParseVariant(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", in, err, want)
		}
	}
}

func TestRatio(t *testing.T) {
	r, err := ParseRatio("tracked/base")
	if err != nil || r != (Ratio{"tracked", "base"}) || r.String() != "tracked/base" {
		t.Errorf("%v, %v", r, err)
	}
	for _, in := range []string{"", "a", "/", "a/", "/b", "a/b/c"} {
		if _, err := ParseRatio(in); err == nil {
			t.Errorf("%q: no error", in)
		}
	}
	names := []string{"base", "tracked"}
	for r, want := range map[Ratio]string{
		{"tracked", "base"}:  "",
		{"base", "base"}:     "--aa",
		{"trakced", "base"}:  "did you mean tracked?",
		{"tracked", "other"}: "there are base, tracked",
	} {
		err := checkRatio(r, names)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", r, err, want)
		}
	}
}

// FuzzParseVariant: what is accepted reads back the same from its own text.
func FuzzParseVariant(f *testing.F) {
	for _, s := range []string{"base=", "a=--x y", "a=@./b --c 'd e'", "a=!sh -c 'x {corpus} {out}'", "a=\"", "a=!\\", "=", "a=--x\\\ny"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVariant(s)
		if err != nil {
			return
		}
		if slices.ContainsFunc(v.Args, func(a string) bool { return strings.ContainsRune(a, 0) }) {
			t.Errorf("%q gives a word that no program can be given", s)
		}
		again, err := ParseVariant(v.String())
		if d := cmp.Diff(v, again); err != nil || d != "" {
			t.Errorf("%q is written as %q, which reads as %v\n%s", s, v.String(), err, d)
		}
	})
}
