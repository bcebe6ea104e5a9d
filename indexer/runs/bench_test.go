package runs

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/internal/replay/corpus"
)

// BenchmarkCorpus applies the events of the corpus file that KVBENCH_CORPUS
// names and asks its queries, one after the other as they are in the file.
func BenchmarkCorpus(b *testing.B) {
	path := os.Getenv("KVBENCH_CORPUS")
	if path == "" {
		b.Skip("KVBENCH_CORPUS does not name a corpus file")
	}
	c, err := corpus.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	c.Touch()
	for _, mode := range []string{"apply", "mixed"} {
		for _, f := range []indexer.Factory{flat.Factory(), Factory()} {
			b.Run(mode+"/"+f.Name, func(b *testing.B) {
				// A thread's own CPU time says more than the clock on a machine
				// that does other things.
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				var ops int64
				var cpu time.Duration
				for b.Loop() {
					b.StopTimer()
					x, err := f.New(indexer.Config{Threads: 1, Slots: len(c.Ranks)})
					if err != nil {
						b.Fatal(err)
					}
					w, r := x.Writer(0), x.Reader()
					for i := range c.Ranks {
						w.Attach(indexer.Slot(i))
					}
					var ev indexer.Event
					var ans indexer.Answer
					ans.Grow(len(c.Ranks))
					before := threadTime(b)
					b.StartTimer()
					for i := range c.Ops {
						op := &c.Ops[i]
						if op.Kind != corpus.Query {
							c.Event(uint32(i), &ev)
							w.Apply(&ev)
							ops += int64(op.Len)
						} else if mode == "mixed" {
							r.Find(c.Locals(uint32(i)), indexer.FindOptions{}, &ans)
							ops += int64(op.Len)
						}
					}
					b.StopTimer()
					cpu += threadTime(b) - before
					pairs, bytes := 0, int64(0)
					for i := range c.Ranks {
						pairs += w.Blocks(indexer.Slot(i))
					}
					for _, p := range x.(indexer.MemoryReporter).Memory() {
						bytes += p.Bytes
					}
					b.ReportMetric(float64(bytes)/float64(pairs), "B/pair")
					r.Close()
					if err := x.Close(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				b.ReportMetric(float64(cpu.Nanoseconds())/float64(ops), "cpu-ns/block")
				b.ReportMetric(float64(ops)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
			})
		}
	}
}

func threadTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
