package replay

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/idle"
	"github.com/kvbench/kvbench/results"
)

// Injection slows an index on purpose, to show that a comparison finds a
// slowdown of known size. It is put around the index's handles, so that a trial
// without it runs exactly the code that it would run if there were no such thing.
// A record says that it was there.
type Injection struct {
	// EventDelay is how much longer each event's application takes, by spinning
	// on the event thread.
	EventDelay time.Duration
	// QueryWork is how many times each lookup is done, of which the last one
	// counts; 0 and 1: once, as it should be.
	QueryWork int
}

// Limits of Injection.
const (
	MaxEventDelay = time.Second
	MaxQueryWork  = 1000
)

// active says whether there is anything to inject.
func (x Injection) active() bool { return x.EventDelay > 0 || x.QueryWork > 1 }

func (x Injection) check() error {
	switch {
	case x.EventDelay < 0 || x.EventDelay > MaxEventDelay:
		return fmt.Errorf("--inject-event-delay is %v; it must lie in [0, %v]", x.EventDelay, MaxEventDelay)
	case x.QueryWork < 0 || x.QueryWork > MaxQueryWork:
		return fmt.Errorf("--inject-query-work is %dx; it must lie in [1x, %dx]", x.QueryWork, MaxQueryWork)
	}
	return nil
}

// ParseQueryWork reads how many times a lookup is done, such as "2x" or "2".
func ParseQueryWork(s string) (int, error) {
	digits := strings.TrimSuffix(s, "x")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > MaxQueryWork || digits != strconv.Itoa(n) {
		return 0, fmt.Errorf("%q is not a number of times from 1x to %dx; write it like 2x", s, MaxQueryWork)
	}
	return n, nil
}

// record is what a result says of the injection; nil: there was none.
func (x Injection) record() *results.Injected {
	if !x.active() {
		return nil
	}
	return &results.Injected{EventDelayNS: int64(x.EventDelay), QueryWork: max(1, x.QueryWork)}
}

// ticker gives the time in ns.
type ticker interface{ Now() int64 }

// wrap returns the index with what is to be injected, the index itself if that
// is nothing.
func (x Injection) wrap(index indexer.Index, clock ticker) indexer.Index {
	if !x.active() {
		return index
	}
	return &injectedIndex{index, x, clock}
}

type injectedIndex struct {
	indexer.Index
	what  Injection
	clock ticker
}

func (i *injectedIndex) Writer(thread int) indexer.Writer {
	w := i.Index.Writer(thread)
	if i.what.EventDelay > 0 {
		return &slowWriter{w, i.clock, int64(i.what.EventDelay)}
	}
	return w
}

func (i *injectedIndex) Reader() indexer.Reader {
	r := i.Index.Reader()
	if i.what.QueryWork > 1 {
		return &slowReader{r, i.what.QueryWork - 1}
	}
	return r
}

type slowWriter struct {
	indexer.Writer
	clock ticker
	delay int64
}

func (w *slowWriter) Apply(ev *indexer.Event) indexer.Effect {
	effect := w.Writer.Apply(ev)
	for end := w.clock.Now() + w.delay; w.clock.Now() < end; {
		idle.Pause()
	}
	return effect
}

// Reachable implements indexer.ReachableCounter as far as the index does.
func (w *slowWriter) Reachable(slot indexer.Slot) (blocks int, known bool) {
	if c, ok := w.Writer.(indexer.ReachableCounter); ok {
		return c.Reachable(slot)
	}
	return 0, false
}

type slowReader struct {
	indexer.Reader
	more int
}

func (r *slowReader) Find(query []indexer.LocalHash, opts indexer.FindOptions, ans *indexer.Answer) {
	for range r.more {
		r.Reader.Find(query, opts, ans)
	}
	r.Reader.Find(query, opts, ans)
}
