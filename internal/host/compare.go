package host

import (
	"fmt"
	"slices"
	"strings"
)

// Change is one thing that was not the same at two checks, or that happened in
// between.
type Change struct {
	Name    string  `json:"name"`    // stable, such as "governor"
	Verdict Verdict `json:"verdict"` // Doubtful or Unfit
	Detail  string  `json:"detail"`
}

// Compare returns what changed from one report to a later one of an experiment
// and what happened between them; nothing if the machine stayed as it was. A
// change of identity comes first and is Unfit: the figures before and after are
// of two machines.
//
// CPU pressure between the two includes the threads of the experiment itself; it
// is judged only if ownCPUs says that each of these had a CPU of its own.
func Compare(before, after *Report, ownCPUs bool) []Change {
	var out []Change
	add := func(name string, v Verdict, format string, args ...any) {
		out = append(out, Change{name, v, fmt.Sprintf(format, args...)})
	}
	differs := func(name string, v Verdict, a, b any) {
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			add(name, v, "%s became %s", orUnknown(x), orUnknown(y))
		}
	}
	a, b := &before.Identity, &after.Identity
	differs("machine", Unfit, a.Machine, b.Machine)
	differs("arch", Unfit, a.Arch, b.Arch)
	differs("cpu_model", Unfit, a.CPUModel, b.CPUModel)
	differs("microcode", Unfit, a.Microcode, b.Microcode)
	differs("kernel", Unfit, a.Kernel, b.Kernel)
	differs("hypervisor", Unfit, a.Hypervisor, b.Hypervisor)
	differs("logical_cpus", Unfit, a.LogicalCPUs, b.LogicalCPUs)
	differs("physical_cores", Unfit, a.PhysicalCores, b.PhysicalCores)
	differs("sockets", Unfit, a.Sockets, b.Sockets)
	differs("numa_nodes", Unfit, a.Nodes, b.Nodes)
	differs("memory_bytes", Unfit, a.MemoryBytes, b.MemoryBytes)
	differs("allowed_cpus", Unfit, a.AllowedCPUs, b.AllowedCPUs)
	differs("cpu_quota", Unfit, a.CPUQuota, b.CPUQuota)

	s, t := &before.Settings, &after.Settings
	differs("governor", Doubtful, strings.Join(s.Governors, " "), strings.Join(t.Governors, " "))
	differs("frequency_driver", Doubtful, s.Driver, t.Driver)
	differs("turbo", Doubtful, s.Turbo, t.Turbo)
	differs("frequency_limits", Doubtful, fmt.Sprintf("%.0f to %.0f MHz", s.MinMHz, s.MaxMHz), fmt.Sprintf("%.0f to %.0f MHz", t.MinMHz, t.MaxMHz))
	differs("transparent_huge_pages", Doubtful, s.THP, t.THP)
	differs("transparent_huge_pages_defrag", Doubtful, s.THPDefrag, t.THPDefrag)
	differs("clock_source", Doubtful, s.ClockSource, t.ClockSource)
	differs("aslr", Doubtful, s.ASLR, t.ASLR)
	differs("isolated_cpus", Doubtful, s.Isolated, t.Isolated)
	differs("nohz_full_cpus", Doubtful, s.NoHzFull, t.NoHzFull)
	differs("power", Doubtful, s.Power, t.Power)

	if x, y, ok := speeds(before, after); ok && abs(y-x)/x > frequencyMoves {
		add("speed", Doubtful, "the same piece of work took %.2f x as long (limit 1 ± %.2f)", y/x, frequencyMoves)
	}
	if before.Counters.BootID != after.Counters.BootID {
		add("boot", Doubtful, "the machine was started anew; what happened meanwhile is not known")
		return out
	}
	return append(out, Happened(after.Counters.Sub(before.Counters), ownCPUs)...)
}

// speeds returns the fastest piece of work of the CPUs that both reports tried,
// in ns, summed; false if there are none. The fastest is the one that says most
// about the CPU and least about what else ran.
func speeds(before, after *Report) (x, y float64, ok bool) {
	for _, p := range before.Measured.CPUs {
		i := slices.IndexFunc(after.Measured.CPUs, func(q CPUProbe) bool { return q.CPU == p.CPU })
		if i < 0 || len(p.LoopNS) == 0 || len(after.Measured.CPUs[i].LoopNS) == 0 {
			continue
		}
		x += float64(slices.Min(p.LoopNS))
		y += float64(slices.Min(after.Measured.CPUs[i].LoopNS))
		ok = true
	}
	return x, y, ok && x > 0
}

// Happened judges a difference of counters, be it of one run or of a whole
// experiment: nothing if all is well or unknown. See Compare for ownCPUs.
func Happened(d Counters, ownCPUs bool) []Change {
	var out []Change
	add := func(name string, v Verdict, format string, args ...any) {
		if v != Fit {
			out = append(out, Change{name, v, fmt.Sprintf(format, args...)})
		}
	}
	if share, ok := d.CPUPressure(); ok && ownCPUs {
		add("cpu_pressure", graded(share, pressureDoubtful, pressureUnfit), "for %.1f%% of the time threads waited for a CPU (limits %.0f%%, %.0f%%)",
			100*share, 100*pressureDoubtful, 100*pressureUnfit)
	}
	if steal, ok := d.Steal(); ok && steal > stealDoubtful {
		add("steal", Doubtful, "the hypervisor took %.2f%% of a CPU (limit %.1f%%)", 100*steal, 100*stealDoubtful)
	}
	if d.ThrottledPeriods > 0 {
		add("throttling", Unfit, "the CPU quota stopped this cgroup in %s", plural(int(d.ThrottledPeriods), "period"))
	}
	if d.ThermalThrottles > 0 {
		add("thermal", Unfit, "cores were slowed for their heat %s", plural(int(d.ThermalThrottles), "time"))
	}
	if d.SwapInPages > 0 || d.SwapOutPages > 0 {
		add("swap", Unfit, "%d pages came in from swap and %d went out", max(0, d.SwapInPages), max(0, d.SwapOutPages))
	}
	if share, ok := d.share(d.MemoryPressureUS); ok {
		add("memory_pressure", graded(share, pressureDoubtful, pressureUnfit), "for %.1f%% of the time threads waited for memory", 100*share)
	}
	return out
}
