package tracepage

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/report/pagetest"
	"github.com/kvbench/kvbench/trace"
	"github.com/kvbench/kvbench/trace/analysis"
)

func render(t *testing.T, tr *trace.Trace, src trace.Source) (html string, charts int) {
	t.Helper()
	info, err := analysis.Describe(tr, analysis.Options{CacheBlocks: []int{1, 1000}})
	if err != nil {
		t.Fatal(err)
	}
	p := New(&info, src)
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, problem := range pagetest.Problems(b.String()) {
		t.Error(problem)
	}
	return b.String(), len(p.Figures())
}

func TestPage(t *testing.T) {
	p := trace.AgenticParams()
	p.Requests = 300
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	html, charts := render(t, tr, trace.Source{Name: "<b>.jsonl", SHA256: "abc", Notes: []string{"read as mooncake"}, Warnings: []string{"3 rows are odd"}, Generator: p.Record()})
	if charts != 8 || strings.Count(html, "<figure") != charts {
		t.Errorf("%d charts, %d figures", charts, strings.Count(html, "<figure"))
	}
	for _, want := range []string{"Arrivals over time", "Hits of a cache", "Nodes by depth", "3 rows are odd", "300 requests in", "&lt;b&gt;.jsonl", "Hits of the caches asked for", "&#34;seed&#34;"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, not := range []string{"<b>.jsonl", "<script", "NaN", "src=\"http", "href=\"http"} {
		if strings.Contains(html, not) {
			t.Errorf("has %q", not)
		}
	}
}

// What a trace does not have is said and not drawn.
func TestOddTraces(t *testing.T) {
	row := func(at float64, input int, ids ...uint64) trace.Request {
		return trace.Request{Timestamp: at, Delay: math.NaN(), InputLength: input, HashIDs: ids}
	}
	for name, c := range map[string]struct {
		rows []trace.Request
		want string
	}{
		"all at once":   {[]trace.Request{row(5, 16, 1), row(5, 16, 1)}, "all requests arrive at once"},
		"no blocks":     {[]trace.Request{row(0, 0), row(10, 0)}, "no prompt has a block"},
		"nothing again": {[]trace.Request{row(0, 16, 1), row(10, 16, 2)}, "no request begins with blocks"},
		"one request":   {[]trace.Request{row(0, 16, 1)}, "TRACE"},
		"short":         {[]trace.Request{row(0, 16, 1), row(3, 16, 1)}, "ten windows"},
	} {
		tr, err := trace.New(16, c.rows)
		if err != nil {
			t.Fatal(err)
		}
		html, charts := render(t, tr, trace.Source{Name: "x"})
		if !strings.Contains(html, c.want) || charts == 0 {
			t.Errorf("%s: %d charts and no %q", name, charts, c.want)
		}
		if strings.Contains(html, "NaN") || strings.Contains(html, "Inf") {
			t.Errorf("%s: a figure is no number", name)
		}
	}
}
