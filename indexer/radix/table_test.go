package radix

import (
	"maps"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// TestTableAgainstMap compares a table with a map that grows and shrinks.
func TestTableAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got table[uint64, uint32]
		want := map[uint64]uint32{}
		for range rapid.IntRange(1, 20).Draw(t, "runs") {
			from := rapid.Uint64Max(2000).Draw(t, "from")
			n := rapid.Uint64Max(1000).Draw(t, "n")
			adding := rapid.Bool().Draw(t, "adding")
			for key := from; key < from+n; key++ {
				if adding {
					got.put(key, uint32(key+n))
					want[key] = uint32(key + n)
				} else {
					got.remove(key)
					delete(want, key)
				}
				if _, has := want[key]; got.has(key) != has || got.get(key) != want[key] {
					t.Fatalf("key %d is %d, want %d", key, got.get(key), want[key])
				}
				if err := got.check(); err != nil {
					t.Fatal(err)
				}
			}
			if !maps.Equal(got.m, want) {
				t.Fatalf("the table has %d entries, want %d", got.len(), len(want))
			}
		}
	})
}

// TestTableHasTheBytesItSays compares what tables say of their memory with what
// the collector says, when they are new and after their content was replaced many
// times over.
func TestTableHasTheBytesItSays(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, n := range []uint64{3, 8, 9, 100, 640, 5000, 5120} {
		tables := make([]table[uint64, *node], max(4, 20_000/n))
		before := heap()
		said := func() (bytes int64) {
			for i := range tables {
				bytes += tables[i].bytes()
			}
			return bytes
		}
		for i := range tables {
			for key := range n {
				tables[i].put(key, nil)
			}
		}
		compare := func(when string, tolerance float64) {
			t.Helper()
			got, want := float64(said()), float64(heap()-before)
			if got < want*(1-tolerance) || got > want*(1+tolerance) {
				t.Errorf("%d entries, %s: the tables have %.0f bytes and say %.0f", n, when, want, got)
			}
		}
		compare("new", 0.10)
		for i := range tables {
			for key := range 10 * n {
				tables[i].remove(key)
				tables[i].put(key+n, nil)
			}
		}
		// Where a table is as full as it may be, Go doubles parts of some maps.
		compare("replaced", 0.35)
		runtime.KeepAlive(tables)
	}
}
