package rewrite

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/kvbench/kvbench/trace"
)

// Encoding is how a trace is written.
type Encoding struct {
	Format      trace.Format // Mooncake, AIPerf or Parquet
	Compression string       // "", "gzip" or "zstd"; a Parquet table is compressed within
}

// EncodingOf returns the encoding that the name of a file asks for: .parquet, or
// anything else, for lines of Mooncake, with .gz or .zst behind it. format, if it is
// not trace.Auto, comes before the name. Parquet takes a name that says so.
func EncodingOf(name string, format trace.Format) (Encoding, error) {
	e := Encoding{Format: format}
	name = strings.ToLower(path.Base(name))
	for suffix, compression := range map[string]string{".gz": "gzip", ".zst": "zstd"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			name, e.Compression = base, compression
			break
		}
	}
	isTable := strings.HasSuffix(name, ".parquet")
	switch {
	case e.Format == trace.Auto && isTable:
		e.Format = trace.Parquet
	case e.Format == trace.Auto:
		e.Format = trace.Mooncake
	}
	switch {
	case e.Format != trace.Mooncake && e.Format != trace.AIPerf && e.Format != trace.Parquet:
		return e, fmt.Errorf("a trace is not written as %s; there are %s, %s and %s", e.Format, trace.Mooncake, trace.AIPerf, trace.Parquet)
	case isTable && e.Format != trace.Parquet:
		return e, fmt.Errorf("%s is the name of a table, and the format is %s; change one of them", name, e.Format)
	case e.Format == trace.Parquet && e.Compression != "":
		return e, fmt.Errorf("a Parquet table is compressed within and read from its end; leave the suffix for %s out", e.Compression)
	}
	return e, nil
}

// rowWriter is what the writers of package trace have in common.
type rowWriter interface {
	SetGenerator(json.RawMessage) error
	Write(*trace.Request) error
	Flush() error
}

// Writer writes a trace in an encoding. It is buffered: end with Close. It is not
// for concurrent use.
type Writer struct {
	rows       rowWriter
	compressor io.Closer // nil: none
	aiperf     *trace.AIPerfWriter
	encoding   Encoding
	blockSize  int
}

// NewWriter makes a writer to w of a trace whose ids stand for blockSize tokens.
func NewWriter(w io.Writer, e Encoding, blockSize int) (*Writer, error) {
	out := &Writer{encoding: e, blockSize: blockSize}
	switch e.Compression {
	case "":
	case "gzip":
		z := gzip.NewWriter(w)
		w, out.compressor = z, z
	case "zstd":
		// One thread: the same trace gives the same bytes, and none is left behind.
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		w, out.compressor = z, z
	default:
		return nil, fmt.Errorf("there is no compression %q", e.Compression)
	}
	switch e.Format {
	case trace.Mooncake:
		out.rows = trace.NewWriter(w)
	case trace.AIPerf:
		out.aiperf = trace.NewAIPerfWriter(w, blockSize)
		out.rows = out.aiperf
	case trace.Parquet:
		out.rows = trace.NewParquetWriter(w, blockSize)
	default:
		return nil, fmt.Errorf("a trace is not written as %q", e.Format)
	}
	return out, nil
}

// SetGenerator records the parameters of the generator that made the trace, if
// there are any. It comes before the first Write.
func (w *Writer) SetGenerator(params json.RawMessage) error {
	if params == nil {
		return nil
	}
	return w.rows.SetGenerator(params)
}

// Write writes a request.
func (w *Writer) Write(q *trace.Request) error { return w.rows.Write(q) }

// Close writes what is buffered and ends what is written. What is written to stays
// open.
func (w *Writer) Close() error {
	err := w.rows.Flush()
	if w.compressor != nil {
		// What the rows could not write to it, it cannot write either.
		if e := w.compressor.Close(); err == nil {
			err = e
		}
	}
	return err
}

// Warnings says what of the requests written so far the format does not hold, one
// sentence each.
func (w *Writer) Warnings() []string {
	if w.aiperf == nil {
		return nil
	}
	return w.aiperf.Warnings()
}

// Notes says what a reader of the trace has to be told, one sentence each.
func (w *Writer) Notes() []string {
	var notes []string
	if w.encoding.Format == trace.AIPerf {
		notes = append(notes, "the lines look like Mooncake's; read them with --format aiperf")
	}
	if w.encoding.Format != trace.Parquet && w.blockSize != trace.DefaultBlockSize {
		notes = append(notes, fmt.Sprintf("the lines do not say that an id stands for %d tokens; read them with --trace-block-size %d", w.blockSize, w.blockSize))
	}
	return notes
}
