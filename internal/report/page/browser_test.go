//go:build browser

package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/chart"
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

// TestLargeInBrowser opens a picture of a hundred trials: what it costs is bounded
// by the number of lines, however many points each had.
func TestLargeInBrowser(t *testing.T) {
	l := &chart.Lines{Head: chart.Head{Title: "Queue depth", Description: "Many trials."}, X: chart.Axis{Label: "time", Unit: chart.Nanoseconds}, Y: chart.Axis{Label: "events waiting"}, Groups: []string{"base", "head"}}
	const trials, points = 100, 100_000
	for k := range trials {
		var th chart.Thinner
		v := 0.0
		for i := range points {
			v = max(0, v+float64((i*7919+k*104729)%201-99))
			th.Add(float64(i)*1e3, v)
		}
		s := th.Series("trial")
		s.Group = k % 2
		l.Series = append(l.Series, s)
	}
	p := New("Large", "")
	p.Section("Trials").Charts(l)
	text := render(t, p)
	file := write(t, text)
	browser := browsertest.Browser(t)
	browsertest.Check(t, browser, file, 1)
	o := browsertest.Open(t, browser, file)
	t.Logf("%d trials of %d points: %d bytes, %d elements, loaded in %v, laid out anew in %v", trials, points, len(text), o.Nodes, o.Loaded, o.Laid)
	if len(text) > 2_000_000 || o.Nodes > 3000 {
		t.Errorf("%d bytes and %d elements", len(text), o.Nodes)
	}
}
