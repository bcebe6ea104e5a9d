package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/wholefile"
)

// Write saves a record as indented JSON. The file appears whole or not at all;
// an existing one is replaced only with overwrite.
func Write(path string, r *Record, overwrite bool) error {
	return atomicfile.Write(path, overwrite, r.Encode)
}

// MarshalJSON writes lists that are nil as empty ones, so that readers in any
// language always meet a list.
func (r Record) MarshalJSON() ([]byte, error) {
	notNil(&r.Provenance.Argv)
	notNil(&r.Provenance.Build)
	notNil(&r.Depths.LaneAtIssueEnd)
	notNil(&r.Depths.EventThreadAtIssueEnd)
	notNil(&r.Threads)
	notNil(&r.Anomalies.ByRank)
	notNil(&r.Validity.Reasons)
	notNil(&r.Warnings)
	// What is behind a pointer is copied: the caller's record stays as it is.
	if r.Policy != nil {
		c := *r.Policy
		notNil(&c.Inputs)
		notNil(&c.ByPartition)
		r.Policy = &c
	}
	if r.Resident != nil {
		c := *r.Resident
		notNil(&c.ByRank)
		r.Resident = &c
	}
	if r.Verify != nil {
		c := *r.Verify
		notNil(&c.First)
		r.Verify = &c
	}
	type plain Record // without this method
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the encoder that called decides
	err := enc.Encode(plain(r))
	return b.Bytes(), err
}

func notNil[T any](list *[]T) {
	if *list == nil {
		*list = []T{}
	}
}

// Encode writes the record as indented JSON. A figure that is no number, such as
// NaN, is an error.
func (r *Record) Encode(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// MaxRecord is the size of the largest file that is taken for a record, in bytes.
const MaxRecord = 1 << 30

// Read returns the record in a file. Fields that this version does not know are
// ignored; another schema or kind is an error, and so is anything after it.
func Read(path string) (*Record, error) {
	b, err := wholefile.Read(path, "a result record", MaxRecord)
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
		Kind   string  `json:"kind"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("not a result record: %w", describeJSON(b, err))
	}
	switch {
	case head.Schema == nil:
		return nil, errors.New("not a result record: it has no field schema")
	case *head.Schema != ReplayV1:
		return nil, fmt.Errorf("schema is %q; this version of kvbench reads %q", *head.Schema, ReplayV1)
	case head.Kind != KindReplay:
		return nil, fmt.Errorf("kind is %q; a record of schema %q has the kind %q", head.Kind, ReplayV1, KindReplay)
	}
	r := new(Record)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("damaged result record: %w", describeJSON(b, err))
	}
	return r, nil
}

// describeJSON adds the line to an error of encoding/json and names the field as
// the file does.
func describeJSON(b []byte, err error) error {
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	line := func(offset int64) int {
		return 1 + bytes.Count(b[:min(int64(len(b)), offset)], []byte("\n"))
	}
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: %w", line(syntax.Offset), err)
	case errors.As(err, &wrongType):
		return fmt.Errorf("line %d: /%s: found %s, want %s", line(wrongType.Offset), strings.ReplaceAll(wrongType.Field, ".", "/"), wrongType.Value, kindName(wrongType.Type))
	}
	return err
}

// kindName is what JSON Schema calls the type of a field.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "an object"
	case reflect.Float64:
		return "a number"
	}
	return "an integer that fits " + t.String()
}
