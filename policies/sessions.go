package policies

import (
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// Sessions is where sessions were served last, for a limited number of them: a
// new one beyond it takes the place of the one served longest ago. Once full it
// does not allocate. It belongs to one goroutine.
type Sessions struct {
	limit int
	ttl   time.Duration
	table probe
	// list is a ring through element 0, from the session served last on.
	list []servedSession
	free uint32
	used int
}

type servedSession struct {
	session    uint64
	seen       time.Duration
	slot       indexer.Slot
	next, prev uint32
}

// NewSessions makes an empty table for at most limit sessions. One that was not
// served for longer than ttl is unknown; 0 keeps it until its place is taken.
// It panics if limit is below 1.
func NewSessions(limit int, ttl time.Duration) *Sessions {
	if limit < 1 {
		panic("policies: a table of sessions must have room for at least one")
	}
	return &Sessions{limit: limit, ttl: ttl, list: make([]servedSession, 1)}
}

// Len returns the number of sessions in the table, those past their time
// included.
func (s *Sessions) Len() int { return s.used }

// Serve notes that a session is served by slot at a time, which is not before
// that of the last call.
func (s *Sessions) Serve(session uint64, slot indexer.Slot, now time.Duration) {
	e := s.find(session)
	switch {
	case e != 0:
		s.unlink(e)
	case s.used == s.limit:
		e = s.list[0].prev
		s.table.remove(fold(s.list[e].session, 0), e)
		s.unlink(e)
		s.table.insert(fold(session, 0), e)
	default:
		e = s.place()
		s.table.insert(fold(session, 0), e)
		s.used++
	}
	first := s.list[0].next
	s.list[e] = servedSession{session: session, seen: now, slot: slot, next: first}
	s.list[first].prev = e
	s.list[0].next = e
}

// Forget drops the sessions of a rank that was removed. It looks at all of them.
func (s *Sessions) Forget(slot indexer.Slot) {
	for e := s.list[0].next; e != 0; {
		next := s.list[e].next
		if s.list[e].slot == slot {
			s.table.remove(fold(s.list[e].session, 0), e)
			s.unlink(e)
			s.list[e] = servedSession{next: s.free}
			s.free = e
			s.used--
		}
		e = next
	}
}

// Look returns where a session was served last, as it is known at a time.
func (s *Sessions) Look(session uint64, now time.Duration) SessionInput {
	e := s.find(session)
	if e == 0 || s.ttl > 0 && now-s.list[e].seen > s.ttl {
		return SessionInput{}
	}
	return SessionInput{Known: true, Target: s.list[e].slot, LastSeen: s.list[e].seen}
}

func (s *Sessions) lookUp(r *Request) SessionInput {
	if !r.HasSession {
		return SessionInput{}
	}
	return s.Look(r.Session, r.Now)
}

func (s *Sessions) find(session uint64) uint32 {
	return s.table.find(fold(session, 0), func(e uint32) bool { return s.list[e].session == session })
}

func (s *Sessions) place() uint32 {
	if e := s.free; e != 0 {
		s.free = s.list[e].next
		return e
	}
	s.list = append(s.list, servedSession{})
	return uint32(len(s.list) - 1)
}

func (s *Sessions) unlink(e uint32) {
	x := &s.list[e]
	s.list[x.next].prev, s.list[x.prev].next = x.prev, x.next
}
