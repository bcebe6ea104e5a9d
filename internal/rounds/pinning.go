package rounds

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/internal/host"
)

// pinning says which CPUs are kvbench's own and which are its children's.
type pinning struct {
	parent   int // NoCPU: kvbench is not pinned
	children []int
	all      []int // that kvbench may use
	note     string
}

// cpuFlags are the flags of replay that name CPUs.
var cpuFlags = []string{"--issuer-cpus", "--query-issuer-cpu", "--backend-cpus", "--resident-blocks-reader-cpu"}

// mostThreads is the number of threads of a trial that nobody gave a number of
// threads or CPUs: with as many CPUs it leaves the others alone.
const mostThreads = 9

// place chooses the CPU that kvbench waits on.
func place(m *Manifest) (pinning, error) {
	allowed, err := host.AllowedCPUs()
	if err != nil {
		return pinning{}, err
	}
	topology, err := host.Topology()
	if err != nil {
		topology = nil // siblings are not known
	}
	return choose(m, allowed, topology), nil
}

func choose(m *Manifest, allowed []int, topology []host.CPU) pinning {
	p := pinning{parent: NoCPU, children: allowed, all: allowed}
	want := m.Rules.ParentCPU
	named := namedCPUs(m)
	switch {
	case want == NoCPU:
		p.note = "kvbench is not pinned, as asked"
		return p
	case want >= 0:
		if !slices.Contains(allowed, want) {
			p.note = fmt.Sprintf("kvbench is not pinned: CPU %d is not among those it may use (%s)", want, host.FormatCPUs(allowed))
			return p
		}
		p.parent = want
		if slices.Contains(named, want) {
			p.note = fmt.Sprintf("CPU %d is also one of those that trials name", want)
		} else {
			p.children = without(allowed, want)
		}
		return p
	case len(named) == 0 && len(allowed) <= mostThreads:
		p.note = "kvbench is not pinned: a trial may use every CPU; it sleeps while one runs"
		return p
	}
	spread := host.Spread(allowed, topology)
	slices.Reverse(spread)
	sibling := -1
	for _, cpu := range spread {
		switch {
		case slices.Contains(named, cpu):
		case sharesCore(cpu, named, topology):
			sibling = cpu
		default:
			p.parent = cpu
		}
		if p.parent >= 0 {
			break
		}
	}
	if p.parent < 0 {
		p.parent = sibling
		p.note = "kvbench waits on a CPU whose core a trial uses too; it sleeps while one runs"
	}
	if p.parent < 0 {
		p.parent = NoCPU
		p.note = "kvbench is not pinned: trials name every CPU; it sleeps while one runs"
		return p
	}
	p.children = without(allowed, p.parent)
	return p
}

func without(cpus []int, cpu int) []int {
	return slices.DeleteFunc(slices.Clone(cpus), func(c int) bool { return c == cpu })
}

func sharesCore(cpu int, named []int, topology []host.CPU) bool {
	for _, c := range topology {
		if c.Number == cpu {
			return slices.ContainsFunc(c.Siblings, func(s int) bool { return slices.Contains(named, s) })
		}
	}
	return false
}

// namedCPUs returns the CPUs that flags of the experiment name. Other programs may
// name theirs in other ways, which is not seen.
func namedCPUs(m *Manifest) []int {
	var out []int
	read := func(args []string) {
		for i, a := range args {
			flag, value, given := strings.Cut(a, "=")
			if !slices.Contains(cpuFlags, flag) {
				continue
			}
			if !given && i+1 < len(args) {
				value = args[i+1]
			}
			// What is not a list is for the trial to refuse.
			if cpus, err := host.ParseCPUs(value); err == nil {
				out = append(out, cpus...)
			}
		}
	}
	read(m.Arguments)
	for _, v := range m.Variants {
		read(v.Args)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// settle moves all threads of kvbench to its CPU.
func (p *pinning) settle() error {
	if p.parent < 0 {
		return nil
	}
	return maskThreads([]int{p.parent})
}

// release lets the threads use all CPUs again.
func (p *pinning) release() error {
	if p.parent < 0 {
		return nil
	}
	return maskThreads(p.all)
}

// forChild lets the calling thread use the CPUs of children until restore, so that
// a child that is started meanwhile may use them. The thread must be locked.
func (p *pinning) forChild() (restore func() error, err error) {
	if p.parent < 0 {
		return func() error { return nil }, nil
	}
	if err := unix.SchedSetaffinityDynamic(0, set(p.children)); err != nil {
		return nil, fmt.Errorf("let a child use CPUs %s: %w", host.FormatCPUs(p.children), err)
	}
	return func() error {
		if err := unix.SchedSetaffinityDynamic(0, set([]int{p.parent})); err != nil {
			return fmt.Errorf("return to CPU %d: %w", p.parent, err)
		}
		return nil
	}, nil
}

func set(cpus []int) unix.CPUSetDynamic {
	s := unix.NewCPUSet(slices.Max(cpus) + 1)
	for _, c := range cpus {
		s.Set(c)
	}
	return s
}

// maskThreads sets the CPUs of all threads of this process. New threads get those
// of the thread that makes them.
func maskThreads(cpus []int) error {
	const dir = "/proc/self/task"
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the threads of kvbench: %w", err)
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return fmt.Errorf("%s: %q is no thread", dir, t.Name())
		}
		if err := unix.SchedSetaffinityDynamic(tid, set(cpus)); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("move kvbench to CPUs %s: %w", host.FormatCPUs(cpus), err)
		}
	}
	return nil
}
