package stats

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Reading is one variant's figure of one round.
type Reading struct {
	// Round is the number of the round, as the caller counts.
	Round int
	// Slot is the place of the variant in the round's order, from 0; negative
	// if it is not known.
	Slot int
	// Retry says that it is of a trial repeated after the round's order, so that Slot is
	// none of the plan.
	Retry bool
	// Value is the figure, in any unit. It takes part in a ratio if it is finite
	// and not negative, as a denominator if it is also not zero.
	Value float64
	// Invalid is why the reading may not be used, "" if it may.
	Invalid string
}

// Series is all readings of one variant.
type Series struct {
	Variant  string
	Readings []Reading
}

// Values returns the values of the valid readings in their order.
func (s Series) Values() []float64 {
	var v []float64
	for _, r := range s.Readings {
		if r.Invalid == "" {
			v = append(v, r.Value)
		}
	}
	return v
}

// Pairs are the readings of two variants, round by round. Make one with [Pair].
type Pairs struct {
	Numerator   string        `json:"numerator"`
	Denominator string        `json:"denominator"`
	Kept        []PairOfRound `json:"kept"`    // by round
	Dropped     []DroppedPair `json:"dropped"` // by round
}

// PairOfRound is what two variants showed in one round.
type PairOfRound struct {
	Round int     `json:"round"`
	X     float64 `json:"x"` // the numerator's value
	Y     float64 `json:"y"` // the denominator's value
	XSlot int     `json:"x_slot"`
	YSlot int     `json:"y_slot"`
	Retry bool    `json:"retry,omitempty"` // one of the two is of a repeated trial
}

// Ratio returns X/Y.
func (p PairOfRound) Ratio() float64 { return p.X / p.Y }

// DroppedPair is a round in which there is no ratio.
type DroppedPair struct {
	Round int `json:"round"`
	// XReason and YReason say why the numerator and the denominator could not be
	// used, "" for the one that could.
	XReason string `json:"x_reason,omitempty"`
	YReason string `json:"y_reason,omitempty"`
}

// Pair joins the readings of two variants that are of the same round. A round
// with a reading that is missing, invalid or gives no ratio is dropped, with the
// reason. It is an error if a variant has two readings of one round.
func Pair(numerator, denominator Series) (Pairs, error) {
	p := Pairs{Numerator: numerator.Variant, Denominator: denominator.Variant, Kept: []PairOfRound{}, Dropped: []DroppedPair{}}
	xs, err := byRound(numerator)
	if err != nil {
		return Pairs{}, err
	}
	ys, err := byRound(denominator)
	if err != nil {
		return Pairs{}, err
	}
	var rounds []int
	for r := range xs {
		rounds = append(rounds, r)
	}
	for r := range ys {
		if _, ok := xs[r]; !ok {
			rounds = append(rounds, r)
		}
	}
	slices.Sort(rounds)
	for _, r := range rounds {
		x, inX := xs[r]
		y, inY := ys[r]
		d := DroppedPair{Round: r, XReason: unusable(x, inX, false), YReason: unusable(y, inY, true)}
		if d.XReason == "" && d.YReason == "" {
			ratio := x.Value / y.Value
			switch {
			case math.IsInf(ratio, 0):
				d.YReason = fmt.Sprintf("%g/%g is too large for a number", x.Value, y.Value)
			default:
				p.Kept = append(p.Kept, PairOfRound{Round: r, X: x.Value, Y: y.Value, XSlot: x.Slot, YSlot: y.Slot, Retry: x.Retry || y.Retry})
				continue
			}
		}
		p.Dropped = append(p.Dropped, d)
	}
	return p, nil
}

func byRound(s Series) (map[int]Reading, error) {
	m := make(map[int]Reading, len(s.Readings))
	for _, r := range s.Readings {
		if _, ok := m[r.Round]; ok {
			return nil, fmt.Errorf("variant %q has two readings of round %d; keep the one that counts", s.Variant, r.Round)
		}
		m[r.Round] = r
	}
	return m, nil
}

// unusable says why a reading gives no ratio, "" if it does.
func unusable(r Reading, present, denominator bool) string {
	switch {
	case !present:
		return "no reading"
	case r.Invalid != "":
		return r.Invalid
	case math.IsNaN(r.Value) || math.IsInf(r.Value, 0):
		return fmt.Sprintf("the value %g is not a finite number", r.Value)
	case r.Value < 0:
		return fmt.Sprintf("the value %g is negative, which gives no ratio", r.Value)
	case denominator && r.Value == 0:
		return "the value 0 cannot be divided by"
	}
	return ""
}

// Name returns "numerator/denominator".
func (p Pairs) Name() string { return p.Numerator + "/" + p.Denominator }

// Planned returns the number of rounds, kept and dropped.
func (p Pairs) Planned() int { return len(p.Kept) + len(p.Dropped) }

// Ratios returns the ratio of every pair kept, by round.
func (p Pairs) Ratios() []float64 {
	r := make([]float64, len(p.Kept))
	for i, k := range p.Kept {
		r[i] = k.Ratio()
	}
	return r
}

// droppedInFull is how many rounds DroppedText gives the reasons of.
const droppedInFull = 3

// DroppedText names the rounds left out, "" if there are none, and why the first of
// them were.
func (p Pairs) DroppedText() string {
	var parts []string
	for i, d := range p.Dropped {
		if i >= droppedInFull && len(p.Dropped) > droppedInFull+1 {
			more := make([]string, 0, len(p.Dropped)-i)
			for _, d := range p.Dropped[i:] {
				more = append(more, strconv.Itoa(d.Round))
			}
			parts = append(parts, "rounds "+strings.Join(more, ", "))
			break
		}
		var why []string
		if d.XReason != "" {
			why = append(why, p.Numerator+": "+d.XReason)
		}
		if d.YReason != "" {
			why = append(why, p.Denominator+": "+d.YReason)
		}
		parts = append(parts, fmt.Sprintf("round %d (%s)", d.Round, strings.Join(why, "; ")))
	}
	return strings.Join(parts, ", ")
}

// logRatios returns the natural logarithms of the ratios, and false if one is 0.
func (p Pairs) logRatios() ([]float64, bool) {
	r := p.Ratios()
	for i, v := range r {
		if v <= 0 {
			return nil, false
		}
		r[i] = math.Log(v)
	}
	return r, true
}
