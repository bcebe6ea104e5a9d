//go:build browser

package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kvbench/kvbench/internal/report/browsertest"
)

// TestInBrowser opens the report of an experiment and that of a record.
func TestInBrowser(t *testing.T) {
	browser := browsertest.Browser(t)
	one := filepath.Join(t.TempDir(), "one.json")
	save(t, one, record(t))
	for _, c := range []struct {
		path     string
		pictures int
	}{{unpack(t, "tracking", nil), 30}, {one, 15}} {
		text, _ := html(t, []string{c.path}, Options{})
		file := filepath.Join(t.TempDir(), filepath.Base(c.path)+".html")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		browsertest.Check(t, browser, file, c.pictures)
		t.Logf("%s: %d bytes, %+v", filepath.Base(file), len(text), browsertest.Open(t, browser, file))
	}
}
