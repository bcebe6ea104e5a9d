package replay

import (
	"context"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/internal/host"
)

// finished returns a trial whose run is over, with everything that its threads
// wrote.
func finished(t *testing.T) *trial {
	t.Helper()
	cfg := testConfig(t, testCorpus(t, 300, 50*time.Millisecond), flat.Factory())
	if err := cfg.fill(); err != nil {
		t.Fatal(err)
	}
	index, err := flat.New(indexConfig(&cfg))
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{cfg: &cfg, corpus: cfg.Corpus, clock: host.NewClock()}
	ctx := context.Background()
	if err := tr.setUp(ctx, index); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.pool.Close(ctx) })
	if _, err := tr.measure(ctx); err != nil {
		t.Fatal(err)
	}
	if _, reasons := tr.join(); len(reasons) > 0 {
		t.Fatalf("a good run: %+v", reasons)
	}
	return tr
}

// TestJoinFindsWhatIsWrong falsifies what the threads wrote, one way at a time.
func TestJoinFindsWhatIsWrong(t *testing.T) {
	for rule, falsify := range map[string]func(*trial){
		"completion":      func(t *trial) { d := t.observer.done[0]; t.observer.done[0] = d[:len(d)-1] },
		"lane_order":      func(t *trial) { l := t.lanes[0]; l.ops[0], l.ops[1] = l.ops[1], l.ops[0] },
		"rank_order":      func(t *trial) { d := t.observer.done[1]; d[0], d[len(d)-1] = d[len(d)-1], d[0] },
		"thread_affinity": func(t *trial) { d := t.observer.done; d[0], d[1] = d[1], d[0] },
		"buffer_overflow": func(t *trial) { t.observer.full[1].n = 3 },
		"not_issued": func(t *trial) {
			h := t.queryIssuer.handed
			t.queryIssuer.handed = h[:len(h)-1]
			q := t.queryThreads
			last := t.plan.queries[len(h)-1]
			for _, th := range q {
				for i := range th.done {
					if th.done[i].op == last {
						th.done = append(th.done[:i], th.done[i+1:]...)
						break
					}
				}
			}
		},
	} {
		tr := finished(t)
		falsify(tr)
		_, reasons := tr.join()
		found := false
		for _, r := range reasons {
			found = found || r.Rule == rule
		}
		if !found {
			t.Errorf("%s: found only %+v", rule, reasons)
		}
	}
	tr := finished(t)
	tr.observer.done[0] = append(tr.observer.done[0], tr.observer.done[0][0])
	if _, reasons := tr.join(); len(reasons) == 0 || reasons[0].Rule != "completion" {
		t.Errorf("an event that was applied twice: %+v", reasons)
	}
	tr.queryThreads[0].done[0].op = 1 << 30
	if _, reasons := tr.join(); len(reasons) == 0 {
		t.Error("an operation that does not exist was accepted")
	}
}

func TestMaxDepth(t *testing.T) {
	tr := finished(t)
	s, _ := tr.join()
	// Naively: at every moment of a hand-over, who is inside?
	for _, query := range []bool{true, false} {
		var want int64
		for i := range s.seen {
			if (tr.corpus.Ops[i].Kind == 0) != query {
				continue
			}
			inside := int64(0)
			for k := range s.seen {
				if (tr.corpus.Ops[k].Kind == 0) == query && s.handed[k] <= s.handed[i] && max(s.finished[k], s.handed[k]) >= s.handed[i] {
					inside++
				}
			}
			want = max(want, inside)
		}
		if got := tr.maxDepth(s, query); got != want {
			t.Errorf("queries %v: deepest %d, want %d", query, got, want)
		}
	}
}

func TestPlanCoversEveryOperationOnce(t *testing.T) {
	c := testCorpus(t, 300, time.Millisecond)
	for _, issuers := range []int{1, 2, 3, 7} {
		p := newPlan(c, issuers, 5, 4, func(slot uint32) int { return int(slot) % 4 })
		seen := make([]int, len(c.Ops))
		for _, op := range p.queries {
			seen[op]++
		}
		last := -1
		for slot, issuer := range p.issuerOf {
			if issuer < last || issuer >= issuers {
				t.Errorf("%d issuers: slot %d goes to issuer %d after %d; groups must be contiguous", issuers, slot, issuer, last)
			}
			last = issuer
		}
		for issuer, ops := range p.events {
			for i, op := range ops {
				seen[op]++
				if p.issuerOf[c.Ops[op].Slot] != issuer || i > 0 && ops[i-1] >= op {
					t.Fatalf("%d issuers: operation %d is with issuer %d, after %d", issuers, op, issuer, ops[max(0, i-1)])
				}
			}
		}
		for op, n := range seen {
			if n != 1 {
				t.Fatalf("%d issuers: operation %d is issued %d times", issuers, op, n)
			}
		}
		sum := 0
		for _, n := range p.perThread {
			sum += n
		}
		if sum != p.numEvents || p.maxPair < 1 || p.maxPair > sum {
			t.Errorf("%d issuers: %d events by thread of %d, largest pair %d", issuers, sum, p.numEvents, p.maxPair)
		}
	}
}
