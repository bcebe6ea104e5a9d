package policies

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/kvbench/kvbench/indexer"
)

// Measure is how load is counted.
type Measure uint8

const (
	// ByRequests counts the requests dispatched and not finished.
	ByRequests Measure = iota
	// ByTokens counts the prompt tokens yet to be computed and the tokens in the
	// blocks of active requests.
	ByTokens
)

// of returns the load of one slot.
func (m Measure) of(c *LoadColumns, slot int, blockSize int) int64 {
	if m == ByRequests {
		return int64(c.Requests[slot])
	}
	return c.PrefillTokens[slot] + c.DecodeBlocks[slot]*int64(blockSize)
}

// loads reads the load of every row. That of a rank whose load nobody has
// observed is the largest known, so that it is never taken for idle; if no
// load is known, all are 0.
type loads struct {
	by   Measure
	rows []int64
}

// read returns the loads by row, valid until the next call, with the least and
// the largest of them.
func (l *loads) read(v *View) (rows []int64, least, most int64) {
	slots, c, size := v.Rows(), v.Load(), v.Request().BlockSize
	l.rows = slices.Grow(l.rows[:0], len(slots))[:len(slots)]
	known := 0
	for row, slot := range slots {
		if !c.Known[slot] {
			continue
		}
		x := l.by.of(c, int(slot), size)
		l.rows[row] = x
		if known == 0 {
			least, most = x, x
		}
		known++
		least, most = min(least, x), max(most, x)
	}
	if known < len(slots) {
		for row, slot := range slots {
			if !c.Known[slot] {
				l.rows[row] = most
			}
		}
	}
	return l.rows, least, most
}

// leastRow returns the row with the least key. Among k equal ones it draws, if k
// is more than 1, the one with the number rand.IntN(k) in the order of the rows.
// There is at least one key, and none is NaN.
func leastRow[K cmp.Ordered](keys []K, r *rand.Rand) int {
	// Rows are looked at twice only where the least of so many is the least of all
	// yet.
	const stretch = 128
	least, first, ties := keys[0], 0, 0
	for from := 0; from < len(keys); from += stretch {
		part := keys[from:min(from+stretch, len(keys))]
		k := leastOf(part)
		if k > least {
			continue
		}
		if k < least {
			ties = 0
		}
		n := 0
		for _, key := range part {
			if key == k {
				n++
			}
		}
		if ties == 0 {
			least, first = k, from
		}
		ties += n
	}
	skip := 0
	if ties > 1 {
		skip = r.IntN(ties)
	}
	for row := first; ; row++ {
		if keys[row] == least {
			if skip == 0 {
				return row
			}
			skip--
		}
	}
}

// leastOf returns the least of at least one key. It is written out, as the loop would
// cost as much again.
func leastOf[K cmp.Ordered](keys []K) K {
	least, i := keys[0], 0
	for ; i <= len(keys)-8; i += 8 {
		part := (*[8]K)(keys[i:])
		if part[0] < least {
			least = part[0]
		}
		if part[1] < least {
			least = part[1]
		}
		if part[2] < least {
			least = part[2]
		}
		if part[3] < least {
			least = part[3]
		}
		if part[4] < least {
			least = part[4]
		}
		if part[5] < least {
			least = part[5]
		}
		if part[6] < least {
			least = part[6]
		}
		if part[7] < least {
			least = part[7]
		}
	}
	for _, k := range keys[i:] {
		if k < least {
			least = k
		}
	}
	return least
}

// RoundRobin picks the candidate after the one that got the last request, in the
// order of the slots.
type RoundRobin struct {
	next indexer.Slot // the least slot that did not have its turn
}

// Inputs implements Component: it reads none.
func (*RoundRobin) Inputs() Inputs { return 0 }

// Pick implements Picker.
func (p *RoundRobin) Pick(v *View, _ []float64) int {
	row, _ := slices.BinarySearch(v.Rows(), p.next)
	return row % len(v.Rows())
}

// Commit implements Committer.
func (p *RoundRobin) Commit(_ *Request, slot indexer.Slot) { p.next = slot + 1 }

// Random picks any candidate with the same probability.
type Random struct{}

// Inputs implements Component: it reads none.
func (Random) Inputs() Inputs { return 0 }

// Pick implements Picker.
func (Random) Pick(v *View, _ []float64) int { return v.Rand().IntN(len(v.Rows())) }

// LeastLoaded picks the candidate with the least load; the cost that it reports
// is that load. A rank of unknown load counts as the most loaded one known.
type LeastLoaded struct {
	loads loads
}

// NewLeastLoaded makes one.
func NewLeastLoaded(by Measure) *LeastLoaded { return &LeastLoaded{loads{by: by}} }

// Inputs implements Component.
func (*LeastLoaded) Inputs() Inputs { return Load }

// Pick implements Picker.
func (p *LeastLoaded) Pick(v *View, costs []float64) int {
	l, _, _ := p.loads.read(v)
	row := leastRow(l, v.Rand())
	costs[row] = float64(l[row])
	return row
}

// PowerOfTwo draws two candidates and picks the less loaded one, the one drawn
// first if they are equal. A rank of unknown load loses to any other.
type PowerOfTwo struct {
	By Measure
}

// Inputs implements Component.
func (PowerOfTwo) Inputs() Inputs { return Load }

// Pick implements Picker.
func (p PowerOfTwo) Pick(v *View, costs []float64) int {
	rows := v.Rows()
	if len(rows) == 1 {
		return 0
	}
	a, b := v.Rand().IntN(len(rows)), v.Rand().IntN(len(rows)-1)
	if b >= a {
		b++
	}
	c, size := v.Load(), v.Request().BlockSize
	knownA, knownB := c.Known[rows[a]], c.Known[rows[b]]
	la, lb := p.By.of(c, int(rows[a]), size), p.By.of(c, int(rows[b]), size)
	if knownB && (!knownA || lb < la) {
		a, la = b, lb
	}
	costs[a] = float64(la)
	return a
}

// LeastCost picks the candidate with the least cost.
type LeastCost struct{}

// Inputs implements Component: it reads none.
func (LeastCost) Inputs() Inputs { return 0 }

// Pick implements Picker.
func (LeastCost) Pick(v *View, costs []float64) int { return leastRow(costs, v.Rand()) }
