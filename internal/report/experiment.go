package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/internal/gate"
	"github.com/kvbench/kvbench/internal/report/page"
	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/stats"
)

// experimentPage is the page of an experiment of rounds.
func experimentPage(exp *rounds.Experiment, timelines []*timeline, o Options) (*page.Page, error) {
	a, err := exp.Analyse(o.Analyse)
	if err != nil {
		return nil, err
	}
	title := o.Title
	if title == "" {
		title = "Rounds: " + filepath.Base(exp.Dir)
	}
	p := page.New(title, fmt.Sprintf("%s. %s. %d of %d rounds of %d variants, order %s.", a.Workload, a.Machine, a.Done, a.Planned, len(a.Variants), a.Order))
	read := gate.Read(a)
	if err := experimentVerdicts(p, exp, a, read, o.Gate); err != nil {
		return nil, err
	}
	trials, unread := experimentTrials(exp, a.Planned)
	ratioSection(p, a, read, o.Gate)
	if o.Gate != nil {
		gateSection(p, o.Gate)
	}
	warningSection(p, a, trials, unread)
	if err := roundSections(p, exp, a); err != nil {
		return nil, err
	}
	trialSections(p, trials, timelines)
	p.Section("Trials").Table(trialTable(exp))
	machineSection(p, exp)
	experimentProvenance(p, exp, a)
	if len(trials) > 0 {
		p.Provenance(provenance(trials)...)
	}
	return p, nil
}

// experimentVerdicts says what a gate said, or what the intervals say where there
// was none.
func experimentVerdicts(p *page.Page, exp *rounds.Experiment, a *rounds.Analysis, read *gate.Readings, g *gate.Report) error {
	looks, err := gate.Looks(exp)
	if err != nil {
		return err
	}
	tone := map[gate.Verdict]page.Tone{gate.Pass: page.Good, gate.Fail: page.Bad, gate.Inconclusive: page.Doubt, gate.Unmeasurable: page.Doubt}
	switch {
	case g != nil:
		text := lookText(g.Look) + "."
		if len(g.Reasons) > 0 {
			text += " " + strings.Join(g.Reasons, "; ") + "."
		}
		p.Verdict(tone[g.Verdict], string(g.Verdict), text)
	case len(looks) > 0:
		for _, l := range looks {
			p.Verdict(tone[l.Verdict], string(l.Verdict), lookText(l)+". Asked: "+l.Rule+".")
		}
	default:
		if unfit := gate.Unfit(exp); len(unfit) > 0 {
			p.Verdict(page.Doubt, "UNFIT MACHINE", "What follows is no ground for a verdict; 'kvbench gate' would give none without --allow-unfit: "+strings.Join(unfit, "; ")+".")
		}
		if a.Done < a.Planned {
			p.Verdict(page.Doubt, "NOT DONE", fmt.Sprintf("%d of %d rounds are done. The intervals hold for one look at a number of rounds fixed before; looking again and again finds differences that are none.", a.Done, a.Planned))
		}
		said := readings(a, read)
		if len(said) == 0 {
			p.Verdict(page.Plain, "NO VERDICT", "'kvbench gate' has not judged this experiment, and no comparison has an interval to read.")
			break
		}
		p.Verdict(page.Plain, "NO VERDICT", "'kvbench gate' has not judged this experiment. What the intervals say, "+held(a, read)+":")
		for _, text := range said {
			p.Verdict(text.tone, text.word, text.text)
		}
	}
	if left := a.Unmeasurable(); len(left) > 0 {
		p.Verdict(page.Doubt, "NOT MEASURED", strings.Join(left, "; ")+".")
	}
	return nil
}

func lookText(l gate.Look) string {
	how := "one look"
	switch l.Schedule {
	case gate.Sequential:
		how = "a look of the sequential schedule"
	case gate.Anytime:
		how = "the anytime sequence"
	}
	return fmt.Sprintf("gate after %d rounds, %s at a level of %g%%", l.Rounds, how, 100*l.Level)
}

type reading struct {
	tone page.Tone
	word string
	text string
}

// held says to what the readings are held.
func held(a *rounds.Analysis, read *gate.Readings) string {
	text := "of one comparison, which needs no correction"
	if read.Family != 1 {
		text = fmt.Sprintf("after Holm's correction over the %d comparisons that were measured", read.Family)
	}
	if len(a.Floor) == 0 {
		return text + ", without a control (--aa) that would show how far the same program differs from itself"
	}
	return text + fmt.Sprintf(", and held to the control %s, the same program against itself", a.Floor[0].Ratio)
}

// readings says for each comparison what may be said of it.
func readings(a *rounds.Analysis, read *gate.Readings) []reading {
	var out []reading
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		iv := c.Result.Interpolated
		if c.Refused != "" || len(c.Result.Ratios) == 0 || !iv.Ok() {
			continue // Unmeasurable and the table say why
		}
		r := reading{page.Plain, strings.ToUpper(string(read.Of[i].Side)), ""}
		switch read.Of[i].Side {
		case gate.Better:
			r.tone = page.Good
		case gate.Worse:
			r.tone = page.Bad
		}
		r.text = fmt.Sprintf("%s of %s: median same-round ratio %s, %g%% interval %s to %s over %d of %d rounds", c.Metric.Path, c.Ratio,
			chart.Format(c.Result.Median, chart.Ratio), 100*iv.Level, chart.Format(iv.Low, chart.Ratio), chart.Format(iv.High, chart.Ratio), len(c.Result.Pairs.Kept), c.Planned)
		if why := read.Of[i].Why; why != "" {
			r.text += "; " + why
		}
		r.text += "."
		out = append(out, r)
	}
	return out
}

// toneOf is the colour of a reading.
func toneOf(side gate.Side) chart.Tone {
	switch side {
	case gate.Better:
		return chart.Better
	case gate.Worse:
		return chart.Worse
	}
	return chart.Neutral
}

// experimentTrials returns the trials of measured rounds that have a record, the
// last attempt of each, by variant as the manifest lists them. unread counts
// records that are none of a replay.
func experimentTrials(exp *rounds.Experiment, planned int) (out []trial, unread []string) {
	type key struct {
		variant string
		round   int
	}
	last := map[key]*rounds.Trial{}
	for i := range exp.Trials {
		if t := &exp.Trials[i]; t.Round >= 1 && t.Round <= planned {
			last[key{t.Variant, t.Round}] = t
		}
	}
	for _, v := range exp.Manifest.Variants {
		for round := 1; round <= planned; round++ {
			t := last[key{v.Name, round}]
			if t == nil || len(t.Record) == 0 {
				continue
			}
			name := fmt.Sprintf("%s, round %d", v.Name, round)
			rec, err := results.Decode(t.Record)
			if err != nil {
				unread = append(unread, name+": "+err.Error())
				continue
			}
			if !t.Valid && rec.Validity.Valid {
				// The rules of the experiment may refuse what the record does not.
				rec.Validity.Valid, rec.Validity.KeptUp = false, false
				rec.Validity.Reasons = t.Reasons
			}
			out = append(out, trial{Group: v.Name, Name: name, Round: round, Record: rec})
		}
	}
	return out, unread
}

// ratioSection draws the ratios.
func ratioSection(p *page.Page, a *rounds.Analysis, read *gate.Readings, g *gate.Report) {
	s := p.Section("Ratios")
	s.Textf("The figure of a comparison is the ratio of two variants within a round. Drawn is the median over the rounds with its interval (interpolated order statistics, %g%%), below it a mark for each round; a ratio of 1 is no difference.", 100*a.Level)
	forest := &chart.Forest{Head: chart.Head{Title: "Same-round ratios", Description: "Median ratio of each comparison with its interval. Green: better; red: worse; neither where the interval includes 1, Holm's correction over all comparisons takes a claim back, or the control differs from itself as far."}}
	add := func(c *rounds.Comparison, label string, tone chart.Tone) {
		iv := c.Result.Interpolated
		row := chart.ForestRow{Label: label, Estimate: nan, Low: nan, High: nan, Tone: tone, Dots: c.Result.Ratios, Margin: marginOf(g, c)}
		switch {
		case c.Refused != "":
			row.Note, row.Dots = "no result: "+c.Refused, nil
		case len(c.Result.Ratios) == 0:
			row.Note = "no valid pair"
		default:
			row.Estimate = c.Result.Median
			if iv.Ok() {
				row.Low, row.High = iv.Low, iv.High
			} else {
				row.Note = iv.Explain()
			}
		}
		if c.Metric.Better == "" {
			row.Note = strings.TrimSpace(row.Note + " neither direction is better")
		}
		forest.Rows = append(forest.Rows, row)
	}
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		add(c, c.Ratio.String()+": "+c.Metric.Path, toneOf(read.Of[i].Side))
	}
	for i := range a.Floor {
		c := &a.Floor[i]
		add(c, c.Ratio.String()+" (control): "+c.Metric.Path, chart.Neutral)
	}
	s.Charts(forest)
	s.Table(ratioTable(a, read))
	if len(a.Floor) == 0 {
		s.Missing("There is no control: without a second copy of the base (--aa), nothing shows how large a ratio is by chance alone.")
	}
}

// marginOf returns the ratio that a gate's margin allows, NaN without one.
func marginOf(g *gate.Report, c *rounds.Comparison) float64 {
	if g == nil {
		return nan
	}
	for _, r := range g.Rows {
		if r.Metric != c.Metric.Path || r.Of != c.Ratio.Of || r.To != c.Ratio.To {
			continue
		}
		if r.Better == stats.Lower {
			return 1 + r.Margin
		}
		return 1 - r.Margin
	}
	return nan
}

func ratioTable(a *rounds.Analysis, read *gate.Readings) *chart.Table {
	r := chart.Ratio
	t := &chart.Table{Caption: "Comparisons", Columns: []chart.Column{{Name: "metric"}, {Name: "ratio of"}, {Name: "median ratio", Unit: r},
		{Name: "interval low", Unit: r}, {Name: "interval high", Unit: r}, {Name: "its true level", Unit: chart.Share},
		{Name: "bootstrap low", Unit: r}, {Name: "bootstrap high", Unit: r}, {Name: "its true level", Unit: chart.Share},
		{Name: "worst case low", Unit: r}, {Name: "worst case high", Unit: r},
		{Name: "pairs"}, {Name: "planned"}, {Name: "resolves ±", Unit: chart.Share}, {Name: "median of the first"}, {Name: "median of the second"}, {Name: "reading"}}}
	ends := func(iv stats.Interval) (low, high, level float64) {
		if !iv.Ok() {
			return nan, nan, nan
		}
		return iv.Low, iv.High, iv.TrueLevel
	}
	add := func(c *rounds.Comparison, kind string, r gate.Reading) {
		res := &c.Result
		unit := unitOf(c.Metric)
		row := []any{c.Metric.Path, c.Ratio.String()}
		if c.Refused != "" || len(res.Ratios) == 0 {
			row = append(row, nan, nan, nan, nan, nan, nan, nan, nan, nan)
		} else {
			low, high, level := ends(res.Interpolated)
			blow, bhigh, blevel := ends(res.Bootstrap)
			wlow, whigh, _ := ends(res.WorstCase)
			row = append(row, res.Median, low, high, level, blow, bhigh, blevel, wlow, whigh)
		}
		resolves := nan
		if c.Resolves > 0 {
			resolves = c.Resolves
		}
		row = append(row, len(res.Pairs.Kept), c.Planned, resolves, chart.Format(c.MedianOf, unit), chart.Format(c.MedianTo, unit))
		switch {
		case c.Refused != "":
			row = append(row, "no result: "+c.Refused)
		case kind != "":
			row = append(row, kind)
		case !res.Interpolated.Ok():
			row = append(row, res.Interpolated.Explain())
		case c.Metric.Better == "":
			row = append(row, "neither direction is better")
		case r.Why != "":
			row = append(row, "open: "+r.Why)
		case r.Side == gate.Open:
			row = append(row, "open: the interval includes 1")
		default:
			row = append(row, string(r.Side))
		}
		t.Rows = append(t.Rows, row)
	}
	for i := range a.Comparisons {
		add(&a.Comparisons[i], "", read.Of[i])
	}
	for i := range a.Floor {
		add(&a.Floor[i], "control: the base against itself", gate.Reading{})
	}
	return t
}

// unitOf is the unit of a metric.
func unitOf(m rounds.Metric) chart.Unit {
	switch m.Unit {
	case "ns":
		return chart.Nanoseconds
	case "1/s":
		return chart.PerSecond
	case "B":
		return chart.Bytes
	}
	return chart.Plain
}

// gateSection lists the rows of a verdict.
func gateSection(p *page.Page, g *gate.Report) {
	s := p.Section("Gate")
	t := &chart.Table{Caption: "Rows of the gate", Columns: []chart.Column{{Name: "metric"}, {Name: "ratio of"}, {Name: "median", Unit: chart.Ratio}, {Name: "low", Unit: chart.Ratio}, {Name: "high", Unit: chart.Ratio},
		{Name: "margin", Unit: chart.Share}, {Name: "pairs"}, {Name: "planned"}, {Name: "verdict"}, {Name: "notes"}}}
	for _, r := range g.Rows {
		low, high := nan, nan
		if r.Interval.Ok() {
			low, high = r.Interval.Low, r.Interval.High
		}
		notes := slices.Clone(r.Notes)
		for _, w := range r.Warnings {
			notes = append(notes, w.Text)
		}
		t.Rows = append(t.Rows, []any{r.Metric, r.Of + "/" + r.To, r.Median, low, high, r.Margin, r.Used, r.Planned, string(r.Verdict), strings.Join(notes, "; ")})
	}
	for _, c := range g.Controls {
		low, high := nan, nan
		if c.Interval.Ok() {
			low, high = c.Interval.Low, c.Interval.High
		}
		verdict := "control ok"
		if !c.OK {
			verdict = "control NOT ok"
		}
		t.Rows = append(t.Rows, []any{c.Metric, c.Of + "/" + c.To, c.Median, low, high, nan, len(c.Pairs.Kept), c.Pairs.Planned(), verdict, c.Note})
	}
	s.Table(t)
	for _, u := range g.Unfit {
		s.List("machine: " + u)
	}
}

// warningSection lists all warnings.
func warningSection(p *page.Page, a *rounds.Analysis, trials []trial, unread []string) {
	s := p.Section("Warnings")
	var out []string
	add := func(text string) {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, w := range a.Warnings {
		add(w.Text)
	}
	for _, list := range [][]rounds.Comparison{a.Comparisons, a.Floor} {
		for _, c := range list {
			name := c.Metric.Path + ", " + c.Ratio.String() + ": "
			if c.Refused != "" {
				add(name + "no result: " + c.Refused)
			}
			if c.Caution != "" {
				add(name + c.Caution)
			}
			if c.LeftOut != "" {
				add(name + "left out: " + c.LeftOut)
			}
			for _, w := range c.Result.Warnings {
				add(name + w.Text)
			}
		}
	}
	for _, c := range a.Claims {
		add(c.Metric.Path + ", taken together: " + c.Claim.Text())
	}
	if n := len(unread); n > 0 {
		add(fmt.Sprintf("%d records are none that this version can draw: %s", n, joinSome(unread, 3)))
	}
	addWarnings(s, out, trials)
}

// joinSome joins the first n and says how many more there are.
func joinSome(list []string, n int) string {
	text := strings.Join(list[:min(len(list), n)], "; ")
	if len(list) > n {
		text += fmt.Sprintf("; and %d more", len(list)-n)
	}
	return text
}

// roundSections draw each metric round by round, by slot and by time.
func roundSections(p *page.Page, exp *rounds.Experiment, a *rounds.Analysis) error {
	s := p.Section("Round by round")
	order := p.Section("Order and time")
	order.Text("A variant that always ran first, or while the machine was warm, would be at an advantage: the order is balanced for that, and here is what is left. In the same-round ratios below, dots that differ by which of the two ran first show an effect of the order; dots that climb or fall show one of time.")
	var metrics []rounds.Metric
	for _, c := range a.Comparisons {
		if !slices.Contains(metrics, c.Metric) {
			metrics = append(metrics, c.Metric)
		}
	}
	names := make([]string, len(exp.Manifest.Variants))
	for i, v := range exp.Manifest.Variants {
		names[i] = v.Name
	}
	slots := &chart.Table{Caption: "Medians by slot, of valid trials", Columns: []chart.Column{{Name: "metric"}, {Name: "variant"}}}
	for slot := range names {
		slots.Columns = append(slots.Columns, chart.Column{Name: fmt.Sprintf("slot %d", slot+1)})
	}
	for _, m := range metrics {
		readings, err := exp.Readings(m, a.Planned)
		if err != nil {
			return err
		}
		unit := unitOf(m)
		s.Charts(pairedChart(m, names, readings, a.Planned))
		var charts []chart.Chart
		for i := range a.Comparisons {
			if c := &a.Comparisons[i]; c.Metric == m && len(c.Result.Pairs.Kept) > 0 {
				charts = append(charts, ratioByRound(c))
			}
		}
		charts = append(charts, byTime(m, names, readings), bySlot(m, names, readings))
		order.Charts(charts...)
		for _, name := range names {
			row := []any{m.Path, name}
			for slot := range names {
				var v []float64
				for _, r := range readings {
					if r.Trial.Variant == name && r.Trial.Slot == slot && r.Missing == "" {
						v = append(v, r.Value)
					}
				}
				text := chart.Format(median(v), unit)
				if len(v) > 0 {
					text += fmt.Sprintf(" of %d", len(v))
				}
				row = append(row, text)
			}
			slots.Rows = append(slots.Rows, row)
		}
	}
	order.Table(slots)
	return nil
}

func pairedChart(m rounds.Metric, names []string, readings []rounds.TrialReading, planned int) chart.Chart {
	better := "neither direction is better."
	if m.Better != "" {
		better = string(m.Better) + " is better."
	}
	c := &chart.Paired{
		Head: chart.Head{Title: m.Path, Description: "One dot for each variant in each round; dots of one round are joined, and " + better},
		Y:    chart.Axis{Label: m.Path, Unit: unitOf(m)}, Variants: names,
	}
	byRound := map[int][]float64{}
	for _, r := range readings {
		row := byRound[r.Trial.Round]
		if row == nil {
			row = make([]float64, len(names))
			for i := range row {
				row[i] = nan
			}
			byRound[r.Trial.Round] = row
		}
		if i := slices.Index(names, r.Trial.Variant); i >= 0 && r.Missing == "" {
			row[i] = r.Value
		}
	}
	for round := 1; round <= planned; round++ {
		if row := byRound[round]; row != nil {
			c.Rounds = append(c.Rounds, chart.PairedRound{Number: round, Values: row})
		}
	}
	return c
}

// ratioByRound draws the ratio of each round, by which variant ran first.
func ratioByRound(c *rounds.Comparison) chart.Chart {
	out := &chart.Lines{
		Head:       chart.Head{Title: c.Metric.Path + ", " + c.Ratio.String() + " by round", Description: "The ratio of each round; the signs tell which of the two ran first."},
		X:          chart.Axis{Label: "round", Whole: true},
		Y:          chart.Axis{Label: "ratio", Unit: chart.Ratio},
		Series:     []chart.Series{{Name: c.Ratio.Of + " first", Style: chart.Dots}, {Name: c.Ratio.To + " first", Style: chart.Dots}},
		References: []chart.Reference{{Value: 1}},
	}
	for _, k := range c.Result.Pairs.Kept {
		s := &out.Series[0]
		if k.YSlot < k.XSlot {
			s = &out.Series[1]
		}
		s.X, s.Y = append(s.X, float64(k.Round)), append(s.Y, k.Ratio())
	}
	return out
}

// byTime draws a metric over the time of the experiment.
func byTime(m rounds.Metric, names []string, readings []rounds.TrialReading) chart.Chart {
	out := &chart.Lines{
		Head: chart.Head{Title: m.Path + " over time", Description: "Each valid trial at the time when it started, counted from the first."},
		X:    chart.Axis{Label: "time since the first trial", Unit: chart.Nanoseconds}, Y: chart.Axis{Label: m.Path, Unit: unitOf(m)},
	}
	var first time.Time
	for _, name := range names {
		s := chart.Series{Name: name, Style: chart.Dots}
		for _, r := range readings {
			at, err := time.Parse(time.RFC3339Nano, r.Trial.Start)
			if err != nil {
				if r.Trial.Variant == name {
					s.Missed++
				}
				continue
			}
			if first.IsZero() {
				first = at
			}
			if r.Trial.Variant == name && r.Missing == "" {
				s.X, s.Y = append(s.X, float64(at.Sub(first))), append(s.Y, r.Value)
			}
		}
		out.Series = append(out.Series, s)
	}
	return out
}

// bySlot draws a metric by the place in the round.
func bySlot(m rounds.Metric, names []string, readings []rounds.TrialReading) chart.Chart {
	out := &chart.Lines{
		Head: chart.Head{Title: m.Path + " by slot", Description: "Each valid trial by its place in the round, variants beside each other."},
		X:    chart.Axis{Label: "slot", Whole: true}, Y: chart.Axis{Label: m.Path, Unit: unitOf(m)},
	}
	for i, name := range names {
		s := chart.Series{Name: name, Style: chart.Dots}
		// Variants stand beside each other, not on each other.
		aside := 0.0
		if k := len(names); k > 1 {
			aside = 0.3 * (float64(i)/float64(k-1) - 0.5)
		}
		for _, r := range readings {
			if r.Trial.Variant == name && r.Missing == "" {
				s.X, s.Y = append(s.X, float64(r.Trial.Slot+1)+aside), append(s.Y, r.Value)
			}
		}
		out.Series = append(out.Series, s)
	}
	return out
}

// trialTable lists all trials of the journal, warm-up and retries too.
func trialTable(exp *rounds.Experiment) *chart.Table {
	t := &chart.Table{Caption: "All trials, in the order in which they ran", Columns: []chart.Column{{Name: "variant"}, {Name: "round"}, {Name: "slot"}, {Name: "attempt"}, {Name: "after"}, {Name: "valid"},
		{Name: "took", Unit: chart.Nanoseconds}, {Name: "waited before", Unit: chart.Nanoseconds}, {Name: "CPU pressure before", Unit: chart.Share}, {Name: "user", Unit: chart.Nanoseconds}, {Name: "kernel", Unit: chart.Nanoseconds},
		{Name: "exit"}, {Name: "start"}, {Name: "why not"}},
		Note: "Rounds of 0 and below are warm-up and enter nothing."}
	for i := range exp.Trials {
		x := &exp.Trials[i]
		var why []string
		for _, r := range x.Reasons {
			why = append(why, r.Rule+": "+r.Detail)
		}
		if x.Output != "" {
			why = append(why, "it printed: "+x.Output)
		}
		t.Rows = append(t.Rows, []any{x.Variant, x.Round, x.Slot + 1, x.Attempt, x.After, yes(x.Valid), float64(x.WallNS), float64(x.Quiet.WaitedNS), known(x.Quiet.Pressure),
			float64(x.Usage.UserNS), float64(x.Usage.SystemNS), x.Exit, x.Start, strings.Join(why, "; ")})
	}
	return t
}

// machineSection says what the checks of the machine found.
func machineSection(p *page.Page, exp *rounds.Experiment) {
	s := p.Section("Machine")
	if len(exp.Sessions) == 0 {
		s.Missing("The journal has no session, so nothing was checked.")
		return
	}
	for i, x := range exp.Sessions {
		s.Heading(fmt.Sprintf("Session %d", i+1))
		ended := x.Ended
		if ended == "" {
			ended = "it was killed, or still runs"
		}
		s.Facts(page.Fact{Name: "kvbench", Value: strings.TrimSpace(x.Tool.Version + " " + x.Tool.Commit + " " + x.Tool.Go)},
			page.Fact{Name: "CPUs of trials", Value: x.ChildCPUs}, page.Fact{Name: "ended", Value: ended})
		if x.Host == nil {
			s.Missing("The machine was not checked at the start of this session.")
			continue
		}
		t := &chart.Table{Caption: fmt.Sprintf("Checks at the start of session %d: %s", i+1, x.Host.Verdict), Columns: []chart.Column{{Name: "check"}, {Name: "verdict"}, {Name: "found"}, {Name: "remedy"}}}
		for _, f := range x.Host.Findings {
			t.Rows = append(t.Rows, []any{f.Name, string(f.Verdict), f.Detail, f.Remedy})
		}
		s.Table(t)
	}
}

// experimentProvenance says what must not change about an experiment.
func experimentProvenance(p *page.Page, exp *rounds.Experiment, a *rounds.Analysis) {
	m := exp.Manifest
	fact := func(name, value string) {
		if value == "" {
			value = "unknown"
		}
		p.Provenance(page.Fact{Name: name, Value: value})
	}
	fact("experiment", filepath.Base(exp.Dir))
	fact("created", m.Created)
	modified := ""
	if m.Tool.Modified {
		modified = ", with changes"
	}
	fact("made by", strings.TrimSpace("kvbench "+m.Tool.Version+" "+m.Tool.Commit+modified+" "+m.Tool.Go))
	for _, v := range m.Variants {
		fact("variant "+v.Name, v.String()+"; program SHA-256 "+v.SHA256)
		for _, f := range v.Files {
			fact("file of "+v.Name, f.Path+"; SHA-256 "+f.SHA256)
		}
	}
	fact("flags of all", quote(m.Arguments))
	fact("work", m.Work.Source)
	fact("corpus SHA-256 of the experiment", m.Work.SHA256)
	fact("order", fmt.Sprintf("%s, seed %d", a.Order, a.Seed))
	fact("rules", fmt.Sprintf("rest %v, wait for a quiet machine up to %v (CPU pressure %g), time limit %v, %d retries", m.Rules.Gap, m.Rules.QuietLimit, m.Rules.QuietPressure, m.Rules.TrialTimeout, m.Rules.RetryInvalid))
	var env []string
	for _, e := range m.Env {
		name, _, _ := strings.Cut(e, "=")
		env = append(env, name)
	}
	fact("environment of trials (names; the manifest has the values)", strings.Join(env, " "))
	for _, x := range exp.Extensions {
		fact("extended", fmt.Sprintf("to %d rounds: %s", x.Rounds, x.Why))
	}
}
