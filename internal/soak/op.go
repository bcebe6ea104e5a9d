package soak

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
)

// action says what an op does.
type action uint8

const (
	register   action = iota + 1 // the rank appears, empty
	unregister                   // the rank goes with all its blocks
	apply                        // an event of the rank
)

// op is one operation. The rank is the number of a rank in [0, Options.Ranks);
// event.Slot is filled in by whoever applies it.
type op struct {
	do    action
	rank  int
	life  int // how often the rank was registered before
	event indexer.Event
}

// maxDP is how many data-parallel ranks a worker seems to have: a rank that comes
// back has another one, so that the pool may give it to another event thread.
const maxDP = 3

// identity is the rank by which a pool knows a rank's life.
func (o *op) identity() indexer.Rank {
	return indexer.Rank{Worker: uint64(o.rank), DP: uint32(o.life % maxDP)}
}

func (o *op) String() string {
	switch o.do {
	case register:
		return fmt.Sprintf("rank %d appears", o.rank)
	case unregister:
		return fmt.Sprintf("rank %d goes", o.rank)
	}
	s := fmt.Sprintf("rank %d: %v, %s", o.rank, o.event.Kind, plural(len(o.event.Sequences), "block"))
	if o.event.HasParent {
		s += fmt.Sprintf(" below %d", o.event.Parent)
	}
	return s
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
