// Package indextest is what every index must pass. It checks the text of
// indexer.Index rule by rule, compares an index with an oracle over random
// histories, asks it while event threads write, and holds it to its promises on
// memory and allocations. The faults that published indexes are known to have are
// tests of their own.
//
// An index's own test is one line:
//
//	func TestConformance(t *testing.T) { indextest.Run(t, reference.Factory(), Factory()) }
//
// The checks that compare or measure are functions that return an error (Diff,
// CheckConcurrent), so that the tests of this package can show that broken
// indexes fail them. It does not measure speed.
package indextest

import (
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// Run runs all checks. The oracle must be another implementation; it is asked
// from one goroutine only.
func Run(t *testing.T, oracle, f indexer.Factory) {
	Semantics(t, oracle, f)
	Concurrency(t, oracle, f)
	Resources(t, f)
}

// Semantics checks the answers, counts and effects of a sequence of calls.
func Semantics(t *testing.T, oracle, f indexer.Factory) {
	t.Run("Rules", func(t *testing.T) { Rules(t, f) })
	t.Run("Faults", func(t *testing.T) { Faults(t, f) })
	t.Run("Random", func(t *testing.T) { testRandom(t, oracle, f) })
	t.Run("Large", func(t *testing.T) { testLarge(t, f) })
	t.Run("ManySlots", func(t *testing.T) { testManySlots(t, f) })
}

// Concurrency checks answers that are given while event threads write.
func Concurrency(t *testing.T, oracle, f indexer.Factory) {
	t.Run("Concurrent", func(t *testing.T) { testConcurrent(t, oracle, f) })
}

// Resources checks that calls do not allocate, that memory is given back, that many
// ranks cost no more than each of them, and that an event of a million blocks is one
// like others. A naive index need not pass it.
func Resources(t *testing.T, f indexer.Factory) {
	t.Run("Allocations", func(t *testing.T) { fails(t, checkAllocations(f)) })
	t.Run("Reports", func(t *testing.T) { testReports(t, f) })
	t.Run("HugePages", func(t *testing.T) { testHugePages(t, f) })
	t.Run("Churn", func(t *testing.T) { fails(t, checkChurn(f, t.Logf)) })
	t.Run("Ranks", func(t *testing.T) { fails(t, checkRanksAreLinear(f, t.Logf)) })
	t.Run("Million", func(t *testing.T) { testMillion(t, f) })
}

func fails(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// subject is an index with its handles, asked from one goroutine.
type subject struct {
	name    string
	index   indexer.Index
	writers []indexer.Writer
	owner   map[indexer.Slot]indexer.Writer
	reader  indexer.Reader
	answer  indexer.Answer
}

// open builds an index with as many event threads as it allows, up to threads.
func open(f indexer.Factory, threads int) (*subject, error) {
	if f.SingleThread {
		threads = 1
	}
	x, err := f.New(indexer.Config{Threads: threads, Slots: 8})
	if err != nil {
		return nil, err
	}
	s := &subject{name: f.Name, index: x, owner: map[indexer.Slot]indexer.Writer{}}
	for i := range threads {
		s.writers = append(s.writers, x.Writer(i))
	}
	s.reader = x.Reader()
	return s, nil
}

func (s *subject) close() error {
	s.reader.Close()
	return s.index.Close()
}

// attach gives the slot to the next event thread after the one that had it last.
func (s *subject) attach(slot indexer.Slot, turn int) {
	w := s.writers[turn%len(s.writers)]
	w.Attach(slot)
	s.owner[slot] = w
}

func (s *subject) detach(slot indexer.Slot) {
	s.owner[slot].Detach(slot)
	delete(s.owner, slot)
}

func (s *subject) apply(ev *indexer.Event) indexer.Effect { return s.owner[ev.Slot].Apply(ev) }

// find returns the scores of the ranks that have one. An answer that
// contradicts itself is an error.
func (s *subject) find(query []indexer.LocalHash) (map[indexer.Slot]uint32, error) {
	return s.findWith(query, indexer.FindOptions{})
}

func (s *subject) findWith(query []indexer.LocalHash, opts indexer.FindOptions) (map[indexer.Slot]uint32, error) {
	s.reader.Find(query, opts, &s.answer)
	return scores(&s.answer, len(query))
}

func mustOpen(t *testing.T, f indexer.Factory, threads int) *subject {
	t.Helper()
	s, err := open(f, threads)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
