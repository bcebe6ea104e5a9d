package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/kvbench/kvbench/internal/parquetfile"
)

const parquetMagic = "PAR1"

// ParquetSchema names this version of the table of a trace.
const ParquetSchema = "kvbench.trace/v1"

// The keys of the metadata of a table.
const (
	ParquetSchemaKey    = "kvbench.schema"
	ParquetBlockSizeKey = "kvbench.trace.block_size_tokens"
	ParquetGeneratorKey = "kvbench.trace.generator"
)

// parquetRow is a row of the table, whose columns ParquetWriter describes.
type parquetRow struct {
	Timestamp *float64 `parquet:"timestamp_ms,optional"`
	Delay     *float64 `parquet:"delay_ms,optional"`
	Session   *string  `parquet:"session_id,optional,dict"`
	Input     int32    `parquet:"input_tokens"`
	Output    int32    `parquet:"output_tokens"`
	HashIDs   []uint64 `parquet:"hash_ids,list"`
}

// A row group is complete with so many rows or ids, whatever comes first. It is
// held in memory until then.
const (
	rowGroupRows = 1 << 16
	rowGroupIDs  = 1 << 21
)

// ParquetWriter writes a trace as a Parquet table, zstd-compressed, with one row
// for each request, in order:
//
//	timestamp_ms   double or null  arrival
//	delay_ms       double or null  wait after the session's previous turn
//	session_id     string or null
//	input_tokens   int32
//	output_tokens  int32
//	hash_ids       list of uint64  content of each block of the prompt
//
// The metadata of the file has the schema's name, the number of tokens of a
// block and the parameters of a generator, under the Parquet... keys. It holds
// one row group in memory. It is not for concurrent use.
type ParquetWriter struct {
	out  *parquet.GenericWriter[parquetRow]
	rows int // of this group
	ids  int
	all  int
}

// NewParquetWriter makes a writer to w of a trace whose ids stand for blockSize
// tokens.
func NewParquetWriter(w io.Writer, blockSize int) *ParquetWriter {
	return &ParquetWriter{out: parquet.NewGenericWriter[parquetRow](w,
		parquet.Compression(&parquet.Zstd),
		parquet.KeyValueMetadata(ParquetSchemaKey, ParquetSchema),
		parquet.KeyValueMetadata(ParquetBlockSizeKey, strconv.Itoa(blockSize)),
	)}
}

// SetGenerator records the parameters of a generator.
func (w *ParquetWriter) SetGenerator(params json.RawMessage) error {
	line, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("trace: the parameters of the generator: %w", err)
	}
	w.out.SetKeyValueMetadata(ParquetGeneratorKey, string(line))
	return nil
}

// Write writes a row. A Timestamp or Delay of NaN and an empty Session are null.
func (w *ParquetWriter) Write(req *Request) error {
	if field, err := checkRequest(req); err != nil {
		return fmt.Errorf("trace: row %d to write: %s: %w", w.all+1, field, err)
	}
	row := [1]parquetRow{{Input: int32(req.InputLength), Output: int32(req.OutputLength), HashIDs: req.HashIDs}}
	if !math.IsNaN(req.Timestamp) {
		row[0].Timestamp = &req.Timestamp
	}
	if !math.IsNaN(req.Delay) {
		row[0].Delay = &req.Delay
	}
	if req.Session != "" {
		row[0].Session = &req.Session
	}
	if _, err := w.out.Write(row[:]); err != nil {
		return err
	}
	w.all++
	w.rows++
	w.ids += len(req.HashIDs)
	if w.rows >= rowGroupRows || w.ids >= rowGroupIDs {
		w.rows, w.ids = 0, 0
		return w.out.Flush()
	}
	return nil
}

// Flush ends the table. Nothing can be written after it.
func (w *ParquetWriter) Flush() error { return w.out.Close() }

// parquetReader reads what ParquetWriter writes.
type parquetReader struct {
	r    *Reader
	in   *parquet.GenericReader[parquetRow]
	rows [64]parquetRow
	n, i int
	line int
	done int64 // rows read from the file so far
	end  error
}

func (r *Reader) openParquet(in io.Reader) (err error) {
	at, size, ok := randomAccess(in)
	if !ok {
		return errors.New("is a Parquet file, which is read from its end; give the file itself, not a stream of it")
	}
	if r.opts.TimeUnit != "" || r.opts.Prefixes != nil || r.opts.SessionsPerSecond != 0 {
		return errors.New("--time-unit, --shared-prefix and --arrivals-per-second have no effect on a Parquet file, whose columns have units; leave them out")
	}
	defer func() {
		// Damaged files make the library panic here and there.
		if p := recover(); p != nil {
			err = badParquet(fmt.Errorf("%v", p))
		}
	}()
	f, err := parquetfile.Open(at, size)
	if err != nil {
		return badParquet(err)
	}
	if schema, ok := f.Lookup(ParquetSchemaKey); !ok || schema != ParquetSchema {
		return fmt.Errorf("is a Parquet file with the schema %q and not %q; 'kvbench trace convert' writes that", schema, ParquetSchema)
	}
	text, _ := f.Lookup(ParquetBlockSizeKey)
	blockSize, err := strconv.Atoi(text)
	if err != nil || checkBlockSize(blockSize) != nil {
		return fmt.Errorf("is a Parquet file whose metadata %s is %q; it must be a number of tokens", ParquetBlockSizeKey, text)
	}
	if r.opts.BlockSize != 0 && r.opts.BlockSize != blockSize {
		return fmt.Errorf("--trace-block-size is %d, and the file says %d; leave the flag out", r.opts.BlockSize, blockSize)
	}
	if r.opts.Format == Auto {
		r.by = "the first bytes"
	}
	r.format, r.opts.BlockSize = Parquet, blockSize
	if params, ok := f.Lookup(ParquetGeneratorKey); ok && json.Valid([]byte(params)) {
		r.generator = json.RawMessage(params)
	}
	if err := checkColumns(f); err != nil {
		return badParquet(err)
	}
	r.table = &parquetReader{r: r, in: parquet.NewGenericReader[parquetRow](f)}
	r.free = func() { r.table.in.Close() }
	return nil
}

// checkColumns holds the columns to those of parquetRow. Without this, what a file
// lacks or has under another name would be null or 0 in every row.
func checkColumns(f *parquet.File) error {
	have := f.Schema()
	want := parquet.SchemaOf(parquetRow{})
	for _, path := range want.Columns() {
		name := strings.Join(path, ".")
		w, _ := want.Lookup(path...)
		h, ok := have.Lookup(path...)
		switch {
		case !ok:
			return fmt.Errorf("column %s is missing", name)
		case h.Node.Type().String() != w.Node.Type().String():
			return fmt.Errorf("column %s is of type %s, and %s is wanted", name, h.Node.Type(), w.Node.Type())
		case h.Node.Repeated() != w.Node.Repeated():
			return fmt.Errorf("column %s is of single values and one of lists is wanted, or the other way round", name)
		case h.Node.Optional() && !w.Node.Optional():
			// Other programs write all columns so, and nulls would become 0.
			groups := f.Metadata().RowGroups
			for i := range groups {
				if n := groups[i].Columns[h.ColumnIndex].MetaData.Statistics.NullCount; n > 0 {
					return fmt.Errorf("column %s has nulls, %d of them in row group %d; give it a value in every row", name, n, i)
				}
			}
		}
	}
	return nil
}

func badParquet(err error) error {
	return fmt.Errorf("is a Parquet file that cannot be read (%w); fetch or write it again", err)
}

// read fills req with the next row. What is wrong with it goes to the reader's
// problems; the error ends the table.
func (p *parquetReader) read(req *Request) (err error) {
	defer func() {
		if bad := recover(); bad != nil {
			err = &ParseError{File: p.r.name, Err: badParquet(fmt.Errorf("%v", bad))}
		}
	}()
	if p.i == p.n {
		if p.end != nil {
			return p.end
		}
		p.i = 0
		if p.n, err = p.in.Read(p.rows[:]); err != nil {
			if p.end = err; !errors.Is(err, io.EOF) {
				p.end = &ParseError{File: p.r.name, Err: badParquet(err)}
			}
		}
		if p.n == 0 && p.end == nil {
			p.end = io.EOF
		}
		p.done += int64(p.n)
		if have := p.in.NumRows(); p.end == io.EOF && p.done != have {
			p.end = &ParseError{File: p.r.name, Err: badParquet(fmt.Errorf("it has %d rows, and says that it has %d", p.done, have))}
		}
		if p.n == 0 {
			return p.end
		}
	}
	row := &p.rows[p.i]
	p.i++
	p.line++
	*req = Request{Line: p.line, Timestamp: math.NaN(), Delay: math.NaN(), InputLength: int(row.Input), OutputLength: int(row.Output),
		HashIDs: append(req.HashIDs[:0], row.HashIDs...)}
	if row.Timestamp != nil {
		req.Timestamp = *row.Timestamp
	}
	if row.Delay != nil {
		req.Delay = *row.Delay
	}
	if row.Session != nil {
		req.Session = *row.Session
	}
	if field, err := checkRequest(req); err != nil {
		p.r.problems = append(p.r.problems, &ParseError{File: p.r.name, Line: p.line, Field: field, Err: err})
	} else if err := checkFit(req, p.r.opts.BlockSize); err != nil {
		p.r.problems = append(p.r.problems, &ParseError{File: p.r.name, Line: p.line, Field: "input_length", Err: err})
	}
	return nil
}
