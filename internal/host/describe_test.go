package host

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/kvbench/kvbench/results"
)

// tree makes a file system of path and content.
func tree(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestDescribe(t *testing.T) {
	got := describe(tree(map[string]string{
		"proc/sys/kernel/osrelease":                  "6.1.0-9-amd64\n",
		"proc/cpuinfo":                               "processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nflags\t\t: fpu vme hypervisor\n\nprocessor\t: 1\nmodel name\t: Other\n",
		"proc/meminfo":                               "MemFree:  5 kB\nMemTotal:       24576 kB\nMemTotal: 1 kB\n",
		"proc/self/cgroup":                           "0::/a.slice/b.scope\n",
		"sys/fs/cgroup/a.slice/cpu.max":              "150000 100000\n",
		"sys/fs/cgroup/a.slice/b.scope/cpu.max":      "max 100000\n",
		"sys/class/dmi/id/sys_vendor":                "QEMU\n",
		"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
		"sys/devices/system/cpu/online":                                   "0-3\n",
		"sys/devices/system/cpu/cpu0/topology/core_id":                    "0\n",
		"sys/devices/system/cpu/cpu1/topology/core_id":                    "1\n",
		"sys/devices/system/cpu/cpu2/topology/core_id":                    "0\n",
		"sys/devices/system/cpu/cpu3/topology/core_id":                    "1\n",
		"sys/devices/system/cpu/cpu0/topology/core_cpus_list":             "0,2\n",
		"sys/devices/system/cpu/cpu1/topology/core_cpus_list":             "1,3\n",
		"sys/devices/system/cpu/cpu2/topology/core_cpus_list":             "0,2\n",
		"sys/devices/system/cpu/cpu3/topology/core_cpus_list":             "1,3\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            "powersave\n",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":            "performance\n",
	}), []int{1, 2, 3})
	want := results.Host{
		OS: "linux", Arch: got.Arch, Kernel: "6.1.0-9-amd64", CPUModel: "Fast CPU @ 3 GHz", LogicalCPUs: 4, AllowedCPUs: "1-3",
		PhysicalCores: 2, Virtualized: "QEMU", MemoryBytes: 24 << 20, Governor: "performance", CPUQuota: "150000 100000",
		THP: "madvise", ClockSource: "tsc",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// Nothing readable: nothing is claimed.
	if d := cmp.Diff(results.Host{OS: "linux", Arch: got.Arch}, describe(tree(nil), nil)); d != "" {
		t.Error(d)
	}
}

func TestDescribeForReal(t *testing.T) {
	h := Describe()
	online, err := OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if h.Kernel == "" || h.LogicalCPUs != len(online) || h.AllowedCPUs == "" || h.MemoryBytes < 1<<20 || h.PhysicalCores > h.LogicalCPUs {
		t.Errorf("%+v", h)
	}
	t.Logf("%+v", h)
}

func TestVirtualized(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"metal":          {map[string]string{"proc/cpuinfo": "flags : fpu vme\n", "sys/class/dmi/id/sys_vendor": "Dell Inc.\n"}, ""},
		"unknown vendor": {map[string]string{"proc/cpuinfo": "flags : fpu hypervisor vme\n"}, "yes"},
		"not the word":   {map[string]string{"proc/cpuinfo": "flags : hypervisor_x\n"}, ""},
		"not a flag":     {map[string]string{"proc/cpuinfo": "bugs : hypervisor\n"}, ""},
		"xen":            {map[string]string{"sys/hypervisor/type": "xen\n"}, "xen"},
		"silent":         {nil, ""},
	} {
		if got := virtualized(tree(tc.files)); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestCPUQuota(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no cgroup":              {nil, ""},
		"root of v2 has no file": {map[string]string{"proc/self/cgroup": "0::/\n"}, ""},
		"namespace root":         {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, "50000 100000"},
		"no limit":               {map[string]string{"proc/self/cgroup": "0::/x\n", "sys/fs/cgroup/x/cpu.max": "max 100000\n"}, "max"},
		"the tightest holds": {map[string]string{"proc/self/cgroup": "0::/x/y\n", "sys/fs/cgroup/x/cpu.max": "100000 100000\n",
			"sys/fs/cgroup/x/y/cpu.max": "400000 200000\n"}, "100000 100000"},
		"first version": {map[string]string{"proc/self/cgroup": "4:cpuset:/s\n3:cpuacct,cpu:/box\n",
			"sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "150000\n", "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, "150000 100000"},
		"first version without limit": {map[string]string{"proc/self/cgroup": "1:cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, "max"},
		"outside the namespace": {map[string]string{"proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/cpu.max": "1 2\n"}, "1 2"},
		"nonsense":              {map[string]string{"proc/self/cgroup": "?\n0::/x\n", "sys/fs/cgroup/x/cpu.max": "many\n"}, ""},
	} {
		if got := cpuQuota(tree(tc.files)); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestChosen(t *testing.T) {
	for text, want := range map[string]string{"always [madvise] never": "madvise", "[always] madvise never": "always", "always": "", "": "", "[never": ""} {
		if got := chosen(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
