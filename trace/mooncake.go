package trace

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// mooncakeDecoder reads lines of Mooncake: see Reader.
type mooncakeDecoder struct{ r *Reader }

func (d *mooncakeDecoder) more(*Request) bool { return false }

func (d *mooncakeDecoder) line(line []byte, req *Request) bool {
	r := d.r
	o, ok := r.object(line)
	if !ok {
		return false
	}
	// Whatever the form of the line says, dependencies never go unnoticed.
	for _, f := range []int{fieldWaitFor, fieldDependencies} {
		if v := o.values[f]; v != nil && string(v) != "[]" {
			r.fail(o.name(f), errors.New("the request waits for others; pass --format agentic to read it with what can be kept of that"))
			return false
		}
	}
	r.common(o, req)
	if o.values[fieldHashIDs] == nil {
		switch {
		case o.values[fieldText] != nil:
			r.fail("text_input", errors.New("the row has text; pass --format aiperf, and --bytes-per-token as the length of text takes a tokenizer"))
		case o.values[fieldInput] != nil:
			r.fail(o.name(fieldHashIDs), errors.New("is missing; give the ids of the prompt's blocks, as in [1, 2, 3], or pass --format aiperf for rows of lengths alone"))
		default:
			r.fail(o.name(fieldHashIDs), errors.New("is missing; give the ids of the prompt's blocks, as in [1, 2, 3]"))
		}
	} else {
		r.ids(o, req)
		r.input(o, req)
	}
	if r.failed() {
		return false
	}
	if r.rows == 0 && o.values[fieldGenerator] != nil {
		r.generator = slices.Clone(o.values[fieldGenerator])
	}
	return true
}

// common reads what forms of JSON lines have in common: times, session and
// output length.
func (r *Reader) common(o *object, req *Request) {
	req.Timestamp, req.Delay, req.Session = math.NaN(), math.NaN(), ""
	req.Timestamp = r.time(o, fieldTimestamp)
	req.Delay = r.time(o, fieldDelay)
	if v := o.values[fieldSession]; v != nil {
		var err error
		if req.Session, err = parseSession(v); err != nil {
			r.fail(o.name(fieldSession), err)
		}
	}
	req.OutputLength = r.output(o)
}

// time reads a time in the unit of the trace as ms, NaN if it is missing.
func (r *Reader) time(o *object, f int) float64 {
	v := o.values[f]
	if v == nil {
		return math.NaN()
	}
	ms, err := r.parseTime(v)
	if err != nil {
		r.fail(o.name(f), err)
		return math.NaN()
	}
	return ms
}

func (r *Reader) parseTime(v []byte) (float64, error) {
	if r.opts.Lenient && len(v) > 1 && v[0] == '"' {
		r.note(lenient)
		v = v[1 : len(v)-1]
		if len(v) == 0 {
			return 0, badTime(`""`)
		}
	}
	return parseTime(v, r.seconds())
}

// seconds says whether times are in seconds.
func (r *Reader) seconds() bool {
	switch r.opts.TimeUnit {
	case "s":
		return true
	case "ms":
		return false
	}
	return r.format == Bailian || r.format == BurstGPT || r.format == AppliedCompute
}

// output reads the output length.
func (r *Reader) output(o *object) int {
	v := o.values[fieldOutput]
	if v == nil {
		if r.opts.MissingOutput > 0 {
			r.note(missingOutput)
			return r.opts.MissingOutput
		}
		r.fail(o.name(fieldOutput), errors.New("is missing; give the number of tokens that the request generates, or pass --missing-output for all rows without"))
		return 0
	}
	return r.length(o, fieldOutput)
}

func (r *Reader) length(o *object, f int) int {
	n, err := r.parseLength(o.values[f])
	if err != nil {
		r.fail(o.name(f), err)
	}
	return n
}

func (r *Reader) parseLength(v []byte) (int, error) {
	n, err := parseLength(v)
	if err != nil && r.opts.Lenient {
		if whole, ok := wholeNumber(v); ok && whole <= maxLength {
			r.note(lenient)
			return int(whole), nil
		}
	}
	return n, err
}

// ids reads the hash ids, which are there.
func (r *Reader) ids(o *object, req *Request) {
	var bad int
	var err error
	odd := false
	if req.HashIDs, bad, err = parseIDs(o.values[fieldHashIDs], req.HashIDs[:0], r.opts.Lenient, &odd); err != nil {
		if bad < 0 {
			r.fail(o.name(fieldHashIDs), err)
		} else {
			r.fail(fmt.Sprintf("%s[%d]", o.name(fieldHashIDs), bad), err)
		}
	}
	if odd {
		r.note(lenient)
	}
}

// input reads the input length, or takes it from the ids.
func (r *Reader) input(o *object, req *Request) {
	if r.failed() && len(req.HashIDs) == 0 {
		return
	}
	limit := len(req.HashIDs) * r.opts.BlockSize
	if o.values[fieldInput] == nil {
		if req.InputLength = limit; limit > maxLength {
			r.fail(o.name(fieldInput), fmt.Errorf("is missing, and %d ids of %d tokens are longer than %d tokens; give the length", len(req.HashIDs), r.opts.BlockSize, maxLength))
		}
		return
	}
	if req.InputLength = r.length(o, fieldInput); req.InputLength > limit {
		if !r.failed() {
			r.note(cutInput)
		}
		req.InputLength = limit
	}
}
