// Package stats says how sure a measured ratio is: intervals for the median of
// same-round ratios with the level they really hold, warnings about what the
// intervals cannot see, and a verdict on one interval. It computes on numbers
// only: it runs nothing, reads no result record and knows no metric.
//
// # From readings to a comparison
//
//	base := stats.Series{Variant: "base", Readings: []stats.Reading{{Round: 1, Slot: 0, Value: 30.91}, …}}
//	tracked := stats.Series{Variant: "tracked", Readings: …} // Reading.Invalid says why one may not be used
//	pairs, err := stats.Pair(tracked, base)                  // same-round pairs; those left out are named
//	c := stats.Compare(pairs, 0.95)                          // median, intervals, worst case, warnings
//	v := stats.Rule{Margin: 0.02, Better: stats.Higher}.Judge(c.Interpolated)
//
// [Compare] is a convenience; every interval is a function of plain numbers and
// a confidence level, and returns an [Interval]:
//
//	Median(values)                        the sample median
//	Interpolated(values, level)           interpolated order statistics: the default, and what verdicts use
//	ExactBootstrap(values, level)         percentile bootstrap of the median, exact, without a seed
//	Conservative(values, level)           two of the values, with the exact level
//	WorstCase(values, dropped, level)     the same whatever the dropped values were
//	HodgesLehmann(values, level)          pseudomedian of the logarithms, exact signed ranks
//	LogT(values, level)                   geometric mean, Student's t on logarithms
//	TrimmedLogT(values, level)            the same on logarithms trimmed by a fifth at each end
//	Anytime(values, level)                valid however often one looks
//	Stratified(pairs, level)              slot effect estimated and removed
//	Unpaired(x, y, level)                 ratio of samples of different rounds: weaker, see there
//	Bootstrap(n, statistic, options)      seeded resampling for other statistics
//
// Several looks at growing data need [Anytime], or looks planned before with the level
// of [PocockLevel]. [PBelow], [PAbove] and [Holm] are for several comparisons at once,
// [Claims] for what they allow to be said, and [Noise], [RoundsNeeded] and [Resolvable]
// for the plan of an experiment. [Summarize] is for numbers of any kind.
//
// # Assumptions
//
// All intervals take the values as independent draws of one distribution. None
// repairs an order that favours one variant, drift inside a round, or rounds
// that depend on each other: [Compare] tests for these and warns. What else a
// level rests on is in [Interval.Basis]: nothing (any continuous distribution),
// symmetry of the logarithms, or a normal distribution. Two ratios are compared
// on the ratio's own scale by the median and its intervals; Hodges–Lehmann and
// the t intervals use logarithms and exponentiate. At an even number of values
// the median of ratios is therefore not exactly the reciprocal of the median of
// inverse ratios. Medians of ratios do not chain: a/c is measured, never
// multiplied from a/b and b/c.
//
// With ties the distribution is not continuous: levels of order statistics are
// then lower bounds, and [Compare] warns.
//
// # What values are accepted
//
// Order-statistic and bootstrap intervals of the median take any finite values,
// zero and negative ones too (differences are data as well). Intervals on
// logarithms need positive values. NaN and infinite values give no interval.
// An interval that does not exist has a [Reason] in Absent and no ends: fewer
// than [MinValues] values never give one.
//
// # What is not offered
//
//   - BCa bootstrap of a median: its acceleration comes from a jackknife, which
//     is not valid for a median, and ties at the estimate leave its bias
//     correction undefined; two well-known programs give different intervals
//     for the same seven numbers.
//   - Basic (reflected) bootstrap: it mirrors an asymmetric set of atoms about
//     the estimate; with 20 ratios of a variant with two modes, a stated 95%
//     covers about a fifth of the time.
//   - Studentised bootstrap of a median: a resample with many equal values has
//     a spread near zero; with nine such ratios a stated 95% covers about two
//     thirds of the time.
//   - Bootstrap of the mean of a few rounds: too narrow, with about 86% for six
//     ratios of normal noise, and one disturbed round moves the mean.
//
// The tests of the package coverage below this one show the last three; its
// recorded table has those that are offered.
//
// Functions of this package are pure, keep no state and may be called from any
// goroutine. None changes the slices it is given.
package stats
