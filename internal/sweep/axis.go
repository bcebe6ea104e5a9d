package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/nearest"
)

// Window is the name of the axis of windows; its values are ns.
const Window = "window"

// axisKind is what a kind of axis changes.
type axisKind struct {
	name string
	flag string
	// prepares says that each value needs work of its own.
	prepares bool
}

// kinds are the axes beside the window. Flags of replay with the same meaning
// may be named instead.
var kinds = []axisKind{
	{"workers", "workers", true},
	{"dp-ranks", "dp-ranks", true},
	{"block-size", "block-size", true},
	{"gpu-blocks", "gpu-blocks", true},
	{"duplication", "duplication-factor", true},
	{"length", "length-factor", true},
	{"event-threads", "event-workers", false},
	{"query-threads", "query-threads", false},
	{"event-issuers", "event-issuers", false},
}

// AxisNames returns the names of the axes beside the window.
func AxisNames() []string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.name)
	}
	return out
}

// Axis is what a sweep goes along.
type Axis struct {
	Name string `json:"name"` // Window or one of AxisNames
	// Values are ascending: ns of windows, else what the flag is set to.
	Values []int64 `json:"values"`
}

// Limits of an axis.
const (
	MaxPoints = 1000
	maxValue  = math.MaxInt32
)

// ParseAxis reads an axis such as "workers=2,16,128".
func ParseAxis(s string) (Axis, error) {
	name, list, ok := strings.Cut(s, "=")
	if !ok {
		return Axis{}, fmt.Errorf("%q has no =; write it like workers=2,16,128", s)
	}
	i := slices.IndexFunc(kinds, func(k axisKind) bool { return k.name == name || k.flag == name })
	if i < 0 {
		hint := ""
		if near, ok := nearest.Name(name, AxisNames()); ok {
			hint = ", did you mean " + near + "?"
		}
		return Axis{}, fmt.Errorf("%q is not an axis%s; there are %s", name, hint, strings.Join(AxisNames(), ", "))
	}
	a := Axis{Name: kinds[i].name}
	for position, text := range strings.Split(list, ",") {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 1 || v > maxValue || text != strconv.FormatInt(v, 10) {
			return Axis{}, fmt.Errorf("%s: value %d is %q; it must be a whole number from 1 to %d", a.Name, position+1, text, maxValue)
		}
		if slices.Contains(a.Values, v) {
			return Axis{}, fmt.Errorf("%s: %d is named twice", a.Name, v)
		}
		a.Values = append(a.Values, v)
	}
	if len(a.Values) < 2 || len(a.Values) > MaxPoints {
		return Axis{}, fmt.Errorf("%s: %d value; a sweep has 2 to %d points", a.Name, len(a.Values), MaxPoints)
	}
	slices.Sort(a.Values)
	return a, nil
}

// Windows returns the axis of so many windows from shortest to longest, each
// longer than the one before by the same factor, rounded to three digits.
func Windows(shortest, longest time.Duration, steps int) (Axis, error) {
	switch {
	case shortest <= 0:
		return Axis{}, fmt.Errorf("--min is %v; it must be positive", shortest)
	case longest <= shortest:
		return Axis{}, fmt.Errorf("--max is %v and --min %v; the longest window must be longer than the shortest", longest, shortest)
	case steps < 2 || steps > MaxPoints:
		return Axis{}, fmt.Errorf("--steps is %d; it must lie from 2 to %d", steps, MaxPoints)
	}
	a := Axis{Name: Window, Values: []int64{int64(shortest)}}
	ratio := float64(longest) / float64(shortest)
	for i := 1; i < steps-1; i++ {
		v := roundWindow(float64(shortest) * math.Pow(ratio, float64(i)/float64(steps-1)))
		if v > a.Values[len(a.Values)-1] && v < int64(longest) {
			a.Values = append(a.Values, v)
		}
	}
	a.Values = append(a.Values, int64(longest))
	if len(a.Values) != steps {
		return Axis{}, fmt.Errorf("--steps is %d, but between %v and %v there are only %d windows with three digits", steps, shortest, longest, len(a.Values))
	}
	return a, nil
}

// roundWindow keeps three digits.
func roundWindow(ns float64) int64 {
	unit := math.Pow(10, math.Floor(math.Log10(ns))-2)
	return int64(math.Round(ns/unit) * unit)
}

// kind returns what the axis changes; false for the window.
func (a *Axis) kind() (axisKind, bool) {
	i := slices.IndexFunc(kinds, func(k axisKind) bool { return k.name == a.Name })
	if i < 0 {
		return axisKind{}, false
	}
	return kinds[i], true
}

// Flag is the flag of replay that the axis sets, "duration" for the window.
func (a *Axis) Flag() string {
	if k, ok := a.kind(); ok {
		return k.flag
	}
	return "duration"
}

// Prepares says that the axis is one of preparation, so that a sweep along it
// needs a trace.
func (a *Axis) Prepares() bool {
	k, ok := a.kind()
	return ok && k.prepares
}

// label is a value as a person writes it, and as it stands in names of files.
func (a *Axis) label(value int64) string {
	if a.Name == Window {
		return time.Duration(value).String()
	}
	return strconv.FormatInt(value, 10)
}
