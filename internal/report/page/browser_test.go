//go:build browser

package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/report/browsertest"
)

func write(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestInBrowser(t *testing.T) {
	browsertest.Check(t, browsertest.Browser(t), write(t, render(t, sample())), 8)
}

// TestBrowserFinds breaks a small page in each way that the browser is asked about.
func TestBrowserFinds(t *testing.T) {
	p := New("A page", "Small.")
	s := p.Section("Only")
	s.Charts(sample().Figures()[0].Chart)
	text := render(t, p)
	browser := browsertest.Browser(t)
	browsertest.Check(t, browser, write(t, text), 1)
	for _, c := range []struct{ old, new, says string }{
		{"</main>", "<script>1</script></main>", "log, error"},
		{"</main>", `<img alt="x" src="https://example.com/x.png"></main>`, "log, error"},
		{"</style>", ".note,.about{color:#999}</style>", "contrast"},
		{"</style>", "@media (prefers-color-scheme:dark){svg.chart .f-tx{fill:#444}}</style>", "contrast"},
		{"</style>", "footer{width:900px}</style>", "content is"},
		{"</style>", "svg.chart{display:none}</style>", "is 0 x 0"},
		{`<text x="`, `<text x="9`, "reaches out"},
		{"<path d=\"", "<path class=\"f-tx\" d=\"M9 9\"/><path d=\"", "no size"},
		{"<summary>", `<summary tabindex="-1">`, "tab"},
		{`class="skip"`, `class="skip" tabindex="-1"`, "skip"},
		{`role="img"`, `aria-hidden="true"`, "a screen reader finds 0 pictures"},
		{"<main", "<div", "no main"},
		{"@media print{:root{", "@media print{body{background:#000!important}:root{", "prints on"},
	} {
		broken := strings.Replace(text, c.old, c.new, 1)
		if broken == text {
			t.Fatalf("the page has no %q", c.old)
		}
		found := strings.Join(browsertest.Problems(t, browser, write(t, broken), 1), "\n")
		if !strings.Contains(strings.ToLower(found), c.says) {
			t.Errorf("%q in the place of %q: found %q, want %q", c.new, c.old, found, c.says)
		}
	}
}
