package crtc

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/indextest"
	"github.com/kvbench/kvbench/indexer/reference"
)

// TestWritersInOneTree lets event threads store and remove prompts that branch
// off each other everywhere, so that they split, join, cut off and unlink each
// other's nodes all the time, beside readers. Then the index must say what the
// reference says after the same events.
func TestWritersInOneTree(t *testing.T) {
	const threads, slotsEach, prompts = 4, 3, 24
	events := 6000
	if testing.Short() {
		events = 1000
	}
	// Prompt p goes with the trunk for some way. All are known to all ranks, by
	// names that are the rank's own.
	trunkNames, trunk := chain(1, 700)
	var names [][]indexer.SequenceHash
	var paths [][]indexer.LocalHash
	rng := rand.New(rand.NewPCG(3, 4))
	for p := range uint64(prompts) {
		at := 1 + rng.IntN(len(trunk)-1)
		if p < 8 {
			at = 1 + int(p)
		}
		s, l := chain(p+2, 1+rng.IntN(60))
		names = append(names, append(append([]indexer.SequenceHash{}, trunkNames[:at]...), s...))
		paths = append(paths, append(append([]indexer.LocalHash{}, trunk[:at]...), l...))
	}
	x, err := New(indexer.Config{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	truth := reference.Factory()
	oracle, err := truth.New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	// play applies the events of a thread to an index.
	play := func(w indexer.Writer, thread, events int) []int {
		rng := rand.New(rand.NewPCG(5, uint64(thread)))
		slot := func(i int) indexer.Slot { return indexer.Slot(i*threads+thread) * 90 }
		for i := range slotsEach {
			w.Attach(slot(i))
		}
		name := func(at indexer.Slot, s []indexer.SequenceHash) []indexer.SequenceHash {
			own := make([]indexer.SequenceHash, len(s))
			for i := range s {
				own[i] = s[i] ^ indexer.SequenceHash(at)<<48
			}
			return own
		}
		for range events {
			at, p := slot(rng.IntN(slotsEach)), rng.IntN(prompts)
			n := len(paths[p])
			from := rng.IntN(n)
			to := min(n, from+1+rng.IntN(40))
			ev := indexer.Event{Slot: at, Kind: indexer.Removed, Sequences: name(at, names[p][from:to])}
			switch k := rng.IntN(20); {
			case k < 8:
				ev = indexer.Event{Slot: at, Kind: indexer.Stored, Sequences: name(at, names[p][:to]), Locals: paths[p][:to]}
			case k < 12 && from > 0:
				ev = indexer.Event{Slot: at, Kind: indexer.Stored, Sequences: name(at, names[p][from:to]), Locals: paths[p][from:to],
					HasParent: true, Parent: name(at, names[p][from-1:from])[0]}
			case k < 15:
				ev.Sequences = name(at, names[p][from:])
			case k == 19:
				ev = indexer.Event{Slot: at, Kind: indexer.Cleared}
			}
			w.Apply(&ev)
		}
		var counts []int
		for i := range slotsEach {
			counts = append(counts, w.Blocks(slot(i)))
		}
		return counts
	}
	counts := make([][]int, threads)
	var writers, readers sync.WaitGroup
	var stop atomic.Bool
	for i := range threads {
		w := x.Writer(i)
		writers.Go(func() { counts[i] = play(w, i, events) })
	}
	for i := range 2 {
		readers.Go(func() {
			r := x.Reader()
			defer r.Close()
			var ans indexer.Answer
			for k := i; !stop.Load(); k++ {
				r.Find(paths[k%prompts], indexer.FindOptions{EarlyExit: k%3 == 0}, &ans)
				if int(ans.Best()) > len(paths[k%prompts]) {
					t.Errorf("%d blocks of %d", ans.Best(), len(paths[k%prompts]))
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	mustCheck(t, x)
	r, want := x.Reader(), oracle.Reader()
	for i := range threads {
		for k, n := range play(oracle.Writer(0), i, events) {
			if counts[i][k] != n {
				t.Errorf("rank %d of thread %d has %d blocks, want %d", k, i, counts[i][k], n)
			}
		}
	}
	var a, b indexer.Answer
	for _, p := range append(paths, trunk) {
		r.Find(p, indexer.FindOptions{}, &a)
		want.Find(p, indexer.FindOptions{}, &b)
		for slot := range indexer.Slot(threads * slotsEach * 90) {
			if a.Score(slot) != b.Score(slot) {
				t.Fatalf("slot %d has %d of %d blocks, want %d", slot, a.Score(slot), len(p), b.Score(slot))
			}
		}
	}
	for i := range threads {
		for k := range slotsEach {
			x.writers[i].Detach(indexer.Slot(k*threads+i) * 90)
		}
	}
	mustCheck(t, x)
	if s := x.Shape(); s.Units != 0 {
		t.Errorf("without ranks, %d nodes are left", s.Units)
	}
}

// TestAnswersInLongTrees asks for prompts of many nodes while they change.
func TestAnswersInLongTrees(t *testing.T) {
	for _, threads := range []int{1, 3} {
		p := indextest.Play{Writers: threads, Readers: 2, Answers: 1500, Time: time.Second}
		for i := range uint64(6) {
			script, queries := indextest.RandomScript(i, 40, 1300)
			if i%2 == 0 {
				script, queries = indextest.HoleScript(1300)
			}
			p.Scripts, p.Queries = append(p.Scripts, script), append(p.Queries, queries...)
		}
		if err := indextest.CheckConcurrent(reference.Factory(), Factory(), p); err != nil {
			t.Errorf("%d event threads: %v", threads, err)
		}
	}
}

// TestWalkAgain asks for one rank only by the way that is taken when it changed
// during the first walk, which is too seldom to be left to chance. Backwards
// removals and stores make every depth one of a half-applied event.
func TestWalkAgain(t *testing.T) {
	x, w := newIndex(t, 2)
	const length = 400
	names, path := chain(1, length)
	// The other rank splits the prompt.
	w.mustStore(t, 1, nil, names, path)
	for i := 1; i < length; i += 9 {
		own, ownPath := chain(uint64(i)+1, 2)
		w.mustStore(t, 1, names[:i], own, ownPath)
	}
	var reverse []indexer.SequenceHash
	for i := range names {
		reverse = append(reverse, names[length-1-i])
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
		if n := r.walkAgain(path, 0, x.versions[0].Load()); n != length/2 && n != length {
			t.Fatalf("%d blocks, want %d or %d", n, length/2, length)
		}
	}
}

// TestReaderMakesAWriterWait lets one event thread change one rank without a
// pause. A query that can never see the rank unchanged must end all the same.
func TestReaderMakesAWriterWait(t *testing.T) {
	x, w := newIndex(t, 1)
	const length = 200
	names, path := chain(1, length)
	var events atomic.Int64
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: names, Locals: path})
			w.Apply(&indexer.Event{Kind: indexer.Removed, Sequences: names[length/2:]})
			events.Add(2)
		}
	}()
	r := x.Reader()
	var ans indexer.Answer
	start, answers := time.Now(), 0
	for answers < 1000 || events.Load() < 1000 {
		r.Find(path, indexer.FindOptions{}, &ans)
		if got := ans.Score(0); got != 0 && got != length/2 && got != length {
			t.Errorf("answer %d is %d blocks, want 0, %d or %d", answers, got, length/2, length)
		}
		if answers++; time.Since(start) > 20*time.Second {
			t.Errorf("%d answers and %d events in 20 s", answers, events.Load())
			break
		}
	}
	stop.Store(true)
	<-done
	mustCheck(t, x)
}

// TestEveryLossMovesTheVersion checks what readers rely on: a version that is
// even and the same means that no block went meanwhile. Too seldom does a whole
// event fall between a reader's two looks for a test that runs both.
func TestEveryLossMovesTheVersion(t *testing.T) {
	x, w := newIndex(t, 8)
	v := x.versions[7].Load()
	names, path := chain(1, 2)
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"removed", func() { w.mustRemove(t, 7, names[1]) }},
		{"cleared", func() { w.Apply(&indexer.Event{Slot: 7, Kind: indexer.Cleared}) }},
		{"detached", func() { w.Detach(7); w.Attach(7) }},
	} {
		w.mustStore(t, 7, nil, names, path)
		before := v.Load()
		c.do()
		if after := v.Load(); after == before || after%2 != 0 || x.versions[7].Load() != v {
			t.Errorf("%s: the version goes from %d to %d", c.name, before, after)
		}
	}
}

// TestLock lets goroutines add to a number that the lock guards, and read it twice.
func TestLock(t *testing.T) {
	var l rwLock
	var wg sync.WaitGroup
	n := 0
	for range 3 {
		wg.Go(func() {
			for range 2000 {
				l.lock()
				n++
				l.unlock()
			}
		})
		wg.Go(func() {
			for range 2000 {
				l.rlock()
				if a := n; a != n {
					t.Error("the number changed while it was locked for reading")
				}
				l.runlock()
			}
		})
	}
	wg.Wait()
	if n != 6000 || l.word.Load() != 0 {
		t.Errorf("%d, lock %x", n, l.word.Load())
	}
}
