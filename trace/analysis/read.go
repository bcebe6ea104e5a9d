package analysis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/kvbench/kvbench/trace"
)

// Read collects a trace as it is read, without holding it in memory.
//
// name stands in errors, and its last element in the Source. progress may be nil.
// It is called with the bytes read, first 0, and the size of the file, 0 if that
// is not known. r is read to its end and not closed. Read ends soon after ctx is
// cancelled, with its error.
func Read(ctx context.Context, r io.Reader, name string, reading trace.ReaderOptions, opts Options, progress func(done, total int64)) (*Collector, trace.Source, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	fail := func(err error) (*Collector, trace.Source, error) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, trace.Source{}, err
	}
	m := &meter{ctx: ctx, r: r, hash: sha256.New(), progress: progress}
	var in io.Reader = m
	if f, ok := r.(interface{ Stat() (fs.FileInfo, error) }); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			m.total = info.Size()
			if at, ok := r.(io.ReaderAt); ok {
				in = &file{m, at}
			}
		}
	}
	progress(0, m.total)
	reader, err := trace.NewReader(in, name, reading)
	if err != nil {
		return fail(err)
	}
	defer reader.Close()
	c, err := NewCollector(reader.BlockSize(), opts)
	if err != nil {
		return fail(err)
	}
	var q trace.Request
	for !c.full() {
		if err := reader.Read(&q); err == io.EOF {
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
	// A table is not read from front to end, and a part of a file not to its end;
	// the sum is of the whole file.
	if _, err := io.Copy(io.Discard, m); err != nil {
		return fail(fmt.Errorf("%s: %w", name, err))
	}
	progress(m.done, m.total)
	return c, trace.Source{
		Name: filepath.Base(name), SHA256: hex.EncodeToString(m.hash.Sum(nil)), Bytes: m.done,
		Format: reader.Format(), Notes: reader.Notes(), Warnings: reader.Warnings(), Generator: reader.Generator(),
	}, nil
}

// meter sums, counts and reports the bytes that pass, and stops when ctx ends.
type meter struct {
	ctx         context.Context
	r           io.Reader
	hash        hash.Hash
	progress    func(done, total int64)
	done, total int64
	reported    int64
}

func (m *meter) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	m.hash.Write(p[:n])
	m.done += int64(n)
	if m.done-m.reported >= 1<<20 {
		m.reported = m.done
		m.progress(m.done, m.total)
	}
	return n, err
}

// file is a meter of what can be read anywhere, as a table must be.
type file struct {
	*meter
	io.ReaderAt
}

// Size returns the bytes of the file.
func (f *file) Size() int64 { return f.total }
