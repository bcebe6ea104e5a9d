package results

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaV1 is the JSON Schema of Record. It is generated from the types in
// record.go and checked against them by a test.
//
//go:embed schema/replay-v1.schema.json
var schemaV1 []byte

// Schema returns the JSON Schema of Record.
func Schema() []byte { return bytes.Clone(schemaV1) }

// Validate checks the bytes of a record against the schema. The error lists
// where and how they differ.
func Validate(b []byte) error {
	if _, err := Decode(b); err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaV1))
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("replay-v1.schema.json", doc); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	schema, err := c.Compile("replay-v1.schema.json")
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	err = schema.Validate(instance)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	var problems []string
	for _, e := range invalid.BasicOutput().Errors {
		if e.Error == nil {
			continue
		}
		text, err := json.Marshal(e.Error)
		if err != nil {
			return fmt.Errorf("record: %w", err)
		}
		problems = append(problems, fmt.Sprintf("%s: %s", pointer(e.InstanceLocation), strings.Trim(string(text), `"`)))
	}
	return fmt.Errorf("record does not match the schema: %s", strings.Join(problems, "; "))
}

func pointer(p string) string {
	if p == "" {
		return "/"
	}
	return p
}
