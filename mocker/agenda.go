package mocker

import "cmp"

// Kinds of happenings. Of those at one time, what is due comes first: room that
// is given back is there for whoever arrives then.
const (
	due uint8 = iota // a request has computed what its scheduler expected
	arrival
)

// happening is something that is due at a virtual time.
type happening struct {
	at      int64
	number  uint64 // in the order in which they were put on the agenda
	run     uint64 // of what is due: see request
	request int32  // of the same
	session int32  // of an arrival
	turn    int32
	kind    uint8
}

// compare is a total order: no two happenings are equal.
func (h happening) compare(o happening) int {
	return cmp.Or(cmp.Compare(h.at, o.at), cmp.Compare(h.kind, o.kind), cmp.Compare(h.number, o.number))
}

// agenda is a binary heap of happenings, the next one first. It is written out
// because container/heap would allocate for each of them.
type agenda []happening

func (a *agenda) push(h happening) {
	*a = append(*a, h)
	s := *a
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if s[parent].compare(s[i]) < 0 {
			break
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

func (a *agenda) pop() happening {
	s := *a
	top := s[0]
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	*a = s
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(s) {
			return top
		}
		if child+1 < len(s) && s[child+1].compare(s[child]) < 0 {
			child++
		}
		if s[i].compare(s[child]) < 0 {
			return top
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}
