package table

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/kvbench/kvbench/results"
)

// TrialOf returns the row of a record by itself.
func TrialOf(source string, r *results.Record) Trial {
	t := Trial{Source: source, Valid: r.Validity.Valid}
	t.SetRecord(r)
	for _, reason := range r.Validity.Reasons {
		t.Reasons = append(t.Reasons, reason.Rule+": "+reason.Detail)
	}
	return t
}

// SetRecord fills the columns of the record and its warnings. It does not touch
// Valid and Reasons, which the rules of an experiment decide too.
func (t *Trial) SetRecord(r *results.Record) {
	t.Warnings = r.Warnings
	t.StartTime = nil
	if at, err := time.Parse(time.RFC3339Nano, r.Provenance.StartTime); err == nil {
		t.StartTime = Some(at.UTC())
	}
	rec := reflect.ValueOf(r).Elem()
	row := reflect.ValueOf(t).Elem()
	for _, c := range recordColumns() {
		if v, ok := c.read(rec); ok {
			row.Field(c.field).Set(v)
		} else {
			row.Field(c.field).SetZero()
		}
	}
}

// recordColumn leads from a record to a column.
type recordColumn struct {
	field   int          // of Trial
	index   [][]int      // fields, one after the other; pointers are followed between
	samples []int        // in a distribution: the field n of what index leads to last
	unknown bool         // -1 stands for unknown
	kind    reflect.Kind // of the column
}

var recordColumns = sync.OnceValue(func() []recordColumn {
	t := reflect.TypeFor[Trial]()
	var out []recordColumn
	for i := range t.NumField() {
		f := t.Field(i)
		path := f.Tag.Get("record")
		if path == "" {
			continue
		}
		c, err := columnOf(path)
		if err != nil {
			panic(fmt.Sprintf("table: column %s: %v", f.Name, err)) // a test has every column
		}
		c.field, c.kind = i, f.Type.Kind()
		c.unknown = f.Tag.Get("unknown") == "-1"
		out = append(out, c)
	}
	return out
})

// columnOf resolves a path of a record as its JSON has it.
func columnOf(path string) (c recordColumn, err error) {
	t := reflect.TypeFor[results.Record]()
	for name := range strings.SplitSeq(path, ".") {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		f, ok := fieldNamed(t, name)
		if !ok {
			return c, fmt.Errorf("the record has no %s in %s", name, path)
		}
		if t == reflect.TypeFor[results.Distribution]() && name != "n" {
			n, _ := fieldNamed(t, "n")
			c.samples = n.Index
		}
		c.index = append(c.index, f.Index)
		t = f.Type
	}
	return c, nil
}

func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return t.Field(i), true
		}
	}
	return reflect.StructField{}, false
}

// read returns what the column has of a record, false if that is null.
func (c *recordColumn) read(rec reflect.Value) (reflect.Value, bool) {
	v := rec
	for i, index := range c.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		if i == len(c.index)-1 && c.samples != nil && v.FieldByIndex(c.samples).Int() == 0 {
			return v, false // a quantile of nothing
		}
		v = v.FieldByIndex(index)
	}
	switch {
	case c.unknown && (v.CanInt() && v.Int() == -1 || v.CanFloat() && v.Float() == -1):
		return v, false
	case c.kind == reflect.Slice:
		return v, !v.IsNil()
	case v.Kind() == reflect.Int:
		v = reflect.ValueOf(v.Int())
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p, true
}
