package host

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTopology(t *testing.T) {
	const dir = "sys/devices/system/cpu/"
	// Two packages of one core each; core ids repeat; CPU 4 is offline; the first
	// package speaks as old kernels do.
	files := map[string]string{
		dir + "online":                             "0-3\n",
		dir + "cpu0/topology/core_id":              "0\n",
		dir + "cpu0/topology/physical_package_id":  "0\n",
		dir + "cpu0/topology/thread_siblings_list": "0-1\n",
		dir + "cpu1/topology/core_id":              "0\n",
		dir + "cpu1/topology/physical_package_id":  "0\n",
		dir + "cpu1/topology/thread_siblings_list": "0-1\n",
		dir + "cpu2/topology/core_id":              "0\n",
		dir + "cpu2/topology/physical_package_id":  "1\n",
		dir + "cpu2/topology/core_cpus_list":       "2-3\n",
		dir + "cpu3/topology/core_id":              "0\n",
		dir + "cpu3/topology/core_cpus_list":       "2-3\n",
		dir + "cpu4/topology/core_id":              "9\n",
	}
	want := []CPU{
		{Number: 0, Core: 0, Package: 0, Siblings: []int{0, 1}},
		{Number: 1, Core: 0, Package: 0, Siblings: []int{0, 1}},
		{Number: 2, Core: 0, Package: 1, Siblings: []int{2, 3}},
		{Number: 3, Core: 0, Package: unknown, Siblings: []int{2, 3}},
	}
	got, err := topology(tree(files))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if n := physicalCores(got); n != 2 {
		t.Errorf("%d physical cores, want 2", n)
	}
	for gone, want := range map[string]string{
		dir + "online":                       "online",
		dir + "cpu2/topology/core_id":        "core of CPU 2",
		dir + "cpu2/topology/core_cpus_list": "siblings of CPU 2",
	} {
		kept := files[gone]
		delete(files, gone)
		if got, err := topology(tree(files)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v, %v; want an error with %q", gone, got, err, want)
		}
		files[gone] = kept
	}
}

func TestTopologyForReal(t *testing.T) {
	cpus, err := Topology()
	if err != nil {
		t.Skip("this kernel does not say: ", err)
	}
	online, err := OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(cpus) != len(online) {
		t.Errorf("%d CPUs, online are %v", len(cpus), online)
	}
	for _, c := range cpus {
		if !slices.Contains(c.Siblings, c.Number) {
			t.Errorf("CPU %d is not among its siblings %v", c.Number, c.Siblings)
		}
	}
}
