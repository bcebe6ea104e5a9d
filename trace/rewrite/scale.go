package rewrite

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"

	"github.com/kvbench/kvbench/trace"
)

// Extent is what has to be known of a whole trace to scale it.
type Extent struct {
	Requests  int
	FirstMS   float64 // start of the first session
	LastMS    float64 // of the last one
	ReadyMS   float64 // when the last turn is ready if requests take no time
	LargestID uint64
}

// Measure reads a source to its end. Memory grows with the named sessions.
func Measure(src Source) (Extent, error) {
	e := Extent{FirstMS: math.Inf(1), LastMS: math.Inf(-1), ReadyMS: math.Inf(-1)}
	var turns trace.Turns
	ready := map[string]float64{} // of named sessions
	var q trace.Request
	for {
		switch err := src.Read(&q); {
		case err == io.EOF && e.Requests == 0:
			return e, errors.New("there are no requests")
		case err == io.EOF:
			return e, nil
		case err != nil:
			return e, err
		}
		first, field, err := turns.Settle(&q)
		if err != nil {
			return e, rowError(&q, field, err)
		}
		e.Requests++
		at := q.Timestamp
		if first {
			e.FirstMS, e.LastMS = min(e.FirstMS, at), max(e.LastMS, at)
		} else {
			at = ready[q.Session] + q.Delay
		}
		if q.Session != "" {
			ready[q.Session] = at
		}
		e.ReadyMS = max(e.ReadyMS, at)
		for _, id := range q.HashIDs {
			e.LargestID = max(e.LargestID, id)
		}
	}
}

// Scale says how to make a trace denser, longer or larger. It is done in the order
// of the fields, with the meaning of the methods of trace.Trace that are named. The
// zero value of a field changes nothing.
type Scale struct {
	// SpeedUp divides times: Trace.SpeedUp.
	SpeedUp float64
	// StartSpanMS moves the starts of sessions to 0 to so much and leaves delays:
	// Trace.RescaleStartSpan. ReadySpanMS scales starts and delays alike:
	// Trace.RescaleReadySpan. Only one may be given, and not with SpeedUp.
	StartSpanMS, ReadySpanMS float64
	// LengthFactor makes prompts longer, with all that they share:
	// Trace.ExpandPrefix.
	LengthFactor int
	// OutputFactor multiplies output lengths, rounded to the nearest whole token;
	// an output of 1 or more never becomes 0.
	OutputFactor float64
	// Copies plays so many disjoint copies at the same times: Trace.Duplicate.
	// Unlike there, the copies of a row follow one another, so that the order of
	// time stays.
	Copies int
}

// NeedsExtent says whether the trace has to be measured before it can be scaled.
func (s *Scale) NeedsExtent() bool {
	return s.StartSpanMS > 0 || s.ReadySpanMS > 0 || s.Copies > 1
}

func (s *Scale) validate() error {
	for _, f := range []struct {
		name string
		v    float64
	}{{"speed-up", s.SpeedUp}, {"span of the starts", s.StartSpanMS}, {"span until all are ready", s.ReadySpanMS}, {"output factor", s.OutputFactor}} {
		if !(f.v >= 0) || math.IsInf(f.v, 0) {
			return fmt.Errorf("the %s is %v; give a finite number above 0", f.name, f.v)
		}
	}
	times := 0
	for _, v := range []float64{s.SpeedUp, s.StartSpanMS, s.ReadySpanMS} {
		if v > 0 {
			times++
		}
	}
	switch {
	case times > 1:
		return errors.New("times are to be scaled in two ways; give one of a speed-up, a span of the starts and a span until all are ready")
	case s.LengthFactor < 0:
		return fmt.Errorf("the length factor is %d; give 1 or more", s.LengthFactor)
	case s.Copies < 0 || s.Copies > 1e6:
		return fmt.Errorf("the copies are %d; give 1 to 1000000", s.Copies)
	}
	return nil
}

// NewScaler returns a source of a scaled src. e is what Measure says of the same
// trace, if NeedsExtent. Memory grows with the named sessions.
func NewScaler(src Source, s Scale, e Extent) (Source, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	s.LengthFactor, s.Copies = max(s.LengthFactor, 1), max(s.Copies, 1)
	out := &scaler{src: src, scale: s, extent: e}
	if s.Copies > 1 {
		hi, lo := bits.Mul64(e.LargestID, uint64(s.LengthFactor))
		largest, carry := bits.Add64(lo, uint64(s.LengthFactor-1), 0)
		if hi != 0 || carry != 0 || largest == math.MaxUint64 {
			return nil, fmt.Errorf("the id %d becomes larger than 2^64-1; lower the length factor, or number the ids anew with 'kvbench trace anonymise --ids numbered'", e.LargestID)
		}
		// The last copy's largest id is copies x (largest+1) - 1.
		if hi, lo := bits.Mul64(largest+1, uint64(s.Copies)); hi > 1 || hi == 1 && lo > 0 {
			return nil, fmt.Errorf("the id %d becomes larger than 2^64-1 in copy %d; give fewer copies, or number the ids anew with 'kvbench trace anonymise --ids numbered'", largest, s.Copies-1)
		}
		out.step = largest + 1
	}
	return out, nil
}

type scaler struct {
	src    Source
	scale  Scale
	extent Extent
	turns  trace.Turns
	step   uint64 // between the ids of copies
	row    trace.Request
	copied int // of row
}

func (s *scaler) Read(q *trace.Request) error {
	if s.copied == 0 {
		if err := s.next(); err != nil {
			return err
		}
	}
	ids := q.HashIDs[:0]
	for _, id := range s.row.HashIDs {
		ids = append(ids, id+uint64(s.copied)*s.step)
	}
	*q = s.row
	q.HashIDs = ids
	if s.scale.Copies > 1 && q.Session != "" {
		q.Session = fmt.Sprintf("%s:copy_%d", q.Session, s.copied)
	}
	s.copied = (s.copied + 1) % s.scale.Copies
	return nil
}

// next reads a row and scales all but its copies.
func (s *scaler) next() error {
	q := &s.row
	if err := s.src.Read(q); err != nil {
		return err
	}
	first, field, err := s.turns.Settle(q)
	if err != nil {
		return rowError(q, field, err)
	}
	c, e := &s.scale, &s.extent
	switch {
	case c.SpeedUp > 0:
		q.Timestamp /= c.SpeedUp
		q.Delay /= c.SpeedUp
	case c.StartSpanMS > 0 && !first:
		q.Timestamp = math.NaN()
	case c.StartSpanMS > 0 && e.LastMS == e.FirstMS:
		q.Timestamp = 0
	case c.StartSpanMS > 0:
		q.Timestamp = (q.Timestamp - e.FirstMS) * c.StartSpanMS / (e.LastMS - e.FirstMS)
	case c.ReadySpanMS > 0:
		ratio := c.ReadySpanMS / max(e.ReadyMS-e.FirstMS, 1)
		q.Timestamp = (q.Timestamp - e.FirstMS) * ratio
		q.Delay *= ratio
	}
	if err := s.lengthen(q); err != nil {
		return err
	}
	if c.OutputFactor > 0 && q.OutputLength > 0 {
		output := max(1, math.Round(float64(q.OutputLength)*c.OutputFactor))
		if output > math.MaxInt32 {
			return rowError(q, "output_length", fmt.Errorf("%d tokens become %.0f; lower the output factor", q.OutputLength, output))
		}
		q.OutputLength = int(output)
	}
	return nil
}

// lengthen does what Trace.ExpandPrefix does.
func (s *scaler) lengthen(q *trace.Request) error {
	f := s.scale.LengthFactor
	if f == 1 {
		return nil
	}
	if hi, lo := bits.Mul64(uint64(q.InputLength), uint64(f)); hi != 0 || lo > math.MaxInt32 {
		return rowError(q, "input_length", fmt.Errorf("%d tokens become more than %d; lower the length factor", q.InputLength, math.MaxInt32))
	}
	q.InputLength *= f
	// From the last id on, as each is read before what it becomes is written over it.
	n := len(q.HashIDs)
	if hi, lo := bits.Mul64(uint64(n), uint64(f)); hi != 0 || lo > math.MaxUint32 {
		return rowError(q, "hash_ids", fmt.Errorf("%d ids become more than 2^32-1; lower the length factor", n))
	}
	q.HashIDs = append(q.HashIDs, make([]uint64, n*(f-1))...)
	for i := n - 1; i >= 0; i-- {
		id := q.HashIDs[i]
		hi, lo := bits.Mul64(id, uint64(f))
		if hi != 0 || lo > math.MaxUint64-uint64(f-1) {
			return rowError(q, "hash_ids", fmt.Errorf("the id %d becomes larger than 2^64-1; lower the length factor", id))
		}
		for k := f - 1; k >= 0; k-- {
			q.HashIDs[i*f+k] = lo + uint64(k)
		}
	}
	return nil
}
