package text

import (
	"strings"
	"unicode/utf8"
)

// Table is rows of cells under a row of headings. What does not fit into Width
// goes on below, with the first column again.
type Table struct{ rows [][]string }

// Row adds a row, first the headings. All rows have as many cells.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// most is how wide the first column may be: half of a line.
const most = Width / 2

// Write writes the table: the first column to the left, the others to the right,
// two spaces apart. A first cell that is too wide is cut.
func (t *Table) Write(b *Builder) {
	if len(t.rows) == 0 {
		return
	}
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	widths[0] = min(widths[0], most)
	for begin := 1; ; {
		end, used := begin, widths[0]
		for end < len(widths) && (end == begin || used+2+widths[end] <= Width) {
			used += 2 + widths[end]
			end++
		}
		for _, row := range t.rows {
			line := cut(row[0], widths[0])
			for i := begin; i < end; i++ {
				line += strings.Repeat(" ", 2+widths[i]-utf8.RuneCountInString(row[i])) + row[i]
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
