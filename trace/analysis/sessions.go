package analysis

import (
	"math"

	"github.com/kvbench/kvbench/trace"
)

// sessions keeps when the last turn of each named session arrived, and how many
// turns it has had. What rows mean in their sessions is for trace.Turns to say.
type sessions struct {
	rows   trace.Turns
	byName map[string]*session
	single int // rows that are a session of their own
}

type session struct {
	arrived float64 // the last turn, if requests take no time
	turns   int
}

// add returns when the request arrives and, for a later turn of a session, what
// it waits after the one before, else NaN. An error is about the named field.
func (s *sessions) add(q *trace.Request) (arrival, delay float64, field string, err error) {
	given := q.Delay
	first, field, err := s.rows.Settle(q)
	delay, q.Delay = q.Delay, given
	if err != nil {
		return 0, 0, field, err
	}
	if q.Session == "" {
		s.single++
		return q.Timestamp, math.NaN(), "", nil
	}
	if first {
		if s.byName == nil {
			s.byName = map[string]*session{}
		}
		s.byName[q.Session] = &session{arrived: q.Timestamp, turns: 1}
		return q.Timestamp, math.NaN(), "", nil
	}
	c := s.byName[q.Session]
	c.turns++
	if math.IsNaN(q.Timestamp) {
		c.arrived += delay
	} else {
		c.arrived = q.Timestamp
	}
	return c.arrived, delay, "", nil
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
