package gate

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/stats"
)

// WriteText writes the verdict for a terminal: why, then each metric with its ratios
// and controls.
func (r *Report) WriteText(w io.Writer) error {
	var b text.Builder
	if head := fmt.Sprintf("%s  %s, %s", r.Verdict, r.Name, r.lookText()); utf8.RuneCountInString(head) <= text.Width {
		b.Line(head)
	} else {
		b.Wrap(string(r.Verdict)+"  ", r.Name)
		b.Wrap("  ", r.lookText())
	}
	if r.unpaired() {
		b.Wrap("  ", unpairedWarning)
	}
	for _, why := range r.Reasons {
		b.Wrap("  - ", why)
	}
	b.Line("")
	table := text.Table{Whole: true, Left: []int{2, 5}}
	table.Row("  ratio", "median", "interval", "margin", "pairs", "verdict")
	for _, metric := range r.metrics() {
		table.Title(metric)
		for i := range r.Rows {
			if row := &r.Rows[i]; row.Metric == metric {
				table.Row("  "+row.Of+"/"+row.To, medianText(row.Median, row.Used), row.interval(),
					fmt.Sprintf("%g%%", 100*row.Margin), fmt.Sprintf("%d of %d", row.Used, row.Planned), string(row.Verdict))
			}
		}
		for i := range r.Controls {
			if c := &r.Controls[i]; c.Metric == metric {
				ok := "A/A ok"
				if !c.OK {
					ok = "A/A NOT OK"
				}
				table.Row("  "+c.Of+"/"+c.To, medianText(c.Median, len(c.Pairs.Kept)), intervalText(c.Interval, 1),
					"", fmt.Sprintf("%d of %d", len(c.Pairs.Kept), c.Pairs.Planned()), ok)
			}
		}
	}
	table.Write(&b)
	said := map[string]bool{}
	say := func(kind, what string, has func(*RowResult) bool) {
		if said[kind+what] {
			return
		}
		said[kind+what] = true
		b.Wrap(kind, r.names(has)+": "+what)
	}
	for i := range r.Rows {
		for _, n := range r.Rows[i].Notes {
			if v := r.Rows[i].Verdict; n == r.Rows[i].why() && (v == Unmeasurable || v == Inconclusive) {
				continue // it is a reason, above
			}
			say("note: ", n, func(row *RowResult) bool { return slices.Contains(row.Notes, n) })
		}
		for _, warning := range r.Rows[i].Warnings {
			say("warning: ", warning.Text, func(row *RowResult) bool {
				return slices.ContainsFunc(row.Warnings, func(w stats.Warning) bool { return w.Text == warning.Text })
			})
		}
	}
	for _, l := range r.Before {
		b.Wrap("looked before: ", r.beforeText(l))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// beforeText says what a look before was, and by which rule if it was another.
func (r *Report) beforeText(l Look) string {
	if l.Rule == r.Look.Rule {
		l.Rule = "by the same rule"
	}
	return l.Text()
}

// metrics are those of rows and controls, in order.
func (r *Report) metrics() []string {
	var out []string
	add := func(metric string) {
		if !slices.Contains(out, metric) {
			out = append(out, metric)
		}
	}
	for i := range r.Rows {
		add(r.Rows[i].Metric)
	}
	for i := range r.Controls {
		add(r.Controls[i].Metric)
	}
	return out
}

// unpaired says whether a row is against a stored baseline.
func (r *Report) unpaired() bool {
	return slices.ContainsFunc(r.Rows, func(row RowResult) bool { return row.Unpaired != nil })
}

func (r *Report) lookText() string {
	s := fmt.Sprintf("%d of %d rounds", r.Rounds, r.Planned)
	switch r.Look.Schedule {
	case Sequential:
		return fmt.Sprintf("%s, sequential look at %g%%", s, 100*r.Look.Level)
	case Anytime:
		return fmt.Sprintf("%s, anytime sequence at %g%%", s, 100*r.Look.Level)
	}
	return fmt.Sprintf("%s, one look at %g%%", s, 100*r.Look.Level)
}

// medianText is the median of n ratios.
func medianText(median float64, n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%.4f", median)
}

// intervalText writes an interval with four digits, and with more where fewer would
// put an end on one of the limits that a verdict holds it to.
func intervalText(iv stats.Interval, limits ...float64) string {
	if !iv.Ok() {
		return "none"
	}
	digits := 4
	for ; digits < 12; digits++ {
		if apart(iv.Low, digits, limits) && apart(iv.High, digits, limits) {
			break
		}
	}
	return fmt.Sprintf("%.*f … %.*f", digits, iv.Low, digits, iv.High)
}

// apart says whether a rounded value lies on the side of every limit on which it lies.
func apart(v float64, digits int, limits []float64) bool {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', digits, 64), 64)
	if err != nil {
		return true
	}
	for _, l := range limits {
		if cmp.Compare(rounded, l) != cmp.Compare(v, l) {
			return false
		}
	}
	return true
}

// interval writes the interval of a row.
func (r *RowResult) interval() string {
	sign := -1.0
	if r.Better == stats.Lower {
		sign = 1
	}
	return intervalText(r.Interval, 1, 1+sign*r.Margin, 1+sign*r.FailBeyond)
}

// WriteMarkdown writes the verdict as a table for a pull request or a job's
// summary.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s: %s\n\n%s.\n\n", cell(r.Name), r.Verdict, cell(r.lookText()))
	if r.unpaired() {
		fmt.Fprintf(&b, "**%s.**\n\n", unpairedWarning)
	}
	fmt.Fprintln(&b, "| metric | ratio | median | interval | margin | pairs | verdict |")
	fmt.Fprintln(&b, "|---|---|---:|---|---:|---:|---|")
	for i := range r.Rows {
		row := &r.Rows[i]
		fmt.Fprintf(&b, "| %s | %s/%s | %s | %s | %g%% | %d of %d | **%s** |\n", cell(row.Metric), cell(row.Of), cell(row.To), medianText(row.Median, row.Used),
			row.interval(), 100*row.Margin, row.Used, row.Planned, row.Verdict)
	}
	for i := range r.Controls {
		c := &r.Controls[i]
		ok := "A/A ok"
		if !c.OK {
			ok = "**A/A not ok**"
		}
		fmt.Fprintf(&b, "| %s | %s/%s | %s | %s | | %d of %d | %s |\n", cell(c.Metric), cell(c.Of), cell(c.To), medianText(c.Median, len(c.Pairs.Kept)),
			intervalText(c.Interval, 1), len(c.Pairs.Kept), c.Pairs.Planned(), ok)
	}
	if len(r.Reasons) > 0 {
		b.WriteByte('\n')
	}
	for _, why := range r.Reasons {
		fmt.Fprintf(&b, "- %s\n", cell(why))
	}
	for i := range r.Rows {
		for _, warning := range r.Rows[i].Warnings {
			fmt.Fprintf(&b, "- warning: %s: %s\n", cell(r.Rows[i].Name()), cell(warning.Text))
		}
	}
	for _, l := range r.Before {
		fmt.Fprintf(&b, "- looked before: %s\n", cell(r.beforeText(l)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cell makes text safe in a Markdown table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "<", "&lt;").Replace(s)
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// WriteCSV writes one line for each row, with a header.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"experiment", "metric", "unit", "better", "of", "to", "median", "low", "high", "true_level", "margin", "pairs", "planned", "p", "verdict", "overall"}}
	f := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for i := range r.Rows {
		row := &r.Rows[i]
		low, high, level := "", "", ""
		if row.Interval.Ok() {
			low, high, level = f(row.Interval.Low), f(row.Interval.High), f(row.Interval.TrueLevel)
		}
		lines = append(lines, []string{r.Name, row.Metric, row.Unit, string(row.Better), row.Of, row.To, f(row.Median), low, high, level,
			f(row.Margin), strconv.Itoa(row.Used), strconv.Itoa(row.Planned), f(row.P), string(row.Verdict), string(r.Verdict)})
	}
	if err := out.WriteAll(lines); err != nil {
		return err
	}
	return out.Error()
}

// The elements and attributes are those that both the schema of Ant's JUnitReport and
// that of Jenkins accept; Ant's demands the order, and those that are empty here.
type junitSuite struct {
	XMLName    xml.Name        `xml:"testsuite"`
	Name       string          `xml:"name,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Host       string          `xml:"hostname,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Seconds    string          `xml:"time,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Out        string          `xml:"system-out"`
	Err        string          `xml:"system-err"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	Seconds   string        `xml:"time,attr"`
	Failure   *junitProblem `xml:"failure"`
	Error     *junitProblem `xml:"error"`
	Skipped   *junitProblem `xml:"skipped"`
}

type junitProblem struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
}

// WriteJUnit writes one test case for each row and control: FAIL is a failure,
// UNMEASURABLE an error, INCONCLUSIVE skipped. The time of the suite is that of the
// look; its tests take none, since the trials ran before.
func (r *Report) WriteJUnit(w io.Writer) error {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "localhost" // as the schema says
	}
	s := junitSuite{
		Name: "kvbench gate " + clean(r.Name), Timestamp: r.Time.UTC().Format("2006-01-02T15:04:05"), Host: clean(name), Seconds: "0",
		Properties: []junitProperty{{"verdict", string(r.Verdict)}, {"look", clean(r.lookText())}},
	}
	var page strings.Builder
	add := func(name string, v Verdict, message, out string) {
		c := junitCase{Name: clean(name), ClassName: "kvbench.gate", Seconds: "0"}
		p := &junitProblem{Message: clean(message)}
		switch v {
		case Fail:
			p.Type = "PerformanceRegression"
			c.Failure = p
			s.Failures++
		case Unmeasurable:
			p.Type = "Unmeasurable"
			c.Error = p
			s.Errors++
		case Inconclusive:
			p.Type = "Inconclusive"
			c.Skipped = p
			s.Skipped++
		}
		s.Tests++
		s.Cases = append(s.Cases, c)
		if out != "" {
			fmt.Fprintf(&page, "%s: %s\n", name, out)
		}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		out := fmt.Sprintf("median %v, interval %s, margin %g%%, %d of %d pairs", row.Median, row.interval(), 100*row.Margin, row.Used, row.Planned)
		add(row.Name(), row.Verdict, strings.Join(append([]string{out}, row.Notes...), "; "), out)
	}
	for i := range r.Controls {
		c := &r.Controls[i]
		v := Pass
		if !c.OK {
			v = Unmeasurable
		}
		add(fmt.Sprintf("control %s %s/%s", c.Metric, c.Of, c.To), v, c.Note, fmt.Sprintf("median %v, interval %s", c.Median, intervalText(c.Interval, 1)))
	}
	// What is wrong with the machine belongs to no row.
	for _, why := range r.Reasons {
		if strings.HasPrefix(why, "machine: ") {
			add("machine", Unmeasurable, why, "")
			break
		}
	}
	s.Out = clean(page.String())
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(s); err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// clean replaces what XML 1.0 cannot hold.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// WriteAnnotations writes a workflow command of GitHub Actions for each row that
// does not pass.
func (r *Report) WriteAnnotations(w io.Writer) error {
	var b strings.Builder
	for i := range r.Rows {
		row := &r.Rows[i]
		level := ""
		switch row.Verdict {
		case Fail, Unmeasurable:
			level = "error"
		case Inconclusive:
			level = "warning"
		default:
			continue
		}
		text := fmt.Sprintf("%s: median %.4f, interval %s, margin %g%%", row.Name(), row.Median, row.interval(), 100*row.Margin)
		fmt.Fprintf(&b, "::%s title=kvbench gate %s::%s\n", level, row.Verdict, annotation.Replace(text))
	}
	for _, why := range r.Reasons {
		if strings.HasPrefix(why, "machine: ") || strings.HasPrefix(why, "control ") {
			fmt.Fprintf(&b, "::error title=kvbench gate %s::%s\n", Unmeasurable, annotation.Replace(why))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// annotation escapes the data of a workflow command.
var annotation = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")

// gainRatio returns a row's ratio such that more is better, and its ends.
func gainRatio(r *RowResult) (name string, value, low, high float64) {
	if r.Better == stats.Lower {
		return fmt.Sprintf("%s %s/%s", r.Metric, r.To, r.Of), 1 / r.Median, 1 / r.Interval.High, 1 / r.Interval.Low
	}
	return r.Name(), r.Median, r.Interval.Low, r.Interval.High
}

// WriteActionBenchmark writes the rows for github-action-benchmark with the tool
// customBiggerIsBetter: ratios of metrics that are better when lower are turned
// over, as their names say. Rows without a figure are left out.
func (r *Report) WriteActionBenchmark(w io.Writer) error {
	type entry struct {
		Name  string  `json:"name"`
		Unit  string  `json:"unit"`
		Value float64 `json:"value"`
		Range string  `json:"range,omitempty"`
		Extra string  `json:"extra"`
	}
	entries := []entry{}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Used == 0 || row.Median <= 0 {
			continue
		}
		name, value, low, high := gainRatio(row)
		e := entry{Name: name, Unit: "ratio", Value: value, Extra: fmt.Sprintf("%d of %d pairs, %s", row.Used, row.Planned, row.Verdict)}
		if row.Interval.Ok() {
			e.Range = fmt.Sprintf("%.5f … %.5f", low, high)
		}
		entries = append(entries, e)
	}
	return writeJSON(w, entries)
}

// WriteBencher writes the rows in Bencher's metric format: the ratio with its
// interval as lower and upper value.
func (r *Report) WriteBencher(w io.Writer) error {
	type measure struct {
		Value float64  `json:"value"`
		Lower *float64 `json:"lower_value,omitempty"`
		Upper *float64 `json:"upper_value,omitempty"`
	}
	out := map[string]map[string]measure{}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Used == 0 {
			continue
		}
		m := measure{Value: row.Median}
		if row.Interval.Ok() {
			m.Lower, m.Upper = &row.Interval.Low, &row.Interval.High
		}
		name := row.Of + "/" + row.To
		if out[name] == nil {
			out[name] = map[string]measure{}
		}
		out[name][row.Metric+" ratio"] = m
	}
	return writeJSON(w, out)
}
