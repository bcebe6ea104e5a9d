package output

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/report/page"
	"github.com/kvbench/kvbench/internal/report/pagetest"
	"github.com/kvbench/kvbench/internal/simulate"
	"github.com/kvbench/kvbench/stats"
)

// pageOf writes the page of a result and returns the text of its main part.
func pageOf(t *testing.T, res *simulate.Result) string {
	t.Helper()
	var b strings.Builder
	if err := writeReport(&b, res, nil); err != nil {
		t.Fatal(err)
	}
	for _, problem := range pagetest.Problems(b.String()) {
		t.Error(problem)
	}
	root, err := pagetest.Parse(b.String())
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(pagetest.Text(pagetest.Find(root, "main")[0]))
}

// TestVerdictFirst: the page says first what was asked, then figures, and the time
// model after them; what it says is what the result holds.
func TestVerdictFirst(t *testing.T) {
	cfg := config(t, 150, "round-robin", "least-loaded", "kv")
	cfg.SpeedUps = []float64{0.05, 0.1}
	res, err := Run(context.Background(), cfg, filepath.Join(t.TempDir(), "out"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := pageOf(t, res)
	if !strings.HasPrefix(got, "MEAN TTFT At speed-up 0.05 ") {
		t.Errorf("the page begins with %.100q", got)
	}
	at := -1
	for _, want := range []string{"HIT RATIO At speed-up 0.1", "By mean TTFT at speed-up 0.1", "Warnings", "What requests saw", "Caches without engines", "Time model and its limits"} {
		next := strings.LastIndex(got, want)
		if next <= at {
			t.Errorf("%q is at %d, after what should follow it", want, next)
		}
		at = next
	}
	for _, c := range res.Comparisons {
		if want := fmt.Sprintf("%s with ", c.Policy); c.Policy != "(oracle)" && !strings.Contains(got, want) {
			t.Errorf("%q is not on the page", want)
		}
		if want := fmt.Sprintf("× %.3f [%.3f, %.3f] of round-robin: %s", c.TTFT.Estimate, c.TTFT.Low, c.TTFT.High, simulate.Verdict(c.TTFT, 1)); c.Policy != "(oracle)" && !strings.Contains(got, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if strings.Contains(got, "OVERLOADED") {
		t.Error("no run should be overloaded")
	}
	for i := range res.Runs {
		if r := &res.Runs[i]; r.Policy == "kv" && r.SpeedUp == 0.1 && r.Seed == 2 {
			r.Overloaded = true
		}
	}
	if got := pageOf(t, res); !strings.Contains(got, "OVERLOADED At speed-up 0.1 the load is more than the ranks can serve with kv (1 of 2 seeds)") {
		t.Error("an overload is not said")
	}
}

// TestWords: one that is first, several that share a place, and an interval that
// the ranking takes back.
func TestWords(t *testing.T) {
	iv := func(estimate, low, high float64) stats.Interval {
		return stats.Interval{Estimate: estimate, Low: low, High: high}
	}
	run := func(policy string) simulate.RunResult {
		return simulate.RunResult{Policy: policy, SpeedUp: 1, Whole: simulate.Figures{Completed: 1}}
	}
	res := &simulate.Result{
		Runs:        []simulate.RunResult{run("a"), run("b")},
		Comparisons: []simulate.Comparison{{Policy: "b", Baseline: "a", SpeedUp: 1, TTFT: iv(0.5, 0.4, 0.6), HitRatio: iv(-0.008, -0.0254, 0.007)}},
	}
	place := func(place int, policy string, value float64, same ...string) simulate.Place {
		return simulate.Place{Place: place, Policy: policy, Value: value, NotDistinguishable: same}
	}
	for _, c := range []struct {
		figure string
		places []simulate.Place
		tone   page.Tone
		want   string
	}{
		{simulate.ByTTFT, []simulate.Place{place(1, "b", 5e8), place(2, "a", 1e9)}, page.Plain, "At speed-up 1 the first is b with 500 ms, × 0.500 [0.400, 0.600] of a: lower."},
		{simulate.ByTTFT, []simulate.Place{place(1, "b", 5e8, "a"), place(1, "a", 1e9, "b")}, page.Doubt,
			"At speed-up 1 none is better than another beyond doubt: b with 500 ms, × 0.500 [0.400, 0.600] of a: lower by itself, not distinguishable among all pairs; a with 1 s, not distinguishable from b."},
		{simulate.ByHits, []simulate.Place{place(1, "a", 0.5, "b"), place(1, "b", 0.492, "a")}, page.Doubt,
			"At speed-up 1 none is better than another beyond doubt: a with 50%, not distinguishable from b; b with 49.2%, -0.80 [-2.54, 0.70] points of % against a: not distinguishable."},
	} {
		k := &simulate.Ranking{SpeedUp: 1, Figure: c.figure, Places: c.places}
		if tone, got := first(res, k); tone != c.tone || got != c.want {
			t.Errorf("%s %q\nwant %s %q", tone, got, c.tone, c.want)
		}
	}
	res.Runs[1].Whole.Completed = 0
	if got := placed(res, &simulate.Ranking{SpeedUp: 1, Figure: simulate.ByTTFT}, &simulate.Place{Policy: "b"}); got != "b, which completed no request" {
		t.Error(got)
	}
}

// TestVerdictOfKnees: a search is told by what was carried, or that nothing was.
func TestVerdictOfKnees(t *testing.T) {
	cfg := config(t, 60, "round-robin", "kv")
	cfg.SpeedUps, cfg.Seeds, cfg.SLO = []float64{1}, []uint64{1}, simulate.SLO{TTFT: 5 * time.Second}
	search := simulate.DefaultKnee()
	search.Precision = 0.5
	cfg.Knee = &search
	for _, c := range []struct {
		slo  time.Duration
		want string
	}{{5 * time.Second, "LOAD CARRIED With 99% of the requests within the SLO, "}, {1, "NO LOAD CARRIED None carried any load"}} {
		cfg.SLO.TTFT = c.slo
		res, err := Run(context.Background(), cfg, filepath.Join(t.TempDir(), "out"), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := pageOf(t, res); !strings.HasPrefix(got, c.want) {
			t.Errorf("the page begins with %.200q, want %q", got, c.want)
		}
	}
}
