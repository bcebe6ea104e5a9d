package rounds

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/perf/benchfmt"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/stats"
)

// Format is a way to write an analysis.
type Format string

// The formats.
const (
	Text     Format = "text"     // for a terminal
	Markdown Format = "markdown" // for a pull request
	CSV      Format = "csv"      // one row for each metric and ratio, all digits
	JSON     Format = "json"     // the whole Analysis
	Benchfmt Format = "benchfmt" // Go benchmark text: one line for each valid trial
)

// Formats lists the formats.
func Formats() []string {
	return []string{string(Text), string(Markdown), string(CSV), string(JSON), string(Benchfmt)}
}

// ParseFormat returns the format of that name.
func ParseFormat(s string) (Format, error) {
	if !slices.Contains(Formats(), s) {
		return "", fmt.Errorf("format %q; there are %s", s, strings.Join(Formats(), ", "))
	}
	return Format(s), nil
}

// Write writes the analysis. Benchfmt needs the trials; use [Experiment.WriteBenchfmt].
func (a *Analysis) Write(w io.Writer, f Format) error {
	switch f {
	case Text, Markdown:
		_, err := io.WriteString(w, a.page(f))
		return err
	case CSV:
		return a.writeCSV(w)
	case JSON:
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(a)
	}
	return fmt.Errorf("an analysis cannot be written as %q", f)
}

// table is one metric.
type table struct {
	title  string
	header []string
	right  []bool // columns of numbers
	rows   [][]string
}

func (a *Analysis) page(f Format) string {
	var b strings.Builder
	said := map[string]bool{} // what holds for several metrics is said once
	for _, m := range a.metrics() {
		t := a.table(m)
		var more []string
		if f == Markdown {
			t.markdown(&b)
		} else {
			more = a.text(m, t, &b)
		}
		apart := f == Text // from the table
		for _, line := range append(more, a.below(m)...) {
			if !said[line] {
				if apart {
					b.WriteByte('\n')
				}
				apart = false
				item(&b, f, line)
			}
			said[line] = said[line] || once(line)
		}
		b.WriteByte('\n')
	}
	item(&b, f, fmt.Sprintf("%s; %s; order %s, seed %d; load: %s", a.Workload, a.Machine, a.Order, a.Seed, a.Load))
	for _, line := range a.legend() {
		item(&b, f, line)
	}
	for _, w := range a.Warnings {
		item(&b, f, "warning: "+w.Text)
	}
	return b.String()
}

// Beginnings of what is said of a ratio.
const (
	warned    = "warning: "
	leftOut   = "left out: "
	unbounded = "what the rounds left out would have shown is not bounded: "
)

// once is whether a line holds for every metric for which it is found, so that it is
// enough to read it below the first.
func once(line string) bool {
	return strings.HasPrefix(line, warned) || strings.Contains(line, ": "+leftOut) || strings.Contains(line, ": "+unbounded)
}

// ratioNotes are what is said of the ratios of a metric; what is said of several is
// one line.
type ratioNotes []ratioNote

type ratioNote struct {
	ratios     []string
	kind, text string // kind is warned, or nothing
}

func (n *ratioNotes) add(ratio, kind, text string) {
	i := slices.IndexFunc(*n, func(o ratioNote) bool { return o.kind == kind && o.text == text })
	if i < 0 {
		i = len(*n)
		*n = append(*n, ratioNote{kind: kind, text: text})
	}
	if of := &(*n)[i].ratios; !slices.Contains(*of, ratio) {
		*of = append(*of, ratio)
	}
}

func (n ratioNotes) lines() []string {
	var out []string
	for _, o := range n {
		out = append(out, o.kind+strings.Join(o.ratios, ", ")+": "+o.text)
	}
	return out
}

// item writes a line below a table.
func item(b *strings.Builder, f Format, line string) {
	if f == Markdown {
		b.WriteString("- " + line + "\n")
		return
	}
	var out text.Builder
	// What is said of something is indented below it, unless that has a long name.
	first := ""
	if of, rest, ok := strings.Cut(line, ": "); ok && utf8.RuneCountInString(of) < text.Width/2 {
		first, line = of+": ", rest
	}
	out.Wrap(first, line)
	b.WriteString(out.String())
}

// metrics are the metrics compared, in order.
func (a *Analysis) metrics() []Metric {
	var out []Metric
	for _, c := range a.Comparisons {
		if !slices.Contains(out, c.Metric) {
			out = append(out, c.Metric)
		}
	}
	return out
}

func (a *Analysis) table(m Metric) *table {
	t := &table{
		title:  m.Path,
		header: []string{"variant", "median", "ratio", "same-round", percentText(a.Level) + " CI", "bootstrap CI", "pairs", "resolves"},
		right:  []bool{false, true, false, true, false, false, true, true},
	}
	if m.Better != "" {
		t.title += ", " + string(m.Better) + " is better"
	}
	var names []string
	medians := map[string]float64{}
	for _, c := range a.Comparisons {
		if c.Metric != m {
			continue
		}
		for name, v := range map[string]float64{c.Ratio.Of: c.MedianOf, c.Ratio.To: c.MedianTo} {
			medians[name] = v
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	// As the variants were given.
	for _, v := range a.Variants {
		if !slices.Contains(names, v.Name) {
			continue
		}
		row := []string{v.Name, a.amount(m, v, medians[v.Name]), "", "", "", "", "", ""}
		for _, c := range a.Comparisons {
			if c.Metric == m && c.Ratio.Of == v.Name {
				t.rows = append(t.rows, append(row[:2:2], c.cells()...))
				row = []string{"", "", "", "", "", "", "", ""}
			}
		}
		if row[0] != "" {
			t.rows = append(t.rows, row)
		}
	}
	return t
}

func (a *Analysis) amount(m Metric, v VariantSummary, x float64) string {
	if v.Valid == 0 {
		return "none valid"
	}
	return Amount(x, m.Unit)
}

// cells are the columns of a comparison.
func (c *Comparison) cells() []string {
	r := &c.Result
	n := len(r.Pairs.Kept)
	pairs := fmt.Sprintf("%d of %d", n, c.Planned)
	out := []string{c.Ratio.String(), "", "", "", pairs, ""}
	switch {
	case c.Refused != "":
		out[2] = "no result: see below"
		return out
	case n == 0:
		out[2] = "no valid pair"
		return out
	}
	out[1] = ratioText(r.Median)
	if n < stats.MinValues {
		var each []string
		for _, x := range r.Ratios {
			each = append(each, changeText(x))
		}
		out[2] = "rounds " + strings.Join(each, ", ")
		return out
	}
	out[2] = intervalText(r.Interpolated, false)
	out[3] = intervalText(r.Bootstrap, true)
	if c.Resolves > 0 {
		out[5] = "±" + percentText(c.Resolves)
	}
	return out
}

// below is what belongs to one table.
func (a *Analysis) below(m Metric) []string {
	var notes ratioNotes
	for _, c := range a.Comparisons {
		if c.Metric != m {
			continue
		}
		say := func(kind, text string) { notes.add(c.Ratio.String(), kind, text) }
		if c.Refused != "" {
			say("", "no result: "+c.Refused)
			continue
		}
		if c.Caution != "" {
			say(warned, c.Caution)
		}
		if c.LeftOut != "" {
			say("", leftOut+c.LeftOut)
			if w := c.Result.WorstCase; w.Ok() {
				say("", "whatever the rounds left out would have shown: "+intervalText(w, false))
			} else if len(c.Result.Pairs.Kept) > 0 {
				say("", unbounded+w.Explain())
			}
		}
		if n := len(c.Result.Pairs.Kept); n > 0 && n < stats.MinValues {
			what := "a reading, not a comparison"
			if n > 2 {
				what = fmt.Sprintf("too few for an interval, which needs %d", stats.MinValues)
			}
			say("", fmt.Sprintf("%d rounds: %s", n, what))
		}
		for _, w := range c.Result.Warnings {
			if w.Name == stats.WarnFewPairs && len(c.Result.Pairs.Kept) < stats.MinValues || w.Name == stats.WarnDropped {
				continue // said above
			}
			say(warned, w.Text)
		}
	}
	out := notes.lines()
	for _, c := range a.Floor {
		if c.Metric != m {
			continue
		}
		n := len(c.Result.Pairs.Kept)
		switch iv := c.Result.Interpolated; {
		case c.Refused != "" || n == 0:
		case iv.Ok():
			text := fmt.Sprintf("noise floor, %s: %s, %s over %d pairs", c.Ratio, ratioText(c.Result.Median), intervalText(iv, false), n)
			if !iv.Contains(1) {
				text = "warning: " + text + ": two copies of one variant differ, so something else than the variants decides"
			}
			out = append(out, text)
		default:
			out = append(out, fmt.Sprintf("noise floor, %s: %s", c.Ratio, strings.Join(c.cells()[2:3], "")))
		}
	}
	for _, c := range a.Claims {
		if c.Metric != m {
			continue
		}
		out = append(out, "taken together: "+c.Claim.Text())
		if c.Margin > 0 {
			answer := "no: not every interval rules out a loss of " + percentText(c.Margin)
			if c.Holds {
				answer = "yes: every interval rules out a loss of " + percentText(c.Margin)
			}
			out = append(out, "non-inferior within "+percentText(c.Margin)+": "+answer)
		}
	}
	return out
}

// legend says what the columns are.
func (a *Analysis) legend() []string {
	any := slices.ContainsFunc(a.Comparisons, func(c Comparison) bool { return c.Refused == "" && c.Result.Interpolated.Ok() })
	if !any {
		return nil
	}
	return []string{fmt.Sprintf(
		"same-round: median of the ratios within rounds; CI: interpolated order statistics, %s; bootstrap CI: exact percentile bootstrap of the median, its true level in brackets; resolves: smallest effect that these pairs find %.0f times in 100",
		percentText(a.Level), 100*Power)}
}

func (t *table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "**%s**\n\n", t.title)
	line := func(cells []string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.header)
	rule := make([]string, len(t.header))
	for i := range rule {
		rule[i] = "---"
		if t.right[i] {
			rule[i] = "---:"
		}
	}
	line(rule)
	for _, r := range t.rows {
		line(r)
	}
	b.WriteByte('\n')
}

// widest is how wide a cell of an interval is in a text; a longer one goes below.
const widest = 24

// text writes the metric within the width of a terminal: first the variants, then
// the ratios. It returns what is too long for a cell.
func (a *Analysis) text(m Metric, t *table, b *strings.Builder) (below []string) {
	var out text.Builder
	out.Wrap("", t.title)
	variants := text.Table{Whole: true}
	for _, r := range append([][]string{t.header}, t.rows...) {
		if r[0] != "" {
			variants.Row(r[0], r[1])
		}
	}
	variants.Write(&out)
	out.Line("")
	ratios := text.Table{Whole: true, Left: []int{2, 5}}
	add := func(cells []string) { // the bootstrap is the first that goes on below
		ratios.Row(cells[0], cells[1], cells[2], strings.Replace(cells[4], " of ", "/", 1), cells[5], cells[3])
	}
	add(t.header[2:])
	for _, c := range a.Comparisons {
		if c.Metric != m {
			continue
		}
		cells := c.cells()
		for i, what := range []string{2: "", 3: "bootstrap: "} {
			if i >= 2 && utf8.RuneCountInString(cells[i]) > widest && c.Refused == "" {
				below = append(below, cells[0]+": "+what+cells[i])
				cells[i] = "see below"
			}
		}
		add(cells)
	}
	ratios.Write(&out)
	b.WriteString(out.String())
	return below
}

// ratioText writes a ratio so that one that is not 1 does not look like it.
func ratioText(x float64) string {
	for digits := 4; digits < 9; digits++ {
		if text := strconv.FormatFloat(x, 'f', digits, 64); x == 1 || strings.Trim(text, "0") != "1." {
			return text
		}
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func changeText(x float64) string { return fmt.Sprintf("%+.2f%%", 100*(x-1)) }

func intervalText(iv stats.Interval, level bool) string {
	if !iv.Ok() {
		return iv.Explain()
	}
	text := ratioText(iv.Low) + "–" + ratioText(iv.High)
	if level {
		text += fmt.Sprintf(" (%.1f%%)", 100*iv.TrueLevel)
	}
	return text
}

// percentText writes a share with up to two digits that count.
func percentText(share float64) string {
	p := 100 * share
	digits := 0
	if p != 0 && p != math.Trunc(p) {
		digits = min(6, max(0, 1-int(math.Floor(math.Log10(math.Abs(p))))))
	}
	return strconv.FormatFloat(p, 'f', digits, 64) + "%"
}

// Amount writes a figure of a [Metric] with four digits and the unit that fits its size.
func Amount(x float64, unit string) string {
	type scale struct {
		size float64
		name string
	}
	scales := []scale{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}
	suffix := unit
	switch unit {
	case "ns":
		scales = []scale{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}}
		suffix = ""
	case "1/s":
		suffix = "/s"
	}
	for _, s := range scales {
		if math.Abs(x) >= s.size*0.99995 {
			return digits4(x/s.size) + " " + s.name + suffix
		}
	}
	if unit == "ns" {
		suffix = "ns"
	}
	return strings.TrimSpace(digits4(x) + " " + suffix)
}

func digits4(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e4 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	digits := 3
	if a := math.Abs(x); a >= 1 {
		digits = max(0, 3-int(math.Floor(math.Log10(a))))
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}

func (a *Analysis) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"metric", "unit", "better", "of", "to", "median_of", "median_to", "ratio", "low", "high", "level",
		"bootstrap_low", "bootstrap_high", "bootstrap_true_level", "worst_low", "worst_high", "pairs", "planned", "dropped_rounds", "sigma", "resolves", "kind", "refused"}}
	add := func(c *Comparison, kind string) {
		r := &c.Result
		number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
		ends := func(iv stats.Interval) []string {
			if !iv.Ok() {
				return []string{"", ""}
			}
			return []string{number(iv.Low), number(iv.High)}
		}
		var dropped []string
		for _, d := range r.Pairs.Dropped {
			dropped = append(dropped, strconv.Itoa(d.Round))
		}
		row := []string{c.Metric.Path, c.Metric.Unit, string(c.Metric.Better), c.Ratio.Of, c.Ratio.To, number(c.MedianOf), number(c.MedianTo)}
		if c.Refused == "" && len(r.Ratios) > 0 {
			row = append(row, number(r.Median))
			row = append(row, ends(r.Interpolated)...)
			row = append(row, number(a.Level))
			row = append(row, ends(r.Bootstrap)...)
			level := ""
			if r.Bootstrap.Ok() {
				level = number(r.Bootstrap.TrueLevel)
			}
			row = append(row, level)
			row = append(row, ends(r.WorstCase)...)
		} else {
			row = append(row, "", "", "", number(a.Level), "", "", "", "", "")
		}
		row = append(row, strconv.Itoa(len(r.Pairs.Kept)), strconv.Itoa(c.Planned), strings.Join(dropped, " "), number(r.Sigma), number(c.Resolves), kind, c.Refused)
		rows = append(rows, row)
	}
	for i := range a.Comparisons {
		add(&a.Comparisons[i], "comparison")
	}
	for i := range a.Floor {
		add(&a.Floor[i], "floor")
	}
	return out.WriteAll(rows)
}

// BenchUnit returns the metric's name in the Go benchmark format, whose units begin
// or end as those that it knows.
func (m Metric) BenchUnit() string {
	unit := strings.NewReplacer(".", "-", "_", "-").Replace(strings.TrimSuffix(strings.TrimSuffix(m.Path, "_ns"), "_per_sec"))
	switch m.Unit {
	case "ns":
		unit += "-ns"
	case "1/s":
		unit += "/s"
	}
	return unit
}

// WriteBenchfmt writes the metrics of an analysis for every valid trial in the Go
// benchmark format: those of the base, then of the other variants, each in the order
// in which they ran. benchstat -col /variant compares the others with the base, which
// it takes to be what comes first, without their pairing. It makes a table of its own for each configuration, so
// that has the corpus and the CPU alone.
func (e *Experiment) WriteBenchfmt(w io.Writer, a *Analysis) error {
	s := &sample{e: e, rounds: a.Planned}
	if err := s.read(); err != nil {
		return err
	}
	out := benchfmt.NewWriter(w)
	units := map[string]string{}
	for _, m := range a.metrics() {
		unit := m.BenchUnit()
		units[m.Path] = unit
		if m.Better != "" {
			if err := out.Write(&benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: unit, Key: "better"}, OrigUnit: unit, Value: string(m.Better)}); err != nil {
				return err
			}
		}
	}
	names := e.Manifest.names()
	slices.SortStableFunc(names, func(a, b string) int {
		switch e.Manifest.Base {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	for _, variant := range names {
		for i := range e.Trials {
			t := &e.Trials[i]
			f, ok := s.of[t]
			if !ok || t.Variant != variant || s.last[t.Variant][t.Round] != t {
				continue
			}
			res := &benchfmt.Result{
				Config: []benchfmt.Config{
					{Key: "corpus", Value: []byte(a.Corpus), File: true},
					{Key: "cpu", Value: []byte(a.Machine), File: true},
				},
				Name:  benchfmt.Name("Replay/variant=" + t.Variant),
				Iters: 1,
			}
			for _, m := range a.metrics() {
				if v, why := m.read(t, f); why == "" {
					res.Values = append(res.Values, benchfmt.Value{Value: v, Unit: units[m.Path]})
				}
			}
			if len(res.Values) == 0 {
				continue
			}
			if err := out.Write(res); err != nil {
				return err
			}
		}
	}
	return nil
}
