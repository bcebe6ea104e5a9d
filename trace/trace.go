// Package trace holds requests as a trace records them: reading and writing
// traces, transforming them, generating new ones and describing them.
//
// It knows nothing of engines, KV events or routers: a trace says which blocks
// of content a prompt consists of, by opaque ids, and when it arrives.
package trace

// Request is one row of a trace.
type Request struct {
	// Line is the 1-based line of the file that the row came from, 0 if it was
	// made by a generator.
	Line int
	// Session names the conversation that the row is a turn of. Turns of a
	// session keep the order of the file. Empty: a session of this row alone.
	Session string
	// Timestamp is the arrival in ms from the trace's own origin, NaN if the
	// row has none.
	Timestamp float64
	// Delay is the think time in ms between the end of the session's previous
	// turn and this one, NaN if the row gives none.
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

// Trace is a whole trace in memory. Its rows and ids lie in flat slices, so that
// a million requests are a handful of objects for the collector. A Trace is
// built by a reader or a transform and then only read; concurrent reads are safe.
type Trace struct {
	// BlockSize is the number of tokens that a hash id stands for.
	BlockSize int

	rows     []row
	ids      []uint64
	sessions []session
	turns    []uint32 // row numbers, grouped by session, in turn order
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
		HashIDs:      t.ids[r.firstID : r.firstID+uint64(r.numIDs) : r.firstID+uint64(r.numIDs)],
	}
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
