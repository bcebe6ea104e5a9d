package host

import (
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestClockNeverGoesBack(t *testing.T) {
	c := NewClock()
	last := c.Now()
	if last < 0 || last > int64(10*time.Second) {
		t.Errorf("a new clock shows %d", last)
	}
	for range 1_000_000 {
		now := c.Now()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
}

func TestClockOffset(t *testing.T) {
	c := NewClock()
	for range 100 {
		var ts unix.Timespec
		before := c.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			t.Fatal(err)
		}
		after := c.Now()
		// Both clocks are the same one; the bracket and the error of the offset
		// are all that can lie between.
		if at := ts.Nano() - c.offset; at < before-int64(100*time.Microsecond) || at > after {
			t.Fatalf("the other clock says %d between %d and %d", at, before, after)
		}
	}
}

func TestSleepUntilIsNeverEarly(t *testing.T) {
	c := NewClock()
	onOwnThread(t, func() {
		for range 300 {
			at := c.Now() + rand.Int64N(int64(300*time.Microsecond))
			c.SleepUntil(at)
			if now := c.Now(); now < at {
				t.Errorf("woke %d ns early", at-now)
			}
		}
	})
	// What is past does not sleep.
	began := time.Now()
	c.SleepUntil(-5)
	c.SleepUntil(0)
	c.SleepUntil(c.Now())
	if d := time.Since(began); d > time.Second {
		t.Errorf("slept %v for the past", d)
	}
}

// TestSleepUntilIsClose guards against a wrong offset, with which the sleep would
// end at once and the loop would spin, or end far too late.
func TestSleepUntilIsClose(t *testing.T) {
	c := NewClock()
	best, cpu := time.Hour, time.Duration(0)
	onOwnThread(t, func() {
		for range 20 {
			before, _ := ReadTaskUsage(unix.Gettid())
			at := c.Now() + int64(5*time.Millisecond)
			c.SleepUntil(at)
			late := time.Duration(c.Now() - at)
			after, err := ReadTaskUsage(unix.Gettid())
			if err != nil {
				t.Error(err)
				return
			}
			if late < best {
				best, cpu = late, time.Duration(after.Sub(before).RunNS)
			}
		}
	})
	if best > 2*time.Millisecond {
		t.Errorf("the best of 20 sleeps ended %v late", best)
	}
	if cpu > 2*time.Millisecond {
		t.Errorf("a sleep of 5 ms took %v of CPU time", cpu)
	}
	t.Logf("best lateness %v, CPU time of that sleep %v", best, cpu)
}

func TestSleepUntilSurvivesSignals(t *testing.T) {
	got := make(chan os.Signal, 100)
	signal.Notify(got, unix.SIGUSR1)
	defer signal.Stop(got)
	c := NewClock()
	var wg sync.WaitGroup
	defer wg.Wait()
	tid := make(chan int)
	stop := make(chan struct{})
	defer close(stop)
	wg.Go(func() {
		target := <-tid
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				// The thread may be gone already.
				_ = unix.Tgkill(os.Getpid(), target, unix.SIGUSR1)
			}
		}
	})
	onOwnThread(t, func() {
		tid <- unix.Gettid()
		at := c.Now() + int64(50*time.Millisecond)
		c.SleepUntil(at)
		if now := c.Now(); now < at {
			t.Errorf("woke %v early", time.Duration(at-now))
		}
	})
	if len(got) == 0 {
		t.Error("no signal came while it slept")
	}
}

func TestClockCost(t *testing.T) {
	c := NewClock()
	if cost := c.ReadCost(); cost < 1 || cost > 100_000 {
		t.Errorf("one reading costs %v ns", cost)
	}
	runtime.GC()
	if n := testing.AllocsPerRun(1000, func() { c.SleepUntil(c.Now() + 10) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
