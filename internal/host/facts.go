package host

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Identity is what makes a machine the same machine, for measurements: what
// differs here makes figures incomparable. Unknown facts are empty or 0.
type Identity struct {
	// Machine is a digest of the machine's id, which is not given away; "" where
	// there is none, as in most containers.
	Machine       string `json:"machine"`
	Arch          string `json:"arch"`
	CPUModel      string `json:"cpu_model"`
	Microcode     string `json:"microcode"`
	Kernel        string `json:"kernel"`
	Hypervisor    string `json:"hypervisor"`
	LogicalCPUs   int    `json:"logical_cpus"` // online
	PhysicalCores int    `json:"physical_cores"`
	Sockets       int    `json:"sockets"`
	Nodes         int    `json:"numa_nodes"`
	MemoryBytes   int64  `json:"memory_bytes"`
	AllowedCPUs   string `json:"allowed_cpus"` // CPU list that this process may use
	CPUQuota      string `json:"cpu_quota"`    // as in Settings
}

// Fingerprint is a short digest of the identity.
func (i Identity) Fingerprint() string {
	b, err := json.Marshal(i)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

func identityOf(root fs.FS, r *Report) Identity {
	d := describe(root, nil)
	l := &r.Layout
	return Identity{
		Machine:       machineID(root),
		Arch:          runtime.GOARCH,
		CPUModel:      d.CPUModel,
		Microcode:     cpuinfoField(file(root, "proc/cpuinfo"), "microcode"),
		Kernel:        d.Kernel,
		Hypervisor:    d.Virtualized,
		LogicalCPUs:   l.LogicalCPUs,
		PhysicalCores: l.PhysicalCores,
		Sockets:       l.Sockets,
		Nodes:         len(l.Nodes),
		MemoryBytes:   d.MemoryBytes,
		AllowedCPUs:   l.AllowedCPUs,
		CPUQuota:      r.Settings.CPUQuota,
	}
}

// machineID returns a digest of the machine's id: the id itself should not leave
// the machine.
func machineID(root fs.FS) string {
	id := line(root, "etc/machine-id")
	if id == "" || id == "uninitialized" {
		return ""
	}
	sum := sha256.Sum256([]byte("kvbench host " + id))
	return hex.EncodeToString(sum[:8])
}

func cpuinfoField(cpuinfo, name string) string {
	for text := range strings.Lines(cpuinfo) {
		if key, value, _ := strings.Cut(text, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Layout is how the machine is built.
type Layout struct {
	LogicalCPUs   int    `json:"logical_cpus"`    // online; 0: unknown
	PhysicalCores int    `json:"physical_cores"`  // 0: the kernel does not say
	Sockets       int    `json:"sockets"`         // 0: the kernel does not say
	SMT           string `json:"smt"`             // on, off, notsupported …; "": unknown
	AllowedCPUs   string `json:"allowed_cpus"`    // CPU list that this process may use
	AllowedCores  int    `json:"allowed_cores"`   // physical cores of these; 0: unknown
	CpusetCPUs    string `json:"cgroup_cpu_list"` // CPU list that the cgroup may use; "": it does not say
	MemoryNodes   string `json:"memory_nodes"`    // list of the nodes whose memory the process may use; "": the kernel does not say
	// Why cores are unknown; "" if they are known.
	Problem string    `json:"problem,omitempty"`
	CPUs    []CPUInfo `json:"cpus"`       // online, ascending
	Caches  []Cache   `json:"caches"`     // of the online CPUs, by level
	Nodes   []Node    `json:"numa_nodes"` // ascending
}

// CPUInfo is one logical CPU.
type CPUInfo struct {
	CPU      int    `json:"cpu"`
	Core     int    `json:"core"`     // number within its socket
	Socket   int    `json:"socket"`   // -1: unknown
	Node     int    `json:"node"`     // NUMA node; -1: unknown
	Siblings string `json:"siblings"` // CPU list of its core
	Allowed  bool   `json:"allowed"`
}

// Cache is one cache of the machine.
type Cache struct {
	Level  int    `json:"level"`
	Type   string `json:"type"`  // Data, Instruction or Unified
	Bytes  int64  `json:"bytes"` // 0: unknown
	Shared string `json:"cpus"`  // CPU list that it serves
}

// Node is one NUMA node.
type Node struct {
	Node        int    `json:"node"`
	CPUs        string `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes"` // 0: none or unknown
}

// cpus returns the topology, nil if it is unknown.
func (l *Layout) cpus() []CPU {
	if l.Problem != "" {
		return nil
	}
	out := make([]CPU, 0, len(l.CPUs))
	for _, c := range l.CPUs {
		siblings, err := ParseCPUs(c.Siblings)
		if err != nil {
			return nil // not from readLayout
		}
		out = append(out, CPU{Number: c.CPU, Core: c.Core, Package: c.Socket, Siblings: siblings})
	}
	return out
}

func readLayout(root fs.FS, allowed []int) Layout {
	l := Layout{
		SMT:         line(root, sysCPU+"smt/control"),
		AllowedCPUs: FormatCPUs(allowed),
		CpusetCPUs:  cpuset(root),
		MemoryNodes: memoryNodes(root),
		CPUs:        []CPUInfo{},
		Caches:      []Cache{},
		Nodes:       readNodes(root),
	}
	online, err := ParseCPUs(line(root, sysCPU+"online"))
	if err == nil {
		l.LogicalCPUs = len(online)
	}
	cpus, err := topology(root)
	if err != nil {
		l.Problem = err.Error()
		return l
	}
	nodeOf := map[int]int{}
	for _, n := range l.Nodes {
		list, err := ParseCPUs(n.CPUs)
		if err != nil {
			continue // a node without CPUs
		}
		for _, c := range list {
			nodeOf[c] = n.Node
		}
	}
	l.PhysicalCores = physicalCores(cpus)
	sockets := map[int]bool{}
	var mine []CPU
	for _, c := range cpus {
		if c.Package != unknown {
			sockets[c.Package] = true
		}
		info := CPUInfo{CPU: c.Number, Core: c.Core, Socket: c.Package, Node: unknown,
			Siblings: FormatCPUs(c.Siblings), Allowed: slices.Contains(allowed, c.Number)}
		if n, ok := nodeOf[c.Number]; ok {
			info.Node = n
		}
		if info.Allowed {
			mine = append(mine, c)
		}
		l.CPUs = append(l.CPUs, info)
	}
	l.Sockets, l.AllowedCores = len(sockets), physicalCores(mine)
	l.Caches = readCaches(root, cpus)
	return l
}

// cpuset returns the CPUs that the innermost cgroup with a list may use.
func cpuset(root fs.FS) string {
	for text := range strings.Lines(file(root, "proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(text), ":", 3)
		if len(f) != 3 {
			continue
		}
		var name string
		switch {
		case f[0] == "0" && f[1] == "":
			name = path.Join("sys/fs/cgroup", f[2], "cpuset.cpus.effective")
		case hasController(f[1], "cpuset"):
			name = path.Join("sys/fs/cgroup/cpuset", f[2], "cpuset.effective_cpus")
		default:
			continue
		}
		if list := line(root, name); list != "" {
			return list
		}
	}
	return ""
}

// memoryNodes returns the memory nodes that the process may use, which is what cgroups
// and cpusets of either version come to.
func memoryNodes(root fs.FS) string {
	for l := range strings.Lines(file(root, "proc/self/status")) {
		if list, ok := strings.CutPrefix(l, "Mems_allowed_list:"); ok {
			return strings.TrimSpace(list)
		}
	}
	return ""
}

func readNodes(root fs.FS) []Node {
	const dir = "sys/devices/system/node/"
	out := []Node{}
	names, err := fs.Glob(root, dir+"node[0-9]*")
	if err != nil {
		return out
	}
	for _, name := range names {
		number, err := strconv.Atoi(strings.TrimPrefix(path.Base(name), "node"))
		if err != nil {
			continue
		}
		n := Node{Node: number, CPUs: line(root, name+"/cpulist")}
		for text := range strings.Lines(file(root, name+"/meminfo")) {
			if f := strings.Fields(text); len(f) == 5 && f[2] == "MemTotal:" && f[4] == "kB" {
				n.MemoryBytes = max(0, parseCount(f[3], 1024))
			}
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

func readCaches(root fs.FS, cpus []CPU) []Cache {
	out := []Cache{}
	seen := map[Cache]bool{}
	for _, c := range cpus {
		names, err := fs.Glob(root, sysCPU+"cpu"+strconv.Itoa(c.Number)+"/cache/index[0-9]*")
		if err != nil {
			continue
		}
		for _, name := range names {
			level, err := strconv.Atoi(line(root, name+"/level"))
			if err != nil {
				continue
			}
			cache := Cache{Level: level, Type: line(root, name+"/type"),
				Bytes: parseSize(line(root, name+"/size")), Shared: line(root, name+"/shared_cpu_list")}
			if !seen[cache] {
				seen[cache] = true
				out = append(out, cache)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Cache) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Type, b.Type))
	})
	return out
}

// parseSize reads a size such as "1024K", 0 if it is none.
func parseSize(s string) int64 {
	unit := int64(1)
	for suffix, n := range map[string]int64{"K": 1 << 10, "M": 1 << 20, "G": 1 << 30} {
		if t, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = t, n
			break
		}
	}
	return max(0, parseCount(s, unit))
}

// Settings are what an administrator may change. "" stands for unknown.
type Settings struct {
	Governors   []string `json:"governors"`              // of the allowed CPUs, each once, sorted; empty: unknown
	Driver      string   `json:"frequency_driver"`       // of the first allowed CPU
	Turbo       string   `json:"turbo"`                  // on or off
	MinMHz      float64  `json:"min_mhz"`                // lowest that an allowed CPU may go to; 0: unknown
	MaxMHz      float64  `json:"max_mhz"`                // highest that an allowed CPU may go to; 0: unknown
	THP         string   `json:"transparent_huge_pages"` // always, madvise or never
	THPDefrag   string   `json:"transparent_huge_pages_defrag"`
	CPUQuota    string   `json:"cpu_quota"`    // tightest of the cgroup and its ancestors, "quota period" in µs; max: none
	ClockSource string   `json:"clock_source"` // that the kernel uses
	ASLR        string   `json:"aslr"`         // kernel.randomize_va_space: 0, 1 or 2
	Isolated    string   `json:"isolated_cpus"`
	NoHzFull    string   `json:"nohz_full_cpus"`
	Power       string   `json:"power"`      // mains or battery
	SwapBytes   int64    `json:"swap_bytes"` // swap space there is; -1: unknown
}

func readSettings(root fs.FS, allowed []int) Settings {
	d := describe(root, allowed)
	s := Settings{
		Governors:   []string{},
		THP:         d.THP,
		THPDefrag:   chosen(line(root, "sys/kernel/mm/transparent_hugepage/defrag")),
		CPUQuota:    d.CPUQuota,
		ClockSource: d.ClockSource,
		Turbo:       turbo(root),
		ASLR:        line(root, "proc/sys/kernel/randomize_va_space"),
		Isolated:    cpuListOr(root, sysCPU+"isolated"),
		NoHzFull:    cpuListOr(root, sysCPU+"nohz_full"),
		Power:       power(root),
		SwapBytes:   swapBytes(file(root, "proc/meminfo")),
	}
	for _, cpu := range allowed {
		dir := sysCPU + "cpu" + strconv.Itoa(cpu) + "/cpufreq/"
		if g := line(root, dir+"scaling_governor"); g != "" && !slices.Contains(s.Governors, g) {
			s.Governors = append(s.Governors, g)
		}
		if s.Driver == "" {
			s.Driver = line(root, dir+"scaling_driver")
		}
		if low := mhz(root, dir+"scaling_min_freq"); low > 0 && (s.MinMHz == 0 || low < s.MinMHz) {
			s.MinMHz = low
		}
		s.MaxMHz = max(s.MaxMHz, mhz(root, dir+"scaling_max_freq"))
	}
	slices.Sort(s.Governors)
	return s
}

// cpuListOr returns a CPU list, "" if there is none. Kernels write "(null)" for
// no CPUs.
func cpuListOr(root fs.FS, name string) string {
	text := line(root, name)
	if _, err := ParseCPUs(text); err != nil {
		return ""
	}
	return text
}

// mhz reads a frequency in kHz; 0 if there is none.
func mhz(root fs.FS, name string) float64 {
	return float64(max(0, parseCount(line(root, name), 1))) / 1e3
}

func turbo(root fs.FS) string {
	switch line(root, sysCPU+"intel_pstate/no_turbo") {
	case "0":
		return "on"
	case "1":
		return "off"
	}
	switch line(root, sysCPU+"cpufreq/boost") {
	case "1":
		return "on"
	case "0":
		return "off"
	}
	return ""
}

// power says where the machine's power comes from.
func power(root fs.FS) string {
	names, err := fs.Glob(root, "sys/class/power_supply/*")
	if err != nil {
		return ""
	}
	found := ""
	for _, name := range names {
		switch line(root, name+"/type") {
		case "Mains", "USB":
			if line(root, name+"/online") == "1" {
				return "mains"
			}
		case "Battery":
			if line(root, name+"/status") == "Discharging" {
				found = "battery"
			}
		}
	}
	return found
}

func swapBytes(meminfo string) int64 {
	for text := range strings.Lines(meminfo) {
		if f := strings.Fields(text); len(f) == 3 && f[0] == "SwapTotal:" && f[2] == "kB" {
			return parseCount(f[1], 1024)
		}
	}
	return unknown
}

// State is what the machine was doing.
type State struct {
	Load1    float64 `json:"load_1m"`  // load average; -1: unknown
	Load5    float64 `json:"load_5m"`  // load average; -1: unknown
	Load15   float64 `json:"load_15m"` // load average; -1: unknown
	Runnable int64   `json:"runnable"` // threads that ran or could have, this one among them; median of several looks; -1: unknown
	// Others are living processes called kvbench, this one not among them.
	Others int `json:"other_kvbench"`
	// By CPU looked at, before and after they were tried out, in MHz; empty if
	// unknown.
	FrequencyMHz      []float64 `json:"frequency_mhz"`
	FrequencyAfterMHz []float64 `json:"frequency_after_mhz"`
	// What happened while this process only watched, and during the whole check.
	Watched Counters `json:"watched"`
	Checked Counters `json:"checked"`
}

func readState(root fs.FS) State {
	s := State{Load1: unknown, Load5: unknown, Load15: unknown, Runnable: runnable(root), FrequencyMHz: []float64{}, FrequencyAfterMHz: []float64{}}
	s.Others = otherProcesses(root, "kvbench")
	if f := strings.Fields(line(root, "proc/loadavg")); len(f) >= 3 {
		for i, to := range []*float64{&s.Load1, &s.Load5, &s.Load15} {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil && v >= 0 && v < 1e9 {
				*to = v
			}
		}
	}
	return s
}

func runnable(root fs.FS) int64 { return namedCount(file(root, "proc/stat"), "procs_running") }

// otherProcesses counts living processes of that name but this one; -1: there
// is no /proc.
func otherProcesses(root fs.FS, name string) int {
	self, _, ok := processState(line(root, "proc/self/stat"))
	names, err := fs.Glob(root, "proc/[0-9]*/stat")
	if err != nil || !ok {
		return unknown
	}
	n := 0
	for _, path := range names {
		text := line(root, path)
		pid, state, ok := processState(text)
		if ok && pid != self && state != "Z" && state != "X" && strings.HasPrefix(text, pid+" ("+name+") ") {
			n++
		}
	}
	return n
}

// processState reads the start of /proc/.../stat. The name in parentheses may hold
// anything.
func processState(stat string) (pid, state string, ok bool) {
	pid, rest, _ := strings.Cut(stat, " ")
	i := strings.LastIndexByte(rest, ')')
	if i < 0 {
		return "", "", false
	}
	f := strings.Fields(rest[i+1:])
	if pid == "" || len(f) == 0 {
		return "", "", false
	}
	return pid, f[0], true
}

// frequencies returns those of the CPUs, empty if one of them is unknown.
func frequencies(root fs.FS, cpus []int) []float64 {
	out := make([]float64, 0, len(cpus))
	for _, cpu := range cpus {
		f := mhz(root, sysCPU+"cpu"+strconv.Itoa(cpu)+"/cpufreq/scaling_cur_freq")
		if f == 0 {
			return []float64{}
		}
		out = append(out, f)
	}
	return out
}

// median is the lower one of two middle values.
func median(v []int64) int64 {
	s := slices.Sorted(slices.Values(v))
	return s[(len(s)-1)/2]
}
