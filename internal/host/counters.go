package host

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// Counters are what the system has counted since it began: two readings say what
// happened between them. -1: the system does not say.
//
// They cost some file reads, so they belong before and after a timed run, not
// into it. The pressure of a run includes its own threads: where these share
// CPUs, they wait for each other and the figure says nothing about others.
type Counters struct {
	UnixNS int64  `json:"unix_ns"` // when they were read, in ns since 1970; of a difference, the time between
	BootID string `json:"boot_id"` // of the kernel's start; "" if unknown; counters of two starts have no difference

	CPUPressureUS       int64 `json:"cpu_pressure_us"`        // time in which some thread waited for a CPU, in µs
	CgroupCPUPressureUS int64 `json:"cgroup_cpu_pressure_us"` // the same for this process's cgroup
	MemoryPressureUS    int64 `json:"memory_pressure_us"`     // time in which some thread waited for memory, in µs
	IOPressureUS        int64 `json:"io_pressure_us"`         // time in which some thread waited for a device, in µs
	StealNS             int64 `json:"steal_ns"`               // taken by the hypervisor, of all CPUs together, in ns
	ThrottledPeriods    int64 `json:"throttled_periods"`      // periods in which the cgroup's CPU quota was used up
	ThrottledUS         int64 `json:"throttled_us"`           // time that the quota stopped the cgroup, in µs
	ThermalThrottles    int64 `json:"thermal_throttles"`      // times that a core was slowed for its heat
	SwapInPages         int64 `json:"swap_in_pages"`
	SwapOutPages        int64 `json:"swap_out_pages"`
	MajorFaults         int64 `json:"major_faults"` // page faults of the machine that waited for a disk
}

// ReadCounters returns the counters of this machine.
func ReadCounters() Counters { return readCounters(os.DirFS("/"), time.Now()) }

// fields are the counters that are subtracted.
func (c *Counters) fields() []*int64 {
	return []*int64{&c.CPUPressureUS, &c.CgroupCPUPressureUS, &c.MemoryPressureUS, &c.IOPressureUS, &c.StealNS,
		&c.ThrottledPeriods, &c.ThrottledUS, &c.ThermalThrottles, &c.SwapInPages, &c.SwapOutPages, &c.MajorFaults}
}

// Sub returns what happened between before and c. Everything is unknown if the
// machine was started anew meanwhile, and a counter that went back is too.
func (c Counters) Sub(before Counters) Counters {
	d := c
	d.UnixNS = c.UnixNS - before.UnixNS
	a, b := d.fields(), before.fields()
	for i := range a {
		if *a[i] == unknown || *b[i] == unknown || c.BootID != before.BootID || *a[i] < *b[i] {
			*a[i] = unknown
			continue
		}
		*a[i] -= *b[i]
	}
	return d
}

// share returns what part of a difference's time n µs are; false if unknown.
func (c Counters) share(us int64) (float64, bool) {
	if us == unknown || c.UnixNS <= 0 {
		return 0, false
	}
	return float64(us) * 1e3 / float64(c.UnixNS), true
}

// CPUPressure returns the part of the time of a difference in which some thread
// waited for a CPU, from 0 to 1; false if it is unknown. In a cgroup whose
// pressure is known too, it is the larger of the two.
func (c Counters) CPUPressure() (float64, bool) {
	machine, ok := c.share(c.CPUPressureUS)
	own, ownOK := c.share(c.CgroupCPUPressureUS)
	return max(machine, own), ok || ownOK
}

// Steal returns the CPUs that the hypervisor took away on average over the time
// of a difference, 1 for one whole CPU; false if it is unknown.
func (c Counters) Steal() (float64, bool) {
	if c.StealNS == unknown {
		return 0, false
	}
	return c.share(c.StealNS / 1e3)
}

func readCounters(root fs.FS, now time.Time) Counters {
	c := Counters{
		UnixNS:              now.UnixNano(),
		BootID:              line(root, "proc/sys/kernel/random/boot_id"),
		CPUPressureUS:       parsePressure(file(root, "proc/pressure/cpu")),
		CgroupCPUPressureUS: unknown,
		MemoryPressureUS:    parsePressure(file(root, "proc/pressure/memory")),
		IOPressureUS:        parsePressure(file(root, "proc/pressure/io")),
		StealNS:             parseSteal([]byte(file(root, "proc/stat"))),
		ThrottledPeriods:    unknown,
		ThrottledUS:         unknown,
		ThermalThrottles:    thermalThrottles(root),
	}
	vmstat := file(root, "proc/vmstat")
	c.SwapInPages = namedCount(vmstat, "pswpin")
	c.SwapOutPages = namedCount(vmstat, "pswpout")
	c.MajorFaults = namedCount(vmstat, "pgmajfault")
	for _, g := range cpuCgroups(root) {
		stat := file(root, path.Join(g.dir, "cpu.stat"))
		// An ancestor's quota stops this process as well as its own does.
		c.ThrottledPeriods = addKnown(c.ThrottledPeriods, namedCount(stat, "nr_throttled"))
		us := namedCount(stat, "throttled_usec")
		if ns := namedCount(stat, "throttled_time"); us == unknown && ns != unknown {
			us = ns / 1e3
		}
		c.ThrottledUS = addKnown(c.ThrottledUS, us)
		if c.CgroupCPUPressureUS == unknown {
			c.CgroupCPUPressureUS = parsePressure(file(root, path.Join(g.dir, "cpu.pressure")))
		}
	}
	return c
}

// addKnown sums what is known.
func addKnown(sum, n int64) int64 {
	switch {
	case n == unknown:
		return sum
	case sum == unknown:
		return n
	}
	return sum + n
}

// parsePressure returns the total of the line "some" of a pressure file, in µs.
func parsePressure(text string) int64 {
	for l := range strings.Lines(text) {
		f := strings.Fields(l)
		if len(f) == 0 || f[0] != "some" {
			continue
		}
		for _, field := range f[1:] {
			if v, ok := strings.CutPrefix(field, "total="); ok {
				return parseCount(v, 1)
			}
		}
	}
	return unknown
}

// namedCount returns the count of a line "name count".
func namedCount(text, name string) int64 {
	for l := range strings.Lines(text) {
		if f := strings.Fields(l); len(f) == 2 && f[0] == name {
			return parseCount(f[1], 1)
		}
	}
	return unknown
}

// thermalThrottles sums the counts of all cores.
func thermalThrottles(root fs.FS) int64 {
	names, err := fs.Glob(root, sysCPU+"cpu[0-9]*/thermal_throttle/core_throttle_count")
	if err != nil {
		return unknown
	}
	sum := int64(unknown)
	for _, name := range names {
		sum = addKnown(sum, parseCount(line(root, name), 1))
	}
	return sum
}
