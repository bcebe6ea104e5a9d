package mocker

import (
	"fmt"
	"math"
)

// ContextAware is a time model in which attention to a long context costs:
//
//	prefill = Base + PerToken*new + PerPair*new*(cached + new/2)
//	decode  = DecodeBase + DecodePerToken*context
//
// Each new token attends to all tokens before it, so the pairs of a prefill are
// new*cached + new*new/2 whether it is computed at once or in chunks.
type ContextAware struct {
	Base           float64 // ns of a prefill
	PerToken       float64 // ns for a new token
	PerPair        float64 // ns for a new token and a token that it attends to
	DecodeBase     float64 // ns of a decode step
	DecodePerToken float64 // ns for a token of context
}

// DefaultTime is of the order of an 8B-parameter model on one data-centre GPU:
// about 20,000 new tokens/s of prefill and 100 generated tokens/s. It was chosen
// to be plausible and measured on nothing; conclusions must not hang on it.
var DefaultTime = ContextAware{
	Base:           5e6,
	PerToken:       50e3,
	PerPair:        0.5,
	DecodeBase:     10e6,
	DecodePerToken: 50,
}

// String names the model with its coefficients, as results record it.
func (m ContextAware) String() string {
	return fmt.Sprintf("context-aware(base=%gns,token=%gns,pair=%gns,decode=%gns,context=%gns)",
		m.Base, m.PerToken, m.PerPair, m.DecodeBase, m.DecodePerToken)
}

// Validate returns an error if a coefficient is negative or not finite.
func (m ContextAware) Validate() error {
	for _, c := range []struct {
		name  string
		value float64
	}{
		{"base", m.Base}, {"token", m.PerToken}, {"pair", m.PerPair}, {"decode", m.DecodeBase}, {"context", m.DecodePerToken},
	} {
		if !(c.value >= 0) || math.IsInf(c.value, 0) {
			return fmt.Errorf("time model: coefficient %s is %g; it must be finite and not negative", c.name, c.value)
		}
	}
	return nil
}

// Prefill implements TimeModel.
func (m ContextAware) Prefill(newTokens, cachedTokens int) int64 {
	if newTokens == 0 {
		return 0
	}
	n, c := float64(newTokens), float64(cachedTokens)
	return nanos(m.Base + float64(m.PerToken*n) + float64(m.PerPair*n*(c+n/2)))
}

// Decode implements TimeModel.
func (m ContextAware) Decode(contextTokens int) int64 {
	return nanos(m.DecodeBase + float64(m.DecodePerToken*float64(contextTokens)))
}

// nanos rounds to whole ns. Products that go into ns are converted to float64,
// which forbids fused operations: these would give other sums on other CPUs.
func nanos(ns float64) int64 {
	if !(ns < math.MaxInt64) {
		return math.MaxInt64
	}
	return int64(math.Round(ns))
}
