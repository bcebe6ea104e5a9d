package flat

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// TestWalkAgain asks for one rank only by the way that is taken when it changed
// during the first walk, which is too seldom to be left to chance. Backwards
// removals and stores make every depth one of a half-applied event.
func TestWalkAgain(t *testing.T) {
	x, err := New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := x.Writer(0)
	w.Attach(0)
	const length = 400
	var names, reverse []indexer.SequenceHash
	var path []indexer.LocalHash
	for i := range length {
		names = append(names, indexer.SequenceHash(i))
		reverse = append(reverse, indexer.SequenceHash(length-1-i))
		path = append(path, indexer.LocalHash(i))
	}
	w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: names, Locals: path})
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	wg.Go(func() {
		for !stop.Load() {
			w.Apply(&indexer.Event{Kind: indexer.Removed, Sequences: reverse[:length/2]})
			w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: names, Locals: path})
		}
	})
	r := x.Reader().(*Reader)
	for start := time.Now(); time.Since(start) < 300*time.Millisecond; {
		if n := r.walkAgain(path, 0, x.version(0)); n != length/2 && n != length {
			t.Fatalf("%d blocks, want %d or %d", n, length/2, length)
		}
	}
}
