package steptime

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Profile is a model of time that was measured on a grid. Between the points of
// the grid it is bilinear. Below the smallest value of an axis it is constant,
// above the largest it goes on as between the last two. A pass with chunks and
// decodes takes the sum of both, which is too long where an engine overlaps them.
//
// Prefill is over the new tokens of the pass and the mean tokens before a chunk,
// decode over the number of decodes and their mean context.
type Profile struct {
	name            string
	prefill, decode grid
}

// profileHeader are the columns of a profile, in this order.
var profileHeader = []string{"phase", "tokens", "context", "ms"}

// ReadProfile reads a profile from CSV with the columns phase, tokens, context, ms
// and a header that says so:
//
//	phase,tokens,context,ms
//	prefill,1,0,14.2
//	prefill,8192,0,201.5
//	decode,1,1024,6.1
//
// phase is prefill (tokens: new tokens in the pass; context: mean tokens before
// each chunk) or decode (tokens: requests that generate; context: their mean
// length). Each phase needs at least one point, and every pair of a value of
// tokens and one of context that occur in it. Errors name name, line and field.
func ReadProfile(r io.Reader, name string) (*Profile, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	in.ReuseRecord = true
	in.TrimLeadingSpace = true
	fail := func(line int, field, format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s: %s", name, line, field, fmt.Sprintf(format, args...))
	}
	points := map[string][]point{"prefill": nil, "decode": nil}
	for first := true; ; first = false {
		row, err := in.Read()
		if err == io.EOF {
			if first {
				return nil, fmt.Errorf("%s: no header; the first line must be %s", name, strings.Join(profileHeader, ","))
			}
			break
		}
		if err != nil {
			var bad *csv.ParseError
			if errors.As(err, &bad) {
				return nil, fail(bad.Line, "csv", "%v; quote fields that have quotes in them", bad.Err)
			}
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := in.FieldPos(0)
		if len(row) != len(profileHeader) {
			return nil, fail(line, "csv", "%d fields; there must be %d: %s", len(row), len(profileHeader), strings.Join(profileHeader, ","))
		}
		if first {
			for i, want := range profileHeader {
				if strings.TrimSpace(row[i]) != want {
					return nil, fail(line, "header", "column %d is %q; it must be %s", i+1, row[i], want)
				}
			}
			continue
		}
		phase := strings.TrimSpace(row[0])
		if _, ok := points[phase]; !ok {
			return nil, fail(line, "phase", "%q; it must be prefill or decode", row[0])
		}
		var v [3]float64
		for i, least := range []float64{1, 0, 0} {
			field, text := profileHeader[i+1], strings.TrimSpace(row[i+1])
			x, err := strconv.ParseFloat(text, 64)
			if err != nil || !(x >= least && x <= 1e12) {
				return nil, fail(line, field, "%q; it must be a number from %g to 1e12", text, least)
			}
			v[i] = x
		}
		if v[2] == 0 {
			return nil, fail(line, "ms", "0; a pass takes time")
		}
		points[phase] = append(points[phase], point{v[0], v[1], v[2] * 1e6, line})
	}
	p := &Profile{name: name}
	for _, phase := range []struct {
		name string
		to   *grid
	}{{"prefill", &p.prefill}, {"decode", &p.decode}} {
		if err := phase.to.fill(points[phase.name]); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, phase.name, err)
		}
	}
	return p, nil
}

// Nanos implements Model.
func (m *Profile) Nanos(p *Pass) float64 {
	ns := 0.0
	if p.Chunks > 0 {
		ns = m.prefill.at(float64(p.New), float64(p.Before)/float64(p.Chunks))
	}
	if p.Decodes > 0 {
		ns += m.decode.at(float64(p.Decodes), float64(p.Context)/float64(p.Decodes))
	}
	return ns
}

// String implements Model.
func (m *Profile) String() string { return "profile:" + m.name }

type point struct {
	x, y, ns float64
	line     int
}

// grid is values over all pairs of xs and ys, which ascend.
type grid struct {
	xs, ys []float64
	ns     []float64 // by x, then by y
}

// fill makes a grid of points, which must have each of its places once.
func (g *grid) fill(points []point) error {
	if len(points) == 0 {
		return errors.New("no rows; give at least one")
	}
	for _, p := range points {
		g.xs, g.ys = append(g.xs, p.x), append(g.ys, p.y)
	}
	slices.Sort(g.xs)
	slices.Sort(g.ys)
	g.xs, g.ys = slices.Compact(g.xs), slices.Compact(g.ys)
	// Points that do not fill the grid must not make a large one.
	if len(g.xs)*len(g.ys) > 2*len(points)+len(g.xs)+len(g.ys) {
		return fmt.Errorf("%d rows for %d values of tokens and %d of context; give a row for every pair", len(points), len(g.xs), len(g.ys))
	}
	g.ns = make([]float64, len(g.xs)*len(g.ys))
	lines := make([]int, len(g.ns))
	for _, p := range points {
		i, _ := slices.BinarySearch(g.xs, p.x)
		j, _ := slices.BinarySearch(g.ys, p.y)
		at := i*len(g.ys) + j
		if lines[at] != 0 {
			return fmt.Errorf("lines %d and %d are both for %g tokens and a context of %g; leave one out", lines[at], p.line, p.x, p.y)
		}
		lines[at], g.ns[at] = p.line, p.ns
	}
	if at := slices.Index(lines, 0); at >= 0 {
		return fmt.Errorf("no row for %g tokens and a context of %g; give a row for every pair", g.xs[at/len(g.ys)], g.ys[at%len(g.ys)])
	}
	return nil
}

func (g *grid) at(x, y float64) float64 {
	i, u := place(g.xs, x)
	j, v := place(g.ys, y)
	i2, j2 := min(i+1, len(g.xs)-1), min(j+1, len(g.ys)-1)
	w := len(g.ys)
	low := mixed(g.ns[i*w+j], g.ns[i*w+j2], v)
	high := mixed(g.ns[i2*w+j], g.ns[i2*w+j2], v)
	return mixed(low, high, u)
}

func mixed(a, b, share float64) float64 { return a + float64(share*(b-a)) }

// place returns the interval of a that x is in, or the last one if it is behind
// it, and where in it, more than 1 if behind.
func place(a []float64, x float64) (i int, share float64) {
	if len(a) == 1 || !(x > a[0]) {
		return 0, 0
	}
	i, _ = slices.BinarySearch(a, x)
	i = min(i-1, len(a)-2)
	return i, (x - a[i]) / (a[i+1] - a[i])
}
