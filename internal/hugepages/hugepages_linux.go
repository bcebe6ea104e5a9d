package hugepages

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	enabledFile = "/sys/kernel/mm/transparent_hugepage/enabled"
	smapsFile   = "/proc/self/smaps"
)

func available() error {
	text, err := os.ReadFile(enabledFile)
	if err != nil {
		return fmt.Errorf("this kernel does not say that it has transparent huge pages: %w", err)
	}
	if strings.Contains(string(text), "[never]") {
		return fmt.Errorf("%s says never; write madvise to it", enabledFile)
	}
	// Where nobody could say afterwards what was obtained, nothing is asked for.
	f, err := os.Open(smapsFile)
	if err != nil {
		return fmt.Errorf("what lies on huge pages cannot be read: %w", err)
	}
	return f.Close()
}

// reserve maps so many bytes, a multiple of RegionBytes, at a multiple of it.
func reserve(size int) (region, unsafe.Pointer, error) {
	m, err := unix.Mmap(-1, 0, size+RegionBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return region{}, nil, err
	}
	base := uintptr(unsafe.Pointer(&m[0]))
	skip := int(-base % RegionBytes)
	if err := unix.Madvise(m[skip:skip+size], unix.MADV_HUGEPAGE); err != nil {
		unix.Munmap(m) //nolint:errcheck // the first error says more
		return region{}, nil, err
	}
	return region{mapped: m, start: base + uintptr(skip), size: size}, unsafe.Pointer(&m[skip]), nil
}

func (r region) unmap() error { return unix.Munmap(r.mapped) }

// onHugePages adds up what the kernel says of the mappings of the regions. It joins
// neighbours to one mapping, so a mapping may have several regions and the room
// between them, which nobody uses and which has no page.
func onHugePages(regions []region) (int64, error) {
	if len(regions) == 0 {
		return 0, nil
	}
	f, err := os.Open(smapsFile)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	starts := make([]uintptr, len(regions))
	for i, r := range regions {
		starts[i] = r.start
	}
	return hugeOf(f, starts)
}

// hugeOf reads the text of smaps: the huge pages of the mappings that have one of
// the addresses.
func hugeOf(r io.Reader, addresses []uintptr) (int64, error) {
	total, counts := int64(0), false
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if from, to, ok := strings.Cut(fields[0], "-"); ok {
			low, errLow := strconv.ParseUint(from, 16, 64)
			high, errHigh := strconv.ParseUint(to, 16, 64)
			if errLow != nil || errHigh != nil {
				return 0, fmt.Errorf("smaps: %q is no range of addresses", fields[0])
			}
			counts = false
			for _, a := range addresses {
				counts = counts || low <= uint64(a) && uint64(a) < high
			}
			continue
		}
		if counts && fields[0] == "AnonHugePages:" && len(fields) == 3 {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil || fields[2] != "kB" {
				return 0, fmt.Errorf("smaps: %q is no size", lines.Text())
			}
			total += kb << 10
		}
	}
	return total, lines.Err()
}
