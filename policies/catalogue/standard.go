package catalogue

import "github.com/kvbench/kvbench/policies"

// Standard returns the policies and components that come with kvbench.
func Standard() []Definition {
	var all []Definition
	all = append(all, balancing()...)
	return all
}

// measure is the parameter that says how load is counted.
var measure = Param{Name: "by", Type: Choice, Default: "requests", Choices: []string{"requests", "tokens"},
	Doc: "how load is counted: requests in flight, or tokens yet to be prefilled and held by active requests"}

func measureOf(v Values) policies.Measure {
	if v.Choice("by") == "tokens" {
		return policies.ByTokens
	}
	return policies.ByRequests
}

// picks is the recipe of a picker alone.
func picks(p policies.Picker) (policies.Recipe, error) {
	return policies.Recipe{Picker: policies.Named[policies.Picker]{Component: p}}, nil
}

// balancing are the policies that know nothing of caches.
func balancing() []Definition {
	return []Definition{
		{
			Name: "round-robin", Summary: "each rank in turn",
			Doc:       "Picks the candidate after the one that got the last request, in the order of the slots.",
			Source:    "in every load balancer",
			GoesWrong: "Requests differ in size: ranks that happen to get the long ones fall behind, and nothing is ever found in a cache but by luck.",
			Build:     func(Values) (policies.Recipe, error) { return picks(&policies.RoundRobin{}) },
		},
		{
			Name: "random", Summary: "any rank with the same probability",
			Doc:       "Picks any candidate with the same probability.",
			Source:    "in every load balancer",
			GoesWrong: "By chance some ranks get far more than their share for a while.",
			Build:     func(Values) (policies.Recipe, error) { return picks(policies.Random{}) },
		},
		{
			Name: "least-loaded", Summary: "the rank with the least load",
			Doc:       "Picks the candidate with the least load, any of those that are equal with the same probability. A rank of unknown load counts as the most loaded one known.",
			Source:    "in every load balancer",
			GoesWrong: "With several routers, or load that is reported late, all send to the same rank until its load shows.",
			Params:    []Param{measure},
			Build:     func(v Values) (policies.Recipe, error) { return picks(policies.NewLeastLoaded(measureOf(v))) },
		},
		{
			Name: "power-of-two", Summary: "the less loaded of two ranks drawn at random",
			Doc:       "Draws two candidates and picks the less loaded one. A rank of unknown load loses to any other.",
			Source:    "default of Ray Serve LLM; AIBrix, SGLang model gateway",
			GoesWrong: "With few ranks it often passes over the idle one: of four, two drawn miss a given rank half the time.",
			Params:    []Param{measure},
			Build:     func(v Values) (policies.Recipe, error) { return picks(policies.PowerOfTwo{By: measureOf(v)}) },
		},
	}
}
