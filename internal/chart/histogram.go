package chart

import (
	"fmt"
	"math"
	"slices"
)

// Histogram draws how many values fall into each bin.
type Histogram struct {
	Head
	X     Axis
	Y     Axis      // of the counts
	Edges []float64 // of the bins, ascending; bin i reaches from i to i+1
	Sets  []Counts
}

// Counts are the values in each bin.
type Counts struct {
	Name   string
	Counts []float64 // one fewer than Edges
	// Below and Above are values outside of all bins.
	Below, Above float64
}

// Bins counts sets of samples in the same n bins from the lowest to the highest,
// which are equally wide, or with log equally wide by ratio. What cannot be in
// one, such as 0 with log or NaN, is Below.
func Bins(n int, log bool, names []string, samples ...[]float64) (edges []float64, sets []Counts) {
	b := &bounds{math.Inf(1), math.Inf(-1)}
	usable := func(v float64) bool { return math.Abs(v) <= far && (!log || v >= 1/far) }
	for _, s := range samples {
		for _, v := range s {
			if usable(v) {
				b.low, b.high = min(b.low, v), max(b.high, v)
			}
		}
	}
	if b.empty() {
		b.add(1)
	}
	low, high := b.low, b.high
	if low == high {
		low, high = low-math.Abs(low)/10, high+math.Abs(high)/10
		if low == high {
			low, high = -0.5, 0.5
		}
	}
	along, back := func(v float64) float64 { return v }, func(v float64) float64 { return v }
	if log {
		along, back = math.Log, math.Exp
	}
	from, step := along(low), (along(high)-along(low))/float64(n)
	for i := range n + 1 {
		edges = append(edges, back(from+float64(i)*step))
	}
	edges[0], edges[n] = low, high // no rounding may lose an end
	for i, s := range samples {
		c := Counts{Name: names[i], Counts: make([]float64, n)}
		for _, v := range s {
			if !usable(v) {
				c.Below++
				continue
			}
			at := sortedBin(edges, v)
			c.Counts[at]++
		}
		sets = append(sets, c)
	}
	return edges, sets
}

// sortedBin returns the bin of a value within the edges; the last includes its end.
func sortedBin(edges []float64, v float64) int {
	at, found := slices.BinarySearch(edges, v)
	if !found {
		at--
	}
	return min(max(at, 0), len(edges)-2)
}

func (h *Histogram) head() Head { return h.Head }

func (h *Histogram) check() error {
	if len(h.Edges) < 2 || !slices.IsSorted(h.Edges) {
		return fmt.Errorf("%d edges of bins; there must be 2 or more that ascend", len(h.Edges))
	}
	for _, s := range h.Sets {
		if len(s.Counts) != len(h.Edges)-1 {
			return fmt.Errorf("set %q has %d counts for %d bins", s.Name, len(s.Counts), len(h.Edges)-1)
		}
	}
	return nil
}

func (h *Histogram) layout(c *canvas) {
	bx, by := newBounds(), newBounds()
	outside := 0.0
	for _, s := range h.Sets {
		outside += s.Below + s.Above
		for i, v := range s.Counts {
			if h.Y.usable(v) && h.X.usable(h.Edges[i]) && h.X.usable(h.Edges[i+1]) {
				by.add(v)
			}
		}
	}
	for _, e := range h.Edges {
		if h.X.usable(e) {
			bx.add(e)
		}
	}
	if by.empty() || bx.empty() {
		c.nothing()
		return
	}
	if outside > 0 {
		c.note(fmt.Sprintf("Outside of the bins: %s values.", Format(outside, Plain)))
	}
	y := h.Y
	y.Zero = !y.Log
	top := 4.0
	if len(h.Sets) > 1 {
		var names []string
		for _, s := range h.Sets {
			names = append(names, s.Name)
		}
		top = c.legend(top, names, false, true)
	}
	f := c.frame(top, 200, h.X.ruler(bx, 0), y.ruler(by, 0.04))
	for g, s := range h.Sets {
		var outline []Point
		for i, v := range s.Counts {
			x0, ok0 := f.x.place(h.Edges[i])
			x1, ok1 := f.x.place(h.Edges[i+1])
			at, ok := f.y.place(v)
			if !ok {
				at = f.bottom
			}
			if !ok0 || !ok1 {
				continue
			}
			if len(h.Sets) > 1 {
				outline = append(outline, Point{x0, at}, Point{x1, at})
			} else if v > 0 {
				c.rect(x0, at, max(x1-x0-0.6, 0.6), f.bottom-at, seriesInk(g),
					Format(h.Edges[i], h.X.Unit)+" to "+Format(h.Edges[i+1], h.X.Unit)+": "+Format(v, h.Y.Unit))
			}
		}
		if len(outline) > 0 {
			c.add(&Path{Parts: [][]Point{outline}, Stroke: seriesInk(g), Width: 1.8, Dash: dashOf(g), Tip: Clean(s.Name)})
		}
	}
}

func (h *Histogram) data() *Table {
	t := &Table{Caption: h.Title, Columns: []Column{{h.X.name("value") + " from", h.X.Unit}, {"to", h.X.Unit}}}
	for _, s := range h.Sets {
		name := s.Name
		if name == "" {
			name = h.Y.name("count")
		}
		t.Columns = append(t.Columns, Column{name, h.Y.Unit})
	}
	for i := range len(h.Edges) - 1 {
		row := []any{h.Edges[i], h.Edges[i+1]}
		for _, s := range h.Sets {
			row = append(row, s.Counts[i])
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
