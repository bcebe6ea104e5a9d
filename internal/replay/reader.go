package replay

import (
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/idle"
)

// reader sums all resident-block counters again and again, as a policy or a
// metrics page would, from a thread of its own.
type reader struct {
	trial    *trial
	pool     *indexer.Pool
	periodNS float64 // between the starts of passes, 0: without pause

	passes    int64
	reads     int64
	missed    int64
	lastSum   uint64
	lastRanks int
	firstNS   int64
	endNS     int64
}

// run makes passes until the trial has drained. The table is loaded anew in
// every pass, since ranks may come and go.
func (r *reader) run() {
	t := r.trial
	r.firstNS = t.clock.Now()
	next := float64(r.firstNS)
	for !t.drained.Load() && !t.abort.Load() {
		if r.periodNS > 0 {
			now := t.clock.Now()
			if float64(now) < next {
				// Short steps, so that the end of the trial is noticed.
				until := int64(next)
				if left := until - now; left > t.spinNS {
					t.clock.SleepUntil(now + min(left-t.spinNS, int64(time.Millisecond)))
				} else {
					idle.Pause()
				}
				continue
			}
			// A pass that could not start within its period is missed, not made
			// up for: catching up would be a burst that nobody asked for.
			if late := int64((float64(now) - next) / r.periodNS); late > 0 {
				r.missed += late
				next += float64(late) * r.periodNS
			}
			next += r.periodNS
		}
		r.lastSum, r.lastRanks = r.pool.Residents().Sum()
		r.passes++
		r.reads += int64(r.lastRanks)
	}
	r.endNS = t.clock.Now()
}
