package crtc

import (
	"runtime"
	"sync/atomic"

	"github.com/kvbench/kvbench/internal/idle"
)

// rwLock is a lock of one word for many readers or one writer, held for well
// under a µs; a sync.RWMutex would put a locked OS thread to sleep for longer
// than that. A waiting writer keeps new readers out.
type rwLock struct{ word atomic.Uint32 }

const writing = 1 << 31

func (l *rwLock) lock() {
	if l.word.CompareAndSwap(0, writing) {
		return
	}
	for round := 0; ; round++ {
		if w := l.word.Load(); w&writing == 0 && l.word.CompareAndSwap(w, w|writing) {
			break
		}
		wait(round)
	}
	for round := 0; l.word.Load() != writing; round++ {
		wait(round)
	}
}

// unlock leaves alone the counts of readers that are about to give way.
func (l *rwLock) unlock() { l.word.Add(writing) }

func (l *rwLock) rlock() {
	for round := 0; l.word.Add(1)&writing != 0; {
		l.word.Add(^uint32(0))
		for l.word.Load()&writing != 0 {
			wait(round)
			round++
		}
	}
}

func (l *rwLock) runlock() { l.word.Add(^uint32(0)) }

// spinRounds is how long a wait only spins.
const spinRounds = 16

// wait lets a little time pass for another thread to finish something short.
// That one may have lost its CPU, or be a goroutine that has lost its thread:
// each needs another way of stepping aside.
func wait(round int) {
	switch {
	case round < spinRounds:
		idle.Pause()
	case round%4 == 0:
		runtime.Gosched()
	default:
		idle.Yield()
	}
}

// version is even while no event of its slot is being applied. It lies with
// those of the other slots of that event thread, since threads that write to one
// line slow each other down.
type version = atomic.Uint32

type versionLine [idle.CacheLine / 4]version

// acquire makes a version odd, waiting while it is, and returns its even value.
func acquire(v *version) uint32 {
	for round := 0; ; round++ {
		if now := v.Load(); now%2 == 0 && v.CompareAndSwap(now, now+1) {
			return now
		}
		wait(round)
	}
}
