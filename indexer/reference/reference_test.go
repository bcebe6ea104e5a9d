package reference

import (
	"strconv"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/indextest"
)

// The model is a second reading of indexer.Index that shares nothing with the
// index: paths are strings, and a rank's live set is a map from sequence hash to
// path that every question goes through.
type model struct {
	live map[indexer.Slot]map[indexer.SequenceHash]string
}

func modelFactory() indexer.Factory {
	return indexer.Factory{Name: "model", New: func(indexer.Config) (indexer.Index, error) {
		return &model{live: map[indexer.Slot]map[indexer.SequenceHash]string{}}, nil
	}}
}

func (m *model) Writer(int) indexer.Writer { return m }
func (m *model) Reader() indexer.Reader    { return modelReader{m} }
func (m *model) Check() error              { return nil }
func (m *model) Close() error              { return nil }

func (m *model) Attach(slot indexer.Slot)     { m.live[slot] = map[indexer.SequenceHash]string{} }
func (m *model) Detach(slot indexer.Slot)     { delete(m.live, slot) }
func (m *model) Blocks(slot indexer.Slot) int { return len(m.live[slot]) }
func (m *model) Park()                        {}

func below(path string, local indexer.LocalHash) string {
	return path + "/" + strconv.FormatUint(uint64(local), 10)
}

func (m *model) Apply(ev *indexer.Event) (e indexer.Effect) {
	live := m.live[ev.Slot]
	switch {
	case ev.Kind == indexer.Cleared:
		e.ClearedBlocks = uint32(len(live))
		m.live[ev.Slot] = map[indexer.SequenceHash]string{}
	case ev.Kind == indexer.Removed:
		for _, seq := range ev.Sequences {
			if _, ok := live[seq]; !ok {
				e.UnknownRemoved++
				continue
			}
			delete(live, seq)
			e.Removed++
		}
	case ev.Kind != indexer.Stored || len(ev.Sequences) != len(ev.Locals):
		e.Malformed = 1
	default:
		path, known := live[ev.Parent]
		if ev.HasParent && !known {
			e.Orphaned = uint32(len(ev.Sequences))
			return e
		}
		if !ev.HasParent {
			path = ""
		}
		// The live set as it would be, taken over only if all is well.
		after := map[indexer.SequenceHash]string{}
		for seq, p := range live {
			after[seq] = p
		}
		for i, seq := range ev.Sequences {
			path = below(path, ev.Locals[i])
			if p, ok := after[seq]; ok && p != path {
				return indexer.Effect{Conflicting: uint32(len(ev.Sequences))}
			}
			after[seq] = path
		}
		e.Stored = uint32(len(after) - len(live))
		e.Duplicate = uint32(len(ev.Sequences)) - e.Stored
		m.live[ev.Slot] = after
	}
	return e
}

type modelReader struct{ m *model }

func (modelReader) Close() {}

func (r modelReader) Find(query []indexer.LocalHash, opts indexer.FindOptions, ans *indexer.Answer) {
	ans.Reset()
	defer ans.Keep(opts.MaxRanks)
	for slot, live := range r.m.live {
		held := map[string]bool{}
		for _, path := range live {
			held[path] = true
		}
		path := ""
		for depth, local := range query {
			if path = below(path, local); !held[path] {
				break
			}
			ans.Set(slot, uint32(depth)+1)
		}
	}
}

// TestConformance compares the reference, which all other indexes are compared
// with, with the model.
func TestConformance(t *testing.T) {
	indextest.Semantics(t, modelFactory(), Factory())
	indextest.Concurrency(t, modelFactory(), Factory())
}

// TestModel puts the model itself to the rules that are written out. It is too
// slow for the rest of the suite.
func TestModel(t *testing.T) { indextest.Rules(t, modelFactory()) }

func TestNewRefusesNoThreads(t *testing.T) {
	if _, err := New(indexer.Config{}); err == nil {
		t.Error("an index without event threads was built")
	}
}

// TestMillionBlocks is the load of a verification: it must end within seconds.
func TestMillionBlocks(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	x, err := New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w, r := x.Writer(0), x.Reader()
	const slots, docs, length = 64, 80, 200
	start := time.Now()
	for slot := range indexer.Slot(slots) {
		w.Attach(slot)
	}
	ev := indexer.Event{Kind: indexer.Stored, Sequences: make([]indexer.SequenceHash, length), Locals: make([]indexer.LocalHash, length)}
	for doc := range docs {
		for slot := range indexer.Slot(slots) {
			for i := range length {
				// Half of the documents are one rank's own.
				id := uint64(doc*length + i)
				if doc%2 == 1 && i >= length/2 {
					id |= uint64(slot+1) << 32
				}
				ev.Sequences[i], ev.Locals[i] = indexer.SequenceHash(id), indexer.LocalHash(id)
			}
			ev.Slot = slot
			if e := w.Apply(&ev); e.Stored != length {
				t.Fatalf("%+v", e)
			}
		}
	}
	var ans indexer.Answer
	r.Find(ev.Locals, indexer.FindOptions{}, &ans)
	if len(ans.Touched()) != slots || ans.Best() != length || ans.Score(0) != length/2 {
		t.Errorf("%d ranks, best %d, first %d", len(ans.Touched()), ans.Best(), ans.Score(0))
	}
	for slot := range indexer.Slot(slots) {
		w.Detach(slot)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
	t.Logf("%d blocks stored and removed in %v", slots*docs*length, time.Since(start))
}

// TestCountReachable follows one rank by hand: A-B-C and A-D, where B has a second
// name.
func TestCountReachable(t *testing.T) {
	x, err := New(indexer.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	w := x.Writer(0)
	w.Attach(3)
	w.Attach(4)
	stored := func(slot indexer.Slot, parent indexer.SequenceHash, pairs ...uint64) *indexer.Event {
		ev := &indexer.Event{Slot: slot, Kind: indexer.Stored, HasParent: parent != 0, Parent: parent}
		for i := 0; i < len(pairs); i += 2 {
			ev.Sequences = append(ev.Sequences, indexer.SequenceHash(pairs[i]))
			ev.Locals = append(ev.Locals, indexer.LocalHash(pairs[i+1]))
		}
		return ev
	}
	removed := func(seqs ...indexer.SequenceHash) *indexer.Event {
		return &indexer.Event{Slot: 3, Kind: indexer.Removed, Sequences: seqs}
	}
	for i, step := range []struct {
		event *indexer.Event
		want  int
	}{
		{stored(3, 0, 11, 1, 12, 2, 13, 3), 3},
		{stored(4, 0, 11, 1, 12, 2), 3}, // another rank
		{stored(3, 11, 14, 4), 4},       // D below A
		{stored(3, 11, 22, 2), 4},       // a second name of B
		{removed(12), 4},                // B still has the other
		{removed(22), 2},                // a hole: C is held and out of reach
		{stored(3, 13, 15, 5), 2},       // growth behind it
		{stored(3, 11, 32, 2), 5},       // B comes back with a third name
		{removed(11), 0},                // nothing without A
		{stored(3, 0, 41, 1), 5},
		{&indexer.Event{Slot: 3, Kind: indexer.Cleared}, 0},
	} {
		w.Apply(step.event)
		if got := x.CountReachable(3); got != step.want {
			t.Errorf("step %d: %d places can be reached, want %d", i, got, step.want)
		}
	}
	if got := x.CountReachable(4); got != 2 {
		t.Errorf("the other rank can reach %d places, want 2", got)
	}
}
