package catalogue

import (
	"math"

	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/experimental/residency"
)

// stale is the parameter that bounds how old a count may be.
var stale = Param{Name: "stale", Type: Number, Default: "inf", Min: 0, Max: math.Inf(1),
	Doc: "how many events of its event thread a count may lack; one that may lack more counts as absent"}

const (
	absentRule    = "A rank without a count, or of unknown capacity, costs the mean of the others, never what an empty one does."
	evictionsRule = "The blocks that a placement would evict are max(0, resident + needed - capacity): resident is all blocks that the rank holds, used or idle, needed the blocks of the prompt without the leading ones that it holds. "
	evictionsGap  = "Blocks of the answer are not in it, and evicting what nobody will ask for again costs as much as evicting a system prompt. A cache that is full stays full: after a while every rank evicts what it needs, and only the match tells them apart."
)

// unit is the parameter that says what evictions are counted in.
var unit = Param{Name: "unit", Type: Choice, Default: "blocks", Choices: []string{"blocks", "capacity"}, Doc: "what the cost is in: blocks, or shares of the rank's capacity"}

// residents are the policies and scorers that read how many blocks ranks hold.
func residents() []Definition {
	return []Definition{
		{
			Name: "eviction-pressure", Summary: "the rank that would evict the fewest blocks",
			Doc:       evictionsRule + "Picks the least of that plus load * the requests relative to the other candidates (0 to 1): with load below 1, load only decides between equal evictions. " + absentRule,
			Source:    "ours; the resident counts are an experimental input",
			GoesWrong: "Until caches are full nobody evicts and load alone decides. " + evictionsGap,
			Params:    []Param{weight("load", "0.5", "the weight of the requests, relative to the other candidates"), stale},
			Build: func(v Values) (policies.Recipe, error) {
				return least(policies.Weighted{Name: "evictions", Scorer: residency.NewEvictions(false, v.Float("stale")), Weight: 1},
					policies.Weighted{Name: "load", Scorer: policies.NewRelativeLoad(policies.ByRequests), Weight: v.Float("load")})
			},
		},
		{
			Name: "kv-resident", Summary: "the KV cost, and what the placement would evict",
			Doc:       "Picks the least of the cost of kv plus evict * the blocks that the placement would evict. " + evictionsRule + absentRule + " With a temperature, a candidate is drawn as by the picker softmax.",
			Source:    "the default cost of the router of NVIDIA Dynamo with a term of ours; the resident counts are an experimental input",
			GoesWrong: evictionsGap,
			Params:    append(append([]Param{}, kvParams...), weight("evict", "1", "blocks of prefill that an evicted block costs"), stale),
			Build: func(v Values) (policies.Recipe, error) {
				r, err := kvOf(v)
				if err != nil || v.Float("evict") == 0 {
					return r, err
				}
				r.Chooser = nil // it knows nothing of evictions
				r.Scorers = append(r.Scorers, policies.Weighted{Name: "evictions", Scorer: residency.NewEvictions(false, v.Float("stale")), Weight: v.Float("evict")})
				return r, nil
			},
		},
		{
			Kind: KindScorer, Name: "resident", Summary: "the share of a rank's blocks that hold something, 0 to 1",
			Doc:       "resident / capacity, at most 1: blocks in use and idle ones. " + absentRule,
			Source:    "ours; the resident counts are an experimental input",
			GoesWrong: "Caches fill and stay full: then all cost 1. A rank that was just restarted is empty, and draws everything until it is full.",
			Params:    []Param{stale},
			Build:     func(v Values) (policies.Recipe, error) { return scores(residency.NewFill(v.Float("stale"))) },
		},
		{
			Kind: KindScorer, Name: "evictions", Summary: "the blocks that a placement would evict",
			Doc:       evictionsRule + absentRule,
			Source:    "ours; the resident counts are an experimental input",
			GoesWrong: evictionsGap,
			Params:    []Param{unit, stale},
			Build: func(v Values) (policies.Recipe, error) {
				return scores(residency.NewEvictions(v.Choice("unit") == "capacity", v.Float("stale")))
			},
		},
	}
}
