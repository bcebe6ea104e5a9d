package replay

import (
	"context"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer/noop"
	"github.com/kvbench/kvbench/internal/host"
)

// BenchmarkIssue shows how many operations one issuer hands over in a second if
// all deadlines have passed: the most that a replay can offer. Event issuers hand
// over to event threads that apply nothing; the query issuer to lanes that nobody
// empties meanwhile.
func BenchmarkIssue(b *testing.B) {
	c := testCorpus(b, 20000, time.Nanosecond)
	p, err := Place(noRequest(), ThreadCounts{EventIssuers: 1, QueryThreads: 1, EventThreads: 1}, []int{0})
	if err != nil {
		b.Fatal(err)
	}
	run := func(b *testing.B, issue func(*trial) int) {
		ops := 0
		var took time.Duration
		for b.Loop() {
			cfg := Config{Corpus: c, Index: noop.Factory(), Placement: p, WarmupLookups: 1}
			if err := cfg.fill(); err != nil {
				b.Fatal(err)
			}
			index, err := cfg.Index.New(indexConfig(&cfg))
			if err != nil {
				b.Fatal(err)
			}
			t := &trial{cfg: &cfg, corpus: c, clock: host.NewClock()}
			if err := t.setUp(context.Background(), index); err != nil {
				b.Fatal(err)
			}
			t.start = t.clock.Now() - int64(time.Second)
			began := time.Now()
			ops += issue(t)
			took += time.Since(began)
			if err := t.pool.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(ops)/took.Seconds(), "ops/s")
		b.ReportMetric(float64(took.Nanoseconds())/float64(ops), "ns/handover")
	}
	b.Run("events", func(b *testing.B) {
		run(b, func(t *trial) int {
			t.publishedThrough.Store(1 << 62)
			t.issuers[0].run()
			return len(t.issuers[0].handed)
		})
	})
	b.Run("queries", func(b *testing.B) {
		run(b, func(t *trial) int {
			t.queryIssuer.run()
			return len(t.queryIssuer.handed)
		})
	})
}
