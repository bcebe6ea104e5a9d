package host

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseTaskStat(t *testing.T) {
	none := TaskUsage{UserNS: unknown, SystemNS: unknown, MinorFaults: unknown, MajorFaults: unknown}
	for text, want := range map[string]TaskUsage{
		"12 (kvbench) S 1 12 12 0 -1 4194304 100 0 3 0 250 7 0 0 20":       {UserNS: 2.5e9, SystemNS: 7e7, MinorFaults: 100, MajorFaults: 3},
		"12 (a) b) (c) R 1 12 12 0 -1 4194304 100 0 3 0 250 7 0 0 20 0 1":  {UserNS: 2.5e9, SystemNS: 7e7, MinorFaults: 100, MajorFaults: 3},
		"12 (kvbench) S 1 12 12 0 -1 4194304 100 0 3 0 250":                none,
		"12 kvbench S 1 12 12 0 -1 4194304 100 0 3 0 250 7 0":              none,
		"12 (kvbench) S 1 12 12 0 -1 4194304 x 0 -3 0 y 99999999999999999": none,
		"": none,
	} {
		got := TaskUsage{}
		parseTaskStat([]byte(text), &got)
		if got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestParseSmallFiles(t *testing.T) {
	for text, want := range map[string][2]int64{
		"103596 85177 2\n": {103596, 85177},
		"0 0 0":            {0, 0},
		"103596":           {unknown, unknown},
		"":                 {unknown, unknown},
		"x 5 1":            {unknown, 5},
	} {
		if run, wait := parseSchedstat([]byte(text)); run != want[0] || wait != want[1] {
			t.Errorf("schedstat %q: %d, %d; want %v", text, run, wait, want)
		}
	}
	status := []byte("Name:\tkvbench\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n")
	for name, want := range map[string]int64{"voluntary_ctxt_switches": 150, "nonvoluntary_ctxt_switches": 545, "Name": unknown, "other": unknown} {
		if got := statusField(status, name); got != want {
			t.Errorf("status %s: %d, want %d", name, got, want)
		}
	}
	for text, want := range map[string]int64{
		"cpu  1 2 3 4 5 6 7 123 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n": 123e7,
		"intr 1\ncpu  1 2 3 4 5 6 7 0 9 10\n":                      0,
		"cpu  1 2 3 4 5 6 7\n":                                     unknown, // before Linux 2.6.11
		"cpu0 1 2 3 4 5 6 7 8 9 10\n":                              unknown,
		"":                                                         unknown,
	} {
		if got := parseSteal([]byte(text)); got != want {
			t.Errorf("stat %q: %d, want %d", text, got, want)
		}
	}
	if got := parseCount("9223372036854775807", 2); got != unknown {
		t.Errorf("a count that overflows: %d", got)
	}
	if got := parseCount("9223372036854775807", 1); got != math.MaxInt64 {
		t.Errorf("the largest count: %d", got)
	}
}

func TestTaskUsageSub(t *testing.T) {
	a := TaskUsage{RunNS: 10, RunQueueWaitNS: unknown, UserNS: 5, SystemNS: 3, VoluntaryContextSwitches: 2, InvoluntaryContextSwitches: 7, MinorFaults: 9, MajorFaults: 4}
	b := TaskUsage{RunNS: 4, RunQueueWaitNS: 1, UserNS: unknown, SystemNS: 1, VoluntaryContextSwitches: 1, InvoluntaryContextSwitches: 3, MinorFaults: 3, MajorFaults: 4}
	want := TaskUsage{RunNS: 6, RunQueueWaitNS: unknown, UserNS: unknown, SystemNS: 2, VoluntaryContextSwitches: 1, InvoluntaryContextSwitches: 4, MinorFaults: 6}
	if got := a.Sub(b); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestReadTaskUsageForReal(t *testing.T) {
	// Another thread is read while it lives, as the timed run does it.
	tid, release, ended := make(chan int), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		end := time.Now().Add(60 * time.Millisecond)
		for time.Now().Before(end) {
		}
		tid <- unix.Gettid()
		<-release
	}()
	id := <-tid
	u, err := ReadTaskUsage(id)
	if err != nil {
		t.Fatal(err)
	}
	if u.RunNS != unknown && (u.RunNS <= 0 || u.RunNS > int64(time.Minute)) {
		t.Errorf("ran for %v", time.Duration(u.RunNS))
	}
	if u.UserNS < 0 || u.SystemNS < 0 || u.VoluntaryContextSwitches < 0 || u.InvoluntaryContextSwitches < 0 || u.MinorFaults < 0 || u.MajorFaults < 0 {
		t.Errorf("unknown: %+v", u)
	}
	t.Logf("%+v", u)
	close(release)
	<-ended
	if _, err := ReadTaskUsage(1 << 30); err == nil || !strings.Contains(err.Error(), "thread 1073741824") {
		t.Errorf("a thread that does not exist: %v", err)
	}
}

func TestReadProcessUsageForReal(t *testing.T) {
	before, err := ReadProcessUsage()
	if err != nil {
		t.Fatal(err)
	}
	const pages = 64
	b := make([]byte, 64<<20) // fresh memory of the kernel
	for i := range pages {
		b[i*len(b)/pages] = 1
	}
	after, err := ReadProcessUsage()
	if err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(b)
	if after.MinorFaults <= before.MinorFaults {
		t.Errorf("%d minor faults, then %d", before.MinorFaults, after.MinorFaults)
	}
	if after.PeakRSSBytes < 1<<20 || after.PeakRSSBytes > 1<<40 {
		t.Errorf("peak of %d bytes", after.PeakRSSBytes)
	}
	if s := StealNS(); s < unknown {
		t.Errorf("steal %d", s)
	}
}
