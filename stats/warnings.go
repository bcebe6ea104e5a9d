package stats

import (
	"fmt"
	"math"
	"slices"
)

// Warning is something that an interval cannot see, with its figure.
type Warning struct {
	Name WarningName `json:"name"`
	// Figure is what was found, and Limit what it was compared with; the text
	// says what both are.
	Figure float64 `json:"figure"`
	Limit  float64 `json:"limit"`
	Text   string  `json:"text"` // a sentence for people, with the figure
}

// WarningName is stable: reports and tests refer to it.
type WarningName string

// The warnings.
const (
	WarnFewPairs        WarningName = "few-pairs"               // figure: pairs
	WarnLevel           WarningName = "true-level"              // figure: true level of the bootstrap interval
	WarnSlotEffect      WarningName = "slot-effect"             // figure: relative effect of running second
	WarnAutocorrelation WarningName = "autocorrelation"         // figure: lag-1 autocorrelation
	WarnRuns            WarningName = "runs-test"               // figure: p-value
	WarnTwoModes        WarningName = "two-modes"               // figure: gap over the spread within the modes
	WarnUnequalNoise    WarningName = "unequal-noise"           // figure: smaller over larger spread
	WarnTies            WarningName = "ties"                    // figure: share of the ratios that equal another
	WarnUnbalanced      WarningName = "unbalanced-rounds"       // figure: difference of the counts
	WarnMissingness     WarningName = "informative-missingness" // figure: p-value
	WarnDropped         WarningName = "dropped-pairs"           // figure: share dropped
	WarnChained         WarningName = "chained-ratios"          // figure: product of the medians
)

// The limits of the warnings.
const (
	limitPairs        = 9    // fewer have their smallest and largest ratio as ends
	limitLevel        = 0.01 // of the true level from the one asked for
	limitP            = 0.05
	limitAutocorr     = 2.0 // over √n
	limitNoise        = 1 / 1.5
	limitDroppedShare = 0.1
)

// Warnings returns what the pairs themselves say against an interval of them with
// this level, each kind at most once.
func Warnings(p Pairs, level float64) []Warning {
	return collect(p, level, fewPairs, levelDiffers, droppedPairs, missingness, unbalanced, slotEffect, neighbours, runs, twoModes, unequalNoise, ties)
}

// SampleWarnings returns what values, in the order in which they were measured, say
// against an interval of them: those of [Warnings] that need no pairs. Ratios that
// are not finite give none.
func SampleWarnings(values []float64, level float64) []Warning {
	p := Pairs{Kept: make([]PairOfRound, len(values))}
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		p.Kept[i] = PairOfRound{Round: i, X: v, Y: 1, XSlot: -1, YSlot: -1}
	}
	return collect(p, level, fewPairs, levelDiffers, neighbours, runs, twoModes, ties)
}

func collect(p Pairs, level float64, finders ...func(Pairs, float64) (Warning, bool)) []Warning {
	w := []Warning{} // a list in JSON even if there are none
	for _, find := range finders {
		if found, ok := find(p, level); ok {
			found.Figure, found.Limit = finite(found.Figure), finite(found.Limit)
			w = append(w, found)
		}
	}
	return w
}

// finite returns the largest number in place of an infinite one, which JSON has not.
func finite(v float64) float64 {
	return min(max(v, -math.MaxFloat64), math.MaxFloat64)
}

func fewPairs(p Pairs, level float64) (Warning, bool) {
	n := len(p.Kept)
	w := Warning{Name: WarnFewPairs, Figure: float64(n), Limit: limitPairs}
	switch {
	case n == 0:
		w.Text = "no value can be used"
	case n < 3:
		w.Text = fmt.Sprintf("%s: a reading, not a comparison", count(n, "value"))
	case n < MinValues:
		w.Text = fmt.Sprintf("%d values give no %.4g%% interval: even their range is one of %.4g%%", n, 100*level, 100*signLevel(n, 1))
	case n < limitPairs:
		w.Text = fmt.Sprintf("%d values: a single disturbed round moves an end of the interval", n)
	default:
		return w, false
	}
	return w, true
}

func levelDiffers(p Pairs, level float64) (Warning, bool) {
	iv := ExactBootstrap(p.Ratios(), level)
	if !iv.Ok() || math.Abs(iv.TrueLevel-level) <= limitLevel {
		return Warning{}, false
	}
	return Warning{WarnLevel, iv.TrueLevel, level,
		fmt.Sprintf("with %d values the bootstrap interval is one of %.1f%%, not of %.4g%%", iv.N, 100*iv.TrueLevel, 100*level)}, true
}

func droppedPairs(p Pairs, _ float64) (Warning, bool) {
	if len(p.Dropped) == 0 {
		return Warning{}, false
	}
	share := float64(len(p.Dropped)) / float64(p.Planned())
	return Warning{WarnDropped, share, limitDroppedShare,
		fmt.Sprintf("%d of %d pairs are left out: %s", len(p.Dropped), p.Planned(), p.DroppedText())}, share > limitDroppedShare
}

func missingness(p Pairs, _ float64) (Warning, bool) {
	var x, y int
	for _, d := range p.Dropped {
		if d.XReason != "" {
			x++
		}
		if d.YReason != "" {
			y++
		}
	}
	n := p.Planned()
	pValue := FisherExact(x, n, y, n)
	return Warning{WarnMissingness, pValue, limitP,
		fmt.Sprintf("%d readings of %s and %d of %s are missing of %d each (p = %.2g): what is left may not stand for what was planned",
			x, p.Numerator, y, p.Denominator, n, pValue)}, n > 0 && pValue < limitP
}

// unbalanced compares how often each order, and for each variant each slot, was
// run. A difference of 1 is a fault only where no pair was lost, and one of 2 only
// where no trial was repeated; slots after the round's order, which only repeated
// trials have, are none that others miss.
func unbalanced(p Pairs, _ float64) (Warning, bool) {
	first, second, retries := 0, 0, 0
	var xSlots, ySlots []int
	for _, k := range p.Kept {
		if k.XSlot < 0 || k.YSlot < 0 {
			return Warning{}, false
		}
		if k.XSlot < k.YSlot {
			first++
		} else {
			second++
		}
		if k.Retry {
			retries++
			continue
		}
		for len(xSlots) <= max(k.XSlot, k.YSlot) {
			xSlots, ySlots = append(xSlots, 0), append(ySlots, 0)
		}
		xSlots[k.XSlot]++
		ySlots[k.YSlot]++
	}
	if len(p.Kept) < 2 {
		return Warning{}, false
	}
	difference := max(first, second) - min(first, second)
	text := fmt.Sprintf("%s ran before %s in %s and after it in %d", p.Numerator, p.Denominator, count(first, "round"), second)
	for _, v := range []struct {
		variant string
		slots   []int
	}{{p.Numerator, xSlots}, {p.Denominator, ySlots}} {
		if len(v.slots) == 0 {
			continue
		}
		if d := slices.Max(v.slots) - slices.Min(v.slots); d > difference {
			difference = d
			text = fmt.Sprintf("%s ran between %d and %d times in a slot", v.variant, slices.Min(v.slots), slices.Max(v.slots))
		}
	}
	limit := 0
	switch {
	case retries > 0:
		limit = 2 // one that runs again changes from one order to the other
	case len(p.Dropped) > 0:
		limit = 1
	}
	return Warning{WarnUnbalanced, float64(difference), float64(limit), text + ": an effect of the order does not cancel"}, difference > limit
}

func slotEffect(p Pairs, level float64) (Warning, bool) {
	if len(p.Kept) < MinValues {
		return Warning{}, false
	}
	s, reason := stratify(p)
	if reason != "" {
		return Warning{}, false
	}
	// A limit that a share of the noise would be is passed by chance in every fourth
	// comparison of twenty rounds; so only what is significant is a warning.
	effect, pValue := s.effect()
	limit := math.Expm1(studentT(1-limitP, float64(s.n-2)) * s.standardError())
	text := fmt.Sprintf("running second changes the ratio by %+.2f%% (p = %.2g; noise of a ratio %.2f%%)", 100*math.Expm1(effect), pValue, 100*s.sd)
	if iv := Stratified(p, level); iv.Ok() {
		text += fmt.Sprintf("; with that removed it is %.4f, %.4g%% interval %.4f to %.4f", iv.Estimate, 100*level, iv.Low, iv.High)
	}
	return Warning{WarnSlotEffect, math.Expm1(effect), limit, text}, pValue < limitP
}

func neighbours(p Pairs, _ float64) (Warning, bool) {
	n := len(p.Kept)
	if n < MinValues {
		return Warning{}, false
	}
	r := autocorrelation(p.Ratios(), func(i int) bool { return p.Kept[i+1].Round == p.Kept[i].Round+1 })
	limit := limitAutocorr / math.Sqrt(float64(n))
	text := fmt.Sprintf("values of neighbouring rounds are correlated (%.2f)", r)
	if r > 0 {
		text += fmt.Sprintf(": the intervals are too narrow by a factor of about %.1f", math.Sqrt((1+r)/(1-r)))
	} else {
		text += ": rounds alternate, and the intervals are wider than they need be"
	}
	return Warning{WarnAutocorrelation, r, limit, text}, math.Abs(r) > limit
}

func runs(p Pairs, _ float64) (Warning, bool) {
	if len(p.Kept) < MinValues {
		return Warning{}, false
	}
	k, pValue := RunsTest(p.Ratios())
	return Warning{WarnRuns, pValue, limitP,
		fmt.Sprintf("%d runs above and below the median in %d rounds (p = %.2g): the rounds are not independent of each other", k, len(p.Kept), pValue)}, pValue < limitP
}

func twoModes(p Pairs, _ float64) (Warning, bool) {
	m, ok := Modes(p.Ratios())
	if !ok {
		return Warning{}, false
	}
	return Warning{WarnTwoModes, m.Separation, m.Limit,
		fmt.Sprintf("the values fall into two groups: %.0f%% about %.4f and %.0f%% about %.4f; the median may jump between them",
			100*m.LowShare, m.Low, 100*(1-m.LowShare), m.High)}, m.Separation > m.Limit
}

func unequalNoise(p Pairs, _ float64) (Warning, bool) {
	if len(p.Kept) < MinValues {
		return Warning{}, false
	}
	x, y := make([]float64, len(p.Kept)), make([]float64, len(p.Kept))
	for i, k := range p.Kept {
		if k.X <= 0 {
			return Warning{}, false
		}
		x[i], y[i] = math.Log(k.X), math.Log(k.Y)
	}
	sx, sy := scale(x), scale(y)
	if max(sx, sy) == 0 {
		return Warning{}, false
	}
	// Spreads of the same noise often differ by as much; sums and differences of pairs
	// are correlated if and only if the variances differ (Pitman 1939, Morgan 1939).
	sums, differences := make([]float64, len(x)), make([]float64, len(x))
	for i := range x {
		sums[i], differences[i] = x[i]+y[i], x[i]-y[i]
	}
	pValue := correlationP(sums, differences)
	figure := min(sx, sy) / max(sx, sy)
	return Warning{WarnUnequalNoise, figure, limitNoise,
		fmt.Sprintf("%s varies by %.2f%% between rounds and %s by %.2f%% (p = %.2g): Hodges–Lehmann and mean then estimate something else than the median",
			p.Numerator, 100*sx, p.Denominator, 100*sy, pValue)}, figure < limitNoise && pValue < limitP
}

func ties(p Pairs, _ float64) (Warning, bool) {
	r := p.Ratios()
	if len(r) < 2 {
		return Warning{}, false
	}
	slices.Sort(r)
	tied := 0
	for i, v := range r {
		if i > 0 && same(r[i-1], v) || i+1 < len(r) && same(v, r[i+1]) {
			tied++
		}
	}
	return Warning{WarnTies, float64(tied) / float64(len(r)), 0,
		fmt.Sprintf("%d of %d values equal another: record more digits; levels are lower bounds", tied, len(r))}, tied > 0
}

// TwoModes describes values as two groups.
type TwoModes struct {
	Low, High float64 // the medians of the groups
	LowShare  float64 // of the values in the lower group
	// Separation is the gap between the groups over the robust standard deviation
	// within them.
	Separation float64
	// Limit is what the separation of one normal group exceeds in about one set of
	// a hundred, and at least 1.5. 40/(n-5) was fitted to simulated sets of 9 to 100
	// values; a test holds it to that.
	Limit float64
}

// Modes splits values at the widest gap that leaves at least a fifth of them, and
// three, on each side. It fails for fewer than nine finite values or if there is no
// gap or no spread within the groups to compare it with.
func Modes(values []float64) (TwoModes, bool) {
	x := slices.Sorted(slices.Values(values))
	n := len(x)
	if n < limitPairs || slices.ContainsFunc(x, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		return TwoModes{}, false
	}
	least := max(3, (n+4)/5)
	split := least
	for i := least; i <= n-least; i++ {
		if x[i]-x[i-1] > x[split]-x[split-1] {
			split = i
		}
	}
	low, high := x[:split], x[split:]
	m := TwoModes{Low: Median(low), High: Median(high), LowShare: float64(split) / float64(n), Limit: max(1.5, 40/float64(n-5))}
	var within []float64
	for _, v := range low {
		within = append(within, v-m.Low)
	}
	for _, v := range high {
		within = append(within, v-m.High)
	}
	sd := scale(within)
	if sd == 0 {
		return TwoModes{}, false
	}
	m.Separation = (x[split] - x[split-1]) / sd
	return m, true
}

// ChainWarnings returns a warning for every two comparisons a/b and b/c whose
// medians a reader might multiply: with the direct median of a/c beside the
// product where there is one.
func ChainWarnings(comparisons []Comparison) []Warning {
	var w []Warning
	for _, ab := range comparisons {
		for _, bc := range comparisons {
			a, b, c := ab.Pairs.Numerator, ab.Pairs.Denominator, bc.Pairs.Denominator
			if b != bc.Pairs.Numerator || a == c || len(ab.Ratios) == 0 || len(bc.Ratios) == 0 {
				continue
			}
			product := ab.Median * bc.Median
			found := Warning{Name: WarnChained, Figure: product,
				Text: fmt.Sprintf("medians do not chain: %s/%s is not the product %.4f; ask for it directly", a, c, product)}
			for _, ac := range comparisons {
				if ac.Pairs.Numerator == a && ac.Pairs.Denominator == c && len(ac.Ratios) > 0 {
					found.Limit = ac.Median
					found.Text = fmt.Sprintf("medians do not chain: %s/%s is %.4f, not the product %.4f of %s/%s and %s/%s", a, c, ac.Median, product, a, b, b, c)
				}
			}
			w = append(w, found)
		}
	}
	return w
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
