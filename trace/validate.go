package trace

import (
	"context"
	"errors"
	"io"
)

// Validation is what Validate found.
type Validation struct {
	// Source is of what was read. Its Warnings are oddities that are accepted.
	Source   Source
	Requests int // rows without a problem
	Sessions int // of these and of others that could be placed in one
	Problems int
}

// Validate reads a whole trace and gives every problem in it to problem, in the
// order of the file: all that is wrong with a row on its own, and what is wrong
// with its place in a session if it is right on its own. Where reading cannot go
// on, as in a file that is cut, it ends with that problem.
//
// The arguments are those of LoadReader. Memory grows with the number of named
// sessions and not with that of rows. The error is only ever that of ctx, and that
// of options that the trace does not allow.
func Validate(ctx context.Context, r io.Reader, name string, opts ReaderOptions, progress func(bytesDone, bytesTotal int64), problem func(*ParseError)) (Validation, error) {
	var v Validation
	found := func(p *ParseError) {
		v.Problems++
		problem(p)
	}
	in, err := OpenStream(ctx, r, name, opts, progress)
	if err != nil {
		var p *ParseError
		if !errors.As(err, &p) {
			return v, err
		}
		found(p)
		return v, nil
	}
	defer in.Close()
	var turns Turns
	var q Request
	for rows := 0; ; rows++ {
		problems, err := in.next(&q)
		if err == io.EOF {
			if rows == 0 {
				found(&ParseError{File: name, Err: errNoRequests})
			}
			break
		}
		var p *ParseError
		if errors.As(err, &p) {
			found(p)
			break
		}
		if err != nil {
			return v, err
		}
		for _, p := range problems {
			found(p)
		}
		if len(problems) > 0 {
			continue
		}
		if _, field, err := turns.Settle(&q); err != nil {
			found(&ParseError{File: name, Line: q.Line, Field: field, Err: err})
			continue
		}
		v.Requests++
	}
	v.Sessions = turns.Sessions()
	if v.Source, err = in.Source(); err != nil && ctx.Err() != nil {
		return v, err
	}
	return v, nil
}
