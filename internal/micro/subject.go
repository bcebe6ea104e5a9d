package micro

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
)

// subject is one index under measurement. It lives for a whole case, so that
// its memory is warm after the discarded round.
type subject struct {
	name    string
	index   indexer.Index
	writers []indexer.Writer
	reader  indexer.Reader
	answer  indexer.Answer
	owner   []int // writer by slot while attached
	// rankBytes is what an attached slot without blocks takes, 0 if the index
	// does not say.
	rankBytes float64
}

func open(f indexer.Factory, slots int) (*subject, error) {
	threads := 2
	if f.SingleThread {
		threads = 1
	}
	x, err := f.New(indexer.Config{Threads: threads, Slots: slots})
	if err != nil {
		return nil, err
	}
	s := &subject{name: f.Name, index: x, owner: make([]int, slots)}
	for i := range threads {
		s.writers = append(s.writers, x.Writer(i))
	}
	s.reader = x.Reader()
	s.answer.Grow(slots)
	before, measured := s.bytes()
	s.attach(1)
	if after, _ := s.bytes(); measured {
		s.rankBytes = float64(after-before) / float64(slots)
	}
	s.detach()
	return s, nil
}

func (s *subject) close() error {
	s.reader.Close()
	return s.index.Close()
}

// attach spreads the slots over the first n writers.
func (s *subject) attach(n int) {
	for slot := range s.owner {
		s.owner[slot] = slot % n
		s.writers[slot%n].Attach(indexer.Slot(slot))
	}
}

func (s *subject) detach() {
	for slot, w := range s.owner {
		s.writers[w].Detach(indexer.Slot(slot))
	}
	// Those that the next pass does not use must not hold back the others.
	for _, w := range s.writers {
		w.Park()
	}
}

// pairs returns the number of resident (rank, block) pairs.
func (s *subject) pairs() int64 {
	var n int64
	for slot, w := range s.owner {
		n += int64(s.writers[w].Blocks(indexer.Slot(slot)))
	}
	return n
}

func (s *subject) bytes() (int64, bool) {
	r, ok := s.index.(indexer.MemoryReporter)
	if !ok {
		return 0, false
	}
	var n int64
	for _, p := range r.Memory() {
		n += p.Bytes
	}
	return n, true
}

// apply applies the events of the slots that belong to writer i and returns
// their blocks and the sum of their effects.
func (s *subject) apply(c *corpus.Corpus, i int) (blocks int64, sum indexer.Effect) {
	var ev indexer.Event
	w := s.writers[i]
	for k := range c.Ops {
		op := &c.Ops[k]
		if op.Kind == corpus.Query || s.owner[op.Slot] != i {
			continue
		}
		c.Event(uint32(k), &ev)
		e := w.Apply(&ev)
		sum.Stored += e.Stored
		sum.Removed += e.Removed
		sum.Conflicting += e.Conflicting
		sum.Orphaned += e.Orphaned
		sum.UnknownRemoved += e.UnknownRemoved
		blocks += int64(op.Len)
	}
	return blocks, sum
}

// mixed does all operations in order on this thread. With a recorder each
// query is timed on its own and its answer goes into the checksum.
func (s *subject) mixed(c *corpus.Corpus, rec *recorder) {
	var ev indexer.Event
	for k := range c.Ops {
		op := &c.Ops[k]
		if op.Kind != corpus.Query {
			c.Event(uint32(k), &ev)
			s.writers[s.owner[op.Slot]].Apply(&ev)
			continue
		}
		query := c.Locals(uint32(k))
		if rec == nil {
			s.reader.Find(query, indexer.FindOptions{}, &s.answer)
			continue
		}
		start := time.Now()
		s.reader.Find(query, indexer.FindOptions{}, &s.answer)
		rec.add(time.Since(start))
		for _, slot := range s.answer.Touched() {
			rec.checksum += (uint64(slot)*0x9e3779b97f4a7c15 + uint64(k)) * uint64(s.answer.Score(slot))
		}
	}
}

// recorder keeps the time of every lookup, in ns.
type recorder struct {
	times    []uint32
	checksum uint64
}

func (r *recorder) add(d time.Duration) { r.times = append(r.times, uint32(min(d, math.MaxUint32))) }

func (r *recorder) reset() { r.times, r.checksum = r.times[:0], 0 }

// quantile is nearest rank; the times must be sorted.
func (r *recorder) quantile(q float64) float64 {
	if len(r.times) == 0 {
		return math.NaN()
	}
	return float64(r.times[max(0, int(math.Ceil(q*float64(len(r.times))))-1)])
}

// together lets one thread apply all events while another asks all queries over
// and over, and returns when the writer is done. The reader's times go into rec.
func (s *subject) together(c *corpus.Corpus, queries []uint32, rec *recorder) (blocks int64, took time.Duration) {
	var wg sync.WaitGroup
	stop := make(chan struct{})
	ready := make(chan struct{})
	wg.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		close(ready)
		for k := 0; ; k++ {
			if k%16 == 0 {
				select {
				case <-stop:
					return
				default:
				}
			}
			query := c.Locals(queries[k%len(queries)])
			start := time.Now()
			s.reader.Find(query, indexer.FindOptions{}, &s.answer)
			rec.add(time.Since(start))
		}
	})
	<-ready
	start := time.Now()
	blocks, _ = s.apply(c, 0)
	took = time.Since(start)
	close(stop)
	wg.Wait()
	return blocks, took
}

// applyAll lets every writer apply the events of its slots at the same time.
func (s *subject) applyAll(c *corpus.Corpus) (blocks int64, took time.Duration) {
	counts := make([]int64, len(s.writers))
	var wg sync.WaitGroup
	start := time.Now()
	for i := range s.writers {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			counts[i], _ = s.apply(c, i)
			s.writers[i].Park()
		})
	}
	wg.Wait()
	took = time.Since(start)
	for _, n := range counts {
		blocks += n
	}
	return blocks, took
}

// expect says whether an index did with the events what they ask for.
func expect(name string, sum indexer.Effect, t *corpus.Totals) error {
	if int64(sum.Stored) != t.StoredBlocks || int64(sum.Removed) != t.RemovedBlocks || sum.Conflicting+sum.Orphaned+sum.UnknownRemoved != 0 {
		return fmt.Errorf("%s stored %d of %d blocks and removed %d of %d: %+v", name, sum.Stored, t.StoredBlocks, sum.Removed, t.RemovedBlocks, sum)
	}
	return nil
}

func (r *recorder) sort() { slices.Sort(r.times) }
