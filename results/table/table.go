// Package table writes and reads results as Parquet tables: one row for each
// trial, request, decision or operation. Column names end in their unit; what each
// column means is in docs/formats.md, which a test holds to the types here. Files
// are zstd-compressed and readable without kvbench.
//
// The package turns a record into a row and knows nothing of where rows come from.
package table

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/buildinfo"
	"github.com/kvbench/kvbench/internal/parquetfile"
)

// Row is a type of row. Each has a schema of its own.
type Row interface {
	Trial | Request | Decision | Operation
}

// Names and versions of the schemas. A version only ever gains columns, which are
// null in older files; a column that goes or changes its meaning makes a new
// version.
const (
	TrialsV1     = "kvbench.trials/v1"     // of Trial
	RequestsV1   = "kvbench.requests/v1"   // of Request
	DecisionsV1  = "kvbench.decisions/v1"  // of Decision
	OperationsV1 = "kvbench.operations/v1" // of Operation
)

// SchemaOf returns the name and version of a table of T.
func SchemaOf[T Row]() string {
	switch any(*new(T)).(type) {
	case Trial:
		return TrialsV1
	case Request:
		return RequestsV1
	case Decision:
		return DecisionsV1
	}
	return OperationsV1
}

// The keys of a file's metadata.
const (
	SchemaKey = "kvbench.schema" // name and version of the schema
	MetaKey   = "kvbench.meta"   // Meta as JSON
)

// ErrForeign is returned for a Parquet file that something else wrote.
var ErrForeign = errors.New("a Parquet file, but not a table of kvbench: its metadata has no " + SchemaKey)

// Meta says what made a table. It is the same for all rows.
type Meta struct {
	Command  []string          `json:"command"`            // command line, program name first
	Version  string            `json:"version"`            // of kvbench; "" if the build does not know
	Commit   string            `json:"commit"`             // it was built from; "" if the build does not know
	Modified bool              `json:"modified"`           // built from a tree with changes
	Go       string            `json:"go_version"`         // that built it
	Facts    map[string]string `json:"facts,omitempty"`    // whatever else decides the rows, such as "trace_sha256"
	Warnings []string          `json:"warnings,omitempty"` // what a reader of the rows should know
}

// NewMeta returns the Meta of the running kvbench. facts may be nil.
func NewMeta(command []string, facts map[string]string) Meta {
	b := buildinfo.Read()
	return Meta{Command: slices.Clone(command), Version: b.Version, Commit: b.Commit, Modified: b.Modified, Go: b.Go, Facts: facts}
}

// Row groups hold so many rows, which is near what readers that work on row groups
// in parallel advise. The rows of one are in memory, encoded, until it is complete.
const groupRows = 1 << 17

// batchRows rows are encoded at a time, however many Write is given, so that equal
// rows make equal bytes.
const batchRows = 1 << 10

// Writer writes a table. It is not for concurrent use.
type Writer[T Row] struct {
	path    string
	file    *atomicfile.File
	out     *parquet.GenericWriter[T]
	batch   []T
	owned   []int // fields of a row that lead elsewhere
	rows    int64
	inGroup int
}

// Create begins a table at path, where it appears with Close, whole or not at all.
// An existing file is replaced only with overwrite. Equal rows, meta and version of
// kvbench make equal bytes. One of Close and Abort must end it.
func Create[T Row](path string, overwrite bool, meta Meta) (*Writer[T], error) {
	file, err := atomicfile.Create(path, overwrite)
	if err != nil {
		return nil, err
	}
	w, err := newWriter[T](file, meta)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), file.Abort())
	}
	w.path, w.file = path, file
	return w, nil
}

func newWriter[T Row](to io.Writer, meta Meta) (*Writer[T], error) {
	if meta.Command == nil {
		meta.Command = []string{}
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return &Writer[T]{
		out: parquet.NewGenericWriter[T](to,
			parquet.Compression(&parquet.Zstd),
			parquet.CreatedBy("kvbench", meta.Version, meta.Commit),
			parquet.KeyValueMetadata(SchemaKey, SchemaOf[T]()),
			parquet.KeyValueMetadata(MetaKey, string(text)),
		),
		batch: make([]T, 0, batchRows),
		owned: references(reflect.TypeFor[T]()),
	}, nil
}

// Write adds rows. It keeps none of what they point to.
func (w *Writer[T]) Write(rows []T) error {
	for len(rows) > 0 {
		n := min(len(rows), batchRows-len(w.batch))
		w.batch = append(w.batch, rows[:n]...)
		rows = rows[n:]
		// What rows point to is the caller's, who may use it again: a batch that is
		// not complete must not outlive this call. So it is copied.
		if len(w.batch) < batchRows {
			w.own(w.batch[len(w.batch)-n:])
			return nil
		}
		if err := w.flush(); err != nil {
			return fmt.Errorf("write %s: %w", w.path, err)
		}
	}
	return nil
}

// flush encodes the batch.
func (w *Writer[T]) flush() error {
	if len(w.batch) == 0 {
		return nil
	}
	if _, err := w.out.Write(w.batch); err != nil {
		return err
	}
	w.rows += int64(len(w.batch))
	w.inGroup += len(w.batch)
	clear(w.batch)
	w.batch = w.batch[:0]
	if w.inGroup >= groupRows {
		w.inGroup = 0
		return w.out.Flush()
	}
	return nil
}

// references lists the fields of a row that are pointers or slices.
func references(row reflect.Type) []int {
	var out []int
	for i := range row.NumField() {
		if k := row.Field(i).Type.Kind(); k == reflect.Pointer || k == reflect.Slice {
			out = append(out, i)
		}
	}
	return out
}

// own makes rows independent of what their fields lead to.
func (w *Writer[T]) own(rows []T) {
	for i := range rows {
		row := reflect.ValueOf(&rows[i]).Elem()
		for _, index := range w.owned {
			x := row.Field(index)
			switch {
			case x.IsNil():
			case x.Kind() == reflect.Pointer:
				c := reflect.New(x.Type().Elem())
				c.Elem().Set(x.Elem())
				x.Set(c)
			default:
				c := reflect.MakeSlice(x.Type(), x.Len(), x.Len())
				reflect.Copy(c, x)
				x.Set(c)
			}
		}
	}
}

// SetMeta changes what the table says of how it was made, until Close.
func (w *Writer[T]) SetMeta(meta Meta) error {
	if meta.Command == nil {
		meta.Command = []string{}
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("write %s: metadata: %w", w.path, err)
	}
	w.out.SetKeyValueMetadata(MetaKey, string(text))
	return nil
}

// Rows returns the number of rows written so far.
func (w *Writer[T]) Rows() int64 { return w.rows + int64(len(w.batch)) }

// Close completes the table and puts it at its path. After an error nothing is
// there, or what was before.
func (w *Writer[T]) Close() error {
	err := w.flush()
	if e := w.out.Close(); err == nil {
		err = e
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", w.path, err), w.file.Abort())
	}
	return w.file.Commit()
}

// Abort gives the table up. After Close it does nothing, so that it can be
// deferred.
func (w *Writer[T]) Abort() error { return w.file.Abort() }

// Reader reads a table. It is not for concurrent use.
type Reader[T Row] struct {
	path string
	file *os.File
	in   *parquet.GenericReader[T]
	meta Meta
	done int64 // rows read so far
}

// Open opens the table at path. A file that is no table of T is an error that says
// what it is.
func Open[T Row](path string) (*Reader[T], error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	size, err := sizeOf(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	r, err := open[T](file, size)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	r.path, r.file = path, file
	return r, nil
}

// sizeOf returns the size of a file that can be a table.
func sizeOf(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if info.IsDir() {
		return 0, errors.New("it is a folder; name a Parquet file")
	}
	return info.Size(), nil
}

func open[T Row](in io.ReaderAt, size int64) (r *Reader[T], err error) {
	defer parquetfile.Recover(&err)
	table, schema, meta, err := head(in, size)
	if err != nil {
		return nil, err
	}
	if want := SchemaOf[T](); schema != want {
		return nil, fmt.Errorf("it is a table of schema %q, and one of %q is wanted", schema, want)
	}
	if err := sameColumns(parquet.SchemaOf(*new(T)), table.Schema()); err != nil {
		return nil, err
	}
	return &Reader[T]{in: parquet.NewGenericReader[T](table), meta: meta}, nil
}

// head reads the footer of a file.
func head(in io.ReaderAt, size int64) (table *parquet.File, schema string, meta Meta, err error) {
	if table, err = parquetfile.Open(in, size); err != nil {
		return nil, "", meta, err
	}
	schema, ok := table.Lookup(SchemaKey)
	if !ok {
		return nil, "", meta, ErrForeign
	}
	if text, ok := table.Lookup(MetaKey); ok {
		if err := json.Unmarshal([]byte(text), &meta); err != nil {
			return nil, "", meta, fmt.Errorf("its metadata %s: %w", MetaKey, err)
		}
	}
	return table, schema, meta, nil
}

// sameColumns checks that the columns that a file has are of the types that are
// wanted. One that it lacks is null in every row, if it can be. As a version only
// ever gains columns, a file that lacks some has no others either: a name in it that
// is not known is a damaged one.
func sameColumns(want, have *parquet.Schema) error {
	missing := ""
	for _, path := range want.Columns() {
		name := strings.Join(path, ".")
		w, _ := want.Lookup(path...)
		h, ok := have.Lookup(path...)
		switch {
		case !ok && !w.Node.Optional():
			if _, whole := have.Lookup(path[:1]...); whole || len(path) == 1 {
				return fmt.Errorf("column %s is missing", name)
			}
			missing = name // a list, empty in every row
		case !ok:
			missing = name
		case ok && w.Node.Type().String() != h.Node.Type().String():
			return fmt.Errorf("column %s is of type %s, and %s is wanted", name, h.Node.Type(), w.Node.Type())
		case w.Node.Optional() != h.Node.Optional() || w.Node.Repeated() != h.Node.Repeated():
			return fmt.Errorf("column %s is %s, and %s is wanted", name, repetition(h.Node), repetition(w.Node))
		}
	}
	for _, path := range have.Columns() {
		if _, ok := want.Lookup(path...); !ok && missing != "" {
			return fmt.Errorf("column %s is not known, and column %s is missing: the file is damaged, or something else wrote it", strings.Join(path, "."), missing)
		}
	}
	return nil
}

func repetition(n parquet.Node) string {
	switch {
	case n.Optional():
		return "one that may be null"
	case n.Repeated():
		return "one of lists"
	}
	return "one that is never null"
}

// Meta says what made the table.
func (r *Reader[T]) Meta() Meta { return r.meta }

// Rows returns the number of rows of the table.
func (r *Reader[T]) Rows() int64 { return r.in.NumRows() }

// Read fills rows with the next ones and returns how many there were. At the end
// it returns io.EOF, perhaps with the last rows; that the table has as many as it
// says is checked then. What rows pointed to before stays as it was. rows must not
// be empty.
func (r *Reader[T]) Read(rows []T) (int, error) {
	clear(rows)
	n, err := r.read(rows)
	r.done += int64(n)
	if n == 0 && err == nil {
		err = io.EOF
	}
	if errors.Is(err, io.EOF) && r.done != r.Rows() {
		err = fmt.Errorf("damaged Parquet file: it has %d rows, and says that it has %d", r.done, r.Rows())
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s: %w", r.path, err)
	}
	return n, err
}

func (r *Reader[T]) read(rows []T) (n int, err error) {
	defer parquetfile.Recover(&err)
	return r.in.Read(rows)
}

// Close closes the file.
func (r *Reader[T]) Close() error { return errors.Join(r.in.Close(), r.file.Close()) }

// ReadAll returns all rows of a table. Those of a long run may not fit in memory.
func ReadAll[T Row](path string) (rows []T, err error) {
	r, err := Open[T](path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	// What a damaged file says of its rows is not trusted with memory.
	piece := make([]T, batchRows)
	for {
		n, err := r.Read(piece)
		rows = append(rows, piece[:n]...)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Kind returns the schema and metadata of a table of whatever type.
func Kind(path string) (schema string, rows int64, meta Meta, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", 0, meta, err
	}
	defer file.Close()
	size, err := sizeOf(file)
	if err != nil {
		return "", 0, meta, fmt.Errorf("%s: %w", path, err)
	}
	table, schema, meta, err := head(file, size)
	if err != nil {
		return "", 0, meta, fmt.Errorf("%s: %w", path, err)
	}
	return schema, table.NumRows(), meta, nil
}

// Some returns a pointer to v, for columns that can be null.
func Some[V any](v V) *V { return &v }
