package host

import (
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/results"
)

const sysCPU = "sys/devices/system/cpu/"

// Describe returns the facts of this machine. What cannot be read is empty or 0.
func Describe() results.Host {
	allowed, err := AllowedCPUs()
	if err != nil {
		allowed = nil // unknown, as the record says
	}
	return describe(os.DirFS("/"), allowed)
}

// describe reads what lies in files below root.
func describe(root fs.FS, allowed []int) results.Host {
	h := results.Host{
		OS:          runtime.GOOS,
		Arch:        runtime.GOARCH,
		Kernel:      line(root, "proc/sys/kernel/osrelease"),
		CPUModel:    cpuModel(file(root, "proc/cpuinfo")),
		AllowedCPUs: FormatCPUs(allowed),
		Virtualized: virtualized(root),
		MemoryBytes: memoryBytes(file(root, "proc/meminfo")),
		CPUQuota:    cpuQuota(root),
		THP:         chosen(line(root, "sys/kernel/mm/transparent_hugepage/enabled")),
		ClockSource: line(root, "sys/devices/system/clocksource/clocksource0/current_clocksource"),
	}
	if online, err := ParseCPUs(line(root, sysCPU+"online")); err == nil {
		h.LogicalCPUs = len(online)
	}
	if cpus, err := topology(root); err == nil {
		h.PhysicalCores = physicalCores(cpus)
	}
	if len(allowed) > 0 {
		h.Governor = line(root, sysCPU+"cpu"+strconv.Itoa(allowed[0])+"/cpufreq/scaling_governor")
	}
	return h
}

// cpuModel returns the model name of the first CPU in /proc/cpuinfo. Many ARM
// kernels give none.
func cpuModel(cpuinfo string) string {
	for text := range strings.Lines(cpuinfo) {
		if key, value, _ := strings.Cut(text, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// virtualized returns the vendor of the hypervisor, "yes" if there is one of
// unknown vendor, and "" if none is seen.
func virtualized(root fs.FS) string {
	if kind := line(root, "sys/hypervisor/type"); kind != "" {
		return kind
	}
	for text := range strings.Lines(file(root, "proc/cpuinfo")) {
		key, value, _ := strings.Cut(text, ":")
		if strings.TrimSpace(key) != "flags" {
			continue
		}
		for flag := range strings.FieldsSeq(value) {
			if flag == "hypervisor" {
				if vendor := line(root, "sys/class/dmi/id/sys_vendor"); vendor != "" {
					return vendor
				}
				return "yes"
			}
		}
		return ""
	}
	return ""
}

// memoryBytes returns the total of /proc/meminfo, or 0.
func memoryBytes(meminfo string) int64 {
	for text := range strings.Lines(meminfo) {
		if f := strings.Fields(text); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			return max(0, parseCount(f[1], 1024))
		}
	}
	return 0
}

// cpuQuota returns the tightest CPU quota of the cgroups that this process is in,
// as "quota period" in µs; "max" if they set none, "" if they do not say. A quota
// of any ancestor holds too.
func cpuQuota(root fs.FS) string {
	tightest, share := "", 0.0
	for _, g := range cpuCgroups(root) {
		quota := line(root, path.Join(g.dir, "cpu.max"))
		if !g.v2 {
			quota = quotaV1(root, g.dir)
		}
		if s, ok := quotaShare(quota); ok && (share == 0 || s < share) {
			tightest, share = quota, s
		} else if tightest == "" && strings.HasPrefix(quota, "max") {
			tightest = "max"
		}
	}
	return tightest
}

// cgroup is the folder of a cgroup with the controller cpu.
type cgroup struct {
	dir string
	v2  bool
}

// cpuCgroups returns the cgroups that this process is in with all their
// ancestors, from the inside outwards.
func cpuCgroups(root fs.FS) []cgroup {
	var out []cgroup
	for text := range strings.Lines(file(root, "proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(text), ":", 3)
		if len(f) != 3 {
			continue
		}
		mount, v2 := "sys/fs/cgroup", true
		switch {
		case f[0] == "0" && f[1] == "":
		case hasController(f[1], "cpu"):
			mount, v2 = "sys/fs/cgroup/cpu", false
		default:
			continue
		}
		for dir := path.Clean("/" + f[2]); ; dir = path.Dir(dir) {
			out = append(out, cgroup{dir: path.Join(mount, dir), v2: v2})
			if dir == "/" {
				break
			}
		}
	}
	return out
}

func hasController(list, name string) bool {
	for c := range strings.SplitSeq(list, ",") {
		if c == name {
			return true
		}
	}
	return false
}

// quotaV1 writes the quota of a first-version cgroup as the second version does.
func quotaV1(root fs.FS, dir string) string {
	quota, period := line(root, path.Join(dir, "cpu.cfs_quota_us")), line(root, path.Join(dir, "cpu.cfs_period_us"))
	switch {
	case quota == "" || period == "":
		return ""
	case quota == "-1":
		return "max " + period
	}
	return quota + " " + period
}

// quotaShare returns how many CPUs a quota is worth; false for none.
func quotaShare(quota string) (float64, bool) {
	f := strings.Fields(quota)
	if len(f) != 2 {
		return 0, false
	}
	q, p := parseCount(f[0], 1), parseCount(f[1], 1)
	if q <= 0 || p <= 0 {
		return 0, false
	}
	return float64(q) / float64(p), true
}

// chosen returns the value in brackets of a line such as "always [madvise] never".
func chosen(s string) string {
	_, s, _ = strings.Cut(s, "[")
	value, _, ok := strings.Cut(s, "]")
	if !ok {
		return ""
	}
	return value
}

func line(root fs.FS, path string) string { return strings.TrimSpace(file(root, path)) }

// file returns the content of a file, "" if there is none.
func file(root fs.FS, path string) string {
	b, err := fs.ReadFile(root, path)
	if err != nil {
		return ""
	}
	return string(b)
}
