package trial

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/indexer/runs"
	"github.com/kvbench/kvbench/internal/replay"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/policies/catalogue"
	"github.com/kvbench/kvbench/results/table"
)

type quiet struct{}

func (quiet) Step(string, int64) {}
func (quiet) Advance(int64)      {}

func openTest(t *testing.T) *corpus.Corpus {
	t.Helper()
	c, _, err := Open(context.Background(), Input{
		Source: "conversation-small",
		Options: corpus.Options{Workers: 4, DPRanks: 1, BlockSize: 128, TraceBlockSize: 512, GPUBlocks: 4096,
			LengthFactor: 1, DuplicationFactor: 1, SpeedUp: 1, Rescale: corpus.RescaleRank},
		Seed: 7, Window: 200 * time.Millisecond,
	}, quiet{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func decide(t *testing.T, c *corpus.Corpus, index indexer.Factory, policy string, serial bool, path string, argv ...string) {
	t.Helper()
	counts := replay.ThreadCounts{EventIssuers: 1, QueryThreads: 2, EventThreads: 1}
	place, err := replay.Place(replay.CPURequest{QueryIssuer: replay.NoCPU, Reader: replay.NoCPU}, counts, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	p, err := catalogue.Parse(policy, catalogue.Standard())
	if err != nil {
		t.Fatal(err)
	}
	cfg := replay.Config{Corpus: c, Index: index, Placement: place, Policy: p, Serial: serial, IssuerSpin: -1}
	cfg.Decisions = DecisionsTo(path, false, &cfg, argv)
	if _, err := Run(context.Background(), cfg, argv, 0); err != nil {
		t.Fatal(err)
	}
}

func TestSerialDecisionsAreEqualBytes(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	c := openTest(t)
	decide(t, c, runs.Factory(), "kv:temperature=0.2", true, at("one"), "kvbench", "one")
	decide(t, openTest(t), flat.Factory(), "kv:temperature=0.2", true, at("two"), "kvbench", "two")
	decide(t, c, runs.Factory(), "kv:temperature=0.3", true, at("three"))
	one, err := os.ReadFile(at("one"))
	if err != nil {
		t.Fatal(err)
	}
	for name, same := range map[string]bool{"two": true, "three": false} {
		if other, err := os.ReadFile(at(name)); err != nil || bytes.Equal(one, other) != same {
			t.Errorf("%s: %d bytes beside %d; the same is %v (%v)", name, len(other), len(one), !same, err)
		}
	}
	rows, err := table.ReadAll[table.Decision](at("one"))
	if err != nil || len(rows) != len(c.Requests) {
		t.Fatalf("%d rows of %d, %v", len(rows), len(c.Requests), err)
	}
	for _, row := range rows {
		if row.SelectionNS != nil || row.LookupNS != nil || row.OverlapBlocks == nil || row.Cost == nil {
			t.Fatalf("%+v", row)
		}
	}
}

func TestDecisionsSayWhatTheyAreOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions")
	c := openTest(t)
	decide(t, c, runs.Factory(), "kv", false, path, "kvbench", "replay")
	_, rows, meta, err := table.Kind(path)
	if err != nil || rows != int64(len(c.Requests)) {
		t.Fatalf("%d rows, %v", rows, err)
	}
	f := meta.Facts
	if f["corpus_sha256"] != c.SHA256() || !strings.HasPrefix(f["policy"], "kv:") || f["query_threads"] != "2" || f["serial"] != "false" || len(meta.Command) != 2 {
		t.Errorf("%+v", meta)
	}
}
