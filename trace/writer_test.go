package trace

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// optionalTime draws NaN or a time a trace may have.
func optionalTime() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Just(math.NaN()), rapid.Just(0.0), rapid.Map(rapid.IntRange(0, maxTimeMS), func(n int) float64 { return float64(n) }),
		rapid.Float64Range(0, maxTimeMS))
}

func anyRow() *rapid.Generator[Request] {
	return rapid.Custom(func(t *rapid.T) Request {
		ids := rapid.SliceOfN(rapid.Uint64(), 0, 8).Draw(t, "ids")
		return Request{
			Session:      rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, "session"),
			Timestamp:    optionalTime().Draw(t, "timestamp"),
			Delay:        optionalTime().Draw(t, "delay"),
			InputLength:  rapid.IntRange(0, len(ids)*DefaultBlockSize).Draw(t, "input"),
			OutputLength: rapid.IntRange(0, math.MaxInt32).Draw(t, "output"),
			HashIDs:      ids,
		}
	})
}

func write(rows []Request, record string) ([]byte, error) {
	var b bytes.Buffer
	w := NewWriter(&b)
	if record != "" {
		if err := w.SetGenerator([]byte(record)); err != nil {
			return nil, err
		}
	}
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			return nil, err
		}
	}
	err := w.Flush()
	return b.Bytes(), err
}

func TestWriterRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(anyRow(), 1, 5).Draw(t, "rows")
		text, err := write(rows, "")
		if err != nil {
			if strings.Contains(err.Error(), "is not UTF-8") {
				t.Skip("a session without a name in UTF-8")
			}
			t.Fatal(err)
		}
		got, err := readAll(bytes.NewReader(text), ReaderOptions{})
		if err != nil || len(got) != len(rows) {
			t.Fatalf("%d rows, %v, from %s", len(got), err, text)
		}
		for i := range rows {
			rows[i].Line = i + 1
			if !same(got[i], rows[i]) {
				t.Fatalf("row %d is %+v, want %+v, from %s", i, got[i], rows[i], text)
			}
		}
	})
}

func TestWriterForm(t *testing.T) {
	nan := math.NaN()
	got, err := write([]Request{
		{0, "a", 12, nan, 600, 3, []uint64{1, 2}},
		{0, "a", nan, 0.25, 1024, 4, []uint64{1, 3}},
		{0, "", 1e-7, nan, 0, 0, nil},
	}, "{\n \"name\": \"x\"\n}")
	want := `{"_generator": {"name":"x"}, "timestamp": 12, "session_id": "a", "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}
{"session_id": "a", "delay": 0.25, "input_length": 1024, "output_length": 4, "hash_ids": [1, 3]}
{"timestamp": 1e-07, "input_length": 0, "output_length": 0, "hash_ids": []}
`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	r, err := NewReader(bytes.NewReader(got), "t", ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var q Request
	for range 3 {
		if err := r.Read(&q); err != nil {
			t.Fatal(err)
		}
		if string(r.Generator()) != `{"name":"x"}` {
			t.Errorf("the generator is %s", r.Generator())
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	good := Request{0, "", 0, math.NaN(), 1, 1, []uint64{1}}
	for field, change := range map[string]func(*Request){
		"timestamp":     func(q *Request) { q.Timestamp = math.Inf(1) },
		"delay":         func(q *Request) { q.Delay = -1 },
		"input_length":  func(q *Request) { q.InputLength = -1 },
		"output_length": func(q *Request) { q.OutputLength = 1 << 31 },
		"session_id":    func(q *Request) { q.Session = "\xff" },
	} {
		bad := good
		change(&bad)
		if _, err := write([]Request{good, bad}, ""); err == nil || !strings.Contains(err.Error(), "row 2 to write: "+field) {
			t.Errorf("bad %s: %v", field, err)
		}
		bad.InputLength = min(bad.InputLength, 1)
		if _, err := New(512, []Request{good, bad}); err == nil || !strings.Contains(err.Error(), "request 1: "+field) {
			t.Errorf("bad %s for New: %v", field, err)
		}
	}
	if _, err := New(512, []Request{{InputLength: 513, HashIDs: []uint64{1}}}); err == nil || !strings.Contains(err.Error(), "input_length: 513 tokens do not fit 1 ids") {
		t.Errorf("prompt without ids: %v", err)
	}
	if _, err := New(0, nil); err == nil {
		t.Error("a block size of 0 is accepted")
	}

	if _, err := write(nil, "{"); err == nil {
		t.Error("a record that is no JSON is accepted")
	}
	w := NewWriter(&bytes.Buffer{})
	if err := w.Write(&good); err != nil {
		t.Fatal(err)
	}
	if err := w.SetGenerator([]byte("{}")); err == nil {
		t.Error("SetGenerator after the first row")
	}
	full := NewWriter(fullDisk{})
	if err := errors.Join(full.Write(&good), full.Flush()); !errors.Is(err, errFull) {
		t.Errorf("full disk: %v", err)
	}
}

var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestWriterAllocates(t *testing.T) {
	w := NewWriter(&bytes.Buffer{})
	q := Request{0, "", 12.5, math.NaN(), 5000, 3, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}
	w.w.Reset(discard{})
	if err := w.Write(&q); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if err := w.Write(&q); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a row", n)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// FuzzReader feeds anything to the reader. It must not panic, its errors must
// name the file, and the rows it accepts must survive writing and reading.
func FuzzReader(f *testing.F) {
	f.Add([]byte(twoRows))
	f.Add(gzipped(twoRows))
	f.Add(zstdPacked(twoRows))
	f.Add([]byte(`{"timestamp": 1.5e2, "session_id": "\ud800", "delay": null, "input_length": 2, "osl": 1, "hash_ids": [18446744073709551615 , 0]}`))
	f.Add([]byte("\xef\xbb\xbf\r\n{\"_generator\": {\"a\": [1]}, \"timestamp\": NaN, \"hash_ids\": [1e3, -1, \"x\"]}"))
	f.Add([]byte(`{"a\\":"\\\"","b":[{"c":"]"}],"hash_ids":[],"output_tokens":0,"timestamp":1}{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		opts := ReaderOptions{MaxLineBytes: 1 << 16}
		rows, err := readAll(bytes.NewReader(data), opts)
		var parse *ParseError
		if err != nil && (!errors.As(err, &parse) || !strings.HasPrefix(err.Error(), "t.jsonl")) {
			t.Fatalf("the error is %v", err)
		}
		text, err := write(rows, "")
		if err != nil {
			t.Fatalf("an accepted row cannot be written: %v", err)
		}
		again, err := readAll(bytes.NewReader(text), ReaderOptions{})
		if err != nil || len(again) != len(rows) {
			t.Fatalf("%d of %d rows read again, %v", len(again), len(rows), err)
		}
		for i := range rows {
			rows[i].Line = i + 1
			if !same(again[i], rows[i]) {
				t.Fatalf("row %d was %+v and is %+v", i, rows[i], again[i])
			}
		}
		// A trace is refused or describable, whatever the rows mean together.
		if tr, err := New(DefaultBlockSize, rows); err == nil {
			if info := Describe(tr); info.Requests != len(rows) {
				t.Fatalf("described as %+v", info)
			}
		}
	})
}
