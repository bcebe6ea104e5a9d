package host

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// AllowedCPUs returns the CPUs that this process may use, ascending. They are
// those of its main thread, which kvbench never pins.
func AllowedCPUs() ([]int, error) { return mask(os.Getpid()) }

// ThreadCPUs returns the CPUs that the calling OS thread may use, ascending.
func ThreadCPUs() ([]int, error) { return mask(0) }

func mask(tid int) ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		return nil, fmt.Errorf("read the CPU mask: %w", err)
	}
	cpus := make([]int, 0, set.Count())
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// PinThread binds the calling OS thread, which must be locked to its goroutine,
// to one CPU and reads the mask back. Only a confirmed pin returns nil.
func PinThread(cpu int) error {
	var set unix.CPUSet
	if cpu < 0 || cpu > maxCPU {
		return fmt.Errorf("CPU %d is not a CPU number", cpu)
	}
	set.Set(cpu)
	if set.Count() == 0 {
		return fmt.Errorf("CPU %d is beyond what the kernel interface can name", cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		switch {
		case errors.Is(err, unix.EINVAL):
			return fmt.Errorf("CPU %d does not exist, is offline, or is outside the cpuset of this process: %w", cpu, err)
		case errors.Is(err, unix.EPERM):
			return fmt.Errorf("CPU %d: not permitted to pin threads: %w", cpu, err)
		}
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	got, err := ThreadCPUs()
	if err != nil {
		return fmt.Errorf("CPU %d: confirm the pin: %w", cpu, err)
	}
	if len(got) != 1 || got[0] != cpu {
		return fmt.Errorf("CPU %d: the mask reads back as %s", cpu, FormatCPUs(got))
	}
	return nil
}
