// Package atomicfile writes files that appear whole or not at all: under a
// temporary name in the same folder, synced, then renamed.
//
// It exists because the known packages for this, github.com/google/renameio among
// them, replace what exists; a result must not be replaced unless the user says
// so, not even by a race.
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
// error is fs.ErrExist. If fill fails or panics, the disk is full, or the like,
// path is as it was and nothing new is left in its folder.
func Write(path string, overwrite bool, fill func(io.Writer) error) error {
	if err := write(path, overwrite, fill); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func write(path string, overwrite bool, fill func(io.Writer) error) (err error) {
	f, err := create(path, overwrite)
	if err != nil {
		return err
	}
	// After a commit this does nothing; a panic of fill passes here too.
	defer func() { err = errors.Join(err, f.abort()) }()
	if err := fill(f.buffer); err != nil {
		return err
	}
	return f.commit()
}

// A File is written piece by piece and appears at its path with Commit. It is
// buffered and not for concurrent use.
type File struct {
	path      string
	overwrite bool
	file      *os.File
	buffer    *bufio.Writer
	ended     bool
}

// Create begins a file that will be at path, as Write does. One of Commit and Abort
// must end it.
func Create(path string, overwrite bool) (*File, error) {
	f, err := create(path, overwrite)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return f, nil
}

func create(path string, overwrite bool) (*File, error) {
	if err := checkTarget(path, overwrite); err != nil {
		return nil, err
	}
	f, err := createBeside(path)
	if err != nil {
		return nil, err
	}
	return &File{path: path, overwrite: overwrite, file: f, buffer: bufio.NewWriterSize(f, 1<<20)}, nil
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) { return f.buffer.Write(p) }

// Commit puts the file at its path, whole and on disk. After an error path is as
// it was and nothing new is left.
func (f *File) Commit() error {
	if err := f.commit(); err != nil {
		return fmt.Errorf("write %s: %w", f.path, errors.Join(err, f.abort()))
	}
	return nil
}

func (f *File) commit() error {
	// The first error says why; those of the steps after it would repeat it.
	for _, step := range []func() error{f.buffer.Flush, f.file.Sync, f.file.Close} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := moveTo(f.file.Name(), f.path, f.overwrite); err != nil {
		return err
	}
	f.ended = true
	return syncFolder(filepath.Dir(f.path))
}

// Abort removes what was written. After Commit or Abort it does nothing.
func (f *File) Abort() error {
	if err := f.abort(); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

func (f *File) abort() error {
	if f.ended {
		return nil
	}
	f.ended = true
	// A second Close does nothing; the first one's error counts.
	_ = f.file.Close()
	return os.Remove(f.file.Name())
}

// Move puts tmp, a file in the same folder that is whole and on disk, at path, as
// Write does: it replaces what is there only with overwrite, and lasts. After an
// error both are as they were.
func Move(tmp, path string, overwrite bool) error {
	err := checkTarget(path, overwrite)
	if err == nil {
		err = moveTo(tmp, path, overwrite)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// CheckWritable says before long work whether Write would fail for a reason that
// is known already: the folder is missing or cannot be written, or path exists.
// It makes a file in the folder and removes it.
func CheckWritable(path string, overwrite bool) error {
	err := checkTarget(path, overwrite)
	if err == nil {
		var f *os.File
		if f, err = createBeside(path); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

// checkTarget is an early look that spares work; the rename decides.
func checkTarget(path string, overwrite bool) error {
	if path == "" {
		return errors.New("the file has no name")
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil // the folder is looked at next
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder; name a file in it")
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w and is not a regular file; choose another name", fs.ErrExist)
	case !overwrite:
		return errExists
	}
	return nil
}

// Room says whether so many bytes can be written to a folder now, by writing them to a
// file that is removed again. Whoever failed to write there may have failed for want
// of it.
func Room(dir string, bytes int) (err error) {
	f, err := createBeside(filepath.Join(dir, "room"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	// Not zeros, which some file systems do not store.
	b := make([]byte, min(bytes, 1<<16))
	for i := range b {
		b[i] = byte(i)*31 + 1
	}
	for left := bytes; left > 0; left -= len(b) {
		if _, err := f.Write(b[:min(left, len(b))]); err != nil {
			return err
		}
	}
	return f.Sync()
}

// Clean removes from a folder what processes that were killed left of files which
// they had begun. Nobody may be writing in the folder meanwhile.
func Clean(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !Unfinished(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Unfinished says whether a name is one of files that are not at their path yet.
func Unfinished(name string) bool {
	ok, _ := filepath.Match(".kvbench-????????.tmp", name)
	return ok
}

// createBeside makes a new file in the folder of path. Unlike os.CreateTemp it
// gives the file the permissions that a file gets by default.
func createBeside(path string) (*os.File, error) {
	dir := filepath.Dir(path)
	for try := 0; ; try++ {
		name := filepath.Join(dir, fmt.Sprintf(".kvbench-%08x.tmp", rand.Uint32()))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, fs.ErrExist) && try < 100:
			// Somebody has that name; try another.
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("folder %s does not exist; make it first: %w", dir, unix.ENOENT)
		case errors.Is(err, unix.ENOTDIR):
			return nil, fmt.Errorf("%s is not a folder: %w", dir, unix.ENOTDIR)
		case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
			return nil, fmt.Errorf("folder %s may not be written to; choose another: %w", dir, cause(err))
		default:
			return nil, fmt.Errorf("cannot make a file in folder %s: %w", dir, cause(err))
		}
	}
}

// cause takes the name of the temporary file off an error.
func cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
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
	if errors.Is(err, fs.ErrPermission) {
		return nil // a folder that may be written but not read
	}
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) {
		err = nil // a file system that cannot sync folders
	}
	return errors.Join(err, d.Close())
}
