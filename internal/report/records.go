package report

import (
	"fmt"

	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/internal/report/page"
	"github.com/kvbench/kvbench/results"
)

// recordsPage is the page of records that belong to no experiment.
func recordsPage(trials []trial, timelines []*timeline, o Options) *page.Page {
	title, lead := o.Title, ""
	if len(trials) == 1 {
		r := trials[0].Record
		if title == "" {
			title = "Replay of " + r.Provenance.TraceName + " through " + r.Config.Index
		}
		lead = workText(r)
	} else {
		if title == "" {
			title = fmt.Sprintf("%d replays", len(trials))
		}
		lead = "Records that were not made as rounds of one experiment: differences between them may be those of the moment or the machine. 'kvbench rounds' compares."
	}
	p := page.New(title, lead)
	for _, t := range trials {
		recordVerdict(p, t, len(trials) > 1)
	}
	if len(trials) > 1 {
		p.Section("Trials").Table(validityTable(trials))
	}
	addWarnings(p.Section("Warnings"), nil, trials)
	trialSections(p, trials, timelines)
	p.Provenance(provenance(trials)...)
	return p
}

func workText(r *results.Record) string {
	c := &r.Config
	return fmt.Sprintf("%d ranks (%d workers × %d) of %d blocks of %d tokens; %s block operations over a window of %s.",
		c.Ranks, c.Workers, c.DPRanks, c.GPUBlocks, c.BlockSize, chart.Format(float64(r.Totals.BlockOps), chart.Plain), chart.Format(float64(c.WindowNS), chart.Nanoseconds))
}

// recordVerdict says whether a record measured what it set out to.
func recordVerdict(p *page.Page, t trial, name bool) {
	r := t.Record
	prefix := ""
	if name {
		prefix = t.Name + ": "
	}
	done := nan
	if r.Timing.WindowNS > 0 {
		done = float64(r.Timing.EndNS) / float64(r.Timing.WindowNS)
	}
	switch v := &r.Validity; {
	case v.Interrupted:
		p.Verdict(page.Bad, "INTERRUPTED", prefix+"not a measurement.")
	case !v.Valid:
		text := prefix + "not a measurement."
		for _, reason := range v.Reasons {
			text += " " + reason.Rule + ": " + reason.Detail + "."
		}
		p.Verdict(page.Bad, "INVALID", text)
	case v.KeptUp:
		p.Verdict(page.Good, "VALID", fmt.Sprintf("%skept up: done at %s × window. Achieved %s block operations; latencies are those of the index.", prefix, chart.Format(done, chart.Plain), chart.Format(r.Rates.AchievedBlockOpsPerSec, chart.PerSecond)))
	default:
		p.Verdict(page.Doubt, "VALID, OVERLOADED", fmt.Sprintf("%sdid not keep up: done at %s × window. Achieved %s block operations, which is the throughput of the index; latencies are those of the queue.", prefix, chart.Format(done, chart.Plain), chart.Format(r.Rates.AchievedBlockOpsPerSec, chart.PerSecond)))
	}
	if x := r.Verify; x != nil {
		if x.OK {
			p.Verdict(page.Good, "VERIFIED", fmt.Sprintf("%s%d resident counts and %d answers equal the reference index.", prefix, x.Ranks, x.Queries))
		} else {
			p.Verdict(page.Bad, "NOT VERIFIED", fmt.Sprintf("%s%d mismatches with the reference index.", prefix, x.Mismatches))
		}
	}
}

// trialSections are those that every kind of report has.
func trialSections(p *page.Page, trials []trial, timelines []*timeline) {
	loadSection(p, trials)
	timelineSection(p, timelines)
	latencySection(p, trials)
	queueSection(p, trials, len(timelines) > 0)
	threadSection(p, trials)
	residentSection(p, trials, len(timelines) > 0)
	memorySection(p, trials)
	if len(trials) > 0 {
		p.Section("Configuration").Table(configurationTable(trials))
	}
}
