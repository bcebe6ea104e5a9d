package chart

import (
	"fmt"
	"math"
)

// Heat draws a figure of each row, such as a rank, over time as shades.
type Heat struct {
	Head
	X    Axis // linear
	Rows []string
	// From and To are the ends of the x axis; the columns divide it equally.
	From, To float64
	Unit     Unit
	// Values are one row for each of Rows, all equally long; NaN: not known.
	Values [][]float64
}

func (p *Heat) head() Head { return p.Head }

func (p *Heat) check() error {
	if len(p.Values) != len(p.Rows) {
		return fmt.Errorf("%d rows of values for %d names", len(p.Values), len(p.Rows))
	}
	for i, v := range p.Values {
		if len(v) != len(p.Values[0]) {
			return fmt.Errorf("row %q has %d values and the first %d", p.Rows[i], len(v), len(p.Values[0]))
		}
	}
	if !(p.To > p.From) {
		return fmt.Errorf("the x axis goes from %g to %g", p.From, p.To)
	}
	return nil
}

// Limits of what a heat map draws.
const (
	heatRows    = 64
	heatColumns = 120
)

func (p *Heat) layout(c *canvas) {
	b := newBounds()
	for _, r := range p.Values {
		for _, v := range r {
			b.add(v)
		}
	}
	if b.empty() {
		c.nothing()
		return
	}
	rows, columns := len(p.Rows), len(p.Values[0])
	n, m := min(rows, heatRows), min(columns, heatColumns)
	if n < rows || m < columns {
		c.note(fmt.Sprintf("Each field is the mean of up to %d × %d values.", (rows+n-1)/n, (columns+m-1)/m))
	}
	// The scale.
	const y0 = 6
	c.text(8, y0+12, Format(b.low, p.Unit), Start, small, Quiet)
	x := 8 + textWidth(Format(b.low, p.Unit), small) + 6
	for l := range levels {
		c.rect(x, y0+1, 16, 13, heatInk(l), "")
		x += 16
	}
	c.text(x+6, y0+12, Format(b.high, p.Unit), Start, small, Quiet)
	names := make([]string, n)
	left := 0.0
	for i := range n {
		names[i] = fit(p.Rows[i*rows/n], 110, small)
		left = max(left, textWidth(names[i], small))
	}
	height := min(16, max(3.2, 260/float64(n)))
	f := &frame{left: left + 14, right: width - 14, top: y0 + 24}
	f.bottom = f.top + height*float64(n)
	bx := newBounds()
	bx.add(p.From)
	bx.add(p.To)
	axis := p.X
	axis.Log, axis.Tail, axis.Zero = false, false, false
	f.x = axis.ruler(bx, 0)
	f.x.from, f.x.to = f.left, f.right
	c.xaxis(f)
	every := max(1, int(math.Ceil(13/height)))
	wide := (f.right - f.left) / float64(m)
	for i := range n {
		y := f.top + height*float64(i)
		if i%every == 0 {
			c.text(f.left-6, y+min(height, 13)/2+4, names[i], End, small, Quiet)
		}
		level := func(j int) int {
			v := p.mean(i*rows/n, max((i+1)*rows/n, i*rows/n+1), j*columns/m, max((j+1)*columns/m, j*columns/m+1))
			switch {
			case !finite(v):
				return -1
			case b.high == b.low:
				return levels / 2
			}
			return min(levels-1, int((v-b.low)/(b.high-b.low)*levels))
		}
		// Neighbours of one shade are one shape.
		for j := 0; j < m; {
			l, k := level(j), j+1
			for k < m && level(k) == l {
				k++
			}
			if l >= 0 {
				c.rect(f.left+wide*float64(j), y, wide*float64(k-j), height, heatInk(l), "")
			}
			j = k
		}
	}
}

func (p *Heat) mean(r0, r1, c0, c1 int) float64 {
	sum, n := 0.0, 0
	for _, r := range p.Values[r0:r1] {
		for _, v := range r[c0:c1] {
			if drawable(v) {
				sum += v
				n++
			}
		}
	}
	if n == 0 {
		return nan
	}
	return sum / float64(n)
}

func (p *Heat) data() *Table {
	if len(p.Rows) == 0 || len(p.Rows)*len(p.Values[0]) > 4*MaxRows {
		return p.summary()
	}
	t := &Table{Caption: p.Title, Columns: []Column{{Name: "row"}}}
	columns := len(p.Values[0])
	for j := range columns {
		at := p.From + (p.To-p.From)*float64(j)/float64(columns)
		t.Columns = append(t.Columns, Column{"from " + Format(at, p.X.Unit), p.Unit})
	}
	for i, name := range p.Rows {
		row := []any{name}
		for _, v := range p.Values[i] {
			row = append(row, v)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (p *Heat) summary() *Table {
	t := &Table{Caption: p.Title, Columns: []Column{{Name: "row"}, {"first", p.Unit}, {"lowest", p.Unit}, {"mean", p.Unit}, {"highest", p.Unit}, {"last", p.Unit}}}
	for i, name := range p.Rows {
		v := p.Values[i]
		if len(v) == 0 {
			continue
		}
		b := newBounds()
		for _, x := range v {
			b.add(x)
		}
		if b.empty() {
			b.low, b.high = nan, nan
		}
		t.Rows = append(t.Rows, []any{name, v[0], b.low, p.mean(i, i+1, 0, len(v)), b.high, v[len(v)-1]})
	}
	t.Note = "The picture has too many fields for a table, so this sums up each row."
	return t
}
