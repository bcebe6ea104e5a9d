package host

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
)

// CPU is one logical CPU and where it sits.
type CPU struct {
	Number   int
	Core     int   // number of the physical core within its package
	Package  int   // number of the package (socket); -1: unknown
	Siblings []int // logical CPUs of the same core, itself included, ascending
}

// Topology returns the online CPUs, ascending. It is an error if the kernel does
// not say how they share cores, as some virtual machines do not.
func Topology() ([]CPU, error) { return topology(os.DirFS("/")) }

func topology(root fs.FS) ([]CPU, error) {
	numbers, err := ParseCPUs(line(root, sysCPU+"online"))
	if err != nil {
		return nil, fmt.Errorf("/%sonline: %w", sysCPU, err)
	}
	cpus := make([]CPU, 0, len(numbers))
	for _, n := range numbers {
		dir := sysCPU + "cpu" + strconv.Itoa(n) + "/topology/"
		c := CPU{Number: n}
		if c.Core, err = strconv.Atoi(line(root, dir+"core_id")); err != nil {
			return nil, fmt.Errorf("core of CPU %d: /%score_id: %w", n, dir, err)
		}
		// An older kernel has the second name for the first.
		text := line(root, dir+"core_cpus_list")
		if text == "" {
			text = line(root, dir+"thread_siblings_list")
		}
		if c.Siblings, err = ParseCPUs(text); err != nil {
			return nil, fmt.Errorf("siblings of CPU %d: /%score_cpus_list: %w", n, dir, err)
		}
		if c.Package, err = strconv.Atoi(line(root, dir+"physical_package_id")); err != nil {
			c.Package = unknown
		}
		cpus = append(cpus, c)
	}
	return cpus, nil
}

// physicalCores counts different cores.
func physicalCores(cpus []CPU) int {
	// Core ids repeat in packages and, on some machines, in dies; the first
	// sibling is unique.
	first := map[int]bool{}
	for _, c := range cpus {
		first[c.Siblings[0]] = true
	}
	return len(first)
}

// Spread returns cpus in the order in which threads should take them: first one
// CPU of each physical core, then the second one of each, and so on.
func Spread(cpus []int, topology []CPU) []int {
	siblings := map[int][]int{}
	for _, c := range topology {
		siblings[c.Number] = c.Siblings
	}
	var out []int
	taken := map[int]int{} // by core, named by its first sibling: CPUs in out
	for round := 0; len(out) < len(cpus); round++ {
		for _, cpu := range cpus {
			core := cpu
			if s := siblings[cpu]; len(s) > 0 {
				core = s[0]
			}
			if !slices.Contains(out, cpu) && taken[core] == round {
				taken[core]++
				out = append(out, cpu)
			}
		}
	}
	return out
}

// SharedCores returns the sets of the given CPUs that lie on one physical core,
// each with at least two CPUs.
func SharedCores(cpus []int, topology []CPU) [][]int {
	var out [][]int
	for _, c := range topology {
		if len(c.Siblings) == 0 || c.Siblings[0] != c.Number {
			continue
		}
		var here []int
		for _, s := range c.Siblings {
			if slices.Contains(cpus, s) {
				here = append(here, s)
			}
		}
		if len(here) > 1 {
			out = append(out, here)
		}
	}
	return out
}
