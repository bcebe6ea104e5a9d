package archive

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	mstats "github.com/montanaflynn/stats"

	"github.com/kvbench/kvbench/internal/nearest"
	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/results/table"
	"github.com/kvbench/kvbench/stats"
)

// Selection says what to compare. The zero value compares the variants that both
// sides have, by the usual metrics.
type Selection struct {
	// Variants are pairs of a variant of A and one of B.
	Variants [][2]string
	Metrics  []string // names for rounds.ResolveMetric
	Level    float64  // of intervals; 0: rounds.DefaultLevel
}

// usual are the metrics that are compared if none is asked for.
var usual = []string{
	"rates.offered_block_ops_per_sec", "rates.achieved_block_ops_per_sec",
	"queries.service.p50", "queries.service.p99", "queries.scheduled_to_finished.p50", "queries.scheduled_to_finished.p99",
	"events.accepted_to_finished.p50", "events.accepted_to_finished.p99", "timing.drain_ns", "machine_use.peak_rss_bytes",
}

// Comparison is what differs between two results: first what they are of, then
// their figures.
type Comparison struct {
	A     Summary     `json:"a"`
	B     Summary     `json:"b"`
	Pairs [][2]string `json:"variants"` // compared: of A, of B
	Alone []string    `json:"variants_of_one_side"`
	// Differences are in what made the results, by group: machine, build, work,
	// configuration, rules.
	Differences []Difference `json:"differences"`
	Figures     []Figure     `json:"figures"`
	Warnings    []string     `json:"warnings"`
}

// Difference is something that is not the same on both sides.
type Difference struct {
	Group    string   `json:"group"`
	Field    string   `json:"field"`
	A        []string `json:"a"` // all values that it has there
	B        []string `json:"b"`
	Variants []string `json:"variants,omitempty"` // in which it differs; none: in all
}

// Figure is one metric of two variants.
type Figure struct {
	Metric   rounds.Metric `json:"metric"`
	VariantA string        `json:"variant_a"`
	VariantB string        `json:"variant_b"`
	A        float64       `json:"a"` // median of the valid trials
	B        float64       `json:"b"`
	TrialsA  int           `json:"trials_a"` // valid ones that have the metric
	TrialsB  int           `json:"trials_b"`
	Paired   bool          `json:"paired"` // the ratios are those within rounds
	// Ratio is B over A: the median of the ratios within rounds if Paired, else
	// what Interval estimates, and without one the ratio of the medians. 0: there
	// is none.
	Ratio    float64        `json:"ratio"`
	Interval stats.Interval `json:"interval"`
	Note     string         `json:"note,omitempty"` // what the ratio does not say
}

// groups say which parts of a record make two figures incomparable, and how that is
// called. The first prefix that fits decides.
var groups = []struct{ prefix, group string }{
	{"provenance.argv", ""},
	{"provenance.host.", "machine"},
	{"provenance.trace_name", "work"},
	{"provenance.trace_sha256", "work"},
	{"provenance.corpus_sha256", "work"},
	{"provenance.seed", "work"},
	{"provenance.", "build"},
	{"config.", "configuration"},
	{"totals.queries", "work"},
	{"totals.block_ops", "work"},
	{"injected.", "injected"},
}

// Groups are the groups of differences, in the order in which they matter.
var Groups = []string{"injected", "machine", "build", "work", "configuration", "rules"}

func groupOf(path string) string {
	for _, g := range groups {
		if path != "" && strings.HasPrefix(path, g.prefix) {
			return g.group
		}
	}
	return ""
}

// Compare compares two results with trials.
func Compare(a, b *Source, sel Selection) (*Comparison, error) {
	for _, s := range []*Source{a, b} {
		if s.Trials == nil {
			return nil, fmt.Errorf("%s: %s has no trials to compare; name records, experiments, sweeps or tables of trials", s.Path, s.Kind)
		}
	}
	if sel.Level == 0 {
		sel.Level = rounds.DefaultLevel
	}
	c := &Comparison{A: a.Summarize(), B: b.Summarize(), Alone: []string{}, Differences: []Difference{}, Figures: []Figure{}, Warnings: []string{}}
	var err error
	if c.Pairs, c.Alone, err = pairs(a, b, sel.Variants); err != nil {
		return nil, err
	}
	c.differences(a, b)
	names := sel.Metrics
	if len(names) == 0 {
		names = usual
	}
	for _, pair := range c.Pairs {
		for _, name := range names {
			m, err := rounds.ResolveMetric(name)
			if err != nil {
				return nil, err
			}
			col, err := columnOf(m)
			if err != nil {
				return nil, err
			}
			f := figure(m, col, pair, of(a, pair[0]), of(b, pair[1]), sel.Level)
			if f.TrialsA == 0 && f.TrialsB == 0 && len(sel.Metrics) == 0 {
				continue // neither has it, and nobody asked
			}
			if err := f.pairUp(a, b, sel.Level); err != nil {
				return nil, err
			}
			c.Figures = append(c.Figures, f)
		}
	}
	c.warn(a, b)
	return c, nil
}

// pairs says which variants to compare.
func pairs(a, b *Source, asked [][2]string) (out [][2]string, alone []string, err error) {
	inA, inB := variants(a), variants(b)
	for _, p := range asked {
		for i, names := range [][]string{inA, inB} {
			if !slices.Contains(names, p[i]) {
				hint := "it has " + quoted(names)
				if near, ok := nearest.Name(p[i], names); ok {
					hint = "did you mean " + near + "?"
				}
				return nil, nil, fmt.Errorf("%s has no variant %q; %s", []*Source{a, b}[i].Path, p[i], hint)
			}
		}
		out = append(out, p)
	}
	if len(asked) > 0 {
		return out, []string{}, nil
	}
	alone = []string{}
	for _, name := range inA {
		if slices.Contains(inB, name) {
			out = append(out, [2]string{name, name})
		} else {
			alone = append(alone, name)
		}
	}
	for _, name := range inB {
		if !slices.Contains(inA, name) {
			alone = append(alone, name)
		}
	}
	switch {
	case len(out) > 0:
		return out, alone, nil
	case len(inA) == 1 && len(inB) == 1:
		return [][2]string{{inA[0], inB[0]}}, []string{}, nil
	}
	hint := "there is nothing to compare"
	if len(inA) > 0 && len(inB) > 0 {
		example := inA[0] + "=" + inB[0]
		if strings.ContainsFunc(example, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("=-_.,:/+@%", r)
		}) {
			example = "'" + strings.ReplaceAll(example, "'", `'\''`) + "'"
		}
		hint = fmt.Sprintf("say which to compare by --variant and a name of each, as in --variant %s", example)
	}
	return nil, nil, fmt.Errorf("no variant is in both: %s has %s, %s has %s; %s", a.Path, quoted(inA), b.Path, quoted(inB), hint)
}

func quoted(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, strconv.Quote(n))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// variantOf is the variant of a trial; that of a record by itself is its index.
func variantOf(t *table.Trial) string {
	switch {
	case t.Variant != "":
		return t.Variant
	case t.Index != nil:
		return *t.Index
	}
	return "unknown"
}

// variants lists the variants of a source in the order of their first trials.
func variants(s *Source) []string {
	var out []string
	for i := range s.Trials {
		if name := variantOf(&s.Trials[i]); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// of returns the trials of a variant that enter figures if they are valid: of those
// of a round the last attempt.
func of(s *Source, variant string) []*table.Trial {
	type place struct {
		experiment string
		round      int64
	}
	var out []*table.Trial
	at := map[place]int{}
	for i := range s.Trials {
		t := &s.Trials[i]
		if variantOf(t) != variant || warmUp(t) {
			continue
		}
		if t.Round != nil && t.Attempt != nil {
			p := place{t.ExperimentSHA256, *t.Round}
			if k, again := at[p]; again {
				out[k] = t
				continue
			}
			at[p] = len(out)
		}
		out = append(out, t)
	}
	return out
}

func (c *Comparison) differences(a, b *Source) {
	type key struct{ field, a, b string }
	seen := map[key]int{}
	add := func(group, field, variant string, x, y []string) {
		k := key{field, strings.Join(x, "\x00"), strings.Join(y, "\x00")}
		i, ok := seen[k]
		if !ok {
			i = len(c.Differences)
			seen[k] = i
			c.Differences = append(c.Differences, Difference{Group: group, Field: field, A: x, B: y})
		}
		c.Differences[i].Variants = append(c.Differences[i].Variants, variant)
	}
	for _, col := range table.Columns[table.Trial]() {
		group := groupOf(col.Record)
		if group == "" {
			continue
		}
		for _, p := range c.Pairs {
			x, y := values(a, p[0], col), values(b, p[1], col)
			if !slices.Equal(x, y) {
				name := p[0]
				if p[0] != p[1] {
					name += "=" + p[1]
				}
				add(group, col.Record, name, x, y)
			}
		}
	}
	for i := range c.Differences {
		if len(c.Differences[i].Variants) == len(c.Pairs) {
			c.Differences[i].Variants = nil
		}
	}
	if a.Experiment != nil && b.Experiment != nil && a.Experiment != b.Experiment {
		c.Differences = append(c.Differences, rulesOf(a.Experiment, b.Experiment)...)
	}
	slices.SortStableFunc(c.Differences, func(x, y Difference) int {
		return slices.Index(Groups, x.Group) - slices.Index(Groups, y.Group)
	})
}

// rulesOf compares how two experiments were run.
func rulesOf(a, b *rounds.Experiment) []Difference {
	var out []Difference
	x, y := a.Manifest, b.Manifest
	add := func(field, was, is string) {
		if was != is {
			out = append(out, Difference{Group: "rules", Field: field, A: []string{was}, B: []string{is}})
		}
	}
	add("rounds", strconv.Itoa(a.Rounds()), strconv.Itoa(b.Rounds()))
	add("warmup_rounds", strconv.Itoa(x.Warmup), strconv.Itoa(y.Warmup))
	add("order", string(x.Order), string(y.Order))
	add("rules.gap", x.Rules.Gap.String(), y.Rules.Gap.String())
	add("rules.quiet_limit", x.Rules.QuietLimit.String(), y.Rules.QuietLimit.String())
	add("rules.quiet_pressure", fmt.Sprint(x.Rules.QuietPressure), fmt.Sprint(y.Rules.QuietPressure))
	add("rules.retry_invalid", strconv.Itoa(x.Rules.RetryInvalid), strconv.Itoa(y.Rules.RetryInvalid))
	add("rules.max_pressure", fmt.Sprint(x.Rules.MaxPressure), fmt.Sprint(y.Rules.MaxPressure))
	add("environment", strings.Join(x.Env, " "), strings.Join(y.Env, " "))
	return out
}

// values are all values that the trials of a variant have in a column, sorted.
func values(s *Source, variant string, col table.Column) []string {
	seen := map[string]bool{}
	for i := range s.Trials {
		if t := &s.Trials[i]; variantOf(t) == variant && !t.Failed {
			seen[plain(table.Value(t, col))] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// columnOf finds the column of a metric.
func columnOf(m rounds.Metric) (table.Column, error) {
	for _, c := range table.Columns[table.Trial]() {
		if c.Record == m.Path || "trial."+c.Name == m.Path {
			return c, nil
		}
	}
	return table.Column{}, fmt.Errorf("metric %s is in no table of trials; 'kvbench rounds analyse' has it", m.Path)
}

// number returns the figure that a trial has in a column.
func number(t *table.Trial, col table.Column) (float64, bool) {
	switch v := table.Value(t, col).(type) {
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func figures(trials []*table.Trial, col table.Column) []float64 {
	var out []float64
	for _, t := range trials {
		if v, ok := number(t, col); ok && t.Valid {
			out = append(out, v)
		}
	}
	return out
}

func figure(m rounds.Metric, col table.Column, pair [2]string, a, b []*table.Trial, level float64) Figure {
	x, y := figures(a, col), figures(b, col)
	f := Figure{Metric: m, VariantA: pair[0], VariantB: pair[1], TrialsA: len(x), TrialsB: len(y)}
	// The error of Median is that there are no values, which TrialsA and TrialsB say.
	if len(x) > 0 {
		f.A, _ = mstats.Median(x)
	}
	if len(y) > 0 {
		f.B, _ = mstats.Median(y)
	}
	f.Interval = stats.Unpaired(y, x, level)
	if f.A != 0 && len(y) > 0 {
		f.Ratio = f.B / f.A
	}
	if f.Interval.Ok() {
		f.Ratio = f.Interval.Estimate
	}
	f.Note = caution(m, slices.Concat(a, b))
	return f
}

// caution says what the load does to a metric.
func caution(m rounds.Metric, trials []*table.Trial) string {
	kept, valid := 0, 0
	for _, t := range trials {
		if t.Valid {
			valid++
			if t.KeptUp != nil && *t.KeptUp {
				kept++
			}
		}
	}
	switch {
	case m.Throughput() && kept > 0:
		return "kept up: the load sets it, not the index"
	case m.Waiting() && kept < valid:
		return "overloaded: it is the wait in a growing queue"
	}
	return ""
}

// pairUp puts the ratio within rounds in the place of the unpaired one if both sides
// are one experiment.
func (f *Figure) pairUp(a, b *Source, level float64) error {
	if a.Experiment == nil || b.Experiment == nil || !same(a.Path, b.Path) || f.VariantA == f.VariantB {
		return nil
	}
	an, err := a.Experiment.Analyse(rounds.AnalyseOptions{Ratios: []rounds.Ratio{{Of: f.VariantB, To: f.VariantA}}, Metrics: []string{f.Metric.Path}, Level: level})
	if err != nil {
		return err
	}
	r := an.Comparisons[0]
	f.Paired, f.Ratio, f.Interval = true, r.Result.Median, r.Result.Interpolated
	if r.Refused != "" {
		f.Note = r.Refused
	}
	return nil
}

func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errors.Join(errX, errY) == nil && os.SameFile(x, y)
}

func (c *Comparison) warn(a, b *Source) {
	has := func(group string) bool {
		return slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Group == group })
	}
	for i, s := range []*Source{a, b} {
		side := []Summary{c.A, c.B}[i]
		if i == 1 && same(a.Path, b.Path) {
			break
		}
		if n := side.Trials - side.Valid; n > 0 {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: %d of %d trials are not valid and enter no figure", s.Path, n, side.Trials))
		}
	}
	if has("injected") {
		c.Warnings = append(c.Warnings, "one side was slowed down on purpose: its figures are not those of the index")
	}
	if has("machine") {
		c.Warnings = append(c.Warnings, "the machines differ: the ratios are not those of the indexes")
	}
	if has("work") {
		c.Warnings = append(c.Warnings, "the work differs: the figures are of different things")
	}
	if slices.ContainsFunc(c.Figures, func(f Figure) bool { return !f.Paired }) {
		c.Warnings = append(c.Warnings, "UNPAIRED: whatever changed on the machine between the two is in the ratios; rounds that run both are better")
	}
}
