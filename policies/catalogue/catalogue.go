// Package catalogue names the ready policies and the components that policies
// can be composed of, and makes policies from text.
//
// A policy is written as its name and the parameters that differ from their
// defaults, or composed of filters, scorers with their weights, and a picker:
//
//	kv:temperature=0.2,overlap=1.5
//	session:ttl=5m,inner=kv(temperature=0.2,overlap=1.5)
//	filter(requests-below:64) score(cache=1,load(by=tokens)=0.5) pick(min)
//	@policy.yaml
//
// Parameters stand after a colon up to the end, or in parentheses; within a list
// a colon takes one. The first parameter of a definition may go without its
// name. A YAML file says the same: see Parse.
//
// The package decides nothing itself: the rules are in package policies.
package catalogue

import (
	"fmt"
	"slices"
	"time"

	"github.com/kvbench/kvbench/policies"
)

// Kind is what a definition can be used as.
type Kind uint8

// The kinds. A component's Recipe has one scorer, filter or picker and nothing else.
const (
	KindPolicy Kind = iota
	KindFilter
	KindScorer
	KindPicker
)

// String returns the kind in lower case.
func (k Kind) String() string { return [...]string{"policy", "filter", "scorer", "picker"}[k] }

// Definition is a policy or a component that has a name.
type Definition struct {
	// Kind is KindPolicy unless said.
	Kind Kind
	// Name is how the user asks for it: lower-case letters, digits and dashes.
	// It is the only one of its kind.
	Name string
	// Summary is one line for lists.
	Summary string
	// Doc is the rule, in full sentences.
	Doc string
	// Source says whose rule it is.
	Source string
	// GoesWrong is a case in which it does badly.
	GoesWrong string
	// Params are its parameters; the first may be given without its name.
	Params []Param
	// Build makes what the definition stands for, new at every call. Names of
	// components that it leaves empty are set to the definition's, and a scorer's
	// own weight to 1 if Kind is KindScorer; the weights of a policy's scorers stay
	// as they are, so that one of 0 has no effect. The error says what is wrong with
	// values that are each in their range.
	Build func(Values) (policies.Recipe, error)
}

// Type is the type of a parameter.
type Type uint8

// The types.
const (
	Number   Type = iota // a float64
	Integer              // an int
	Duration             // as 90s or 5m
	Choice               // one of Param.Choices
	Inner                // a policy
)

// String returns the name of the type.
func (t Type) String() string {
	return [...]string{"number", "integer", "duration", "choice", "policy"}[t]
}

// Param is a parameter of a definition.
type Param struct {
	Name string
	Doc  string
	Type Type
	// Default is the value, written as a user would.
	Default string
	// Min and Max bound a number, an integer, or a duration in seconds. Both are
	// allowed values, but Min is not if Above is set, and an infinite Max is
	// written inf.
	Min, Max float64
	Above    bool
	// Choices are the values of a Choice.
	Choices []string
}

// Values are the parameters of one use of a definition. All of them are set and
// in range.
type Values struct {
	byName map[string]any
}

// Float returns a Number.
func (v Values) Float(name string) float64 { return v.byName[name].(float64) }

// Int returns an Integer.
func (v Values) Int(name string) int { return v.byName[name].(int) }

// Duration returns a Duration.
func (v Values) Duration(name string) time.Duration { return v.byName[name].(time.Duration) }

// Choice returns a Choice.
func (v Values) Choice(name string) string { return v.byName[name].(string) }

// Inner returns what an Inner policy is made of, new at every call.
func (v Values) Inner(name string) (policies.Recipe, error) {
	return v.byName[name].(*use).recipe()
}

// Policy is a policy that was parsed and checked.
type Policy struct {
	// Name is the name of the definition, "composed" if there is none.
	Name string
	// Text is the shortest text that gives this policy.
	Text string
	// Full is Text with every parameter, so that it means the same when a default
	// changes.
	Full string

	use    *use
	inputs policies.Inputs
}

// New makes a pipeline with a state of its own. seed decides its random choices.
func (p *Policy) New(seed uint64) (*policies.Pipeline, error) {
	r, err := p.use.recipe()
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.Text, err)
	}
	pl, err := policies.NewPipeline(r, seed)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.Text, err)
	}
	return pl, nil
}

// Inputs returns what the policy reads.
func (p *Policy) Inputs() policies.Inputs { return p.inputs }

// Merge returns the definitions with the added ones in the place of those of the
// same kind and name.
func Merge(defs, added []Definition) []Definition {
	out := slices.Clone(defs)
	for _, d := range added {
		same := func(e Definition) bool { return e.Kind == d.Kind && e.Name == d.Name }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = d
		} else {
			out = append(out, d)
		}
	}
	return out
}
