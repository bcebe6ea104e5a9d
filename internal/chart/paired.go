package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var nan = math.NaN()

// Paired draws one dot for each variant in each round and joins those of a round.
type Paired struct {
	Head
	Y        Axis
	Variants []string
	Rounds   []PairedRound
}

// PairedRound is one round.
type PairedRound struct {
	Number int
	// Values are those of the variants; NaN: there is none.
	Values []float64
}

func (p *Paired) head() Head { return p.Head }

func (p *Paired) check() error {
	for _, r := range p.Rounds {
		if len(r.Values) != len(p.Variants) {
			return fmt.Errorf("round %d has %d values for %d variants", r.Number, len(r.Values), len(p.Variants))
		}
	}
	return nil
}

func (p *Paired) layout(c *canvas) {
	bx, by := newBounds(), newBounds()
	for _, r := range p.Rounds {
		bx.add(float64(r.Number))
		for _, v := range r.Values {
			if p.Y.usable(v) {
				by.add(v)
			}
		}
	}
	if by.empty() {
		c.nothing()
		return
	}
	bx.add(bx.low - 0.5)
	bx.add(bx.high + 0.5)
	top := c.legend(4, p.Variants, true, false)
	f := c.frame(top, 220, Axis{Label: "round", Whole: true}.ruler(bx, 0), p.Y.ruler(by, 0.05))
	step := (f.right - f.left) / (bx.high - bx.low)
	spread := min(0.6*step, 30)
	radius := min(4, max(1.2, step/4))
	var joins [][]Point
	var marks []func()
	var missing []string
	for _, r := range p.Rounds {
		x, _ := f.x.place(float64(r.Number))
		var join []Point
		for i, v := range r.Values {
			y, ok := f.y.place(v)
			if !ok || !p.Y.usable(v) {
				missing = append(missing, fmt.Sprintf("%s in round %d", Clean(p.Variants[i]), r.Number))
				continue
			}
			at := Point{x, y}
			if k := len(p.Variants); k > 1 {
				at.X += spread * (float64(i)/float64(k-1) - 0.5)
			}
			join = append(join, at)
			tip := ""
			if len(p.Rounds)*len(p.Variants) <= maxTips {
				tip = "round " + strconv.Itoa(r.Number) + ", " + Clean(p.Variants[i]) + ": " + Format(v, p.Y.Unit)
			}
			marks = append(marks, func() { c.marker(i, at, radius, tip) })
		}
		if len(join) > 1 {
			joins = append(joins, join)
		}
	}
	if len(joins) > 0 {
		c.add(&Path{Parts: joins, Stroke: Quiet, Width: 1})
	}
	for _, m := range marks {
		m()
	}
	if n := len(missing); n > 0 {
		text := "No value to show: " + strings.Join(missing[:min(n, 5)], ", ")
		if n > 5 {
			text += fmt.Sprintf(" and %d more", n-5)
		}
		c.note(text + ".")
	}
}

func (p *Paired) data() *Table {
	t := &Table{Caption: p.Title, Columns: []Column{{Name: "round"}}}
	for _, v := range p.Variants {
		t.Columns = append(t.Columns, Column{v, p.Y.Unit})
	}
	for _, r := range p.Rounds {
		row := []any{r.Number}
		for _, v := range r.Values {
			row = append(row, v)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
