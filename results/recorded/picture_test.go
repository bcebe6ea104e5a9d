package recorded

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/internal/report"
)

// TestPictures keeps the pictures of the documents those of the recorded runs.
func TestPictures(t *testing.T) {
	p, err := report.Build([]string{filepath.Join("rounds", "tracking")}, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Figures() {
		if f.ID != "same-round-ratios" {
			continue
		}
		var b bytes.Buffer
		if err := chart.WriteSVG(&b, f.Chart); err != nil {
			t.Fatal(err)
		}
		keepPicture(t, "../../docs/figures/tracking.svg", b.Bytes())
		return
	}
	t.Error("the report has no picture of ratios")
}

// keepPicture compares a file of the documents with what it must be.
func keepPicture(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the recorded runs give; run: go test ./results/recorded -update", path)
	}
}
