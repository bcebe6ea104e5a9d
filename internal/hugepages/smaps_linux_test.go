package hugepages

import (
	"strings"
	"testing"
)

const smaps = `7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac hg
7f0000800000-7f0000a00000 rw-p 00000000 00:00 0
AnonHugePages:      2048 kB
7f0000c00000-7f0001000000 rw-p 00000000 00:00 0
AnonHugePages:      4096 kB
`

func TestHugeOf(t *testing.T) {
	got, err := hugeOf(strings.NewReader(smaps), []uintptr{0x7f0000200000, 0x7f0000c00000, 0x7f0000e00000})
	if want := int64(6 << 20); err != nil || got != want {
		t.Errorf("%d bytes, %v; want %d", got, err, want)
	}
	for _, bad := range []string{"7f00-zz rw-p\n", "7f0000000000-7f0000400000 rw-p\nAnonHugePages: x kB\n", "7f0000000000-7f0000400000 rw-p\nAnonHugePages: 3 MB\n"} {
		if _, err := hugeOf(strings.NewReader(bad), []uintptr{0x7f0000200000}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func FuzzHugeOf(f *testing.F) {
	f.Add(smaps)
	f.Fuzz(func(t *testing.T, text string) {
		hugeOf(strings.NewReader(text), []uintptr{0x7f0000200000}) //nolint:errcheck // it must not panic
	})
}
