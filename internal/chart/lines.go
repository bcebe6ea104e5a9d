package chart

import (
	"fmt"
	"math"
	"slices"
)

// Lines draws series of numbers: lines, steps or dots.
type Lines struct {
	Head
	X, Y   Axis
	Series []Series
	Bands  []Band
	// Groups names the looks that series have by Series.Group, for a legend of
	// few entries over many series; without it every series has its own.
	Groups     []string
	References []Reference
}

// Style says how the points of a series are shown.
type Style int

// The styles.
const (
	Line    Style = iota // joined by straight lines
	Step                 // each value holds until the next
	Dots                 // a marker each, not joined
	LineDot              // both
)

// Series is a list of points. A Line or Step goes from left to right: its X must
// not descend. A point with NaN interrupts a line.
type Series struct {
	Name  string
	X, Y  []float64
	Style Style
	Group int // which of Lines.Groups it belongs to
	// Of is the number of points that these were thinned from; 0: all are here.
	Of int
	// Missed is the number of points left out because they came in no order or
	// were no numbers.
	Missed int
}

// Band is an area between two lines over the same X.
type Band struct {
	Name         string
	X, Low, High []float64
	Group        int
}

func (l *Lines) head() Head { return l.Head }

func (l *Lines) check() error {
	for _, s := range l.Series {
		if len(s.X) != len(s.Y) {
			return fmt.Errorf("series %q has %d x and %d y", s.Name, len(s.X), len(s.Y))
		}
		if s.Style != Dots && !slices.IsSorted(s.X) && !slices.ContainsFunc(s.X, math.IsNaN) {
			return fmt.Errorf("series %q does not go from left to right", s.Name)
		}
		if l.Groups != nil && (s.Group < 0 || s.Group >= len(l.Groups)) {
			return fmt.Errorf("series %q is of group %d of %d", s.Name, s.Group, len(l.Groups))
		}
	}
	for _, b := range l.Bands {
		if len(b.X) != len(b.Low) || len(b.X) != len(b.High) {
			return fmt.Errorf("band %q has %d x, %d low and %d high", b.Name, len(b.X), len(b.Low), len(b.High))
		}
	}
	return nil
}

// look returns the group of series i.
func (l *Lines) look(i int) int {
	if l.Groups != nil {
		return l.Series[i].Group
	}
	return i
}

func (l *Lines) layout(c *canvas) {
	bx, by := newBounds(), newBounds()
	hidden := 0
	for _, s := range l.Series {
		for i := range s.X {
			if !l.X.usable(s.X[i]) || !l.Y.usable(s.Y[i]) {
				if finite(s.X[i]) && finite(s.Y[i]) {
					hidden++
				}
				continue
			}
			bx.add(s.X[i])
			by.add(s.Y[i])
		}
	}
	for _, b := range l.Bands {
		for i := range b.X {
			if l.X.usable(b.X[i]) && l.Y.usable(b.Low[i]) && l.Y.usable(b.High[i]) {
				bx.add(b.X[i])
				by.add(b.Low[i])
				by.add(b.High[i])
			}
		}
	}
	if bx.empty() {
		c.nothing()
		return
	}
	for _, r := range l.References {
		if r.Upright && l.X.usable(r.Value) {
			bx.add(r.Value)
		} else if !r.Upright && l.Y.usable(r.Value) {
			by.add(r.Value)
		}
	}
	if hidden > 0 {
		c.note(fmt.Sprintf("Not shown: %d points for which an axis has no place, such as 0 on a logarithmic one.", hidden))
	}
	names, dots, lines := l.Groups, false, len(l.Bands) > 0
	for _, s := range l.Series {
		if l.Groups == nil {
			names = append(names, s.Name)
		}
		dots = dots || s.Style == Dots || s.Style == LineDot
		lines = lines || s.Style != Dots
	}
	if l.Groups == nil && len(l.Series) == 0 {
		for _, b := range l.Bands {
			names = append(names, b.Name)
		}
	}
	top := 4.0
	if len(names) > 1 {
		top = c.legend(top, names, dots, lines)
	}
	xroom := 0.0
	if dots {
		xroom = 0.03
	}
	f := c.frame(top, 220, l.X.ruler(bx, xroom), l.Y.ruler(by, 0.04))
	for _, b := range l.Bands {
		l.band(c, f, &b)
	}
	for i := range l.Series {
		l.series(c, f, i)
	}
	c.references(f, l.References)
}

func (l *Lines) band(c *canvas, f *frame, b *Band) {
	var low, high []Point
	for i := range b.X {
		x, ok1 := f.x.place(b.X[i])
		a, ok2 := f.y.place(b.Low[i])
		z, ok3 := f.y.place(b.High[i])
		if ok1 && ok2 && ok3 {
			low, high = append(low, Point{x, a}), append(high, Point{x, z})
		}
	}
	low, high = thin(low, f.left), thin(high, f.left)
	slices.Reverse(high)
	if area := append(low, high...); len(area) > 2 {
		c.add(&Path{Parts: [][]Point{area}, Closed: true, Fill: seriesInk(b.Group), Opacity: 0.18, Tip: Clean(b.Name)})
	}
}

// maxTips is the number of markers of a chart that answer a pointer.
const maxTips = 400

func (l *Lines) series(c *canvas, f *frame, i int) {
	s, look := &l.Series[i], l.look(i)
	var parts [][]Point
	var part []Point
	shown := 0
	for k := range s.X {
		x, ok1 := f.x.place(s.X[k])
		y, ok2 := f.y.place(s.Y[k])
		if !ok1 || !ok2 || !l.X.usable(s.X[k]) || !l.Y.usable(s.Y[k]) {
			if len(part) > 0 {
				parts, part = append(parts, part), nil
			}
			continue
		}
		part = append(part, Point{x, y})
		shown++
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	if s.Missed > 0 {
		c.note(fmt.Sprintf("Left out of %q, since they were no numbers or came in no order: %d points.", Clean(s.Name), s.Missed))
	}
	if s.Style == Dots || s.Style == LineDot {
		l.dots(c, f, s, look, parts)
	}
	if s.Style == Dots {
		return
	}
	width := 1.8
	if len(l.Series) > 2*Groups {
		width = 0.9
	}
	for k, p := range parts {
		if len(p) == 1 {
			// A point alone is a short stroke, or it would not be seen.
			parts[k] = []Point{{p[0].X - 1.5, p[0].Y}, {p[0].X + 1.5, p[0].Y}}
			continue
		}
		thinned := thin(p, f.left)
		if len(thinned) < len(p) {
			c.note("Long lines are drawn as the first, lowest, highest and last value of each column of the picture.")
		} else if s.Style == Step {
			thinned = steps(p)
		}
		parts[k] = thinned
	}
	if s.Of > len(s.X) {
		c.note("Long lines are drawn as the first, lowest, highest and last value of each column of the picture.")
	}
	c.add(&Path{Parts: parts, Stroke: seriesInk(look), Width: width, Dash: dashOf(look), Tip: Clean(s.Name)})
}

// steps turns points into a line that holds each value until the next.
func steps(p []Point) []Point {
	out := make([]Point, 0, 2*len(p))
	for i, q := range p {
		if i > 0 && q.Y != p[i-1].Y {
			out = append(out, Point{q.X, p[i-1].Y})
		}
		out = append(out, q)
	}
	return out
}

func (l *Lines) dots(c *canvas, f *frame, s *Series, look int, parts [][]Point) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n <= maxTips {
		for k := range s.X {
			x, ok1 := f.x.place(s.X[k])
			y, ok2 := f.y.place(s.Y[k])
			if ok1 && ok2 && l.X.usable(s.X[k]) && l.Y.usable(s.Y[k]) {
				c.marker(look, Point{x, y}, 3.6, Clean(s.Name)+": "+Format(s.X[k], l.X.Unit)+", "+Format(s.Y[k], l.Y.Unit))
			}
		}
		return
	}
	// Many dots are short strokes of one path, one for each place of the grid.
	seen := map[[2]int]bool{}
	var marks [][]Point
	for _, p := range parts {
		for _, q := range p {
			at := [2]int{int(q.X / 2), int(q.Y / 2)}
			if !seen[at] {
				seen[at] = true
				marks = append(marks, []Point{{q.X - 0.8, q.Y}, {q.X + 0.8, q.Y}})
			}
		}
	}
	if len(marks) < n {
		c.note("Of dots that lie on each other one is drawn.")
	}
	c.add(&Path{Parts: marks, Stroke: seriesInk(look), Width: 1.6, Tip: Clean(s.Name)})
}

func (a Axis) name(otherwise string) string {
	if a.Label != "" {
		return a.Label
	}
	return otherwise
}

func (l *Lines) points() int {
	n := 0
	for _, s := range l.Series {
		n += max(len(s.X), s.Of)
	}
	for _, b := range l.Bands {
		n += len(b.X)
	}
	return n
}

func (l *Lines) data() *Table {
	if n := l.points(); n > MaxRows {
		return l.summary(n)
	}
	return l.full()
}

// full has a row for each point that the chart holds.
func (l *Lines) full() *Table {
	t := &Table{Caption: l.Title, Columns: []Column{{Name: "series"}, {l.X.name("x"), l.X.Unit}, {l.Y.name("y"), l.Y.Unit}}}
	if len(l.Bands) > 0 {
		t.Columns = append(t.Columns, Column{"to", l.Y.Unit})
	}
	row := func(cells ...any) {
		t.Rows = append(t.Rows, cells[:len(t.Columns):len(t.Columns)])
	}
	for _, s := range l.Series {
		for i := range s.X {
			row(s.Name, s.X[i], s.Y[i], math.NaN())
		}
		if s.Of > len(s.X) {
			t.Note = "Series were thinned while they were read; these points are what was kept."
		}
	}
	for _, b := range l.Bands {
		for i := range b.X {
			row(b.Name, b.X[i], b.Low[i], b.High[i])
		}
	}
	return t
}

// summary has a row for each series.
func (l *Lines) summary(points int) *Table {
	y := l.Y.name("y")
	t := &Table{
		Caption: l.Title,
		Columns: []Column{{Name: "series"}, {Name: "points"}, {"first " + l.X.name("x"), l.X.Unit}, {"last " + l.X.name("x"), l.X.Unit},
			{"first " + y, l.Y.Unit}, {"lowest " + y, l.Y.Unit}, {"highest " + y, l.Y.Unit}, {"last " + y, l.Y.Unit}},
		Note: fmt.Sprintf("The picture has %d points, so this table sums up each series.", points),
	}
	add := func(name string, n int, x, first, low, high []float64) {
		b := newBounds()
		for i := range low {
			b.add(low[i])
			b.add(high[i])
		}
		if b.empty() {
			t.Rows = append(t.Rows, []any{name, n, math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()})
			return
		}
		t.Rows = append(t.Rows, []any{name, n, x[0], x[len(x)-1], first[0], b.low, b.high, first[len(first)-1]})
	}
	for _, s := range l.Series {
		add(s.Name, max(len(s.X), s.Of), s.X, s.Y, s.Y, s.Y)
	}
	for _, b := range l.Bands {
		add(b.Name, len(b.X), b.X, b.Low, b.Low, b.High)
	}
	return t
}

// ECDF returns the share of samples that are at most x, as a series of steps. It
// sorts a copy. Of more than 2,000 samples it keeps those at 1,000 equal steps of
// the share and, towards both ends, at steps that become finer as the tail becomes
// rarer, so that a logarithmic look at the tail is exact to the last sample; every
// share that it keeps is exact.
func ECDF(name string, samples []float64) Series {
	v := slices.DeleteFunc(slices.Clone(samples), func(x float64) bool { return !finite(x) })
	slices.Sort(v)
	s := Series{Name: name, Style: Step, Missed: len(samples) - len(v)}
	n := len(v)
	for i := range n {
		if i+1 < n && v[i+1] == v[i] {
			continue // the share is that of the last of equal samples
		}
		rest := min(i+1, n-i)
		if n > 2000 && len(s.X) > 0 && i < n-1 && rest%max(1, rest/200) != 0 && i%(n/1000) != 0 {
			continue
		}
		s.X, s.Y = append(s.X, v[i]), append(s.Y, float64(i+1)/float64(n))
	}
	if len(s.X) < n {
		s.Of = n
	}
	return s
}
