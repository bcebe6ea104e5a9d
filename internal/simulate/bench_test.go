package simulate

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvbench/kvbench/trace"
)

// BenchmarkRun plays the public conversation trace, or the one that KVBENCH_TRACE
// names, on 8 ranks with blocks of 16 tokens, one policy on one goroutine.
func BenchmarkRun(b *testing.B) {
	path := os.Getenv("KVBENCH_TRACE")
	if path == "" {
		path = filepath.Join("..", "..", "..", "shared", "traces", "mooncake", "conversation_trace.jsonl")
	}
	if _, err := os.Stat(path); err != nil {
		b.Skip("no trace: ", err)
	}
	tr, _, err := trace.Load(context.Background(), path, trace.ReaderOptions{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, policy := range []string{"round-robin", "least-loaded", "kv"} {
		b.Run(policy, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cfg := config(b, tr, policy)
				cfg.Workers, cfg.Engine.Blocks, cfg.Engine.BlockSize = 8, 65536, 16
				cfg.Oracle, cfg.Bounds, cfg.Parallel = false, false, 1
				run(b, cfg)
			}
			b.ReportMetric(float64(tr.Len())*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
