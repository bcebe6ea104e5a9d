package indextest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// checkAllocations runs a cycle of events and queries that ends where it began and
// in which no rank's content changes by more than half. Once every table has its
// size, it must not allocate at all.
func checkAllocations(f indexer.Factory) (err error) {
	s, err := open(f, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	const slots, docs, length = 40, 60, 30
	for i := range indexer.Slot(slots) {
		s.attach(i*7, 0)
		names, path := chain(500+uint64(i), 2*length)
		ev := on(i*7, store(names, path))
		s.apply(&ev)
	}
	prefix, prefixPath := chain(1, 5)
	var events []indexer.Event
	var queries []locals // one for every 8 events
	for d := range uint64(docs) {
		names, path := chain(d+2, length)
		slot := indexer.Slot(d % slots * 7)
		next := indexer.Slot((d + 1) % slots * 7)
		query := append(append(locals{}, prefixPath...), path...)
		queries = append(queries, query, query)
		alias, _ := chain(d+1000, 3)
		last := prefix[len(prefix)-1]
		for _, at := range []indexer.Slot{slot, next} {
			events = append(events,
				on(at, store(prefix, prefixPath)),
				on(at, extend(last, names, path)),
				on(at, extend(last, names[:length/2], path[:length/2])), // duplicate
				on(at, extend(last, alias, path[:3])),                   // other names
				on(at, extend(1<<60, names, path)),                      // orphan
				on(at, store(names, path)),                              // conflict
				on(at, remove(names[length/2], 1<<60)),                  // hole, unknown
				on(at, remove(append(append(seqs{}, names...), alias...)...)),
			)
		}
	}
	buffer := indexer.Answer{}
	buffer.Grow(slots * 7)
	cycle := func() {
		for i := range events {
			s.apply(&events[i])
			if i%8 == 4 {
				s.reader.Find(queries[i/8], indexer.FindOptions{}, &buffer)
			}
		}
	}
	var total effect
	for i := range events {
		e := s.apply(&events[i])
		total.Duplicate += e.Duplicate
		total.Orphaned += e.Orphaned
		total.Conflicting += e.Conflicting
		total.UnknownRemoved += e.UnknownRemoved
		total.Stored += e.Stored
	}
	if total.Duplicate == 0 || total.Orphaned == 0 || total.Conflicting == 0 || total.UnknownRemoved == 0 || total.Stored == 0 {
		return fmt.Errorf("the cycle does not have every kind of event: %+v", total)
	}
	for range 3 {
		cycle()
	}
	if len(buffer.Touched()) == 0 {
		return errors.New("the cycle's queries have no answer")
	}
	if n := testing.AllocsPerRun(5, cycle); n != 0 {
		return fmt.Errorf("a cycle of %d events and %d queries allocates %v times, want 0", len(events), len(events)/8, n)
	}
	return nil
}

// footprint is what an index has, by the collector's count and by its own, if
// it has one (else 0).
func footprint(x indexer.Index) (heap, own int64) {
	var m runtime.MemStats
	// Twice, since sweeping what the first found is part of the second.
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	if r, ok := x.(indexer.MemoryReporter); ok {
		for _, p := range r.Memory() {
			own += p.Bytes
		}
	}
	return int64(m.HeapAlloc), own
}

// checkChurn lets content come and go for long: an index must stay as large as
// what it holds, and give the memory back when that goes.
func checkChurn(f indexer.Factory, logf func(format string, args ...any)) (err error) {
	const (
		slots   = 24
		length  = 40
		window  = 150 // documents of one rank at a time
		rounds  = 600 // documents that each rank sees
		slack   = 1 << 19
		removes = 3 // of that many documents, one is removed as a whole, the others with holes
	)
	base, _ := footprint(nil)
	s, err := open(f, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	fresh, freshOwn := footprint(s.index)
	for i := range indexer.Slot(slots) {
		s.attach(i*31, int(i))
	}
	// Ranks of a group of four hold the same documents, so that sets come and go.
	doc := func(slot indexer.Slot, round int) (seqs, locals) {
		return chain(uint64(slot/4)*rounds*4+uint64(round)+1, length)
	}
	put := func(from, to int) error {
		for round := from; round < to; round++ {
			for i := range indexer.Slot(slots) {
				names, path := doc(i, round)
				ev := on(i*31, store(names, path))
				if got := s.apply(&ev); got != (effect{Stored: length}) {
					return fmt.Errorf("slot %d, document %d: %+v", i, round, got)
				}
				if round < window {
					continue
				}
				names, _ = doc(i, round-window)
				old := on(i*31, remove(names...))
				if round%removes != 0 {
					holes := on(i*31, remove(names[length/3], names[length/2]))
					s.apply(&holes)
					old = on(i*31, remove(append(append(seqs{}, names[length/3+1:length/2]...), append(names[length/2+1:], names[:length/3]...)...)...))
				}
				s.apply(&old)
				if got := s.owner[i*31].Blocks(i * 31); got != window*length {
					return fmt.Errorf("slot %d, document %d: %d blocks, want %d", i, round, got, window*length)
				}
			}
		}
		return nil
	}
	if err := put(0, 2*window); err != nil {
		return err
	}
	full, fullOwn := footprint(s.index)
	if err := put(2*window, rounds); err != nil {
		return err
	}
	later, laterOwn := footprint(s.index)
	logf("%d blocks: heap %d, own count %d; after more churn %d, %d", slots*window*length, full-base, fullOwn, later-base, laterOwn)
	if later-base > (full-base)*5/4+slack {
		return fmt.Errorf("the same amount of content took %d bytes and then %d", full-base, later-base)
	}
	if fullOwn > 0 {
		if diff := later - base - laterOwn; max(diff, -diff) > (later-base)/8+slack/2 {
			return fmt.Errorf("the index says that it has %d bytes, the collector says %d", laterOwn, later-base)
		}
	}
	if err := s.index.Check(); err != nil {
		return err
	}
	// A third of the ranks lose their blocks one document at a time, a third are
	// cleared, a third detached.
	for i := range indexer.Slot(slots) {
		switch i % 3 {
		case 0:
			for round := rounds - window; round < rounds; round++ {
				names, _ := doc(i, round)
				ev := on(i*31, remove(names...))
				s.apply(&ev)
			}
			if got := s.owner[i*31].Blocks(i * 31); got != 0 {
				return fmt.Errorf("slot %d: %d blocks are left", i, got)
			}
		case 1:
			ev := on(i*31, cleared)
			s.apply(&ev)
		case 2:
			s.detach(i * 31)
		}
	}
	empty, emptyOwn := footprint(s.index)
	logf("empty: heap %d, own count %d; at the start %d, %d", empty-base, emptyOwn, fresh-base, freshOwn)
	if limit := fresh - base + (later-base)/16 + slack; empty-base > limit {
		return fmt.Errorf("emptied, the index has %d bytes, want at most %d; it had %d when it was full", empty-base, limit, later-base)
	}
	if err := s.index.Check(); err != nil {
		return err
	}
	runtime.KeepAlive(s)
	return nil
}

// checkRanksAreLinear lets ranks come, hold a block of all and one of their own, and
// go, and wants 16 times as many to take no more than 24 times the memory on the way:
// what is copied for each rank that comes or goes shows in what is allocated.
func checkRanksAreLinear(f indexer.Factory, logf func(format string, args ...any)) error {
	run := func(n int) (coming, going uint64, err error) {
		s, err := open(f, 2)
		if err != nil {
			return 0, 0, err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		var begun, full, empty runtime.MemStats
		runtime.ReadMemStats(&begun)
		for i := range indexer.Slot(n) {
			s.attach(i, int(i))
			ev := on(i, store(seqs{1, 2}, locals{1, indexer.LocalHash(i) + 10}))
			if got := s.apply(&ev); got != (effect{Stored: 2}) {
				return 0, 0, fmt.Errorf("slot %d: %+v", i, got)
			}
		}
		runtime.ReadMemStats(&full)
		for k := range indexer.Slot(n) {
			// In no order, each once: the factor is odd and n a power of two.
			s.detach(k * 40_503 % indexer.Slot(n))
		}
		runtime.ReadMemStats(&empty)
		return full.TotalAlloc - begun.TotalAlloc, empty.TotalAlloc - full.TotalAlloc, nil
	}
	const few, times = 2048, 16
	coming, going, err := run(few)
	if err != nil {
		return err
	}
	comingMany, goingMany, err := run(few * times)
	if err != nil {
		return err
	}
	logf("%d ranks: %d bytes to come, %d to go; %d ranks: %d, %d", few, coming, going, few*times, comingMany, goingMany)
	const slack = 1 << 20
	if comingMany > times*3/2*coming+slack || goingMany > times*3/2*going+slack {
		return fmt.Errorf("%d ranks took %d bytes to come and %d to go, %d times as many took %d and %d: more than linear", few, coming, going, times, comingMany, goingMany)
	}
	return nil
}
