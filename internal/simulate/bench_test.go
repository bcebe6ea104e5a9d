package simulate

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/trace"
)

// BenchmarkRun plays the public conversation trace, or the one that KVBENCH_TRACE
// names, on 8 ranks with blocks of 16 tokens, one policy on one goroutine. Requests
// for each second of CPU time say something on a machine that others use too.
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
			began := cpuTime(b)
			for b.Loop() {
				cfg := config(b, tr, policy)
				cfg.Workers, cfg.Engine.Blocks, cfg.Engine.BlockSize = 8, 65536, 16
				cfg.Oracle, cfg.Bounds, cfg.Parallel = false, false, 1
				run(b, cfg)
			}
			b.ReportMetric(float64(tr.Len())*float64(b.N)/(cpuTime(b)-began).Seconds(), "requests/cpu-s")
			b.ReportMetric(float64(tr.Len())*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// cpuTime returns the CPU time of the process.
func cpuTime(b *testing.B) time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
