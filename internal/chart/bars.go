package chart

import "fmt"

// Bars draws stacked bars that lie below each other.
type Bars struct {
	Head
	X    Axis
	Kind []string // names of the parts of a bar
	Rows []Bar
}

// Bar is one bar.
type Bar struct {
	Label string
	// Parts are one for each of Bars.Kind, at least 0; NaN: not known.
	Parts []float64
	// Note is written at the end; "": the sum.
	Note string
}

func (p *Bars) head() Head { return p.Head }

func (p *Bars) check() error {
	for _, r := range p.Rows {
		if len(r.Parts) != len(p.Kind) {
			return fmt.Errorf("bar %q has %d parts of %d", r.Label, len(r.Parts), len(p.Kind))
		}
		for _, v := range r.Parts {
			if v < 0 {
				return fmt.Errorf("bar %q has a part of %g", r.Label, v)
			}
		}
	}
	return nil
}

func (r *Bar) sum() (sum float64, known bool) {
	for _, v := range r.Parts {
		if drawable(v) {
			sum += v
			known = true
		}
	}
	return sum, known && drawable(sum)
}

// maxBars is the number of bars that are drawn; the table has all.
const maxBars = 64

func (p *Bars) layout(c *canvas) {
	b := newBounds()
	for i := range p.Rows {
		if sum, ok := p.Rows[i].sum(); ok {
			b.add(sum)
		}
	}
	if b.empty() {
		c.nothing()
		return
	}
	axis := p.X
	axis.Zero, axis.Log, axis.Tail = true, false, false
	top := 4.0
	if len(p.Kind) > 1 {
		top = c.bars(top, p.Kind)
	}
	rows := p.Rows
	if len(rows) > maxBars {
		c.note(fmt.Sprintf("The first %d of %d bars.", maxBars, len(rows)))
		rows = rows[:maxBars]
	}
	const rowHeight = 32
	f := &frame{left: 12, right: width - 12, top: top, bottom: top + rowHeight*float64(len(rows)) + 6}
	f.x = axis.ruler(b, 0)
	f.x.from, f.x.to = f.left, f.right
	c.xaxis(f)
	for i := range rows {
		r := &rows[i]
		y := top + rowHeight*float64(i)
		sum, known := r.sum()
		value := r.Note
		if value == "" {
			value = Format(sum, axis.Unit)
			if !known {
				value = "not known"
			}
		}
		value = fit(value, width/2, small)
		c.text(f.right, y+14, value, End, small, Letter)
		c.text(f.left, y+14, fit(r.Label, f.right-f.left-textWidth(value, small)-12, small), Start, small, Letter)
		at := 0.0
		for k, v := range r.Parts {
			if !known || !drawable(v) || v == 0 {
				continue
			}
			x0, _ := f.x.place(at)
			at += v
			x1, _ := f.x.place(at)
			c.rect(x0, y+19, max(x1-x0, 0.5), 9, seriesInk(k), Clean(r.Label)+", "+Clean(p.Kind[k])+": "+Format(v, axis.Unit))
		}
	}
}

// bars is a legend of filled areas.
func (c *canvas) bars(y float64, names []string) float64 {
	x := 8.0
	for i, name := range names {
		name = fit(name, width-40, small)
		w := 18 + textWidth(name, small) + 14
		if x > 8 && x+w > width {
			x, y = 8, y+18
		}
		c.rect(x, y+4, 12, 10, seriesInk(i), "")
		c.text(x+18, y+13, name, Start, small, Letter)
		x += w
	}
	return y + 22
}

func (p *Bars) data() *Table {
	t := &Table{Caption: p.Title, Columns: []Column{{Name: "what"}}}
	for _, k := range p.Kind {
		t.Columns = append(t.Columns, Column{k, p.X.Unit})
	}
	for _, r := range p.Rows {
		row := []any{r.Label}
		for _, v := range r.Parts {
			row = append(row, v)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
