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
	evictionsGap  = "Blocks of the answer are not in it, and evicting what nobody will ask for again costs as much as evicting a system prompt."
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
			GoesWrong: "Until caches are full nobody evicts and load alone decides; once they are, every rank evicts what it lacks of the prompt, and the longest match wins however loaded it is. " + evictionsGap,
			Params:    []Param{weight("load", "0.5", "the weight of the requests, relative to the other candidates"), stale},
			Build: func(v Values) (policies.Recipe, error) {
				return least(policies.Weighted{Name: "evictions", Scorer: residency.NewEvictions(false, v.Float("stale")), Weight: 1},
					policies.Weighted{Name: "load", Scorer: policies.NewRelativeLoad(policies.ByRequests), Weight: v.Float("load")})
			},
		},
		{
			Name: "kv-resident", Summary: "the KV cost, and what the placement would evict",
			Doc:       "Picks the least of the cost of kv plus evict * the blocks that the placement would evict. " + evictionsRule + absentRule + " With a temperature, a candidate is drawn as by the picker softmax. Without one, not every candidate is looked at where few are cheap by the cost of kv; what is chosen is the same.",
			Source:    "the default cost of the router of NVIDIA Dynamo with a term of ours; the resident counts are an experimental input",
			GoesWrong: evictionsGap + " Once all caches are full it is kv with cached blocks worth more.",
			Params:    append(append([]Param{}, kvParams...), weight("evict", "1", "blocks of prefill that an evicted block costs"), stale),
			Build: func(v Values) (policies.Recipe, error) {
				r, err := kvOf(v)
				if err != nil || v.Float("evict") == 0 {
					return r, err
				}
				evictions := func() *residency.Evictions { return residency.NewEvictions(false, v.Float("stale")) }
				if r.Chooser != nil {
					if r.Chooser, err = policies.NewKVSurchargeChooser(kvParamsOf(v), evictions(), v.Float("evict")); err != nil {
						return r, err
					}
				}
				r.Scorers = append(r.Scorers, policies.Weighted{Name: "evictions", Scorer: evictions(), Weight: v.Float("evict")})
				return r, nil
			},
		},
		{
			Name: "preble", Summary: "the longest match if it is half of the prompt, else the least load cost",
			Doc: "If some rank holds at least as many of the prompt's tokens as it does not hold, the longest match, among equal ones the least load cost; else the least load cost of all: " +
				"token * the uncached tokens of what was sent to the rank within the window, this request's included, + decode * the tokens of their answers + token * block size * the blocks that the placement would evict. " +
				evictionsRule + "Where a count is absent or a capacity unknown, the mean of the others is evicted.",
			Source:    "Preble (E2), also AIBrix's prefix-cache-preble; theirs price by their own tree what is evicted and how often it is asked for, and move requests away from ranks that are overloaded, which this does not. The defaults of decode and output are ours, token is that of ttft",
			GoesWrong: "Half a prompt held draws every such request to one rank, however loaded it is. What was sent counts as load for the whole window, though it may have ended long ago.",
			Params: []Param{
				{Name: "window", Type: Duration, Default: "3m", Min: 0, Max: 31536000, Doc: "how long a request counts as load of its rank"},
				{Name: "token", Type: Number, Default: "0.01518", Min: 0, Max: 1e6, Doc: "ms to compute a token of a prompt"},
				{Name: "decode", Type: Number, Default: "0.2", Min: 0, Max: 1e6, Doc: "ms of a rank's time that a token of an answer takes"},
				{Name: "output", Type: Integer, Default: "250", Min: 0, Max: 1e9, Doc: "tokens of an answer of which the request has no guess"},
				stale,
			},
			Build: func(v Values) (policies.Recipe, error) {
				return picks(residency.NewPreble(residency.PrebleParams{Window: v.Duration("window"), Token: v.Float("token"), Decode: v.Float("decode"), Output: v.Int("output"), Stale: v.Float("stale")}))
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
			GoesWrong: evictionsGap + " Once all caches are full it tells no more than the match.",
			Params:    []Param{unit, stale},
			Build: func(v Values) (policies.Recipe, error) {
				return scores(residency.NewEvictions(v.Choice("unit") == "capacity", v.Float("stale")))
			},
		},
	}
}
