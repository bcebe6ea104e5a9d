package chart

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Table is a table of words and figures.
type Table struct {
	Caption string
	Columns []Column
	// Rows hold strings, float64s, ints and int64s; NaN is a figure that is not
	// there. All rows are as long as Columns.
	Rows [][]any
	// Note says what the table leaves out, "" if nothing.
	Note string
}

// Column is a column of a table.
type Column struct {
	Name string
	Unit Unit
}

// Cell is the text of a cell for people, and its value with every digit: "" if the
// cell holds words.
func (t *Table) Cell(row, column int) (text, value string) {
	var v float64
	switch x := t.Rows[row][column].(type) {
	case string:
		return x, ""
	case float64:
		v = x
	case int:
		v = float64(x)
	case int64:
		v = float64(x)
	default:
		return fmt.Sprint(x), ""
	}
	u := t.Columns[column].Unit
	if u == Plain && v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return minus(strconv.FormatFloat(v, 'f', -1, 64)), strconv.FormatFloat(v, 'f', -1, 64)
	}
	if math.IsNaN(v) {
		return Format(v, u), ""
	}
	return Format(v, u), strconv.FormatFloat(v, 'g', -1, 64)
}

// WriteCSV writes the table with every digit; the unit is part of a column's name.
// A figure that is not there is an empty field.
func (t *Table) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
		if c.Unit != Plain {
			names[i] += " (" + string(c.Unit) + ")"
		}
	}
	if err := out.Write(names); err != nil {
		return err
	}
	fields := make([]string, len(t.Columns))
	for r := range t.Rows {
		for c := range t.Columns {
			text, value := t.Cell(r, c)
			if _, words := t.Rows[r][c].(string); words {
				value = text
			}
			fields[c] = value
		}
		if err := out.Write(fields); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
