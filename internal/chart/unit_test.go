package chart

import (
	"math"
	"testing"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		v    float64
		u    Unit
		want string
	}{
		{5, Plain, "5"}, {0, Plain, "0"}, {-3.5, Plain, "−3.5"}, {999.96, Plain, "1k"}, {1234567, Plain, "1.235M"}, {0.00012, Plain, "0.00012"}, {1e-9, Plain, "1e−09"},
		{1500, Nanoseconds, "1.5 µs"}, {0.25, Nanoseconds, "0.25 ns"}, {0, Nanoseconds, "0"}, {999999, Nanoseconds, "1 ms"}, {2, Seconds, "2 s"}, {0.5, Milliseconds, "500 µs"}, {7.2e12, Nanoseconds, "7200 s"},
		{0.5, Share, "50%"}, {0.9999, Share, "99.99%"},
		{1, Ratio, "1.0000"}, {1.00001, Ratio, "1.00001"}, {0.98312, Ratio, "0.9831"},
		{2048, Bytes, "2.048 kB"}, {12, Bytes, "12 B"}, {0, Bytes, "0 B"},
		{8.5e6, PerSecond, "8.5M/s"}, {12, PerSecond, "12/s"},
		{math.NaN(), Plain, "–"}, {math.Inf(1), Seconds, "∞"},
	} {
		if got := Format(c.v, c.u); got != c.want {
			t.Errorf("Format(%v, %q) = %q, want %q", c.v, c.u, got, c.want)
		}
	}
}
