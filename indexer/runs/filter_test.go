package runs

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
)

// TestFilterAgainstModel inserts and removes names whose hashes share words and
// tags, so that words overflow and tags are equal, and compares the filter with a
// count of each name: what is there must be found, and in an empty filter nothing.
func TestFilterAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f filter
		f.make(0)
		model := map[uint64]int{}
		hash := rapid.Custom(func(t *rapid.T) uint64 {
			word := rapid.Uint64Range(0, 5).Draw(t, "word")
			return word<<60 | rapid.Uint64Range(0, 6).Draw(t, "tag")
		})
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				if f.full(1) {
					t.Skip("full")
				}
				h := hash.Draw(t, "hash")
				had := f.has(h)
				if f.add(h) != had {
					t.Fatal("add and has disagree")
				}
				if had && model[h] > 0 && rapid.Bool().Draw(t, "only once") {
					return
				}
				if had {
					f.insert(h)
				}
				model[h]++
				n++
			},
			"remove": func(t *rapid.T) {
				h := hash.Draw(t, "hash")
				if model[h] == 0 {
					t.Skip("not there")
				}
				f.remove(h)
				model[h]--
				n--
			},
			"make": func(t *rapid.T) {
				f.make(n + rapid.IntRange(0, 20).Draw(t, "room"))
				for h, n := range model {
					for range n {
						f.insert(h)
					}
				}
			},
			"": func(t *rapid.T) {
				for h, n := range model {
					if n > 0 && !f.has(h) {
						t.Fatalf("%x was lost", h)
					}
				}
				if err := f.check(); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// TestFilterErrsRarely fills a filter as far as it may be and asks for names that
// are not there.
func TestFilterErrsRarely(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var f filter
	f.make(10_000)
	for !f.full(1) {
		f.insert(rng.Uint64())
	}
	const asked = 1_000_000
	erred := 0
	for range asked {
		if f.has(rng.Uint64()) {
			erred++
		}
	}
	// Five tags are compared on average, of 32,767.
	if erred > asked/3000 {
		t.Errorf("of %d names that are not there, %d were found", asked, erred)
	}
}

// TestNamesThatComeBack stores prompts, evicts them and stores them again, over and
// over, beside others that stay: names must not be searched for one by one.
func TestNamesThatComeBack(t *testing.T) {
	x, err := New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	w := x.Writer(0).(*Writer)
	w.Attach(0)
	r := w.ranks[0]
	const n = 100
	store := func(id int) {
		s, l := tail(id, 0, n)
		if e := w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: s, Locals: l}); e != (indexer.Effect{Stored: n}) {
			t.Fatalf("effect %+v, want %d stored", e, n)
		}
	}
	for id := range 40 {
		store(1000 + id)
	}
	looked := 0
	for i := range 200 {
		before := r.credit
		store(i % 4)
		looked += before + searchCredit*n - r.credit
		s, _ := tail(i%4, 0, n)
		slices.Reverse(s)
		if e := w.Apply(&indexer.Event{Kind: indexer.Removed, Sequences: s}); e != (indexer.Effect{Removed: n}) {
			t.Fatalf("effect %+v, want %d removed", e, n)
		}
		if err := w.check(r); err != nil {
			t.Fatal(err)
		}
	}
	if r.eager == 0 {
		t.Error("the rank leaves names that come back in its filter")
	}
	if limit := 3 * 200 * n; looked == 0 || looked > limit {
		t.Errorf("searches looked at %d lanes, want some and at most %d", looked, limit)
	}
}
