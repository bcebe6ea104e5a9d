package replay

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/indexer/noop"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/internal/replay/prepare"
	"github.com/kvbench/kvbench/trace"
)

// lookAhead is a source that, when an event is taken, also loads what lies in
// the corpus for the events that the thread takes next: the operation of the one
// 2 x distance further on, and of the one at distance the first lines of its
// hashes. It is for one event thread.
type lookAhead struct {
	*corpus.Corpus
	next     []uint32 // by event: the one at distance, the event itself at the end
	distance int
	lines    int
	sum      uint64
}

func newLookAhead(c *corpus.Corpus, events []uint32, distance, lines int) *lookAhead {
	s := &lookAhead{Corpus: c, next: make([]uint32, len(c.Ops)), distance: distance, lines: lines}
	for i, op := range events {
		s.next[op] = events[min(i+distance, len(events)-1)]
	}
	return s
}

func (s *lookAhead) Event(id uint32, ev *indexer.Event) {
	next := s.next[id]
	s.sum += s.Ops[s.next[next]].Hashes
	op := &s.Ops[next]
	from := int(op.Hashes)
	for i, end := from, min(from+8*s.lines, from+int(op.HashCount())); i < end; i += 8 {
		s.sum += s.Hashes[i]
	}
	s.Corpus.Event(id, ev)
}

// reading is an index that reads every hash of every event and does nothing
// else: nothing would profit more from loading them ahead.
func reading() indexer.Factory {
	return wrapOf(noop.Factory(), func(w indexer.Writer, ev *indexer.Event) indexer.Effect {
		sum := uint64(0)
		for _, h := range ev.Sequences {
			sum += uint64(h)
		}
		for _, h := range ev.Locals {
			sum ^= uint64(h)
		}
		return indexer.Effect{Duplicate: uint32(sum & 1)}
	})
}

func wrapOf(f indexer.Factory, apply func(indexer.Writer, *indexer.Event) indexer.Effect) indexer.Factory {
	return indexer.Factory{Name: "wrapped", New: func(cfg indexer.Config) (indexer.Index, error) {
		x, err := f.New(cfg)
		return &wrapped{Index: x, apply: apply}, err
	}}
}

// BenchmarkLookAhead applies all events of a corpus that is larger than the
// caches, with and without loading what the next events need, alternately in one
// process. The figures are medians of ns an event and of the ratios of
// neighbouring runs.
func BenchmarkLookAhead(b *testing.B) {
	p := trace.ConversationParams()
	p.Requests = 12000
	tr, err := trace.Generate(p)
	if err != nil {
		b.Fatal(err)
	}
	c, err := prepare.Prepare(context.Background(), tr, prepare.Origin{Name: "generated", SHA256: strings.Repeat("0", 64)},
		corpus.Options{Workers: 32, DPRanks: 1, BlockSize: 128, GPUBlocks: 8192, LengthFactor: 1, DuplicationFactor: 8, SpeedUp: 1, Rescale: corpus.RescaleRank},
		1, time.Second, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	var events []uint32
	for i := range c.Ops {
		if c.Ops[i].Kind != corpus.Query {
			events = append(events, uint32(i))
		}
	}
	b.Logf("%d events, %d MB of hashes", len(events), len(c.Hashes)*8>>20)
	apply := func(f indexer.Factory, source indexer.Source) float64 {
		x, err := f.New(indexer.Config{Threads: 1, Slots: len(c.Ranks)})
		if err != nil {
			b.Fatal(err)
		}
		pool, err := indexer.NewPool(indexer.PoolConfig{Index: x, Source: source, Threads: 1, Producers: 1, QueueCapacity: len(events)})
		if err != nil {
			b.Fatal(err)
		}
		ctx := context.Background()
		if _, err := pool.Register(ctx, c.Ranks); err != nil {
			b.Fatal(err)
		}
		for _, op := range events {
			if err := pool.Producer(0).Push(indexer.Slot(c.Ops[op].Slot), op); err != nil {
				b.Fatal(err)
			}
		}
		pool.Producer(0).Publish()
		if err := pool.Flush(ctx); err != nil {
			b.Fatal(err)
		}
		busy := pool.Stats()[0].Busy
		if err := pool.Close(ctx); err != nil {
			b.Fatal(err)
		}
		return float64(busy) / float64(len(events))
	}
	median := func(v []float64) float64 {
		slices.Sort(v)
		return v[len(v)/2]
	}
	for _, index := range []struct {
		name    string
		factory indexer.Factory
	}{{"noop", noop.Factory()}, {"reading", reading()}, {"flat", flat.Factory()}} {
		for _, ahead := range []struct {
			name            string
			distance, lines int
		}{{"next,1line", 1, 1}, {"next,4lines", 1, 4}, {"4th,1line", 4, 1}, {"4th,8lines", 4, 8}, {"next,all", 1, 1 << 20}} {
			b.Run(index.name+"/"+ahead.name, func(b *testing.B) {
				source := newLookAhead(c, events, ahead.distance, ahead.lines)
				var plain, looking, ratios []float64
				for i := 0; b.Loop(); i++ {
					var without, with float64
					if i%2 == 0 {
						without, with = apply(index.factory, c), apply(index.factory, source)
					} else {
						with, without = apply(index.factory, source), apply(index.factory, c)
					}
					plain, looking, ratios = append(plain, without), append(looking, with), append(ratios, without/with)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(plain), "ns/event")
				b.ReportMetric(median(looking), "ns/event-ahead")
				b.ReportMetric(median(ratios), "speedup")
				b.ReportMetric(slices.Min(ratios), "speedup-min")
				b.ReportMetric(slices.Max(ratios), "speedup-max")
			})
		}
	}
}
