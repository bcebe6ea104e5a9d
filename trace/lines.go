package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// lineReader gives the lines of a text, which it numbers from 1.
type lineReader struct {
	name   string // of the file, for errors
	in     *bufio.Reader
	format string // of the compression, for errors
	most   int    // bytes of a line
	line   int    // number of the last line given
	long   []byte // a line that does not fit the buffer of in
	held   []byte // what peek has read
	holds  bool
}

// peek returns the first line that is not blank, which next gives again. It is
// for before the first next.
func (r *lineReader) peek() ([]byte, error) {
	line, err := r.next()
	r.held, r.holds = line, err == nil
	return line, err
}

// next returns the next line that is not blank, without white space around it,
// borrowed until the next call.
func (r *lineReader) next() ([]byte, error) {
	if r.holds {
		r.holds = false
		return r.held, nil
	}
	for {
		line, err := r.any()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

func (r *lineReader) any() ([]byte, error) {
	r.long = r.long[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
			if r.format != "" {
				err = badCompression(r.format, err)
			}
			return nil, &ParseError{File: r.name, Err: fmt.Errorf("after line %d: %w", r.line, err)}
		}
		if err == io.EOF && len(part)+len(r.long) == 0 {
			return nil, io.EOF
		}
		if length := len(r.long) + len(bytes.TrimRight(part, "\r\n")); length > r.most {
			return nil, &ParseError{File: r.name, Line: r.line + 1, Err: fmt.Errorf(
				"the line is longer than %d bytes; is it JSON lines, one request a line? If it is, raise it with --max-line-bytes", r.most)}
		}
		if err == bufio.ErrBufferFull {
			r.long = append(r.long, part...)
			continue
		}
		if len(r.long) > 0 {
			r.long = append(r.long, part...)
			part = r.long
		}
		if r.line++; r.line == 1 {
			part = bytes.TrimPrefix(part, []byte("\xef\xbb\xbf"))
		}
		return part, nil
	}
}
