// Package rewrite changes traces as they stream by: it cuts, merges, scales and
// anonymises them, and writes them in another form. Rows are read, changed and
// written one at a time; what is kept beside them grows with the named sessions of
// a trace at most, and each type says whether it does.
//
// Its transforms have the meaning of those of package trace, which work on a trace
// in memory. It does not read, check or describe traces.
package rewrite

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kvbench/kvbench/trace"
)

// Source gives requests, until io.EOF. A *trace.Reader is one, and so is each
// transform of this package. HashIDs of the request are written over, as those of
// trace.Reader are. Sources are not for concurrent use.
type Source interface {
	Read(*trace.Request) error
}

// Copy writes all requests of a source and returns how many there were. Errors of
// w are returned as they are, like those of src.
func Copy(w *Writer, src Source) (requests int, err error) {
	var q trace.Request
	for {
		switch err := src.Read(&q); {
		case err == io.EOF:
			return requests, nil
		case err != nil:
			return requests, err
		}
		if err := w.Write(&q); err != nil {
			return requests, err
		}
		requests++
	}
}

// Check passes the requests of a source on as they are, and refuses what no reader
// of a trace accepts as a whole: a row that means nothing in its session. Memory
// grows with the named sessions.
func Check(src Source) Source { return &check{src: src} }

type check struct {
	src   Source
	turns trace.Turns
}

func (c *check) Read(q *trace.Request) error {
	if err := c.src.Read(q); err != nil {
		return err
	}
	// Its delay may stay unsaid.
	delay := q.Delay
	_, field, err := c.turns.Settle(q)
	q.Delay = delay
	return rowError(q, field, err)
}

// Named puts the name of a source, such as its file, before the errors of src that do
// not name one.
func Named(name string, src Source) Source { return &named{name, src} }

type named struct {
	name string
	src  Source
}

func (n *named) Read(q *trace.Request) error {
	err := n.src.Read(q)
	var parse *trace.ParseError
	if err == nil || err == io.EOF || errors.As(err, &parse) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: %w", n.name, err)
}

// rowError names the row that an error is about. It is nil without one.
func rowError(q *trace.Request, field string, err error) error {
	if err == nil {
		return nil
	}
	if field != "" {
		err = fmt.Errorf("%s: %w", field, err)
	}
	if q.Line > 0 {
		return fmt.Errorf("row %d: %w", q.Line, err)
	}
	return err
}
