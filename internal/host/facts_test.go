package host

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/kvbench/kvbench/internal/text"
)

func TestParsePressure(t *testing.T) {
	for text, want := range map[string]int64{
		"some avg10=2.42 avg60=6.45 avg300=2.32 total=10361722\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n": 10361722,
		"full avg10=0.00 total=7\nsome total=9\n": 9,
		"some avg10=0.00":                         unknown,
		"some total=-1":                           unknown,
		"some total=x":                            unknown,
		"":                                        unknown,
	} {
		if got := parsePressure(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"32K": 32 << 10, "1024K": 1 << 20, "16M": 16 << 20, "1G": 1 << 30, "512": 512, "": 0, "K": 0, "-1K": 0, "x": 0, "99999999999999999G": 0} {
		if got := parseSize(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestMachineID(t *testing.T) {
	id := func(text string) string { return machineID(tree(map[string]string{"etc/machine-id": text})) }
	a, b := id("0123456789abcdef0123456789abcdef\n"), id("0123456789abcdef0123456789abcdee\n")
	if a == b || len(a) != 16 || strings.Contains("0123456789abcdef0123456789abcdef", a) {
		t.Errorf("%q, %q", a, b)
	}
	if id("") != "" || id("uninitialized\n") != "" || machineID(tree(nil)) != "" {
		t.Error("no id gives a digest")
	}
}

func TestTurbo(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"":    {},
		"on":  {sysCPU + "intel_pstate/no_turbo": "0\n"},
		"off": {sysCPU + "intel_pstate/no_turbo": "1\n", sysCPU + "cpufreq/boost": "1\n"},
	} {
		if got := turbo(tree(files)); got != want {
			t.Errorf("%v: %q, want %q", files, got, want)
		}
	}
}

func TestCgroupsOfBothVersions(t *testing.T) {
	root := tree(map[string]string{
		"proc/self/cgroup":                                   "4:cpu,cpuacct:/a/b\n1:name=systemd:/x\n0::/c\n",
		"sys/fs/cgroup/cpu/a/b/cpu.stat":                     "nr_throttled 2\nthrottled_time 5000000\n",
		"sys/fs/cgroup/cpu/a/cpu.stat":                       "nr_throttled 1\nthrottled_time 1000\n",
		"sys/fs/cgroup/c/cpu.stat":                           "nr_throttled 10\nthrottled_usec 7\n",
		"sys/fs/cgroup/c/cpu.pressure":                       "some total=11\n",
		"sys/fs/cgroup/cpu.pressure":                         "some total=99\n",
		"sys/fs/cgroup/c/cpuset.cpus.effective":              "0-3\n",
		sysCPU + "cpu0/thermal_throttle/core_throttle_count": "3\n",
		sysCPU + "cpu1/thermal_throttle/core_throttle_count": "4\n",
	})
	c := readCounters(root, time.Unix(1, 0))
	if c.ThrottledPeriods != 13 || c.ThrottledUS != 5008 || c.CgroupCPUPressureUS != 11 || c.ThermalThrottles != 7 || cpuset(root) != "0-3" {
		t.Errorf("%+v, cpuset %q", c, cpuset(root))
	}
}

// FuzzFiles puts any content into any file of a machine: no reading may panic,
// and the text stays narrow and printable.
func FuzzFiles(f *testing.F) {
	base := map[string]fstest.MapFS{}
	for _, name := range machines {
		base[name] = machine(f, name)
	}
	names := []string{"proc/pressure/cpu", "proc/stat", "proc/loadavg", "proc/meminfo", "proc/vmstat", "proc/cpuinfo", "proc/self/cgroup", "etc/machine-id",
		sysCPU + "online", sysCPU + "cpu0/topology/core_cpus_list", sysCPU + "cpu0/topology/core_id", sysCPU + "cpu0/cache/index3/size",
		sysCPU + "cpu0/cache/index3/shared_cpu_list", sysCPU + "cpu0/cpufreq/scaling_cur_freq", sysCPU + "isolated",
		"sys/devices/system/node/node0/cpulist", "sys/devices/system/node/node0/meminfo", "sys/fs/cgroup/cpu.max", "sys/fs/cgroup/cpu.stat",
		"sys/fs/cgroup/cpuset.cpus.effective", "sys/kernel/mm/transparent_hugepage/enabled"}
	f.Add(uint8(0), uint8(0), []byte("some avg10=0.00 total=5\n"))
	f.Add(uint8(1), uint8(6), []byte("0::/../..\n"))
	f.Add(uint8(2), uint8(8), []byte("0-8191\n"))
	f.Add(uint8(0), uint8(9), []byte("0,5\n"))
	f.Add(uint8(4), uint8(15), []byte("\x1b[2J"))
	f.Fuzz(func(t *testing.T, which, name uint8, content []byte) {
		root := fstest.MapFS{}
		for k, v := range base[machines[int(which)%len(machines)]] {
			root[k] = v
		}
		root[names[int(name)%len(names)]] = &fstest.MapFile{Data: content}
		r := check(t, root, func(o *Options) { o.Allowed = []int{0, 1, 2, 3}; o.Watch = watchStep })
		if _, err := r.Suggest(4); err != nil {
			t.Error(err)
		}
		var b bytes.Buffer
		if err := r.WriteText(&b); err != nil {
			t.Error(err)
		}
		for l := range bytes.Lines(b.Bytes()) {
			if len([]rune(string(l))) > text.Width+1 || bytes.ContainsRune(l, 0x1b) {
				t.Errorf("%q", l)
			}
		}
	})
}
