package host

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCPU is the largest CPU number: Linux is built for at most 8192 CPUs.
const maxCPU = 8191

// ParseCPUs reads a list such as "0-3,8" and returns its CPUs in ascending
// order. Each CPU may be named once.
func ParseCPUs(s string) ([]int, error) {
	var out []int
	var seen [maxCPU + 1]bool
	position := 1
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := parseCPU(first)
		to := from
		if err == nil && isRange {
			to, err = parseCPU(last)
		}
		if err == nil && to < from {
			err = fmt.Errorf("the range %q runs backwards", part)
		}
		if err != nil {
			return nil, fmt.Errorf("CPU list %q, position %d: %w; write it like 0-3,8", s, position, err)
		}
		for cpu := from; cpu <= to; cpu++ {
			if seen[cpu] {
				return nil, fmt.Errorf("CPU list %q, position %d: CPU %d is named twice", s, position, cpu)
			}
			seen[cpu] = true
			out = append(out, cpu)
		}
		position += len(part) + 1
	}
	slices.Sort(out)
	return out, nil
}

func parseCPU(s string) (int, error) {
	if s == "" {
		return 0, errors.New("a CPU number is missing")
	}
	// Atoi would take a sign too.
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is not a CPU number", s)
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || n > maxCPU {
		return 0, fmt.Errorf("CPU %s is out of range; the highest is %d", s, maxCPU)
	}
	return n, nil
}

// FormatCPUs writes a list in ascending order as ParseCPUs reads it.
func FormatCPUs(cpus []int) string {
	var b strings.Builder
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(cpus[i]))
		if j > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(cpus[j]))
		}
		i = j + 1
	}
	return b.String()
}
