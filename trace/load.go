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
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// DefaultMaxLineBytes is the longest line that a Reader accepts unless told.
const DefaultMaxLineBytes = 64 << 20

// ReaderOptions says how to read a trace. The zero value finds the format by
// content and reads it as it is documented.
type ReaderOptions struct {
	// Format is the form of the trace, Auto to find it by content.
	Format Format
	// BlockSize is the number of tokens that a hash id stands for, 0 for that of
	// the format: 16 for Bailian, what the file says for Parquet and Agentic with
	// a header, else DefaultBlockSize.
	BlockSize int
	// MaxLineBytes is the longest line accepted, without its end, 0 for
	// DefaultMaxLineBytes. A Reader never holds more than about this much text.
	MaxLineBytes int
	// TimeUnit replaces the unit of the format's times: "ms" or "s", "" for that
	// of the format. Formats whose times have no choice of unit refuse it.
	TimeUnit string
	// Lenient accepts numbers written as text, and whole numbers written with a
	// fraction of 0 or an exponent. Ids of 2^53 and more written like that are
	// refused all the same, as they no longer are what they were.
	Lenient bool
	// MissingOutput is the output length in tokens of rows that have none, 0 to
	// refuse them.
	MissingOutput int
	// KeepIDs leaves ids of Bailian as they are. Else each becomes a hash of
	// itself and all before it, so that one id means one prefix.
	KeepIDs bool
	// Prefixes makes up which prompts share a prefix where a trace has lengths
	// alone. nil: none do.
	Prefixes *PrefixModel
	// SessionsPerSecond makes up arrivals where a trace has none: one session
	// every 1/SessionsPerSecond s. 0: such a trace is refused.
	SessionsPerSecond float64
	// BytesPerToken makes up the length of text: one token for every so many
	// bytes, rounded up. 0: rows of text are refused.
	BytesPerToken float64
	// TokenMS is how long a token of output is taken to last where the time of a
	// request of an Agentic trace has to be estimated, 0 for DefaultTokenMS.
	TokenMS float64
	// Spool keeps rows and ids of a trace that is loaded in two files of the
	// temporary folder instead of memory, if they are more than some thousands: 48
	// bytes for each row and 8 for each id.
	// They have no name and are gone with Trace.Close or the process, however it
	// ends. In memory stay 4 bytes for each request, and for each session 24 and its
	// name; while it is read, also a table of the sessions that have one.
	Spool bool
}

// Text returns the format and the flags of kvbench that the options stand for, as
// far as they change what is read, and "" for Mooncake without any. The block
// size is not among them.
func (o ReaderOptions) Text(read Format) string {
	var b strings.Builder
	add := func(format string, v any) { fmt.Fprintf(&b, " --"+format, v) }
	if o.TimeUnit != "" {
		add("time-unit=%s", o.TimeUnit)
	}
	if o.Lenient {
		add("lenient=%v", true)
	}
	if o.MissingOutput != 0 {
		add("missing-output=%d", o.MissingOutput)
	}
	if o.KeepIDs {
		add("keep-ids=%v", true)
	}
	if o.Prefixes != nil {
		add("shared-prefix=%s", o.Prefixes.Flag())
	}
	if o.SessionsPerSecond != 0 {
		add("arrivals-per-second=%v", o.SessionsPerSecond)
	}
	if o.BytesPerToken != 0 {
		add("bytes-per-token=%v", o.BytesPerToken)
	}
	if o.TokenMS != 0 && o.TokenMS != DefaultTokenMS {
		add("token-ms=%v", o.TokenMS)
	}
	if b.Len() == 0 && read == Mooncake {
		return ""
	}
	return string(read) + b.String()
}

// DefaultTokenMS is ReaderOptions.TokenMS unless told.
const DefaultTokenMS = 20

func (o *ReaderOptions) setDefaults() error {
	if o.MaxLineBytes == 0 {
		o.MaxLineBytes = DefaultMaxLineBytes
	}
	if o.TokenMS == 0 {
		o.TokenMS = DefaultTokenMS
	}
	switch {
	case o.MaxLineBytes < 0:
		return fmt.Errorf("the longest line is set to %d bytes; give 1 or more", o.MaxLineBytes)
	case o.TimeUnit != "" && o.TimeUnit != "ms" && o.TimeUnit != "s":
		return fmt.Errorf("--time-unit is %q; give ms or s", o.TimeUnit)
	case !(o.SessionsPerSecond >= 0 && o.SessionsPerSecond <= 1e6):
		return fmt.Errorf("--arrivals-per-second is %v; give a number above 0, up to 1e6", o.SessionsPerSecond)
	case !(o.BytesPerToken >= 0 && o.BytesPerToken <= 1e6):
		return fmt.Errorf("--bytes-per-token is %v; give a number above 0, such as 4", o.BytesPerToken)
	case !(o.TokenMS > 0 && o.TokenMS <= 1e6):
		return fmt.Errorf("--token-ms is %v; give the ms that a token of output takes, above 0", o.TokenMS)
	case o.MissingOutput < 0 || o.MissingOutput > maxLength:
		return fmt.Errorf("--missing-output is %d; give 1 to %d tokens", o.MissingOutput, maxLength)
	}
	if _, err := ParseFormat(string(o.Format)); err != nil {
		return fmt.Errorf("--format: %w", err)
	}
	if err := o.Prefixes.validate(); err != nil {
		return err
	}
	if o.BlockSize == 0 {
		return nil // the format's
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
	// Format is the form that it was read as.
	Format Format
	// Notes say what was inferred and in what units it was read, one sentence
	// each.
	Notes []string
	// Warnings say what was odd and how it was taken, or what was made up or
	// lost, one sentence each.
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
func LoadReader(ctx context.Context, r io.Reader, name string, opts ReaderOptions, progress func(bytesDone, bytesTotal int64)) (t *Trace, _ Source, err error) {
	in, err := OpenStream(ctx, r, name, opts, progress)
	if err != nil {
		return nil, Source{}, err
	}
	defer in.Close()
	b := builder{blockSize: in.BlockSize()}
	if opts.Spool {
		b.spools = new(spools)
		defer func() {
			if t == nil {
				err = errors.Join(err, b.spools.close())
			}
		}()
	}
	var q Request
	for {
		if err := in.Read(&q); err == io.EOF {
			break
		} else if err != nil {
			return nil, Source{}, err
		}
		if field, err := b.add(&q); err != nil {
			if field == "" {
				return nil, Source{}, err // of the spool, not of the trace
			}
			return nil, Source{}, &ParseError{File: name, Line: q.Line, Field: field, Err: err}
		}
	}
	if b.len() == 0 {
		return nil, Source{}, &ParseError{File: name, Err: errNoRequests}
	}
	src, err := in.Source()
	if err != nil {
		return nil, Source{}, err
	}
	if b.spools != nil {
		if t, err = b.spools.load(&b); err != nil {
			return nil, Source{}, err
		}
		return t, src, nil
	}
	return b.trace(), src, nil
}

var errNoRequests = errors.New("has no requests; is it the right file?")

// Stream is a Reader of a file or the like that says how far it is, sums the bytes,
// and stops when a context ends.
type Stream struct {
	*Reader
	ctx   context.Context
	meter *meter
	reads int
}

// OpenStream begins to read r. name and progress are as for LoadReader; progress
// may be nil. ctx counts until the Stream is closed; closing it leaves r open.
func OpenStream(ctx context.Context, r io.Reader, name string, opts ReaderOptions, progress func(bytesDone, bytesTotal int64)) (*Stream, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	m := &meter{ctx: ctx, r: r, hash: sha256.New(), progress: progress}
	if f, ok := r.(interface{ Stat() (fs.FileInfo, error) }); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			m.total = info.Size()
		}
	}
	progress(0, m.total)
	reader, err := NewReader(m, name, opts)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return &Stream{Reader: reader, ctx: ctx, meter: m}, nil
}

// Read is Reader.Read. When the context has ended, it returns its error soon.
func (s *Stream) Read(req *Request) error {
	return s.checked(s.Reader.Read(req))
}

// next is Reader.next in the same way.
func (s *Stream) next(req *Request) ([]*ParseError, error) {
	problems, err := s.Reader.next(req)
	return problems, s.checked(err)
}

func (s *Stream) checked(err error) error {
	// A table is not read through the meter, which stops all else.
	s.reads++
	if err != nil && err != io.EOF || s.reads&0x3ff == 0 {
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
	}
	return err
}

// Source says what was read. It reads to the end of the file whatever of it has
// not been read yet, for the sum.
func (s *Stream) Source() (Source, error) {
	m := s.meter
	// A table is not read from front to end; its sum is of the whole file.
	if _, err := io.Copy(io.Discard, m); err != nil {
		if s.ctx.Err() != nil {
			return Source{}, s.ctx.Err()
		}
		return Source{}, fmt.Errorf("%s: %w", s.name, err)
	}
	if m.done > 0 {
		m.progress(m.done, m.total)
	}
	return Source{
		Name: filepath.Base(s.name), SHA256: hex.EncodeToString(m.hash.Sum(nil)), Bytes: m.done,
		Format: s.Format(), Notes: s.Notes(), Warnings: s.Warnings(), Generator: s.Generator(),
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

// randomAccess returns what is read from if it can be read anywhere, and its size.
func (m *meter) randomAccess() (io.ReaderAt, int64, bool) { return randomAccess(m.r) }

// randomAccess returns r as something to read from anywhere, and its size.
func randomAccess(r io.Reader) (io.ReaderAt, int64, bool) {
	switch r := r.(type) {
	case interface {
		randomAccess() (io.ReaderAt, int64, bool)
	}:
		return r.randomAccess()
	case interface {
		io.ReaderAt
		Size() int64
	}:
		return r, r.Size(), true
	case interface {
		io.ReaderAt
		Stat() (fs.FileInfo, error)
	}:
		if info, err := r.Stat(); err == nil && info.Mode().IsRegular() {
			return r, info.Size(), true
		}
	}
	return nil, 0, false
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
		{"BZh", "bzip2"}, {"\xfd7zXZ", "xz"}, {"PK\x03\x04", "zip"}, {"\x04\x22\x4d\x18", "lz4"},
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
