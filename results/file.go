package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kvbench/kvbench/internal/atomicfile"
)

// Write saves a record as indented JSON. The file appears whole or not at all;
// an existing one is replaced only with overwrite.
func Write(path string, r *Record, overwrite bool) error {
	return atomicfile.Write(path, overwrite, r.Encode)
}

// Encode writes the record as indented JSON.
func (r *Record) Encode(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// Read returns the record in a file. Fields that this version does not know are
// ignored; another schema is an error.
func Read(path string) (*Record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Decode is Read for the bytes of a file.
func Decode(b []byte) (*Record, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, errors.New("the file is empty; it should be a result record")
	}
	var head struct {
		Schema *string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("not a result record: %w", describeJSON(b, err))
	}
	switch {
	case head.Schema == nil:
		return nil, errors.New("not a result record: it has no field schema")
	case *head.Schema != ReplayV1:
		return nil, fmt.Errorf("schema is %q; this version of kvbench reads %q", *head.Schema, ReplayV1)
	}
	r := new(Record)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("damaged result record: %w", describeJSON(b, err))
	}
	return r, nil
}

// describeJSON adds the line to an error of encoding/json.
func describeJSON(b []byte, err error) error {
	var offset int64
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &wrongType):
		offset = wrongType.Offset
	default:
		return err
	}
	line := 1 + bytes.Count(b[:min(int64(len(b)), offset)], []byte("\n"))
	return fmt.Errorf("line %d: %w", line, err)
}
