package coverage

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/stats"
)

// WriteText writes the table for people, a block for each design, within the width
// of a terminal.
func (t Table) WriteText(w io.Writer) error {
	var b text.Builder
	b.Wrap("", t.caption())
	for _, g := range t.groups() {
		b.Line("")
		b.Wrap("", g.title())
		table := text.Table{}
		head := []string{"  method"}
		for i, n := range g.sizes {
			table.Left = append(table.Left, i+1)
			head = append(head, fmt.Sprintf("n=%d", n))
		}
		table.Row(head...)
		for _, row := range g.rows {
			cells := []string{"  " + string(row[0].Method)}
			for _, c := range row {
				cells = append(cells, t.cell(c))
			}
			table.Row(cells...)
		}
		table.Write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMarkdown writes the table in Markdown.
func (t Table) WriteMarkdown(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\n", t.caption()); err != nil {
		return err
	}
	for _, g := range t.groups() {
		fmt.Fprintf(w, "\n**%s**\n\n| method |", g.title())
		for _, n := range g.sizes {
			fmt.Fprintf(w, " n=%d |", n)
		}
		fmt.Fprint(w, "\n|---|")
		for range g.sizes {
			fmt.Fprint(w, "---|")
		}
		fmt.Fprintln(w)
		for _, row := range g.rows {
			fmt.Fprintf(w, "| %s |", row[0].Method)
			for _, c := range row {
				fmt.Fprintf(w, " %s |", t.cell(c))
			}
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t Table) caption() string {
	return fmt.Sprintf("Share of %.4g%% intervals that cover the true median ratio, in %%, of %d experiments each (seed %d);\n"+
		"after a slash, where it differs, the share that covers what the method itself estimates; in brackets the mean width in %%.",
		100*t.Level, t.Datasets, t.Seed)
}

func (t Table) cell(c Cell) string {
	if c.Absent != "" {
		return "none"
	}
	share := func(k int) string { return fmt.Sprintf("%.1f", 100*float64(k)/float64(t.Datasets)) }
	s := share(c.Covered)
	if own := share(c.OwnCovered); own != s {
		s += "/" + own
	}
	return fmt.Sprintf("%s (%.2f)", s, 100*c.Width)
}

// group is the cells of one design.
type group struct {
	design string
	sizes  []int
	rows   [][]Cell // one method each, by size
}

func (g group) title() string {
	for _, d := range Designs() {
		if d.Name == g.design {
			if !d.Sound {
				return d.Name + ": " + d.What + " (no interval can be right here)"
			}
			return d.Name + ": " + d.What
		}
	}
	return g.design
}

func (t Table) groups() []group {
	var out []group
	for _, c := range t.Cells {
		i := slices.IndexFunc(out, func(g group) bool { return g.design == c.Design })
		if i < 0 {
			i = len(out)
			out = append(out, group{design: c.Design})
		}
		g := &out[i]
		if !slices.Contains(g.sizes, c.N) {
			g.sizes = append(g.sizes, c.N)
		}
		r := slices.IndexFunc(g.rows, func(row []Cell) bool { return row[0].Method == c.Method })
		if r < 0 {
			r = len(g.rows)
			g.rows = append(g.rows, nil)
		}
		g.rows[r] = append(g.rows[r], c)
	}
	return out
}

// Worst returns for each method the cell with the smallest coverage of the median at
// size n over all sound designs, smallest first.
func (t Table) Worst(n int) []Cell {
	sound := map[string]bool{}
	for _, d := range Designs() {
		sound[d.Name] = d.Sound
	}
	worst := map[stats.Method]Cell{}
	for _, c := range t.Cells {
		if c.N != n || c.Absent != "" || !sound[c.Design] {
			continue
		}
		if old, ok := worst[c.Method]; !ok || c.Covered < old.Covered {
			worst[c.Method] = c
		}
	}
	var out []Cell
	for _, m := range methods() {
		if c, ok := worst[m]; ok {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Cell) int { return cmp.Compare(a.Covered, b.Covered) })
	return out
}
