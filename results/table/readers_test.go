package table

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pythonVariable names a Python that has testdata/requirements.txt.
const pythonVariable = "TEST_PYTHON"

func python(t *testing.T) string {
	t.Helper()
	path := os.Getenv(pythonVariable)
	if path == "" {
		t.Skipf("%s is not set: nobody but kvbench reads the tables. Make a virtual environment, pip install -r results/table/testdata/requirements.txt, and name its python", pythonVariable)
	}
	return path
}

// TestOtherReaders has DuckDB, pandas and polars read tables and compares every
// value.
func TestOtherReaders(t *testing.T) {
	t.Run("trials", otherReaders[Trial])
	t.Run("requests", otherReaders[Request])
	t.Run("decisions", otherReaders[Decision])
	t.Run("operations", otherReaders[Operation])
}

func otherReaders[T Row](t *testing.T) {
	run := python(t)
	rows := randomRows[T](7, 1500)
	dir := t.TempDir()
	path := filepath.Join(dir, "x.parquet")
	write(t, path, rows, 1500)
	type column struct {
		name   string
		values []any
	}
	typ := reflect.TypeFor[T]()
	var b strings.Builder // an object keeps no order in Go
	b.WriteString("{")
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("parquet"), ",")
		c := column{name: name, values: make([]any, len(rows))}
		for r := range rows {
			c.values[r] = plain(reflect.ValueOf(rows[r]).Field(i))
		}
		text, err := json.Marshal(c.values)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(strconv.Quote(name) + ":" + string(text))
	}
	b.WriteString("}")
	expected, err := json.Marshal(map[string]any{"path": path, "schema": SchemaOf[T](), "columns": json.RawMessage(b.String())})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "expected.json")
	if err := os.WriteFile(file, expected, 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(run, "testdata/readers.py", file).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// plain writes a value as readers.py does.
func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = plain(v.Index(i))
		}
		return out
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.Uint64, reflect.Uint32:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Int64, reflect.Int32:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.String:
		return v.String()
	}
	return strconv.FormatInt(v.Interface().(time.Time).UnixNano(), 10)
}

// TestOneLiners runs the commands of the document that read a table.
func TestOneLiners(t *testing.T) {
	run := python(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "trials.parquet"), randomRows[Trial](8, 50), 50)
	doc, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for line := range strings.Lines(string(doc)) {
		if !strings.HasPrefix(line, "python3 -c ") {
			continue
		}
		commands++
		cmd := exec.Command("bash", "-ec", "python3() { '"+run+"' \"$@\"; }\n"+line)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("%s: %v\n%s", strings.TrimSpace(line), err, out)
		}
	}
	if commands != 3 {
		t.Errorf("the document has %d commands that read a table", commands)
	}
}
