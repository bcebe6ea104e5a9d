package analysis

import (
	"math"
	"slices"
)

// bursts are the parameters of a process that switches between two rates.
type bursts struct {
	factor  float64 // rate in a burst divided by that outside
	share   float64 // of the time in bursts
	seconds float64 // mean length of a burst
}

const (
	mostBins = 50_000
	emRounds = 200
)

// fitBursts fits a hidden Markov model of two states, each with a Poisson number of
// arrivals in a bin, by the algorithm of Baum and Welch, to arrivals in bins that
// have three on average, and are five times as long as the ticks that times come
// in, if they do. There are no bursts if the Bayesian information criterion finds
// one rate enough, or if the trace has fewer than 20 bins.
func fitBursts(t *times) bursts {
	none := bursts{factor: 1, share: 0, seconds: 1}
	first, span := t.span()
	n := 0
	var gaps []float64
	for i, k := range t.number {
		n += int(k)
		if i > 0 && t.at[i] > t.at[i-1] {
			gaps = append(gaps, t.at[i]-t.at[i-1])
		}
	}
	if span <= 0 || len(gaps) == 0 {
		return none
	}
	width := max(3*span/float64(n), span/mostBins)
	if float64(n) > 2*float64(len(gaps)+1) {
		slices.Sort(gaps)
		width = max(width, 5*gaps[len(gaps)/2])
	}
	bins := make([]float64, int(span/width))
	if len(bins) < 20 {
		return none
	}
	mean := 0.0
	for i, ms := range t.at {
		if b := int((ms - first) / width); b < len(bins) {
			bins[b] += float64(t.number[i])
			mean += float64(t.number[i])
		}
	}
	mean /= float64(len(bins))
	if mean == 0 {
		return none
	}
	m := markov{rate: [2]float64{mean / 2, 3 * mean}, leave: [2]float64{0.05, 0.2}}
	likelihood := math.Inf(-1)
	for range emRounds {
		l := m.improve(bins)
		if l-likelihood < 1e-6*math.Abs(l) {
			break
		}
		likelihood = l
	}
	one := markov{rate: [2]float64{mean, mean}, leave: [2]float64{0.5, 0.5}}
	// Three more parameters must be worth it.
	if 2*(likelihood-one.improve(bins)) < 3*math.Log(float64(len(bins))) {
		return none
	}
	b := bursts{
		factor:  m.rate[1] / max(m.rate[0], 1e-3*mean),
		share:   m.leave[0] / (m.leave[0] + m.leave[1]),
		seconds: width / 1000 / m.leave[1],
	}
	round := func(x float64) float64 { return math.Round(x*1e4) / 1e4 }
	return bursts{round(clamp(b.factor, 1, 1e6)), round(clamp(b.share, 0.0001, 0.999)), round(clamp(b.seconds, 1e-3, 1e6))}
}

// markov is a chain of two states, the second with the higher rate.
type markov struct {
	rate  [2]float64 // arrivals in a bin
	leave [2]float64 // probability that the next bin is in the other state
}

// improve makes one step of Baum and Welch and returns the logarithm of the
// likelihood before it, without the factorials of the arrivals.
func (m *markov) improve(bins []float64) float64 {
	n := len(bins)
	emit := func(k float64) (e [2]float64, scale float64) {
		// The larger one is 1, so that neither vanishes for want of digits.
		a, b := k*math.Log(m.rate[0])-m.rate[0], k*math.Log(m.rate[1])-m.rate[1]
		scale = max(a, b)
		return [2]float64{math.Exp(a - scale), math.Exp(b - scale)}, scale
	}
	stay := [2]float64{1 - m.leave[0], 1 - m.leave[1]}
	total := m.leave[0] + m.leave[1]
	state := [2]float64{m.leave[1] / total, m.leave[0] / total}
	forward := make([][2]float64, n)
	likelihood := 0.0
	for i, k := range bins {
		e, scale := emit(k)
		if i > 0 {
			p := forward[i-1]
			state = [2]float64{p[0]*stay[0] + p[1]*m.leave[1], p[0]*m.leave[0] + p[1]*stay[1]}
		}
		a, b := state[0]*e[0], state[1]*e[1]
		forward[i] = [2]float64{a / (a + b), b / (a + b)}
		likelihood += math.Log(a+b) + scale
	}
	back := [2]float64{1, 1}
	var in, arrived, left [2]float64 // expected bins, arrivals, and changes of state
	last := 0.0
	for i := n - 1; i >= 0; i-- {
		f := forward[i]
		a, b := f[0]*back[0], f[1]*back[1]
		in[0] += a / (a + b)
		in[1] += b / (a + b)
		arrived[0] += bins[i] * a / (a + b)
		arrived[1] += bins[i] * b / (a + b)
		if i == n-1 {
			last = a / (a + b)
		}
		if i == 0 {
			break
		}
		e, _ := emit(bins[i])
		x, y := e[0]*back[0], e[1]*back[1]
		p := forward[i-1]
		change := [4]float64{p[0] * stay[0] * x, p[0] * m.leave[0] * y, p[1] * m.leave[1] * x, p[1] * stay[1] * y}
		sum := change[0] + change[1] + change[2] + change[3]
		left[0] += change[1] / sum
		left[1] += change[2] / sum
		back = [2]float64{stay[0]*x + m.leave[0]*y, m.leave[1]*x + stay[1]*y}
		norm := back[0] + back[1]
		back[0], back[1] = back[0]/norm, back[1]/norm
	}
	// The last bin has none after it.
	outOf := [2]float64{in[0] - last, in[1] - (1 - last)}
	for s := range 2 {
		m.rate[s] = max(arrived[s]/max(in[s], 1e-9), 1e-9)
		m.leave[s] = clamp(left[s]/max(outOf[s], 1e-9), 1e-6, 1)
	}
	if m.rate[0] > m.rate[1] {
		m.rate[0], m.rate[1] = m.rate[1], m.rate[0]
		m.leave[0], m.leave[1] = m.leave[1], m.leave[0]
	}
	return likelihood
}
