package host

import (
	"errors"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Clock gives ns since its creation and sleeps until such a moment. Its methods
// may be called from any thread and do not allocate.
//
// It reads the runtime's monotonic clock by time.Since, which goes through the
// vDSO and costs tens of ns; unix.ClockGettime is a real system call of more
// than a µs.
type Clock struct {
	origin time.Time
	// offset is CLOCK_MONOTONIC at the origin, in ns.
	offset int64
}

// NewClock returns a clock that starts at 0.
func NewClock() *Clock {
	c := &Clock{origin: time.Now()}
	// Of several readings the one whose two neighbours are closest together
	// says best what the other clock showed.
	best := int64(math.MaxInt64)
	for range 16 {
		before := c.Now()
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			continue
		}
		after := c.Now()
		if d := after - before; d < best {
			// The reading was taken at before or later; taking before errs towards
			// a sleep that ends late by less than d.
			best, c.offset = d, ts.Nano()-before
		}
	}
	return c
}

// Now returns the ns since the clock's creation. It never goes back.
func (c *Clock) Now() int64 { return int64(time.Since(c.origin)) }

// SleepUntil returns when Now is at least t. It blocks the OS thread in
// clock_nanosleep with an absolute time, so that neither a late start of the sleep
// nor a signal in it makes its end late. The calling goroutine should be locked to its
// thread, or the runtime takes time to give it one back.
func (c *Clock) SleepUntil(t int64) {
	for c.Now() < t {
		ts := unix.NsecToTimespec(c.offset + t)
		err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			// A sandbox without the call: less exact, but never early either.
			time.Sleep(time.Duration(t - c.Now()))
		}
	}
}

// ReadCost measures what one Now costs, in ns: the smallest mean of several
// bursts.
func (c *Clock) ReadCost() float64 {
	const burst = 1000
	best := math.Inf(1)
	for range 20 {
		began := c.Now()
		for range burst - 1 {
			_ = c.Now()
		}
		best = min(best, float64(c.Now()-began)/burst)
	}
	return best
}
