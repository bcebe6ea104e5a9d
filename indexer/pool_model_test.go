package indexer

import (
	"context"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// modelRank is what the pool must know of one registered rank.
type modelRank struct {
	slot   Slot
	next   uint32 // event to push
	blocks uint64
	totals EffectTotals
}

// TestPoolAgainstModel makes calls in random order and compares with plain maps.
func TestPoolAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const producers = 2
		threads := rapid.IntRange(1, 3).Draw(t, "threads")
		isClear := func(id uint32) bool { return id%7 == 6 }
		x := &fakeIndex{}
		p, err := NewPool(PoolConfig{
			Index: x, Source: fakeSource{cleared: isClear}, Threads: threads, Producers: producers,
			QueueCapacity: rapid.IntRange(1, 9).Draw(t, "capacity"),
			Layout:        CounterLayout(rapid.IntRange(0, 1).Draw(t, "layout")),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		defer func() { _ = p.Close(ctx) }()

		model := map[Rank]*modelRank{}
		homes := map[Rank]int{}
		tracked := false
		pushed := uint64(0)
		anyRank := rapid.Custom(func(t *rapid.T) Rank {
			return Rank{Worker: uint64(rapid.IntRange(0, 5).Draw(t, "worker")), DP: uint32(rapid.IntRange(0, 1).Draw(t, "dp"))}
		})
		ofProducer := func(slot Slot) *Producer { return p.Producer(int(slot) % producers) }
		// settle publishes and waits, so that the model is what there must be.
		settle := func() {
			for i := range producers {
				p.Producer(i).Publish()
			}
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				batch := rapid.SliceOfN(anyRank, 0, 4).Draw(t, "batch")
				slots, err := p.Register(ctx, batch)
				if err != nil {
					t.Fatal(err)
				}
				for i, rank := range batch {
					m := model[rank]
					if m == nil {
						m = &modelRank{slot: slots[i]}
						for other, o := range model {
							if o.slot == m.slot {
								t.Fatalf("%v got the slot of %v", rank, other)
							}
						}
						model[rank] = m
					}
					thread := p.ThreadOf(m.slot)
					if home, ok := homes[rank]; slots[i] != m.slot || ok && thread != home {
						t.Fatalf("%v: slot %d on thread %d, want slot %d on thread %d", rank, slots[i], thread, m.slot, home)
					}
					homes[rank] = thread
				}
			},
			"unregister": func(t *rapid.T) {
				rank := anyRank.Draw(t, "rank")
				m := model[rank]
				if m != nil && rapid.Bool().Draw(t, "published") {
					ofProducer(m.slot).Publish()
				}
				old := p.Residents()
				if err := p.Unregister(ctx, rank); (err == nil) != (m != nil) {
					t.Fatalf("unregister %v: %v", rank, err)
				}
				if m == nil {
					return
				}
				delete(model, rank)
				if err := p.Producer(0).Push(m.slot, 0); err == nil {
					t.Fatal("a slot of nobody was accepted")
				}
				if old != nil {
					if n, ok := old.CountRank(rank); !ok || n > uint64(m.next) {
						t.Fatalf("the table from before gives %d (%v) for %v", n, ok, rank)
					}
				}
			},
			"push": func(t *rapid.T) {
				if len(model) == 0 {
					return
				}
				rank := rapid.SampledFrom(slices.SortedFunc(maps.Keys(model), Rank.Compare)).Draw(t, "rank")
				m := model[rank]
				for range rapid.IntRange(1, 12).Draw(t, "events") {
					if err := ofProducer(m.slot).Push(m.slot, m.next); err != nil {
						t.Fatal(err)
					}
					pushed++
					m.totals.Events++
					if isClear(m.next) {
						m.totals.ClearedBlocks += m.blocks
						m.blocks = 0
					} else {
						m.totals.Stored++
						m.totals.Duplicate += uint64(m.next % 2)
						m.blocks++
					}
					m.next++
				}
			},
			"track": func(t *rapid.T) {
				if err := p.TrackResidentBlocks(ctx); err != nil {
					t.Fatal(err)
				}
				tracked = true
			},
			"settle": func(t *rapid.T) {
				settle()
				effects, err := p.Effects(ctx)
				if err != nil {
					t.Fatal(err)
				}
				table := p.Residents()
				if (table != nil) != tracked {
					t.Fatalf("tracked is %v, the table %v", tracked, table)
				}
				sum, owned := uint64(0), map[Slot]bool{}
				for rank, m := range model {
					owned[m.slot] = true
					sum += m.blocks
					if slot, ok := p.Slot(rank); !ok || slot != m.slot {
						t.Fatalf("%v has slot %d (%v), want %d", rank, slot, ok, m.slot)
					}
					if effects[m.slot] != m.totals {
						t.Fatalf("%v: effects %+v, want %+v", rank, effects[m.slot], m.totals)
					}
					if tracked {
						if n, ok := table.Count(m.slot); !ok || n != m.blocks {
							t.Fatalf("%v has %d blocks (%v), want %d", rank, n, ok, m.blocks)
						}
						if n, ok := table.CountRank(rank); !ok || n != m.blocks {
							t.Fatalf("%v has %d blocks (%v), want %d", rank, n, ok, m.blocks)
						}
					}
				}
				for slot := range Slot(len(effects)) {
					if !owned[slot] && (effects[slot] != EffectTotals{} || p.ThreadOf(slot) != -1) {
						t.Fatalf("slot %d of nobody: thread %d, effects %+v", slot, p.ThreadOf(slot), effects[slot])
					}
				}
				if tracked {
					if n, known := table.Sum(); n != sum || known != len(model) || table.Ranks() != len(model) {
						t.Fatalf("sum %d over %d ranks, want %d over %d", n, known, sum, len(model))
					}
				}
				var accepted, applied uint64
				for _, s := range p.Stats() {
					accepted, applied = accepted+s.Accepted, applied+s.Applied
				}
				if accepted != pushed || applied != pushed {
					t.Fatalf("%d events accepted, %d applied, want %d", accepted, applied, pushed)
				}
			},
			"": func(t *rapid.T) {
				for _, s := range p.Stats() {
					if s.Applied > s.Accepted || s.Ended {
						t.Fatalf("stats %+v", s)
					}
				}
			},
		})
		x.faults.mu.Lock()
		defer x.faults.mu.Unlock()
		for _, s := range x.faults.list {
			t.Error(s)
		}
	})
}

// TestNoWakeUpIsLost publishes single events at about the moment when the thread
// falls asleep; one that it missed would never be applied.
func TestNoWakeUpIsLost(t *testing.T) {
	o := &countingObserver{applied: make([]atomic.Int64, 1)}
	p := newTestPool(t, PoolConfig{Index: &fakeIndex{}, QueueCapacity: 4, Observer: o})
	slot := mustRegister(t, p, ranks(1))[0]
	pr := p.Producer(0)
	rng := rand.New(rand.NewPCG(3, 4))
	deadline := time.Now().Add(30 * time.Second)
	for id := range uint32(5000) {
		if err := pr.Push(slot, id); err != nil {
			t.Fatal(err)
		}
		pr.Publish()
		for spin := 0; o.applied[0].Load() != int64(id)+1; spin++ {
			if runtime.Gosched(); spin%1024 == 1023 && time.Now().After(deadline) {
				t.Fatalf("event %d was published and never applied", id)
			}
		}
		for range rng.IntN(400) {
			runtime.KeepAlive(rng)
		}
	}
}

// TestRing compares the producer's side with a slice; the test is the consumer.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 20).Draw(t, "capacity")
		r := newRing(capacity)
		if n := len(r.entries); n < capacity || n >= 2*capacity || n&(n-1) != 0 {
			t.Fatalf("%d entries for a capacity of %d", n, capacity)
		}
		var published, pushed []entry // not taken yet, not published yet
		next := uint32(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				if full := len(published)+len(pushed) == len(r.entries); r.full() != full {
					t.Fatalf("full is %v with %d of %d", !full, len(published)+len(pushed), len(r.entries))
				} else if full {
					return
				}
				e := entry{slot: uint16(next * 7), generation: uint16(next * 3), id: next}
				r.push(e)
				pushed = append(pushed, e)
				next++
			},
			"publish": func(t *rapid.T) {
				if n := r.unpublished(); n != uint64(len(pushed)) {
					t.Fatalf("%d are unpublished, want %d", n, len(pushed))
				}
				r.publish()
				published, pushed = append(published, pushed...), nil
			},
			"take": func(t *rapid.T) {
				if n := r.tail.Load() - r.head.Load(); n != uint64(len(published)) {
					t.Fatalf("%d are visible, want %d", n, len(published))
				}
				for range rapid.IntRange(0, len(published)).Draw(t, "n") {
					if e := r.entries[r.head.Load()&r.mask]; e != published[0] {
						t.Fatalf("got %v, want %v", e, published[0])
					}
					r.head.Add(1)
					published = published[1:]
				}
			},
		})
	})
}
