package trace

import (
	"errors"

	"github.com/kvbench/kvbench/internal/spool"
)

// spools are where a builder puts what it is given, in the place of memory.
type spools struct {
	rows spool.List[row]
	ids  spool.List[uint64]
}

func (s *spools) close() error { return errors.Join(s.rows.Close(), s.ids.Close()) }

// load returns a trace that has its rows and ids in the files.
func (s *spools) load(b *builder) (*Trace, error) {
	t := &Trace{BlockSize: b.blockSize, sessions: b.sessions, spools: s}
	var err, other error
	t.rows, t.mappings[0], err = s.rows.Values()
	t.ids, t.mappings[1], other = s.ids.Values()
	if err := errors.Join(err, other); err != nil {
		return nil, err
	}
	t.group()
	t.Unload()
	return t, nil
}

// Unload lets the system take back what memory it used for rows and ids of a trace
// with ReaderOptions.Spool. They are read again when they are looked at. It does
// nothing to other traces. Concurrent reads are safe.
func (t *Trace) Unload() {
	for _, m := range t.mappings {
		m.Unload()
	}
}

// Close gives the files of a trace with ReaderOptions.Spool back; neither it nor
// traces made from it may be used after, nor be closed. It does nothing to other
// traces.
func (t *Trace) Close() error {
	if t.spools == nil {
		return nil
	}
	err := t.spools.close()
	t.spools, t.mappings = nil, [2]spool.Mapping{}
	return err
}
