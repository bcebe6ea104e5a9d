package host

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of the checks. Where two stand side by side, the first makes a machine
// doubtful and the second unfit.
const (
	leastCores       = 4    // one for each role of a replay: query issuer, event issuer, query thread, event thread
	pressureDoubtful = 0.01 // of the time
	pressureUnfit    = 0.05
	stealDoubtful    = 0.005 // CPUs
	stallDoubtful    = 0.01  // of the time
	stallUnfit       = 0.05
	spreadUnfit      = 0.10 // of the median piece of work
	frequencyMoves   = 0.05 // of the frequency
	clockReadLimit   = 100 * time.Nanosecond
	timerLimit       = 75 * time.Microsecond // the spin of an issuer, which covers a late timer
)

// judge makes the findings. pinned are the CPUs that threads will be pinned to,
// nil if that is not decided.
func judge(r *Report, pinned []int) []Finding {
	j := judgement{r: r, pinned: pinned}
	for _, check := range []func(){
		j.cores, j.affinity, j.smt, j.numa,
		j.pressure, j.runnable, j.others, j.load, j.steal,
		j.burnIn, j.stalls, j.timer, j.clockRead, j.clockSource,
		j.quota, j.throttling, j.thermal, j.swap, j.memoryPressure,
		j.governor, j.turbo, j.frequency, j.power,
		j.hugePages, j.aslr, j.isolation, j.hypervisor,
	} {
		check()
	}
	return j.out
}

type judgement struct {
	r      *Report
	pinned []int
	out    []Finding
}

func (j *judgement) say(name string, v Verdict, remedy, format string, args ...any) {
	if v == Fit {
		remedy = ""
	}
	j.out = append(j.out, Finding{Name: name, Verdict: v, Detail: fmt.Sprintf(format, args...), Remedy: remedy})
}

// graded compares a share with two limits.
func graded(v, doubtful, unfit float64) Verdict {
	switch {
	case v > unfit:
		return Unfit
	case v > doubtful:
		return Doubtful
	}
	return Fit
}

func (j *judgement) cores() {
	l := &j.r.Layout
	if l.Problem != "" {
		j.say("cores", Unknown, "compare with lscpu, and pin threads by hand to CPUs that share no core",
			"the kernel does not say which CPUs share a core: %s", l.Problem)
		return
	}
	v := Fit
	if l.AllowedCores < leastCores {
		v = Unfit
	}
	j.say("cores", v, fmt.Sprintf("use a machine with %d free cores or more, or live with results that are marked as shared", leastCores+1),
		"%s, %s: this process may use %s on %s (%s); a replay needs %d to keep its threads apart, one more with a reader",
		plural(l.Sockets, "socket"), plural(l.PhysicalCores, "core"), plural(cpuCount(l.AllowedCPUs), "CPU"), plural(l.AllowedCores, "core"), l.AllowedCPUs, leastCores)
}

func cpuCount(list string) int {
	cpus, err := ParseCPUs(list)
	if err != nil {
		return 0
	}
	return len(cpus)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func (j *judgement) affinity() {
	l := &j.r.Layout
	allowed, _ := ParseCPUs(l.AllowedCPUs)
	if list, err := ParseCPUs(l.CpusetCPUs); err == nil {
		var outside []int
		for _, c := range allowed {
			if !slices.Contains(list, c) {
				outside = append(outside, c)
			}
		}
		if len(outside) > 0 {
			j.say("affinity", Unfit, "start kvbench again: its mask is from before the cgroup changed",
				"the mask has CPUs %s, which the cgroup (%s) does not", FormatCPUs(outside), l.CpusetCPUs)
			return
		}
	}
	var foreign []int
	for _, c := range l.cpus() {
		if !slices.Contains(allowed, c.Number) {
			continue
		}
		for _, s := range c.Siblings {
			if !slices.Contains(allowed, s) && !slices.Contains(foreign, s) {
				foreign = append(foreign, s)
			}
		}
	}
	slices.Sort(foreign)
	switch {
	case len(foreign) > 0:
		j.say("affinity", Doubtful, "take whole cores into the mask (taskset, cpuset), so that nobody else runs on their other half",
			"CPUs %s are not allowed but share cores with those that are (%s)", FormatCPUs(foreign), l.AllowedCPUs)
	case l.LogicalCPUs == 0:
		j.say("affinity", Fit, "", "allowed are CPUs %s", l.AllowedCPUs)
	default:
		j.say("affinity", Fit, "", "allowed are CPUs %s of %d online", l.AllowedCPUs, l.LogicalCPUs)
	}
}

func (j *judgement) smt() {
	l := &j.r.Layout
	if l.Problem != "" {
		j.say("smt", Unknown, "compare with lscpu", "the kernel does not say")
		return
	}
	if j.pinned != nil {
		if shared := SharedCores(j.pinned, l.cpus()); len(shared) > 0 {
			var lists []string
			for _, s := range shared {
				lists = append(lists, FormatCPUs(s))
			}
			j.say("smt", Unfit, "take one CPU of each core; kvbench host --suggest proposes them",
				"of the chosen CPUs these share a core: %s", strings.Join(lists, "; "))
			return
		}
	}
	if len(SharedCores(onlineOf(l), l.cpus())) == 0 {
		j.say("smt", Fit, "", "every CPU is a core of its own (SMT %s)", orUnknown(l.SMT))
		return
	}
	j.say("smt", Fit, "", "cores have several CPUs; kvbench takes one of each first, and so does --suggest")
}

func onlineOf(l *Layout) []int {
	out := make([]int, len(l.CPUs))
	for i, c := range l.CPUs {
		out[i] = c.CPU
	}
	return out
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func (j *judgement) numa() {
	l := &j.r.Layout
	cpus := j.pinned
	if cpus == nil {
		cpus, _ = ParseCPUs(l.AllowedCPUs)
	}
	var nodes []int
	for _, c := range l.CPUs {
		if slices.Contains(cpus, c.CPU) && c.Node != unknown && !slices.Contains(nodes, c.Node) {
			nodes = append(nodes, c.Node)
		}
	}
	switch {
	case len(nodes) == 0:
		j.say("numa", Unknown, "compare with numactl --hardware", "the kernel does not say")
	case len(nodes) == 1 && !j.mayUseMemoryOf(nodes[0]):
		j.say("numa", Doubtful, "let the cgroup use the memory of the CPUs' node (cpuset.mems), or take CPUs of another node",
			"the CPUs lie on node %d, and memory may come only of %s, which is slower", nodes[0], l.MemoryNodes)
	case len(nodes) == 1:
		j.say("numa", Fit, "", "all on node %d of %s", nodes[0], plural(len(l.Nodes), "node"))
	default:
		j.say("numa", Doubtful, "take the CPUs and the memory of one node: kvbench host --suggest, numactl --membind",
			"the CPUs lie on %s of %d, and memory of another node is slower", plural(len(nodes), "node"), len(l.Nodes))
	}
}

// mayUseMemoryOf says whether a node's memory is allowed, as far as is known.
func (j *judgement) mayUseMemoryOf(node int) bool {
	list, err := ParseCPUs(j.r.Layout.MemoryNodes) // a list of nodes has the same form
	return err != nil || slices.Contains(list, node)
}

func (j *judgement) pressure() {
	const remedy = "end what else runs; kvbench host --json | jq .state shows what there is"
	share, ok := j.r.State.Watched.CPUPressure()
	// What happened while a few files were read says nothing.
	if !ok || j.r.State.Watched.UnixNS < int64(watchStep)/2 {
		j.say("cpu_pressure", Unknown, "use a kernel with CONFIG_PSI=y, booted with psi=1", "no /proc/pressure/cpu, or no time was given to watch it")
		return
	}
	j.say("cpu_pressure", graded(share, pressureDoubtful, pressureUnfit), remedy,
		"for %.1f%% of the time threads waited for a CPU (limits %.0f%%, %.0f%%)", 100*share, 100*pressureDoubtful, 100*pressureUnfit)
}

func (j *judgement) runnable() {
	n := j.r.State.Runnable
	if n == unknown {
		j.say("runnable", Unknown, "mount /proc", "no /proc/stat")
		return
	}
	// The thread that reads is one of them.
	others := max(0, n-1)
	v := Fit
	if others > 1 {
		v = Doubtful
	}
	j.say("runnable", v, "end what else runs", "%s ran or wanted to, beside this one", plural(int(others), "other thread"))
}

func (j *judgement) others() {
	switch n := j.r.State.Others; {
	case n == unknown:
		j.say("other_kvbench", Unknown, "mount /proc", "no /proc")
	case n > 0:
		j.say("other_kvbench", Doubtful, "wait for it, or end it: two measurements disturb each other", "kvbench runs %s beside this one", plural(n, "time"))
	default:
		j.say("other_kvbench", Fit, "", "no other kvbench runs")
	}
}

func (j *judgement) load() {
	load, cpus := j.r.State.Load1, j.r.Layout.LogicalCPUs
	if load == unknown || cpus == 0 {
		j.say("load", Unknown, "mount /proc and /sys", "no /proc/loadavg")
		return
	}
	v, limit := Fit, float64(cpus)/8
	if load > limit {
		v = Doubtful
	}
	j.say("load", v, "wait until the machine has rested for a minute", "the load average of the last minute is %.2f (limit %.2f)", load, limit)
}

func (j *judgement) steal() {
	steal, ok := j.r.State.Checked.Steal()
	if !ok {
		j.say("steal", Unknown, "mount /proc", "the kernel does not say")
		return
	}
	v := Fit
	if steal > stealDoubtful {
		v = Doubtful
	}
	text := ""
	if v == Fit && j.r.Identity.Hypervisor != "" {
		text = "; many hypervisors hide it"
	}
	j.say("steal", v, "use a machine whose CPUs are not shared with other machines",
		"the hypervisor took %.2f%% of a CPU (limit %.1f%%)%s", 100*steal, 100*stealDoubtful, text)
}

// What was not tried out, and how it is.
const (
	notTried = "not tried out"
	tryOut   = "leave --no-probe out"
)

func (j *judgement) burnIn() {
	m := &j.r.Measured
	if len(m.CPUs) == 0 {
		j.say("burn_in", Unknown, tryOut, notTried)
		return
	}
	worst := slices.MaxFunc(m.CPUs, func(a, b CPUProbe) int { return cmpFloat(a.Spread, b.Spread) })
	v := Fit
	if worst.Spread > spreadUnfit {
		v = Unfit
	}
	slow, fast := int64(0), int64(0)
	for i, p := range m.CPUs {
		t := median(p.LoopNS)
		if i == 0 || t < fast {
			fast = t
		}
		slow = max(slow, t)
	}
	between := ""
	if len(m.CPUs) > 1 && fast > 0 {
		between = fmt.Sprintf("; the slowest CPU took %.2f x the fastest", float64(slow)/float64(fast))
	}
	j.say("burn_in", v, "end what else runs, fix the frequency, and look at the other findings",
		"equal pieces of work differed by %.1f%% on CPU %d, the worst of %d (limit %.0f%%)%s", 100*worst.Spread, worst.CPU, len(m.CPUs), 100*spreadUnfit, between)
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (j *judgement) stalls() {
	m := &j.r.Measured
	if len(m.CPUs) == 0 {
		j.say("stalls", Unknown, tryOut, notTried)
		return
	}
	worst := slices.MaxFunc(m.CPUs, func(a, b CPUProbe) int { return cmpFloat(a.StallShare(), b.StallShare()) })
	j.say("stalls", graded(worst.StallShare(), stallDoubtful, stallUnfit), "end what else runs; keep interrupts away (irqbalance, isolcpus, nohz_full)",
		"a spinning thread lost %.2f%% of its time on CPU %d, the worst of %d, in %s, the longest %v (limits %.0f%%, %.0f%%)",
		100*worst.StallShare(), worst.CPU, len(m.CPUs), plural(worst.Stalls, "stall"), round(worst.LongestStallNS), 100*stallDoubtful, 100*stallUnfit)
}

// round returns ns as a duration with about three digits.
func round(ns int64) time.Duration {
	d := time.Duration(ns)
	for unit := time.Second; unit >= 10; unit /= 10 {
		if d >= 10*unit {
			return d.Round(unit / 10)
		}
	}
	return d
}

func (j *judgement) timer() {
	t := j.r.Measured.TimerLateNS
	if t.N == 0 {
		j.say("timer", Unknown, tryOut, notTried)
		return
	}
	v := Fit
	if t.P50 > int64(timerLimit) {
		v = Doubtful
	}
	j.say("timer", v, fmt.Sprintf("give issuers a longer --issuer-spin, such as %v", time.Duration(2*t.P90).Round(10*time.Microsecond)),
		"a sleep ended late by %v at the median, p99 %v (limit for the median %v)", round(t.P50), round(t.P99), timerLimit)
}

func (j *judgement) clockRead() {
	ns := j.r.Measured.ClockReadNS
	if ns == 0 {
		j.say("clock_read", Unknown, tryOut, notTried)
		return
	}
	v := Fit
	if ns > float64(clockReadLimit) {
		v = Doubtful
	}
	j.say("clock_read", v, "use a clock source that programs read without the kernel, tsc or kvm-clock",
		"one stamp costs %.0f ns (limit %d ns)", ns, clockReadLimit.Nanoseconds())
}

func (j *judgement) clockSource() {
	switch s := j.r.Settings.ClockSource; s {
	case "":
		j.say("clock_source", Unknown, "mount /sys", "the kernel does not say")
	case "tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "tb", "timebase", "tod", "riscv_clocksource", "arch_counter":
		j.say("clock_source", Fit, "", "%s", s)
	default:
		j.say("clock_source", Doubtful, "boot with tsc=reliable, or choose tsc in /sys/devices/system/clocksource/clocksource0/current_clocksource",
			"%s, which programs cannot read without the kernel", s)
	}
}

func (j *judgement) quota() {
	quota := j.r.Settings.CPUQuota
	cpus, ok := quotaShare(quota)
	const remedy = "run without a CPU limit (docker: no --cpus; kubernetes: whole CPUs with the static CPU manager)"
	switch {
	case quota == "":
		j.say("cpu_quota", Unknown, "mount /sys/fs/cgroup", "the cgroup does not say")
	case !ok:
		j.say("cpu_quota", Fit, "", "none")
	case cpus < leastCores:
		j.say("cpu_quota", Unfit, remedy, "%.3g CPUs; threads that spin use it up and are then stopped together", cpus)
	default:
		j.say("cpu_quota", Doubtful, remedy, "%.3g CPUs; threads that use it up are stopped together", cpus)
	}
}

func (j *judgement) throttling() {
	n := j.r.State.Checked.ThrottledPeriods
	switch {
	case n == unknown && j.r.Settings.CPUQuota == "max":
		j.say("throttling", Fit, "", "no quota, so none")
	case n == unknown:
		j.say("throttling", Unknown, "mount /sys/fs/cgroup", "the cgroup does not say")
	case n > 0:
		j.say("throttling", Unfit, "raise the CPU limit or lower the number of threads",
			"the CPU quota stopped this cgroup in %s", plural(int(n), "period"))
	default:
		j.say("throttling", Fit, "", "none")
	}
}

func (j *judgement) thermal() {
	switch n := j.r.State.Checked.ThermalThrottles; {
	case n == unknown:
		j.say("thermal", Unknown, "watch the heat where it can be seen, on the host of the virtual machine", "the CPUs do not say (most virtual machines and AMD)")
	case n > 0:
		j.say("thermal", Unfit, "let it cool down, improve the cooling, turn turbo off", "cores were slowed for their heat %s", plural(int(n), "time"))
	default:
		j.say("thermal", Fit, "", "no core was slowed for its heat")
	}
}

func (j *judgement) swap() {
	c := &j.r.State.Checked
	in, out := c.SwapInPages, c.SwapOutPages
	switch {
	case in == unknown || out == unknown:
		j.say("swap", Unknown, "mount /proc", "no /proc/vmstat")
	case in+out > 0:
		j.say("swap", Unfit, "free memory, or turn swap off (swapoff -a)", "%d pages came in and %d went out", in, out)
	default:
		j.say("swap", Fit, "", "no page moved; %s", swapText(j.r.Settings.SwapBytes))
	}
}

func swapText(bytes int64) string {
	switch {
	case bytes == unknown:
		return "its size is unknown"
	case bytes == 0:
		return "there is none"
	}
	return fmt.Sprintf("there are %.1f GiB of it", float64(bytes)/(1<<30))
}

func (j *judgement) memoryPressure() {
	c := &j.r.State.Checked
	share, ok := c.share(c.MemoryPressureUS)
	if !ok {
		j.say("memory_pressure", Unknown, "use a kernel with CONFIG_PSI=y, booted with psi=1", "no /proc/pressure/memory")
		return
	}
	j.say("memory_pressure", graded(share, pressureDoubtful, pressureUnfit), "free memory", "for %.1f%% of the time threads waited for memory", 100*share)
}

func (j *judgement) governor() {
	s := &j.r.Settings
	switch {
	case len(s.Governors) == 0:
		j.say("governor", Unknown, "set it on the host of the virtual machine; else rely on burn_in", "no cpufreq (most virtual machines)")
	case len(s.Governors) == 1 && s.Governors[0] == "performance":
		j.say("governor", Fit, "", "performance (%s)", s.Driver)
	default:
		j.say("governor", Doubtful, "cpupower frequency-set -g performance", "%s (%s)", strings.Join(s.Governors, ", "), s.Driver)
	}
}

func (j *judgement) turbo() {
	switch j.r.Settings.Turbo {
	case "":
		j.say("turbo", Unknown, "turn it off on the host of the virtual machine; else rely on burn_in", "no such switch (most virtual machines)")
	case "off":
		j.say("turbo", Fit, "", "off")
	default:
		j.say("turbo", Doubtful, "write 1 to /sys/devices/system/cpu/intel_pstate/no_turbo, or 0 to /sys/devices/system/cpu/cpufreq/boost",
			"on: the frequency depends on heat and on how many cores are busy")
	}
}

func (j *judgement) frequency() {
	s := &j.r.State
	if len(s.FrequencyMHz) == 0 || len(s.FrequencyMHz) != len(s.FrequencyAfterMHz) {
		j.say("frequency", Unknown, "fix it on the host of the virtual machine; else rely on burn_in", "no cpufreq (most virtual machines)")
		return
	}
	worst := 0.0
	for i, f := range s.FrequencyMHz {
		worst = max(worst, abs(s.FrequencyAfterMHz[i]-f)/f)
	}
	v := Fit
	if worst > frequencyMoves {
		v = Doubtful
	}
	j.say("frequency", v, "fix it: cpupower frequency-set -g performance, turbo off",
		"%.0f to %.0f MHz; it changed by up to %.0f%% during the check (limit %.0f%%)",
		slices.Min(s.FrequencyAfterMHz), slices.Max(s.FrequencyAfterMHz), 100*worst, 100*frequencyMoves)
}

func abs(v float64) float64 { return max(v, -v) }

// sysSeen says whether /sys was there to be read.
func (j *judgement) sysSeen() bool { return j.r.Layout.LogicalCPUs > 0 }

func (j *judgement) power() {
	switch j.r.Settings.Power {
	case "":
		if !j.sysSeen() {
			j.say("power", Unknown, "mount /sys", "the kernel does not say")
			return
		}
		j.say("power", Fit, "", "no battery in use")
	case "battery":
		j.say("power", Doubtful, "plug it in", "on battery, which slows CPUs")
	default:
		j.say("power", Fit, "", "%s", j.r.Settings.Power)
	}
}

// hugePages is recorded and never in the way: either choice is fair if it is the
// same for both sides.
func (j *judgement) hugePages() {
	s := &j.r.Settings
	if s.THP == "" {
		j.say("huge_pages", Unknown, "mount /sys", "the kernel does not say")
		return
	}
	j.say("huge_pages", Fit, "", "transparent: %s, defrag %s", s.THP, orUnknown(s.THPDefrag))
}

func (j *judgement) aslr() {
	switch a := j.r.Settings.ASLR; a {
	case "":
		j.say("aslr", Unknown, "mount /proc", "the kernel does not say")
	case "2":
		j.say("aslr", Fit, "", "on: each process gets a layout of its own, which many rounds average")
	default:
		j.say("aslr", Doubtful, "sysctl kernel.randomize_va_space=2: one layout may favour one variant in every round", "not fully on (%s)", a)
	}
}

func (j *judgement) isolation() {
	s := &j.r.Settings
	if s.Isolated == "" && s.NoHzFull == "" && !j.sysSeen() {
		j.say("isolation", Unknown, "mount /sys", "the kernel does not say")
		return
	}
	if s.Isolated == "" && s.NoHzFull == "" {
		j.say("isolation", Fit, "", "no CPU is kept free by the kernel (isolcpus, nohz_full); not needed, it helps")
		return
	}
	j.say("isolation", Fit, "", "isolcpus %s, nohz_full %s", orNone(s.Isolated), orNone(s.NoHzFull))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// vendor is what is known of a hypervisor.
func vendor(h string) string {
	if h == "yes" {
		return ""
	}
	return " (" + h + ")"
}

func (j *judgement) hypervisor() {
	if h := j.r.Identity.Hypervisor; h != "" {
		j.say("hypervisor", Doubtful, "measure on a machine of its own; else repeat on several instances", "a virtual machine%s: its neighbours may take CPU and caches unseen", vendor(h))
		return
	}
	if j.r.Identity.CPUModel == "" && j.r.Identity.MemoryBytes == 0 {
		j.say("hypervisor", Unknown, "mount /proc", "the kernel does not say")
		return
	}
	j.say("hypervisor", Fit, "", "none seen")
}
