package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Reader reads a Mooncake trace row by row: JSON lines, plain or compressed with
// gzip or zstd, which is recognised by content. It is not for concurrent use.
//
// A line is an object with
//
//	hash_ids       ids of the prompt's blocks, whole numbers from 0 to 2^64-1
//	output_length  tokens; also output_tokens, osl
//	input_length   tokens; also input_tokens. Missing: BlockSize for each id.
//	               More than that is cut to it, with a warning.
//	timestamp      arrival, ms, a whole or decimal number
//	session_id     text or a whole number (7 and "7" name the same session)
//	delay          wait after the session's previous turn, ms; also delay_ms
//
// and other fields, which are ignored. The first two are required; null counts
// as missing. A byte order mark, CR LF, blank lines and a missing last line end
// are accepted. All else is a *ParseError. A Reader looks at rows alone: what
// they mean within a session is checked by Load.
type Reader struct {
	name   string
	opts   ReaderOptions
	in     *bufio.Reader
	format string // of the compression, for errors
	free   func()

	line      int
	long      []byte // a line that does not fit the buffer of in
	err       error  // of an earlier call
	generator json.RawMessage
	rows      int
	previous  float64 // timestamp of the last row that had one
	odd       [numOddities]oddity
}

// NewReader makes a reader of r. name is what errors call it.
func NewReader(r io.Reader, name string, opts ReaderOptions) (*Reader, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	const bufferSize = 256 << 10
	plain, format, free, err := decompress(bufio.NewReaderSize(r, bufferSize))
	if err != nil {
		return nil, &ParseError{File: name, Err: err}
	}
	in, ok := plain.(*bufio.Reader)
	if !ok {
		in = bufio.NewReaderSize(plain, bufferSize)
	}
	return &Reader{name: name, opts: opts, in: in, format: format, free: free, previous: math.Inf(-1)}, nil
}

// Close frees what the reader holds. It does not close what it reads from.
func (r *Reader) Close() error {
	if r.free != nil {
		r.free()
		r.free = nil
		r.err = errors.New("trace: the reader is closed")
	}
	return nil
}

// Read fills req with the next row. req.HashIDs is written over and grown as
// needed. At the end it returns io.EOF. After an error it returns the same error
// again.
func (r *Reader) Read(req *Request) error {
	if r.err == nil {
		r.err = r.read(req)
	}
	return r.err
}

func (r *Reader) read(req *Request) error {
	for {
		line, err := r.readLine()
		if err != nil {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if field, err := r.parse(line, req); err != nil {
			return &ParseError{File: r.name, Line: r.line, Field: field, Err: err}
		}
		req.Line = r.line
		return nil
	}
}

// readLine returns the next line, borrowed until the next call.
func (r *Reader) readLine() ([]byte, error) {
	r.long = r.long[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
			if r.format != "" {
				err = badCompression(r.format, err)
			}
			return nil, &ParseError{File: r.name, Err: fmt.Errorf("after line %d: %w", r.line, err)}
		}
		if err == io.EOF && len(part)+len(r.long) == 0 {
			return nil, io.EOF
		}
		if length := len(r.long) + len(bytes.TrimRight(part, "\r\n")); length > r.opts.MaxLineBytes {
			return nil, &ParseError{File: r.name, Line: r.line + 1, Err: fmt.Errorf(
				"the line is longer than %d bytes; is it JSON lines, one request a line? If it is, raise it with --max-line-bytes", r.opts.MaxLineBytes)}
		}
		if err == bufio.ErrBufferFull {
			r.long = append(r.long, part...)
			continue
		}
		if len(r.long) > 0 {
			r.long = append(r.long, part...)
			part = r.long
		}
		if r.line++; r.line == 1 {
			part = bytes.TrimPrefix(part, []byte("\xef\xbb\xbf"))
		}
		return part, nil
	}
}

// The fields of a row, in the order of fieldNames.
const (
	fieldTimestamp = iota
	fieldHashIDs
	fieldInput
	fieldOutput
	fieldSession
	fieldDelay
	fieldGenerator
	numFields
)

var fieldNames = [numFields]string{"timestamp", "hash_ids", "input_length", "output_length", "session_id", "delay", "_generator"}

func fieldOf(key []byte) int {
	switch string(key) {
	case "timestamp":
		return fieldTimestamp
	case "hash_ids":
		return fieldHashIDs
	case "input_length", "input_tokens":
		return fieldInput
	case "output_length", "output_tokens", "osl":
		return fieldOutput
	case "session_id":
		return fieldSession
	case "delay", "delay_ms":
		return fieldDelay
	case "_generator":
		return fieldGenerator
	}
	return -1
}

// parse fills req from a line. Its error is about the named field.
func (r *Reader) parse(line []byte, req *Request) (field string, err error) {
	if !json.Valid(line) {
		return diagnose(line)
	}
	if line[0] != '{' {
		return "", fmt.Errorf("%s is no JSON object; give one request a line, as in {\"timestamp\": 0, \"hash_ids\": [1, 2], \"output_length\": 10}",
			excerpt(string(line)))
	}
	var values, keys [numFields][]byte
	for s := (scanner{b: line, i: 1}); ; {
		key, value, ok := s.next()
		if !ok {
			break
		}
		f := fieldOf(key)
		if f < 0 {
			continue
		}
		if keys[f] != nil {
			return string(key), fmt.Errorf("is given twice, the other time as %s; keep one", keys[f])
		}
		keys[f] = key
		if string(value) != "null" {
			values[f] = value
		}
	}
	name := func(f int) string {
		if keys[f] != nil {
			return string(keys[f])
		}
		return fieldNames[f]
	}

	req.Timestamp, req.Delay, req.Session = math.NaN(), math.NaN(), ""
	if v := values[fieldTimestamp]; v != nil {
		if req.Timestamp, err = parseTime(v); err != nil {
			return name(fieldTimestamp), err
		}
	}
	if v := values[fieldDelay]; v != nil {
		if req.Delay, err = parseTime(v); err != nil {
			return name(fieldDelay), err
		}
	}
	if v := values[fieldSession]; v != nil {
		if req.Session, err = parseSession(v); err != nil {
			return name(fieldSession), err
		}
	}
	if values[fieldHashIDs] == nil {
		return name(fieldHashIDs), errors.New("is missing; give the ids of the prompt's blocks, as in [1, 2, 3]")
	}
	var bad int
	if req.HashIDs, bad, err = parseIDs(values[fieldHashIDs], req.HashIDs[:0]); err != nil {
		if bad < 0 {
			return name(fieldHashIDs), err
		}
		return fmt.Sprintf("%s[%d]", name(fieldHashIDs), bad), err
	}
	if values[fieldOutput] == nil {
		return name(fieldOutput), errors.New("is missing; give the number of tokens that the request generates")
	}
	if req.OutputLength, err = parseLength(values[fieldOutput]); err != nil {
		return name(fieldOutput), err
	}

	limit := len(req.HashIDs) * r.opts.BlockSize
	if v := values[fieldInput]; v != nil {
		if req.InputLength, err = parseLength(v); err != nil {
			return name(fieldInput), err
		}
		if req.InputLength > limit {
			r.note(cutInput)
			req.InputLength = limit
		}
	} else if req.InputLength = limit; limit > maxLength {
		return name(fieldInput), fmt.Errorf("is missing, and %d ids of %d tokens are longer than %d tokens; give the length", len(req.HashIDs), r.opts.BlockSize, maxLength)
	}
	if blocks := (req.InputLength + r.opts.BlockSize - 1) / r.opts.BlockSize; len(req.HashIDs) > blocks {
		r.note(spareIDs)
	}
	if req.InputLength == 0 {
		r.note(emptyPrompt)
	}
	if req.Timestamp < r.previous {
		r.note(unsorted)
	}
	if !math.IsNaN(req.Timestamp) {
		r.previous = req.Timestamp
	}
	if r.rows++; r.rows == 1 && values[fieldGenerator] != nil {
		r.generator = slices.Clone(values[fieldGenerator])
	}
	return "", nil
}

// Generator returns the parameters that the first row records if a generator
// made the trace, else nil. It is known after the first Read.
func (r *Reader) Generator() json.RawMessage { return r.generator }

// The oddities that are accepted and counted.
const (
	cutInput = iota
	spareIDs
	emptyPrompt
	unsorted
	numOddities
)

type oddity struct{ rows, firstLine int }

func (r *Reader) note(kind int) {
	o := &r.odd[kind]
	if o.rows++; o.rows == 1 {
		o.firstLine = r.line
	}
}

// Warnings says what was odd in the rows read so far, one sentence each.
func (r *Reader) Warnings() []string {
	var w []string
	for kind, o := range r.odd {
		if o.rows == 0 {
			continue
		}
		count, have, are := strconv.Itoa(o.rows)+" rows", "have", "are"
		if o.rows == 1 {
			count, have, are = "1 row", "has", "is"
		}
		var text string
		switch kind {
		case cutInput:
			text = fmt.Sprintf("%s %s an input_length above %d tokens for each id, which was cut to that", count, have, r.opts.BlockSize)
		case spareIDs:
			text = fmt.Sprintf("%s %s more ids than input_length needs at %d tokens an id", count, have, r.opts.BlockSize)
		case emptyPrompt:
			text = fmt.Sprintf("%s %s an empty prompt", count, have)
		case unsorted:
			text = fmt.Sprintf("%s %s out of the order of time", count, are)
		}
		w = append(w, fmt.Sprintf("%s (first on line %d)", text, o.firstLine))
	}
	return w
}

// scanner walks the members of an object that is known to be valid JSON.
type scanner struct {
	b []byte
	i int // after the opening brace
}

// next returns the next member: its key without quotes and escapes, and its
// value as written.
func (s *scanner) next() (key, value []byte, ok bool) {
	s.skip(" \t\r\n,")
	if s.b[s.i] == '}' {
		return nil, nil, false
	}
	start := s.i
	s.i = valueEnd(s.b, s.i)
	key = s.b[start+1 : s.i-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		var k string
		// It is valid, or the line would not have passed.
		_ = json.Unmarshal(s.b[start:s.i], &k)
		key = []byte(k)
	}
	s.skip(" \t\r\n:")
	start = s.i
	s.i = valueEnd(s.b, s.i)
	return key, s.b[start:s.i], true
}

func (s *scanner) skip(chars string) {
	for strings.IndexByte(chars, s.b[s.i]) >= 0 {
		s.i++
	}
}

// valueEnd returns the index after the JSON value that begins at b[i].
func valueEnd(b []byte, i int) int {
	depth := 0
	for ; ; i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of what holds a number or a word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return i
			}
		}
	}
}

// parseIDs appends the ids of a JSON array to ids. bad is the element that an
// error is about, -1 if it is about the array.
func parseIDs(v []byte, ids []uint64) (_ []uint64, bad int, err error) {
	if v[0] != '[' {
		return ids, -1, fmt.Errorf("%s is no list; give the ids of the prompt's blocks, as in [1, 2, 3]", excerpt(string(v)))
	}
	for i := 1; ; {
		for v[i] == ' ' || v[i] == ',' || v[i] == '\t' || v[i] == '\r' || v[i] == '\n' {
			i++
		}
		if v[i] == ']' {
			return ids, -1, nil
		}
		start, id := i, uint64(0)
		for ; v[i]-'0' <= 9; i++ {
			digit := uint64(v[i] - '0')
			if id > (math.MaxUint64-digit)/10 {
				return ids, len(ids), badID(v[start:valueEnd(v, start)])
			}
			id = id*10 + digit
		}
		if i == start || v[i] == '.' || v[i] == 'e' || v[i] == 'E' {
			return ids, len(ids), badID(v[start:valueEnd(v, start)])
		}
		ids = append(ids, id)
	}
}

func badID(v []byte) error {
	text := excerpt(string(v))
	switch {
	case v[0] == '"':
		return fmt.Errorf("%s is text; write the id as a number, without quotes", text)
	case v[0] == '-':
		return fmt.Errorf("%s is negative; ids go from 0 to 2^64-1, so write signed ones as unsigned", text)
	case v[0] < '0' || v[0] > '9':
		return fmt.Errorf("%s is no id; give a whole number from 0 to 2^64-1", text)
	case bytes.ContainsAny(v, ".eE"):
		return fmt.Errorf("%s is a floating-point number, which does not hold every id exactly; write ids as whole numbers, without a fraction or an exponent", text)
	}
	return fmt.Errorf("%s is above 2^64-1; ids are 64 bits wide, so number or hash them again", text)
}

// maxTimeMS bounds times, so that sums of them stay exact enough to be played in
// ns. Milliseconds since 1970 are below it.
const maxTimeMS = 2e12

func farTime(text string) error {
	return fmt.Errorf("%s is more than %g ms, over 60 years; times are in ms, from the trace's own origin or from 1970", text, float64(maxTimeMS))
}

func parseTime(v []byte) (float64, error) {
	if v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return 0, badTime(excerpt(string(v)))
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < 0 {
		return 0, badTime(excerpt(string(v)))
	}
	if f > maxTimeMS {
		return 0, farTime(excerpt(string(v)))
	}
	return f + 0, nil // -0 is 0
}

func parseLength(v []byte) (int, error) {
	n, err := strconv.ParseUint(string(v), 10, 31)
	if err != nil {
		return 0, badLength(excerpt(string(v)))
	}
	return int(n), nil
}

func parseSession(v []byte) (string, error) {
	if v[0] != '"' {
		if _, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return string(v), nil
		}
		if _, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return string(v), nil
		}
		return "", fmt.Errorf("%s is no name; give text or a whole number", excerpt(string(v)))
	}
	if !utf8.Valid(v) {
		return "", fmt.Errorf("%s is not UTF-8; rename the session", excerpt(string(v)))
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "", err
	}
	if s == "" {
		return "", errors.New("is empty; give the session a name, or leave the field out if the row is alone")
	}
	return s, nil
}

// diagnose says what is wrong with a line that is not JSON, and in which field.
func diagnose(line []byte) (field string, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	var key json.Token
	depth := 0
	wantKey := false
	for {
		token, tokenErr := d.Token()
		if tokenErr != nil {
			break
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			wantKey = depth == 1 && token == json.Delim('{')
		case json.Delim('}'), json.Delim(']'):
			depth--
			wantKey = depth == 1
		default:
			if depth == 1 && wantKey {
				key = token
			}
			wantKey = depth == 1 && !wantKey
		}
		if depth == 0 {
			key = nil
			break
		}
	}
	if name, ok := key.(string); ok && !wantKey {
		field = name
	}
	rest := strings.TrimLeft(string(line[min(int(d.InputOffset()), len(line)):]), " \t\r\n:,")
	for _, word := range []string{"NaN", "Infinity", "-Infinity", "nan", "inf", "-inf", "None"} {
		if strings.HasPrefix(rest, word) {
			return field, fmt.Errorf("%s is not in JSON; give a number, or leave the field out", word)
		}
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(line, new(json.RawMessage)); !errors.As(err, &syntax) {
		return field, fmt.Errorf("is not JSON: %w", err)
	}
	if syntax.Offset >= int64(len(line)) && strings.Contains(syntax.Error(), "unexpected end") {
		return field, errors.New("the line ends within the request; the file is cut, or was read while it was written")
	}
	return field, fmt.Errorf("is not JSON at byte %d (%w); give one JSON object a line", syntax.Offset, syntax)
}
