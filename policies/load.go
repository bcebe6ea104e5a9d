package policies

import (
	"github.com/kvbench/kvbench/indexer"
)

// ActiveLoad is a router's own account of what its ranks have to do: what it
// dispatched and did not hear the end of. See load_test.go for the model.
type ActiveLoad struct {
	slots int
}

// Slots returns the number of slots.
func (l *ActiveLoad) Slots() int { return l.slots }

// columns fills the input LOAD for a request.
func (l *ActiveLoad) columns(r *Request, out *LoadColumns) {}

// ChangeLog is which slots' load has changed, in order.
type ChangeLog struct{}

// Since returns the slots that changed after change number seen, each at least
// once, and the number of the last change. If that is too long ago to be known,
// all is true. The slice is valid until the next change.
func (c *ChangeLog) Since(seen uint64) (slots []indexer.Slot, all bool, last uint64) {
	return nil, true, 0
}
