package chart

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// numbers draws what a record may hold, and what it should not.
func numbers() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Float64Range(-1e3, 1e6),
		rapid.Float64(),
		rapid.SampledFrom([]float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-300, 1e300}),
	)
}

func words() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", `<b>"&'`, strings.Repeat("long ", 50), "\xff\x00\u202e", "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字"}))
}

func axes() *rapid.Generator[Axis] {
	return rapid.Custom(func(t *rapid.T) Axis {
		return Axis{Label: words().Draw(t, "label"), Unit: rapid.SampledFrom([]Unit{Plain, Nanoseconds, Milliseconds, Seconds, Bytes, PerSecond, Ratio, Share}).Draw(t, "unit"),
			Log: rapid.Bool().Draw(t, "log"), Zero: rapid.Bool().Draw(t, "zero"), Tail: rapid.IntRange(0, 3).Draw(t, "tail") == 0, Whole: rapid.Bool().Draw(t, "whole")}
	})
}

// charts draws charts of every kind with anything in them.
func charts() *rapid.Generator[Chart] {
	return rapid.Custom(func(t *rapid.T) Chart {
		h := Head{words().Draw(t, "title"), words().Draw(t, "description")}
		list := func(n int) []float64 { return rapid.SliceOfN(numbers(), n, n).Draw(t, "values") }
		few := func(n int) int { return rapid.IntRange(0, n).Draw(t, "n") }
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			l := &Lines{Head: h, X: axes().Draw(t, "x"), Y: axes().Draw(t, "y")}
			for range few(12) {
				n := few(20)
				s := Series{Name: words().Draw(t, "name"), X: list(n), Y: list(n), Style: Style(rapid.IntRange(0, 3).Draw(t, "style")), Missed: few(1)}
				if s.Style != Dots {
					s.X = slices.DeleteFunc(s.X, math.IsNaN)
					slices.Sort(s.X)
					s.Y = s.Y[:len(s.X)]
				}
				l.Series = append(l.Series, s)
			}
			for range few(2) {
				n := few(5)
				x := list(n)
				l.Bands = append(l.Bands, Band{Name: words().Draw(t, "band"), X: x, Low: list(n), High: list(n), Group: few(3)})
			}
			for range few(2) {
				l.References = append(l.References, Reference{numbers().Draw(t, "reference"), words().Draw(t, "label"), rapid.Bool().Draw(t, "upright")})
			}
			return l
		case 1:
			var samples [][]float64
			var names []string
			for range few(3) {
				samples = append(samples, list(few(30)))
				names = append(names, words().Draw(t, "name"))
			}
			edges, sets := Bins(rapid.IntRange(1, 20).Draw(t, "bins"), rapid.Bool().Draw(t, "log"), names, samples...)
			return &Histogram{Head: h, X: axes().Draw(t, "x"), Y: axes().Draw(t, "y"), Edges: edges, Sets: sets}
		case 2:
			f := &Forest{Head: h}
			for range few(6) {
				r := ForestRow{Label: words().Draw(t, "label"), Estimate: numbers().Draw(t, "e"), Low: numbers().Draw(t, "l"), High: numbers().Draw(t, "h"), Margin: numbers().Draw(t, "m"), Note: words().Draw(t, "note"), Dots: list(few(5))}
				if r.Low > r.High {
					r.Low, r.High = r.High, r.Low
				}
				f.Rows = append(f.Rows, r)
			}
			return f
		case 3:
			p := &Paired{Head: h, Y: axes().Draw(t, "y")}
			for range few(10) {
				p.Variants = append(p.Variants, words().Draw(t, "variant"))
			}
			for i := range few(30) {
				p.Rounds = append(p.Rounds, PairedRound{i + 1, list(len(p.Variants))})
			}
			return p
		case 4:
			b := &Bars{Head: h, X: axes().Draw(t, "x")}
			for range few(4) {
				b.Kind = append(b.Kind, words().Draw(t, "kind"))
			}
			for range few(70) {
				parts := list(len(b.Kind))
				for i := range parts {
					parts[i] = math.Abs(parts[i])
				}
				b.Rows = append(b.Rows, Bar{Label: words().Draw(t, "label"), Parts: parts})
			}
			return b
		}
		p := &Heat{Head: h, X: axes().Draw(t, "x"), From: 0, To: rapid.Float64Range(1e-3, 1e12).Draw(t, "to"), Unit: Bytes}
		columns := few(130)
		for range few(70) {
			p.Rows = append(p.Rows, words().Draw(t, "row"))
			p.Values = append(p.Values, list(columns))
		}
		return p
	})
}

// TestAnything draws anything: it never panics, all lies within the drawing, the
// SVG is well-formed and says nothing that was not escaped, and the table has a
// cell for each column.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ch := charts().Draw(t, "chart")
		d, err := Draw(ch)
		if err != nil {
			t.Fatal(err)
		}
		inside := func(p Point, slack float64) {
			if !(p.X >= -slack && p.X <= d.Width+slack && p.Y >= -slack && p.Y <= d.Height+slack) {
				t.Fatalf("a shape at %v, outside of %v x %v", p, d.Width, d.Height)
			}
		}
		if !(d.Height > 0 && d.Height < 5000) {
			t.Fatalf("it is %v high", d.Height)
		}
		for _, s := range d.Shapes {
			switch x := s.(type) {
			case *Path:
				for _, part := range x.Parts {
					for _, p := range part {
						inside(p, 8)
					}
				}
			case *Circle:
				inside(x.Center, 8)
			case *Label:
				inside(x.At, 1)
				if x.Text == "" {
					t.Fatal("a label without text")
				}
			}
		}
		var svg bytes.Buffer
		if err := WriteSVG(&svg, ch); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, svg.Bytes())
		var figure bytes.Buffer
		if err := WriteFigure(&figure, "id", ch); err != nil {
			t.Fatal(err)
		}
		for _, table := range []*Table{Data(ch), Full(ch)} {
			for i, row := range table.Rows {
				if len(row) != len(table.Columns) {
					t.Fatalf("row %d has %d cells for %d columns", i, len(row), len(table.Columns))
				}
			}
			if err := table.WriteCSV(io.Discard); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func wellFormed(t interface{ Fatalf(string, ...any) }, b []byte) {
	dec := xml.NewDecoder(bytes.NewReader(b))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok && !slices.Contains([]string{"svg", "title", "desc", "style", "path", "circle", "text"}, e.Name.Local) {
			t.Fatalf("an element %s", e.Name.Local)
		}
	}
}

// luminance is that of WCAG 2.
func luminance(colour string) float64 {
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v := float64(RGB(colour)[i]) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestContrast(t *testing.T) {
	if c := contrast("#000000", "#ffffff"); math.Abs(c-21) > 1e-9 {
		t.Fatalf("black on white is %v", c)
	}
	for name, theme := range map[string]Theme{"light": Light(), "dark": Dark()} {
		for _, k := range []Ink{Letter, Quiet, Good, Bad} {
			if c := contrast(theme[k], theme[Ground]); c < 4.5 {
				t.Errorf("%s: text in %s has %.2f", name, k, c)
			}
		}
		for i := range Groups {
			if c := contrast(theme[seriesInk(i)], theme[Ground]); c < 3 {
				t.Errorf("%s: series %d has %.2f", name, i, c)
			}
		}
		// The shades of a heat map go one way.
		for i := 1; i < levels; i++ {
			a, b := luminance(theme[heatInk(i-1)]), luminance(theme[heatInk(i)])
			if (name == "light") != (b < a) {
				t.Errorf("%s: shade %d does not follow %d", name, i, i-1)
			}
		}
		for _, k := range inks() {
			if len(theme[k]) != 7 {
				t.Errorf("%s has no colour for %s", name, k)
			}
		}
	}
}

// TestContradictions are mistakes of a caller.
func TestContradictions(t *testing.T) {
	for _, ch := range []Chart{
		&Lines{Series: []Series{{X: []float64{1}}}},
		&Lines{Series: []Series{{X: []float64{2, 1}, Y: []float64{1, 2}}}},
		&Lines{Groups: []string{"a"}, Series: []Series{{Group: 1}}},
		&Lines{Bands: []Band{{X: []float64{1}}}},
		&Histogram{Edges: []float64{1}},
		&Histogram{Edges: []float64{2, 1}},
		&Histogram{Edges: []float64{1, 2}, Sets: []Counts{{}}},
		&Forest{Rows: []ForestRow{{Low: 2, High: 1}}},
		&Paired{Variants: []string{"a"}, Rounds: []PairedRound{{Number: 1}}},
		&Bars{Kind: []string{"a"}, Rows: []Bar{{}}},
		&Bars{Kind: []string{"a"}, Rows: []Bar{{Parts: []float64{-1}}}},
		&Heat{Rows: []string{"a"}},
		&Heat{To: 1, Rows: []string{"a", "b"}, Values: [][]float64{{1}, {1, 2}}},
		&Heat{From: 1, To: 1},
	} {
		if _, err := Draw(ch); err == nil {
			t.Errorf("%#v is drawn", ch)
		}
		if err := WriteSVG(io.Discard, ch); err == nil {
			t.Errorf("%#v is written", ch)
		}
	}
}

// TestTablesHaveTheData reads each table back with every digit.
func TestTablesHaveTheData(t *testing.T) {
	third := 1.0 / 3
	for name, c := range map[string]struct {
		ch   Chart
		want [][]string
	}{
		"lines": {&Lines{X: Axis{Label: "t", Unit: Nanoseconds}, Y: Axis{Label: "y"}, Series: []Series{{Name: "s", X: []float64{1, 2}, Y: []float64{third, math.NaN()}}}, Bands: []Band{{Name: "b", X: []float64{1}, Low: []float64{2}, High: []float64{3}}}},
			[][]string{{"series", "t (ns)", "y", "to"}, {"s", "1", "0.3333333333333333", ""}, {"s", "2", "", ""}, {"b", "1", "2", "3"}}},
		"histogram": {&Histogram{X: Axis{Label: "v"}, Edges: []float64{0, 1, 2}, Sets: []Counts{{"", []float64{5, 6}, 0, 0}}},
			[][]string{{"v from", "to", "count"}, {"0", "1", "5"}, {"1", "2", "6"}}},
		"forest": {&Forest{Rows: []ForestRow{{Label: "r", Estimate: third, Low: 0.25, High: 0.5, Tone: Worse}}},
			[][]string{{"what", "ratio (ratio)", "low (ratio)", "high (ratio)", "margin (ratio)", "reading", "note"}, {"r", "0.3333333333333333", "0.25", "0.5", "", "worse", ""}}},
		"paired": {&Paired{Variants: []string{"a", "b"}, Rounds: []PairedRound{{7, []float64{third, 1}}}},
			[][]string{{"round", "a", "b"}, {"7", "0.3333333333333333", "1"}}},
		"bars": {&Bars{Kind: []string{"k"}, X: Axis{Unit: Bytes}, Rows: []Bar{{Label: "r", Parts: []float64{12345678}}}},
			[][]string{{"what", "k (B)"}, {"r", "1.2345678e+07"}}},
		"heat": {&Heat{X: Axis{Unit: Nanoseconds}, From: 0, To: 2e9, Rows: []string{"r"}, Values: [][]float64{{1, 2}}},
			[][]string{{"row", "from 0", "from 1 s"}, {"r", "1", "2"}}},
	} {
		var b bytes.Buffer
		if err := Data(c.ch).WriteCSV(&b); err != nil {
			t.Fatal(err)
		}
		got, err := csv.NewReader(&b).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestThin compares a thinned line with what every column has.
func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2*columns+1, 5000).Draw(t, "n")
		seed := rapid.IntRange(0, 1000).Draw(t, "seed")
		points := make([]Point, n)
		for i := range points {
			points[i] = Point{X: 30 + 400*float64(i)/float64(n), Y: 100 + 90*math.Sin(float64(i*i%(seed+7)))}
		}
		type extent struct{ low, high, first, last float64 }
		look := func(points []Point) map[int]extent {
			out := map[int]extent{}
			for _, p := range points {
				c := int(math.Floor(p.X - 30))
				e, ok := out[c]
				if !ok {
					e = extent{p.Y, p.Y, p.Y, p.Y}
				}
				out[c] = extent{min(e.low, p.Y), max(e.high, p.Y), e.first, p.Y}
			}
			return out
		}
		kept := thin(points, 30)
		if len(kept) > 4*(columns+1) {
			t.Fatalf("%d of %d points are kept", len(kept), n)
		}
		if !slices.IsSortedFunc(kept, func(a, b Point) int { return int(math.Copysign(1, a.X-b.X)) * boolInt(a.X != b.X) }) {
			t.Fatal("the points went out of order")
		}
		all, few := look(points), look(kept)
		if len(all) != len(few) {
			t.Fatalf("%d columns of %d", len(few), len(all))
		}
		for c, want := range all {
			if few[c] != want {
				t.Fatalf("column %d: %v, want %v", c, few[c], want)
			}
		}
	})
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestThinner keeps the ends, both extremes and only points that were there, in
// order, in bounded memory; what comes in no order is counted.
func TestThinner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var th Thinner
		n := rapid.IntRange(0, 30000).Draw(t, "n")
		stretch := rapid.Float64Range(0.01, 3).Draw(t, "stretch")
		b := newBounds()
		there := map[Point]bool{}
		var first, last Point
		for i := range n {
			p := Point{math.Pow(float64(i), stretch), math.Sin(float64(i)*1.7) * float64(i%97)}
			if i == 0 {
				first = p
			}
			last = p
			there[p] = true
			th.Add(p.X, p.Y)
			b.add(p.Y)
		}
		th.Add(-1, 0)
		th.Add(math.NaN(), 0)
		th.Add(0, math.Inf(1))
		s := th.Series("s")
		if n > 0 && (s.Of != n || s.Missed != 3) {
			t.Fatalf("it stands for %d of %d, missed %d", s.Of, n, s.Missed)
		}
		if len(s.X) > 4*thinnerCells || !slices.IsSorted(s.X) {
			t.Fatalf("%d points, sorted %v", len(s.X), slices.IsSorted(s.X))
		}
		if n == 0 {
			return
		}
		for i := range s.X {
			if !there[Point{s.X[i], s.Y[i]}] {
				t.Fatalf("point %v, %v was never added", s.X[i], s.Y[i])
			}
		}
		if s.X[0] != first.X || s.Y[0] != first.Y || s.X[len(s.X)-1] != last.X || s.Y[len(s.Y)-1] != last.Y {
			t.Fatal("an end is lost")
		}
		if slices.Min(s.Y) != b.low || slices.Max(s.Y) != b.high {
			t.Fatalf("from %v to %v, want %v to %v", slices.Min(s.Y), slices.Max(s.Y), b.low, b.high)
		}
	})
}

// TestECDF compares the share at every value that is kept with a count.
func TestECDF(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Float64Range(0, 100), 0, 50).Draw(t, "samples")
		if rapid.Bool().Draw(t, "many") {
			for i := range 20000 {
				samples = append(samples, math.Floor(1000*math.Abs(math.Sin(float64(i)))))
			}
		}
		s := ECDF("s", append(samples, math.NaN()))
		if s.Missed != 1 || len(s.X) > 3000 {
			t.Fatalf("missed %d, %d kept", s.Missed, len(s.X))
		}
		for i, x := range s.X {
			n := 0
			for _, v := range samples {
				if v <= x {
					n++
				}
			}
			if want := float64(n) / float64(len(samples)); s.Y[i] != want {
				t.Fatalf("the share up to %v is %v, want %v", x, s.Y[i], want)
			}
		}
		if len(samples) > 0 && (s.X[0] != slices.Min(samples) || s.X[len(s.X)-1] != slices.Max(samples) || s.Y[len(s.Y)-1] != 1) {
			t.Fatal("an end is lost")
		}
	})
}

// TestBins compares counts with a naive count.
func TestBins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.Bool().Draw(t, "log")
		samples := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-5, 5), rapid.Float64Range(0, 1e9)), 0, 100).Draw(t, "samples")
		n := rapid.IntRange(1, 30).Draw(t, "n")
		edges, sets := Bins(n, log, []string{"s"}, samples)
		if len(edges) != n+1 || !slices.IsSorted(edges) {
			t.Fatalf("edges %v", edges)
		}
		total := sets[0].Below
		for i, c := range sets[0].Counts {
			want := 0.0
			for _, v := range samples {
				if (!log || v >= 1/far) && v >= edges[i] && (v < edges[i+1] || i == n-1 && v == edges[n]) {
					want++
				}
			}
			// Equal edges, where values lie closer than a number can say, share.
			if c != want && edges[i] != edges[i+1] {
				t.Fatalf("bin %d from %v to %v has %v, want %v", i, edges[i], edges[i+1], c, want)
			}
			total += c
		}
		if total != float64(len(samples)) {
			t.Fatalf("%v of %d samples are counted", total, len(samples))
		}
	})
}

func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBounds()
		b.add(numbers().Draw(t, "a"))
		b.add(numbers().Draw(t, "b"))
		a := axes().Draw(t, "axis")
		if b.empty() || !a.usable(b.low) || !a.usable(b.high) {
			return
		}
		r := a.ruler(b, 0.05)
		r.from, r.to = 0, 100
		ticks := r.ticks(5)
		if len(ticks) > 25 || !slices.IsSorted(ticks) {
			t.Fatalf("ticks %v", ticks)
		}
		for _, v := range ticks {
			if at, ok := r.place(v); ok && !(at >= -1e-6 && at <= 100+1e-6) {
				t.Fatalf("tick %v of %v to %v is at %v", v, r.low, r.high, at)
			}
			if r.tickText(v, ticks) == "" {
				t.Fatal("a tick without text")
			}
		}
	})
}

func TestNums(t *testing.T) {
	for v := -250; v <= 250; v++ {
		got, err := strconv.ParseFloat(tenths(v), 64)
		if err != nil || math.Abs(got-float64(v)/10) > 1e-12 {
			t.Errorf("tenths(%d) = %q, %v", v, tenths(v), err)
		}
	}
}

// large is a hundred series of a million points each.
func large(series, points int) *Lines {
	l := &Lines{Head: Head{Title: "Queue depth", Description: "Many trials."}, X: Axis{Label: "time", Unit: Nanoseconds}, Y: Axis{Label: "events waiting"}, Groups: []string{"base", "head"}}
	for k := range series {
		var th Thinner
		v := 0.0
		for i := range points {
			v = max(0, v+float64((i*7919+k*104729)%201-99))
			th.Add(float64(i)*1e3, v)
		}
		s := th.Series(fmt.Sprintf("trial %d", k))
		s.Group = k % 2
		l.Series = append(l.Series, s)
	}
	return l
}

// TestLargeStaysSmall bounds the size of a picture by the number of series, not by
// that of points.
func TestLargeStaysSmall(t *testing.T) {
	size := func(points int) int {
		var b bytes.Buffer
		if err := WriteFigure(&b, "id", large(10, points)); err != nil {
			t.Fatal(err)
		}
		return b.Len()
	}
	if small, large := size(20_000), size(200_000); large > small*5/4 || large > 250_000 {
		t.Errorf("%d bytes for 200,000 points a series, %d for 20,000", large, small)
	}
}

// BenchmarkLarge draws 100 trials of a million points each: bytes is the size of
// the figure.
func BenchmarkLarge(b *testing.B) {
	var size int
	for b.Loop() {
		var out bytes.Buffer
		if err := WriteFigure(&out, "id", large(100, 1_000_000)); err != nil {
			b.Fatal(err)
		}
		size = out.Len()
	}
	b.ReportMetric(float64(size), "bytes")
}
