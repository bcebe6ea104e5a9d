package fleet

import (
	"cmp"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/mocker/engine"
)

// happening is a turn that arrives at a time of its own.
type happening struct {
	at      int64
	row     int
	session int
	turn    int
}

func (h happening) compare(o happening) int {
	return cmp.Or(cmp.Compare(h.at, o.at), cmp.Compare(h.row, o.row))
}

// agenda is a binary heap of happenings, the next one first. It is written out
// because container/heap would allocate for each of them.
type agenda []happening

func (a *agenda) push(h happening) {
	*a = append(*a, h)
	s := *a
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent].compare(s[i]) < 0 {
			break
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

func (a *agenda) pop() {
	s := *a
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	*a = s
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(s) {
			return
		}
		if child+1 < len(s) && s[child+1].compare(s[child]) < 0 {
			child++
		}
		if s[i].compare(s[child]) < 0 {
			return
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}

// ends is a binary heap of the ranks with a pass, by its end and then by rank.
type ends struct {
	heap  []int32
	place []int32 // in heap, by rank; -1: no pass
	at    []int64 // by rank
}

func newEnds(ranks int) ends {
	e := ends{place: make([]int32, ranks), at: make([]int64, ranks)}
	for i := range e.place {
		e.place[i] = -1
	}
	return e
}

func (e *ends) has(rank int) bool { return e.place[rank] >= 0 }

func (e *ends) top() (at int64, rank int, ok bool) {
	if len(e.heap) == 0 {
		return 0, 0, false
	}
	rank = int(e.heap[0])
	return e.at[rank], rank, true
}

func (e *ends) before(a, b int32) bool {
	return e.at[a] < e.at[b] || e.at[a] == e.at[b] && a < b
}

func (e *ends) put(i int, rank int32) {
	e.heap[i] = rank
	e.place[rank] = int32(i)
}

func (e *ends) add(rank int, at int64) {
	e.at[rank] = at
	e.heap = append(e.heap, 0)
	e.up(len(e.heap)-1, int32(rank))
}

func (e *ends) up(i int, rank int32) {
	for i > 0 {
		parent := (i - 1) / 2
		if e.before(e.heap[parent], rank) {
			break
		}
		e.put(i, e.heap[parent])
		i = parent
	}
	e.put(i, rank)
}

// remove takes out the rank on top.
func (e *ends) remove(rank int) {
	e.place[rank] = -1
	last := len(e.heap) - 1
	moved := e.heap[last]
	e.heap = e.heap[:last]
	if last == 0 {
		return
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && e.before(e.heap[child+1], e.heap[child]) {
			child++
		}
		if e.before(moved, e.heap[child]) {
			break
		}
		e.put(i, e.heap[child])
		i = child
	}
	e.put(i, moved)
}

// message is that a request has its first token or is finished.
type message struct {
	at       int64
	id       uint64
	router   int
	finished bool
}

// kvEvent is a KV event by blocks or in pieces, as the routers of the fleet take
// it.
type kvEvent struct {
	blocks indexer.Event
	pieces engine.Pieces
}

// eventMessage is a KV event with lists of its own.
type eventMessage struct {
	at     int64
	number int64 // breaks ties
	router int
	event  kvEvent
}

// news is what is on its way to routers. Each kind takes equally long, so that
// each is a line in the order of time.
type news struct {
	events line[*eventMessage]
	loads  line[message]
	unused []*eventMessage
}

// next returns the time of the next delivery.
func (n *news) next() (at int64, ok bool) {
	if n.events.n > 0 {
		at, ok = n.events.front().at, true
	}
	if n.loads.n > 0 {
		if t := n.loads.front().at; !ok || t < at {
			at, ok = t, true
		}
	}
	return at, ok
}

func (n *news) addEvent(at int64, router int, ev *kvEvent) {
	n.events.push(n.message(at, router, ev))
}

// message makes a message of an event that is borrowed.
func (n *news) message(at int64, router int, ev *kvEvent) *eventMessage {
	var m *eventMessage
	if last := len(n.unused) - 1; last >= 0 {
		m = n.unused[last]
		n.unused = n.unused[:last]
	} else {
		m = new(eventMessage)
	}
	sequences := append(m.event.blocks.Sequences[:0], ev.blocks.Sequences...)
	locals := append(m.event.blocks.Locals[:0], ev.blocks.Locals...)
	pieces := append(m.event.pieces.Blocks[:0], ev.pieces.Blocks...)
	m.at, m.router, m.event = at, router, *ev
	m.event.blocks.Sequences, m.event.blocks.Locals, m.event.pieces.Blocks = sequences, locals, pieces
	return m
}

func (n *news) takeEvent(now int64) (*eventMessage, bool) {
	if n.events.n == 0 || n.events.front().at > now {
		return nil, false
	}
	return n.events.pop(), true
}

// giveBack lets a message that was taken be used again.
func (n *news) giveBack(m *eventMessage) { n.unused = append(n.unused, m) }

func (n *news) addLoad(at int64, m message) {
	m.at = at
	n.loads.push(m)
}

func (n *news) takeLoad(now int64) (message, bool) {
	if n.loads.n == 0 || n.loads.front().at > now {
		return message{}, false
	}
	return n.loads.pop(), true
}

// line is a queue in a ring.
type line[T any] struct {
	ring  []T
	first int
	n     int
}

func (l *line[T]) front() T { return l.ring[l.first] }

func (l *line[T]) push(x T) {
	if l.n == len(l.ring) {
		ring := make([]T, max(16, 2*l.n))
		for i := range l.n {
			ring[i] = l.ring[(l.first+i)%len(l.ring)]
		}
		l.ring, l.first = ring, 0
	}
	l.ring[(l.first+l.n)%len(l.ring)] = x
	l.n++
}

func (l *line[T]) pop() T {
	x := l.ring[l.first]
	l.first = (l.first + 1) % len(l.ring)
	l.n--
	return x
}
