package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/internal/report/page"
	"github.com/kvbench/kvbench/internal/simulate"
	"github.com/kvbench/kvbench/internal/text"
)

// verdicts begins the page with what the comparison came to.
func verdicts(p *page.Page, res *simulate.Result) {
	if res.Partial {
		p.Verdict(page.Doubt, "PARTIAL", "The comparison was interrupted. Runs are missing, and nothing is compared.")
	}
	for _, x := range res.Options.SpeedUps {
		overloaded := overload(res, x)
		for _, k := range res.Rankings {
			if k.SpeedUp != x {
				continue
			}
			tone, said := first(res, &k)
			if overloaded != "" {
				tone = page.Doubt
			}
			p.Verdict(tone, strings.ToUpper(k.Figure), said)
		}
		if overloaded != "" {
			p.Verdict(page.Doubt, "OVERLOADED", overloaded)
		}
	}
	switch none := res.NoneCarried(); {
	case none != "":
		p.Verdict(page.Doubt, "NO LOAD CARRIED", none)
	case res.KneeRanking != nil && len(res.KneeRanking.Places) > 0:
		tone, said := firstKnee(res)
		p.Verdict(tone, "LOAD CARRIED", said)
	case len(res.Rankings) == 0 && !res.Partial:
		p.Verdict(page.Plain, "NOTHING RANKED", "There is one policy, and no other to rank it with.")
	}
	if len(res.Rankings) == 0 {
		return
	}
	s := p.Section("Ranking")
	for _, k := range res.Rankings {
		s.Heading(fmt.Sprintf("By %s at speed-up %g", k.Figure, k.SpeedUp))
		var items []string
		for i := range k.Places {
			items = append(items, fmt.Sprintf("%d. %s", k.Places[i].Place, placed(res, &k, &k.Places[i])))
		}
		s.List(items...)
	}
	s.Textf("Intervals are of 95%%, each by itself; a place is by all pairs of policies together, at a level of %.3f each. Policies that are not distinguishable may share a place.", res.Rankings[0].Level)
}

// overload names the policies with runs that the ranks could not serve; "" without
// any.
func overload(res *simulate.Result, x float64) string {
	var names []string
	for _, p := range policiesOf(res, x) {
		n := 0
		for _, run := range p.runs {
			if run.Overloaded {
				n++
			}
		}
		if n > 0 {
			names = append(names, fmt.Sprintf("%s (%d of %s)", p.name, n, text.Count(len(p.runs), "seed")))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("At speed-up %g the load is more than the ranks can serve with %s: queues grow as long as requests come, and times and comparisons say little but that.", x, strings.Join(names, ", "))
}

// first says which policies nothing is better than.
func first(res *simulate.Result, k *simulate.Ranking) (page.Tone, string) {
	var leaders []string
	for i := range k.Places {
		if k.Places[i].Place == 1 {
			leaders = append(leaders, placed(res, k, &k.Places[i]))
		}
	}
	at := fmt.Sprintf("At speed-up %g ", k.SpeedUp)
	switch rest := len(k.Places) - len(leaders); {
	case len(leaders) == 1:
		return page.Plain, at + "the first is " + leaders[0] + "."
	case rest == 0:
		return page.Doubt, at + "none is better than another beyond doubt: " + strings.Join(leaders, "; ") + "."
	default:
		return page.Plain, fmt.Sprintf("%s%d share the first place, before %s: %s.", at, len(leaders), text.Count(rest, "other"), strings.Join(leaders, "; "))
	}
}

// placed says what a policy came to, and how it is against the first one of the
// comparison.
func placed(res *simulate.Result, k *simulate.Ranking, p *simulate.Place) string {
	unit := chart.Share
	if k.Figure == simulate.ByTTFT {
		unit = chart.Nanoseconds
	}
	said := fmt.Sprintf("%s with %s", p.Policy, chart.Format(p.Value, unit))
	if all := policiesOf(res, k.SpeedUp); slices.ContainsFunc(all, func(r policyRuns) bool {
		return r.name == p.Policy && r.mean(func(r *simulate.RunResult) float64 { return float64(r.Figures().Completed) }) == 0
	}) {
		return p.Policy + ", which completed no request"
	}
	baseline := ""
	for i := range res.Comparisons {
		c := &res.Comparisons[i]
		if c.SpeedUp == k.SpeedUp && c.Policy == p.Policy {
			baseline = c.Baseline
			said += ", " + against(c, k.Figure, slices.Contains(p.NotDistinguishable, c.Baseline))
			break
		}
	}
	others := slices.DeleteFunc(slices.Clone(p.NotDistinguishable), func(name string) bool { return name == baseline })
	if len(others) > 0 {
		said += ", not distinguishable from " + strings.Join(others, ", ")
	}
	return said
}

// against says what an interval against the baseline says; same is that the ranking
// does not tell both apart.
func against(c *simulate.Comparison, figure string, same bool) string {
	iv, none, said := c.TTFT, 1.0, ""
	if figure == simulate.ByTTFT {
		said = fmt.Sprintf("× %.3f [%.3f, %.3f] of %s", iv.Estimate, iv.Low, iv.High, c.Baseline)
	} else {
		iv, none = c.HitRatio, 0
		said = fmt.Sprintf("%+.2f [%.2f, %.2f] points of %% against %s", 100*iv.Estimate, 100*iv.Low, 100*iv.High, c.Baseline)
	}
	switch {
	case !iv.Ok():
		return fmt.Sprintf("without an interval against %s (%s)", c.Baseline, iv.Explain())
	case !same || iv.Contains(none):
		return said + ": " + simulate.Verdict(iv, none)
	default:
		return said + ": " + simulate.Verdict(iv, none) + " by itself, not distinguishable among all pairs"
	}
}

// firstKnee says which policies carry the most.
func firstKnee(res *simulate.Result) (page.Tone, string) {
	var leaders []string
	places := res.KneeRanking.Places
	for _, p := range places {
		if p.Place > 1 {
			continue
		}
		said := fmt.Sprintf("%s up to speed-up %.3g", p.Policy, p.Mean)
		switch {
		case p.Most == 0:
			said = p.Policy + ", which carried no load"
		case p.Least != p.Most:
			said += fmt.Sprintf(" (%.3g to %.3g by seed)", p.Least, p.Most)
		}
		if !p.Bounded {
			said += ", where the search ended with a seed at least"
		}
		leaders = append(leaders, said)
	}
	share := fmt.Sprintf("With %g%% of the requests within the SLO, ", 100*res.Options.KneeShare)
	switch {
	case len(places) == 1:
		return page.Plain, share + "the one policy is " + leaders[0] + "."
	case len(leaders) == 1:
		return page.Plain, share + "the first is " + leaders[0] + "."
	case len(leaders) == len(places):
		return page.Doubt, share + "none carries more than another beyond doubt: " + strings.Join(leaders, "; ") + "."
	}
	return page.Plain, fmt.Sprintf("%s%d share the first place: %s.", share, len(leaders), strings.Join(leaders, "; "))
}
