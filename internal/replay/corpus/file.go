package corpus

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/internal/atomicfile"
)

// IsCorpusFile says whether path is a regular file that starts like a corpus.
// Only Open says whether it is a good one.
func IsCorpusFile(path string) (bool, error) {
	// Looking before opening: opening a pipe would block and reading it would
	// take bytes away from whoever it is meant for.
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var b [len(magic)]byte
	switch _, err := io.ReadFull(f, b[:]); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return false, nil
	case err != nil:
		return false, err
	}
	return b == magic, nil
}

// Open maps the corpus file at path and checks all of it: lengths, checksums and
// everything that Check demands. It reads the whole file once.
//
// The file must not be changed in place while the corpus is open; replacing it,
// as Write does, is safe. The error names the file; errors.Is finds
// ErrNotCorpus in it if the file is something else.
func Open(path string) (*Corpus, error) {
	data, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	c, err := parse(data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("corpus file %s: %w", path, err), unmap(data))
	}
	return c, nil
}

// Close unmaps the file of an opened corpus, after which nothing of the corpus
// may be used. On a corpus that was not opened from a file it does nothing.
func (c *Corpus) Close() error {
	data := c.mapping
	if data == nil {
		return nil
	}
	c.mapping, c.Requests, c.Ops, c.Hashes, c.sealed = nil, nil, nil, nil, image{}
	c.sealErr = errors.New("corpus: closed")
	return unmap(data)
}

// Touch reads one word of every page, so that a timed run finds all of them
// mapped.
func (c *Corpus) Touch() {
	var sum uint64
	page := os.Getpagesize()
	for _, b := range [][]byte{bytesOf(c.Requests), bytesOf(c.Ops), bytesOf(c.Hashes)} {
		for i := 0; i < len(b); i += page {
			sum += uint64(b[i])
		}
		if len(b) > 0 {
			sum += uint64(b[len(b)-1])
		}
	}
	runtime.KeepAlive(sum)
}

func mapFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("corpus file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("corpus file %s: %w: it is a %s", path, ErrNotCorpus, kindOf(info.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("corpus file: %w", err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, fmt.Errorf("corpus file: %w", err)
	}
	size := info.Size()
	if size == 0 {
		return nil, fmt.Errorf("corpus file %s: %w: the file is empty", path, ErrNotCorpus)
	}
	if size != int64(int(size)) {
		return nil, fmt.Errorf("corpus file %s: %d bytes are more than this machine can map", path, size)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("corpus file %s: map %d bytes: %w", path, size, err)
	}
	return data, nil
}

func unmap(data []byte) error {
	if err := unix.Munmap(data); err != nil {
		return fmt.Errorf("unmap corpus: %w", err)
	}
	return nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// Write saves the corpus as a file that Open reads. The file appears whole or
// not at all: it is written beside path under another name, synced and then
// renamed. If path exists, it is replaced if overwrite is set and it is a
// regular file; else it is left alone and the error is fs.ErrExist.
func (c *Corpus) Write(path string, overwrite bool) error {
	err := atomicfile.Write(path, overwrite, func(w io.Writer) error {
		if err := c.Check(); err != nil {
			return fmt.Errorf("malformed corpus: %w", err)
		}
		img, err := c.seal()
		if err != nil {
			return err
		}
		return img.writeTo(w)
	})
	if err != nil {
		return fmt.Errorf("corpus: %w", err)
	}
	return nil
}
