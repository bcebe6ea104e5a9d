package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The fields of a row that a decoder knows.
const (
	fieldTimestamp = iota
	fieldHashIDs
	fieldInput
	fieldOutput
	fieldSession
	fieldDelay
	fieldGenerator
	fieldText
	fieldChat
	fieldParent
	fieldRequest
	fieldWaitFor
	fieldBranches
	fieldToolWait
	fieldDependencies
	fieldNotBefore
	fieldSchema
	fieldVersion
	fieldBlockSize
	fieldTurns
	fieldPrompt
	fieldResponses
	fieldToolTokens
	fieldToolSeconds
	fieldFinal
	numFields
)

var fieldNames = [numFields]string{
	"timestamp", "hash_ids", "input_length", "output_length", "session_id", "delay", "_generator",
	"text_input", "chat_id", "parent_chat_id",
	"request_id", "wait_for", "branches", "tool_wait_ms", "dependencies", "not_before_ms", "schema", "version", "block_size",
	"num_turns", "input_prompt_length", "assistant_response_length", "tool_call_output_length", "tool_call_latency", "final_assistant_response_length",
}

func fieldOf(key []byte) int {
	// The compiler makes no copies of key for these.
	switch string(key) {
	case "created_time":
		return fieldTimestamp
	case "input_tokens":
		return fieldInput
	case "output_tokens", "osl":
		return fieldOutput
	case "delay_ms":
		return fieldDelay
	}
	for f := range fieldNames {
		if fieldNames[f] == string(key) {
			return f
		}
	}
	return -1
}

// object is a line of JSON whose known members were found.
type object struct {
	keys, values [numFields][]byte // as written; null has no value
}

// name returns the name of a field as the line has it.
func (o *object) name(f int) string {
	if o.keys[f] != nil {
		return string(o.keys[f])
	}
	return fieldNames[f]
}

// object finds the known members of a line. If it cannot, that has failed.
func (r *Reader) object(line []byte) (*object, bool) {
	if !json.Valid(line) {
		field, err := diagnose(line)
		r.fail(field, err)
		return nil, false
	}
	if line[0] != '{' {
		r.fail("", fmt.Errorf("%s is no JSON object; give one request a line, as in {\"timestamp\": 0, \"hash_ids\": [1, 2], \"output_length\": 10}",
			excerpt(string(line))))
		return nil, false
	}
	o := &r.row
	*o = object{}
	for s := (scanner{b: line, i: 1}); ; {
		key, value, ok := s.next()
		if !ok {
			return o, !r.failed()
		}
		f := fieldOf(key)
		if f < 0 {
			continue
		}
		if o.keys[f] != nil {
			r.fail(string(key), fmt.Errorf("is given twice, the other time as %s; keep one", o.keys[f]))
			continue
		}
		o.keys[f] = key
		if string(value) != "null" {
			o.values[f] = value
		}
	}
}

func validObject(line []byte) bool { return line[0] == '{' && json.Valid(line) }

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
// error is about, -1 if it is about the array. With lax it accepts what
// ReaderOptions.Lenient says and then sets odd.
func parseIDs(v []byte, ids []uint64, lax bool, odd *bool) (_ []uint64, bad int, err error) {
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
		start, id, exact := i, uint64(0), true
		for ; v[i]-'0' <= 9; i++ {
			digit := uint64(v[i] - '0')
			if id > (math.MaxUint64-digit)/10 {
				exact = false
			}
			id = id*10 + digit
		}
		if !exact || i == start || v[i] == '.' || v[i] == 'e' || v[i] == 'E' {
			i = valueEnd(v, start)
			if id, exact = wholeNumber(v[start:i]); !exact || !lax {
				return ids, len(ids), badID(v[start:i])
			}
			*odd = true
		}
		ids = append(ids, id)
	}
}

// wholeNumber reads a whole number that is written as text, or with a fraction or
// an exponent, and that is exact for all that.
func wholeNumber(v []byte) (uint64, bool) {
	if len(v) > 1 && v[0] == '"' {
		if v = v[1 : len(v)-1]; len(v) == 0 {
			return 0, false
		}
		if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return n, true
		}
	}
	if v[0] < '0' || v[0] > '9' || !bytes.ContainsAny(v, ".eE") {
		return 0, false
	}
	// Of floating-point numbers above this, not every whole number is one.
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || f >= 1<<53 {
		return 0, false
	}
	return uint64(f), true
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

// parseTime reads a time as ms, from seconds if they are.
func parseTime(v []byte, seconds bool) (float64, error) {
	if v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return 0, badTime(excerpt(string(v)))
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || !(f >= 0) {
		return 0, badTime(excerpt(string(v)))
	}
	if seconds {
		f = fromSeconds(f)
	}
	if f > maxTimeMS {
		return 0, farTime(excerpt(string(v)))
	}
	return f + 0, nil // -0 is 0
}

// fromSeconds returns seconds as ms. What has at most nine decimals gives the
// number that is nearest to the true one, so that 61.114 s are 61114 ms.
func fromSeconds(s float64) float64 {
	ms := s * 1000
	if ns := math.Round(s * 1e9); ns < 1<<53 && math.Abs(ns/1e9-s) <= math.Abs(s)*0x1p-52 {
		ms = ns / 1e6
	}
	return ms
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
