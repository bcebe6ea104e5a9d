package table

import (
	"reflect"
	"strings"
)

// Column is one column of a table.
type Column struct {
	Name   string // as the file has it
	Unit   string // ns, 1/s, bytes, blocks, tokens or "" for anything else
	Record string // of a Trial: the path in the record that it comes from; "" for others
	field  int
}

// Columns returns the columns of a table of T, in order.
func Columns[T Row]() []Column {
	t := reflect.TypeFor[T]()
	out := make([]Column, t.NumField())
	for i := range out {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		out[i] = Column{Name: name, Unit: f.Tag.Get("unit"), Record: f.Tag.Get("record"), field: i}
	}
	return out
}

// Value returns what a row has in a column of its own type: an int64, int32,
// uint64, uint32, float64, bool, string, []string or time.Time; nil for null.
func Value[T Row](row *T, c Column) any {
	v := reflect.ValueOf(row).Elem().Field(c.field)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	return v.Interface()
}
