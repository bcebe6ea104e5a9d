// Package atomicfile writes files that appear whole or not at all: under a
// temporary name in the same folder, synced, then renamed.
//
// It exists because the known packages for this replace an existing file, and a
// result must not be replaced unless the user says so, not even by a race.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// errExists is an fs.ErrExist that says what to do.
var errExists = fmt.Errorf("%w; choose another name, remove it, or pass --overwrite", fs.ErrExist)

// Write calls fill to write the content of path. If path exists, it is replaced
// if overwrite is set and it is a regular file; else it is left alone and the
// error is fs.ErrExist. After an error nothing new is left in the folder.
func Write(path string, overwrite bool, fill func(io.Writer) error) error {
	if err := write(path, overwrite, fill); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func write(path string, overwrite bool, fill func(io.Writer) error) error {
	if err := checkTarget(path, overwrite); err != nil {
		return err
	}
	f, err := createBeside(path)
	if err != nil {
		return err
	}
	tmp := f.Name()
	w := bufio.NewWriterSize(f, 1<<20)
	err = fill(w)
	if err == nil {
		err = errors.Join(w.Flush(), f.Sync())
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = moveTo(tmp, path, overwrite)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncFolder(filepath.Dir(path))
}

// CheckWritable says before long work whether Write would fail for a reason that
// is known already: the folder is missing or cannot be written, or path exists.
func CheckWritable(path string, overwrite bool) error {
	if err := checkTarget(path, overwrite); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f, err := createBeside(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// checkTarget is an early look that spares work; the rename decides.
func checkTarget(path string, overwrite bool) error {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder; name a file in it")
	case !overwrite:
		return errExists
	case !info.Mode().IsRegular():
		return fmt.Errorf("it exists and is not a regular file (%s); choose another name", info.Mode().Type())
	}
	return nil
}

// createBeside makes a new file in the folder of path. Unlike os.CreateTemp it
// gives the file the permissions that a file gets by default.
func createBeside(path string) (*os.File, error) {
	dir := filepath.Dir(path)
	for try := 0; ; try++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf(".kvbench-%08x.tmp", rand.Uint32())), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) && try < 100 {
			continue
		}
		if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
			return nil, fmt.Errorf("cannot make a file in folder %s: %w", dir, pathErr.Err)
		}
		return f, err
	}
}

// moveTo renames tmp to path. Without overwrite it is atomic against others that
// create path meanwhile.
func moveTo(tmp, path string, overwrite bool) error {
	if overwrite {
		return os.Rename(tmp, path)
	}
	err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = linkTo(tmp, path)
	}
	if errors.Is(err, fs.ErrExist) {
		return errExists
	}
	return err
}

// linkTo is for file systems that cannot rename without replacing: making a
// link does not replace either.
func linkTo(tmp, path string) error {
	if err := os.Link(tmp, path); err != nil {
		return err
	}
	return os.Remove(tmp)
}

// syncFolder makes a rename in a folder last.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) {
		err = nil // a file system that cannot sync folders
	}
	return errors.Join(err, d.Close())
}
