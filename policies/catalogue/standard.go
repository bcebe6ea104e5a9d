package catalogue

import (
	"math"

	"github.com/kvbench/kvbench/policies"
)

// Standard returns the policies and components that come with kvbench.
func Standard() []Definition {
	var all []Definition
	all = append(all, balancing()...)
	all = append(all, prefixes()...)
	all = append(all, sticky()...)
	all = append(all, costs()...)
	all = append(all, residents()...)
	all = append(all, filters()...)
	all = append(all, scorers()...)
	all = append(all, pickers()...)
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

// prefixes are the policies that follow the longest match.
func prefixes() []Definition {
	return []Definition{
		{
			Name: "prefix-threshold", Summary: "the longest match if it is long enough, with a guard against imbalance",
			Doc: "If max load - min load > abs and max load > rel * min load: the least loaded rank. Else the rank with the longest match, if that is more than the share threshold of the prompt; equal matches go by load. " +
				"Else the rank that was sent the fewest tokens that it did not hold (cold=fewest-sent), or the least loaded one. Load is requests; that of an unknown rank is the largest known.",
			Source:    "cache-aware policy of the SGLang model gateway and the vLLM router; theirs matches what was routed, this one what ranks report to hold",
			GoesWrong: "A rank that joins late was sent nothing and gets every cold prompt until it has caught up. Below abs no imbalance is seen: with the default of 64 requests small fleets are never guarded.",
			Params: []Param{
				{Name: "threshold", Type: Number, Default: "0.3", Min: 0, Max: 1, Doc: "the share of the prompt that a match must exceed"},
				{Name: "abs", Type: Number, Default: "64", Min: 0, Max: math.Inf(1), Doc: "requests between the most and the least loaded rank that are no imbalance yet"},
				{Name: "rel", Type: Number, Default: "1.5", Min: 1, Max: math.Inf(1), Doc: "the factor between them that is none yet"},
				{Name: "cold", Type: Choice, Default: "fewest-sent", Choices: []string{"fewest-sent", "least-loaded"}, Doc: "who gets a prompt without a match that is long enough"},
			},
			Build: func(v Values) (policies.Recipe, error) {
				return picks(&policies.PrefixThreshold{Threshold: v.Float("threshold"), Abs: v.Float("abs"), Rel: v.Float("rel"), ColdToLeastLoaded: v.Choice("cold") == "least-loaded"})
			},
		},
		{
			Name: "prefix-guard", Summary: "the longest match among ranks that are not far above the mean load",
			Doc: "If max load - min load > abs: the least loaded rank. Else, among the ranks that hold any of the prompt and whose load is at most mean + factor * standard deviation, the longest match, then the least load. If there is none, the least loaded rank. " +
				"Load is requests, that of an unknown rank the largest known; mean and deviation are those of all candidates.",
			Source:    "AIBrix, prefix-cache",
			GoesWrong: "Where all prompts share a first block every rank matches, and a difference of one block outweighs any load below the limit.",
			Params: []Param{
				{Name: "abs", Type: Number, Default: "8", Min: 0, Max: math.Inf(1), Doc: "requests between the most and the least loaded rank that are no imbalance yet"},
				{Name: "factor", Type: Number, Default: "1", Min: 0, Max: math.Inf(1), Doc: "standard deviations above the mean that a rank may have"},
			},
			Build: func(v Values) (policies.Recipe, error) {
				return picks(&policies.PrefixGuard{Abs: v.Float("abs"), Factor: v.Float("factor")})
			},
		},
		{
			Name: "longest-prefix", Summary: "the longest match whatever the load: a warning",
			Doc:       "The rank with the longest match, among equal ones the least loaded. It is here to be compared with.",
			Source:    "where everyone begins",
			GoesWrong: "Always when prompts share a beginning: the ranks that got it first hold it and get all others, while the rest stand idle.",
			Build:     func(Values) (policies.Recipe, error) { return picks(&policies.LongestPrefix{}) },
		},
	}
}

// sticky are the policies that send what belongs together to one rank.
func sticky() []Definition {
	ttl := Param{Name: "ttl", Type: Duration, Default: "10m", Min: 0, Max: 31536000, Doc: "how long a session stays with its rank after its last request"}
	inner := Param{Name: "inner", Type: Inner, Default: "least-loaded", Doc: "the policy for all other requests"}
	return []Definition{
		{
			Name: "session", Summary: "a session's rank while it is fresh, else an inner policy",
			Doc:       "The rank that served the request's session last, if that was at most ttl ago and the rank is a candidate that the inner policy's filters keep; else the inner policy.",
			Source:    "many; the default ttl is ours",
			GoesWrong: "A few long sessions overload their rank, and nothing moves them.",
			Params:    []Param{ttl, inner},
			Build: func(v Values) (policies.Recipe, error) {
				r, err := v.Inner("inner")
				return policies.WithAffinity(r, v.Duration("ttl"), -1), err
			},
		},
		{
			Name: "sticky", Summary: "a session's rank unless it is much more loaded than the least loaded one",
			Doc:       "As session, but the inner policy is asked too if the session's rank has more requests than the least loaded candidate by more than slack. A rank of unknown load counts as the most loaded one known.",
			Source:    "sticky_min_load of Dynamo; the defaults are ours",
			GoesWrong: "What a move costs is not looked at: a session with a long prefix leaves it behind for one request too many.",
			Params:    []Param{{Name: "slack", Type: Integer, Default: "8", Min: 0, Max: 1e9, Doc: "requests more than the least loaded rank that are borne"}, ttl, inner},
			Build: func(v Values) (policies.Recipe, error) {
				r, err := v.Inner("inner")
				return policies.WithAffinity(r, v.Duration("ttl"), v.Int("slack")), err
			},
		},
		{
			Name: "chwbl", Summary: "consistent hashing with bounded load",
			Doc: "Every rank has nodes places on a ring of hashes. A request goes to the first candidate after the hash of its first blocks, or of its session, that has room: with the request at most the ceiling of factor * mean requests. " +
				"A request without a key goes to the least loaded candidate. Nothing is asked of an index.",
			Source:    "Mirrokni, Thorup and Zadimoghaddam, 2018; KubeAI, SGLang model gateway, Dynamo",
			GoesWrong: "With key=prefix and few blocks, prompts that share a system prompt have one key: they fill one rank to the bound and spill to the next, wherever their caches are.",
			Params: []Param{
				{Name: "factor", Type: Number, Default: "1.25", Min: 1, Max: 1e6, Doc: "how far above the mean load a rank is filled"},
				{Name: "nodes", Type: Integer, Default: "256", Min: 1, Max: 4096, Doc: "places on the ring for each rank"},
				{Name: "blocks", Type: Integer, Default: "1", Min: 1, Max: 1e6, Doc: "leading blocks of the prompt that make the key"},
				{Name: "key", Type: Choice, Default: "prefix", Choices: []string{"prefix", "session"}, Doc: "what is hashed"},
			},
			Build: func(v Values) (policies.Recipe, error) {
				return picks(policies.NewHashRing(v.Float("factor"), v.Int("nodes"), v.Int("blocks"), v.Choice("key") == "session"))
			},
		},
	}
}

// least is the recipe that picks the least sum of the costs of scorers with a
// weight above 0.
func least(scorers ...policies.Weighted) (policies.Recipe, error) {
	r, err := picks(policies.LeastCost{})
	for _, s := range scorers {
		if s.Weight > 0 {
			r.Scorers = append(r.Scorers, s)
		}
	}
	return r, err
}

// weights are the parameters of weighted scorers.
func weight(name, def, doc string) Param {
	return Param{Name: name, Type: Number, Default: def, Min: 0, Max: 1e9, Doc: doc}
}

// estimates are the parameters of the time to the first token.
var estimates = []Param{
	{Name: "base", Type: Number, Default: "16.5", Min: 0, Max: 1e6, Doc: "ms that any prefill takes"},
	{Name: "token", Type: Number, Default: "0.01518", Min: 0, Max: 1e6, Doc: "ms for each token"},
	{Name: "attention", Type: Number, Default: "8.42e-07", Min: 0, Max: 1e6, Doc: "ms for each token and token before it"},
	{Name: "transfer", Type: Number, Default: "0", Min: 0, Max: 1e6, Doc: "ms to fetch a token from another rank, 0: it cannot"},
	{Name: "ratio", Type: Number, Default: "2", Min: 1, Max: 1e6, Doc: "how many times as much another must hold to fetch from it"},
}

func estimateOf(v Values) policies.FirstToken {
	return policies.FirstToken{
		Model:    policies.PrefillModel{Base: v.Float("base"), Token: v.Float("token"), Attention: v.Float("attention")},
		Transfer: v.Float("transfer"), Ratio: v.Float("ratio"),
	}
}

// kvParams are the parameters of the KV cost.
var kvParams = []Param{
	{Name: "overlap", Type: Number, Default: "1", Min: 0, Max: 1e6, Doc: "blocks of prefill that a cached block is worth; at 0 no index is asked"},
	{Name: "decay", Type: Number, Default: "0", Min: 0, Max: 1e6, Doc: "how fast that falls with the rank's queued prefill"},
	{Name: "prefill", Type: Number, Default: "1", Min: 0, Max: 1e6, Doc: "the weight of the blocks to prefill"},
	{Name: "requests", Type: Number, Default: "0", Min: 0, Max: 1e6, Doc: "what an active request costs, in blocks"},
	{Name: "tag", Type: Number, Default: "0", Min: -1e6, Max: 1e6, Doc: "the weight of each tag that the request prefers and the rank has: the cost is multiplied by exp(-tanh(the sum))"},
	{Name: "role", Type: Choice, Default: "aggregated", Choices: []string{"aggregated", "decode"}, Doc: "what the ranks do: prompts and answers, or answers alone"},
	{Name: "temperature", Type: Number, Default: "0", Min: 0, Max: 1e6, Doc: "above 0: a candidate is drawn, see softmax"},
	scale,
}

func kvParamsOf(v Values) policies.KVParams {
	p := policies.KVParams{Overlap: v.Float("overlap"), Decay: v.Float("decay"), Prefill: v.Float("prefill"), Requests: v.Float("requests"), Tag: v.Float("tag")}
	if v.Choice("role") == "decode" {
		p.Role = policies.RoleDecode
	}
	return p
}

func kvOf(v Values) (policies.Recipe, error) {
	return policies.KVRecipe(kvParamsOf(v), v.Float("temperature"), scaleOf(v))
}

// costs are the policies that take the least of a cost.
func costs() []Definition {
	const (
		estimateRule = "queue (token ms for each queued prefill token) + transfer + prefill (base + token*n + attention*n*(cached + n/2) ms for the n tokens that are not cached, 0 if n = 0). " +
			"With transfer, what the best candidate holds more is fetched from it if that is more than ratio times what the rank holds. A rank of unknown load has the longest queue known."
		estimateSource = "after Mooncake's conductor; the default times are those of a profile of an 8B model on one H100 in Dynamo's mock engine, with a term for the context added"
	)
	three := []Param{
		weight("cache", "3", "the weight of the share of the prompt that is not cached"),
		weight("load", "2", "the weight of the requests, relative to the other candidates"),
		weight("capacity", "2", "the weight of the share of blocks that active requests hold"),
	}
	shared := func(v Values) []policies.Weighted {
		return []policies.Weighted{
			{Name: "cache", Scorer: policies.Uncached{}, Weight: v.Float("cache")},
			{Name: "load", Scorer: policies.NewRelativeLoad(policies.ByRequests), Weight: v.Float("load")},
			{Name: "capacity", Scorer: policies.Utilisation{}, Weight: v.Float("capacity")},
		}
	}
	return []Definition{
		{
			Name: "kv", Summary: "the least cost in blocks to prefill and to hold",
			Doc: "Picks the least of prefill * max(0, (queued prefill tokens + prompt tokens) / block size - credit) + active blocks with those of the request + requests * active requests, " +
				"where credit = overlap * cached blocks / (1 + decay * (queued prefill tokens - the least of a candidate) / block size / blocks of the prompt). " +
				"With role=decode prefill is not tracked: max(0, active blocks with those of the request - credit) + requests * active requests. " +
				"With a temperature, a candidate is drawn as by the picker softmax. A rank of unknown load costs as much as an idle one.",
			Source:    "default cost of the router of NVIDIA Dynamo, for one tier of cache and none that is shared",
			GoesWrong: "An unknown load reads as idle. A cached token is worth the same on a rank that is about to evict it; and with a temperature and scale=minmax the odds do not depend on how much the best is better.",
			Params:    kvParams,
			Build:     kvOf,
		},
		{
			Name: "weighted", Summary: "the least weighted sum of cache, load and capacity costs",
			Doc: "Picks the least sum of costs from 0 to 1, each times its weight: the share of the prompt that is not cached, the requests between the least and the most of a candidate, and the share of the rank's blocks that active requests hold. " +
				"A weight of 0 leaves a scorer out with what it reads.",
			Source:    "llm-d and the Gateway API inference extension, which maximise 1 - cost (older weights: 1, 1, 1)",
			GoesWrong: "Scores from 0 to 1 hide how much is at stake: half of a prompt counts the same for 100 tokens as for 100,000, and one request more counts as all if nobody else has more.",
			Params:    three,
			Build:     func(v Values) (policies.Recipe, error) { return least(shared(v)...) },
		},
		{
			Name: "no-hit-lru", Summary: "weighted, and cold requests go where none went for longest",
			Doc:       "As weighted. If no candidate holds any of the prompt, there is one cost more: from 0 for a rank that never got such a request to 1 for the one that got the last.",
			Source:    "llm-d; the weight of the turn is ours",
			GoesWrong: "The turn ignores how long prompts are. One block that all prompts share makes every request a hit, and the rule does nothing.",
			Params:    append(append([]Param{}, three...), weight("turn", "2", "the weight of the turn in cold requests")),
			Build: func(v Values) (policies.Recipe, error) {
				return least(append(shared(v), policies.Weighted{Name: "cold-turn", Scorer: &policies.ColdTurn{}, Weight: v.Float("turn")})...)
			},
		},
		{
			Name: "ttft", Summary: "the least estimated time to the first token",
			Doc:       "Picks the least estimate: " + estimateRule + " With slo, ranks with a longer estimate are dropped, and a request that none can serve in time is refused.",
			Source:    estimateSource,
			GoesWrong: "The estimate knows no decoding: a rank with an empty queue and a full batch looks idle. Times of another model or machine misjudge what the cache is worth.",
			Params: append(append([]Param{}, estimates...),
				Param{Name: "slo", Type: Number, Default: "inf", Min: 0, Above: true, Max: math.Inf(1), Doc: "ms above which the request is refused"}),
			Build: func(v Values) (policies.Recipe, error) {
				r, err := least(policies.Weighted{Scorer: estimateOf(v), Weight: 1})
				if slo := v.Float("slo"); !math.IsInf(slo, 1) {
					r.Filters = []policies.Named[policies.Filter]{{Name: "slo", Component: policies.NewFirstTokenWithin(estimateOf(v), slo)}}
				}
				return r, err
			},
		},
		{
			Name: "multiplicative", Summary: "the least product of tokens to prefill and requests",
			Doc:       "Picks the least (prompt tokens - cached tokens + queued prefill tokens) * (requests + 1). The 1 is this request; without it all idle ranks would cost 0 whatever they hold. Of an unknown load each factor is the largest known.",
			Source:    "LMetric",
			GoesWrong: "A prompt that is wholly cached on a rank with an empty queue costs 0 there, however many requests it decodes.",
			Build: func(Values) (policies.Recipe, error) {
				return least(policies.Weighted{Scorer: policies.Multiplicative{}, Weight: 1})
			},
		},
	}
}

func scores(s policies.Scorer) (policies.Recipe, error) {
	return policies.Recipe{Scorers: []policies.Weighted{{Scorer: s, Weight: 1}}}, nil
}

// scorers are the costs that a policy can be composed of.
func scorers() []Definition {
	return []Definition{
		{
			Kind: KindScorer, Name: "cache", Summary: "the share of the prompt that is not cached, 0 to 1",
			Doc:    "(prompt tokens - cached tokens) / prompt tokens, 1 without a prompt.",
			Source: "llm-d", GoesWrong: "It hides how many tokens are at stake.",
			Build: func(Values) (policies.Recipe, error) { return scores(policies.Uncached{}) },
		},
		{
			Kind: KindScorer, Name: "load", Summary: "the load relative to the other candidates, 0 to 1",
			Doc:    "(load - min) / (max - min), 0 if all are equal. A rank of unknown load counts as the most loaded one known.",
			Source: "llm-d", GoesWrong: "A difference of one request counts as much as one of a hundred if it is the only one.",
			Params: []Param{measure},
			Build:  func(v Values) (policies.Recipe, error) { return scores(policies.NewRelativeLoad(measureOf(v))) },
		},
		{
			Kind: KindScorer, Name: "capacity", Summary: "the share of a rank's blocks that active requests hold, 0 to 1",
			Doc:    "decode blocks / capacity, at most 1. A rank of unknown load costs as much as the costliest known, one of unknown capacity the mean of the known.",
			Source: "llm-d", GoesWrong: "After a burst it reads as idle while the cache is full of what the burst left.",
			Build: func(Values) (policies.Recipe, error) { return scores(policies.Utilisation{}) },
		},
		{
			Kind: KindScorer, Name: "cold-turn", Summary: "how lately a rank got a request that nobody held, 0 to 1",
			Doc:    "For a request of which no candidate holds anything: 1 for the rank that got the last such request, down to 0 for those that never got one. For other requests 0.",
			Source: "llm-d, no-hit LRU", GoesWrong: "One block that all prompts share makes every request a hit.",
			Build: func(Values) (policies.Recipe, error) { return scores(&policies.ColdTurn{}) },
		},
		{
			Kind: KindScorer, Name: "first-token", Summary: "the estimated time to the first token, in ms",
			Doc:    "The estimate of the policy ttft.",
			Source: "after Mooncake's conductor", GoesWrong: "As ttft.",
			Params: estimates,
			Build:  func(v Values) (policies.Recipe, error) { return scores(estimateOf(v)) },
		},
		{
			Kind: KindScorer, Name: "multiplicative", Summary: "tokens to prefill times requests",
			Doc:    "The cost of the policy multiplicative.",
			Source: "LMetric", GoesWrong: "As the policy; beside costs from 0 to 1 it drowns them.",
			Build: func(Values) (policies.Recipe, error) { return scores(policies.Multiplicative{}) },
		},
	}
}

func filtersBy(f policies.Filter) (policies.Recipe, error) {
	return policies.Recipe{Filters: []policies.Named[policies.Filter]{{Component: f}}}, nil
}

// filters drop candidates of a composed policy.
func filters() []Definition {
	return []Definition{
		{
			Kind: KindFilter, Name: "requests-below", Summary: "ranks with fewer requests than a limit",
			Doc:    "Keeps the ranks with fewer than max requests; a rank of unknown load counts as the fullest known. If there is none, all are kept (none=all) or the request is refused (none=refuse).",
			Source: "ours", GoesWrong: "Just above the limit everyone comes back at once.",
			Params: []Param{
				{Name: "max", Type: Integer, Default: "256", Min: 1, Max: 1e9, Doc: "the limit in requests"},
				{Name: "none", Type: Choice, Default: "all", Choices: []string{"all", "refuse"}, Doc: "what to do if no rank is below"},
			},
			Build: func(v Values) (policies.Recipe, error) {
				return filtersBy(policies.RequestsBelow{Max: v.Int("max"), Strict: v.Choice("none") == "refuse"})
			},
		},
		{
			Kind: KindFilter, Name: "near-least-load", Summary: "ranks whose load is near the least",
			Doc:    "Keeps the ranks whose load exceeds the least by at most slack. A rank of unknown load counts as the most loaded one known.",
			Source: "ours", GoesWrong: "One idle rank drops all others, whatever they hold.",
			Params: []Param{{Name: "slack", Type: Integer, Default: "8", Min: 0, Max: 1e9, Doc: "how much more load is borne"}, measure},
			Build: func(v Values) (policies.Recipe, error) {
				return filtersBy(policies.NewNearLeastLoad(v.Int("slack"), measureOf(v)))
			},
		},
		{
			Kind: KindFilter, Name: "prefix-at-least", Summary: "ranks that hold enough of the prompt",
			Doc:    "Keeps the ranks that hold at least the share min of the prompt's tokens, or all if none does.",
			Source: "ours", GoesWrong: "A hot prefix goes to its few holders only, however busy they are.",
			Params: []Param{{Name: "min", Type: Number, Default: "0.5", Min: 0, Max: 1, Doc: "the share of the prompt"}},
			Build:  func(v Values) (policies.Recipe, error) { return filtersBy(policies.PrefixAtLeast{Min: v.Float("min")}) },
		},
		{
			Kind: KindFilter, Name: "preferred-tags", Summary: "ranks with the tags that the request prefers",
			Doc:    "Keeps the ranks that have all the tags which the request prefers, or all ranks if none has.",
			Source: "ours", GoesWrong: "One rank with the tags gets all requests that prefer them.",
			Build: func(Values) (policies.Recipe, error) { return filtersBy(policies.PreferredTags{}) },
		},
		{
			Kind: KindFilter, Name: "first-token-within", Summary: "ranks that are estimated to answer in time",
			Doc:    "Keeps the ranks whose estimated time to the first token, as in ttft, is at most limit ms. If there is none the request is refused.",
			Source: "after Mooncake's conductor", GoesWrong: "As ttft: what is refused depends on an estimate.",
			Params: append([]Param{{Name: "limit", Type: Number, Default: "30000", Min: 0, Max: math.Inf(1), Doc: "ms"}}, estimates...),
			Build: func(v Values) (policies.Recipe, error) {
				return filtersBy(policies.NewFirstTokenWithin(estimateOf(v), v.Float("limit")))
			},
		},
	}
}

// scale is the parameter that says what a difference of costs means to a softmax.
var scale = Param{Name: "scale", Type: Choice, Default: "minmax", Choices: []string{"minmax", "raw"},
	Doc: "what the temperature is measured in: the range of the candidates' costs, or the costs themselves"}

func scaleOf(v Values) policies.Scale {
	if v.Choice("scale") == "raw" {
		return policies.ScaleRaw
	}
	return policies.ScaleMinMax
}

// pickers choose in a composed policy.
func pickers() []Definition {
	return []Definition{
		{
			Kind: KindPicker, Name: "min", Summary: "the least cost",
			Doc:    "Picks the candidate with the least sum of costs, any of those that are equal with the same probability.",
			Source: "everywhere", GoesWrong: "Costs that are known late send everyone to the same rank until it shows.",
			Build: func(Values) (policies.Recipe, error) { return picks(policies.LeastCost{}) },
		},
		{
			Kind: KindPicker, Name: "softmax", Summary: "a draw that favours low costs",
			Doc: "Draws a candidate with a probability in proportion to exp(-(cost - least) / (largest - least) / temperature), or with scale=raw exp(-(cost - least) / temperature). " +
				"Equal costs are drawn with the same probability.",
			Source:    "router of NVIDIA Dynamo; scale=raw is ours",
			GoesWrong: "With scale=minmax the odds of the best against the worst are always e^(1/temperature), whether they are a block or a million apart.",
			Params:    []Param{{Name: "temperature", Type: Number, Default: "0.7", Min: 0, Above: true, Max: 1e6, Doc: "how far from the least cost a draw may go"}, scale},
			Build: func(v Values) (policies.Recipe, error) {
				s, err := policies.NewSoftmax(v.Float("temperature"), scaleOf(v))
				if err != nil {
					return policies.Recipe{}, err
				}
				return picks(s)
			},
		},
	}
}
