package soak

import (
	"fmt"
	"io"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/text"
)

// Result is what came of one soak.
type Result struct {
	Index        string               `json:"index"`
	Seed         uint64               `json:"seed"`
	EventWorkers int                  `json:"event_workers"`
	Readers      int                  `json:"readers"`
	Ranks        int                  `json:"ranks"`
	CheckEvery   int                  `json:"check_every"`
	Elapsed      time.Duration        `json:"elapsed_ns"`
	Operations   uint64               `json:"operations"`
	Blocks       uint64               `json:"blocks"`
	Rounds       uint64               `json:"rounds"`
	Registered   uint64               `json:"registered_ranks"`
	Effects      indexer.EffectTotals `json:"effects"`
	// Answers were given while events were applied, Compared while none were.
	Answers     uint64   `json:"answers"`
	Compared    uint64   `json:"compared_answers"`
	Memory      Memory   `json:"memory"`
	Interrupted bool     `json:"interrupted"`
	Problem     *Problem `json:"problem"`
}

func mib(bytes int64) string { return fmt.Sprintf("%.2f MiB", float64(bytes)/(1<<20)) }

// WriteText writes the result for a terminal.
func (r *Result) WriteText(w io.Writer) error {
	var b text.Builder
	verdict := "no difference"
	if r.Problem != nil {
		verdict = "FAILED"
	}
	if r.Interrupted {
		verdict += ", INTERRUPTED"
	}
	b.Line(fmt.Sprintf("%s  %s, seed %d", verdict, r.Index, r.Seed))
	if r.Problem != nil {
		b.Wrap("  ", r.Problem.Error())
	}
	b.Line(fmt.Sprintf("  work       %d operations, %d blocks, %d rounds, %s", r.Operations, r.Blocks, r.Rounds, r.Elapsed.Round(time.Millisecond)))
	b.Line(fmt.Sprintf("  threads    %d event workers, %d readers; %d ranks, %d registrations", r.EventWorkers, r.Readers, r.Ranks, r.Registered))
	e := &r.Effects
	b.Wrap("  effects    ", fmt.Sprintf("stored %d, removed %d, cleared %d, duplicate %d, orphaned %d, conflicting %d, unknown removed %d, malformed %d",
		e.Stored, e.Removed, e.ClearedBlocks, e.Duplicate, e.Orphaned, e.Conflicting, e.UnknownRemoved, e.Malformed))
	b.Line(fmt.Sprintf("  answers    %d meanwhile, %d compared at rest", r.Answers, r.Compared))
	m := &r.Memory
	if m.Counted {
		b.Line(fmt.Sprintf("  index      start %s, peak %s", mib(m.StartIndex), mib(m.PeakIndex)))
		if m.Ended {
			b.Line(fmt.Sprintf("             end   %s, bound %s", mib(m.EndIndex), mib(m.BoundIndex)))
		}
		if m.BoundLast > 0 {
			b.Line(fmt.Sprintf("             early %s, late %s, bound %s", mib(m.FirstQuarter), mib(m.LastQuarter), mib(m.BoundLast)))
		} else {
			b.Line(fmt.Sprintf("             too few rounds to judge growth; %d would do", fewRounds))
		}
	} else {
		b.Line("  index      does not count its memory")
	}
	if m.Ended {
		b.Line(fmt.Sprintf("  heap       start %s, end %s, bound %s", mib(m.StartHeap), mib(m.EndHeap), mib(m.BoundHeap)))
	}
	if n := len(m.Samples); n > 0 {
		b.Line("  over time  operations     resident blocks  index         process heap")
		for i := range min(n, 8) {
			s := m.Samples[(i+1)*n/min(n, 8)-1]
			b.Line(fmt.Sprintf("             %-13d  %-15d  %-12s  %s", s.Operations, s.ResidentBlocks, mib(s.IndexBytes), mib(s.HeapBytes)))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Schema names the form of Report.
const Schema = "kvbench.soak/v1"

// Report is the results of soaks in the order in which they ran.
type Report struct {
	Schema  string    `json:"schema"`
	Results []*Result `json:"results"`
}
