package sweep

import (
	"fmt"
	"math"
	"time"
)

// KeepUp says how to look for the shortest window that is kept up with.
type KeepUp struct {
	Shortest int64 `json:"shortest_ns"` // where to look, in ns
	Longest  int64 `json:"longest_ns"`
	Runs     int   `json:"runs"` // trials of a window at most
	Need     int   `json:"need"` // of these must keep up
	// Precision is how far apart the answer and the next shorter window that
	// failed may lie: 0.05 for 5%.
	Precision float64 `json:"precision"`
}

func (k *KeepUp) check() error {
	switch {
	case k.Shortest <= 0:
		return fmt.Errorf("--min is %v; it must be positive", time.Duration(k.Shortest))
	case k.Longest <= k.Shortest:
		return fmt.Errorf("--max is %v and --min %v; the longest window must be longer than the shortest", time.Duration(k.Longest), time.Duration(k.Shortest))
	case k.Runs < 1 || k.Runs > MaxRepeat:
		return fmt.Errorf("--keepup-runs is %d; it must lie from 1 to %d", k.Runs, MaxRepeat)
	case k.Need < 1 || k.Need > k.Runs:
		return fmt.Errorf("--keepup-need is %d; it must lie from 1 to --keepup-runs, %d", k.Need, k.Runs)
	case !(k.Precision >= 0.001 && k.Precision <= 1):
		return fmt.Errorf("--keepup-precision is %v; it must lie from 0.001 to 1", k.Precision)
	}
	return nil
}

// bisection finds the shortest window that keeps up, assuming that every longer
// one does too. It is told what happened and knows no processes.
type bisection struct {
	how    KeepUp
	passes int64 // shortest known to keep up; 0: none
	fails  int64 // longest known not to, below passes; 0: none
	done   bool
	ok     map[int64]int // trials that kept up, by window
	not    map[int64]int // and that did not
}

func newBisection(how KeepUp) *bisection {
	return &bisection{how: how, ok: map[int64]int{}, not: map[int64]int{}}
}

// next returns the window of the next trial and its number at that window, from
// 1; false when there is nothing left to try.
func (b *bisection) next() (window int64, run int, more bool) {
	for !b.done {
		window := b.window()
		if b.done {
			break
		}
		switch {
		case b.ok[window] >= b.how.Need:
			b.passes = window
		case b.not[window] > b.how.Runs-b.how.Need:
			if b.fails = window; window == b.how.Longest {
				b.done = true
			}
		default:
			return window, b.ok[window] + b.not[window] + 1, true
		}
	}
	return 0, 0, false
}

// window is the one to decide next: the longest, then the shortest, then what
// lies between.
func (b *bisection) window() int64 {
	switch {
	case b.passes == 0:
		return b.how.Longest
	case b.fails == 0 && b.passes == b.how.Longest:
		return b.how.Shortest
	case b.passes == b.how.Shortest, float64(b.passes) <= float64(b.fails)*(1+b.how.Precision):
		b.done = true
		return 0
	}
	middle := roundWindow(math.Sqrt(float64(b.fails)) * math.Sqrt(float64(b.passes)))
	if middle <= b.fails || middle >= b.passes {
		b.done = true
	}
	return middle
}

func (b *bisection) record(window int64, keptUp bool) {
	if keptUp {
		b.ok[window]++
	} else {
		b.not[window]++
	}
}
