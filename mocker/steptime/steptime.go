// Package steptime says how long a pass of an engine takes: one forward step over
// a batch of prompt chunks and of requests that generate a token each. It has
// models of time, a reader of measured profiles, and ready presets.
//
// It knows nothing of blocks, queues or virtual clocks. Every model here is a
// coarse one, and its limits are part of its preset: conclusions that hang on a
// difference of a few per cent between passes are not supported by it.
package steptime

import (
	"fmt"
	"math"
)

// Pass is what one step computes. The zero value computes nothing.
type Pass struct {
	// Chunks is the number of requests that compute tokens which are known
	// already: those of a prompt, or of an answer whose blocks were lost.
	Chunks int
	// New is the sum of the tokens that they compute, Before that of the tokens
	// that each has before them, from the cache or from earlier passes.
	New, Before int64
	// TwicePairs is twice the pairs of a new token and a token that it attends
	// to: the sum of new*(2*before+new). It does not depend on how a prompt is
	// cut into chunks.
	TwicePairs int64
	// Decodes is the number of requests that compute the token generated last,
	// and Context the sum of their lengths with that token.
	Decodes int
	Context int64
	// Capacity is the tokens that the engine's block pool can hold.
	Capacity int64
}

// AddChunk adds a request that computes n tokens after before others.
func (p *Pass) AddChunk(n, before int) {
	p.Chunks++
	p.New += int64(n)
	p.Before += int64(before)
	p.TwicePairs += int64(n) * (2*int64(before) + int64(n))
}

// AddDecode adds a request of length tokens, the last of which is computed.
func (p *Pass) AddDecode(length int) {
	p.Decodes++
	p.Context += int64(length)
}

// Model gives durations. Implementations are pure and safe for concurrent use.
type Model interface {
	// Nanos returns the duration of a pass that computes something, in ns. It is
	// more than 0 and finite, or the run ends with an error.
	Nanos(p *Pass) float64
	// String names the model with its coefficients, as results record it.
	String() string
}

// Of returns the duration of a pass in whole ns, and an error if the model does
// not give one that can be played: NaN, nothing, less, or more than 10^15 ns.
func Of(m Model, p *Pass) (int64, error) {
	ns := m.Nanos(p)
	const most = 1e15 // 11 days
	if !(ns >= 0.5 && ns <= most) {
		return 0, fmt.Errorf("the time model %v gives %g ns to a pass of %d new tokens in %d chunks and %d decodes; a pass takes 1 to %g ns",
			m, ns, p.New, p.Chunks, p.Decodes, float64(most))
	}
	whole := int64(ns)
	if ns-float64(whole) >= 0.5 { // exact at this size
		whole++
	}
	return whole, nil
}

// Linear is the sum of a constant and of what computing, attending and reading
// the context cost:
//
//	Base + PerToken*(new+decodes) + PerPair*pairs + PerContext*context
//
// Attention is paid for every pair, so a late chunk of a long prompt costs more
// than an early one, and cutting a prompt costs one Base for each chunk more.
type Linear struct {
	Base       float64 // ns of a pass: reading the weights, launching
	PerToken   float64 // ns of a computed token
	PerPair    float64 // ns of a prompt token and a token that it attends to
	PerContext float64 // ns of a token of context that a decode reads
}

// Validate returns an error if a coefficient is negative or not finite, or if a
// pass would take no time.
func (m Linear) Validate() error {
	for _, c := range []struct {
		name  string
		value float64
	}{{"base", m.Base}, {"token", m.PerToken}, {"pair", m.PerPair}, {"context", m.PerContext}} {
		if !(c.value >= 0) || math.IsInf(c.value, 0) {
			return fmt.Errorf("time model: coefficient %s is %g; it must be finite and not negative", c.name, c.value)
		}
	}
	if m.Base+m.PerToken < 1 {
		return fmt.Errorf("time model: a pass of one token takes %g ns; base and token must give at least 1", m.Base+m.PerToken)
	}
	return nil
}

// Nanos implements Model. Products are converted, which forbids fused operations:
// these would give other sums on other CPUs.
func (m Linear) Nanos(p *Pass) float64 {
	return m.Base + float64(m.PerToken*float64(p.New+int64(p.Decodes))) +
		float64(m.PerPair*(float64(p.TwicePairs)/2)) + float64(m.PerContext*float64(p.Context))
}

// String implements Model.
func (m Linear) String() string {
	return fmt.Sprintf("linear(base=%gns,token=%gns,pair=%gns,context=%gns)", m.Base, m.PerToken, m.PerPair, m.PerContext)
}

// Polynomial is compatible with the polynomials that public mock engines use
// where no measured profile is given:
//
//	prefill ms = 4.209989e-07*T^2 + 1.518344e-02*T + 16.50142, 0 if T = 0
//	decode ms  = max(1, -25.74*u^2 + 54.01*u + 5.74), 0 without decodes
//
// T is the number of chunks times the difference of the means, in whole tokens,
// of the positions after and before them; u is the context of the decodes as a
// share of the pool, 1 at most. A pass takes the sum of both.
type Polynomial struct{}

// Nanos implements Model.
func (Polynomial) Nanos(p *Pass) float64 {
	ms := 0.0
	if p.Chunks > 0 {
		n := int64(p.Chunks)
		if t := float64(n * ((p.Before+p.New)/n - p.Before/n)); t > 0 {
			ms = float64(float64(4.209989e-07*t)*t) + float64(1.518344e-02*t) + 16.50142
		}
	}
	if p.Decodes > 0 {
		u := 1.0
		if p.Context < p.Capacity {
			u = float64(p.Context) / float64(p.Capacity)
		}
		ms += max(1, float64(float64(-25.74*u)*u)+float64(54.01*u)+5.74)
	}
	return ms * 1e6
}

// String implements Model.
func (Polynomial) String() string { return "polynomial" }

// Scaled divides the durations of a model.
type Scaled struct {
	Model Model
	By    float64 // finite and above 0
}

// Nanos implements Model.
func (s Scaled) Nanos(p *Pass) float64 { return s.Model.Nanos(p) / s.By }

// String implements Model.
func (s Scaled) String() string { return fmt.Sprintf("%v/%g", s.Model, s.By) }
