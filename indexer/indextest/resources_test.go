package indextest

import (
	"strings"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/flat"
)

// wasteful is an index that works and takes what it should not.
type wasteful struct {
	indexer.Index
	attach func()
	apply  func(ev *indexer.Event)
}

type wastefulWriter struct {
	indexer.Writer
	x *wasteful
}

func (w *wasteful) Writer(i int) indexer.Writer { return wastefulWriter{w.Index.Writer(i), w} }

func (w wastefulWriter) Attach(slot indexer.Slot) {
	w.Writer.Attach(slot)
	if w.x.attach != nil {
		w.x.attach()
	}
}

func (w wastefulWriter) Apply(ev *indexer.Event) indexer.Effect {
	if w.x.apply != nil {
		w.x.apply(ev)
	}
	return w.Writer.Apply(ev)
}

func wasting(change func(w *wasteful)) indexer.Factory {
	return indexer.Factory{Name: "wasteful", New: func(cfg indexer.Config) (indexer.Index, error) {
		x, err := flat.New(cfg)
		w := &wasteful{Index: x}
		change(w)
		return w, err
	}}
}

// TestResourcesFindsWaste shows that indexes which answer right and waste memory
// fail, and that the one which they are made of does not.
func TestResourcesFindsWaste(t *testing.T) {
	var kept [][]byte
	quiet := func(string, ...any) {}
	churn := func(f indexer.Factory) error { return checkChurn(f, quiet) }
	ranks := func(f indexer.Factory) error { return checkRanksAreLinear(f, quiet) }
	for _, c := range []struct {
		name   string
		check  func(f indexer.Factory) error
		change func(w *wasteful)
		want   string
	}{
		{"allocates", checkAllocations, func(w *wasteful) {
			w.apply = func(*indexer.Event) { kept = append(kept[:0], make([]byte, 8)) }
		}, "allocates"},
		{"keeps what it stored", churn, func(w *wasteful) {
			w.apply = func(ev *indexer.Event) {
				if ev.Kind == indexer.Stored {
					kept = append(kept, make([]byte, 24*len(ev.Sequences)))
				}
			}
		}, "the same amount of content"},
		{"is never smaller than it was", churn, func(w *wasteful) {
			stored := 0
			w.apply = func(ev *indexer.Event) {
				if stored += len(ev.Sequences); ev.Kind == indexer.Stored && stored < 300_000 {
					kept = append(kept, make([]byte, 24*len(ev.Sequences)))
				}
			}
		}, "emptied, the index has"},
		{"copies a table for each rank", ranks, func(w *wasteful) {
			n := 0
			w.attach = func() {
				n++
				kept = append(kept[:0], make([]byte, n))
			}
		}, "more than linear"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept = nil
			err := c.check(wasting(c.change))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			kept = nil
			if err := c.check(wasting(func(*wasteful) {})); err != nil {
				t.Errorf("without waste: %v", err)
			}
		})
	}
}
