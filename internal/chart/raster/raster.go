// Package raster draws the shapes of package chart as PNG, through the canvas of
// gonum/plot and with the Go font, so that the same chart gives the same picture on
// every machine. It lays nothing out itself.
package raster

import (
	"fmt"
	"image/color"
	"io"

	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/kvbench/kvbench/internal/chart"
)

// dpi draws one unit of a chart as two pixels.
const dpi = 144

// WritePNG writes a chart as PNG, two pixels for each unit of the drawing, in the
// light theme.
func WritePNG(w io.Writer, ch chart.Chart) error {
	d, err := chart.Draw(ch)
	if err != nil {
		return err
	}
	f, err := newFace()
	if err != nil {
		return err
	}
	p := &painter{
		c:      vgimg.NewWith(vgimg.UseWH(vg.Length(d.Width), vg.Length(d.Height)), vgimg.UseDPI(dpi)),
		height: d.Height, theme: chart.Light(), face: f,
	}
	for _, s := range d.Shapes {
		switch x := s.(type) {
		case *chart.Path:
			p.path(x)
		case *chart.Circle:
			p.circle(x)
		case *chart.Label:
			p.label(x)
		default:
			return fmt.Errorf("a shape %T cannot be drawn as PNG", s)
		}
	}
	_, err = vgimg.PngCanvas{Canvas: p.c}.WriteTo(w)
	return err
}

// newFace returns the font in a size of one.
func newFace() (font.Face, error) {
	ttf, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return font.Face{}, fmt.Errorf("the font of pictures: %w", err)
	}
	return font.Face{Font: font.Font{Typeface: "Go", Size: 1}, Face: ttf}, nil
}

type painter struct {
	c      *vgimg.Canvas
	height float64
	theme  chart.Theme
	face   font.Face
}

// point turns a place of a drawing, whose y goes down, into one of the canvas.
func (p *painter) point(q chart.Point) vg.Point {
	return vg.Point{X: vg.Length(q.X), Y: vg.Length(p.height - q.Y)}
}

func (p *painter) ink(k chart.Ink, opacity float64) color.Color {
	c := chart.RGB(p.theme[k])
	if opacity <= 0 || opacity > 1 {
		opacity = 1
	}
	return color.NRGBA{c[0], c[1], c[2], uint8(opacity*255 + 0.5)}
}

func (p *painter) path(x *chart.Path) {
	var way vg.Path
	for _, part := range x.Parts {
		for i, q := range part {
			if i == 0 {
				way.Move(p.point(q))
			} else {
				way.Line(p.point(q))
			}
		}
		if x.Closed {
			way.Close()
		}
	}
	p.paint(way, x.Stroke, x.Fill, x.Width, x.Dash, x.Opacity)
}

func (p *painter) paint(way vg.Path, stroke, fill chart.Ink, width float64, dash []float64, opacity float64) {
	if len(way) == 0 {
		return
	}
	if fill != "" {
		p.c.SetColor(p.ink(fill, opacity))
		p.c.Fill(way)
	}
	if stroke != "" {
		lengths := make([]vg.Length, len(dash))
		for i, v := range dash {
			lengths[i] = vg.Length(v)
		}
		p.c.SetLineDash(lengths, 0)
		p.c.SetLineWidth(vg.Length(width))
		p.c.SetColor(p.ink(stroke, opacity))
		p.c.Stroke(way)
	}
}

func (p *painter) circle(x *chart.Circle) {
	const whole = 6.283185307179586
	var way vg.Path
	center := p.point(x.Center)
	way.Move(vg.Point{X: center.X + vg.Length(x.R), Y: center.Y})
	way.Arc(center, vg.Length(x.R), 0, whole)
	way.Close()
	p.paint(way, x.Stroke, x.Fill, x.Width, nil, 0)
}

func (p *painter) label(x *chart.Label) {
	f := p.face
	f.Font.Size = vg.Length(x.Size)
	at := p.point(x.At)
	switch w := f.Width(x.Text); x.Anchor {
	case chart.Middle:
		at.X -= w / 2
	case chart.End:
		at.X -= w
	}
	p.c.SetColor(p.ink(x.Ink, 0))
	p.c.FillString(f, at, x.Text)
}
