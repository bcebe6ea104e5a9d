package host

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unknown stands for what the kernel does not say.
const unknown = -1

// TaskUsage is what one thread has used since it began. Times are in ns; -1
// means that the kernel does not say.
type TaskUsage struct {
	RunNS          int64 // on a CPU, exact
	RunQueueWaitNS int64 // ready to run and not running
	UserNS         int64 // of RunNS, in steps of a clock tick
	SystemNS       int64

	VoluntaryContextSwitches   int64
	InvoluntaryContextSwitches int64

	MinorFaults int64 // page faults that did not wait for a disk
	MajorFaults int64 // page faults that did
}

// Sub returns what was used between before and u.
func (u TaskUsage) Sub(before TaskUsage) TaskUsage {
	sub := func(a, b int64) int64 {
		if a == unknown || b == unknown {
			return unknown
		}
		return a - b
	}
	return TaskUsage{
		RunNS:                      sub(u.RunNS, before.RunNS),
		RunQueueWaitNS:             sub(u.RunQueueWaitNS, before.RunQueueWaitNS),
		UserNS:                     sub(u.UserNS, before.UserNS),
		SystemNS:                   sub(u.SystemNS, before.SystemNS),
		VoluntaryContextSwitches:   sub(u.VoluntaryContextSwitches, before.VoluntaryContextSwitches),
		InvoluntaryContextSwitches: sub(u.InvoluntaryContextSwitches, before.InvoluntaryContextSwitches),
		MinorFaults:                sub(u.MinorFaults, before.MinorFaults),
		MajorFaults:                sub(u.MajorFaults, before.MajorFaults),
	}
}

// ReadTaskUsage returns the usage of a living thread of this process, which need
// not be the calling one. It is an error if there is no such thread.
func ReadTaskUsage(tid int) (TaskUsage, error) {
	u := TaskUsage{RunNS: unknown, RunQueueWaitNS: unknown, VoluntaryContextSwitches: unknown, InvoluntaryContextSwitches: unknown}
	dir := fmt.Sprintf("/proc/self/task/%d/", tid)
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return u, fmt.Errorf("usage of thread %d: %w", tid, err)
	}
	parseTaskStat(stat, &u)
	// Kernels are built without these; then they are unknown.
	if b, err := os.ReadFile(dir + "schedstat"); err == nil {
		u.RunNS, u.RunQueueWaitNS = parseSchedstat(b)
	}
	if b, err := os.ReadFile(dir + "status"); err == nil {
		u.VoluntaryContextSwitches = statusField(b, "voluntary_ctxt_switches")
		u.InvoluntaryContextSwitches = statusField(b, "nonvoluntary_ctxt_switches")
	}
	return u, nil
}

// tickNS is the length of a tick in /proc: USER_HZ is 100 on every architecture
// that Go runs on.
const tickNS = 10_000_000

// parseTaskStat reads times and faults from /proc/.../stat.
func parseTaskStat(b []byte, u *TaskUsage) {
	u.UserNS, u.SystemNS, u.MinorFaults, u.MajorFaults = unknown, unknown, unknown, unknown
	// The name in parentheses may hold anything; the fields follow it.
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 13 {
		return
	}
	u.MinorFaults, u.MajorFaults = parseCount(f[7], 1), parseCount(f[9], 1)
	u.UserNS, u.SystemNS = parseCount(f[11], tickNS), parseCount(f[12], tickNS)
}

func parseSchedstat(b []byte) (run, wait int64) {
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return unknown, unknown
	}
	return parseCount(f[0], 1), parseCount(f[1], 1)
}

func statusField(b []byte, name string) int64 {
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return parseCount(strings.TrimSpace(value), 1)
		}
	}
	return unknown
}

// parseCount returns a count of units, unknown if s is none or too large.
func parseCount(s string, unit int64) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return unknown
	}
	return n * unit
}

// ProcessUsage is what this process has used since it began.
type ProcessUsage struct {
	MinorFaults  int64
	MajorFaults  int64
	PeakRSSBytes int64
}

// ReadProcessUsage returns the usage of this process.
func ReadProcessUsage() (ProcessUsage, error) {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return ProcessUsage{}, fmt.Errorf("usage of the process: %w", err)
	}
	return ProcessUsage{MinorFaults: ru.Minflt, MajorFaults: ru.Majflt, PeakRSSBytes: ru.Maxrss * 1024}, nil
}

// StealNS returns the time that the hypervisor ran others while a CPU of this
// machine was ready, summed over CPUs since boot; -1 if it is not known.
func StealNS() int64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return unknown
	}
	return parseSteal(b)
}

func parseSteal(b []byte) int64 {
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 8 && f[0] == "cpu" {
			return parseCount(f[8], tickNS)
		}
	}
	return unknown
}
