package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTableFits(t *testing.T) {
	var b Builder
	var table Table
	table.Row("policy", "hit %", "TTFT")
	table.Row("kv", "8.1", "1.09s")
	table.Row("é", "10.25", "-")
	table.Write(&b)
	if got, want := b.String(), "policy  hit %   TTFT\nkv        8.1  1.09s\né       10.25      -\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestTableGoesOnBelow(t *testing.T) {
	var b Builder
	var table Table
	long := strings.Repeat("score(cache=1) ", 9)
	head, row := []string{"policy"}, []string{long}
	for range 12 {
		head, row = append(head, "a heading"), append(row, "1")
	}
	table.Row(head...)
	table.Row(row...)
	table.Write(&b)
	cells, firsts := 0, 0
	for line := range strings.SplitSeq(b.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > Width {
			t.Errorf("a line of %d columns: %q", n, line)
		}
		cells += strings.Count(line, "a heading")
		if strings.HasPrefix(line, "score(cache=1)") {
			firsts++
		}
	}
	if cells != 12 || firsts != 4 {
		t.Errorf("%d cells and %d parts in\n%s", cells, firsts, b.String())
	}
	var empty Builder
	new(Table).Write(&empty)
	if empty.String() != "" {
		t.Error("an empty table is not empty")
	}
}

func TestTableLeftTitlesAndWholeCells(t *testing.T) {
	var b Builder
	table := Table{Whole: true, Left: []int{2}}
	long := "  " + strings.Repeat("n", 45)
	table.Row("  ratio", "median", "interval", "verdict")
	table.Title("a metric")
	table.Row("  b/a", "1", "0.5", "PASS")
	table.Row(long, "22", "0.123", "FAIL")
	table.Write(&b)
	if got, want := b.String(), `  ratio  median  interval  verdict
a metric
  b/a         1  0.5          PASS
`+long+`
             22  0.123        FAIL
`; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
