package prepare

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/trace"
)

// conversation loads the public trace, which lies beside the repository.
func conversation(tb testing.TB) *trace.Trace {
	tb.Helper()
	root, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if parent := filepath.Dir(root); parent != root {
			root = parent
			continue
		}
		tb.Fatal("no go.mod above the test")
	}
	path := filepath.Join(filepath.Dir(root), "shared", "traces", "mooncake", "conversation_trace.jsonl")
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("the public trace is not at %s", path)
	}
	t, _, err := trace.Load(tb.Context(), path, trace.ReaderOptions{BlockSize: trace.DefaultBlockSize}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func realOptions(workers int) corpus.Options {
	opts := options(workers, 1)
	opts.GPUBlocks = 16384
	opts.TimeModel = "default"
	return opts
}

func TestConversationTrace(t *testing.T) {
	tr := conversation(t)
	var ids []string
	for _, procs := range []int{1, runtime.NumCPU()} {
		previous := runtime.GOMAXPROCS(procs)
		c, err := Prepare(t.Context(), tr, Origin{Name: "conversation"}, realOptions(128), 42, 2*time.Second, nil, nil)
		runtime.GOMAXPROCS(previous)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.SHA256())
		tot := c.Manifest.Totals
		if tot.Requests != 12031 || len(c.Ranks) != 128 {
			t.Errorf("%d requests on %d ranks", tot.Requests, len(c.Ranks))
		}
		blocks := int64(0)
		for i := range tr.Len() {
			blocks += int64(tr.Request(i).InputLength / 128)
		}
		if tot.RequestBlocks != blocks {
			t.Errorf("%d request blocks, want %d", tot.RequestBlocks, blocks)
		}

		// Each rank's events, applied in order, must make sense: nothing is
		// stored twice, removed before it is stored or held beyond the pool,
		// and no parent is unknown.
		held := make([]map[uint64]bool, len(c.Ranks))
		for i := range held {
			held[i] = map[uint64]bool{}
		}
		for i, op := range c.Ops {
			h := c.Hashes[op.Hashes:][:op.Len]
			on := held[op.Slot]
			switch op.Kind {
			case corpus.Stored:
				if op.HasParent == 1 && !on[op.Parent] {
					t.Fatalf("op %d stores after an unknown parent", i)
				}
				for _, s := range h {
					if on[s] {
						t.Fatalf("op %d stores a block again", i)
					}
					on[s] = true
				}
				if len(on) > 16384 {
					t.Fatalf("op %d: %d blocks in a pool of 16384", i, len(on))
				}
			case corpus.Removed:
				for _, s := range h {
					if !on[s] {
						t.Fatalf("op %d removes a block that is not there", i)
					}
					delete(on, s)
				}
			case corpus.Cleared:
				clear(on)
			}
		}
	}
	if ids[0] != ids[1] {
		t.Errorf("the number of cores changes the corpus: %v", ids)
	}
}

func BenchmarkPrepareConversation(b *testing.B) {
	tr := conversation(b)
	for b.Loop() {
		c, err := Prepare(b.Context(), tr, Origin{}, realOptions(128), 42, 2*time.Second, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(c.Manifest.Totals.BlockOps()), "block-ops")
	}
}
