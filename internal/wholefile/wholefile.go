// Package wholefile reads files into memory that are small if they are what they
// should be. A wrong name can lead to anything else: a device without an end, a
// folder, or a packed file that unpacks to more than there is memory.
package wholefile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Read returns the content of a file of at most limit bytes. what says in errors
// what the file should be, with its article, as in "a policy".
func Read(path, what string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadFrom(f, path, what, limit)
}

// ReadFrom is Read for what a reader has, such as what unpacks a file.
func ReadFrom(in io.Reader, path, what string, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	switch {
	case errors.Is(err, unix.EISDIR):
		return nil, fmt.Errorf("%s is a folder; give the file of %s", path, what)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, plain(err))
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("%s is larger than %s, so it is not %s", path, size(limit), what)
	}
	return b, nil
}

// plain takes the path off an error that is told with it.
func plain(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
