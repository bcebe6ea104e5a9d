package recorded

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/kvbench/kvbench/internal/gate"
)

const gateDoc = "../../internal/gate/README.md"

func gateStudy(t *testing.T) *gate.StudyTable {
	t.Helper()
	data, err := os.ReadFile("gate-study/gates.json")
	if err != nil {
		t.Fatal(err)
	}
	var table gate.StudyTable
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&table); err != nil {
		t.Fatal(err)
	}
	return &table
}

// TestGateTable keeps the table of wrong verdicts true.
func TestGateTable(t *testing.T) {
	const (
		begin = "<!-- gate study: go test ./results/recorded -update -->\n"
		end   = "<!-- end of gate study -->\n"
	)
	doc, err := os.ReadFile(gateDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(doc, []byte(begin))
	table, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", gateDoc)
	}
	var want bytes.Buffer
	if err := gateStudy(t).WriteMarkdown(&want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(gateDoc, bytes.Join([][]byte{before, []byte(begin), want.Bytes(), []byte(end), after}, nil), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(table, want.Bytes()) {
		t.Errorf("the table in %s is not that of the recorded study; run: go test ./results/recorded -update", gateDoc)
	}
}

// TestGateStudyKeepsTheStatedRate holds the recorded counts to what the README
// says: at most 2.5% wrong, of a fixed look with what is appended to it 5%, and three
// standard errors of such a count.
func TestGateStudyKeepsTheStatedRate(t *testing.T) {
	table := gateStudy(t)
	if table.Gates < 200 || len(table.Lines) != 16 {
		t.Fatalf("the study has %d gates in %d lines", table.Gates, len(table.Lines))
	}
	for _, l := range table.Lines {
		if l.Pass+l.Fail+l.Open != table.Gates {
			t.Errorf("%s, %s, %g: %d verdicts of %d gates", l.Noise, l.Schedule, l.Truth, l.Pass+l.Fail+l.Open, table.Gates)
		}
		n, p := float64(table.Gates), l.StatedRate()
		if over := float64(l.Wrong()) - p*n; over > 0 && over*over > 9*p*(1-p)*n {
			t.Errorf("%s, %s, %g: %d of %d are wrong", l.Noise, l.Schedule, l.Truth, l.Wrong(), table.Gates)
		}
	}
}
