package host

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/kvbench/kvbench/results"
)

// Measured is what was tried out. Without a measurement CPUs is empty.
type Measured struct {
	ClockReadNS float64 `json:"clock_read_ns"` // cost of one reading of the clock; 0: not measured
	// TimerLateNS is how much later than asked a thread woke from a sleep.
	TimerLateNS results.Distribution `json:"timer_late_ns"`
	CPUs        []CPUProbe           `json:"cpus"` // in the order in which they were tried
}

// CPUProbe is what a thread on one CPU met.
type CPUProbe struct {
	CPU int `json:"cpu"`
	// LoopNS is how long equal pieces of work took, the first two left out: they
	// warm the CPU.
	LoopNS []int64 `json:"loop_ns"`
	// Spread is (longest - shortest) / median of LoopNS.
	Spread float64 `json:"spread"`
	// A thread that did nothing but read the clock for WatchedNS found it jump by
	// more than 10 µs so often, by so much in all and at most.
	WatchedNS      int64 `json:"watched_ns"`
	Stalls         int   `json:"stalls"`
	StallNS        int64 `json:"stall_ns"`
	LongestStallNS int64 `json:"longest_stall_ns"`
}

// StallShare is the part of the time that the thread did not have.
func (p *CPUProbe) StallShare() float64 {
	if p.WatchedNS <= 0 {
		return 0
	}
	return float64(p.StallNS) / float64(p.WatchedNS)
}

// How much is tried out on each CPU.
const (
	burnRuns   = 7
	burnDrop   = 2
	burnSteps  = 1_000_000 // some ms
	stallWatch = 50 * time.Millisecond
	stallFrom  = 10 * time.Microsecond
	timerSleep = 200 * time.Microsecond
	timerRuns  = 200
)

// probe tries the CPUs one after the other, so that they do not warm or slow
// each other.
func probe(ctx context.Context, cpus []int, step func()) (Measured, error) {
	clock := NewClock()
	var m Measured
	for i, cpu := range cpus {
		if ctx.Err() != nil {
			return m, context.Cause(ctx)
		}
		done := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // never unlocked: the pinned thread ends here
			if err := PinThread(cpu); err != nil {
				done <- err
				return
			}
			if i == 0 {
				m.ClockReadNS = clock.ReadCost()
				m.TimerLateNS = timerLateness(clock)
			}
			m.CPUs = append(m.CPUs, probeCPU(clock, cpu))
			done <- nil
		}()
		if err := <-done; err != nil {
			return m, fmt.Errorf("try out CPU %d: %w", cpu, err)
		}
		step()
	}
	return m, nil
}

func probeCPU(clock *Clock, cpu int) CPUProbe {
	p := CPUProbe{CPU: cpu}
	for run := range burnRuns {
		began := clock.Now()
		runtime.KeepAlive(burn(burnSteps))
		if ns := clock.Now() - began; run >= burnDrop {
			p.LoopNS = append(p.LoopNS, ns)
		}
	}
	p.Spread = spread(p.LoopNS)
	began := clock.Now()
	last := began
	for end := began + int64(stallWatch); last < end; {
		now := clock.Now()
		if gap := now - last; gap > int64(stallFrom) {
			p.Stalls++
			p.StallNS += gap
			p.LongestStallNS = max(p.LongestStallNS, gap)
		}
		last = now
	}
	p.WatchedNS = last - began
	return p
}

// burn does a fixed amount of work in which each step needs the one before.
//
//go:noinline
func burn(steps int) uint64 {
	x := uint64(1)
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

func spread(v []int64) float64 {
	if len(v) == 0 || median(v) <= 0 {
		return 0
	}
	return float64(slices.Max(v)-slices.Min(v)) / float64(median(v))
}

// timerLateness sleeps as the issuers of a replay do.
func timerLateness(clock *Clock) results.Distribution {
	late := make([]int64, 0, timerRuns)
	for range timerRuns {
		at := clock.Now() + int64(timerSleep)
		clock.SleepUntil(at)
		late = append(late, clock.Now()-at)
	}
	return results.Summarize(late)
}
