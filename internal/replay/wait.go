package replay

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// parker lets one thread sleep until another wakes it, without a lock on the
// waking side: waking a thread that is awake is one load.
type parker struct {
	_      [cacheLine]byte
	parked atomic.Bool
	wakeUp chan struct{}
	_      [cacheLine]byte
}

func newParker() parker { return parker{wakeUp: make(chan struct{}, 1)} }

// park sleeps until wake, unless ready says after the announcement that there
// is something to do. Go's atomics are sequentially consistent, so either ready
// sees the work or the other side sees the announcement.
func (p *parker) park(ready func() bool) {
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

// wake is called after the work has been published.
func (p *parker) wake() {
	if p.parked.Load() && p.parked.CompareAndSwap(true, false) {
		select {
		case p.wakeUp <- struct{}{}:
		default:
		}
	}
}

// idler is what a thread without work does: it spins if it has a CPU of its
// own, else gives the CPU to others and at last sleeps.
type idler struct {
	spin   bool
	rounds int
	parker *parker
}

const (
	spinRounds  = 16
	yieldRounds = 32
)

func (i *idler) reset() { i.rounds = 0 }

func (i *idler) wait(ready func() bool) {
	i.rounds++
	switch {
	case i.spin || i.rounds < spinRounds:
		pause()
	case i.parker == nil || i.rounds < spinRounds+yieldRounds:
		yield()
	default:
		i.parker.park(ready)
		i.rounds = 0
	}
}

// yield gives the CPU to another thread that is ready to run. On a locked
// thread runtime.Gosched would cost two futex calls and a change of threads; the
// system call costs less and does not touch the Go scheduler.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// pause spends a few ns without touching memory that others write.
//
//go:noinline
func pause() {
	for range 8 {
		runtime.KeepAlive(nil)
	}
}
