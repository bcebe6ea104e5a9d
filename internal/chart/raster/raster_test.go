package raster

import (
	"bytes"
	"image/png"
	"io"
	"math"
	"testing"

	"github.com/kvbench/kvbench/internal/chart"
)

// samples are charts of every kind, with all signs, areas, shades and odd words.
func samples() []chart.Chart {
	lines := &chart.Lines{Head: chart.Head{Title: "lines"}, Y: chart.Axis{Log: true, Unit: chart.Nanoseconds}, References: []chart.Reference{{Value: 2, Label: "漢字 \x00 \u202e"}},
		Bands: []chart.Band{{Name: "band", X: []float64{1, 2, 3}, Low: []float64{1, 2, 1}, High: []float64{5, 6, 7}}}}
	for i := range 9 {
		lines.Series = append(lines.Series, chart.Series{Name: "series", Style: chart.LineDot, X: []float64{1, 2, 3}, Y: []float64{float64(i + 1), math.NaN(), float64(2*i + 1)}})
	}
	return []chart.Chart{
		lines,
		&chart.Forest{Rows: []chart.ForestRow{{Label: "r", Estimate: 1.1, Low: 1, High: 1.2, Margin: 0.9, Tone: chart.Better, Dots: []float64{1}}}},
		&chart.Paired{Variants: []string{"a", "b"}, Rounds: []chart.PairedRound{{Number: 1, Values: []float64{1, 2}}}},
		&chart.Bars{Kind: []string{"a", "b"}, Rows: []chart.Bar{{Label: "r", Parts: []float64{1, 2}}}},
		&chart.Heat{Rows: []string{"r"}, From: 0, To: 1, Values: [][]float64{{1, 2, 3}}},
		&chart.Histogram{Edges: []float64{1, 2, 3}, Sets: []chart.Counts{{Counts: []float64{4, 5}}}},
		&chart.Lines{}, // nothing to draw
	}
}

// TestPNG decodes every picture: it has the size of the drawing, is not blank, and
// is the same each time.
func TestPNG(t *testing.T) {
	for _, ch := range samples() {
		var first, again bytes.Buffer
		if err := WritePNG(&first, ch); err != nil {
			t.Fatal(err)
		}
		if err := WritePNG(&again, ch); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), again.Bytes()) {
			t.Errorf("%T is drawn differently the second time", ch)
		}
		img, err := png.Decode(&first)
		if err != nil {
			t.Fatal(err)
		}
		d, err := chart.Draw(ch)
		if err != nil {
			t.Fatal(err)
		}
		size := img.Bounds().Size()
		if size.X != 960 || math.Abs(float64(size.Y)-2*d.Height) > 1 {
			t.Errorf("%T is %v, and the drawing %v x %v", ch, size, d.Width, d.Height)
		}
		colours := map[[3]uint32]int{}
		for y := range size.Y {
			for x := y % 5; x < size.X; x += 5 {
				r, g, b, a := img.At(x, y).RGBA()
				if a != 0xffff {
					t.Fatalf("%T has a transparent place", ch)
				}
				colours[[3]uint32{r, g, b}]++
			}
		}
		if len(colours) < 3 || colours[[3]uint32{0xffff, 0xffff, 0xffff}] < size.X {
			t.Errorf("%T has %d colours", ch, len(colours))
		}
	}
}

func TestContradictionIsAnError(t *testing.T) {
	if err := WritePNG(io.Discard, &chart.Bars{Rows: []chart.Bar{{Parts: []float64{1}}}}); err == nil {
		t.Error("a chart that contradicts itself is drawn")
	}
}
