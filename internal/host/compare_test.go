package host

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	report := func(change func(*Report)) *Report {
		r := check(t, machine(t, "bare-metal-smt"), nil)
		r.Counters.UnixNS = 0
		if change != nil {
			r.Counters.UnixNS = int64(100 * time.Second)
			change(r)
		}
		return r
	}
	before := report(nil)
	for name, tc := range map[string]struct {
		change func(*Report)
		shared bool
		want   []Change
	}{
		"nothing": {change: func(*Report) {}},
		"kernel":  {change: func(r *Report) { r.Identity.Kernel = "6.9" }, want: []Change{{"kernel", Unfit, "6.8.0-45-generic became 6.9"}}},
		"quota":   {change: func(r *Report) { r.Identity.CPUQuota = "1 2" }, want: []Change{{"cpu_quota", Unfit, "max became 1 2"}}},
		"mask":    {change: func(r *Report) { r.Identity.AllowedCPUs = "0-7" }, want: []Change{{"allowed_cpus", Unfit, "0-15 became 0-7"}}},
		"governor": {change: func(r *Report) { r.Settings.Governors = []string{"performance"} },
			want: []Change{{"governor", Doubtful, "powersave became performance"}}},
		"unknown": {change: func(r *Report) { r.Settings.Turbo = "" }, want: []Change{{"turbo", Doubtful, "on became unknown"}}},
		"slower": {change: func(r *Report) {
			for i := range r.Measured.CPUs {
				r.Measured.CPUs[i].LoopNS = []int64{2_200_000, 9_000_000}
			}
		}, want: []Change{{"speed", Doubtful, "the same piece of work took 1.10 x as long (limit 1 ± 0.05)"}}},
		"a little slower": {change: func(r *Report) { r.Measured.CPUs[0].LoopNS = []int64{2_200_000} }},
		"not measured":    {change: func(r *Report) { r.Measured.CPUs = nil }},
		"pressure": {change: func(r *Report) { r.Counters.CPUPressureUS += 2e6 },
			want: []Change{{"cpu_pressure", Doubtful, "for 2.0% of the time threads waited for a CPU (limits 1%, 5%)"}}},
		"pressure of its own": {shared: true, change: func(r *Report) { r.Counters.CPUPressureUS += 50e6 }},
		"steal":               {change: func(r *Report) { r.Counters.StealNS += 1e9 }, want: []Change{{"steal", Doubtful, "the hypervisor took 1.00% of a CPU (limit 0.5%)"}}},
		"throttling":          {change: func(r *Report) { r.Counters.ThrottledPeriods += 2 }, want: []Change{{"throttling", Unfit, "the CPU quota stopped this cgroup in 2 periods"}}},
		"heat":                {change: func(r *Report) { r.Counters.ThermalThrottles++ }, want: []Change{{"thermal", Unfit, "cores were slowed for their heat 1 time"}}},
		"swap":                {change: func(r *Report) { r.Counters.SwapInPages += 3 }, want: []Change{{"swap", Unfit, "3 pages came in from swap and 0 went out"}}},
		"memory": {change: func(r *Report) { r.Counters.MemoryPressureUS += 10e6 },
			want: []Change{{"memory_pressure", Unfit, "for 10.0% of the time threads waited for memory"}}},
		"started anew": {change: func(r *Report) { r.Counters.BootID, r.Counters.ThermalThrottles = "x", 99 },
			want: []Change{{"boot", Doubtful, "the machine was started anew; what happened meanwhile is not known"}}},
	} {
		after := report(tc.change)
		if d := cmp.Diff(tc.want, Compare(before, after, !tc.shared)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if same := before.Identity.Fingerprint() == after.Identity.Fingerprint(); same != (before.Identity == after.Identity) {
			t.Errorf("%s: the fingerprint is that of before: %v", name, same)
		}
	}
	var b strings.Builder
	if err := WriteChanges(&b, []Change{{"swap", Unfit, "3 pages"}}); err != nil || b.String() != "unfit     swap             3 pages\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestCountersSub(t *testing.T) {
	a := Counters{UnixNS: 5, BootID: "a", CPUPressureUS: 10, StealNS: unknown, SwapInPages: 7, MajorFaults: 1}
	b := Counters{UnixNS: 9, BootID: "a", CPUPressureUS: 25, StealNS: 3, SwapInPages: 2, MajorFaults: unknown}
	d := b.Sub(a)
	if d.UnixNS != 4 || d.CPUPressureUS != 15 || d.StealNS != unknown || d.SwapInPages != unknown || d.MajorFaults != unknown || d.IOPressureUS != 0 {
		t.Errorf("%+v", d)
	}
	b.BootID = "b"
	d = b.Sub(a)
	for _, f := range d.fields() {
		if *f != unknown {
			t.Errorf("after another start: %+v", d)
		}
	}
	if _, ok := d.CPUPressure(); ok {
		t.Error("an unknown pressure is known")
	}
	if _, ok := d.Steal(); ok {
		t.Error("an unknown steal is known")
	}
	// Between two readings at one moment there is no share.
	if _, ok := a.Sub(a).CPUPressure(); ok {
		t.Error("a share of no time")
	}
	if now := ReadCounters(); now.UnixNS == 0 {
		t.Errorf("%+v", now)
	}
}
