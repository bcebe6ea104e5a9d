package text

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is rows of cells under a row of headings. What does not fit into Width
// goes on below, with the first column again.
type Table struct {
	// Whole gives a first cell that is too wide a line of its own, instead of
	// cutting it.
	Whole bool
	// Left are the columns, from 1, that are written to the left.
	Left []int
	rows []tableRow
}

type tableRow struct {
	cells []string
	title string // in place of cells
}

// Row adds a row, first the headings. All rows have as many cells.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, tableRow{cells: cells}) }

// Title adds a line above the rows that follow, over all columns.
func (t *Table) Title(text string) { t.rows = append(t.rows, tableRow{title: text}) }

// most is how wide the first column may be: half of a line.
const most = Width / 2

// Write writes the table: the first column to the left, the others to the right
// unless they are of Left, two spaces apart.
func (t *Table) Write(b *Builder) {
	var widths []int
	for _, row := range t.rows {
		if widths == nil {
			widths = make([]int, len(row.cells))
		}
		for i, cell := range row.cells {
			n := utf8.RuneCountInString(cell)
			if i == 0 && n > most {
				if t.Whole {
					continue
				}
				n = most
			}
			widths[i] = max(widths[i], n)
		}
	}
	if len(widths) == 0 {
		return
	}
	for begin := 1; ; {
		end, used := begin, widths[0]
		for end < len(widths) && (end == begin || used+2+widths[end] <= Width) {
			used += 2 + widths[end]
			end++
		}
		for _, row := range t.rows {
			if row.cells == nil {
				b.Wrap("", row.title)
				continue
			}
			first := row.cells[0]
			if t.Whole && utf8.RuneCountInString(first) > most {
				b.Wrap(first[:len(first)-len(strings.TrimLeft(first, " "))], first)
				first = ""
			}
			line := cut(first, widths[0])
			for i := begin; i < end; i++ {
				cell := row.cells[i]
				fill := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
				if slices.Contains(t.Left, i) {
					line += "  " + cell + fill
				} else {
					line += "  " + fill + cell
				}
			}
			b.Line(line)
		}
		if begin = end; begin >= len(widths) {
			return
		}
		b.Line("")
	}
}

// cut makes a cell exactly so wide.
func cut(cell string, width int) string {
	runes := []rune(cell)
	if len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return cell + strings.Repeat(" ", width-len(runes))
}
