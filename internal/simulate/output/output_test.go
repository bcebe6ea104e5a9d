package output

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/simulate"
	"github.com/kvbench/kvbench/mocker/sglang"
	"github.com/kvbench/kvbench/mocker/steptime"
	"github.com/kvbench/kvbench/mocker/vllm"
	"github.com/kvbench/kvbench/policies/catalogue"
	"github.com/kvbench/kvbench/results/table"
	"github.com/kvbench/kvbench/trace"
)

func config(t *testing.T, requests int, policies ...string) simulate.Config {
	t.Helper()
	p := trace.AgenticParams()
	p.Requests = requests
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	preset, err := steptime.Find("llama-3.1-8b/h100")
	if err != nil {
		t.Fatal(err)
	}
	cfg := simulate.Config{
		Trace: tr, Source: trace.Source{Name: "test"}, Workers: 3,
		Engine: simulate.Engines{Kind: simulate.VLLM, Blocks: 1500, BlockSize: 64, VLLM: vllm.Default(), SGLang: sglang.Default()},
		Time:   preset, SpeedUps: []float64{1, 3}, Seeds: []uint64{1, 2}, EventDelay: 5 * time.Millisecond, LoadDelay: 5 * time.Millisecond,
		Routers: 2, Window: 10 * time.Second, Oracle: true, Bounds: true, WarmUp: 0.25, SLO: simulate.SLO{TTFT: time.Second},
	}
	for _, text := range policies {
		policy, err := catalogue.Parse(text, catalogue.Standard())
		if err != nil {
			t.Fatal(err)
		}
		cfg.Policies = append(cfg.Policies, policy)
	}
	return cfg
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFolder: the rows add up to the figures of the summary, the report is whole,
// and however many runs go side by side, the bytes are the same.
func TestFolder(t *testing.T) {
	argv := []string{"kvbench", "simulate"}
	var first map[string][]byte
	for _, parallel := range []int{1, 4} {
		dir := filepath.Join(t.TempDir(), "out")
		cfg := config(t, 120, "round-robin", "kv")
		cfg.Parallel = parallel
		if _, err := Run(context.Background(), cfg, dir, argv, nil); err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			files[e.Name()] = read(t, filepath.Join(dir, e.Name()))
		}
		if len(files) != 3 {
			t.Fatalf("the folder has %v", entries)
		}
		if first == nil {
			first = files
			check(t, dir, 120)
			continue
		}
		for name, b := range files {
			if !bytes.Equal(first[name], b) {
				t.Errorf("%s is not the same with %d side by side", name, parallel)
			}
		}
	}
}

func check(t *testing.T, dir string, requests int) {
	t.Helper()
	var res simulate.Result
	if err := json.Unmarshal(read(t, filepath.Join(dir, SummaryFile)), &res); err != nil {
		t.Fatal(err)
	}
	r, err := table.Open[table.Request](filepath.Join(dir, RequestsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if len(res.Runs) != 12 || r.Rows() != int64(12*requests) {
		t.Fatalf("%d runs, %d rows", len(res.Runs), r.Rows())
	}
	rows := make([]table.Request, requests)
	for i := range res.Runs {
		run := &res.Runs[i]
		for n := 0; n < requests; {
			k, err := r.Read(rows[n:])
			if n += k; k == 0 {
				t.Fatal(n, err)
			}
		}
		var f simulate.Figures
		var ttft, e2e, tpot, gaps float64
		good, steady := int64(0), int64(0)
		for k, row := range rows {
			if row.Policy != run.Policy || row.SpeedUp != run.SpeedUp || row.Seed != run.Seed || row.Request != int64(k) || row.State != "completed" {
				t.Fatalf("run %d, row %d: %+v", i, k, row)
			}
			f.PromptTokens += row.PromptTokens
			f.OutputTokens += row.OutputTokens
			f.HitTokens += *row.HitTokens
			f.HitBlocks += *row.HitBlocks
			f.AgainTokens += *row.AgainTokens
			f.AgainHitTokens += *row.AgainHits
			f.Preemptions += row.Preemptions
			ttft += float64(*row.TTFTNS) / float64(requests)
			e2e += float64(*row.E2ENS) / float64(requests)
			if *row.TTFTNS < *row.QueueNS || *row.FinishNS-row.ArrivalNS != *row.E2ENS {
				t.Fatalf("%+v", row)
			}
			if row.TPOTNS != nil {
				tpot = max(tpot, *row.TPOTNS)
				gaps = max(gaps, float64(*row.MaxITLNS))
			}
			if !row.WarmUp {
				steady++
				if *row.Good {
					good++
				}
			}
			if (row.ExpectedHits != nil) != (run.Policy != "round-robin") {
				t.Fatalf("%s expects %v", run.Policy, row.ExpectedHits)
			}
		}
		w := &run.Whole
		if f.PromptTokens != w.PromptTokens || f.OutputTokens != w.OutputTokens || f.HitTokens != w.HitTokens || f.HitBlocks != w.HitBlocks ||
			f.AgainTokens != w.AgainTokens || f.AgainHitTokens != w.AgainHitTokens || f.Preemptions != w.Preemptions || f.Preemptions != run.Preemptions ||
			math.Abs(ttft-w.TTFT.Mean) > 1 || math.Abs(e2e-w.E2E.Mean) > 1 || math.Abs(tpot-float64(w.TPOT.Max)) > 1 || gaps != float64(w.MaxGaps.Max) || gaps != float64(w.Gaps.Max) ||
			steady != run.Steady.Requests || good != run.Steady.Goodput.Requests {
			t.Errorf("run %d, the rows give %+v, TTFT %g, E2E %g, %d of %d good; the figures are %+v", i, f, ttft, e2e, good, steady, w)
		}
		var computed int64
		for rank, windows := range run.Series.Computed {
			for _, x := range windows {
				computed += x
			}
			computed -= run.ComputedTokens[rank]
		}
		var arrived, hit int64
		for k, x := range run.Series.Requests {
			arrived += x
			hit += run.Series.HitTokens[k]
		}
		if computed != 0 || arrived != int64(requests) || hit != w.HitTokens || len(w.Curves.TTFT) != 101 || w.Curves.TTFT[100] != w.TTFT.Max || w.Curves.TTFT[50] != w.TTFT.P50 {
			t.Errorf("run %d: series with %d tokens too many, %d requests, %d hits; curve %v of %+v", i, computed, arrived, hit, w.Curves.TTFT, w.TTFT)
		}
	}
	report := string(read(t, filepath.Join(dir, ReportFile)))
	for _, want := range []string{"Hit rate over time", "TTFT over time", "Distribution of TTFT", "Tokens computed by rank: kv", "Pool in use by rank: round-robin", "unbounded cache", "Ranking by mean TTFT", "Times against round-robin", "<svg", "</html>"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(report, "NaN") || strings.Contains(report, "PARTIAL") {
		t.Error("the report has NaN or says that it is partial")
	}
}

// TestOneFolderOneComparison: a folder that holds anything is refused, at once and
// without a change, and so is one into which another comparison is played.
func TestOneFolderOneComparison(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	cfg := config(t, 20, "round-robin")
	if _, err := Run(context.Background(), cfg, dir, nil, func(done, _ int) {
		if done != 1 {
			return
		}
		if _, err := Run(context.Background(), cfg, dir, nil, nil); err == nil || !strings.Contains(err.Error(), "another comparison") {
			t.Errorf("a second comparison at the same time: %v", err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	before := read(t, filepath.Join(dir, SummaryFile))
	if _, err := Run(context.Background(), cfg, dir, nil, nil); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a second comparison: %v", err)
	}
	if !bytes.Equal(before, read(t, filepath.Join(dir, SummaryFile))) {
		t.Error("the first result has changed")
	}
	if _, err := os.Stat(filepath.Join(dir, unfinished)); err == nil {
		t.Error("the refused comparison left its claim")
	}
	if _, err := Run(context.Background(), cfg, filepath.Join(dir, "no", "such"), nil, nil); err == nil {
		t.Error("a folder in no folder was made")
	}
	if _, err := Run(context.Background(), cfg, filepath.Join(dir, SummaryFile), nil, nil); err == nil {
		t.Error("a file was taken for a folder")
	}
}

// TestInterrupted: what was done is there, and says that it is not all.
func TestInterrupted(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	dir := filepath.Join(t.TempDir(), "out")
	cfg := config(t, 200, "round-robin", "kv")
	cfg.Parallel = 1
	res, err := Run(ctx, cfg, dir, nil, func(done, _ int) {
		if done == 3 {
			cancel(stop)
		}
	})
	if !errors.Is(err, stop) || res == nil || !res.Partial || len(res.Runs) != 3 {
		t.Fatalf("%+v, %v", res, err)
	}
	_, rows, meta, err := table.Kind(filepath.Join(dir, RequestsFile))
	if err != nil || rows != 600 || !strings.Contains(strings.Join(meta.Warnings, " "), "interrupted") {
		t.Errorf("%d rows, %q, %v", rows, meta.Warnings, err)
	}
	if !bytes.Contains(read(t, filepath.Join(dir, ReportFile)), []byte("PARTIAL")) || !bytes.Contains(read(t, filepath.Join(dir, SummaryFile)), []byte(`"partial":true`)) {
		t.Error("report or summary do not say that they are partial")
	}
}

// TestFailureLeavesNothing: after an error the folder is as it was.
func TestFailureLeavesNothing(t *testing.T) {
	cfg := config(t, 20, "round-robin")
	cfg.Strict, cfg.Engine.Blocks = true, 8
	made := filepath.Join(t.TempDir(), "out")
	if _, err := Run(context.Background(), cfg, made, nil, nil); err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Stat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", made, err)
	}
	empty := t.TempDir()
	if _, err := Run(context.Background(), cfg, empty, nil, nil); err == nil {
		t.Fatal("no error")
	}
	if entries, err := os.ReadDir(empty); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestKneeFolder: a search has a summary and a report, and no requests.
func TestKneeFolder(t *testing.T) {
	cfg := config(t, 60, "round-robin", "kv")
	cfg.SpeedUps, cfg.Seeds, cfg.SLO = []float64{1}, []uint64{1}, simulate.SLO{TTFT: 5 * time.Second}
	search := simulate.DefaultKnee()
	search.Precision = 0.5
	cfg.Knee = &search
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := Run(context.Background(), cfg, dir, nil, nil); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if !bytes.Contains(read(t, filepath.Join(dir, ReportFile)), []byte("Ranking by the load carried")) {
		t.Error("the report lacks the ranking")
	}
}
