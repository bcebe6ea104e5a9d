//go:build browser

package tracepage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kvbench/kvbench/internal/report/browsertest"
	"github.com/kvbench/kvbench/trace"
)

func TestInBrowser(t *testing.T) {
	browser := browsertest.Browser(t)
	p := trace.AgenticParams()
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	html, charts := render(t, tr, trace.Source{Name: "agents.jsonl", SHA256: "abc", Notes: []string{"read as mooncake"}, Warnings: []string{"3 rows are odd"}, Generator: p.Record()})
	file := filepath.Join(t.TempDir(), "trace.html")
	if err := os.WriteFile(file, []byte(html), 0o666); err != nil {
		t.Fatal(err)
	}
	browsertest.Check(t, browser, file, charts)
}
