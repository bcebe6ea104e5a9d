package analysis

import (
	"context"
	"errors"
	"io"

	"github.com/kvbench/kvbench/trace"
)

// Read collects a trace as it is read, without holding it in memory.
//
// name stands in errors, and its last element in the Source. progress may be nil.
// It is called with the bytes read, first 0, and the size of the file, 0 if that
// is not known. r is read to its end and not closed. Read ends soon after ctx is
// cancelled, with its error.
func Read(ctx context.Context, r io.Reader, name string, reading trace.ReaderOptions, opts Options, progress func(done, total int64)) (*Collector, trace.Source, error) {
	fail := func(err error) (*Collector, trace.Source, error) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, trace.Source{}, err
	}
	in, err := trace.OpenStream(ctx, r, name, reading, progress)
	if err != nil {
		return fail(err)
	}
	defer in.Close()
	c, err := NewCollector(in.BlockSize(), opts)
	if err != nil {
		return fail(err)
	}
	var q trace.Request
	for !c.full() {
		if err := in.Read(&q); err == io.EOF {
			break
		} else if err != nil {
			return fail(err)
		}
		if err := c.Add(&q); err != nil {
			parse := &trace.ParseError{Line: q.Line, Err: err}
			errors.As(err, &parse)
			parse.File = name
			return fail(parse)
		}
		if c.requests&0xfff == 0 && ctx.Err() != nil {
			return fail(ctx.Err())
		}
	}
	if c.requests == 0 {
		return fail(&trace.ParseError{File: name, Err: errors.New("has no requests; is it the right file?")})
	}
	// Of a part of a file too the sum is that of the whole.
	src, err := in.Source()
	if err != nil {
		return fail(err)
	}
	return c, src, nil
}
