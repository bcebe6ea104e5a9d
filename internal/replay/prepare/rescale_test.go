package prepare

import (
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/replay/corpus"
)

// TestRescaleIsPreparation compares a corpus that was scaled from a longer window
// with one that was prepared for the window: the same work, 1 ns apart at most.
func TestRescaleIsPreparation(t *testing.T) {
	tr := smallTrace(t, 400)
	for _, rescale := range []string{corpus.RescaleRank, corpus.RescaleGlobal} {
		prepareFor := func(window time.Duration) *corpus.Corpus {
			opts := options(3, 2)
			opts.Rescale = rescale
			p := preparer{run: fakeRun, maxOps: corpus.MaxOps}
			c, err := p.prepare(t.Context(), tr, Origin{Name: "small", SHA256: "00"}, opts, 42, window, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		const window = 750 * time.Millisecond
		direct := prepareFor(window)
		scaled, err := prepareFor(24 * time.Second).Rescale(window)
		if err != nil {
			t.Fatal(err)
		}
		if scaled.Manifest != direct.Manifest {
			t.Errorf("manifest\n%+v, want\n%+v", scaled.Manifest, direct.Manifest)
		}
		// By rank and by query or event, for 1 ns may reorder ranks.
		type stream struct {
			slot  uint32
			query bool
		}
		// 1 ns apart also when requests ran.
		times := map[uint32]corpus.Request{}
		for _, r := range direct.Requests {
			times[r.Row] = r
		}
		for _, r := range scaled.Requests {
			w := times[r.Row]
			if d, e := r.FirstToken-w.FirstToken, r.Finish-w.Finish; d < -1 || d > 0 || e < -1 || e > 0 || r.Ran() != w.Ran() {
				t.Errorf("request %+v, prepared %+v", r, w)
			}
		}
		split := func(c *corpus.Corpus) map[stream][]corpus.Op {
			out := map[stream][]corpus.Op{}
			for _, op := range c.Ops {
				s := stream{op.Slot, op.Kind == corpus.Query}
				out[s] = append(out[s], op)
			}
			return out
		}
		want := split(direct)
		for s, got := range split(scaled) {
			if len(got) != len(want[s]) {
				t.Fatalf("%+v: %d ops, want %d", s, len(got), len(want[s]))
			}
			for i, op := range got {
				w := want[s][i]
				if d := op.Deadline - w.Deadline; d < -1 || d > 0 {
					t.Errorf("%+v op %d: deadline %d, prepared %d", s, i, op.Deadline, w.Deadline)
				}
				if op.Kind != w.Kind || op.Len != w.Len || op.Parent != w.Parent {
					t.Errorf("%+v op %d: %+v, prepared %+v", s, i, op, w)
				}
			}
		}
	}
}
