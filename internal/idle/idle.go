// Package idle is what a thread does while it has nothing to do: spin, give the
// CPU away, sleep until woken. It knows nothing of the work.
package idle

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// CacheLine is the distance in bytes that keeps two words from sharing a line,
// the prefetcher's neighbouring line included.
const CacheLine = 128

// Parker lets one thread sleep until another wakes it, without a lock on the
// waking side: waking a thread that is awake is one load.
type Parker struct {
	_      [CacheLine]byte
	parked atomic.Bool
	wakeUp chan struct{}
	_      [CacheLine]byte
}

// NewParker returns a parker for one sleeping thread.
func NewParker() Parker { return Parker{wakeUp: make(chan struct{}, 1)} }

// Park sleeps until Wake, unless ready says after the announcement that there
// is something to do. Go's atomics are sequentially consistent, so either ready
// sees the work or the other side sees the announcement.
func (p *Parker) Park(ready func() bool) {
	p.parked.Store(true)
	if ready() {
		p.parked.Store(false)
		select {
		case <-p.wakeUp:
		default:
		}
		return
	}
	<-p.wakeUp
}

// Wake is called after the work has been published.
func (p *Parker) Wake() {
	if p.parked.Load() && p.parked.CompareAndSwap(true, false) {
		select {
		case p.wakeUp <- struct{}{}:
		default:
		}
	}
}

// Idler is one thread's waiting: it spins if the thread has a CPU of its own,
// else it gives the CPU to others and at last sleeps.
type Idler struct {
	// Spin says that the thread never gives its CPU away.
	Spin bool
	// Parker sleeps after some rounds; nil: never.
	Parker *Parker

	rounds int
}

// Rounds of Wait that spin, and that yield after these, before it sleeps.
const (
	spinRounds  = 16
	yieldRounds = 2
)

// nap is how long Wait sleeps without a Parker.
const nap = 50 * time.Microsecond

// Reset is called when there was work.
func (i *Idler) Reset() { i.rounds = 0 }

// Wait spends one round. ready says whether there is work; it is asked only
// before sleeping and may be nil without a Parker.
func (i *Idler) Wait(ready func() bool) {
	i.rounds++
	switch {
	case i.Spin || i.rounds < spinRounds:
		Pause()
	case i.rounds < spinRounds+yieldRounds:
		Yield()
	case i.Parker == nil:
		// A system call that may block gives the Go scheduler's P away, so that
		// this also works where there are more such threads than Ps.
		ts := unix.NsecToTimespec(int64(nap))
		_ = unix.Nanosleep(&ts, nil)
	default:
		i.Parker.Park(ready)
		i.rounds = 0
	}
}

// Yield gives the CPU to another thread that is ready to run. On a locked
// thread runtime.Gosched would cost two futex calls and a change of threads; the
// system call costs less and does not touch the Go scheduler.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// Pause spends a few ns without touching memory that others write.
//
//go:noinline
func Pause() {
	for range 8 {
		runtime.KeepAlive(nil)
	}
}
