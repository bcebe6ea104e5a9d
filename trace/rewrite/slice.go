package rewrite

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/kvbench/kvbench/trace"
)

// Slice says which sessions of a trace to keep. A session is kept or left out
// whole, by its first turn, as later ones depend on it; a row without a session is
// one of its own. All conditions must hold. The zero value keeps everything.
type Slice struct {
	// From and To bound the arrival of a session, in ms after the first row's
	// Timestamp: From is within, To is not. 0: no bound.
	From, To float64
	// Skip is how many rows at the beginning no kept session may begin in.
	Skip int
	// Requests ends the slice after so many requests, in the middle of sessions if
	// need be. 0: no bound.
	Requests int
	// Sessions keeps the first so many that the other conditions allow. 0: all.
	Sessions int
	// Names keeps the sessions of these names only. nil: all.
	Names []string
	// Share keeps each session with this probability, above 0 and up to 1, drawn
	// by its name, or its row if it has none, and Seed alone. 0: all.
	Share float64
	Seed  uint64
	// Rebase shifts all times so that the first request kept arrives at 0.
	Rebase bool
}

func (s *Slice) validate() error {
	switch {
	case !(s.From >= 0) || math.IsInf(s.From, 0):
		return fmt.Errorf("the slice begins at %v ms; give 0 or more", s.From)
	case !(s.To >= 0) || math.IsInf(s.To, 0) || s.To > 0 && s.To <= s.From:
		return fmt.Errorf("the slice ends at %v ms and begins at %v ms; give a later end", s.To, s.From)
	case s.Skip < 0 || s.Requests < 0 || s.Sessions < 0:
		return fmt.Errorf("a slice that skips %d rows and keeps %d requests in %d sessions; none may be below 0", s.Skip, s.Requests, s.Sessions)
	case !(s.Share >= 0 && s.Share <= 1):
		return fmt.Errorf("the share of the sessions is %v; give a number above 0, up to 1", s.Share)
	}
	return nil
}

// NewSlicer returns a source of what a slice keeps of src. Memory grows with the
// named sessions of src.
func NewSlicer(src Source, s Slice) (Source, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	out := &slicer{src: src, slice: s, kept: map[string]bool{}, origin: math.NaN(), base: math.NaN()}
	if s.Names != nil {
		out.names = map[string]bool{}
		for _, name := range s.Names {
			out.names[name] = false
		}
	}
	return out, nil
}

type slicer struct {
	src      Source
	slice    Slice
	turns    trace.Turns
	kept     map[string]bool // of the named sessions seen
	names    map[string]bool // of Slice.Names, and whether it was seen; nil: any
	origin   float64         // Timestamp of the first row
	base     float64         // of the first request kept
	rows     int
	requests int
	sessions int
}

func (s *slicer) Read(q *trace.Request) error {
	for {
		if s.slice.Requests > 0 && s.requests == s.slice.Requests {
			return io.EOF
		}
		err := s.src.Read(q)
		if err == io.EOF {
			for name, seen := range s.names {
				if !seen {
					return fmt.Errorf("the trace has no session %q", name)
				}
			}
		}
		if err != nil {
			return err
		}
		first, field, err := s.turns.Settle(q)
		if err != nil {
			return rowError(q, field, err)
		}
		keep := false
		if first {
			if keep = s.keeps(q); q.Session != "" {
				s.kept[q.Session] = keep
			}
			if keep {
				s.sessions++
			}
		} else {
			keep = s.kept[q.Session]
		}
		s.rows++
		if !keep {
			continue
		}
		s.requests++
		return s.rebase(q)
	}
}

// keeps says whether the session that a row begins is kept.
func (s *slicer) keeps(q *trace.Request) bool {
	if math.IsNaN(s.origin) {
		s.origin = q.Timestamp
	}
	at := q.Timestamp - s.origin
	if s.names != nil {
		if _, ok := s.names[q.Session]; !ok {
			return false
		}
		s.names[q.Session] = true
	}
	switch {
	case s.slice.From > 0 && at < s.slice.From || s.slice.To > 0 && at >= s.slice.To:
		return false
	case s.rows < s.slice.Skip:
		return false
	case s.slice.Share > 0 && draw(q.Session, s.rows, s.slice.Seed) >= s.slice.Share:
		return false
	}
	return s.slice.Sessions == 0 || s.sessions < s.slice.Sessions
}

// draw returns a number in [0, 1) that depends on its arguments alone.
func draw(session string, row int, seed uint64) float64 {
	b := binary.LittleEndian.AppendUint64(nil, seed)
	if session == "" {
		b = binary.LittleEndian.AppendUint64(append(b, 0), uint64(row))
	} else {
		b = append(append(b, 1), session...)
	}
	sum := sha256.Sum256(b)
	return float64(binary.LittleEndian.Uint64(sum[:])>>11) / (1 << 53)
}

func (s *slicer) rebase(q *trace.Request) error {
	if !s.slice.Rebase {
		return nil
	}
	return rebase(q, &s.base)
}

// rebase shifts the time of a row by that of the first, which base keeps.
func rebase(q *trace.Request, base *float64) error {
	if math.IsNaN(*base) {
		*base = q.Timestamp
	}
	if q.Timestamp < *base {
		return rowError(q, "timestamp", fmt.Errorf("%v ms is before the %v ms of the first row, from which times are to count; sort the rows by time, or keep the times", q.Timestamp, *base))
	}
	q.Timestamp -= *base
	return nil
}
