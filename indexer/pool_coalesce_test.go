package indexer_test

import (
	"context"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/reference"
)

// storeRemoveSource stores the same blocks with even ids and removes them with
// odd ones.
type storeRemoveSource struct {
	sequences []indexer.SequenceHash
	locals    []indexer.LocalHash
}

func (s *storeRemoveSource) Event(id uint32, ev *indexer.Event) {
	*ev = indexer.Event{ID: uint64(id), Kind: indexer.Removed, Sequences: s.sequences}
	if id%2 == 0 {
		ev.Kind, ev.Locals = indexer.Stored, s.locals
	}
}

// countLog keeps the effect of every event.
type countLog struct{ effects []indexer.Effect }

func (l *countLog) Applied(_ int, _ uint32, _ indexer.Slot, eff *indexer.Effect) {
	l.effects = append(l.effects, *eff)
}

// TestStoreAndRemoveInOneBatchAreBothApplied publishes, in one go, events that
// store and remove the same block over and over. Nothing is left out because
// it would cancel out: every event has its effect, and the counts are those of
// the whole history.
func TestStoreAndRemoveInOneBatchAreBothApplied(t *testing.T) {
	const events = 41 // less than a batch; the last one stores
	x, err := reference.New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	seen := &countLog{}
	p, err := indexer.NewPool(indexer.PoolConfig{
		Index: x, Threads: 1, Producers: 1, QueueCapacity: 64, Observer: seen,
		Source: &storeRemoveSource{sequences: []indexer.SequenceHash{77, 78}, locals: []indexer.LocalHash{5, 6}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	slots, err := p.Register(ctx, []indexer.Rank{{Worker: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.TrackResidentBlocks(ctx); err != nil {
		t.Fatal(err)
	}
	for id := range uint32(events) {
		if err := p.Producer(0).Push(slots[0], id); err != nil {
			t.Fatal(err)
		}
		if id == events-2 {
			// All that came so far cancels out.
			p.Producer(0).Publish()
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if n, ok := p.Residents().Count(slots[0]); !ok || n != 0 {
				t.Errorf("%d resident blocks (%v) after as many removals as stores", n, ok)
			}
		}
	}
	p.Producer(0).Publish()
	effects, err := p.Effects(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := indexer.EffectTotals{Events: events, Stored: 2 * (events/2 + 1), Removed: 2 * (events / 2)}
	if effects[slots[0]] != want {
		t.Errorf("effects %+v, want %+v", effects[slots[0]], want)
	}
	if n, ok := p.Residents().Count(slots[0]); !ok || n != 2 {
		t.Errorf("%d resident blocks (%v), want 2", n, ok)
	}
	if applied, accepted := p.Progress(0).Load(); applied != events || accepted != events {
		t.Errorf("%d of %d applied, want %d", applied, accepted, events)
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if len(seen.effects) != events {
		t.Fatalf("the observer saw %d events", len(seen.effects))
	}
	for id, eff := range seen.effects {
		want := indexer.Effect{Stored: 2}
		if id%2 == 1 {
			want = indexer.Effect{Removed: 2}
		}
		if eff != want {
			t.Errorf("event %d: %+v, want %+v", id, eff, want)
		}
	}
	if s := p.Stats()[0]; s.QueueHighWater != events-1 {
		t.Errorf("at most %d events waited, want %d: the batch was not one", s.QueueHighWater, events-1)
	}
}
