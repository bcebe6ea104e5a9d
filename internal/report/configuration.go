package report

import (
	"fmt"
	"reflect"
	"strings"

	shellquote "github.com/kballard/go-shellquote"

	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/results"
)

// quote writes a command line so that a shell reads it back.
func quote(argv []string) string { return shellquote.Join(argv...) }

// configurationTable has a row for each setting and a column for each group, of
// its first record. What differs comes first.
func configurationTable(trials []trial) *chart.Table {
	t := &chart.Table{Caption: "Configuration", Columns: []chart.Column{{Name: "setting"}}}
	var first []*results.Record
	for _, name := range groups(trials) {
		t.Columns = append(t.Columns, chart.Column{Name: name})
		first = append(first, ofGroup(trials, name)[0].Record)
	}
	var same, differ [][]any
	kind := reflect.TypeFor[results.Config]()
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		row := []any{name}
		equal := true
		for k, r := range first {
			text := fmt.Sprint(reflect.ValueOf(&r.Config).Elem().Field(i).Interface())
			row = append(row, text)
			equal = equal && (k == 0 || text == row[1])
		}
		if equal {
			same = append(same, row)
		} else {
			differ = append(differ, row)
		}
	}
	t.Rows = append(differ, same...)
	if len(first) > 1 {
		t.Note = fmt.Sprintf("The first %d rows differ; the others are the same for all.", len(differ))
	}
	return t
}
