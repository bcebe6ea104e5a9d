package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// benchDoc holds a table of all fields between these marks.
const (
	benchDoc    = "../INDEXER_BENCH.md"
	fieldsBegin = "<!-- fields: go test ./results -run Fields -update -->\n"
	fieldsEnd   = "<!-- end of fields -->\n"
)

// TestFieldsAreDocumented compares the table of fields with the schema.
func TestFieldsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(benchDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(doc, []byte(fieldsBegin))
	table, after, ok2 := bytes.Cut(rest, []byte(fieldsEnd))
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the fields", benchDoc)
	}
	want := fieldTable(t)
	if *update {
		if err := os.WriteFile(benchDoc, bytes.Join([][]byte{before, []byte(fieldsBegin), want, []byte(fieldsEnd), after}, nil), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(table, want) {
		t.Errorf("the fields in %s are not those of record.go; run: go test ./results -run Fields -update", benchDoc)
	}
}

// fieldTable writes each object of the schema as a table, in the order in which
// record.go has the fields.
func fieldTable(t *testing.T) []byte {
	t.Helper()
	var root schemaNode
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	seen := map[string]bool{}
	var write func(path, def string)
	write = func(path, def string) {
		if seen[def] {
			return
		}
		seen[def] = true
		node := root.Defs[def]
		title := path
		if title == "" {
			title = "the record"
		}
		fmt.Fprintf(&b, "\n**`%s`** %s\n\n| field | type | what it says |\n|---|---|---|\n", title, node.Description)
		var children [][2]string
		for _, name := range fieldOrder(t, def) {
			p := node.Properties[name]
			kind, child := p.Type, refName(p.Ref)
			if p.Items != nil {
				kind, child = "list of "+p.Items.Type, refName(p.Items.Ref)
				if child != "" {
					kind = "list of objects"
				}
			} else if child != "" {
				kind = "object"
			}
			text := p.Description
			if child != "" {
				text += "; see `" + strings.TrimPrefix(path+"."+name, ".") + "`"
				if seen[child] {
					text = "As `" + child + "` above."
				}
				children = append(children, [2]string{strings.TrimPrefix(path+"."+name, "."), child})
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, kind, strings.ReplaceAll(text, "|", "\\|"))
		}
		for _, c := range children {
			write(c[0], c[1])
		}
	}
	write("", "Record")
	b.WriteString("\n")
	return b.Bytes()
}

type schemaNode struct {
	Defs        map[string]schemaNode `json:"$defs"`
	Ref         string                `json:"$ref"`
	Type        string                `json:"type"`
	Description string                `json:"description"`
	Items       *schemaNode           `json:"items"`
	Properties  map[string]schemaNode `json:"properties"`
}

func refName(ref string) string { return strings.TrimPrefix(ref, "#/$defs/") }

// fieldOrder returns the JSON names of a type's fields as record.go has them.
func fieldOrder(t *testing.T, def string) []string {
	t.Helper()
	var names []string
	for _, f := range recordStructs(t)[def].Fields.List {
		name, _ := jsonName(t, f)
		names = append(names, name)
	}
	return names
}
