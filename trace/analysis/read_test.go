package analysis

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/trace"
)

// What is read in a stream is what is loaded.
func TestRead(t *testing.T) {
	tr := generated(t, func(*trace.GenerateParams) {})
	var lines bytes.Buffer
	w := trace.NewWriter(&lines)
	if err := errors.Join(w.WriteTrace(tr), w.Flush()); err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	pw := trace.NewParquetWriter(&table, tr.BlockSize)
	for i := range tr.Len() {
		q := tr.Request(i)
		if err := pw.Write(&q); err != nil {
			t.Fatal(err)
		}
	}
	if err := pw.Flush(); err != nil {
		t.Fatal(err)
	}
	want, err := Describe(tr, Options{CacheBlocks: []int{100}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"a.jsonl": lines.Bytes(), "a.parquet": table.Bytes()} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var last int64
		c, src, err := Read(t.Context(), f, path, trace.ReaderOptions{}, Options{CacheBlocks: []int{100}}, func(done, total int64) {
			if last = done; total != int64(len(content)) {
				t.Errorf("total %d, want %d", total, len(content))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		_, loaded, err := trace.Load(t.Context(), path, trace.ReaderOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(src, loaded) {
			t.Errorf("source %+v, want %+v", src, loaded)
		}
		if last != int64(len(content)) {
			t.Errorf("progress to %d of %d", last, len(content))
		}
		if got := c.Info(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got  %+v\nwant %+v", name, got, want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}

	c, src, err := Read(t.Context(), bytes.NewReader(lines.Bytes()), "x", trace.ReaderOptions{}, Options{Requests: 7}, nil)
	if err != nil || c.Info().Requests != 7 || src.Bytes != int64(lines.Len()) {
		t.Errorf("the first 7: %v, %d bytes of %d", err, src.Bytes, lines.Len())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Read(ctx, &lines, "x", trace.ReaderOptions{}, Options{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestReadErrors(t *testing.T) {
	row := `{"timestamp": 5, "input_length": 5, "output_length": 1, "hash_ids": [1], "session_id": "a"}` + "\n"
	for text, want := range map[string]string{
		"":                                      "x: has no requests",
		"{}":                                    "x:1:",
		"\n5":                                   "x:2:",
		row + strings.Replace(row, "5", "4", 1): "x:2: timestamp: 4 ms is before the 5 ms",
		strings.Replace(row, `"timestamp": 5, `, "", 1):                                "x:1: timestamp: is missing",
		`{"timestamp": 5, "delay": 3, "output_length": 1, "hash_ids": [1]}`:            "x:1: delay: 3 ms",
		strings.Replace(row, `"input_length": 5`, `"input_length": "a"`, 1) + row + "": "x:1:",
	} {
		_, _, err := Read(t.Context(), strings.NewReader(text), "x", trace.ReaderOptions{}, Options{}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
