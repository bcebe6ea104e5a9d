package host

import (
	"io/fs"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/results"
)

// Describe returns the facts of this machine. What cannot be read is empty or 0.
func Describe() results.Host {
	h := describe(os.DirFS("/"))
	if cpus, err := AllowedCPUs(); err == nil {
		h.AllowedCPUs = FormatCPUs(cpus)
		if len(cpus) > 0 {
			h.Governor = line(os.DirFS("/"), "sys/devices/system/cpu/cpu"+strconv.Itoa(cpus[0])+"/cpufreq/scaling_governor")
		}
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return h
}

// describe reads what lies in files below root.
func describe(root fs.FS) results.Host {
	h := results.Host{
		OS:          runtime.GOOS,
		Arch:        runtime.GOARCH,
		CPUQuota:    line(root, "sys/fs/cgroup/cpu.max"),
		THP:         chosen(line(root, "sys/kernel/mm/transparent_hugepage/enabled")),
		ClockSource: line(root, "sys/devices/system/clocksource/clocksource0/current_clocksource"),
	}
	if online, err := ParseCPUs(line(root, "sys/devices/system/cpu/online")); err == nil {
		h.LogicalCPUs = len(online)
		h.PhysicalCores = physicalCores(root, online)
	}
	for text := range strings.Lines(file(root, "proc/cpuinfo")) {
		key, value, _ := strings.Cut(text, ":")
		switch strings.TrimSpace(key) {
		case "model name", "Processor":
			if h.CPUModel == "" {
				h.CPUModel = strings.TrimSpace(value)
			}
		case "flags":
			if h.Virtualized == "" && strings.Contains(value+" ", " hypervisor ") {
				h.Virtualized = "yes"
			}
		}
	}
	if vendor := line(root, "sys/class/dmi/id/sys_vendor"); h.Virtualized != "" && vendor != "" {
		h.Virtualized = vendor
	}
	for text := range strings.Lines(file(root, "proc/meminfo")) {
		if f := strings.Fields(text); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			if n := parseCount(f[1], 1024); n != unknown {
				h.MemoryBytes = n
			}
		}
	}
	return h
}

// physicalCores counts the different (package, core) pairs; 0 if any is unknown.
func physicalCores(root fs.FS, cpus []int) int {
	type core struct{ pkg, id string }
	seen := map[core]bool{}
	for _, cpu := range cpus {
		dir := "sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/topology/"
		c := core{line(root, dir+"physical_package_id"), line(root, dir+"core_id")}
		if c.id == "" {
			return 0
		}
		seen[c] = true
	}
	return len(seen)
}

var inBrackets = regexp.MustCompile(`\[(\w+)\]`)

// chosen returns the value in brackets of a line such as "always [madvise] never".
func chosen(s string) string {
	if m := inBrackets.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return ""
}

func line(root fs.FS, path string) string { return strings.TrimSpace(file(root, path)) }

func file(root fs.FS, path string) string {
	b, err := fs.ReadFile(root, path)
	if err != nil {
		return ""
	}
	return string(b)
}
