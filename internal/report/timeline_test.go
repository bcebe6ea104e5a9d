package report

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/internal/report/pagetest"
	"github.com/kvbench/kvbench/results/table"
)

// operations draws a trial: events of one rank are done in order, some operations
// are never done.
func operations(t *rapid.T) []table.Operation {
	n := rapid.IntRange(1, 400).Draw(t, "n")
	free := map[uint64]int64{}
	var out []table.Operation
	var deadline int64
	for i := range n {
		deadline += int64(rapid.IntRange(0, 50).Draw(t, "gap"))
		o := table.Operation{Op: int64(i), Kind: rapid.SampledFrom([]string{"query", "stored", "stored", "removed", "cleared"}).Draw(t, "kind"),
			WorkerID: uint64(rapid.IntRange(0, 3).Draw(t, "worker")), Blocks: int64(rapid.IntRange(0, 9).Draw(t, "blocks")), DeadlineNS: deadline}
		if o.Kind == "cleared" {
			o.Blocks = 0
		}
		accepted := deadline + int64(rapid.IntRange(0, 20).Draw(t, "lag"))
		o.AcceptedNS = &accepted
		if rapid.IntRange(0, 20).Draw(t, "lost") > 0 {
			done := accepted + int64(rapid.IntRange(1, 300).Draw(t, "took"))
			if o.Kind != "query" {
				done = max(done, free[o.WorkerID])
				free[o.WorkerID] = done
			}
			o.FinishedNS = &done
		}
		out = append(out, o)
	}
	return out
}

// writeTimeline saves operations as 'kvbench replay --timeline' does.
func writeTimeline(t interface{ Fatal(...any) }, path string, rows []table.Operation) {
	w, err := table.Create[table.Operation](path, true, table.NewMeta([]string{"kvbench", "replay", "<b>"}, map[string]string{"corpus_sha256": "cafe"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTimelineEqualsANaiveCount counts every figure of a timeline the slow way.
func TestTimelineEqualsANaiveCount(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		rows := operations(t)
		path := filepath.Join(dir, "ops.parquet")
		writeTimeline(t, path, rows)
		tl, err := readTimeline(path)
		done := slices.ContainsFunc(rows, func(o table.Operation) bool { return o.FinishedNS != nil })
		if !done {
			if err == nil || !strings.Contains(err.Error(), "nothing to draw") {
				t.Fatalf("nothing was done: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			query bool
			x, y  []float64
		}{"queries": {true, tl.queries.X, tl.queries.Y}, "events": {false, tl.events.X, tl.events.Y}} {
			// at returns the depth before a moment, at its highest, and after it:
			// what comes at one moment comes before what goes.
			at := func(x float64) (before, highest, after float64) {
				for _, o := range rows {
					if (o.Kind == "query") != c.query {
						continue
					}
					for _, e := range []struct {
						ns   *int64
						sign float64
					}{{o.AcceptedNS, 1}, {o.FinishedNS, -1}} {
						switch {
						case e.ns == nil || float64(*e.ns) > x:
						case float64(*e.ns) < x:
							before += e.sign
							highest += e.sign
							after += e.sign
						default:
							highest += max(e.sign, 0)
							after += e.sign
						}
					}
				}
				return before, highest, after
			}
			for k := range c.x {
				before, highest, after := at(c.x[k])
				if c.y[k] < min(before, after) || c.y[k] > highest {
					t.Fatalf("%s: %v unfinished at %v, where it goes from %v over %v to %v", name, c.y[k], c.x[k], before, highest, after)
				}
			}
			want := 0.0
			for _, o := range rows {
				if (o.Kind == "query") == c.query && o.AcceptedNS != nil {
					_, highest, _ := at(float64(*o.AcceptedNS))
					want = max(want, highest)
				}
			}
			if len(c.y) > 0 && slices.Max(c.y) != want {
				t.Fatalf("%s: at most %v, want %v", name, slices.Max(c.y), want)
			}
		}
		wide := tl.end / timelineBins
		var offered, achieved, blocks float64
		held := map[uint64]float64{}
		undone := 0
		for _, o := range rows {
			if o.FinishedNS == nil {
				undone++
				continue
			}
			blocks += float64(o.Blocks)
			switch o.Kind {
			case "stored":
				held[o.WorkerID] += float64(o.Blocks)
			case "removed":
				held[o.WorkerID] -= float64(o.Blocks)
			case "cleared":
				held[o.WorkerID] = 0
			}
		}
		for k := range timelineBins {
			offered += tl.offered[k] * wide / 1e9
			achieved += tl.achieved[k] * wide / 1e9
		}
		if math.Abs(offered-blocks) > 1e-6 || math.Abs(achieved-blocks) > 1e-6 {
			t.Fatalf("%v offered and %v achieved of %v", offered, achieved, blocks)
		}
		if undone != tl.undone || len(tl.ranks) != len(held) {
			t.Fatalf("%d undone, %d ranks; want %d and %d", tl.undone, len(tl.ranks), undone, len(held))
		}
		workers := make([]uint64, 0, len(held))
		for w := range held {
			workers = append(workers, w)
		}
		slices.Sort(workers)
		for i, w := range workers {
			if got := tl.resident[i][timelineBins-1]; got != held[w] {
				t.Fatalf("worker %d ends with %v blocks, want %v", w, got, held[w])
			}
		}
		for k := range timelineBins {
			var took []float64
			for _, o := range rows {
				if o.Kind == "query" && o.FinishedNS != nil && min(int(float64(o.DeadlineNS)/wide), timelineBins-1) == k {
					took = append(took, float64(*o.FinishedNS-o.DeadlineNS))
				}
			}
			slices.Sort(took)
			if len(took) == 0 {
				if !math.IsNaN(tl.p50[k]) {
					t.Fatalf("part %d has a median of nothing: %v", k, tl.p50[k])
				}
				continue
			}
			if tl.p50[k] != took[(len(took)+1)/2-1] {
				t.Fatalf("part %d: median %v of %v", k, tl.p50[k], took)
			}
		}
	})
}

func TestTimelinePage(t *testing.T) {
	dir := t.TempDir()
	one := filepath.Join(dir, "one.json")
	save(t, one, record(t))
	var paths []string
	for _, name := range []string{"a", "b", "c", "d", "<e>"} {
		path := filepath.Join(dir, name+".parquet")
		writeTimeline(t, path, rapid.Custom(operations).Filter(func(o []table.Operation) bool {
			return len(o) > 100
		}).Example(len(paths)))
		paths = append(paths, path)
	}
	text, root := html(t, []string{one}, Options{Timelines: paths})
	for _, want := range []string{"Events unfinished over time", "Resident blocks by rank over time: a", "for the first 4 of 5 trials", "corpus_sha256 cafe", "&lt;e&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(pagetest.Text(root), "do not hold queue depths") {
		t.Error("the page says that depths are missing, and shows them")
	}
	if _, err := Build([]string{one}, Options{Timelines: []string{one}}); err == nil || !strings.Contains(err.Error(), "one.json") {
		t.Errorf("a record as a timeline: %v", err)
	}
}
