package replay

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/internal/replay/corpus"
)

func TestAssignmentNames(t *testing.T) {
	for i, name := range Assignments() {
		if a, err := ParseAssignment(name); err != nil || a != Assignment(i) || a.String() != name {
			t.Errorf("%s reads back as %v, %v", name, a, err)
		}
	}
	if _, err := ParseAssignment("Hash"); err == nil || !strings.Contains(err.Error(), "roundrobin, hash, balanced") {
		t.Errorf("an unknown assignment: %v", err)
	}
	if s := Assignment(9).String(); s != "Assignment(9)" {
		t.Errorf("%s", s)
	}
}

// TestAssign looks at what each way of assigning promises.
func TestAssign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threads := rapid.IntRange(1, 9).Draw(t, "threads")
		c := &corpus.Corpus{}
		loads := rapid.SliceOfN(rapid.Uint32Range(0, 5000), 1, 60).Draw(t, "blocks of one event by rank")
		for i, n := range loads {
			c.Ranks = append(c.Ranks, indexer.Rank{Worker: uint64(i / 2), DP: uint32(i % 2)})
			c.Ops = append(c.Ops,
				corpus.Op{Kind: corpus.Query, Slot: uint32(i), Len: 1 << 20}, // must not count
				corpus.Op{Kind: corpus.Stored, Slot: uint32(i), Len: n})
		}
		sums := func(threadOf []int) []int64 {
			out := make([]int64, threads)
			for slot, thread := range threadOf {
				out[thread] += int64(loads[slot]) + 2
			}
			return out
		}
		for a := range Assignment(len(assignments)) {
			got := assign(a, c, threads)
			if len(got) != len(c.Ranks) || slices.Min(got) < 0 || slices.Max(got) >= threads {
				t.Fatalf("%v: %v on %d threads", a, got, threads)
			}
			switch a {
			case RoundRobin:
				for slot, thread := range got {
					if thread != slot%threads {
						t.Fatalf("slot %d is on thread %d of %d", slot, thread, threads)
					}
				}
			case Hash:
				// The rank alone decides.
				last := len(c.Ranks) - 1
				alone := &corpus.Corpus{Ranks: c.Ranks[last:]}
				if assign(Hash, alone, threads)[0] != got[last] {
					t.Fatalf("rank %v goes elsewhere among others", c.Ranks[last])
				}
			case Balanced:
				// No schedule is shorter than the mean and the longest rank, nor
				// than two ranks that must share a thread; Graham's bound is 4/3 of
				// the best one. A list schedule in any order is within
				// mean + longest.
				total, longest := int64(0), int64(0)
				for _, n := range loads {
					total += int64(n) + 2
					longest = max(longest, int64(n)+2)
				}
				if most := slices.Max(sums(got)); most*int64(threads) > total+longest*int64(threads-1) {
					t.Fatalf("a thread has %d of %d, the longest rank %d, on %d threads", most, total, longest, threads)
				}
			}
		}
	})
}

// TestBalancedIsNearTheBest compares with the best of all assignments.
func TestBalancedIsNearTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threads := rapid.IntRange(1, 3).Draw(t, "threads")
		work := rapid.SliceOfN(rapid.Int64Range(1, 50), 1, 7).Draw(t, "work")
		got := make([]int, len(work))
		balance(got, work, threads)
		most := func(threadOf []int) int64 {
			sums := make([]int64, threads)
			for slot, thread := range threadOf {
				sums[thread] += work[slot]
			}
			return slices.Max(sums)
		}
		best := most(got)
		try := make([]int, len(work))
		var visit func(slot int)
		visit = func(slot int) {
			if slot == len(work) {
				best = min(best, most(try))
				return
			}
			for try[slot] = range threads {
				visit(slot + 1)
			}
		}
		visit(0)
		// 3m most ≤ (4m - 1) best
		if m := int64(threads); 3*m*most(got) > (4*m-1)*best {
			t.Fatalf("the fullest of %d threads has %d, at best %d", threads, most(got), best)
		}
	})
}

func TestBalancedIsRoundRobinIfAllAreEqual(t *testing.T) {
	got := make([]int, 11)
	balance(got, slices.Repeat([]int64{7}, 11), 4)
	for slot, thread := range got {
		if thread != slot%4 {
			t.Errorf("slot %d is on thread %d", slot, thread)
		}
	}
}

// TestRunWithEachAssignment looks whether threads own what they were assigned
// and the record says what each of them did.
func TestRunWithEachAssignment(t *testing.T) {
	c := testCorpus(t, 400, 100*time.Millisecond)
	for a := range Assignment(len(assignments)) {
		cfg := testConfig(t, c, flat.Factory())
		cfg.Assign, cfg.Verify, cfg.QueueCapacity = a, true, 5
		rec := mustRun(t, cfg)
		if !onlyLate(rec) || !rec.Verify.OK {
			t.Errorf("%v: %+v, %+v", a, rec.Validity, rec.Verify)
		}
		if rec.Config.Assign != a.String() || rec.Config.QueueCapacity != 8 {
			t.Errorf("the record says assigned by %q, %d in a queue, want %v, 5 rounded up", rec.Config.Assign, rec.Config.QueueCapacity, a)
		}
		ranks, events := make([]int, 2), make([]int64, 2)
		threadOf := assign(a, c, 2)
		for _, thread := range threadOf {
			ranks[thread]++
		}
		for i := range c.Ops {
			if c.Ops[i].Kind != corpus.Query {
				events[threadOf[c.Ops[i].Slot]]++
			}
		}
		for i, th := range rec.EventThreads {
			if th.Number != i || th.Ranks != ranks[i] || th.Accepted != events[i] || th.Applied != events[i] || th.Dropped != 0 {
				t.Errorf("%v, thread %d: %+v, want %d ranks and %d events", a, i, th, ranks[i], events[i])
			}
			if th.BusyNS <= 0 && events[i] > 0 || th.BusyShare != float64(th.BusyNS)/float64(rec.Timing.EndNS) || th.BusyShare > 1 {
				t.Errorf("%v, thread %d: busy for %d ns, %v of the run", a, i, th.BusyNS, th.BusyShare)
			}
			if th.QueueHighWater > 8 || th.QueueHighWater < 1 && events[i] > 0 {
				t.Errorf("%v, thread %d: at most %d waited in a queue of 8", a, i, th.QueueHighWater)
			}
		}
		var blocked int64
		for _, th := range rec.EventThreads {
			blocked += th.BlockedSubmits
		}
		if len(rec.EventThreads) != 2 || blocked != rec.Depths.BlockedSubmits {
			t.Errorf("%v: %d event threads, %d pushes waited, in all %d", a, len(rec.EventThreads), blocked, rec.Depths.BlockedSubmits)
		}
	}
}
