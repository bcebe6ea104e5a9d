package results

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the schema and the golden files")

const schemaPath = "schema/replay-v1.schema.json"

// TestSchemaIsThatOfTheTypes generates the schema from the types and comments of
// record.go and compares it with the embedded one.
func TestSchemaIsThatOfTheTypes(t *testing.T) {
	want := generateSchema(t)
	if *update {
		if err := os.WriteFile(schemaPath, want, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(want, Schema()) {
		t.Errorf("%s is not that of record.go; run: go test ./results -run Schema -update", schemaPath)
	}
}

type object = map[string]any

func generateSchema(t *testing.T) []byte {
	t.Helper()
	structs, docs := recordTypes(t)
	defs := object{}
	for name, st := range structs {
		properties, required := object{}, []string{}
		for _, f := range st.Fields.List {
			tag, omit := jsonName(t, f)
			p := typeSchema(t, f.Type, structs)
			if text := strings.Join(strings.Fields(f.Comment.Text()+" "+f.Doc.Text()), " "); text != "" {
				p["description"] = text
			} else if p["$ref"] == nil && (p["items"] == nil || p["items"].(object)["$ref"] == nil) {
				t.Errorf("%s.%s has no comment to describe it", name, f.Names[0].Name)
			}
			if tag == "schema" && name == "Record" {
				p["const"] = ReplayV1
			}
			if tag == "kind" && name == "Record" {
				p["const"] = KindReplay
			}
			properties[tag] = p
			if !omit {
				required = append(required, tag)
			}
		}
		defs[name] = object{"type": "object", "description": docs[name], "properties": properties, "required": required, "additionalProperties": true}
	}
	root := object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Result of one kvbench replay trial",
		"$ref":    "#/$defs/Record",
		"$defs":   defs,
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// recordTypes parses the structs of record.go and their comments.
func recordTypes(t *testing.T) (map[string]*ast.StructType, map[string]string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "record.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	structs, docs := map[string]*ast.StructType{}, map[string]string{}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			spec := s.(*ast.TypeSpec)
			if st, ok := spec.Type.(*ast.StructType); ok {
				structs[spec.Name.Name] = st
				docs[spec.Name.Name] = strings.Join(strings.Fields(g.Doc.Text()), " ")
			}
		}
	}
	return structs, docs
}

func recordStructs(t *testing.T) map[string]*ast.StructType {
	t.Helper()
	structs, _ := recordTypes(t)
	return structs
}

func jsonName(t *testing.T, f *ast.Field) (name string, omit bool) {
	t.Helper()
	raw, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		t.Fatal(err)
	}
	name, options, _ := strings.Cut(reflect.StructTag(raw).Get("json"), ",")
	// What was added later is written always, but older records lack it.
	added := reflect.StructTag(raw).Get("schema") == "optional"
	return name, added || strings.Contains(options, "omitempty")
}

func typeSchema(t *testing.T, e ast.Expr, structs map[string]*ast.StructType) object {
	t.Helper()
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeSchema(t, e.X, structs)
	case *ast.ArrayType:
		return object{"type": "array", "items": typeSchema(t, e.Elt, structs)}
	case *ast.Ident:
		if structs[e.Name] != nil {
			return object{"$ref": "#/$defs/" + e.Name}
		}
		switch e.Name {
		case "string":
			return object{"type": "string"}
		case "bool":
			return object{"type": "boolean"}
		case "int", "int64":
			return object{"type": "integer"}
		case "uint64", "uint32":
			return object{"type": "integer", "minimum": 0}
		case "float64":
			return object{"type": "number"}
		}
	}
	t.Fatalf("no schema for the type %T", e)
	return nil
}

// TestSchemaNeedsEveryField takes one field after another out of a valid record.
func TestSchemaNeedsEveryField(t *testing.T) {
	var whole any
	b, err := json.Marshal(withPolicy(sampleRecord()))
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(b); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &whole); err != nil {
		t.Fatal(err)
	}
	fields := 0
	optional := map[string]bool{
		"/resident_blocks": true, "/resident_blocks_reader": true, "/verify": true,
		"/event_threads": true, "/index": true, "/index/memory": true, "/index/shape": true,
		"/config/assign": true, "/config/huge_pages": true,
		"/policy": true, "/config/policy": true, "/config/serial": true, "/config/tracked_for": true,
		"/queries/lookup": true, "/queries/selection": true, "/queries/booking": true, "/queries/upkeep": true,
		"/config/approximate": true, "/config/ttl_ns": true,
		"/resident_blocks/reachable_sum": true, "/resident_blocks/reachable_ranks": true,
	}
	walk(whole, "", func(path string, parent map[string]any, key string) {
		fields++
		kept := parent[key]
		delete(parent, key)
		if err := validateValue(t, whole); (err == nil) != optional[path] {
			t.Errorf("without %s: %v", path, err)
		}
		if _, isText := kept.(string); !isText {
			parent[key] = "text"
			if err := validateValue(t, whole); err == nil {
				t.Errorf("a text for %s was accepted", path)
			}
		}
		parent[key] = kept
	})
	if fields < 150 {
		t.Errorf("only %d fields were tried", fields)
	}
	// Unknown fields are ignored everywhere.
	walk(whole, "", func(_ string, parent map[string]any, _ string) { parent["unknown"] = []any{1, "x"} })
	if err := validateValue(t, whole); err != nil {
		t.Errorf("unknown fields were refused: %v", err)
	}
}

// TestSchemaTakesEmptyRecord has nil lists wherever there are lists.
func TestSchemaTakesEmptyRecord(t *testing.T) {
	r := &Record{Schema: ReplayV1, Kind: KindReplay, Resident: &Resident{}, Verify: &Verify{}, Reader: &Reader{}, Policy: &Policy{}}
	before := *r.Resident
	var b bytes.Buffer
	if err := r.Encode(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "null") {
		t.Errorf("a list is null: %s", b.String())
	}
	if err := Validate(b.Bytes()); err != nil {
		t.Error(err)
	}
	if !reflect.DeepEqual(before, *r.Resident) {
		t.Error("encoding changed the record")
	}
}

func TestValidateSaysWhere(t *testing.T) {
	b, err := json.Marshal(sampleRecord())
	if err != nil {
		t.Fatal(err)
	}
	for change, want := range map[[2]string]string{
		{`"queries":12031,"request`, `"queries":1.5,"request`}:     "/totals/queries: found number 1.5, want an integer",
		{`"role":"query_issuer"`, `"role":7`}:                      "/threads/role: found number, want a string",
		{`"block_ops":2102000`, `"other":1`}:                       "/totals: missing property 'block_ops'",
		{`"kind":"replay"`, `"kind":"other"`}:                      `kind is "other"`,
		{ReplayV1, "kvbench.result/v2"}:                            `schema is "kvbench.result/v2"`,
		{`"dp_rank":0`, `"dp_rank":-1`}:                            "dp_rank: found number -1",
		{`"dp_rank":0`, `"dp_rank":4294967296`}:                    "dp_rank",
		{`"steal_ns":10000000`, `"steal_ns":99999999999999999999`}: "steal_ns",
		{`{"schema"`, `[{"schema"`}:                                "not a result record: line 1",
	} {
		if !bytes.Contains(b, []byte(change[0])) {
			t.Fatalf("%s is not in the record", change[0])
		}
		broken := bytes.Replace(b, []byte(change[0]), []byte(change[1]), 1)
		if err := Validate(broken); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", change[1], err, want)
		}
	}
	if err := Validate(bytes.Replace(b, []byte(`"heap_allocated_bytes":900`), []byte(`"heap_allocated_bytes":1e999999999`), 1)); err == nil || !strings.Contains(err.Error(), "heap_allocated_bytes") {
		t.Errorf("a huge number: %v", err)
	}
	// The schema itself says where too.
	for change, want := range map[[2]string]string{
		{`"queries":12031,"request`, `"queries":1.5,"request`}: "/totals/queries: ",
		{`"role":"query_issuer"`, `"role":7`}:                  "/threads/0/role: ",
		{`"dp_rank":0`, `"dp_rank":-1`}:                        "/resident_blocks/by_rank/0/dp_rank: ",
		{`"kind":"replay"`, `"kind":"other"`}:                  "/kind: ",
		{`{"schema"`, `[{"schema"`}:                            "",
	} {
		broken := bytes.Replace(b, []byte(change[0]), []byte(change[1]), 1)
		if err := matchSchema(broken); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", change[1], err, want)
		}
	}
}

func walk(v any, path string, visit func(path string, parent map[string]any, key string)) {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			walk(v[key], path+"/"+key, visit)
			visit(path+"/"+key, v, key)
		}
	case []any:
		if len(v) > 0 {
			walk(v[0], fmt.Sprintf("%s/0", path), visit)
		}
	}
}

func validateValue(t *testing.T, v any) error {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return matchSchema(b)
}
