package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AllowedCPUs returns the CPUs that this process may use, ascending. It takes
// the masks of all its threads together, so that threads which are pinned
// meanwhile take nothing away: the runtime always has threads that are not.
func AllowedCPUs() ([]int, error) {
	const dir = "/proc/self/task"
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the threads of this process: %w", err)
	}
	var all []int
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a thread id", dir, t.Name())
		}
		cpus, err := mask(tid)
		if errors.Is(err, unix.ESRCH) {
			continue // it ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, cpus...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// OnlineCPUs returns the CPUs of this machine that run, ascending.
func OnlineCPUs() ([]int, error) {
	const path = "/sys/devices/system/cpu/online"
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read which CPUs are online: %w", err)
	}
	cpus, err := ParseCPUs(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cpus, nil
}

// ThreadCPUs returns the CPUs that the calling OS thread may use, ascending.
func ThreadCPUs() ([]int, error) { return mask(0) }

// TaskCPUs returns the CPUs that a living thread of this process may use,
// ascending.
func TaskCPUs(tid int) ([]int, error) { return mask(tid) }

// CurrentCPU returns the CPU that the calling OS thread runs on. Unless it is
// pinned, that may have changed already.
func CurrentCPU() (int, error) {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0, fmt.Errorf("ask which CPU runs this thread: %w", errno)
	}
	return int(cpu), nil
}

func mask(tid int) ([]int, error) {
	// The plain set ends at 1024 CPUs, and kernels built for more refuse it.
	set := unix.NewCPUSet(maxCPU + 1)
	if err := unix.SchedGetaffinityDynamic(tid, set); err != nil {
		return nil, fmt.Errorf("read the CPU mask: %w", err)
	}
	n := set.Count()
	cpus := make([]int, 0, n)
	for cpu := 0; len(cpus) < n; cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// PinThread binds the calling OS thread, which must be locked to its goroutine,
// to one CPU and reads the mask back. Only a confirmed pin returns nil; the
// error names the CPU and says why not.
func PinThread(cpu int) error {
	return pin(cpu, func(set unix.CPUSetDynamic) error { return unix.SchedSetaffinityDynamic(0, set) }, ThreadCPUs, OnlineCPUs)
}

// pin is PinThread on any kernel.
func pin(cpu int, set func(unix.CPUSetDynamic) error, get, online func() ([]int, error)) error {
	if cpu < 0 || cpu > maxCPU {
		return fmt.Errorf("cannot pin to CPU %d: CPU numbers go from 0 to %d", cpu, maxCPU)
	}
	want := unix.NewCPUSet(maxCPU + 1)
	want.Set(cpu)
	if err := set(want); err != nil {
		return fmt.Errorf("cannot pin to CPU %d: %s: %w", cpu, whyNot(cpu, err, online), err)
	}
	got, err := get()
	if err != nil {
		return fmt.Errorf("cannot confirm the pin to CPU %d: %w", cpu, err)
	}
	if len(got) != 1 || got[0] != cpu {
		return fmt.Errorf("cannot pin to CPU %d: the mask reads back as %s", cpu, FormatCPUs(got))
	}
	return nil
}

// whyNot says in words what sched_setaffinity means by an error.
func whyNot(cpu int, err error, online func() ([]int, error)) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return "the system does not permit this process to pin threads"
	case errors.Is(err, unix.ENOSYS):
		return "this kernel or sandbox has no way to pin threads"
	case !errors.Is(err, unix.EINVAL):
		return "the kernel refuses"
	}
	cpus, err := online()
	switch {
	case err != nil:
		return "it is not online or not in the set of CPUs that this process is allowed"
	case !slices.Contains(cpus, cpu):
		return "it is not online (online are " + FormatCPUs(cpus) + ")"
	}
	return "it is online but not in the set of CPUs that this process is allowed (its cpuset)"
}
