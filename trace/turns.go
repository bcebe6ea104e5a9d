package trace

import (
	"errors"
	"fmt"
	"math"
)

// Turns settles what rows mean in their sessions, as they come by in the order of
// the trace. Its memory grows with the number of named sessions, not with that of
// rows. The zero value is ready. It is not for concurrent use.
type Turns struct {
	named map[string]turn
	begun uint32 // sessions
}

// turn is what a session has come to.
type turn struct {
	session uint32
	last    float64 // the last timestamp seen
}

// Settle says whether the row is the first turn of its session, and sets its
// Delay: NaN for a first turn; for a later one what it was, else the difference of
// its Timestamp to the last one in the session, else 0. A row that means nothing
// in its session is an error about the named field.
func (t *Turns) Settle(q *Request) (first bool, field string, err error) {
	begun := t.begun
	delay, _, field, err := t.settle(q)
	if err == nil {
		q.Delay = delay
	}
	return t.begun != begun, field, err
}

// Sessions returns how many sessions have begun.
func (t *Turns) Sessions() int { return int(t.begun) }

// settle returns the delay of a row and the number of its session, from 0. It
// counts rows that it refuses like others, so that one mistake is one error.
func (t *Turns) settle(q *Request) (delay float64, session uint32, field string, err error) {
	s, later := turn{}, false
	if q.Session != "" {
		s, later = t.named[q.Session]
	}
	delay = q.Delay
	switch {
	case later && math.IsNaN(delay):
		if delay = q.Timestamp - s.last; math.IsNaN(delay) {
			delay = 0
		}
		if delay < 0 {
			field, err = "timestamp", fmt.Errorf("%v ms is before the %v ms of an earlier turn of session %s; sort the turns of a session by time or give them a delay",
				q.Timestamp, s.last, excerpt(q.Session))
		}
	case !later && delay > 0:
		field, err = "delay", fmt.Errorf("%v ms on the first turn of a session, which waits for nothing; leave it out or put it into timestamp", delay)
	case !later && math.IsNaN(q.Timestamp):
		field, err = "timestamp", errors.New("is missing on the first turn of a session; give the ms at which the request arrives")
	case !later:
		delay = math.NaN()
	}
	if !later {
		s = turn{t.begun, q.Timestamp}
		t.begun++
	} else if !math.IsNaN(q.Timestamp) {
		s.last = q.Timestamp
	}
	if q.Session != "" {
		if t.named == nil {
			t.named = map[string]turn{}
		}
		t.named[q.Session] = s
	}
	return delay, s.session, field, err
}
