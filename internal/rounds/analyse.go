package rounds

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/stats"
)

// AnalysisV1 is the schema name of Analysis.
const AnalysisV1 = "kvbench.rounds.analysis/v1"

// DefaultLevel is the confidence level of intervals.
const DefaultLevel = 0.95

// Power is the probability with which the smallest resolvable effect is found.
const Power = 0.8

// AnalyseOptions say what to compare. The zero value is what the manifest asks for.
type AnalyseOptions struct {
	Ratios  []Ratio  // none: those of the manifest
	Metrics []string // names for ResolveMetric; none: those of the manifest, else by load
	Level   float64  // of the intervals, between 0 and 1; 0: DefaultLevel
	// NonInferiority asks whether every interval rules out a loss of that share,
	// 0.04 for 4%; 0: not asked.
	NonInferiority float64
	// Rounds leaves out what comes after so many rounds; 0: nothing.
	Rounds int
}

// Analysis is what an experiment says. It is computed from manifest and journal
// alone.
type Analysis struct {
	Schema   string  `json:"schema"`
	Dir      string  `json:"-"`
	Level    float64 `json:"level"`
	Planned  int     `json:"planned_rounds"`
	Done     int     `json:"done_rounds"` // in which every variant ran
	Order    Order   `json:"order"`
	Seed     uint64  `json:"seed"`
	Load     Load    `json:"load"`
	Machine  string  `json:"machine"`
	Corpus   string  `json:"corpus_sha256"`
	Workload string  `json:"workload"`

	Variants    []VariantSummary `json:"variants"`
	Comparisons []Comparison     `json:"comparisons"` // by metric, then as the ratios were asked for
	// Floor compares the two copies of the base, one for each metric: what shows
	// there is noise. Empty without a control.
	Floor    []Comparison `json:"floor"`
	Claims   []Claim      `json:"claims"`
	Warnings []Warning    `json:"warnings"`
}

// VariantSummary counts the trials of a variant in the measured rounds.
type VariantSummary struct {
	Name    string `json:"name"`
	What    string `json:"what"` // as ParseVariant reads it
	SHA256  string `json:"sha256"`
	Trials  int    `json:"trials"`
	Valid   int    `json:"valid"`
	Invalid int    `json:"invalid"` // of these Failed have no record
	Failed  int    `json:"failed"`
	Retries int    `json:"retries"`
	Load    Load   `json:"load"`
	// Rules counts the broken rules of invalid trials.
	Rules map[string]int `json:"rules,omitempty"`
}

// Comparison is one metric of two variants.
type Comparison struct {
	Metric  Metric `json:"metric"`
	Ratio   Ratio  `json:"ratio"`
	Planned int    `json:"planned"` // rounds
	// MedianOf and MedianTo are the medians of all valid trials of each; their
	// ratio is not Result.Median.
	MedianOf float64 `json:"median_of"`
	MedianTo float64 `json:"median_to"`
	// Result holds the pairs with their intervals. Result.Pairs.Dropped names the
	// rounds left out and why.
	Result stats.Comparison `json:"result"`
	// Resolves is the smallest effect, 0.011 for 1.1%, that so many pairs with
	// such noise find with probability Power; 0 if that is not known.
	Resolves float64 `json:"resolves"`
	// LeftOut names the rounds left out by the rules that were broken, and gives
	// an example of each; "" if none was.
	LeftOut string `json:"left_out,omitempty"`
	// Refused says why the metric is no result under this load; "" if it may be
	// one.
	Refused string `json:"refused,omitempty"`
	// Caution says what else the load does to the metric.
	Caution string `json:"caution,omitempty"`
}

// Claim is what the intervals of a metric allow to be said of all ratios at once.
type Claim struct {
	Metric Metric      `json:"metric"`
	Claim  stats.Claim `json:"claim"`
	// Margin is the loss that was asked about, 0 if none was.
	Margin float64 `json:"margin,omitempty"`
	// Holds says whether every interval rules out a loss of Margin.
	Holds bool `json:"holds"`
}

// Warning is something about the experiment that a reader of its figures should
// know.
type Warning struct {
	Name string `json:"name"` // stable
	Text string `json:"text"`
}

// Analyse computes comparisons from the trials that are there. It is an error to
// ask for what does not exist; that nothing could be measured is in the result.
func (e *Experiment) Analyse(o AnalyseOptions) (*Analysis, error) {
	m := e.Manifest
	if o.Level == 0 {
		o.Level = DefaultLevel
	}
	if !(o.Level > 0 && o.Level < 1) {
		return nil, fmt.Errorf("the confidence level is %g; it must lie between 0 and 1", o.Level)
	}
	if !(o.NonInferiority >= 0 && o.NonInferiority < 1) {
		return nil, fmt.Errorf("the margin of non-inferiority is %g; it must lie between 0 and 1", o.NonInferiority)
	}
	if o.Rounds < 0 {
		return nil, fmt.Errorf("%d rounds are asked for", o.Rounds)
	}
	if len(o.Ratios) == 0 {
		o.Ratios = m.Ratios
	}
	if len(o.Ratios) == 0 && m.Control != "" { // the base alone
		o.Ratios = []Ratio{{Of: m.Control, To: m.Base}}
	}
	for _, r := range o.Ratios {
		if err := checkRatio(r, m.names()); err != nil {
			return nil, err
		}
	}
	s := &sample{e: e, rounds: len(e.rows)}
	if o.Rounds > 0 {
		s.rounds = min(s.rounds, o.Rounds)
	}
	if err := s.read(); err != nil {
		return nil, err
	}
	a := &Analysis{
		Schema: AnalysisV1, Dir: e.Dir, Level: o.Level, Planned: s.rounds, Done: s.done(), Order: m.Order, Seed: m.Seed,
		Machine: machineText(m.Host), Corpus: m.Work.SHA256, Workload: m.workload(),
		Comparisons: []Comparison{}, Floor: []Comparison{}, Claims: []Claim{}, Warnings: []Warning{},
	}
	var all loads
	for i := range m.Variants {
		v := s.summary(&m.Variants[i])
		a.Variants = append(a.Variants, v)
		l := s.loads[v.Name]
		all.trials, all.keptUp, all.over = all.trials+l.trials, all.keptUp+l.keptUp, all.over+l.over
	}
	a.Load = all.load()
	names := o.Metrics
	if len(names) == 0 {
		names = m.Metrics
	}
	if len(names) == 0 {
		names = a.Load.defaults()
	}
	for _, name := range names {
		metric, err := ResolveMetric(name)
		if err != nil {
			return nil, err
		}
		var claimed []Comparison
		for _, r := range o.Ratios {
			c, err := s.compare(metric, r, o.Level)
			if err != nil {
				return nil, err
			}
			a.Comparisons = append(a.Comparisons, c)
			if c.Refused == "" {
				claimed = append(claimed, c)
			}
		}
		if m.Control != "" {
			c, err := s.compare(metric, Ratio{Of: m.Control, To: m.Base}, o.Level)
			if err != nil {
				return nil, err
			}
			a.Floor = append(a.Floor, c)
		}
		if metric.Better != "" && (len(claimed) > 1 || len(claimed) > 0 && o.NonInferiority > 0) {
			a.Claims = append(a.Claims, claim(metric, claimed, o.NonInferiority))
		}
	}
	a.Warnings = s.warnings(a)
	return a, nil
}

func claim(m Metric, cs []Comparison, margin float64) Claim {
	var names []string
	var intervals []stats.Interval
	for _, c := range cs {
		names = append(names, c.Ratio.String())
		intervals = append(intervals, c.Result.Interpolated)
	}
	c := stats.Claims(names, intervals, m.Better)
	return Claim{Metric: m, Claim: c, Margin: margin, Holds: margin > 0 && c.NoneAllows(margin)}
}

// Unmeasurable lists why what was asked for is not there; nil if all of it is.
// Fewer than six planned rounds ask for no interval.
func (a *Analysis) Unmeasurable() []string {
	var out []string
	for _, c := range a.Comparisons {
		pairs := len(c.Result.Pairs.Kept)
		what := c.Metric.Path + ", " + c.Ratio.String()
		switch {
		case c.Refused != "":
			out = append(out, what+": "+c.Refused)
		case pairs == 0:
			out = append(out, what+": no round has a valid pair")
		case pairs < stats.MinValues && c.Planned >= stats.MinValues:
			out = append(out, fmt.Sprintf("%s: %d valid pairs of %d; an interval needs %d", what, pairs, c.Planned, stats.MinValues))
		}
	}
	return out
}

// sample is the trials that count.
type sample struct {
	e      *Experiment
	rounds int
	// last is the trial of a variant that counts for a round: the last attempt.
	last  map[string]map[int]*Trial
	of    map[*Trial]figures
	loads map[string]*loads
}

func (s *sample) read() error {
	s.last, s.of, s.loads = map[string]map[int]*Trial{}, map[*Trial]figures{}, map[string]*loads{}
	for _, v := range s.e.Manifest.Variants {
		s.last[v.Name], s.loads[v.Name] = map[int]*Trial{}, &loads{}
	}
	for i := range s.e.Trials {
		t := &s.e.Trials[i]
		if t.Round < 1 || t.Round > s.rounds {
			continue
		}
		s.last[t.Variant][t.Round] = t
		if !t.Valid {
			continue
		}
		f, err := parse(t.Record)
		if err != nil {
			return fmt.Errorf("record of %s in round %d: %w", t.Variant, t.Round, err)
		}
		s.of[t] = f
		s.loads[t.Variant].add(f)
	}
	return nil
}

// done is the number of rounds in which every variant ran.
func (s *sample) done() int {
	n := 0
	for r := 1; r <= s.rounds; r++ {
		whole := true
		for _, trials := range s.last {
			whole = whole && trials[r] != nil
		}
		if whole {
			n++
		}
	}
	return n
}

func (s *sample) summary(v *Entrant) VariantSummary {
	out := VariantSummary{Name: v.Name, What: v.String(), SHA256: v.SHA256, Load: s.loads[v.Name].load()}
	for _, t := range s.e.Trials {
		if t.Variant != v.Name || t.Round < 1 || t.Round > s.rounds {
			continue
		}
		out.Trials++
		if t.Attempt > 1 {
			out.Retries++
		}
		if t.Valid {
			out.Valid++
			continue
		}
		out.Invalid++
		if t.Failed {
			out.Failed++
		}
		if out.Rules == nil {
			out.Rules = map[string]int{}
		}
		seen := map[string]bool{}
		for _, r := range t.Reasons {
			if !seen[r.Rule] {
				seen[r.Rule] = true
				out.Rules[r.Rule]++
			}
		}
	}
	return out
}

// series is the readings of a variant in the rounds in which the other ran too: a
// round that is not over yet is no dropped one.
func (s *sample) series(m Metric, name, other string) stats.Series {
	out := stats.Series{Variant: name}
	for r := 1; r <= s.rounds; r++ {
		t := s.last[name][r]
		if t == nil || s.last[other][r] == nil {
			continue
		}
		reading := stats.Reading{Round: r, Slot: t.Slot, Retry: t.Attempt > 1}
		if t.Valid {
			reading.Value, reading.Invalid = m.read(t, s.of[t])
		} else {
			reading.Invalid = reasonText(t.Reasons)
		}
		out.Readings = append(out.Readings, reading)
	}
	return out
}

func (s *sample) compare(m Metric, r Ratio, level float64) (Comparison, error) {
	c := Comparison{Metric: m, Ratio: r, Planned: s.rounds}
	of, to := s.series(m, r.Of, r.To), s.series(m, r.To, r.Of)
	pairs, err := stats.Pair(of, to)
	if err != nil {
		return c, err
	}
	c.Result = stats.Compare(pairs, level)
	c.MedianOf, c.MedianTo = s.median(m, r.Of), s.median(m, r.To)
	if n := len(pairs.Kept); c.Result.Sigma > 0 && n >= stats.MinValues {
		c.Resolves = stats.Resolvable(c.Result.Sigma, n, level, Power, stats.MedianEfficiency)
	}
	c.LeftOut = s.leftOut(pairs)
	c.Refused, c.Caution = s.underLoad(m, r)
	return c, nil
}

// ranges writes ascending numbers as in 1-5,7.
func ranges(numbers []int) string { return host.FormatCPUs(numbers) }

// leftOut groups the rounds without a pair by what was wrong, because a reason
// that hits one round often hits many.
func (s *sample) leftOut(p stats.Pairs) string {
	var kinds []string
	rounds := map[string][]int{}
	examples := map[string]string{}
	for _, d := range p.Dropped {
		var parts []string
		for _, side := range []struct{ name, reason string }{{p.Numerator, d.XReason}, {p.Denominator, d.YReason}} {
			if side.reason == "" {
				continue
			}
			rule := side.reason // of a valid trial: the metric is missing or gives no ratio
			if t := s.last[side.name][d.Round]; t != nil && !t.Valid {
				rule = t.Reasons[0].Rule
				if examples[rule] == "" {
					examples[rule] = fmt.Sprintf("%s, round %d: %s", side.name, d.Round, t.Reasons[0].Detail)
				}
			}
			parts = append(parts, side.name+" "+rule)
		}
		kind := strings.Join(parts, ", ")
		if rounds[kind] == nil {
			kinds = append(kinds, kind)
		}
		rounds[kind] = append(rounds[kind], d.Round)
	}
	var out []string
	for _, kind := range kinds {
		noun := "rounds "
		if len(rounds[kind]) == 1 {
			noun = "round "
		}
		out = append(out, noun+ranges(rounds[kind])+" ("+kind+")")
	}
	text := strings.Join(out, ", ")
	for _, rule := range slices.Sorted(maps.Keys(examples)) {
		text += "; " + rule + ", for example " + examples[rule]
	}
	return text
}

// median of all valid trials of a variant; 0 without any.
func (s *sample) median(m Metric, name string) float64 {
	values := s.series(m, name, name).Values()
	if len(values) == 0 {
		return 0
	}
	return stats.Median(values)
}

// underLoad says what the load makes of a metric.
func (s *sample) underLoad(m Metric, r Ratio) (refused, caution string) {
	of, to := s.loads[r.Of], s.loads[r.To]
	trials, kept, over := of.trials+to.trials, of.keptUp+to.keptUp, of.over+to.over
	if of, to := s.shared(r.Of), s.shared(r.To); of != to && of != "" && to != "" {
		return fmt.Sprintf("%s ran on %s and %s on %s, which do not compare", r.Of, of, r.To, to), ""
	}
	pace := s.serial(r.Of)
	if other := s.serial(r.To); pace != other && pace != "" && other != "" {
		return fmt.Sprintf("%s ran %s and %s %s, which do not compare", r.Of, pace, r.To, other), ""
	}
	switch {
	case pace == "serially" && (m.Throughput() || m.Waiting()):
		return "", "serial trials do one operation after another: no rate and no waiting of theirs is that of an index under load"
	case m.Throughput() && (of.load() == KeepUp || to.load() == KeepUp):
		return fmt.Sprintf("%d of %d trials kept up, so the window sets their throughput and not the index; shorten --duration until none keeps up, or compare latencies", kept, trials), ""
	case m.Throughput() && kept > 0:
		return "", fmt.Sprintf("%d of %d trials kept up: their throughput is that of the window", kept, trials)
	case m.Throughput() && trials > 0 && over < trials:
		return "", fmt.Sprintf("%d of %d trials took less than %g x window, so the window holds the throughput back", trials-over, trials, overloadedFrom)
	case m.Waiting() && trials > 0 && kept < trials:
		return "", fmt.Sprintf("%d of %d trials did not keep up: such latencies are those of the queue", trials-kept, trials)
	}
	return "", ""
}

// shared says whether the trials of a variant ran on shared CPUs; "" if nothing
// says so or not all say the same.
func (s *sample) shared(name string) string {
	return s.configured(name, "shared_cpus", "CPUs of their own", "shared CPUs")
}

// serial says in what manner the trials of a variant ran; "" as for shared.
func (s *sample) serial(name string) string {
	return s.configured(name, "serial", "at deadlines", "serially")
}

// configured says what all valid trials of a variant say of a field of their
// configuration; "" if nothing says so or not all say the same.
func (s *sample) configured(name, field, ifFalse, ifTrue string) string {
	text := ""
	for _, t := range s.last[name] {
		if !t.Valid {
			continue
		}
		config, _ := s.of[t]["config"].(map[string]any)
		is, ok := config[field].(bool)
		if !ok {
			return ""
		}
		now := ifFalse
		if is {
			now = ifTrue
		}
		if text != "" && now != text {
			return ""
		}
		text = now
	}
	return text
}

// workload names the work in a line.
func (m *Manifest) workload() string {
	text := m.Work.Source
	if i := strings.LastIndexByte(text, '/'); i >= 0 {
		text = text[i+1:]
	}
	if o := m.Work.Options; o != nil {
		text += fmt.Sprintf(", %d workers", o.Workers)
		if o.DPRanks > 1 {
			text += fmt.Sprintf(" x %d", o.DPRanks)
		}
		if o.DuplicationFactor > 1 {
			text += fmt.Sprintf(", %d copies", o.DuplicationFactor)
		}
		if o.LengthFactor > 1 {
			text += fmt.Sprintf(", prompts x %d", o.LengthFactor)
		}
		text += ", window " + time.Duration(m.Work.WindowNS).String()
	}
	return text
}

func machineText(h host.Identity) string {
	model := h.CPUModel
	if model == "" {
		model = h.Arch
	}
	text := fmt.Sprintf("%s, %d CPUs", model, h.LogicalCPUs)
	if h.Hypervisor != "" {
		text += ", virtual (" + h.Hypervisor + ")"
	}
	return text
}

// pressureDoubtful is the CPU pressure of a trial from which others are in its way,
// if its threads have CPUs of their own.
const pressureDoubtful = 0.01

// RatioSoFar is a one-line reading of the first metric, for progress.
func (a *Analysis) RatioSoFar() string {
	var parts []string
	for _, c := range a.Comparisons {
		n := len(c.Result.Pairs.Kept)
		if c.Metric != a.Comparisons[0].Metric || n == 0 || c.Refused != "" {
			continue
		}
		text := c.Ratio.String() + " " + ratioText(c.Result.Median)
		if iv := c.Result.Interpolated; iv.Ok() {
			text += " [" + intervalText(iv, false) + "]"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// warnings are about the experiment as a whole; those about single comparisons are
// in their results.
func (s *sample) warnings(a *Analysis) []Warning {
	out := []Warning{}
	add := func(name, format string, args ...any) {
		out = append(out, Warning{name, fmt.Sprintf(format, args...)})
	}
	e, m := s.e, s.e.Manifest
	if a.Done < a.Planned {
		add("unfinished", "%d of %d planned rounds are done", a.Done, a.Planned)
	}
	if block := m.Order.Block(len(m.Variants)); a.Planned%block != 0 {
		add("unbalanced-plan", "the order of %d variants is balanced over %d rounds, and %d is no multiple of that: plan %d", len(m.Variants), block, a.Planned, (a.Planned/block+1)*block)
	}
	var shared, serial []string
	late := false
	for _, v := range a.Variants {
		late = late || v.Rules["issue_span"] > 0
		if v.Invalid > 0 {
			add("invalid-trials", "%s: %d of %d trials invalid (%s), %d retried", v.Name, v.Invalid, v.Trials, countText(v.Rules), v.Retries)
		}
		if s.shared(v.Name) == "shared CPUs" {
			shared = append(shared, v.Name)
		}
		if s.serial(v.Name) == "serially" {
			serial = append(serial, v.Name)
		}
	}
	if late {
		add("issue-span", "issue_span: the work was not offered in time, so that less load was measured than was meant; lengthen --duration, or give the issuers CPUs of their own")
	}
	if len(serial) > 0 {
		add("serial", "trials did one operation after another (%s): rates and latencies are not comparable with those of other trials", strings.Join(serial, ", "))
	}
	if len(shared) > 0 {
		add("shared-cpus", "threads of a trial shared CPUs (%s); figures are not comparable with those of pinned runs", strings.Join(shared, ", "))
	}
	for _, x := range e.Extensions {
		add("extended", "the plan was extended to %d rounds (%s): intervals hold their level only if that did not depend on what was seen", x.Rounds, x.Why)
	}
	if n := len(e.Sessions); n > 1 {
		add("resumed", "the experiment was resumed %s; trials on both sides of a break are further apart than others", text.Count(n-1, "time"))
	}
	s.machineWarnings(add)
	if a.Load == Between {
		add("load-between", "some trials neither kept up nor were clearly overloaded: shorten --duration to measure throughput, lengthen it to measure latency")
	}
	byMetric := map[string][]stats.Comparison{}
	for _, c := range a.Comparisons {
		byMetric[c.Metric.Path] = append(byMetric[c.Metric.Path], c.Result)
	}
	for _, path := range slices.Sorted(maps.Keys(byMetric)) {
		for _, w := range stats.ChainWarnings(byMetric[path]) {
			add(string(w.Name), "%s: %s", path, w.Text)
		}
	}
	return out
}

func countText(counts map[string]int) string {
	var parts []string
	for rule, n := range counts {
		parts = append(parts, fmt.Sprintf("%s %d", rule, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// machineWarnings say what the machine did during the trials.
func (s *sample) machineWarnings(add func(name, format string, args ...any)) {
	e := s.e
	var pressures []float64
	trials, restless, unknown := 0, 0, 0
	left := map[string]int{} // processes, by variant
	lastPressure := math.NaN()
	happened := map[string]int{}
	shared := false
	for i := range e.Trials {
		t := &e.Trials[i]
		if t.Round < 1 || t.Round > s.rounds {
			continue
		}
		trials++
		if t.LeftBehind > 0 {
			left[t.Variant] += t.LeftBehind
		}
		switch {
		case t.Quiet.Reached:
		case t.Quiet.Pressure < 0:
			unknown++
		default:
			restless++
			lastPressure = t.Quiet.Pressure
		}
		if share, ok := t.Counters.CPUPressure(); ok {
			pressures = append(pressures, share)
		}
		for _, c := range host.Happened(t.Counters, false) {
			happened[c.Name]++
		}
	}
	for _, v := range e.Manifest.Variants {
		shared = shared || s.shared(v.Name) != "CPUs of their own"
	}
	if unknown > 0 {
		add("quiet-unknown", "before %d of %d trials nobody could tell whether the machine was quiet: the system does not say how long threads wait for a CPU", unknown, trials)
	}
	if len(left) > 0 {
		add("left-behind", "trials left processes behind, which were ended: %s", countText(left))
	}
	if restless > 0 {
		add("not-quiet", "%d of %d trials began on a machine that did not become quiet within %v (CPU pressure %.0f%% at the last of them)",
			restless, trials, e.Manifest.Rules.QuietLimit, 100*lastPressure)
	}
	if median := stats.Median(pressures); median > pressureDoubtful {
		own := ""
		if shared {
			own = ", of which the trial's own threads are a part, since they share CPUs"
		}
		add("cpu-pressure", "threads waited for a CPU in %.0f%% of the time of the median trial%s", 100*median, own)
	}
	if len(happened) > 0 {
		add("machine-events", "trials in which something happened to the machine: %s", countText(happened))
	}
	for i, session := range e.Sessions {
		if session.ParentNote != "" && (i == 0 || e.Sessions[i-1].ParentNote != session.ParentNote) {
			add("parent-not-apart", "%s", session.ParentNote)
		}
		if session.Unlocked != "" && (i == 0 || e.Sessions[i-1].Unlocked != session.Unlocked) {
			add("machine-not-locked", "no lock kept other measurements of kvbench off the machine: %s", session.Unlocked)
		}
		if session.TornBytes > 0 {
			add("torn-journal", "an unfinished line of %d bytes was taken off the journal when session %d began; that trial ran again", session.TornBytes, i+1)
		}
		if session.Host == nil || session.HostAtEnd == nil {
			continue
		}
		for _, c := range host.Compare(session.Host, session.HostAtEnd, false) {
			add("host-"+c.Name, "from start to end of session %d: %s", i+1, c.Detail)
		}
	}
}
