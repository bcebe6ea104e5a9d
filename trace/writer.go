package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Writer writes a Mooncake trace, one JSON line for each request, so that a
// Reader with the same block size gives the same requests back. It is buffered:
// end with Flush. It is not for concurrent use.
type Writer struct {
	w         *bufio.Writer
	line      []byte
	rows      int
	generator json.RawMessage
}

// NewWriter makes a writer to w.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: bufio.NewWriterSize(w, 64<<10)}
}

// SetGenerator puts the parameters of a generator into the first row, as the
// field "_generator". Other readers ignore it. It comes before the first Write.
func (w *Writer) SetGenerator(params json.RawMessage) error {
	if w.rows > 0 {
		return errors.New("trace: the first row is written already")
	}
	// Marshal makes one line of it, whatever its layout, and refuses what is no JSON.
	line, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("trace: the parameters of the generator: %w", err)
	}
	w.generator = line
	return nil
}

// Write writes a row. A Timestamp or Delay of NaN and an empty Session are left
// out. A row that no reader accepts is an error.
func (w *Writer) Write(req *Request) error {
	if field, err := checkRequest(req); err != nil {
		return fmt.Errorf("trace: row %d to write: %s: %w", w.rows+1, field, err)
	}
	b := append(w.line[:0], '{')
	if w.rows == 0 && w.generator != nil {
		b = append(b, `"_generator": `...)
		b = append(b, w.generator...)
		b = append(b, ", "...)
	}
	if !math.IsNaN(req.Timestamp) {
		b = append(b, `"timestamp": `...)
		b = appendTime(b, req.Timestamp)
		b = append(b, ", "...)
	}
	if req.Session != "" {
		name, err := json.Marshal(req.Session)
		if err != nil {
			return fmt.Errorf("trace: row %d to write: session_id: %w", w.rows+1, err)
		}
		b = append(b, `"session_id": `...)
		b = append(b, name...)
		b = append(b, ", "...)
	}
	if !math.IsNaN(req.Delay) {
		b = append(b, `"delay": `...)
		b = appendTime(b, req.Delay)
		b = append(b, ", "...)
	}
	b = append(b, `"input_length": `...)
	b = strconv.AppendInt(b, int64(req.InputLength), 10)
	b = append(b, `, "output_length": `...)
	b = strconv.AppendInt(b, int64(req.OutputLength), 10)
	b = append(b, `, "hash_ids": `...)
	b = appendIDs(b, req.HashIDs)
	w.line = append(b, "}\n"...)
	w.rows++
	_, err := w.w.Write(w.line)
	return err
}

// WriteTrace writes all rows of t.
func (w *Writer) WriteTrace(t *Trace) error {
	for i := range t.Len() {
		req := t.Request(i)
		if err := w.Write(&req); err != nil {
			return err
		}
	}
	return nil
}

// Flush writes what is buffered.
func (w *Writer) Flush() error { return w.w.Flush() }

func appendIDs(b []byte, ids []uint64) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendUint(b, id, 10)
	}
	return append(b, ']')
}

// appendTime writes the shortest number that reads back as ms, and whole ones as
// such.
func appendTime(b []byte, ms float64) []byte {
	format := byte('f')
	if ms >= 1e21 || ms != 0 && ms < 1e-6 {
		format = 'e'
	}
	return strconv.AppendFloat(b, ms, format, -1, 64)
}
