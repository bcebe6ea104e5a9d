package chart

import "fmt"

// Head names a chart. Both texts are for people and may hold anything.
type Head struct {
	// Title says what is shown, in a few words.
	Title string
	// Description says in a sentence or two what one sees, for those who cannot
	// see it and for those who do not know how to read it.
	Description string
}

// Chart is one of Lines, Histogram, Forest, Paired, Bars and Heat.
type Chart interface {
	head() Head
	// layout draws onto the canvas.
	layout(c *canvas)
	// data returns the figures of the chart.
	data() *Table
	// check returns what is wrong with the value.
	check() error
}

// Draw lays a chart out. It fails if lists that belong together differ in length,
// which is a mistake of the caller and not of the data: values that cannot be
// shown, such as NaN, are left out and counted in the notes.
func Draw(ch Chart) (*Drawing, error) {
	if err := ch.check(); err != nil {
		return nil, fmt.Errorf("chart %q: %w", ch.head().Title, err)
	}
	c := &canvas{}
	h := ch.head()
	c.Title, c.Description = h.Title, h.Description
	c.Width = width
	ch.layout(c)
	return &c.Drawing, nil
}

// Data returns the figures of a chart as a table with every digit. Of a series
// with more than MaxRows values it is a summary; [Full] has them all.
func Data(ch Chart) *Table { return ch.data() }

// Full is Data without a limit, to be written to a file.
func Full(ch Chart) *Table {
	if l, ok := ch.(*Lines); ok {
		return l.full()
	}
	return ch.data()
}

// MaxRows is the number of values from which a table beside a chart summarises
// lines.
const MaxRows = 400

// Title returns the title of a chart.
func Title(ch Chart) string { return ch.head().Title }
