package runs

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// tail is a prompt whose first blocks are the same for all and whose others
// belong to it alone.
func tail(id, head, n int) (s []indexer.SequenceHash, l []indexer.LocalHash) {
	for i := range n {
		h := uint64(i + 1)
		if i >= head {
			h += uint64(id+1) << 32
		}
		s, l = append(s, indexer.SequenceHash(h)), append(l, indexer.LocalHash(h))
	}
	return s, l
}

func (x *Index) oneRun(t *testing.T) (run ref) {
	t.Helper()
	n := 0
	x.every(func(r ref) { run, n = r, n+1 })
	if n != 1 {
		t.Fatalf("%d runs, want 1", n)
	}
	return run
}

// TestTrimUnderHeldHead: a run whose head is held all the time keeps no more than
// twice what is held of it, or is short; it grows again.
func TestTrimUnderHeldHead(t *testing.T) {
	const head, length = 10, 3000
	x, err := New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w, r := x.Writer(0), x.Reader()
	defer r.Close()
	w.Attach(0)
	w.Attach(1)
	s, l := tail(0, head, head)
	w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: s, Locals: l})
	var ans indexer.Answer
	var before int64
	for id := range 200 {
		s, l := tail(id, head, length)
		if e := w.Apply(&indexer.Event{Slot: 1, Kind: indexer.Stored, Sequences: s, Locals: l}); e.Stored != length {
			t.Fatalf("round %d: %+v", id, e)
		}
		if n := x.Shape().Blocks; n < length {
			t.Fatalf("round %d: the runs have %d blocks", id, n)
		}
		gone := s[head+5:]
		if id%3 == 0 {
			// With a hole first: what lies behind it must stay until it goes, too.
			w.Apply(&indexer.Event{Slot: 1, Kind: indexer.Removed, Sequences: s[20:21]})
			if n := x.Shape().Blocks; n < length {
				t.Fatalf("round %d: a hole cut the runs to %d blocks", id, n)
			}
		}
		w.Apply(&indexer.Event{Slot: 1, Kind: indexer.Removed, Sequences: gone})
		if n := x.Shape().Blocks; n > minTrim+2*(head+5) {
			t.Fatalf("round %d: the runs have %d blocks, held are %d", id, n, head+5)
		}
		r.Find(l, indexer.FindOptions{}, &ans)
		if ans.Score(0) != head || ans.Score(1) != head+5 {
			t.Fatalf("round %d: scores %d and %d", id, ans.Score(0), ans.Score(1))
		}
		w.Apply(&indexer.Event{Slot: 1, Kind: indexer.Cleared})
		if err := x.Check(); err != nil {
			t.Fatal(err)
		}
		if id == 20 {
			before = x.mem.bytes()
		}
	}
	if after := x.mem.bytes(); after > before {
		t.Errorf("the runs took %d bytes and take %d now", before, after)
	}
}

// TestTrimWithChildren: a child keeps what lies before it, and when it goes the
// rest goes, too.
func TestTrimWithChildren(t *testing.T) {
	x, err := New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := x.Writer(0)
	w.Attach(0)
	w.Attach(1)
	s, l := tail(0, 5, 5)
	w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: s, Locals: l})
	s, l = tail(1, 5, 1000)
	w.Apply(&indexer.Event{Slot: 1, Kind: indexer.Stored, Sequences: s, Locals: l})
	run := x.oneRun(t)
	// Two blocks below place 800, of which only the child is kept.
	w.Apply(&indexer.Event{Slot: 1, Kind: indexer.Stored, HasParent: true, Parent: s[799],
		Sequences: []indexer.SequenceHash{1 << 60, 1<<60 + 1}, Locals: []indexer.LocalHash{1 << 60, 1<<60 + 1}})
	w.Apply(&indexer.Event{Slot: 1, Kind: indexer.Removed, Sequences: s})
	if n := len(x.content(run)); n != 1000 {
		t.Fatalf("the run has %d blocks; a child hangs at 800", n)
	}
	w.Apply(&indexer.Event{Slot: 1, Kind: indexer.Removed, Sequences: []indexer.SequenceHash{1 << 60, 1<<60 + 1}})
	if n := len(x.content(run)); n > 10 {
		t.Fatalf("the run has %d blocks, held are 5", n)
	}
	if err := x.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestTrimBesideWriters lets four event threads store and remove tails of one run
// whose head is held, some of them the same tails, while readers ask. Each rank
// holds a prompt either whole or up to a place that its events name.
func TestTrimBesideWriters(t *testing.T) {
	const threads, head, length, rounds = 4, 4, 150, 1500
	x, err := New(indexer.Config{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	s, l := tail(0, head, head)
	first := x.Writer(0)
	first.Attach(threads)
	first.Apply(&indexer.Event{Slot: threads, Kind: indexer.Stored, Sequences: s, Locals: l})
	var stop atomic.Bool
	var writers, readers sync.WaitGroup
	for i := range threads {
		w := first
		if i > 0 {
			w = x.Writer(i)
		}
		slot := indexer.Slot(i)
		w.Attach(slot)
		writers.Go(func() {
			for round := range rounds {
				id := round * (1 + i%2) % 5
				s, l := tail(id, head, length)
				cut := head + 2 + round%20
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Stored, Sequences: s, Locals: l})
				if round%4 == 0 {
					w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: s[100:101]})
				}
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: s[cut:]})
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Stored, HasParent: true, Parent: s[cut-1], Sequences: s[cut:], Locals: l[cut:]})
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: s[cut:]})
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: s[:cut]})
			}
		})
	}
	for range 2 {
		r := x.Reader()
		readers.Go(func() {
			defer r.Close()
			var ans indexer.Answer
			for n := 0; !stop.Load(); n++ {
				_, l := tail(n%5, head, length)
				r.Find(l, indexer.FindOptions{}, &ans)
				if ans.Score(threads) != head {
					t.Errorf("the head's rank has %d blocks, want %d", ans.Score(threads), head)
					return
				}
				for slot := range indexer.Slot(threads) {
					got := ans.Score(slot)
					// Another prompt of the rank shares the head alone.
					if got > head+21 && got != 100 && got != length || got > 0 && got < head {
						t.Errorf("slot %d has %d blocks, which it never had", slot, got)
						return
					}
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	if err := x.Check(); err != nil {
		t.Fatal(err)
	}
	// One more event of each thread cuts what readers kept it from.
	for i := range threads {
		x.writers[i].Apply(&indexer.Event{Slot: indexer.Slot(i), Kind: indexer.Cleared})
	}
	for i := range threads {
		if n := len(x.writers[i].trims); n != 0 {
			t.Errorf("thread %d has %d cuts to do", i, n)
		}
	}
}
