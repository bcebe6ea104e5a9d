package gate

import (
	"strings"
	"testing"

	"github.com/kvbench/kvbench/stats"
)

func TestReadConfig(t *testing.T) {
	c, err := ReadConfig(strings.NewReader(`
confidence: 95%
metrics:
  - metric: rates.achieved_block_ops_per_sec
    ratio: head/base
    margin: 1.5%
  - metric: query_latency.service.p99
    better: lower
    margin: 0.05
    fail_beyond: 2%
`), "gate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if c.Confidence != 0.95 || len(c.Metrics) != 2 || c.Metrics[0].Margin != 0.015 || c.Metrics[0].Better != "" ||
		c.Metrics[1] != (MetricConfig{Metric: "query_latency.service.p99", Better: stats.Lower, Margin: 0.05, FailBeyond: 0.02,
			Where: "gate.yaml: metrics[1] (query_latency.service.p99)"}) {
		t.Errorf("%+v", c)
	}
}

func TestReadConfigNamesWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                "the file is empty",
		"metrics: []":                                     "list at least one",
		"metrics:\n- margin: 2%":                          "metrics[0]: metric is missing",
		"metrics:\n- metric: a\n  margin: 2":              `(a): margin: "2"`,
		"metrics:\n- metric: a\n  better: up":             `better "up"`,
		"metrics:\n- metric: a\n- metric: a":              "metrics[1] (a): the metric is listed twice",
		"metrics:\n- metric: a\n  fail_beyond: x":         `fail_beyond: "x"`,
		"metrics:\n- metric: a\n  margn: 2%":              `[3:3] unknown field "margn"`,
		"metrics: [":                                      "[1:",
		"confidence: 20%\nmetrics:\n- metric: a":          "confidence",
		"metrics:\n- metric: a\n  margin: [1]":            "[3:",
		strings.Repeat("# a comment\n", maxConfigBytes/8): "larger than",
	} {
		_, err := ReadConfig(strings.NewReader(text), "gate.yaml")
		if err == nil || !strings.HasPrefix(err.Error(), "gate.yaml: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: the error is %v, want %q", text, err, want)
		}
	}
}

func TestParseShare(t *testing.T) {
	for text, want := range map[string]float64{"2%": 0.02, "0.02": 0.02, " 0% ": 0, "99%": 0.99} {
		if got, err := ParseShare(text); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"2", "", "%", "-1%", "100%", "1", "NaN", "nan%", "inf", "two"} {
		if got, err := ParseShare(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func FuzzReadConfig(f *testing.F) {
	f.Add("confidence: 95%\nmetrics:\n- metric: a\n  ratio: b/c\n  margin: 2%\n")
	f.Add("metrics: [{metric: a, better: lower, fail_beyond: 0.5}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadConfig(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		for _, m := range c.Metrics {
			if m.Metric == "" || (stats.Rule{Margin: m.Margin, Better: m.Better, FailBeyond: m.FailBeyond}).Check() != nil {
				t.Errorf("%q gives %+v", text, m)
			}
		}
	})
}
