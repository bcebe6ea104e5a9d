package flat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/indextest"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/internal/hugepages"
)

var (
	_ indexer.Index          = (*Index)(nil)
	_ indexer.MemoryReporter = (*Index)(nil)
)

func TestConformance(t *testing.T) { indextest.Run(t, reference.Factory(), Factory()) }

// TestHugePages: the same index on huge pages, where the system has any.
func TestHugePages(t *testing.T) {
	onHuge := Factory()
	onHuge.New = func(cfg indexer.Config) (indexer.Index, error) {
		cfg.HugePages = true
		return New(cfg)
	}
	opened, err := onHuge.New(indexer.Config{Threads: 1})
	if err != nil {
		t.Skip(err)
	}
	x := opened.(*Index)
	bytes := func() (heap, large int64) {
		for _, p := range x.Memory() {
			if p.HugeBytes < 0 || p.HugeBytes > p.Bytes {
				t.Errorf("%d of %d bytes of %s are on huge pages", p.HugeBytes, p.Bytes, p.Name)
			}
			if p.Name == "large tables" {
				large += p.Bytes
			} else {
				heap += p.Bytes
			}
		}
		return heap, large
	}
	const n = 400_000 // names of one rank: more than the largest class has room for
	empty, none := bytes()
	if none != 0 {
		t.Errorf("empty, the index has %d bytes of large tables", none)
	}
	w := x.Writer(0)
	s, l := make([]indexer.SequenceHash, n), make([]indexer.LocalHash, n)
	for i := range n {
		s[i], l[i] = indexer.SequenceHash(i), indexer.LocalHash(i%7)
	}
	for slot := range indexer.Slot(3) {
		w.Attach(slot)
		w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Stored, Sequences: s, Locals: l})
	}
	full, large := bytes()
	// 16 bytes for each name and each place, and 8 for the set of a place.
	if want := int64(n * (3*16 + 16 + 8)); large < want {
		t.Errorf("%d bytes of large tables, want at least %d", large, want)
	}
	if scratch := int64(16 * n); full > empty+scratch {
		t.Errorf("%d bytes are left on the Go heap, of an empty index %d", full, empty)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
	for slot := range indexer.Slot(3) {
		w.Detach(slot)
	}
	// At most one empty region for each of the nine sizes that have several in one,
	// and shards with tables that have yet to shrink.
	if _, left := bytes(); left > 12*hugepages.RegionBytes {
		t.Errorf("%d bytes of large tables are left of %d", left, large)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	for _, size := range []int{100, 1600, 8000} {
		data := make([]byte, size)
		rng := rand.New(rand.NewPCG(5, uint64(size)))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		if err := indextest.Diff(reference.Factory(), onHuge, indextest.DecodeOps(data)); err != nil {
			t.Error(err)
		}
	}
	play := indextest.Play{Writers: 2, Readers: 2, Answers: 1000, Time: time.Second}
	for i := range uint64(4) {
		var script indextest.Script
		script, play.Queries = indextest.RandomScript(i, 60, 90)
		play.Scripts = append(play.Scripts, script)
	}
	if err := indextest.CheckConcurrent(reference.Factory(), onHuge, play); err != nil {
		t.Error(err)
	}
}

// FuzzFlat compares the index with the reference over histories that are coded
// as bytes.
func FuzzFlat(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{4, 100, 400, 1600} {
		seed := make([]byte, n)
		for i := range seed {
			seed[i] = byte(rng.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := indextest.Diff(reference.Factory(), Factory(), indextest.DecodeOps(data)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestNewRefusesNoThreads(t *testing.T) {
	if _, err := New(indexer.Config{}); err == nil {
		t.Error("an index without event threads was built")
	}
}

// TestPlaces checks what the names of places promise: never 0, siblings differ,
// and order and length of a path matter.
func TestPlaces(t *testing.T) {
	seen := map[uint64]string{}
	add := func(place uint64, path string) {
		if place == 0 {
			t.Errorf("path %s has place 0, which marks a free cell", path)
		}
		if other, ok := seen[place]; ok {
			t.Errorf("paths %s and %s share a place", path, other)
		}
		seen[place] = path
	}
	values := []indexer.LocalHash{0, 1, 2, 3, 1 << 32, 1 << 63, 1<<64 - 1}
	for _, a := range values {
		first := next(rootSeed, a)
		add(first, fmt.Sprint(a))
		for _, b := range values {
			second := next(first, b)
			add(second, fmt.Sprint(a, b))
			for _, c := range values {
				add(next(second, c), fmt.Sprint(a, b, c))
			}
		}
	}
	for i := range indexer.LocalHash(100_000) {
		add(next(1, i), fmt.Sprint("child ", i))
	}
}

// TestPlacesSpread checks that consecutive local hashes, which generated traces
// have, fill the shards and the tables evenly.
func TestPlacesSpread(t *testing.T) {
	const n = 256 * 400
	var shards, low [256]int
	for i := range indexer.LocalHash(n) {
		place := next(rootSeed, i)
		shards[place>>(64-shardBits)]++
		low[place%256]++
	}
	for _, counts := range [][256]int{shards, low} {
		// 400 each is expected, with a standard deviation of 20.
		if lo, hi := slices.Min(counts[:]), slices.Max(counts[:]); lo < 300 || hi > 500 {
			t.Errorf("from %d to %d places, want about 400 each", lo, hi)
		}
	}
}

// TestReaderMakesAWriterWait lets one event thread change one rank without a
// pause. A query that can never see the rank unchanged must end all the same.
func TestReaderMakesAWriterWait(t *testing.T) {
	x, err := New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := x.Writer(0)
	w.Attach(0)
	const length = 200
	var s []indexer.SequenceHash
	var l []indexer.LocalHash
	for i := range length {
		s, l = append(s, indexer.SequenceHash(i)), append(l, indexer.LocalHash(i))
	}
	var events atomic.Int64
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: s, Locals: l})
			w.Apply(&indexer.Event{Kind: indexer.Removed, Sequences: s[length/2:]})
			events.Add(2)
		}
	}()
	r := x.Reader()
	var ans indexer.Answer
	start, answers := time.Now(), 0
	for answers < 1000 || events.Load() < 1000 {
		r.Find(l, indexer.FindOptions{}, &ans)
		if got := ans.Score(0); got != 0 && got != length/2 && got != length {
			t.Errorf("answer %d is %d blocks, want 0, %d or %d", answers, got, length/2, length)
		}
		if answers++; time.Since(start) > 20*time.Second {
			t.Errorf("%d answers and %d events in 20 s", answers, events.Load())
			break
		}
	}
	t.Logf("%d answers beside %d events in %v", answers, events.Load(), time.Since(start))
	stop.Store(true)
	<-done
	if err := x.Check(); err != nil {
		t.Error(err)
	}
}

// TestCheckFindsDamage breaks the index in the ways that Check is for.
func TestCheckFindsDamage(t *testing.T) {
	damages := map[string]func(x *Index, w *Writer){
		"a slot without a name": func(x *Index, _ *Writer) { x.shard(99).add(99, 3) },
		"a name without a slot": func(x *Index, w *Writer) {
			w.ranks[0].names.put(99, 99)
		},
		"an alias that is not counted": func(x *Index, w *Writer) {
			r := w.ranks[0]
			r.names.put(99, r.names.get(0))
		},
		"an alias too many": func(x *Index, w *Writer) {
			r := w.ranks[0]
			r.more.put(r.names.get(0), 2)
		},
		"a wrong number of names":  func(x *Index, w *Writer) { w.ranks[0].names.used++ },
		"a wrong number of places": func(x *Index, w *Writer) { x.shard(w.ranks[0].names.get(0)).used++ },
		"an event that never ends": func(x *Index, w *Writer) { w.ranks[0].version.Add(1) },
		"a lost word":              func(x *Index, w *Writer) { x.shards[0].sets.words = append(x.shards[0].sets.words, 0) },
		"a wrong count": func(x *Index, w *Writer) {
			s := x.shard(w.ranks[0].names.get(0))
			e := s.find(w.ranks[0].names.get(0))
			e.meta++
		},
		"a place where probing does not look": func(x *Index, w *Writer) {
			s := x.shard(w.ranks[0].names.get(0))
			for i := range s.entries {
				if s.entries[i].count() > 0 {
					j := (s.home(s.entries[i].place) + len(s.entries)/2) % len(s.entries)
					s.entries[i], s.entries[j] = s.entries[j], s.entries[i]
					return
				}
			}
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			x, err := New(indexer.Config{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			w := x.Writer(0).(*Writer)
			for slot := range indexer.Slot(3) {
				w.Attach(slot)
				w.Apply(&indexer.Event{Slot: slot, Kind: indexer.Stored, Sequences: []indexer.SequenceHash{0, 1}, Locals: []indexer.LocalHash{0, 1}})
			}
			if err := x.Check(); err != nil {
				t.Fatal(err)
			}
			damage(x, w)
			if err := x.Check(); err == nil {
				t.Error("Check says that all is well")
			}
		})
	}
}

// benchmark is a corpus: each rank holds a window of documents whose beginnings
// are shared, and every step stores one document and removes the oldest.
type benchmark struct {
	x      *Index
	w      indexer.Writer
	stores []indexer.Event
	drops  []indexer.Event
	blocks int // of one document
}

func newBenchmark(b *testing.B, ranks int) *benchmark {
	b.Helper()
	const docs, window, shared, own = 64, 32, 30, 60
	x, err := New(indexer.Config{Threads: 1, Slots: ranks})
	if err != nil {
		b.Fatal(err)
	}
	m := &benchmark{x: x, w: x.Writer(0), blocks: shared + own}
	rng := rand.New(rand.NewPCG(5, 6))
	beginnings := make([][]uint64, 8)
	random := func(n int) []uint64 {
		h := make([]uint64, n)
		for i := range h {
			h[i] = rng.Uint64()
		}
		return h
	}
	for i := range beginnings {
		beginnings[i] = random(shared)
	}
	for slot := range indexer.Slot(ranks) {
		m.w.Attach(slot)
	}
	for d := range docs {
		for slot := range indexer.Slot(ranks) {
			path := slices.Concat(beginnings[d%len(beginnings)], random(own))
			var s []indexer.SequenceHash
			var l []indexer.LocalHash
			for i, h := range path {
				l = append(l, indexer.LocalHash(h))
				// Only the end is removed with a document; its beginning stays.
				if i < shared {
					h *= 3
				}
				s = append(s, indexer.SequenceHash(h))
			}
			m.stores = append(m.stores, indexer.Event{Slot: slot, Kind: indexer.Stored, Sequences: s, Locals: l})
			m.drops = append(m.drops, indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: s[shared:]})
		}
	}
	for i := range window * ranks {
		m.w.Apply(&m.stores[i])
	}
	return m
}

func BenchmarkApply(b *testing.B) {
	for _, ranks := range []int{16, 128} {
		b.Run(fmt.Sprintf("%dRanks", ranks), func(b *testing.B) {
			m := newBenchmark(b, ranks)
			n, blocks := len(m.stores), 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				e := m.w.Apply(&m.stores[(i+n/2)%n])
				f := m.w.Apply(&m.drops[i%n])
				blocks += int(e.Stored + e.Duplicate + f.Removed)
			}
			b.ReportMetric(float64(blocks)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
		})
	}
}

func BenchmarkFind(b *testing.B) {
	for _, ranks := range []int{16, 128} {
		b.Run(fmt.Sprintf("%dRanks", ranks), func(b *testing.B) {
			m := newBenchmark(b, ranks)
			r := m.x.Reader()
			var ans indexer.Answer
			ans.Grow(ranks)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Find(m.stores[i%(len(m.stores)/2)].Locals, indexer.FindOptions{}, &ans)
			}
			if len(ans.Touched()) != ranks {
				b.Errorf("%d ranks in the answer, want %d", len(ans.Touched()), ranks)
			}
			b.ReportMetric(float64(b.N*m.blocks)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
		})
	}
}
