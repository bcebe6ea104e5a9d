package archive

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/results/table"
)

// Format is how rows are exported.
type Format string

// The formats.
const (
	Parquet  Format = "parquet"
	CSV      Format = "csv"
	JSON     Format = "json" // an object a line
	Benchfmt Format = "benchfmt"
)

// Formats lists the formats.
func Formats() []string {
	return []string{string(Parquet), string(CSV), string(JSON), string(Benchfmt)}
}

// ParseFormat reads the name of a format.
func ParseFormat(name string) (Format, error) {
	for _, f := range Formats() {
		if f == name {
			return Format(name), nil
		}
	}
	return "", fmt.Errorf("%q is no format; write one of %s", name, strings.Join(Formats(), ", "))
}

// Rows are the rows of a table, one after the other; an error is the last.
type Rows[T table.Row] iter.Seq2[*T, error]

// rowsOf yields rows that are in memory.
func rowsOf[T table.Row](rows []T) Rows[T] {
	return func(yield func(*T, error) bool) {
		for i := range rows {
			if !yield(&rows[i], nil) {
				return
			}
		}
	}
}

// readRows yields the rows of files, one after the other.
func readRows[T table.Row](paths []string) Rows[T] {
	return func(yield func(*T, error) bool) {
		for _, path := range paths {
			if !readInto(path, yield) {
				return
			}
		}
	}
}

func readInto[T table.Row](path string, yield func(*T, error) bool) (more bool) {
	r, err := table.Open[T](path)
	if err != nil {
		yield(nil, err)
		return false
	}
	defer r.Close() // it was only read
	rows := make([]T, 1024)
	var done int64
	for {
		n, err := r.Read(rows)
		for i := range n {
			if !yield(&rows[i], nil) {
				return false
			}
		}
		done += int64(n)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			yield(nil, err)
			return false
		case errors.Is(err, io.EOF) || n == 0:
			if done != r.Rows() {
				yield(nil, fmt.Errorf("%s: it has %d rows, and says that it has %d", path, done, r.Rows()))
				return false
			}
			return true
		}
	}
}

// Export says what to write.
type Export struct {
	Format    Format
	Path      string // of a Parquet table
	Overwrite bool
	Meta      table.Meta // of a Parquet table
	Metrics   []string   // of Benchfmt: names for rounds.ResolveMetric; none: the usual
}

// Export writes the rows of sources, in the order given, to w, or to e.Path for a
// Parquet table. All must be of one kind of rows. It returns their number.
func (e *Export) Export(w io.Writer, sources []*Source) (int64, error) {
	trials, paths, kind := []table.Trial{}, []string{}, ""
	for _, s := range sources {
		k := s.Kind
		if s.Trials != nil {
			k = table.TrialsV1
		} else if s.Table == nil {
			return 0, fmt.Errorf("%s: %s has no rows to export; it is JSON already", s.Path, s.Kind)
		}
		if kind != "" && k != kind {
			return 0, fmt.Errorf("%s has rows of %s, and %s before it of %s; export them apart", s.Path, k, sources[0].Path, kind)
		}
		kind = k
		trials = append(trials, s.Trials...)
		paths = append(paths, s.Path)
	}
	switch kind {
	case table.TrialsV1:
		if e.Format == Benchfmt {
			return writeBenchfmt(w, trials, e.Metrics)
		}
		return export(e, w, rowsOf(trials))
	case table.RequestsV1:
		return export(e, w, readRows[table.Request](paths))
	case table.DecisionsV1:
		return export(e, w, readRows[table.Decision](paths))
	case table.OperationsV1:
		return export(e, w, readRows[table.Operation](paths))
	case "":
		return 0, errors.New("nothing to export")
	}
	return 0, fmt.Errorf("%s: this version of kvbench does not know the schema %s", sources[0].Path, kind)
}

func export[T table.Row](e *Export, w io.Writer, rows Rows[T]) (int64, error) {
	switch e.Format {
	case Parquet:
		return writeParquet(e, rows)
	case CSV:
		return writeCSV(w, rows)
	case JSON:
		return writeJSON(w, rows)
	}
	return 0, fmt.Errorf("%s has no figures of trials, which the format %s is for", table.SchemaOf[T](), e.Format)
}

func writeParquet[T table.Row](e *Export, rows Rows[T]) (int64, error) {
	out, err := table.Create[T](e.Path, e.Overwrite, e.Meta)
	if err != nil {
		return 0, err
	}
	batch := make([]T, 0, 1024)
	for row, err := range rows {
		if err == nil {
			if batch = append(batch, *row); len(batch) < cap(batch) {
				continue
			}
			err = out.Write(batch)
			batch = batch[:0]
		}
		if err != nil {
			return 0, errors.Join(err, out.Abort())
		}
	}
	if err := out.Write(batch); err != nil {
		return 0, errors.Join(err, out.Abort())
	}
	return out.Rows(), out.Close()
}

func writeCSV[T table.Row](w io.Writer, rows Rows[T]) (n int64, err error) {
	out := csv.NewWriter(w)
	columns := table.Columns[T]()
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.Name
	}
	if err := out.Write(cells); err != nil {
		return 0, err
	}
	for row, err := range rows {
		if err != nil {
			return n, err
		}
		for i, c := range columns {
			cells[i] = plain(table.Value(row, c))
		}
		if err := out.Write(cells); err != nil {
			return n, err
		}
		n++
	}
	out.Flush()
	return n, out.Error()
}

// plain writes a value as CSV has it: nothing for null, and lists with "; " between.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []string:
		return strings.Join(v, "; ")
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v)
}

func writeJSON[T table.Row](w io.Writer, rows Rows[T]) (n int64, err error) {
	out := bufio.NewWriter(w)
	columns := table.Columns[T]()
	for row, err := range rows {
		if err != nil {
			_ = out.Flush() // the rows so far; the error is that of the next one
			return n, err
		}
		for i, c := range columns {
			v := table.Value(row, c)
			switch x := v.(type) {
			case float64:
				if math.IsNaN(x) || math.IsInf(x, 0) {
					v = nil // JSON has no such number
				}
			case []string:
				if x == nil {
					v = []string{}
				}
			}
			b, err := json.Marshal(v)
			if err != nil {
				return n, err
			}
			mark := ","
			if i == 0 {
				mark = "{"
			}
			// Errors of a bufio.Writer stay until Flush.
			_, _ = fmt.Fprintf(out, "%s%q:%s", mark, c.Name, b)
		}
		_, _ = out.WriteString("}\n")
		n++
	}
	return n, out.Flush()
}

// writeBenchfmt writes the valid trials of measured rounds in the Go benchmark
// format. benchstat -col /variant compares variants, without their pairing. It makes
// a table of its own for each configuration, so that has the corpus and the CPU alone.
func writeBenchfmt(w io.Writer, trials []table.Trial, names []string) (n int64, err error) {
	if len(names) == 0 {
		names = usual
	}
	type column struct {
		rounds.Metric
		table.Column
		unit string
	}
	var columns []column
	out := benchfmt.NewWriter(w)
	for _, name := range names {
		m, err := rounds.ResolveMetric(name)
		if err != nil {
			return 0, err
		}
		c, err := columnOf(m)
		if err != nil {
			return 0, err
		}
		unit := m.BenchUnit()
		columns = append(columns, column{m, c, unit})
		if m.Better != "" {
			if err := out.Write(&benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: unit, Key: "better"}, OrigUnit: unit, Value: string(m.Better)}); err != nil {
				return 0, err
			}
		}
	}
	for i := range trials {
		t := &trials[i]
		if !t.Valid || warmUp(t) {
			continue
		}
		res := &benchfmt.Result{Name: benchfmt.Name("Replay/variant=" + strings.Join(strings.Fields(variantOf(t)), "_")), Iters: 1}
		config := func(key, value string) {
			if value != "" {
				res.Config = append(res.Config, benchfmt.Config{Key: key, Value: []byte(value), File: true})
			}
		}
		config("corpus", known(t.CorpusSHA256))
		config("cpu", known(t.HostCPUModel))
		for _, c := range columns {
			if v, ok := number(t, c.Column); ok {
				res.Values = append(res.Values, benchfmt.Value{Value: v, Unit: c.unit})
			}
		}
		if len(res.Values) == 0 {
			continue
		}
		if err := out.Write(res); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
