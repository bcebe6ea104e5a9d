package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// AIPerfWriter writes a trace as AIPerf's mooncake_trace: one JSON line for each
// request. Times are whole milliseconds there, and a turn of a session has only
// what it adds to the prompt and the answer of the turn before it, without ids.
// What is lost by that is counted in Warnings. A session whose prompt does not grow
// by at least its last answer cannot be written.
//
// It is buffered: end with Flush. Memory grows with the named sessions. It is not
// for concurrent use.
type AIPerfWriter struct {
	w         *Writer
	blockSize int
	turns     Turns
	said      map[string]int // tokens of prompt and answer of a session so far
	rows      int
	rounded   int
	noIDs     int
}

// NewAIPerfWriter makes a writer to w of a trace whose ids stand for blockSize
// tokens.
func NewAIPerfWriter(w io.Writer, blockSize int) *AIPerfWriter {
	return &AIPerfWriter{w: NewWriter(w), blockSize: blockSize, said: map[string]int{}}
}

// SetGenerator does nothing: AIPerf refuses fields that it does not know.
func (w *AIPerfWriter) SetGenerator(json.RawMessage) error { return nil }

// Write writes a row.
func (w *AIPerfWriter) Write(req *Request) error {
	w.rows++
	if err := w.write(req); err != nil {
		return fmt.Errorf("trace: row %d to write: %w", w.rows, err)
	}
	return nil
}

func (w *AIPerfWriter) write(req *Request) error {
	if field, err := checkRequest(req); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if err := checkFit(req, w.blockSize); err != nil {
		return fmt.Errorf("input_length: %w", err)
	}
	row := *req
	first, field, err := w.turns.Settle(&row)
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if row.Session != "" {
		before := w.said[row.Session]
		w.said[row.Session] = row.InputLength + row.OutputLength
		if !first {
			if row.InputLength -= before; row.InputLength < 0 {
				return fmt.Errorf("input_length: a prompt of %d tokens is shorter than the %d tokens of the turn before it and its answer, which AIPerf puts in front; write the trace as mooncake or parquet, or its turns as requests of their own",
					req.InputLength, before)
			}
			w.noIDs++
		}
	}
	b := append(w.w.line[:0], '{')
	switch {
	case first:
		b = append(b, `"timestamp": `...)
		b = w.appendTime(b, row.Timestamp)
	default:
		b = append(b, `"delay": `...)
		b = w.appendTime(b, row.Delay)
	}
	if row.Session != "" {
		name, err := json.Marshal(row.Session)
		if err != nil {
			return fmt.Errorf("session_id: %w", err)
		}
		b = append(b, `, "session_id": `...)
		b = append(b, name...)
	}
	b = append(b, `, "input_length": `...)
	b = strconv.AppendInt(b, int64(row.InputLength), 10)
	b = append(b, `, "output_length": `...)
	b = strconv.AppendInt(b, int64(row.OutputLength), 10)
	if first {
		// AIPerf refuses ids that the length does not need.
		needed := (row.InputLength + w.blockSize - 1) / w.blockSize
		b = append(b, `, "hash_ids": `...)
		b = appendIDs(b, row.HashIDs[:needed])
	}
	w.w.line = append(b, "}\n"...)
	_, err = w.w.w.Write(w.w.line)
	return err
}

func (w *AIPerfWriter) appendTime(b []byte, ms float64) []byte {
	whole := math.RoundToEven(ms)
	if whole != ms {
		w.rounded++
	}
	return strconv.AppendFloat(b, whole, 'f', -1, 64)
}

// Warnings says what was lost of the rows written so far, one sentence each.
func (w *AIPerfWriter) Warnings() []string {
	var texts []string
	say := func(n int, one, more string) {
		switch {
		case n == 1:
			texts = append(texts, "1 row "+one)
		case n > 1:
			texts = append(texts, fmt.Sprintf("%d rows %s", n, more))
		}
	}
	say(w.rounded, "has a time that was rounded to a whole millisecond", "have times that were rounded to whole milliseconds")
	say(w.noIDs, "is a later turn, written without ids: AIPerf puts the turns before it in front, and no other session shares what it adds",
		"are later turns, written without ids: AIPerf puts the turns before them in front, and no other session shares what they add")
	return texts
}

// Flush writes what is buffered.
func (w *AIPerfWriter) Flush() error { return w.w.Flush() }
