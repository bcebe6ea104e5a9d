package results

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaV1 is the JSON Schema of Record. It is generated from the types in
// record.go and checked against them by a test.
//
//go:embed schema/replay-v1.schema.json
var schemaV1 []byte

// Schema returns the JSON Schema of Record.
func Schema() []byte { return bytes.Clone(schemaV1) }

// Validate checks the bytes of a record: that Decode takes them, and that they
// match the schema. The error lists where they differ and how.
func Validate(b []byte) error {
	// Decode goes first because it bounds the numbers: the other parser holds
	// 1e999999999 with all its digits.
	if _, err := Decode(b); err != nil {
		return err
	}
	return matchSchema(b)
}

// matchSchema lists the differences as JSON pointers.
func matchSchema(b []byte) error {
	schema, err := compiledV1()
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	err = schema.Validate(instance)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	return errors.New("record does not match the schema: " + strings.Join(problems(invalid.DetailedOutput()), "; "))
}

// compiledV1 compiles the embedded schema when it is first needed.
var compiledV1 = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaV1))
	if err != nil {
		return nil, err
	}
	const name = "replay-v1.schema.json"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
})

// problems returns the innermost errors, which say what is wrong and where.
func problems(u *jsonschema.OutputUnit) []string {
	var out []string
	for i := range u.Errors {
		out = append(out, problems(&u.Errors[i])...)
	}
	if len(out) == 0 && u.Error != nil {
		out = []string{pointer(u.InstanceLocation) + ": " + u.Error.String()}
	}
	return out
}

func pointer(p string) string {
	if p == "" {
		return "/"
	}
	return p
}
