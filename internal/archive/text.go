package archive

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	mstats "github.com/montanaflynn/stats"

	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/results"
)

// printable takes what a terminal would obey out of a text.
func printable(s string) string {
	var b text.Builder
	b.Line(s)
	return strings.TrimSuffix(b.String(), "\n")
}

// WriteList writes a line for each source and each problem.
func (f *Found) WriteList(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if len(f.Sources) > 0 {
		fmt.Fprintln(out, "PATH\tSTART\tTRIALS\tVALID\tKEPT UP\tBUILD\tTRACE\tWHAT")
	}
	for _, s := range f.Sources {
		x := s.Summarize()
		start, trials, valid, kept := "-", "-", "-", "-"
		if at, err := time.Parse(time.RFC3339, x.Start); err == nil {
			start = at.Format("2006-01-02 15:04")
		}
		if s.Trials != nil {
			trials, valid, kept = fmt.Sprint(x.Trials), fmt.Sprint(x.Valid), fmt.Sprint(x.KeptUp)
		}
		dash := func(s string) string {
			if s == "" {
				return "-"
			}
			return s
		}
		what := x.What
		if what == "" {
			what = x.Kind
		}
		cells := []string{x.Path, start, trials, valid, kept, dash(x.Build), dash(x.Trace), what}
		for i := range cells {
			cells[i] = printable(cells[i])
		}
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	return out.Flush()
}

// WriteProblems writes a line for each file that is not in the list. Files that were
// only come across are counted, unless all are to be named.
func (f *Found) WriteProblems(w io.Writer, all bool) error {
	passing := 0
	for _, p := range f.Problems {
		if p.Passing && !all {
			passing++
			continue
		}
		if _, err := fmt.Fprintln(w, printable(p.Path+": "+p.Reason)); err != nil {
			return err
		}
	}
	if passing == 0 {
		return nil
	}
	are := "are no results"
	if passing == 1 {
		are = "is no result"
	}
	_, err := fmt.Fprintf(w, "%s %s; --verbose names them\n", text.Count(passing, "other file"), are)
	return err
}

// WriteJSON writes the list as an object.
func (f *Found) WriteJSON(w io.Writer) error {
	out := struct {
		Results  []Summary `json:"results"`
		Problems []Problem `json:"problems"`
	}{[]Summary{}, f.Problems}
	for _, s := range f.Sources {
		out.Results = append(out.Results, s.Summarize())
	}
	if out.Problems == nil {
		out.Problems = []Problem{}
	}
	return writeIndented(w, out)
}

func writeIndented(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// WriteText writes what a source says.
func (s *Source) WriteText(w io.Writer) error {
	switch {
	case s.Record != nil:
		return results.WriteSummary(w, s.Record)
	case s.Experiment != nil:
		if err := s.writeHead(w); err != nil {
			return err
		}
		a, err := s.Experiment.Analyse(rounds.AnalyseOptions{})
		if err != nil {
			return err
		}
		return a.Write(w, rounds.Text)
	case s.Sweep != nil:
		return s.Sweep.WriteText(w)
	case s.Simulation != nil:
		return s.Simulation.WriteText(w)
	case s.Table != nil:
		if err := s.writeTable(w); err != nil || s.Trials == nil {
			return err
		}
		return s.writeTrials(w)
	case s.Trials != nil:
		if err := s.writeHead(w); err != nil {
			return err
		}
		return s.writeTrials(w)
	}
	// What has no text of its own is shown as it is.
	_, err := fmt.Fprintf(w, "%s\n", strings.TrimRight(string(s.Raw), "\n"))
	return err
}

func (s *Source) writeHead(w io.Writer) error {
	x := s.Summarize()
	var b text.Builder
	b.Wrap("what     ", x.What)
	b.Wrap("trials   ", fmt.Sprintf("%d, of which %d are valid and %d kept up", x.Trials, x.Valid, x.KeptUp))
	for _, field := range [][2]string{{"start    ", x.Start}, {"kvbench  ", x.Build}, {"trace    ", x.Trace}, {"machine  ", x.Machine}} {
		if field[1] != "" {
			b.Wrap(field[0], field[1])
		}
	}
	b.Line("")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable says what a Parquet table is.
func (s *Source) writeTable(w io.Writer) error {
	m := s.Table.Meta
	var b text.Builder
	b.Line("schema   " + s.Kind)
	b.Line(fmt.Sprintf("rows     %d", s.Table.Rows))
	b.Wrap("kvbench  ", buildText(m.Version, m.Commit, m.Modified))
	if len(m.Command) > 0 {
		b.Wrap("command  ", strings.Join(m.Command, " "))
	}
	for _, key := range sortedKeys(m.Facts) {
		b.Wrap("", key+": "+m.Facts[key])
	}
	for _, warning := range m.Warnings {
		b.Wrap("warning: ", warning)
	}
	b.Line("")
	_, err := io.WriteString(w, b.String())
	return err
}

func sortedKeys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// shown are the metrics of writeTrials with the heads of their columns.
var shown = []struct{ path, head string }{
	{"rates.offered_block_ops_per_sec", "offered"},
	{"rates.achieved_block_ops_per_sec", "achieved"},
	{"queries.service.p50", "query p50"},
	{"queries.service.p99", "query p99"},
	{"events.accepted_to_finished.p50", "event p50"},
	{"events.accepted_to_finished.p99", "event p99"},
}

// writeTrials writes the medians of each variant.
func (s *Source) writeTrials(w io.Writer) error {
	table := text.Table{Whole: true}
	head := []string{"variant", "trials", "valid", "kept up"}
	for _, x := range shown {
		head = append(head, x.head)
	}
	table.Row(head...)
	for _, name := range variants(s) {
		trials := of(s, name)
		valid, kept := 0, 0
		for _, t := range trials {
			if t.Valid {
				valid++
				if t.KeptUp != nil && *t.KeptUp {
					kept++
				}
			}
		}
		cells := []string{name, fmt.Sprint(len(trials)), fmt.Sprint(valid), fmt.Sprint(kept)}
		for _, x := range shown {
			m, err := rounds.ResolveMetric(x.path)
			if err != nil {
				return err
			}
			c, err := columnOf(m)
			if err != nil {
				return err
			}
			cell := "-"
			if median, err := mstats.Median(figures(trials, c)); err == nil { // else there is none
				cell = rounds.Amount(median, m.Unit)
			}
			cells = append(cells, cell)
		}
		table.Row(cells...)
	}
	var b text.Builder
	table.Write(&b)
	b.Line("")
	b.Wrap("", "Medians of the valid trials: block-ops/s offered and achieved, service of a query, and an event from accepted to applied.")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteText writes the comparison: first what is not the same, then the figures.
func (c *Comparison) WriteText(w io.Writer) error {
	var b text.Builder
	for i, s := range []Summary{c.A, c.B} {
		b.Wrap([]string{"A  ", "B  "}[i], fmt.Sprintf("%s: %s, %s, %d valid, %d kept up; %s", s.Path, s.What, text.Count(s.Trials, "trial"), s.Valid, s.KeptUp, s.Start))
	}
	b.Line("")
	if len(c.Differences) == 0 {
		b.Line("Machine, build, work and configuration are the same.")
	}
	group := ""
	for _, d := range c.Differences {
		if d.Group != group {
			group = d.Group
			b.Line("different " + group + ":")
		}
		what := "  " + d.Field
		if len(d.Variants) > 0 {
			what += " (" + strings.Join(d.Variants, ", ") + ")"
		}
		b.Line(what)
		b.Wrap("    A  ", orNone(d.A))
		b.Wrap("    B  ", orNone(d.B))
	}
	b.Line("")
	if len(c.Alone) > 0 {
		b.Wrap("not compared, of one side only: ", strings.Join(c.Alone, ", "))
		b.Line("")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	for _, p := range c.Pairs {
		if err := c.writeFigures(w, p); err != nil {
			return err
		}
	}
	var tail text.Builder
	for _, warning := range c.Warnings {
		tail.Wrap("warning: ", warning)
	}
	_, err := io.WriteString(w, tail.String())
	return err
}

func orNone(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		if out[i] = v; v == "" {
			out[i] = "(none)"
		}
	}
	if len(out) == 0 {
		return "(no record)"
	}
	return strings.Join(out, " | ")
}

// writeFigures writes a table for a pair of variants. What holds for all figures
// stands above it, what a figure needs said below.
func (c *Comparison) writeFigures(w io.Writer, pair [2]string) error {
	name := pair[0]
	if pair[0] != pair[1] {
		name = pair[0] + " in A, " + pair[1] + " in B"
	}
	var figures []Figure
	for _, f := range c.Figures {
		if f.VariantA == pair[0] && f.VariantB == pair[1] {
			figures = append(figures, f)
		}
	}
	var b text.Builder
	if len(figures) == 0 {
		b.Wrap("", name)
		b.Line("  no valid trial on either side")
		b.Line("")
		_, err := io.WriteString(w, b.String())
		return err
	}
	trials := func(f Figure) string { return fmt.Sprintf("%d, %d", f.TrialsA, f.TrialsB) }
	same := !slices.ContainsFunc(figures, func(f Figure) bool { return trials(f) != trials(figures[0]) })
	if same {
		name += fmt.Sprintf(": valid trials in A and B: %s", trials(figures[0]))
	}
	if !slices.ContainsFunc(figures, func(f Figure) bool { return f.Paired }) {
		name += "; unpaired"
	}
	b.Wrap("", name)
	table := text.Table{Whole: true, Left: []int{4}}
	row := func(trials string, cells ...string) {
		if !same {
			cells = append(cells, trials)
		}
		table.Row(cells...)
	}
	row("trials", "metric", "A", "B", "B/A", "interval")
	var notes []string
	metrics := map[string][]string{} // of a note
	for _, f := range figures {
		cell := func(x float64, n int) string {
			if n == 0 {
				return "-"
			}
			return rounds.Amount(x, f.Metric.Unit)
		}
		ratio, interval := "-", "-"
		if f.Ratio != 0 {
			ratio = fmt.Sprintf("%.4f", f.Ratio)
		}
		if f.Interval.Ok() {
			interval = fmt.Sprintf("%.4f–%.4f", f.Interval.Low, f.Interval.High)
		}
		row(trials(f), f.Metric.Path, cell(f.A, f.TrialsA), cell(f.B, f.TrialsB), ratio, interval)
		if f.Note != "" {
			if metrics[f.Note] == nil {
				notes = append(notes, f.Note)
			}
			metrics[f.Note] = append(metrics[f.Note], f.Metric.Path)
		}
	}
	table.Write(&b)
	for _, note := range notes {
		b.Wrap("note: ", strings.Join(metrics[note], ", ")+": "+note)
	}
	b.Line("")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes the comparison as an object.
func (c *Comparison) WriteJSON(w io.Writer) error { return writeIndented(w, c) }
