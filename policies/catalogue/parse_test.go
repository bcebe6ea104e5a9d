package catalogue

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, canonical, full string }{
		{"round-robin", "round-robin", "round-robin"},
		{" least-loaded ", "least-loaded", "least-loaded:by=requests"},
		{"least-loaded:tokens", "least-loaded:by=tokens", "least-loaded:by=tokens"},
		{"least-loaded:by=requests", "least-loaded", "least-loaded:by=requests"},
		{"least-loaded( by = tokens )", "least-loaded:by=tokens", "least-loaded:by=tokens"},
		{"random()", "random", "random"},
	} {
		p, err := Parse(c.text, Standard())
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if p.Text != c.canonical || p.Full != c.full {
			t.Errorf("%q: %q and %q; want %q and %q", c.text, p.Text, p.Full, c.canonical, c.full)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		text    string
		column  int
		problem string
	}{
		{"", 1, "the name of a policy is missing"},
		{"leest-loaded", 1, "did you mean least-loaded?"},
		{"least-loaded:bi=tokens", 14, "did you mean by?"},
		{"least-loaded:by=token", 17, "did you mean tokens?"},
		{"least-loaded:by=tokens,by=tokens", 24, "given twice"},
		{"least-loaded:tokens,requests", 21, "only the first argument"},
		{"least-loaded(tokens", 20, "a comma or )"},
		{"least-loaded:", 14, "a value is missing"},
		{"random:x=1", 8, "no parameters"},
		{"random random", 8, "too much"},
		{"score(cache=1)", 1, ""},
		{"@", 2, "YAML file"},
	} {
		_, err := Parse(c.text, Standard())
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: error %v", c.text, err)
			continue
		}
		if c.problem != "" && (e.Column != c.column || !strings.Contains(e.Problem, c.problem)) {
			t.Errorf("%q: column %d, %s; want column %d, %s", c.text, e.Column, e.Problem, c.column, c.problem)
		}
	}
}
