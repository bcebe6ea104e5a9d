package coverage

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Design is a form of noise of an experiment with a known truth. A ratio is the
// throughput of a variant over that of a base, or the time of the base over that of
// the variant.
type Design struct {
	Name string
	What string
	// Sound is false where rounds depend on each other or on their order, so that
	// no interval can be expected to hold its level.
	Sound bool
	// draw fills the logarithms of the ratios of one experiment.
	draw func(rng *rand.Rand, logs []float64)
	// median is the true median of the logarithm of a ratio. targets are drawn from
	// the design if it is not symmetric about it.
	median    float64
	symmetric bool
}

// Designs returns all designs.
func Designs() []Design {
	const (
		coreSD = 0.014 // of a ratio with rare slowdowns
		modeSD = 0.005 // of a run within a mode
		slow   = 0.05  // of the slower mode
	)
	log1p := math.Log1p
	each := func(one func(rng *rand.Rand) float64) func(*rand.Rand, []float64) {
		return func(rng *rand.Rand, logs []float64) {
			for i := range logs {
				logs[i] = one(rng)
			}
		}
	}
	slowdown := func(rng *rand.Rand, p float64) float64 {
		if rng.Float64() >= p {
			return 0
		}
		return -log1p(-0.1 - 0.3*rng.Float64())
	}
	mode := func(rng *rand.Rand, p float64) float64 {
		if rng.Float64() >= p {
			return 0
		}
		return -log1p(-slow)
	}
	// oneMode is the median where the variant alone is in the slower mode with p.
	oneMode := func(p float64) float64 {
		return mixtureMedian(modeSD*math.Sqrt2, p, func(phi func(shift float64) float64) float64 { return phi(-log1p(-slow)) })
	}
	// A drift of the machine from round to round is the same for both variants of a
	// round, and cancels; the slot does not.
	rounds := func(rotate bool) func(*rand.Rand, []float64) {
		return func(rng *rand.Rand, logs []float64) {
			for i := range logs {
				effect := log1p(-0.01) // the variant runs second
				if rotate && i%2 == 1 {
					effect = -effect
				}
				logs[i] = 0.01*math.Sqrt2*rng.NormFloat64() + effect
			}
		}
	}
	return []Design{
		{"normal", "normal noise, 2% of the ratio", true,
			each(func(r *rand.Rand) float64 { return 0.02 * r.NormFloat64() }), 0, true},
		{"skewed-both", "both run times 1 + Exp(2%)", true,
			each(func(r *rand.Rand) float64 { return log1p(0.02*r.ExpFloat64()) - log1p(0.02*r.ExpFloat64()) }), 0, true},
		{"skewed-one", "the variant's run time 1 + Exp(3%), a steady base", true,
			each(func(r *rand.Rand) float64 { return -log1p(0.03 * r.ExpFloat64()) }), -log1p(0.03 * math.Ln2), false},
		{"slowdowns-both", "noise of 1.4%; each run loses 10 to 40% of its throughput with a chance of 5%", true,
			each(func(r *rand.Rand) float64 { return coreSD*r.NormFloat64() + slowdown(r, 0.05) - slowdown(r, 0.05) }), 0, true},
		{"slowdowns-one", "noise of 1.4%; the variant alone loses 10 to 40% with a chance of 10%", true,
			each(func(r *rand.Rand) float64 { return coreSD*r.NormFloat64() - slowdown(r, 0.1) }),
			mixtureMedian(coreSD, 0.1, func(phi func(float64) float64) float64 {
				return quad.Fixed(func(u float64) float64 { return phi(-log1p(-0.1 - 0.3*u)) }, 0, 1, 64, quad.Legendre{}, 0)
			}), false},
		{"modes-both", "each run loses 5% half of the time, noise of 0.5% within a mode", true,
			each(func(r *rand.Rand) float64 { return modeSD*math.Sqrt2*r.NormFloat64() + mode(r, 0.5) - mode(r, 0.5) }), 0, true},
		{"modes-one-30", "the variant alone loses 5%, 30% of the time", true,
			each(func(r *rand.Rand) float64 { return modeSD*math.Sqrt2*r.NormFloat64() - mode(r, 0.3) }), oneMode(0.3), false},
		{"modes-one-50", "the variant alone loses 5% half of the time: the median lies in the gap", true,
			each(func(r *rand.Rand) float64 { return modeSD*math.Sqrt2*r.NormFloat64() - mode(r, 0.5) }), oneMode(0.5), true},
		{"rotating-order", "runs vary by 1%, the second of a round loses 1%, the order rotates", true,
			rounds(true), 0, true},
		{"fixed-order", "the same with the variant always second", false, rounds(false), 0, true},
		{"neighbours", "ratios of 2% noise correlated from round to round, AR(1) with 0.5", false,
			func(r *rand.Rand, logs []float64) {
				x := r.NormFloat64()
				for i := range logs {
					logs[i] = 0.02 * x
					x = 0.5*x + math.Sqrt(0.75)*r.NormFloat64()
				}
			}, 0, true},
	}
}

// mixtureMedian returns the median of a normal value with that standard deviation
// from which, with probability p, a shift is taken; over gives the mean of a function
// of the shift.
func mixtureMedian(sd, p float64, over func(func(shift float64) float64) float64) float64 {
	low, high := -1.0, 1.0
	for range 80 {
		t := (low + high) / 2
		cdf := (1-p)*distuv.UnitNormal.CDF(t/sd) + p*over(func(shift float64) float64 { return distuv.UnitNormal.CDF((t + shift) / sd) })
		if cdf < 0.5 {
			low = t
		} else {
			high = t
		}
	}
	return (low + high) / 2
}

// truth is what the methods estimate, on the scale of logarithms.
type truth struct{ median, pseudomedian, mean, trimmed float64 }

// targets returns what the methods estimate: that other than the median is drawn,
// with a seed of its own, where the design is not symmetric.
func (d Design) targets() truth {
	if d.symmetric {
		return truth{d.median, d.median, d.median, d.median}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	logs := make([]float64, 1<<18)
	d.draw(rng, logs)
	t := truth{median: d.median, mean: stat.Mean(logs, nil)}
	means := make([]float64, len(logs)/2)
	for i := range means {
		means[i] = (logs[2*i] + logs[2*i+1]) / 2
	}
	slices.Sort(means)
	slices.Sort(logs)
	t.pseudomedian = means[len(means)/2]
	fifth := len(logs) / 5
	t.trimmed = stat.Mean(logs[fifth:len(logs)-fifth], nil)
	return t
}
