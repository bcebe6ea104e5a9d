package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawLayout draws a machine of equal cores, numbered in one of the two ways of
// the kernel, of which some CPUs are allowed.
func drawLayout(t *rapid.T) *Report {
	cores := rapid.IntRange(1, 40).Draw(t, "cores")
	threads := rapid.IntRange(1, 2).Draw(t, "threads of a core")
	perNode := rapid.IntRange(1, cores).Draw(t, "cores of a node")
	adjacent := rapid.Bool().Draw(t, "adjacent")
	r := &Report{}
	var allowed []int
	for cpu := range cores * threads {
		core := cpu % cores
		siblings := []int{core, core + cores}[:threads]
		if adjacent {
			core = cpu / threads
			siblings = []int{core * threads, core*threads + 1}[:threads]
		}
		info := CPUInfo{CPU: cpu, Core: core, Node: core / perNode, Siblings: FormatCPUs(siblings), Allowed: rapid.Bool().Draw(t, "allowed")}
		if info.Allowed {
			allowed = append(allowed, cpu)
		}
		r.Layout.CPUs = append(r.Layout.CPUs, info)
	}
	r.Layout.AllowedCPUs = FormatCPUs(allowed)
	if rapid.Bool().Draw(t, "isolated") && len(allowed) > 0 {
		r.Settings.Isolated = FormatCPUs(allowed[:rapid.IntRange(1, len(allowed)).Draw(t, "of them")])
	}
	return r
}

func TestSuggest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawLayout(t)
		threads := rapid.IntRange(4, 45).Draw(t, "threads")
		s, err := r.Suggest(threads)
		if err != nil {
			t.Fatal(err)
		}
		coreOf, nodeOf, allowed := map[int]string{}, map[int]int{}, map[string][]int{}
		for _, c := range r.Layout.CPUs {
			coreOf[c.CPU], nodeOf[c.CPU] = c.Siblings, c.Node
			if c.Allowed {
				allowed[c.Siblings] = append(allowed[c.Siblings], c.CPU)
			}
		}
		if tooSmall := len(allowed) < threads; tooSmall != (s.TooSmall != "") {
			t.Fatalf("%d threads on %d cores: %+v", threads, len(allowed), s)
		} else if tooSmall {
			return
		}
		var used []int
		take := func(list string, n int) {
			cpus, err := ParseCPUs(list)
			if err != nil || len(cpus) != n {
				t.Fatalf("%q is not a list of %d CPUs: %+v", list, n, s)
			}
			used = append(used, cpus...)
		}
		issuers := 1 + (threads-1)/threadsPerIssuer
		reader := 0
		take(s.QueryIssuer, 1)
		take(s.Issuers, issuers)
		if threads > 4 {
			reader = 1
			take(s.Reader, 1)
		}
		take(s.Backend, threads-1-issuers-reader)
		// Each on a core of its own, which the process may use.
		cores, nodes := map[string]bool{}, map[int]int{}
		for _, cpu := range used {
			if cores[coreOf[cpu]] || !slices.Contains(allowed[coreOf[cpu]], cpu) {
				t.Fatalf("CPU %d is not allowed or its core is taken: %+v", cpu, s)
			}
			cores[coreOf[cpu]] = true
			nodes[nodeOf[cpu]]++
		}
		idle, _ := ParseCPUs(s.KeepIdle)
		for _, cpu := range idle {
			if !cores[coreOf[cpu]] || slices.Contains(used, cpu) {
				t.Fatalf("CPU %d need not be idle: %+v", cpu, s)
			}
		}
		if len(r.Settings.Isolated) > 0 {
			return
		}
		// One node if one has enough cores.
		enough := map[int]int{}
		for core := range allowed {
			enough[nodeOf[allowed[core][0]]]++
		}
		for node, n := range enough {
			if n >= threads && len(nodes) > 1 {
				t.Fatalf("node %d has %d cores, and %d nodes are used: %+v", node, n, len(nodes), s)
			}
		}
	})
}

func TestSuggestOnMachines(t *testing.T) {
	for _, tc := range []struct {
		machine string
		threads int
		want    string
		notes   string
	}{
		{"bare-metal-smt", 6, "--query-issuer-cpu 1 --issuer-cpus 2 --backend-cpus 4-6 --resident-blocks-reader-cpu 3", "keep CPUs 9-14 idle"},
		{"bare-metal-smt", 8, "--query-issuer-cpu 0 --issuer-cpus 1 --backend-cpus 3-7 --resident-blocks-reader-cpu 2", "the core of CPU 0 is used"},
		// Those that the kernel keeps free, all on one node.
		{"numa", 4, "--query-issuer-cpu 4 --issuer-cpus 5 --backend-cpus 6-7", "all are CPUs that the kernel keeps free"},
		{"numa", 6, "--query-issuer-cpu 1 --issuer-cpus 2 --backend-cpus 4-6 --resident-blocks-reader-cpu 3", "NUMA nodes 0 and 1"},
	} {
		r := check(t, machine(t, tc.machine), nil)
		s, err := r.Suggest(tc.threads)
		if err != nil || s.Flags() != tc.want || !strings.Contains(strings.Join(s.Notes, "; "), tc.notes) {
			t.Errorf("%s, %d threads: %s, notes %q, %v; want %s", tc.machine, tc.threads, s.Flags(), s.Notes, err, tc.want)
		}
	}
	r := check(t, machine(t, "vm"), nil)
	if s, err := r.Suggest(3); err == nil {
		t.Errorf("3 threads: %+v", s)
	}
	if s, err := r.Suggest(5); err != nil || !strings.Contains(s.TooSmall, "5 threads need 5 physical cores, and this process may use 4 (CPUs 0-3)") {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSharedCacheComesTogether(t *testing.T) {
	// Cores 0 and 2 share a cache, and so do 1 and 3, and so on.
	r := &Report{Layout: Layout{AllowedCPUs: "0-9"}}
	for cpu := range 10 {
		r.Layout.CPUs = append(r.Layout.CPUs, CPUInfo{CPU: cpu, Core: cpu, Siblings: fmt.Sprint(cpu), Allowed: true})
	}
	for _, list := range []string{"0,2,4,6,8", "1,3,5,7,9"} {
		r.Layout.Caches = append(r.Layout.Caches, Cache{Level: 3, Type: "Unified", Shared: list})
	}
	s, err := r.Suggest(5)
	if err != nil || s.QueryIssuer != "2" || s.Issuers != "4" || s.Reader != "6" || s.Backend != "1,8" {
		t.Errorf("%+v, %v", s, err)
	}
}
