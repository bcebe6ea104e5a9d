package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/montanaflynn/stats"
)

// MinValues is the smallest number of values that any interval is given for:
// with five, even the range covers the median with only 93.75%.
const MinValues = 6

// maxExact is the largest number of values for the methods that look at all
// pairs of values; their time and memory grow with its square.
const maxExact = 500

// Method is the stable name of a way to compute an interval.
type Method string

// The methods.
const (
	MethodInterpolated   Method = "interpolated-order-statistic"
	MethodExactBootstrap Method = "exact-bootstrap-of-median"
	MethodConservative   Method = "order-statistic"
	MethodWorstCase      Method = "worst-case-of-dropped"
	MethodHodgesLehmann  Method = "hodges-lehmann"
	MethodLogT           Method = "t-on-logarithms"
	MethodTrimmedLogT    Method = "trimmed-t-on-logarithms"
	MethodAnytime        Method = "anytime-sign-sequence"
	MethodStratified     Method = "stratified-by-order"
	MethodUnpaired       Method = "unpaired-hodges-lehmann"
	MethodPercentile     Method = "percentile-bootstrap"
	MethodMovingBlock    Method = "moving-block-bootstrap"
)

// Basis says for which distributions of independent values a true level holds.
type Basis string

// The bases.
const (
	// AnyContinuous: exact for every continuous distribution, a lower bound with ties.
	AnyContinuous Basis = "any continuous distribution"
	// Symmetric: exact for every continuous distribution that is symmetric (on
	// the scale of the method).
	Symmetric Basis = "symmetric distributions"
	// Normal: exact for normal values (on the scale of the method).
	Normal Basis = "normal distributions"
	// SameForm: exact for any two continuous distributions that differ by a factor.
	SameForm Basis = "distributions that differ by a factor"
	// Nominal: the asked level, reached approximately or for many values only.
	Nominal Basis = "nominal"
)

// Reason says why an interval is absent. The zero value means that it is there.
type Reason string

// The reasons.
const (
	TooFewValues    Reason = "too-few-values"       // fewer than MinValues
	TooManyValues   Reason = "too-many-values"      // more than the method can look at in pairs
	LevelUnreached  Reason = "level-unreached"      // not even the smallest and the largest value reach the level
	NotFinite       Reason = "not-finite"           // NaN or an infinite value
	NotPositive     Reason = "not-positive"         // zero or a negative value, on a scale of logarithms
	BadLevel        Reason = "bad-level"            // the level is not between 0 and 1
	TooManyDropped  Reason = "too-many-dropped"     // the dropped values could move the end anywhere
	OrderUnknown    Reason = "order-unknown"        // no slots, or only one order was run
	BadOptions      Reason = "bad-options"          // resamples or block length out of range
	StatisticFailed Reason = "statistic-not-finite" // the statistic of a resample was NaN or infinite
	EndTooLarge     Reason = "end-too-large"        // an end or the estimate is too large for a number
)

// Interval is a confidence interval, or the reason why there is none.
type Interval struct {
	Method Method `json:"method"`
	// N is the number of values used.
	N int `json:"n"`
	// Estimate is what the method estimates: the median, for HodgesLehmann the
	// pseudomedian, for LogT the geometric mean. 0 if there are no usable values.
	Estimate float64 `json:"estimate"`
	// Low and High are the ends, without meaning if Absent is set.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Level is the level that was asked for, such as 0.95.
	Level float64 `json:"level"`
	// TrueLevel is the share of repetitions in which such an interval covers
	// what it estimates, for the distributions that Basis names. 0 if Absent.
	TrueLevel float64 `json:"true_level"`
	Basis     Basis   `json:"basis,omitempty"`
	// LevelMin and LevelMax bound the level for any continuous distribution;
	// both 0 where no such bounds are known.
	LevelMin float64 `json:"level_min,omitempty"`
	LevelMax float64 `json:"level_max,omitempty"`
	Absent   Reason  `json:"absent,omitempty"`
}

// Ok says whether there is an interval.
func (iv Interval) Ok() bool { return iv.Absent == "" }

// bounded returns the interval, or that there is none if a figure of it is infinite,
// as the exponential of a large logarithm is.
func (iv Interval) bounded() Interval {
	for _, v := range []float64{iv.Estimate, iv.Low, iv.High} {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			reason := EndTooLarge
			if !iv.Ok() {
				reason = iv.Absent
			}
			return Interval{Method: iv.Method, N: iv.N, Level: iv.Level, Absent: reason}
		}
	}
	return iv
}

// Contains says whether v lies within the interval, ends included. An absent
// interval excludes nothing.
func (iv Interval) Contains(v float64) bool { return !iv.Ok() || iv.Low <= v && v <= iv.High }

// MarshalJSON writes null for ends and level of an absent interval.
func (iv Interval) MarshalJSON() ([]byte, error) {
	type plain Interval
	if iv.Ok() {
		return json.Marshal(plain(iv))
	}
	return json.Marshal(struct {
		plain
		Low       *float64 `json:"low"`
		High      *float64 `json:"high"`
		TrueLevel *float64 `json:"true_level"`
	}{plain: plain(iv)})
}

// Explain says in a sentence why the interval is absent, "" if it is not.
func (iv Interval) Explain() string {
	switch iv.Absent {
	case "":
		return ""
	case TooFewValues:
		return fmt.Sprintf("%d values; an interval needs at least %d", iv.N, MinValues)
	case TooManyValues:
		if iv.Method == MethodUnpaired {
			return fmt.Sprintf("this method looks at all pairs and takes at most %d values on a side", maxUnpaired)
		}
		return fmt.Sprintf("%d values; this method looks at all pairs and takes at most %d", iv.N, maxExact)
	case LevelUnreached:
		return fmt.Sprintf("%d values do not reach a level of %g%%", iv.N, 100*iv.Level)
	case NotFinite:
		return "there are values that are not finite numbers"
	case NotPositive:
		return "there are values that are not positive, and this method takes logarithms"
	case BadLevel:
		return fmt.Sprintf("the level %g is not between 0 and 1", iv.Level)
	case TooManyDropped:
		return fmt.Sprintf("too many values were dropped: beside them the %d left bound nothing", iv.N)
	case OrderUnknown:
		return "both orders of the two variants are needed, each at least twice, in slots that are known"
	case BadOptions:
		return "the number of resamples or the length of a block is out of range"
	case StatisticFailed:
		return "the statistic of a resample is not a finite number"
	case EndTooLarge:
		return "an end of the interval is too large for a number"
	}
	return string(iv.Absent)
}

// Median returns the middle value, or the mean of the two middle ones; NaN
// without values or if one is NaN.
func Median(values []float64) float64 {
	if slices.ContainsFunc(values, math.IsNaN) {
		return math.NaN()
	}
	m, err := stats.Median(values)
	if err != nil { // no values
		return math.NaN()
	}
	if math.IsInf(m, 0) {
		// The sum of two large values is not finite, their mean is.
		x := slices.Sorted(slices.Values(values))
		return x[(len(x)-1)/2]/2 + x[len(x)/2]/2
	}
	return m
}

// begin fills in what all methods share and finds the common reasons for an
// interval not to be there. It returns the values sorted.
func begin(method Method, values []float64, level float64) (Interval, []float64) {
	iv := Interval{Method: method, N: len(values), Level: level}
	x := slices.Sorted(slices.Values(values))
	switch {
	case slices.ContainsFunc(x, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }):
		iv.Absent = NotFinite
		return iv, nil
	case !(level > 0 && level < 1):
		iv.Absent = BadLevel
	case len(x) < MinValues:
		iv.Absent = TooFewValues
	}
	if len(x) > 0 {
		iv.Estimate = Median(x)
	}
	return iv, x
}
