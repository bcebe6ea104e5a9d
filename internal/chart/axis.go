package chart

import (
	"fmt"
	"math"
	"slices"
)

// Axis says how numbers go along an axis.
type Axis struct {
	Label string
	Unit  Unit
	// Log spaces numbers by their ratio. What is 0 or less has no place on it and
	// is counted in the notes.
	Log bool
	// Zero makes a linear axis begin at 0.
	Zero bool
	// Whole keeps ticks to whole numbers.
	Whole bool
	// Tail spaces shares by how little is above them, so that 0.9, 0.99 and 0.999
	// are equally far apart: for quantiles. It goes before Log.
	Tail bool
}

// bounds collects what an axis must reach.
type bounds struct{ low, high float64 }

func newBounds() *bounds { return &bounds{math.Inf(1), math.Inf(-1)} }

func (b *bounds) add(v float64) {
	if drawable(v) {
		b.low, b.high = min(b.low, v), max(b.high, v)
	}
}

func (b *bounds) empty() bool { return b.low > b.high }

// ruler maps numbers of an axis to places.
type ruler struct {
	Axis
	low, high float64 // ends, as numbers
	from, to  float64 // ends, as places
}

// ruler makes an axis that reaches all of b.
func (a Axis) ruler(b *bounds, room float64) *ruler {
	r := &ruler{Axis: a, low: b.low, high: b.high}
	switch {
	case a.Tail:
		r.low, r.high = max(0, r.low), min(r.high, 1-1e-12)
	case a.Log:
		if r.low == r.high {
			r.low, r.high = r.low/1.5, r.high*1.5
		}
		pad := math.Pow(r.high/r.low, room)
		r.low, r.high = r.low/pad, r.high*pad
	default:
		if a.Zero {
			r.low, r.high = min(0, r.low), max(0, r.high)
		}
		if r.low == r.high {
			d := math.Abs(r.low) * 0.05
			if d == 0 {
				d = 0.5
			}
			r.low, r.high = r.low-d, r.high+d
			if a.Zero && b.low >= 0 {
				r.low = 0
			}
		}
		pad := (r.high - r.low) * room
		if !(a.Zero && r.low == 0) {
			r.low -= pad
		}
		if !(a.Zero && r.high == 0) {
			r.high += pad
		}
	}
	return r
}

func (r *ruler) along(v float64) float64 {
	switch {
	case r.Tail:
		return -math.Log10(1 - min(v, 1-1e-12))
	case r.Log:
		return math.Log(v)
	}
	return v
}

// place returns where a number is, and whether it has a place.
func (r *ruler) place(v float64) (float64, bool) {
	if !r.usable(v) {
		return 0, false
	}
	a, b := r.along(r.low), r.along(r.high)
	if a == b {
		return (r.from + r.to) / 2, true
	}
	return r.from + (r.to-r.from)*(r.along(v)-a)/(b-a), true
}

// usable says whether the axis can show a number.
func (a Axis) usable(v float64) bool {
	return drawable(v) && (a.Tail && v >= 0 && v <= 1 || !a.Tail && (!a.Log || v > 0))
}

// ticks returns about n round numbers within the axis.
func (r *ruler) ticks(n int) []float64 {
	switch {
	case r.Tail:
		var out []float64
		for _, v := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999} {
			if v >= r.low && v <= r.high {
				out = append(out, v)
			}
		}
		return out
	case r.Log && r.high/r.low >= 8:
		return logTicks(r.low, r.high, n)
	}
	out := niceTicks(r.low, r.high, n)
	if r.Whole {
		out = slices.DeleteFunc(out, func(v float64) bool { return v != math.Trunc(v) })
	}
	return out
}

// niceTicks steps by 1, 2, 2.5 or 5 times a power of ten.
func niceTicks(low, high float64, n int) []float64 {
	rough := (high - low) / float64(max(n, 1))
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	step := 10 * power
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*power >= 0.9*rough {
			step = m * power
			break
		}
	}
	if !finite(step) || step <= 0 || low+step == low {
		return []float64{low}
	}
	var out []float64
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-9 && len(out) < 50; i++ {
		v := i * step
		if i == 0 {
			v = 0
		}
		out = append(out, v)
	}
	return out
}

// logTicks takes every k-th power of ten, or 1, 2 and 5 times each where these are
// few.
func logTicks(low, high float64, n int) []float64 {
	first, last := int(math.Ceil(math.Log10(low)-1e-9)), int(math.Floor(math.Log10(high)+1e-9))
	decades := last - first + 1
	var out []float64
	add := func(v float64) {
		if v >= low*(1-1e-9) && v <= high*(1+1e-9) {
			out = append(out, v)
		}
	}
	if decades*2 <= n {
		for e := first - 1; e <= last; e++ {
			for _, m := range []float64{1, 2, 5} {
				add(m * math.Pow10(e))
			}
		}
		return out
	}
	step := (decades + n - 1) / max(n, 1)
	for e := first; e <= last; e += max(step, 1) {
		add(math.Pow10(e))
	}
	return out
}

// tickText writes the number at a tick.
func (r *ruler) tickText(v float64, ticks []float64) string {
	switch {
	case r.Tail:
		return significant(100*v, 9) + "%"
	case r.Unit == Ratio && len(ticks) > 1 && math.Abs(v) < 1e5:
		return minus(fmt.Sprintf("%.*f", decimals(ticks), v))
	}
	return format(v, r.Unit, 6)
}

// decimals returns the fewest digits that write all ticks exactly.
func decimals(ticks []float64) int {
	for d := range 9 {
		exact := true
		for _, v := range ticks {
			scaled := v * math.Pow10(d)
			exact = exact && math.Abs(scaled-math.Round(scaled)) < 1e-6
		}
		if exact {
			return d
		}
	}
	return 9
}

// frame is the area of a chart within its axes.
type frame struct {
	left, top, right, bottom float64
	x, y                     *ruler
}

// frame draws both axes with the grid below y, with an area that high, and makes
// the drawing high enough.
func (c *canvas) frame(top, height float64, x, y *ruler) *frame {
	f := &frame{top: top + 8, right: width - 14, x: x, y: y}
	if y.Label != "" {
		c.text(8, top+13, fit(y.Label, width-16, small), Start, small, Quiet)
		f.top += 16
	}
	f.bottom = f.top + height
	yticks := y.ticks(5)
	var texts []string
	for _, v := range yticks {
		texts = append(texts, fit(y.tickText(v, yticks), width/3, small))
	}
	for _, s := range texts {
		f.left = max(f.left, textWidth(s, small))
	}
	f.left += 14
	y.from, y.to = f.bottom, f.top
	x.from, x.to = f.left, f.right
	for i, v := range yticks {
		if at, ok := y.place(v); ok {
			c.line(f.left, at, f.right, at, Grid, 1, nil)
			c.text(f.left-6, at+4, texts[i], End, small, Quiet)
		}
	}
	c.xaxis(f)
	return f
}

// xaxis draws the axis below a frame.
func (c *canvas) xaxis(f *frame) {
	c.line(f.left, f.bottom, f.right, f.bottom, Quiet, 1, nil)
	ticks := f.x.ticks(6)
	free := -math.MaxFloat64
	for _, v := range ticks {
		at, ok := f.x.place(v)
		if !ok {
			continue
		}
		c.line(at, f.bottom, at, f.bottom+4, Quiet, 1, nil)
		s := fit(f.x.tickText(v, ticks), width/3, small)
		w := textWidth(s, small)
		mid := min(max(at, w/2+2), width-w/2-2)
		if mid-w/2 >= free {
			c.text(mid, f.bottom+17, s, Middle, small, Quiet)
			free = mid + w/2 + 6
		}
	}
	c.Height = f.bottom + 24
	if f.x.Label != "" {
		c.text((f.left+f.right)/2, f.bottom+34, fit(f.x.Label, width-16, small), Middle, small, Quiet)
		c.Height = f.bottom + 42
	}
}

// reference draws a marked value.
type Reference struct {
	Value float64
	Label string
	// Upright marks a value of the x axis.
	Upright bool
}

func (c *canvas) references(f *frame, refs []Reference) {
	for _, r := range refs {
		axis := f.y
		if r.Upright {
			axis = f.x
		}
		at, ok := axis.place(r.Value)
		if !ok {
			continue
		}
		label := fit(r.Label, f.right-f.left-8, small)
		if r.Upright {
			c.line(at, f.top, at, f.bottom, Letter, 1.2, []float64{5, 3})
			anchor, dx := Start, 4.0
			if at+4+textWidth(label, small) > f.right {
				anchor, dx = End, -4
			}
			c.text(at+dx, f.top+11, label, anchor, small, Letter)
			continue
		}
		c.line(f.left, at, f.right, at, Letter, 1.2, []float64{5, 3})
		dy := -4.0
		if at-16 < f.top {
			dy = 13
		}
		c.text(f.right-4, at+dy, label, End, small, Letter)
	}
}
