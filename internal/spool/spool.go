// Package spool keeps long lists in files of the temporary folder instead of
// memory. The files have no name and are gone with the process, however that ends.
// They are mapped to be read: what is not looked at need not be in memory, and the
// system can take back what is.
//
// It is for lists that are written once from one end to the other, or that have
// their length from the start. Values must hold no pointers.
package spool

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inMemory is how many values a list has in memory at most while it is written.
const inMemory = 1 << 13

// List is a list that is being written. The zero value is empty and ready, and
// makes a file only when it has more than 8192 values. It is not for concurrent use.
type List[T any] struct {
	file    *os.File
	last    []T // not written yet
	n       int
	mapping Mapping
	failure error
}

// Len returns the number of values.
func (l *List[T]) Len() int { return l.n }

// Add appends values. After an error it returns it always, as Values does.
func (l *List[T]) Add(values ...T) error {
	if l.failure != nil {
		return l.failure
	}
	l.last = append(l.last, values...)
	l.n += len(values)
	if len(l.last) > inMemory {
		l.failure = l.flush()
	}
	return l.failure
}

func (l *List[T]) flush() error {
	if l.file == nil {
		var err error
		if l.file, err = create(); err != nil {
			return err
		}
	}
	if _, err := l.file.Write(bytesOf(l.last)); err != nil {
		return explain(err)
	}
	l.last = l.last[:0]
	return nil
}

// Values ends the writing and returns the values, which may be changed, and are
// gone after Close. The Mapping is empty if they fit memory.
func (l *List[T]) Values() ([]T, Mapping, error) {
	switch {
	case l.failure != nil:
		return nil, nil, l.failure
	case l.file == nil:
		return l.last, nil, nil
	case l.mapping == nil:
		if l.failure = l.flush(); l.failure != nil {
			return nil, nil, l.failure
		}
		l.last = nil
		var one T
		if l.mapping, l.failure = mapFile(l.file, l.n*int(unsafe.Sizeof(one))); l.failure != nil {
			return nil, nil, l.failure
		}
	}
	return valuesOf[T](l.mapping, l.n), l.mapping, nil
}

// Close gives all back. Values that were returned must no longer be used.
func (l *List[T]) Close() error {
	err := l.mapping.Close()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	*l = List[T]{failure: errors.New("the list is closed")}
	return err
}

// Make returns n values of zero that can be changed. The Mapping is empty if they
// fit memory, else they are gone with its Close.
func Make[T any](n int) ([]T, Mapping, error) {
	if n <= inMemory {
		return make([]T, n), nil, nil
	}
	f, err := create()
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	var one T
	size := n * int(unsafe.Sizeof(one))
	// Room that is not there must show now: later it would end the process.
	zeros := make([]byte, 1<<20)
	for done := 0; done < size; done += len(zeros) {
		if _, err := f.Write(zeros[:min(len(zeros), size-done)]); err != nil {
			return nil, nil, explain(err)
		}
	}
	m, err := mapFile(f, size)
	if err != nil {
		return nil, nil, err
	}
	return valuesOf[T](m, n), m, nil
}

// Mapping is a file in memory. An empty one is ready and does nothing.
type Mapping []byte

// Unload lets the system take back the memory of values, which are read again from
// the file when they are looked at. Concurrent use of the values is safe.
func (m Mapping) Unload() {
	if m != nil {
		// It is advice: without it the system does the same when it needs memory.
		_ = unix.Madvise(m, unix.MADV_DONTNEED)
	}
}

// Close gives the file back. It must be called once at most, and no value be used
// after.
func (m Mapping) Close() error {
	if m == nil {
		return nil
	}
	return unix.Munmap(m)
}

func create() (*os.File, error) {
	f, err := os.CreateTemp("", "kvbench-spool-*")
	if err != nil {
		return nil, explain(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, explain(errors.Join(err, f.Close()))
	}
	return f, nil
}

func mapFile(f *os.File, size int) (Mapping, error) {
	m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, explain(err)
	}
	return m, nil
}

func explain(err error) error {
	return fmt.Errorf("keep what does not fit memory in the folder %s: %w; set TMPDIR to a folder on a disk with room", os.TempDir(), err)
}

func bytesOf[T any](values []T) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(values[0])))
}

func valuesOf[T any](m Mapping, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(m))), n)
}
