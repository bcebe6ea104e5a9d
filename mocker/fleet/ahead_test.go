package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/vllm"
	"github.com/kvbench/kvbench/trace"
)

// spy writes down what it knows whenever a request arrives, and chooses by it.
type spy struct {
	engines *[]*vllm.Engine
	writer  indexer.Writer
	reader  indexer.Reader
	answer  indexer.Answer
	load    []int64 // by rank: requests without a first token, and without an end
	rank    map[uint64]int
	lines   *[]string

	events, loads, looks bool
}

func newSpy(ranks int, engines *[]*vllm.Engine, lines *[]string, rng *rand.Rand) *spy {
	x, err := reference.New(indexer.Config{Threads: 1})
	if err != nil {
		panic(err)
	}
	s := &spy{
		engines: engines, writer: x.Writer(0), reader: x.Reader(), load: make([]int64, 2*ranks), rank: map[uint64]int{}, lines: lines,
		events: rng.IntN(3) > 0, loads: rng.IntN(3) > 0, looks: rng.IntN(3) == 0,
	}
	for i := range ranks {
		s.writer.Attach(indexer.Slot(i))
	}
	return s
}

func (s *spy) Hears() (events, load, looks bool) { return s.events, s.loads, s.looks }

func (s *spy) Route(now int64, a *Arrival) (int, error) {
	ranks := len(s.load) / 2
	score := make([]int64, ranks)
	if s.events {
		locals, _ := a.Chain.Blocks(a.Chain.Prompt())
		s.reader.Find(locals, indexer.FindOptions{}, &s.answer)
		for i := range score {
			score[i] += 3 * int64(s.answer.Score(indexer.Slot(i)))
		}
	}
	if s.loads {
		for i := range score {
			score[i] -= 2*s.load[2*i] + s.load[2*i+1]
		}
	}
	if s.looks {
		for i, e := range *s.engines {
			tokens, requests := e.Backlog()
			score[i] -= tokens + int64(requests)
		}
	}
	best := int(a.ID) % ranks
	for i := range score {
		if score[i] > score[best] {
			best = i
		}
	}
	*s.lines = append(*s.lines, fmt.Sprintf("%d request %d: %v", now, a.ID, score))
	if a.ID%13 == 12 {
		return NoRank, nil
	}
	s.rank[a.ID] = best
	s.load[2*best]++
	s.load[2*best+1]++
	return best, nil
}

func (s *spy) Event(_ int64, ev *indexer.Event) error {
	if s.events {
		s.writer.Apply(ev)
	}
	return nil
}

func (s *spy) FirstToken(now int64, id uint64) {
	if s.loads {
		s.load[2*s.rank[id]]--
		*s.lines = append(*s.lines, fmt.Sprintf("%d first token of %d", now, id))
	}
}

func (s *spy) Finished(now int64, id uint64) {
	if s.loads {
		s.load[2*s.rank[id]+1]--
		*s.lines = append(*s.lines, fmt.Sprintf("%d end of %d", now, id))
	}
}

// book writes down outcomes and samples, and the gaps of each request.
type book struct {
	lines []string
	gaps  map[int][]int64
}

func (b *book) Gap(o *Outcome, ns int64) { b.gaps[o.Row] = append(b.gaps[o.Row], ns) }
func (b *book) Outcome(o *Outcome) {
	b.lines = append(b.lines, fmt.Sprintf("%+v %v", *o, b.gaps[o.Row]))
}
func (b *book) Sample(at int64, counts []engine.Counts) {
	b.lines = append(b.lines, fmt.Sprintf("%d %+v", at, counts))
}

// gapsBook takes gaps together.
type gapsBook struct{ book }

func (b *gapsBook) Gaps(of []*Outcome, ns []int64) {
	for _, o := range of {
		b.gaps[o.Row] = append(b.gaps[o.Row], ns...)
	}
}

// TestAheadIsInOrder plays random arrivals twice: in the order of time, and with
// ranks that run ahead of each other. Routers know the same at every arrival and
// choose the same, and what is told of requests and at samples is the same.
func TestAheadIsInOrder(t *testing.T) {
	var refused, unrouted, together int
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		between := func(low, high int) int { return low + rng.IntN(high-low+1) }
		var rows []trace.Request
		spread := between(0, 4000)
		for i := range between(1, 30) {
			ids := make([]uint64, between(1, 12))
			for k := range ids {
				ids[k] = uint64(rng.IntN(2))
			}
			rows = append(rows, row(fmt.Sprint("s", i), float64(between(0, spread))*1e-4, nan, 4*len(ids)-between(0, 3), between(0, 30), ids...))
		}
		tr := newTrace(t, rows...)
		cfg := Config{
			BlockSize: between(1, 6), Ranks: between(1, 4), EventDelay: int64(between(0, 2) * between(0, 900)),
			LoadDelay: int64(between(0, 2) * between(0, 900)), Sample: int64(between(0, 3) * between(1, 20000)), Seed: seed,
		}
		blocks, routers := between(4, 60), between(1, 3)
		hears := rng.Uint64()
		play := func(inOrder bool, b *book, obs Observer) ([]string, Totals) {
			var engines []*vllm.Engine
			var lines []string
			c, rng := cfg, rand.New(rand.NewPCG(hears, 4))
			c.inOrder, c.Open = inOrder, opener(vllmConfig(blocks, c.BlockSize), &engines)
			for range routers {
				c.Routers = append(c.Routers, newSpy(c.Ranks, &engines, &lines, rng))
			}
			totals, err := Run(context.Background(), tr, c, obs)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return append(lines, b.lines...), totals
		}
		plain, ahead, apart := &book{gaps: map[int][]int64{}}, &gapsBook{book{gaps: map[int][]int64{}}}, &book{gaps: map[int][]int64{}}
		want, wantTotals := play(true, plain, plain)
		got, totals := play(false, &ahead.book, ahead)
		single, singleTotals := play(false, apart, apart)
		if totals != wantTotals || singleTotals != wantTotals {
			t.Fatalf("seed %d: %+v, %+v, in order %+v", seed, totals, singleTotals, wantTotals)
		}
		for i := range want {
			if i >= len(got) || got[i] != want[i] || i >= len(single) || single[i] != want[i] {
				t.Fatalf("seed %d: ahead\n%q\nwith single gaps\n%q\nin order\n%q", seed, got[min(i, len(got)-1)], single[min(i, len(single)-1)], want[i])
			}
		}
		if len(got) != len(want) || len(single) != len(want) {
			t.Fatalf("seed %d: %d and %d lines, in order %d", seed, len(got), len(single), len(want))
		}
		refused += int(totals.Refused)
		unrouted += int(totals.Unrouted)
		for _, g := range ahead.gaps {
			slices.Sort(g)
			together += len(g)
		}
	}
	if refused == 0 || unrouted == 0 || together == 0 {
		t.Errorf("%d refused, %d unrouted, %d gaps: this shows too little", refused, unrouted, together)
	}
}
