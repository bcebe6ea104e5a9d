// Package trace holds requests as a trace records them: reading and writing
// traces, transforming them, generating new ones and describing them.
//
// It knows nothing of engines, KV events or routers: a trace says which blocks
// of content a prompt consists of, by opaque ids, and when it arrives.
package trace

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/kvbench/kvbench/internal/spool"
)

// Request is one row of a trace.
type Request struct {
	// Line is the 1-based line of the file that the row came from, 0 if it was
	// made by a generator.
	Line int
	// Session names the conversation that the row is a turn of. Turns of a
	// session keep the order of the file. Empty: a session of this row alone.
	Session string
	// Timestamp is the arrival in ms from the trace's own origin, NaN if the
	// row has none. The first turn of a session in a Trace has one.
	Timestamp float64
	// Delay is the think time in ms between the end of the session's previous
	// turn and this one. NaN: the row gives none. In a Trace it is NaN for the
	// first turn of a session and a number for all later ones.
	Delay float64
	// InputLength and OutputLength are in tokens.
	InputLength  int
	OutputLength int
	// HashIDs names the content of each block of Trace.BlockSize tokens. The
	// last one may name a partial block.
	HashIDs []uint64
}

// DefaultBlockSize is the number of tokens that one hash id stands for in the
// public Mooncake traces.
const DefaultBlockSize = 512

// maxLength is the largest length of a prompt, an output or a block in tokens.
const maxLength = math.MaxInt32

// Trace is a whole trace in memory, or with ReaderOptions.Spool in files that are
// mapped. Its rows and ids lie in flat slices, so that
// a million requests are a handful of objects for the collector. A Trace is
// built by a reader or a transform and then only read; concurrent reads are safe.
type Trace struct {
	// BlockSize is the number of tokens that a hash id stands for.
	BlockSize int

	rows     []row
	ids      []uint64
	sessions []session
	turns    []uint32         // row numbers, grouped by session, in turn order
	spools   *spools          // that rows and ids lie in; nil: in memory
	mappings [2]spool.Mapping // of these
}

type row struct {
	timestamp float64
	delay     float64
	input     uint32
	output    uint32
	firstID   uint64
	numIDs    uint32
	session   uint32
	line      uint32
}

type session struct {
	name      string
	firstTurn uint32
	numTurns  uint32
}

// New makes a trace of requests, whose ids stand for blockSize tokens. What a
// later turn of a session waits is its Delay, else the difference of its
// Timestamp to the last one in the session, else 0. Errors name the request by
// its number from 0. Without requests it is an empty trace.
func New(blockSize int, requests []Request) (*Trace, error) {
	if err := checkBlockSize(blockSize); err != nil {
		return nil, err
	}
	b := builder{blockSize: blockSize}
	for i := range requests {
		if field, err := b.add(&requests[i]); err != nil {
			return nil, fmt.Errorf("request %d: %s: %w", i, field, err)
		}
	}
	return b.trace(), nil
}

// Len returns the number of requests.
func (t *Trace) Len() int { return len(t.rows) }

// Request returns row i in file order. HashIDs aliases the trace's memory.
func (t *Trace) Request(i int) Request {
	r := &t.rows[i]
	return Request{
		Line:         int(r.line),
		Session:      t.sessions[r.session].name,
		Timestamp:    r.timestamp,
		Delay:        r.delay,
		InputLength:  int(r.input),
		OutputLength: int(r.output),
		HashIDs:      t.hashIDs(i),
	}
}

func (t *Trace) hashIDs(i int) []uint64 {
	r := &t.rows[i]
	end := r.firstID + uint64(r.numIDs)
	return t.ids[r.firstID:end:end]
}

// Sessions returns the number of sessions, in the order of their first rows.
func (t *Trace) Sessions() int { return len(t.sessions) }

// Turns returns the row numbers of session s in turn order. The slice aliases
// the trace's memory.
func (t *Trace) Turns(s int) []uint32 {
	ss := &t.sessions[s]
	return t.turns[ss.firstTurn : ss.firstTurn+ss.numTurns]
}

// SessionOf returns the session number of row i.
func (t *Trace) SessionOf(i int) int { return int(t.rows[i].session) }

// start returns the arrival of session s in ms.
func (t *Trace) start(s int) float64 {
	return t.rows[t.turns[t.sessions[s].firstTurn]].timestamp
}

// builder collects rows into a trace and settles what a row means in its
// session.
type builder struct {
	blockSize int
	rows      []row
	ids       []uint64
	sessions  []session
	turns     Turns
	spools    *spools // nil: rows and ids are kept here
}

// add appends a row. Its error is about the named field.
func (b *builder) add(q *Request) (field string, err error) {
	if field, err := checkRequest(q); err != nil {
		return field, err
	}
	if err := checkFit(q, b.blockSize); err != nil {
		return "input_length", err
	}
	if b.len() >= math.MaxUint32 || uint64(q.Line) > math.MaxUint32 {
		return "hash_ids", errors.New("a trace holds at most 2^32-1 rows; split it")
	}
	delay, s, field, err := b.turns.settle(q)
	if err != nil {
		return field, err
	}
	if s == uint32(len(b.sessions)) {
		b.sessions = append(b.sessions, session{name: q.Session})
	}
	b.sessions[s].numTurns++
	r := row{
		timestamp: q.Timestamp, delay: delay, input: uint32(q.InputLength), output: uint32(q.OutputLength),
		firstID: uint64(b.numIDs()), numIDs: uint32(len(q.HashIDs)), session: s, line: uint32(q.Line),
	}
	if b.spools != nil {
		return "", errors.Join(b.spools.rows.Add(r), b.spools.ids.Add(q.HashIDs...))
	}
	b.rows = append(b.rows, r)
	b.ids = append(b.ids, q.HashIDs...)
	return "", nil
}

func (b *builder) len() int {
	if b.spools != nil {
		return b.spools.rows.Len()
	}
	return len(b.rows)
}

func (b *builder) numIDs() int {
	if b.spools != nil {
		return b.spools.ids.Len()
	}
	return len(b.ids)
}

// trace ends the building.
func (b *builder) trace() *Trace {
	t := &Trace{BlockSize: b.blockSize, rows: b.rows, ids: b.ids, sessions: b.sessions}
	t.group()
	return t
}

// group fills turns and firstTurn from the sessions of the rows.
func (t *Trace) group() {
	next := uint32(0)
	for i := range t.sessions {
		s := &t.sessions[i]
		s.firstTurn, next = next, next+s.numTurns
		s.numTurns = 0
	}
	t.turns = make([]uint32, len(t.rows))
	for i := range t.rows {
		s := &t.sessions[t.rows[i].session]
		t.turns[s.firstTurn+s.numTurns] = uint32(i)
		s.numTurns++
	}
}

// checkRequest refuses what no row may have. Its error is about the named field.
func checkRequest(q *Request) (field string, err error) {
	switch {
	case q.Timestamp < 0 || math.IsInf(q.Timestamp, 0):
		return "timestamp", badTime(fmt.Sprint(q.Timestamp))
	case q.Delay < 0 || math.IsInf(q.Delay, 0):
		return "delay", badTime(fmt.Sprint(q.Delay))
	case q.Timestamp > maxTimeMS:
		return "timestamp", farTime(fmt.Sprint(q.Timestamp))
	case q.Delay > maxTimeMS:
		return "delay", farTime(fmt.Sprint(q.Delay))
	case q.InputLength < 0 || q.InputLength > maxLength:
		return "input_length", badLength(fmt.Sprint(q.InputLength))
	case q.OutputLength < 0 || q.OutputLength > maxLength:
		return "output_length", badLength(fmt.Sprint(q.OutputLength))
	case len(q.HashIDs) > math.MaxUint32:
		return "hash_ids", errors.New("a row holds at most 2^32-1 ids")
	case !utf8.ValidString(q.Session):
		return "session_id", fmt.Errorf("%s is not UTF-8; rename the session", excerpt(q.Session))
	}
	return "", nil
}

// checkFit refuses a prompt that is longer than its ids.
func checkFit(q *Request, blockSize int) error {
	if limit := len(q.HashIDs) * blockSize; q.InputLength > limit {
		return fmt.Errorf("%d tokens do not fit %d ids of %d tokens; give an id for every block",
			q.InputLength, len(q.HashIDs), blockSize)
	}
	return nil
}

func checkBlockSize(n int) error {
	if n < 1 || n > maxLength {
		return fmt.Errorf("--trace-block-size is %d; give the tokens that an id of the trace stands for, such as %d", n, DefaultBlockSize)
	}
	return nil
}

func badTime(text string) error {
	return fmt.Errorf("%s is no time; give a finite number, 0 or more", text)
}

func badLength(text string) error {
	return fmt.Errorf("%s is no length; give a whole number of tokens from 0 to %d, without a fraction or an exponent", text, maxLength)
}

// excerpt quotes text for an error and cuts what is long.
func excerpt(text string) string {
	const most = 40
	if len(text) <= most {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q...", text[:most])
}
