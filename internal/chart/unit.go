package chart

import (
	"math"
	"strconv"
	"strings"
)

// Unit is what a number counts. It decides how the number is written.
type Unit string

// The units.
const (
	Plain        Unit = ""
	Nanoseconds  Unit = "ns"
	Milliseconds Unit = "ms"
	Seconds      Unit = "s"
	Bytes        Unit = "B"
	PerSecond    Unit = "1/s"
	Ratio        Unit = "ratio"
	Share        Unit = "share" // 0.5 is written as 50%
)

type scale struct {
	size float64
	name string
}

var (
	decimal = []scale{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}
	clock   = []scale{{1e9, " s"}, {1e6, " ms"}, {1e3, " µs"}, {1, " ns"}}
)

// Format writes a number with up to four significant digits and its unit, and NaN
// as a dash.
func Format(v float64, u Unit) string { return format(v, u, 4) }

func format(v float64, u Unit, digits int) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.IsInf(v, 1):
		return "∞"
	case math.IsInf(v, -1):
		return "−∞"
	}
	switch u {
	case Ratio:
		if math.Abs(v) >= 1e5 {
			return significant(v, digits)
		}
		return minus(strconv.FormatFloat(v, 'f', ratioDigits(v), 64))
	case Share:
		return significant(100*v, digits) + "%"
	case Milliseconds:
		return scaled(v*1e6, clock, "", digits)
	case Seconds:
		return scaled(v*1e9, clock, "", digits)
	case Nanoseconds:
		return scaled(v, clock, "", digits)
	case PerSecond:
		return scaled(v, decimal, "/s", digits)
	case Bytes:
		return scaled(v, decimal, "B", digits)
	}
	return scaled(v, decimal, "", digits)
}

// ratioDigits is four, and more where four would make a ratio look like 1.
func ratioDigits(v float64) int {
	digits := 4
	for v != 1 && digits < 9 && math.Abs(v-1) < 0.5*math.Pow10(-digits) {
		digits++
	}
	return digits
}

func scaled(v float64, scales []scale, suffix string, digits int) string {
	if v == 0 {
		if suffix == "B" {
			return "0 B"
		}
		return "0" + suffix
	}
	for _, s := range scales {
		// Rounding must not leave 1000 of the smaller unit.
		if math.Abs(v) >= s.size*(1-0.5*math.Pow10(-digits)) {
			name := s.name
			if suffix == "B" {
				name = " " + name
			}
			return significant(v/s.size, digits) + name + suffix
		}
	}
	switch last := scales[len(scales)-1]; {
	case last.size == 1: // less than one of the smallest unit
		suffix = last.name
	case suffix == "B":
		suffix = " B"
	}
	return significant(v, digits) + suffix
}

// significant writes so many digits, no more than needed, and exponents only of
// what has no place otherwise.
func significant(v float64, digits int) string {
	a := math.Abs(v)
	if a != 0 && (a >= 1e7 || a < 1e-5) {
		return minus(strconv.FormatFloat(v, 'g', digits, 64))
	}
	after := 0
	if a > 0 {
		after = max(0, digits-1-int(math.Floor(math.Log10(a))))
	}
	text := strconv.FormatFloat(v, 'f', after, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return minus(text)
}

func minus(text string) string { return strings.Replace(text, "-", "−", 1) }
