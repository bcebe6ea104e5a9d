package chart

import "fmt"

// Forest draws ratios with their intervals below each other, around 1.
type Forest struct {
	Head
	Rows []ForestRow
}

// Tone says what a figure means.
type Tone string

// The tones.
const (
	Neutral Tone = ""
	Better  Tone = "better"
	Worse   Tone = "worse"
)

func (t Tone) ink() Ink {
	switch t {
	case Better:
		return Good
	case Worse:
		return Bad
	}
	return seriesInk(0)
}

// ForestRow is one ratio. NaN: not known.
type ForestRow struct {
	Label    string
	Estimate float64
	Low      float64
	High     float64
	// Margin is the ratio that the interval must not reach, on the side that is
	// worse; NaN or 0: none.
	Margin float64
	Tone   Tone
	// Note says why there is no interval, or what else matters.
	Note string
	// Dots are the single ratios that the estimate is made of.
	Dots []float64
}

func (p *Forest) head() Head { return p.Head }

func (p *Forest) check() error {
	for _, r := range p.Rows {
		if r.Low > r.High {
			return fmt.Errorf("row %q has an interval from %g to %g", r.Label, r.Low, r.High)
		}
	}
	return nil
}

func (p *Forest) layout(c *canvas) {
	b := newBounds()
	b.add(1)
	axis := Axis{Unit: Ratio, Log: true, Label: "ratio, logarithmic"}
	known := false
	for _, r := range p.Rows {
		for _, v := range append([]float64{r.Estimate, r.Low, r.High, r.Margin}, r.Dots...) {
			if axis.usable(v) {
				b.add(v)
				known = true
			}
		}
	}
	if !known {
		c.nothing()
		return
	}
	const rowHeight = 42
	top := 6.0
	f := &frame{left: 12, right: width - 12, top: top, bottom: top + rowHeight*float64(len(p.Rows)) + 4}
	f.x = axis.ruler(b, 0.05)
	f.x.from, f.x.to = f.left, f.right
	one, _ := f.x.place(1)
	c.xaxis(f)
	for i := range p.Rows {
		if y := top + rowHeight*float64(i); i > 0 {
			c.line(f.left, y, f.right, y, Grid, 1, nil)
		}
	}
	var line [][]Point
	for i := range p.Rows {
		mid := top + rowHeight*float64(i) + 29
		line = append(line, []Point{{one, mid - 11}, {one, mid + 13}})
	}
	c.add(&Path{Parts: line, Stroke: Quiet, Width: 1.4, Tip: "no difference"})
	for i := range p.Rows {
		r := &p.Rows[i]
		y := top + rowHeight*float64(i)
		value := r.valueText()
		c.text(f.right, y+15, value, End, small, Letter)
		c.text(f.left, y+15, fit(r.Label, f.right-f.left-textWidth(value, small)-12, small), Start, small, Letter)
		mid := y + 29
		if at, ok := f.x.place(r.Margin); ok && r.Margin > 0 {
			c.add(&Path{Parts: [][]Point{{{at, mid - 9}, {at, mid + 9}}}, Stroke: Bad, Width: 1.6, Dash: []float64{3, 2}, Tip: "margin " + Format(r.Margin, Ratio)})
		}
		var marks [][]Point
		for _, v := range r.Dots {
			if at, ok := f.x.place(v); ok {
				marks = append(marks, []Point{{at, mid + 5}, {at, mid + 9}})
			}
		}
		if len(marks) > 0 {
			c.add(&Path{Parts: marks, Stroke: Quiet, Width: 1})
		}
		ink := r.Tone.ink()
		low, ok1 := f.x.place(r.Low)
		high, ok2 := f.x.place(r.High)
		if ok1 && ok2 {
			c.add(&Path{Parts: [][]Point{{{low, mid}, {high, mid}}, {{low, mid - 5}, {low, mid + 5}}, {{high, mid - 5}, {high, mid + 5}}}, Stroke: ink, Width: 2.2})
		}
		if at, ok := f.x.place(r.Estimate); ok {
			s := 5.5
			c.add(&Path{Parts: [][]Point{{{at, mid - s}, {at + s, mid}, {at, mid + s}, {at - s, mid}}}, Closed: true, Fill: ink, Tip: Clean(r.Label) + ": " + value})
		}
	}
}

func (r *ForestRow) valueText() string {
	switch {
	case !finite(r.Estimate):
		if r.Note != "" {
			return fit(r.Note, width/2, small)
		}
		return "no result"
	case !finite(r.Low) || !finite(r.High):
		return Format(r.Estimate, Ratio) + ", no interval"
	}
	return fmt.Sprintf("%s [%s, %s]", Format(r.Estimate, Ratio), Format(r.Low, Ratio), Format(r.High, Ratio))
}

func (p *Forest) data() *Table {
	t := &Table{Caption: p.Title, Columns: []Column{{Name: "what"}, {"ratio", Ratio}, {"low", Ratio}, {"high", Ratio}, {"margin", Ratio}, {Name: "reading"}, {Name: "note"}}}
	for _, r := range p.Rows {
		margin := r.Margin
		if margin == 0 {
			margin = nan
		}
		t.Rows = append(t.Rows, []any{r.Label, r.Estimate, r.Low, r.High, margin, string(r.Tone), r.Note})
	}
	return t
}
