package chart

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// WriteSVG writes a chart as an SVG file that stands alone, with the light theme
// and, where the viewer asks for it, the dark one.
func WriteSVG(w io.Writer, ch Chart) error {
	d, err := Draw(ch)
	if err != nil {
		return err
	}
	out := &svgWriter{w: bufio.NewWriter(w)}
	out.raw(xml.Header)
	out.open(d, "title", "desc", ` xmlns="http://www.w3.org/2000/svg" width="`+num(d.Width)+`" height="`+num(d.Height)+`"`)
	out.raw("<style>svg{" + Light().Variables() + "background:var(--bg)}@media (prefers-color-scheme:dark){svg{" + Dark().Variables() + "}}" + CSS() + "</style>")
	out.shapes(d)
	out.raw("</svg>\n")
	return out.close()
}

// WriteFigure writes a chart as an HTML figure: the picture, what it leaves out,
// and its data in a table that can be unfolded. id must be unique in the page and
// a valid HTML id; the ids inside begin with it. The page needs the rules of [CSS]
// and the variables of a [Theme].
func WriteFigure(w io.Writer, id string, ch Chart) error {
	d, err := Draw(ch)
	if err != nil {
		return err
	}
	out := &svgWriter{w: bufio.NewWriter(w)}
	out.raw(`<figure class="chart" id="` + id + `"><figcaption id="` + id + `-title">`)
	out.escaped(d.Title)
	out.raw(`</figcaption>`)
	if d.Description != "" {
		out.raw(`<p class="about" id="` + id + `-about">`)
		out.escaped(d.Description)
		out.raw("</p>")
	}
	out.open(d, id+"-svg-title", id+"-svg-desc", "")
	out.shapes(d)
	out.raw("</svg>\n")
	for _, n := range d.Notes {
		out.raw(`<p class="note">`)
		out.escaped(n)
		out.raw("</p>")
	}
	t := ch.data()
	out.raw("<details><summary>Data: ")
	out.escaped(t.Caption)
	out.raw("</summary>")
	out.table(t)
	out.raw("</details></figure>\n")
	return out.close()
}

// WriteTable writes a table as HTML, in a region that scrolls by itself where the
// page is too narrow and that the keyboard reaches.
func WriteTable(w io.Writer, t *Table) error {
	out := &svgWriter{w: bufio.NewWriter(w)}
	out.table(t)
	return out.close()
}

type svgWriter struct{ w *bufio.Writer }

func (o *svgWriter) raw(s string) { _, _ = o.w.WriteString(s) } // Flush reports errors

// escaped writes text as XML and HTML both read it.
func (o *svgWriter) escaped(s string) { _ = xml.EscapeText(o.w, []byte(Clean(s))) }

func (o *svgWriter) close() error { return o.w.Flush() }

func (o *svgWriter) open(d *Drawing, title, desc, more string) {
	fmt.Fprintf(o.w, `<svg class="chart" viewBox="0 0 %s %s" role="img" aria-labelledby="%s %s"%s>`, num(d.Width), num(d.Height), title, desc, more)
	o.raw(`<title id="` + title + `">`)
	o.escaped(d.Title)
	o.raw(`</title><desc id="` + desc + `">`)
	o.escaped(d.Description)
	o.raw("</desc>")
}

// num writes a place to a tenth of a unit.
func num(v float64) string {
	s := strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
	if s == "-0" {
		return "0"
	}
	return s
}

func (o *svgWriter) shapes(d *Drawing) {
	for _, s := range d.Shapes {
		switch x := s.(type) {
		case *Path:
			o.path(x)
		case *Circle:
			fmt.Fprintf(o.w, `<circle cx="%s" cy="%s" r="%s"`, num(x.Center.X), num(x.Center.Y), num(x.R))
			o.look(x.Stroke, x.Fill, x.Width, nil, 0)
			o.end("circle", x.Tip)
		case *Label:
			o.label(x)
		}
	}
}

func (o *svgWriter) look(stroke, fill Ink, width float64, dash []float64, opacity float64) {
	var classes []string
	if stroke != "" {
		classes = append(classes, "l-"+string(stroke))
	}
	if fill != "" {
		classes = append(classes, "f-"+string(fill))
	}
	o.raw(` class="` + strings.Join(classes, " ") + `"`)
	if stroke != "" && width != 1 {
		o.raw(` stroke-width="` + num(width) + `"`)
	}
	if len(dash) > 0 {
		texts := make([]string, len(dash))
		for i, v := range dash {
			texts[i] = num(v)
		}
		o.raw(` stroke-dasharray="` + strings.Join(texts, " ") + `"`)
	}
	if opacity > 0 && opacity < 1 {
		fmt.Fprintf(o.w, ` opacity="%.2g"`, opacity)
	}
}

// end closes an element that may have a tip.
func (o *svgWriter) end(name, tip string) {
	if tip == "" {
		o.raw("/>")
		return
	}
	o.raw("><title>")
	o.escaped(tip)
	o.raw("</title></" + name + ">")
}

// path writes parts by the distance from point to point in tenths rounded from
// the start, so that no rounding adds up.
func (o *svgWriter) path(p *Path) {
	if len(p.Parts) == 0 {
		return
	}
	o.raw(`<path d="`)
	for _, part := range p.Parts {
		var x, y int
		for i, q := range part {
			qx, qy := int(math.Round(q.X*10)), int(math.Round(q.Y*10))
			switch {
			case i == 0:
				o.raw("M" + tenths(qx) + " " + tenths(qy))
			case qx == x && qy == y && i < len(part)-1:
				continue
			case qx == x:
				o.raw("v" + tenths(qy-y))
			case qy == y:
				o.raw("h" + tenths(qx-x))
			default:
				o.raw("l" + tenths(qx-x))
				if qy >= y {
					o.raw(" ")
				}
				o.raw(tenths(qy - y))
			}
			x, y = qx, qy
		}
		if p.Closed {
			o.raw("z")
		}
	}
	o.raw(`"`)
	o.look(p.Stroke, p.Fill, p.Width, p.Dash, p.Opacity)
	o.end("path", p.Tip)
}

func tenths(v int) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	switch {
	case v%10 == 0:
		return sign + strconv.Itoa(v/10)
	case v < 10:
		return sign + "." + strconv.Itoa(v)
	}
	return sign + strconv.Itoa(v/10) + "." + strconv.Itoa(v%10)
}

func (o *svgWriter) label(l *Label) {
	fmt.Fprintf(o.w, `<text x="%s" y="%s" font-size="%s"`, num(l.At.X), num(l.At.Y), num(l.Size))
	switch l.Anchor {
	case Middle:
		o.raw(` text-anchor="middle"`)
	case End:
		o.raw(` text-anchor="end"`)
	}
	o.raw(` class="f-` + string(l.Ink) + `">`)
	o.escaped(l.Text)
	o.raw("</text>")
}

// longCell is the length in bytes of a text from which it may take several lines.
const longCell = 40

func (o *svgWriter) table(t *Table) {
	o.raw(`<div class="scroll" role="region" tabindex="0" aria-label="Table: `)
	o.escaped(t.Caption)
	o.raw(`"><table><caption>`)
	o.escaped(t.Caption)
	o.raw("</caption><thead><tr>")
	for i, c := range t.Columns {
		o.raw(`<th scope="col"`)
		if t.numeric(i) {
			o.raw(` class="n"`)
		}
		o.raw(">")
		o.escaped(c.Name)
		o.raw("</th>")
	}
	o.raw("</tr></thead><tbody>\n")
	for r := range t.Rows {
		o.raw("<tr>")
		for c := range t.Columns {
			text, value := t.Cell(r, c)
			_, words := t.Rows[r][c].(string)
			switch {
			case c == 0 && words:
				o.raw(`<th scope="row">`)
				o.escaped(text)
				o.raw("</th>")
			case words && len(text) > longCell:
				o.raw(`<td><div class="w">`)
				o.escaped(text)
				o.raw("</div></td>")
			case words:
				o.raw("<td>")
				o.escaped(text)
				o.raw("</td>")
			case value == "" || value == text:
				o.raw(`<td class="n">`)
				o.escaped(text)
				o.raw("</td>")
			default:
				o.raw(`<td class="n"><data value="` + value + `">`)
				o.escaped(text)
				o.raw("</data></td>")
			}
		}
		o.raw("</tr>\n")
	}
	o.raw("</tbody></table></div>")
	if t.Note != "" {
		o.raw(`<p class="note">`)
		o.escaped(t.Note)
		o.raw("</p>")
	}
}

// numeric says whether a column holds figures.
func (t *Table) numeric(column int) bool {
	if len(t.Rows) == 0 {
		return false
	}
	_, words := t.Rows[0][column].(string)
	return !words
}
