package stats

import (
	"fmt"
	"math"
	"strings"
)

// Claim is what can be said of several ratios to a base at once.
type Claim struct {
	Intervals int `json:"intervals"`
	// Absent, Worse and Gain name those without interval, those that lie wholly on
	// the worse side of 1, and those wholly on the better side.
	Absent []string `json:"absent,omitempty"`
	Worse  []string `json:"worse,omitempty"`
	Gain   []string `json:"gain,omitempty"`
	// LargestLoss is the largest loss that any interval allows, 0.04 for 4%, and
	// LargestOf the name of that interval.
	LargestLoss float64 `json:"largest_loss"`
	LargestOf   string  `json:"largest_of,omitempty"`
	// AllCover is the probability that all intervals cover if they are independent
	// of each other.
	AllCover float64 `json:"all_cover"`
}

// Claims computes what the intervals allow to be said; names[i] belongs to
// intervals[i].
func Claims(names []string, intervals []Interval, better Better) Claim {
	c := Claim{Intervals: len(intervals), AllCover: 1}
	first := true
	for i, iv := range intervals {
		if !iv.Ok() {
			c.Absent = append(c.Absent, names[i])
			continue
		}
		c.AllCover *= iv.TrueLevel
		most, least := 1-iv.Low, 1-iv.High
		if better == Lower {
			most, least = iv.High-1, iv.Low-1
		}
		if least > 0 {
			c.Worse = append(c.Worse, names[i])
		}
		if most < 0 {
			c.Gain = append(c.Gain, names[i])
		}
		if first || most > c.LargestLoss {
			c.LargestLoss, c.LargestOf, first = most, names[i], false
		}
	}
	if first {
		c.AllCover = 0
	}
	return c
}

// AllIncludeOne says whether every interval is there and includes 1.
func (c Claim) AllIncludeOne() bool {
	return c.Intervals > 0 && len(c.Absent) == 0 && len(c.Worse) == 0 && len(c.Gain) == 0
}

// NoneAllows says whether every interval is there and none allows a loss of margin
// or more: non-inferiority of all.
func (c Claim) NoneAllows(margin float64) bool {
	return c.Intervals > 0 && len(c.Absent) == 0 && c.LargestLoss < margin
}

// Text says it in a sentence. Losses are rounded up, to 0.1%, so that it stays true.
func (c Claim) Text() string {
	if c.Intervals == 0 {
		return "no ratios"
	}
	var parts []string
	present := c.Intervals - len(c.Absent)
	switch {
	case c.AllIncludeOne():
		parts = append(parts, "every interval includes 1")
	case present > 0:
		parts = append(parts, fmt.Sprintf("%d of %d intervals include 1", present-len(c.Worse)-len(c.Gain), c.Intervals))
	}
	for _, list := range []struct {
		names []string
		what  string
	}{{c.Worse, "worse beyond doubt"}, {c.Gain, "better beyond doubt"}, {c.Absent, "without an interval"}} {
		if len(list.names) > 0 {
			parts = append(parts, list.what+": "+strings.Join(list.names, ", "))
		}
	}
	if present > 0 {
		if c.LargestLoss > 0 {
			parts = append(parts, fmt.Sprintf("none allows a loss of more than %.1f%% (%s)", math.Ceil(c.LargestLoss*1000-1e-9)/10, c.LargestOf))
		} else {
			parts = append(parts, "none allows a loss")
		}
	}
	if present > 1 {
		parts = append(parts, fmt.Sprintf("all %d cover together %.0f%% of the time if independent", present, 100*c.AllCover))
	}
	return strings.Join(parts, "; ")
}
