package analysis

import (
	"fmt"
	"math"

	"github.com/kvbench/kvbench/trace"
)

// sessions keeps what the rows of named sessions need of those before them: when
// the last turn arrived, and how many there were. It holds one entry for each
// named session.
type sessions struct {
	byName map[string]*session
	single int // rows that are a session of their own
}

type session struct {
	arrived float64 // the last turn, if requests take no time
	stamped float64 // the last timestamp given
	turns   int
}

// add returns when the request arrives and, for a later turn of a session, what
// it waits after the one before, else NaN.
func (s *sessions) add(q *trace.Request) (arrival, delay float64, err error) {
	if q.Session == "" {
		s.single++
		return q.Timestamp, math.NaN(), first(q)
	}
	c, known := s.byName[q.Session]
	if !known {
		if s.byName == nil {
			s.byName = map[string]*session{}
		}
		if err := first(q); err != nil {
			return 0, 0, err
		}
		s.byName[q.Session] = &session{arrived: q.Timestamp, stamped: q.Timestamp, turns: 1}
		return q.Timestamp, math.NaN(), nil
	}
	c.turns++
	if delay = q.Delay; math.IsNaN(delay) {
		delay = q.Timestamp - c.stamped
	}
	if math.IsNaN(delay) {
		delay = 0
	}
	if delay < 0 {
		return 0, 0, fmt.Errorf("timestamp: %v ms is before the %v ms of an earlier turn of its session; sort the turns of a session by time or give them a delay",
			q.Timestamp, c.stamped)
	}
	if math.IsNaN(q.Timestamp) {
		c.arrived += delay
	} else {
		c.arrived, c.stamped = q.Timestamp, q.Timestamp
	}
	return c.arrived, delay, nil
}

// first checks the first row of a session.
func first(q *trace.Request) error {
	if q.Delay > 0 {
		return fmt.Errorf("delay: %v ms on the first turn of a session, which waits for nothing; leave it out or put it into timestamp", q.Delay)
	}
	if math.IsNaN(q.Timestamp) {
		return fmt.Errorf("timestamp: is missing on the first turn of a session; give the ms at which the request arrives")
	}
	return nil
}

func (s *sessions) len() int { return s.single + len(s.byName) }

// turns returns how many sessions have how many turns.
func (s *sessions) turns() counts {
	c := counts{}
	if s.single > 0 {
		c[1] = uint64(s.single)
	}
	for _, x := range s.byName {
		c[uint64(x.turns)]++
	}
	return c
}
