package command

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// size is a flag with a number of bytes, written as in 67108864, 64MiB or 64MB.
type size int

// String implements pflag.Value.
func (s *size) String() string {
	if n := *s; n > 0 && n%(1<<10) == 0 {
		// Exact: what IBytes would round is written out.
		for _, unit := range []struct {
			bytes size
			name  string
		}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
			if n%unit.bytes == 0 {
				return fmt.Sprintf("%d%s", n/unit.bytes, unit.name)
			}
		}
	}
	return fmt.Sprint(int(*s))
}

// Set implements pflag.Value.
func (s *size) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is no size; write it like 1048576, 1MiB (2^20 bytes) or 1MB (10^6 bytes)", text)
	case n > math.MaxInt:
		return fmt.Errorf("%q is too large", text)
	}
	*s = size(n)
	return nil
}

// Type implements pflag.Value.
func (*size) Type() string { return "size" }
