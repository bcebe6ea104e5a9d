package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Reader reads a trace request by request, in whatever format it is written and
// compressed, both found by content unless ReaderOptions says otherwise. It is
// not for concurrent use. It looks at rows alone: what they mean within a
// session is checked by Load.
//
// All text may have a byte order mark, CR LF, blank lines and no end of the last
// line, and may be compressed with gzip or zstd. Fields that are not named are
// ignored, null counts as missing. What is accepted although it is odd is
// counted in Warnings; what was inferred stands in Notes. All else is a
// *ParseError.
//
// A Mooncake line is an object with
//
//	hash_ids       ids of the prompt's blocks, whole numbers from 0 to 2^64-1
//	output_length  tokens; also output_tokens, osl
//	input_length   tokens; also input_tokens. Missing: the block size for each id.
//	               More than that is cut to it, with a warning.
//	timestamp      arrival, ms, a whole or decimal number; also created_time
//	session_id     text or a whole number (7 and "7" name the same session)
//	delay          wait after the session's previous turn, ms; also delay_ms
//
// AIPerf lines are the same, but may have input_length without hash_ids, or
// text_input. A later turn of a session continues the prompt and the answer of
// the turn before it, so it is read as a prompt of that length; blocks that it
// completes are its own, since only what comes first can be shared.
//
// Bailian lines have chat_id, parent_chat_id (-1: none), timestamp in seconds,
// input_length, output_length and hash_ids. A chat and the first one that names
// it as its parent are turns of one session; a further one is a session of its
// own, which begins at its timestamp.
//
// Agentic lines have request_id, and wait_for (version 1) or dependencies
// (version 2). A request that waits for one other is the next turn of its
// session, with delay and tool_wait_ms as the wait. A Trace has no other
// dependency, so of several only the one that ends last by estimate is kept, and
// a second request that waits for the same one, or for its dispatch, begins a
// session at an estimated time. Both are counted in Warnings. What is waited for
// stands before what waits. Memory grows with the number of requests.
//
// An AppliedCompute line is a session: see Format. Azure and BurstGPT rows are
// requests without sessions.
type Reader struct {
	name   string
	opts   ReaderOptions
	format Format
	by     string // what the format was found by, "" if it was named
	lines  *lineReader
	decode decoder
	table  *parquetReader // in the place of lines and decode
	free   func()

	err       error // of an earlier call
	problems  []*ParseError
	generator json.RawMessage
	rows      int
	previous  float64 // timestamp of the last row that had one
	odd       [numOddities]oddity
	row       object // of the current line
	sized     bool   // the block size was given
	notes     []string
}

// decoder reads the lines of one format. Problems go to Reader.fail.
type decoder interface {
	// line reads a line that is not blank. It returns whether req holds a request
	// now; a line may have none.
	line(line []byte, req *Request) bool
	// more fills req with a further request of the last line, if there is one.
	more(req *Request) bool
}

// NewReader makes a reader of r. name is what errors call it. Parquet needs an r
// that can be read anywhere, as an *os.File can.
func NewReader(r io.Reader, name string, opts ReaderOptions) (*Reader, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	out := &Reader{name: name, opts: opts, sized: opts.BlockSize != 0, format: opts.Format, free: func() {}, previous: math.Inf(-1)}
	if err := out.open(r); err != nil {
		out.free()
		var parse *ParseError
		if errors.As(err, &parse) {
			return nil, err
		}
		return nil, &ParseError{File: name, Err: err}
	}
	return out, nil
}

func (r *Reader) open(in io.Reader) error {
	const bufferSize = 256 << 10
	packed := bufio.NewReaderSize(in, bufferSize)
	if head, _ := packed.Peek(4); string(head) == parquetMagic || r.format == Parquet {
		return r.openParquet(in)
	}
	plain, compression, free, err := decompress(packed)
	if err != nil {
		return err
	}
	r.free = free
	buffered, ok := plain.(*bufio.Reader)
	if !ok {
		buffered = bufio.NewReaderSize(plain, bufferSize)
	}
	if head, _ := buffered.Peek(4); compression != "" && string(head) == parquetMagic {
		return fmt.Errorf("is a Parquet file inside %s; decompress it first, as a table is read from its end", compression)
	}
	r.lines = &lineReader{name: r.name, in: buffered, format: compression, most: r.opts.MaxLineBytes}
	first, err := r.lines.peek()
	if err == io.EOF {
		// An empty trace, which Load refuses.
		r.err, r.format = io.EOF, Mooncake
	} else if err != nil {
		// It is for Read to say, as with any other line.
		r.err, r.format = err, Mooncake
	} else if r.format == Auto {
		if r.format, r.by, err = detect(first); err != nil {
			return &ParseError{File: r.name, Line: r.lines.line, Err: err}
		}
	}
	if r.opts.BlockSize == 0 {
		r.opts.BlockSize = r.format.defaultBlockSize()
	}
	if err := r.newDecoder(); err != nil || r.err != nil {
		return err
	}
	if d, ok := r.decode.(*agenticDecoder); ok && d.begins(first) && r.failed() {
		return r.problems[0]
	}
	return nil
}

func (r *Reader) newDecoder() error {
	if r.opts.TimeUnit != "" && r.format == Azure {
		return errors.New("--time-unit has no effect on azure, whose times are dates; leave it out")
	}
	if r.opts.Prefixes != nil && r.format != Azure && r.format != BurstGPT {
		return fmt.Errorf("--shared-prefix is for traces of lengths alone, and this one is %s; leave it out", r.format)
	}
	if r.opts.SessionsPerSecond != 0 && r.format != AppliedCompute {
		return fmt.Errorf("--arrivals-per-second is for traces without arrival times, and this one is %s; leave it out", r.format)
	}
	switch r.format {
	case Bailian:
		r.decode = newBailianDecoder(r)
	case Agentic:
		r.decode = newAgenticDecoder(r)
	case AppliedCompute:
		r.decode = newAppliedComputeDecoder(r)
	case Azure, BurstGPT:
		r.decode = newCSVDecoder(r)
	case AIPerf:
		r.decode = newAIPerfDecoder(r)
	default:
		r.decode = &mooncakeDecoder{r: r}
	}
	return nil
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

// Format returns the format that the trace is read as.
func (r *Reader) Format() Format { return r.format }

// BlockSize returns the number of tokens that an id stands for.
func (r *Reader) BlockSize() int { return r.opts.BlockSize }

// Read fills req with the next request. req.HashIDs is written over and grown as
// needed. At the end it returns io.EOF. After an error it returns the same error
// again.
func (r *Reader) Read(req *Request) error {
	if r.err == nil {
		var problems []*ParseError
		if problems, r.err = r.next(req); r.err == nil && len(problems) > 0 {
			r.err = problems[0]
		}
	}
	return r.err
}

// next fills req with the next request, or returns what is wrong with its row,
// after which it can be called again. err ends the trace.
func (r *Reader) next(req *Request) (problems []*ParseError, err error) {
	if r.err != nil {
		return nil, r.err
	}
	r.problems = r.problems[:0]
	if r.table != nil {
		if err := r.table.read(req); err != nil {
			return nil, err
		}
		if r.failed() {
			return r.problems, nil
		}
		r.finish(req)
		return nil, nil
	}
	for ready := r.decode.more(req); !ready; {
		line, err := r.lines.next()
		if err != nil {
			return nil, err
		}
		ready = r.decode.line(line, req)
		if len(r.problems) > 0 {
			return r.problems, nil
		}
	}
	req.Line = r.lines.line
	r.finish(req)
	return nil, nil
}

// finish notes what is odd about a request.
func (r *Reader) finish(req *Request) {
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
	r.rows++
}

// fail notes what is wrong with a field of the current row.
func (r *Reader) fail(field string, err error) {
	r.problems = append(r.problems, &ParseError{File: r.name, Line: r.lines.line, Field: field, Err: err})
}

// failed says whether anything is wrong with the current row.
func (r *Reader) failed() bool { return len(r.problems) > 0 }

// Generator returns the parameters that the first row records if a generator
// made the trace, else nil. It is known after the first Read.
func (r *Reader) Generator() json.RawMessage { return r.generator }

// Notes says as what the trace is read and what of that was inferred.
func (r *Reader) Notes() []string {
	how := "as told"
	switch {
	case r.by != "":
		how = "found by " + r.by
	case r.opts.Format == Auto:
		how = "assumed, as nothing says otherwise"
	}
	units := r.format.units()
	if r.opts.TimeUnit == "s" {
		units = "times in seconds, as told"
	} else if r.opts.TimeUnit == "ms" {
		units = "times in ms, as told"
	}
	tokens := fmt.Sprintf("%d tokens an id", r.opts.BlockSize)
	if r.opts.BlockSize == 1 {
		tokens = "1 token an id"
	}
	notes := []string{fmt.Sprintf("read as %s (%s): %s, %s", r.format, how, units, tokens)}
	return append(notes, r.notes...)
}

// The oddities that are accepted and counted.
const (
	cutInput = iota
	spareIDs
	emptyPrompt
	unsorted
	lenient
	missingOutput
	failedRequest
	madeUpIDs
	madeUpPrefix
	madeUpText
	madeUpArrival
	unknownParent
	secondChild
	severalDependencies
	estimatedStart
	dispatchTrigger
	lateNotBefore
	accumulated
	numOddities
)

type oddity struct{ rows, firstLine int }

func (r *Reader) note(kind int) {
	o := &r.odd[kind]
	if o.rows++; o.rows == 1 && r.lines != nil {
		o.firstLine = r.lines.line
	}
}

// Warnings says what was odd in the rows read so far and what of them was made
// up or lost, one sentence each.
func (r *Reader) Warnings() []string {
	var w []string
	for kind, o := range r.odd {
		if o.rows == 0 {
			continue
		}
		count, have, are, wait := strconv.Itoa(o.rows)+" rows", "have", "are", "wait"
		if o.rows == 1 {
			count, have, are, wait = "1 row", "has", "is", "waits"
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
		case lenient:
			text = fmt.Sprintf("%s %s numbers as text or with a fraction of 0, which were taken as whole numbers", count, have)
		case missingOutput:
			text = fmt.Sprintf("%s %s no output length and got %d tokens", count, have, r.opts.MissingOutput)
		case failedRequest:
			text = fmt.Sprintf("%s %s an output of 0 tokens: requests that failed when they were recorded", count, have)
		case madeUpIDs:
			text = fmt.Sprintf("%s %s lengths alone and got ids of their own: no prompt shares a prefix with another", count, have)
		case madeUpPrefix:
			text = fmt.Sprintf("%s %s lengths alone; which prefixes they share is made up (%s)", count, have, r.opts.Prefixes)
		case madeUpText:
			text = fmt.Sprintf("%s %s text, whose length was taken as a token for every %v bytes", count, have, r.opts.BytesPerToken)
		case madeUpArrival:
			text = fmt.Sprintf("%s %s no arrival time and got one: %v sessions a second, evenly spaced", count, have, r.opts.SessionsPerSecond)
		case unknownParent:
			text = fmt.Sprintf("%s %s a parent that no earlier row has, and begin sessions", count, have)
		case secondChild:
			text = fmt.Sprintf("%s %s a parent that another row continues already, and begin sessions of their own at their times", count, have)
		case severalDependencies:
			text = fmt.Sprintf("%s %s for several requests, of which only one is kept: the one that ends last if a token of output takes %v ms", count, wait, r.opts.TokenMS)
		case estimatedStart:
			text = fmt.Sprintf("%s %s for a request that another row continues already, and begin sessions of their own at a time that holds if a token of output takes %v ms", count, wait, r.opts.TokenMS)
		case dispatchTrigger:
			text = fmt.Sprintf("%s %s for the dispatch of a request and begin sessions of their own at the time that this is estimated to happen", count, wait)
		case lateNotBefore:
			text = fmt.Sprintf("%s %s a not_before_ms after what they wait for, by estimate, which is not kept", count, have)
		case accumulated:
			text = fmt.Sprintf("%s %s the prompt and the answer of the turn before them put in front, as AIPerf does; blocks that this completes are shared with later turns of the session alone", count, have)
		}
		if o.firstLine > 0 {
			text += fmt.Sprintf(" (first on line %d)", o.firstLine)
		}
		w = append(w, text)
	}
	return w
}
