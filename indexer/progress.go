package indexer

import (
	"sync/atomic"
	"time"

	"github.com/kvbench/kvbench/internal/idle"
)

// progress is how far one event thread is. Its lines are those of nobody else:
// a reader that polls them costs a producer one miss for each publication and
// the event thread one for each batch, and the queues none.
type progress struct {
	_        [idle.CacheLine]byte
	accepted atomic.Uint64 // added to by producers, before they publish
	_        [idle.CacheLine - 8]byte

	// The event thread's.
	applied atomic.Uint64 // moves in batches
	busy    atomic.Int64  // see busyFor
	_       [idle.CacheLine - 16]byte
}

// ThreadProgress lets anyone see how far an event thread is, from any goroutine
// and at any time, at the cost of two loads. It stays valid when the thread or
// the pool has ended; the zero value is of no thread and must not be asked.
//
// It is what a policy holds to know how old the index's view of a rank may be:
// with a backlog of 0 the index has every event that was published for the
// ranks of that thread.
type ThreadProgress struct{ p *progress }

// Load returns the number of events that were published to the thread since it
// began and how many of these it has applied or dropped; applied ≤ accepted.
// applied moves once for each batch of up to 64 events.
//
// With one producer the two are sequence numbers: event n, counted from 1, is in
// the index once applied ≥ n. Several producers have queues of their own, which
// the thread empties in turn, so that only the difference says something.
func (t ThreadProgress) Load() (applied, accepted uint64) {
	// In this order: what was applied was accepted before.
	applied = t.p.applied.Load()
	accepted = t.p.accepted.Load()
	return applied, accepted
}

// Backlog returns how many published events the thread has yet to apply.
func (t ThreadProgress) Backlog() uint64 {
	applied, accepted := t.Load()
	return accepted - applied
}

// Progress returns the progress of event thread i in [0, PoolConfig.Threads).
func (p *Pool) Progress(i int) ThreadProgress { return ThreadProgress{&p.threads[i].progress} }

// now is the time since the pool was made, in ns and at least 1.
func (p *Pool) now() int64 { return int64(time.Since(p.began)) + 1 }

// beginBusy and endBusy are called by the event thread where it goes from
// waiting to applying and back. Under load it does not wait, so that the clock
// is read for bursts, not for events or batches.
func (th *eventThread) beginBusy() {
	th.busy = true
	th.progress.busy.Store(th.progress.busy.Load() - th.pool.now())
}

func (th *eventThread) endBusy() {
	th.busy = false
	th.progress.busy.Store(th.progress.busy.Load() + th.pool.now())
}

// busyFor returns how long the thread has been applying events. One word says
// that at any time: while the thread waits it is the sum, which is not negative;
// while it is at work it is the sum less the moment at which it began, which is
// negative since all that it summed up lies before that moment. A reader that
// comes just when the thread stops counts until it looks.
func (th *eventThread) busyFor() time.Duration {
	word := th.progress.busy.Load()
	if word < 0 {
		word += th.pool.now()
	}
	return time.Duration(word)
}
