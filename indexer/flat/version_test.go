package flat

import (
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// TestEveryLossMovesTheVersion checks what readers rely on: a version that is
// even and the same means that no block went meanwhile. Too seldom does a whole
// event fall between a reader's two looks for a test that runs both.
func TestEveryLossMovesTheVersion(t *testing.T) {
	x, err := New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := x.Writer(0)
	w.Attach(7)
	v := x.version(7)
	store := indexer.Event{Slot: 7, Kind: indexer.Stored, Sequences: []indexer.SequenceHash{1, 2}, Locals: []indexer.LocalHash{1, 2}}
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"removed", func() { w.Apply(&indexer.Event{Slot: 7, Kind: indexer.Removed, Sequences: []indexer.SequenceHash{2}}) }},
		{"cleared", func() { w.Apply(&indexer.Event{Slot: 7, Kind: indexer.Cleared}) }},
		{"detached", func() { w.Detach(7); w.Attach(7) }},
	} {
		w.Apply(&store)
		before := v.Load()
		c.do()
		if after := v.Load(); after == before || after%2 != 0 || x.version(7) != v {
			t.Errorf("%s: the version goes from %d to %d", c.name, before, after)
		}
	}
}
