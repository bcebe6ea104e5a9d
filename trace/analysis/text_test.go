package analysis

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kvbench/kvbench/trace"
)

var update = flag.Bool("update", false, "write the golden files again")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: go test -update writes it again. Got\n%s\nwant\n%s", path, got, want)
	}
}

// fits says which lines are wider than a terminal.
func fits(t *testing.T, page string) {
	t.Helper()
	for line := range strings.Lines(page) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestText(t *testing.T) {
	tr := generated(t, func(p *trace.GenerateParams) { p.Requests = 400 })
	info, err := Describe(tr, Options{CacheBlocks: []int{100, 2000}, WarmUpRequests: 100})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	src := trace.Source{
		Name: "chat.jsonl", SHA256: strings.Repeat("ab", 32), Bytes: 12345,
		Notes:     []string{"read as mooncake (found by the field hash_ids): times in ms, 512 tokens an id", "a second note"},
		Warnings:  []string{"3 rows are odd"},
		Generator: []byte("{}"),
	}
	if err := info.WriteText(&b, src); err != nil {
		t.Fatal(err)
	}
	golden(t, "info.txt", b.String())
	fits(t, b.String())

	c := compared(t, tr, generated(t, func(p *trace.GenerateParams) { *p = trace.AgenticParams(); p.Requests = 300 }))
	b.Reset()
	if err := c.WriteText(&b, "chat.jsonl", "agents.jsonl"); err != nil {
		t.Fatal(err)
	}
	golden(t, "diff.txt", b.String())
	fits(t, b.String())
}
