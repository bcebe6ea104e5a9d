package archive

import "testing"

func TestFormatOf(t *testing.T) {
	for path, want := range map[string]Format{
		"a.parquet": Parquet, "a/b.CSV": CSV, "a.csv.json": JSON, "x.jsonl": JSON, "csv": "", "a.csv.old": "", "": "",
	} {
		got, ok := FormatOf(path)
		if got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t; want %q", path, got, ok, want)
		}
	}
}
