package runs

import (
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestClasses(t *testing.T) {
	for n := 1; n <= maxPiece; n++ {
		c := classOf(n)
		if c > maxClass || classWords(c) < n || c > 0 && classWords(c-1) >= n || classOf(classWords(c)) != c {
			t.Fatalf("%d words: class %d of %d words", n, c, classWords(c))
		}
	}
}

// TestArena: pieces given out never overlap, and empty chunks are dropped.
func TestArena(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(1, seed))
		var a arena
		a.init(nil)
		live := map[ref]int{}
		fill := func(r ref, n int) {
			for i := range a.at(r)[:n] {
				a.at(r)[i] = uint64(r)
			}
		}
		for range 5000 {
			if rng.IntN(100) < 55 {
				n := 1 + rng.IntN(1+rng.IntN(maxPiece))
				r := a.alloc(n)
				if live[r] != 0 || r == 0 {
					t.Fatalf("piece %d given out twice", r)
				}
				live[r] = n
				fill(r, n)
			} else {
				for r, n := range live {
					for i, w := range a.at(r)[:n] {
						if w != uint64(r) {
							t.Fatalf("piece %d: word %d belongs to %d", r, i, w)
						}
					}
					delete(live, r)
					a.release(r)
					break
				}
			}
		}
		for r := range live {
			a.release(r)
		}
		if a.chunks != 0 {
			t.Fatalf("%d chunks are left", a.chunks)
		}
	}
}

// TestReclamation replaces a piece over and over under readers; a piece taken
// back before its two epochs are over changes in their hands.
func TestReclamation(t *testing.T) {
	var a arena
	var e epochs
	a.init(nil)
	e.init()
	var shared atomic.Uint32
	put := func(v uint64) ref {
		r := a.alloc(8)
		for i := range a.at(r)[:8] {
			a.at(r)[i] = v
		}
		return r
	}
	shared.Store(put(1))
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		p := e.join()
		wg.Go(func() {
			for !stop.Load() {
				e.pin(p)
				w := a.at(shared.Load())[:8]
				for range 4 {
					for _, v := range w {
						if v != w[7] {
							t.Error("a piece changed under a reader")
							stop.Store(true)
						}
					}
				}
				e.unpin(p)
			}
			e.leave(p)
		})
	}
	var l limbo
	for v, start := uint64(2), time.Now(); time.Since(start) < 300*time.Millisecond && !stop.Load(); v++ {
		old := shared.Swap(put(v))
		l.add(e.now.Load(), old)
		e.advance()
		l.reap(e.now.Load(), &a)
	}
	stop.Store(true)
	wg.Wait()
}

// TestTableAgainstMap compares a table with a map; keys are few and extreme.
func TestTableAgainstMap(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(2, seed))
		var n table
		want := map[uint64]uint64{}
		for range 2000 {
			key := rng.Uint64N(300) - 1
			if n.get(key) != want[key] {
				t.Fatalf("key %d is %d, want %d", key, n.get(key), want[key])
			}
			if want[key] == 0 {
				want[key] = 1 + rng.Uint64N(1<<40)
				n.add(key, want[key])
			} else {
				if got := n.take(key); got != want[key] {
					t.Fatalf("took %d of key %d, want %d", got, key, want[key])
				}
				delete(want, key)
			}
		}
		for key := range maps.Keys(want) {
			n.take(key)
		}
		if n.used != 0 || len(n.cells) > minTable {
			t.Fatalf("emptied, %d of %d cells are used", n.used, len(n.cells))
		}
	}
}
