package trace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func load(text string, opts ReaderOptions) (*Trace, Source, error) {
	return LoadReader(context.Background(), strings.NewReader(text), "dir/t.jsonl", opts, nil)
}

// readAll returns the rows of a trace, whose ids do not alias.
func readAll(r io.Reader, opts ReaderOptions) ([]Request, error) {
	reader, err := NewReader(r, "t.jsonl", opts)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var rows []Request
	for {
		var q Request
		if err := reader.Read(&q); err == io.EOF {
			return rows, nil
		} else if err != nil {
			return rows, err
		}
		rows = append(rows, q)
	}
}

// same compares rows, NaN being equal to NaN.
func same(a, b Request) bool {
	eq := func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) }
	return a.Line == b.Line && a.Session == b.Session && eq(a.Timestamp, b.Timestamp) && eq(a.Delay, b.Delay) &&
		a.InputLength == b.InputLength && a.OutputLength == b.OutputLength && slices.Equal(a.HashIDs, b.HashIDs)
}

func TestReaderAccepts(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		name, text string
		want       Request
	}{
		{"public form", `{"timestamp": 27482, "input_length": 600, "output_length": 52, "hash_ids": [46, 47]}`,
			Request{1, "", 27482, nan, 600, 52, []uint64{46, 47}}},
		{"aliases", `{"timestamp":0.5,"input_tokens":3,"output_tokens":4,"hash_ids":[1],"session_id":"a","delay_ms":1.5}`,
			Request{1, "a", 0.5, 1.5, 3, 4, []uint64{1}}},
		{"osl", `{"timestamp":1e3,"osl":4,"hash_ids":[1]}`, Request{1, "", 1000, nan, 512, 4, []uint64{1}}},
		{"extreme ids", `{"timestamp":0,"osl":1,"hash_ids":[0,18446744073709551615]}`,
			Request{1, "", 0, nan, 1024, 1, []uint64{0, math.MaxUint64}}},
		{"number as session", `{"timestamp":0,"osl":1,"hash_ids":[1],"session_id":-7}`, Request{1, "-7", 0, nan, 512, 1, []uint64{1}}},
		{"large number as session", `{"timestamp":0,"osl":1,"hash_ids":[1],"session_id":18446744073709551615}`,
			Request{1, "18446744073709551615", 0, nan, 512, 1, []uint64{1}}},
		{"escapes", `{"time\u0073tamp":3,"osl":1,"hash_ids":[1],"session_id":"\"\u00e9\\"}`, Request{1, `"é\`, 3, nan, 512, 1, []uint64{1}}},
		{"nulls are absent", `{"timestamp":null,"delay":null,"session_id":null,"input_length":null,"osl":1,"hash_ids":[1]}`,
			Request{1, "", nan, nan, 512, 1, []uint64{1}}},
		{"unknown fields", `{"x":{"hash_ids":["}",[{}]]},"timestamp":0,"y":"\"]}","osl":1,"hash_ids":[1],"z":[[]],"w":-1.5e3,"v":true}`,
			Request{1, "", 0, nan, 512, 1, []uint64{1}}},
		{"spaces", " \t{ \"timestamp\" : 0 , \"osl\" :\t1 , \"hash_ids\" : [ 1 ,\t2 ] } ", Request{1, "", 0, nan, 1024, 1, []uint64{1, 2}}},
		{"byte order mark", "\xef\xbb\xbf" + `{"timestamp":0,"osl":1,"hash_ids":[1]}`, Request{1, "", 0, nan, 512, 1, []uint64{1}}},
		{"blank lines and CR LF", "\r\n \r\n" + `{"timestamp":0,"osl":1,"hash_ids":[1]}` + "\r\n\r\n", Request{3, "", 0, nan, 512, 1, []uint64{1}}},
		{"no ids", `{"timestamp":0,"osl":0,"hash_ids":[]}`, Request{1, "", 0, nan, 0, 0, nil}},
		{"cut input", `{"timestamp":0,"osl":1,"input_length":513,"hash_ids":[1]}`, Request{1, "", 0, nan, 512, 1, []uint64{1}}},
		{"minus zero", `{"timestamp":-0.0,"osl":1,"hash_ids":[1]}`, Request{1, "", 0, nan, 512, 1, []uint64{1}}},
		{"most tokens", `{"timestamp":0,"osl":2147483647,"input_length":2147483647,"hash_ids":[1]}`,
			Request{1, "", 0, nan, 512, math.MaxInt32, []uint64{1}}},
	} {
		rows, err := readAll(strings.NewReader(tc.text), ReaderOptions{})
		if err != nil || len(rows) != 1 || !same(rows[0], tc.want) {
			t.Errorf("%s: got %+v, %v, want %+v", tc.name, rows, err, tc.want)
		}
		if len(rows) == 1 && math.Signbit(rows[0].Timestamp) {
			t.Errorf("%s: a time of -0", tc.name)
		}
	}
}

// Each bad row stands on line 2, after a good one.
func TestBadRows(t *testing.T) {
	for _, tc := range []struct{ name, row, field, want string }{
		{"id as text", `{"timestamp":0,"osl":1,"hash_ids":[1,"2"]}`, "hash_ids[1]", `"\"2\"" is text`},
		{"id as float", `{"timestamp":0,"osl":1,"hash_ids":[1.0]}`, "hash_ids[0]", `"1.0" is a floating-point number`},
		{"id with an exponent", `{"timestamp":0,"osl":1,"hash_ids":[1,2,3,1e3]}`, "hash_ids[3]", `"1e3" is a floating-point`},
		{"id with a capital exponent", `{"timestamp":0,"osl":1,"hash_ids":[9E18]}`, "hash_ids[0]", `"9E18" is a floating-point`},
		{"negative id", `{"timestamp":0,"osl":1,"hash_ids":[-5]}`, "hash_ids[0]", `"-5" is negative`},
		{"id above 64 bits", `{"timestamp":0,"osl":1,"hash_ids":[18446744073709551616]}`, "hash_ids[0]", `"18446744073709551616" is above 2^64-1`},
		{"id far above 64 bits", `{"timestamp":0,"osl":1,"hash_ids":[` + strings.Repeat("9", 100) + `]}`, "hash_ids[0]", `99"... is above 2^64-1`},
		{"large float id", `{"timestamp":0,"osl":1,"hash_ids":[99999999999999999999.5]}`, "hash_ids[0]", "floating-point"},
		{"null id", `{"timestamp":0,"osl":1,"hash_ids":[null]}`, "hash_ids[0]", `"null" is no id`},
		{"list as id", `{"timestamp":0,"osl":1,"hash_ids":[[1]]}`, "hash_ids[0]", `"[1]" is no id`},
		{"ids no list", `{"timestamp":0,"osl":1,"hash_ids":{"a":1}}`, "hash_ids", "is no list"},
		{"ids as text", `{"timestamp":0,"osl":1,"hash_ids":"1 2"}`, "hash_ids", "is no list"},
		{"ids missing", `{"timestamp":0,"osl":1}`, "hash_ids", "is missing"},
		{"ids null", `{"timestamp":0,"osl":1,"hash_ids":null}`, "hash_ids", "is missing"},
		{"output missing", `{"timestamp":0,"hash_ids":[1]}`, "output_length", "is missing"},
		{"output null", `{"timestamp":0,"output_tokens":null,"hash_ids":[1]}`, "output_tokens", "is missing"},
		{"output text", `{"timestamp":0,"output_length":"5","hash_ids":[1]}`, "output_length", `"\"5\"" is no length`},
		{"output negative", `{"timestamp":0,"output_length":-1,"hash_ids":[1]}`, "output_length", `"-1" is no length`},
		{"output fraction", `{"timestamp":0,"osl":5.0,"hash_ids":[1]}`, "osl", `"5.0" is no length`},
		{"output too large", `{"timestamp":0,"osl":2147483648,"hash_ids":[1]}`, "osl", `"2147483648" is no length`},
		{"input with an exponent", `{"timestamp":0,"osl":1,"input_length":1e3,"hash_ids":[1]}`, "input_length", `"1e3" is no length`},
		{"input list", `{"timestamp":0,"osl":1,"input_tokens":[],"hash_ids":[1]}`, "input_tokens", "is no length"},
		{"time negative", `{"timestamp":-1,"osl":1,"hash_ids":[1]}`, "timestamp", `"-1" is no time`},
		{"time NaN", `{"timestamp": NaN, "osl":1,"hash_ids":[1]}`, "timestamp", `NaN is not in JSON`},
		{"time Infinity", `{"osl":1,"hash_ids":[1],"timestamp":-Infinity}`, "timestamp", `-Infinity is not in JSON`},
		{"time not finite", `{"timestamp":1e400,"osl":1,"hash_ids":[1]}`, "timestamp", `"1e400" is no time`},
		{"time as text", `{"timestamp":"12","osl":1,"hash_ids":[1]}`, "timestamp", `"\"12\"" is no time`},
		{"delay negative", `{"timestamp":0,"session_id":"a","delay":-0.5,"osl":1,"hash_ids":[1]}`, "delay", `"-0.5" is no time`},
		{"delay true", `{"timestamp":0,"session_id":"a","delay_ms":true,"osl":1,"hash_ids":[1]}`, "delay_ms", `"true" is no time`},
		{"NaN as id", `{"timestamp":0,"osl":1,"hash_ids":[1,NaN]}`, "hash_ids", "NaN is not in JSON"},
		{"session fraction", `{"timestamp":0,"session_id":1.5,"osl":1,"hash_ids":[1]}`, "session_id", "is no name"},
		{"session list", `{"timestamp":0,"session_id":["a"],"osl":1,"hash_ids":[1]}`, "session_id", "is no name"},
		{"session empty", `{"timestamp":0,"session_id":"","osl":1,"hash_ids":[1]}`, "session_id", "is empty"},
		{"session not UTF-8", `{"timestamp":0,"session_id":"` + "\xff" + `","osl":1,"hash_ids":[1]}`, "session_id", "is not UTF-8"},
		{"key twice", `{"timestamp":0,"osl":1,"hash_ids":[1],"timestamp":1}`, "timestamp", "is given twice"},
		{"null key twice", `{"timestamp":null,"osl":1,"hash_ids":[1],"timestamp":1}`, "timestamp", "is given twice"},
		{"key and alias", `{"timestamp":0,"osl":1,"output_length":1,"hash_ids":[1]}`, "output_length", "the other time as osl"},
		{"cut in a list", `{"timestamp":0,"osl":1,"hash_ids":[1, 2`, "hash_ids", "the line ends within the request"},
		{"cut in a key", `{"timestamp":0,"osl":1,"hash_i`, "", "the line ends within the request"},
		{"cut before a value", `{"timestamp":0,"osl":`, "osl", "the line ends within the request"},
		{"not JSON", `timestamp,osl`, "", "is not JSON at byte"},
		{"quotes missing", `{timestamp:0}`, "", "is not JSON at byte"},
		{"trailing garbage", `{"timestamp":0,"osl":1,"hash_ids":[1]} x`, "", "is not JSON at byte"},
		{"two objects", `{"timestamp":0,"osl":1,"hash_ids":[1]}{"timestamp":0,"osl":1,"hash_ids":[1]}`, "", "is not JSON at byte"},
		{"a list", `[1, 2]`, "", "is no JSON object"},
		{"a number", `7`, "", "is no JSON object"},
		{"nested too deep", strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "", "is not JSON"},

		{"no time", `{"osl":1,"hash_ids":[1]}`, "timestamp", "is missing on the first turn"},
		{"no time in a session", `{"session_id":"a","osl":1,"hash_ids":[1]}`, "timestamp", "is missing on the first turn"},
		{"delay on a first turn", `{"timestamp":0,"session_id":"a","delay":1,"osl":1,"hash_ids":[1]}`, "delay", "on the first turn"},
		{"delay without a session", `{"timestamp":0,"delay":1,"osl":1,"hash_ids":[1]}`, "delay", "on the first turn"},
		{"back in time in a session", `{"timestamp":9.5,"session_id":"first","osl":1,"hash_ids":[1]}`, "timestamp", "9.5 ms is before the 10 ms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			good := `{"timestamp":10,"session_id":"first","osl":1,"hash_ids":[1]}` + "\n"
			_, _, err := load(good+tc.row+"\n", ReaderOptions{})
			var parse *ParseError
			if !errors.As(err, &parse) {
				t.Fatalf("got %v, want a ParseError", err)
			}
			if parse.File != "dir/t.jsonl" || parse.Line != 2 || parse.Field != tc.field || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q in field %q, want %q in %q", err, parse.Field, tc.want, tc.field)
			}
			prefix := "dir/t.jsonl:2: "
			if tc.field != "" {
				prefix += tc.field + ": "
			}
			if !strings.HasPrefix(err.Error(), prefix) || strings.Contains(err.Error(), "\n") || !utf8.ValidString(err.Error()) || len(err.Error()) > 300 {
				t.Errorf("the error reads %q", err)
			}
			// Whatever is wrong says what to do, after a semicolon or a comma.
			if !strings.ContainsAny(err.Error(), ";,") {
				t.Errorf("%q has no remedy", err)
			}
		})
	}
}

func TestMissingInputTooLong(t *testing.T) {
	_, _, err := load(`{"timestamp":0,"osl":1,"hash_ids":[1,2,3]}`, ReaderOptions{BlockSize: 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "t.jsonl:1: input_length: is missing, and 3 ids of 1073741824 tokens") {
		t.Errorf("got %v", err)
	}
}

func TestSessions(t *testing.T) {
	tr, src, err := load(`{"timestamp":100,"session_id":"a","osl":1,"hash_ids":[1]}
{"timestamp":50,"osl":1,"hash_ids":[9]}
{"timestamp":150,"session_id":"a","delay":7,"osl":1,"hash_ids":[1,2]}
{"timestamp":60,"session_id":3,"delay":0,"osl":1,"hash_ids":[8]}
{"timestamp":170.5,"session_id":"a","osl":1,"hash_ids":[1,2,3]}
{"session_id":"a","osl":1,"hash_ids":[1,2,3,4]}
{"timestamp":61,"session_id":"3","osl":1,"hash_ids":[8]}
{"timestamp":190,"session_id":"a","osl":1,"hash_ids":[5]}
`, ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	want := [][]Request{
		{{1, "a", 100, nan, 512, 1, []uint64{1}}, {3, "a", 150, 7, 1024, 1, []uint64{1, 2}}, {5, "a", 170.5, 20.5, 1536, 1, []uint64{1, 2, 3}},
			{6, "a", nan, 0, 2048, 1, []uint64{1, 2, 3, 4}}, {8, "a", 190, 19.5, 512, 1, []uint64{5}}},
		{{2, "", 50, nan, 512, 1, []uint64{9}}},
		{{4, "3", 60, nan, 512, 1, []uint64{8}}, {7, "3", 61, 1, 512, 1, []uint64{8}}},
	}
	if tr.Len() != 8 || tr.Sessions() != len(want) {
		t.Fatalf("%d rows in %d sessions", tr.Len(), tr.Sessions())
	}
	for s := range want {
		turns := tr.Turns(s)
		if len(turns) != len(want[s]) {
			t.Fatalf("session %d has turns %v", s, turns)
		}
		for k, i := range turns {
			if got := tr.Request(int(i)); !same(got, want[s][k]) || tr.SessionOf(int(i)) != s || int(i)+1 != got.Line {
				t.Errorf("turn %d of session %d is %+v, want %+v", k, s, got, want[s][k])
			}
		}
	}
	if want := []string{"3 rows are out of the order of time (first on line 2)"}; !slices.Equal(src.Warnings, want) {
		t.Errorf("warnings %q, want %q", src.Warnings, want)
	}
}

func TestWarnings(t *testing.T) {
	_, src, err := load(`{"timestamp":5,"input_length":2000,"osl":1,"hash_ids":[1]}
{"timestamp":5,"input_length":512,"osl":1,"hash_ids":[1]}
{"timestamp":4,"input_length":512,"osl":1,"hash_ids":[1,2]}
{"timestamp":4,"input_length":513,"osl":1,"hash_ids":[1]}
{"timestamp":4,"input_length":0,"osl":1,"hash_ids":[]}
`, ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"2 rows have an input_length above 512 tokens for each id, which was cut to that (first on line 1)",
		"1 row has more ids than input_length needs at 512 tokens an id (first on line 3)",
		"1 row has an empty prompt (first on line 5)",
		"1 row is out of the order of time (first on line 3)",
	}
	if !slices.Equal(src.Warnings, want) {
		t.Errorf("warnings %q, want %q", src.Warnings, want)
	}
}

const twoRows = `{"timestamp":0,"osl":1,"hash_ids":[1,2,3]}
{"timestamp":1,"osl":2,"hash_ids":[1,2,4]}
`

func gzipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}

func zstdPacked(text string) []byte {
	z, _ := zstd.NewWriter(nil)
	return z.EncodeAll([]byte(text), nil)
}

func TestCompression(t *testing.T) {
	// Incompressible, so that a cut in the middle is one in the rows.
	long := manyRows(3000)
	var wide bytes.Buffer // as zstd --long=27 writes it
	z, err := zstd.NewWriter(&wide, zstd.WithWindowSize(128<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	z.Write([]byte(twoRows[:20]))
	z.Flush()
	z.Write([]byte(twoRows[20:]))
	z.Close()
	skippable := append([]byte("\x52\x2a\x4d\x18\x03\x00\x00\x00abc"), zstdPacked(twoRows)...)
	for name, data := range map[string][]byte{
		"plain": []byte(twoRows), "gzip": gzipped(twoRows), "zstd": zstdPacked(twoRows),
		"gzip in parts": append(gzipped(twoRows[:20]), gzipped(twoRows[20:])...),
		"zstd in parts": append(zstdPacked(twoRows[:20]), zstdPacked(twoRows[20:])...),
		"skippable":     skippable,
		"wide window":   wide.Bytes(),
	} {
		// The name says nothing, and reads may be short.
		path := filepath.Join(t.TempDir(), "trace.txt")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		tr, src, err := Load(t.Context(), path, ReaderOptions{}, nil)
		if err != nil || tr.Len() != 2 || !slices.Equal(tr.Request(1).HashIDs, []uint64{1, 2, 4}) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := (Source{Name: "trace.txt", SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(data)), Format: Mooncake,
			Notes: []string{"read as mooncake (found by the field hash_ids): times in ms, 512 tokens an id"}}); !reflect.DeepEqual(src, want) {
			t.Errorf("%s: source %+v, want %+v", name, src, want)
		}
		if _, _, err := LoadReader(t.Context(), iotest.OneByteReader(bytes.NewReader(data)), "x", ReaderOptions{}, nil); err != nil {
			t.Errorf("%s in single bytes: %v", name, err)
		}
	}
	for format, data := range map[string][]byte{"gzip": gzipped(long), "zstd": zstdPacked(long)} {
		for _, n := range []int{3, 5, len(data) / 2, len(data) - 1} {
			if format == "zstd" && n == 3 || format == "gzip" && n == 1 {
				continue // less than its magic number
			}
			_, _, err := LoadReader(t.Context(), bytes.NewReader(data[:n]), "cut", ReaderOptions{}, nil)
			var parse *ParseError
			if !errors.As(err, &parse) || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "the "+format+" data is cut") {
				t.Errorf("%s cut to %d of %d bytes: %v", format, n, len(data), err)
			}
		}
		damaged := slices.Clone(data)
		for i := len(data) / 2; i < len(data)/2+20; i++ {
			damaged[i] ^= 0x55
		}
		if _, _, err := LoadReader(t.Context(), bytes.NewReader(damaged), "damaged", ReaderOptions{}, nil); err == nil {
			t.Errorf("damaged %s is accepted", format)
		}
	}
	for magic, name := range map[string]string{"BZh91AY": "bzip2", "PK\x03\x04abc": "zip", "\xfd7zXZ\x00": "xz", "PAR1\x15": "Parquet"} {
		if _, _, err := load(magic, ReaderOptions{}); err == nil || !strings.Contains(err.Error(), "is a "+name+" file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoTrace(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Load(t.Context(), dir, ReaderOptions{}, nil); err == nil || !strings.Contains(err.Error(), dir+": is a directory") {
		t.Errorf("directory: %v", err)
	}
	missing := filepath.Join(dir, "missing.jsonl")
	if _, _, err := Load(t.Context(), missing, ReaderOptions{}, nil); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing file: %v", err)
	}
	for name, data := range map[string]string{"empty": "", "blank": "\n\r\n  \n", "mark": "\xef\xbb\xbf",
		"gzip": string(gzipped("")), "zstd": string(zstdPacked("\n"))} {
		if _, _, err := load(data, ReaderOptions{}); err == nil || !strings.HasPrefix(err.Error(), "dir/t.jsonl: has no requests") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, opts := range []ReaderOptions{{BlockSize: -1}, {BlockSize: 1 << 31}, {MaxLineBytes: -1}} {
		if _, _, err := load(twoRows, opts); err == nil {
			t.Errorf("%+v is accepted", opts)
		}
	}
	broken := errors.New("broken disk")
	r := io.MultiReader(strings.NewReader(twoRows), iotest.ErrReader(broken))
	if _, _, err := LoadReader(t.Context(), r, "x", ReaderOptions{}, nil); !errors.Is(err, broken) || !strings.Contains(err.Error(), "after line 2") {
		t.Errorf("failing reader: %v", err)
	}
}

// endless gives the same bytes for ever and counts how many were asked for.
type endless struct {
	chunk []byte
	given int64
	most  int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.given >= e.most {
		return 0, io.EOF
	}
	n := copy(p, e.chunk)
	e.given += int64(n)
	return n, nil
}

func TestLongLine(t *testing.T) {
	chunk := []byte(strings.Repeat("1, ", 10000))
	start := `{"timestamp":0,"osl":1,"hash_ids":[`
	for _, tc := range []struct {
		opts  ReaderOptions
		limit int64
	}{{ReaderOptions{}, 64 << 20}, {ReaderOptions{MaxLineBytes: 1 << 20}, 1 << 20}, {ReaderOptions{MaxLineBytes: 100}, 100}} {
		e := &endless{chunk: chunk, most: 100 << 20}
		in := io.MultiReader(strings.NewReader(twoRows+start), e)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := LoadReader(t.Context(), in, "t", tc.opts, nil)
		runtime.ReadMemStats(&after)
		var parse *ParseError
		if !errors.As(err, &parse) || parse.Line != 3 || !strings.Contains(err.Error(), fmt.Sprintf("longer than %d bytes", tc.limit)) ||
			!strings.Contains(err.Error(), "--max-line-bytes") {
			t.Errorf("got %v", err)
		}
		if e.given > tc.limit+(1<<20) {
			t.Errorf("%d bytes were read for a limit of %d", e.given, tc.limit)
		}
		// A slice that grows by a quarter each time takes five times its end size in all.
		if got := int64(after.TotalAlloc - before.TotalAlloc); got > 6*tc.limit+(4<<20) {
			t.Errorf("%d bytes were allocated for a limit of %d", got, tc.limit)
		}
	}

	// The limit itself is accepted, whatever ends the line.
	row := strings.TrimSuffix(twoRows[:strings.Index(twoRows, "\n")], "\n")
	for _, end := range []string{"", "\n", "\r\n"} {
		if _, _, err := load(row+end, ReaderOptions{MaxLineBytes: len(row)}); err != nil {
			t.Errorf("a line of the longest length is refused: %v", err)
		}
		if _, _, err := load(row+end, ReaderOptions{MaxLineBytes: len(row) - 1}); err == nil {
			t.Error("a line above the longest length is accepted")
		}
	}
	// Lines around the size of the buffer are put together right.
	for _, n := range []int{256<<10 - 1, 256 << 10, 256<<10 + 1, 512<<10 + 1, 1 << 20} {
		pad := fmt.Sprintf(`{"timestamp":7,"osl":1,"hash_ids":[5],"pad":"%s"}`, strings.Repeat("x", n-45))
		rows, err := readAll(strings.NewReader(pad+"\n"+twoRows), ReaderOptions{})
		if err != nil || len(rows) != 3 || rows[0].Timestamp != 7 || rows[1].Line != 2 {
			t.Errorf("line of %d bytes: %d rows, %v", len(pad), len(rows), err)
		}
	}
}

func TestReaderEndsAndErrorsStay(t *testing.T) {
	r, err := NewReader(strings.NewReader(twoRows+"x\n"+twoRows), "t", ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	q := Request{HashIDs: make([]uint64, 0, 100)}
	storage := &q.HashIDs[:1][0]
	for range 2 {
		if err := r.Read(&q); err != nil || &q.HashIDs[0] != storage {
			t.Fatalf("%v, or the storage of the ids is not used again", err)
		}
	}
	first := r.Read(&q)
	if second := r.Read(&q); first == nil || second != first {
		t.Errorf("first %v, then %v", first, second)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if err := r.Read(&q); err == nil || err == io.EOF {
		t.Errorf("reading a closed reader: %v", err)
	}
}

func TestLoadProgressAndCancel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	text := manyRows(12000)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var done []int64
	if _, _, err := Load(t.Context(), path, ReaderOptions{}, func(d, total int64) {
		if total != int64(len(text)) {
			t.Fatalf("total is %d, want %d", total, len(text))
		}
		done = append(done, d)
	}); err != nil {
		t.Fatal(err)
	}
	if len(done) < 4 || done[0] != 0 || done[len(done)-1] != int64(len(text)) || !slices.IsSorted(done) {
		t.Errorf("progress %v of %d", done, len(text))
	}

	ctx, cancel := context.WithCancel(t.Context())
	last := int64(0)
	_, _, err := Load(ctx, path, ReaderOptions{}, func(d, _ int64) {
		if last = d; d > 0 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || last == int64(len(text)) {
		t.Errorf("cancelled at %d: %v", last, err)
	}
}

// manyRows is the text of n rows with 24 ids each.
func manyRows(n int) string {
	var b strings.Builder
	id := uint64(1)
	for i := range n {
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": 12100, "output_length": 300, "hash_ids": [`, i)
		for k := range 24 {
			if k > 0 {
				b.WriteString(", ")
			}
			id = id*6364136223846793005 + 1442695040888963407
			fmt.Fprint(&b, id>>44)
		}
		b.WriteString("]}\n")
	}
	return b.String()
}

// rowStream repeats rows with n bytes of text that is not kept.
func rowStream(rows int, junk int) io.Reader {
	line := fmt.Sprintf(`{"timestamp": 5, "input_length": 12100, "output_length": 300, "text": "%s", "hash_ids": [%s1]}`+"\n",
		strings.Repeat("x", junk), strings.Repeat("123456, ", 23))
	return &repeat{line: []byte(line), left: rows}
}

type repeat struct {
	line []byte
	left int
	rest []byte
}

func (r *repeat) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		r.left--
		r.rest = r.line
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Memory grows with what is kept: 65 MB of text make 2.2 MB of trace, in a handful
// of objects.
func TestMemoryGrowsWithWhatIsKept(t *testing.T) {
	const rows, junk = 8000, 8000
	kept := int64(rows * (24*8 + 48 + 24 + 8 + 4))
	heap := func() (bytes, objects int64) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc), int64(m.HeapObjects)
	}
	bytes, objects := heap()
	tr, _, err := LoadReader(t.Context(), rowStream(rows, junk), "t", ReaderOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	bytesAfter, objectsAfter := heap()
	if got := bytesAfter - bytes; got > kept*3/2 {
		t.Errorf("%d bytes are live after loading what takes %d", got, kept)
	}
	if got := objectsAfter - objects; got > rows/20 {
		t.Errorf("%d objects are live after loading %d rows", got, rows)
	}
	runtime.KeepAlive(tr)
}

func BenchmarkLoad(b *testing.B) {
	const rows = 100000
	text := manyRows(rows)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		if _, _, err := LoadReader(b.Context(), strings.NewReader(text), "t", ReaderOptions{}, nil); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(rows/time.Since(start).Seconds(), "rows/s")
	}
}
