package stats

import (
	"fmt"
	"math"
)

// Better is the direction in which a metric improves.
type Better string

// The directions.
const (
	Higher Better = "higher"
	Lower  Better = "lower"
)

// Verdict is what an interval says about a margin.
type Verdict string

// The verdicts. That a machine or trial was unfit to measure is not for a pure
// function of an interval to find.
const (
	Pass         Verdict = "PASS"
	Fail         Verdict = "FAIL"
	Inconclusive Verdict = "INCONCLUSIVE"
)

// Rule says when a ratio to a base passes.
type Rule struct {
	// Margin is the loss that is accepted, 0.02 for 2%; from 0 to below 1.
	Margin float64
	Better Better // Higher if empty
	// FailBeyond makes FAIL stricter: only a loss proven to exceed it fails. 0,
	// the default, fails every proven loss that does not pass.
	FailBeyond float64
}

// Judgement is a verdict with what should be said beside it.
type Judgement struct {
	Verdict Verdict `json:"verdict"`
	// Loss bounds the loss that the interval allows, 0.013 for 1.3%; negative if
	// all of it is a gain. 0 without an interval.
	Loss float64 `json:"loss"`
	// Note is "" or a remark, such as that it is slower within the margin.
	Note string `json:"note,omitempty"`
}

// Check returns an error if the rule makes no sense.
func (r Rule) Check() error {
	switch {
	case !(r.Margin >= 0 && r.Margin < 1):
		return fmt.Errorf("margin %g: give a share from 0 to below 1, as 0.02 for 2%%", r.Margin)
	case !(r.FailBeyond >= 0 && r.FailBeyond < 1):
		return fmt.Errorf("fail beyond %g: give a share from 0 to below 1", r.FailBeyond)
	case r.Better != "" && r.Better != Higher && r.Better != Lower:
		return fmt.Errorf("better %q: it is %q or %q", r.Better, Higher, Lower)
	}
	return nil
}

// Judge applies the rule to the interval of a ratio. For a metric that is better
// when higher: PASS if the lower end lies above 1-Margin; FAIL if not and the
// upper end lies below 1-FailBeyond; INCONCLUSIVE otherwise, as without an
// interval. For one that is better when lower, the ends and signs change places.
// With a 95% interval a true loss of Margin or more passes, and no loss fails, at
// most 2.5% of the time each. It panics if Check returns an error.
func (r Rule) Judge(iv Interval) Judgement {
	if err := r.Check(); err != nil {
		panic(err)
	}
	if !iv.Ok() {
		return Judgement{Verdict: Inconclusive, Note: iv.Explain()}
	}
	// most and least bound the loss.
	most, least := 1-iv.Low, 1-iv.High
	pass, fail := iv.Low > 1-r.Margin, iv.High < 1-r.FailBeyond
	if r.Better == Lower {
		most, least = iv.High-1, iv.Low-1
		pass, fail = iv.High < 1+r.Margin, iv.Low > 1+r.FailBeyond
	}
	j := Judgement{Verdict: Inconclusive, Loss: most}
	if math.IsNaN(iv.Low) || math.IsNaN(iv.High) {
		return Judgement{Verdict: Inconclusive, Note: "the interval is not a number"}
	}
	switch {
	case pass:
		j.Verdict = Pass
		if least > 0 {
			j.Note = "worse, within the margin"
		}
	case fail:
		j.Verdict = Fail
	}
	return j
}
