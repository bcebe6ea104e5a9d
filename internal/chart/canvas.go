package chart

import (
	"fmt"
	"math"
	"strings"
)

// width is that of every drawing. It is narrow, so that text stays readable when a
// phone shows the drawing at two thirds of its size.
const width = 480

// Text sizes.
const (
	small = 12.0
	plain = 13.0
)

// Drawing is a chart laid out: shapes in the order in which they cover each other,
// in units whose origin is at the upper left.
type Drawing struct {
	Title, Description string
	Width, Height      float64
	Shapes             []Shape
	// Notes say what of the data is not shown, and how lines were thinned.
	Notes []string
}

// Shape is a Path, Circle or Label.
type Shape interface{ shape() }

// Point is a place.
type Point struct{ X, Y float64 }

// Path is a line through points, or several, or an area.
type Path struct {
	Parts  [][]Point
	Closed bool
	Stroke Ink // "": no line
	Fill   Ink // "": no area
	Width  float64
	Dash   []float64
	// Opacity is that of the area, 0 to 1; 0 is 1.
	Opacity float64
	// Tip is shown when a pointer rests on the shape; "": nothing.
	Tip string
}

// Circle is a disc or a ring.
type Circle struct {
	Center Point
	R      float64
	Stroke Ink
	Fill   Ink
	Width  float64
	Tip    string
}

// Anchor says which part of a text is at its place.
type Anchor int

// The anchors.
const (
	Start Anchor = iota
	Middle
	End
)

// Label is a line of text; At is on its base line.
type Label struct {
	At     Point
	Text   string
	Anchor Anchor
	Size   float64
	Ink    Ink
}

func (*Path) shape()   {}
func (*Circle) shape() {}
func (*Label) shape()  {}

type canvas struct {
	Drawing
	noted map[string]bool
}

func (c *canvas) add(s Shape) { c.Shapes = append(c.Shapes, s) }

func (c *canvas) note(text string) {
	if c.noted == nil {
		c.noted = map[string]bool{}
	}
	if !c.noted[text] {
		c.noted[text] = true
		c.Notes = append(c.Notes, text)
	}
}

func (c *canvas) line(x1, y1, x2, y2 float64, ink Ink, width float64, dash []float64) {
	c.add(&Path{Parts: [][]Point{{{x1, y1}, {x2, y2}}}, Stroke: ink, Width: width, Dash: dash})
}

func (c *canvas) rect(x, y, w, h float64, fill Ink, tip string) {
	c.add(&Path{Parts: [][]Point{{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}}, Closed: true, Fill: fill, Tip: tip})
}

func (c *canvas) text(x, y float64, s string, a Anchor, size float64, ink Ink) {
	if s == "" {
		return
	}
	c.add(&Label{At: Point{x, y}, Text: s, Anchor: a, Size: size, Ink: ink})
}

// nothing is the drawing of a chart without data.
func (c *canvas) nothing() {
	c.Height = 60
	c.text(width/2, 35, "nothing to draw", Middle, plain, Quiet)
}

// dashes are the ways to draw a line, so that series differ without colour.
func dashOf(group int) []float64 {
	return [][]float64{nil, {7, 3}, {2, 2.5}, {9, 3, 2, 3}, {4, 2}, {12, 3}, {6, 2, 2, 2, 2, 2}, {1, 3}}[group%Groups]
}

// marker draws the sign of a group.
func (c *canvas) marker(group int, p Point, r float64, tip string) {
	ink := seriesInk(group)
	polygon := func(fill bool, at ...float64) {
		part := make([]Point, 0, len(at)/2)
		for i := 0; i < len(at); i += 2 {
			part = append(part, Point{p.X + r*at[i], p.Y + r*at[i+1]})
		}
		s := &Path{Parts: [][]Point{part}, Closed: true, Tip: tip}
		if fill {
			s.Fill = ink
		} else {
			s.Fill, s.Stroke, s.Width = Ground, ink, 1.5
		}
		c.add(s)
	}
	switch group % Groups {
	case 0:
		c.add(&Circle{Center: p, R: r, Fill: ink, Tip: tip})
	case 1:
		polygon(true, -0.9, -0.9, 0.9, -0.9, 0.9, 0.9, -0.9, 0.9)
	case 2:
		polygon(true, 0, -1.2, 1.1, 0.8, -1.1, 0.8)
	case 3:
		polygon(true, 0, -1.3, 1.3, 0, 0, 1.3, -1.3, 0)
	case 4:
		c.add(&Circle{Center: p, R: r, Stroke: ink, Fill: Ground, Width: 1.5, Tip: tip})
	case 5:
		polygon(false, -0.9, -0.9, 0.9, -0.9, 0.9, 0.9, -0.9, 0.9)
	case 6:
		polygon(true, 0, 1.2, 1.1, -0.8, -1.1, -0.8)
	default:
		c.add(&Path{Parts: [][]Point{{{p.X - r, p.Y - r}, {p.X + r, p.Y + r}}, {{p.X - r, p.Y + r}, {p.X + r, p.Y - r}}}, Stroke: ink, Width: 1.8, Tip: tip})
	}
}

// legendNames is the number of names that a legend has.
const legendNames = 2 * Groups

// legend draws the signs of groups with their names from y on and returns where it
// ends. More than Groups names look alike in part, which the note says.
func (c *canvas) legend(y float64, names []string, dots, lines bool) float64 {
	if len(names) == 0 {
		return y
	}
	if len(names) > Groups {
		c.note("More than 8 series: colours repeat.")
	}
	if n := len(names); n > legendNames {
		c.note(fmt.Sprintf("The legend names %d of %d series; the table has all.", legendNames, n))
		names = names[:legendNames]
	}
	const sign = 26
	x := 8.0
	for i, name := range names {
		name = fit(name, width-16-sign-6, small)
		w := sign + 6 + textWidth(name, small) + 14
		if x > 8 && x+w > width {
			x, y = 8, y+18
		}
		if lines {
			c.line(x, y+9, x+sign, y+9, seriesInk(i), 2, dashOf(i))
		}
		if dots {
			c.marker(i, Point{x + sign/2, y + 9}, 4, "")
		}
		c.text(x+sign+6, y+13, name, Start, small, Letter)
		x += w
	}
	return y + 22
}

// textWidth estimates the width of a text in a sans-serif face, a little too wide:
// which face a reader has is not known.
func textWidth(s string, size float64) float64 {
	var w float64
	for _, r := range s {
		switch {
		case strings.ContainsRune("iljtfrI.,:;'|()[]!/ ", r):
			w += 0.36
		case strings.ContainsRune("mwMW%@", r):
			w += 0.95
		case r >= 'A' && r <= 'Z':
			w += 0.72
		case r >= 0x1100:
			w += 1.05
		default:
			w += 0.59
		}
	}
	return w * size
}

// fit shortens a text in its middle until it is no wider than w.
func fit(s string, w, size float64) string {
	s = Clean(s)
	if textWidth(s, size) <= w {
		return s
	}
	r := []rune(s)
	// No text that fits is longer than this, however long the name is.
	keep := min(len(r)-1, int(w/(0.36*size))+1)
	for ; keep > 1; keep-- {
		short := string(r[:(keep+1)/2]) + "…" + string(r[len(r)-keep/2:])
		if textWidth(short, size) <= w {
			return short
		}
	}
	return "…"
}

// Clean replaces what does not print, or would turn the direction of the text
// around it: names come from outside.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff:
			return '�'
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f:
			return '�' // would turn the direction of the text around it
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// far bounds what is drawn: with numbers beyond it, and those closer to 0 than its
// inverse, the arithmetic of axes would overflow.
const far = 1e150

// drawable says whether a number can be shown on any axis.
func drawable(v float64) bool {
	a := math.Abs(v)
	return a <= far && (a == 0 || a >= 1/far)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
