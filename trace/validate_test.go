package trace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// validate returns the problems of a text, one line each.
func validate(t testing.TB, r io.Reader, opts ReaderOptions) (Validation, []string) {
	t.Helper()
	var found []string
	v, err := Validate(context.Background(), r, "t", opts, nil, func(p *ParseError) { found = append(found, p.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	if v.Problems != len(found) {
		t.Errorf("%d problems, and %d were given", v.Problems, len(found))
	}
	return v, found
}

// wantProblems compares the beginnings of problems.
func wantProblems(t testing.TB, found []string, want ...string) {
	t.Helper()
	if !slices.EqualFunc(found, want, strings.HasPrefix) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
}

func TestValidateFindsAll(t *testing.T) {
	v, found := validate(t, strings.NewReader(`{"timestamp":-1,"osl":"x","hash_ids":[1,-2]}
{"timestamp":5,"osl":1,"hash_ids":[1]}

not JSON
{"session_id":"a","delay":3,"osl":1,"hash_ids":[1]}
{"session_id":"a","delay":3,"osl":1,"hash_ids":[1]}
{"session_id":"b","timestamp":9,"osl":1,"hash_ids":[1]}
{"session_id":"b","timestamp":8,"osl":1,"hash_ids":[1]}
{"session_id":"b","timestamp":8.5,"osl":1,"hash_ids":[1,2]}
{"osl":1,"hash_ids":[1]}
{"timestamp":5,"osl":1,"hash_i`), ReaderOptions{})
	wantProblems(t, found,
		"t:1: timestamp: ", "t:1: osl: ", "t:1: hash_ids[1]: ", "t:4: is not JSON", "t:5: delay: ",
		"t:8: timestamp: 8 ms is before", "t:10: timestamp: is missing on the first", "t:11: the line ends within")
	if v.Requests != 4 || v.Sessions != 4 || v.Source.Format != Mooncake || len(v.Source.SHA256) != 64 {
		t.Errorf("%+v", v)
	}
}

func TestValidateEndsWhereReadingDoes(t *testing.T) {
	packed := gzipped(manyRows(3000))
	_, found := validate(t, bytes.NewReader(packed[:len(packed)/2]), ReaderOptions{})
	if len(found) != 1 || !strings.Contains(found[0], "the gzip data is cut") {
		t.Errorf("a cut file: %q", found)
	}
	_, found = validate(t, strings.NewReader("\n\n"), ReaderOptions{})
	wantProblems(t, found, "t: has no requests")
	_, found = validate(t, strings.NewReader("[1]"), ReaderOptions{})
	wantProblems(t, found, "t:1: is a JSON list")
	_, found = validate(t, strings.NewReader(strings.Replace(v2Rows, `"version": 2`, `"version": 3`, 1)), ReaderOptions{})
	wantProblems(t, found, "t:1: version: is \"3\"")
	_, found = validate(t, io.MultiReader(strings.NewReader(twoRows), iotest.ErrReader(errors.New("broken disk"))), ReaderOptions{})
	wantProblems(t, found, "t: after line 2: broken disk")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Validate(ctx, strings.NewReader(twoRows), "t", ReaderOptions{}, nil, func(p *ParseError) { t.Error(p) }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The rows of a table are told apart like lines.
func TestValidateTable(t *testing.T) {
	var b bytes.Buffer
	w := NewParquetWriter(&b, 512)
	ok := Request{Delay: math.NaN(), InputLength: 5, HashIDs: []uint64{1}}
	for range 3 {
		if err := w.Write(&ok); err != nil {
			t.Fatal(err)
		}
	}
	// As another program may have written it.
	if _, err := w.out.Write([]parquetRow{{Timestamp: new(float64), Input: -1}, {Timestamp: new(float64), Input: 513, HashIDs: []uint64{1}}, {Input: 1, HashIDs: []uint64{1}}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(&ok), w.Flush()); err != nil {
		t.Fatal(err)
	}
	v, found := validate(t, bytes.NewReader(b.Bytes()), ReaderOptions{})
	wantProblems(t, found, "t:4: input_length: -1 is no length", "t:5: input_length: 513 tokens do not fit 1 ids", "t:6: timestamp: is missing")
	if v.Requests != 4 || v.Source.Format != Parquet {
		t.Errorf("%+v", v)
	}
	if _, _, err := LoadReader(t.Context(), bytes.NewReader(b.Bytes()), "t", ReaderOptions{}, nil); err == nil || !strings.HasPrefix(err.Error(), "t:4: input_length") {
		t.Errorf("loading it: %v", err)
	}
}

// What is valid can be loaded, and the other way round.
func FuzzValidate(f *testing.F) {
	f.Add([]byte(twoRows))
	f.Add([]byte(bailianRow + "\n" + bailianRow))
	f.Add([]byte(v2Rows))
	f.Add([]byte(`{"session_id":"b","timestamp":9,"osl":1,"hash_ids":[1]}` + "\n" + `{"session_id":"b","timestamp":8,"osl":1,"hash_ids":[1]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		opts := ReaderOptions{MaxLineBytes: 1 << 12}
		v, found := validate(t, bytes.NewReader(data), opts)
		tr, _, err := LoadReader(context.Background(), bytes.NewReader(data), "t", opts, nil)
		if (err == nil) != (len(found) == 0) {
			t.Fatalf("loading says %v, and validation %q", err, found)
		}
		if err != nil && err.Error() != found[0] {
			t.Fatalf("loading says %v, and validation first %q", err, found[0])
		}
		if err == nil && (tr.Len() != v.Requests || tr.Sessions() != v.Sessions) {
			t.Fatalf("%d requests in %d sessions, and %+v", tr.Len(), tr.Sessions(), v)
		}
	})
}
