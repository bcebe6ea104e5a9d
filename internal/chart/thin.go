package chart

import (
	"math"
)

// columns is the number of columns that a line is thinned to: about one for each
// unit of the widest plot area.
const columns = 420

// cell is what a column keeps of the values in it, each with its place.
type cell struct {
	n                      int
	first, last, low, high Point
}

func (c *cell) add(p Point) {
	if c.n == 0 {
		*c = cell{1, p, p, p, p}
		return
	}
	c.n++
	c.last = p
	if p.Y < c.low.Y {
		c.low = p
	}
	if p.Y > c.high.Y {
		c.high = p
	}
}

// merge adds the values of a column to the right.
func (c *cell) merge(d cell) {
	switch {
	case d.n == 0:
		return
	case c.n == 0:
		*c = d
		return
	}
	c.n += d.n
	c.last = d.last
	if d.low.Y < c.low.Y {
		c.low = d.low
	}
	if d.high.Y > c.high.Y {
		c.high = d.high
	}
}

// appendTo adds what the column keeps, from left to right.
func (c *cell) appendTo(out []Point) []Point {
	if c.n == 0 {
		return out
	}
	a, b := c.low, c.high
	if a.X > b.X {
		a, b = b, a
	}
	for i, p := range []Point{c.first, a, b, c.last} {
		if i == 0 || p != out[len(out)-1] {
			out = append(out, p)
		}
	}
	return out
}

// thin keeps of points that go from left to right the first, lowest, highest and
// last of each column one unit wide, counted from left.
func thin(points []Point, left float64) []Point {
	if len(points) <= 2*columns {
		return points
	}
	out := make([]Point, 0, 4*columns)
	var c cell
	at := math.Inf(-1)
	for _, p := range points {
		if column := math.Floor(p.X - left); column != at {
			out = c.appendTo(out)
			c, at = cell{}, column
		}
		c.add(p)
	}
	return c.appendTo(out)
}

// Thinner thins a line while its points come, in memory that does not grow with
// their number: it keeps the first, lowest, highest and last point of equally wide
// columns, and joins columns in pairs when the line leaves the last one. The zero
// value is ready. Not for concurrent use.
//
// The line that it keeps has between 1,024 and 2,048 columns, more than twice what
// a drawing shows. Ends and extremes are where they were; what a drawing may lose
// is an extreme of one of its columns beside a greater one less than half a column
// away.
type Thinner struct {
	cells  []cell
	start  float64 // x at which column 0 begins
	wide   float64 // of a column; 0: before the second x
	n      int
	missed int
}

const thinnerCells = 2048

// Add takes the next point. Points must come by ascending x; one that goes back,
// or is not finite, is left out and counted.
func (t *Thinner) Add(x, y float64) {
	if !finite(x) || !finite(y) {
		t.missed++
		return
	}
	p := Point{x, y}
	if t.n == 0 {
		t.start = x
		t.cells = make([]cell, thinnerCells)
	}
	if t.wide == 0 {
		if x == t.start {
			t.cells[0].add(p)
			t.n++
			return
		}
		if x > t.start {
			t.wide = (x - t.start) / (thinnerCells / 2)
		}
	}
	column := math.Floor((x - t.start) / t.wide)
	if !(column >= 0) {
		t.missed++
		return
	}
	for column >= thinnerCells {
		for i := range thinnerCells / 2 {
			c := t.cells[2*i]
			c.merge(t.cells[2*i+1])
			t.cells[i] = c
		}
		clear(t.cells[thinnerCells/2:])
		t.wide *= 2
		column = math.Floor((x - t.start) / t.wide)
	}
	t.cells[int(column)].add(p)
	t.n++
}

// Series returns what is kept as a series, which knows how many points it stands
// for.
func (t *Thinner) Series(name string) Series {
	var kept []Point
	for i := range t.cells {
		kept = t.cells[i].appendTo(kept)
	}
	s := Series{Name: name, Of: t.n, Missed: t.missed}
	for _, p := range kept {
		s.X, s.Y = append(s.X, p.X), append(s.Y, p.Y)
	}
	return s
}
