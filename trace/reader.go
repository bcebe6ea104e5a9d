package trace

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// DefaultMaxLineBytes is the longest line that a Reader accepts unless told.
const DefaultMaxLineBytes = 64 << 20

// ReaderOptions says how to read a trace. The zero value reads a public Mooncake
// trace.
type ReaderOptions struct {
	// BlockSize is the number of tokens that a hash id stands for, 0 for
	// DefaultBlockSize.
	BlockSize int
	// MaxLineBytes is the longest line accepted, without its end, 0 for
	// DefaultMaxLineBytes. A Reader never holds more than about this much text.
	MaxLineBytes int
}

func (o *ReaderOptions) setDefaults() error {
	if o.BlockSize == 0 {
		o.BlockSize = DefaultBlockSize
	}
	if o.MaxLineBytes == 0 {
		o.MaxLineBytes = DefaultMaxLineBytes
	}
	if o.MaxLineBytes < 0 {
		return fmt.Errorf("the longest line is set to %d bytes; give 1 or more", o.MaxLineBytes)
	}
	return checkBlockSize(o.BlockSize)
}

// ParseError says what is wrong in a trace, where, and what to do.
type ParseError struct {
	File  string
	Line  int    // 1-based, 0 if it is about the file
	Field string // as in hash_ids[3], empty if it is about the line
	Err   error
}

// Error returns "file:line: field: problem; remedy".
func (e *ParseError) Error() string {
	s := e.File
	if e.Line > 0 {
		s += fmt.Sprintf(":%d", e.Line)
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *ParseError) Unwrap() error { return e.Err }

// Source says what a trace was read from.
type Source struct {
	// Name is the base name of the file, or the name of the embedded trace.
	Name string
	// SHA256 is of the bytes as stored, compressed if they are, in hex.
	SHA256 string
	// Bytes is their number.
	Bytes int64
	// Warnings say what was odd and how it was taken, one sentence each.
	Warnings []string
	// Generator holds the parameters of the generator that made the trace, nil
	// if the trace does not say that it was generated.
	Generator json.RawMessage
}

// Load reads the trace in a file: see Reader for what it accepts.
//
// progress may be nil. It is called with the bytes read of the file, first 0,
// and the size of the file, 0 if that is not known. Load ends soon after ctx is
// cancelled, with its error.
func Load(ctx context.Context, path string, opts ReaderOptions, progress func(bytesDone, bytesTotal int64)) (*Trace, Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Source{}, fmt.Errorf("cannot read the trace: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, Source{}, fmt.Errorf("%s: is a directory; give the file of a trace", path)
	}
	return LoadReader(ctx, f, path, opts, progress)
}

// LoadReader is Load for what is open already. name stands in errors, and its
// last element in the Source. The size is known if r has the Stat method of a
// file. r is read to its end and not closed.
func LoadReader(ctx context.Context, r io.Reader, name string, opts ReaderOptions, progress func(bytesDone, bytesTotal int64)) (*Trace, Source, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	m := meter{ctx: ctx, r: r, hash: sha256.New(), progress: progress}
	if f, ok := r.(interface{ Stat() (fs.FileInfo, error) }); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			m.total = info.Size()
		}
	}
	progress(0, m.total)
	fail := func(err error) (*Trace, Source, error) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, Source{}, err
	}

	reader, err := NewReader(&m, name, opts)
	if err != nil {
		return fail(err)
	}
	defer reader.Close()
	b := builder{blockSize: reader.opts.BlockSize}
	var q Request
	for {
		if err := reader.Read(&q); err == io.EOF {
			break
		} else if err != nil {
			return fail(err)
		}
		if field, err := b.add(&q); err != nil {
			return fail(&ParseError{File: name, Line: q.Line, Field: field, Err: err})
		}
	}
	if len(b.rows) == 0 {
		return fail(&ParseError{File: name, Err: errors.New("has no requests; is it the right file?")})
	}
	if m.done > 0 {
		progress(m.done, m.total)
	}
	return b.trace(), Source{
		Name: filepath.Base(name), SHA256: hex.EncodeToString(m.hash.Sum(nil)), Bytes: m.done,
		Warnings: reader.Warnings(), Generator: reader.Generator(),
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

// decompress returns what r holds, recognised by its first bytes, with a name
// for errors and a function that frees what the decompressor holds.
func decompress(r *bufio.Reader) (plain io.Reader, format string, free func(), err error) {
	nothing := func() {}
	head, err := r.Peek(6)
	if err != nil && err != io.EOF {
		return nil, "", nil, err
	}
	has := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case has("\x1f\x8b"):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, "", nil, badCompression("gzip", err)
		}
		return z, "gzip", nothing, nil
	case has("\x28\xb5\x2f\xfd"), len(head) >= 4 && head[0]&0xf0 == 0x50 && has(string(head[:1])+"\x2a\x4d\x18"):
		// One thread: decompression is a small part of the work, and a reader
		// that is dropped leaves no goroutine behind.
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, "", nil, badCompression("zstd", err)
		}
		return z, "zstd", z.Close, nil
	}
	for _, other := range []struct{ magic, name string }{
		{"BZh", "bzip2"}, {"\xfd7zXZ", "xz"}, {"PK\x03\x04", "zip"}, {"\x04\x22\x4d\x18", "lz4"}, {"PAR1", "Parquet"},
	} {
		if has(other.magic) {
			return nil, "", nil, fmt.Errorf("is a %s file; give the trace as JSON lines, plain or compressed with gzip or zstd", other.name)
		}
	}
	return r, "", nothing, nil
}

func badCompression(format string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("the %s data is cut (%w); fetch or compress the file again", format, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("the %s data is damaged (%w); fetch or compress the file again", format, err)
}
