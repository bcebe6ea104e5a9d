package trace

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spool is a file without a name that holds the rows or the ids of a trace, in the
// form that they have in memory. It is gone with the process, however that ends.
type spool[T any] struct {
	file *os.File
	out  *bufio.Writer
	n    int
}

func newSpool[T any]() (*spool[T], error) {
	f, err := os.CreateTemp("", "kvbench-trace-*")
	if err != nil {
		return nil, spoolError(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, spoolError(errors.Join(err, f.Close()))
	}
	return &spool[T]{file: f, out: bufio.NewWriterSize(f, 1<<20)}, nil
}

func spoolError(err error) error {
	return fmt.Errorf("keep the trace in the folder %s while it is played: %w; set TMPDIR to a folder on a disk with more room", os.TempDir(), err)
}

// add appends values.
func (s *spool[T]) add(values ...T) error {
	if len(values) == 0 {
		return nil
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(values[0])))
	if _, err := s.out.Write(bytes); err != nil {
		return spoolError(err)
	}
	s.n += len(values)
	return nil
}

// load ends the writing and maps what was written. The file is closed.
func (s *spool[T]) load() (values []T, mapping []byte, err error) {
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.out.Flush(); err != nil {
		return nil, nil, spoolError(err)
	}
	if s.n == 0 {
		return nil, nil, nil
	}
	var one T
	if mapping, err = unix.Mmap(int(s.file.Fd()), 0, s.n*int(unsafe.Sizeof(one)), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, nil, spoolError(err)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mapping))), s.n), mapping, nil
}

func (s *spool[T]) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// spools are where a builder puts what it is given in the place of memory.
type spools struct {
	rows *spool[row]
	ids  *spool[uint64]
}

func newSpools() (*spools, error) {
	rows, err := newSpool[row]()
	if err != nil {
		return nil, err
	}
	ids, err := newSpool[uint64]()
	if err != nil {
		return nil, errors.Join(err, rows.close())
	}
	return &spools{rows, ids}, nil
}

func (s *spools) close() error { return errors.Join(s.rows.close(), s.ids.close()) }

// load returns a trace that has its rows and ids in the files.
func (s *spools) load(b *builder) (*Trace, error) {
	t := &Trace{BlockSize: b.blockSize, sessions: b.sessions}
	for _, load := range []func() ([]byte, error){
		func() (m []byte, err error) { t.rows, m, err = s.rows.load(); return m, err },
		func() (m []byte, err error) { t.ids, m, err = s.ids.load(); return m, err },
	} {
		m, err := load()
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		if m != nil {
			t.mappings = append(t.mappings, m)
		}
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
		// It is advice: without it the system does the same when it needs memory.
		_ = unix.Madvise(m, unix.MADV_DONTNEED)
	}
}

// Close gives the files of a trace with ReaderOptions.Spool back; neither it nor
// traces made from it may be used after. It does nothing to other traces.
func (t *Trace) Close() error {
	var err error
	for _, m := range t.mappings {
		err = errors.Join(err, unix.Munmap(m))
	}
	t.mappings = nil
	return err
}
